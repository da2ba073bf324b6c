// SPDX-License-Identifier: Apache-2.0
/* A word counts as an address if it lies in a segment, with memory or without. Earlier memory of a
 * region does not count: a scan looks through bytes of any kind, and not through parameters.
 *
 * Trade-offs: small blocks are copied one by one, with a call of the driver each. */
#include "inspect/scan.h"

#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "heap/live_index.h"
#include "pools/device.h"
#include "pools/opening.h"
#include "pools/staging.h"

enum { WORD_BYTES = 8, PIECES_MAX = 256 };

static const uint64_t buffer_bytes = (uint64_t)4 << 20;

/* Bytes of one block, behind each other in the buffer. */
struct piece {
    uint64_t address;
    uint64_t bytes;
    uint64_t offset; /* in the buffer */
};

static tarn_status no_memory(void)
{
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to look through a pool's bytes");
}

static size_t count_live(tarn_pool *pool)
{
    size_t count;

    tn_pool_lock(pool);
    count = tn_pool_live_count(pool);
    tn_pool_unlock(pool);
    return count;
}

/* Lists as many blocks as there is room for; returns the number of all. */
static size_t list_live(struct tn_scan *scan, size_t room)
{
    size_t count = 0;

    tn_pool_lock(scan->pool);
    for (struct tn_block *block = tn_live_first(scan->pool->segments.first); block != NULL;
         block = tn_live_next(block)) {
        if (block->state != TN_BLOCK_LIVE)
            continue;
        if (count < room)
            scan->blocks[count] = tn_describe_block(scan->pool, block);
        count += 1;
    }
    tn_pool_unlock(scan->pool);
    return count;
}

static tarn_status list_blocks(struct tn_scan *scan)
{
    size_t room = count_live(scan->pool);

    while (room > 0) { /* more may be live by then */
        scan->blocks = tn_host_alloc_unset(room, sizeof *scan->blocks);
        if (scan->blocks == NULL)
            return no_memory();
        scan->block_count = list_live(scan, room);
        if (scan->block_count <= room)
            break;
        room = scan->block_count;
        scan->block_count = 0;
        tn_host_free(scan->blocks);
        scan->blocks = NULL;
    }
    return TARN_OK;
}

tarn_status tn_scan_begin(struct tn_scan *scan, tarn_pool *pool, tn_cu_stream stream)
{
    struct tn_gpu *gpu = &pool->device->gpu;
    tarn_pool *staging;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    *scan = (struct tn_scan){.pool = pool, .stream = stream};
    if (tn_stream_is_closed(gpu, stream))
        return tn_fail(TARN_ERR_WRONG_STATE,
                       "the stream is being captured, or is the legacy default stream while a "
                       "blocking stream is: the bytes of a pool cannot be copied on it");
    status = tn_stream_meet(gpu, stream);
    if (status == TARN_OK)
        status = tn_event_create(gpu, stream, &scan->done);
    if (status == TARN_OK)
        status = tn_device_host_pool(pool->device, TN_HOST_STAGING, &staging);
    if (status == TARN_OK)
        status = tn_staging_take(staging, buffer_bytes, &scan->pinned);
    if (status == TARN_OK)
        status = list_blocks(scan); /* last: the program's functions may have been called */
    if (status != TARN_OK)
        tn_scan_end(scan);
    return status;
}

/* Enqueues the copy of the piece if its block is still live; else the piece has no bytes. The pool
 * is locked. */
static tarn_status copy(const struct tn_scan *scan, const tarn_block *of, struct piece *piece)
{
    const struct tn_block *block = tn_live_find(scan->pool, (uint64_t)(uintptr_t)of->address);

    if (block == NULL || block->state != TN_BLOCK_LIVE || block->sequence != of->sequence) {
        piece->bytes = 0;
        return TARN_OK;
    }
    return tn_stream_download(&scan->pool->device->gpu,
                              (char *)scan->pinned->address + piece->offset, piece->address,
                              piece->bytes, scan->stream);
}

/* Fills the buffer with the next bytes, and waits for them; *count: the number of pieces. */
static tarn_status fetch(struct tn_scan *scan, struct piece pieces[PIECES_MAX], size_t *count)
{
    struct tn_gpu *gpu = &scan->pool->device->gpu;
    uint64_t used = 0;
    tarn_status status = TARN_OK;

    *count = 0;
    tn_pool_lock(scan->pool);
    while (status == TARN_OK && tn_scan_goes_on(scan) && *count < PIECES_MAX &&
           used < buffer_bytes) {
        const tarn_block *block = &scan->blocks[scan->next];
        struct piece *piece = &pieces[*count];

        *piece = (struct piece){(uint64_t)(uintptr_t)block->address + scan->offset,
                                tn_min(block->bytes - scan->offset, buffer_bytes - used), used};
        scan->offset += piece->bytes;
        if (scan->offset == block->bytes) {
            scan->next += 1;
            scan->offset = 0;
        }
        status = copy(scan, block, piece);
        used = tn_round_up(used + piece->bytes, WORD_BYTES);
        *count += 1;
    }
    tn_pool_unlock(scan->pool);
    if (status == TARN_OK && (!tn_event_record(gpu, scan->done, scan->stream) ||
                              tn_event_wait(gpu, scan->done) != TN_EVENT_DONE))
        status = tn_gpu_is_lost(gpu) ? TARN_ERR_DEVICE_LOST : TARN_ERR_DRIVER;
    return status;
}

/* A block begins at a multiple of 512 bytes, and a piece at a multiple of a word. */
static tarn_status scan_piece(const struct tn_scan *scan, const struct piece *piece,
                              struct tn_references *references)
{
    const char *bytes = (const char *)scan->pinned->address + piece->offset;

    for (uint64_t at = 0; at + WORD_BYTES <= piece->bytes; at += WORD_BYTES) {
        struct tn_reference reference = {
            .at = piece->address + at, .node = TARN_NO_NODE, .place = TARN_PLACE_MEMORY};

        memcpy(&reference.address, bytes + at, WORD_BYTES);
        if (tn_address_table_find(reference.address) != NULL &&
            !tn_references_add(references, &reference))
            return no_memory();
    }
    return TARN_OK;
}

tarn_status tn_scan_read(struct tn_scan *scan, struct tn_references *references)
{
    struct piece pieces[PIECES_MAX];
    size_t count;
    tarn_status status = fetch(scan, pieces, &count);

    references->count = 0;
    for (size_t i = 0; status == TARN_OK && i < count; i++) {
        status = scan_piece(scan, &pieces[i], references);
        scan->scanned_bytes += pieces[i].bytes;
    }
    return status;
}

void tn_scan_end(struct tn_scan *scan)
{
    struct tn_gpu *gpu = scan->pool != NULL ? &scan->pool->device->gpu : NULL;

    if (scan->pinned != NULL)
        tn_staging_drop(scan->pool->device, scan->pinned);
    if (scan->done != NULL)
        tn_event_destroy(gpu, scan->done);
    tn_host_free(scan->blocks);
    *scan = (struct tn_scan){.pool = NULL};
}
