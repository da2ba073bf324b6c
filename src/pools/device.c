// SPDX-License-Identifier: Apache-2.0
/* Mapped memory is counted at each change: its peaks are exact. */
#include "pools/device.h"

#include "base/contract.h"

void tn_device_count(tarn_device *device, bool host, enum tn_metric_id id, enum tn_heap_kind kind,
                     uint64_t amount, bool more)
{
    struct tn_device_counters *counters = tn_device_counters(device, host);

    TN_ASSERT(id >= TN_CHUNKS);
    tn_lock_acquire_spin(&counters->lock, TN_RANK_COUNTS);
    if (more)
        (void)tn_metric_add(&counters->mapped[id], kind, amount);
    else
        tn_metric_remove(&counters->mapped[id], kind, amount);
    tn_lock_release_spin(&counters->lock, TN_RANK_COUNTS);
}

void tn_device_count_mapped(tarn_device *device, bool host, enum tn_heap_kind kind, uint64_t bytes,
                            uint64_t chunk_count)
{
    struct tn_device_counters *counters = tn_device_counters(device, host);

    TN_ASSERT(bytes >= chunk_count * TN_PAGE_BYTES);
    tn_lock_acquire_spin(&counters->lock, TN_RANK_COUNTS);
    (void)tn_metric_add(&counters->mapped[TN_CHUNKS], kind, chunk_count);
    (void)tn_metric_add(&counters->mapped[TN_CHUNK_BYTES], kind, bytes);
    tn_lock_release_spin(&counters->lock, TN_RANK_COUNTS);
}

void tn_device_count_unmapped(tarn_device *device, bool host, enum tn_heap_kind kind,
                              uint64_t bytes)
{
    struct tn_device_counters *counters = tn_device_counters(device, host);

    tn_lock_acquire_spin(&counters->lock, TN_RANK_COUNTS);
    tn_metric_remove(&counters->mapped[TN_CHUNKS], kind, 1);
    tn_metric_remove(&counters->mapped[TN_CHUNK_BYTES], kind, bytes);
    tn_lock_release_spin(&counters->lock, TN_RANK_COUNTS);
}

uint64_t tn_device_mapped_bytes(tarn_device *device, bool host)
{
    struct tn_device_counters *counters = tn_device_counters(device, host);
    uint64_t bytes;

    tn_lock_acquire_spin(&counters->lock, TN_RANK_COUNTS);
    bytes = tn_metric_all(&counters->mapped[TN_CHUNK_BYTES]);
    tn_lock_release_spin(&counters->lock, TN_RANK_COUNTS);
    return bytes;
}
