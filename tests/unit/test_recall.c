// SPDX-License-Identifier: Apache-2.0
/* Blocks that were live when pools were stopped: told from what the history has, whatever happens
 * before and behind that. */
#include "observe/recall.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/host.h"
#include "heap/history.h"
#include "heap/magazine.h"
#include "pools/pool.h"
#include "unit/unit.h"

SUITE("recalled blocks")

enum { BLOCKS = 600, CUTS = 200 };

static void open_world_with(uint64_t bytes)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = bytes;
    test_world_open_with(&options);
}

static void open_world(void)
{
    open_world_with(1 << 20);
}

GROUP(recalled, open_world, .end = test_world_close)

/* What the test itself knows. */
static struct held {
    char *address; /* NULL: free */
    size_t bytes;
} held[BLOCKS], at_cut[BLOCKS];
static unsigned seed;

static void change(size_t times, size_t most_bytes)
{
    for (size_t i = 0; i < times; i++) {
        struct held *own = &held[(size_t)rand_r(&seed) % BLOCKS];

        if (own->address != NULL) {
            OK(tarn_free(own->address));
            own->address = NULL;
            continue;
        }
        own->bytes = (size_t)rand_r(&seed) % most_bytes + 1;
        own->address =
            test_alloc(world.pool, own->bytes, rand_r(&seed) % 2 == 0 ? world.stream : world.side);
    }
}

static void cut_arena(struct tn_recall *recall, const struct tn_arena *arena)
{
    const struct tn_magazines *magazines = tn_arena_magazines(arena);

    tn_recall_cut(recall, &tn_arena_history(arena)->log);
    for (size_t i = 0; magazines != NULL && i < TN_MAGAZINES; i++) {
        if (magazines->places[i] != NULL)
            tn_recall_cut(recall, &magazines->places[i]->history.log);
    }
}

static void begin(struct tn_recall *recall)
{
    ck_assert(tn_recall_begin(recall, world.device, world.pool->holds.pool_serial, CUTS));
}

static void cut(struct tn_recall *recall)
{
    tn_pool_lock(world.pool);
    cut_arena(recall, &world.pool->idle);
    for (const struct tn_arena *arena = world.pool->arenas.lists.first[TN_ARENAS_ALL];
         arena != NULL; arena = arena->in[TN_ARENAS_ALL].next)
        cut_arena(recall, arena);
    tn_recall_cut_others(recall);
    memcpy(at_cut, held, sizeof held);
    tn_pool_unlock(world.pool);
}

static const struct tn_recalled_block *find(const struct tn_recall *recall, const void *address)
{
    for (size_t i = 0; i < recall->count; i++) {
        if (recall->seen[i].address == (uintptr_t)address)
            return &recall->seen[i];
    }
    return NULL;
}

/* Blocks that are there twice are the same. */
static size_t count_apart(const struct tn_recall *recall)
{
    size_t count = 0;

    for (size_t i = 0; i < recall->count; i++) {
        size_t k = 0;

        while (k < i && recall->seen[k].address != recall->seen[i].address)
            k += 1;
        count += k == i;
        if (k < i)
            ck_assert_uint_eq(recall->seen[k].number, recall->seen[i].number);
    }
    return count;
}

static void expect_cut(const struct tn_recall *recall)
{
    size_t count = 0;

    for (size_t i = 0; i < BLOCKS; i++) {
        const struct tn_recalled_block *block;

        if (at_cut[i].address == NULL)
            continue;
        block = find(recall, at_cut[i].address);
        ck_assert_ptr_nonnull(block);
        ck_assert_uint_eq(block->requested, at_cut[i].bytes);
        ck_assert_uint_ge((uint64_t)block->units << TN_BLOCK_BITS, at_cut[i].bytes);
        count += 1;
    }
    ck_assert_uint_eq(count_apart(recall), count);
}

static void free_all(void)
{
    for (size_t i = 0; i < BLOCKS; i++)
        OK(tarn_free(held[i].address));
    memset(held, 0, sizeof held);
}

/* Between the steps as much happens as the loop's number says; small blocks are often the same again. */
TEST_LOOP(recalled, what_was_live_at_the_cut_is_told, 0, 24)
{
    static const size_t much[] = {0, 1, 20, 300};
    struct tn_recall recall;

    seed = (unsigned)_i + 1;
    change(2000, 100000);
    begin(&recall);
    change(much[_i % 4], 2000);
    cut(&recall);
    change(much[_i / 4 % 4], _i < 16 ? 2000 : 200000);
    ck_assert_int_eq(tn_recall_find(&recall), TN_RECALL_DONE);
    expect_cut(&recall);
    tn_recall_end(&recall);
    free_all();
}

/* The same block again and again, around the cut: freed and allocated, the events are one. */
TEST_LOOP(recalled, a_block_that_comes_again_is_told_by_its_number, 0, 4)
{
    struct tn_recall recall;
    struct tn_recalled_block told;
    tarn_block described;
    char *block = test_alloc(world.pool, 1000, world.stream);

    begin(&recall);
    for (int i = 0; i < _i % 2 * 3; i++) {
        OK(tarn_free(block));
        ck_assert_ptr_eq(test_alloc(world.pool, 1000, world.stream), block);
    }
    OK(tarn_block_at(block, &described));
    cut(&recall);
    for (int i = 0; i < _i / 2 * 3; i++) {
        OK(tarn_free(block));
        ck_assert_ptr_eq(test_alloc(world.pool, 1000, world.stream), block);
    }
    ck_assert_int_eq(tn_recall_find(&recall), TN_RECALL_DONE);
    ck_assert_uint_eq(count_apart(&recall), 1);
    told = *find(&recall, block);
    ck_assert_uint_eq(told.number, described.sequence);
    ck_assert_uint_eq(told.requested, 1000);
    tn_recall_end(&recall);
    OK(tarn_free(block));
}

