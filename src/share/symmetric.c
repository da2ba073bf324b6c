// SPDX-License-Identifier: Apache-2.0
/* A block is a range of the offsets, whose state says the rest. Blocks make no call of the driver
 * but the event of a free.
 *
 * Trade-offs: a freed block does not serve its own stream at once. Whether a peer's copy of it is
 * still read, its stream does not know. */
#include "share/symmetric.h"

#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "driver/mapping.h"
#include "driver/stream.h"
#include "share/connection.h"

#define CREATE_NS UINT64_C(30000000000)

static struct tn_records symmetric_records =
    TN_RECORDS_INIT_KEEPING(struct tarn_symmetric, next, lock);

/* -- Making and ending -- */

/* What the ranks must agree on, and whether each has its addresses. */
struct opening {
    uint64_t stride;
    uint64_t status;
};

static tarn_status compare(const tarn_group *group, const unsigned char *all, uint32_t step,
                           const struct opening *own)
{
    tarn_status status = TARN_OK;

    for (uint32_t i = 0; i < group->world && status == TARN_OK; i++) {
        struct opening other;

        memcpy(&other, &all[(size_t)i * step], sizeof other);
        if (other.stride != own->stride)
            status = tn_fail(TARN_ERR_WRONG_STATE,
                             "the ranks of the group '%s' want other strides: rank %u wants %llu "
                             "bytes, and rank %u %llu",
                             group->board.group, group->rank, (unsigned long long)own->stride, i,
                             (unsigned long long)other.stride);
        else if (other.status != TARN_OK)
            status = tn_fail(TARN_ERR_PEER_LOST,
                             "rank %u of the group '%s' cannot make the symmetric pool: %s", i,
                             group->board.group, tarn_status_sentence((tarn_status)other.status));
    }
    return status;
}

static tarn_status agree(tarn_symmetric *pool, tarn_status own_status)
{
    struct tn_error_sentence sentence;
    struct opening own = {.stride = pool->stride, .status = (uint64_t)own_status};
    const unsigned char *all;
    uint32_t step;
    tarn_status status;

    tn_error_keep(&sentence);
    status = tn_group_gather(pool->group, TN_TOPIC_POOL, pool->number, &own, sizeof own,
                             tn_group_deadline(CREATE_NS), &all, &step);
    if (status == TARN_ERR_BUSY)
        tn_group_give_up(pool->group);
    if (status == TARN_OK && own_status != TARN_OK) {
        tn_error_put_back(&sentence);
        return own_status;
    }
    return status == TARN_OK ? compare(pool->group, all, step, &own) : status;
}

/* Unmaps what is there of a chunk. */
static void end_chunk(tarn_symmetric *pool, const struct tn_symmetric_chunk *chunk)
{
    struct tn_gpu *gpu = &pool->group->device->gpu;

    for (uint32_t i = 0; i < pool->group->world; i++) {
        if (chunk->handles[i] == 0)
            continue;
        tn_gpu_unmap(gpu, tn_symmetric_part(pool, i) + chunk->offset, chunk->bytes);
        tn_gpu_release_memory(gpu, chunk->handles[i]);
        if (i == pool->group->rank)
            tn_budget_discharge(&pool->group->device->budget, chunk->bytes);
    }
}

void tn_symmetric_drop_chunks(tarn_symmetric *pool, size_t keep_count)
{
    TN_ASSERT(keep_count <= pool->chunk_count);
    while (pool->chunk_count > keep_count)
        end_chunk(pool, &pool->chunks[--pool->chunk_count]);
}

static void drop(tarn_symmetric *pool)
{
    struct tn_gpu *gpu = &pool->group->device->gpu;

    tn_symmetric_drop_chunks(pool, 0);
    for (size_t i = 0; i < pool->fence_count; i++) {
        if (pool->fences[i].event != NULL)
            tn_event_destroy(gpu, pool->fences[i].event);
    }
    if (pool->base != 0)
        tn_gpu_free_addresses(gpu, pool->base, pool->group->world * pool->stride);
    tn_offsets_fini(&pool->offsets);
    tn_host_free(pool->chunks);
    tn_host_free(pool->fences);
    tn_host_free(pool->freed);
    tn_host_free(pool->persistent);
    tn_records_give(&symmetric_records, pool);
}

