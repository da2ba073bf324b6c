// SPDX-License-Identifier: Apache-2.0
/* matrix_streams.c -- the rows of streams, events, captures and launches. */
#include "contract/matrix.h"

static void called_back(tn_cu_stream stream, tn_cu_result result, void *user)
{
    (void)stream;
    (void)result;
    (void)user;
}

static void make_event(struct matrix_things *t)
{
    SET_UP(cuEventCreate(&t->event, TN_CU_EVENT_DISABLE_TIMING));
}

static void drop_event(struct matrix_things *t)
{
    SET_UP(cuEventDestroy(t->event));
}

/* A capture of its own, begun and ended by one thread. */
static tn_cu_result end_own(struct matrix_things *t, tn_cu_result begun)
{
    tn_cu_graph graph = NULL;
    if (begun == TN_CUDA_SUCCESS && cu.cuStreamEndCapture(t->stream, &graph) == TN_CUDA_SUCCESS)
        cu.cuGraphDestroy(graph);
    return begun;
}

static tn_cu_result begin_capture(struct matrix_things *t)
{
    return end_own(t, cu.cuStreamBeginCapture(t->stream, TN_CU_CAPTURE_MODE_RELAXED));
}

/* The same, with a graph that the capture goes to. */
static tn_cu_result begin_capture_to(struct matrix_things *t)
{
    tn_cu_graph graph;
    tn_cu_result result = cu.cuStreamBeginCaptureToGraph(t->stream, t->graph, NULL, NULL, 0,
                                                         TN_CU_CAPTURE_MODE_RELAXED);
    if (result == TN_CUDA_SUCCESS)
        cu.cuStreamEndCapture(t->stream, &graph);
    return result;
}

static tn_cu_result end_capture(struct matrix_things *t)
{
    tn_cu_graph graph;
    return cu.cuStreamEndCapture(t->stream, &graph);
}

static tn_cu_result capture_info(struct matrix_things *t)
{
    tn_cu_capture_status status;
    return cu.cuStreamGetCaptureInfo(t->stream, &status, NULL, NULL, NULL, NULL, NULL);
}

static tn_cu_result is_capturing(struct matrix_things *t)
{
    tn_cu_capture_status status;
    return cu.cuStreamIsCapturing(t->stream, &status);
}

static tn_cu_result add_no_dependencies(struct matrix_things *t)
{
    return cu.cuStreamUpdateCaptureDependencies(t->stream, NULL, NULL, 0,
                                                TN_CU_CAPTURE_DEPENDENCIES_ADD);
}

static void make_timed_event(struct matrix_things *t)
{
    SET_UP(cuEventCreate(&t->event, TN_CU_EVENT_DEFAULT));
}

/* The event, having been recorded on the capturing stream, stands in its capture. */
static tn_cu_event captured_event(struct matrix_things *t)
{
    cu.cuEventRecord(t->event, t->stream);
    return t->event;
}

static tn_cu_result elapsed_captured(struct matrix_things *t)
{
    float milliseconds;
    return cu.cuEventElapsedTime(&milliseconds, t->recorded, captured_event(t));
}

static tn_cu_result elapsed(struct matrix_things *t)
{
    float milliseconds;
    return cu.cuEventElapsedTime(&milliseconds, t->recorded, t->recorded_later);
}

static tn_cu_result launch(struct matrix_things *t)
{
    return cu.cuLaunchKernel(contract_kernels()->empty, 1, 1, 1, 1, 1, 1, 0, t->stream, NULL, NULL);
}

/* A function that was never launched. */
static void make_function(struct matrix_things *t)
{
    SET_UP(cuModuleLoadData(&t->module, matrix_ptx));
    SET_UP(cuModuleGetFunction(&t->function, t->module, "tarn_contract_nothing"));
}

static tn_cu_result launch_kernel(struct matrix_things *t)
{
    return cu.cuLaunchKernel((tn_cu_function)(void *)t->made_kernel, 1, 1, 1, 1, 1, 1, 0, t->stream,
                             NULL, NULL);
}

static tn_cu_result launch_first(struct matrix_things *t)
{
    return cu.cuLaunchKernel(t->function, 1, 1, 1, 1, 1, 1, 0, t->stream, NULL, NULL);
}

static tn_cu_result launch_too_large(struct matrix_things *t)
{
    return cu.cuLaunchKernel(contract_kernels()->empty, 1, 1, 1, 4096, 1, 1, 0, t->stream, NULL,
                             NULL);
}

static tn_cu_result launch_ex(struct matrix_things *t)
{
    tn_cu_launch_config config = {1, 1, 1, 1, 1, 1, 0, t->stream, NULL, 0};
    return cu.cuLaunchKernelEx(&config, contract_kernels()->empty, NULL, NULL);
}

