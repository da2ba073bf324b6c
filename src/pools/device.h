// SPDX-License-Identifier: Apache-2.0
/* device.h -- the allocator of one CUDA device: its record and its counters.
 *
 * Locking: the PROCESS lock guards changes of user counts (pools/opening.c). The DEVICE lock guards
 * the list of pools, the GRAPHS lock the list of graphs, the ROUTES lock routes. */
#ifndef TARN_POOLS_DEVICE_H
#define TARN_POOLS_DEVICE_H

#include "base/note.h"
#include "base/ring_file.h"
#include "claims/fence.h"
#include "heap/pool_index.h"
#include "heap/rounding.h"
#include "pools/ranges.h"
#include "pools/stacking.h"
#include "pools/callbacks.h"
#include "pools/counters.h"
#include "pools/route_stack.h"
#include "pools/scrapes.h"
#include "pools/tracker_queue.h"
#include "tarn/device.h"
#include "vmm/imports.h"
#include "vmm/memory_cache.h"
#include "vmm/registered.h"
#include "vmm/region.h"

/* Computes a pool's invariants again: see observe/pool_check.h. The pool's lock is held. */
typedef tarn_status (*tn_pool_checker)(tarn_pool *pool, uint64_t *steps);

/* Counters which are not sums over the present pools. */
struct tn_device_counters {
    /* Guarded by the DEVICE lock: */
    /* up to TN_CHUNKS: totals of pools which are gone, bases set by resets, and peaks which the sum
     * of the pools' own peaks does not show */
    struct tn_metric pools[TN_METRICS];
    struct tn_event events[TN_EVENTS]; /* of pools which are gone, and bases set by resets */
    uint64_t alloc_count;              /* of pools which are gone */
    uint64_t free_count;               /* likewise */
    uint64_t call_bases[TN_GPU_CALLS]; /* of the driver, at the last reset of the totals */
    struct tn_peak_sums sums;          /* of the pools' peaks */
    struct tn_spin lock;               /* rank COUNTS */
    /* from TN_CHUNKS on: their peaks are exact; guarded by lock */
    struct tn_metric mapped[TN_METRICS];
};

/* Lists of pools which some calls visit, and no others: pools/pool_lock.h. */
enum tn_pool_list {
    TN_POOLS_AWAKE,  /* P32: those with an arena awake; the visited ones and the newest come last */
    TN_POOLS_READY,  /* P34: released and, when last looked at, unclaimed */
    TN_POOLS_PARKED, /* P34: the same, but only a proof of idle memory lets them go */
    TN_POOLS_WAITING,     /* P36: those with pending blocks or arenas of retired streams */
    TN_POOLS_HELD,        /* P36: those with holds */
    TN_POOLS_OPEN,        /* P36: those with open holds */
    TN_POOLS_STRAYS,      /* P36: those that had blocks in memory of other arenas */
    TN_POOLS_ADOPTING,    /* adopted ones whose captures are not known to be over */
    TN_POOLS_UNPUBLISHED, /* P35: those whose peaks have changed */
    TN_POOL_LISTS
};

/* Guarded by lock, rank AWAKE. */
struct tn_pool_lists {
    struct tn_spin lock;
    tarn_pool *first[TN_POOL_LISTS];
    tarn_pool *last[TN_POOL_LISTS];
    uint64_t count[TN_POOL_LISTS];
    uint64_t round; /* of visits; guarded by the DEVICE lock */
};

/* The events of a device's blocks, where they are kept. */
struct tn_history {
    struct tn_ring_file file; /* no head: none are kept; immutable but for its parts */
    struct tn_ring ring;
    struct tn_history_tables tables;
    struct tn_stacking stacking;
    struct tn_ranges ranges;
    bool replays;      /* whether they are among the events; immutable */
    tarn_device *next; /* with a history: guarded by the lock of pools/histories.c */
};

/* Page-locked memory for copies of Tarn's own: pools/staging.h. */
struct tn_staging {
    struct tn_lock lock;              /* rank STAGING */
    struct tn_staging_block *waiting; /* newest first; guarded by lock */
    atomic_uint_fast64_t used_bytes;  /* of the blocks that somebody has */
    atomic_uint_fast64_t whole_bytes; /* of blocks with a registration of their own, also waiting */
    atomic_uint_fast64_t limit_bytes; /* the most that is kept without an owner */
};

/* The default pools of the host. */
enum tn_host_pool {
    TN_HOST_MAPPED,  /* of large blocks, or of all */
    TN_HOST_PIECES,  /* of blocks up to a piece, where the user has chosen registered memory */
    TN_HOST_STAGING, /* of copies of Tarn's own */
    TN_HOST_POOLS
};

/* What a device has of page-locked memory of the host: as its own budget, cache and counters. */
struct tn_host_side {
    struct tn_budget budget;
    struct tn_memory_cache cache;
    struct tn_device_counters counters;
    /* NULL: none yet; made once. The first two may be the same. */
    tarn_pool *_Atomic pools[TN_HOST_POOLS];
    bool registers;        /* immutable; the user has chosen it */
    unsigned thread_count; /* immutable; that touch memory, 0: chosen by the machine */
    bool has_pieces;       /* the next two are there; written under the PROCESS lock */
    struct tn_registered registered;
    struct tn_memory_cache ready; /* see pools/pieces.h */
    struct tn_staging staging;
};

