// SPDX-License-Identifier: Apache-2.0
/* What one thread allocates and another frees. */
#include <pthread.h>

#include "driver/idle.h"
#include "pools/allocate.h"
#include "pools/arena_table.h"
#include "pools/arenas.h"
#include "pools/end.h"
#include "pools/handover.h"
#include "unit/one_pool.h"

enum { GUEST_FREES = 16 /* before an arena has an inbox */ };

static struct tn_order order;

static void set_up(void)
{
    make_pool();
    order = unit_order(device, stream);
}

/* Another thread shares this arena just before an inbox is made for it. */
static struct tn_arena *shared_meanwhile;

struct tn_inbox *__real_tn_inbox_make(void);
struct tn_inbox *__wrap_tn_inbox_make(void);
struct tn_inbox *__wrap_tn_inbox_make(void)
{
    struct tn_arena *arena = shared_meanwhile;

    shared_meanwhile = NULL;
    if (arena != NULL)
        ck_assert(tn_steady_share(arena));
    return __real_tn_inbox_make();
}

static void *try_allocate(uint64_t bytes)
{
    const struct tn_request request = {bytes, 512, order};
    void *address = NULL;

    return unit_try_alloc(pool, request.order, request.requested, request.alignment, &address)
               ? address
               : NULL;
}

/* Frees, on a thread of their own. */
struct visit {
    void *const *addresses;
    size_t count;
    size_t done;        /* of them, in the steady state */
    tarn_status status; /* of the others, by tarn_free; the last one */
};

static void *come_and_free(void *argument)
{
    struct visit *visit = argument;

    for (size_t i = 0; i < visit->count; i++) {
        if (tn_steady_free((uint64_t)(uintptr_t)visit->addresses[i]))
            visit->done += 1;
        else
            visit->status = tarn_free(visit->addresses[i]);
    }
    return NULL;
}

static struct visit visit(void *const *addresses, size_t count)
{
    struct visit made = {.addresses = addresses, .count = count, .status = TARN_OK};
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, come_and_free, &made), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    return made;
}

/* Whether another thread could free the block in the steady state; else tarn_free did it, or said why not. */
static bool free_elsewhere(void *address)
{
    return visit(&address, 1).done == 1;
}

static struct tn_block *found(const void *address)
{
    return tn_live_find(pool, (uint64_t)(uintptr_t)address);
}

/* A block of an arena that has an inbox. */
static void *alloc_shared(uint64_t bytes)
{
    void *address = unit_alloc(pool, bytes, stream);

    ck_assert(tn_steady_share(found(address)->heap->arena));
    return address;
}

static bool is_in_inbox(const void *address)
{
    const struct tn_block *block = found(address);

    return block != NULL && block->state == TN_BLOCK_LIVE && !tn_live_is_open(block);
}

GROUP(threads, set_up, .name = "an arena and other threads")

TEST(threads, an_arena_gets_an_inbox_when_others_have_freed_in_it_some_times)
{
    void *blocks[GUEST_FREES + 1];
    struct tn_arena *arena;

    for (int i = 0; i <= GUEST_FREES; i++)
        blocks[i] = unit_alloc(pool, 4096, stream);
    arena = found(blocks[0])->heap->arena;
    ck_assert_uint_eq(visit(blocks, GUEST_FREES - 1).done, GUEST_FREES - 1);
    ck_assert_ptr_null(arena->inbox);
    ck_assert(free_elsewhere(blocks[GUEST_FREES - 1]));
    ck_assert_ptr_nonnull(arena->inbox);
    ck_assert(tn_inbox_is_open(arena->inbox));
    ck_assert_ptr_eq(found(blocks[GUEST_FREES - 1]), NULL); /* what was loose is so no more */
    ck_assert(free_elsewhere(blocks[GUEST_FREES]));
    ck_assert(is_in_inbox(blocks[GUEST_FREES]));
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(unit_stats(pool).live_count, 0);
}