static tn_cu_result launch_cooperative(struct matrix_things *t)
{
    return cu.cuLaunchCooperativeKernel(contract_kernels()->empty, 1, 1, 1, 1, 1, 1, 0, t->stream,
                                        NULL);
}

static void need_exec(struct matrix_things *t)
{
    t->exec = matrix_graph(t, TN_CU_NODE_KERNEL, true)->exec;
}

// clang-format off
#define ROWS(X)                                                                                    \
    X(cuStreamCreate, false, FREE, ,                                                               \
      cu.cuStreamCreate(&t->made_stream, TN_CU_STREAM_NON_BLOCKING),                               \
      if (done) SET_UP(cuStreamDestroy(t->made_stream)))                                           \
    X(cuStreamCreateWithPriority, false, FREE, ,                                                   \
      cu.cuStreamCreateWithPriority(&t->made_stream, TN_CU_STREAM_NON_BLOCKING, 0),                \
      if (done) SET_UP(cuStreamDestroy(t->made_stream)))                                           \
    X(cuStreamDestroy, false, FREE, t->made_stream = contract_stream(TN_CU_STREAM_NON_BLOCKING),   \
      cu.cuStreamDestroy(t->made_stream), if (!done) SET_UP(cuStreamDestroy(t->made_stream)))      \
    X(cuEventCreate, false, FREE, , cu.cuEventCreate(&t->event, TN_CU_EVENT_DISABLE_TIMING),       \
      if (done) drop_event(t))                                                                     \
    X(cuEventDestroy, false, FREE, make_event(t), cu.cuEventDestroy(t->event),                     \
      if (!done) drop_event(t))                                                                    \
    X(cuEventQuery, false, UNSAFE, , cu.cuEventQuery(t->recorded), )                               \
    X(cuEventQuery_never_recorded, false, UNSAFE, , cu.cuEventQuery(t->never), )                   \
    X(cuEventSynchronize, false, UNSAFE, , cu.cuEventSynchronize(t->recorded), )                   \
    X(cuEventElapsedTime, false, FREE, , elapsed(t), )

