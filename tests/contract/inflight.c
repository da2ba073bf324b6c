// SPDX-License-Identifier: Apache-2.0
/* inflight.c -- calls while the device is at work: which wait for it, and that free calls trouble
 * neither it nor a capture of another thread.
 *
 * How it works. The calls are those of the matrix (matrix.h). A kernel is held on a stream of its
 * own, which is not ordered with the legacy stream; a call has waited when that kernel has ended by
 * the time it returns. It is held for 60 ms; where the call is not to wait, for so long that a slow
 * call, or a machine that is busy with other things, does not look like waiting.
 *
 *   inflight/...   every free call, while another thread has a capture in global mode under way
 *   waits/...      every call, without captures */
#include "contract/matrix.h"

#include <stdlib.h>
#include <string.h>

#define HELD_NS UINT64_C(60000000)
#define HELD_LONG_NS UINT64_C(1000000000)

struct inflight_case {
    const struct matrix_row *row;
    enum matrix_place place;
    char name[96];
    char sentence[160];
};

/* A capture that another thread makes. */
struct capture {
    tn_cu_stream stream;
    tn_cu_result begun;
    tn_cu_result ended;
    tn_cu_capture_status status; /* after the call */
    tn_cu_graph graph;
};

static void begin_capture(void *argument)
{
    struct capture *capture = argument;
    capture->begun = cu.cuStreamBeginCapture(capture->stream, TN_CU_CAPTURE_MODE_GLOBAL);
}

static void end_capture(void *argument)
{
    struct capture *capture = argument;
    cu.cuStreamIsCapturing(capture->stream, &capture->status);
    capture->ended = cu.cuStreamEndCapture(capture->stream, &capture->graph);
}

struct outcome {
    tn_cu_result got;
    bool runs; /* the kernel still ran when the call returned */
};

/* Calls while a kernel is held, and where asked for while another thread captures. */
static struct outcome call_busy(const struct inflight_case *c, struct capture *capture)
{
    struct matrix_things *t = matrix_things();
    struct outcome outcome;
    t->stream = c->place == MATRIX_PLACE_NON_BLOCKING ? TN_CU_STREAM_LEGACY : t->other;
    c->row->prepare(t);
    struct contract_busy busy = contract_busy_begin_for(c->row->waits ? HELD_NS : HELD_LONG_NS);
    if (capture != NULL)
        contract_thread_do(matrix_thread(), begin_capture, capture);
    outcome.got = c->row->call(t);
    outcome.runs = contract_busy_runs(&busy);
    if (capture != NULL)
        contract_thread_do(matrix_thread(), end_capture, capture);
    contract_busy_end(&busy);
    c->row->clean(t, outcome.got == TN_CUDA_SUCCESS);
    return outcome;
}

static void call(const struct inflight_case *c, struct capture *capture, tn_cu_result expected)
{
    struct outcome outcome = call_busy(c, capture);
    char function[64];
    if (capture != NULL && capture->graph != NULL)
        SET_UP(cuGraphDestroy(capture->graph));
    snprintf(function, sizeof function, "%.*s(", (int)strcspn(c->row->name, "_"), c->row->name);
    contract_gives(expected, function, outcome.got);
    HOLDS(outcome.runs != c->row->waits, "%s", outcome.runs ? "does not wait" : "waits");
}

static void run_waits(const void *argument)
{
    const struct inflight_case *c = argument;
    struct matrix_treatment treatment = c->row->at[c->place];
    call(c, NULL, treatment.class == MATRIX_FATAL ? TN_CUDA_SUCCESS : treatment.result);
}

static void run_inflight(const void *argument)
{
    const struct inflight_case *c = argument;
    struct capture capture = {.stream = matrix_things()->capturing};
    call(c, &capture, c->row->at[c->place].result);
    contract_gives(TN_CUDA_SUCCESS, "cuStreamBeginCapture(", capture.begun);
    HOLDS(capture.status == TN_CU_CAPTURE_STATUS_ACTIVE, "the capture is active");
    contract_gives(TN_CUDA_SUCCESS, "cuStreamEndCapture(", capture.ended);
}

static bool is_inflight(enum matrix_class class)
{
    return class == MATRIX_FREE;
}

static bool can_be_called(enum matrix_class class)
{
    return class != MATRIX_LEFT_OUT && class != MATRIX_NODE;
}

/* Makes a case of each row and place outside captures whose class is asked for. */
static const struct contract_case *make(size_t *count, bool (*wanted)(enum matrix_class),
                                        void (*run)(const void *), const char *what)
{
    static const enum matrix_place places[] = {MATRIX_PLACE_NONE, MATRIX_PLACE_OTHER,
                                               MATRIX_PLACE_NON_BLOCKING};
    static const char *const suffixes[] = {"", "-on-other", "-on-legacy"};
    size_t rows = 0;
    while (matrix_row(rows) != NULL)
        rows++;
    struct contract_case *cases = calloc(rows * 3, sizeof *cases);
    struct inflight_case *data = calloc(rows * 3, sizeof *data);
    if (cases == NULL || data == NULL)
        abort();
    *count = 0;
    for (size_t i = 0; i < rows * 3; i++) {
        struct inflight_case *c = &data[*count];
        c->row = matrix_row(i / 3);
        c->place = places[i % 3];
        if (!wanted(c->row->at[c->place].class))
            continue;
        matrix_write_name(c->name, sizeof c->name, c->row, suffixes[i % 3]);
        snprintf(c->sentence, sizeof c->sentence, "%.*s %s, %s.", (int)strcspn(c->row->name, "_"),
                 c->row->name,
                 c->row->waits ? "waits for the device" : "does not wait for the device", what);
        cases[*count] = (struct contract_case)CASE(c->name, c->sentence, run);
        cases[*count].argument = c;
        ++*count;
    }
    return cases;
}

static const struct contract_case *make_inflight(size_t *count)
{
    return make(count, is_inflight, run_inflight,
                "and leaves another thread's global capture alone");
}

static const struct contract_case *make_waits(size_t *count)
{
    return make(count, can_be_called, run_waits, "which runs a kernel on another stream");
}

const struct contract_group contract_inflight = {
    .name = "inflight", .start = START_CONTEXT, .make = make_inflight};
const struct contract_group contract_waits = {
    .name = "waits", .start = START_CONTEXT, .make = make_waits};
