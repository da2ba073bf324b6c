// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include "driver/idle.h"
#include "driver/mapping.h"
#include "heap/sequence.h"
#include "heap/steady.h"
#include "pools/allocate.h"
#include "pools/arena_table.h"
#include "pools/arenas.h"
#include "pools/end.h"
#include "pools/free.h"
#include "pools/handover.h"
#include "unit/refused_records.h"
#include "unit/one_pool.h"

static struct tn_order order;

static struct tn_lock *
    awaited; /* just before this is taken another thread trims the pool, and allocates; or ends it */
static void *allocated_then;
static bool ends;

void __real_tn_lock_acquire(struct tn_lock *lock);
void __wrap_tn_lock_acquire(struct tn_lock *lock);
void __wrap_tn_lock_acquire(struct tn_lock *lock)
{
    if (lock == awaited) {
        awaited = NULL;
        OK(ends ? tarn_pool_destroy(pool) : tarn_pool_trim(pool, NULL));
        if (!ends)
            allocated_then = unit_alloc(pool, 40 * MIB, other);
    }
    __real_tn_lock_acquire(lock);
}

static void set_up(void)
{
    make_pool();
    order = unit_order(device, stream);
}

static void *allocate(uint64_t requested, uint64_t alignment)
{
    struct tn_request request = {requested, alignment, order};
    void *address = NULL;

    OK(tn_pool_allocate(pool, &request, NULL, &address));
    return address;
}

GROUP(life, set_up, .name = "create and destroy")

TEST(life, a_new_pool_is_empty_and_in_its_devices_list)
{
    ck_assert_ptr_eq(device->pools, pool);
    ck_assert_ptr_eq(pool->next, device->default_pool);
    ck_assert_str_eq(pool->name, "net");
    ck_assert_uint_eq(pool->magic, TN_POOL_MAGIC);
    ck_assert(unit_is_unclaimed(pool));
    ck_assert_uint_eq(tn_device_mapped_bytes(device, false), 0);
    OK(tarn_pool_validate(pool));
}

TEST(life, a_name_too_long_is_cut)
{
    const struct tn_pool_settings settings = {.name = "0123456789012345678901234567890123456789"};
    const struct tn_pool_settings nameless = {.name = NULL};
    tarn_pool *made;

    OK(tn_pool_create(device, &settings, &made));
    ck_assert_str_eq(made->name, "0123456789012345678901234567890");
    OK(tn_pool_create(device, &nameless, &made));
    ck_assert_str_eq(made->name, "");
}

GROUP(allocate, set_up)

TEST(allocate, sizes_are_rounded_up_to_512_bytes)
{
    static const uint64_t cases[][2] = {
        {1, 512}, {511, 512}, {512, 512}, {513, 1024}, {5000, 5120}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tn_block *block = unit_block(allocate(cases[i][0], 512));

        ck_assert_uint_eq(tn_block_bytes(block), cases[i][1]);
        ck_assert_uint_eq(block->requested, cases[i][0]);
    }
    ck_assert_uint_eq(tn_pool_live_bytes(pool), 512 + 512 + 512 + 1024 + 5120);
    ck_assert_uint_eq(tn_pool_requested_bytes(pool), 1 + 511 + 512 + 513 + 5000);
    OK(tarn_pool_validate(pool));
}

TEST(allocate, every_alignment_is_kept)
{
    for (uint64_t alignment = 512; alignment <= 2 * TN_MIB; alignment *= 2) {
        (void)allocate(512, 512); /* something odd before it */
        ck_assert_uint_eq((uintptr_t)allocate(3000, alignment) % alignment, 0);
        ck_assert_uint_eq((uintptr_t)allocate(3 * MIB, alignment) % alignment, 0);
    }
    OK(tarn_pool_validate(pool));
}

