// SPDX-License-Identifier: Apache-2.0
/* capture_events.c -- events in captures: forks, joins, what is not joined, events from outside,
 * stale events; and what captures do to the legacy stream. */
#include "contract/capture_tools.h"

/* -- What the cases share -- */

struct streams {
    tn_cu_stream s; /* that a capture begins on */
    tn_cu_stream side;
    tn_cu_event fork;
    tn_cu_event join;
};

static struct streams streams_begin(void)
{
    struct streams t = {
        .s = contract_stream(TN_CU_STREAM_NON_BLOCKING),
        .side = contract_stream(TN_CU_STREAM_NON_BLOCKING),
        .fork = contract_event(),
        .join = contract_event(),
    };
    contract_kernels();
    return t;
}

static void streams_end(struct streams *t)
{
    SET_UP(cuStreamDestroy(t->s));
    if (t->side != NULL)
        SET_UP(cuStreamDestroy(t->side));
    SET_UP(cuEventDestroy(t->fork));
    SET_UP(cuEventDestroy(t->join));
}

static void begin(tn_cu_stream stream)
{
    SET_UP(cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_GLOBAL));
}

static void fork_side(const struct streams *t)
{
    SET_UP(cuEventRecord(t->fork, t->s));
    SET_UP(cuStreamWaitEvent(t->side, t->fork, 0));
}

static void join_side(const struct streams *t)
{
    SET_UP(cuEventRecord(t->join, t->side));
    SET_UP(cuStreamWaitEvent(t->s, t->join, 0));
}

static size_t dependencies(tn_cu_stream stream)
{
    tn_cu_capture_status status;
    size_t count = 0;
    SET_UP(cuStreamGetCaptureInfo(stream, &status, NULL, NULL, NULL, NULL, &count));
    return count;
}

/* -- Forks and joins -- */

CASE_BODY(fork_join)
{
    struct streams t = streams_begin();
    begin(t.s);
    capture_node(t.s);
    GIVES(SUCCESS, cuEventRecord(t.fork, t.s));
    GIVES(SUCCESS, cuStreamWaitEvent(t.side, t.fork, 0));
    IS_ACTIVE(t.side);
    HOLDS(dependencies(t.side) == 1, "the forked stream comes after one node");
    capture_node(t.side);
    GIVES(SUCCESS, cuEventRecord(t.join, t.side));
    GIVES(SUCCESS, cuStreamWaitEvent(t.s, t.join, 0));
    HOLDS(dependencies(t.s) == 2, "after the join there are two");
    capture_node(t.s);
    capture_end(t.s, 3, 3);
    IS_IDLE(t.side);
    streams_end(&t);
}

CASE_BODY(fork_empty)
{
    struct streams t = streams_begin();
    begin(t.s);
    capture_node(t.s);
    fork_side(&t);
    capture_end(t.s, 1, 0);
    IS_IDLE(t.side);
    streams_end(&t);
}

CASE_BODY(fork_empty_dropped)
{
    struct streams t = streams_begin();
    begin(t.s);
    capture_node(t.s);
    fork_side(&t);
    GIVES(SUCCESS,
          cuStreamUpdateCaptureDependencies(t.s, NULL, NULL, 0, TN_CU_CAPTURE_DEPENDENCIES_SET));
    capture_end(t.s, 1, 0);
    streams_end(&t);
}

CASE_BODY(unjoined)
{
    struct streams t = streams_begin();
    begin(t.s);
    fork_side(&t);
    capture_node(t.side);
    END_BADLY(STREAM_CAPTURE_UNJOINED, t.s);
    IS_IDLE(t.s);
    IS_IDLE(t.side);
    streams_end(&t);
}

CASE_BODY(unjoined_later)
{
    struct streams t = streams_begin();
    begin(t.s);
    fork_side(&t);
    capture_node(t.side);
    join_side(&t);
    capture_node(t.side);
    END_BADLY(STREAM_CAPTURE_UNJOINED, t.s);
    streams_end(&t);
}

CASE_BODY(unjoined_dropped)
{
    struct streams t = streams_begin();
    begin(t.s);
    fork_side(&t);
    capture_node(t.side);
    GIVES(SUCCESS,
          cuStreamUpdateCaptureDependencies(t.side, NULL, NULL, 0, TN_CU_CAPTURE_DEPENDENCIES_SET));
    capture_end(t.s, 1, 0);
    streams_end(&t);
}

