// SPDX-License-Identifier: Apache-2.0
#include "support/world.h"
#include "unit/unit.h"

static struct tn_gpu gpu;
static tn_cu_stream stream;
static tn_cu_stream other;

static void open_gpu(void)
{
    unit_gpu(&gpu);
    stream = test_stream();
    other = test_stream();
}

static struct tn_stream_state look(tn_cu_stream at)
{
    struct tn_stream_state state;

    OK(tn_stream_look(&gpu, at, TN_STREAM_GRAPH, &state));
    return state;
}

GROUP(look, open_gpu)

TEST(look, each_stream_has_an_order_of_its_own)
{
    struct tn_stream_state a = look(stream);
    struct tn_stream_state b = look(other);

    ck_assert(tn_order_equal(a.order, look(stream).order));
    ck_assert(!tn_order_equal(a.order, b.order));
    ck_assert_uint_eq(a.order.capture_id, 0);
    ck_assert_ptr_null(a.capture_graph);
    ck_assert(!a.broken);
}

TEST(look, an_order_is_not_taken_over_by_a_later_stream)
{
    struct tn_order before = look(stream).order;

    test_destroy_stream(stream);
    for (int i = 0; i < 8; i++)
        ck_assert(!tn_order_equal(before, look(test_stream()).order));
}

TEST(look, both_names_of_the_legacy_stream_mean_one)
{
    ck_assert(tn_stream_is_legacy(NULL));
    ck_assert(tn_stream_is_legacy(TN_CU_STREAM_LEGACY));
    ck_assert(!tn_stream_is_legacy(TN_CU_STREAM_PER_THREAD));
    ck_assert(!tn_stream_is_legacy(stream));
    ck_assert(tn_order_equal(look(NULL).order, look(TN_CU_STREAM_LEGACY).order));
    ck_assert(tn_stream_is_same(NULL, TN_CU_STREAM_LEGACY));
    ck_assert(tn_stream_is_same(stream, stream));
    ck_assert(!tn_stream_is_same(stream, other));
    ck_assert(!tn_stream_is_same(NULL, stream));
}

TEST(look, only_default_streams_need_the_context)
{
    bool pushed = true;

    test_set_context(NULL);
    OK(tn_stream_enter(&gpu, stream, &pushed));
    ck_assert(!pushed);
    OK(tn_stream_enter(&gpu, NULL, &pushed));
    ck_assert(pushed);
    ck_assert_ptr_eq(test_context(), gpu.context);
    tn_gpu_leave(&gpu, pushed);
    OK(tn_stream_enter(&gpu, TN_CU_STREAM_PER_THREAD, &pushed));
    ck_assert(pushed);
    tn_gpu_leave(&gpu, pushed);
    ck_assert_ptr_null(test_context());
}

static void look_at_own_stream(void *order)
{
    *(struct tn_order *)order = look(TN_CU_STREAM_PER_THREAD).order;
    ck_assert_ptr_null(test_context());
}

TEST(look, each_thread_has_its_own_default_stream)
{
    struct tn_order here = look(TN_CU_STREAM_PER_THREAD).order;
    struct tn_order there;

    test_elsewhere(look_at_own_stream, &there);
    ck_assert(!tn_order_equal(here, there));
    ck_assert(tn_order_equal(here, look(TN_CU_STREAM_PER_THREAD).order));
    ck_assert(!tn_order_equal(here, look(NULL).order));
}

static tn_cu_event forked;
static tn_cu_event joined;

static void join_capture(void *order)
{
    struct tn_stream_state state;

    test_set_context(test_retain(0));
    OK(tn_stream_wait(&gpu, TN_CU_STREAM_PER_THREAD, forked));
    state = look(TN_CU_STREAM_PER_THREAD);
    *(struct tn_order *)order = state.order;
    ck_assert(tn_event_record(&gpu, joined, TN_CU_STREAM_PER_THREAD));
    test_release(0);
}

