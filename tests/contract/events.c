// SPDX-License-Identifier: Apache-2.0
/* events.c -- events outside captures: kinds, states, waiting, times. */
#include "contract/contract.h"

static void destroy(tn_cu_event event)
{
    SET_UP(cuEventDestroy(event));
}

static tn_cu_event timed(void)
{
    tn_cu_event event;
    SET_UP(cuEventCreate(&event, TN_CU_EVENT_DEFAULT));
    return event;
}

CASE_BODY(flags)
{
    for (unsigned int flags = 0; flags < 16; flags++) {
        tn_cu_event event;
        bool good = flags < 8 && ((flags & TN_CU_EVENT_INTERPROCESS) == 0 ||
                                  (flags & TN_CU_EVENT_DISABLE_TIMING) != 0);
        STATE("%u", flags);
        if (contract_gives(good ? TN_CUDA_SUCCESS : TN_CUDA_ERROR_INVALID_VALUE, "cuEventCreate(",
                           cu.cuEventCreate(&event, flags)) == TN_CUDA_SUCCESS)
            GIVES(SUCCESS, cuEventDestroy(event));
    }
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuEventCreate(NULL, 0));
}

CASE_BODY(none)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event event = timed();
    float time;
    GIVES(INVALID_HANDLE, cuEventDestroy(NULL));
    GIVES(INVALID_HANDLE, cuEventRecord(NULL, s));
    GIVES(INVALID_HANDLE, cuEventRecordWithFlags(NULL, s, 0));
    GIVES(INVALID_HANDLE, cuEventQuery(NULL));
    GIVES(INVALID_HANDLE, cuEventSynchronize(NULL));
    GIVES(INVALID_HANDLE, cuStreamWaitEvent(s, NULL, 0));
    GIVES(INVALID_HANDLE, cuEventElapsedTime(&time, NULL, event));
    GIVES(INVALID_HANDLE, cuEventElapsedTime(&time, event, NULL));
    SET_UP(cuEventRecord(event, s));
    SET_UP(cuStreamSynchronize(s));
    GIVES(INVALID_HANDLE, cuEventElapsedTime(NULL, event, event));
    destroy(event);
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(never)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event event = timed();
    float time;
    GIVES(SUCCESS, cuEventQuery(event));
    GIVES(SUCCESS, cuEventSynchronize(event));
    GIVES(SUCCESS, cuStreamWaitEvent(s, event, 0));
    GIVES(INVALID_HANDLE, cuEventElapsedTime(&time, event, event));
    destroy(event);
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(pending)
{
    struct contract_busy busy = contract_busy_begin();
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event early = timed();
    tn_cu_event event = timed();
    tn_cu_event after = contract_event();
    float time;
    SET_UP(cuEventRecord(early, s));
    SET_UP(cuStreamSynchronize(s));
    GIVES(SUCCESS, cuEventRecord(event, busy.stream));
    GIVES(NOT_READY, cuEventQuery(event));
    GIVES(NOT_READY, cuEventElapsedTime(&time, early, event));
    GIVES(NOT_READY, cuStreamQuery(busy.stream));
    GIVES(SUCCESS, cuStreamWaitEvent(s, event, 0));
    GIVES(NOT_READY, cuStreamQuery(s));
    GIVES(SUCCESS, cuEventRecord(after, s));
    GIVES(NOT_READY, cuEventQuery(after));
    STATE("an event recorded again stands for the later moment");
    GIVES(SUCCESS, cuEventRecord(early, busy.stream));
    GIVES(NOT_READY, cuEventQuery(early));
    contract_busy_end(&busy);
    GIVES(SUCCESS, cuEventSynchronize(after));
    GIVES(SUCCESS, cuEventQuery(event));
    GIVES(SUCCESS, cuEventQuery(early));
    GIVES(SUCCESS, cuStreamQuery(s));
    destroy(early);
    destroy(event);
    destroy(after);
    SET_UP(cuStreamDestroy(s));
}

/* A wait is for what the event stood for when the wait was asked for. */
CASE_BODY(destroyed_early)
{
    struct contract_busy busy = contract_busy_begin();
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event event = contract_event();
    SET_UP(cuEventRecord(event, busy.stream));
    SET_UP(cuStreamWaitEvent(s, event, 0));
    GIVES(SUCCESS, cuEventDestroy(event));
    GIVES(NOT_READY, cuStreamQuery(s));
    contract_busy_end(&busy);
    GIVES(SUCCESS, cuStreamSynchronize(s));
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(elapsed)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event from = timed();
    tn_cu_event to = timed();
    tn_cu_event untimed = contract_event();
    float time = -1;
    struct contract_busy busy = contract_busy_begin();
    SET_UP(cuEventRecord(from, s));
    SET_UP(cuStreamWaitEvent(s, busy.done, 0));
    SET_UP(cuEventRecord(to, s));
    SET_UP(cuEventRecord(untimed, s));
    SET_UP(cuStreamSynchronize(s));
    contract_busy_end(&busy);
    GIVES(SUCCESS, cuEventElapsedTime(&time, from, to));
    HOLDS(time > 30 && time < 1000, "the work of 60 ms lies between them");
    GIVES(SUCCESS, cuEventElapsedTime(&time, to, from));
    HOLDS(time < 0, "backwards it is negative");
    GIVES(SUCCESS, cuEventElapsedTime(&time, to, to));
    HOLDS(time > -0.001F && time < 0.001F, "from itself it is nothing");
    STATE("without times");
    GIVES(INVALID_HANDLE, cuEventElapsedTime(&time, from, untimed));
    GIVES(INVALID_HANDLE, cuEventElapsedTime(&time, untimed, to));
    destroy(from);
    destroy(to);
    destroy(untimed);
    SET_UP(cuStreamDestroy(s));
}

static const struct contract_case cases[] = {
    CASE("flags", "Events wait in three ways, which go together but for one pair.", flags),
    CASE("none", "NULL is no event.", none),
    CASE("never", "An event that was never recorded has come, at no time.", never),
    CASE("pending", "An event comes when what was before it on its stream is done.", pending),
    CASE("destroyed-early", "A wait outlives its event.", destroyed_early),
    CASE("elapsed", "Events with times tell the time between them.", elapsed),
};
const struct contract_group contract_events = CONTRACT_GROUP("events", START_CONTEXT, cases);
