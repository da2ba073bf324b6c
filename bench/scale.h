// SPDX-License-Identifier: Apache-2.0
/* scale.h -- what one call costs while much else is there.
 *
 * A population is many of one thing: streams with memory, live blocks, graphs, pools. A call is one
 * public function in one situation, such as a tarn_malloc that grows. tarn_scale counts each call
 * at each size of each population. A call whose count depends on its own work alone is flat. Other
 * calls are proportional, and say to what.
 *
 * Everything here is for one thread, on the simulated driver with TARN_SIM_WORK=awaited: what the
 * driver answers then depends on the calls alone. */
#ifndef TARN_BENCH_SCALE_H
#define TARN_BENCH_SCALE_H

#include <stdbool.h>
#include <stddef.h>

#include "base.h"
#include "driver.h"

enum {
    SCALE_SIZES = 4,
    SCALE_ITEMS_MAX = 1010000, /* a population's, with those that replace others */
    SCALE_WEIGHTS = 200,       /* blocks that each guarded graph refers to */
    SCALE_KEPT_MAX = 64,       /* blocks of calls that have to find nothing */
};

/* The populations, as bits of a set. */
enum {
    SCALE_STREAMS = 1 << 0,      /* with an arena, which has a live block */
    SCALE_RECORDED = 1 << 1,     /* streams that a live block each is recorded for */
    SCALE_RETIRED = 1 << 2,      /* streams that had memory and were retired */
    SCALE_GONE = 1 << 3,         /* streams that had memory and were destroyed without a word */
    SCALE_BLOCKS = 1 << 4,       /* live blocks, small, on the calling stream */
    SCALE_CHUNKS = 1 << 5,       /* live blocks, each as large as a chunk */
    SCALE_HOLES = 1 << 6,        /* free blocks with live ones between */
    SCALE_PENDING = 1 << 7,      /* blocks freed for a stream whose work never ends */
    SCALE_GRAPHS = 1 << 8,       /* of the private pool, all with the same memory */
    SCALE_OUTPUTS = 1 << 9,      /* the same, with a live block each */
    SCALE_GUARDED = 1 << 10,     /* the same, which all refer to the same weights */
    SCALE_ADOPTED = 1 << 11,     /* graphs with a pool that Tarn made */
    SCALE_POOLS = 1 << 12,       /* with a live block each */
    SCALE_RELEASED = 1 << 13,    /* released pools with a live block each */
    SCALE_CHECKPOINTS = 1 << 14, /* of the private pool */
    SCALE_LIVES = 1 << 15        /* objects of every kind that were made, used and ended */
};

/* Sets of them, by what a call that looks at everything has to look at. */
#define SCALE_LIVE (SCALE_STREAMS | SCALE_BLOCKS | SCALE_CHUNKS | SCALE_HOLES | SCALE_OUTPUTS)
#define SCALE_ARENAS (SCALE_STREAMS | SCALE_GONE)
#define SCALE_MANY_POOLS (SCALE_ADOPTED | SCALE_POOLS | SCALE_RELEASED)

struct scale_item {
    void *handle; /* a stream, block, graph, pool or checkpoint; NULL: the call took it */
    void *block;  /* live, of the handle's; or NULL */
};

struct scale_population;

struct scale_world {
    tarn_device *device;
    tarn_pool *shared; /* the default pool */
    tarn_pool *pool;   /* a private one; each population is in both as far as it can be */
    tarn_stream stream;
    tarn_stream other;        /* known to the library; has no memory */
    tarn_stream guest_stream; /* its blocks are freed by other threads */
    tn_cu_function weights_kernel;
    void *weights[SCALE_WEIGHTS]; /* guarded graphs alone */

    const struct scale_population *population;
    struct scale_item items[SCALE_ITEMS_MAX]; /* from first to count - 1 */
    size_t first;
    size_t count;
    size_t settled; /* what the population's settle has seen */

    /* Live until the calls of one size are over. */
    void *kept[SCALE_KEPT_MAX];
    size_t kept_count;

    /* What a call works on: made by its prepare, ended by its finish. */
    void *block;
    tarn_stream made;
    tarn_pool *new_pool;
    tarn_route *route;
    tarn_capture *capture;
    tarn_graph *graph;
    tarn_graph *graph_too;
    tarn_driver_graph driver_graph;
    tarn_checkpoint *checkpoint;
    tarn_audit *audit;
    tarn_graph_diff *diff;
};

struct scale_population {
    const char *name;
    unsigned int kind;                       /* a single one */
    size_t sizes[SCALE_SIZES];               /* 0: no more */
    void (*open)(struct scale_world *world); /* once, before the first; may be NULL */
    void (*add)(struct scale_world *world, struct scale_item *item);
    void (*settle)(struct scale_world *world); /* behind some that were added; may be NULL */
    /* How many are there still: some calls end pending blocks. NULL: all that were added. */
    size_t (*left)(struct scale_world *world);
};
extern const struct scale_population scale_populations[];
extern const size_t scale_population_count;

struct scale_call {
    const char *name;
    void (*prepare)(struct scale_world *world); /* not counted; may be NULL */
    void (*run)(struct scale_world *world);
    void (*finish)(struct scale_world *world); /* not counted; may be NULL */
    unsigned int kinds;                        /* beside these populations; 0: all */
    /* What the call is proportional to; NULL: it is to be flat. And the populations that are this:
     * beside others the call is to be flat, too. */
    const char *proportional;
    unsigned int proportional_kinds;
    bool by_thread; /* run is called by another thread than all else */
};
#define SCALE_CALL(the_name, the_prepare, the_run, the_finish)                                     \
    .name = (the_name), .prepare = (the_prepare), .run = (the_run), .finish = (the_finish)
extern const struct scale_call scale_memory_calls[];
extern const size_t scale_memory_call_count;
extern const struct scale_call scale_graph_calls[];
extern const size_t scale_graph_call_count;
extern const struct scale_call scale_pool_calls[];
extern const size_t scale_pool_call_count;
extern const struct scale_call scale_look_calls[];
extern const size_t scale_look_call_count;

/* Has the driver do all work that is queued, and the library notice. */
void scale_drain(struct scale_world *world);

/* One more of the population; the oldest, which the caller ends. */
void scale_add(struct scale_world *world);
struct scale_item scale_take_oldest(struct scale_world *world);

/* Keeps the call's block; gives all of them back. */
void scale_keep(struct scale_world *world);
void scale_end_kept(struct scale_world *world);

/* A capture of the private pool on the world's stream: a block, a kernel that writes there, a free. */
void scale_capture_begin(struct scale_world *world);
void scale_capture_work(struct scale_world *world);
tarn_graph *scale_capture(struct scale_world *world);

/* A graph of the driver's, captured with the driver's own calls; with a route to the private pool,
 * or without: then Tarn adopts a pool for the block. */
tarn_driver_graph scale_capture_plain(struct scale_world *world, bool routed);

/* A kernel that has all weights as its parameter, in the capture under way. */
void scale_weights_launch(struct scale_world *world);

#endif
