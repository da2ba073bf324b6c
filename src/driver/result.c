// SPDX-License-Identifier: Apache-2.0
#include "driver/result.h"

#include <stddef.h>

const char *tn_result_name(tn_cu_result result)
{
    switch (result) {
#define RESULT_NAME(name, number)                                                                  \
    case TN_CUDA_##name:                                                                           \
        return "CUDA_" #name;
        TN_CUDA_RESULTS(RESULT_NAME)
#undef RESULT_NAME
    }
    return "an unknown CUDA error";
}

bool tn_result_is_sticky(tn_cu_result result)
{
    switch (result) {
    case TN_CUDA_ERROR_DEINITIALIZED:
    case TN_CUDA_ERROR_ECC_UNCORRECTABLE:
    case TN_CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case TN_CUDA_ERROR_CONTAINED:
    case TN_CUDA_ERROR_ILLEGAL_ADDRESS:
    case TN_CUDA_ERROR_LAUNCH_TIMEOUT:
    case TN_CUDA_ERROR_ASSERT:
    case TN_CUDA_ERROR_HARDWARE_STACK_ERROR:
    case TN_CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case TN_CUDA_ERROR_MISALIGNED_ADDRESS:
    case TN_CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case TN_CUDA_ERROR_INVALID_PC:
    case TN_CUDA_ERROR_LAUNCH_FAILED:
    case TN_CUDA_ERROR_MPS_CLIENT_TERMINATED:
        return true;
    default:
        return false;
    }
}

static const struct tn_driver_capture_error errors[] = {
    {TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
     "the call is not allowed in a capture, or beside one",
     "make it before or after the section; where it names no stream of the capture, capture in relaxed mode, or in "
     "thread-local mode if another thread makes it"},
    {TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
     "a call that a capture does not allow has broken it, and was itself answered with the reason",
     "look at what each call meanwhile answered, on its streams, on its thread, and where it is global on every "
     "thread"},
    {TN_CUDA_ERROR_STREAM_CAPTURE_MERGE,
     "a stream of one capture was made to wait for an event of another, which breaks both",
     "order the two outside their sections, or capture them as one"},
    {TN_CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
     "it was to be ended on a stream that had joined it, not on the one that it was begun on",
     "end it on the stream that it was begun on"},
    {TN_CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
     "a forked stream was not joined: it has work that the capturing stream does not wait for",
     "record an event behind the last work of each forked stream, and have the capturing stream wait for it before "
     "the end"},
    {TN_CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
     "a stream of the capture was made to wait for an event that was recorded outside of it",
     "record the event in the section, wait before the section, or wait with CU_EVENT_WAIT_EXTERNAL"},
    {TN_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
     "the legacy default stream was used, and would have had to wait for what is being captured",
     "capture a stream made with CU_STREAM_NON_BLOCKING, or keep work and synchronous copies off the default stream "
     "meanwhile"},
    {TN_CUDA_ERROR_CAPTURED_EVENT,
     "the host asked after an event, or waited for it, that was recorded in a capture",
     "ask the host's questions of events that are recorded outside captures"},
    {TN_CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
     "a thread ended it that had not begun it, and the driver has dropped what was captured",
     "end it on the thread that began it, or begin it in relaxed mode"},
};

const struct tn_driver_capture_error *tn_result_about_capture(tn_cu_result result)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        if (errors[i].result == result)
            return &errors[i];
    }
    return NULL;
}
