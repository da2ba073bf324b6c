// SPDX-License-Identifier: Apache-2.0
/* stats.h -- all that Tarn counts, of a pool or of a device: for programs, and as a report for people.
 *
 * Counting costs the steady state nothing that could be measured: what happens on a stream is counted beside
 * that stream's memory, and added up when somebody asks. tarn_pool_get_stats and tarn_device_get_stats
 * (tarn/pool.h, tarn/device.h) have the few numbers that programs ask for often. docs/statistics.md says which
 * of PyTorch's statistics is which of these.
 *
 * All functions may be called from any thread, while any stream is being captured, and from within
 * callbacks of tarn/pressure.h. */
#ifndef TARN_STATS_H
#define TARN_STATS_H

#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One number that rises and falls. Until totals are reset, allocated less freed is current. */
typedef struct tarn_stat {
    uint64_t current;
    uint64_t peak;      /* the highest current; since the beginning, or since peaks were reset */
    uint64_t allocated; /* all that was added; since the beginning, or since totals were reset */
    uint64_t freed;     /* all that was taken off, likewise */
} tarn_stat;

/* The same by size: small is what has to do with blocks of up to 512 KiB. all is the sum of both, but for the
 * peak, since theirs need not have been at one time. */
typedef struct tarn_stat_set {
    tarn_stat all;
    tarn_stat small;
    tarn_stat large;
} tarn_stat_set;

/* A number that is counted when it is asked for, by size. */
typedef struct tarn_count_set {
    uint64_t all;
    uint64_t small;
    uint64_t large;
} tarn_count_set;

/* A pool, at one moment; or the sums over a device's pools, each at one moment, those that are gone
 * included in what is allocated, freed and counted. In bytes where the name says so; what has to do with
 * the whole device is 0 for a pool.
 *
 * Blocks are small or large by the bytes that they take; chunks and segments by the blocks that they were made
 * for.
 *
 * Peaks of chunks, segments and their bytes are exact, and for a pool those of pending and discarded blocks.
 * Peaks of live bytes are exact where one stream allocates in the pool, and of active bytes where nothing is
 * pending, too; otherwise, and for a device with several pools, they are never below the highest value and may
 * be above, since the streams' own peaks need not have been at one time. Peaks of live blocks and of requested
 * bytes, and of active blocks, are looked at when the bytes that the blocks take are more than ever, and not
 * else. */