TEST(allocate, sequence_numbers_rise)
{
    uint64_t first = tn_next_sequence();
    struct tn_block *a = unit_block(allocate(512, 512));
    struct tn_block *b = unit_block(allocate(512, 512));

    ck_assert_uint_eq(a->sequence, first + 1);
    ck_assert_uint_eq(b->sequence, first + 2);
}

/* P8 through allocations and frees. */
TEST(allocate, counters_follow_the_live_blocks)
{
    void *a = allocate(1000, 512);
    void *b = allocate(2000, 512);

    ck_assert_uint_eq(tn_pool_live_count(pool), 2);
    ck_assert_uint_eq(tn_pool_live_bytes(pool), 3072);
    OK(tarn_free(a));
    tn_pool_lock(pool); /* brings them up to date */
    tn_pool_unlock(pool);
    ck_assert_uint_eq(tn_pool_live_count(pool), 1);
    ck_assert_uint_eq(tn_pool_live_bytes(pool), 2048);
    ck_assert_uint_eq(pool->counters.metrics[TN_LIVE_BYTES].peak[TN_ALL_KINDS], 3072);
    ck_assert_uint_eq(tn_pool_requested_bytes(pool), 2000);
    ck_assert_uint_eq(pool->counters.alloc_count, 2);
    ck_assert_uint_eq(pool->counters.free_count, 1);
    OK(tarn_free(b));
    OK(tarn_pool_validate(pool));
}

/* Between a pool's leave and its end, as a call may be that had looked at its handle before. */
TEST(allocate, a_pool_that_is_going_serves_nobody)
{
    void *address = unit_alloc(pool, 4096, stream);
    void *again = NULL;

    OK(tarn_free(address));
    ck_assert(unit_try_alloc(pool, order, 4096, 512, &again));
    ck_assert_ptr_eq(again, address);
    OK(tarn_free(address));
    tn_pool_lock(pool);
    atomic_store(&pool->magic, 0);
    tn_pool_unlock(pool);
    ck_assert(!unit_try_alloc(pool, order, 4096, 512, &again));
    tn_pool_lock(pool);
    atomic_store(&pool->magic, TN_POOL_MAGIC);
    tn_pool_unlock(pool);
    ck_assert(unit_try_alloc(pool, order, 4096, 512, &again));
    ck_assert_ptr_eq(again, address);
    OK(tarn_free(address));
}

/* In pools of their own: what one has set aside, or has left in its record, another has not. */
TEST(allocate, an_allocation_without_host_memory_changes_nothing)
{
    struct tn_request request = {3 * TN_MIB, 512, order};
    enum { ROUNDS = 16 };
    tarn_pool *pools[ROUNDS];
    void *address = NULL;
    uint64_t failed = 1;
    int met = 0;
    int rounds = 0;

    while (failed > 0) {
        tarn_pool *fresh = unit_pool(device);
        tarn_status status;

        ck_assert_int_lt(rounds, ROUNDS);
        pools[rounds] = fresh;
        (void)tn_host_plan_fault((uint64_t)rounds + 1, false);
        status = tn_pool_allocate(fresh, &request, NULL, &address);
        failed = tn_host_plan_fault(0, false);
        OK(tarn_pool_validate(fresh));
        if (failed > 0) {
            met += 1;
            ck_assert_int_eq(status, TARN_ERR_HOST_MEMORY);
            ck_assert_ptr_null(address);
            ck_assert_uint_eq(unit_stats(fresh).live_count, 0);
        } else {
            OK(status);
            OK(tarn_free(address));
        }
        unit_trim(device);
        rounds += 1;
    }
    while (rounds > 0) {
        rounds -= 1;
        OK(tarn_pool_destroy(pools[rounds]));
    }
    ck_assert_int_ge(met, 5);
}

