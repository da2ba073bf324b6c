// SPDX-License-Identifier: Apache-2.0
/* Copies out and in. Blocks that lie side by side without padding are copied as one.
 *
 * The memory is an ordinary block of the default pool on the stream that copies out, so it is freed
 * like any other: what other streams still copy from it is a recorded use.
 *
 * Trade-offs: a copy for every run of neighbours; many small blocks would be gathered faster by a
 * kernel. No checksums. */
#include "checkpoint/contents.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "pools/device.h"

static uint64_t address_of(const struct tn_saved_block *block)
{
    return block->segment->base + block->offset;
}

/* The bytes of the run of blocks from the i-th on that lie side by side, up to and with the first
 * that its user did not ask for in full: what rounding added is nobody's, and may never have been
 * written. *next is the block behind the run. */
static uint64_t run_bytes(const tarn_checkpoint *checkpoint, size_t i, size_t *next)
{
    const struct tn_saved_block *blocks = checkpoint->blocks;
    uint64_t start = address_of(&blocks[i]);
    uint64_t bytes = blocks[i].requested;

    while (i + 1 < checkpoint->block_count && address_of(&blocks[i + 1]) == start + bytes) {
        i += 1;
        bytes += blocks[i].requested;
    }
    *next = i + 1;
    return bytes;
}

/* Enqueues all copies, out of the pool or back into it. */
static tarn_status copy_all(const tarn_checkpoint *checkpoint, tarn_stream stream, bool out)
{
    struct tn_gpu *gpu = &checkpoint->pool->device->gpu;
    uint64_t saved = (uint64_t)(uintptr_t)checkpoint->contents;
    tarn_status status = TARN_OK;

    for (size_t i = 0; i < checkpoint->block_count && status == TARN_OK;) {
        uint64_t live = address_of(&checkpoint->blocks[i]);
        uint64_t bytes = run_bytes(checkpoint, i, &i);

        status = tn_stream_copy(gpu, out ? saved : live, out ? live : saved, bytes, stream);
        saved += tn_round_up(bytes, TN_BLOCK_BYTES_MIN); /* C3 */
    }
    return status;
}

/* The block of the default pool that has the contents; its pool is locked. */
static struct tn_block *lock_memory(const tarn_checkpoint *checkpoint)
{
    tarn_pool *pool = checkpoint->pool->device->default_pool;
    struct tn_block *block;

    tn_lock_acquire(&pool->lock);
    block = tn_live_find(&pool->live, (uint64_t)(uintptr_t)checkpoint->contents);
    TN_ASSERT(block != NULL && block->state == TN_BLOCK_LIVE); /* ours alone */
    return block;
}

static void free_memory(tarn_checkpoint *checkpoint)
{
    tarn_pool *pool = checkpoint->pool->device->default_pool;

    tn_pool_free_block(pool, lock_memory(checkpoint));
    tn_lock_release(&pool->lock);
    checkpoint->contents = NULL;
}

tarn_status tn_contents_save(tarn_checkpoint *checkpoint, tarn_stream stream,
                             struct tn_order order)
{
    tarn_device *device = checkpoint->pool->device;
    struct tn_request request = {
        .requested = checkpoint->live_bytes, .alignment = TN_BLOCK_BYTES_MIN, .order = order};
    tarn_status status;

    if (checkpoint->live_bytes == 0)
        return TARN_OK;
    status = tn_event_create(&device->gpu, stream, &checkpoint->copied);
    if (status != TARN_OK)
        return status;
    status = tn_pool_allocate(device->default_pool, &request, &checkpoint->contents);
    if (status != TARN_OK)
        goto destroy_event;
    checkpoint->order = order;
    status = copy_all(checkpoint, stream, true);
    if (status == TARN_OK && !tn_event_record(&device->gpu, checkpoint->copied, stream))
        status = TARN_ERR_DRIVER;
    if (status == TARN_OK)
        return TARN_OK;
    free_memory(checkpoint); /* copies under way are ordered before its reuse on this stream */
destroy_event:
    tn_event_destroy(&device->gpu, checkpoint->copied);
    checkpoint->copied = NULL;
    return status;
}

void tn_contents_add_use(tarn_checkpoint *checkpoint, struct tn_use *use)
{
    struct tn_block *block = lock_memory(checkpoint);
    tarn_pool *pool = checkpoint->pool->device->default_pool;

    for (struct tn_use **link = &block->uses; *link != NULL; link = &(*link)->next) {
        struct tn_use *older = *link;

        if (tn_order_equal(older->order, use->order)) {
            *link = older->next;
            tn_use_end(&pool->device->gpu, older);
            break;
        }
    }
    tn_use_add_recorded(block, use);
    tn_lock_release(&pool->lock);
}

tarn_status tn_contents_load(tarn_checkpoint *checkpoint, tarn_stream stream,
                             struct tn_order order, struct tn_use *use)
{
    struct tn_gpu *gpu = &checkpoint->pool->device->gpu;
    tarn_status status = TARN_OK;

    if (!tn_order_equal(order, checkpoint->order))
        status = tn_stream_wait(gpu, stream, checkpoint->copied);
    if (status == TARN_OK)
        status = copy_all(checkpoint, stream, false);
    if (status == TARN_OK && !tn_event_record(gpu, use->event, stream))
        status = TARN_ERR_DRIVER;
    return status;
}

void tn_contents_drop(tarn_checkpoint *checkpoint)
{
    if (checkpoint->contents == NULL)
        return;
    free_memory(checkpoint);
    tn_event_destroy(&checkpoint->pool->device->gpu, checkpoint->copied);
}
