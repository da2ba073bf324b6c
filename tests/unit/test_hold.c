// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include "heap/sequence.h"
#include "pools/allocate.h"
#include "pools/arenas.h"
#include "pools/captures.h"
#include "unit/one_pool.h"

static struct tn_order captured = {17, 4};

static struct tn_hold *goes_meanwhile; /* its claimant, while it is being taken from its pool */

void __real_tn_arenas_end_capture(tarn_pool *in, uint64_t capture_id);
void __wrap_tn_arenas_end_capture(tarn_pool *in, uint64_t capture_id);
void __wrap_tn_arenas_end_capture(tarn_pool *in, uint64_t capture_id)
{
    struct tn_hold *hold = goes_meanwhile;

    goes_meanwhile = NULL;
    if (hold != NULL)
        tn_hold_gone(hold);
    __real_tn_arenas_end_capture(in, capture_id);
}

static bool driver_can_be_cancelled;

__typeof__(tn_driver_capture_goes_on) __real_tn_driver_capture_goes_on;
__typeof__(tn_driver_capture_goes_on) __wrap_tn_driver_capture_goes_on;
bool __wrap_tn_driver_capture_goes_on(struct tn_gpu *gpu, tn_cu_event event)
{
    if (driver_can_be_cancelled)
        pthread_testcancel();
    return __real_tn_driver_capture_goes_on(gpu, event);
}

/* Opens a hold for a capture that no driver knows; the lock stays held. */
static struct tn_hold *open_hold(struct tn_order order, bool owned)
{
    struct tn_hold *hold;

    OK(tn_hold_open(pool, order, owned, &hold));
    return hold;
}

GROUP(open, make_pool)

TEST(open, an_open_hold_is_found_by_its_capture)
{
    struct tn_hold *hold;

    tn_pool_lock(pool);
    ck_assert_ptr_null(unit_find_hold(pool, 4));
    hold = open_hold(captured, true);
    ck_assert_ptr_eq(unit_find_hold(pool, 4), hold);
    ck_assert_ptr_null(unit_find_hold(pool, 5));
    ck_assert_uint_eq(pool->holds.count, 1);
    ck_assert_uint_eq(pool->holds.open_count, 1);
    ck_assert_uint_eq(hold->origin_id, 17);
    tn_hold_close(hold);
    ck_assert_ptr_null(unit_find_hold(pool, 4));
    ck_assert_uint_eq(pool->holds.count, 1);
    ck_assert_uint_eq(pool->holds.open_count, 0);
    tn_hold_drop(hold);
    ck_assert_uint_eq(pool->holds.count, 0);
    ck_assert_ptr_null(pool->holds.first);
    tn_pool_unlock(pool);
}

TEST(open, a_graph_finds_its_open_hold_before_closed_ones)
{
    tn_cu_graph graph = (tn_cu_graph)16; /* compared alone */
    struct tn_hold *open;
    struct tn_hold *closed;

    tn_pool_lock(pool);
    ck_assert_ptr_null(tn_hold_find_graph(&pool->holds, graph));
    open = open_hold(captured, true);
    ck_assert_ptr_null(tn_hold_find_graph(&pool->holds, graph));
    tn_hold_set_graph(open, graph);
    closed = open_hold((struct tn_order){17, 5}, true);
    tn_hold_set_graph(closed, graph);
    tn_hold_close(closed);
    ck_assert_ptr_eq(tn_hold_find_graph(&pool->holds, graph), open);
    tn_hold_drop(open);
    ck_assert_ptr_eq(tn_hold_find_graph(&pool->holds, graph), closed);
    tn_hold_drop(closed);
    ck_assert_ptr_null(tn_hold_find_graph(&pool->holds, graph));
    tn_pool_unlock(pool);
}

