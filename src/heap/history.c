// SPDX-License-Identifier: Apache-2.0
#include "heap/history.h"

#include "base/contract.h"

_Thread_local uint32_t tn_history_stack __attribute__((tls_model("initial-exec")));

struct tn_history_writer tn_history_new_writer(struct tn_ring *ring)
{
    return (struct tn_history_writer){.log = tn_ring_new_writer(ring)};
}

/* Room for an event of so many words. In a new page a run of allocations begins. */
static bool make_room(struct tn_history_writer *history, size_t words)
{
    uint64_t place = history->log.place;
    bool has_room = tn_ring_has_room(&history->log, words);

    if (history->log.place != place)
        history->run_begin = history->log.base;
    return has_room;
}

struct words {
    uint64_t value; /* of the first */
    uint64_t second;
};

/* What the log has of an allocation. */
static struct words words_of(uint64_t address, uint64_t units, uint64_t requested)
{
    uint64_t waste = (units << TN_BLOCK_BITS) - requested;
    uint64_t unit = address >> TN_BLOCK_BITS;

    TN_ASSERT(requested <= units << TN_BLOCK_BITS);
    TN_ASSERT(unit < UINT64_C(1) << TN_HISTORY_ADDRESS_BITS);
    return (struct words){
        .value =
            units << TN_HISTORY_WASTE_BITS | (waste & ((UINT64_C(1) << TN_HISTORY_WASTE_BITS) - 1)),
        .second = waste >> TN_HISTORY_WASTE_BITS << TN_HISTORY_ADDRESS_BITS | unit,
    };
}

static struct words words_of_entry(const struct tn_history_entry *entry)
{
    return words_of(atomic_load_explicit(&entry->address, memory_order_relaxed),
                    atomic_load_explicit(&entry->units, memory_order_relaxed),
                    atomic_load_explicit(&entry->requested, memory_order_relaxed));
}

/* Puts a free into the log: with the allocation's words, where the log may have lost them soon. */
static void put_free(struct tn_ring_writer *log, const struct tn_history_entry *entry,
                     uint64_t number)
{
    struct words words;
    uint64_t stack;

    if (TN_LIKELY(number > tn_ring_recent(log))) {
        tn_ring_put(log, TN_HISTORY_FREE, number);
        return;
    }
    words = words_of_entry(entry);
    stack = atomic_load_explicit(&entry->stack, memory_order_relaxed);
    tn_ring_put_more(
        log, TN_HISTORY_FREE, number,
        (const uint64_t[]){tn_ring_first(TN_HISTORY_ALLOC, 1, words.value), words.second, stack},
        stack != 0 ? 3 : 2);
}

void tn_history_flush(struct tn_history_writer *history)
{
    struct tn_history_entry *entry;

    if (history->freed == NULL)
        return;
    entry = tn_history_entry(history->freed);
    if (make_room(history, TN_RING_EVENT_WORDS_MAX))
        put_free(&history->log, entry, history->freed_number);
    TN_ASSERT(atomic_load(&entry->number) == history->freed_number);
    atomic_store_explicit(&entry->number, 0, memory_order_release);
    history->freed = NULL;
}

void tn_history_leave(struct tn_history_writer *history)
{
    TN_ASSERT(history->log.page == NULL || tn_history_is_kept(history));
    tn_history_flush(history);
    tn_ring_leave(&history->log);
}

static TN_ALWAYS_INLINE void enter(struct tn_history_entry *entry, const struct tn_block *block)
{
    TN_ASSERT(atomic_load(&entry->number) == 0);
    TN_ASSERT(block->sequence != 0 && block->units != 0);
    atomic_store_explicit(&entry->address, tn_block_address(block), memory_order_release);
    atomic_store_explicit(&entry->requested, block->requested, memory_order_release);
    atomic_store_explicit(&entry->units, block->units, memory_order_release);
    atomic_store_explicit(&entry->stack, tn_history_stack, memory_order_release);
    atomic_store_explicit(&entry->number, block->sequence, memory_order_release);
}

static void put_with_stack(struct tn_history_writer *history, enum tn_history_kind kind,
                           struct words words)
{
    tn_ring_put_more(&history->log, kind, words.value,
                     (const uint64_t[]){words.second, tn_history_stack}, 2);
}

/* An allocation without a stack, in a page that has room, behind the free of another block of late
 * or none: the usual case, in one piece. False: another case, and nothing is written. */
