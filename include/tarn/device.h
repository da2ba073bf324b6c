// SPDX-License-Identifier: Apache-2.0
/* device.h -- the allocator of one CUDA device.
 *
 * A tarn_device is shared by all users in the process that open the same ordinal, and counts them.
 * It owns the reserved addresses, the default pool and every private pool of that device.
 *
 * Which driver: the environment variable TARN_DRIVER names the driver:
 *   cuda    The default: libcuda.so.1.
 *   sim     The simulated driver that comes with Tarn.
 *   a path  A library with the driver's functions.
 * Tarn never chooses the simulator by itself. A program with more rights than its user
 * (set-user-id, capabilities) reads no environment variable: its driver is the CUDA driver.
 *
 * Unloading: the driver and the ends of threads call the library. The object with the library,
 * libtarn.so or a plugin with libtarn.a, stays loaded from the first open on.
 *
 * Threads: all functions may be called from any thread, with any CUDA context current or none. They
 * leave the current context as it was. */
#ifndef TARN_DEVICE_H
#define TARN_DEVICE_H

#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How to serve an allocation on a capturing stream that no route leads to a private pool, or that
 * names the default pool. See docs/pools.md.
 *   ADOPT   The capture gets a private pool of its own, named "adopted". The pool ends with its
 *           graph and its last block, without a wait. Memory freed in the capture, or behind the
 *           capture by tarn_free_on, keeps the pool no longer. A block freed behind the capture by
 *           tarn_free alone may be in use on any stream. It keeps the pool like a block of a
 *           released pool (tarn_pool_release). Where 32 such pools are kept, the first allocation
 *           of the next capture waits for the device, and ends them.
 *   REFUSE  The allocation answers TARN_ERR_UNROUTED.
 *   ALLOW   The default pool serves the allocation. Memory freed in the capture waits until Tarn
 *           learns of the capture's end: the graph is adopted or destroyed, or anything is
 *           allocated outside captures. Nothing is kept for the graph: the program keeps the blocks
 *           that its replays use. */
typedef enum tarn_unrouted {
    TARN_UNROUTED_ADOPT = 0,
    TARN_UNROUTED_REFUSE = 1,
    TARN_UNROUTED_ALLOW = 2,
} tarn_unrouted;

/* The stream that NULL means in every call that concerns the device: its own calls, and calls for
 * its pools, blocks, graphs and checkpoints.
 *   LEGACY      The legacy default stream.
 *   PER_THREAD  The calling thread's own default stream. CUDA gives NULL this meaning in code
 *               compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM, or by nvcc with
 *               --default-stream per-thread. */
typedef enum tarn_null_stream {
    TARN_NULL_STREAM_LEGACY = 0,
    TARN_NULL_STREAM_PER_THREAD = 1,
} tarn_null_stream;

/* The sizes of requests that may be rounded up differently: from 1, 2, 4 ... 32768 MiB to below the
 * next. The first also counts for smaller requests, and the last for larger ones. */
#define TARN_ROUNDUP_SIZES 16

/* Stacks of allocations, in a history, and what 16 frames add to an allocation. */
typedef enum tarn_history_stacks {
    TARN_HISTORY_NO_STACKS = 0,
    TARN_HISTORY_CALLERS = 1, /* who called Tarn */
    TARN_HISTORY_FRAMES = 2,  /* by frame pointers, which code must be compiled to keep: 50 ns */
    TARN_HISTORY_UNWIND = 3,  /* by the unwind tables that nearly all code has: 1,500 ns */
} tarn_history_stacks;