TEST(open, what_is_left_to_two_is_the_lasts_to_take)
{
    const struct tn_left_capture left = {9, stream, tn_thread_id(), true};
    struct tn_hold *first;
    struct tn_hold *second;

    tn_pool_lock(pool);
    ck_assert_uint_eq(tn_hold_take_left(&pool->holds, 4).capture_id, 0); /* there is no such */
    first = open_hold(captured, true);
    second = open_hold((struct tn_order){17, 5}, true);
    ck_assert_uint_eq(tn_hold_take_left(&pool->holds, 4).capture_id, 0);
    first->left = left;
    second->left = left;
    ck_assert_uint_eq(tn_hold_take_left(&pool->holds, 4).capture_id, 0);
    ck_assert_uint_eq(tn_hold_take_left(&pool->holds, 5).capture_id, 9);
    ck_assert_uint_eq(tn_hold_take_left(&pool->holds, 5).capture_id, 0);
    first->left = left;
    atomic_store(&first->claim, TN_CLAIM_GONE); /* its stream may be gone as well */
    ck_assert_uint_eq(tn_hold_take_left(&pool->holds, 4).capture_id, 0);
    tn_hold_drop(first);
    tn_hold_drop(second);
    tn_pool_unlock(pool);
}

TEST(open, no_hold_without_host_memory)
{
    struct tn_hold *hold = NULL;

    tn_pool_lock(pool);
    for (uint64_t i = 0; i < 2; i++) { /* the record's slab, which stays; the map */
        (void)tn_host_plan_fault(1, false);
        STATUS(TARN_ERR_HOST_MEMORY, tn_hold_open(pool, captured, true, &hold));
        ck_assert_ptr_null(hold);
        ck_assert_uint_eq(pool->holds.count, 0);
        tn_hold_drop(open_hold(captured, true));
    }
    tn_pool_unlock(pool);
}

/* Any block may have to wait from then on. */
TEST(open, no_hold_without_cold_records_for_all_blocks)
{
    void *address = unit_alloc(pool, 4096, test_stream());
    struct tn_hold *hold = NULL;

    tn_pool_lock(pool);
    tn_hold_drop(open_hold(captured, true));
    ck_assert(tn_block_has_cold(unit_block(address)));
    tn_host_free(pool->store.slabs->cold);
    pool->store.slabs->cold = NULL;
    pool->store.all_cold = false;
    (void)tn_host_plan_fault(2, false); /* the map is the first */
    STATUS(TARN_ERR_HOST_MEMORY, tn_hold_open(pool, captured, true, &hold));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert_ptr_null(hold);
    ck_assert_uint_eq(pool->holds.count, 0);
    tn_hold_drop(open_hold(captured, true));
    ck_assert(tn_block_has_cold(unit_block(address)));
    tn_pool_unlock(pool);
}

GROUP(add, make_pool)

/* P7: each chunk under the block, once a hold however often it is added. */
TEST(add, a_hold_has_each_chunk_once)
{
    void *over = unit_alloc(pool, 5 * MIB, stream); /* chunks of 4 and 2 MiB */
    void *beside = unit_alloc(pool, 4096, stream);
    struct tn_chunk *low = unit_chunk(over);
    struct tn_chunk *high = unit_chunk((char *)over + 4 * MIB);
    struct tn_hold *first;
    struct tn_hold *second;

    tn_pool_lock(pool);
    first = open_hold(captured, true);
    tn_hold_add(first, unit_block(over));
    tn_hold_add(first, unit_block(over));
    ck_assert_uint_eq(low->hold_count, 1);
    ck_assert_uint_eq(high->hold_count, 1);
    ck_assert_uint_eq(unit_chunk(beside)->hold_count, 0);
    ck_assert_uint_eq(first->chunks.words[0], (uint64_t)1 << low->id | (uint64_t)1 << high->id);
    OK(tn_pool_check(pool));
    second = open_hold((struct tn_order){17, 5}, true);
    tn_hold_add(second, unit_block(over));
    ck_assert_uint_eq(low->hold_count, 2);
    OK(tn_pool_check(pool));
    tn_hold_drop(first);
    ck_assert_uint_eq(low->hold_count, 1);
    tn_hold_drop(second);
    ck_assert_uint_eq(low->hold_count, 0);
    ck_assert_uint_eq(high->hold_count, 0);
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
}

