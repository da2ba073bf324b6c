// SPDX-License-Identifier: Apache-2.0
/* event_states.c -- every state of an event, against every call that takes one, in every place.
 *
 * How it works. A table says how an event comes into each state. A case takes one state and one place,
 * and makes each call in turn with an event that was brought into the state anew. It shows the answer,
 * what became of the captures, and what the event answers afterwards. No answer is written down here:
 * the recorded lines know them, and a difference between two drivers is a line that differs.
 *
 * Places: outside captures; on the legacy stream; on a stream that captures in each mode; on one whose
 * capture was broken; and on one that does not capture, beside one that does, in global mode.
 *
 * The group event_pairs asks for the time between events of each two states.
 *
 * An event that waits for the device is held back by a kernel, which each call's scene ends. */
#include <stdlib.h>
#include <string.h>

#include "contract/capture_tools.h"
#include "contract/contract.h"

enum place { OUTSIDE, LEGACY, GLOBAL, THREAD_LOCAL, RELAXED, BROKEN, BESIDE, PLACE_COUNT };

static const struct {
    const char *name;
    const char *words;
} places[PLACE_COUNT] = {
    [OUTSIDE] = {"outside", "outside captures"},
    [LEGACY] = {"legacy", "on the legacy stream"},
    [GLOBAL] = {"global", "in a global capture"},
    [THREAD_LOCAL] = {"thread-local", "in a thread-local capture"},
    [RELAXED] = {"relaxed", "in a relaxed capture"},
    [BROKEN] = {"broken", "in a broken capture"},
    [BESIDE] = {"beside", "beside a global capture"},
};

/* An event in a state, and what brought it there. */
struct standing {
    tn_cu_event event;
    tn_cu_stream stream; /* it captures while the state says so; NULL where it was destroyed */
    bool capturing;
    bool waits; /* busy holds the event back */
    struct contract_busy busy;
    tn_cu_graph graph;
    tn_cu_graphexec exec;
    tn_cu_context abroad; /* the event's own; NULL: the case's */
};

/* -- The states -- */

static void begin_capture(struct standing *it)
{
    SET_UP(cuStreamBeginCapture(it->stream, TN_CU_CAPTURE_MODE_RELAXED));
    it->capturing = true;
}

static void end_capture(struct standing *it)
{
    capture_abandon(it->stream);
    it->capturing = false;
}

static void record(struct standing *it)
{
    SET_UP(cuEventRecord(it->event, it->stream));
}

static void never(struct standing *it)
{
    (void)it;
}

static void reached(struct standing *it)
{
    record(it);
    SET_UP(cuStreamSynchronize(it->stream));
}

static void pending(struct standing *it)
{
    it->busy = contract_busy_begin();
    it->waits = true;
    SET_UP(cuEventRecord(it->event, it->busy.stream));
}

static void captured(struct standing *it)
{
    begin_capture(it);
    record(it);
}

static void invalidated(struct standing *it)
{
    captured(it);
    (void)cu.cuStreamQuery(it->stream);
}

static void ended(struct standing *it)
{
    captured(it);
    end_capture(it);
}

static void ended_badly(struct standing *it)
{
    invalidated(it);
    end_capture(it);
}

static void ended_was_reached(struct standing *it)
{
    reached(it);
    ended(it);
}

static void ended_was_pending(struct standing *it)
{
    pending(it);
    ended(it);
}

static void healed(struct standing *it)
{
    ended(it);
    reached(it);
}

static void healed_pending(struct standing *it)
{
    ended(it);
    pending(it);
}

/* The capture's nodes record the event; the event itself is as it was. */
static void external(struct standing *it)
{
    begin_capture(it);
    SET_UP(cuEventRecordWithFlags(it->event, it->stream, TN_CU_EVENT_RECORD_EXTERNAL));
    SET_UP(cuStreamEndCapture(it->stream, &it->graph));
    it->capturing = false;
}

static void external_after_reached(struct standing *it)
{
    reached(it);
    external(it);
}

static void external_after_ended(struct standing *it)
{
    ended(it);
    external(it);
}