TEST(threads, without_memory_for_an_inbox_all_goes_on_as_before)
{
    void *blocks[2 * GUEST_FREES];
    struct tn_arena *arena;

    for (int i = 0; i < 2 * GUEST_FREES; i++)
        blocks[i] = unit_alloc(pool, 4096, stream);
    arena = found(blocks[0])->heap->arena;
    (void)tn_host_plan_fault(1, true);
    ck_assert_uint_eq(visit(blocks, 2 * GUEST_FREES - 1).done, 2 * GUEST_FREES - 1);
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert_ptr_null(arena->inbox);
    ck_assert(free_elsewhere(blocks[2 * GUEST_FREES - 1]));
    ck_assert_ptr_nonnull(arena->inbox);
    OK(tarn_pool_validate(pool));
}

TEST(threads, who_allocates_takes_what_others_have_freed)
{
    void *first = alloc_shared(4096);
    void *second = try_allocate(8192);

    ck_assert(free_elsewhere(first));
    ck_assert(free_elsewhere(second));
    ck_assert(is_in_inbox(first) && is_in_inbox(second));
    ck_assert_ptr_eq(try_allocate(8000), second);
    ck_assert(!is_in_inbox(second) && found(second) != NULL);
    ck_assert_ptr_eq(try_allocate(4096), first);
    ck_assert(free_elsewhere(first));
    ck_assert(free_elsewhere(second));
    ck_assert_ptr_nonnull(try_allocate(12288));
    ck_assert(!is_in_inbox(first) && !is_in_inbox(second));
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(unit_stats(pool).live_count, 1);
    ck_assert_uint_eq(unit_stats(pool).alloc_count, 5);
    ck_assert_uint_eq(unit_stats(pool).free_count, 4);
}

TEST(threads, what_is_in_the_inbox_is_freed_already)
{
    void *block = alloc_shared(4096);
    tarn_block told;

    ck_assert(free_elsewhere(block));
    ck_assert(!tn_steady_free((uint64_t)(uintptr_t)block));
    ck_assert_int_eq(visit(&block, 1).status, TARN_ERR_DOUBLE_FREE);
    block = try_allocate(4096);
    ck_assert(free_elsewhere(block));
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(block));
    block = try_allocate(4096);
    ck_assert(free_elsewhere(block));
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_free_on(block, other));
    block = try_allocate(4096);
    ck_assert(free_elsewhere(block));
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_record_stream(block, other));
    block = try_allocate(4096);
    ck_assert(free_elsewhere(block));
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_block_at(block, &told));
    OK(tarn_pool_validate(pool));
}

/* P19: with an inbox what is loose is closed, since others look at the index. */
TEST(threads, what_its_user_has_freed_nobody_else_frees)
{
    void *block = alloc_shared(4096);

    OK(tarn_free(block));
    ck_assert_ptr_eq(try_allocate(4096), block);
    OK(tarn_free(block));
    ck_assert(found(block) != NULL && found(block)->state == TN_BLOCK_LOOSE);
    ck_assert(!free_elsewhere(block));
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(unit_stats(pool).free_count, 2);
}

TEST(threads, what_was_freed_before_something_else_is_closed_until_it_is_allocated)
{
    void *block = alloc_shared(4096);

    OK(tarn_free(block));
    ck_assert_ptr_nonnull(try_allocate(8192));
    ck_assert(!tn_live_is_open(found(block)));
    ck_assert_ptr_eq(try_allocate(4096), block);
    ck_assert(tn_live_is_open(found(block))); /* P23 */
    ck_assert(free_elsewhere(block));
    ck_assert(!free_elsewhere(block));
    OK(tarn_pool_validate(pool));
}

TEST(threads, addresses_that_are_no_blocks_are_left_to_the_pool)
{
    char *block = alloc_shared(4096);
    void *wrong[] = {block + 1, block + 512, block + 8 * TN_MIB, &block};

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert(!free_elsewhere(wrong[i]));
    ck_assert_int_eq(visit(&wrong[0], 1).status, TARN_ERR_INNER_ADDRESS);
    ck_assert_int_eq(visit(&wrong[3], 1).status, TARN_ERR_NOT_OURS);
    ck_assert(free_elsewhere(block)); /* the places that were taken in vain do not matter */
    ck_assert_ptr_eq(try_allocate(4096), block);
    OK(tarn_pool_validate(pool));
}

