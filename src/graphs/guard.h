// SPDX-License-Identifier: Apache-2.0
/* guard.h -- the blocks that a graph refers to and does not hold.
 *
 *   G7  a graph's magic number is TN_GRAPH_STALE once a block that it is guarded for was freed, or
 *       was found so
 *
 * A guard is an audit whose list has each of these blocks once, and a watch on them. The magic
 * number says that the graph is stale. A replay reads this number anyway, and does no further work
 * for guards.
 *
 * Locking: a guard belongs to its graph; no lock may be held. */
#ifndef TARN_GRAPHS_GUARD_H
#define TARN_GRAPHS_GUARD_H

#include "claims/import_block.h"
#include "claims/watch.h"
#include "graphs/record.h"
#include "inspect/audit.h"

struct tn_guard {
    tarn_guard kind; /* not IGNORE */
    struct tn_watch watch;
    struct tn_import_watch *imports; /* of blocks of other processes, in the same order */
    size_t import_count;
    /* Its list says where the graph refers to each block of the watch, and has the names. */
    tarn_audit *audit;
    /* A pointer that was dead when the guard was made; NULL: none. */
    const tarn_pointer *dead;
};

/* Makes a guard of the graph, which does not exist yet or keeps its present guard until
 * tn_guard_replace. *guard is NULL where the kind is IGNORE. Returns what
 * tarn_driver_graph_audit may return. */
TARN_MUST_CHECK tarn_status tn_guard_make(tarn_graph *graph, tarn_guard kind,
                                          const struct tn_audit_subject *subject,
                                          const tarn_audit_options *options,
                                          struct tn_guard **guard);

/* Gives the graph, which exists, this guard (NULL: none), and drops the guard before. */
void tn_guard_replace(tarn_graph *graph, struct tn_guard *guard);

/* The same for a graph that has its first guard already. From here on the graph may be replayed,
 * unless the guard has found a dead block. */
void tn_guard_publish(tarn_graph *graph);

/* The watch of the graph's guard; NULL: the graph has no guard. */
static inline const struct tn_watch *tn_guard_watch(const tarn_graph *graph)
{
    return graph->guard != NULL ? &graph->guard->watch : NULL;
}

/* Ends a guard that was made for the graph and never begins. The graph becomes as stale as its own
 * guard says. NULL is allowed. */
void tn_guard_give_up(tarn_graph *graph, struct tn_guard *guard);

/* Ends a guard, of a graph or of none. NULL is allowed. */
void tn_guard_drop(struct tn_guard *guard);

/* STALE, with the sentence: the graph is stale. */
TARN_MUST_CHECK tarn_status tn_guard_refuse(const tarn_graph *graph);

#endif