/* One handle, two streams, one capture. */
TEST(look, each_threads_default_stream_is_an_order_of_its_own_in_a_capture)
{
    struct tn_order here;
    struct tn_order there;

    OK(tn_event_create(&gpu, TN_CU_STREAM_PER_THREAD, &forked));
    OK(tn_event_create(&gpu, TN_CU_STREAM_PER_THREAD, &joined));
    test_begin_capture(TN_CU_STREAM_PER_THREAD, TN_CU_CAPTURE_MODE_RELAXED);
    here = look(TN_CU_STREAM_PER_THREAD).order;
    ck_assert(tn_order_equal(here, look(TN_CU_STREAM_PER_THREAD).order));
    ck_assert(tn_event_record(&gpu, forked, TN_CU_STREAM_PER_THREAD));
    test_elsewhere(join_capture, &there);
    ck_assert_uint_eq(there.capture_id, here.capture_id);
    ck_assert(!tn_order_equal(here, there));
    OK(tn_stream_wait(&gpu, TN_CU_STREAM_PER_THREAD, joined));
    test_destroy_graph(test_end_capture(TN_CU_STREAM_PER_THREAD));
    tn_event_destroy(&gpu, forked);
    tn_event_destroy(&gpu, joined);
}

TEST(look, a_capture_is_an_order_of_its_own_each_time)
{
    struct tn_stream_state first;
    struct tn_stream_state second;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    first = look(stream);
    ck_assert_uint_ne(first.order.capture_id, 0);
    ck_assert_ptr_nonnull(first.capture_graph);
    ck_assert(!first.broken);
    ck_assert(tn_order_equal(first.order, look(stream).order));
    ck_assert_uint_eq(look(other).order.capture_id, 0);
    test_destroy_graph(test_end_capture(stream));
    ck_assert_uint_eq(look(stream).order.capture_id, 0);
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    second = look(stream);
    ck_assert(!tn_order_equal(first.order, second.order));
    test_destroy_graph(test_end_capture(stream));
}

TEST(look, a_forked_stream_is_in_the_same_capture)
{
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    test_order(stream, other);
    ck_assert_uint_eq(look(other).order.capture_id, look(stream).order.capture_id);
    ck_assert(!tn_order_equal(look(other).order, look(stream).order));
    test_order(other, stream);
    test_destroy_graph(test_end_capture(stream));
}

TEST(look, an_invalidated_capture_is_seen)
{
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    test_break_capture();
    ck_assert(look(stream).broken);
}

TEST(look, looking_leaves_a_capture_and_the_legacy_stream_alone)
{
    tn_cu_stream blocking = test_blocking_stream();

    test_begin_capture(blocking, TN_CU_CAPTURE_MODE_GLOBAL);
    (void)look(blocking);
    (void)look(NULL);
    (void)look(TN_CU_STREAM_PER_THREAD);
    ck_assert_int_eq(test_capture_status(blocking), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_destroy_graph(test_end_capture(blocking));
}

TEST(look, a_refused_look_is_a_failure)
{
    static const char *const calls[] = {"cuStreamIsCapturing", "cuStreamGetId",
                                        "cuStreamGetCaptureInfo"};
    struct tn_stream_state state;

    for (size_t i = 0; i < 3; i++) {
        if (i == 2)
            test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER, tn_stream_look(&gpu, stream, TN_STREAM_GRAPH, &state));
        unit_expect_sentence(calls[i]);
    }
    test_destroy_graph(test_end_capture(stream));
}

/* How often a look asks the driver by that call. */
static uint64_t asked(const char *call, tn_cu_stream at, enum tn_stream_want want)
{
    struct tn_stream_state state;
    uint64_t before = sim.call_count(call);

    OK(tn_stream_look(&gpu, at, want, &state));
    return sim.call_count(call) - before;
}

TEST(look, a_look_asks_what_is_wanted_and_no_more)
{
    static const struct {
        enum tn_stream_want want;
        bool captured;
        uint64_t status, id, capture_id, info;
    } cases[] = {
        {TN_STREAM_STATUS, false, 1, 0, 0, 0},  {TN_STREAM_STATUS, true, 1, 0, 0, 0},
        {TN_STREAM_CAPTURE, false, 0, 0, 1, 0}, {TN_STREAM_CAPTURE, true, 0, 0, 1, 0},
        {TN_STREAM_ID, false, 0, 1, 0, 0},      {TN_STREAM_ORDER, false, 0, 1, 1, 0},
        {TN_STREAM_ORDER, true, 0, 0, 1, 0},    {TN_STREAM_GRAPH, false, 1, 1, 0, 0},
        {TN_STREAM_GRAPH, true, 1, 0, 0, 1},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].captured)
            test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
        ck_assert_uint_eq(asked("cuStreamIsCapturing", stream, cases[i].want), cases[i].status);
        ck_assert_uint_eq(asked("cuStreamGetId", stream, cases[i].want), cases[i].id);
        ck_assert_uint_eq(asked("cuStreamGetCaptureInfo", stream, cases[i].want),
                          cases[i].capture_id + cases[i].info);
        if (cases[i].captured)
            test_destroy_graph(test_end_capture(stream));
    }
}