/* P22 */
TEST(threads, who_locks_the_pool_finds_empty_inboxes)
{
    void *blocks[] = {alloc_shared(4096), try_allocate(8192), try_allocate(512)};
    struct tn_arena *arena = found(blocks[0])->heap->arena;

    ck_assert_uint_eq(visit(blocks, 3).done, 3);
    tn_pool_lock(pool);
    ck_assert(!tn_inbox_is_open(arena->inbox) && tn_inbox_is_empty(arena->inbox));
    ck_assert_uint_eq(tn_pool_live_count(pool), 0);
    ck_assert_uint_eq(pool->counters.free_count, 3);
    ck_assert_uint_eq(unit_chunk(blocks[0])->used_bytes, 0);
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_null(found(blocks[i]));
    tn_pool_unlock(pool);
    ck_assert(tn_inbox_is_open(arena->inbox));
    OK(tarn_pool_validate(pool));
}

/* Freed in this epoch, and not before. */
TEST(threads, a_wait_before_a_free_proves_nothing_of_it)
{
    void *block = alloc_shared(4096);

    OK(tn_gpu_wait_idle(&device->gpu));
    ck_assert(free_elsewhere(block));
    tn_pool_lock(pool);
    ck_assert(!tn_gpu_is_proven(&device->gpu, unit_chunk(block)->freed_stamp));
    ck_assert(!tn_pool_is_idle(pool));
    tn_pool_unlock(pool);
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_pool_lock(pool);
    ck_assert(tn_pool_is_idle(pool));
    tn_pool_unlock(pool);
}

TEST(threads, a_full_inbox_is_emptied_by_who_finds_it_so)
{
    enum { BLOCKS = TN_INBOX_PLACES + 3 };
    static void *blocks[BLOCKS];

    blocks[0] = alloc_shared(512);
    for (int i = 1; i < BLOCKS; i++)
        blocks[i] = unit_alloc(pool, 512, stream);
    ck_assert_uint_eq(visit(blocks, BLOCKS - 3).done, BLOCKS - 3);
    ck_assert(is_in_inbox(blocks[0]));
    ck_assert(free_elsewhere(blocks[BLOCKS - 3]));
    ck_assert_ptr_null(found(blocks[0]));
    ck_assert(!is_in_inbox(blocks[BLOCKS - 3])); /* by the lock */
    ck_assert(free_elsewhere(blocks[BLOCKS - 2]));
    ck_assert(is_in_inbox(blocks[BLOCKS - 2]));
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(unit_stats(pool).live_count, 1);
}

TEST(threads, peaks_do_not_count_what_is_in_the_inbox)
{
    void *blocks[] = {alloc_shared(4096), try_allocate(8192)};
    const struct tn_metric *live = &pool->counters.metrics[TN_LIVE_BYTES];

    ck_assert_uint_eq(unit_stats(pool).live_peak_bytes, 12288);
    ck_assert_uint_eq(visit(blocks, 2).done, 2);
    ck_assert_ptr_nonnull(try_allocate(12288)); /* cut */
    ck_assert_uint_eq(unit_stats(pool).live_peak_bytes, 12288);
    ck_assert_uint_eq(live->peak[TN_HEAP_SMALL], 12288);
    blocks[0] = try_allocate(16384);
    ck_assert_uint_eq(unit_stats(pool).live_peak_bytes, 28672);
    OK(tarn_free(blocks[0]));
    blocks[1] = unit_alloc(pool, MIB, stream);
    ck_assert_uint_eq(unit_stats(pool).live_peak_bytes, MIB + 12288);
    ck_assert(free_elsewhere(blocks[1]));
    blocks[0] = try_allocate(16384);
    OK(tarn_free(blocks[0]));
    ck_assert_ptr_eq(try_allocate(MIB), blocks[1]);
    ck_assert(free_elsewhere(blocks[1]));
    ck_assert_ptr_eq(try_allocate(16384), blocks[0]); /* loose, of the other kind */
    ck_assert_uint_eq(unit_stats(pool).live_peak_bytes, MIB + 12288);
    ck_assert_uint_eq(unit_stats(pool).live_bytes, 28672);
}

