// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdlib.h>

#include "claims/watch.h"
#include "driver/idle.h"
#include "pools/watches.h"
#include "unit/unit.h"

enum { BYTES = 8192, FRESH = 5, STALE = 6, KEEPS = true, TELLS = false };

static tarn_device *device;
static tarn_pool *pool;
static tn_cu_stream stream;
static _Atomic uint64_t word;

/* What happens before a pool is locked again. */
static void (*_Atomic between)(void);

__typeof__(tn_pool_lock) __real_tn_pool_lock;
__typeof__(tn_pool_lock) __wrap_tn_pool_lock;
void __wrap_tn_pool_lock(tarn_pool *which)
{
    void (*first)(void) = atomic_exchange(&between, NULL);

    if (first != NULL)
        first();
    __real_tn_pool_lock(which);
}

static void open_device(void)
{
    device = unit_device();
    pool = unit_pool(device);
    stream = test_stream();
    word = FRESH;
}

static void *take(void)
{
    return unit_alloc(pool, BYTES, stream);
}

static uint64_t number_of(const void *address)
{
    tarn_block block;

    OK(tarn_block_at(address, &block));
    return block.sequence;
}

static void begin(struct tn_watch *watch, bool keeps, size_t capacity)
{
    OK(tn_watch_init(watch, pool, keeps, capacity, &word, FRESH, STALE));
}

static tarn_status try_add(struct tn_watch *watch, const void *address, uint64_t number)
{
    return tn_watch_add(watch, (uint64_t)(uintptr_t)address, number);
}

static void add(struct tn_watch *watch, const void *address)
{
    OK(try_add(watch, address, number_of(address)));
    ck_assert(tn_lock_none_held());
}

/* A watch of one block. */
static void watch_one(struct tn_watch *watch, bool keeps, const void *address)
{
    begin(watch, keeps, 1);
    add(watch, address);
    OK(tarn_pool_validate(pool));
}

static void end(struct tn_watch *watch)
{
    tn_watch_end(watch);
    ck_assert(tn_lock_none_held());
    ck_assert_ptr_null(watch->blocks);
    ck_assert_uint_eq(watch->count, 0);
    OK(tarn_pool_validate(pool));
}

static void expect_state(const void *address, enum tn_block_state state)
{
    const struct tn_block *block = unit_block(address);

    ck_assert_ptr_nonnull(block);
    ck_assert_int_eq((int)block->state, (int)state);
}

GROUP(blocks, open_device)

TEST(blocks, a_watch_of_nothing_needs_no_memory)
{
    int64_t outstanding = tn_host_outstanding();
    struct tn_watch watch;

    begin(&watch, KEEPS, 0);
    ck_assert_int_eq(tn_host_outstanding(), outstanding);
    end(&watch);
    ck_assert_uint_eq(word, FRESH);
}

TEST(blocks, a_watch_is_told_of_the_first_freed_block_only)
{
    void *blocks[3] = {take(), take(), take()};
    struct tn_watch watch;

    begin(&watch, TELLS, 3);
    for (size_t i = 0; i < 3; i++)
        add(&watch, blocks[i]);
    ck_assert_uint_eq(watch.count, 3);
    ck_assert_uint_eq(watch.gone, 0);
    ck_assert_uint_eq(word, FRESH);
    OK(tarn_pool_validate(pool));
    OK(tarn_free(blocks[1]));
    ck_assert_uint_eq(watch.gone, 2);
    ck_assert_uint_eq(word, STALE);
    OK(tarn_pool_validate(pool));
    word = 99; /* whoever owns it has made it something else */
    OK(tarn_free(blocks[0]));
    ck_assert_uint_eq(watch.gone, 2);
    ck_assert_uint_eq(word, 99);
    ck_assert_uint_eq(pool->watches.kept_count, 0);
    end(&watch);
    OK(tarn_free(blocks[2]));
    ck_assert_uint_eq(word, 99);
}

TEST(blocks, a_watch_that_ended_is_told_of_nothing)
{
    void *block = take();
    struct tn_watch watch;

    watch_one(&watch, TELLS, block);
    end(&watch);
    ck_assert_ptr_null(tn_block_watches(unit_block(block)));
    OK(tarn_free(block));
    ck_assert_uint_eq(word, FRESH);
    expect_state(block, TN_BLOCK_FREE);
}

/* What runs at the end of the watch may use the block: a proof from before is none. */
TEST(blocks, what_is_kept_waits_for_a_proof_from_behind_the_end)
{
    void *block = take();
    struct tn_watch watch;

    watch_one(&watch, KEEPS, block);
    OK(tarn_free(block));
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(block));
    expect_state(block, TN_BLOCK_PENDING);
    ck_assert_uint_eq(pool->watches.kept_count, 1);
    ck_assert_uint_eq(watch.gone, 0);
    ck_assert_uint_eq(word, FRESH);
    OK(tarn_pool_validate(pool));
    unit_trim(device);
    expect_state(block, TN_BLOCK_PENDING);
    end(&watch);
    ck_assert_uint_eq(pool->watches.kept_count, 0);
    expect_state(block, TN_BLOCK_PENDING);
    ck_assert_uint_ne(tn_block_cold(unit_block(block))->kept_stamp, 0);
    unit_trim(device);
    ck_assert_ptr_null(unit_block(block)); /* the pool had nothing else */
    ck_assert_uint_eq(word, FRESH);
}

