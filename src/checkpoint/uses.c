// SPDX-License-Identifier: Apache-2.0
/* The streams of all blocks stand one after the other. Revived blocks, which are in order too, find
 * their streams on a single walk.
 *
 * Uses in captures are not saved: no capture is under way when a checkpoint is taken, and its uses
 * have ended.
 *
 * Trade-offs: a word for each use, where many blocks have the same few streams. */
#include "checkpoint/uses.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "pools/device.h"

bool tn_saved_uses_add(tarn_checkpoint *checkpoint, const struct tn_block *block)
{
    size_t count = tn_uses_count(block);

    TN_ASSERT(tn_pool_is_locked(checkpoint->pool));
    if (count > 0) {
        if (!tn_host_grow((void **)&checkpoint->streams, &checkpoint->stream_capacity,
                          checkpoint->stream_count + count, sizeof(struct tn_known_stream *)))
            return false;
        tn_uses_save(&checkpoint->pool->device->streams, block,
                     &checkpoint->streams[checkpoint->stream_count]);
        checkpoint->stream_count += count; /* C6 */
        TN_ASSERT(checkpoint->stream_count <= checkpoint->stream_capacity);
    }
    return true;
}

void tn_saved_uses_forget(tarn_checkpoint *checkpoint)
{
    TN_ASSERT(tn_pool_is_locked(checkpoint->pool));
    for (size_t i = 0; i < checkpoint->stream_count; i++)
        tn_streams_release(&checkpoint->pool->device->streams, checkpoint->streams[i]);
    tn_host_free((void *)checkpoint->streams);
    checkpoint->streams = NULL;
    checkpoint->stream_capacity = 0;
    checkpoint->stream_count = 0;
}

tarn_status tn_saved_uses_make(const tarn_checkpoint *checkpoint, const size_t *indexes,
                               size_t count, struct tn_use ***uses)
{
    struct tn_use **lists;
    size_t block = 0;
    size_t at = 0;

    *uses = NULL;
    if (checkpoint->stream_count == 0 || count == 0)
        return TARN_OK;
    lists = tn_host_alloc(count, sizeof(struct tn_use *));
    if (lists == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to restore a checkpoint");
    for (size_t i = 0; i < count; i++) {
        tarn_status status;

        for (; block < indexes[i]; block++)
            at += checkpoint->blocks[block].use_count;                     /* C6 */
        TN_ASSERT(block == indexes[i] && block < checkpoint->block_count); /* in order */
        TN_ASSERT(at + checkpoint->blocks[block].use_count <= checkpoint->stream_count);
        if (checkpoint->blocks[block].use_count == 0)
            continue;
        status = tn_uses_make(&checkpoint->pool->device->streams, &checkpoint->streams[at],
                              checkpoint->blocks[block].use_count, &lists[i]);
        if (status != TARN_OK) {
            tn_saved_uses_drop(checkpoint, count, lists);
            return status;
        }
    }
    *uses = lists;
    return TARN_OK;
}

void tn_saved_uses_drop(const tarn_checkpoint *checkpoint, size_t count, struct tn_use **uses)
{
    for (size_t i = 0; uses != NULL && i < count; i++)
        tn_uses_drop(&checkpoint->pool->device->streams, uses[i]);
    tn_host_free((void *)uses);
}
