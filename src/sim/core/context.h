// SPDX-License-Identifier: Apache-2.0
/* context.h -- devices and contexts: the primary one of each device, and those that programs make.
 *
 * A primary context's handle is the same for the life of the process; between the last release and
 * the next retain it names a destroyed context. The record of a context that a program made stays
 * when the context goes, so that its handle names a destroyed context for good.
 *
 * A device fault marks all contexts of the device for good, those that come later too. From then on
 * every call that needs such a context, or something in it, answers with the fault and does nothing;
 * except that what destroys or frees does so all the same before it answers. Virtual memory
 * management is no context's and goes on.
 *
 * Invariants
 *   SX1  a primary context is alive only while it is retained
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
    bool alive;                   /* it has been made or retained, and not destroyed */
    unsigned int flags;           /* as the program gave them */
    uint64_t retains;             /* of a primary context */
    size_t own_bytes;             /* of the device's memory that it takes itself */
    tn_cu_result fault;           /* what device work did to it; SUCCESS while it is well */
    struct tn_sim_stream *legacy; /* its legacy stream; NULL until first used */
    struct tn_sim_peer *peers;    /* contexts whose memory it may use (peer.c) */
    struct tn_sim_heap *linear;   /* blocks of cuMemAlloc; NULL until first used */
    struct tn_sim_heap *pinned;   /* blocks of cuMemHostAlloc; the same */
};

struct tn_sim_device {
    struct tn_sim_store store;
    struct tn_sim_context context; /* the primary one */
};

/* The devices; those below tn_sim.device_count exist once cuInit has succeeded. */
extern struct tn_sim_device tn_sim_devices[TN_SIM_MAX_DEVICES];

/* Where events are that outlived their context: it was never alive. */
extern struct tn_sim_context tn_sim_nowhere;

/* The calling thread's current context, dead or alive; NULL when it has none. */
struct tn_sim_context *tn_sim_context_top(void);

/* The current context for a call that needs one. INVALID_CONTEXT: there is none.
 * CONTEXT_IS_DESTROYED: it has gone. Or the fault that it died of. */
tn_cu_result tn_sim_context_current(struct tn_sim_context **context);

/* What a call on something of this context is answered with: SUCCESS or the last two above. */
tn_cu_result tn_sim_context_health(const struct tn_sim_context *context);

/* The living context of a handle. INVALID_CONTEXT: it is no context's. CONTEXT_IS_DESTROYED. */
tn_cu_result tn_sim_context_find(tn_cu_context handle, struct tn_sim_context **context);

/* Asks whether flags are among the known ones, with one way to wait at most. */
bool tn_sim_context_flags_valid(unsigned int flags, unsigned int known);

/* Marks a context and all others of its device with a fault; the first one stays. */
void tn_sim_context_fail(struct tn_sim_context *context, tn_cu_result fault);

/* Makes a context alive; without effect when it is. */
void tn_sim_context_begin(struct tn_sim_context *context);

/* Asks whether a device of that ordinal exists. */
bool tn_sim_device_exists(int device);

/* What a device says of itself. Returns false for a number that is no attribute. */
bool tn_sim_attribute(int attribute, int device, int *value);

#endif