static TN_ALWAYS_INLINE bool put_usual(struct tn_history_writer *history,
                                       const struct tn_block *block)
{
    struct tn_ring_writer *log = &history->log;
    const struct tn_block *freed = history->freed;
    struct words words;

    if (TN_UNLIKELY(tn_history_stack != 0) || TN_UNLIKELY(log->base != block->sequence) ||
        TN_UNLIKELY(log->at + 3 > log->stop) || TN_UNLIKELY(freed == block))
        return false;
    if (TN_LIKELY(freed != NULL)) {
        if (TN_UNLIKELY(history->freed_number <= tn_ring_recent(log)))
            return false;
        tn_ring_write(log, tn_ring_first(TN_HISTORY_FREE, 0, history->freed_number));
        atomic_store_explicit(&tn_history_entry(freed)->number, 0, memory_order_release);
        history->freed = NULL;
    }
    enter(tn_history_entry(block), block);
    words = words_of(tn_block_address(block), block->units, block->requested);
    tn_ring_write_two(log, tn_ring_first(TN_HISTORY_ALLOC, 1, words.value), words.second);
    log->base += 1;
    return true;
}

static TN_APART void put_live(struct tn_history_writer *history, enum tn_history_kind kind,
                              const struct tn_block *block)
{
    struct words words = words_of(tn_block_address(block), block->units, block->requested);
    const bool is_next = history->log.base == block->sequence;
    const bool has_stack =
        tn_history_stack != 0 && !tn_ring_skips(history->log.ring, TN_HISTORY_SKIPS_STACKS);
    bool has_room;

    tn_history_flush(history); /* before its entry may be written */
    enter(tn_history_entry(block), block);
    has_room = make_room(history, 2U + !is_next + has_stack);
    if (TN_UNLIKELY(!is_next)) {
        if (has_room)
            tn_ring_write(&history->log, tn_ring_first(TN_HISTORY_NUMBER, 0, block->sequence));
        history->run_begin = block->sequence; /* restored blocks have lower ones */
        history->log.base = block->sequence;
    }
    if (has_room && has_stack)
        put_with_stack(history, kind, words);
    else if (has_room)
        tn_ring_write_two(&history->log, tn_ring_first(kind, 1, words.value), words.second);
    /* The next allocation of the block has another stack, or none: it is not the same again. */
    if (!has_room || tn_history_stack != 0)
        history->run_begin = block->sequence + 1;
    history->log.base += 1; /* now: a page that began had the number of this block */
}

/* Whether the entry has the block as it is: a record may have had another block since. */
static bool has_same(const struct tn_history_entry *entry, const struct tn_block *block)
{
    return atomic_load_explicit(&entry->address, memory_order_relaxed) == tn_block_address(block) &&
           atomic_load_explicit(&entry->requested, memory_order_relaxed) == block->requested &&
           atomic_load_explicit(&entry->units, memory_order_relaxed) == block->units;
}

static TN_APART void put_alloc(struct tn_history_writer *history, const struct tn_block *block)
{
    if (tn_history_stack == 0 && history->freed == block &&
        tn_history_may_join(history, block->sequence) && has_same(tn_history_entry(block), block))
        tn_history_join(history, block->sequence);
    else
        put_live(history, TN_HISTORY_ALLOC, block);
}

void tn_history_alloc(struct tn_history_writer *history, const struct tn_block *block)
{
    if (!put_usual(history, block))
        put_alloc(history, block);
}

void tn_history_restored(struct tn_history_writer *history, const struct tn_block *block)
{
    put_live(history, TN_HISTORY_RESTORED, block);
}

void tn_history_free(struct tn_history_writer *history, struct tn_block *block, uint64_t sequence)
{
    TN_ASSERT(atomic_load(&tn_history_entry(block)->number) == sequence);
    tn_history_flush(history);
    history->freed = block;
    history->freed_number = sequence;
}

void tn_history_free_by_guest(struct tn_ring *ring, const struct tn_block *block)
{
    struct tn_history_entry *entry = tn_history_entry(block);

    TN_ASSERT(atomic_load(&entry->number) == block->sequence);
    if (!tn_ring_skips(ring, TN_RING_SKIPS_OWN)) {
        struct tn_ring_writer *log = tn_ring_enter(ring);

        put_free(log, entry, block->sequence);
        tn_ring_exit(log);
    }
    atomic_store_explicit(&entry->number, 0, memory_order_release);
}

/* A reader, or a process killed here, has the earlier titles, or the new one with them. */
void tn_history_annotate(const struct tn_block *block, uint32_t title)
{
    struct tn_history_entry *entry = tn_history_entry(block);
    uint64_t titles;

    TN_ASSERT(atomic_load(&entry->number) == block->sequence && title != 0);
    _Static_assert(TN_HISTORY_ANNOTATIONS == 2, "halves of a word");
    tn_history_begin_words(entry, block->sequence);
    titles = atomic_load_explicit(&entry->titles, memory_order_relaxed);
    if (titles == 0)
        titles = title;
    else
        titles = (titles & UINT32_MAX) | (uint64_t)title << 32;
    atomic_store_explicit(&entry->titles, titles, memory_order_release);
}
