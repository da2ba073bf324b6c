// SPDX-License-Identifier: Apache-2.0
#include "graphs/former.h"

#include <stddef.h>

#include "base/contract.h"
#include "driver/exec.h"
#include "pools/pool.h"
#include "pools/visit.h"

struct search {
    struct tn_gpu *gpu;
    tn_cu_graph graph;
    enum tn_sight sight;
    size_t node_count; /* of the graph now; TN_NODES_UNKNOWN: not asked for yet */
};

/* How many nodes the graph has now. Where the driver fails, so many that no hold is a former
 * graph's: a later call of the capture tells of the failure. */
static size_t count_nodes(struct search *search)
{
    size_t count;

    if (search->node_count == TN_NODES_UNKNOWN)
        search->node_count = tn_driver_graph_count(search->gpu, search->graph, &count) == TARN_OK
                                 ? count
                                 : SIZE_MAX - 1;
    return search->node_count;
}

static bool is_former(struct search *search, const struct tn_hold *hold)
{
    if (hold->open || hold->known)
        return false;
    if (search->sight == TN_SIGHT_NEW)
        return true;
    if (hold->node_count != TN_NODES_UNKNOWN)
        return count_nodes(search) < hold->node_count;
    return search->sight == TN_SIGHT_RAW || count_nodes(search) == 0;
}

static void forget_by(struct search *search, tarn_pool *pool, enum tn_index_key by)
{
    struct tn_hold *next;

    for (struct tn_hold *hold =
             tn_pool_index_first(pool->holds.index, by, pool, (uintptr_t)search->graph);
         hold != NULL; hold = next) {
        next = tn_pool_index_next(pool->holds.index, &hold->entries[by]);
        if (!is_former(search, hold))
            continue;
        if (by == TN_BY_GRAPH)
            tn_hold_set_graph(hold, NULL);
        else
            tn_hold_set_keeper(hold, NULL);
    }
}

static bool forget(tarn_pool *pool, void *search)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    forget_by(search, pool, TN_BY_GRAPH);
    forget_by(search, pool, TN_BY_KEEPER);
    return false;
}

/* Whether any pool has a hold with one of the keys. */
static bool is_any(tarn_device *device, const struct tn_index_keys *keys)
{
    uint64_t below = UINT64_MAX;
    bool any;

    tn_lock_acquire(&device->lock);
    any = tn_pool_index_pool(&device->index, keys, &below) != NULL;
    tn_lock_release(&device->lock);
    return any;
}

void tn_former_forget(tarn_device *device, uint64_t capture_id, tn_cu_graph graph,
                      enum tn_sight sight)
{
    const struct tn_index_keys keys = {.graph = graph, .keeper = graph};
    struct search search = {
        .gpu = &device->gpu, .graph = graph, .sight = sight, .node_count = TN_NODES_UNKNOWN};

    TN_ASSERT(graph != NULL && !tn_lock_held(TN_RANK_DEVICE));
    if (!is_any(device, &keys) ||
        (capture_id != 0 &&
         is_any(device, &(const struct tn_index_keys){.capture_id = capture_id})))
        return;
    (void)tn_device_visit_holders(device, &keys, forget, &search);
}