/* Two that keep the block and one that does not end in each order, before its free and after it. */
TEST_LOOP(blocks, watches_of_one_block_end_in_any_order, 0, 24)
{
    static const size_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                        {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const size_t *order = orders[_i / 4];
    size_t ended_before = (size_t)_i % 4; /* the free */
    void *block = take();
    struct tn_watch watches[3];
    size_t keepers = 2;

    for (size_t i = 0; i < 3; i++)
        watch_one(&watches[i], i != 1, block);
    for (size_t i = 0; i < ended_before; i++) {
        end(&watches[order[i]]);
        keepers -= order[i] != 1;
    }
    OK(tarn_free(block));
    ck_assert_uint_eq(pool->watches.kept_count, keepers > 0);
    OK(tarn_pool_validate(pool));
    for (size_t i = ended_before; i < 3; i++) {
        ck_assert_uint_eq(watches[order[i]].gone, order[i] == 1);
        end(&watches[order[i]]);
        keepers -= order[i] != 1;
        ck_assert_uint_eq(pool->watches.kept_count, keepers > 0);
    }
    unit_trim(device);
    ck_assert_ptr_null(unit_block(block));
}

/* Which block a graph names, and for how often, is its caller's affair. */
TEST(blocks, one_watch_may_have_a_block_twice)
{
    void *block = take();
    struct tn_watch watch;

    begin(&watch, KEEPS, 2);
    add(&watch, block);
    add(&watch, block);
    OK(tarn_free(block));
    ck_assert_uint_eq(pool->watches.kept_count, 1);
    OK(tarn_pool_validate(pool));
    end(&watch);
    ck_assert_uint_eq(pool->watches.kept_count, 0);
}

TEST(blocks, a_block_that_was_freed_before_is_gone)
{
    void *live = take();
    void *block = take();
    uint64_t number = number_of(block);
    struct tn_watch watch;

    OK(tarn_free(block));
    begin(&watch, KEEPS, 2);
    add(&watch, live);
    ck_assert_uint_eq(word, FRESH);
    OK(try_add(&watch, block, number));
    ck_assert_uint_eq(watch.gone, 2);
    ck_assert_uint_eq(watch.count, 2);
    ck_assert_uint_eq(word, STALE);
    end(&watch);
}

TEST(blocks, another_block_at_the_address_is_not_watched)
{
    void *block = take();
    uint64_t number = number_of(block);
    struct tn_watch watch;

    OK(tarn_free(block));
    ck_assert_ptr_eq(take(), block);
    begin(&watch, KEEPS, 1);
    OK(try_add(&watch, block, number));
    ck_assert_uint_eq(watch.gone, 1);
    ck_assert_uint_eq(word, STALE);
    ck_assert_ptr_null(tn_block_watches(unit_block(block)));
    OK(tarn_free(block));
    ck_assert_uint_eq(pool->watches.kept_count, 0);
    end(&watch);
}

TEST(blocks, an_address_in_a_block_is_not_where_it_begins)
{
    char *block = take();
    struct tn_watch watch;

    begin(&watch, TELLS, 1);
    OK(try_add(&watch, block + 512, number_of(block)));
    ck_assert_uint_eq(watch.gone, 1);
    OK(tarn_free(block));
    end(&watch);
}

GROUP(devices, NULL)

TEST(devices, a_block_of_another_device_is_skipped)
{
    tarn_device *second = NULL;
    tarn_pool *its;
    void *block;
    struct tn_watch watch;

    ck_assert_int_eq(setenv("TARN_SIM_DEVICES", "2", 1), 0);
    open_device();
    OK(tarn_device_open(1, NULL, &second));
    its = unit_pool(second);
    test_set_context(test_retain(1));
    block = unit_alloc(its, BYTES, test_stream());
    begin(&watch, KEEPS, 1);
    add(&watch, block);
    ck_assert_ptr_null(tn_block_watches(unit_block(block)));
    OK(tarn_free(block));
    ck_assert_uint_eq(its->watches.kept_count, 0);
    ck_assert_uint_eq(watch.gone, 0);
    ck_assert_uint_eq(word, FRESH);
    end(&watch);
}

GROUP(others, open_device)

TEST(others, without_host_memory_nothing_is_watched)
{
    void *block = take();
    uint64_t number = number_of(block);
    int64_t outstanding = tn_host_outstanding();
    struct tn_watch watch;

    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_watch_init(&watch, pool, KEEPS, 3, &word, FRESH, STALE));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    unit_expect_sentence("no host memory to watch a block");
    end(&watch); /* as whoever began it does */
    ck_assert_int_eq(tn_host_outstanding(), outstanding);
    begin(&watch, KEEPS, 1);
    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, try_add(&watch, block, number));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert(tn_lock_none_held());
    ck_assert_uint_eq(watch.count, 0);
    ck_assert_ptr_null(tn_block_watches(unit_block(block)));
    OK(tarn_pool_validate(pool));
    OK(try_add(&watch, block, number)); /* in the place that the other was not given */
    ck_assert_uint_eq(watch.count, 1);
    OK(tarn_free(block));
    ck_assert_uint_eq(pool->watches.kept_count, 1);
    end(&watch);
    ck_assert_uint_eq(word, FRESH);
}

