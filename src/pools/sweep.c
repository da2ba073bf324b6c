// SPDX-License-Identifier: Apache-2.0
#include "pools/sweep.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "claims/body.h"
#include "heap/sequence.h"
#include "pools/arenas.h"
#include "pools/captures.h"
#include "pools/free.h"
#include "pools/pending.h"
#include "pools/retire.h"
#include "pools/visit.h"

static bool collect(tarn_pool *pool, void *context)
{
    (void)context;
    if (tn_pool_has_pending(pool))
        tn_pending_collect(pool);
    return false;
}

void tn_device_collect(tarn_device *device)
{
    (void)tn_device_visit_listed(device, TN_POOLS_WAITING, collect, NULL);
}

/* A capture which is over, and the graph which it made. */
struct ended {
    uint64_t capture_id;
    tn_cu_graph graph;
    size_t node_count; /* of the graph, or TN_NODES_UNKNOWN */
    bool discard;
    bool any; /* a hold was closed */
};

static bool close_capture(tarn_pool *pool, void *context)
{
    struct ended *ended = context;
    uint64_t open_count = pool->holds.open_count;

    if (ended->discard)
        tn_pool_discard(pool, ended->capture_id);
    tn_holds_close_capture(pool, ended->capture_id, ended->graph, ended->node_count);
    ended->any = ended->any || pool->holds.open_count != open_count;
    return false;
}

/* Later blocks are to have numbers behind the end_mark. */
static void visit_ended(tarn_device *device, struct ended *ended)
{
    const struct tn_index_keys keys = {.capture_id = ended->capture_id, .graph = ended->graph};

    (void)tn_device_visit_holders(device, &keys, close_capture, ended);
    if (ended->any)
        (void)tn_device_mark(device);
}

void tn_device_close_capture(tarn_device *device, uint64_t capture_id, tn_cu_graph graph,
                             size_t node_count)
{
    struct ended ended = {.capture_id = capture_id, .graph = graph, .node_count = node_count};

    TN_ASSERT(capture_id != 0 || graph != NULL);
    visit_ended(device, &ended);
}

uint64_t tn_device_count_early(tarn_device *device)
{
    return atomic_load(&device->index.early_count);
}

/* A hold which left early, and whose pool may have blocks of the capture, is counted before the
 * index lacks it. */
void tn_device_discard_capture(tarn_device *device, uint64_t capture_id, uint64_t early_count)
{
    struct ended ended = {
        .capture_id = capture_id, .node_count = TN_NODES_UNKNOWN, .discard = true};

    TN_ASSERT(capture_id != 0);
    visit_ended(device, &ended);
    if (tn_device_count_early(device) != early_count)
        (void)tn_device_visit(device, close_capture, &ended);
}

static bool know_graph(tarn_pool *pool, void *context)
{
    const tn_cu_graph *graph = context;

    tn_holds_know(&pool->holds, *graph);
    return false;
}

void tn_device_know_graph(tarn_device *device, tn_cu_graph graph)
{
    TN_ASSERT(graph != NULL);
    (void)tn_device_visit_holders(device, &(const struct tn_index_keys){.keeper = graph},
                                  know_graph, &graph);
}

static bool expect_gone(tarn_pool *pool, void *context)
{
    const tn_cu_graph *graph = context;

    tn_holds_expect(&pool->holds, *graph);
    tn_holds_forget_graph(&pool->holds, *graph);
    TN_ASSERT(tn_hold_find_graph(&pool->holds, *graph) == NULL ||
              tn_hold_find_graph(&pool->holds, *graph)->open || *graph == NULL);
    return false;
}

void tn_device_expect_gone(tarn_device *device, tn_cu_graph graph)
{
    const struct tn_index_keys keys = {.graph = graph, .keeper = graph};

    (void)tn_device_visit_holders(device, &keys, expect_gone, &graph);
}

static bool forget_capture(tarn_pool *pool, void *context)
{
    const uint64_t *capture_id = context;

    tn_holds_forget_capture(&pool->holds, *capture_id);
    return false;
}

void tn_device_forget_capture(tarn_device *device, uint64_t capture_id)
{
    (void)tn_device_visit_holders(device, &(const struct tn_index_keys){.capture_id = capture_id},
                                  forget_capture, &capture_id);
}