/* Side work is waited for by a node added by hand, which the origin is then put behind. */
CASE_BODY(joined_by_hand)
{
    struct streams t = streams_begin();
    tn_cu_capture_status status;
    tn_cu_graph graph;
    tn_cu_graphnode last;
    begin(t.s);
    fork_side(&t);
    capture_node(t.side);
    SET_UP(cuStreamGetCaptureInfo(t.s, &status, NULL, &graph, NULL, NULL, NULL));
    tn_cu_graphnode side = graph_node(graph, 0);
    SET_UP(cuGraphAddEmptyNode(&last, graph, &side, 1));
    GIVES(SUCCESS,
          cuStreamUpdateCaptureDependencies(t.s, &last, NULL, 1, TN_CU_CAPTURE_DEPENDENCIES_SET));
    capture_end(t.s, 2, 1);
    streams_end(&t);
}

CASE_BODY(unmatched)
{
    struct streams t = streams_begin();
    begin(t.s);
    fork_side(&t);
    END_BADLY(STREAM_CAPTURE_UNMATCHED, t.side);
    IS_INVALIDATED(t.s);
    IS_INVALIDATED(t.side);
    END_BADLY(STREAM_CAPTURE_INVALIDATED, t.s);
    IS_IDLE(t.s);
    IS_IDLE(t.side);
    streams_end(&t);
}

CASE_BODY(merge)
{
    struct streams t = streams_begin();
    begin(t.s);
    begin(t.side);
    SET_UP(cuEventRecord(t.fork, t.s));
    GIVES(STREAM_CAPTURE_MERGE, cuStreamWaitEvent(t.side, t.fork, 0));
    IS_INVALIDATED(t.s);
    IS_INVALIDATED(t.side);
    END_BADLY(STREAM_CAPTURE_INVALIDATED, t.s);
    END_BADLY(STREAM_CAPTURE_INVALIDATED, t.side);
    streams_end(&t);
}

CASE_BODY(begin_forked)
{
    struct streams t = streams_begin();
    begin(t.s);
    fork_side(&t);
    GIVES(ILLEGAL_STATE, cuStreamBeginCapture(t.side, TN_CU_CAPTURE_MODE_GLOBAL));
    IS_ACTIVE(t.s);
    capture_end(t.s, 0, 0);
    streams_end(&t);
}

CASE_BODY(forked_destroyed)
{
    struct streams t = streams_begin();
    begin(t.s);
    fork_side(&t);
    capture_node(t.side);
    GIVES(SUCCESS, cuStreamDestroy(t.side));
    IS_ACTIVE(t.s);
    END_BADLY(STREAM_CAPTURE_UNJOINED, t.s);
    STATE("waited for");
    t.side = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    begin(t.s);
    fork_side(&t);
    capture_node(t.side);
    SET_UP(cuEventRecord(t.join, t.side));
    GIVES(SUCCESS, cuStreamDestroy(t.side));
    t.side = NULL;
    GIVES(SUCCESS, cuStreamWaitEvent(t.s, t.join, 0));
    capture_end(t.s, 1, 0);
    streams_end(&t);
}

CASE_BODY(event_destroyed)
{
    struct streams t = streams_begin();
    tn_cu_event gone = contract_event();
    begin(t.s);
    capture_node(t.s);
    SET_UP(cuEventRecord(gone, t.s));
    SET_UP(cuStreamWaitEvent(t.side, gone, 0));
    GIVES(SUCCESS, cuEventDestroy(gone));
    IS_ACTIVE(t.s);
    capture_node(t.side);
    join_side(&t);
    capture_end(t.s, 2, 1);
    streams_end(&t);
}

/* -- Events from outside, and captured ones -- */

CASE_BODY(isolation)
{
    struct streams t = streams_begin();
    SET_UP(cuEventRecord(t.fork, t.side));
    begin(t.s);
    GIVES(STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(t.s, t.fork, 0));
    IS_INVALIDATED(t.s);
    contract_gives(TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "cuLaunchKernel(",
                   capture_launch(t.s));
    END_BADLY(STREAM_CAPTURE_INVALIDATED, t.s);
    streams_end(&t);
}

