// SPDX-License-Identifier: Apache-2.0
/* stats.h -- the statistics of a pool or of a device: for programs, and as a report for people.
 *
 * Counting costs the steady state nothing measurable: each stream's memory has its own counters,
 * and a call here adds them up. docs/statistics.md says which of PyTorch's statistics is which of
 * these.
 *
 * All functions may be called from any thread, while any stream is being captured, and from within
 * callbacks of tarn/pressure.h. */
#ifndef TARN_STATS_H
#define TARN_STATS_H

#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A number which rises and falls. Until totals are reset, allocated less freed is current. */
typedef struct tarn_stat {
    uint64_t current;
    /* the highest current; since the beginning, or since peaks were reset */
    uint64_t peak;
    /* all additions; since the beginning, or since totals were reset */
    uint64_t allocated;
    /* all removals, likewise */
    uint64_t freed;
} tarn_stat;

/* The same by size: small is for blocks of up to 512 KiB. all is the sum of both, except for the
 * peak: theirs may have been at different times. */
typedef struct tarn_stat_set {
    tarn_stat all;
    tarn_stat small;
    tarn_stat large;
} tarn_stat_set;

/* A number without peak and totals, by size. */
typedef struct tarn_count_set {
    uint64_t all;
    uint64_t small;
    uint64_t large;
} tarn_count_set;

/* A pool at one moment; or the sums over a device's pools, each at its moment. A device's
 * allocated, freed and counted include pools that are gone. Names say which numbers are in bytes.
 * Fields for a device alone are 0 for a pool. Make one with TARN_STATS_INIT.
 *
 * Blocks are small or large by the bytes they take; chunks and segments by the blocks they were
 * made for.
 *
 * Peaks of chunks, segments and their bytes are exact, and for a pool those of pending and
 * discarded blocks. Peaks of live bytes are exact where one stream allocates in the pool, and of
 * active bytes where nothing is pending, too. Otherwise, and for a device with several pools, they
 * are never below the highest value. They may be above: the streams' own peaks may have been at
 * different times. Peaks of live blocks, requested bytes and active blocks are looked at only when
 * the bytes of the blocks reach a new peak. */
typedef struct tarn_stats {
    /* sizeof(tarn_stats), set by the INIT macro */
    size_t size;

    /* Set by the caller: look at every chunk, segment and free block of the pool, under its lock,
     * for the fields under "Walked". Without walk they are 0, and the call looks at the streams
     * and graphs of the pool alone. */
    bool walk;

    /* Blocks. A restore of a checkpoint allocates the blocks it revives, and frees the others. */

    /* held by users */
    tarn_stat_set live_blocks;
    /* as they were taken: rounded up */
    tarn_stat_set live_bytes;
    /* in live blocks, as requested */
    tarn_stat_set requested_bytes;
    /* live, pending or discarded: not free for anyone */
    tarn_stat_set active_blocks;
    tarn_stat_set active_bytes;
    /* freed, but waiting for streams or for a capture's end */
    tarn_stat_set pending_blocks;
    tarn_stat_set pending_bytes;
    /* allocated in an aborted capture, and not freed by the user yet */
    tarn_stat_set discarded_blocks;
    tarn_stat_set discarded_bytes;

    /* Memory. */

    /* of physical memory, mapped */
    tarn_stat_set chunks;
    /* in them; a device's current and cached_bytes are the memory that cuMemGetInfo shows as taken
     * */
    tarn_stat_set mapped_bytes;
    /* ranges of addresses in which pools grow */
    tarn_stat_set segments;
    /* addresses in them */
    tarn_stat_set segment_bytes;
    /* segments made for one block, too large for the next one */
    tarn_stat_set own_segments;

    /* Walked: free memory, and kept memory. One chunk may be kept by several. */

    /* free runs in chunks which hold blocks, too */
    tarn_count_set inactive_blocks;
    /* free in such chunks: no trim gives it back */
    tarn_count_set inactive_bytes;
    /* in chunks without any block */
    tarn_count_set unused_bytes;
    /* in chunks kept by captures under way, or waiting to be adopted */
    uint64_t capture_bytes;
    /* in chunks kept by the graphs of held_graph_count */
    uint64_t graph_bytes;
    /* in chunks kept by captures or graphs */
    uint64_t captured_bytes;
    /* in bytes, of segments kept by checkpoints */
    uint64_t checkpoint_addresses;

    /* Users of memory, now. */

    /* captures under way or waiting to be adopted */
    uint64_t capture_count;
    /* tarn_graphs; see held_graph_count, too */
    uint64_t graph_count;
    /* Graphs of ended captures that keep memory: those of graph_count, and destroyed graphs of
     * which a launch, or an executable or clone of the program's own, is left. The driver reports
     * their end a little later, on an H200 65 us at most. */
    uint64_t held_graph_count;
    /* checkpoints */
    uint64_t checkpoint_count;
    /* orders of work, streams for example, with memory of their own */
    uint64_t arena_count;
    /* device: pools, the default pool included */
    uint64_t pool_count;
    /* device: routes open */
    uint64_t route_count;

    /* Memory beside pools, and limits, now. */

    /* device: contents of checkpoints, in blocks of the default pool */
    uint64_t contents_bytes;
    /* device: page-locked host memory mapped for contents of checkpoints and for audits */
    uint64_t pinned_bytes;
    /* device: of pinned_bytes, the part that none has now, waiting for the next checkpoint */
    uint64_t pinned_cached_bytes;
    /* device: physical memory mapped nowhere, waiting for its next use */
    uint64_t cached_bytes;
    /* device: chunks of cached_bytes */
    uint64_t cached_count;
    /* device: the most cached_bytes may be */
    uint64_t cache_limit_bytes;
    /* the most memory which may be mapped; of a device's limits the smaller one; 0: no limit */
    uint64_t limit_bytes;
    /* device: addresses reserved from the driver */
    uint64_t reserved_bytes;
    /* device: its memory, as the driver says */
    uint64_t total_bytes;

    /* Events since the pool was made, or the device was opened. No reset touches them. */

    /* calls which allocated: a restore is none */
    uint64_t alloc_count;
    /* calls which freed, likewise */
    uint64_t free_count;
    /* chunks mapped for good: a growth which is undone does not count */
    uint64_t map_count;
    /* chunks unmapped */
    uint64_t unmap_count;
    /* device: captures with a pool of their own for want of a route */
    uint64_t adopted_count;
    /* device: allocations in captures which no route caught, and served */
    uint64_t unrouted_count;

    /* Events since the beginning, or since totals were reset. Calls of the driver: for a pool the
     * successful calls for its chunks, for a device all. */

    /* growths: more memory was mapped for an allocation or a reserve */
    uint64_t growth_count;
    /* cuMemCreate: physical memory taken from the driver */
    uint64_t create_calls;
    /* cuMemRelease */
    uint64_t release_calls;
    /* cuMemMap */
    uint64_t map_calls;
    /* cuMemUnmap */
    uint64_t unmap_calls;
    /* device: cuMemSetAccess */
    uint64_t access_calls;
    /* device: cuMemAddressReserve */
    uint64_t reserve_calls;
    /* device: cuEventRecord */
    uint64_t event_records;
    /* device: cuEventQuery */
    uint64_t event_queries;
    /* chunks from the cache instead of the driver */
    uint64_t cache_hits;
    /* retries of allocations for want of memory */
    uint64_t ladder_retries;
    /* allocations which failed for want of memory */
    uint64_t out_of_memory_count;
    /* trims asked for; a device's own and its pools' */
    uint64_t trim_count;
    /* device: waits for the whole device */
    uint64_t idle_waits;

    /* Device: host memory of Tarn's own, of the whole process, as malloc gave it. No reset touches
     * it. Tables of addresses are not counted: they are reserved, and their memory comes with their
     * use. */
    tarn_stat host_bytes;

    /* Device: memory of the device's history (history.h), which is no part of host_bytes. Pages of
     * the log that have no memory yet count, too. */
    uint64_t history_bytes;

    /* Device: memory of other processes (share.h), now. No pool's, and no part of mapped_bytes. */

    /* mappings here */
    uint64_t import_count;
    /* in them */
    uint64_t import_bytes;
    /* of import_bytes, mappings without an open share, which stay for the next one */
    uint64_t import_unused_bytes;
} tarn_stats;