/* A map begins with 512 bits; 600 chunks come while the hold is open. */
TEST(add, an_open_hold_has_room_for_every_chunk_that_comes)
{
    struct tn_hold *hold;
    struct tn_heap *heap;
    void *over_all;

    tn_pool_lock(pool);
    hold = open_hold(captured, true);
    heap = tn_arena_get(pool, unit_order(device, stream))->heaps[TN_HEAP_LARGE];
    heap->segment_bytes = 2 * GIB;
    for (uint64_t i = 1; i <= 600; i++)
        OK(tn_heap_grow(pool, heap, i * 2 * MIB, true));
    tn_pool_unlock(pool);
    ck_assert_uint_eq(unit_stats(pool).chunk_count, 600);
    over_all = unit_alloc(pool, 1200 * MIB, stream);
    tn_pool_lock(pool);
    (void)tn_host_plan_fault(1, true);
    tn_hold_add(hold, unit_block(over_all));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 0);
    for (size_t id = 0; id < 600; id++)
        ck_assert_uint_eq(pool->chunks.by_id[id]->hold_count, 1);
    OK(tn_pool_check(pool));
    tn_hold_drop(hold);
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
}

/* A closed hold has no room for what is mapped later. */
TEST(add, a_hold_says_which_chunks_it_has)
{
    void *over = unit_alloc(pool, 5 * MIB, stream); /* chunks of 4 and 2 MiB */
    void *beside = unit_alloc(pool, 4096, stream);
    const struct tn_chunk *low = unit_chunk(over);
    const struct tn_chunk *high = unit_chunk((char *)over + 4 * MIB);
    struct tn_hold *hold;

    tn_pool_lock(pool);
    hold = open_hold(captured, true);
    tn_hold_add(hold, unit_block(over));
    tn_hold_close(hold);
    ck_assert(tn_chunk_set_has_id(&hold->chunks, low->id));
    ck_assert(tn_chunk_set_has_id(&hold->chunks, high->id));
    ck_assert(!tn_chunk_set_has_id(&hold->chunks, unit_chunk(beside)->id));
    ck_assert_uint_eq(hold->chunks.word_count, 8);
    ck_assert(!tn_chunk_set_has_id(&hold->chunks, 8 * 64));
    ck_assert_uint_eq(tn_holds_bytes_in(&pool->holds, 0, hold->chunks.words[0]), 6 * MIB);
    ck_assert_uint_eq(tn_holds_bytes_in(&pool->holds, 0, (uint64_t)1 << high->id), 2 * MIB);
    tn_hold_drop(hold);
    tn_pool_unlock(pool);
}

TEST(add, room_in_holds_is_for_open_ones)
{
    struct tn_hold *open;
    struct tn_hold *closed;
    size_t before;

    tn_pool_lock(pool);
    closed = open_hold(captured, true);
    tn_hold_close(closed);
    open = open_hold((struct tn_order){17, 5}, true);
    before = closed->chunks.word_count;
    ck_assert(tn_holds_reserve(&pool->holds, 10000));
    ck_assert_uint_ge(open->chunks.word_count * 64, 10000);
    ck_assert_uint_eq(closed->chunks.word_count, before);
    (void)tn_host_plan_fault(1, false);
    ck_assert(!tn_holds_reserve(&pool->holds, 1000000));
    tn_hold_drop(open);
    tn_hold_drop(closed);
    tn_pool_unlock(pool);
}

GROUP(close, make_pool)

TEST(close, closing_ends_the_arenas_of_the_capture)
{
    struct tn_hold *hold;
    struct tn_request request = {4096, 512, captured};
    void *address;

    tn_pool_lock(pool);
    hold = open_hold(captured, true);
    tn_pool_unlock(pool);
    OK(tn_pool_allocate(pool, &request, NULL, &address));
    ck_assert_uint_eq(pool->arenas.count, 1);
    ck_assert_uint_eq(unit_chunk(address)->hold_count, 1);
    tn_pool_lock(pool);
    tn_hold_close(hold);
    ck_assert_uint_eq(pool->arenas.count, 0);
    ck_assert_ptr_eq(unit_chunk(address)->heap->arena, &pool->idle);
    ck_assert_uint_eq(unit_chunk(address)->hold_count, 1); /* it stays as it is */
    OK(tn_pool_check(pool));
    tn_hold_drop(hold);
    ck_assert_uint_eq(unit_chunk(address)->hold_count, 0);
    tn_pool_unlock(pool);
    STATUS(TARN_ERR_CAPTURE_BROKEN, tn_pool_allocate(pool, &request, NULL, &address));
}

