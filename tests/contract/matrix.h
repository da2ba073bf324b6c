// SPDX-License-Identifier: Apache-2.0
/* matrix.h -- every function of the driver in one table: how captures treat it, and how to call it.
 *
 * A row says how a function is called so that it succeeds outside captures, what must be made
 * before and undone after, and its class in each place that matters: without a stream, or on a
 * stream that captures, on one that does not, or on the legacy stream. matrix.c makes the cases of
 * every capture mode, thread and thread's mode from the rows and one rule; inflight.c those of
 * calls while the device is at work. Rows are written as lists of
 *
 *   X(name, waits, class, prepare, call, clean)                                      no stream
 *   X(name, waits, capturing, other, blocking, non_blocking, prepare, call, clean)   on t->stream
 *
 * where prepare and clean are statements on `struct matrix_things *t` (clean knows with `done`
 * whether the call succeeded), and call is an expression, which may run on any thread and gives the
 * answer. A name may go on after an underscore, to tell two uses of one function apart. */
#ifndef TARN_CONTRACT_MATRIX_H
#define TARN_CONTRACT_MATRIX_H

#include "contract/contract.h"

enum matrix_place {
    MATRIX_PLACE_NONE,         /* the call names no stream */
    MATRIX_PLACE_CAPTURING,    /* on the stream that captures, a non-blocking one */
    MATRIX_PLACE_OTHER,        /* on another stream, which does not capture */
    MATRIX_PLACE_BLOCKING,     /* on the legacy stream, while a blocking stream captures */
    MATRIX_PLACE_NON_BLOCKING, /* on the legacy stream, while a non-blocking stream captures */
    MATRIX_PLACE_COUNT
};

enum matrix_class {
    MATRIX_LEFT_OUT, /* there is no such call */
    MATRIX_FREE,     /* the capture makes no difference, nor does the call to the capture */
    MATRIX_UNSAFE,   /* the modes decide; where they forbid it, it is refused and invalidates */
    MATRIX_FATAL,    /* it is refused and invalidates, whatever the modes */
    MATRIX_NODE,     /* it becomes a node */
};

/* How captures treat a call in one place. */
struct matrix_treatment {
    enum matrix_class class;
    tn_cu_result result;       /* of a free or allowed call; of a fatal one its error */
    tn_cu_graphnode_type node; /* of MATRIX_NODE */
};
#define LEFT_OUT                                                                                   \
    {                                                                                              \
        .class = MATRIX_LEFT_OUT                                                                   \
    }
#define FREE FREE_GIVING(SUCCESS)
#define FREE_GIVING(answer)                                                                        \
    {                                                                                              \
        .class = MATRIX_FREE, .result = CONTRACT_RESULT_##answer                                   \
    }
#define UNSAFE UNSAFE_GIVING(SUCCESS)
#define UNSAFE_GIVING(answer)                                                                      \
    {                                                                                              \
        .class = MATRIX_UNSAFE, .result = CONTRACT_RESULT_##answer                                 \
    }
#define FATAL FATAL_GIVING(STREAM_CAPTURE_UNSUPPORTED)
#define IMPLICIT FATAL_GIVING(STREAM_CAPTURE_IMPLICIT)
#define FATAL_GIVING(answer)                                                                       \
    {                                                                                              \
        .class = MATRIX_FATAL, .result = CONTRACT_RESULT_##answer                                  \
    }
#define NODE(kind)                                                                                 \
    {                                                                                              \
        .class = MATRIX_NODE, .node = TN_CU_NODE_##kind                                            \
    }

struct matrix_graph {
    tn_cu_graph graph;
    tn_cu_graphnode node;
    tn_cu_graphexec exec;
};

/* What the calls work with. Made once for each process, the graphs when first asked for. */
struct matrix_things {
    tn_cu_context context;
    tn_cu_context abroad;            /* another context of the device; NULL until needed */
    tn_cu_stream capturing;          /* non-blocking */
    tn_cu_stream capturing_blocking; /* blocking */
    tn_cu_stream other;              /* non-blocking; it captures nothing */
    struct contract_mapped mapped;
    tn_cu_deviceptr linear;
    void *host;           /* page-locked */
    void *pageable;       /* a page that nobody registered */
    tn_cu_event recorded; /* recorded on `other`, with timing, and long reached */
    tn_cu_event recorded_later;
    tn_cu_event never; /* never recorded */
    tn_cu_library library;
    tn_cu_kernel kernel;
    struct matrix_graph graphs[TN_CU_NODE_CONDITIONAL];

    tn_cu_stream stream; /* where the call goes, if it names a stream */

