// SPDX-License-Identifier: Apache-2.0
/* A growth goes chunk by chunk. For each the ranks make memory of their own and vote; pass the
 * descriptors on; map the memory of the others and vote. When one says no, all undo the whole
 * growth, and the pool is as before.
 *
 * A rank that does not come in time, or ends, leaves the others in the middle: the group is over.
 *
 * Trade-offs: each rank maps all others. A driver maps them one behind the other, world times. */
#include "share/growth.h"

#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "driver/mapping.h"
#include "share/channel.h"

#define CHUNK_BYTES_MAX ((uint64_t)1 << 30) /* beyond, a handle costs more than two */

static const struct tn_memory_properties exportable = {.exportable = true};

static struct tn_gpu *gpu_of(const tarn_symmetric *pool)
{
    return &pool->group->device->gpu;
}

/* Maps a handle in the part of a rank. The handle is the chunk's from then on. */
static tarn_status map(tarn_symmetric *pool, struct tn_symmetric_chunk *chunk, uint32_t rank,
                       tn_cu_memhandle handle)
{
    tarn_status status = tn_gpu_map(gpu_of(pool), tn_symmetric_part(pool, rank) + chunk->offset,
                                    chunk->bytes, handle, 0, false);

    if (status == TARN_OK)
        chunk->handles[rank] = handle;
    else
        tn_gpu_release_memory(gpu_of(pool), handle);
    return status;
}

/* This rank's own memory. *file: for the others. */
static tarn_status make_own(tarn_symmetric *pool, struct tn_symmetric_chunk *chunk, int *file)
{
    struct tn_budget *budget = &pool->group->device->budget;
    uint32_t rank = pool->group->rank;
    tn_cu_memhandle handle;
    tarn_status status = tn_budget_charge(budget, chunk->bytes);

    if (status != TARN_OK)
        return status;
    status = tn_gpu_create_memory(gpu_of(pool), chunk->bytes, exportable, &handle);
    if (status == TARN_OK)
        status = map(pool, chunk, rank, handle);
    if (status != TARN_OK) {
        tn_budget_discharge(budget, chunk->bytes);
        return status;
    }
    return tn_gpu_export_memory(gpu_of(pool), handle, file);
}

static tarn_status map_others(tarn_symmetric *pool, struct tn_symmetric_chunk *chunk,
                              const int files[TN_RANKS_MAX])
{
    tarn_status status = TARN_OK;

    for (uint32_t i = 0; i < pool->group->world && status == TARN_OK; i++) {
        tn_cu_memhandle handle;

        if (i == pool->group->rank)
            continue;
        status = tn_gpu_import_memory(gpu_of(pool), files[i], &handle);
        if (status == TARN_OK)
            status = map(pool, chunk, i, handle);
    }
    return status;
}

/* All ranks say how they fare. OK: all are well. Otherwise this rank's own status and sentence, or
 * PEER_LOST with the first rank that is not well. */
static tarn_status vote(tarn_symmetric *pool, tarn_status own, uint64_t deadline_ns)
{
    struct tn_error_sentence sentence;
    const unsigned char *all;
    uint64_t word = (uint64_t)own;
    uint32_t step;
    tarn_status status;

    tn_error_keep(&sentence);
    status = tn_group_gather(pool->group, TN_TOPIC_VOTE, pool->number, &word, sizeof word,
                             deadline_ns, &all, &step);
    if (status != TARN_OK) {
        tn_group_give_up(pool->group);
        return status;
    }
    if (own != TARN_OK) {
        tn_error_put_back(&sentence);
        return own;
    }
    for (uint32_t i = 0; i < pool->group->world; i++) {
        memcpy(&word, &all[(size_t)i * step], sizeof word);
        if (word != TARN_OK)
            return tn_fail(TARN_ERR_PEER_LOST,
                           "rank %u of the group '%s' cannot grow the symmetric pool: %s", i,
                           pool->group->board.group, tarn_status_sentence((tarn_status)word));
    }
    return TARN_OK;
}

