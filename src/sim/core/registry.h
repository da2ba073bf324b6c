// SPDX-License-Identifier: Apache-2.0
/* registry.h -- the handles of everything that a program can name.
 *
 * A handle is a number made of a kind and a serial, never an address. A destroyed or invented
 * handle is therefore recognised instead of followed. No value comes back for another object (SS1),
 * unless the simulator is to do as the driver does.
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

/* The first member of everything with a handle. */
struct tn_sim_object {
    uintptr_t handle; /* 0: no handle any more */
    enum tn_sim_kind kind;
    struct tn_sim_context *context; /* that the object goes with; NULL when it outlives contexts */
};

/* Gives an object a handle. Returns false when memory ran out. */
bool tn_sim_register(struct tn_sim_object *object, enum tn_sim_kind kind,
                     struct tn_sim_context *context);

/* Takes an object's handle away; without effect on an object without a handle. */
void tn_sim_unregister(struct tn_sim_object *object);

/* The object of the given kind and handle, or NULL. */
void *tn_sim_find(enum tn_sim_kind kind, uintptr_t handle);

/* The next object of the given kind from *at on, or NULL. *at begins at 0, and each call moves it
 * on. The registry must not change meanwhile. Walks everything. */
void *tn_sim_find_next(enum tn_sim_kind kind, size_t *at);

/* Any object of the given kind that goes with a context, or NULL. Walks everything. */
void *tn_sim_find_owned(enum tn_sim_kind kind, const struct tn_sim_context *context);

#endif