static void replay(struct standing *it)
{
    SET_UP(cuGraphInstantiateWithFlags(&it->exec, it->graph, 0));
    SET_UP(cuGraphLaunch(it->exec, it->stream));
    SET_UP(cuStreamSynchronize(it->stream));
}

static void replayed(struct standing *it)
{
    external(it);
    replay(it);
}

static void replayed_after_ended(struct standing *it)
{
    external_after_ended(it);
    replay(it);
}

static void lose_stream(struct standing *it)
{
    SET_UP(cuStreamDestroy(it->stream));
    it->stream = NULL;
}

static void reached_stream_gone(struct standing *it)
{
    reached(it);
    lose_stream(it);
}

static void ended_stream_gone(struct standing *it)
{
    ended(it);
    lose_stream(it);
}

struct state {
    const char *name;
    unsigned int flags; /* that the event is made with */
    bool abroad;        /* it belongs to another context, and so does its stream */
    void (*make)(struct standing *it);
};

#define UNTIMED TN_CU_EVENT_DISABLE_TIMING

static const struct state states[] = {
    {"never", 0, false, never},
    {"never-untimed", UNTIMED, false, never},
    {"reached", 0, false, reached},
    {"reached-untimed", UNTIMED, false, reached},
    {"reached-interprocess", UNTIMED | TN_CU_EVENT_INTERPROCESS, false, reached},
    {"pending", 0, false, pending},
    {"pending-untimed", UNTIMED, false, pending},
    {"captured", 0, false, captured},
    {"captured-untimed", UNTIMED, false, captured},
    {"invalidated", 0, false, invalidated},
    {"invalidated-untimed", UNTIMED, false, invalidated},
    {"ended", 0, false, ended},
    {"ended-untimed", UNTIMED, false, ended},
    {"ended-badly", 0, false, ended_badly},
    {"ended-was-reached", 0, false, ended_was_reached},
    {"ended-was-pending", 0, false, ended_was_pending},
    {"ended-stream-gone", 0, false, ended_stream_gone},
    {"healed", 0, false, healed},
    {"healed-pending", 0, false, healed_pending},
    {"external", 0, false, external},
    {"external-after-reached", 0, false, external_after_reached},
    {"external-after-ended", 0, false, external_after_ended},
    {"replayed", 0, false, replayed},
    {"replayed-after-ended", 0, false, replayed_after_ended},
    {"reached-stream-gone", 0, false, reached_stream_gone},
    {"abroad-never", 0, true, never},
    {"abroad-reached", 0, true, reached},
    {"abroad-captured", 0, true, captured},
    {"abroad-ended", 0, true, ended},
};
#define STATE_COUNT (sizeof states / sizeof states[0])

static void leave(const struct standing *it)
{
    tn_cu_context popped;
    if (it->abroad != NULL)
        SET_UP(cuCtxPopCurrent(&popped));
}

static void come(const struct standing *it)
{
    if (it->abroad != NULL)
        SET_UP(cuCtxPushCurrent(it->abroad));
}

/* Contexts are slow to make, so there is one for all cases of a process. */
static tn_cu_context other_context(void)
{
    static tn_cu_context other;
    tn_cu_context popped;
    if (other == NULL) {
        SET_UP(cuCtxCreate(&other, 0, 0));
        SET_UP(cuCtxPopCurrent(&popped));
    }
    return other;
}

static struct standing stand(const struct state *state)
{
    struct standing it = {.abroad = state->abroad ? other_context() : NULL};
    come(&it);
    it.stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    SET_UP(cuEventCreate(&it.event, state->flags));
    state->make(&it);
    leave(&it);
    return it;
}

/* Ends what holds the event back. */
static void release(struct standing *it)
{
    if (it->waits)
        contract_busy_end(&it->busy);
    it->waits = false;
}

static void fall(struct standing *it)
{
    come(it);
    if (it->event != NULL)
        SET_UP(cuEventDestroy(it->event));
    if (it->exec != NULL)
        SET_UP(cuGraphExecDestroy(it->exec));
    if (it->graph != NULL)
        SET_UP(cuGraphDestroy(it->graph));
    if (it->stream != NULL)
        SET_UP(cuStreamDestroy(it->stream));
    leave(it);
}

