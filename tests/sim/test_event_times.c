// SPDX-License-Identifier: Apache-2.0
/* test_event_times.c -- the times of events.
 *
 * A program of random work, records, waits and launches on several streams keeps, for each record, the
 * records that are known to come before it: by the order of a stream, of the legacy stream and those ordered
 * with it, by waits, and by what the thread has waited for. The time from one to the other is never negative. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim_test.h"

enum { STREAMS = 6, LEGACY = 0, BLOCKING = 2, EVENTS = 24, RECORDS = 512, STEPS = 300, SEEDS = 8 };

/* A set of records. */
struct records {
    uint64_t words[RECORDS / 64];
};

static void add(struct records *to, const struct records *from)
{
    for (size_t i = 0; i < RECORDS / 64; i++)
        to->words[i] |= from->words[i];
}

static void add_one(struct records *to, size_t record)
{
    to->words[record / 64] |= UINT64_C(1) << record % 64;
}

static bool has(const struct records *records, size_t record)
{
    return (records->words[record / 64] >> record % 64 & 1) != 0;
}

struct program {
    uint64_t random;
    tn_cu_stream streams[STREAMS];  /* the legacy one, blocking ones, the others */
    struct records before[STREAMS]; /* what is done before a stream's next work */
    struct records known;           /* to the thread */
    tn_cu_event events[EVENTS];
    size_t stands_for[EVENTS]; /* a record, or RECORDS: none */
    struct records before_record[RECORDS];
    size_t record_count;
    tn_cu_graphexec exec; /* it records the last two events, one after the other */
    struct mapped mapped;
};

static size_t below(struct program *p, size_t bound)
{
    uint64_t x = p->random += 0x9e3779b97f4a7c15; /* SplitMix64 */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return (size_t)((x ^ (x >> 31)) % bound);
}

/* What a stream's next work comes after, the thread's knowledge and the legacy rule included. */
static struct records *order(struct program *p, size_t stream)
{
    add(&p->before[stream], &p->known);
    if (stream == LEGACY) {
        for (size_t i = 1; i <= BLOCKING; i++)
            add(&p->before[LEGACY], &p->before[i]);
    } else if (stream <= BLOCKING) {
        add(&p->before[stream], &p->before[LEGACY]);
    }
    return &p->before[stream];
}

static void note(struct program *p, size_t event, size_t stream)
{
    size_t record = p->record_count++;
    struct records *before = order(p, stream);
    p->before_record[record] = *before;
    add_one(before, record);
    p->stands_for[event] = record;
}

static void linger(void *user)
{
    struct timespec time = {.tv_nsec = (long)(uintptr_t)user};
    nanosleep(&time, NULL);
}

/* Each stream's memory, and behind that the graph's: nothing orders two streams that write the same. */
static uint64_t part_of(const struct program *p, size_t part)
{
    return p->mapped.address + part * MIB;
}

static void work(struct program *p, size_t stream)
{
    order(p, stream);
    if (below(p, 3) == 0)
        OK(cu.cuLaunchHostFunc(p->streams[stream], linger, (void *)(uintptr_t)below(p, 200000)));
    else
        OK(cu.cuMemsetD8Async(part_of(p, stream), 1, 1 + below(p, MIB), p->streams[stream]));
}

/* A wait for what has come is no work, and no reason for other streams to wait. */
static void wait_for(struct program *p, size_t stream, size_t event)
{
    OK(cu.cuStreamWaitEvent(p->streams[stream], p->events[event], 0));
    struct records *before = &p->before[stream];
    size_t record = p->stands_for[event];
    if (record == RECORDS)
        return;
    add(before, &p->before_record[record]);
    add_one(before, record);
}

static void learn(struct program *p, size_t event)
{
    OK(cu.cuEventSynchronize(p->events[event]));
    size_t record = p->stands_for[event];
    if (record == RECORDS)
        return;
    add(&p->known, &p->before_record[record]);
    add_one(&p->known, record);
}

static void launch(struct program *p, size_t stream)
{
    OK(cu.cuGraphLaunch(p->exec, p->streams[stream]));
    note(p, EVENTS - 2, stream);
    note(p, EVENTS - 1, stream);
}

static void step(struct program *p)
{
    size_t stream = below(p, STREAMS);
    size_t event = below(p, EVENTS - 2);
    switch (below(p, 10)) {
    case 0:
    case 1:
    case 2:
        work(p, stream);
        break;
    case 3:
    case 4:
    case 5:
    case 6:
        OK(cu.cuEventRecord(p->events[event], p->streams[stream]));
        note(p, event, stream);
        break;
    case 7:
        wait_for(p, stream, below(p, EVENTS));
        break;
    case 8:
        launch(p, stream);
        break;
    default:
        if (below(p, 4) == 0)
            learn(p, event);
    }
}

static tn_cu_graphexec recorder(struct program *p)
{
    tn_cu_graph graph;
    tn_cu_graphexec exec;
    tn_cu_stream stream = p->streams[STREAMS - 1];
    OK(cu.cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_RELAXED));
    for (size_t i = EVENTS - 2; i < EVENTS; i++) {
        OK(cu.cuMemsetD8Async(part_of(p, STREAMS), 1, MIB, stream));
        OK(cu.cuEventRecordWithFlags(p->events[i], stream, TN_CU_EVENT_RECORD_EXTERNAL));
    }
    OK(cu.cuStreamEndCapture(stream, &graph));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphDestroy(graph));
    return exec;
}