/* The choices of a device's first user. Make one with TARN_DEVICE_OPTIONS_INIT.
 *
 * The environment variable TARN_CONF overrides these options for every device that the process
 * opens. TARN_CONF is a list of pairs key:value with commas between, for example
 * TARN_CONF=limit_bytes:40G,unrouted:refuse. Blanks around words are ignored. Keys that the list
 * leaves out stay as the program chose. Later calls, such as tarn_device_set_limit, count from then
 * on. TARN_LEAKS overrides TARN_CONF where that chooses no history or no stacks (leaks.h). A size
 * is a number of bytes, or a number with K, M, G or T behind, for powers of 1024. Keys have the
 * options' names, or PyTorch's for a setting of the same meaning:
 *   limit_bytes                         A size; 0: no limit.
 *   per_process_memory_fraction         memory_fraction: a number from 0 to 1; 0: no limit.
 *   cache_limit_bytes                   A size; 0: 256 MiB; or none: no cache.
 *   pinned_cache_limit_bytes            A size; 0: 256 MiB; or none: no cache.
 *   import_cache_limit_bytes            A size; 0: 64 GiB; or none: no cache.
 *   region_bytes                        A size, in the option's range.
 *   unrouted                            adopt, refuse or allow.
 *   null_stream                         legacy or per_thread.
 *   move_limit_bytes                    A number of bytes, or none for TARN_NO_MOVES.
 *   pinned_use_cuda_host_register       True or False.
 *   pinned_num_register_threads         A power of two up to 128; 0: as many as processors, up to
 *                                       16.
 *   history_bytes                       A size; 0: 16 MiB; or none: no history.
 *   history_stacks                      none, caller, frames or unwind.
 *   history_sample_bytes                A size; 0: all allocations.
 *   overrun_alignment                   0: off; or a power of two from 1 to 512.
 *   sanitizer                           True or False.
 *   roundup_power2_divisions            A number for all sizes, or a list such as
 *                                       [64:8,256:4,>:1]. Here 8 counts from 64 MiB to below 128
 *                                       MiB, and below 64 MiB as the first of the list. 4 counts
 *                                       from 256 MiB to below 512 MiB, and 1 for all sizes above.
 *                                       Sizes that the list leaves out, here from 128 MiB to below
 *                                       256 MiB, are not rounded.
 *   graph_capture_record_stream_reuse   True or False: False is no_record_stream_reuse.
 *   expandable_segments                 True: Tarn's segments always are.
 *   backend                             native: no other is available.
 * Any other key, PyTorch's others too, is an error that names the key. */
typedef struct tarn_device_options {
    /* sizeof(tarn_device_options), set by the INIT macro. */
    size_t size;
    /* Addresses reserved at a time: a power of two, 1 GiB to 4 TiB. 0: 4 TiB, halved until the
     * driver grants the addresses. */
    size_t region_bytes;
    /* Physical memory that Tarn may take of this device, mapped and cached; 0: no limit. */
    size_t limit_bytes;
    /* The same as a part of the device's memory, up to 1; 0: no limit. The smaller of both limits
     * holds. */
    double memory_fraction;
    /* Unmapped memory that may wait for its next use; 0: 256 MiB; TARN_NO_CACHE: none. */
    size_t cache_limit_bytes;
    /* Allocations in captures that no route catches. */
    tarn_unrouted unrouted;

    /* The number of equal steps between two powers of two, for each size of request: 0 or a power
     * of two. A block takes its bytes, rounded up to the next step. 0 and 1 round to 512 bytes
     * alone, as does every number whose steps are at most 512 bytes. Tarn's own blocks are rounded,
     * too. */
    uint32_t roundup_power2_divisions[TARN_ROUNDUP_SIZES];

    /* For memory that was freed in its capture, and that other streams of the capture had used
     * (tarn_record_stream, tarn_free_on): it is not used again before the capture's end. Without
     * this option it is used again in the capture, where the graph orders the uses. */
    bool no_record_stream_reuse;

    /* Page-locked host memory that may wait for its next use, by contents of checkpoints; and as
     * much again, by pools of the host (host.h). 0: 256 MiB; TARN_NO_CACHE: none. */
    size_t pinned_cache_limit_bytes;

    /* The stream that NULL means. */
    tarn_null_stream null_stream;

    /* Where memory is lacking, memory that is free and held by no graph moves to other addresses,
     * before more is taken of the device. How many bytes may move at a time; 0: no limit;
     * TARN_NO_MOVES: none, memory stays where it was first mapped. Memory of another stream moves,
     * or is lent in place, when it is found idle. So the addresses of a pool with several streams
     * depend on the GPU's pace; with TARN_NO_MOVES they do not. */
    size_t move_limit_bytes;

    /* The bytes of a log with the history of the device's blocks, from 64 KiB to 64 GiB; 0: 16
     * MiB; TARN_NO_HISTORY: none. The log is in a file in memory, which outlives a killed process.
     * It is in the process's own memory instead where no file can be made. With 0 that is so, too,
     * where the file would leave less than 32 MiB to others. With 0 the log begins with 512 KiB,
     * and grows as it is written. Beside the log the file has room for texts and ranges, and 64
     * bytes for each block. The log has replays of graphs only where its size is chosen: a replay
     * would take some 50 ns more. See docs/history.md. */
    size_t history_bytes;

    /* Which stacks the history has, of allocations; and of which of them: one in so many bytes in
     * the mean, or 0: of all. Without a history there are none. */
    tarn_history_stacks history_stacks;
    size_t history_sample_bytes;

    /* For finding mistakes: each block has pages of its own, and ends where these end. A kernel
     * that passes the end of a block faults there. Addresses are multiples of this number, a power
     * of two from 1 to 512, and a request's bytes are rounded up to one; 0: off. Free memory is not
     * used again, and goes when it is known to be idle: then an access to a freed block faults,
     * too. A block takes 2 MiB of memory at least, and memory does not move: docs/overruns.md. */
    size_t overrun_alignment;

    /* tarn_host_malloc takes blocks of up to 16 MiB from registered memory (host.h). Where the
     * device cannot use such memory, or only at other addresses than the process, they come from
     * the memory of larger blocks. TARN_LOG says so. */
    bool pinned_use_cuda_host_register;
    /* How many threads touch memory that is to be registered: a power of two up to 128; 0: as many
     * as the process may run at once, up to 16. They end when the device is closed. */
    size_t pinned_num_register_threads;

    /* Mappings of other processes' memory that no open share uses stay for the next one, up to so
     * many bytes; 0: 64 GiB; TARN_NO_CACHE: none. The one with the oldest use goes first. */
    size_t import_cache_limit_bytes;

    /* For finding mistakes, under compute-sanitizer --nvtx yes: it is told of each block, and names
     * the block that a kernel passes the end of, or uses after its free. Pools have memory that is
     * not mapped; a free waits for the device: docs/sanitizer.md. */
    bool sanitizer;
} tarn_device_options;

