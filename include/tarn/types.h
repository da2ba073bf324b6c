// SPDX-License-Identifier: Apache-2.0
/* types.h -- the handles that all headers share, and the rule of structs with a size.
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
typedef struct tarn_route tarn_route;           /* the way of some allocations to a private pool */
typedef struct tarn_capture tarn_capture;       /* a section being captured */
typedef struct tarn_graph tarn_graph;           /* an instantiated graph and what it holds */
typedef struct tarn_checkpoint tarn_checkpoint; /* a pool's state at one moment */
typedef struct tarn_listener tarn_listener;     /* where other processes connect, for memory */
typedef struct tarn_connection tarn_connection; /* with another process, for memory */

/* Options, defined in device.h, pool.h and graph.h; and the delta of a restore, in checkpoint.h. */
typedef struct tarn_device_options tarn_device_options;
typedef struct tarn_pool_options tarn_pool_options;
typedef struct tarn_capture_options tarn_capture_options;
typedef struct tarn_delta tarn_delta;

/* Which contents a checkpoint saves. */
typedef enum tarn_contents {
    TARN_CONTENTS_NONE = 0,   /* none: which blocks are live, alone */
    TARN_CONTENTS_DEVICE = 1, /* the bytes of live blocks, in device memory of the default pool */
    TARN_CONTENTS_HOST = 2,   /* the bytes of live blocks, in page-locked host memory */
} tarn_contents;

/* Where memory is. */
typedef enum tarn_location {
    TARN_LOCATION_DEVICE = 0,     /* in a device's own memory */
    TARN_LOCATION_HOST = 1,       /* page-locked memory of the host (host.h) */
    TARN_LOCATION_REGISTERED = 2, /* the same, by registration: faster to take (host.h) */
    TARN_LOCATION_PROCESS = 3,    /* another process's, which shares it (share.h); no pool's */
} tarn_location;

/* Structs whose first field is their size work between programs and libraries of different
 * versions. The caller sets the size by the INIT macro of the struct. 0 is the default of every
 * other field.
 *
 *   the program is older   Options: missing fields have their default.
 *                          Results: only the fields of the program are written.
 *   the program is newer   Options: TARN_ERR_INVALID_ARGUMENT, unless fields unknown to the library
 *                          are 0.
 *                          Results: fields unknown to the library become 0.
 *
 * The size stays as the caller set it. A wrong size is TARN_ERR_INVALID_ARGUMENT: below the least
 * that the struct ever had, above 4096, or no multiple of 8. docs/abi.md says how structs grow.
 *
 * TARN_SIZED is the value of every INIT macro, in C and C++11: the size, and 0 elsewhere. */
#ifdef __cplusplus
extern "C++" {
template <typename type> inline type tarn_sized(void)
{
    type made = type();

    made.size = sizeof(type);
    return made;
}
}
#define TARN_SIZED(type) tarn_sized<type>()
#else
#define TARN_SIZED(type)                                                                           \
    {                                                                                              \
        .size = sizeof(type)                                                                       \
    }
#endif

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