static struct program *begin(uint64_t seed)
{
    struct program *p = calloc(1, sizeof *p);
    ck_assert_ptr_nonnull(p);
    p->random = seed;
    p->mapped = map_new((STREAMS + 2) * MIB);
    p->streams[LEGACY] = TN_CU_STREAM_LEGACY;
    for (size_t i = 1; i < STREAMS; i++)
        p->streams[i] =
            new_stream(i <= BLOCKING ? TN_CU_STREAM_DEFAULT : TN_CU_STREAM_NON_BLOCKING);
    for (size_t i = 0; i < EVENTS; i++) {
        OK(cu.cuEventCreate(&p->events[i], TN_CU_EVENT_DEFAULT));
        p->stands_for[i] = RECORDS;
    }
    p->exec = recorder(p);
    return p;
}

/* Compares the times of each two events that are ordered. Returns how many there were. */
static size_t compare(const struct program *p)
{
    size_t count = 0;
    for (size_t i = 0; i < EVENTS; i++) {
        for (size_t j = 0; j < EVENTS; j++) {
            float time = -1;
            if (p->stands_for[i] == RECORDS || p->stands_for[j] == RECORDS ||
                !has(&p->before_record[p->stands_for[j]], p->stands_for[i]))
                continue;
            OK(cu.cuEventElapsedTime(&time, p->events[i], p->events[j]));
            ck_assert_msg(time >= 0, "record %zu to record %zu: %f ms", p->stands_for[i],
                          p->stands_for[j], (double)time);
            count++;
        }
    }
    return count;
}

static const struct {
    const char *costs; /* NULL: none */
    const char *sleep;
} clocks[] = {{NULL, "0"}, {"h200", "0"}, {"h200", "1"}};
enum { CLOCKS = sizeof clocks / sizeof clocks[0], PROGRAMS = SEEDS * CLOCKS };

SUITE("event times")
GROUP(random, NULL, .name = "random programs")

TEST_LOOP(random, time_never_runs_backwards_along_streams_and_waits, 0, PROGRAMS)
{
    size_t clock = (size_t)_i % CLOCKS;
    load_driver();
    if (clocks[clock].costs != NULL)
        ck_assert_int_eq(sim.tarn_sim_configure("COSTS", clocks[clock].costs), 0);
    ck_assert_int_eq(sim.tarn_sim_configure("COSTS_SLEEP", clocks[clock].sleep), 0);
    start_context();
    struct program *p = begin((uint64_t)_i + 1);
    size_t compared = 0;
    for (size_t i = 0; i < STEPS && p->record_count + 2 < RECORDS; i++) {
        step(p);
        if (i % 40 == 39) {
            OK(cu.cuCtxSynchronize());
            compared += compare(p);
        }
    }
    ck_assert_uint_gt(compared, 100);
    free(p);
}

GROUP(context, start_context)

/* Several events behind one piece of work come at one time, whichever is the newest. */
TEST(context, events_behind_one_piece_of_work_have_one_time)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event events[4];
    float time = -1;
    sim.tarn_sim_hold_work();
    OK(cu.cuLaunchHostFunc(stream, linger, NULL));
    for (size_t i = 0; i < 4; i++) {
        OK(cu.cuEventCreate(&events[i], TN_CU_EVENT_DEFAULT));
        OK(cu.cuEventRecord(events[i], stream));
    }
    ANSWERS(TN_CUDA_ERROR_NOT_READY, cu.cuEventElapsedTime(&time, events[0], events[1]));
    sim.tarn_sim_resume_work();
    OK(cu.cuStreamSynchronize(stream));
    for (size_t i = 1; i < 4; i++) {
        OK(cu.cuEventElapsedTime(&time, events[i - 1], events[i]));
        ck_assert_float_eq(time, 0);
    }
}

/* What the account says of the calls from one record to the other; whether the GPU is idle or held. */
TEST_LOOP(random, with_costs_the_time_between_records_is_the_accounts, 0, 2)
{
    tarn_sim_cost cost;
    tn_cu_event from;
    tn_cu_event to;
    float time = -1;
    load_driver();
    const char *path = file_with("cuEventRecord 1000\ncuLaunchHostFunc 2000000\n* 0\n");
    ck_assert_int_eq(sim.tarn_sim_configure("COSTS", path), 0);
    start_context();
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    OK(cu.cuEventCreate(&from, TN_CU_EVENT_DEFAULT));
    OK(cu.cuEventCreate(&to, TN_CU_EVENT_DEFAULT));
    sim.tarn_sim_reset_account();
    if (_i == 1)
        sim.tarn_sim_hold_work();
    for (int i = 0; i < 3; i++)
        OK(cu.cuLaunchHostFunc(stream, linger, (void *)(uintptr_t)1000000));
    OK(cu.cuEventRecord(from, stream));
    sim.tarn_sim_reset_account(); /* which sets no clock back */
    for (int i = 0; i < 3; i++)
        OK(cu.cuLaunchHostFunc(stream, linger, (void *)(uintptr_t)1000000));
    sim.tarn_sim_read_account(NULL, &cost);
    ck_assert_uint_eq(cost.ns, 6000000);
    OK(cu.cuEventRecord(to, stream));
    if (_i == 1)
        sim.tarn_sim_resume_work();
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuEventElapsedTime(&time, from, to));
    ck_assert_float_eq_tol(time, 6.001F, 1e-5F); /* and the first record's own */
}
