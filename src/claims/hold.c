// SPDX-License-Identifier: Apache-2.0
/* Holds are sets of chunk ids as bitmaps. Joining a hold at the time of a free needs no memory:
 * room for every chunk of the pool is set aside when a chunk is mapped.
 *
 * The end of a claimant comes on a thread of the driver, inside a destructor. The destructor may
 * not call the driver and should not wait: it pushes the hold on the device's list and returns.
 *
 * A passing hold which closes leaves before its claimant's end. The claimant still knows the
 * record, which is recycled only after this end: it is then spent. The two threads agree by the
 * claim, with either side first:
 *
 *     the claimant's end (tn_hold_gone)         a hold leaves without it (orphan)
 *                                               HELD to LEAVING (tn_hold_begin_orphan)
 *                                               tn_hold_leave
 *     LEAVING to GONE: returns
 *                                               finds GONE: the record is spent
 *     or
 *                                               LEAVING to ORPHANED (tn_hold_end_orphan)
 *     finds ORPHANED: the record is spent
 *
 * If the claimant's end comes before HELD becomes LEAVING, it writes GONE, and the next reap takes
 * the hold.
 *
 * Trade-offs: a bit for every chunk of the pool in every hold. A thousand chunks are 128 bytes. */
#include "claims/hold.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "claims/use.h"
#include "driver/exec.h"
#include "heap/sequence.h"
#include "claims/usable.h"

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

static void put(struct tn_hold *hold, enum tn_index_key by, uint64_t key)
{
    struct tn_index_entry *entry = &hold->entries[by];

    TN_ASSERT(tn_lock_is_held(hold->holds->lock));
    if (entry->key == 0) {
        entry->hold = hold;
        entry->pool = hold->holds->pool;
        entry->pool_serial = hold->holds->pool_serial;
    }
    if (entry->key != key)
        tn_pool_index_put(hold->holds->index, by, entry, key); /* P31 */
}

static struct tn_hold *first_of(const struct tn_holds *holds, enum tn_index_key by, uint64_t key)
{
    TN_ASSERT(tn_lock_is_held(holds->lock));
    return key != 0 ? tn_pool_index_first(holds->index, by, holds->pool, key) : NULL;
}

static struct tn_hold *next_of(const struct tn_hold *hold, enum tn_index_key by)
{
    TN_ASSERT(tn_lock_is_held(hold->holds->lock));
    return tn_pool_index_next(hold->holds->index, &hold->entries[by]);
}

/* Holds of no capture are found by none. */
static uint64_t key_of_capture(uint64_t capture_id)
{
    return capture_id != TN_HOLD_NO_CAPTURE ? capture_id : 0;
}

void tn_hold_set_graph(struct tn_hold *hold, tn_cu_graph graph)
{
    hold->graph = graph;
    put(hold, TN_BY_GRAPH, (uintptr_t)graph);
}

void tn_hold_set_keeper(struct tn_hold *hold, tn_cu_graph keeper)
{
    hold->keeper = keeper;
    put(hold, TN_BY_KEEPER, (uintptr_t)keeper);
}

static void enter_lists(struct tn_holds *holds, struct tn_hold *hold)
{
    hold->next = holds->first;
    if (hold->next != NULL)
        hold->next->previous = hold;
    holds->first = hold;
    holds->count += 1;
    hold->open_next = holds->open;
    if (hold->open_next != NULL)
        hold->open_next->open_previous = hold;
    holds->open = hold;
    holds->open_count += 1;
}

static void leave_open(struct tn_holds *holds, const struct tn_hold *hold)
{
    if (hold->open_previous != NULL)
        hold->open_previous->open_next = hold->open_next;
    else
        holds->open = hold->open_next;
    if (hold->open_next != NULL)
        hold->open_next->open_previous = hold->open_previous;
    holds->open_count -= 1;
}

static void leave_list(struct tn_holds *holds, const struct tn_hold *hold)
{
    if (hold->previous != NULL)
        hold->previous->next = hold->next;
    else
        holds->first = hold->next;
    if (hold->next != NULL)
        hold->next->previous = hold->previous;
    holds->count -= 1;
}