CASE_BODY(never_recorded)
{
    struct streams t = streams_begin();
    begin(t.s);
    GIVES(SUCCESS, cuStreamWaitEvent(t.s, t.fork, 0));
    GIVES(SUCCESS, cuStreamWaitEvent(t.side, t.fork, 0));
    IS_ACTIVE(t.s);
    IS_IDLE(t.side);
    capture_end(t.s, 0, 0);
    streams_end(&t);
}

CASE_BODY(captured_query)
{
    struct streams t = streams_begin();
    begin(t.s);
    SET_UP(cuEventRecord(t.fork, t.s));
    GIVES(CAPTURED_EVENT, cuEventQuery(t.fork));
    IS_INVALIDATED(t.s);
    capture_abandon(t.s);
    begin(t.s);
    SET_UP(cuEventRecord(t.fork, t.s));
    GIVES(CAPTURED_EVENT, cuEventSynchronize(t.fork));
    IS_INVALIDATED(t.s);
    capture_abandon(t.s);
    streams_end(&t);
}

CASE_BODY(captured_elapsed)
{
    struct streams t = streams_begin();
    tn_cu_event from;
    tn_cu_event to;
    float time;
    SET_UP(cuEventCreate(&from, TN_CU_EVENT_DEFAULT));
    SET_UP(cuEventCreate(&to, TN_CU_EVENT_DEFAULT));
    SET_UP(cuEventRecord(from, t.side));
    SET_UP(cuStreamSynchronize(t.side));
    begin(t.s);
    SET_UP(cuEventRecord(to, t.s));
    GIVES(CAPTURED_EVENT, cuEventElapsedTime(&time, from, to));
    GIVES(CAPTURED_EVENT, cuEventElapsedTime(&time, to, from));
    GIVES(CAPTURED_EVENT, cuEventElapsedTime(&time, to, to));
    IS_ACTIVE(t.s);
    capture_end(t.s, 0, 0);
    STATE("stale");
    GIVES(INVALID_VALUE, cuEventElapsedTime(&time, from, to));
    GIVES(INVALID_VALUE, cuEventElapsedTime(&time, to, from));
    SET_UP(cuEventDestroy(from));
    SET_UP(cuEventDestroy(to));
    streams_end(&t);
}

CASE_BODY(captured_recorded)
{
    struct streams t = streams_begin();
    tn_cu_capture_mode relaxed = TN_CU_CAPTURE_MODE_RELAXED;
    begin(t.s);
    SET_UP(cuEventRecord(t.fork, t.s));
    GIVES(SUCCESS, cuEventRecord(t.fork, t.side));
    SET_UP(cuThreadExchangeStreamCaptureMode(&relaxed));
    GIVES(SUCCESS, cuEventSynchronize(t.fork));
    SET_UP(cuThreadExchangeStreamCaptureMode(&relaxed));
    IS_ACTIVE(t.s);
    capture_end(t.s, 0, 0);
    streams_end(&t);
}

CASE_BODY(stale)
{
    struct streams t = streams_begin();
    begin(t.s);
    SET_UP(cuEventRecord(t.fork, t.s));
    capture_end(t.s, 0, 0);
    GIVES(INVALID_VALUE, cuEventQuery(t.fork));
    GIVES(INVALID_VALUE, cuEventSynchronize(t.fork));
    GIVES(INVALID_VALUE, cuStreamWaitEvent(t.side, t.fork, 0));
    STATE("in another capture");
    begin(t.s);
    GIVES(INVALID_VALUE, cuStreamWaitEvent(t.s, t.fork, 0));
    IS_INVALIDATED(t.s);
    END_BADLY(STREAM_CAPTURE_INVALIDATED, t.s);
    STATE("recorded");
    GIVES(SUCCESS, cuEventRecord(t.fork, t.side));
    GIVES(SUCCESS, cuEventSynchronize(t.fork));
    GIVES(SUCCESS, cuEventQuery(t.fork));
    GIVES(SUCCESS, cuStreamWaitEvent(t.side, t.fork, 0));
    streams_end(&t);
}