/* -- The calls -- */

/* Where a call is made. */
struct scene {
    enum place place;
    tn_cu_stream stream; /* that calls name */
    tn_cu_stream own;    /* the same, or, where that is the legacy stream, one to destroy */
    tn_cu_stream beside; /* captures, where the place says so */
    tn_cu_event base;    /* reached, with a time */
};

#define CALLS(X)                                                                                   \
    X("query", cuEventQuery, (it->event))                                                          \
    X("synchronize", cuEventSynchronize, (it->event))                                              \
    X("from it", cuEventElapsedTime, (&time, it->event, scene->base))                              \
    X("to it", cuEventElapsedTime, (&time, scene->base, it->event))                                \
    X("from it to it", cuEventElapsedTime, (&time, it->event, it->event))                          \
    X("time to nowhere", cuEventElapsedTime, (NULL, scene->base, it->event))                       \
    X("wait", cuStreamWaitEvent, (scene->stream, it->event, 0))                                    \
    X("wait external", cuStreamWaitEvent, (scene->stream, it->event, TN_CU_EVENT_WAIT_EXTERNAL))   \
    X("wait with flag 2", cuStreamWaitEvent, (scene->stream, it->event, 2))                        \
    X("record", cuEventRecord, (it->event, scene->stream))                                         \
    X("record external", cuEventRecordWithFlags,                                                   \
      (it->event, scene->stream, TN_CU_EVENT_RECORD_EXTERNAL))                                     \
    X("record with flag 2", cuEventRecordWithFlags, (it->event, scene->stream, 2))                 \
    X("destroy", cuEventDestroy, (it->event))

static const char *const call_words[] = {
#define CALL_WORDS(words, function, arguments) words,
    CALLS(CALL_WORDS)
#undef CALL_WORDS
};
#define CALL_COUNT (sizeof call_words / sizeof call_words[0])

