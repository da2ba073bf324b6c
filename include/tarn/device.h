// SPDX-License-Identifier: Apache-2.0
/* device.h -- the allocator of one CUDA device.
 *
 * A tarn_device is shared by everyone in the process who opens the same ordinal, and counted. It
 * owns the reserved addresses, the default pool and every private pool of that device.
 *
 * Which driver: the environment variable TARN_DRIVER is `cuda` (the default: libcuda.so.1), `sim`
 * (the simulated driver that comes with Tarn), or the path of a library with the driver's
 * functions. Tarn never chooses the simulator by itself. A program that has more rights than its user (set-user-id,
 * capabilities) reads no environment variable: there it is the CUDA driver.
 *
 * What holds the library, be it libtarn.so or a plugin with libtarn.a, stays loaded from the first open on, since the
 * driver and the ends of threads call it.
 *
 * All functions may be called from any thread, with any CUDA context current or none, and leave the
 * current context as it was. */
#ifndef TARN_DEVICE_H
#define TARN_DEVICE_H

#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What becomes of an allocation on a stream that is being captured when no route leads it to a private
 * pool, or when it names the default pool. The graph would outlive ordinary memory.
 *   ADOPT   the capture gets a private pool of its own, "adopted", which goes with its graph and its
 *           last block, without a wait. What is freed in the capture, or by tarn_free_on behind it, keeps
 *           it no longer than that; a block freed behind it by tarn_free alone may be in use on any
 *           stream, and keeps it as that of a released pool does (tarn_pool_release). Where 32 such pools
 *           are kept, the first allocation of the next capture waits for the device, and ends them
 *   REFUSE  TARN_ERR_UNROUTED
 *   ALLOW   the default pool serves it. What is freed waits for the capture's end, as far as Tarn learns
 *           of it: the graph is adopted or destroyed, or something is allocated on the stream outside
 *           captures, on which something was before. Nothing is kept for the graph: the program keeps
 *           the blocks that its replays use */
typedef enum tarn_unrouted {
    TARN_UNROUTED_ADOPT = 0,
    TARN_UNROUTED_REFUSE = 1,
    TARN_UNROUTED_ALLOW = 2,
} tarn_unrouted;

/* The stream that NULL means in every call that concerns the device: its own calls, and those for its
 * pools, blocks, graphs and checkpoints.
 *   LEGACY      the legacy default stream
 *   PER_THREAD  the calling thread's own default stream. Code that is compiled with
 *               CUDA_API_PER_THREAD_DEFAULT_STREAM, or by nvcc with --default-stream per-thread, gives
 *               CUDA this meaning */
typedef enum tarn_null_stream {
    TARN_NULL_STREAM_LEGACY = 0,
    TARN_NULL_STREAM_PER_THREAD = 1,
} tarn_null_stream;

/* The sizes of requests that may be rounded up differently: from 1, 2, 4 ... 32768 MiB to below the next. The
 * first stands for what is smaller, too, and the last for what is larger. */
#define TARN_ROUNDUP_SIZES 16

/* What the first user of a device may choose. Make one with TARN_DEVICE_OPTIONS_INIT.
 *
 * The environment variable TARN_CONF has the last word on every device that the process opens, whatever
 * the program's options say: pairs key:value with commas between them, blanks around words ignored, as in
 * TARN_CONF=limit_bytes:40G,unrouted:refuse. What is not in it stays as the options say; what the program
 * sets later (tarn_device_set_limit and its like) counts from then on. A size is a number of bytes, or one
 * with K, M, G or T behind it, powers of 1024. Keys are the options' names, and PyTorch's where that has a
 * setting of the same meaning:
 *   limit_bytes                         a size; 0: no limit
 *   per_process_memory_fraction         memory_fraction: a number from 0 to 1; 0: no limit
 *   cache_limit_bytes                   a size; 0: 256 MiB; or none: no cache
 *   pinned_cache_limit_bytes            a size; 0: 256 MiB; or none: none is kept
 *   region_bytes                        a size, in the option's range
 *   unrouted                            adopt, refuse or allow
 *   null_stream                         legacy or per_thread
 *   roundup_power2_divisions            one number for all sizes; or a list, [64:8,256:4,>:1]: 8 from 64 MiB
 *                                       to below 128 MiB, and below 64 MiB since it is the first; 4 from
 *                                       256 MiB to below 512 MiB; 1 for all above. Sizes that the list
 *                                       leaves out, here from 128 MiB, are not rounded
 *   graph_capture_record_stream_reuse   True or False: False is no_record_stream_reuse
 *   expandable_segments                 True: Tarn's segments always are
 *   backend                             native: there is no other
 * Any other key, PyTorch's others too, is an error that names it. */
