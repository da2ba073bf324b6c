// SPDX-License-Identifier: Apache-2.0
/* soak.h -- a thread of the soak: its pool, streams, blocks, graphs and checkpoint, and how it sees
 * that every block keeps its pattern.
 *
 * Every block is filled with a pattern of its own and verified before its free, by kernels. What the
 * verifications find is read later; until then each has a record of what it looked at. */
#ifndef TARN_TESTS_GPU_SOAK_H
#define TARN_TESTS_GPU_SOAK_H

#include <stdatomic.h>
#include <stdio.h>

#include "support/pattern.h"

enum {
    STREAMS = 3,
    BLOCKS = 96,
    GRAPHS = 3,
    GRAPH_CHECKS = 5, /* verifications in one graph, at most */
    RING = 128,       /* verifications outside graphs before they are looked at */
    SAVED = BLOCKS + GRAPHS,
    FILLS = 4096, /* the last ones of a thread, remembered */
    NOWHERE = -1, /* no stream of this thread */
};

struct block {
    void *address; /* NULL: none */
    size_t bytes;
    uint64_t sequence; /* of the library's */
    uint32_t pattern;
    bool filled;
    bool of_pool;            /* of the thread's pool, not of the default one */
    bool own;                /* and that pool is its alone */
    uint64_t captured;       /* not 0: allocated in the thread's capture of that number */
    int home;                /* the stream that it was allocated on, or NOWHERE */
    int last;                /* the stream of its last use */
    const char *what;        /* was done to it last */
    uint64_t step;           /* of the thread, when that was done */
    const char *what_before; /* and before that */
    uint64_t step_before;
};

/* What one verification looks at. */
struct check {
    struct block block;
    uint64_t runs; /* that must have been */
};

/* Words that a block was to have. */
struct fill {
    uint64_t address;
    size_t bytes;
    uint32_t pattern;
    uint64_t step; /* of the thread, when it was enqueued or captured */
};

struct graph {
    tarn_graph *graph; /* NULL: none */
    struct block kept; /* allocated in its section and not freed there; or none */
    uint64_t number;   /* of the capture that it is of, rising */
    int form;          /* of its section */
    size_t check_count;
    uint64_t replays;
};

enum soak_count {
    COUNT_STEPS,
    COUNT_ALLOCATIONS,
    COUNT_FREES,
    COUNT_VERIFICATIONS,
    COUNT_NO_MEMORY,
    COUNT_HANDED_OVER,
    COUNT_TRIMS,
    COUNT_CAPTURES,
    COUNT_UPDATES,
    COUNT_ABORTS,
    COUNT_REPLAYS,
    COUNT_CHECKPOINTS,
    COUNT_RESTORES,
    COUNT_RETIRED,
    COUNT_KINDS,
};

struct thread {
    int number;
    uint64_t random;
    uint64_t step;
    tarn_pool *pool;
    bool shares; /* the pool with other threads */
    tn_cu_stream streams[STREAMS];
    tn_cu_event event;
    struct block blocks[BLOCKS]; /* the first block_count are there */
    size_t block_count;
    struct graph graphs[GRAPHS];
    uint64_t capture_count;
    tarn_checkpoint *checkpoint; /* NULL: none */
    tarn_contents contents;      /* of it */
    struct block saved[SAVED];   /* live in the pool at that time */
    size_t saved_count;
    uint32_t saved_graphs;    /* a bit for each graph that was there then */
    tn_cu_deviceptr results;  /* of RING and then of every graph's checks */
    struct fill fills[FILLS]; /* fill number i is at i % FILLS */
    uint64_t fill_count;
    struct check ring[RING];
    size_t ring_count;
    struct check graph_checks[GRAPHS][GRAPH_CHECKS];
    uint64_t counts[COUNT_KINDS];
};

struct soak {
    tarn_device *device;
    tarn_pool *shared; /* by some of the threads */
    size_t bytes_max;  /* of a block */
    uint64_t seed;
};
extern struct soak soak;

/* The caller ends the process: the first failure alone is told. */
void soak_silence_others(void);

/* Ends the process with a sentence, the seed and the place. */
_Noreturn void soak_fail(const struct thread *t, const char *file, int line, const char *what);

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            soak_fail(t, __FILE__, __LINE__, #condition);                                          \
    } while (0)
#define DRIVER(call) REQUIRE((call) == TN_CUDA_SUCCESS)
#define TARN(call) REQUIRE((call) == TARN_OK)

uint64_t soak_random(struct thread *t);
int soak_below(struct thread *t, int limit);
size_t soak_bytes(struct thread *t); /* small sizes are as likely as large ones */

/* Memory ran out, as it may: gives up a part of what the thread has. */
void soak_make_room(struct thread *t);
bool soak_is_out_of_memory(const struct thread *t, tarn_status status);

/* Lets the stream run behind the other one; behind all of the thread's. */
void soak_order(struct thread *t, int first, int then);
void soak_order_all(struct thread *t, int then);
void soak_synchronize(struct thread *t);

/* Verifies the block on the stream, and frees it. */
void soak_free(struct thread *t, struct block *block, int stream);

void soak_add_block(struct thread *t, const struct block *block);
void soak_remove_block(struct thread *t, size_t index);

/* soak_verify.c */
/* Notes in the block what is done to it. */
void soak_note(struct thread *t, struct block *block, const char *what);

/* Remembers that the block is filled now, or by each replay of what is being captured. */
void soak_remember_fill(struct thread *t, const struct block *block);

/* Fills, or verifies, the block on a stream, behind its last use, and records the stream for it. */
void soak_fill(struct thread *t, struct block *block, int stream);
void soak_verify(struct thread *t, struct block *block, int stream, const char *what);
/* Waits for the thread's streams, and looks at what the verifications have found. */
void soak_look(struct thread *t);

/* soak_graphs.c */
void soak_capture(struct thread *t);
void soak_replay(struct thread *t);
void soak_destroy_graph(struct thread *t, int index);
void soak_checkpoint(struct thread *t);
void soak_restore(struct thread *t);
void soak_drop_checkpoint(struct thread *t);
/* What in the thread's graphs names the stream must not any more. */
void soak_graphs_forget_stream(struct thread *t, int stream, int instead);

#endif
