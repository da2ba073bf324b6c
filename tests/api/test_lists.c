// SPDX-License-Identifier: Apache-2.0
/* The pools of a device and the blocks of a pool, as lists, also while other threads change both. */
#include <pthread.h>
#include <stdatomic.h>

#include "support/world.h"

enum { BYTES = 4096, MANY = 700 };

static tarn_pool_list *list_pools(void)
{
    tarn_pool_list *list = NULL;

    OK(tarn_device_pools(world.device, &list));
    return list;
}

static tarn_block_list *list_blocks(tarn_pool *pool)
{
    tarn_block_list *list = NULL;

    OK(tarn_pool_blocks(pool, &list));
    return list;
}

static void expect_entry(const tarn_pool_entry *entry, tarn_pool_kind kind, tarn_pool *pool,
                         const char *name)
{
    ck_assert_int_eq(entry->kind, kind);
    ck_assert_ptr_eq(entry->pool, pool);
    ck_assert_str_eq(entry->name, name);
}

GROUP(lists, test_world_open, test_world_close)

TEST(lists, a_device_lists_its_pools_the_newest_first)
{
    tarn_pool *named = test_pool("a name of thirty-one characters");
    tarn_pool *unnamed = test_pool_with(NULL);
    tarn_pool_list *list = list_pools();

    ck_assert_uint_eq(list->count, 4);
    expect_entry(&list->pools[0], TARN_POOL_PRIVATE, unnamed, "");
    expect_entry(&list->pools[1], TARN_POOL_PRIVATE, named, "a name of thirty-one characters");
    expect_entry(&list->pools[2], TARN_POOL_PRIVATE, world.pool, "test");
    expect_entry(&list->pools[3], TARN_POOL_DEFAULT, world.default_pool, "default");
    OK(tarn_pool_destroy(named));
    OK(tarn_pool_destroy(unnamed));
    expect_entry(&list->pools[1], TARN_POOL_PRIVATE, named,
                 "a name of thirty-one characters"); /* the list is a copy */
    tarn_pool_list_destroy(list);
    list = list_pools();
    ck_assert_uint_eq(list->count, 2);
    tarn_pool_list_destroy(list);
    tarn_pool_list_destroy(NULL);
}

TEST(lists, a_released_pool_is_listed_without_a_handle_until_it_goes)
{
    tarn_pool *released = test_pool("released");
    void *kept = test_alloc(released, BYTES, world.stream);
    tarn_pool_list *list;

    OK(tarn_pool_release(released));
    list = list_pools();
    ck_assert_uint_eq(list->count, 3);
    expect_entry(&list->pools[0], TARN_POOL_RELEASED, NULL, "released");
    tarn_pool_list_destroy(list);
    OK(tarn_free(kept));
    OK(tarn_device_trim(world.device, 0, NULL));
    list = list_pools();
    ck_assert_uint_eq(list->count, 2);
    tarn_pool_list_destroy(list);
}

TEST(lists, an_adopted_pool_is_listed_without_a_handle)
{
    tarn_pool_list *list;
    void *address = NULL;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tarn_malloc(world.device, BYTES, world.stream, &address));
    list = list_pools();
    ck_assert_uint_eq(list->count, 3);
    ck_assert_uint_eq(list->count, test_device_stats().pool_count);
    expect_entry(&list->pools[0], TARN_POOL_ADOPTED, NULL, "adopted");
    tarn_pool_list_destroy(list);
    OK(tarn_free(address));
    test_destroy_graph(test_end_capture(world.stream));
    test_await_destructors(0);
}

TEST(lists, a_pool_lists_its_live_blocks_in_order_of_address)
{
    tn_cu_stream streams[] = {world.stream, world.side};
    void *blocks[MANY];
    tarn_block_list *list = list_blocks(world.pool);

    ck_assert_uint_eq(list->count, 0);
    tarn_block_list_destroy(list);
    for (size_t i = 0; i < MANY; i++)
        blocks[i] = test_alloc(world.pool, i % 100 == 0 ? 300 * MIB : 100 + i, streams[i % 2]);
    for (size_t i = 0; i < MANY; i += 3)
        OK(tarn_free(blocks[i]));
    list = list_blocks(world.pool);
    ck_assert_uint_eq(list->count, test_stats(world.pool).live_count);
    for (size_t i = 0; i < list->count; i++) {
        const tarn_block *block = &list->blocks[i];
        tarn_block same;

        ck_assert(i == 0 || (uintptr_t)block[-1].address + block[-1].block_bytes <=
                                (uintptr_t)block->address);
        OK(tarn_block_at(block->address, &same));
        ck_assert_ptr_eq(same.address, block->address);
        ck_assert_uint_eq(same.bytes, block->bytes);
        ck_assert_uint_eq(same.block_bytes, block->block_bytes);
        ck_assert_uint_eq(same.sequence, block->sequence);
        ck_assert_ptr_eq(block->pool, world.pool);
    }
    tarn_block_list_destroy(list);
    for (size_t i = 0; i < MANY; i++) {
        if (i % 3 != 0)
            OK(tarn_free(blocks[i]));
    }
    tarn_block_list_destroy(NULL);
}

