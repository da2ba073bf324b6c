// SPDX-License-Identifier: Apache-2.0
/* Live blocks, by the places that allocated them. */
#include <pthread.h>
#include <stdlib.h>

#include "observe/leaks.h"
#include "pools/histories.h"
#include "unit/unit.h"

SUITE("leaks")

static void open_with(size_t history_bytes, tarn_history_stacks stacks, size_t sample_bytes)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    (void)unsetenv("TARN_CONF"); /* which comes before the options */
    options.history_bytes = history_bytes;
    options.history_stacks = stacks;
    options.history_sample_bytes = sample_bytes;
    test_world_open_with(&options);
}

static void open_frames(void)
{
    open_with(1 << 20, TARN_HISTORY_FRAMES, 0);
}

static void open_sampled(void)
{
    open_with(1 << 20, TARN_HISTORY_FRAMES, 1 << 20);
}

static void open_without_stacks(void)
{
    open_with(1 << 20, TARN_HISTORY_NO_STACKS, 0);
}

static void open_plain(void)
{
    open_with(TARN_NO_HISTORY, TARN_HISTORY_NO_STACKS, 0);
}

GROUP(frames, open_frames, .end = test_world_close)
GROUP(sampled, open_sampled, .end = test_world_close)
GROUP(recorded, open_without_stacks, .end = test_world_close)
GROUP(plain, open_plain, .end = test_world_close)

enum { KEPT = 5000 };
static void *kept[KEPT];
static size_t kept_count;

static void keep(void *address)
{
    kept[kept_count] = address;
    kept_count += 1;
}

static void free_kept(void)
{
    while (kept_count > 0) {
        kept_count -= 1;
        OK(tarn_free(kept[kept_count]));
    }
}

