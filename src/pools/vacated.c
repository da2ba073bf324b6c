// SPDX-License-Identifier: Apache-2.0
/* Trade-offs: a single list is walked, with a place for each chunk moved lately. */
#include "pools/vacated.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "pools/proofs.h"
#include "pools/trackers.h"

static bool is_over(const struct tn_chunk *place, const struct tn_segment *segment, uint64_t offset,
                    uint64_t bytes)
{
    return atomic_load_explicit(&place->segment, memory_order_relaxed) == segment &&
           place->offset < offset + bytes && tn_chunk_end(place) > offset;
}

static bool is_proven(const tarn_pool *pool, const struct tn_chunk *place)
{
    const struct tn_heap *from = place->vacated_from;

    return tn_pool_has_proven(pool, from != NULL ? from->arena : NULL, place->freed_stamp);
}

void tn_vacated_enter(tarn_pool *pool, struct tn_chunk *chunk, struct tn_heap *from)
{
    struct tn_vacated *vacated = &pool->vacated;

    TN_ASSERT(tn_pool_is_locked(pool));
    tn_chunk_vacate(chunk);
    chunk->vacated_from = from;
    chunk->vacated_at = pool->counters.events[TN_GROWTHS].count;
    chunk->next = NULL;
    if (vacated->last != NULL)
        vacated->last->next = chunk;
    else
        vacated->first = chunk;
    vacated->last = chunk;
    vacated->count += 1;
}

struct tn_heap *tn_vacated_leave_last(tarn_pool *pool, struct tn_chunk *chunk)
{
    struct tn_vacated *vacated = &pool->vacated;
    struct tn_chunk **link = &vacated->first;
    struct tn_chunk *before = NULL;

    TN_ASSERT(vacated->last == chunk && vacated->count > 0);
    while (*link != chunk) {
        before = *link;
        link = &before->next;
    }
    *link = NULL;
    vacated->last = before;
    vacated->count -= 1;
    tn_chunk_reoccupy(chunk);
    return chunk->vacated_from;
}

/* Closes the place at the link, behind the place before. */
static void close_place(tarn_pool *pool, struct tn_chunk **link, struct tn_chunk *before)
{
    struct tn_chunk *place = *link;

    TN_ASSERT(tn_pool_is_locked(pool) && pool->vacated.count > 0);
    TN_ASSERT(place->memory->chunk_count > 1); /* P28 */
    *link = place->next;
    if (pool->vacated.last == place)
        pool->vacated.last = before;
    pool->vacated.count -= 1;
    tn_pool_note(pool, TN_NOTE_UNMAPPED,
                 TN_OPERANDS(tn_chunk_address(place), place->bytes, place->memory->handle));
    tn_trackers_forget(pool->device, place);
    tn_chunk_close(place);
}

/* Closes proven places vacated before so many growths, and beyond the newest `kept` the oldest. */
static void close_proven(tarn_pool *pool, uint64_t growths, size_t kept)
{
    struct tn_vacated *vacated = &pool->vacated;
    struct tn_chunk **link = &vacated->first;
    struct tn_chunk *before = NULL;

    while (*link != NULL && ((*link)->vacated_at < growths || vacated->count > kept)) {
        if (is_proven(pool, *link)) {
            close_place(pool, link, before);
        } else {
            before = *link;
            link = &before->next;
        }
    }
}

void tn_vacated_forget_proven(tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    for (struct tn_chunk *place = pool->vacated.first; place != NULL; place = place->next) {
        if (is_proven(pool, place))
            place->freed_stamp = 0;
    }
}

void tn_vacated_poll(tarn_pool *pool)
{
    uint64_t growths = pool->counters.events[TN_GROWTHS].count;

    close_proven(pool, growths - tn_min(growths, TN_VACATED_GROWTHS), TN_VACATED_KEPT);
}

void tn_vacated_sweep(tarn_pool *pool)
{
    close_proven(pool, UINT64_MAX, 0);
}

uint64_t tn_vacated_room(const tarn_pool *pool, const struct tn_segment *segment, uint64_t offset,
                         uint64_t bytes)
{
    uint64_t room = bytes;

    if (segment->vacated_count == 0)
        return bytes;
    for (const struct tn_chunk *place = pool->vacated.first; place != NULL && room > 0;
         place = place->next) {
        if (is_over(place, segment, offset, room))
            room = place->offset - tn_min(place->offset, offset);
    }
    return room;
}

bool tn_vacated_is_used(const tarn_pool *pool, const struct tn_segment *segment, uint64_t offset,
                        uint64_t bytes)
{
    if (segment->vacated_count == 0)
        return false;
    for (const struct tn_chunk *place = pool->vacated.first; place != NULL; place = place->next) {
        if (is_over(place, segment, offset, bytes) && !is_proven(pool, place))
            return true;
    }
    return false;
}

void tn_vacated_close_at(tarn_pool *pool, const struct tn_segment *segment, uint64_t offset,
                         uint64_t bytes)
{
    struct tn_chunk **link = &pool->vacated.first;
    struct tn_chunk *before = NULL;

    if (segment->vacated_count == 0)
        return;
    TN_ASSERT(!tn_vacated_is_used(pool, segment, offset, bytes));
    while (*link != NULL) {
        if (is_over(*link, segment, offset, bytes)) {
            close_place(pool, link, before);
        } else {
            before = *link;
            link = &before->next;
        }
    }
}

void tn_vacated_close_of(tarn_pool *pool, const struct tn_memory *memory)
{
    struct tn_chunk **link = &pool->vacated.first;
    struct tn_chunk *before = NULL;

    while (*link != NULL) {
        if ((*link)->memory == memory) {
            close_place(pool, link, before);
        } else {
            before = *link;
            link = &before->next;
        }
    }
}

void tn_vacated_orphan(tarn_pool *pool, const struct tn_arena *arena)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    for (struct tn_chunk *place = pool->vacated.first; place != NULL; place = place->next) {
        if (place->vacated_from != NULL && place->vacated_from->arena == arena)
            place->vacated_from = NULL;
    }
}