static void call(size_t number, struct scene *scene, struct standing *it)
{
    float time = 0;
    size_t at = 0;
#define CALL_MADE(words, function, arguments)                                                      \
    if (number == at++)                                                                            \
        contract_shows(#function "(", cu.function arguments);
    CALLS(CALL_MADE)
#undef CALL_MADE
    if (number == CALL_COUNT - 1)
        it->event = NULL;
}

static void show_capture(const char *which, tn_cu_stream stream)
{
    static const char *const words[] = {"idle", "active", "invalidated"};
    tn_cu_capture_status status = TN_CU_CAPTURE_STATUS_NONE;
    tn_cu_result result = cu.cuStreamIsCapturing(stream, &status);
    if (result == TN_CUDA_SUCCESS)
        STATE("%s %s", which, words[status]);
    else
        STATE("%s %s", which, contract_result_name(result));
}

/* Ends the capture that a stream is in, if it is in one, and says with how many nodes. */
static void show_end(const char *which, tn_cu_stream stream)
{
    tn_cu_capture_status status = TN_CU_CAPTURE_STATUS_NONE;
    tn_cu_graph graph = NULL;
    size_t count = 0;
    SET_UP(cuStreamIsCapturing(stream, &status));
    if (status == TN_CU_CAPTURE_STATUS_NONE)
        return;
    tn_cu_result result = cu.cuStreamEndCapture(stream, &graph);
    if (graph == NULL) {
        STATE("%s ends with %s", which, contract_result_name(result));
        return;
    }
    SET_UP(cuGraphGetNodes(graph, NULL, &count));
    STATE("%s ends with %zu nodes", which, count);
    SET_UP(cuGraphDestroy(graph));
}

static struct scene set(enum place place)
{
    static const tn_cu_capture_mode modes[PLACE_COUNT] = {
        [THREAD_LOCAL] = TN_CU_CAPTURE_MODE_THREAD_LOCAL,
        [RELAXED] = TN_CU_CAPTURE_MODE_RELAXED,
    };
    struct scene scene = {.place = place, .own = contract_stream(TN_CU_STREAM_NON_BLOCKING)};
    scene.stream = place == LEGACY ? TN_CU_STREAM_LEGACY : scene.own;
    scene.beside = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    SET_UP(cuEventCreate(&scene.base, TN_CU_EVENT_DEFAULT));
    SET_UP(cuEventRecord(scene.base, scene.own));
    SET_UP(cuStreamSynchronize(scene.own));
    if (place != OUTSIDE && place != LEGACY)
        SET_UP(cuStreamBeginCapture(place == BESIDE ? scene.beside : scene.own, modes[place]));
    if (place == BROKEN)
        (void)cu.cuStreamQuery(scene.own);
    return scene;
}

/* Makes one call, and shows what it did. */
static void attempt(const struct state *state, enum place place, size_t number)
{
    struct standing it = stand(state);
    struct scene scene = set(place);
    STATE("%s", call_words[number]);
    call(number, &scene, &it);
    if (place != LEGACY)
        show_capture("it is", scene.own);
    if (place == BESIDE)
        show_capture("the other", scene.beside);
    if (it.capturing)
        show_capture("the event's", it.stream);
    if (it.capturing)
        show_end("the event's", it.stream);
    show_end("it", scene.own);
    show_end("the other", scene.beside);
    release(&it);
    SET_UP(cuStreamSynchronize(scene.own));
    SET_UP(cuStreamSynchronize(TN_CU_STREAM_LEGACY));
    if (it.event != NULL)
        STATE("then %s", contract_result_name(cu.cuEventQuery(it.event)));
    fall(&it);
    SET_UP(cuEventDestroy(scene.base));
    SET_UP(cuStreamDestroy(scene.own));
    SET_UP(cuStreamDestroy(scene.beside));
}

/* -- The cases -- */

struct state_case {
    const struct state *state;
    enum place place;
    char name[64];
    char sentence[128];
};

static void run_calls(const void *argument)
{
    const struct state_case *c = argument;
    contract_kernels();
    for (size_t i = 0; i < CALL_COUNT; i++)
        attempt(c->state, c->place, i);
}

static void run_pairs(const void *argument)
{
    const struct state_case *c = argument;
    contract_kernels();
    for (size_t i = 0; i < STATE_COUNT; i++) {
        float time = 0;
        struct standing from = stand(c->state);
        struct standing to = stand(&states[i]);
        STATE("%s", states[i].name);
        SHOWS(cuEventElapsedTime(&time, from.event, to.event));
        if (from.capturing)
            end_capture(&from);
        if (to.capturing)
            end_capture(&to);
        release(&from);
        release(&to);
        fall(&from);
        fall(&to);
    }
}

/* Makes the cases of each state, in one place or several. */
static const struct contract_case *make(size_t *count, size_t place_count,
                                        void (*run)(const void *))
{
    struct contract_case *cases = calloc(STATE_COUNT * place_count, sizeof *cases);
    struct state_case *data = calloc(STATE_COUNT * place_count, sizeof *data);
    if (cases == NULL || data == NULL)
        abort();
    *count = 0;
    for (size_t i = 0; i < STATE_COUNT; i++) {
        for (size_t place = 0; place < place_count; place++, data++) {
            *data = (struct state_case){.state = &states[i], .place = (enum place)place};
            if (place_count > 1) {
                snprintf(data->name, sizeof data->name, "%s.%s", states[i].name,
                         places[place].name);
                snprintf(data->sentence, sizeof data->sentence, "An event, %s, %s.", states[i].name,
                         places[place].words);
            } else {
                snprintf(data->name, sizeof data->name, "%s", states[i].name);
                snprintf(data->sentence, sizeof data->sentence,
                         "The time from an event, %s, to one in each state.", states[i].name);
            }
            cases[*count] = (struct contract_case)CASE(data->name, data->sentence, run);
            cases[*count].argument = data;
            *count += 1;
        }
    }
    return cases;
}

static const struct contract_case *make_states(size_t *count)
{
    return make(count, PLACE_COUNT, run_calls);
}

static const struct contract_case *make_pairs(size_t *count)
{
    return make(count, 1, run_pairs);
}

const struct contract_group contract_event_states = {
    .name = "event_states", .start = START_CONTEXT, .make = make_states};
const struct contract_group contract_event_pairs = {
    .name = "event_pairs", .start = START_CONTEXT, .make = make_pairs};
