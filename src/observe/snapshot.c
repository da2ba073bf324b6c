// SPDX-License-Identifier: Apache-2.0
/* All pools are stopped together and counted. If there is room, each of them is copied. Otherwise
 * they go on, room is made, and all begins anew. The memory of the copy is thus taken, and its pages
 * come, while nobody waits. The count is an upper bound, and looks at no block. A FREE block follows
 * a block that is not free, or begins with a chunk (P2, P3). A segment of the snapshot begins with a
 * chunk, too.
 *
 * A segment of a pool is cut where nothing is mapped, and where another heap owns the chunks. The
 * pieces are the segments of the snapshot. A PENDING block that a poll has found unused is FREE
 * here, as in statistics and layouts. The driver grants addresses in any order, so segments are
 * sorted behind the unlock.
 *
 * Trade-offs: the bound is up to twice the need, in memory that goes with the snapshot. Pages that
 * came during the copy would be the larger part of its time. */
#include "observe/snapshot.h"

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "observe/extents.h"
#include "observe/lists.h"
#include "observe/snapshot_live.h"
#include "observe/snapshot_parts.h"
#include "pools/pool.h"
#include "pools/visit.h"

struct taking {
    struct tn_snapshot_counts need; /* an upper bound, when last counted */
    struct tn_snapshot_counts room;
    struct tn_snapshot_counts used;
    unsigned tries;
    struct tn_snapshot *made; /* has the room; NULL: there is none */
    struct tn_snapshot_arrays at;
};

/* PENDING blocks that have ended are FREE here, and are counted by nobody. */
static bool count_pool(tarn_pool *pool, void *context)
{
    struct tn_snapshot_counts *need = context;

    TN_ASSERT(tn_pool_is_locked(pool));
    need->pools += 1;
    need->segments += pool->chunks.ids;
    need->blocks += 2 * (tn_pool_live_count(pool) + (size_t)tn_pool_pending_count(pool) +
                         tn_pool_discarded_count(pool)) +
                    pool->chunks.ids;
    return false;
}

/* Adds the block to the newest segment. */
static void add_block(struct taking *taking, const struct tn_block *block)
{
    tarn_snapshot_segment *segment = &taking->at.segments[taking->used.segments - 1];
    tarn_snapshot_block *made = &taking->at.blocks[taking->used.blocks];
    tarn_extent_state state = tn_extent_state(block);
    size_t bytes = tn_block_bytes(block);

    if (state == TARN_EXTENT_FREE && segment->block_count > 0 &&
        made[-1].state == TARN_EXTENT_FREE) { /* pending blocks that have ended are FREE here */
        made[-1].block_bytes += bytes;
        segment->bytes += bytes;
        return;
    }
    TN_ASSERT(taking->used.blocks < taking->room.blocks);
    *made = (tarn_snapshot_block){.address = (void *)(uintptr_t)tn_block_address(block),
                                  .block_bytes = bytes,
                                  .state = state};
    taking->used.blocks += 1;
    segment->bytes += bytes;
    segment->block_count += 1;
    taking->at.stacks[taking->used.blocks - 1] =
        state != TARN_EXTENT_FREE ? tn_snapshot_stack_of_record(block) : 0;
    if (state == TARN_EXTENT_FREE)
        return;
    made->bytes = block->requested;
    made->sequence = block->sequence;
    made->tag = tn_block_tag(block);
    segment->active_bytes += bytes;
    segment->requested_bytes += made->bytes;
    if (state != TARN_EXTENT_PENDING)
        segment->allocated_bytes += bytes;
}

static void add_segment(struct taking *taking, const struct tn_heap *owner,
                        const struct tn_block *first)
{
    tarn_snapshot_segment *made = &taking->at.segments[taking->used.segments];

    TN_ASSERT(taking->used.segments < taking->room.segments);
    *made = (tarn_snapshot_segment){.address = (void *)(uintptr_t)tn_block_address(first),
                                    .pool = &taking->at.pools[taking->used.pools],
                                    .blocks = &taking->at.blocks[taking->used.blocks],
                                    .is_small = owner->kind == TN_HEAP_SMALL};
    tn_snapshot_describe_order(owner->arena, made);
    taking->used.segments += 1;
}

/* Chunks lie in a segment of the snapshot whole. */
static uint64_t held_bytes_of(const struct tn_segment *of, const tarn_snapshot_segment *segment)
{
    uint64_t offset = (uintptr_t)segment->address - of->base;
    const uint64_t end = offset + segment->bytes;
    uint64_t held = 0;

    while (offset < end) {
        const struct tn_chunk *chunk = tn_segment_chunk_at(of, offset);

        TN_ASSERT(chunk != NULL && chunk->offset == offset);
        held += chunk->hold_count > 0 ? chunk->bytes : 0;
        offset = tn_chunk_end(chunk);
    }
    TN_ASSERT(offset == end);
    return held;
}

/* Only blocks that lie in idle memory may keep a heap that is not their chunks' (P2). The address
 * table is asked for these alone. */
