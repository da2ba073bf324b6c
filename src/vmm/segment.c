// SPDX-License-Identifier: Apache-2.0
/* Segments and the chunks in them.
 *
 * Trade-offs: each 2 MiB of mapped memory takes eight bytes of host memory, for a lookup of the
 * chunk at an address by a single load. */
#include "vmm/segment.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"

static struct tn_records segment_records = TN_RECORDS_INIT(struct tn_segment);

tarn_status tn_segment_create(struct tn_regions *regions, uint64_t bytes, void *owner,
                              uint64_t index, struct tn_segment **segment)
{
    uint64_t slot_count = tn_round_up(bytes, TN_SLOT_BYTES) / TN_SLOT_BYTES;
    struct tn_segment *made = tn_records_take(&segment_records);
    tarn_status status;

    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a segment");
    status = tn_regions_take(regions, slot_count, &made->base);
    if (status != TARN_OK) {
        tn_records_give(&segment_records, made);
        return status;
    }
    made->regions = regions;
    made->slot_count = slot_count;
    made->bytes = slot_count * TN_SLOT_BYTES;
    made->index = index;
    atomic_store_explicit(&made->owner, owner, memory_order_release);
    tn_address_table_set(made->base, slot_count, made);
    *segment = made;
    return TARN_OK;
}

tarn_status tn_segment_create_at(uint64_t base, uint64_t bytes, void *owner, uint64_t index,
                                 struct tn_segment **segment)
{
    struct tn_segment *made = tn_records_take(&segment_records);

    TN_ASSERT(base % TN_SLOT_BYTES == 0 && bytes <= TN_SLOT_BYTES);
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a segment");
    made->base = base;
    made->slot_count = 1;
    made->bytes = bytes;
    made->index = index;
    atomic_store_explicit(&made->owner, owner, memory_order_release);
    tn_address_table_set(base, 1, made);
    *segment = made;
    return TARN_OK;
}

void tn_segment_destroy(struct tn_segment *segment)
{
    TN_ASSERT(segment->chunk_count == 0 && segment->mapped_bytes == 0); /* V5 */
    TN_ASSERT(segment->vacated_count == 0);
    tn_address_table_set(segment->base, segment->slot_count, NULL);
    if (segment->regions != NULL)
        tn_regions_give(segment->regions, segment->base, segment->slot_count);
    atomic_store_explicit(&segment->owner, NULL, memory_order_release);
    tn_records_give(&segment_records, segment);
}
