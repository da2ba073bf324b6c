// SPDX-License-Identifier: Apache-2.0
#include "vmm/chunk.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "driver/mapping.h"

static struct tn_records chunk_records = TN_RECORDS_INIT_KEEPING(struct tn_chunk, used_bytes, heap);

static struct tn_gpu *gpu_of(const struct tn_chunk *chunk)
{
    return atomic_load_explicit(&chunk->segment, memory_order_relaxed)->regions->gpu;
}

tarn_status tn_chunk_create(struct tn_segment *segment, uint64_t offset, uint64_t bytes,
                            struct tn_chunk **chunk)
{
    struct tn_chunk *made = tn_records_take(&chunk_records);

    TN_ASSERT(tn_is_power_of_two(bytes) && offset % TN_PAGE_BYTES == 0);
    TN_ASSERT(offset + bytes <= segment->bytes);
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a chunk");
    TN_ASSERT(made->memory == NULL && made->live == NULL && made->heap == NULL);
    made->magic = TN_CHUNK_MAGIC;
    made->offset = offset;
    made->bytes = bytes;
    atomic_store_explicit(&made->segment, segment, memory_order_relaxed);
    segment->chunk_count += 1; /* V5 */
    *chunk = made;
    return TARN_OK;
}

static void give_record(struct tn_chunk *chunk)
{
    TN_ASSERT(chunk->magic == TN_CHUNK_MAGIC);
    TN_ASSERT(chunk->memory == NULL && chunk->live == NULL && chunk->heap == NULL);
    atomic_store_explicit(&chunk->segment, NULL, memory_order_relaxed);
    chunk->magic = 0;
    tn_records_give(&chunk_records, chunk);
}

void tn_chunk_destroy(struct tn_chunk *chunk)
{
    struct tn_segment *segment = chunk->segment;

    TN_ASSERT(segment->chunk_count > 0); /* V5 */
    if (tn_segment_chunk_at(segment, chunk->offset) == chunk)
        tn_address_table_set_pages(tn_chunk_address(chunk), chunk->bytes, NULL);
    segment->chunk_count -= 1;
    give_record(chunk);
}

tarn_status tn_chunk_map(struct tn_chunk *chunk, struct tn_memory *memory, uint64_t peer_mask)
{
    struct tn_segment *segment = chunk->segment;
    uint64_t address = tn_chunk_address(chunk);
    tarn_status status = TARN_OK;

    TN_ASSERT(chunk->memory == NULL && chunk->bytes == memory->bytes); /* V7 */
    if (memory->origin != TN_MEMORY_ADOPTED)
        status = tn_gpu_map(gpu_of(chunk), address, chunk->bytes, memory->handle, peer_mask,
                            memory->properties.host);
    TN_ASSERT(memory->origin != TN_MEMORY_ADOPTED || memory->address == address);
    if (status != TARN_OK)
        return status;
    chunk->memory = memory;
    chunk->peer_mask = peer_mask;
    atomic_fetch_add_explicit(&memory->chunk_count, 1, memory_order_relaxed); /* V6 */
    if (tn_segment_chunk_at(segment, chunk->offset) != chunk)
        tn_address_table_set_pages(address, chunk->bytes, chunk);
    if (segment->regions != NULL)
        tn_regions_note_mapped(segment->regions, address, chunk->bytes);
    segment->mapped_bytes += chunk->bytes; /* V5 */
    TN_ASSERT(segment->mapped_bytes <= segment->bytes);
    return TARN_OK;
}

static struct tn_memory *unmap(struct tn_chunk *chunk)
{
    struct tn_memory *memory = chunk->memory;

    TN_ASSERT(memory != NULL && tn_memory_is_mapped(memory)); /* V6 */
    if (memory->origin != TN_MEMORY_ADOPTED)
        tn_gpu_unmap(gpu_of(chunk), tn_chunk_address(chunk), chunk->bytes);
    chunk->memory = NULL;
    chunk->peer_mask = 0; /* rights go with the mapping */
    atomic_fetch_sub_explicit(&memory->chunk_count, 1, memory_order_relaxed);
    return memory;
}

struct tn_memory *tn_chunk_unmap(struct tn_chunk *chunk)
{
    struct tn_segment *segment = chunk->segment;

    TN_ASSERT(segment->mapped_bytes >= chunk->bytes); /* V5 */
    segment->mapped_bytes -= chunk->bytes;
    return unmap(chunk);
}

void tn_chunk_vacate(struct tn_chunk *chunk)
{
    struct tn_segment *segment = chunk->segment;

    TN_ASSERT(chunk->memory != NULL && chunk->heap == NULL && chunk->live_count == 0);
    TN_ASSERT(tn_segment_chunk_at(segment, chunk->offset) == chunk);
    tn_address_table_set_pages(tn_chunk_address(chunk), chunk->bytes, NULL);
    segment->mapped_bytes -= chunk->bytes; /* V5 */
    segment->chunk_count -= 1;
    segment->vacated_count += 1;
}

void tn_chunk_reoccupy(struct tn_chunk *chunk)
{
    struct tn_segment *segment = chunk->segment;

    TN_ASSERT(chunk->memory != NULL && chunk->heap == NULL && segment->vacated_count > 0);
    TN_ASSERT(tn_segment_chunk_at(segment, chunk->offset) == NULL);
    tn_address_table_set_pages(tn_chunk_address(chunk), chunk->bytes, chunk);
    segment->mapped_bytes += chunk->bytes; /* V5 */
    segment->chunk_count += 1;
    segment->vacated_count -= 1;
}

void tn_chunk_close(struct tn_chunk *chunk)
{
    struct tn_segment *segment = chunk->segment;

    TN_ASSERT(segment->vacated_count > 0 && tn_segment_chunk_at(segment, chunk->offset) != chunk);
    (void)unmap(chunk); /* another chunk has the memory */
    segment->vacated_count -= 1;
    give_record(chunk);
}

tarn_status tn_chunk_add_peer(struct tn_chunk *chunk, int peer)
{
    tarn_status status =
        tn_gpu_add_access(gpu_of(chunk), tn_chunk_address(chunk), chunk->bytes, peer);

    TN_ASSERT(chunk->memory != NULL && peer >= 0 && peer < 64);
    if (status == TARN_OK)
        chunk->peer_mask |= (uint64_t)1 << peer;
    return status;
}

void tn_chunk_remove_peer(struct tn_chunk *chunk, int peer)
{
    TN_ASSERT(chunk->memory != NULL && peer >= 0 && peer < 64);
    tn_gpu_remove_access(gpu_of(chunk), tn_chunk_address(chunk), chunk->bytes, peer);
    chunk->peer_mask &= ~((uint64_t)1 << peer);
}