/* The event of a capture that has ended, outside another one and in it. A query of it does no harm. */
CASE_BODY(external_stale)
{
    static const tn_cu_capture_mode modes[] = {
        TN_CU_CAPTURE_MODE_GLOBAL, TN_CU_CAPTURE_MODE_THREAD_LOCAL, TN_CU_CAPTURE_MODE_RELAXED};
    struct streams t = streams_begin();
    begin(t.s);
    SET_UP(cuEventRecord(t.fork, t.s));
    capture_end(t.s, 0, 0);
    GIVES(INVALID_VALUE, cuStreamWaitEvent(t.side, t.fork, TN_CU_EVENT_WAIT_EXTERNAL));
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        STATE("in mode %d", (int)modes[i]);
        SET_UP(cuStreamBeginCapture(t.s, modes[i]));
        GIVES(INVALID_VALUE, cuEventQuery(t.fork));
        IS_ACTIVE(t.s);
        GIVES(INVALID_VALUE, cuStreamWaitEvent(t.s, t.fork, TN_CU_EVENT_WAIT_EXTERNAL));
        IS_INVALIDATED(t.s);
        END_BADLY(STREAM_CAPTURE_INVALIDATED, t.s);
    }
    streams_end(&t);
}

CASE_BODY(unsafe_events)
{
    struct streams t = streams_begin();
    STATE("never recorded");
    begin(t.s);
    GIVES(STREAM_CAPTURE_UNSUPPORTED, cuEventQuery(t.fork));
    END_BADLY(STREAM_CAPTURE_INVALIDATED, t.s);
    begin(t.s);
    GIVES(STREAM_CAPTURE_UNSUPPORTED, cuEventSynchronize(t.fork));
    END_BADLY(STREAM_CAPTURE_INVALIDATED, t.s);
    STATE("stale");
    begin(t.s);
    SET_UP(cuEventRecord(t.fork, t.s));
    capture_end(t.s, 0, 0);
    begin(t.s);
    GIVES(INVALID_VALUE, cuEventQuery(t.fork));
    GIVES(INVALID_VALUE, cuEventSynchronize(t.fork));
    IS_ACTIVE(t.s);
    capture_end(t.s, 0, 0);
    streams_end(&t);
}

/* -- Events that become nodes -- */

CASE_BODY(external)
{
    struct streams t = streams_begin();
    tn_cu_graph graph;
    tn_cu_event event;
    begin(t.s);
    GIVES(SUCCESS, cuStreamWaitEvent(t.s, t.fork, TN_CU_EVENT_WAIT_EXTERNAL));
    GIVES(SUCCESS, cuEventRecordWithFlags(t.join, t.s, TN_CU_EVENT_RECORD_EXTERNAL));
    GIVES(SUCCESS, cuStreamEndCapture(t.s, &graph));
    HOLDS(graph_node_count(graph) == 2 && graph_edge_count(graph) == 1, "2 nodes, 1 edge");
    HOLDS(graph_type(graph_node(graph, 0)) == TN_CU_NODE_WAIT_EVENT, "one waits");
    HOLDS(graph_type(graph_node(graph, 1)) == TN_CU_NODE_EVENT_RECORD, "one records");
    GIVES(SUCCESS, cuGraphEventRecordNodeGetEvent(graph_node(graph, 1), &event));
    HOLDS(event == t.join, "the event");
    STATE("the event was not recorded by that");
    GIVES(SUCCESS, cuEventQuery(t.join));
    SET_UP(cuGraphDestroy(graph));
    streams_end(&t);
}

CASE_BODY(external_replay)
{
    struct streams t = streams_begin();
    tn_cu_graph graph;
    struct contract_busy busy = contract_busy_begin();
    begin(t.s);
    GIVES(SUCCESS, cuStreamWaitEvent(t.s, busy.done, TN_CU_EVENT_WAIT_EXTERNAL));
    GIVES(SUCCESS, cuEventRecordWithFlags(t.join, t.s, TN_CU_EVENT_RECORD_EXTERNAL));
    GIVES(SUCCESS, cuStreamEndCapture(t.s, &graph));
    tn_cu_graphexec exec = graph_exec(graph);
    GIVES(SUCCESS, cuGraphLaunch(exec, t.s));
    GIVES(NOT_READY, cuEventQuery(t.join));
    contract_busy_end(&busy);
    SET_UP(cuStreamSynchronize(t.s));
    GIVES(SUCCESS, cuEventQuery(t.join));
    graph_end(graph, exec);
    streams_end(&t);
}

