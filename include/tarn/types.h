// SPDX-License-Identifier: Apache-2.0
/* types.h -- the handles that all headers share.
 *
 * The driver's handles are declared by their own struct tags: a cudaStream_t and a CUstream are
 * both a tarn_stream and pass without a cast; the same for graphs and executable graphs. No CUDA
 * header is needed, and none is included. */
#ifndef TARN_TYPES_H
#define TARN_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarn/status.h"

typedef struct CUstream_st *tarn_stream;         /* cudaStream_t, CUstream */
typedef struct CUgraph_st *tarn_driver_graph;    /* cudaGraph_t, CUgraph */
typedef struct CUgraphExec_st *tarn_driver_exec; /* cudaGraphExec_t, CUgraphExec */
typedef struct CUgraphNode_st *tarn_driver_node; /* cudaGraphNode_t, CUgraphNode */

typedef struct tarn_device tarn_device;         /* the allocator of one CUDA device */
typedef struct tarn_pool tarn_pool;             /* a set of arenas with one lifetime */
typedef struct tarn_capture tarn_capture;       /* a section being captured */
typedef struct tarn_graph tarn_graph;           /* an instantiated graph and what it holds */
typedef struct tarn_checkpoint tarn_checkpoint; /* a pool's state at one moment */

/* One block, as reports name it. */
typedef struct tarn_block {
    /* the address that the user was handed */
    void *address;
    /* as requested */
    size_t bytes;
    /* as taken from the pool: rounded up, at least to 512 bytes */
    size_t block_bytes;
    /* unique in the process, rising with every allocation */
    uint64_t sequence;
    /* the pool that the block lives in */
    tarn_pool *pool;
    /* the user's number for the block (tarn_block_set_tag); 0 until set */
    uint64_t tag;
} tarn_block;

#endif
