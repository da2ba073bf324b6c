// SPDX-License-Identifier: Apache-2.0
#include "heap/magazine.h"

#include <stddef.h>
#include <string.h>

#include "base/contract.h"
#include "base/host.h"
#include "heap/arena_lock.h"
#include "heap/sequence.h"

enum {
    SEQUENCES = 256, /* numbers of allocations, taken at a time */
    UNUSED_CLOSES_MAX = 32,
};

static struct tn_records magazines_records = TN_RECORDS_INIT(struct tn_magazines);
static struct tn_records magazine_records = TN_RECORDS_INIT(struct tn_magazine);

struct tn_magazines *tn_magazines_make(void)
{
    return tn_records_take(&magazines_records);
}

void tn_magazines_drop(struct tn_magazines *magazines)
{
    tn_records_give(&magazines_records, magazines);
}

/* A place where the thread may have a magazine: one without a magazine, or whose magazine is given
 * up; TN_MAGAZINES: all are taken. */
static size_t find_place(const struct tn_magazines *magazines, uintptr_t thread)
{
    const size_t first = tn_magazine_first_place(thread);

    for (size_t i = 0; i < TN_MAGAZINE_TRIES; i++) {
        const size_t place = (first + i) % TN_MAGAZINES;

        if (atomic_load_explicit(&magazines->threads[place], memory_order_relaxed) == 0)
            return place;
    }
    return TN_MAGAZINES;
}

/* A magazine's writer, which writes nothing, gets the ring of its arena's. */
static void begin_writer(struct tn_history_writer *own, const struct tn_history_writer *arenas)
{
    TN_ASSERT(!tn_history_is_kept(own));
    *own = tn_history_new_writer(arenas->log.ring);
    tn_note_write(arenas->log.ring, TN_NOTE_MAGAZINE_BEGUN, 0,
                  TN_OPERANDS(own->log.id, arenas->log.id));
}

static void end_writer(struct tn_history_writer *own)
{
    struct tn_ring *ring = own->log.ring;

    tn_history_leave(own);
    tn_note_write(ring, TN_NOTE_MAGAZINE_ENDED, 0, TN_OPERANDS(own->log.id));
    *own = tn_history_new_writer(NULL);
}

/* The arena's lock, which whoever closes the magazines has: a magazine is there before they are
 * closed, and then its lock is taken; or it comes when they are open again. */
static bool claim(struct tn_arena *arena, struct tn_magazines *magazines, struct tn_magazine *made)
{
    const uintptr_t thread = tn_thread_word();
    bool takes = false;
    size_t place;

    tn_arena_lock(arena);
    place = find_place(magazines, thread);
    if (place < TN_MAGAZINES && made != NULL &&
        atomic_load_explicit(&magazines->places[place], memory_order_relaxed) == NULL) {
        made->id = (uint8_t)(place + 1);
        made->history = tn_history_new_writer(NULL); /* until it is opened */
        if (arena->pool != NULL)
            begin_writer(&made->history, tn_arena_history(arena));
        atomic_store_explicit(&magazines->places[place], made, memory_order_release);
        takes = true;
    }
    if (place < TN_MAGAZINES &&
        atomic_load_explicit(&magazines->places[place], memory_order_relaxed) != NULL)
        atomic_store_explicit(&magazines->threads[place], thread, memory_order_relaxed);
    tn_arena_unlock(arena);
    return takes;
}

void tn_magazine_claim(struct tn_arena *arena)
{
    struct tn_magazines *magazines = tn_arena_magazines(arena);
    const size_t place = find_place(magazines, tn_thread_word());
    struct tn_magazine *made = NULL;

    TN_ASSERT(tn_magazine_own(magazines) == NULL);
    if (place == TN_MAGAZINES)
        return;
    if (atomic_load_explicit(&magazines->places[place], memory_order_relaxed) == NULL)
        made = tn_records_take(&magazine_records);
    if (!claim(arena, magazines, made) && made != NULL)
        tn_records_give(&magazine_records, made);
}

struct tn_magazine *tn_magazine_any(const struct tn_magazines *magazines)
{
    const size_t first = tn_magazine_first_place(tn_thread_word());
    struct tn_magazine *magazine = NULL;

    for (size_t i = 0; magazine == NULL && i < TN_MAGAZINES; i++)
        magazine = atomic_load_explicit(&magazines->places[(first + i) % TN_MAGAZINES],
                                        memory_order_acquire);
    TN_ASSERT(magazine == NULL || magazines->places[magazine->id - 1] == magazine);
    return magazine;
}

static void count(struct tn_tally *tally, const struct tn_block *block)
{
    tally->count += 1;
    tally->bytes += tn_block_bytes(block);
    tally->requested += block->requested;
}

/* Relaxed: whoever acts on the word confirms the word under the magazine's lock. */
static void mark(const struct tn_magazine *magazine, struct tn_block *block, unsigned char round)
{
    atomic_store_explicit(&block->magazine, (unsigned char)(magazine->id | round),
                          memory_order_relaxed);
}

static void remove_round(struct tn_magazine *magazine, size_t at)
{
    size_t behind = magazine->count - at - 1U;

    TN_ASSERT(at < magazine->count && magazine->rounds[at]->units == magazine->units[at]);
    memmove(&magazine->units[at], &magazine->units[at + 1], behind * sizeof magazine->units[0]);
    memmove(&magazine->rounds[at], &magazine->rounds[at + 1], behind * sizeof(struct tn_block *));
    magazine->count -= 1;
}