static tarn_status reserve(tarn_symmetric *pool)
{
    const struct tn_memory_properties properties = {.exportable = true};
    struct tn_gpu *gpu = &pool->group->device->gpu;
    tarn_status status = tn_gpu_check_properties(gpu, properties);

    if (status == TARN_OK)
        status = tn_gpu_reserve_addresses(gpu, pool->group->world * pool->stride, TN_SYMMETRIC_UNIT,
                                          0, &pool->base);
    return status;
}

tarn_status tn_symmetric_create(tarn_group *group, uint64_t stride, tarn_symmetric **pool)
{
    tarn_symmetric *made;
    tarn_status status = tn_group_begin(group);

    if (status != TARN_OK)
        return status;
    made = tn_records_take(&symmetric_records);
    if (made == NULL) {
        tn_group_end(group);
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a symmetric pool");
    }
    if (!made->has_lock)
        tn_lock_init(&made->lock, TN_RANK_SHARES);
    made->has_lock = true;
    made->group = group;
    made->number = group->pools_begun + 1;
    made->stride = stride;
    tn_offsets_init(&made->offsets);
    tn_diary_init(&made->diary);
    status = agree(made, reserve(made));
    if (status == TARN_OK)
        group->pools_begun = made->number; /* alike on all ranks */
    tn_group_end(group);
    if (status != TARN_OK) {
        drop(made);
        return status;
    }
    atomic_fetch_add(&group->pool_count, 1);
    atomic_store(&made->magic, TN_SYMMETRIC_MAGIC);
    tn_pins_open(&made->pins);
    *pool = made;
    return TARN_OK;
}

tarn_status tn_symmetric_destroy(tarn_symmetric *pool, uint64_t own)
{
    tarn_group *group = pool->group;

    TN_ASSERT(tn_lock_none_held());
    if (!tn_share_claim(&pool->pins, own))
        return tn_fail(TARN_ERR_BUSY, "a call uses the symmetric pool, or ends it");
    atomic_store(&pool->magic, 0);
    if (own > 0)
        tn_pins_drop(&pool->pins);
    drop(pool);
    atomic_fetch_sub(&group->pool_count, 1);
    return TARN_OK;
}

/* -- Allocation -- */

static void write_down(tarn_symmetric *pool, enum tn_diary_kind kind,
                       const struct tn_offset_range *range)
{
    tn_diary_add(&pool->diary, (struct tn_diary_entry){.kind = kind,
                                                       .bytes = range->requested,
                                                       .offset = range->offset,
                                                       .id = range->id});
}

static uint32_t find_persistent(const tarn_symmetric *pool, uint64_t id)
{
    for (size_t i = 0; i < pool->persistent_count; i++) {
        if (pool->offsets.ranges[pool->persistent[i]].id == id)
            return pool->persistent[i];
    }
    return TN_RANGE_NONE;
}

/* The block of an id that was had before. */
static tarn_status allocate_again(tarn_symmetric *pool, uint32_t index, uint64_t bytes)
{
    struct tn_offset_range *range = &pool->offsets.ranges[index];

    if (range->state == TN_OFFSET_LIVE)
        return tn_fail(TARN_ERR_WRONG_STATE, "the block with the persistent id %llu is live",
                       (unsigned long long)range->id);
    if (range->requested != bytes)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                       "the block with the persistent id %llu has %llu bytes, and not %llu",
                       (unsigned long long)range->id, (unsigned long long)range->requested,
                       (unsigned long long)bytes);
    TN_ASSERT(range->state == TN_OFFSET_ENDED);
    range->state = TN_OFFSET_LIVE;
    return TARN_OK;
}

