// SPDX-License-Identifier: Apache-2.0
#include "driver/idle.h"
#include "support/world.h"
#include "claims/check.h"
#include "unit/unit.h"

static tarn_device *device;
static struct tn_streams *streams;
static tn_cu_stream stream;
static uint64_t id;
static void *memory; /* for work */
static tarn_sim_ledger before;

static void open_table(void)
{
    device = unit_device();
    streams = &device->streams;
    stream = test_stream();
    id = unit_order(device, stream).stream_id;
    memory = test_linear_alloc(4096);
    before = test_ledger();
}

static struct tn_known_stream *note(void)
{
    struct tn_known_stream *known = NULL;

    OK(tn_streams_note(streams, stream, id, &known));
    OK(tn_streams_check(streams));
    return known;
}

static struct tn_fence *enter_fence(struct tn_known_stream *known)
{
    struct tn_fence *fence = tn_streams_enter_fence(streams, known);

    OK(tn_streams_check(streams));
    return fence;
}

static void release(struct tn_fence *fence)
{
    tn_fence_release(streams, fence);
    OK(tn_streams_check(streams));
}

static void poll(void)
{
    tn_streams_poll(streams);
    OK(tn_streams_check(streams));
}

static int state(const struct tn_fence *fence)
{
    return atomic_load(&fence->state);
}

static struct tn_fence *free_one(void)
{
    return enter_fence(note());
}

static struct tn_fence *retire(bool keep)
{
    struct tn_fence *fence;

    OK(tn_streams_retire_prepare(streams, stream, id, &fence));
    if (keep)
        tn_fence_acquire(streams, fence);
    tn_streams_retire_commit(streams, fence);
    OK(tn_streams_check(streams));
    return fence;
}

SUITE("stream table")
GROUP(fences, open_table)

TEST(fences, a_stream_is_known_from_its_first_use_to_its_last)
{
    struct tn_known_stream *known = note();
    struct tn_fence *fence;

    ck_assert_ptr_eq(note(), known);
    ck_assert_uint_eq(known->noted_count, 2);
    ck_assert_uint_eq(known->reserve_count, 2);
    ck_assert_uint_eq(test_ledger().events, before.events + 2);
    tn_streams_unnote(streams, known);
    fence = enter_fence(known);
    ck_assert_ptr_eq(streams->table.known, known);
    release(fence);
    ck_assert_ptr_null(streams->table.known);
    ck_assert_uint_eq(streams->known_count, 0);
    test_same_ledger(&before);
}

TEST(fences, a_reference_keeps_a_stream_known)
{
    struct tn_known_stream *known = note();
    bool noted = false;

    tn_streams_acquire(streams, known);
    tn_streams_unnote(streams, known);
    test_same_ledger(&before); /* nothing is set aside for it */
    OK(tn_streams_copy_note(streams, known, &noted));
    ck_assert(noted);
    release(enter_fence(known));
    tn_streams_release(streams, known);
    ck_assert_ptr_null(streams->table.known);
    test_same_ledger(&before);
}

TEST(fences, the_first_free_is_recorded_and_later_ones_share_the_next_event)
{
    uint64_t records = sim.call_count("cuEventRecord");
    struct tn_fence *fences[10];

    sim.hold_work();
    test_fill(stream, memory, 1, 16);
    for (int i = 0; i < 10; i++)
        fences[i] = free_one();
    ck_assert_int_eq(state(fences[0]), TN_FENCE_RECORDED);
    for (int i = 1; i < 10; i++)
        ck_assert_ptr_eq(fences[i], fences[1]);
    ck_assert_int_eq(state(fences[1]), TN_FENCE_OPEN);
    ck_assert_uint_eq(sim.call_count("cuEventRecord") - records, 1);
    poll();
    ck_assert_int_eq(state(fences[1]), TN_FENCE_RECORDED);
    ck_assert_uint_eq(sim.call_count("cuEventRecord") - records, 2);
    ck_assert(!tn_fence_is_done(streams, fences[0]));
    sim.resume_work();
    test_synchronize(stream);
    poll();
    for (int i = 0; i < 10; i++) {
        ck_assert(tn_fence_is_done(streams, fences[i]));
        release(fences[i]);
    }
    ck_assert_ptr_null(streams->table.known);
}