/* 18 blocks fill the first index of their chunk. */
TEST(allocate, an_allocation_without_host_memory_for_a_place_in_its_chunk_changes_nothing)
{
    struct tn_request request = {4096, 512, order};
    void *address = NULL;

    for (int i = 0; i < 18; i++)
        (void)allocate(4096, 512);
    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_pool_allocate(pool, &request, NULL, &address));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert_ptr_null(address);
    ck_assert_uint_eq(unit_stats(pool).live_count, 18);
    OK(tarn_pool_validate(pool));
    OK(tn_pool_allocate(pool, &request, NULL, &address));
    OK(tarn_pool_validate(pool));
}

/* What is pending took them, when it was looked at. */
TEST(allocate, an_allocation_that_finds_no_record_after_a_look_at_what_is_pending_changes_nothing)
{
    void *pending = allocate(3 * MIB, 512);
    struct tn_request request = {3 * TN_MIB, 512, order};
    void *address = NULL;

    test_fill(other, pending, 1, 16);
    OK(tarn_free_on(pending, other));
    test_synchronize(other);
    refused_reserve = 2;
    STATUS(TARN_ERR_HOST_MEMORY, tn_pool_allocate(pool, &request, NULL, &address));
    ck_assert_int_eq(refused_reserve, 0);
    ck_assert_ptr_null(address);
    ck_assert_uint_eq(tn_pool_live_count(pool), 0);
    OK(tarn_pool_validate(pool));
    OK(tn_pool_allocate(pool, &request, NULL, &address));
    ck_assert_ptr_eq(address, pending);
}

TEST(allocate, a_capture_that_is_not_known_gets_nothing)
{
    struct tn_request request = {512, 512, {3, 77}};
    void *address = NULL;

    STATUS(TARN_ERR_CAPTURE_BROKEN, tn_pool_allocate(pool, &request, NULL, &address));
    ck_assert_uint_eq(pool->arenas.count, 0);
    ck_assert_ptr_null(address);
}

GROUP(ladder, set_up)

/* The rungs: as planned; to the page; after proven memory has gone; after a wait. */
TEST(ladder, the_ladder_is_climbed_down_until_memory_is_found)
{
    struct tn_request request = {62 * TN_MIB, 512, order};
    void *address = NULL;
    tarn_pool *hoard = unit_pool_of(device, "hoard", 0);

    OK(tarn_free(unit_alloc(hoard, 128 * MIB, other))); /* free, but not proven idle */
    sim.plan_fault("cuMemCreate", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    OK(tn_pool_allocate(pool, &request, NULL, &address));
    ck_assert_uint_eq(tn_pool_mapped_bytes(pool), 62 * TN_MIB); /* frugal: not 64 */
    ck_assert_uint_eq(unit_stats(hoard).mapped_bytes, 128 * MIB);
    ck_assert_uint_eq(atomic_load(&device->gpu.calls[TN_CALL_WAIT]), 0);
    sim.clear_fault(NULL);
}

TEST(ladder, the_ladder_gives_back_free_memory_of_other_pools_after_a_wait)
{
    size_t free_bytes;
    size_t total_bytes;
    tarn_pool *hoard = unit_pool_of(device, "hoard", 0);
    void *address;

    tn_gpu_memory_info(&device->gpu, &free_bytes, &total_bytes);
    free_bytes = tn_round_down(free_bytes, 2 * MIB);
    OK(tarn_free(unit_alloc(hoard, free_bytes / 2 / (2 * MIB) * (2 * MIB) + 2 * MIB, other)));
    address = allocate(tn_round_down(free_bytes / 2, 2 * MIB) + 2 * MIB, 512);
    ck_assert_ptr_nonnull(address);
    ck_assert_uint_eq(unit_stats(hoard).mapped_bytes, 0);
    ck_assert_uint_eq(atomic_load(&device->gpu.calls[TN_CALL_WAIT]), 1);
    OK(tarn_pool_validate(pool));
}

TEST(ladder, proven_memory_of_other_pools_goes_without_a_wait)
{
    size_t free_bytes;
    size_t total_bytes;
    tarn_pool *hoard = unit_pool_of(device, "hoard", 0);
    uint64_t waits;

    tn_gpu_memory_info(&device->gpu, &free_bytes, &total_bytes);
    OK(tarn_free(unit_alloc(hoard, tn_round_down(free_bytes / 2, 2 * MIB) + 2 * MIB, other)));
    OK(tn_gpu_wait_idle(&device->gpu));
    waits = atomic_load(&device->gpu.calls[TN_CALL_WAIT]);
    (void)allocate(tn_round_down(free_bytes / 2, 2 * MIB) + 2 * MIB, 512);
    ck_assert_uint_eq(unit_stats(hoard).mapped_bytes, 0);
    ck_assert_uint_eq(atomic_load(&device->gpu.calls[TN_CALL_WAIT]), waits);
}

TEST(ladder, out_of_memory_names_who_holds_what)
{
    struct tn_request request = {9 * TN_GIB, 512, order}; /* the device has 8 */
    void *address = NULL;

    (void)allocate(3 * MIB, 512);
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_pool_allocate(pool, &request, NULL, &address));
    unit_expect_sentence("pool 'net' maps 4 MiB, 3 live");
    unit_expect_sentence("pool 'default' maps 0 MiB");
    ck_assert_ptr_null(address);
    OK(tarn_pool_validate(pool));
}