tarn_status tn_hold_make(struct tn_holds *holds, struct tn_order order, bool owned, bool passing,
                         struct tn_hold **hold)
{
    struct tn_hold *made;

    TN_ASSERT(tn_lock_is_held(holds->lock));
    TN_ASSERT(order.capture_id != 0);
    recycle_spent();
    made = tn_records_take(&hold_records);
    if (made == NULL || !tn_chunk_set_reserve(&made->chunks, holds->chunks->ids + 1)) {
        if (made != NULL)
            tn_records_give(&hold_records, made);
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a capture's hold");
    }
    made->magic = TN_HOLD_MAGIC;
    made->holds = holds;
    holds->serial += 1;
    made->serial = holds->serial;
    made->capture_id = order.capture_id;
    made->origin_id = order.stream_id;
    made->open = true;
    made->passing = passing;
    made->owned = owned;
    made->node_count = TN_NODES_UNKNOWN;
    enter_lists(holds, made);
    if (order.capture_id != TN_HOLD_NO_CAPTURE)
        put(made, TN_BY_CAPTURE, order.capture_id);
    if (!owned)
        atomic_fetch_add(holds->user_count, 1);
    *hold = made;
    return TARN_OK;
}

struct tn_hold *tn_hold_find(const struct tn_holds *holds, uint64_t capture_id)
{
    struct tn_hold *hold =
        holds->open_count > 0 ? first_of(holds, TN_BY_CAPTURE, key_of_capture(capture_id)) : NULL;

    while (hold != NULL && !hold->open)
        hold = next_of(hold, TN_BY_CAPTURE);
    return hold;
}

bool tn_holds_have(const struct tn_holds *holds, uint64_t capture_id, tn_cu_graph graph)
{
    return first_of(holds, TN_BY_CAPTURE, key_of_capture(capture_id)) != NULL ||
           first_of(holds, TN_BY_GRAPH, (uintptr_t)graph) != NULL;
}

const struct tn_hold *tn_hold_find_graph(const struct tn_holds *holds, tn_cu_graph graph)
{
    const struct tn_hold *found = NULL;

    for (const struct tn_hold *hold = first_of(holds, TN_BY_GRAPH, (uintptr_t)graph); hold != NULL;
         hold = next_of(hold, TN_BY_GRAPH)) {
        if (found == NULL || (hold->open && (!found->open || hold->serial < found->serial)) ||
            (!hold->open && !found->open && hold->serial > found->serial))
            found = hold;
    }
    return found;
}

/* Oldest first: the index has the newest first. */
const struct tn_hold *tn_holds_select(struct tn_holds *holds, tn_cu_graph keeper)
{
    const struct tn_hold *first = NULL;

    for (struct tn_hold *hold = first_of(holds, TN_BY_KEEPER, (uintptr_t)keeper); hold != NULL;
         hold = next_of(hold, TN_BY_KEEPER)) {
        TN_ASSERT(hold->keeper == keeper);
        TN_ASSERT(first == NULL || hold->serial < first->serial);
        hold->selected = first;
        first = hold;
    }
    return first;
}

void tn_holds_forget_graph(struct tn_holds *holds, tn_cu_graph graph)
{
    struct tn_hold *next;

    for (struct tn_hold *hold = first_of(holds, TN_BY_GRAPH, (uintptr_t)graph); hold != NULL;
         hold = next) {
        next = next_of(hold, TN_BY_GRAPH);
        if (!hold->open)
            tn_hold_set_graph(hold, NULL);
    }
}

void tn_holds_forget_capture(struct tn_holds *holds, uint64_t capture_id)
{
    TN_ASSERT(capture_id != 0);
    for (struct tn_hold *hold = first_of(holds, TN_BY_CAPTURE, key_of_capture(capture_id));
         hold != NULL; hold = next_of(hold, TN_BY_CAPTURE)) {
        hold->expected = hold->expected || hold->keeper == hold->graph;
        if (hold->keeper == hold->graph)
            tn_hold_set_keeper(hold, NULL);
        tn_hold_set_graph(hold, NULL);
    }
}