static bool close_over(tarn_pool *pool, void *context)
{
    bool *closed = context;

    *closed = tn_holds_close_over(pool, 0) || *closed;
    return false;
}

void tn_device_close_over(tarn_device *device)
{
    bool closed = false;

    (void)tn_device_visit_listed(device, TN_POOLS_OPEN, close_over, &closed);
    if (closed)
        (void)tn_device_mark(device);
}

/* The pools' knowledge of the end of a graph's captures. */
struct end {
    tn_cu_graph graph;
    uint64_t mark;
    bool any_open;
};

static bool find_end(tarn_pool *pool, void *context)
{
    struct end *end = context;
    bool open;

    end->mark = tn_max(end->mark, tn_holds_end_mark(&pool->holds, end->graph, &open));
    end->any_open = end->any_open || open;
    return false;
}

uint64_t tn_device_end_mark(tarn_device *device, tn_cu_graph graph)
{
    struct end end = {.graph = graph};

    (void)tn_device_visit_holders(device, &(const struct tn_index_keys){.keeper = graph}, find_end,
                                  &end);
    return end.any_open ? 0 : end.mark;
}

struct retired {
    tn_cu_stream stream;
    struct tn_order order;
    struct tn_fence *fence;
};

/* True: no host memory. */
static bool fail_to_prepare(tarn_pool *pool, void *context)
{
    const struct retired *retired = context;

    return !tn_arenas_prepare_retire(pool, retired->order);
}

static bool retire(tarn_pool *pool, void *context)
{
    const struct retired *retired = context;

    TN_ASSERT(tn_lock_is_held(&pool->device->lock));
    tn_arenas_retire(pool, retired->order, retired->fence);
    return false;
}

static bool forget_uses(tarn_pool *pool, void *context)
{
    const struct retired *retired = context;

    tn_uses_forget(&pool->device->streams, pool->segments.first, retired->stream);
    return false;
}

/* Visits the pools which may have blocks of the stream: those with STRAYS, and those with an arena
 * of the stream. A pool may be both. */
static bool walk_pools_of(tarn_device *device, tn_pool_visitor visitor, struct retired *retired)
{
    const struct tn_index_keys keys = {.stream_id = retired->order.stream_id};

    return tn_device_walk_listed(device, TN_POOLS_STRAYS, visitor, retired) ||
           tn_device_walk_holders(device, &keys, visitor, retired);
}

/* The fence is recorded last: it covers everything which enters the retired arenas meanwhile. The
 * DEVICE lock keeps other threads from retiring. */
tarn_status tn_device_retire_stream(tarn_device *device, tn_cu_stream stream, uint64_t id)
{
    struct retired retired = {.stream = stream, .order = {id, 0}};
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_none_held() && id != 0);
    tn_lock_acquire(&device->lock);
    if (walk_pools_of(device, fail_to_prepare, &retired))
        status = tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to retire a stream");
    if (status == TARN_OK)
        status = tn_streams_retire_prepare(&device->streams, stream, id, &retired.fence);
    if (status == TARN_OK) {
        (void)walk_pools_of(device, retire, &retired);
        /* Captures are short, and few of them use a block of another stream. */
        if (tn_uses_are_captured(&device->streams))
            (void)tn_device_walk(device, forget_uses, &retired);
        tn_streams_retire_commit(&device->streams, retired.fence);
    }
    tn_lock_release(&device->lock);
    return status;
}

/* Locking a pool drops the numbers which its arenas have set aside: they take higher numbers
 * afterwards. Arenas asleep have set none aside, and arenas which wake later take higher ones. */
uint64_t tn_device_mark(tarn_device *device)
{
    uint64_t mark = tn_next_sequence(); /* taken before the arenas' numbers are dropped */

    tn_lock_acquire(&device->lock);
    tn_device_lock_awake(device);
    tn_lock_release(&device->lock);
    return mark;
}

static bool has_body(tarn_pool *pool, void *context)
{
    const uint64_t *capture_id = context;

    return tn_body_find(&pool->bodies, *capture_id) != NULL;
}

bool tn_device_has_body(tarn_device *device, uint64_t capture_id)
{
    TN_ASSERT(capture_id != 0);
    return tn_device_visit_holders(device, &(const struct tn_index_keys){.capture_id = capture_id},
                                   has_body, &capture_id);
}