#define TARN_DEVICE_OPTIONS_INIT TARN_SIZED(tarn_device_options)

/* As the limit of a cache: nothing is kept. */
#define TARN_NO_CACHE SIZE_MAX

/* As move_limit_bytes: nothing moves, and no stream lends memory to another. */
#define TARN_NO_MOVES SIZE_MAX

/* As history_bytes: the device keeps no history. */
#define TARN_NO_HISTORY SIZE_MAX

/* Make one with TARN_DEVICE_INFO_INIT. */
typedef struct tarn_device_info {
    /* sizeof(tarn_device_info), set by the INIT macro. */
    size_t size;
    /* The ordinal of the CUDA device. */
    int ordinal;
    /* As the driver says: 13000 is CUDA 13.0. */
    int driver_version;
    /* Physical memory of the device. */
    size_t total_bytes;
    /* As the driver says. */
    char name[128];
    /* The loaded library: its name or path. */
    char driver[256];
    /* The driver is the simulated driver. */
    bool simulated;
} tarn_device_info;

#define TARN_DEVICE_INFO_INIT TARN_SIZED(tarn_device_info)

/* Opens the device of that ordinal, or counts one more user of an open device. The first open loads
 * Tarn's kernels. The driver then waits until the device has done the work already there.
 * options: NULL for the defaults. Every open checks the options and TARN_CONF, but only the first
 * open uses them. A later open must have the null_stream of the first; NULL accepts either.
 * *device: owned by the process; give it back with tarn_device_close.
 *   INVALID_ARGUMENT   device is NULL.
 *                      An option is out of range, or their size is wrong (tarn/types.h).
 *                      TARN_CONF has a wrong key or value. The sentence names both, and says which
 *                      values are allowed.
 *   WRONG_STATE        The device is open, and its null_stream is not that of the options. The
 *                      sentence names both.
 *   NO_DRIVER          TARN_DRIVER names a library that cannot be loaded. The sentence says why,
 *                      and where Tarn looked for a simulator.
 *   DRIVER_TOO_OLD     The driver lacks a function. The sentence names the function and its
 *                      version.
 *   NO_DEVICE          No device is there, or no device has this ordinal.
 *   NOT_SUPPORTED      The device has no virtual memory management.
 *                      sanitizer is set, and no tool checks memory.
 *   ADDRESS_SPACE      The driver grants no range of at least 1 GiB of addresses.
 *   DEVICE_MEMORY      The few bytes are missing that Tarn needs to wait for a device; with
 *                      sanitizer, 1 GiB.
 *   HOST_MEMORY, FORKED, DEVICE_LOST, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_open(int ordinal,
                                                      const tarn_device_options *options,
                                                      tarn_device **device);

/* Gives one use back. The last close returns all memory and addresses to the driver. It waits for
 * the device first if free memory may still be in use. If only destroyed graphs keep released
 * pools, it waits up to 1 s for the driver to give up these graphs (see tarn_pool_destroy).
 *   INVALID_HANDLE  Not an open device.
 *   BUSY            The last close: a block is live, or a private pool, capture, graph, checkpoint
 *                   or route exists. The sentence counts them. With TARN_LEAKS in the environment
 *                   the places of the live blocks are written (tarn/leaks.h).
 *                   The thread is in a tracker (tarn/tracker.h).
 *   DRIVER          The last close: the device could not be waited for. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_close(tarn_device *device);

/* Describes the device and its driver. tarn_device_stats (tarn/stats.h) has Tarn's use of both.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  info is NULL, or its size is wrong (tarn/types.h).
 *   DEVICE_LOST, POISONED. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_describe(tarn_device *device,
                                                          tarn_device_info *info);

/* Gives the pool that serves every allocation without a route. The pool lives as long as the
 * device. The caller does not destroy it.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  pool is NULL. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_default_pool(tarn_device *device,
                                                              tarn_pool **pool);

/* Lets another device use all of this device's memory that Tarn maps, now or later: of each pool,
 * of pools that are made later, and of other processes (share.h). If the call fails, each pool has
 * the same peers as before. No effect for the device itself. All users of the device have the same
 * peers, until the last user closes it. The caller orders work on the other device: a pool knows
 * only the streams that it is told of.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  No device has this ordinal.
 *   NOT_SUPPORTED     The other device cannot reach this device's memory.
 *   DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_add_peer(tarn_device *device, int ordinal);

/* Sets the most bytes of physical memory that Tarn may take of the device, mapped and cached; 0: no
 * limit. The limit may be below the taken memory: no memory goes back for it. An allocation that
 * would take more first gives cached and free memory back, and is refused if this is not enough.
 *   INVALID_HANDLE */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_set_limit(tarn_device *device, size_t bytes);