    /* What the call is given, or makes. */
    tn_cu_deviceptr address;
    tn_cu_memhandle handle;
    void *pointer;
    tn_cu_stream made_stream;
    tn_cu_event event;
    tn_cu_context made_context;
    tn_cu_module module;
    tn_cu_function function;
    tn_cu_library made_library;
    tn_cu_kernel made_kernel;
    tn_cu_mempool pool;
    tn_cu_userobject object;
    tn_cu_graph graph;
    tn_cu_graphnode node;
    tn_cu_graphnode made_node;
    tn_cu_graphexec exec;
    tn_cu_ipc_handle ipc;
    int file;
    int number;
    size_t bytes;
    unsigned long long word; /* an answer that nobody reads */
    char text[256];          /* the same */
    union {
        tn_cu_kernel_node_params kernel;
        tn_cu_memcpy3d memcpy;
        tn_cu_memset_node_params memset;
        tn_cu_alloc_node_params alloc;
        tn_cu_host_node_params host;
        tn_cu_batch_node_params batch;
    } params;
};

struct matrix_row {
    const char *name;
    bool waits; /* for all work of the device */
    struct matrix_treatment at[MATRIX_PLACE_COUNT];
    void (*prepare)(struct matrix_things *t); /* on the case's thread, before the capture */
    tn_cu_result (*call)(struct matrix_things *t);
    void (*clean)(struct matrix_things *t, bool done); /* after the capture */
};

/* The functions of a row, and its entry in the table. */
#define MATRIX_PARTS(name, before, invocation, after)                                              \
    static void prepare_##name(struct matrix_things *t)                                            \
    {                                                                                              \
        (void)t;                                                                                   \
        before;                                                                                    \
    }                                                                                              \
    static tn_cu_result call_##name(struct matrix_things *t)                                       \
    {                                                                                              \
        (void)t;                                                                                   \
        return invocation;                                                                         \
    }                                                                                              \
    static void clean_##name(struct matrix_things *t, bool done)                                   \
    {                                                                                              \
        (void)t;                                                                                   \
        (void)done;                                                                                \
        after;                                                                                     \
    }
#define MATRIX_DEFINE(name, waits, class, before, invocation, after)                               \
    MATRIX_PARTS(name, before, invocation, after)
#define MATRIX_DEFINE_STREAM(name, waits, capturing, other, blocking, non_blocking, before,        \
                             invocation, after)                                                    \
    MATRIX_PARTS(name, before, invocation, after)
#define MATRIX_ENTRY(name, waits, class, before, invocation, after)                                \
    {#name, waits, {[MATRIX_PLACE_NONE] = class}, prepare_##name, call_##name, clean_##name},
#define MATRIX_ENTRY_STREAM(name, waits, capturing, other, blocking, non_blocking, before,         \
                            invocation, after)                                                     \
    {#name,                                                                                        \
     waits,                                                                                        \
     {[MATRIX_PLACE_CAPTURING] = capturing,                                                        \
      [MATRIX_PLACE_OTHER] = other,                                                                \
      [MATRIX_PLACE_BLOCKING] = blocking,                                                          \
      [MATRIX_PLACE_NON_BLOCKING] = non_blocking},                                                 \
     prepare_##name,                                                                               \
     call_##name,                                                                                  \
     clean_##name},

struct matrix_table {
    const struct matrix_row *rows;
    size_t count;
};
extern const struct matrix_table matrix_devices; /* devices, contexts, modules */
extern const struct matrix_table matrix_memory;
extern const struct matrix_table matrix_streams;
extern const struct matrix_table matrix_graphs;

/* Row `index` of all tables, NULL behind the last. */
const struct matrix_row *matrix_row(size_t index);

/* The things of this process; the first call makes them, or ends the case. */
struct matrix_things *matrix_things(void);

/* The thread that is not the case's own; made by the first call. */
struct contract_thread *matrix_thread(void);

/* A graph of one node, of that type, and where asked for an executable graph of it; made when first
 * asked for. A MEM_FREE graph has the allocation besides. */
struct matrix_graph *matrix_graph(struct matrix_things *t, tn_cu_graphnode_type type,
                                  bool with_exec);

/* Makes a library, t->made_library; and of it a kernel, t->made_kernel, whose code nobody has asked
 * for yet. */
void matrix_make_library(struct matrix_things *t);
void matrix_make_kernel(struct matrix_things *t);

/* A host function, and a destructor, that does nothing. */
void matrix_nothing(void *user);

/* A module of one empty kernel. */
extern const char matrix_ptx[];

/* Writes a row's name for use in a case's: "cuMemsetD8Async-no-bytes" of
 * "cuMemsetD8Async_no_bytes", and the suffix. Returns the length. */
size_t matrix_write_name(char *to, size_t bytes, const struct matrix_row *row, const char *suffix);

#endif