/* Which a restore does that brings another block back to the place. */
TEST(others, who_keeps_memory_that_goes_is_told)
{
    tarn_checkpoint *checkpoint = NULL;
    void *block = take();
    struct tn_watch watches[2];

    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, stream, &checkpoint));
    watch_one(&watches[0], KEEPS, block);
    watch_one(&watches[1], KEEPS, block);
    OK(tarn_free(block));
    ck_assert_uint_eq(pool->watches.kept_count, 1);
    OK(tarn_checkpoint_restore(checkpoint, stream, NULL));
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(pool->watches.kept_count, 0);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(watches[i].gone, 1);
        end(&watches[i]);
    }
    ck_assert_uint_eq(word, STALE);
    expect_state(block, TN_BLOCK_LIVE);
    OK(tarn_checkpoint_destroy(checkpoint));
}

static uint64_t pool_count(void)
{
    tarn_stats stats = TARN_STATS_INIT;

    OK(tarn_device_stats(device, &stats));
    return stats.pool_count;
}

/* It is not idle before the device was waited for: the next call that finds it so ends it. */
TEST(others, a_released_pool_goes_with_its_last_kept_block)
{
    tarn_pool *released = unit_pool(device);
    void *blocks[2] = {unit_alloc(released, BYTES, stream), unit_alloc(released, BYTES, stream)};
    uint64_t count = pool_count();
    struct tn_watch watches[2];

    for (size_t i = 0; i < 2; i++) {
        watch_one(&watches[i], KEEPS, blocks[i]);
        OK(tarn_free(blocks[i]));
    }
    ck_assert_uint_eq(released->watches.kept_count, 2);
    STATUS(TARN_ERR_BUSY, tarn_pool_destroy(released));
    unit_expect_sentence("2 blocks that were freed and that graphs keep");
    OK(tarn_pool_release(released));
    end(&watches[0]);
    ck_assert_uint_eq(released->watches.kept_count, 1);
    test_synchronize(stream);
    OK(tn_gpu_wait_idle(&device->gpu));
    OK(tarn_pool_trim(pool, NULL));
    ck_assert_uint_eq(pool_count(), count);
    end(&watches[1]);
    OK(tn_gpu_wait_idle(&device->gpu));
    OK(tarn_pool_trim(pool, NULL));
    ck_assert_uint_eq(pool_count(), count - 1);
}

static void *passing;

static void free_passing(void)
{
    OK(tarn_free(passing));
}

TEST(others, a_free_between_two_looks_of_the_end_is_told_and_done)
{
    struct tn_watch watch;

    passing = take();
    watch_one(&watch, TELLS, passing);
    between = free_passing;
    end(&watch);
    ck_assert(between == NULL);
    ck_assert_uint_eq(word, STALE);
    expect_state(passing, TN_BLOCK_FREE);
}

/* And another pool is in its record. */
static void end_pool(void)
{
    tarn_pool *gone = pool;

    OK(tarn_free(passing));
    OK(tarn_pool_destroy(pool));
    pool = unit_pool(device);
    ck_assert_ptr_eq(pool, gone);
    ck_assert_ptr_nonnull(take());
}

TEST(others, a_pool_that_goes_between_two_looks_of_the_end_is_another)
{
    struct tn_watch watch;

    passing = take();
    watch_one(&watch, TELLS, passing);
    between = end_pool;
    end(&watch);
    ck_assert(between == NULL);
    ck_assert_uint_eq(word, STALE);
}

static pthread_barrier_t start;

static void *free_at_once(void *block)
{
    (void)pthread_barrier_wait(&start);
    OK(tarn_free(block));
    return NULL;
}

TEST(others, a_watch_ends_while_another_thread_frees)
{
    ck_assert_int_eq(pthread_barrier_init(&start, NULL, 2), 0);
    for (int i = 0; i < 400; i++) {
        void *block = take();
        struct tn_watch watch;
        pthread_t thread;

        word = FRESH;
        watch_one(&watch, i % 2 == 0, block);
        ck_assert_int_eq(pthread_create(&thread, NULL, free_at_once, block), 0);
        (void)pthread_barrier_wait(&start);
        tn_watch_end(&watch);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert(word == FRESH || (word == STALE && i % 2 != 0));
        ck_assert_uint_eq(pool->watches.kept_count, 0);
        OK(tarn_pool_validate(pool));
    }
    ck_assert_int_eq(pthread_barrier_destroy(&start), 0);
}
