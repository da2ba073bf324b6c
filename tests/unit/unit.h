// SPDX-License-Identifier: Apache-2.0
/* unit.h -- what the unit suites share: a device, pools and streams, a look at what an address is
 * in the library's books, and the two ways in which a broken structure shows. */
#ifndef TARN_TESTS_UNIT_H
#define TARN_TESTS_UNIT_H

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "checkpoint/state.h"
#include "driver/gpu.h"
#include "driver/idle.h"
#include "driver/open.h"
#include "graphs/capture.h"
#include "heap/steady.h"
#include "observe/check.h"
#include "pools/arena_table.h"
#include "pools/arenas.h"
#include "pools/device.h"
#include "pools/grow.h"
#include "pools/handover.h"
#include "pools/janitor.h"
#include "pools/pending.h"
#include "support/world.h"

/* A test in which a contract stops the process; left out where contracts are not evaluated. */
#define CONTRACT_TEST(group, name) CONTRACT_TEST_LOOP(group, name, 0, 1)
#define CONTRACT_TEST_LOOP(group, name, first, last)                                               \
    TEST_WITH(group, name, first, last, .signal = SIGABRT, .left_out = !TARN_DEBUG_CHECKS)

/* The open hold of the capture in the pool, which the test may have locked. */
static inline struct tn_hold *unit_find_hold(tarn_pool *pool, uint64_t capture_id)
{
    bool locked = TARN_DEBUG_CHECKS && tn_pool_is_locked(pool);
    struct tn_hold *hold;

    if (TARN_DEBUG_CHECKS && !locked)
        tn_pool_lock(pool);
    hold = tn_hold_find(&pool->holds, capture_id);
    if (TARN_DEBUG_CHECKS && !locked)
        tn_pool_unlock(pool);
    return hold;
}

/* Without a history, of which a suite of its own knows. */
static inline tarn_device *unit_device(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_device *device;

    test_start();
    options.history_bytes = TARN_NO_HISTORY;
    OK(tarn_device_open(0, &options, &device));
    return device;
}

/* Device 0, without the rest of the library. */
static inline void unit_gpu(struct tn_gpu *gpu)
{
    const struct tn_driver *driver;

    test_start();
    OK(tn_driver_load(&driver));
    OK(tn_gpu_open(gpu, driver, 0));
}

static inline tarn_pool *unit_pool(tarn_device *device)
{
    tarn_pool *pool;

    OK(tarn_pool_create(device, NULL, &pool));
    return pool;
}

/* Gives the pool's handle up, and looks for no pool to end. */
static inline void unit_release(tarn_pool *pool)
{
    tn_pool_lock(pool);
    atomic_store(&pool->released, true);
    tn_pool_unlock(pool);
}

static inline tarn_pool *unit_pool_of(tarn_device *device, const char *name, size_t limit_bytes)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool;

    options.name = name;
    options.limit_bytes = limit_bytes;
    OK(tarn_pool_create(device, &options, &pool));
    return pool;
}

/* Nothing free is left, in pools and cache. */
static inline void unit_trim(tarn_device *device)
{
    OK(tarn_device_trim(device, 0, NULL));
}

static inline void *unit_alloc(tarn_pool *pool, size_t bytes, tn_cu_stream stream)
{
    void *address = NULL;

    OK(tarn_pool_malloc(pool, bytes, 0, stream, &address));
    return address;
}

/* In the steady state, from the order's arena; false: the pool is to be asked. */
static inline bool unit_try_alloc(tarn_pool *pool, struct tn_order order, size_t bytes,
                                  size_t alignment, void **address)
{
    return tn_pool_try_allocate(pool, tn_arena_seek(pool, order), order, bytes, alignment, address);
}

static inline struct tn_order unit_order(tarn_device *device, tn_cu_stream stream)
{
    struct tn_stream_state state;

    OK(tn_stream_look(&device->gpu, stream, TN_STREAM_GRAPH, &state));
    return state.order;
}

static inline struct tn_segment *unit_segment(const void *address)
{
    return tn_address_table_find((uint64_t)(uintptr_t)address);
}

/* No block of the pool is loose afterwards, as if its lock were held (P19). */
static inline void unit_settle(tarn_pool *pool)
{
    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ALL]; arena != NULL;
         arena = tn_arena_next(arena))
        tn_steady_end(arena);
}

