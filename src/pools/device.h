// SPDX-License-Identifier: Apache-2.0
/* device.h -- the allocator of one CUDA device.
 *
 * Locking: the list of open devices and their user counts are guarded by the PROCESS lock, the list
 * of pools by the DEVICE lock, that of graphs by the GRAPHS lock, routes by the ROUTES lock. */
#ifndef TARN_POOLS_DEVICE_H
#define TARN_POOLS_DEVICE_H

#include "pools/callbacks.h"
#include "pools/counters.h"
#include "pools/end.h"
#include "pools/pool.h"
#include "pools/route.h"
#include "pools/stream_table.h"
#include "tarn/device.h"
#include "vmm/memory_cache.h"

/* What cannot be summed up from the pools that are there. */
struct tn_device_counters {
    /* Guarded by the DEVICE lock: */
    /* up to TN_CHUNKS: totals of pools that are gone, what resets have set, and peaks that the
     * sum of the pools' own does not tell */
    struct tn_metric pools[TN_METRICS];
    struct tn_event events[TN_EVENTS]; /* of pools that are gone, and what resets have set */
    uint64_t call_bases[TN_GPU_CALLS]; /* of the driver, at the last reset of the totals */
    struct tn_spin lock;               /* rank COUNTS */
    /* from TN_CHUNKS on: their peaks are exact; guarded by lock */
    struct tn_metric mapped[TN_METRICS];
};

struct tarn_device {
    _Atomic uint64_t magic; /* TN_DEVICE_MAGIC; 0 in a recycled record */
    tarn_device *next;      /* guarded by the PROCESS lock; links recycled records */
    /* What every allocation looks at shares the cache line of magic, up to what is first in gpu. */
    struct tn_hold *_Atomic gone_holds; /* to be reaped; pushed without a lock */
    struct tn_gpu gpu;   /* whose proof_news say that released pools are worth a look */
    uint64_t user_count; /* guarded by the PROCESS lock */
    struct tn_regions regions;
    struct tn_budget budget;
    struct tn_memory_cache cache;
    tarn_unrouted unrouted;      /* immutable */
    struct tn_rounding rounding; /* immutable */
    bool no_record_stream_reuse; /* immutable */
    struct tn_lock lock;         /* rank DEVICE */
    struct tn_lock growing; /* rank GROW: the driver maps faster for one thread than for several */
    tarn_pool *pools;       /* guarded by lock; the default pool last */
    /* released pools that only a proof lets go, when last looked at */
    atomic_uint_fast32_t unproven_count;
    uint64_t parked_proven;  /* the proof that parked pools were looked at with; guarded by lock */
    tarn_pool *default_pool; /* immutable */
    struct tn_lock graphs_lock; /* rank GRAPHS */
    tarn_graph *graphs;         /* guarded by graphs_lock; newest first */
    struct tn_routes routes;
    struct tn_streams streams;
    atomic_uint_fast64_t mapped_bytes;
    struct tn_callbacks free_callbacks; /* tarn_free_callback */
    struct tn_callbacks oom_observers;  /* tarn_oom_observer */
    atomic_uint_fast64_t ladder_retries;
    atomic_uint_fast64_t out_of_memory_count;
    atomic_uint_fast64_t adopted_count;   /* captures that got a pool of their own */
    atomic_uint_fast64_t unrouted_count;  /* allocations in captures that no route caught */
    atomic_uint_fast64_t user_hold_count; /* open holds that no tarn_capture owns */
    atomic_uint_fast64_t contents_bytes;  /* of checkpoints, in blocks of the default pool */
    atomic_uint_fast64_t exec_bytes;      /* that instantiations of graphs took from the driver */
    struct tn_device_counters counters;
};

#define TN_DEVICE_MAGIC 0x54446576ULL

/* options: checked, with nothing left to default. */
TARN_MUST_CHECK tarn_status tn_device_open(int ordinal, const tarn_device_options *options,
                                           tarn_device **device);
