// SPDX-License-Identifier: Apache-2.0
/* context.h -- devices and contexts: each device's primary context, and contexts that programs
 * make.
 *
 * A primary context's handle is the same for the life of the process. Between the last release and
 * the next retain the handle names a destroyed context. The record of a program's own context stays
 * when the context goes, and its handle names a destroyed context for good.
 *
 * A device fault marks all contexts of the device for good, later contexts too. From then on every
 * call that needs a marked context, or an object in it, answers with the fault and does nothing.
 * Only calls that destroy or free still do their work before they answer. Virtual memory management
 * belongs to no context and goes on.
 *
 * Invariants
 *   SX1  a primary context is alive only while retained
 *   SX2  a context that is not alive has no streams, events, modules, memory or peers
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_CONTEXT_H
#define TARN_SIM_CONTEXT_H

#include "sim/core/registry.h"
#include "sim/core/store.h"

struct tn_sim_peer;

struct tn_sim_context {
    struct tn_sim_object object;
    int device;
    bool primary;
    bool alive;         /* made or retained, and not destroyed */
    unsigned int flags; /* as the program gave them */
    uint64_t retains;   /* of a primary context */
    size_t own_bytes;   /* of the device's memory, for the context itself */
    /* the fault from device work; SUCCESS while the context is well */
    tn_cu_result fault;
    struct tn_sim_stream *legacy; /* its legacy stream; NULL until first used */
    struct tn_sim_peer *peers;    /* contexts whose memory this context may use (peer.c) */
    struct tn_sim_heap *linear;   /* blocks of cuMemAlloc; NULL until first used */
    struct tn_sim_heap *pinned;   /* blocks of cuMemHostAlloc; the same */
};

struct tn_sim_device {
    struct tn_sim_store store;
    struct tn_sim_context context; /* the primary context */
};

/* The devices. Devices below tn_sim.device_count exist once cuInit has succeeded. */
extern struct tn_sim_device tn_sim_devices[TN_SIM_MAX_DEVICES];

/* The context of events that outlived their own: was never alive. */
extern struct tn_sim_context tn_sim_nowhere;

/* The calling thread's current context, dead or alive; NULL without a current context. */
struct tn_sim_context *tn_sim_context_top(void);

/* The current context for a call that needs a context. INVALID_CONTEXT: none is current.
 * CONTEXT_IS_DESTROYED: the context has gone. Otherwise the fault by which the context died. */
tn_cu_result tn_sim_context_current(struct tn_sim_context **context);

/* The answer to a call on an object of this context: SUCCESS, CONTEXT_IS_DESTROYED or the fault. */
tn_cu_result tn_sim_context_health(const struct tn_sim_context *context);

/* The living context of a handle. INVALID_CONTEXT: the handle is no context's.
 * CONTEXT_IS_DESTROYED. */
tn_cu_result tn_sim_context_find(tn_cu_context handle, struct tn_sim_context **context);

/* Asks whether flags are among the known ones, with one way to wait at most. */
bool tn_sim_context_flags_valid(unsigned int flags, unsigned int known);

/* Marks a context and all others of its device with a fault; the first fault stays. */
void tn_sim_context_fail(struct tn_sim_context *context, tn_cu_result fault);

/* Makes a context alive; without effect on a living context. */
void tn_sim_context_revive(struct tn_sim_context *context);

/* Asks whether a device of the given ordinal exists. */
bool tn_sim_device_exists(int device);

/* The value of a device's attribute. Returns false for a number that is no attribute. */
bool tn_sim_attribute(int attribute, int device, int *value);

#endif