static uint64_t next_sequence(struct tn_magazine *magazine)
{
    TN_ASSERT(magazine->sequence <= magazine->sequences_end);
    if (magazine->sequence == magazine->sequences_end) {
        magazine->sequence = tn_next_sequences(SEQUENCES);
        magazine->sequences_end = magazine->sequence + SEQUENCES;
    }
    magazine->sequence += 1;
    return magazine->sequence - 1;
}

struct tn_block *tn_magazine_take(struct tn_magazine *magazine, uint64_t bytes, uint64_t alignment,
                                  uint64_t requested)
{
    const uint64_t units = bytes >> TN_BLOCK_BITS;

    TN_ASSERT(tn_spin_is_taken(&magazine->lock));
    for (size_t i = magazine->count; i-- > 0;) {
        struct tn_block *block = magazine->rounds[i];

        if (magazine->units[i] != units || (tn_block_address(block) & (alignment - 1)) != 0)
            continue;
        TN_ASSERT(block->state == TN_BLOCK_LIVE);
        remove_round(magazine, i);
        block->requested = requested;
        block->sequence = next_sequence(magazine);
        mark(magazine, block, 0);
        count(&magazine->tallies[tn_kind_of(tn_block_bytes(block))].allocated, block);
        if (tn_history_is_kept(&magazine->history))
            tn_history_alloc(&magazine->history, block);
        magazine->unused_closes = 0;
        return block;
    }
    return NULL;
}

void tn_magazine_put(struct tn_magazine *magazine, struct tn_block *block, uint64_t stamp)
{
    TN_ASSERT(tn_spin_is_taken(&magazine->lock) && !tn_magazine_is_full(magazine));
    TN_ASSERT(block->state == TN_BLOCK_LIVE && !block->in_other_heap);
    count(&magazine->tallies[tn_kind_of(tn_block_bytes(block))].freed, block);
    if (tn_history_is_kept(&magazine->history))
        tn_history_free(&magazine->history, block, block->sequence);
    block->loose_stamp = stamp;
    mark(magazine, block, TN_MAGAZINE_ROUND);
    magazine->units[magazine->count] = block->units;
    magazine->rounds[magazine->count] = block;
    magazine->count += 1;
    magazine->unused_closes = 0;
}

struct tn_block *tn_magazine_pop(struct tn_magazine *magazine)
{
    struct tn_block *block = magazine->rounds[0];

    TN_ASSERT(tn_spin_is_taken(&magazine->lock) && magazine->count > 0);
    remove_round(magazine, 0);
    tn_magazine_forget(block);
    return block;
}

void tn_magazine_uncount(struct tn_magazine *magazine, const struct tn_block *block)
{
    struct tn_tally *freed = &magazine->tallies[tn_kind_of(tn_block_bytes(block))].freed;

    TN_ASSERT(freed->count > 0 && freed->bytes >= tn_block_bytes(block));
    freed->count -= 1;
    freed->bytes -= tn_block_bytes(block);
    freed->requested -= block->requested;
}

uint64_t tn_magazines_count_rounds(const struct tn_magazines *magazines)
{
    uint64_t count = 0;

    for (size_t i = 0; i < TN_MAGAZINES; i++) {
        const struct tn_magazine *magazine =
            atomic_load_explicit(&magazines->places[i], memory_order_relaxed);

        count += magazine != NULL ? magazine->count : 0;
    }
    return count;
}

void tn_magazines_record(struct tn_magazines *magazines, const struct tn_history_writer *arenas)
{
    const struct tn_ring *ring = arenas != NULL ? arenas->log.ring : NULL;

    for (size_t i = 0; i < TN_MAGAZINES; i++) {
        struct tn_magazine *magazine =
            atomic_load_explicit(&magazines->places[i], memory_order_relaxed);

        if (magazine == NULL || magazine->history.log.ring == ring)
            continue;
        end_writer(&magazine->history);
        if (arenas != NULL)
            begin_writer(&magazine->history, arenas);
    }
}

void tn_magazines_leave_pages(struct tn_magazines *magazines)
{
    for (size_t i = 0; i < TN_MAGAZINES; i++) {
        struct tn_magazine *magazine =
            atomic_load_explicit(&magazines->places[i], memory_order_relaxed);

        if (magazine != NULL && tn_history_is_kept(&magazine->history))
            tn_history_leave(&magazine->history);
    }
}

void tn_magazine_settle(struct tn_magazines *magazines, struct tn_magazine *magazine,
                        struct tn_heap_counters *const *counters)
{
    TN_ASSERT(tn_spin_is_taken(&magazine->lock) && magazine->count == 0); /* P37 */
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        tn_tally_add(&counters[kind]->allocated, &magazine->tallies[kind].allocated);
        tn_tally_add(&counters[kind]->freed, &magazine->tallies[kind].freed);
        magazine->tallies[kind] = (struct tn_magazine_tally){.allocated = {0}};
    }
    magazine->sequences_end = magazine->sequence; /* later numbers are above all others */
    tn_history_flush(&magazine->history);
    magazine->unused_closes += 1;
    if (magazine->unused_closes <= UNUSED_CLOSES_MAX)
        return;
    magazine->unused_closes = 0;
    atomic_store_explicit(&magazines->threads[magazine->id - 1], 0, memory_order_relaxed);
}
