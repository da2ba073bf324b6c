// SPDX-License-Identifier: Apache-2.0
/* Words by which streams of two processes order leases. Both ends are in this process. */
#include <unistd.h>

#include "share/handoff.h"
#include "support/gate.h"
#include "unit/unit.h"

enum { SLOTS = 1000 };

static struct tn_gpu *gpu;
static struct tn_handoff producer;
static struct tn_handoff consumer;
static tn_cu_stream stream;
static tn_cu_stream other;
static struct test_gate gate;

static void make_both(void)
{
    int descriptor;

    gpu = &unit_device()->gpu;
    stream = test_stream();
    other = test_stream();
    OK(tn_handoff_make_own(gpu, SLOTS, &producer));
    OK(tn_handoff_make(gpu, SLOTS, &producer, &descriptor));
    OK(tn_handoff_open(gpu, SLOTS, &consumer, descriptor));
    OK(tn_handoff_make_own(gpu, SLOTS, &consumer));
    ck_assert_int_eq(close(descriptor), 0);
}

static void end_both(void)
{
    test_synchronize(stream);
    test_synchronize(other);
    tn_handoff_fini(gpu, &producer);
    tn_handoff_fini(gpu, &consumer);
    ck_assert_uint_eq(producer.both.address + producer.own.address, 0);
}

SUITE("handoffs")
GROUP(handoffs, make_both, end_both)

TEST(handoffs, a_word_comes_behind_the_work_of_its_stream)
{
    test_gate_close(&gate, stream);
    OK(tn_handoff_write(gpu, &producer, stream, TN_HANDOFF_BEGINS, SLOTS - 1, 3, 1));
    OK(tn_handoff_wait(gpu, &consumer, other, SLOTS - 1, 3));
    ck_assert(!tn_handoff_is_told(&consumer, TN_HANDOFF_BEGINS, SLOTS - 1, 3));
    ck_assert(!tn_handoff_has_passed(gpu, &producer, SLOTS - 1, 1));
    ck_assert(test_is_at_work(other));
    test_gate_open(&gate);
    test_synchronize(other);
    ck_assert(tn_handoff_is_told(&consumer, TN_HANDOFF_BEGINS, SLOTS - 1, 3));
    ck_assert(!tn_handoff_is_told(&consumer, TN_HANDOFF_BEGINS, SLOTS - 1, 4));
    ck_assert(!tn_handoff_is_told(&consumer, TN_HANDOFF_ENDS, SLOTS - 1, 1));
    ck_assert(!tn_handoff_is_told(&consumer, TN_HANDOFF_BEGINS, SLOTS - 2, 1));
    test_synchronize(stream);
    ck_assert(tn_handoff_has_passed(gpu, &producer, SLOTS - 1, 1));
}

/* L6: a process asks nobody else whether its own stream is done. */
TEST(handoffs, what_the_other_process_says_is_no_proof)
{
    test_gate_close(&gate, stream);
    OK(tn_handoff_write(gpu, &consumer, stream, TN_HANDOFF_ENDS, 0, 1, 1));
    tn_handoff_finish(&producer, 0, TN_SHARE_GENERATION_MAX); /* L7 */
    OK(tn_handoff_write(gpu, &producer, other, TN_HANDOFF_ENDS, 0, 7, 1));
    test_synchronize(other);
    ck_assert(tn_handoff_is_told(&consumer, TN_HANDOFF_ENDS, 0, 7));
    ck_assert(!tn_handoff_has_passed(gpu, &consumer, 0, 1));
    test_gate_open(&gate);
    test_synchronize(stream);
    ck_assert(tn_handoff_has_passed(gpu, &consumer, 0, 1));
}

TEST(handoffs, writes_of_a_slot_come_in_order_whatever_their_streams)
{
    test_gate_close(&gate, stream);
    OK(tn_handoff_write(gpu, &consumer, stream, TN_HANDOFF_ENDS, 5, 0, 1));
    OK(tn_handoff_write(gpu, &consumer, other, TN_HANDOFF_ENDS, 5, 2, 2));
    test_gate_linger();
    ck_assert(!tn_handoff_is_told(&producer, TN_HANDOFF_ENDS, 5, 2));
    test_gate_open(&gate);
    test_synchronize(other);
    ck_assert(tn_handoff_is_told(&producer, TN_HANDOFF_ENDS, 5, 2));
}

TEST(handoffs, a_processor_ends_the_waits_for_a_dead_producer)
{
    OK(tn_handoff_wait(gpu, &consumer, stream, 9, 4));
    ck_assert(test_is_at_work(stream));
    tn_handoff_finish(&consumer, 9, 4);
    test_synchronize(stream);
    tn_handoff_finish(&consumer, 9, 3); /* a word does not fall */
    ck_assert(tn_handoff_is_told(&consumer, TN_HANDOFF_BEGINS, 9, 4));
}

TEST(handoffs, a_stream_that_is_captured_is_refused)
{
    OK(tn_handoff_admit(gpu, stream));
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    REFUSE(TARN_ERR_WRONG_STATE, "captured", tn_handoff_admit(gpu, stream));
    test_drop_capture(stream);
}

TEST(handoffs, memory_that_cannot_be_had_leaves_nothing)
{
    struct tn_handoff made = {.both = {.address = 0}};
    const tarn_sim_ledger before = test_ledger();
    const char *const calls[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess",
                                 "cuMemExportToShareableHandle"};

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        int descriptor = -1;

        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
        ck_assert_int_ne(tn_handoff_make(gpu, SLOTS, &made, &descriptor), TARN_OK);
        ck_assert_uint_eq(made.both.address, 0);
        ck_assert_int_eq(descriptor, -1);
        test_same_ledger(&before);
    }
}
