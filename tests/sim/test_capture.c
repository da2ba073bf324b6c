// SPDX-License-Identifier: Apache-2.0
/* test_capture.c -- how captures begin, fork, join and end, and what they record. */
#include "capture_things.h"

GROUP(structure, make_capture_things)

TEST(structure, begin_and_end_answer_wrong_states)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamBeginCapture(NULL, 0));
    ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            cu.cuStreamBeginCapture(TN_CU_STREAM_LEGACY, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuStreamBeginCapture(stream, (tn_cu_capture_mode)3));
    end_capture(stream, TN_CUDA_ERROR_ILLEGAL_STATE);
    OK(cu.cuStreamBeginCapture(TN_CU_STREAM_PER_THREAD, TN_CU_CAPTURE_MODE_GLOBAL));
    ANSWERS(TN_CUDA_ERROR_ILLEGAL_STATE, cu.cuStreamBeginCapture(TN_CU_STREAM_PER_THREAD, 0));
    is_active(TN_CU_STREAM_PER_THREAD);
    tn_cu_graph graph = end_capture(TN_CU_STREAM_PER_THREAD, TN_CUDA_SUCCESS);
    ck_assert_uint_eq(node_count(graph), 0);
    tn_cu_graphexec exec;
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuStreamSynchronize(stream));
}

TEST(structure, capture_info_names_capture_graph_and_frontier)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_stream side = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_capture_status status;
    uint64_t id = 99;
    uint64_t side_id;
    tn_cu_graph graph;
    const tn_cu_graphnode *nodes;
    const tn_cu_edge_data *edges;
    size_t count;
    OK(cu.cuStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL, NULL));
    ck_assert_int_eq(status, TN_CU_CAPTURE_STATUS_NONE);
    ck_assert_uint_eq(id, 99);
    OK(cu.cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_GLOBAL));
    OK(cu.cuMemsetD8Async(there.linear, 0, 4, stream));
    OK(cu.cuStreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &edges, &count));
    ck_assert_int_eq(status, TN_CU_CAPTURE_STATUS_ACTIVE);
    ck_assert_uint_eq(count, 1);
    tn_cu_graphnode_type type;
    OK(cu.cuGraphNodeGetType(nodes[0], &type));
    ck_assert_int_eq(type, TN_CU_NODE_MEMSET);
    ck_assert_uint_eq(node_count(graph), 1);
    ANSWERS(TN_CUDA_ERROR_ILLEGAL_STATE, cu.cuGraphDestroy(graph)); /* SC2, SG2 */
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuStreamGetCaptureInfo(stream, &status, NULL, NULL, NULL, &edges, NULL));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuStreamGetCaptureInfo(stream, NULL, NULL, NULL, NULL, NULL, NULL));
    OK(cu.cuEventRecord(there.event, stream));
    OK(cu.cuStreamWaitEvent(side, there.event, 0));
    OK(cu.cuStreamGetCaptureInfo(side, &status, &side_id, NULL, NULL, NULL, &count));
    ck_assert_uint_eq(side_id, id);
    ck_assert_uint_eq(count, 1);
    ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamQuery(stream));
    side_id = 98;
    OK(cu.cuStreamGetCaptureInfo(side, &status, &side_id, NULL, NULL, NULL, NULL));
    ck_assert_int_eq(status, TN_CU_CAPTURE_STATUS_INVALIDATED);
    ck_assert_uint_eq(side_id, 98);
    end_capture(stream, TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    is_idle(side);
    OK(cu.cuStreamBeginCapture(side, TN_CU_CAPTURE_MODE_GLOBAL));
    OK(cu.cuStreamGetCaptureInfo(side, &status, &side_id, NULL, NULL, NULL, NULL));
    ck_assert_uint_eq(side_id, id + 1);
}

TEST_LOOP(structure, a_fork_without_nodes_need_not_be_joined, 0, 2)
{
    tn_cu_stream stream = capturing(TN_CU_STREAM_NON_BLOCKING, TN_CU_CAPTURE_MODE_GLOBAL);
    tn_cu_stream side = new_stream(TN_CU_STREAM_NON_BLOCKING);
    bool with_node = _i == 1;
    OK(cu.cuEventRecord(there.event, stream));
    OK(cu.cuStreamWaitEvent(side, there.event, 0));
    is_active(side);
    if (with_node)
        OK(cu.cuMemsetD8Async(there.linear, 0, 4, side));
    end_capture(stream, with_node ? TN_CUDA_ERROR_STREAM_CAPTURE_UNJOINED : TN_CUDA_SUCCESS);
    is_idle(stream);
    is_idle(side);
}