static const struct tn_heap *owner_of(const struct tn_block *block)
{
    return block->heap != NULL && block->heap->is_idle ? tn_block_owner(block) : block->heap;
}

static void copy_segment(struct taking *taking, tarn_snapshot_pool *pool,
                         const struct tn_segment *segment)
{
    struct tn_block_step step = tn_block_step_by(1);
    const struct tn_heap *owner = NULL; /* of the segment in the making; NULL: there is none */
    size_t first = taking->used.segments;

    for (const struct tn_block *block = segment->first_block; block != NULL;
         block = tn_block_next(block, &step)) {
        const struct tn_heap *heap = owner_of(block);

        if (heap != NULL && heap != owner)
            add_segment(taking, heap, block);
        if (heap != NULL)
            add_block(taking, block);
        owner = heap;
    }
    for (size_t i = first; i < taking->used.segments; i++) {
        taking->at.segments[i].held_bytes = held_bytes_of(segment, &taking->at.segments[i]);
        pool->mapped_bytes += taking->at.segments[i].bytes;
    }
}

static bool copy_pool(tarn_pool *pool, void *context)
{
    struct taking *taking = context;
    tarn_snapshot_pool *made = &taking->at.pools[taking->used.pools];

    TN_ASSERT(tn_pool_is_locked(pool));
    if (!tn_pool_is_listed(pool))
        return false;
    TN_ASSERT(taking->used.pools < taking->room.pools);
    tn_snapshot_describe_pool(pool, made);
    for (const struct tn_segment *segment = tn_pool_first_segment(pool); segment != NULL;
         segment = tn_pool_next_segment(pool, segment))
        copy_segment(taking, made, segment);
    taking->used.pools += 1;
    return false;
}

static bool is_enough(const struct taking *taking)
{
    return taking->made != NULL && taking->need.pools <= taking->room.pools &&
           taking->need.segments <= taking->room.segments &&
           taking->need.blocks <= taking->room.blocks;
}

/* Memory for what is needed, and a part more for what comes meanwhile: an eighth, and twice as much
 * after each try. False: no memory. */
static bool make_room(struct taking *taking)
{
    const struct tn_snapshot_counts *need = &taking->need;
    const unsigned shift = taking->tries < 3 ? 3 - taking->tries : 0;

    taking->tries += 1;
    taking->room = (struct tn_snapshot_counts){
        .pools = need->pools + (need->pools >> shift) + 1,
        .segments = need->segments + (need->segments >> shift) + 8,
        .blocks = need->blocks + (need->blocks >> shift) + 64,
    };
    tn_host_free(taking->made);
    taking->made = tn_snapshot_make(&taking->room, &taking->at);
    if (taking->made != NULL) /* pools are stopped meanwhile */
        tn_host_touch(taking->made, tn_snapshot_bytes(&taking->room));
    return taking->made != NULL;
}

/* The next two copy what there is room for, or say what is needed. */

static bool copy_one(tarn_pool *pool, struct taking *taking)
{
    bool copied;

    tn_pool_lock(pool);
    (void)count_pool(pool, &taking->need);
    copied = is_enough(taking);
    if (copied)
        (void)copy_pool(pool, taking);
    tn_pool_unlock(pool);
    return copied;
}

static bool copy_all(tarn_device *device, struct taking *taking)
{
    bool copied;

    tn_lock_acquire(&device->lock);
    tn_device_stop(device);
    tn_device_look(device, count_pool, &taking->need);
    copied = is_enough(taking);
    if (copied)
        tn_device_look(device, copy_pool, taking);
    tn_device_resume(device);
    tn_lock_release(&device->lock);
    return copied;
}

struct tn_snapshot *tn_snapshot_take_by_walk(tarn_device *device, tarn_pool *pool)
{
    struct taking taking = {.made = NULL};

    while (!(pool != NULL ? copy_one(pool, &taking) : copy_all(device, &taking))) {
        if (!make_room(&taking))
            return NULL;
        taking.need = (struct tn_snapshot_counts){.blocks = 0};
    }
    tn_snapshot_finish(taking.made, &taking.at, &taking.used);
    return taking.made;
}

tarn_status tn_snapshot_take(tarn_device *device, tarn_pool *pool, tarn_snapshot **snapshot)
{
    struct tn_snapshot *made = NULL;

    TN_ASSERT(tn_lock_none_held() && (pool == NULL || pool->device == device));
    if (device->history.file.head != NULL &&
        !tn_ring_skips(&device->history.ring, TN_RING_SKIPS_OWN))
        made = tn_snapshot_take_live(device, pool);
    if (made == NULL)
        made = tn_snapshot_take_by_walk(device, pool);
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a snapshot");
    tn_snapshot_describe_device(device, made);
    if (!tn_snapshot_stacks_copy(&made->stacks, device)) {
        tn_host_free(made);
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for the stacks of a snapshot");
    }
    tn_note_write(tn_device_ring(device), TN_NOTE_SNAPSHOT,
                  pool != NULL ? pool->holds.pool_serial : 0, TN_OPERANDS(made->read.block_count));
    *snapshot = &made->read;
    return TARN_OK;
}
