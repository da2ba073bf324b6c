// SPDX-License-Identifier: Apache-2.0
/* Threads that allocate from one arena in turn. */
#include <pthread.h>
#include <semaphore.h>

#include "driver/idle.h"
#include "heap/magazine.h"
#include "heap/sharing.h"
#include "heap/steady.h"
#include "observe/pool_check.h"
#include "pools/arena_table.h"
#include "unit/one_pool.h"

enum { USER_CHANGES = 16 /* before an arena has magazines */ };

static struct tn_order order;

/* In the steady state; NULL: the pool is to be asked. */
static void *try_allocate(uint64_t bytes)
{
    void *address = NULL;

    return unit_try_alloc(pool, order, bytes, 512, &address) ? address : NULL;
}

/* Another thread, which does one thing after the other. */
static struct helper {
    pthread_t thread;
    sem_t wanted;
    sem_t done;
    void *(*thing)(void *);
    void *argument;
    void *result;
} helper;

static void *help(void *unused)
{
    for (;;) {
        (void)sem_wait(&helper.wanted);
        if (helper.thing == NULL)
            return unused;
        helper.result = helper.thing(helper.argument);
        (void)sem_post(&helper.done);
    }
}

static void start_helper(void)
{
    make_pool();
    order = unit_order(device, stream);
    ck_assert_int_eq(sem_init(&helper.wanted, 0, 0), 0);
    ck_assert_int_eq(sem_init(&helper.done, 0, 0), 0);
    ck_assert_int_eq(pthread_create(&helper.thread, NULL, help, NULL), 0);
}

static void *there(void *(*thing)(void *), void *argument)
{
    helper.thing = thing;
    helper.argument = argument;
    (void)sem_post(&helper.wanted);
    (void)sem_wait(&helper.done);
    return helper.result;
}

static void end_helper(void)
{
    helper.thing = NULL;
    (void)sem_post(&helper.wanted);
    ck_assert_int_eq(pthread_join(helper.thread, NULL), 0);
}

static void *allocate(void *bytes)
{
    return try_allocate((uint64_t)(uintptr_t)bytes);
}

/* NULL: the steady state could not free it. */
static void *free_steadily(void *address)
{
    return tn_steady_free((uint64_t)(uintptr_t)address) ? address : NULL;
}

static void *free_at_all(void *address)
{
    return (void *)(uintptr_t)tarn_free(address);
}

static void *own_magazine(void *magazines)
{
    return tn_magazine_own(magazines);
}

static void *alloc_there(uint64_t bytes)
{
    return there(allocate, (void *)(uintptr_t)bytes);
}

static bool free_there(void *address)
{
    return there(free_steadily, address) == address;
}

static struct tn_block *found(const void *address)
{
    return tn_live_find(pool, (uint64_t)(uintptr_t)address);
}

static bool is_round(const void *address)
{
    const struct tn_block *block = found(address);

    return block != NULL && block->state == TN_BLOCK_LIVE && !tn_live_is_open(block) &&
           (atomic_load(&block->magazine) & TN_MAGAZINE_ROUND) != 0;
}

/* An arena that has magazines, one of them the helper's; all memory is mapped that tests want. */
static struct tn_arena *divide(void)
{
    void *block = unit_alloc(pool, 64 * MIB, stream);
    struct tn_arena *arena = found(block)->heap->arena;
    void *small = unit_alloc(pool, 4096, stream);

    OK(tarn_free(block));
    OK(tarn_free(small));
    ck_assert(tn_steady_divide(arena));
    ck_assert(atomic_load(&arena->magazines_open));
    block = alloc_there(4096); /* finds that it has no magazine */
    ck_assert_ptr_nonnull(block);
    ck_assert(free_there(block));
    ck_assert(is_round(block));
    OK(tarn_pool_validate(pool)); /* empties it */
    ck_assert_ptr_null(found(block));
    return arena;
}

/* A block of the helper's magazine, which is out. */
static void *alloc_of_magazine(uint64_t bytes)
{
    void *block = alloc_there(bytes);

    ck_assert_ptr_nonnull(block);
    ck_assert(free_there(block));
    ck_assert_ptr_eq(alloc_there(bytes), block);
    ck_assert(tn_block_is_of_magazine(found(block)) && !is_round(block));
    return block;
}