typedef struct tarn_device_options {
    size_t size;         /* sizeof(tarn_device_options), set by the INIT macro */
    size_t region_bytes; /* addresses reserved at a time: a power of two, 1 GiB to 4 TiB; 0: 4 TiB,
                            halved until the driver grants it */
    /* physical memory that Tarn may take of this device, mapped and cached; 0: no limit */
    size_t limit_bytes;
    double memory_fraction;   /* the same as a part of the device's memory, up to 1; 0: no limit. Of
                                 both limits the smaller one holds */
    size_t cache_limit_bytes; /* unmapped memory that may wait for its next use; 0: 256 MiB;
                                 TARN_NO_CACHE: none */
    tarn_unrouted unrouted;   /* allocations in captures that no route catches */

    /* What a block takes: its bytes rounded up to the next of so many equal steps from the power of two
     * below them to the one above, a number for each size, 0 or a power of two. 0 and 1 round to 512 bytes
     * alone, as all do up to 512 bytes a step. It counts for Tarn's own blocks, too. */
    uint32_t roundup_power2_divisions[TARN_ROUNDUP_SIZES];

    /* What was freed in its capture, and other streams of the capture had used (tarn_record_stream,
     * tarn_free_on), is not used again before the capture's end, even where the graph orders it. */
    bool no_record_stream_reuse;

    /* page-locked host memory that may wait for its next use, by contents of checkpoints; 0: 256
     * MiB; TARN_NO_CACHE: none */
    size_t pinned_cache_limit_bytes;

    /* the stream that NULL means */
    tarn_null_stream null_stream;
} tarn_device_options;

#define TARN_DEVICE_OPTIONS_INIT TARN_SIZED(tarn_device_options)

/* As a limit of a cache: nothing is kept. */
#define TARN_NO_CACHE SIZE_MAX

/* Make one with TARN_DEVICE_INFO_INIT. */
typedef struct tarn_device_info {
    /* sizeof(tarn_device_info), set by the INIT macro */
    size_t size;
    /* of the CUDA device */
    int ordinal;
    /* as the driver says: 13000 is CUDA 13.0 */
    int driver_version;
    /* physical memory of the device */
    size_t total_bytes;
    /* as the driver says */
    char name[128];
    /* the library loaded: its name or path */
    char driver[256];
    /* the driver is the simulated one */
    bool simulated;
} tarn_device_info;

#define TARN_DEVICE_INFO_INIT TARN_SIZED(tarn_device_info)

/* Opens the device of that ordinal, or counts one more user of it. The first open loads Tarn's
 * kernels, for which the driver waits until the device has done the work that is there.
 * options: NULL for defaults; used by the first open only, checked by every one, and so is TARN_CONF.
 * Options of a later open state the null_stream of the first one. NULL accepts either.
 * *device: owned by the process; give it back with tarn_device_close.
 *   INVALID_ARGUMENT   device is NULL, an option is out of range, or the size of the options is wrong
 *                      (tarn/types.h)
 *                      TARN_CONF has a wrong key or value: the sentence names both, and says what is allowed
 *   WRONG_STATE        the device is open, and its null_stream is not that of the options: the sentence
 *                      names both.
 *   NO_DRIVER          TARN_DRIVER names a library that cannot be loaded; the sentence says why, and where a
 *                      simulator was looked for
 *   DRIVER_TOO_OLD     the driver lacks a function; the sentence names it and its version
 *   NO_DEVICE          no device, or none of that ordinal
 *   NOT_SUPPORTED      the device has no virtual memory management
 *   ADDRESS_SPACE      no range of at least 1 GiB of addresses was granted
 *   DEVICE_MEMORY      not even the few bytes that Tarn needs to wait for a device
 *   HOST_MEMORY, FORKED, DEVICE_LOST, DRIVER */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_open(int ordinal,
                                                      const tarn_device_options *options,
                                                      tarn_device **device);