TEST(look, each_look_finds_the_same_of_a_stream)
{
    for (int captured = 0; captured < 2; captured++) {
        struct tn_stream_state full;
        struct tn_stream_state state;
        struct tn_stream_answer answer;

        if (captured)
            test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
        OK(tn_stream_look(&gpu, stream, TN_STREAM_GRAPH, &full));
        ck_assert_int_eq(full.captured, captured);
        ck_assert_int_eq(full.capture_graph != NULL, captured);
        OK(tn_stream_look(&gpu, stream, TN_STREAM_ORDER, &state));
        ck_assert(tn_order_equal(state.order, full.order));
        ck_assert_int_eq(state.captured, captured);
        ck_assert_int_eq(tn_stream_ask(&gpu, stream, &answer), captured);
        OK(tn_stream_finish_look(&gpu, stream, &answer, &state));
        ck_assert(tn_order_equal(state.order, full.order));
        OK(tn_stream_look(&gpu, stream, TN_STREAM_CAPTURE, &state));
        ck_assert_uint_eq(state.order.capture_id, full.order.capture_id);
        OK(tn_stream_look(&gpu, stream, TN_STREAM_STATUS, &state));
        ck_assert_int_eq(state.captured, captured);
        ck_assert_int_eq(tn_stream_is_idle(&gpu, stream, &state.order.stream_id), !captured);
        if (!captured)
            ck_assert_uint_eq(state.order.stream_id, full.order.stream_id);
        else
            test_destroy_graph(test_end_capture(stream));
    }
}

TEST(look, the_id_of_a_stream_is_that_of_its_order)
{
    tn_cu_stream streams[] = {stream, NULL, TN_CU_STREAM_PER_THREAD};
    struct tn_stream_state state;

    for (int i = 0; i < 3; i++) {
        OK(tn_stream_look(&gpu, streams[i], TN_STREAM_ID, &state));
        ck_assert_uint_eq(state.order.stream_id, look(streams[i]).order.stream_id);
    }
    sim.plan_fault("cuStreamGetId", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_stream_look(&gpu, stream, TN_STREAM_ID, &state));
}

TEST(look, the_question_for_the_id_breaks_a_capture)
{
    struct tn_stream_state state;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    STATUS(TARN_ERR_WRONG_STATE, tn_stream_look(&gpu, stream, TN_STREAM_ID, &state));
    unit_expect_sentence("now invalidated");
    OK(tn_stream_look(&gpu, stream, TN_STREAM_STATUS, &state));
    ck_assert(state.captured && state.broken);
    test_end_broken_capture(stream);
}

