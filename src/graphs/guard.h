// SPDX-License-Identifier: Apache-2.0
/* guard.h -- the blocks that a graph refers to and does not hold.
 *
 *   G7  a graph's magic number is TN_GRAPH_STALE once a block that it is guarded for was freed, or was found so
 *
 * A guard is an audit whose list has each such block once, and a watch on them. That the graph is stale is its magic
 * number: so a replay, which looks at that anyway, does nothing for it.
 *
 * Locking: a guard is its graph's; none may be held. */
#ifndef TARN_GRAPHS_GUARD_H
#define TARN_GRAPHS_GUARD_H

#include "claims/watch.h"
#include "graphs/record.h"
#include "inspect/audit.h"

struct tn_guard {
    tarn_guard kind; /* not IGNORE */
    struct tn_watch watch;
    tarn_audit *audit; /* its list: where the graph refers to each block of the watch; its names */
    const tarn_pointer *dead; /* that was dead when the guard was made; NULL: none */
};

/* A guard of the graph, which is not there yet or keeps the one that it has: it begins with tn_guard_begin. *guard is NULL
 * where the kind is IGNORE. What tarn_driver_graph_audit may return. */
TARN_MUST_CHECK tarn_status tn_guard_make(tarn_graph *graph, tarn_guard kind,
                                          const struct tn_audit_subject *subject,
                                          const tarn_audit_options *options,
                                          struct tn_guard **guard);

/* The graph, which exists, has that guard now, NULL: none, and no other any more. */
void tn_guard_begin(tarn_graph *graph, struct tn_guard *guard);

/* The same for one that has its first guard already: it may be replayed from here on, if that finds nothing dead. */
void tn_guard_settle(tarn_graph *graph);

/* Its guard's; NULL: it has none. */
static inline const struct tn_watch *tn_guard_watch(const tarn_graph *graph)
{
    return graph->guard != NULL ? &graph->guard->watch : NULL;
}

/* Ends a guard that was made for the graph and never begins: the graph is as stale as its own guard says. NULL is
 * allowed. */
void tn_guard_give_up(tarn_graph *graph, struct tn_guard *guard);

/* Ends a guard, of a graph or of none. NULL is allowed. */
void tn_guard_drop(struct tn_guard *guard);

/* STALE, with the sentence: the graph is. */
TARN_MUST_CHECK tarn_status tn_guard_refuse(const tarn_graph *graph);

#endif