TEST(add, a_block_freed_meanwhile_enters_every_open_hold)
{
    void *address = unit_alloc(pool, 2 * MIB, stream);
    struct tn_chunk *chunk = unit_chunk(address);
    struct tn_hold *closed;

    tn_pool_lock(pool);
    closed = open_hold((struct tn_order){17, 3}, true);
    tn_hold_close(closed);
    (void)open_hold(captured, true);
    (void)open_hold((struct tn_order){18, 5}, true);
    tn_pool_unlock(pool);
    OK(tarn_free(address));
    ck_assert_uint_eq(chunk->hold_count, 2);
    OK(tarn_pool_validate(pool));
}

/* A capture of the driver's, marked in the hold. */
static tn_cu_stream capture_into(struct tn_hold *hold)
{
    tn_cu_stream captured_stream = test_stream();

    test_begin_capture(captured_stream, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tn_driver_capture_event(&device->gpu, captured_stream, &hold->event));
    return captured_stream;
}

TEST(close, only_unowned_holds_whose_captures_are_over_are_closed_for_others)
{
    struct tn_hold *owned;
    struct tn_hold *first;
    struct tn_hold *second;
    tn_cu_stream streams[2];
    uint64_t before;
    uint64_t events = test_ledger().events;

    tn_pool_lock(pool);
    owned = open_hold((struct tn_order){17, 1}, true);
    first = open_hold((struct tn_order){17, 2}, false);
    second = open_hold((struct tn_order){18, 3}, false);
    second->route_id = 3;
    streams[0] = capture_into(first);
    streams[1] = capture_into(second);
    for (int i = 0; i < 2; i++) { /* asked, a capture comes to no harm */
        ck_assert(!tn_holds_close_over(pool, 0));
        ck_assert(!tn_holds_close_over(pool, 3));
        ck_assert(owned->open && first->open && second->open);
        ck_assert_int_eq(test_capture_status(streams[i]), TN_CU_CAPTURE_STATUS_ACTIVE);
    }
    test_destroy_graph(test_end_capture(streams[0]));
    before = tn_next_sequence();
    ck_assert(tn_holds_close_over(pool, 0));
    ck_assert(owned->open && !first->open && second->open);
    ck_assert_uint_eq(first->end_mark, before + 1);
    test_drop_capture(streams[1]);
    ck_assert(!tn_holds_close_over(pool, 4));
    ck_assert(second->open); /* another route led here */
    ck_assert(tn_holds_close_over(pool, 3));
    ck_assert(owned->open && !second->open);
    ck_assert_uint_eq(pool->holds.open_count, 1);
    ck_assert_uint_eq(test_ledger().events, events);
    tn_pool_unlock(pool);
}

static bool has_allocated;

static void *allocate_cancelled(void *argument)
{
    void **block = argument;

    (void)pthread_cancel(pthread_self());
    has_allocated = tarn_malloc(device, 4096, stream, block) == TARN_OK;
    pthread_testcancel();
    return NULL;
}