SUITE("magazines")
GROUP(arena, start_helper, end_helper, .name = "threads in one arena")

TEST(arena, an_arena_gets_magazines_when_threads_have_allocated_in_turn)
{
    struct tn_arena *arena;
    void *blocks[USER_CHANGES];

    arena = found(unit_alloc(pool, 4096, stream))->heap->arena;
    for (int i = 0; i < USER_CHANGES; i++) {
        ck_assert_ptr_null(arena->magazines);
        blocks[i] = i % 2 == 0 ? alloc_there(4096) : try_allocate(4096);
        ck_assert_ptr_nonnull(blocks[i]);
    }
    ck_assert(arena->divided);
    ck_assert_ptr_nonnull(alloc_there(4096));
    ck_assert(free_there(blocks[0]));
    ck_assert(is_round(blocks[0]));
    ck_assert_ptr_eq(alloc_there(4096), blocks[0]);
    OK(tarn_pool_validate(pool));
}

TEST(arena, one_thread_never_gets_a_magazine)
{
    struct tn_arena *arena = found(unit_alloc(pool, 4096, stream))->heap->arena;

    for (int i = 0; i < 10 * USER_CHANGES; i++)
        OK(tarn_free(unit_alloc(pool, 4096, stream)));
    ck_assert_ptr_null(arena->magazines);
    ck_assert(!arena->divided);
}

static void *allocate_at_all(void *bytes)
{
    return unit_alloc(pool, (size_t)(uintptr_t)bytes, stream);
}

TEST(arena, the_arena_of_a_capture_gets_none)
{
    tarn_capture *capture = unit_begin(pool, stream);
    struct tn_arena *arena = found(unit_alloc(pool, 4096, stream))->heap->arena;

    for (int i = 0; i < 2 * USER_CHANGES; i++) {
        void *block = there(allocate_at_all, (void *)(uintptr_t)4096);

        ck_assert_ptr_eq(found(block)->heap->arena, arena);
        (void)unit_alloc(pool, 4096, stream);
    }
    ck_assert(!arena->divided);
    OK(tarn_capture_abort(capture));
}

TEST(arena, a_thread_gets_back_what_it_has_freed_and_the_arena_knows_nothing)
{
    struct tn_arena *arena = divide();
    void *block = alloc_there(MIB);
    uint64_t sequence = found(block)->sequence;
    const struct tn_heap_counters *counters = &arena->heaps[TN_HEAP_LARGE]->counters;
    uint64_t allocated;

    ck_assert(free_there(block));
    allocated = counters->allocated.count;
    for (int i = 0; i < 300; i++) {
        ck_assert_ptr_eq(alloc_there(MIB), block);
        ck_assert_uint_gt(found(block)->sequence, sequence);
        sequence = found(block)->sequence;
        ck_assert(free_there(block));
        ck_assert(is_round(block));
    }
    ck_assert_uint_eq(counters->allocated.count, allocated);
    ck_assert_uint_eq(counters->freed.count, 0);
    ck_assert_uint_eq(unit_stats(pool).live_count, 0); /* locks the pool */
    OK(tarn_pool_validate(pool));
}

/* Both threads have magazines, and twice as much as was live before is live at a time. */
TEST(arena, counts_are_exact_and_peaks_no_lower_than_the_truth)
{
    struct test_stats before;
    struct test_stats after;
    void *blocks[6];

    (void)divide();
    (void)unit_alloc(pool, 64 * MIB, stream);
    OK(tarn_pool_reserve(pool, 16 * MIB, stream));
    before = unit_stats(pool);
    ck_assert_uint_lt(before.live_peak_bytes, 65 * MIB);
    for (int i = 0; i < 3; i++)
        blocks[i] = alloc_of_magazine(MIB);
    for (int i = 3; i < 6; i++) {
        blocks[i] = unit_alloc(pool, MIB, stream);
        OK(tarn_free(blocks[i]));
        blocks[i] = unit_alloc(pool, MIB, stream);
    }
    ck_assert(free_there(blocks[1]));
    ck_assert(free_there(blocks[4]));
    after = unit_stats(pool);
    ck_assert_uint_eq(after.alloc_count - before.alloc_count, 12);
    ck_assert_uint_eq(after.free_count - before.free_count, 8);
    ck_assert_uint_eq(after.live_bytes, 68 * MIB);
    ck_assert_uint_ge(after.live_peak_bytes, 70 * MIB);
    ck_assert_uint_le(after.live_peak_bytes, 73 * MIB); /* and the rounds that there were */
    OK(tarn_pool_validate(pool));
}