static tarn_status allocate(tarn_symmetric *pool, uint64_t bytes, uint64_t id, uint32_t *index)
{
    tarn_status status;

    *index = id != 0 ? find_persistent(pool, id) : TN_RANGE_NONE;
    if (*index != TN_RANGE_NONE)
        return allocate_again(pool, *index, bytes);
    if (id != 0 && !tn_host_grow((void **)&pool->persistent, &pool->persistent_capacity,
                                 pool->persistent_count + 1, sizeof *pool->persistent))
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a persistent block");
    status = tn_offsets_take(&pool->offsets, bytes, index);
    if (status != TARN_OK || id == 0)
        return status;
    pool->offsets.ranges[*index].id = id;
    pool->persistent[pool->persistent_count++] = *index;
    return TARN_OK;
}

tarn_status tn_symmetric_malloc(tarn_symmetric *pool, uint64_t bytes, uint64_t id,
                                uint64_t *address)
{
    uint32_t index = TN_RANGE_NONE;
    tarn_status status;

    tn_lock_acquire(&pool->lock);
    status = allocate(pool, bytes, id, &index);
    if (status == TARN_OK) {
        const struct tn_offset_range *range = &pool->offsets.ranges[index];

        pool->live_bytes += range->bytes;
        pool->live_count++;
        write_down(pool, TN_DIARY_ALLOCATION, range);
        *address = tn_symmetric_part(pool, pool->group->rank) + range->offset;
    }
    tn_lock_release(&pool->lock);
    return status;
}

/* -- Frees -- */

/* The live block at an address of this rank. */
static tarn_status find_live(const tarn_symmetric *pool, uint64_t address, uint32_t *index)
{
    uint64_t offset = address - tn_symmetric_part(pool, pool->group->rank);
    uint32_t inside = pool->offsets.last;

    if (offset >= pool->offsets.bytes)
        return tn_fail(TARN_ERR_NOT_OURS, "the symmetric pool has no memory of this rank at %#llx",
                       (unsigned long long)address);
    *index = tn_offsets_find(&pool->offsets, offset);
    if (*index != TN_RANGE_NONE && pool->offsets.ranges[*index].state == TN_OFFSET_LIVE)
        return TARN_OK;
    while (pool->offsets.ranges[inside].offset > offset)
        inside = pool->offsets.ranges[inside].before;
    if (pool->offsets.ranges[inside].state == TN_OFFSET_LIVE)
        return tn_fail(TARN_ERR_INNER_ADDRESS, "%#llx lies inside a block of %llu bytes",
                       (unsigned long long)address,
                       (unsigned long long)pool->offsets.ranges[inside].bytes);
    return tn_fail(TARN_ERR_DOUBLE_FREE, "no block of the symmetric pool is live at %#llx",
                   (unsigned long long)address);
}

/* The stream's fence, or one that no block waits for. */
static tarn_status find_fence(tarn_symmetric *pool, uint64_t stream_id, uint32_t *index)
{
    size_t i = 0;

    while (i < pool->fence_count && pool->fences[i].stream_id != stream_id)
        i++;
    for (size_t j = 0; i == pool->fence_count && j < pool->fence_count; j++) {
        if (pool->fences[j].freed_count == 0)
            i = j;
    }
    if (i == pool->fence_count) {
        if (!tn_host_grow((void **)&pool->fences, &pool->fence_capacity, i + 1,
                          sizeof *pool->fences))
            return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a free");
        pool->fence_count++;
    }
    pool->fences[i].stream_id = stream_id;
    *index = (uint32_t)i;
    return TARN_OK;
}

/* Records the stream's work until now, in a fence. On a lost or poisoned device the block has none. */
static tarn_status record(tarn_symmetric *pool, tn_cu_stream stream, uint32_t *fence)
{
    struct tn_gpu *gpu = &pool->group->device->gpu;
    struct tn_stream_state state;
    tarn_status status;

    *fence = TN_FENCE_NONE;
    if (tn_gpu_check(gpu) != TARN_OK)
        return TARN_OK; /* frees go on */
    if (tn_stream_is_closed(gpu, stream))
        return tn_fail(TARN_ERR_WRONG_STATE,
                       "a block of a symmetric pool is freed on a stream that is being captured: "
                       "free it when no graph uses it");
    status = tn_stream_look(gpu, stream, TN_STREAM_ORDER, &state);
    if (status == TARN_OK)
        status = find_fence(pool, state.order.stream_id, fence);
    if (status == TARN_OK && !tn_event_renew(gpu, &pool->fences[*fence].event, stream))
        status = tn_fail(TARN_ERR_DRIVER, "the driver records no event on the stream of a free");
    return status;
}