/* Whether captures of the user's go on is asked with the device's lock held. */
TEST(close, an_allocation_beside_a_capture_is_no_cancellation_point)
{
    tn_cu_stream capturing = test_stream();
    void *blocks[2] = {NULL};
    pthread_t thread;
    void *result;

    test_begin_capture(capturing, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tarn_malloc(device, 4096, capturing, &blocks[0]));
    driver_can_be_cancelled = true;
    ck_assert_int_eq(pthread_create(&thread, NULL, allocate_cancelled, &blocks[1]), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    driver_can_be_cancelled = false;
    ck_assert(has_allocated);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
    OK(tarn_free(blocks[1]));
    OK(tarn_free(blocks[0]));
    test_destroy_graph(test_end_capture(capturing));
}

static void say_gone(void *hold)
{
    tn_hold_gone(hold);
}

GROUP(gone, make_pool)

TEST(gone, gone_holds_are_dropped_by_the_next_reap)
{
    struct tn_hold *holds[3];
    void *address = unit_alloc(pool, 4096, stream);

    tn_pool_lock(pool);
    for (uint64_t i = 0; i < 3; i++) {
        holds[i] = open_hold((struct tn_order){17, i + 1}, true);
        tn_hold_add(holds[i], unit_block(address));
        tn_hold_close(holds[i]);
    }
    test_elsewhere(say_gone, holds[0]); /* the lock is held: it takes none */
    tn_hold_gone(holds[2]);
    tn_pool_unlock(pool);
    ck_assert_uint_eq(pool->holds.count, 3);
    tn_device_reap(device);
    ck_assert_uint_eq(pool->holds.count, 1);
    ck_assert_ptr_eq(pool->holds.first, holds[1]);
    ck_assert_uint_eq(unit_chunk(address)->hold_count, 1);
    OK(tarn_pool_validate(pool));
    tn_hold_gone(holds[1]);
    tn_device_reap(device);
    ck_assert_uint_eq(pool->holds.count, 0);
    ck_assert_uint_eq(unit_chunk(address)->hold_count, 0);
}

enum { GONE = 20000 };

static struct tn_hold *gone_at_once[2][GONE];
static pthread_barrier_t all_there;

static void *say_all_gone(void *holds)
{
    struct tn_hold **all = holds;

    (void)pthread_barrier_wait(&all_there);
    for (size_t i = 0; i < GONE; i++)
        tn_hold_gone(all[i]);
    return NULL;
}

TEST(gone, claimants_that_go_at_once_on_two_threads_are_all_heard)
{
    pthread_t thread;

    tn_pool_lock(pool);
    for (uint64_t i = 0; i < GONE; i++) {
        for (uint64_t side = 0; side < 2; side++) {
            gone_at_once[side][i] = open_hold((struct tn_order){17, 2 * i + side + 1}, true);
            tn_hold_close(gone_at_once[side][i]);
        }
    }
    tn_pool_unlock(pool);
    ck_assert_int_eq(pthread_barrier_init(&all_there, NULL, 2), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, say_all_gone, gone_at_once[0]), 0);
    (void)say_all_gone(gone_at_once[1]);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    (void)pthread_barrier_destroy(&all_there);
    tn_device_reap(device);
    ck_assert_uint_eq(pool->holds.count, 0);
}

TEST(gone, orphaned_holds_are_dropped_and_never_listened_to_again)
{
    struct tn_hold *held;
    struct tn_hold *gone;
    void *address = unit_alloc(pool, 4096, stream);

    tn_pool_lock(pool);
    held = open_hold((struct tn_order){17, 1}, true);
    gone = open_hold((struct tn_order){17, 2}, true);
    tn_hold_add(held, unit_block(address));
    tn_hold_add(gone, unit_block(address));
    tn_hold_gone(gone);
    tn_holds_orphan(pool);
    ck_assert_uint_eq(pool->holds.count, 1); /* what is gone is reaped, as ever */
    ck_assert_ptr_eq(pool->holds.first, gone);
    ck_assert_uint_eq(unit_chunk(address)->hold_count, 1);
    ck_assert_uint_eq(pool->holds.open_count, 1);
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
    tn_hold_gone(held); /* a claimant that comes too late */
    tn_device_reap(device);
    ck_assert_uint_eq(pool->holds.count, 0);
    ck_assert_uint_eq(unit_chunk(address)->hold_count, 0);
    OK(tarn_pool_validate(pool));
}

TEST(gone, a_claimant_that_goes_while_its_hold_leaves_is_heard)
{
    struct tn_hold *hold;
    void *address = unit_alloc(pool, 4096, stream);

    tn_pool_lock(pool);
    hold = open_hold(captured, true);
    tn_hold_add(hold, unit_block(address));
    goes_meanwhile = hold;
    tn_holds_orphan(pool);
    ck_assert_ptr_null(goes_meanwhile);
    ck_assert_uint_eq(pool->holds.count, 0);
    ck_assert_uint_eq(unit_chunk(address)->hold_count, 0);
    ck_assert_ptr_null(atomic_load(&device->gone_holds)); /* not to be dropped once more */
    ck_assert_ptr_eq(open_hold(captured, true), hold);    /* its record is spent */
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
}