TARN_MUST_CHECK tarn_status tn_device_close(tarn_device *device);

/* Keeps the device for a call: its default pool, without which it is not closed. By a handle, which is looked at again;
 * false: it is none any more. No lock is needed. What is kept otherwise keeps its device, too. */
bool tn_device_try_pin(tarn_device *device);

static inline void tn_device_unpin(tarn_device *device)
{
    tn_pool_unpin(device->default_pool);
}
/* Whether nobody else has it open. No lock may be held. */
bool tn_device_is_last_use(const tarn_device *device);

/* Drops the holds whose claimants are gone, and ends released pools that nothing keeps any more: no claim,
 * no memory that is not proven idle. Never waits for the device; cheap when there is none. No lock may be
 * held. */
void tn_device_reap(tarn_device *device);

/* Before a pool is made: where many released ones wait for a proof, waits for the device and ends them. None of
 * the device's locks is held. */
void tn_device_bound_released(tarn_device *device);

/* Whether there is nothing to reap, the GPU is usable, and no function of the program's is being called. */
static inline bool tn_device_is_quiet(const tarn_device *device)
{
    uint64_t news =
        (uint64_t)(uintptr_t)atomic_load_explicit(&device->gone_holds, memory_order_relaxed) |
        atomic_load_explicit(&device->gpu.proof_news, memory_order_relaxed);

    return TN_LIKELY(news == 0) && TN_LIKELY(tn_gpu_is_calm(&device->gpu));
}

/* The two halves of it. */
void tn_device_drop_gone(tarn_device *device);
void tn_device_end_released(tarn_device *device);

/* Asks after all pending blocks of the device. Never waits. No lock may be held. */
void tn_device_collect(tarn_device *device);

/* Closes the open holds of a capture that is over in all pools of the device: by its id, or by the
 * graph that it made. discard: its live blocks become DISCARDED ones. No lock may be held. */
void tn_device_close_capture(tarn_device *device, uint64_t capture_id, tn_cu_graph graph,
                             bool discard);

/* The library is about to destroy the graph: holds that it keeps, in all pools of the device, are worth
 * waiting for, and the next graph that gets its handle is not taken for it. No lock may be held. */
void tn_device_expect_gone(tarn_device *device, tn_cu_graph graph);

/* Closes the holds of captures that the user began and that are over. The second is what is done before an allocation
 * outside captures, or the first one in another capture: they are not theirs. Cheap where no user's capture is known.
 * No lock of rank DEVICE or later may be held. */
void tn_device_close_over(tarn_device *device);

static inline void tn_device_see_end(tarn_device *device)
{
    if (atomic_load(&device->user_hold_count) > 0)
        tn_device_close_over(device);
}

/* The mark behind the end of the captures whose memory the graph holds, where that was noticed of all of them: blocks with
 * that number or a higher one were allocated behind it. 0: there are none. No lock may be held. */
uint64_t tn_device_end_mark(tarn_device *device, tn_cu_graph graph);

/* Ends the promise that the stream, outside captures and of that id, lives: all pools forget it, and what
 * waits for it waits for a fence. No lock may be held. HOST_MEMORY, DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_device_retire_stream(tarn_device *device, tn_cu_stream stream,
                                                    uint64_t id);

/* Blocks allocated from now on have this sequence number or a higher one, those of before a lower one. No lock may be
 * held. */
uint64_t tn_device_mark(tarn_device *device);

/* Counts what was charged and is mapped, or is so no more, for the statistics. */
void tn_device_count_mapped(tarn_device *device, enum tn_heap_kind kind, uint64_t bytes,
                            uint64_t chunk_count);
void tn_device_count_unmapped(tarn_device *device, enum tn_heap_kind kind, uint64_t bytes);

/* Counts what a pool has more, or less, of a metric from TN_CHUNKS on. */
void tn_device_count(tarn_device *device, enum tn_metric_id id, enum tn_heap_kind kind,
                     uint64_t amount, bool more);

#endif
