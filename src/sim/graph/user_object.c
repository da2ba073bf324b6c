// SPDX-License-Identifier: Apache-2.0
/* user_object.c -- counts references and runs destructors.
 *
 * How it works. An object whose last reference has gone loses its handle and joins a queue, in
 * order; the reaper thread runs the destructors one by one, marked as a callback: cuMem* calls from
 * there are refused as the driver refuses them. A setting delays destructors: on a GPU they run
 * some microseconds behind the call that dropped the last reference. The first object's creation
 * starts the thread. A lack of threads is then an error of this call, and not a destructor that
 * never runs.
 *
 * Trade-offs. References of the program and of graphs are counted apart. Strict mode can then catch
 * a side that gives up more references than it has; the driver only has the sum. */
#include "sim/graph/user_object.h"

#include <stdlib.h>
#include <time.h>

#include "sim/graph/graph.h"

static pthread_cond_t reaper_wake = PTHREAD_COND_INITIALIZER;
static bool reaper_started;
static uint64_t running;   /* the number of the running destructor; 0: none runs */
static uint64_t due_count; /* all destructors that ever became due */
static struct tn_sim_user_object *first_due;
static struct tn_sim_user_object *last_due;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Takes the oldest object whose destructor may run off the queue. NULL: none may run, and *wait_ns
 * tells the wait until the first may; 0: none is due. */
static struct tn_sim_user_object *take_due(int64_t *wait_ns)
{
    int64_t now = now_ns();
    struct tn_sim_user_object *before = NULL;
    *wait_ns = 0;
    for (struct tn_sim_user_object *object = first_due; object != NULL;
         before = object, object = object->next_due) {
        if (object->due_ns > now) {
            if (*wait_ns == 0 || object->due_ns - now < *wait_ns)
                *wait_ns = object->due_ns - now;
            continue;
        }
        if (before != NULL)
            before->next_due = object->next_due;
        else
            first_due = object->next_due;
        if (last_due == object)
            last_due = before;
        return object;
    }
    return NULL;
}