/* A further chunk of all ranks. */
static tarn_status add_chunk(tarn_symmetric *pool, uint64_t offset, uint64_t bytes,
                             uint64_t deadline_ns)
{
    struct tn_symmetric_chunk *chunk = NULL;
    int files[TN_RANKS_MAX];
    int own = -1;
    tarn_status status = TARN_OK;

    if (tn_host_grow((void **)&pool->chunks, &pool->chunk_capacity, pool->chunk_count + 1,
                     sizeof *pool->chunks)) {
        chunk = &pool->chunks[pool->chunk_count++];
        *chunk = (struct tn_symmetric_chunk){.offset = offset, .bytes = bytes};
        tn_lock_acquire(&pool->lock);
        status = tn_offsets_prepare(&pool->offsets);
        tn_lock_release(&pool->lock);
        if (status == TARN_OK)
            status = make_own(pool, chunk, &own);
    } else {
        status = tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a chunk");
    }
    status = vote(pool, status, deadline_ns);
    if (status == TARN_OK) {
        status = tn_hub_exchange(&pool->group->hub, own, files, deadline_ns);
        if (status == TARN_ERR_PEER_LOST) {
            status = tn_group_blame(pool->group, status);
        } else if (status == TARN_ERR_BUSY || (status != TARN_OK && pool->group->rank == 0)) {
            tn_group_give_up(pool->group); /* the others have no descriptors to vote on */
        } else {
            if (status == TARN_OK && chunk != NULL)
                status = map_others(pool, chunk, files);
            for (uint32_t i = 0; i < pool->group->world; i++)
                tn_channel_close(&files[i]);
            status = vote(pool, status, deadline_ns);
        }
    }
    tn_channel_close(&own);
    return status;
}

static tarn_status compare(const tarn_group *group, const unsigned char *all, uint32_t step,
                           uint64_t own)
{
    for (uint32_t i = 0; i < group->world; i++) {
        uint64_t other;

        memcpy(&other, &all[(size_t)i * step], sizeof other);
        if (other != own)
            return tn_fail(
                TARN_ERR_WRONG_STATE,
                "the ranks of the group '%s' want other sizes: rank %u wants %llu bytes, "
                "and rank %u %llu",
                group->board.group, group->rank, (unsigned long long)own, i,
                (unsigned long long)other);
    }
    return TARN_OK;
}

/* Adds chunks up to the end. */
static tarn_status grow(tarn_symmetric *pool, uint64_t end, uint64_t deadline_ns)
{
    size_t count = pool->chunk_count;
    uint64_t begin = pool->offsets.bytes;
    tarn_status status = TARN_OK;

    TN_ASSERT(begin < end && end % TN_SYMMETRIC_UNIT == 0);
    for (uint64_t offset = begin; offset < end && status == TARN_OK;) {
        uint64_t bytes = tn_min(end - offset, CHUNK_BYTES_MAX);

        status = add_chunk(pool, offset, bytes, deadline_ns);
        offset += bytes;
    }
    tn_lock_acquire(&pool->lock);
    if (status == TARN_OK)
        status = tn_offsets_grow(&pool->offsets, end - begin);
    if (status == TARN_OK)
        tn_diary_add(&pool->diary, (struct tn_diary_entry){.kind = TN_DIARY_GROWTH,
                                                           .bytes = end - begin,
                                                           .offset = begin});
    tn_lock_release(&pool->lock);
    if (status != TARN_OK)
        tn_symmetric_drop_chunks(pool, count);
    return status;
}

tarn_status tn_growth_reserve(tarn_symmetric *pool, uint64_t bytes, uint64_t timeout_ns)
{
    tarn_group *group = pool->group;
    uint64_t deadline_ns = tn_group_deadline(timeout_ns);
    const unsigned char *all;
    uint32_t step;
    tarn_status status = tn_group_begin(group);

    if (status != TARN_OK)
        return status;
    status = tn_group_gather(group, TN_TOPIC_GROWTH, pool->number, &bytes, sizeof bytes,
                             deadline_ns, &all, &step);
    if (status == TARN_ERR_BUSY)
        tn_group_give_up(group);
    if (status == TARN_OK)
        status = compare(group, all, step, bytes);
    if (status == TARN_OK && bytes > pool->stride)
        status = tn_fail(TARN_ERR_ADDRESS_SPACE,
                         "%llu bytes are more than the stride of the symmetric pool, %llu",
                         (unsigned long long)bytes, (unsigned long long)pool->stride);
    if (status == TARN_OK && bytes > pool->offsets.bytes)
        status = grow(pool, tn_round_up(bytes, TN_SYMMETRIC_UNIT), deadline_ns);
    tn_group_end(group);
    return status;
}