GROUP(lock, set_up)

TEST(lock, an_address_of_nobody_is_not_ours)
{
    tarn_pool *found = NULL;
    struct tn_block *block = NULL;
    int local = 0;

    STATUS(TARN_ERR_NOT_OURS, tn_pool_lock_block((uintptr_t)&local, false, &found, &block));
    STATUS(TARN_ERR_NOT_OURS, tn_pool_lock_block(0, false, &found, &block));
    STATUS(TARN_ERR_NOT_OURS, tn_pool_lock_block(UINT64_MAX, false, &found, &block));
    ck_assert(tn_lock_none_held());
    ck_assert_ptr_null(found);
}

TEST(lock, a_block_is_found_at_its_address_alone)
{
    char *address = allocate(4096, 512);
    tarn_pool *found = NULL;
    struct tn_block *block = NULL;

    OK(tn_pool_lock_block((uintptr_t)address, true, &found, &block));
    ck_assert_ptr_eq(found, pool);
    ck_assert_ptr_eq(block, unit_block(address));
    ck_assert(tn_lock_held(TN_RANK_POOL));
    tn_pool_unlock(pool);
    STATUS(TARN_ERR_INNER_ADDRESS,
           tn_pool_lock_block((uintptr_t)address + 1, false, &found, &block));
    unit_expect_sentence("1 bytes inside block");
    STATUS(TARN_ERR_INNER_ADDRESS,
           tn_pool_lock_block((uintptr_t)address + 4095, false, &found, &block));
    STATUS(TARN_ERR_DOUBLE_FREE,
           tn_pool_lock_block((uintptr_t)address + 4096, false, &found, &block));
    ck_assert(tn_lock_none_held());
    OK(tarn_free(address));
    STATUS(TARN_ERR_DOUBLE_FREE, tn_pool_lock_block((uintptr_t)address, false, &found, &block));
    unit_expect_sentence("freed before");
    STATUS(TARN_ERR_DOUBLE_FREE,
           tn_pool_lock_block((uintptr_t)address + 30 * MIB, false, &found, &block));
    unit_expect_sentence("has no memory");
}

TEST(lock, a_segment_is_found_at_every_byte)
{
    char *address = allocate(4096, 512);
    tarn_pool *found;
    struct tn_segment *segment;

    OK(tn_pool_lock_segment((uintptr_t)address + 20 * MIB, &found, &segment));
    tn_pool_unlock(found);
    ck_assert_ptr_eq(segment, unit_segment(address));
    OK(tarn_free(address));
    OK(tarn_pool_trim(pool, NULL));
    STATUS(TARN_ERR_NOT_OURS, tn_pool_lock_segment((uintptr_t)address, &found, &segment));
}