/* Two places in the program. */
static __attribute__((noinline)) void allocate_here(tarn_pool *pool, size_t bytes)
{
    void *address;

    OK(tarn_pool_malloc(pool, bytes, 0, world.stream, &address));
    keep(address);
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void allocate_there(size_t bytes)
{
    void *address;

    OK(tarn_malloc(world.device, bytes, world.stream, &address));
    keep(address);
    __asm__ volatile("" ::: "memory");
}

static tarn_leaks *find(tarn_pool *pool)
{
    tarn_leaks *leaks = tn_leaks_find(world.device, pool);

    ck_assert_ptr_nonnull(leaks);
    return leaks;
}

static tarn_leaks *find_in_tables(void)
{
    tarn_leaks *leaks;

    ck_assert(tn_histories_lock(TN_LEAKS_WAIT_NS));
    leaks = tn_leaks_find_in_tables(world.device);
    tn_histories_unlock();
    ck_assert_ptr_nonnull(leaks);
    return leaks;
}

static void expect_sum(tarn_leak_sum sum, uint64_t blocks, uint64_t bytes)
{
    ck_assert_uint_eq(sum.blocks, blocks);
    ck_assert_uint_eq(sum.bytes, bytes);
}

static void expect_none(const tarn_leaks *leaks)
{
    expect_sum(leaks->live, 0, 0);
    ck_assert_uint_eq(leaks->count, 0);
}

static bool is_in(uint64_t frame, uintptr_t function)
{
    return frame - function < 2000;
}

static void expect_two_places(const tarn_leaks *leaks)
{
    const tarn_leak *worst = &leaks->leaks[0];
    const tarn_leak *other = &leaks->leaks[1];

    ck_assert_int_eq(leaks->device, 0);
    ck_assert_uint_eq(leaks->count, 2);
    expect_sum(leaks->live, 5, 3700);
    expect_sum(leaks->contents, 0, 0);
    ck_assert_uint_eq(leaks->sample_bytes, 1);
    expect_sum(worst->live, 3, 3000);
    expect_sum(worst->estimated, 3, 3000);
    ck_assert_uint_eq(worst->block_bytes, 3 * 1024);
    expect_sum(other->live, 2, 700);
    ck_assert_uint_eq(other->block_bytes, 2 * 512);
    ck_assert(is_in(worst->frames[0], (uintptr_t)allocate_here));
    ck_assert(is_in(other->frames[0], (uintptr_t)allocate_there));
    ck_assert_uint_gt(worst->frame_count, 1);
    ck_assert_uint_gt(other->oldest, worst->oldest);
    ck_assert_uint_lt(other->oldest, other->newest);
    ck_assert_uint_lt(other->newest, worst->newest);
    ck_assert_uint_ge(leaks->last_number, worst->newest);
    ck_assert_uint_eq(worst->pool_count, 2);
    ck_assert_str_eq(worst->pools[0].name, "test");
    expect_sum(worst->pools[0].live, 2, 2000);
    ck_assert_uint_eq(worst->pools[0].number, world.pool->holds.pool_serial);
    ck_assert_str_eq(worst->pools[1].name, "default");
    expect_sum(worst->pools[1].live, 1, 1000);
    ck_assert_uint_eq(other->pool_count, 1);
    ck_assert_str_eq(other->pools[0].name, "default");
}

/* Each function has one call in the loop, and so one place, whatever the compiler makes of it. */
static void allocate_five(void)
{
    for (int i = 0; i < 5; i++) {
        int which = i;
        tarn_pool *pool;

        TN_HIDE(which);
        pool = which == 0 ? world.default_pool : world.pool;
        TN_HIDE(pool);
        if (which == 1 || which == 2)
            allocate_there(350);
        else
            allocate_here(pool, 1000);
    }
}

TEST(frames, blocks_of_one_stack_are_one_place_and_the_worst_comes_first)
{
    tarn_leaks *leaks;

    allocate_five();
    leaks = find(NULL);
    expect_two_places(leaks);
    tn_leaks_drop(leaks);
    free_kept();
    leaks = find(NULL);
    expect_none(leaks);
    tn_leaks_drop(leaks);
}

TEST(frames, the_tables_tell_the_same)
{
    tarn_leaks *leaks;

    allocate_five();
    leaks = find_in_tables();
    expect_two_places(leaks);
    tn_leaks_drop(leaks);
    free_kept();
    leaks = find_in_tables();
    expect_none(leaks);
    tn_leaks_drop(leaks);
}

TEST(frames, a_pools_places_are_its_own)
{
    tarn_leaks *leaks;

    allocate_five();
    leaks = find(world.pool);
    ck_assert_uint_eq(leaks->count, 1);
    expect_sum(leaks->live, 2, 2000);
    ck_assert_uint_eq(leaks->leaks[0].pool_count, 1);
    tn_leaks_drop(leaks);
    free_kept();
}

TEST(frames, the_module_of_each_frame_is_known)
{
    const tarn_leak_module *module;
    tarn_leaks *leaks;

    allocate_there(350);
    leaks = find(NULL);
    ck_assert_uint_ge(leaks->module_count, 1);
    module = tn_leaks_module(leaks, leaks->leaks[0].frames[0]);
    ck_assert_ptr_nonnull(module);
    ck_assert_msg(strstr(module->path, "unit_leaks") != NULL, "%s", module->path);
    ck_assert_uint_le(module->start, (uintptr_t)allocate_there);
    ck_assert_uint_gt(module->end, (uintptr_t)allocate_there);
    ck_assert_ptr_null(tn_leaks_module(leaks, 1));
    for (size_t i = 0; i < leaks->module_count; i++) { /* a call's address is one less */
        ck_assert_ptr_nonnull(tn_leaks_module(leaks, leaks->modules[i].end));
        ck_assert_ptr_ne(tn_leaks_module(leaks, leaks->modules[i].start), &leaks->modules[i]);
    }
    tn_leaks_drop(leaks);
    free_kept();
}

/* A free waits in its writer, and the table has the block until then. */
TEST(frames, the_block_freed_last_is_in_no_place)
{
    struct tn_history_entry *entry;
    tarn_leaks *leaks;

    allocate_there(350);
    allocate_there(700);
    entry = tn_history_entry(unit_block(kept[1]));
    OK(tarn_free(test_malloc(350)));
    OK(tarn_free(kept[--kept_count]));
    ck_assert_uint_ne(atomic_load(&entry->number), 0);
    leaks = find_in_tables();
    expect_sum(leaks->live, 1, 350);
    tn_leaks_drop(leaks);
    free_kept();
}

static void *free_and_stay(void *address)
{
    OK(tarn_free(address));
    return NULL;
}

static void expect_as_the_pools_tell(void)
{
    tarn_leaks *by_tables = find_in_tables(); /* first: the other way locks the pools */
    tarn_leaks *by_pools = find(NULL);

    expect_sum(by_tables->live, by_pools->live.blocks, by_pools->live.bytes);
    ck_assert_uint_eq(by_tables->count, by_pools->count);
    tn_leaks_drop(by_tables);
    tn_leaks_drop(by_pools);
}

/* Threads that share an arena keep blocks which they freed: these are LIVE, and free. */
TEST(recorded, blocks_of_threads_that_share_an_arena_are_told_as_the_pools_tell)
{
    for (int round = 0; round < 50; round++) {
        pthread_t threads[4];

        for (size_t i = 0; i < 8; i++)
            allocate_there((i + 1) << 10);
        for (size_t i = 0; i < 4; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, free_and_stay, kept[--kept_count]),
                             0);
        for (size_t i = 0; i < 4; i++)
            ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        expect_as_the_pools_tell();
    }
    free_kept();
}