static void *free_as_guest(void *unused)
{
    for (size_t i = 0; i < BLOCKS; i += 2) {
        OK(tarn_free(held[i].address));
        held[i].address = NULL;
    }
    return unused;
}

/* Frees by other threads than an arena's are written by the log's own writers. */
TEST(recalled, frees_by_other_threads_behind_the_cut_are_taken_back)
{
    struct tn_recall recall;
    pthread_t thread;

    for (size_t i = 0; i < BLOCKS; i++) {
        held[i].bytes = 512 + i;
        held[i].address = test_alloc(world.pool, held[i].bytes, world.stream);
    }
    begin(&recall);
    cut(&recall);
    ck_assert_int_eq(pthread_create(&thread, NULL, free_as_guest, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(tn_recall_find(&recall), TN_RECALL_DONE);
    expect_cut(&recall);
    tn_recall_end(&recall);
    free_all();
}

TEST(recalled, tags_are_told)
{
    struct tn_recall recall;
    void *first = test_alloc(world.pool, 1000, world.stream);
    void *second = test_alloc(world.pool, 2000, world.stream);

    OK(tarn_block_set_tag(first, 5));
    OK(tarn_block_set_tag(first, 6));
    OK(tarn_free(second));
    second = test_alloc(world.pool, 2000, world.stream);
    begin(&recall);
    cut(&recall);
    ck_assert_int_eq(tn_recall_find(&recall), TN_RECALL_DONE);
    ck_assert_uint_eq(find(&recall, first)->tag, 6);
    ck_assert_uint_eq(find(&recall, second)->tag, 0);
    tn_recall_end(&recall);
    OK(tarn_free(first));
    OK(tarn_free(second));
}

TEST(recalled, blocks_of_other_pools_are_left_out)
{
    struct tn_recall recall;
    void *mine = test_alloc(world.pool, 1000, world.stream);
    void *others = test_malloc(3000);
    void *stays = test_malloc(3000);

    begin(&recall);
    cut(&recall);
    OK(tarn_free(others));
    others = test_malloc(3000);
    ck_assert_int_eq(tn_recall_find(&recall), TN_RECALL_DONE);
    ck_assert_ptr_nonnull(find(&recall, mine));
    ck_assert_uint_eq(recall.count, 1);
    tn_recall_end(&recall);
    OK(tarn_free(mine));
    OK(tarn_free(others));
    OK(tarn_free(stays));
}

/* The log of 1 MiB is overwritten behind the cut. */
TEST(recalled, a_log_that_was_overwritten_tells_nothing)
{
    struct tn_recall recall;

    seed = 1;
    change(400, 2000);
    begin(&recall);
    cut(&recall);
    for (int i = 0; i < 100; i++)
        change(2000, 2000);
    ck_assert_int_eq(tn_recall_find(&recall), TN_RECALL_LOST);
    tn_recall_end(&recall);
    free_all();
}

TEST(recalled, a_restore_behind_the_cut_tells_nothing)
{
    struct tn_recall recall;
    void *block = test_alloc(world.pool, 1000, world.stream);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_NONE);

    begin(&recall);
    cut(&recall);
    OK(tarn_free(block));
    tarn_delta_destroy(test_restore(checkpoint, 0, 1));
    ck_assert_int_eq(tn_recall_find(&recall), TN_RECALL_LOST);
    tn_recall_end(&recall);
    OK(tarn_free(block));
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* More tables were added for more blocks. */
TEST(recalled, a_table_that_grew_tells_nothing)
{
    enum { MANY = 20000 };
    static void *blocks[MANY];
    struct tn_recall recall;

    begin(&recall);
    cut(&recall);
    for (size_t i = 0; i < MANY; i++)
        blocks[i] = test_alloc(world.pool, 512, world.stream);
    ck_assert_int_eq(tn_recall_find(&recall), TN_RECALL_LOST);
    tn_recall_end(&recall);
    for (size_t i = 0; i < MANY; i++)
        OK(tarn_free(blocks[i]));
}

TEST(recalled, no_memory_tells_nothing)
{
    struct tn_recall recall;

    seed = 3;
    change(500, 2000);
    for (uint64_t nth = 1; nth <= 4; nth++) {
        (void)tn_host_plan_fault(nth, false);
        ck_assert(!tn_recall_begin(&recall, world.device, 0, CUTS));
        (void)tn_host_plan_fault(0, false);
    }
    begin(&recall);
    change(100, 2000);
    cut(&recall);
    change(100, 2000);
    (void)tn_host_plan_fault(1, false);
    ck_assert_int_eq(tn_recall_find(&recall), TN_RECALL_NO_MEMORY);
    (void)tn_host_plan_fault(0, false);
    tn_recall_end(&recall);
    free_all();
}