/* Waits until an object joins the queue, or for the given time. */
static void doze(int64_t wait_ns)
{
    struct timespec until;
    if (wait_ns == 0) {
        pthread_cond_wait(&reaper_wake, &tn_sim.lock);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (wait_ns + until.tv_nsec) / 1000000000;
    until.tv_nsec = (wait_ns + until.tv_nsec) % 1000000000;
    pthread_cond_timedwait(&reaper_wake, &tn_sim.lock, &until);
}

static void *reaper(void *argument)
{
    (void)argument;
    pthread_mutex_lock(&tn_sim.lock);
    struct tn_sim_thread *self = tn_sim_self();
    self->is_reaper = true;
    self->in_callback = true;
    while (!tn_sim.stopping) {
        int64_t wait_ns;
        struct tn_sim_user_object *object = take_due(&wait_ns);
        if (object == NULL) {
            doze(wait_ns);
            continue;
        }
        running = object->due_number;
        tn_sim_leave();
        object->destroy(object->user);
        free(object);
        pthread_mutex_lock(&tn_sim.lock);
        running = 0;
        tn_sim.ledger.user_objects--;
        pthread_cond_broadcast(&tn_sim.changed);
    }
    tn_sim_thread_ends();
    pthread_mutex_unlock(&tn_sim.lock);
    return NULL;
}

/* Whether a destructor with a number above the given number runs, or is due and not late. */
static bool is_due(uint64_t before)
{
    const struct tn_sim_user_object *object = first_due;
    while (object != NULL && (object->due_number <= before || object->due_ns != 0))
        object = object->next_due;
    return object != NULL || running > before;
}

/* Late destructors may run at once. */
static void hurry(void)
{
    for (struct tn_sim_user_object *object = first_due; object != NULL; object = object->next_due)
        object->due_ns = 0;
    pthread_cond_signal(&reaper_wake);
}

void tn_sim_reaper_drain(void)
{
    do
        hurry();
    while (is_due(0) && tn_sim_wait());
}

uint64_t tn_sim_reaper_count(void)
{
    return due_count;
}

void tn_sim_reaper_await(uint64_t before)
{
    if (due_count == before || tn_sim_self()->is_reaper)
        return;
    while (is_due(before) && tn_sim_wait())
        continue;
}

void tarn_sim_delay_destructors(uint64_t microseconds)
{
    const uint64_t most = 10000000;
    if (!tn_sim_enter_control())
        return;
    tn_sim.destructor_us = (int64_t)(microseconds < most ? microseconds : most);
    tn_sim_leave();
}

void tn_sim_reaper_wake(void)
{
    pthread_cond_signal(&reaper_wake);
}

/* Ends an object without references. */
static void let_go(struct tn_sim_user_object *object)
{
    if (object->own_references > 0 || object->held_references > 0)
        return;
    tn_sim_unregister(&object->object);
    object->next_due = NULL;
    if (first_due == NULL)
        first_due = object;
    else
        last_due->next_due = object;
    last_due = object;
    due_count++;
    object->due_number = due_count;
    object->due_ns =
        object->was_copied && tn_sim.destructor_us > 0 ? now_ns() + tn_sim.destructor_us * 1000 : 0;
    pthread_cond_signal(&reaper_wake);
}

static struct tn_sim_holding *find_holding(const struct tn_sim_holdings *holdings,
                                           const struct tn_sim_user_object *object)
{
    for (size_t i = 0; i < holdings->count; i++) {
        if (holdings->items[i].object == object)
            return &holdings->items[i];
    }
    return NULL;
}

/* Notes count more references to an object, which the caller has counted or will count. */
static bool hold(struct tn_sim_holdings *holdings, struct tn_sim_user_object *object,
                 uint64_t count)
{
    struct tn_sim_holding *holding = find_holding(holdings, object);
    if (holding != NULL) {
        holding->count += count;
        return true;
    }
    if (holdings->count == holdings->capacity) {
        size_t capacity = holdings->capacity == 0 ? 2 : holdings->capacity * 2;
        struct tn_sim_holding *items = realloc(holdings->items, capacity * sizeof *items);
        if (items == NULL)
            return false;
        holdings->items = items;
        holdings->capacity = capacity;
    }
    holdings->items[holdings->count++] = (struct tn_sim_holding){.object = object, .count = count};
    return true;
}

bool tn_sim_holdings_copy(struct tn_sim_holdings *holdings, const struct tn_sim_holdings *other)
{
    *holdings = (struct tn_sim_holdings){0};
    if (other->count == 0)
        return true;
    holdings->items = calloc(other->count, sizeof *holdings->items);
    if (holdings->items == NULL)
        return false;
    holdings->capacity = other->count;
    for (size_t i = 0; i < other->count; i++) {
        other->items[i].object->held_references += other->items[i].count;
        other->items[i].object->was_copied = true;
        holdings->items[holdings->count++] = other->items[i];
    }
    return true;
}

void tn_sim_holdings_fini(struct tn_sim_holdings *holdings)
{
    for (size_t i = 0; i < holdings->count; i++) {
        struct tn_sim_user_object *object = holdings->items[i].object;
        object->held_references -= holdings->items[i].count;
        let_go(object);
    }
    free(holdings->items);
    *holdings = (struct tn_sim_holdings){0};
}

tn_cu_result tn_sim_cuUserObjectCreate(tn_cu_userobject *handle, void *user, tn_cu_hostfn destroy,
                                       unsigned int references, unsigned int flags)
{
    if (handle == NULL || destroy == NULL || references == 0 ||
        flags != TN_CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (!reaper_started) {
        if (!tn_sim_thread_start(reaper, NULL))
            return TN_CUDA_ERROR_OUT_OF_MEMORY;
        reaper_started = true;
    }
    struct tn_sim_user_object *object = calloc(1, sizeof *object);
    if (object == NULL || !tn_sim_register(&object->object, TN_SIM_KIND_USER_OBJECT, NULL)) {
        free(object);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    object->user = user;
    object->destroy = destroy;
    object->own_references = references;
    tn_sim.ledger.user_objects++;
    *handle = (tn_cu_userobject)object->object.handle;
    return TN_CUDA_SUCCESS;
}

static struct tn_sim_user_object *find(tn_cu_userobject handle)
{
    return tn_sim_find(TN_SIM_KIND_USER_OBJECT, (uintptr_t)handle);
}

tn_cu_result tn_sim_cuUserObjectRetain(tn_cu_userobject handle, unsigned int count)
{
    struct tn_sim_user_object *object = find(handle);
    if (object == NULL || count == 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    object->own_references += count;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuUserObjectRelease(tn_cu_userobject handle, unsigned int count)
{
    struct tn_sim_user_object *object = find(handle);
    if (object == NULL || count == 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (count > object->own_references && tn_sim_strict())
        return TN_CUDA_ERROR_INVALID_VALUE;
    /* The driver counts below zero, and never comes back to zero. */
    object->own_references -= count;
    let_go(object);
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuGraphRetainUserObject(tn_cu_graph graph_handle, tn_cu_userobject handle,
                                            unsigned int count, unsigned int flags)
{
    struct tn_sim_graph *graph;
    struct tn_sim_user_object *object = find(handle);
    tn_cu_result result = tn_sim_graph_find(graph_handle, &graph);
    if (result != TN_CUDA_SUCCESS)
        return result;
    bool move = flags == TN_CU_GRAPH_USER_OBJECT_MOVE;
    if (object == NULL || count == 0 || flags > TN_CU_GRAPH_USER_OBJECT_MOVE ||
        (move && object->own_references < count))
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (!hold(&graph->holdings, object, count))
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    object->held_references += count;
    if (move)
        object->own_references -= count;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuGraphReleaseUserObject(tn_cu_graph graph_handle, tn_cu_userobject handle,
                                             unsigned int count)
{
    struct tn_sim_graph *graph;
    struct tn_sim_user_object *object = find(handle);
    tn_cu_result result = tn_sim_graph_find(graph_handle, &graph);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (object == NULL || count == 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_holding *holding = find_holding(&graph->holdings, object);
    uint64_t held = holding == NULL ? 0 : holding->count;
    if (count > held && tn_sim_strict())
        return TN_CUDA_ERROR_INVALID_VALUE;
    uint64_t given = count < held ? count : held;
    if (given == 0)
        return TN_CUDA_SUCCESS;
    holding->count -= given;
    if (holding->count == 0)
        *holding = graph->holdings.items[--graph->holdings.count];
    object->held_references -= given;
    let_go(object);
    return TN_CUDA_SUCCESS;
}