/* The default pool's: it takes what is of its capture, ends with it, and its record with its claimant. */
TEST(gone, a_passing_hold_ends_when_it_is_closed)
{
    tarn_pool *shared = device->default_pool;
    void *mine = unit_alloc(shared, 4 * MIB, stream);
    void *used = unit_alloc(shared, 4 * MIB, stream);
    struct tn_hold *hold;
    struct tn_hold *next;

    tn_pool_lock(shared);
    OK(tn_hold_open(shared, captured, false, &hold));
    ck_assert(hold->passing);
    ck_assert_uint_eq(atomic_load(&device->user_hold_count), 1);
    OK(tn_use_note(&shared->device->streams, unit_block(used), stream, captured));
    OK(tn_use_note(&shared->device->streams, unit_block(used), stream,
                   (struct tn_order){18, 9})); /* elsewhere too */
    ck_assert(!tn_holds_add_freed(&shared->holds, unit_block(mine)));
    ck_assert(tn_holds_add_freed(&shared->holds, unit_block(used)));
    ck_assert_uint_eq(unit_chunk(mine)->hold_count, 0);
    ck_assert_uint_eq(unit_chunk(used)->hold_count, 1);
    tn_hold_close(hold);
    ck_assert_uint_eq(shared->holds.count, 0);
    ck_assert_uint_eq(unit_chunk(used)->hold_count, 0);
    ck_assert_uint_eq(atomic_load(&device->user_hold_count), 0);
    OK(tn_hold_open(shared, (struct tn_order){18, 5}, false, &next));
    ck_assert_ptr_ne(next, hold); /* its claimant may speak of it yet */
    tn_hold_drop(next);
    test_elsewhere(say_gone, hold);
    ck_assert_ptr_null(atomic_load(&device->gone_holds));
    OK(tn_hold_open(shared, (struct tn_order){18, 6}, false, &next));
    ck_assert_ptr_eq(next, hold);
    tn_hold_gone(next);
    tn_hold_close(next); /* the other way round: the next reap takes it */
    ck_assert_uint_eq(shared->holds.count, 1);
    tn_pool_unlock(shared);
    tn_device_reap(device);
    ck_assert_uint_eq(shared->holds.count, 0);
    OK(tarn_free(mine));
    OK(tarn_free(used));
    OK(tarn_pool_validate(shared));
}

TEST(gone, the_owner_of_a_hold_that_goes_is_told)
{
    atomic_bool gone = false;
    struct tn_hold *hold;

    tn_pool_lock(pool);
    hold = open_hold(captured, true);
    ck_assert_uint_eq(tn_hold_tell_owner(hold), 0);
    hold->owner_gone = &gone;
    ck_assert_ptr_eq(tn_hold_find_owned(&pool->holds, captured.capture_id), hold);
    ck_assert_uint_eq(tn_hold_tell_owner(hold), captured.capture_id);
    ck_assert(atomic_load(&gone));
    ck_assert_uint_eq(tn_hold_tell_owner(hold), 0); /* once */
    tn_pool_unlock(pool);
}

TEST(gone, an_open_hold_that_goes_is_closed_first)
{
    struct tn_hold *hold;

    tn_pool_lock(pool);
    hold = open_hold(captured, true);
    tn_pool_unlock(pool);
    tn_hold_gone(hold);
    tn_device_reap(device);
    ck_assert_uint_eq(pool->holds.open_count, 0);
    ck_assert_uint_eq(pool->holds.count, 0);
}

/* P7: a hold that is in a map and not in the count. */
CONTRACT_TEST(gone, dropping_more_holds_than_were_counted_is_a_broken_contract)
{
    void *address = unit_alloc(pool, 4096, stream);
    struct tn_hold *hold;

    tn_pool_lock(pool);
    hold = open_hold(captured, true);
    tn_hold_add(hold, unit_block(address));
    unit_chunk(address)->hold_count = 0;
    tn_hold_drop(hold);
}

CONTRACT_TEST(add, adding_to_a_closed_hold_is_a_broken_contract)
{
    void *address = unit_alloc(pool, 4096, stream);
    struct tn_hold *hold;

    tn_pool_lock(pool);
    hold = open_hold(captured, true);
    tn_hold_close(hold);
    tn_hold_add(hold, unit_block(address));
}