/* Gives one use back. The last one returns all memory and addresses to the driver; it waits for the
 * device first when free memory may still be in use, and up to 1 s for the driver to give up the graphs
 * that alone keep released pools (see tarn_pool_destroy).
 *   INVALID_HANDLE  not an open device
 *   BUSY            the last use, while a block is live or a private pool, capture, graph,
 *                   checkpoint or route exists; the sentence counts them
 *   DRIVER          the last use: the device could not be waited for */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_close(tarn_device *device);

/* Describes the device and its driver. tarn_device_stats (tarn/stats.h) tells what Tarn has there.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  info is NULL, or its size is wrong (tarn/types.h)
 *   DEVICE_LOST, POISONED */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_describe(tarn_device *device,
                                                          tarn_device_info *info);

/* The pool that serves every allocation that no route catches. It lives as long as the device and
 * is not destroyed by the caller.
 *   INVALID_HANDLE; INVALID_ARGUMENT: pool is NULL */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_default_pool(tarn_device *device,
                                                              tarn_pool **pool);

/* Sets what Tarn may take of the device's physical memory, mapped and cached; 0: no limit. Less than it
 * has taken is allowed: nothing goes for it, and an allocation that would take more is refused, after
 * cached and free memory has been given back for it.
 *   INVALID_HANDLE */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_set_limit(tarn_device *device, size_t bytes);

/* The same as a part of the device's memory, up to 1; 0: no limit. Of this and the limit in bytes the
 * smaller one holds.
 *   INVALID_HANDLE; INVALID_ARGUMENT: not a number from 0 to 1 */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_set_memory_fraction(tarn_device *device,
                                                                     double fraction);

/* Sets how much unmapped memory may wait for its next use; 0: 256 MiB; TARN_NO_CACHE: none. What is over the
 * new limit goes to the driver at once, the oldest first.
 *   INVALID_HANDLE; DEVICE_LOST, POISONED: the driver refused to take it back */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_set_cache_limit(tarn_device *device, size_t bytes);

/* Sets how much page-locked host memory may wait for its next use; 0: 256 MiB; TARN_NO_CACHE: none. A program that
 * takes one checkpoint in such memory after the other sets as much as one of them takes: the driver takes
 * 0.6 ms for each MiB of it. What is over the new limit goes to the driver at once, the oldest first, when the
 * device has been waited for.
 *   INVALID_HANDLE; DEVICE_LOST, POISONED: the driver refused to take it back */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_set_pinned_cache_limit(tarn_device *device,
                                                                        size_t bytes);

/* Gives memory back to the driver until no more than keep_bytes are mapped and cached, or nothing more
 * can go: the cache first, the oldest chunks first; then of every pool, the newest first, what
 * tarn_pool_trim_to would give. Says how many bytes went; freed_bytes may be NULL. Waits for the
 * device when freed memory that should go may still be in use; that wait breaks no capture. Memory of
 * destroyed graphs goes as by tarn_pool_trim.
 * Page-locked host memory that is kept for the next checkpoint goes too, until no more than keep_bytes
 * of it are left; it is not counted in *freed_bytes.
 *   INVALID_HANDLE, DEVICE_LOST, POISONED; DRIVER: the device could not be waited for */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_trim(tarn_device *device, size_t keep_bytes,
                                                      size_t *freed_bytes);

/* Looks which pending blocks of the device's pools are used no more: asks the driver after the streams
 * that they wait for, and drops what destroyed graphs held. Such blocks count as pending no more, and
 * allocations outside captures may have their memory. In a pool with checkpoints captures get that
 * memory after the next restore or take: the addresses of a section that is captured again depend
 * on no look. Allocations look by themselves when memory is wanted; this is for statistics that are
 * up to date. Never waits. Any thread, also during a capture, which it does not disturb.
 *   INVALID_HANDLE, DEVICE_LOST, POISONED */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_collect(tarn_device *device);

#ifdef __cplusplus
}
#endif
#endif
