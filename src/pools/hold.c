// SPDX-License-Identifier: Apache-2.0
/* Holds are sets of chunk ids as bitmaps, so joining needs no memory at the time of a free: room for
 * every chunk of the pool is set aside when a chunk is mapped.
 *
 * The end of a claimant comes on a thread of the driver, inside a destructor that may not call the
 * driver and should not wait: it pushes the hold on the device's list and returns.
 *
 * Trade-offs: a bit for every chunk of the pool in every hold. A thousand chunks are 128 bytes. */
#include "pools/hold.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "pools/device.h"

enum { BITS = 64 };

static struct tn_records hold_records = TN_RECORDS_INIT(struct tn_hold);

static bool reserve_words(struct tn_hold *hold, size_t count)
{
    return tn_host_grow((void **)&hold->map, &hold->word_count, (count + BITS - 1) / BITS,
                        sizeof *hold->map);
}

tarn_status tn_hold_open(tarn_pool *pool, struct tn_order order, bool owned, struct tn_hold **hold)
{
    struct tn_hold *made = tn_records_take(&hold_records);

    TN_ASSERT(order.capture_id != 0);
    if (made == NULL || !reserve_words(made, pool->chunk_ids + 1)) {
        if (made != NULL)
            tn_records_give(&hold_records, made);
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a capture's hold");
    }
    made->magic = TN_HOLD_MAGIC;
    made->pool = pool;
    made->capture_id = order.capture_id;
    made->origin_id = order.stream_id;
    made->open = true;
    made->owned = owned;
    made->next = pool->holds;
    pool->holds = made;
    pool->hold_count += 1;
    pool->open_hold_count += 1;
    *hold = made;
    return TARN_OK;
}

struct tn_hold *tn_hold_find(tarn_pool *pool, uint64_t capture_id)
{
    for (struct tn_hold *hold = pool->holds; hold != NULL; hold = hold->next) {
        if (hold->open && hold->capture_id == capture_id)
            return hold;
    }
    return NULL;
}

bool tn_holds_reserve(tarn_pool *pool, size_t count)
{
    for (struct tn_hold *hold = pool->holds; hold != NULL; hold = hold->next) {
        if (hold->open && !reserve_words(hold, count))
            return false;
    }
    return true;
}

void tn_hold_add(struct tn_hold *hold, const struct tn_block *block)
{
    TN_ASSERT(hold->open);
    for (uint64_t offset = block->offset; offset < tn_block_end(block);) {
        struct tn_chunk *chunk = tn_segment_chunk_at(block->segment, offset);
        uint64_t bit = (uint64_t)1 << (chunk->id % BITS);

        TN_ASSERT(chunk->id / BITS < hold->word_count);
        if ((hold->map[chunk->id / BITS] & bit) == 0) {
            hold->map[chunk->id / BITS] |= bit;
            chunk->hold_count += 1;
        }
        offset = tn_chunk_end(chunk);
    }
}

void tn_hold_close(struct tn_hold *hold)
{
    tarn_pool *pool = hold->pool;

    TN_ASSERT(hold->open);
    hold->open = false;
    pool->open_hold_count -= 1;
    tn_arenas_end_capture(pool, hold->capture_id);
}

void tn_holds_close_unowned(tarn_pool *pool, uint64_t stream_id, uint64_t capture_id)
{
    for (struct tn_hold *hold = pool->holds; hold != NULL; hold = hold->next) {
        if (hold->open && !hold->owned && hold->origin_id == stream_id &&
            hold->capture_id != capture_id)
            tn_hold_close(hold);
    }
}

void tn_holds_close_routed(tarn_pool *pool)
{
    for (struct tn_hold *hold = pool->holds; hold != NULL; hold = hold->next) {
        if (hold->open && !hold->owned && hold->routed)
            tn_hold_close(hold);
    }
}

void tn_holds_close_capture(tarn_pool *pool, uint64_t capture_id, tn_cu_graph graph)
{
    for (struct tn_hold *hold = pool->holds; hold != NULL; hold = hold->next) {
        if (hold->open &&
            (hold->capture_id == capture_id || (graph != NULL && hold->graph == graph)))
            tn_hold_close(hold);
    }
}

void tn_hold_gone(void *gone)
{
    struct tn_hold *hold = gone;
    struct tn_hold *_Atomic *list;
    struct tn_hold *head;
    int claim = TN_CLAIM_HELD;

    if (!atomic_compare_exchange_strong(&hold->claim, &claim, TN_CLAIM_GONE))
        return;
    list = &hold->pool->device->gone_holds;
    head = atomic_load(list);
    do {
        atomic_store_explicit(&hold->next_gone, head, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak(list, &head, hold));
}

/* Takes the hold from its pool. */
static void leave_pool(struct tn_hold *hold)
{
    tarn_pool *pool = hold->pool;
    struct tn_hold **link = &pool->holds;

    if (hold->open)
        tn_hold_close(hold);
    for (size_t id = 0; id < pool->chunk_ids && id / BITS < hold->word_count; id++) {
        if ((hold->map[id / BITS] >> (id % BITS) & 1) != 0) {
            TN_ASSERT(pool->chunks[id] != NULL && pool->chunks[id]->hold_count > 0); /* P7 */
            pool->chunks[id]->hold_count -= 1;
        }
    }
    while (*link != hold)
        link = &(*link)->next;
    *link = hold->next;
    pool->hold_count -= 1;
    tn_host_free(hold->map);
    hold->map = NULL;
    hold->magic = 0;
}

void tn_hold_drop(struct tn_hold *hold)
{
    leave_pool(hold);
    tn_records_give(&hold_records, hold);
}

void tn_holds_orphan(tarn_pool *pool)
{
    struct tn_hold *next;

    for (struct tn_hold *hold = pool->holds; hold != NULL; hold = next) {
        int claim = TN_CLAIM_HELD;

        next = hold->next;
        if (atomic_compare_exchange_strong(&hold->claim, &claim, TN_CLAIM_ORPHANED))
            leave_pool(hold);
    }
}