/* P23 */
TEST(threads, a_block_that_is_not_plain_is_left_to_the_pool)
{
    void *used = alloc_shared(4096);
    void *retired = try_allocate(4096);
    tarn_capture *capture;

    OK(tarn_record_stream(used, other));
    ck_assert(!tn_live_is_open(found(used)));
    OK(tarn_pool_validate(pool));
    ck_assert(!free_elsewhere(used));
    ck_assert_uint_eq(unit_stats(pool).pending_count, 1);
    capture = unit_begin(pool, other);
    (void)unit_alloc(pool, 4096, other);
    ck_assert(!free_elsewhere(retired)); /* the capture may use it */
    OK(tarn_capture_abort(capture));
    retired = unit_alloc(pool, 4096, stream);
    OK(tarn_stream_retire(device, stream));
    ck_assert(!tn_live_is_open(found(retired)));
    ck_assert(!free_elsewhere(retired));
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(unit_stats(pool).live_count, 0);
}

TEST(threads, a_discarded_block_is_left_to_the_pool)
{
    tarn_capture *capture = unit_begin(pool, stream);
    void *block = unit_alloc(pool, 4096, stream);

    ck_assert(tn_steady_share(found(block)->heap->arena));
    ck_assert(free_elsewhere(block)); /* in the capture that it is of */
    block = unit_alloc(pool, 4096, stream);
    OK(tarn_capture_abort(capture));
    ck_assert(!tn_live_is_open(found(block)));
    OK(tarn_pool_validate(pool));
    ck_assert(!free_elsewhere(block));
    ck_assert_uint_eq(tn_pool_discarded_count(pool), 0);
}

TEST(threads, what_is_freed_in_a_capture_is_so_when_it_ends)
{
    tarn_capture *capture = unit_begin(pool, stream);
    void *blocks[2] = {unit_alloc(pool, 4096, stream), unit_alloc(pool, 4096, stream)};
    tarn_graph *graph;

    ck_assert(tn_steady_share(found(blocks[0])->heap->arena));
    ck_assert_uint_eq(visit(blocks, 2).done, 2);
    graph = unit_end(capture);
    ck_assert_ptr_nonnull(graph);
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(unit_stats(pool).live_count, 0);
    ck_assert_uint_eq(unit_stats(pool).pending_count, 0);
    OK(tarn_graph_destroy(graph));
}

/* Lets other streams have the memory of a block: it goes to the pool's idle memory. */
static void hand_over(void *address)
{
    OK(tarn_free(address));
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_pool_lock(pool);
    ck_assert_uint_eq(tn_arenas_give_idle(pool), 2 * MIB);
    tn_pool_unlock(pool);
}

/* A block of 1.5 MiB of the stream's arena, which has an inbox, between memory of the other one's. */
static void *alloc_enclosed(void)
{
    void *blocks[3];

    for (int i = 0; i < 3; i++)
        blocks[i] = unit_alloc(pool, 2 * MIB, other);
    hand_over(blocks[1]);
    ck_assert_ptr_eq(alloc_shared(3 * MIB / 2), blocks[1]);
    return blocks[1];
}

TEST(threads, an_enclosed_block_takes_the_pools_lock)
{
    void *enclosed = alloc_enclosed();
    void *behind = unit_alloc(pool, 4096, stream);

    ck_assert(free_elsewhere(enclosed));
    ck_assert(free_elsewhere(behind));
    ck_assert_ptr_null(try_allocate(4096));
    ck_assert(is_in_inbox(enclosed) && is_in_inbox(behind));
    ck_assert_ptr_eq(unit_alloc(pool, 2 * MIB, stream), enclosed);
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(unit_stats(pool).live_count, 3);
}

TEST(threads, an_inbox_that_an_enclosed_block_keeps_full_stops_nobody)
{
    enum { BLOCKS = TN_INBOX_PLACES };
    static void *blocks[BLOCKS];
    void *enclosed = alloc_enclosed();

    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = unit_alloc(pool, 512, stream);
    ck_assert(free_elsewhere(enclosed));
    ck_assert_uint_eq(visit(blocks, BLOCKS).done, BLOCKS);
    ck_assert(is_in_inbox(enclosed));
    ck_assert(!is_in_inbox(blocks[BLOCKS - 1])); /* by the lock */
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(unit_stats(pool).live_count, 2);
}

TEST(threads, an_enclosed_block_that_its_user_frees_stays_so_until_then)
{
    void *enclosed = alloc_enclosed();

    ck_assert_ptr_null(try_allocate(2 * MIB)); /* and is the user */
    ck_assert(!tn_steady_free((uint64_t)(uintptr_t)enclosed));
    ck_assert(tn_live_is_open(found(enclosed)));
    ck_assert(free_elsewhere(enclosed));
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(enclosed));
    OK(tarn_pool_validate(pool));
}