/* By hand, for the rounds of a thread are few. */
TEST(recorded, a_round_is_no_live_block)
{
    struct tn_block *block;
    tarn_leaks *leaks;

    allocate_there(1000);
    block = unit_block(kept[0]);
    atomic_store(&block->magazine, 1);
    leaks = find_in_tables();
    expect_sum(leaks->live, 1, 1000);
    tn_leaks_drop(leaks);
    atomic_store(&block->magazine, TN_MAGAZINE_ROUND | 1);
    leaks = find_in_tables();
    expect_none(leaks);
    tn_leaks_drop(leaks);
    atomic_store(&block->magazine, 0);
    free_kept();
}

TEST(frames, pending_blocks_are_in_no_place)
{
    tarn_leaks *leaks;

    allocate_there(350);
    test_hold_until_waited();
    test_spin(world.side, 1);
    OK(tarn_free_on(kept[--kept_count], world.side));
    leaks = find(NULL);
    expect_none(leaks);
    tn_leaks_drop(leaks);
    leaks = find_in_tables();
    expect_none(leaks);
    tn_leaks_drop(leaks);
    test_synchronize(world.side);
}

TEST(frames, contents_of_checkpoints_are_told_apart)
{
    tarn_checkpoint *checkpoint;
    tarn_leaks *leaks;

    allocate_here(world.pool, 5000);
    checkpoint = test_take(TARN_CONTENTS_DEVICE);
    leaks = find(NULL);
    expect_sum(leaks->live, 1, 5000);
    ck_assert_uint_eq(leaks->contents.blocks, 2); /* page-locked memory, and the device's */
    ck_assert_uint_ge(leaks->contents.bytes, 5000);
    tn_leaks_drop(leaks);
    leaks = find_in_tables();
    expect_sum(leaks->live, 1, 5000);
    ck_assert_uint_eq(leaks->contents.blocks, 2);
    tn_leaks_drop(leaks);
    OK(tarn_checkpoint_destroy(checkpoint));
    free_kept();
}

TEST(frames, blocks_in_memory_of_graphs_are_told_apart)
{
    tarn_capture *capture = unit_begin(world.pool, world.stream);
    tarn_graph *graph;
    tarn_leaks *leaks;

    allocate_here(world.pool, 3 << 20);
    test_fill(world.stream, kept[0], 1, 16);
    graph = unit_end(capture);
    allocate_there(350);
    leaks = find(NULL);
    expect_sum(leaks->live, 2, (3 << 20) + 350);
    expect_sum(leaks->in_graphs, 1, 3 << 20);
    expect_sum(leaks->leaks[0].in_graphs, 1, 3 << 20);
    expect_sum(leaks->leaks[1].in_graphs, 0, 0);
    tn_leaks_drop(leaks);
    OK(tarn_graph_destroy(graph));
    unit_reap_all(world.pool);
    leaks = find(NULL);
    expect_sum(leaks->in_graphs, 0, 0);
    expect_sum(leaks->live, 2, (3 << 20) + 350);
    tn_leaks_drop(leaks);
    free_kept();
}

TEST(frames, a_block_that_a_graph_is_guarded_for_is_told_apart)
{
    tarn_capture *capture;
    tarn_graph *graph;
    tarn_leaks *leaks;

    allocate_there(5000);
    capture = unit_begin(world.pool, world.stream);
    test_fill(world.stream, kept[0], 1, 16);
    graph = unit_end(capture);
    OK(tarn_graph_guard(graph, TARN_GUARD_REFUSE, NULL));
    leaks = find(NULL);
    expect_sum(leaks->in_graphs, 1, 5000);
    tn_leaks_drop(leaks);
    OK(tarn_graph_destroy(graph));
    free_kept();
}

TEST(frames, blocks_of_aborted_captures_are_told_apart)
{
    tarn_capture *capture = unit_begin(world.pool, world.stream);
    tarn_leaks *leaks;

    allocate_here(world.pool, 5000);
    OK(tarn_capture_abort(capture));
    leaks = find(NULL);
    expect_sum(leaks->live, 1, 5000);
    expect_sum(leaks->discarded, 1, 5000);
    ck_assert(is_in(leaks->leaks[0].frames[0], (uintptr_t)allocate_here));
    tn_leaks_drop(leaks);
    free_kept();
    leaks = find(NULL);
    expect_none(leaks);
    tn_leaks_drop(leaks);
}

