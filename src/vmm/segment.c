// SPDX-License-Identifier: Apache-2.0
/* Segments and the chunks in them.
 *
 * Trade-offs: eight bytes of host memory for each 2 MiB that is mapped, so that the chunk at an
 * address is one load. */
#include "vmm/segment.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"

static struct tn_records segment_records = TN_RECORDS_INIT(struct tn_segment);
static struct tn_records chunk_records = TN_RECORDS_INIT(struct tn_chunk);

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

void tn_segment_destroy(struct tn_segment *segment)
{
    TN_ASSERT(segment->mapped_bytes == 0);
    tn_address_table_set(segment->base, segment->slot_count, NULL);
    tn_regions_give(segment->regions, segment->base, segment->slot_count);
    atomic_store_explicit(&segment->owner, NULL, memory_order_release);
    tn_records_give(&segment_records, segment);
}

tarn_status tn_chunk_create(struct tn_gpu *gpu, uint64_t bytes,
                            struct tn_chunk_properties properties, struct tn_chunk **chunk)
{
    struct tn_chunk *made = tn_records_take(&chunk_records);
    tarn_status status;

    TN_ASSERT(tn_is_power_of_two(bytes) && bytes >= TN_PAGE_BYTES && bytes <= TN_CHUNK_BYTES_MAX);
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a chunk");
    status = tn_gpu_create_memory(gpu, bytes, properties, &made->handle);
    if (status != TARN_OK) {
        tn_records_give(&chunk_records, made);
        return status;
    }
    made->magic = TN_CHUNK_MAGIC;
    made->bytes = bytes;
    made->properties = properties;
    made->properties.peer_mask = 0;
    *chunk = made;
    return TARN_OK;
}

void tn_chunk_destroy(struct tn_gpu *gpu, struct tn_chunk *chunk)
{
    TN_ASSERT(chunk->segment == NULL);
    tn_gpu_release_memory(gpu, chunk->handle);
    tn_host_free(chunk->live);
    chunk->magic = 0;
    tn_records_give(&chunk_records, chunk);
}

tarn_status tn_segment_map(struct tn_segment *segment, uint64_t offset, uint64_t peer_mask,
                           struct tn_chunk *chunk)
{
    tarn_status status;

    TN_ASSERT(chunk->segment == NULL);
    TN_ASSERT(offset % TN_PAGE_BYTES == 0 && offset + chunk->bytes <= segment->bytes);
    status = tn_gpu_map(segment->regions->gpu, segment->base + offset, chunk->bytes, chunk->handle,
                        peer_mask);
    if (status != TARN_OK)
        return status;
    chunk->segment = segment;
    chunk->offset = offset;
    chunk->properties.peer_mask = peer_mask;
    tn_address_table_set_pages(segment->base + offset, chunk->bytes, chunk);
    tn_regions_note_mapped(segment->regions, segment->base + offset, chunk->bytes);
    segment->mapped_bytes += chunk->bytes; /* V5 */
    return TARN_OK;
}

void tn_segment_unmap(struct tn_chunk *chunk)
{
    struct tn_segment *segment = chunk->segment;

    tn_address_table_set_pages(segment->base + chunk->offset, chunk->bytes, NULL);
    segment->mapped_bytes -= chunk->bytes;
    tn_gpu_unmap(segment->regions->gpu, segment->base + chunk->offset, chunk->bytes);
    chunk->segment = NULL;
    chunk->properties.peer_mask = 0; /* rights go with the mapping */
}

tarn_status tn_chunk_add_peer(struct tn_chunk *chunk, int peer)
{
    struct tn_segment *segment = chunk->segment;
    tarn_status status =
        tn_gpu_add_access(segment->regions->gpu, segment->base + chunk->offset, chunk->bytes, peer);

    if (status == TARN_OK)
        chunk->properties.peer_mask |= (uint64_t)1 << peer;
    return status;
}

void tn_chunk_remove_peer(struct tn_chunk *chunk, int peer)
{
    struct tn_segment *segment = chunk->segment;

    tn_gpu_remove_access(segment->regions->gpu, segment->base + chunk->offset, chunk->bytes, peer);
    chunk->properties.peer_mask &= ~((uint64_t)1 << peer);
}
