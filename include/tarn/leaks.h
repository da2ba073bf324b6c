// SPDX-License-Identifier: Apache-2.0
/* leaks.h -- which blocks are live, and where the program allocated them, the worst place first.
 *
 *   tarn_leaks_find(device, NULL, &leaks);
 *   tarn_leaks_report(leaks, TARN_REPORT_TEXT, text, sizeof text, NULL);
 *   tarn_leaks_destroy(leaks);
 *
 * Blocks of one stack are one place. Blocks without a stack are one place where they have one pool
 * and one size. So the places are stacks where the device has stacks
 * (tarn_device_options.history_stacks), and otherwise pools and sizes. docs/leaks.md has an
 * example.
 *
 * The environment variable TARN_LEAKS asks for the same text without a change of the program. The
 * text is written at the process's normal exit, and when a device cannot be closed:
 *   1        On standard error.
 *   0        Nowhere, as where TARN_LEAKS is not set.
 *   a path   At the end of a file of this name.
 * Each device that is then opened keeps a history: of 1 MiB where its options or TARN_CONF choose
 * none. Its stacks are TARN_HISTORY_FRAMES where these choose none.
 *
 * All functions may be called from any thread, while any stream is being captured, and from within
 * callbacks of tarn/pressure.h. They never disturb a capture. */
#ifndef TARN_LEAKS_H
#define TARN_LEAKS_H

#include "tarn/stats.h"
#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Blocks, with their bytes as requested. */
typedef struct tarn_leak_sum {
    uint64_t blocks;
    uint64_t bytes;
} tarn_leak_sum;

/* The blocks of a place in one pool. */
typedef struct tarn_leak_pool {
    /* unique in the process, as in a snapshot */
    uint64_t number;
    /* as given to tarn_pool_create; "default" and "adopted" for pools that Tarn made */
    char name[32];
    tarn_leak_sum live;
} tarn_leak_pool;

/* The live blocks of one place. */
typedef struct tarn_leak {
    /* The number of their stack in the device's history; 0: they have none. 1: the history had no
     * room for it. */
    uint64_t stack;
    /* The label of their allocations (history.h), which is part of the stack; empty: none. */
    const char *label;
    /* Frames of an interpreter (history.h), and addresses behind calls, the innermost first. */
    const char *const *interpreted;
    size_t interpreted_count;
    const uint64_t *frames;
    size_t frame_count;

    tarn_leak_sum live;
    /* in bytes, as taken from the pools */
    uint64_t block_bytes;
    /* For how many blocks these stand. Where some allocations have a stack, each stands for others
     * of its size, and blocks without a stack stand for none. Otherwise as live. Sums of these are
     * unbiased estimates. */
    tarn_leak_sum estimated;

    /* Numbers of the oldest and of the newest of the blocks: tarn_block.sequence. */
    uint64_t oldest;
    uint64_t newest;

    /* Blocks of live in memory that captures or graphs keep, or watched by a guarded graph. Replays
     * may need them. */
    tarn_leak_sum in_graphs;
    /* Blocks of live that were allocated in an aborted capture, and not freed yet. */
    tarn_leak_sum discarded;

    /* the one with the most bytes first */
    const tarn_leak_pool *pools;
    size_t pool_count;
} tarn_leak;

/* An object of the loader's, with code at the addresses from start on, below end. */
typedef struct tarn_leak_module {
    uint64_t start;
    uint64_t end;
    /* where start is in the file */
    uint64_t offset;
    const char *path;
    const unsigned char *build_id;
    /* 0: it has none */
    size_t build_id_bytes;
} tarn_leak_module;

/* Constant, and owned by the result. */
typedef struct tarn_leaks {
    /* ordinal of the device */
    int device;
    /* in all places */
    tarn_leak_sum live;
    tarn_leak_sum in_graphs;
    tarn_leak_sum discarded;
    /* Contents of checkpoints, in blocks of the default pool. They are in no place, and not among
     * live. Without stacks Tarn does not tell them from others: they are a place, and this is 0. */
    tarn_leak_sum contents;
    /* of how many bytes, in the mean, one allocation has a stack; 1: each has one; 0: none has */
    uint64_t sample_bytes;
    /* no block of the process has a higher number yet */
    uint64_t last_number;

    /* The one with the most estimated bytes first. */
    size_t count;
    const tarn_leak *leaks;

    /* With code at an address of some frame. */
    size_t module_count;
    const tarn_leak_module *modules;
} tarn_leaks;

/* Finds the blocks that are live in a pool, or in all pools of the device where pool is NULL: at
 * one moment, as tarn_snapshot_take does. Freed blocks that are pending are not among them.
 * *leaks: owned by the caller; end it with tarn_leaks_destroy.
 *   INVALID_HANDLE    The device; or the pool, which is not NULL.
 *   INVALID_ARGUMENT  leaks is NULL.
 *                     The pool is of another device.
 *   HOST_MEMORY. */
TARN_API TARN_MUST_CHECK tarn_status tarn_leaks_find(tarn_device *device, tarn_pool *pool,
                                                     tarn_leaks **leaks);
TARN_API void tarn_leaks_destroy(tarn_leaks *leaks); /* NULL is allowed. */

/* Writes the places, as tarn_pool_report writes. A frame of the text is the module's name, the
 * call's place in the module's file, and the function's dynamic symbol. Blocks without a stack are
 * one line where others stand for them. Paths and build ids of the modules stand last, by which
 * tools find functions and lines. JSON: an object with all members of tarn_leaks.
 *   INVALID_ARGUMENT  leaks is NULL.
 *                     buffer is NULL, and capacity is not 0.
 *                     The format is unknown. */
TARN_API TARN_MUST_CHECK tarn_status tarn_leaks_report(const tarn_leaks *leaks,
                                                       tarn_report_format format, char *buffer,
                                                       size_t capacity, size_t *length);

#ifdef __cplusplus
}
#endif
#endif