bool tn_holds_are_open(const struct tn_holds *holds, uint64_t serial)
{
    TN_ASSERT(tn_lock_is_held(holds->lock));
    for (const struct tn_hold *hold = holds->open; hold != NULL; hold = hold->open_next) {
        if (hold->serial <= serial)
            return true;
    }
    return false;
}

bool tn_holds_reserve(struct tn_holds *holds, size_t count)
{
    TN_ASSERT(tn_lock_is_held(holds->lock));
    for (struct tn_hold *hold = holds->open; hold != NULL; hold = hold->open_next) {
        if (!tn_chunk_set_reserve(&hold->chunks, count))
            return false;
    }
    return true;
}

static void note_added(struct tn_chunk *chunk)
{
    chunk->hold_count += 1;
    chunk->known_count += 1; /* P33: the hold is open */
}

void tn_hold_add(struct tn_hold *hold, const struct tn_block *block)
{
    TN_ASSERT(hold->magic == TN_HOLD_MAGIC);
    TN_ASSERT(hold->open);
    for (uint64_t offset = block->offset; offset < tn_block_end(block);) {
        struct tn_chunk *chunk = tn_segment_chunk_at(block->segment, offset);

        if (tn_chunk_set_add(&hold->chunks, chunk))
            note_added(chunk);
        offset = tn_chunk_end(chunk);
    }
}