#define STREAM_ROWS(X)                                                                             \
    X(cuStreamQuery, false, FATAL, UNSAFE, IMPLICIT, UNSAFE, , cu.cuStreamQuery(t->stream), )      \
    X(cuStreamSynchronize, false, FATAL, UNSAFE, IMPLICIT, UNSAFE, ,                               \
      cu.cuStreamSynchronize(t->stream), )                                                         \
    X(cuStreamGetCtx, false, FREE, FREE, IMPLICIT, FREE, ,                                         \
      cu.cuStreamGetCtx(t->stream, &t->made_context), )                                            \
    X(cuStreamGetId, false, FATAL, FREE, IMPLICIT, FREE, ,                                         \
      cu.cuStreamGetId(t->stream, &t->word), )                                                     \
    X(cuStreamGetFlags, false, FATAL, FREE, IMPLICIT, FREE, ,                                      \
      cu.cuStreamGetFlags(t->stream, (unsigned int *)&t->word), )                                  \
    X(cuStreamGetPriority, false, FREE, FREE, IMPLICIT, FREE, ,                                    \
      cu.cuStreamGetPriority(t->stream, &t->number), )                                             \
    X(cuStreamIsCapturing, false, FREE, FREE, FREE_GIVING(STREAM_CAPTURE_IMPLICIT), FREE, ,        \
      is_capturing(t), )                                                                           \
    X(cuStreamGetCaptureInfo, false, FREE, FREE, FREE_GIVING(STREAM_CAPTURE_IMPLICIT), FREE, ,     \
      capture_info(t), )                                                                           \
    X(cuStreamBeginCapture, false, FREE_GIVING(ILLEGAL_STATE), FREE,                               \
      IMPLICIT, FREE_GIVING(STREAM_CAPTURE_UNSUPPORTED), ,                                         \
      begin_capture(t), )                                                                          \
    X(cuStreamBeginCaptureToGraph, false, FREE_GIVING(ILLEGAL_STATE), FREE,                        \
      IMPLICIT, FREE_GIVING(STREAM_CAPTURE_UNSUPPORTED),                                           \
      SET_UP(cuGraphCreate(&t->graph, 0)), begin_capture_to(t), SET_UP(cuGraphDestroy(t->graph)))  \
    X(cuStreamEndCapture, false, LEFT_OUT, FREE_GIVING(ILLEGAL_STATE), IMPLICIT,                   \
      FREE_GIVING(ILLEGAL_STATE), , end_capture(t), )                                              \
    X(cuStreamUpdateCaptureDependencies, false, FREE, FREE_GIVING(ILLEGAL_STATE),                  \
      IMPLICIT, FREE_GIVING(ILLEGAL_STATE), , add_no_dependencies(t), )                            \
    X(cuEventRecord, false, FREE, FREE, IMPLICIT, FREE, make_event(t),                             \
      cu.cuEventRecord(t->event, t->stream), drop_event(t))                                        \
    X(cuEventRecordWithFlags, false, FREE, FREE, IMPLICIT, FREE, make_event(t),                    \
      cu.cuEventRecordWithFlags(t->event, t->stream, 0), drop_event(t))                            \
    X(cuEventRecordWithFlags_external, false, NODE(EVENT_RECORD), FREE_GIVING(ILLEGAL_STATE),      \
      IMPLICIT, FREE_GIVING(ILLEGAL_STATE), make_event(t),                                         \
      cu.cuEventRecordWithFlags(t->event, t->stream, TN_CU_EVENT_RECORD_EXTERNAL), drop_event(t))  \
    X(cuEventQuery_captured, false, FATAL_GIVING(CAPTURED_EVENT), LEFT_OUT, LEFT_OUT, LEFT_OUT,    \
      make_event(t), cu.cuEventQuery(captured_event(t)), drop_event(t))                            \
    X(cuEventSynchronize_captured, false, FATAL_GIVING(CAPTURED_EVENT), LEFT_OUT, LEFT_OUT,        \
      LEFT_OUT, make_event(t), cu.cuEventSynchronize(captured_event(t)), drop_event(t))            \
    X(cuEventElapsedTime_captured, false, FREE_GIVING(CAPTURED_EVENT), LEFT_OUT, LEFT_OUT,         \
      LEFT_OUT, make_timed_event(t), elapsed_captured(t), drop_event(t))                           \
    X(cuStreamWaitEvent, false, FATAL_GIVING(STREAM_CAPTURE_ISOLATION), FREE, IMPLICIT, FREE, ,    \
      cu.cuStreamWaitEvent(t->stream, t->recorded, 0), )                                           \
    X(cuStreamWaitEvent_never_recorded, false, FREE, FREE, IMPLICIT, FREE, ,                       \
      cu.cuStreamWaitEvent(t->stream, t->never, 0), )                                              \
    X(cuStreamWaitEvent_external, false, NODE(WAIT_EVENT), FREE_GIVING(ILLEGAL_STATE), IMPLICIT,   \
      FREE_GIVING(ILLEGAL_STATE), ,                                                                \
      cu.cuStreamWaitEvent(t->stream, t->recorded, TN_CU_EVENT_WAIT_EXTERNAL), )                   \
    X(cuLaunchKernel, false, NODE(KERNEL), FREE, IMPLICIT, FREE, , launch(t), )                    \
    X(cuLaunchKernel_first, false, NODE(KERNEL), FREE, IMPLICIT, FREE, make_function(t),           \
      launch_first(t), SET_UP(cuModuleUnload(t->module)))                                          \
    X(cuLaunchKernel_first_of_library, true, NODE(KERNEL), FREE, IMPLICIT, FREE,                   \
      matrix_make_kernel(t), launch_kernel(t),                                                     \
      SET_UP(cuLibraryUnload(t->made_library)))                                                    \
    X(cuLaunchKernel_too_large, false, FATAL_GIVING(INVALID_VALUE), FREE_GIVING(INVALID_VALUE),    \
      IMPLICIT, FREE_GIVING(INVALID_VALUE), , launch_too_large(t), )                               \
    X(cuLaunchKernelEx, false, NODE(KERNEL), FREE, IMPLICIT, FREE, , launch_ex(t), )               \
    X(cuLaunchCooperativeKernel, false, NODE(KERNEL), FREE, IMPLICIT, FREE, ,                      \
      launch_cooperative(t), )                                                                     \
    X(cuLaunchHostFunc, false, NODE(HOST), FREE, IMPLICIT, FREE, ,                                 \
      cu.cuLaunchHostFunc(t->stream, matrix_nothing, t), )                                         \
    X(cuStreamAddCallback, false, FATAL, FREE, IMPLICIT, FREE, ,                                   \
      cu.cuStreamAddCallback(t->stream, called_back, t, 0), )                                      \
    X(cuGraphLaunch, false, FATAL, FREE, IMPLICIT, FREE, need_exec(t),                             \
      cu.cuGraphLaunch(t->exec, t->stream), )                                                      \
    X(cuGraphUpload, false, FATAL, FREE, IMPLICIT, FREE, need_exec(t),                             \
      cu.cuGraphUpload(t->exec, t->stream), )
// clang-format on

ROWS(MATRIX_DEFINE)
STREAM_ROWS(MATRIX_DEFINE_STREAM)
static const struct matrix_row rows[] = {ROWS(MATRIX_ENTRY) STREAM_ROWS(MATRIX_ENTRY_STREAM)};
const struct matrix_table matrix_streams = {rows, sizeof rows / sizeof rows[0]};
