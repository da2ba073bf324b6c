// SPDX-License-Identifier: Apache-2.0
/* An end looks for the newest node of a broken capture, and for a fork that was not joined, before
 * the driver ends the capture: the driver's answer takes the graph. The look for a fork lists all
 * nodes, which takes a sixteenth of the capture's own time. Therefore a pool looks only in its
 * first FORK_SEARCHES captures with a known forked stream: a program's mistake shows there. A
 * refused end lets the pool look again.
 *
 * Trade-offs: where another thread breaks a capture during its end, the sentence names no node. A
 * body's graph lasts as long as its node, of which the hold says nothing: an end does not read it.
 */
#include "graphs/stop.h"

#include <stddef.h>
#include <stdio.h>

#include "base/contract.h"
#include "base/error.h"
#include "driver/exec.h"
#include "graphs/broken.h"
#include "pools/pool.h"
#include "pools/sweep.h"

enum { FORK_SEARCHES = 16 };

bool tn_capture_is_dropped(const tarn_capture *capture, tn_cu_graph *graph)
{
    tarn_pool *pool = capture->pool;
    const struct tn_hold *hold;
    bool dropped;

    TN_ASSERT(!tn_lock_held(TN_RANK_POOL));
    tn_pool_lock(pool);
    hold = tn_hold_find_owned(&pool->holds, capture->capture_id);
    dropped = hold == NULL || atomic_load(&hold->claim) != TN_CLAIM_HELD;
    if (graph != NULL)
        *graph = dropped ? NULL : hold->graph;
    tn_pool_unlock(pool);
    return dropped;
}

static const char dropped_by_driver[] =
    "the driver has dropped it, since its stream was destroyed, or it was ended elsewhere";

static tarn_status broken(const char *why)
{
    return tn_fail(TARN_ERR_CAPTURE_BROKEN,
                   "the capture cannot be ended: %s; abort it with tarn_capture_abort", why);
}

tarn_status tn_capture_refuse_end(const tarn_capture *capture)
{
    return broken(capture->stage == TN_CAPTURE_BROKEN ? capture->said : dropped_by_driver);
}

/* Moves the capture to BROKEN, and keeps the sentence. */
static tarn_status fall_broken(tarn_capture *capture, const char *said)
{
    TN_ASSERT(said[0] != '\0');
    TN_ASSERT(capture->stage == TN_CAPTURE_OPEN);
    (void)snprintf(capture->said, sizeof capture->said, "%s", said);
    capture->stage = TN_CAPTURE_BROKEN;
    return broken(said);
}

/* The same for a reason that the driver has not given, followed by the known facts of the capture.
 */
static tarn_status explain_and_fall(tarn_capture *capture, const char *why)
{
    char said[TN_CAPTURE_SAID_BYTES];
    struct tn_text text = {said, sizeof said, 0};
    struct tn_broken known;

    tn_broken_find(capture->device, capture->capture_id, &known);
    tn_put(&text, "%s", why);
    tn_broken_put(&text, &known);
    return fall_broken(capture, said);
}

/* Whether to look for a fork that was not joined: a forked stream has allocated in the capture. */
static bool searches_forks(tarn_capture *capture)
{
    tarn_pool *pool = capture->pool;
    const struct tn_arena *arena;
    uint64_t own_id = tn_stream_captured_id(capture->stream);
    bool searches;

    TN_ASSERT(tn_lock_none_held());
    TN_ASSERT(capture->capture_id != 0);
    tn_pool_lock(pool);
    arena = pool->arenas.lists.first[TN_ARENAS_OF_CAPTURES];
    while (arena != NULL &&
           (arena->order.capture_id != capture->capture_id || arena->order.stream_id == own_id))
        arena = arena->in[TN_ARENAS_OF_CAPTURES].next;
    searches = arena != NULL && pool->graphs.fork_searches < FORK_SEARCHES;
    pool->graphs.fork_searches += searches;
    tn_pool_unlock(pool);
    return searches;
}

static void search_forks_again(tarn_pool *pool)
{
    tn_pool_lock(pool);
    pool->graphs.fork_searches = 0;
    tn_pool_unlock(pool);
}

tarn_status tn_capture_take_section(tarn_capture *capture)
{
    tarn_device *device = capture->device;
    struct tn_gpu *gpu = &device->gpu;
    char said[TN_CAPTURE_SAID_BYTES] = "";
    struct tn_text text = {said, sizeof said, 0};
    struct tn_seen_node seen = {.number = 0};
    struct tn_broken known;
    struct tn_stream_state state;
    tn_cu_graph graph;
    struct tn_order order;
    tn_cu_result result;
    tarn_status status;

    TN_ASSERT(capture->stage == TN_CAPTURE_OPEN);
    if (tn_capture_is_dropped(capture, &graph))
        return explain_and_fall(capture, dropped_by_driver);
    status = tn_stream_look(gpu, capture->stream, TN_STREAM_GRAPH, &state);
    if (status != TARN_OK)
        return status;
    if (state.broken) {
        if (graph != NULL && !capture->is_body)
            seen = tn_newest_node_find(gpu, graph);
        tn_broken_find(device, capture->capture_id, &known);
        tn_broken_put_answer(&text, TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, &known, &seen);
        return broken(said);
    }
    if (state.order.capture_id != capture->capture_id)
        return explain_and_fall(capture, "the stream's capture was ended elsewhere");
    order = state.order;
    if (searches_forks(capture)) /* afterwards the graph is gone */
        seen = tn_loose_end_find(gpu, capture->stream);
    tn_driver_capture_stop(gpu, capture->stream, &result, &graph);
    if (result == TN_CUDA_SUCCESS) {
        capture->section = (struct tn_section){.pool = capture->pool,
                                               .graph = graph,
                                               .capture_id = capture->capture_id,
                                               .mark = tn_device_mark(device)};
        capture->stage = TN_CAPTURE_STOPPED;
        return TARN_OK;
    }
    status = tn_stream_look(gpu, capture->stream, TN_STREAM_GRAPH, &state);
    if (status != TARN_OK)
        return status;
    if (state.broken || state.order.capture_id == capture->capture_id)
        /* the capture goes on */
        return tn_gpu_failed(gpu, result, "ending a capture", "the driver");
    if (capture->target == NULL)
        tn_device_forget_capture(device, capture->capture_id);
    if (result == TN_CUDA_ERROR_STREAM_CAPTURE_UNJOINED) {
        search_forks_again(capture->pool);
        tn_broken_put_unjoined(&text, device, order, &seen);
    } else {
        tn_broken_find(device, capture->capture_id, &known);
        tn_broken_put_answer(&text, result, &known, &(struct tn_seen_node){.number = 0});
    }
    return fall_broken(capture, said);
}