CASE_BODY(external_captured)
{
    struct streams t = streams_begin();
    begin(t.s);
    SET_UP(cuEventRecord(t.fork, t.s));
    STATE("waiting for one that stands in the capture");
    if (GIVES(SUCCESS, cuStreamWaitEvent(t.side, t.fork, 0)) == TN_CUDA_SUCCESS)
        GIVES(SUCCESS, cuStreamWaitEvent(t.side, t.fork, TN_CU_EVENT_WAIT_EXTERNAL));
    capture_abandon(t.s);
    streams_end(&t);
}

CASE_BODY(external_outside)
{
    struct streams t = streams_begin();
    GIVES(ILLEGAL_STATE, cuEventRecordWithFlags(t.fork, t.s, TN_CU_EVENT_RECORD_EXTERNAL));
    GIVES(ILLEGAL_STATE, cuStreamWaitEvent(t.s, t.fork, TN_CU_EVENT_WAIT_EXTERNAL));
    STATE("flags 2");
    GIVES(INVALID_VALUE, cuEventRecordWithFlags(t.fork, t.s, 2));
    GIVES(INVALID_VALUE, cuStreamWaitEvent(t.s, t.fork, 2));
    begin(t.s);
    GIVES(INVALID_VALUE, cuEventRecordWithFlags(t.fork, t.s, 2));
    GIVES(INVALID_VALUE, cuStreamWaitEvent(t.s, t.fork, 2));
    IS_ACTIVE(t.s);
    capture_end(t.s, 0, 0);
    streams_end(&t);
}

/* -- The legacy stream -- */

static tn_cu_result launch_legacy(struct streams *t)
{
    (void)t;
    return capture_launch(TN_CU_STREAM_LEGACY);
}

static tn_cu_result record_legacy(struct streams *t)
{
    return cu.cuEventRecord(t->fork, NULL);
}

static tn_cu_result wait_legacy(struct streams *t)
{
    return cu.cuStreamWaitEvent(NULL, t->fork, 0);
}

static tn_cu_result query_legacy(struct streams *t)
{
    (void)t;
    return cu.cuStreamQuery(NULL);
}

static tn_cu_result copy_legacy(struct streams *t)
{
    static tn_cu_deviceptr address;
    uint32_t word;
    (void)t;
    if (address == 0) {
        tn_cu_capture_mode mode = TN_CU_CAPTURE_MODE_RELAXED;
        cu.cuThreadExchangeStreamCaptureMode(&mode);
        cu.cuMemAlloc(&address, sizeof word);
        cu.cuThreadExchangeStreamCaptureMode(&mode);
    }
    return cu.cuMemcpyDtoH(&word, address, sizeof word);
}

CASE_BODY(legacy)
{
    static const struct {
        const char *name;
        tn_cu_result (*call)(struct streams *t);
    } rows[] = {
        {"cuLaunchKernel(", launch_legacy},  {"cuEventRecord(", record_legacy},
        {"cuStreamWaitEvent(", wait_legacy}, {"cuMemcpyDtoH(", copy_legacy},
        {"cuStreamQuery(", query_legacy},
    };
    struct streams t = streams_begin();
    tn_cu_stream blocking = contract_stream(TN_CU_STREAM_DEFAULT);
    copy_legacy(&t);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        SET_UP(cuStreamBeginCapture(blocking, TN_CU_CAPTURE_MODE_RELAXED));
        contract_gives(TN_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, rows[i].name, rows[i].call(&t));
        IS_INVALIDATED(blocking);
        capture_abandon(blocking);
        SET_UP(cuStreamBeginCapture(t.s, TN_CU_CAPTURE_MODE_RELAXED));
        contract_gives(TN_CUDA_SUCCESS, rows[i].name, rows[i].call(&t));
        IS_ACTIVE(t.s);
        capture_abandon(t.s);
        SET_UP(cuStreamSynchronize(NULL));
    }
    SET_UP(cuStreamDestroy(blocking));
    streams_end(&t);
}

