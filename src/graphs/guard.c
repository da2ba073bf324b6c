// SPDX-License-Identifier: Apache-2.0
/* Guards.
 *
 * While a guard is made, its graph's magic number may not exist yet, or be that of another guard.
 * When the guard begins, it therefore reads once more what its watch was told.
 *
 * Trade-offs: a guarded graph keeps a list of its nodes, for a sentence that perhaps nobody asks
 * for. */
#include "graphs/guard.h"

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "pools/watches.h"

/* The first mistake that leaves no block to watch. */
static const tarn_pointer *find_dead(const tarn_audit *audit)
{
    for (size_t i = 0; i < audit->mistake_count; i++) {
        if (tn_pointer_is_dead(audit->mistakes[i].pointer_class))
            return &audit->mistakes[i];
    }
    return NULL;
}

/* The number of a graph that may be replayed. */
static uint64_t fresh_magic(const tarn_graph *graph)
{
    return graph->pool->device->history.replays ? TN_GRAPH_RECORDED : TN_GRAPH_MAGIC;
}

static bool is_of_another_process(const tarn_pointer *pointer)
{
    return pointer->pool == NULL;
}

/* HOST_MEMORY */
static tarn_status make_import_watches(struct tn_guard *guard)
{
    size_t count = 0;

    for (size_t i = 0; i < tn_audit_listed(guard->audit); i++)
        count += is_of_another_process(&guard->audit->pointers[i]);
    if (count == 0)
        return TARN_OK;
    guard->imports = tn_host_alloc(count, sizeof *guard->imports);
    return guard->imports != NULL
               ? TARN_OK
               : tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to watch other processes' blocks");
}

/* Watches the block of the audit's pointer of this index. */
static tarn_status watch_one(struct tn_guard *guard, size_t index)
{
    const tarn_pointer *pointer = &guard->audit->pointers[index];

    TN_ASSERT(guard->watch.count == index);
    if (!is_of_another_process(pointer))
        return tn_watch_add(&guard->watch, (uint64_t)(uintptr_t)pointer->block.address,
                            pointer->block.sequence);
    tn_watch_skip(&guard->watch);
    tn_import_watch_begin(&guard->imports[guard->import_count], &guard->watch, index,
                          pointer->block.sequence);
    guard->import_count += 1;
    return TARN_OK;
}

static tarn_status watch_all(struct tn_guard *guard, tarn_graph *graph)
{
    size_t count = tn_audit_listed(guard->audit);
    tarn_status status = tn_watch_init(&guard->watch, graph->pool, guard->kind == TARN_GUARD_KEEP,
                                       count, &graph->magic, fresh_magic(graph), TN_GRAPH_STALE);

    TN_ASSERT(guard->kind != TARN_GUARD_IGNORE);
    if (status == TARN_OK)
        status = make_import_watches(guard);
    for (size_t i = 0; status == TARN_OK && i < count; i++)
        status = watch_one(guard, i);
    return status;
}

tarn_status tn_guard_make(tarn_graph *graph, tarn_guard kind,
                          const struct tn_audit_subject *subject, const tarn_audit_options *options,
                          struct tn_guard **guard)
{
    struct tn_guard *made;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    *guard = NULL;
    if (kind == TARN_GUARD_IGNORE)
        return TARN_OK;
    made = tn_host_alloc(1, sizeof *made);
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a graph's guard");
    made->kind = kind;
    status = tn_audit(graph->pool->device, subject, options, TN_LIST_NOT_HELD, &made->audit);
    if (status == TARN_OK && made->audit->counts[TARN_POINTER_KEPT] > 0)
        status =
            tn_fail(TARN_ERR_WRONG_STATE,
                    "the graph's guard keeps freed blocks, %zu pointers into them, which another "
                    "guard would not: capture it again, or end the guard with "
                    "TARN_GUARD_IGNORE",
                    made->audit->counts[TARN_POINTER_KEPT]);
    if (status == TARN_OK) {
        made->dead = find_dead(made->audit);
        status = watch_all(made, graph);
    }
    if (status != TARN_OK) {
        tn_guard_give_up(graph, made);
        return status;
    }
    *guard = made;
    return TARN_OK;
}

void tn_guard_replace(tarn_graph *graph, struct tn_guard *guard)
{
    struct tn_guard *before = graph->guard;

    TN_ASSERT(tn_lock_none_held());
    TN_ASSERT(guard == NULL || guard != before);
    graph->guard = guard;
    tn_guard_drop(before);
    tn_guard_publish(graph);
}

/* Whether the guard misses a block. NULL: no guard, and no block is missing. */
static bool misses_any(const struct tn_guard *guard)
{
    TN_ASSERT(guard == NULL || atomic_load(&guard->watch.gone) <= tn_audit_listed(guard->audit));
    return guard != NULL && (guard->dead != NULL || atomic_load(&guard->watch.gone) != 0);
}

void tn_guard_publish(tarn_graph *graph)
{
    atomic_store(&graph->magic, fresh_magic(graph));
    if (misses_any(graph->guard))
        atomic_store(&graph->magic, TN_GRAPH_STALE); /* G7 */
}

/* A freed block that this guard watched has made the graph stale, if the graph existed. The graph's
 * own guard may miss no block: then the graph is good again. */
void tn_guard_give_up(tarn_graph *graph, struct tn_guard *guard)
{
    TN_ASSERT(tn_lock_none_held());
    tn_guard_drop(guard);
    if (tn_graph_is_stale(graph) && !misses_any(graph->guard))
        tn_guard_publish(graph);
}

void tn_guard_drop(struct tn_guard *guard)
{
    if (guard == NULL)
        return;
    TN_ASSERT(!tn_lock_held(TN_RANK_POOL)); /* tn_watch_end takes the lock */
    for (size_t i = 0; i < guard->import_count; i++)
        tn_import_watch_end(&guard->imports[i]);
    tn_host_free(guard->imports);
    tn_watch_end(&guard->watch);
    if (guard->audit != NULL)
        tn_audit_drop(guard->audit);
    tn_host_free(guard);
}

tarn_status tn_guard_refuse(const tarn_graph *graph)
{
    const struct tn_guard *guard = graph->guard;
    const tarn_pointer *pointer = guard->dead;
    const char *what;
    char where[512];

    TN_ASSERT(misses_any(guard)); /* G7 */
    if (pointer == NULL) {
        pointer = &guard->audit->pointers[atomic_load(&guard->watch.gone) - 1];
        what = is_of_another_process(pointer) ? "is closed, or the other process is gone"
                                              : "was freed";
    } else {
        what = tn_pointer_class_sentence(pointer->pointer_class);
    }
    tn_audit_write_pointer(guard->audit, pointer, where, sizeof where);
    return tn_fail(TARN_ERR_STALE,
                   "the graph is stale: %s, %s; capture it again, or guard it otherwise", where,
                   what);
}