/* SG1: each node comes after those that it depends on. */
TEST_LOOP(structure, fork_and_join_make_the_edges, 0, 2)
{
    tn_cu_stream stream = capturing(TN_CU_STREAM_NON_BLOCKING, TN_CU_CAPTURE_MODE_GLOBAL);
    tn_cu_stream side = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event forked = new_event();
    tn_cu_event joined = new_event();
    tn_cu_graphnode nodes[4];
    tn_cu_graphnode before[4];
    size_t count = 4;
    OK(cu.cuMemsetD8Async(there.linear, 0, 4, stream));
    OK(cu.cuEventRecord(forked, stream));
    OK(cu.cuStreamWaitEvent(side, forked, 0));
    OK(cu.cuMemsetD8Async(there.linear, 1, 4, side));
    OK(cu.cuEventRecord(joined, side));
    OK(cu.cuStreamWaitEvent(stream, joined, 0));
    OK(cu.cuMemsetD8Async(there.linear, 2, 4, stream));
    bool more = _i == 1;
    if (more)
        OK(cu.cuMemsetD8Async(there.linear, 3, 4, side));
    tn_cu_graph graph =
        end_capture(stream, more ? TN_CUDA_ERROR_STREAM_CAPTURE_UNJOINED : TN_CUDA_SUCCESS);
    if (more)
        return;
    OK(cu.cuGraphGetNodes(graph, nodes, &count));
    ck_assert_uint_eq(count, 3);
    ck_assert_ptr_null(nodes[3]);
    for (size_t i = 0; i < 3; i++) {
        count = 4;
        OK(cu.cuGraphNodeGetDependencies(nodes[i], before, NULL, &count));
        ck_assert_uint_eq(count, i);
    }
    OK(cu.cuGraphGetEdges(graph, NULL, NULL, NULL, &count));
    ck_assert_uint_eq(count, 3);
}

TEST_LOOP(structure, a_destroyed_fork_is_joined_by_its_last_event, 0, 2)
{
    tn_cu_stream stream = capturing(TN_CU_STREAM_NON_BLOCKING, TN_CU_CAPTURE_MODE_GLOBAL);
    tn_cu_stream side = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event joined = new_event();
    bool wait = _i == 1;
    OK(cu.cuEventRecord(there.event, stream));
    OK(cu.cuStreamWaitEvent(side, there.event, 0));
    OK(cu.cuMemsetD8Async(there.linear, 1, 4, side));
    OK(cu.cuEventRecord(joined, side));
    OK(cu.cuStreamDestroy(side));
    is_active(stream);
    if (wait)
        OK(cu.cuStreamWaitEvent(stream, joined, 0));
    end_capture(stream, wait ? TN_CUDA_SUCCESS : TN_CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}

TEST(structure, ending_on_a_forked_stream_is_unmatched)
{
    tn_cu_stream stream = capturing(TN_CU_STREAM_NON_BLOCKING, TN_CU_CAPTURE_MODE_GLOBAL);
    tn_cu_stream side = new_stream(TN_CU_STREAM_NON_BLOCKING);
    OK(cu.cuEventRecord(there.event, stream));
    OK(cu.cuStreamWaitEvent(side, there.event, 0));
    end_capture(side, TN_CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    end_capture(stream, TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    is_idle(side);
    is_idle(stream);
}

TEST(structure, waiting_for_work_outside_breaks_isolation)
{
    tn_cu_stream stream = capturing(TN_CU_STREAM_NON_BLOCKING, TN_CU_CAPTURE_MODE_GLOBAL);
    OK(cu.cuStreamWaitEvent(stream, new_event(), 0)); /* never recorded */
    ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cu.cuStreamWaitEvent(stream, there.event, 0));
    end_capture(stream, TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

/* SC1 */
TEST(structure, captures_do_not_merge)
{
    tn_cu_stream first = capturing(TN_CU_STREAM_NON_BLOCKING, TN_CU_CAPTURE_MODE_GLOBAL);
    tn_cu_stream second = capturing(TN_CU_STREAM_NON_BLOCKING, TN_CU_CAPTURE_MODE_GLOBAL);
    OK(cu.cuEventRecord(there.event, first));
    ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_MERGE, cu.cuStreamWaitEvent(second, there.event, 0));
    is_invalidated(first);
    is_invalidated(second);
}

TEST_LOOP(structure, a_captured_event_is_asked_at_the_price_of_the_capture, 0, 2)
{
    tn_cu_stream stream = capturing(TN_CU_STREAM_NON_BLOCKING, TN_CU_CAPTURE_MODE_RELAXED);
    OK(cu.cuEventRecord(there.event, stream));
    ANSWERS(TN_CUDA_ERROR_CAPTURED_EVENT,
            _i == 0 ? cu.cuEventQuery(there.event) : cu.cuEventSynchronize(there.event));
    is_invalidated(stream);
}

TEST(structure, a_stale_event_is_invalid_until_recorded_anew)
{
    tn_cu_stream stream = capturing(TN_CU_STREAM_NON_BLOCKING, TN_CU_CAPTURE_MODE_GLOBAL);
    OK(cu.cuEventRecord(there.event, stream));
    end_capture(stream, TN_CUDA_SUCCESS);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuEventQuery(there.event));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuEventSynchronize(there.event));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuStreamWaitEvent(there.stream, there.event, 0));
    OK(cu.cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_GLOBAL));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuStreamWaitEvent(stream, there.event, 0));
    is_invalidated(stream);
    end_capture(stream, TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cu.cuEventRecord(there.event, there.stream));
    OK(cu.cuEventQuery(there.event));
}