/* The same as a part of the device's memory, up to 1; 0: no limit. The smaller of this and
 * the limit in bytes holds.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  fraction is not a number from 0 to 1. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_set_memory_fraction(tarn_device *device,
                                                                     double fraction);

/* Sets how many bytes of unmapped memory may wait for their next use; 0: 256 MiB; TARN_NO_CACHE:
 * none. Memory above the new limit goes to the driver at once, the oldest first.
 *   INVALID_HANDLE
 *   DEVICE_LOST, POISONED  The driver refused to take memory back. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_set_cache_limit(tarn_device *device, size_t bytes);

/* Sets how many bytes of page-locked host memory may wait for their next use; 0: 256 MiB;
 * TARN_NO_CACHE: none. Memory above the new limit goes to the driver at once, the oldest first,
 * after a wait for the copies of destroyed checkpoints. If a program takes checkpoints in
 * page-locked memory one after the other, set the limit to the bytes of one checkpoint: the driver
 * takes 0.2 ms for each MiB.
 *   INVALID_HANDLE
 *   DEVICE_LOST, POISONED  The driver refused to take memory back. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_set_pinned_cache_limit(tarn_device *device,
                                                                        size_t bytes);

/* Gives memory back to the driver until at most keep_bytes are mapped and cached, or nothing more
 * can go. The cache goes first, its oldest chunks first. Then every pool gives what
 * tarn_pool_trim_to would give, the newest pool first. *freed_bytes: the bytes given back;
 * freed_bytes may be NULL.
 *
 * The call waits for the device if freed memory that should go may still be in use; this wait
 * breaks no capture. Memory of destroyed graphs goes as by tarn_pool_trim. Page-locked host memory
 * that waits for the next checkpoint goes too, until at most keep_bytes of it are left.
 * *freed_bytes does not count this memory.
 *   INVALID_HANDLE
 *   DRIVER  The device could not be waited for.
 *   DEVICE_LOST, POISONED. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_trim(tarn_device *device, size_t keep_bytes,
                                                      size_t *freed_bytes);

/* Looks which pending blocks of the device's pools are no longer used. The call asks the driver
 * about the streams that the blocks wait for, and drops memory that destroyed graphs held. Blocks
 * found so are no longer pending, and allocations outside captures may have their memory. In a pool
 * with checkpoints, captures get the memory after the next restore or take: the addresses of a
 * section captured again depend on no look.
 *
 * Allocations look by themselves when memory is wanted. Call this for statistics that are up to
 * date. Never waits. Any thread, also during a capture, which the call does not disturb.
 *   INVALID_HANDLE
 *   DEVICE_LOST, POISONED. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_collect(tarn_device *device);

#ifdef __cplusplus
}
#endif
#endif
