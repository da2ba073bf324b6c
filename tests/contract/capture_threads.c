// SPDX-License-Identifier: Apache-2.0
/* capture_threads.c -- captures and threads: modes, who may end a capture, and what becomes of one
 * when its thread or its stream has gone. */
#include "contract/capture_tools.h"

/* -- What the cases share -- */

static void begin(tn_cu_stream stream, tn_cu_capture_mode mode)
{
    SET_UP(cuStreamBeginCapture(stream, mode));
}

/* One call on another thread in a mode of its own. */
struct elsewhere {
    tn_cu_capture_mode mode;
    tn_cu_result (*call)(tn_cu_stream stream);
    tn_cu_stream stream;
    tn_cu_result got;
};

static void do_elsewhere(void *argument)
{
    struct elsewhere *call = argument;
    tn_cu_capture_mode mode = call->mode;
    cu.cuThreadExchangeStreamCaptureMode(&mode);
    call->got = call->call(call->stream);
}

static tn_cu_result elsewhere(tn_cu_capture_mode mode, tn_cu_result (*call)(tn_cu_stream stream),
                              tn_cu_stream stream)
{
    struct elsewhere all = {mode, call, stream, TN_CUDA_SUCCESS};
    contract_elsewhere(do_elsewhere, &all);
    return all.got;
}

static tn_cu_result begin_relaxed(tn_cu_stream stream)
{
    return cu.cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_RELAXED);
}

static tn_cu_result begin_local(tn_cu_stream stream)
{
    return cu.cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
}

static tn_cu_result begin_global(tn_cu_stream stream)
{
    return cu.cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
}

static tn_cu_result end(tn_cu_stream stream)
{
    tn_cu_graph graph = NULL;
    tn_cu_result result = cu.cuStreamEndCapture(stream, &graph);
    if (graph != NULL)
        cu.cuGraphDestroy(graph);
    return result;
}

/* -- Modes and threads -- */

CASE_BODY(modes)
{
    static const struct {
        const char *name;
        tn_cu_capture_mode capture;
        tn_cu_capture_mode own;
        tn_cu_result result;
    } rows[] = {
        {"global, global", TN_CU_CAPTURE_MODE_GLOBAL, TN_CU_CAPTURE_MODE_GLOBAL,
         TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {"global, thread-local", TN_CU_CAPTURE_MODE_GLOBAL, TN_CU_CAPTURE_MODE_THREAD_LOCAL,
         TN_CUDA_SUCCESS},
        {"global, relaxed", TN_CU_CAPTURE_MODE_GLOBAL, TN_CU_CAPTURE_MODE_RELAXED, TN_CUDA_SUCCESS},
        {"thread-local, global", TN_CU_CAPTURE_MODE_THREAD_LOCAL, TN_CU_CAPTURE_MODE_GLOBAL,
         TN_CUDA_SUCCESS},
        {"relaxed, global", TN_CU_CAPTURE_MODE_RELAXED, TN_CU_CAPTURE_MODE_GLOBAL, TN_CUDA_SUCCESS},
    };
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        STATE("%s", rows[i].name);
        begin(s, rows[i].capture);
        contract_gives(rows[i].result, "cuMemAlloc(", elsewhere(rows[i].own, capture_allocate, s));
        if (rows[i].result == TN_CUDA_SUCCESS)
            capture_end(s, 0, 0);
        else
            END_BADLY(STREAM_CAPTURE_INVALIDATED, s);
    }
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(exchanged)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_capture_mode mode = TN_CU_CAPTURE_MODE_RELAXED;
    begin(s, TN_CU_CAPTURE_MODE_GLOBAL);
    GIVES(SUCCESS, cuThreadExchangeStreamCaptureMode(&mode));
    HOLDS(mode == TN_CU_CAPTURE_MODE_GLOBAL, "the mode was global");
    contract_gives(TN_CUDA_SUCCESS, "cuMemAlloc(", capture_allocate(s));
    mode = TN_CU_CAPTURE_MODE_THREAD_LOCAL;
    GIVES(SUCCESS, cuThreadExchangeStreamCaptureMode(&mode));
    HOLDS(mode == TN_CU_CAPTURE_MODE_RELAXED, "then relaxed");
    mode = (tn_cu_capture_mode)9;
    GIVES(SUCCESS, cuThreadExchangeStreamCaptureMode(&mode));
    HOLDS(mode == TN_CU_CAPTURE_MODE_THREAD_LOCAL, "then thread-local");
    mode = TN_CU_CAPTURE_MODE_GLOBAL;
    GIVES(SUCCESS, cuThreadExchangeStreamCaptureMode(&mode));
    HOLDS(mode == (tn_cu_capture_mode)9, "then 9, which was accepted");
    IS_ACTIVE(s);
    capture_end(s, 0, 0);
    SET_UP(cuStreamDestroy(s));
}

static tn_cu_result own_mode(tn_cu_stream stream)
{
    tn_cu_capture_mode mode = TN_CU_CAPTURE_MODE_GLOBAL;
    (void)stream;
    cu.cuThreadExchangeStreamCaptureMode(&mode);
    return (tn_cu_result)mode;
}

static void store_mode(void *argument)
{
    *(tn_cu_result *)argument = own_mode(NULL);
}

CASE_BODY(new_thread)
{
    tn_cu_capture_mode mode = TN_CU_CAPTURE_MODE_RELAXED;
    tn_cu_result theirs = (tn_cu_result)77;
    SET_UP(cuThreadExchangeStreamCaptureMode(&mode));
    contract_elsewhere(store_mode, &theirs);
    SET_UP(cuThreadExchangeStreamCaptureMode(&mode));
    HOLDS((int)theirs == TN_CU_CAPTURE_MODE_GLOBAL, "a new thread's mode is global");
}