/* The block whose first byte is at the address, whatever its state; NULL when there is none. */
static inline struct tn_block *unit_block(const void *address)
{
    struct tn_segment *segment = unit_segment(address);
    struct tn_block *block;

    if (segment != NULL)
        unit_settle(atomic_load(&segment->owner));
    block = segment != NULL ? segment->first_block : NULL;
    while (block != NULL && tn_block_address(block) != (uint64_t)(uintptr_t)address)
        block = block->next;
    return block;
}

static inline struct tn_chunk *unit_chunk(const void *address)
{
    struct tn_segment *segment = unit_segment(address);

    return tn_segment_chunk_at(segment, (uint64_t)(uintptr_t)address - segment->base);
}

static inline uint64_t unit_offset(const void *address)
{
    return (uint64_t)(uintptr_t)address - unit_segment(address)->base;
}

static inline tarn_capture *unit_begin(tarn_pool *pool, tn_cu_stream stream)
{
    tarn_capture *capture;

    OK(tarn_capture_begin(pool, stream, CAPTURE_MODE(TARN_CAPTURE_THREAD_LOCAL), &capture));
    return capture;
}

static inline tarn_graph *unit_end(tarn_capture *capture)
{
    tarn_graph *graph;

    OK(tarn_capture_end(capture, &graph));
    return graph;
}

/* A graph whose section took and freed a block of that many bytes; *address: where it was. */
static inline tarn_graph *unit_graph(tarn_pool *pool, tn_cu_stream stream, size_t bytes,
                                     void **address)
{
    tarn_capture *capture = unit_begin(pool, stream);
    void *block = unit_alloc(pool, bytes, stream);

    test_fill(stream, block, 7, 128);
    OK(tarn_free(block));
    if (address != NULL)
        *address = block;
    return unit_end(capture);
}

/* 4 KiB beside the pools, zeros; and a section that adds value to the first 16 words of them. */
static inline void *unit_words(tn_cu_stream stream)
{
    void *words = test_linear_alloc(4096);

    test_fill(stream, words, 0, 1024);
    test_synchronize(stream);
    return words;
}

static inline tarn_capture *unit_adding(tarn_pool *pool, tn_cu_stream stream, void *words,
                                        uint32_t value)
{
    tarn_capture *capture = unit_begin(pool, stream);
    void *block = unit_alloc(pool, 4096, stream);

    test_fill(stream, block, value, 16);
    test_add(stream, words, value, 16);
    OK(tarn_free(block));
    return capture;
}

/* The driver runs destructors a little after their graph: until no hold of the pool is left. */
static inline void unit_reap_all(tarn_pool *pool)
{
    int64_t deadline = test_deadline();

    do
        tn_device_reap(pool->device);
    while (pool->holds.count > 0 && test_pause(deadline));
    ck_assert_uint_eq(pool->holds.count, 0);
}

static inline struct test_stats unit_stats(tarn_pool *pool)
{
    tarn_stats stats = {.size = sizeof stats, .walk = true};

    OK(tarn_pool_stats(pool, &stats));
    return test_stats_in(&stats);
}

/* What a test breaks is for tarn_pool_validate: no turn of a check comes before it. */
static inline void unit_end_turns(tarn_pool *pool)
{
#if TARN_DEBUG_CHECKS
    pool->last_check_count = UINT64_MAX;
    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ALL]; arena != NULL;
         arena = tn_arena_next(arena)) {
        for (int kind = 0; kind < TN_HEAP_KINDS; kind++)
            arena->heaps[kind]->turn.last_check_count = UINT64_MAX;
    }
#else
    (void)pool;
#endif
}

/* The pool's structure is broken, and the check says which invariant does not hold. */
static inline void unit_expect_corrupt(tarn_pool *pool, const char *invariant)
{
    char words[32];

    (void)snprintf(words, sizeof words, "invariant %s ", invariant);
    unit_end_turns(pool);
    STATUS(TARN_ERR_CORRUPT, tarn_pool_validate(pool));
    ck_assert_msg(strstr(tarn_last_error(), words) != NULL, "%s, expected %s", tarn_last_error(),
                  invariant);
}