TEST(structure, a_captured_event_recorded_elsewhere_leaves_the_capture_alone)
{
    tn_cu_stream stream = capturing(TN_CU_STREAM_NON_BLOCKING, TN_CU_CAPTURE_MODE_RELAXED);
    OK(cu.cuEventRecord(there.event, stream));
    OK(cu.cuEventRecord(there.event, there.stream));
    OK(cu.cuEventQuery(there.event));
    is_active(stream);
}

static tn_cu_result end_here(void *stream)
{
    tn_cu_graph graph;
    return cu.cuStreamEndCapture(stream, &graph);
}

TEST_LOOP(structure, a_capture_is_ended_by_its_thread_unless_relaxed, 0, 3)
{
    tn_cu_capture_mode mode = (tn_cu_capture_mode)_i;
    tn_cu_stream stream = capturing(TN_CU_STREAM_NON_BLOCKING, mode);
    if (mode == TN_CU_CAPTURE_MODE_RELAXED) {
        OK(elsewhere(end_here, stream));
    } else {
        ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, elsewhere(end_here, stream));
    }
    end_capture(stream, TN_CUDA_ERROR_ILLEGAL_STATE);
    ck_assert_uint_eq(ledger().captures, 0);
}

static tn_cu_result begin_here(void *stream)
{
    return cu.cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
}

TEST(structure, the_capture_of_a_thread_that_ended_stays_in_force)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    OK(elsewhere(begin_here, stream));
    ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, alloc_linear());
    end_capture(stream, TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(alloc_linear());
    OK(cu.cuStreamSynchronize(stream));
}

/* SQ4: the side stream is as one that never took part. */
TEST(structure, destroying_the_origin_stream_drops_the_capture)
{
    tarn_sim_ledger before = ledger();
    tn_cu_stream stream = capturing(TN_CU_STREAM_NON_BLOCKING, TN_CU_CAPTURE_MODE_GLOBAL);
    tn_cu_stream side = new_stream(TN_CU_STREAM_NON_BLOCKING);
    OK(cu.cuMemsetD8Async(there.linear, 0, 4, stream));
    OK(cu.cuEventRecord(there.event, stream));
    OK(cu.cuStreamWaitEvent(side, there.event, 0));
    OK(cu.cuStreamDestroy(stream));
    is_idle(side);
    OK(cu.cuStreamDestroy(side));
    tarn_sim_ledger after = ledger();
    same_ledger(&before, &after);
    OK(alloc_linear());
}
