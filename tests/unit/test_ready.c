// SPDX-License-Identifier: Apache-2.0
#include "vmm/ready.h"

#include <pthread.h>

#include "unit/unit.h"
#include "vmm/address_table.h"

static struct tn_gpu gpu;
static struct tn_registered registered;
static struct tn_ready ready;
static tarn_sim_ledger before;
static int64_t outstanding;

static void open_ready(void)
{
    unit_gpu(&gpu);
    outstanding = tn_host_outstanding();
    before = test_ledger();
    OK(tn_registered_init(&registered, &gpu, 2));
    tn_ready_init(&ready, &registered);
}

static void close_ready(void)
{
    tn_ready_fini(&ready);
    tn_registered_fini(&registered);
    ck_assert_uint_eq(test_ledger().host_registrations, before.host_registrations);
    ck_assert_int_eq(tn_host_outstanding(), outstanding);
    tn_gpu_close(&gpu);
}

static void expect(size_t here, size_t out)
{
    ck_assert_uint_eq(tn_ready_bytes(&ready), here * TN_HOST_PIECE_BYTES);
    ck_assert_uint_eq(ready.out_count, out);
    ck_assert_uint_eq(test_ledger().host_registrations, before.host_registrations + here + out);
    OK(tn_ready_check(&ready));
    OK(tn_host_regions_check(&registered.regions));
    ck_assert(tn_lock_none_held());
}

static uint64_t take(void)
{
    uint64_t base = 0;

    ck_assert(tn_ready_take(&ready, &base));
    return base;
}

GROUP(ready, open_ready, close_ready)

TEST(ready, pieces_are_ready_taken_and_given)
{
    uint64_t bases[3];
    uint64_t none = 7;

    ck_assert(!tn_ready_take(&ready, &none));
    ck_assert_uint_eq(none, 7);
    OK(tn_ready_fill(&ready, 3));
    OK(tn_ready_fill(&ready, 2));
    expect(3, 0);
    for (int i = 0; i < 3; i++) {
        bases[i] = take();
        memset((void *)(uintptr_t)bases[i], i, TN_HOST_PIECE_BYTES);
    }
    expect(0, 3);
    ck_assert(!tn_ready_take(&ready, &none));
    ck_assert_uint_ne(bases[0], bases[1]);
    for (int i = 0; i < 3; i++)
        tn_ready_give(&ready, bases[i]);
    expect(3, 0);
    ck_assert_uint_eq(take(), bases[2]); /* the last first */
    tn_ready_give(&ready, bases[2]);
}

TEST(ready, no_piece_is_beside_another)
{
    uint64_t first;
    uint64_t second;

    OK(tn_ready_fill(&ready, 2));
    first = take();
    second = take();
    ck_assert_uint_eq(first % TN_SLOT_BYTES, 0);
    ck_assert_uint_eq(second % TN_SLOT_BYTES, 0);
    ck_assert_uint_eq(tn_host_regions_end_of(&registered.regions, first), first + 16 * MIB);
    tn_ready_give(&ready, first);
    tn_ready_give(&ready, second);
}

TEST(ready, pieces_are_taken_and_given_under_a_lock_without_the_driver)
{
    struct tn_lock lock = TN_LOCK_INIT(TN_RANK_POOL);
    uint64_t base;

    OK(tn_ready_fill(&ready, 1));
    sim.plan_fault(NULL, 1, 1, TN_CUDA_ERROR_UNKNOWN);
    tn_lock_acquire(&lock);
    base = take();
    tn_ready_give(&ready, base);
    tn_lock_release(&lock);
    ck_assert_uint_eq(sim.clear_fault(NULL), 0);
}

TEST(ready, a_trim_gives_the_oldest_back)
{
    uint64_t kept;

    OK(tn_ready_fill(&ready, 3));
    kept = take();
    tn_ready_give(&ready, kept);
    ck_assert_uint_eq(tn_ready_trim(&ready, 1), 32 * MIB);
    expect(1, 0);
    ck_assert_uint_eq(take(), kept);
    tn_ready_give(&ready, kept);
    ck_assert_uint_eq(tn_ready_trim(&ready, 1), 0);
    ck_assert_uint_eq(tn_ready_trim(&ready, 0), 16 * MIB);
    expect(0, 0);
    OK(tn_ready_fill(&ready, 4)); /* addresses come again */
    expect(4, 0);
}

TEST(ready, a_refused_piece_leaves_those_before_it)
{
    sim.plan_fault("cuMemHostRegister", 3, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_HOST_MEMORY, tn_ready_fill(&ready, 4));
    expect(2, 0);
    OK(tn_ready_fill(&ready, 4));
    expect(4, 0);
}

TEST(ready, host_memory_that_is_refused_leaves_nothing)
{
    for (uint64_t nth = 1;; nth++) {
        tarn_status status;

        (void)tn_host_plan_fault(nth, false);
        status = tn_ready_fill(&ready, 1);
        if (tn_host_plan_fault(0, false) == 0) {
            OK(status);
            break;
        }
        if (status == TARN_OK) /* the team does without threads */
            (void)tn_ready_trim(&ready, 0);
        expect(0, 0);
    }
    expect(1, 0);
}

static void *take_and_give(void *argument)
{
    for (int i = 0; i < 200; i++) {
        uint64_t base;

        if (!tn_ready_take(&ready, &base)) {
            OK(tn_ready_fill(&ready, 2));
            continue;
        }
        *(int *)(uintptr_t)base = i;
        ck_assert_int_eq(*(int *)(uintptr_t)base, i); /* nobody else has it */
        tn_ready_give(&ready, base);
        if (i % 50 == 0)
            (void)tn_ready_trim(&ready, 1);
    }
    return argument;
}

TEST(ready, threads_take_fill_and_trim_at_a_time)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_and_give, NULL), 0);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    OK(tn_ready_check(&ready));
    ck_assert_uint_eq(ready.out_count, 0);
}

TEST(ready, the_broken_invariant_is_named)
{
    OK(tn_ready_fill(&ready, 1));
    ready.bases[0] += TN_SLOT_BYTES;
    STATUS(TARN_ERR_CORRUPT, tn_ready_check(&ready));
    unit_expect_sentence("invariant V12 ");
    ready.bases[0] -= TN_SLOT_BYTES;
}

CONTRACT_TEST(ready, nobody_fills_it_under_a_lock)
{
    struct tn_lock lock = TN_LOCK_INIT(TN_RANK_POOL);

    tn_lock_acquire(&lock);
    OK(tn_ready_fill(&ready, 1));
}

CONTRACT_TEST(ready, nobody_trims_it_under_a_lock)
{
    struct tn_lock lock = TN_LOCK_INIT(TN_RANK_POOL);

    tn_lock_acquire(&lock);
    (void)tn_ready_trim(&ready, 0);
}
