// SPDX-License-Identifier: Apache-2.0
/* user_object.h -- objects of the program whose life graphs share, and the thread that ends them.
 *
 * A destructor runs on a thread of the simulator's own, some time after the last reference has
 * gone; never on the thread that dropped it. For objects of graphs that were instantiated or
 * cloned, a setting tells the delay (DESTRUCTOR_US). For other objects the driver runs the
 * destructor before the call that dropped the reference returns.
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
    uint64_t due_number; /* among all destructors that ever became due */
    int64_t due_ns;      /* the earliest time to run: CLOCK_MONOTONIC; 0: at once */
    /* an executable or a clone had references: only then the destructor may be late */
    bool was_copied;
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

/* Waits until every due destructor has run, late ones at once, giving up the lock. */
void tn_sim_reaper_drain(void);

/* tn_sim_reaper_count: how many destructors ever became due. tn_sim_reaper_await: if more became
 * due since, waits until all of them have run, except late ones. For calls whose dropped objects
 * are gone on return. The lock is free meanwhile. */
uint64_t tn_sim_reaper_count(void);
void tn_sim_reaper_await(uint64_t before);

/* Wakes the thread that runs destructors, at the end of the process. */
void tn_sim_reaper_wake(void);

#endif