static inline void unit_expect_sentence(const char *part)
{
    ck_assert_msg(strstr(tarn_last_error(), part) != NULL, "'%s' has no '%s'", tarn_last_error(),
                  part);
}

static inline struct tn_arena *unit_arena(tarn_pool *pool, struct tn_order order)
{
    struct tn_arena *arena;

    tn_pool_lock(pool);
    arena = tn_arena_find(pool, order);
    tn_pool_unlock(pool);
    return arena;
}

static inline bool unit_is_unclaimed(tarn_pool *pool)
{
    bool unclaimed;

    tn_pool_lock(pool);
    unclaimed = tn_pool_is_unclaimed(pool);
    tn_pool_unlock(pool);
    return unclaimed;
}

static inline bool unit_idle_has(tarn_pool *pool, enum tn_heap_kind kind, bool captured,
                                 uint64_t bytes)
{
    bool has;

    tn_pool_lock(pool);
    has = tn_idle_has(pool, kind, captured, bytes);
    tn_pool_unlock(pool);
    return has;
}

/* The heap of the stream grows by itself, frugally or not; returns what was mapped. */
static inline uint64_t unit_grow(tarn_pool *pool, tn_cu_stream stream, enum tn_heap_kind kind,
                                 uint64_t bytes, bool frugal)
{
    uint64_t before = tn_pool_mapped_bytes(pool);

    tn_pool_lock(pool);
    OK(tn_heap_grow(pool, tn_arena_get(pool, unit_order(pool->device, stream))->heaps[kind], bytes,
                    frugal));
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
    return tn_pool_mapped_bytes(pool) - before;
}

static inline struct tn_heap *unit_heap(tarn_pool *pool, tn_cu_stream stream,
                                        enum tn_heap_kind kind)
{
    struct tn_arena *arena;

    tn_pool_lock(pool);
    arena = tn_arena_get(pool, unit_order(pool->device, stream));
    tn_pool_unlock(pool);
    return arena->heaps[kind];
}

/* Until the driver has destroyed what the capture claims by, which it does a little later. */
static inline void unit_await_gone(const tarn_capture *capture)
{
    int64_t deadline = test_deadline();

    while (!atomic_load(&capture->gone) && test_pause(deadline))
        tn_device_reap(capture->device);
    ck_assert(atomic_load(&capture->gone));
}

/* Nothing of a capture is left: in the pool, in the routes and in the driver, as it was before. */
static inline void unit_expect_no_capture(tarn_pool *pool, const tarn_sim_ledger *before)
{
    unit_reap_all(pool);
    ck_assert_uint_eq(pool->claims.capture_count, 0);
    ck_assert_uint_eq(pool->holds.open_count, 0);
    ck_assert_uint_eq(pool->claims.route_count, 0);
    ck_assert_uint_eq(pool->device->routes.count, 0);
    ck_assert_uint_eq(test_ledger().captures, before->captures);
    ck_assert_uint_eq(test_ledger().graphs, before->graphs);
    ck_assert_uint_eq(test_ledger().graph_execs, before->graph_execs);
    ck_assert_uint_eq(test_ledger().user_objects, before->user_objects);
    OK(tarn_pool_validate(pool));
    ck_assert(tn_lock_none_held());
}

/* The live set is exactly the checkpoint's. */
static inline void unit_expect_live_set(tarn_pool *pool, const tarn_checkpoint *checkpoint)
{
    ck_assert_uint_eq(tn_pool_live_count(pool), checkpoint->block_count);
    ck_assert_uint_eq(tn_pool_live_bytes(pool), checkpoint->live_bytes);
    for (size_t i = 0; i < checkpoint->block_count; i++) {
        const struct tn_saved_block *saved = &checkpoint->blocks[i];
        const struct tn_block *block = tn_live_find(pool, tn_saved_address(checkpoint, saved));

        ck_assert_ptr_nonnull(block);
        ck_assert_int_eq(block->state, TN_BLOCK_LIVE);
        ck_assert_uint_eq(tn_block_bytes(block), tn_saved_bytes(saved));
        ck_assert_uint_eq(block->requested, saved->requested);
        ck_assert_uint_eq(block->sequence, saved->sequence);
        ck_assert(tn_order_equal(tn_block_order(block), tn_saved_order(checkpoint, saved)));
    }
}

#endif