TEST(arena, a_round_is_freed_already)
{
    void *block;

    (void)divide();
    block = alloc_of_magazine(4096);
    ck_assert(free_there(block));
    ck_assert(!free_there(block));
    ck_assert(!tn_steady_free((uint64_t)(uintptr_t)block));
    ck_assert_int_eq((int)(intptr_t)there(free_at_all, block), TARN_ERR_DOUBLE_FREE);
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(block));
    OK(tarn_pool_validate(pool));
}

TEST(arena, another_thread_frees_to_the_magazine_that_a_block_is_of)
{
    struct tn_arena *arena = divide();
    void *block = alloc_of_magazine(4096);

    ck_assert_ptr_null(tn_magazine_own(arena->magazines));
    ck_assert(tn_steady_free((uint64_t)(uintptr_t)block));
    ck_assert(is_round(block));
    ck_assert_ptr_eq(alloc_there(4096), block);
    tn_magazine_claim(arena);
    ck_assert_ptr_nonnull(tn_magazine_own(arena->magazines));
    ck_assert(tn_steady_free((uint64_t)(uintptr_t)block));
    ck_assert_uint_eq(tn_magazine_own(arena->magazines)->count, 0);
    ck_assert_ptr_eq(alloc_there(4096), block);
    OK(tarn_pool_validate(pool));
}

TEST(arena, a_magazine_serves_sizes_and_alignments_that_fit_alone)
{
    void *blocks[4];
    void *larger;
    void *aligned = NULL;

    (void)divide();
    for (int i = 0; i < 4; i++)
        blocks[i] = alloc_there(512);
    for (int i = 0; i < 4; i++)
        ck_assert(free_there(blocks[i]));
    larger = alloc_there(1024);
    ck_assert_ptr_nonnull(larger);
    ck_assert_uint_eq(tn_block_bytes(found(larger)), 1024);
    ck_assert(free_there(larger));
    ck_assert_ptr_eq(alloc_there(512), blocks[3]);
    ck_assert(free_there(blocks[3]));
    ck_assert(unit_try_alloc(pool, order, 512, 1024, &aligned));
    ck_assert_uint_eq((uintptr_t)aligned % 1024, 0);
    OK(tarn_pool_validate(pool));
}

TEST(arena, a_full_magazine_leaves_half_to_the_arena)
{
    void *blocks[TN_MAGAZINE_ROUNDS + 1];
    int rounds = 0;

    (void)divide();
    for (int i = 0; i <= TN_MAGAZINE_ROUNDS; i++)
        blocks[i] = alloc_there(4096);
    for (int i = 0; i <= TN_MAGAZINE_ROUNDS; i++)
        ck_assert(free_there(blocks[i]));
    for (int i = 0; i <= TN_MAGAZINE_ROUNDS; i++)
        rounds += is_round(blocks[i]);
    ck_assert_int_eq(rounds, TN_MAGAZINE_ROUNDS / 2 + 1);
    ck_assert(is_round(blocks[TN_MAGAZINE_ROUNDS]));
    ck_assert(!is_round(blocks[0]));
    for (int i = TN_MAGAZINE_ROUNDS; i >= TN_MAGAZINE_ROUNDS / 2; i--)
        ck_assert_ptr_eq(alloc_there(4096), blocks[i]);
    ck_assert_uint_eq(unit_stats(pool).live_count, TN_MAGAZINE_ROUNDS / 2 + 1);
    OK(tarn_pool_validate(pool));
}

TEST(arena, large_blocks_and_used_ones_are_no_rounds)
{
    void *large;
    void *used;

    (void)divide();
    ck_assert_ptr_nonnull(try_allocate(512)); /* keeps the arena through the trim */
    OK(tarn_pool_trim(pool, NULL));
    large = unit_alloc(pool, 8 * MIB, stream);
    ck_assert(free_there(large));
    ck_assert(!is_round(large));
    ck_assert(!free_there(large));
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(large));
    used = alloc_of_magazine(4096);
    OK(tarn_record_stream(used, other));
    ck_assert(!tn_block_is_of_magazine(found(used)));
    ck_assert(!free_there(used));
    OK(tarn_free(used));
    ck_assert_uint_eq(unit_stats(pool).pending_count, 1);
    OK(tarn_pool_validate(pool));
}