TEST(lock, a_live_block_is_found_around_every_byte_of_it)
{
    char *address = allocate(4096, 512);
    char *behind = allocate(4096, 512);
    struct tn_block *block = NULL;
    tarn_pool *found = NULL;

    for (int i = 0; i < 2; i++) {
        OK(tn_pool_lock_around((uintptr_t)address + (i == 0 ? 0 : 4095), &found, &block));
        tn_pool_unlock(found);
        ck_assert_ptr_eq(found, pool);
        ck_assert_ptr_eq(block, unit_block(address));
    }
    OK(tarn_free(address));
    STATUS(TARN_ERR_DOUBLE_FREE, tn_pool_lock_around((uintptr_t)address + 1, &found, &block));
    unit_expect_sentence("no live block");
    STATUS(TARN_ERR_NOT_OURS, tn_pool_lock_around((uintptr_t)&found, &found, &block));
    ck_assert(tn_lock_none_held());
    OK(tarn_free(behind));
}

TEST(lock, a_segment_that_is_just_being_taken_apart_is_nobodys)
{
    char *address = allocate(4096, 512);
    struct tn_segment *segment = unit_segment(address);
    void *behind = unit_alloc(unit_pool(device), 4096, stream); /* in the next slot */
    tarn_pool *found = NULL;
    struct tn_segment *locked = NULL;

    atomic_store(&segment->owner, NULL);
    STATUS(TARN_ERR_NOT_OURS, tn_pool_lock_segment((uintptr_t)address, &found, &locked));
    atomic_store(&segment->owner, pool);
    OK(tarn_free(address));
    OK(tn_gpu_wait_idle(&device->gpu));
    awaited = &pool->lock;
    STATUS(TARN_ERR_NOT_OURS, tn_pool_lock_segment((uintptr_t)address, &found, &locked));
    ck_assert_ptr_null(awaited);
    ck_assert_ptr_null(unit_segment(address));
    ck_assert_uint_gt((uintptr_t)allocated_then, (uintptr_t)behind);
    ck_assert_ptr_eq(unit_segment(allocated_then), segment); /* the record, for other addresses */
    ck_assert_ptr_null(found);
    ck_assert_ptr_null(locked);
    ck_assert(tn_lock_none_held());
}

TEST(lock, a_pool_that_ends_before_it_is_locked_has_its_lock_still)
{
    void *address = allocate(4096, 512);
    tarn_pool *was = pool;
    tarn_block described;

    OK(tarn_free(address));
    OK(tn_gpu_wait_idle(&device->gpu));
    ends = true;
    awaited = &pool->lock;
    STATUS(TARN_ERR_NOT_OURS, tarn_block_at(address, &described));
    ck_assert_ptr_null(awaited);
    ck_assert(tn_lock_none_held());
    /* As one who has found the old pool, and comes now. */
    ck_assert_int_eq(pthread_mutex_trylock(&was->lock.mutex), 0);
    ck_assert_ptr_null(was->arenas.lists.first[TN_ARENAS_ALL]);
    ck_assert_int_eq(pthread_mutex_unlock(&was->lock.mutex), 0);
    ck_assert_ptr_eq(unit_pool(device), was);
    OK(tarn_pool_validate(was));
}

GROUP(free, set_up)

TEST(free, blocks_of_an_aborted_capture_are_discarded_until_they_are_freed)
{
    tarn_capture *capture = unit_begin(pool, stream);
    void *inside = unit_alloc(pool, 4096, stream);
    tarn_pool *found;
    struct tn_block *block;

    OK(tarn_capture_abort(capture));
    ck_assert_int_eq(unit_block(inside)->state, TN_BLOCK_DISCARDED);
    ck_assert_uint_eq(tn_pool_discarded_count(pool), 1);
    ck_assert_uint_eq(tn_pool_live_count(pool), 0);
    ck_assert_uint_eq(tn_pool_live_bytes(pool), 0);
    OK(tarn_pool_validate(pool));
    STATUS(TARN_ERR_DOUBLE_FREE, tn_pool_lock_block((uintptr_t)inside, true, &found, &block));
    capture = unit_begin(pool, other);
    ck_assert_ptr_ne(unit_alloc(pool, 4096, other), inside); /* its user may still name it */
    OK(tarn_capture_abort(capture));
    OK(tarn_free(inside));
    ck_assert_uint_eq(tn_pool_discarded_count(pool), 1); /* the second capture's */
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(inside));
    OK(tarn_pool_validate(pool));
}