TEST(look, a_default_stream_without_its_context_is_not_known)
{
    static const enum tn_stream_want wants[] = {TN_STREAM_GRAPH, TN_STREAM_ID, TN_STREAM_CAPTURE};
    struct tn_stream_state state;

    sim.plan_fault("cuCtxGetCurrent", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    for (int i = 0; i < 3; i++)
        STATUS(TARN_ERR_DRIVER, tn_stream_look(&gpu, TN_CU_STREAM_PER_THREAD, wants[i], &state));
    OK(tn_stream_look(&gpu, TN_CU_STREAM_LEGACY, TN_STREAM_CAPTURE, &state)); /* is not asked */
    ck_assert_uint_eq(sim.clear_fault(NULL), 3);
    ck_assert_uint_eq(state.order.capture_id, 0); /* of no capture */
}

GROUP(closed, open_gpu)

TEST(closed, a_stream_is_closed_to_events_while_it_is_captured)
{
    ck_assert(!tn_stream_is_closed(&gpu, stream));
    ck_assert(!tn_stream_is_closed(&gpu, NULL));
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    ck_assert(tn_stream_is_closed(&gpu, stream));
    ck_assert(!tn_stream_is_closed(&gpu, other));
    ck_assert(!tn_stream_is_closed(&gpu, NULL)); /* not a blocking stream */
    test_destroy_graph(test_end_capture(stream));
    ck_assert(!tn_stream_is_closed(&gpu, stream));
}

TEST(closed, the_legacy_stream_is_closed_while_a_blocking_one_is_captured)
{
    tn_cu_stream blocking = test_blocking_stream();

    test_begin_capture(blocking, TN_CU_CAPTURE_MODE_RELAXED);
    ck_assert(tn_stream_is_closed(&gpu, NULL));
    ck_assert(tn_stream_is_closed(&gpu, TN_CU_STREAM_LEGACY));
    ck_assert_int_eq(test_capture_status(blocking), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_destroy_graph(test_end_capture(blocking));
    ck_assert(!tn_stream_is_closed(&gpu, NULL));
}

TEST(closed, a_capture_goes_on_until_it_is_invalidated)
{
    struct tn_stream_state state;

    OK(tn_stream_look(&gpu, stream, TN_STREAM_STATUS, &state));
    ck_assert(!state.captured);
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    OK(tn_stream_look(&gpu, stream, TN_STREAM_STATUS, &state));
    ck_assert(state.captured && !state.broken);
    OK(tn_stream_look(&gpu, other, TN_STREAM_STATUS, &state));
    ck_assert(!state.captured);
    test_break_capture();
    OK(tn_stream_look(&gpu, stream, TN_STREAM_STATUS, &state));
    ck_assert(state.captured && state.broken);
    ck_assert(tn_stream_is_closed(&gpu, stream)); /* still */
    test_end_broken_capture(stream);
    sim.plan_fault("cuStreamIsCapturing", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_stream_look(&gpu, stream, TN_STREAM_STATUS, &state));
    ck_assert_uint_eq(sim.clear_fault(NULL), 1);
}

static void expect_own_unbroken(void *unused)
{
    (void)unused; /* no context is current on this thread */
    ck_assert(!tn_stream_is_broken(&gpu, TN_CU_STREAM_PER_THREAD));
    sim.plan_fault("cuCtxGetCurrent", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    ck_assert(!tn_stream_is_broken(&gpu, TN_CU_STREAM_PER_THREAD));
    ck_assert_ptr_null(test_context());
}

TEST(closed, a_broken_capture_is_seen_without_a_sentence)
{
    tn_cu_stream captured[] = {stream, TN_CU_STREAM_PER_THREAD};

    for (int i = 0; i < 2; i++) {
        ck_assert(!tn_stream_is_broken(&gpu, captured[i]));
        test_begin_capture(captured[i], TN_CU_CAPTURE_MODE_GLOBAL);
        ck_assert(!tn_stream_is_broken(&gpu, captured[i]));
        test_break_capture();
        ck_assert(tn_stream_is_broken(&gpu, captured[i]));
        ck_assert(!tn_stream_is_broken(&gpu, other));
        ck_assert(!tn_stream_is_broken(&gpu, NULL));
        test_elsewhere(expect_own_unbroken, NULL);
        (void)tn_fail(TARN_ERR_BUSY, "what was said before");
        sim.plan_fault("cuStreamIsCapturing", 1, 0, TN_CUDA_ERROR_UNKNOWN);
        ck_assert(!tn_stream_is_broken(&gpu, captured[i]));
        ck_assert_str_eq(tarn_last_error(), "what was said before");
        test_end_broken_capture(captured[i]);
    }
}

GROUP(events, open_gpu)

TEST(events, an_event_is_done_when_the_work_before_it_is)
{
    void *memory = test_linear_alloc(4096);
    tarn_sim_ledger before = test_ledger();
    tn_cu_event event;

    OK(tn_event_create(&gpu, stream, &event));
    sim.hold_work();
    test_fill(stream, memory, 1, 16);
    ck_assert(tn_event_record(&gpu, event, stream));
    ck_assert_int_eq(tn_event_query(&gpu, event), TN_EVENT_NOT_YET);
    sim.resume_work();
    test_synchronize(stream);
    ck_assert_int_eq(tn_event_query(&gpu, event), TN_EVENT_DONE);
    tn_event_destroy(&gpu, event);
    test_same_ledger(&before);
}

TEST(events, an_event_that_cannot_be_made_or_recorded_is_a_failure)
{
    tn_cu_event event;

    sim.plan_fault("cuEventCreate", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_event_create(&gpu, stream, &event));
    OK(tn_event_create(&gpu, stream, &event));
    sim.plan_fault("cuEventRecord", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    ck_assert(!tn_event_record(&gpu, event, stream));
    sim.plan_fault("cuEventQuery", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    ck_assert_int_eq(tn_event_query(&gpu, event), TN_EVENT_UNKNOWN);
    sim.plan_fault("cuEventDestroy", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    tn_event_destroy(&gpu, event);
    STATUS(TARN_ERR_POISONED, tn_gpu_check(&gpu));
}

TEST(events, every_event_is_done_on_a_lost_device)
{
    tn_cu_event event;

    OK(tn_event_create(&gpu, stream, &event));
    sim.plan_fault("cuEventQuery", 1, 0, TN_CUDA_ERROR_LAUNCH_FAILED);
    ck_assert_int_eq(tn_event_query(&gpu, event), TN_EVENT_DONE);
    ck_assert(tn_gpu_is_lost(&gpu));
    sim.hold_work();
    ck_assert_int_eq(tn_event_query(&gpu, event), TN_EVENT_DONE);
    sim.resume_work();
}

TEST(events, a_query_leaves_a_capture_alone)
{
    tn_cu_event event;

    OK(tn_event_create(&gpu, other, &event));
    ck_assert(tn_event_record(&gpu, event, other));
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    ck_assert_int_ne(tn_event_query(&gpu, event), TN_EVENT_UNKNOWN);
    ck_assert_int_eq(test_capture_status(stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_destroy_graph(test_end_capture(stream));
}

GROUP(copies, open_gpu, .name = "wait and copy")

TEST(copies, a_stream_waits_for_the_event_of_another)
{
    void *memory = test_linear_alloc(4096);
    tn_cu_event event;

    OK(tn_event_create(&gpu, stream, &event));
    sim.hold_work();
    test_fill(stream, memory, 3, 16);
    ck_assert(tn_event_record(&gpu, event, stream));
    OK(tn_stream_wait(&gpu, other, event));
    test_add(other, memory, 4, 16);
    sim.resume_work();
    test_expect_words(other, memory, 7, 16);
    sim.plan_fault("cuStreamWaitEvent", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_stream_wait(&gpu, other, event));
    OK(tn_stream_wait(&gpu, NULL, event));
    tn_event_destroy(&gpu, event);
}

TEST(copies, copies_and_zeros_are_behind_the_work_on_their_stream)
{
    void *memory = test_linear_alloc(4096);
    uint32_t *words = test_host_alloc(4096);

    test_fill(stream, memory, 9, 1024);
    OK(tn_stream_zero(&gpu, (uintptr_t)memory, 2048, stream));
    OK(tn_stream_download(&gpu, words, (uintptr_t)memory, 4096, stream));
    test_synchronize(stream);
    ck_assert_uint_eq(words[0], 0);
    ck_assert_uint_eq(words[511], 0);
    ck_assert_uint_eq(words[512], 9);
    test_host_free(words);
}

TEST(copies, a_refused_copy_is_a_failure)
{
    void *memory = test_linear_alloc(512);
    char host[512];

    sim.plan_fault("cuMemcpyDtoHAsync", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_stream_download(&gpu, host, (uintptr_t)memory, 512, stream));
    sim.plan_fault("cuMemsetD8Async", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_stream_zero(&gpu, (uintptr_t)memory, 512, stream));
}

TEST(copies, waiting_for_an_event_leaves_a_capture_alone)
{
    tn_cu_event event;
    tn_cu_stream captured = test_stream();

    OK(tn_event_create(&gpu, stream, &event));
    test_hold_until_waited();
    test_spin(stream, 1);
    ck_assert(tn_event_record(&gpu, event, stream));
    ck_assert_int_eq(tn_event_query(&gpu, event), TN_EVENT_NOT_YET);
    test_begin_capture(captured, TN_CU_CAPTURE_MODE_GLOBAL);
    ck_assert_int_eq(tn_event_wait(&gpu, event), TN_EVENT_DONE);
    ck_assert_int_eq(tn_event_query(&gpu, event), TN_EVENT_DONE);
    ck_assert_int_eq(test_capture_status(captured), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_destroy_graph(test_end_capture(captured));
    sim.plan_fault("cuEventSynchronize", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    ck_assert_int_eq(tn_event_wait(&gpu, event), TN_EVENT_UNKNOWN);
    tn_event_destroy(&gpu, event);
}