#define TARN_STATS_INIT TARN_SIZED(tarn_stats)

/* Reads the statistics of a pool, at one moment.
 *   INVALID_HANDLE; INVALID_ARGUMENT: stats is NULL, or its size is wrong (tarn/types.h) */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_stats(tarn_pool *pool, tarn_stats *stats);

/* The same for all pools of the device, one after the other.
 *   INVALID_HANDLE; INVALID_ARGUMENT: stats is NULL, or its size is wrong (tarn/types.h) */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_stats(tarn_device *device, tarn_stats *stats);

/* From now on peaks are the highest values since this call. Those of the device stay.
 *   INVALID_HANDLE */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_reset_peaks(tarn_pool *pool);

/* From now on allocated, freed and the events since totals were reset are counted from 0. Those of
 * the device stay.
 *   INVALID_HANDLE */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_reset_totals(tarn_pool *pool);

/* The same for the device and for each of its pools.
 *   INVALID_HANDLE */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_reset_peaks(tarn_device *device);

/* The same for the device and for each of its pools.
 *   INVALID_HANDLE */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_reset_totals(tarn_device *device);

typedef enum tarn_report_format {
    /* a table to read; it may look different in another version */
    TARN_REPORT_TEXT = 0,
    /* one object: every field of tarn_stats under its name, and the name of the pool, or the
     * device's name and its pools' */
    TARN_REPORT_JSON = 1,
} tarn_report_format;

/* Writes the statistics as text, the walked ones included, ended by a zero byte: as much of it as
 * capacity bytes hold. buffer may be NULL where capacity is 0. *length, which may be NULL: how long
 * the whole text is, without the zero; it is whole where that is less than capacity.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  buffer is NULL and capacity is not 0, or the format is none of these */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_report(tarn_pool *pool, tarn_report_format format,
                                                      char *buffer, size_t capacity,
                                                      size_t *length);

/* The same, with a line for each pool.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  buffer is NULL and capacity is not 0, or the format is none of these */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_report(tarn_device *device,
                                                        tarn_report_format format, char *buffer,
                                                        size_t capacity, size_t *length);

#ifdef __cplusplus
}
#endif
#endif