/* A pool without a handle goes with its last block, which is no arena's affair. */
TEST(threads, a_released_pools_last_block_ends_it)
{
    void *blocks[] = {alloc_shared(4096), try_allocate(4096)};
    struct tn_arena *arena = found(blocks[0])->heap->arena;

    ck_assert(free_elsewhere(blocks[0]));
    OK(tarn_pool_release(pool));
    ck_assert(!tn_inbox_is_open(arena->inbox));
    ck_assert(!free_elsewhere(blocks[1]));
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_device_end_released(device);
    ck_assert_uint_eq(atomic_load(&pool->magic), 0);
}

TEST(threads, a_pool_goes_with_what_is_in_its_inboxes)
{
    void *block = alloc_shared(4096);
    struct tn_arena *arena = found(block)->heap->arena;
    struct tn_inbox *inbox = arena->inbox;

    ck_assert(free_elsewhere(block));
    OK(tarn_pool_destroy(pool));
    ck_assert(!tn_inbox_is_open(inbox) && tn_inbox_is_empty(inbox));
    ck_assert_ptr_eq(arena->inbox, inbox); /* it stays with the record, for who comes late */
    pool = unit_pool(device);
    block = unit_alloc(pool, 4096, stream);
    ck_assert_ptr_eq(found(block)->heap->arena, arena);
    ck_assert(!tn_inbox_is_open(inbox)); /* nobody has come yet */
    ck_assert(free_elsewhere(block));
    ck_assert(tn_steady_share(arena));
    ck_assert_ptr_eq(arena->inbox, inbox);
    block = try_allocate(4096);
    ck_assert(free_elsewhere(block));
    ck_assert(is_in_inbox(block));
    OK(tarn_pool_validate(pool));
}

/* Of 64 MiB that the pool may have one stream's arena has all, in its inbox. */
TEST(threads, memory_in_an_inbox_serves_other_streams_when_it_is_short)
{
    tarn_pool *limited = unit_pool_of(device, "limited", 64 * MIB);
    void *block = unit_alloc(limited, 48 * MIB, stream);

    ck_assert(tn_steady_share(unit_block(block)->heap->arena));
    ck_assert(free_elsewhere(block));
    ck_assert_ptr_nonnull(unit_alloc(limited, 48 * MIB, other));
    OK(tarn_pool_validate(limited));
    ck_assert_uint_eq(unit_stats(limited).live_count, 1);
}

TEST(threads, an_arena_that_two_threads_share_at_once_has_one_inbox)
{
    void *block = unit_alloc(pool, 4096, stream);
    struct tn_arena *arena = unit_block(block)->heap->arena;

    shared_meanwhile = arena;
    ck_assert(tn_steady_share(arena));
    ck_assert_ptr_null(shared_meanwhile);
    ck_assert(tn_inbox_is_open(arena->inbox));
    ck_assert(free_elsewhere(block));
    ck_assert(is_in_inbox(block));
    OK(tarn_pool_validate(pool));
}

TEST(threads, a_trim_gives_back_what_is_in_an_inbox)
{
    void *block = alloc_shared(8 * MIB);
    size_t freed = 0;

    ck_assert(free_elsewhere(block));
    OK(tarn_pool_trim(pool, &freed));
    ck_assert_uint_ge(freed, 8 * MIB);
    ck_assert_uint_eq(unit_stats(pool).mapped_bytes, 0);
}

TEST(threads, a_checkpoint_does_not_know_what_is_in_an_inbox)
{
    void *blocks[] = {alloc_shared(4096), try_allocate(4096)};
    tarn_checkpoint *checkpoint = NULL;

    ck_assert(free_elsewhere(blocks[0]));
    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, stream, &checkpoint));
    ck_assert_uint_eq(checkpoint->block_count, 1);
    ck_assert(free_elsewhere(blocks[1]));
    OK(tarn_checkpoint_restore(checkpoint, stream, NULL));
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(unit_stats(pool).live_count, 1);
    ck_assert(free_elsewhere(blocks[1])); /* it is plain again */
    ck_assert(is_in_inbox(blocks[1]));
    OK(tarn_checkpoint_destroy(checkpoint));
}
