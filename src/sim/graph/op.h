// SPDX-License-Identifier: Apache-2.0
/* op.h -- a piece of device work: a kernel, a copy, a set, a host function; and the work that only
 * graphs have, which the launch of the graph does (exec.c).
 *
 * An operation never changes once made; queues, graph nodes and executable graphs share it by
 * counting references. Addresses in it are resolved when it runs
 * (op_run.h).
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_OP_H
#define TARN_SIM_OP_H

#include "sim/core/context.h"

struct tn_sim_code;
struct tn_sim_event;
struct tn_sim_graph_block;

struct tn_sim_kernel_op {
    struct tn_sim_code *code; /* referenced */
    tarn_sim_launch launch;
    bool together;        /* all its blocks run at once */
    size_t block_bytes;   /* of the packed parameters */
    unsigned char *block; /* parameters at the offsets of their layout; NULL without any */
    void **params;        /* into block, a pointer for each parameter; NULL: no parameters */
    bool packed;          /* the program passed them packed */
    void *extra[5];       /* the packed form, as the driver gives it back */
};

/* A copy of a single row, or of the rows of a shape. */
struct tn_sim_copy_op {
    uintptr_t to;
    uintptr_t from;
    size_t bytes;   /* of a row */
    bool to_device; /* the books decide on the right to write there */
    bool from_device;
    void *staged; /* the source's bytes, taken when the call was made; NULL when read later */
    tn_cu_memcpy3d shape; /* as graphs give it back; width 0: not yet described */
};

/* Sets of a single row, or of rows that lie pitch bytes apart. */
struct tn_sim_set_op {
    uintptr_t address;
    unsigned int value;
    size_t width; /* bytes of an element: 1, 2 or 4 */
    size_t count; /* elements of a row */
    size_t rows;  /* 0 counts as 1 */
    size_t pitch;
};

struct tn_sim_host_op {
    tn_cu_hostfn function; /* or, when callback is NULL: */
    tn_cu_stream_callback callback;
    tn_cu_stream stream; /* handle for the callback */
    void *user;
};

/* Waits for single words, and writes of them. */
struct tn_sim_batch_op {
    unsigned int count;
    tn_cu_batch_op *ops; /* count of them, owned */
    unsigned int flags;
};

/* An allocation of a graph, or the end of an allocation. */
struct tn_sim_alloc_op {
    struct tn_sim_graph_block *block; /* referenced */
    tn_cu_alloc_node_params params;   /* as given, with the address; its access is an own copy */
};

/* The condition that a conditional node asks for. The bodies are the node's. */
struct tn_sim_conditional_op {
    tn_cu_conditional handle;
    tn_cu_conditional_type type;
    bool assigns; /* each launch of the graph begins with the value below */
    unsigned int launch_value;
};

struct tn_sim_op {
    tn_cu_graphnode_type type;
    enum tn_sim_function made_by; /* the call that asked for the work */
    unsigned int references;
    struct tn_sim_context *context;        /* of the work, which its faults destroy */
    void (*give_up)(struct tn_sim_op *op); /* gives up the maker's references; or NULL */
    union {
        struct tn_sim_kernel_op kernel;
        struct tn_sim_copy_op copy;
        struct tn_sim_set_op set;
        struct tn_sim_host_op host;
        struct tn_sim_batch_op batch;
        struct tn_sim_alloc_op alloc; /* of MEM_ALLOC and MEM_FREE */
        struct tn_sim_conditional_op conditional;
        struct tn_sim_event *event; /* referenced; of EVENT_RECORD and WAIT_EVENT */
    };
};

/* Makes an operation of the given type, zeroed, with one reference; NULL when memory ran out. */
struct tn_sim_op *tn_sim_op_create(tn_cu_graphnode_type type, struct tn_sim_context *context);

struct tn_sim_op *tn_sim_op_acquire(struct tn_sim_op *op);
void tn_sim_op_release(struct tn_sim_op *op);

/* Calls visit for each row of a copy until visit returns false, and returns the last answer. */
bool tn_sim_copy_each_row(const struct tn_sim_copy_op *copy,
                          bool (*visit)(uintptr_t to, uintptr_t from, size_t bytes, void *argument),
                          void *argument);

/* Makes the operation of waits and writes of single words, and keeps a copy of these; NULL when
 * memory ran out. */
struct tn_sim_op *tn_sim_batch_make(struct tn_sim_context *context, const tn_cu_batch_op *ops,
                                    unsigned int count, unsigned int flags);

#endif