typedef struct tarn_memory_stats {
    size_t size; /* sizeof(tarn_memory_stats), set by the caller */

    /* Blocks. What a restore of a checkpoint revives is allocated again, what it frees is freed. */
    tarn_stat_set live_blocks;     /* that users hold */
    tarn_stat_set live_bytes;      /* as they were taken: rounded up */
    tarn_stat_set requested_bytes; /* in live blocks, as requested */
    tarn_stat_set active_blocks;   /* live, pending or discarded: not free for anyone */
    tarn_stat_set active_bytes;
    tarn_stat_set pending_blocks; /* freed, but waiting for streams or for a capture's end */
    tarn_stat_set pending_bytes;
    /* allocated in an aborted capture, and not freed by the user yet */
    tarn_stat_set discarded_blocks;
    tarn_stat_set discarded_bytes;

    /* Memory. */
    tarn_stat_set chunks;        /* of physical memory, mapped */
    tarn_stat_set mapped_bytes;  /* in them */
    tarn_stat_set segments;      /* ranges of addresses that pools grow in */
    tarn_stat_set segment_bytes; /* addresses in them */
    tarn_stat_set own_segments;  /* segments made for one block, too large for the next one */

    /* Mapped memory that is free, now. */
    tarn_count_set inactive_blocks; /* free runs in chunks that blocks are in, too */
    tarn_count_set inactive_bytes;  /* free in such chunks: no trim gives it back */
    tarn_count_set unused_bytes;    /* in chunks without any block */

    /* Who keeps memory, now. One chunk may be kept by several. */
    uint64_t capture_count; /* captures under way or waiting to be adopted */
    uint64_t capture_bytes; /* in chunks that they keep */
    uint64_t graph_count;   /* tarn_graphs */
    uint64_t graph_bytes;   /* in chunks that the graphs of held_graph_count keep */
    /* graphs that keep memory, destroyed ones included of which a launch, or an executable or
     * clone of the program's own, is left; see tarn_pool_stats */
    uint64_t held_graph_count;
    uint64_t checkpoint_count;     /* checkpoints */
    uint64_t checkpoint_addresses; /* in bytes, of segments that they keep from going */
    uint64_t contents_bytes; /* device: contents of checkpoints, in blocks of the default pool */
    uint64_t pinned_bytes;   /* device: page-locked host memory taken for contents of checkpoints */
    uint64_t pinned_cached_bytes; /* device: of it, what waits for the next checkpoint */
    uint64_t cached_bytes; /* device: physical memory that is mapped nowhere and waits for its next
                                     use */
    uint64_t cached_count; /* device: chunks that it is in */
    uint64_t cache_limit_bytes; /* device: what may wait so */
    /* what may be mapped; of a device's limits the smaller one; 0: no limit */
    uint64_t limit_bytes;
    uint64_t reserved_bytes; /* device: addresses reserved from the driver */
    uint64_t total_bytes;    /* device: its memory, as the driver says */
    uint64_t pool_count;     /* device: pools */
    uint64_t arena_count;    /* orders of work, such as streams, that memory is set apart for */

    /* What happened since the beginning, or since totals were reset. Calls of the driver: for a pool those
     * for its chunks that succeeded, for a device all. */
    uint64_t growth_count;   /* times that more memory was mapped for an allocation or a reserve */
    uint64_t create_calls;   /* cuMemCreate: physical memory taken from the driver */
    uint64_t release_calls;  /* cuMemRelease */
    uint64_t map_calls;      /* cuMemMap */
    uint64_t unmap_calls;    /* cuMemUnmap */
    uint64_t access_calls;   /* device: cuMemSetAccess */
    uint64_t reserve_calls;  /* device: cuMemAddressReserve */
    uint64_t event_records;  /* device: cuEventRecord */
    uint64_t event_queries;  /* device: cuEventQuery */
    uint64_t cache_hits;     /* chunks that came from the cache and not from the driver */
    uint64_t ladder_retries; /* times that an allocation was tried again for want of memory */
    uint64_t out_of_memory_count; /* allocations that failed for want of memory */
    uint64_t trim_count;          /* trims that were asked for; a device's own and its pools' */
    uint64_t idle_waits;          /* device: waits for the whole device */

    /* Device: host memory that Tarn uses itself, of the whole process, as malloc gave it. No reset touches
     * it. Tables of addresses are not in it: they are reserved, and their memory comes with their use. */
    tarn_stat host_bytes;
} tarn_memory_stats;

/* Looks at every chunk and every free block of the pool, under its lock.
 *   INVALID_HANDLE; INVALID_ARGUMENT: stats is NULL or its size is unknown */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_get_memory_stats(tarn_pool *pool,
                                                                tarn_memory_stats *stats);

/* The same for all pools of the device, one after the other.
 *   INVALID_HANDLE; INVALID_ARGUMENT: stats is NULL or its size is unknown */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_get_memory_stats(tarn_device *device,
                                                                  tarn_memory_stats *stats);

/* From now on peaks are the highest values since this call. Those of the device stay. Peaks that
 * tarn_pool_get_stats tells are reset, too.
 *   INVALID_HANDLE */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_reset_peaks(tarn_pool *pool);

/* From now on what is allocated and freed, and what happened, is counted from 0. Those of the device stay, and
 * so do the counts that tarn_pool_get_stats tells, which are since the pool was made.
 *   INVALID_HANDLE */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_reset_totals(tarn_pool *pool);

/* The same for the device and for each of its pools.
 *   INVALID_HANDLE */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_reset_peaks(tarn_device *device);

/* The same for the device and for each of its pools.
 *   INVALID_HANDLE */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_reset_totals(tarn_device *device);

typedef enum tarn_report_format {
    TARN_REPORT_TEXT = 0, /* a table to read; it may look different in another version */
    TARN_REPORT_JSON =
        1, /* one object: every field of tarn_memory_stats under its name, and the name of the
                             pool, or the device's name and its pools' */
} tarn_report_format;

/* Writes the statistics as text, ended by a zero byte: as much of it as capacity bytes hold. buffer may be
 * NULL where capacity is 0. *length, which may be NULL: how long the whole text is, without the zero; it is
 * whole where that is less than capacity.
 *   INVALID_HANDLE; INVALID_ARGUMENT: buffer is NULL and capacity is not 0, or the format is none of these */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_report(tarn_pool *pool, tarn_report_format format,
                                                      char *buffer, size_t capacity,
                                                      size_t *length);

/* The same, with a line for each pool.
 *   INVALID_HANDLE; INVALID_ARGUMENT: buffer is NULL and capacity is not 0, or the format is none of these */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_report(tarn_device *device,
                                                        tarn_report_format format, char *buffer,
                                                        size_t capacity, size_t *length);

#ifdef __cplusplus
}
#endif
#endif
