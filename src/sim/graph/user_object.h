// SPDX-License-Identifier: Apache-2.0
/* user_object.h -- objects of the program whose life graphs share, and the thread that ends them.
 *
 * A destructor runs on a thread of the simulator's own, some time after the last reference has
 * gone; never on the thread that dropped it. How long after is a setting (DESTRUCTOR_US) for objects
 * of graphs that were instantiated or cloned: of others the driver runs it before the call returns
 * that dropped it.
 *
 * Locking: the lock of core.h, which is not held while a destructor runs. */
#ifndef TARN_SIM_USER_OBJECT_H
#define TARN_SIM_USER_OBJECT_H

#include "sim/core/registry.h"

struct tn_sim_user_object {
    struct tn_sim_object object;
    void *user;
    tn_cu_hostfn destroy;
    uint64_t own_references;  /* the program's */
    uint64_t held_references; /* of graphs and executable graphs */
    struct tn_sim_user_object *next_due;
    uint64_t due_number; /* of the destructors that were ever due */
    int64_t due_ns;      /* when it may run: CLOCK_MONOTONIC; 0: at once */
    bool was_copied;     /* an executable or a clone has had references: only then it may be late */
};

/* References to user objects: of a graph, or of an executable graph. */
struct tn_sim_holding {
    struct tn_sim_user_object *object;
    uint64_t count;
};
struct tn_sim_holdings {
    struct tn_sim_holding *items;
    size_t count;
    size_t capacity;
};

/* Takes the same references as another. Returns false when memory ran out, nothing taken. */
bool tn_sim_holdings_copy(struct tn_sim_holdings *holdings, const struct tn_sim_holdings *other);

/* Gives all references up. */
void tn_sim_holdings_fini(struct tn_sim_holdings *holdings);

/* Waits until every destructor that is due has run, late ones at once, giving up the lock. */
void tn_sim_reaper_drain(void);

/* How many destructors were ever due; and the wait, where more are since, until none of these is due any more that is
 * not late: for calls on whose return what they dropped is gone. The lock is free meanwhile. */
uint64_t tn_sim_reaper_count(void);
void tn_sim_reaper_settle(uint64_t before);

/* Wakes the thread that runs destructors, at the end of the process. */
void tn_sim_reaper_wake(void);

#endif