static void expect_pools_and_sizes(const tarn_leaks *leaks)
{
    ck_assert_uint_eq(leaks->sample_bytes, 0);
    ck_assert_uint_eq(leaks->module_count, 0);
    ck_assert_uint_eq(leaks->count, 3);
    for (size_t i = 0; i < 3; i++) {
        const tarn_leak *place = &leaks->leaks[i];

        ck_assert_uint_eq(place->stack, 0);
        ck_assert_uint_eq(place->frame_count, 0);
        ck_assert_uint_eq(place->pool_count, 1);
        expect_sum(place->estimated, place->live.blocks, place->live.bytes);
    }
    expect_sum(leaks->leaks[0].live, 2, 2000);
    ck_assert_str_eq(leaks->leaks[0].pools[0].name, "test");
    expect_sum(leaks->leaks[1].live, 1, 1000);
    ck_assert_str_eq(leaks->leaks[1].pools[0].name, "default");
    expect_sum(leaks->leaks[2].live, 2, 700);
    ck_assert_str_eq(leaks->leaks[2].pools[0].name, "default");
}

TEST(plain, without_stacks_a_pool_and_a_size_are_a_place)
{
    tarn_leaks *leaks;

    allocate_five();
    leaks = find(NULL);
    expect_pools_and_sizes(leaks);
    tn_leaks_drop(leaks);
    free_kept();
}

TEST(recorded, the_tables_tell_places_without_stacks)
{
    tarn_leaks *leaks;

    allocate_five();
    leaks = find_in_tables();
    expect_pools_and_sizes(leaks);
    tn_leaks_drop(leaks);
    free_kept();
}

/* 64 KiB each, of which one in sixteen is taken, and four as large as the mean. */
TEST(sampled, the_estimates_are_near_the_truth)
{
    enum { SMALL = 4000, LARGE = 4 };
    const double small_bytes = (double)SMALL * (64 << 10);
    uint64_t without = 0;
    tarn_leaks *leaks;

    for (int i = 0; i < SMALL; i++)
        allocate_there(64 << 10);
    leaks = find_in_tables();
    ck_assert_uint_eq(leaks->sample_bytes, 1 << 20);
    expect_sum(leaks->live, SMALL, SMALL * (64 << 10));
    for (size_t i = 0; i < leaks->count; i++) {
        const tarn_leak *place = &leaks->leaks[i];

        if (place->stack != 0) { /* a deviation of 6 % */
            ck_assert_int_eq((int)i, 0);
            ck_assert_double_gt((double)place->estimated.bytes, 0.7 * small_bytes);
            ck_assert_double_lt((double)place->estimated.bytes, 1.4 * small_bytes);
            ck_assert_uint_lt(place->live.blocks, SMALL / 8);
            ck_assert_double_eq_tol((double)place->estimated.bytes,
                                    (double)place->estimated.blocks * (64 << 10), 1 << 16);
        } else {
            expect_sum(place->estimated, 0, 0);
            without += place->live.blocks;
        }
    }
    ck_assert_uint_gt(without, SMALL / 2);
    tn_leaks_drop(leaks);
    free_kept();
}

/* Bytes that are taken with certainty stand for themselves. */
TEST(sampled, large_blocks_stand_for_themselves)
{
    tarn_leaks *leaks;

    allocate_there(100 << 20);
    leaks = find(NULL);
    ck_assert_uint_eq(leaks->count, 1);
    ck_assert_uint_ne(leaks->leaks[0].stack, 0);
    expect_sum(leaks->leaks[0].estimated, 1, 100 << 20);
    tn_leaks_drop(leaks);
    free_kept();
}

TEST(frames, a_stack_without_room_is_a_place_without_frames)
{
    tarn_leaks *leaks;

    world.device->history.stacking.stacks.full = true;
    allocate_there(350);
    allocate_here(world.pool, 1000);
    leaks = find(NULL);
    ck_assert_uint_eq(leaks->count, 1);
    ck_assert_uint_eq(leaks->leaks[0].stack, TN_STACKS_FULL);
    ck_assert_uint_eq(leaks->leaks[0].frame_count, 0);
    expect_sum(leaks->live, 2, 1350);
    tn_leaks_drop(leaks);
    free_kept();
}

enum { CHURNS = 2, CHURNED_POOLS = 30, CHURNED_BLOCKS = 400 };

static atomic_uint churns_over;

