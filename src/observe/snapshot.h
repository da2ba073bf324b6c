// SPDX-License-Identifier: Apache-2.0
/* snapshot.h -- all memory of a device, or of a single pool, at a single moment.
 *
 * A snapshot is a single allocation, which tn_host_free ends.
 *
 * Locking: none may be held. */
#ifndef TARN_OBSERVE_SNAPSHOT_H
#define TARN_OBSERVE_SNAPSHOT_H

#include "pools/device.h"
#include "tarn/snapshot.h"

/* A snapshot as programs read it, and the settings that the device was opened with. */
struct tn_snapshot {
    tarn_snapshot read; /* first: programs have this address */
    bool record_stream_reuse;
    uint32_t roundup_divisions[TARN_ROUNDUP_SIZES]; /* 0: none */
};

/* pool: of the device; NULL: all its pools. HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_snapshot_take(tarn_device *device, tarn_pool *pool,
                                             tarn_snapshot **snapshot);

#endif