TEST(free, a_block_freed_during_a_capture_becomes_captured)
{
    void *before = unit_alloc(pool, 2 * MIB, stream);
    tarn_capture *capture = unit_begin(pool, other);
    struct tn_chunk *chunk = unit_chunk(before);
    tarn_graph *graph;

    OK(tarn_free(before));
    ck_assert_uint_eq(chunk->hold_count, 1);
    ck_assert_int_eq(unit_block(before)->state, TN_BLOCK_PENDING);
    ck_assert_ptr_ne(unit_alloc(pool, 2 * MIB, stream), before);
    graph = unit_end(capture);
    OK(tn_gpu_wait_idle(&device->gpu)); /* its own stream's work is over */
    tn_pool_lock(pool);
    tn_pending_poll(pool, false);
    tn_pool_unlock(pool);
    ck_assert_ptr_eq(chunk->heap->arena, &pool->idle);
    ck_assert_ptr_ne(unit_alloc(pool, 2 * MIB, stream), before); /* the graph may write it */
    OK(tarn_pool_validate(pool));
    (void)graph;
}

/* P26: a use in a capture says nothing of what has run elsewhere; one on a stream says what ran last. */
TEST(free, an_output_freed_in_a_later_capture_may_have_been_used_anywhere)
{
    tarn_capture *capture = unit_begin(pool, stream);
    void *outputs[2] = {unit_alloc(pool, 4096, stream), unit_alloc(pool, 4096, stream)};
    tarn_graph *graph = unit_end(capture);
    const struct tn_block *blocks[2] = {unit_block(outputs[0]), unit_block(outputs[1])};

    test_begin_capture(other, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tarn_free_on(outputs[0], other));
    test_destroy_graph(test_end_capture(other));
    OK(tarn_free_on(outputs[1], other));
    ck_assert_int_eq(blocks[0]->state, TN_BLOCK_PENDING);
    ck_assert_int_eq(blocks[1]->state, TN_BLOCK_PENDING);
    ck_assert(!blocks[0]->graphs_alone);
    ck_assert(blocks[1]->graphs_alone);
    OK(tarn_graph_destroy(graph));
}

TEST(free, memory_that_passed_to_another_order_waits_for_a_proof)
{
    void *kept = unit_alloc(pool, 4096, stream);
    void *freed = unit_alloc(pool, 4096, stream);
    tarn_capture *capture = unit_begin(pool, other);
    struct tn_block *block = unit_block(kept);
    tarn_graph *graph;

    OK(tarn_free(freed));
    graph = unit_end(capture);
    OK(tn_gpu_wait_idle(&device->gpu));
    capture = unit_begin(pool, other);
    (void)unit_alloc(pool, 2048, other); /* polls: the chunk becomes the capture's */
    ck_assert_ptr_ne(block->heap->arena, unit_arena(pool, order));
    OK(tarn_free(kept));
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING); /* its stream may still use it */
    ck_assert_uint_ne(tn_block_cold(block)->proof_stamp, 0);
    OK(tarn_capture_abort(capture));
    tn_pool_lock(pool);
    tn_pending_poll(pool, false);
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING);
    tn_pool_unlock(pool);
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_pool_lock(pool);
    tn_pending_poll(pool, false);
    tn_pool_unlock(pool);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    OK(tarn_pool_validate(pool));
    OK(tarn_graph_destroy(graph));
}