TEST(fences, a_flush_says_whether_the_fence_has_an_event_to_wait_for)
{
    struct tn_fence *fences[3];

    sim.hold_work();
    test_fill(stream, memory, 1, 16);
    for (int i = 0; i < 2; i++)
        fences[i] = free_one();
    ck_assert_int_eq(state(fences[1]), TN_FENCE_OPEN);
    ck_assert(tn_fence_flush(streams, fences[1]));
    ck_assert_int_eq(state(fences[1]), TN_FENCE_RECORDED);
    sim.plan_fault("cuEventRecord", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    fences[2] = free_one();
    ck_assert(!tn_fence_flush(streams, fences[2]));
    sim.resume_work();
    test_synchronize(stream);
    poll();
    ck_assert_int_eq(state(fences[0]), TN_FENCE_DONE);
    ck_assert(tn_fence_flush(streams, fences[0]));
    for (int i = 0; i < 3; i++)
        release(fences[i]);
}

TEST(fences, an_event_covers_64_frees_at_most)
{
    struct tn_fence *fences[1 + 64 + 1];

    sim.hold_work();
    test_fill(stream, memory, 1, 16);
    for (int i = 0; i < 66; i++)
        fences[i] = free_one();
    ck_assert_ptr_eq(fences[64], fences[1]);
    ck_assert_int_eq(state(fences[1]), TN_FENCE_RECORDED);
    ck_assert_ptr_ne(fences[65], fences[1]);
    ck_assert_int_eq(state(fences[65]), TN_FENCE_OPEN);
    sim.resume_work();
    for (int i = 0; i < 66; i++)
        release(fences[i]);
    ck_assert_ptr_null(streams->table.known);
}

/* Three are recorded, and one is open. _i: the order in which they go. */
TEST_LOOP(fences, fences_go_in_any_order, 0, 24)
{
    struct tn_fence *frees[1 + 64 + 64 + 1];
    struct tn_fence *fences[4];
    struct tn_fence *next;
    int order = _i;

    sim.hold_work();
    test_fill(stream, memory, 1, 16);
    for (int i = 0; i < 130; i++)
        frees[i] = free_one();
    for (int i = 0; i < 4; i++)
        fences[i] = frees[i == 0 ? 0 : 64 * i - 63];
    ck_assert_int_eq(state(fences[2]), TN_FENCE_RECORDED);
    ck_assert_int_eq(state(fences[3]), TN_FENCE_OPEN);
    ck_assert_ptr_eq(streams->table.known->first_open, fences[3]);
    for (int left = 4; left > 0; left--) {
        int at = order % left;

        order /= left;
        for (int i = 0; i < 130; i++) {
            if (frees[i] == fences[at])
                release(fences[at]);
        }
        fences[at] = fences[left - 1];
        OK(tn_streams_check(streams)); /* P12 */
        next = free_one();
        OK(tn_streams_check(streams));
        release(next);
        OK(tn_streams_check(streams));
    }
    sim.resume_work();
    ck_assert_ptr_null(streams->table.known);
}

TEST(fences, only_the_oldest_fence_of_a_stream_is_asked_after)
{
    struct tn_fence *fences[4];
    uint64_t queries;

    sim.hold_work();
    test_fill(stream, memory, 1, 16);
    for (int i = 0; i < 4; i++) {
        fences[i] = free_one();
        poll();
    }
    queries = sim.call_count("cuEventQuery");
    poll();
    ck_assert_uint_eq(sim.call_count("cuEventQuery") - queries, 1);
    sim.resume_work();
    test_synchronize(stream);
    poll();
    ck_assert_uint_eq(sim.call_count("cuEventQuery") - queries, 1 + 4);
    for (int i = 0; i < 4; i++)
        release(fences[i]);
}

TEST(fences, a_later_fence_that_is_done_ends_one_that_the_driver_refused)
{
    struct tn_fence *refused;
    struct tn_fence *later;

    sim.plan_fault("cuEventRecord", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    refused = free_one();
    ck_assert_int_eq(state(refused), TN_FENCE_UNKNOWN);
    later = free_one();
    poll();
    ck_assert_int_eq(state(later), TN_FENCE_DONE);
    ck_assert_int_eq(state(refused), TN_FENCE_DONE);
    release(refused);
    release(later);
}

TEST(fences, frees_after_a_wait_began_are_in_another_fence_than_those_before)
{
    struct tn_fence *first;
    struct tn_fence *second;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    first = free_one();
    ck_assert_int_eq(state(first), TN_FENCE_OPEN); /* the stream takes no event now */
    ck_assert_ptr_eq(free_one(), first);
    OK(tn_gpu_wait_idle(&device->gpu));
    second = free_one();
    ck_assert_ptr_ne(second, first);
    ck_assert(tn_fence_is_done(streams, first));
    ck_assert(!tn_fence_is_done(streams, second));
    poll();
    ck_assert_int_eq(state(first), TN_FENCE_DONE);
    ck_assert_int_eq(state(second), TN_FENCE_OPEN);
    test_destroy_graph(test_end_capture(stream));
    poll();
    ck_assert_int_ne(state(second), TN_FENCE_OPEN);
    release(first);
    release(first);
    release(second);
    ck_assert_ptr_null(streams->table.known);
}

TEST(fences, fences_are_released_in_any_order_and_state)
{
    struct tn_fence *fences[4];

    sim.hold_work();
    test_fill(stream, memory, 1, 16);
    for (int i = 0; i < 4; i++) {
        fences[i] = free_one();
        if (i < 3)
            poll();
    }
    ck_assert_int_eq(state(fences[3]), TN_FENCE_OPEN);
    release(fences[1]);
    release(fences[3]);
    release(fences[0]);
    ck_assert_ptr_eq(streams->table.known->first, fences[2]);
    ck_assert_ptr_eq(streams->table.known->last, fences[2]);
    release(fences[2]);
    ck_assert_ptr_null(streams->table.known);
    sim.resume_work();
}

TEST(fences, a_lost_device_has_done_everything)
{
    struct tn_fence *fence;

    sim.hold_work();
    test_fill(stream, memory, 1, 16);
    fence = free_one();
    tn_gpu_teardown(&device->gpu, TN_CUDA_ERROR_LAUNCH_FAILED, "cuMemFree");
    ck_assert(tn_fence_is_done(streams, fence));
    poll();
    release(fence);
    ck_assert_ptr_null(streams->table.known);
    sim.resume_work();
}

static struct tn_known_stream *elsewhere_noted;
static struct tn_fence *elsewhere_joined;

static void note_own(void *argument)
{
    struct tn_stream_state look;

    (void)argument;
    OK(tn_stream_look(&device->gpu, TN_CU_STREAM_PER_THREAD, TN_STREAM_GRAPH, &look));
    OK(tn_streams_note(streams, TN_CU_STREAM_PER_THREAD, look.order.stream_id, &elsewhere_noted));
}

static void note_and_join_own(void *argument)
{
    note_own(argument);
    elsewhere_joined = tn_streams_enter_fence(streams, elsewhere_noted);
}

GROUP(threads, open_table, .name = "per-thread streams")

TEST(threads, a_per_thread_default_stream_is_recorded_on_its_own_thread)
{
    test_elsewhere(note_and_join_own, NULL);
    ck_assert_int_eq(state(elsewhere_joined), TN_FENCE_RECORDED);
    release(elsewhere_joined);
    ck_assert_ptr_null(streams->table.known);
}

TEST(threads, a_per_thread_default_stream_of_another_thread_is_proven_by_a_wait_alone)
{
    uint64_t records = sim.call_count("cuEventRecord");
    struct tn_fence *fence;

    test_elsewhere(note_own, NULL);
    fence = enter_fence(elsewhere_noted);
    poll();
    ck_assert_int_eq(state(fence), TN_FENCE_OPEN);
    ck_assert_uint_eq(sim.call_count("cuEventRecord"), records);
    ck_assert(!tn_fence_is_done(streams, fence));
    OK(tn_gpu_wait_idle(&device->gpu));
    ck_assert(tn_fence_is_done(streams, fence));
    poll();
    release(fence);
}

static void note_refused(void *unused)
{
    struct tn_known_stream *known = NULL;
    struct tn_fence *fence = NULL;

    (void)unused;
    sim.plan_fault("cuEventCreate", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_streams_note(streams, stream, id, &known));
    STATUS(TARN_ERR_DRIVER, tn_streams_retire_prepare(streams, stream, id, &fence));
    ck_assert_uint_gt(sim.clear_fault(NULL), 0);
}

GROUP(retiring, open_table)

TEST(retiring, a_refused_call_of_another_thread_leaves_the_stream_to_its_own)
{
    struct tn_known_stream *known = note();
    struct tn_fence *fence;

    test_elsewhere(note_refused, NULL);
    ck_assert_uint_eq(known->thread, tn_thread_id());
    fence = enter_fence(known);
    test_synchronize(stream);
    poll();
    ck_assert_int_eq(state(fence), TN_FENCE_DONE);
    release(fence);
    test_same_ledger(&before);
}

TEST(retiring, retiring_an_unknown_stream_leaves_nothing)
{
    uint64_t records = sim.call_count("cuEventRecord");

    (void)retire(false);
    ck_assert_ptr_null(streams->table.known);
    ck_assert_uint_eq(sim.call_count("cuEventRecord"), records); /* nobody would wait for it */
    test_same_ledger(&before);
}

TEST(retiring, a_retired_streams_uses_wait_for_the_work_until_then)
{
    struct tn_known_stream *known = note();
    struct tn_fence *retired;
    struct tn_fence *fence;
    uint64_t records;

    sim.hold_work();
    test_fill(stream, memory, 1, 16);
    retired = retire(true);
    ck_assert_uint_eq(known->reserve_count, 0);
    records = sim.call_count("cuEventRecord");
    fence = enter_fence(known);
    ck_assert_ptr_eq(fence, retired);
    ck_assert(!tn_fence_is_done(streams, fence));
    sim.resume_work();
    test_synchronize(stream);
    poll();
    ck_assert(tn_fence_is_done(streams, fence));
    ck_assert_uint_eq(sim.call_count("cuEventRecord"), records);
    release(fence);
    release(retired);
    ck_assert_ptr_null(streams->table.known);
    test_same_ledger(&before);
}

TEST(retiring, retiring_records_what_is_open)
{
    struct tn_fence *first;
    struct tn_fence *second;

    sim.hold_work();
    test_fill(stream, memory, 1, 16);
    first = free_one();
    second = free_one();
    ck_assert_int_eq(state(second), TN_FENCE_OPEN);
    (void)retire(false);
    ck_assert_int_eq(state(second), TN_FENCE_RECORDED);
    sim.resume_work();
    test_synchronize(stream);
    poll();
    ck_assert_int_eq(state(second), TN_FENCE_DONE);
    release(first);
    release(second);
    ck_assert_ptr_null(streams->table.known);
}

TEST(retiring, a_stream_used_again_is_another_one_than_the_retired)
{
    struct tn_known_stream *known = note();
    struct tn_known_stream *again;
    bool noted = true;

    (void)retire(false);
    ck_assert(!tn_streams_name(streams, known));
    OK(tn_streams_copy_note(streams, known, &noted));
    ck_assert(!noted);
    again = note();
    ck_assert_ptr_ne(again, known);
    ck_assert(tn_streams_name(streams, again));
    tn_streams_unnote(streams, again);
    tn_streams_unnote(streams, known);
    ck_assert_ptr_null(streams->table.known);
    test_same_ledger(&before);
}

TEST(retiring, a_retirement_whose_event_is_refused_is_proven_by_a_wait)
{
    struct tn_known_stream *known = note();
    struct tn_fence *fence;

    sim.plan_fault("cuEventRecord", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    fence = retire(true);
    ck_assert_int_eq(state(fence), TN_FENCE_UNKNOWN);
    poll();
    ck_assert(!tn_fence_is_done(streams, fence));
    OK(tn_gpu_wait_idle(&device->gpu));
    ck_assert(tn_fence_is_done(streams, fence));
    release(fence);
    tn_streams_unnote(streams, known);
    ck_assert_ptr_null(streams->table.known);
    test_same_ledger(&before);
}

TEST(retiring, a_retirement_that_cannot_be_prepared_changes_nothing)
{
    struct tn_fence *fence;

    for (uint64_t nth = 1; nth <= 2; nth++) {
        (void)tn_host_plan_fault(nth, false);
        STATUS(TARN_ERR_HOST_MEMORY, tn_streams_retire_prepare(streams, stream, id, &fence));
    }
    sim.plan_fault("cuEventCreate", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_streams_retire_prepare(streams, stream, id, &fence));
    ck_assert_ptr_null(streams->table.known);
    test_same_ledger(&before);
}

/* Another thread begins to capture the stream right after the event was recorded. */
TEST(fences, an_event_that_may_have_gone_into_a_capture_is_not_asked_after)
{
    struct tn_fence *fence;
    uint64_t queries = sim.call_count("cuEventQuery");

    sim.plan_fault("cuStreamIsCapturing", 2, 0, TN_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    fence = free_one();
    ck_assert_uint_eq(sim.clear_fault(NULL), 1);
    ck_assert_int_eq(state(fence), TN_FENCE_UNKNOWN);
    poll();
    ck_assert_uint_eq(sim.call_count("cuEventQuery"), queries);
    OK(tn_gpu_wait_idle(&device->gpu));
    ck_assert(tn_fence_is_done(streams, fence));
    release(fence);
}

TEST(retiring, a_stream_that_captures_while_it_is_retired_is_proven_by_a_wait)
{
    struct tn_known_stream *known = note();
    struct tn_fence *retired;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    retired = retire(true);
    ck_assert_int_eq(state(retired), TN_FENCE_UNKNOWN);
    ck_assert_int_eq(test_capture_status(stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_destroy_graph(test_end_capture(stream));
    poll();
    ck_assert(!tn_fence_is_done(streams, retired));
    OK(tn_gpu_wait_idle(&device->gpu));
    ck_assert(tn_fence_is_done(streams, retired));
    release(retired);
    tn_streams_unnote(streams, known);
    ck_assert_ptr_null(streams->table.known);
}

TEST(fences, the_check_names_what_is_broken)
{
    struct tn_known_stream *known = note();
    struct tn_fence *fence;

    known->noted_count += 1;
    STATUS(TARN_ERR_CORRUPT, tn_streams_check(streams));
    unit_expect_sentence("invariant P11 ");
    known->noted_count -= 1;
    fence = enter_fence(known);
    atomic_store(&fence->state, TN_FENCE_DONE);
    STATUS(TARN_ERR_CORRUPT, tn_streams_check(streams));
    unit_expect_sentence("invariant P12 ");
    unit_expect_sentence(" is in state ");
    atomic_store(&fence->state, TN_FENCE_RECORDED);
    known->first_open = fence;
    STATUS(TARN_ERR_CORRUPT, tn_streams_check(streams));
    unit_expect_sentence(" first fence that is OPEN ");
    known->first_open = NULL;
    fence->previous = fence;
    STATUS(TARN_ERR_CORRUPT, tn_streams_check(streams));
    unit_expect_sentence(" is in state ");
    fence->previous = NULL;
    fence->next = fence;
    STATUS(TARN_ERR_CORRUPT, tn_streams_check(streams));
    unit_expect_sentence(" is in state ");
    fence->next = NULL;
    streams->known_count += 1;
    STATUS(TARN_ERR_CORRUPT, tn_streams_check(streams));
    unit_expect_sentence("invariant P12 ");
    streams->known_count -= 1;
    streams->table.known->ref_count -= 1;
    STATUS(TARN_ERR_CORRUPT, tn_streams_check(streams));
    unit_expect_sentence("references");
    streams->table.known->ref_count += 1;
    stream = test_stream(); /* what is wrong is the first of two: the count is not */
    id = unit_order(device, stream).stream_id;
    known = note();
    ck_assert_ptr_eq(streams->table.known, known);
    known->ref_count -= 1;
    STATUS(TARN_ERR_CORRUPT, tn_streams_check(streams));
    unit_expect_sentence("references");
    known->ref_count += 1;
    tn_streams_unnote(streams, known);
    release(fence);
}