struct tarn_device {
    _Atomic uint64_t magic; /* TN_DEVICE_MAGIC; 0 in a recycled record */
    tarn_device *next;      /* guarded by the PROCESS lock; links recycled records */
    /* The fields which every allocation reads share the cache line of magic, up to the first fields
     * of gpu. */
    struct tn_hold *_Atomic gone_holds; /* to be reaped; pushed without a lock */
    struct tn_gpu gpu;               /* its proof_news say that released pools are worth a look */
    atomic_uint_fast64_t user_count; /* changed under the PROCESS lock */
    struct tn_regions regions;
    struct tn_budget budget;
    struct tn_memory_cache cache;
    tarn_unrouted unrouted;      /* immutable */
    struct tn_rounding rounding; /* immutable */
    bool no_record_stream_reuse; /* immutable */
    uint64_t move_limit_bytes;   /* of a growth, 0: none; immutable; see pools/moves.h */
    uint64_t
        lone_alignment; /* of addresses of lone blocks, 0: none are; immutable; see pools/lone.h */
    uint64_t peer_mask; /* devices with access to all its memory; guarded by lock */
    struct tn_imports imports;        /* memory of other processes */
    tarn_connection *connections;     /* guarded by lock; newest first */
    tarn_listener *listeners;         /* guarded by lock; newest first */
    atomic_uint_fast64_t group_count; /* groups of processes; changed under no lock */
    tn_pool_checker check_pool;       /* at unlocks of builds with TARN_DEBUG_CHECKS; immutable */
    /* The stream that NULL means: NULL, which is the legacy one, or the handle of a thread's own.
     * Immutable. */
    tn_cu_stream null_stream;
    struct tn_lock lock;    /* rank DEVICE */
    struct tn_lock growing; /* rank GROW: the driver maps faster for one thread than for several */
    tarn_pool *pools;       /* guarded by lock; the default pool last */
    struct tn_pool_index index; /* of all pools */
    struct tn_pool_lists lists;
    /* released pools that only a proof lets go, when last looked at */
    atomic_uint_fast32_t unproven_count;
    uint64_t parked_proven;     /* the proof at the last look at parked pools; guarded by lock */
    tarn_pool *default_pool;    /* released pools which only a proof lets go, as of the last look */
    struct tn_lock graphs_lock; /* rank GRAPHS */
    tarn_graph *graphs;         /* guarded by graphs_lock; newest first */
    struct tn_routes routes;
    struct tn_streams streams;
    struct tn_callbacks free_callbacks;   /* tarn_free_callback */
    struct tn_callbacks oom_observers;    /* tarn_oom_observer */
    atomic_uint_fast64_t adopted_count;   /* captures that got a pool of their own */
    atomic_uint_fast64_t unrouted_count;  /* allocations in captures that no route caught */
    atomic_uint_fast64_t user_hold_count; /* open holds that no tarn_capture owns */
    atomic_uint_fast64_t contents_bytes;  /* of checkpoints, in blocks of the default pool */
    atomic_uint_fast64_t exec_bytes;      /* that instantiations of graphs took from the driver */
    struct tn_device_counters counters;
    struct tn_host_side host;
    struct tn_scraper scrapers[TARN_SCRAPERS];
    struct tn_history history;
    struct tn_trackers trackers;
};

#define TN_DEVICE_MAGIC 0x54446576ULL

/* The stream that a caller's handle means. A call asks once, where the call first knows its device,
 * and on no path with a handle that is known not to be a default stream. */
static inline tn_cu_stream tn_device_stream(const tarn_device *device, tn_cu_stream stream)
{
    return stream != NULL ? stream : device->null_stream;
}

/* The ring of the device's history; NULL: it keeps none. */
static inline struct tn_ring *tn_device_ring(tarn_device *device)
{
    return device->history.file.head != NULL ? &device->history.ring : NULL;
}

static inline void tn_device_note(tarn_device *device, enum tn_note note,
                                  const uint64_t operands[TN_NOTE_OPERANDS_MAX])
{
    tn_note_write(tn_device_ring(device), note, 0, operands);
}

/* Whether the caller is the device's only user. */
static inline bool tn_device_is_last_use(const tarn_device *device)
{
    return atomic_load(&device->user_count) == 1;
}

/* Whether no hold or pool is to be reaped, the GPU is usable, and no function of the program is
 * being called. */
static inline bool tn_device_is_quiet(const tarn_device *device)
{
    uint64_t news =
        (uint64_t)(uintptr_t)atomic_load_explicit(&device->gone_holds, memory_order_relaxed) |
        atomic_load_explicit(&device->gpu.proof_news, memory_order_relaxed);

    return TN_LIKELY(news == 0) && TN_LIKELY(tn_gpu_is_calm(&device->gpu));
}

/* The counters of the device's own memory, or of the host's. */
static inline struct tn_device_counters *tn_device_counters(tarn_device *device, bool host)
{
    return host ? &device->host.counters : &device->counters;
}

/* Counts charged bytes which are mapped, or no longer are, for the statistics. */
void tn_device_count_mapped(tarn_device *device, bool host, enum tn_heap_kind kind, uint64_t bytes,
                            uint64_t chunk_count);
void tn_device_count_unmapped(tarn_device *device, bool host, enum tn_heap_kind kind,
                              uint64_t bytes);

/* The bytes which all pools of the device have mapped, in its own memory or in the host's. */
uint64_t tn_device_mapped_bytes(tarn_device *device, bool host);

/* Counts an increase (more), or a decrease, of a pool's metric from TN_CHUNKS on. */
void tn_device_count(tarn_device *device, bool host, enum tn_metric_id id, enum tn_heap_kind kind,
                     uint64_t amount, bool more);

#endif