uint64_t tn_holds_bytes_in(const struct tn_holds *holds, size_t word, uint64_t bits)
{
    uint64_t bytes = 0;

    TN_ASSERT(tn_lock_is_held(holds->lock));
    for (; bits != 0; bits &= bits - 1)
        bytes +=
            holds->chunks->by_id[TN_CHUNK_SET_BITS * word + (size_t)__builtin_ctzll(bits)]->bytes;
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

bool tn_holds_add_freed(struct tn_holds *holds, const struct tn_block *block)
{
    bool added = false;

    TN_ASSERT(tn_lock_is_held(holds->lock));
    for (struct tn_hold *hold = holds->open; hold != NULL; hold = hold->open_next) {
        if (hold->passing && !is_used_in(block, hold->capture_id))
            continue;
        tn_hold_add(hold, block);
        added = true;
    }
    return added;
}

/* P33: a hold which is not open begins to be known, or ends. */
static void count_known(struct tn_hold *hold, bool known)
{
    const struct tn_holds *holds = hold->holds;

    for (size_t word = tn_chunk_set_next(&hold->chunks, 0); word < hold->chunks.word_count;
         word = tn_chunk_set_next(&hold->chunks, word + 1)) {
        for (uint64_t bits = hold->chunks.words[word]; bits != 0; bits &= bits - 1) {
            size_t id = TN_CHUNK_SET_BITS * word + (size_t)__builtin_ctzll(bits);
            struct tn_chunk *chunk = holds->chunks->by_id[id];

            TN_ASSERT(known || chunk->known_count > 0);
            chunk->known_count = known ? chunk->known_count + 1 : chunk->known_count - 1;
        }
    }
}

static void set_known(struct tn_hold *hold, bool known)
{
    if (hold->known == known)
        return;
    hold->known = known;
    if (!hold->open)
        count_known(hold, known);
}

void tn_hold_shut(struct tn_hold *hold)
{
    struct tn_holds *holds = hold->holds;

    TN_ASSERT(tn_lock_is_held(holds->lock));
    TN_ASSERT(hold->open && holds->open_count > 0);
    if (hold->event != NULL)
        tn_event_destroy(holds->gpu, hold->event);
    hold->event = NULL;
    hold->open = false;
    hold->end_mark = tn_next_sequence();
    leave_open(holds, hold);
    if (!hold->known)
        count_known(hold, false);
    if (!hold->owned)
        atomic_fetch_sub(holds->user_count, 1);
}

/* Takes the chunk from the hold. proven: no work on the hold's memory runs any more. */
static void let_go(struct tn_gpu *gpu, struct tn_chunk *chunk, bool proven)
{
    TN_ASSERT(chunk != NULL && chunk->hold_count > 0); /* P7 */
    chunk->hold_count -= 1;
    if (chunk->hold_count == 0)
        tn_usable_let_go(gpu, chunk);
    if (tn_chunk_is_of_work(chunk))
        return;
    if (!proven) {
        chunk->outside_stamp = chunk->freed_stamp;
    } else if (chunk->hold_count == 0) { /* P26 */
        chunk->was_used = chunk->was_used || chunk->freed_stamp > chunk->outside_stamp;
        chunk->freed_stamp = chunk->outside_stamp;
    }
}

void tn_hold_leave(struct tn_hold *hold, bool proven)
{
    struct tn_holds *holds = hold->holds;

    TN_ASSERT(tn_lock_is_held(holds->lock));
    TN_ASSERT(hold->magic == TN_HOLD_MAGIC);
    TN_ASSERT(!hold->open && holds->count > 0);
    set_known(hold, false);
    for (size_t word = tn_chunk_set_next(&hold->chunks, 0); word < hold->chunks.word_count;
         word = tn_chunk_set_next(&hold->chunks, word + 1)) {
        for (uint64_t bits = hold->chunks.words[word]; bits != 0; bits &= bits - 1)
            let_go(holds->gpu,
                   holds->chunks->by_id[TN_CHUNK_SET_BITS * word + (size_t)__builtin_ctzll(bits)],
                   proven);
    }
    if (!hold->settled)
        atomic_fetch_add(&holds->index->early_count, 1); /* before the index lacks it */
    for (int by = 0; by < TN_HOLD_KEYS; by++)
        put(hold, (enum tn_index_key)by, 0);
    leave_list(holds, hold);
    tn_births_drop(&hold->births);
    tn_chunk_set_free(&hold->chunks);
    hold->magic = 0;
}

void tn_hold_recycle(struct tn_hold *hold)
{
    TN_ASSERT(hold->magic == 0); /* has left its pool */
    tn_records_give(&hold_records, hold);
}

bool tn_hold_begin_orphan(struct tn_hold *hold)
{
    int claim = TN_CLAIM_HELD;

    return atomic_compare_exchange_strong(&hold->claim, &claim, TN_CLAIM_LEAVING);
}

void tn_hold_end_orphan(struct tn_hold *hold)
{
    int claim = TN_CLAIM_LEAVING;

    TN_ASSERT(hold->magic == 0); /* has left its pool */
    if (!atomic_compare_exchange_strong(&hold->claim, &claim, TN_CLAIM_ORPHANED))
        push(&spent_holds, hold);
}

bool tn_hold_is_over(const struct tn_hold *hold)
{
    return hold->event == NULL || !tn_driver_capture_goes_on(hold->holds->gpu, hold->event);
}

bool tn_hold_goes_on(const struct tn_hold *hold)
{
    return hold->owned || !tn_hold_is_over(hold);
}

uint64_t tn_holds_end_mark(struct tn_holds *holds, tn_cu_graph keeper, bool *open)
{
    uint64_t mark = 0;

    TN_ASSERT(tn_lock_is_held(holds->lock));
    *open = false;
    for (const struct tn_hold *hold = tn_holds_select(holds, keeper); hold != NULL;
         hold = hold->selected) {
        *open = *open || hold->open;
        if (hold->end_mark > mark)
            mark = hold->end_mark;
    }
    return mark;
}

struct tn_hold *tn_hold_find_owned(struct tn_holds *holds, uint64_t capture_id)
{
    TN_ASSERT(tn_lock_is_held(holds->lock));
    for (struct tn_hold *hold = first_of(holds, TN_BY_CAPTURE, key_of_capture(capture_id));
         hold != NULL; hold = next_of(hold, TN_BY_CAPTURE)) {
        if (hold->owned)
            return hold;
    }
    return NULL;
}

struct tn_left_capture tn_hold_take_left(struct tn_holds *holds, uint64_t capture_id)
{
    struct tn_left_capture left = {0};
    struct tn_hold *hold = tn_hold_find_owned(holds, capture_id);

    TN_ASSERT(tn_lock_is_held(holds->lock));
    /* If the claimant is gone, the graph and its capture are, too, and perhaps the stream. */
    if (hold == NULL || atomic_load(&hold->claim) != TN_CLAIM_HELD || hold->left.capture_id == 0)
        return left;
    left = hold->left;
    hold->left = (struct tn_left_capture){0};
    for (hold = holds->first; hold != NULL; hold = hold->next) {
        if (hold->left.capture_id == left.capture_id)
            left.capture_id = 0;
    }
    return left;
}

uint64_t tn_hold_tell_owner(struct tn_hold *hold)
{
    if (hold->owner_gone == NULL)
        return 0;
    atomic_store(hold->owner_gone, true);
    hold->owner_gone = NULL;
    return hold->capture_id;
}

void tn_hold_gone(void *gone)
{
    struct tn_hold *hold = gone;
    int claim = TN_CLAIM_HELD;

    if (atomic_compare_exchange_strong(&hold->claim, &claim, TN_CLAIM_GONE)) {
        push(hold->holds->gone, hold);
        return;
    }
    if (claim == TN_CLAIM_LEAVING &&
        atomic_compare_exchange_strong(&hold->claim, &claim, TN_CLAIM_GONE))
        return; /* tn_hold_end_orphan finds GONE */
    TN_ASSERT(claim == TN_CLAIM_ORPHANED);
    push(&spent_holds, hold);
}

void tn_holds_expect(struct tn_holds *holds, tn_cu_graph keeper)
{
    struct tn_hold *next;

    for (struct tn_hold *hold = first_of(holds, TN_BY_KEEPER, (uintptr_t)keeper); hold != NULL;
         hold = next) {
        next = next_of(hold, TN_BY_KEEPER);
        hold->expected = true;
        set_known(hold, false);
        tn_hold_set_keeper(hold, NULL);
    }
}

void tn_holds_know(struct tn_holds *holds, tn_cu_graph keeper)
{
    TN_ASSERT(keeper != NULL);
    for (struct tn_hold *hold = first_of(holds, TN_BY_KEEPER, (uintptr_t)keeper); hold != NULL;
         hold = next_of(hold, TN_BY_KEEPER))
        set_known(hold, true);
}

bool tn_holds_may_let_go(const struct tn_holds *holds)
{
    TN_ASSERT(tn_lock_is_held(holds->lock));
    for (size_t id = 0; holds->count > 0 && id < holds->chunks->ids; id++) {
        const struct tn_chunk *chunk = holds->chunks->by_id[id];

        if (chunk != NULL && chunk->hold_count > 0 && chunk->known_count == 0 &&
            chunk->used_bytes == 0)
            return true;
    }
    return false;
}

void tn_hold_keep_by(struct tn_hold *hold, tn_cu_graph keeper)
{
    const struct tn_hold *other = first_of(hold->holds, TN_BY_KEEPER, (uintptr_t)keeper);

    TN_ASSERT(hold == hold->holds->first && hold->keeper == NULL);
    hold->beside = other != NULL;
    hold->known = other != NULL && other->known;
    tn_hold_set_keeper(hold, keeper);
}

uint64_t tn_holds_count_graphs(const struct tn_holds *holds)
{
    uint64_t count = 0;

    TN_ASSERT(tn_lock_is_held(holds->lock));
    for (const struct tn_hold *hold = holds->first; hold != NULL; hold = hold->next)
        count += !hold->open && !hold->beside;
    return count;
}

bool tn_holds_are_kept_by(const struct tn_holds *holds, tn_cu_graph keeper)
{
    const struct tn_hold *hold = holds->first;

    TN_ASSERT(tn_lock_is_held(holds->lock));
    while (hold != NULL && (hold->open || hold->keeper == keeper))
        hold = hold->next;
    return hold == NULL;
}

bool tn_holds_are_expected(const struct tn_holds *holds)
{
    const struct tn_hold *hold = holds->first;

    while (hold != NULL && !hold->expected)
        hold = hold->next;
    return hold != NULL;
}

void tn_holds_expect_none(struct tn_holds *holds)
{
    TN_ASSERT(tn_lock_is_held(holds->lock));
    for (struct tn_hold *hold = holds->first; hold != NULL; hold = hold->next)
        hold->expected = false;
}