/* A block is live, and the stream is not captured. */
static tarn_status free_block(tarn_symmetric *pool, uint32_t index, tn_cu_stream stream)
{
    struct tn_offset_range *range = &pool->offsets.ranges[index];
    uint32_t fence = TN_FENCE_NONE;
    tarn_status status;

    TN_ASSERT(range->state == TN_OFFSET_LIVE);
    if (!tn_host_grow((void **)&pool->freed, &pool->freed_capacity, pool->freed_count + 1,
                      sizeof *pool->freed))
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a free");
    status = record(pool, stream, &fence);
    if (status != TARN_OK)
        return status;
    pool->live_bytes -= range->bytes;
    pool->live_count--;
    write_down(pool, TN_DIARY_FREE, range);
    if (range->id != 0) {
        range->state = TN_OFFSET_ENDED;
        return TARN_OK;
    }
    range->state = TN_OFFSET_FREED; /* M1 */
    pool->freed[pool->freed_count++] = (struct tn_freed){.range = index, .fence = fence};
    if (fence != TN_FENCE_NONE)
        pool->fences[fence].freed_count++;
    pool->freed_bytes += range->bytes;
    return TARN_OK;
}

tarn_status tn_symmetric_free(tarn_symmetric *pool, uint64_t address, tn_cu_stream stream)
{
    uint32_t index = TN_RANGE_NONE;
    tarn_status status;

    tn_lock_acquire(&pool->lock);
    status = find_live(pool, address, &index);
    if (status == TARN_OK)
        status = free_block(pool, index, stream);
    tn_lock_release(&pool->lock);
    return status;
}

/* -- Questions -- */

tarn_status tn_symmetric_at(tarn_symmetric *pool, uint64_t address, uint32_t rank, uint64_t *at)
{
    uint64_t offset = address - tn_symmetric_part(pool, pool->group->rank);
    uint64_t bytes;

    if (rank >= pool->group->world)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT, "rank %u of the group '%s', which has %u ranks",
                       rank, pool->group->board.group, pool->group->world);
    tn_lock_acquire(&pool->lock);
    bytes = pool->offsets.bytes;
    tn_lock_release(&pool->lock);
    if (offset >= bytes)
        return tn_fail(TARN_ERR_NOT_OURS, "the symmetric pool has no memory of this rank at %#llx",
                       (unsigned long long)address);
    *at = tn_symmetric_part(pool, rank) + offset;
    return TARN_OK;
}

void tn_symmetric_describe(tarn_symmetric *pool, tarn_symmetric_info *info)
{
    tn_lock_acquire(&pool->lock);
    info->stride = pool->stride;
    info->reserved_bytes = pool->offsets.bytes;
    info->live_bytes = pool->live_bytes;
    info->live_count = pool->live_count;
    info->pending_bytes = pool->freed_bytes;
    info->pending_count = pool->freed_count;
    info->call_count = pool->diary.count;
    info->call_hash = pool->diary.hash;
    tn_lock_release(&pool->lock);
}

tarn_status tn_symmetric_check(const tarn_symmetric *pool)
{
    uint64_t live = 0;
    uint64_t freed = 0;

    TN_ASSERT(tn_lock_is_held(&pool->lock));
    for (uint32_t i = 0; i < pool->offsets.begun; i++) {
        const struct tn_offset_range *range = &pool->offsets.ranges[i];

        live += range->state == TN_OFFSET_LIVE ? range->bytes : 0;
        freed += range->state == TN_OFFSET_FREED ? range->bytes : 0;
    }
    if (live != pool->live_bytes || freed != pool->freed_bytes)
        return tn_fail(TARN_ERR_CORRUPT,
                       "M1: %llu bytes are live and %llu freed, and %llu and %llu are counted",
                       (unsigned long long)live, (unsigned long long)freed,
                       (unsigned long long)pool->live_bytes, (unsigned long long)pool->freed_bytes);
    return tn_offsets_check(&pool->offsets);
}
