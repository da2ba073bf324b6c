// SPDX-License-Identifier: Apache-2.0
/* op.h -- one piece of device work: a kernel, a copy, a set or a host function.
 *
 * An operation never changes once made; queues, graph nodes and executable graphs share it by
 * counting references. Addresses in it are resolved when it runs.
 *
 * Locking: the lock of core.h, which tn_sim_op_run gives up while the work is done. */
#ifndef TARN_SIM_OP_H
#define TARN_SIM_OP_H

#include "sim/context.h"

struct tn_sim_code;

struct tn_sim_kernel_op {
    struct tn_sim_code *code; /* referenced */
    tarn_sim_launch launch;
    size_t block_bytes;   /* of the packed parameters */
    unsigned char *block; /* parameters at the offsets of their layout; NULL without any */
    void **params;        /* into block, one for each parameter; NULL without any */
    bool packed;          /* the program passed them packed */
    void *extra[5];       /* the packed form, as the driver gives it back */
};

struct tn_sim_copy_op {
    uintptr_t to;
    uintptr_t from;
    size_t bytes;
    bool to_device; /* the books decide who may write there */
    bool from_device;
    void *staged; /* the source's bytes, taken when the call was made; NULL when read later */
};

struct tn_sim_set_op {
    uintptr_t address;
    unsigned int value;
    size_t width; /* bytes of one element: 1 or 4 */
    size_t count; /* elements */
};

struct tn_sim_host_op {
    tn_cu_hostfn function;
    void *user;
};

struct tn_sim_op {
    tn_cu_graphnode_type type;
    unsigned int references;
    struct tn_sim_context *context; /* that it runs in, and that its faults destroy */
    union {
        struct tn_sim_kernel_op kernel;
        struct tn_sim_copy_op copy;
        struct tn_sim_set_op set;
        struct tn_sim_host_op host;
    };
};

/* Makes an operation of that type, zeroed, with one reference; NULL when memory ran out. */
struct tn_sim_op *tn_sim_op_create(tn_cu_graphnode_type type, struct tn_sim_context *context);

struct tn_sim_op *tn_sim_op_acquire(struct tn_sim_op *op);
void tn_sim_op_release(struct tn_sim_op *op);

/* Asks whether the memory that a copy or a set names may be used so by its device, now. Kernels
 * and host functions name none. */
bool tn_sim_op_valid(const struct tn_sim_op *op);

/* Does the work, on a thread of the simulator, unless its context is dead. A fault kills the
 * context. Returns false when the context is dead afterwards. */
bool tn_sim_op_run(struct tn_sim_op *op);

#endif