/* Its memory came to lie beside memory of others meanwhile. */
TEST(arena, a_block_that_may_be_a_round_no_more_is_freed_once)
{
    void *block;

    (void)divide();
    block = alloc_of_magazine(MIB);
    found(block)->segment->mixed = true;
    ck_assert(free_there(block));
    ck_assert(!is_round(block));
    ck_assert(!free_there(block));
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(block));
    unit_segment(block)->mixed = false;
    OK(tarn_pool_validate(pool));
}

TEST(arena, no_thread_owns_an_arena_with_magazines)
{
    struct tn_arena *arena = divide();

    for (int i = 0; i < 100; i++) /* none is in the magazine */
        (void)alloc_there(512);
    ck_assert_uint_eq(atomic_load(&arena->user) & TN_ARENA_OWNED, 0);
    OK(tarn_pool_validate(pool));
}

TEST(arena, an_arena_that_one_thread_uses_alone_has_its_magazines_no_more)
{
    struct tn_arena *arena = divide();
    void *kept = alloc_of_magazine(8192);
    int locks = 0;

    for (; arena->divided && locks < 100; locks++) {
        ck_assert(free_there(alloc_of_magazine(4096)));
        OK(tarn_pool_validate(pool));
    }
    ck_assert_int_ge(locks, 4);
    ck_assert_int_lt(locks, 9);
    ck_assert(tn_block_is_of_magazine(found(kept)));
    ck_assert(free_there(kept)); /* without the pool's lock */
    ck_assert(!free_there(kept));
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(kept));
    OK(tarn_pool_validate(pool));
}

TEST(arena, threads_that_take_turns_seldom_have_no_magazines)
{
    struct tn_arena *arena = found(unit_alloc(pool, 4096, stream))->heap->arena;

    for (int i = 0; i < 3 * USER_CHANGES; i++) {
        for (int j = 0; j < 70; j++)
            OK(tarn_free(unit_alloc(pool, 4096, stream)));
        ck_assert(free_there(alloc_there(4096)));
        ck_assert(free_there(alloc_there(4096)));
    }
    ck_assert(!arena->divided);
}

TEST(arena, a_pool_with_checkpoints_has_closed_magazines)
{
    const struct tn_arena *arena = divide();
    void *block = alloc_of_magazine(4096);
    tarn_checkpoint *checkpoint = NULL;

    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, stream, &checkpoint));
    ck_assert(!atomic_load(&arena->magazines_open));
    ck_assert(free_there(block)); /* without the pool's lock */
    OK(tarn_checkpoint_restore(checkpoint, stream, NULL));
    ck_assert(!tn_block_is_of_magazine(found(block)));
    OK(tarn_checkpoint_destroy(checkpoint));
    ck_assert(atomic_load(&arena->magazines_open));
    ck_assert(free_there(block));
    ck_assert(is_round(block));
    OK(tarn_pool_validate(pool));
}

/* Of 66 MiB that the pool may have a magazine has 4. */
TEST(arena, memory_in_a_magazine_serves_others_when_it_is_short)
{
    void *block;

    pool = unit_pool_of(device, "limited", 66 * MIB);
    (void)divide();
    block = alloc_there(4 * MIB);
    ck_assert_ptr_nonnull(block);
    ck_assert(free_there(block));
    ck_assert(is_round(block));
    ck_assert_ptr_nonnull(unit_alloc(pool, 63 * MIB, other));
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(unit_stats(pool).live_count, 1);
}

TEST(arena, a_trim_gives_back_what_is_in_a_magazine)
{
    size_t freed = 0;
    void *block;

    (void)divide();
    block = alloc_there(4 * MIB);
    ck_assert(free_there(block));
    ck_assert(is_round(block));
    OK(tarn_pool_trim(pool, &freed));
    ck_assert_uint_eq(unit_stats(pool).mapped_bytes, 0);
}

