// SPDX-License-Identifier: Apache-2.0
/* registry.h -- the handles of everything that a program can name.
 *
 * A handle is a number made of a kind and a serial, never an address: so a destroyed or invented
 * handle is recognised instead of followed, and no value comes back for another object (SS1), unless
 * the simulator is to do as the driver does.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_REGISTRY_H
#define TARN_SIM_REGISTRY_H

#include "sim/core/core.h"

enum tn_sim_kind {
    TN_SIM_KIND_CONTEXT = 1,
    TN_SIM_KIND_STREAM,
    TN_SIM_KIND_EVENT,
    TN_SIM_KIND_MODULE,
    TN_SIM_KIND_FUNCTION,
    TN_SIM_KIND_LIBRARY,
    TN_SIM_KIND_KERNEL,
    TN_SIM_KIND_GRAPH,
    TN_SIM_KIND_NODE,
    TN_SIM_KIND_EXEC,
    TN_SIM_KIND_USER_OBJECT,
    TN_SIM_KIND_PHYSICAL,
    TN_SIM_KIND_CONDITIONAL,
    TN_SIM_KIND_POOL,
    TN_SIM_KIND_COUNT, /* none: others come before it */
};

/* The first member of everything that has a handle. */
struct tn_sim_object {
    uintptr_t handle; /* 0 when it has none any more */
    enum tn_sim_kind kind;
    struct tn_sim_context *context; /* that it goes with; NULL when it outlives contexts */
};

/* Gives an object a handle. Returns false when memory ran out. */
bool tn_sim_register(struct tn_sim_object *object, enum tn_sim_kind kind,
                     struct tn_sim_context *context);

/* Takes an object's handle away; without effect when it has none. */
void tn_sim_unregister(struct tn_sim_object *object);

/* The object of that kind with that handle, or NULL. */
void *tn_sim_find(enum tn_sim_kind kind, uintptr_t handle);

/* The next object of that kind, from *at on, which begins at 0 and goes on by itself; or NULL. The
 * registry must not change meanwhile. Walks everything. */
void *tn_sim_find_next(enum tn_sim_kind kind, size_t *at);

/* Any object of that kind that goes with a context, or NULL. Walks everything. */
void *tn_sim_find_owned(enum tn_sim_kind kind, const struct tn_sim_context *context);

#endif