TEST(lists, a_list_has_tags_and_neither_pending_nor_discarded_blocks)
{
    void *live = test_alloc(world.pool, BYTES, world.stream);
    void *pending = test_alloc(world.pool, BYTES, world.stream);
    void *discarded;
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    tarn_block_list *list;

    discarded = test_alloc(world.pool, BYTES, world.stream);
    OK(tarn_capture_abort(capture));
    sim.hold_work();
    test_spin(world.side, 1);
    OK(tarn_free_on(pending, world.side));
    OK(tarn_block_set_tag(live, 99));
    list = list_blocks(world.pool);
    ck_assert_uint_eq(list->count, 1);
    ck_assert_ptr_eq(list->blocks[0].address, live);
    ck_assert_uint_eq(list->blocks[0].tag, 99);
    tarn_block_list_destroy(list);
    sim.resume_work();
    OK(tarn_free(live));
    OK(tarn_free(discarded));
    test_await_destructors(0);
}

TEST(lists, the_default_pool_has_a_list_and_no_output_is_refused)
{
    void *address = test_malloc(BYTES);
    tarn_block_list *list = list_blocks(world.default_pool);

    ck_assert_uint_eq(list->count, 1);
    ck_assert_ptr_eq(list->blocks[0].address, address);
    tarn_block_list_destroy(list);
    OK(tarn_free(address));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "list", tarn_pool_blocks(world.pool, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "list", tarn_device_pools(world.device, NULL));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool", tarn_pool_blocks(NULL, &list));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_device_pools(NULL, &(tarn_pool_list *){NULL}));
}

static atomic_bool done;

static void *change_blocks(void *argument)
{
    tn_cu_stream stream = argument;
    void *blocks[16] = {NULL};

    test_set_context(test_retain(0));
    for (size_t i = 0; i < 4000; i++) {
        void **block = &blocks[i * 7 % 16];

        OK(tarn_free(*block));
        *block = test_alloc(world.pool, 512 * (1 + i % 9), stream);
        if (i % 4 == 0)
            OK(tarn_block_set_tag(*block, 1 + i));
    }
    for (size_t i = 0; i < 16; i++)
        OK(tarn_free(blocks[i]));
    atomic_store(&done, true);
    test_release(0);
    return NULL;
}

/* The two blocks of this thread are in each list, and the other's are 16 at most. */
TEST(lists, blocks_are_listed_beside_a_thread_that_allocates_and_frees)
{
    void *mine[] = {test_alloc(world.pool, BYTES, world.stream),
                    test_alloc(world.pool, 100 * MIB, world.stream)};
    pthread_t thread;

    OK(tarn_block_set_tag(mine[1], 5));
    ck_assert_int_eq(pthread_create(&thread, NULL, change_blocks, world.side), 0);
    do {
        tarn_block_list *list = list_blocks(world.pool);
        size_t found = 0;

        ck_assert_uint_le(list->count, 18);
        for (size_t i = 0; i < list->count; i++) {
            const tarn_block *block = &list->blocks[i];

            ck_assert(i == 0 || (uintptr_t)block[-1].address + block[-1].block_bytes <=
                                    (uintptr_t)block->address);
            found += block->address == mine[0] && block->tag == 0;
            found += block->address == mine[1] && block->tag == 5;
        }
        ck_assert_uint_eq(found, 2);
        tarn_block_list_destroy(list);
    } while (!atomic_load(&done));
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    for (size_t i = 0; i < 2; i++)
        OK(tarn_free(mine[i]));
}

/* Of two pools the first is released before the second. */
static void *change_pools(void *unused)
{
    (void)unused;
    test_set_context(test_retain(0));
    for (int i = 0; i < 300; i++) {
        tarn_pool *first = test_pool("first");
        tarn_pool *second = test_pool("second");
        void *blocks[] = {test_alloc(first, BYTES, world.side),
                          test_alloc(second, BYTES, world.side)};

        OK(tarn_pool_release(first));
        OK(tarn_pool_release(second));
        OK(tarn_free(blocks[1]));
        OK(tarn_free(blocks[0]));
    }
    atomic_store(&done, true);
    test_release(0);
    return NULL;
}

/* A list is of one moment: where the second pool is released, the first one was before. */
TEST(lists, pools_are_listed_beside_a_thread_that_makes_and_releases_them)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, change_pools, NULL), 0);
    do {
        tarn_pool_list *list = list_pools();
        tarn_pool_entry second = {.kind = TARN_POOL_PRIVATE};

        ck_assert_uint_ge(list->count, 2);
        expect_entry(&list->pools[list->count - 1], TARN_POOL_DEFAULT, world.default_pool,
                     "default");
        for (size_t i = 0; i < list->count; i++) {
            const tarn_pool_entry *entry = &list->pools[i];

            ck_assert_int_eq(entry->pool == NULL, entry->kind == TARN_POOL_RELEASED);
            if (strcmp(entry->name, "second") == 0)
                second = *entry;
            else if (strcmp(entry->name, "first") == 0 && second.kind == TARN_POOL_RELEASED)
                ck_assert_int_eq(entry->kind, TARN_POOL_RELEASED);
        }
        tarn_pool_list_destroy(list);
    } while (!atomic_load(&done));
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    OK(tarn_device_trim(world.device, 0, NULL));
}