TEST(arena, a_magazine_that_nobody_uses_goes_to_another_thread)
{
    enum { CLOSES = 33 };
    struct tn_arena *arena = divide();
    struct tn_magazine *theirs = tn_magazine_any(arena->magazines);
    const atomic_uintptr_t *thread = &arena->magazines->threads[theirs->id - 1];
    struct tn_heap_counters *const counters[] = {&arena->heaps[TN_HEAP_SMALL]->counters,
                                                 &arena->heaps[TN_HEAP_LARGE]->counters};

    for (int i = theirs->unused_closes; i < CLOSES; i++) {
        ck_assert_uint_ne(atomic_load(thread), 0);
        tn_spin_acquire(&theirs->lock);
        tn_magazine_settle(arena->magazines, theirs, counters);
        tn_spin_release(&theirs->lock);
    }
    ck_assert_uint_eq(atomic_load(thread), 0);
    (void)alloc_there(512);
    ck_assert_ptr_eq(there(own_magazine, arena->magazines), theirs); /* it comes again */
    (void)alloc_of_magazine(4096);
    OK(tarn_pool_validate(pool));
}

TEST(arena, a_pool_goes_with_its_rounds_and_its_magazines_stay)
{
    struct tn_arena *arena = divide();
    struct tn_magazines *magazines = arena->magazines;
    void *block = alloc_there(4096);

    ck_assert(free_there(block));
    OK(tarn_pool_destroy(pool));
    ck_assert(!atomic_load(&arena->magazines_open));
    pool = unit_pool(device);
    block = unit_alloc(pool, 4096, stream);
    ck_assert_ptr_eq(found(block)->heap->arena, arena);
    ck_assert_ptr_eq(arena->magazines, magazines);
    ck_assert(!atomic_load(&arena->magazines_open)); /* few have come yet */
    ck_assert(free_there(block));
    ck_assert(!is_round(block));
    ck_assert(tn_steady_divide(arena));
    ck_assert_ptr_eq(arena->magazines, magazines);
    (void)alloc_of_magazine(4096);
    OK(tarn_pool_validate(pool));
}

TEST(arena, without_memory_for_magazines_all_goes_on_as_before)
{
    void *block = unit_alloc(pool, 4096, stream);
    struct tn_arena *arena = found(block)->heap->arena;

    (void)tn_host_plan_fault(1, true);
    for (int i = 0; i < 3 * USER_CHANGES; i++) {
        void *next = i % 2 == 0 ? alloc_there(4096) : try_allocate(4096);

        ck_assert_ptr_nonnull(next);
        ck_assert(i % 2 == 0 ? free_there(next) : tn_steady_free((uint64_t)(uintptr_t)next));
    }
    (void)tn_host_plan_fault(0, false);
    ck_assert_ptr_null(arena->magazines);
    OK(tarn_pool_validate(pool));
}

/* P37 */
TEST(arena, a_magazine_of_a_locked_pool_that_is_open_or_has_a_round_is_found)
{
    struct tn_arena *arena = divide();
    struct tn_magazine *magazine = tn_magazine_any(arena->magazines);

    OK(tarn_pool_validate(pool));
    tn_pool_lock(pool);
    atomic_store(&arena->magazines_open, true);
    STATUS(TARN_ERR_CORRUPT, tn_pool_check(pool));
    unit_expect_sentence("P37");
    atomic_store(&arena->magazines_open, false);
    magazine->count = 1;
    STATUS(TARN_ERR_CORRUPT, tn_pool_check(pool));
    unit_expect_sentence("P37");
    magazine->count = 0;
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
}

static struct tn_arena *claimed;
static pthread_barrier_t all_there;

static void *claim_one(void *place)
{
    (void)pthread_barrier_wait(&all_there);
    tn_magazine_claim(claimed);
    *(struct tn_magazine **)place = tn_magazine_own(claimed->magazines);
    (void)pthread_barrier_wait(&all_there);
    return NULL;
}

TEST(arena, no_two_threads_have_one_magazine)
{
    enum { THREADS = 80 };
    static struct tn_magazine *magazines[THREADS];
    static pthread_t threads[THREADS];
    int count = 0;

    claimed = divide();
    ck_assert_int_eq(pthread_barrier_init(&all_there, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, claim_one, &magazines[i]), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        count += magazines[i] != NULL;
        for (int j = 0; j < i; j++)
            ck_assert(magazines[i] == NULL || magazines[i] != magazines[j]);
    }
    ck_assert_int_gt(count, TN_MAGAZINES / 2);
    ck_assert_int_lt(count, TN_MAGAZINES); /* one is the helper's */
}
