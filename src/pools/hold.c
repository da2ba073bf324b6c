// SPDX-License-Identifier: Apache-2.0
/* Holds are sets of chunk ids as bitmaps, so joining needs no memory at the time of a free: room for
 * every chunk of the pool is set aside when a chunk is mapped.
 *
 * The end of a claimant comes on a thread of the driver, inside a destructor that may not call the
 * driver and should not wait: it pushes the hold on the device's list and returns.
 *
 * The record of a passing hold that was closed is still known to its claimant, so it is recycled only
 * when that has gone: then it is spent.
 *
 * Trade-offs: a bit for every chunk of the pool in every hold. A thousand chunks are 128 bytes. */
#include "pools/hold.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "driver/exec.h"
#include "heap/sequence.h"
#include "pools/arenas.h"
#include "pools/device.h"
#include "pools/use.h"

static struct tn_records hold_records = TN_RECORDS_INIT(struct tn_hold);

static struct tn_hold *_Atomic spent_holds; /* linked by next_gone; pushed without a lock */

static void push(struct tn_hold *_Atomic *list, struct tn_hold *hold)
{
    struct tn_hold *head = atomic_load(list);

    do {
        atomic_store_explicit(&hold->next_gone, head, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak(list, &head, hold));
}

static void recycle_spent(void)
{
    struct tn_hold *hold = atomic_exchange(&spent_holds, NULL);

    while (hold != NULL) {
        struct tn_hold *next = atomic_load_explicit(&hold->next_gone, memory_order_relaxed);

        tn_records_give(&hold_records, hold);
        hold = next;
    }
}

tarn_status tn_hold_open(tarn_pool *pool, struct tn_order order, bool owned, struct tn_hold **hold)
{
    struct tn_hold *made;

    TN_ASSERT(order.capture_id != 0);
    recycle_spent();
    made = tn_records_take(&hold_records);
    if (made == NULL || !tn_chunk_set_reserve(&made->chunks, pool->chunk_ids + 1) ||
        !tn_blocks_add_cold(&pool->store)) { /* any block may be freed from now on, and wait */
        if (made != NULL) {
            tn_chunk_set_free(&made->chunks);
            tn_records_give(&hold_records, made);
        }
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a capture's hold");
    }
    made->magic = TN_HOLD_MAGIC;
    made->pool = pool;
    pool->hold_serial += 1;
    made->serial = pool->hold_serial;
    made->capture_id = order.capture_id;
    made->origin_id = order.stream_id;
    made->open = true;
    made->passing = pool->is_default;
    made->owned = owned;
    made->next = pool->holds;
    pool->holds = made;
    pool->hold_count += 1;
    pool->open_hold_count += 1;
    if (!owned)
        atomic_fetch_add(&pool->device->user_hold_count, 1);
    *hold = made;
    return TARN_OK;
}

struct tn_hold *tn_hold_find(const tarn_pool *pool, uint64_t capture_id)
{
    for (struct tn_hold *hold = pool->holds; hold != NULL; hold = hold->next) {
        if (hold->open && hold->capture_id == capture_id)
            return hold;
    }
    return NULL;
}

const struct tn_hold *tn_hold_find_graph(const tarn_pool *pool, tn_cu_graph graph)
{
    const struct tn_hold *found = NULL;

    for (const struct tn_hold *hold = pool->holds; hold != NULL; hold = hold->next) {
        if (hold->graph == graph && (found == NULL || hold->open))
            found = hold;
    }
    return found;
}

const struct tn_hold *tn_holds_select(tarn_pool *pool, tn_cu_graph keeper)
{
    const struct tn_hold *first = NULL;

    for (struct tn_hold *hold = keeper != NULL ? pool->holds : NULL; hold != NULL;
         hold = hold->next) {
        if (hold->keeper != keeper)
            continue;
        hold->selected = first;
        first = hold;
    }
    return first;
}

void tn_holds_forget_graph(tarn_pool *pool, tn_cu_graph graph)
{
    for (struct tn_hold *hold = pool->holds; hold != NULL; hold = hold->next) {
        if (!hold->open && hold->graph == graph)
            hold->graph = NULL;
    }
}

bool tn_holds_are_open(const tarn_pool *pool, uint64_t serial)
{
    for (const struct tn_hold *hold = pool->holds; hold != NULL; hold = hold->next) {
        if (hold->open && hold->serial <= serial)
            return true;
    }
    return false;
}

bool tn_holds_reserve(tarn_pool *pool, size_t count)
{
    for (struct tn_hold *hold = pool->holds; hold != NULL; hold = hold->next) {
        if (hold->open && !tn_chunk_set_reserve(&hold->chunks, count))
            return false;
    }
    return true;
}

void tn_hold_add(struct tn_hold *hold, const struct tn_block *block)
{
    TN_ASSERT(hold->open);
    for (uint64_t offset = block->offset; offset < tn_block_end(block);) {
        struct tn_chunk *chunk = tn_segment_chunk_at(block->segment, offset);

        if (tn_chunk_set_add(&hold->chunks, chunk))
            chunk->hold_count += 1;
        offset = tn_chunk_end(chunk);
    }
}

uint64_t tn_holds_bytes_in(const tarn_pool *pool, size_t word, uint64_t bits)
{
    uint64_t bytes = 0;

    for (; bits != 0; bits &= bits - 1)
        bytes += pool->chunks[TN_CHUNK_SET_BITS * word + (size_t)__builtin_ctzll(bits)]->bytes;
    return bytes;
}

static bool is_used_in(const struct tn_block *block, uint64_t capture_id)
{
    const struct tn_use *use = tn_block_uses(block);

    if (tn_block_order(block).capture_id == capture_id)
        return true;
    while (use != NULL && use->order.capture_id != capture_id)
        use = use->next;
    return use != NULL;
}

bool tn_holds_add_freed(tarn_pool *pool, const struct tn_block *block)
{
    bool added = false;

    if (pool->open_hold_count == 0)
        return false;
    for (struct tn_hold *hold = pool->holds; hold != NULL; hold = hold->next) {
        if (!hold->open || (hold->passing && !is_used_in(block, hold->capture_id)))
            continue;
        tn_hold_add(hold, block);
        added = true;
    }
    return added;
}

static void end_capture(struct tn_hold *hold)
{
    tarn_pool *pool = hold->pool;

    TN_ASSERT(hold->open);
    if (hold->mark != NULL)
        tn_event_destroy(&pool->device->gpu, hold->mark);
    hold->mark = NULL;
    hold->open = false;
    hold->end_mark = tn_next_sequence();
    pool->open_hold_count -= 1;
    if (!hold->owned)
        atomic_fetch_sub(&pool->device->user_hold_count, 1);
    tn_arenas_end_capture(pool, hold->capture_id);
}

/* The hold has not the chunk any more. proven: nor does anything run that it stood for. */
static void let_go(struct tn_chunk *chunk, bool proven)
{
    TN_ASSERT(chunk != NULL && chunk->hold_count > 0); /* P7 */
    chunk->hold_count -= 1;
    if (tn_chunk_is_of_work(chunk))
        return;
    if (!proven) {
        chunk->outside_stamp = chunk->freed_stamp;
    } else if (chunk->hold_count == 0) { /* P26 */
        chunk->was_used = chunk->was_used || chunk->freed_stamp > chunk->outside_stamp;
        chunk->freed_stamp = chunk->outside_stamp;
    }
}

/* Takes the hold from its pool. */
static void leave_pool(struct tn_hold *hold, bool proven)
{
    tarn_pool *pool = hold->pool;
    struct tn_hold **link = &pool->holds;

    if (hold->open)
        end_capture(hold);
    for (size_t id = 0; id < pool->chunk_ids; id++) {
        if (tn_chunk_set_has_id(&hold->chunks, id))
            let_go(pool->chunks[id], proven);
    }
    while (*link != hold)
        link = &(*link)->next;
    *link = hold->next;
    pool->hold_count -= 1;
    tn_pending_end_captured(pool);
    tn_births_drop(&hold->births);
    tn_chunk_set_free(&hold->chunks);
    hold->magic = 0;
}

/* Takes it from its pool before its claimant is gone; false when that has gone by now, and the next reap
 * takes it. */
static bool orphan(struct tn_hold *hold)
{
    int claim = TN_CLAIM_HELD;

    if (!atomic_compare_exchange_strong(&hold->claim, &claim, TN_CLAIM_LEAVING))
        return false;
    leave_pool(hold, false);
    claim = TN_CLAIM_LEAVING;
    if (!atomic_compare_exchange_strong(&hold->claim, &claim, TN_CLAIM_ORPHANED))
        push(&spent_holds, hold);
    return true;
}

void tn_hold_close(struct tn_hold *hold)
{
    tarn_pool *pool = hold->pool;

    end_capture(hold);
    if (hold->passing)
        (void)orphan(hold);
    tn_pending_end_captured(pool);
}

static bool is_over(const struct tn_hold *hold)
{
    return hold->mark == NULL || !tn_capture_goes_on(&hold->pool->device->gpu, hold->mark);
}

bool tn_hold_goes_on(const struct tn_hold *hold)
{
    return hold->owned || !is_over(hold);
}

/* route_id: 0: whatever route led there. */
static bool close_over(tarn_pool *pool, uint64_t route_id)
{
    struct tn_hold *next;
    bool any = false;

    for (struct tn_hold *hold = pool->holds; hold != NULL; hold = next) {
        next = hold->next;
        if (!hold->open || hold->owned || (route_id != 0 && hold->route_id != route_id) ||
            !is_over(hold))
            continue;
        tn_hold_close(hold);
        any = true;
    }
    return any;
}

bool tn_holds_close_over(tarn_pool *pool)
{
    return close_over(pool, 0);
}

bool tn_holds_close_routed(tarn_pool *pool, uint64_t route_id)
{
    return close_over(pool, route_id);
}

uint64_t tn_holds_end_mark(tarn_pool *pool, tn_cu_graph keeper, bool *open)
{
    uint64_t mark = 0;

    *open = false;
    for (const struct tn_hold *hold = tn_holds_select(pool, keeper); hold != NULL;
         hold = hold->selected) {
        *open = *open || hold->open;
        if (hold->end_mark > mark)
            mark = hold->end_mark;
    }
    return mark;
}

void tn_holds_close_capture(tarn_pool *pool, uint64_t capture_id, tn_cu_graph graph)
{
    struct tn_hold *next;

    for (struct tn_hold *hold = pool->holds; hold != NULL; hold = next) {
        next = hold->next;
        if (hold->open &&
            (hold->capture_id == capture_id || (graph != NULL && hold->graph == graph)))
            tn_hold_close(hold);
    }
}

struct tn_hold *tn_hold_find_owned(tarn_pool *pool, uint64_t capture_id)
{
    for (struct tn_hold *hold = pool->holds; hold != NULL; hold = hold->next) {
        if (hold->owned && hold->capture_id == capture_id)
            return hold;
    }
    return NULL;
}

struct tn_left_capture tn_hold_take_left(tarn_pool *pool, uint64_t capture_id)
{
    struct tn_left_capture left = {0};
    struct tn_hold *hold = tn_hold_find_owned(pool, capture_id);

    /* Where the claimant is gone the graph is, and its capture with it: the stream may be gone, too. */
    if (hold == NULL || atomic_load(&hold->claim) != TN_CLAIM_HELD)
        return left;
    left = hold->left;
    hold->left = (struct tn_left_capture){0};
    for (hold = pool->holds; hold != NULL; hold = hold->next) {
        if (hold->left.capture_id == left.capture_id)
            left.capture_id = 0;
    }
    return left;
}

uint64_t tn_hold_tell_owner(struct tn_hold *hold)
{
    if (hold->owner_gone == NULL)
        return 0;
    TN_ASSERT(hold->pool->capture_count > 0);
    atomic_store(hold->owner_gone, true);
    hold->owner_gone = NULL;
    hold->pool->capture_count -= 1;
    return hold->capture_id;
}

void tn_hold_gone(void *gone)
{
    struct tn_hold *hold = gone;
    int claim = TN_CLAIM_HELD;

    if (atomic_compare_exchange_strong(&hold->claim, &claim, TN_CLAIM_GONE)) {
        push(&hold->pool->device->gone_holds, hold);
        return;
    }
    if (claim == TN_CLAIM_LEAVING &&
        atomic_compare_exchange_strong(&hold->claim, &claim, TN_CLAIM_GONE))
        return; /* whoever makes it leave sees that */
    TN_ASSERT(claim == TN_CLAIM_ORPHANED);
    push(&spent_holds, hold);
}

void tn_holds_expect(tarn_pool *pool, tn_cu_graph keeper)
{
    for (struct tn_hold *hold = keeper != NULL ? pool->holds : NULL; hold != NULL;
         hold = hold->next) {
        if (hold->keeper != keeper)
            continue;
        hold->expected = true;
        hold->keeper = NULL;
    }
}

void tn_hold_keep_by(struct tn_hold *hold, tn_cu_graph keeper)
{
    const struct tn_hold *other = hold->next; /* it is the newest */

    while (other != NULL && other->keeper != keeper)
        other = other->next;
    hold->beside = other != NULL;
    hold->keeper = keeper;
}

uint64_t tn_holds_count_graphs(const tarn_pool *pool)
{
    uint64_t count = 0;

    for (const struct tn_hold *hold = pool->holds; hold != NULL; hold = hold->next)
        count += !hold->open && !hold->beside;
    return count;
}

bool tn_holds_are_kept_by(const tarn_pool *pool, tn_cu_graph keeper)
{
    const struct tn_hold *hold = pool->holds;

    while (hold != NULL && (hold->open || hold->keeper == keeper))
        hold = hold->next;
    return hold == NULL;
}

bool tn_holds_are_expected(const tarn_pool *pool)
{
    const struct tn_hold *hold = pool->holds;

    while (hold != NULL && !hold->expected)
        hold = hold->next;
    return hold != NULL;
}

void tn_holds_expect_none(tarn_pool *pool)
{
    for (struct tn_hold *hold = pool->holds; hold != NULL; hold = hold->next)
        hold->expected = false;
}

void tn_hold_drop(struct tn_hold *hold)
{
    leave_pool(hold, true);
    tn_records_give(&hold_records, hold);
}

void tn_holds_orphan(tarn_pool *pool)
{
    struct tn_hold *next;

    for (struct tn_hold *hold = pool->holds; hold != NULL; hold = next) {
        next = hold->next;
        (void)orphan(hold);
    }
}

void tn_holds_end_passing(tarn_pool *pool)
{
    struct tn_hold *next;

    for (struct tn_hold *hold = pool->holds; hold != NULL; hold = next) {
        next = hold->next;
        if (hold->open && hold->passing)
            tn_hold_close(hold);
    }
}
