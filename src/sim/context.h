// SPDX-License-Identifier: Apache-2.0
/* context.h -- devices and their primary contexts, the only contexts there are.
 *
 * A context's handle is the same for the life of the process; between the last release and the
 * next retain it names a destroyed context.
 *
 * A device fault marks the context for good. From then on every call that needs the context, or
 * something in it, answers with the fault and does nothing; except that what destroys or frees does
 * so all the same before it answers. Virtual memory management is no context's and goes on.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_CONTEXT_H
#define TARN_SIM_CONTEXT_H

#include "sim/registry.h"
#include "sim/store.h"

struct tn_sim_context {
    struct tn_sim_object object;
    int device;
    uint64_t retains;             /* it lives while this is not zero */
    tn_cu_result fault;           /* what device work did to it; SUCCESS while it is well */
    struct tn_sim_stream *legacy; /* its legacy stream; NULL until first used */
};

struct tn_sim_device {
    struct tn_sim_store store;
    struct tn_sim_context context;
};

/* The devices; those below tn_sim.device_count exist once cuInit has succeeded. */
extern struct tn_sim_device tn_sim_devices[TN_SIM_MAX_DEVICES];

/* The calling thread's current context, dead or alive; NULL when it has none. */
struct tn_sim_context *tn_sim_context_top(void);

/* The current context for a call that needs one. INVALID_CONTEXT: there is none.
 * CONTEXT_IS_DESTROYED: it has gone. Or the fault that it died of. */
tn_cu_result tn_sim_context_current(struct tn_sim_context **context);

/* What a call on something of this context is answered with: SUCCESS or the last two above. */
tn_cu_result tn_sim_context_health(const struct tn_sim_context *context);

/* Asks whether a device of that ordinal exists. */
bool tn_sim_device_exists(int device);

#endif
