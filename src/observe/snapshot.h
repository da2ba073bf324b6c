// SPDX-License-Identifier: Apache-2.0
/* snapshot.h -- all memory of a device, or of a single pool, at a single moment.
 *
 * A snapshot is an allocation, and another one for its events.
 *
 * Locking: none may be held. */
#ifndef TARN_OBSERVE_SNAPSHOT_H
#define TARN_OBSERVE_SNAPSHOT_H

#include "observe/titles.h"
#include "pools/device.h"
#include "tarn/snapshot.h"

/* As PyTorch's traces have them. */
enum tn_trace_action {
    TN_TRACE_ALLOC,
    TN_TRACE_FREE_REQUESTED,
    TN_TRACE_FREE_COMPLETED,
    TN_TRACE_SEGMENT_MAP,
    TN_TRACE_SEGMENT_UNMAP,
    TN_TRACE_OOM, /* the address: the bytes that the driver has free */
    TN_TRACE_SNAPSHOT,
    TN_TRACE_ANNOTATE, /* a live block */
};

struct tn_trace_event {
    enum tn_trace_action action;
    uint64_t address;
    uint64_t bytes; /* of blocks: as requested */
    uint64_t stream;
    uint64_t pool;    /* its number; 0: the default pool, or not known */
    uint64_t time_us; /* since 1970 */
    const char *text; /* of blocks: their label, or the annotation. Ends with 0; the snapshot's */
};

/* The begin or the end of a range. */
struct tn_trace_range {
    bool ends;
    uint64_t time_us; /* since 1970 */
    const char *name; /* ends with 0; the snapshot's */
};

/* A snapshot as programs read it, and the settings that the device was opened with. */
struct tn_snapshot {
    tarn_snapshot read;            /* first: programs have this address */
    uint64_t taken;                /* when: nanoseconds of the monotonic clock */
    uint64_t clock_offset;         /* what leads from this clock to the time since 1970 */
    struct tn_trace_event *events; /* what happened before; NULL: nobody has asked */
    size_t event_count;
    struct tn_trace_range *ranges;
    size_t range_count;
    struct tn_titles titles; /* texts of the events and ranges */
    bool record_stream_reuse;
    uint32_t roundup_divisions[TARN_ROUNDUP_SIZES]; /* 0: none */
};

/* pool: of the device; NULL: all its pools. HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_snapshot_take(tarn_device *device, tarn_pool *pool,
                                             tarn_snapshot **snapshot);

void tn_snapshot_drop(struct tn_snapshot *snapshot); /* NULL is allowed */

#endif