/* Slabs of records come and go with their pools. */
static void *churn(void *unused)
{
    void *blocks[CHURNED_BLOCKS];

    for (size_t i = 0; i < CHURNED_POOLS; i++) {
        tarn_pool *pool = unit_pool_of(world.device, "churned", 0);

        for (size_t j = 0; j < CHURNED_BLOCKS; j++)
            blocks[j] = test_alloc(pool, (j % 7 + 1) * 512, world.side);
        for (size_t j = 0; j < CHURNED_BLOCKS; j++)
            OK(tarn_free(blocks[j]));
        OK(tarn_pool_destroy(pool));
    }
    atomic_fetch_add(&churns_over, 1);
    return unused;
}

TEST(frames, tables_are_read_while_pools_come_and_go)
{
    pthread_t threads[CHURNS];
    tarn_leaks *leaks;

    allocate_there(350);
    atomic_store(&churns_over, 0);
    for (size_t i = 0; i < CHURNS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, NULL), 0);
    while (atomic_load(&churns_over) < CHURNS) {
        leaks = find_in_tables();
        ck_assert_uint_ge(leaks->live.blocks, 1);
        for (size_t i = 0; i < leaks->count; i++)
            ck_assert_uint_le(leaks->leaks[i].oldest, leaks->leaks[i].newest);
        tn_leaks_drop(leaks);
    }
    for (size_t i = 0; i < CHURNS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    leaks = find_in_tables();
    expect_sum(leaks->live, 1, 350);
    tn_leaks_drop(leaks);
    free_kept();
}

/* Nobody gives the lock back: the process goes on. */
TEST(recorded, a_lock_that_is_never_given_back_is_waited_for_no_longer_than_a_second)
{
    struct tn_spin *lock = &world.device->history.tables.lock;
    const int64_t deadline = test_deadline();

    tn_spin_acquire(lock);
    ck_assert_ptr_null(tn_leaks_find_in_tables(world.device));
    tn_spin_release(lock);
    ck_assert(test_pause(deadline));
}

/* Blocks of many pools: their names are found, and their tables are several parts. */
TEST(recorded, blocks_of_many_pools_have_their_names)
{
    enum { POOLS = 40 };
    tarn_pool *pools[POOLS];
    char name[32];
    tarn_leaks *leaks;

    for (size_t i = 0; i < POOLS; i++) {
        (void)snprintf(name, sizeof name, "pool %zu", i);
        pools[i] = unit_pool_of(world.device, name, 0);
        allocate_here(pools[i], (i + 1) * 1000);
    }
    leaks = find_in_tables();
    ck_assert_uint_eq(leaks->count, POOLS);
    for (size_t i = 0; i < POOLS; i++) {
        (void)snprintf(name, sizeof name, "pool %zu", POOLS - 1 - i);
        ck_assert_str_eq(leaks->leaks[i].pools[0].name, name);
        ck_assert_uint_eq(leaks->leaks[i].pools[0].number, pools[POOLS - 1 - i]->holds.pool_serial);
    }
    tn_leaks_drop(leaks);
    free_kept();
    for (size_t i = 0; i < POOLS; i++)
        OK(tarn_pool_destroy(pools[i]));
}

static tarn_leaks *find_by_pools(void)
{
    return tn_leaks_find(world.device, NULL);
}

static tarn_leaks *find_by_tables(void)
{
    return tn_leaks_find_in_tables(world.device);
}

/* Each allocation of the search fails once. Returns how many there are. */
static uint64_t find_short_of_memory(tarn_leaks *(*search)(void))
{
    const int64_t before = tn_host_outstanding();
    tarn_leaks *leaks = NULL;
    uint64_t nth = 0;

    while (leaks == NULL) {
        nth += 1;
        (void)tn_host_plan_fault(nth, false);
        leaks = search();
        ck_assert(leaks != NULL || tn_host_outstanding() == before);
        ck_assert_uint_eq(tn_host_plan_fault(0, false), leaks == NULL);
    }
    expect_two_places(leaks);
    tn_leaks_drop(leaks);
    ck_assert_int_eq(tn_host_outstanding(), before);
    return nth - 1;
}

/* Of blocks, pools, the result, places, their pools, frames, modules and views of them. */
TEST(frames, without_memory_nothing_is_found_and_nothing_is_kept)
{
    allocate_five();
    ck_assert_uint_ge(find_short_of_memory(find_by_pools), 8);
    ck_assert_uint_ge(find_short_of_memory(find_by_tables), 8);
    free_kept();
}

TEST(plain, nothing_is_dropped)
{
    tn_leaks_drop(NULL);
}