CASE_BODY(legacy_asked)
{
    struct streams t = streams_begin();
    tn_cu_stream blocking = contract_stream(TN_CU_STREAM_DEFAULT);
    tn_cu_stream other = contract_stream(TN_CU_STREAM_DEFAULT);
    tn_cu_capture_status status;
    begin(blocking);
    GIVES(STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing(NULL, &status));
    GIVES(STREAM_CAPTURE_IMPLICIT,
          cuStreamGetCaptureInfo(NULL, &status, NULL, NULL, NULL, NULL, NULL));
    IS_ACTIVE(blocking);
    STATE("another blocking stream");
    contract_gives(TN_CUDA_SUCCESS, "cuLaunchKernel(", capture_launch(other));
    GIVES(SUCCESS, cuStreamIsCapturing(other, &status));
    IS_ACTIVE(blocking);
    capture_end(blocking, 0, 0);
    GIVES(SUCCESS, cuStreamIsCapturing(NULL, &status));
    SET_UP(cuStreamDestroy(blocking));
    SET_UP(cuStreamDestroy(other));
    streams_end(&t);
}

CASE_BODY(legacy_joins)
{
    struct streams t = streams_begin();
    begin(t.s);
    SET_UP(cuEventRecord(t.fork, t.s));
    GIVES(STREAM_CAPTURE_IMPLICIT, cuStreamWaitEvent(NULL, t.fork, 0));
    IS_INVALIDATED(t.s);
    capture_abandon(t.s);
    streams_end(&t);
}

/* A blocking stream that joins a capture is one that captures. */
CASE_BODY(legacy_forked)
{
    struct streams t = streams_begin();
    tn_cu_stream blocking = contract_stream(TN_CU_STREAM_DEFAULT);
    begin(t.s);
    contract_gives(TN_CUDA_SUCCESS, "cuLaunchKernel(", capture_launch(NULL));
    SET_UP(cuEventRecord(t.fork, t.s));
    SET_UP(cuStreamWaitEvent(blocking, t.fork, 0));
    contract_gives(TN_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "cuLaunchKernel(", capture_launch(NULL));
    IS_INVALIDATED(t.s);
    capture_abandon(t.s);
    SET_UP(cuStreamDestroy(blocking));
    streams_end(&t);
}

static const struct contract_case cases[] = {
    CASE("fork-join", "A stream joins a capture by an event, and is joined by one.", fork_join),
    CASE("fork-empty", "A fork without nodes need not be joined.", fork_empty),
    CASE("fork-empty-dropped", "Nor when what it comes after is dropped.", fork_empty_dropped),
    CASE("unjoined", "A fork with nodes must be joined.", unjoined),
    CASE("unjoined-later", "What comes after the join must be joined too.", unjoined_later),
    CASE("unjoined-dropped", "Nodes that a fork has dropped need not be joined.", unjoined_dropped),
    CASE("joined-by-hand", "Edges made by hand join.", joined_by_hand),
    CASE("unmatched", "Only the stream that began a capture ends it.", unmatched),
    CASE("merge", "Captures do not merge.", merge),
    CASE("begin-forked", "A stream that joined a capture begins none.", begin_forked),
    CASE("forked-destroyed", "A forked stream may go; its work must be joined.", forked_destroyed),
    CASE("event-destroyed", "The event of a fork may go.", event_destroyed),
    CASE("isolation", "A capture waits for no event from outside.", isolation),
    CASE("never-recorded", "An event that was never recorded is nothing to wait for.",
         never_recorded),
    CASE("captured-query", "Whether a captured event has come cannot be asked.", captured_query),
    CASE("captured-elapsed", "Nor when, which does no harm.", captured_elapsed),
    CASE("captured-recorded", "A captured event can be recorded elsewhere.", captured_recorded),
    CASE("external-stale", "An external wait for an event of an ended capture breaks a capture.",
         external_stale),
    CASE("stale", "After its capture an event is good for nothing until it is recorded.", stale),
    CASE("unsafe-events", "Events that stand for nothing are unsafe too.", unsafe_events),
    CASE("external", "Events from outside are waited for and recorded by nodes.", external),
    CASE("external-replay", "Each launch waits and records.", external_replay),
    CASE("external-captured", "A captured event can be waited for as if from outside.",
         external_captured),
    CASE("external-outside", "There are no such nodes without a capture.", external_outside),
    CASE("legacy", "While a blocking stream captures nothing uses the legacy stream.", legacy),
    CASE("legacy-asked", "Nor is it asked about captures, which does no harm.", legacy_asked),
    CASE("legacy-joins", "The legacy stream joins no capture.", legacy_joins),
    CASE("legacy-forked", "A blocking stream that joined a capture counts.", legacy_forked),
};
const struct contract_group contract_capture_events =
    CONTRACT_GROUP("capture_events", START_CONTEXT, cases);