/* A capture ended by a thread that did not begin it. */
CASE_BODY(wrong_thread)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    STATE("global");
    begin(s, TN_CU_CAPTURE_MODE_GLOBAL);
    contract_gives(TN_CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "cuStreamEndCapture(",
                   elsewhere(TN_CU_CAPTURE_MODE_GLOBAL, end, s));
    IS_IDLE(s);
    END_BADLY(ILLEGAL_STATE, s);
    STATE("thread-local");
    begin(s, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    contract_gives(TN_CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "cuStreamEndCapture(",
                   elsewhere(TN_CU_CAPTURE_MODE_RELAXED, end, s));
    IS_IDLE(s);
    STATE("relaxed");
    begin(s, TN_CU_CAPTURE_MODE_RELAXED);
    contract_gives(TN_CUDA_SUCCESS, "cuStreamEndCapture(",
                   elsewhere(TN_CU_CAPTURE_MODE_GLOBAL, end, s));
    IS_IDLE(s);
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(other_thread_launches)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    contract_kernels();
    begin(s, TN_CU_CAPTURE_MODE_GLOBAL);
    contract_gives(TN_CUDA_SUCCESS, "cuLaunchKernel(",
                   elsewhere(TN_CU_CAPTURE_MODE_GLOBAL, capture_launch, s));
    capture_end(s, 1, 0);
    SET_UP(cuStreamDestroy(s));
}

/* Captures that were begun by a thread that has ended. */
CASE_BODY(thread_gone)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    STATE("global");
    contract_gives(TN_CUDA_SUCCESS, "cuStreamBeginCapture(",
                   elsewhere(TN_CU_CAPTURE_MODE_GLOBAL, begin_global, s));
    IS_ACTIVE(s);
    contract_gives(TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuMemAlloc(", capture_allocate(s));
    END_BADLY(STREAM_CAPTURE_INVALIDATED, s);
    IS_IDLE(s);
    STATE("global, left alone");
    contract_gives(TN_CUDA_SUCCESS, "cuStreamBeginCapture(",
                   elsewhere(TN_CU_CAPTURE_MODE_GLOBAL, begin_global, s));
    END_BADLY(STREAM_CAPTURE_WRONG_THREAD, s);
    IS_IDLE(s);
    STATE("thread-local");
    contract_gives(TN_CUDA_SUCCESS, "cuStreamBeginCapture(",
                   elsewhere(TN_CU_CAPTURE_MODE_GLOBAL, begin_local, s));
    contract_gives(TN_CUDA_SUCCESS, "cuMemAlloc(", capture_allocate(s));
    END_BADLY(STREAM_CAPTURE_WRONG_THREAD, s);
    STATE("relaxed");
    contract_gives(TN_CUDA_SUCCESS, "cuStreamBeginCapture(",
                   elsewhere(TN_CU_CAPTURE_MODE_GLOBAL, begin_relaxed, s));
    capture_end(s, 0, 0);
    STATE("the stream can be used");
    contract_gives(TN_CUDA_SUCCESS, "cuLaunchKernel(", capture_launch(s));
    GIVES(SUCCESS, cuStreamSynchronize(s));
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(origin_destroyed)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    begin(s, TN_CU_CAPTURE_MODE_GLOBAL);
    capture_node(s);
    GIVES(SUCCESS, cuStreamDestroy(s));
    contract_gives(TN_CUDA_SUCCESS, "cuMemAlloc(",
                   elsewhere(TN_CU_CAPTURE_MODE_GLOBAL, capture_allocate, NULL));
    contract_gives(TN_CUDA_SUCCESS, "cuMemAlloc(", capture_allocate(NULL));
}

CASE_BODY(origin_destroyed_forked)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_stream forked = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event event = contract_event();
    begin(s, TN_CU_CAPTURE_MODE_GLOBAL);
    SET_UP(cuEventRecord(event, s));
    SET_UP(cuStreamWaitEvent(forked, event, 0));
    capture_node(forked);
    GIVES(SUCCESS, cuStreamDestroy(s));
    IS_IDLE(forked);
    contract_gives(TN_CUDA_SUCCESS, "cuLaunchKernel(", capture_launch(forked));
    GIVES(SUCCESS, cuStreamSynchronize(forked));
    GIVES(INVALID_VALUE, cuEventQuery(event));
    SET_UP(cuEventDestroy(event));
    SET_UP(cuStreamDestroy(forked));
}

static const struct contract_case cases[] = {
    CASE("modes", "Another thread's mode and the capture's decide what it may do.", modes),
    CASE("exchanged", "A thread changes its mode; any number is one.", exchanged),
    CASE("new-thread", "Modes are not handed down to new threads.", new_thread),
    CASE("wrong-thread", "Who ends another thread's capture loses it, unless it is relaxed.",
         wrong_thread),
    CASE("other-thread-launches", "Any thread may launch into a capture.", other_thread_launches),
    CASE("thread-gone", "A capture outlives its thread.", thread_gone),
    CASE("origin-destroyed", "A capture goes with the stream that began it.", origin_destroyed),
    CASE("origin-destroyed-forked", "The streams that joined it are free then.",
         origin_destroyed_forked),
};
const struct contract_group contract_capture_threads =
    CONTRACT_GROUP("capture_threads", START_CONTEXT, cases);
