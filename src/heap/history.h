// SPDX-License-Identifier: Apache-2.0
/* history.h -- what is written of blocks, where the device keeps a history: into a log
 * (base/ring.h), and into a table of the live blocks (heap/history_table.h).
 *
 * A block's number (its sequence) says which block is meant. In the log an allocation names its
 * block's number by its place: the first of a page has the number at the page's head, and each has
 * the next number of the one before, unless a number stands between. A free names the number. Where
 * the log may soon have lost the allocation, the free repeats it. A restored block is allocated again,
 * with the number that it had.
 *
 * Often the block freed last is allocated again, with the same request. A free therefore waits for the
 * writer's next event, or for the pool's lock. Then both take one word: the same block again. The
 * page has the words of its first allocation.
 *
 * Whoever has the table and the log can tell which blocks were live behind each event, newest first:
 * an allocation taken back is a block less, and a free taken back is a block more. Table and log are
 * one free of each writer behind at most.
 *
 * An allocation takes 16 bytes, a free 8 or 24, and the same block again 8. The id of a stack takes 8
 * more:
 *
 *     first word, bits 6 to 31     the lowest bits of the block's bytes less those requested
 *     first word, bits 32 to 63    the block's bytes, in units of 512
 *     second word, bits 0 to 38    the block's address, in units of 512
 *     second word, bits 39 to 63   the other bits of the difference
 *
 * Locking: the arena's lock, or its pool's; or the block is the caller's alone. */
#ifndef TARN_HEAP_HISTORY_H
#define TARN_HEAP_HISTORY_H

#include "base/note.h"
#include "base/ring.h"
#include "heap/block.h"
#include "heap/history_table.h"

enum tn_history_kind {
    TN_HISTORY_NUMBER = TN_RING_STAMP + 1, /* of the next allocation */
    TN_HISTORY_ALLOC,
    TN_HISTORY_FREE,     /* the value: the number of a block that is no longer live */
    TN_HISTORY_RESTORED, /* as ALLOC, of a block that had been freed */
    /* The value: the number of a block that is freed, and allocated again with the same bytes. It
     * was allocated in the same page, and no NUMBER stands between. */
    TN_HISTORY_AGAIN,
    TN_HISTORY_NOTE = TN_RING_NOTE, /* of no block: base/note.h */
};

enum {
    TN_HISTORY_WASTE_BITS = 26, /* of the difference, in the first word's value */
    TN_HISTORY_ADDRESS_BITS = 48 - TN_BLOCK_BITS,
};

/* Among the events that a ring skips: the stacks of allocations. The table of live blocks has them. */
#define TN_HISTORY_SKIPS_STACKS (UINT64_C(1) << 63)

_Static_assert(TN_HISTORY_WASTE_BITS + 32 == 64 - TN_RING_VALUE_SHIFT, "the first word's value");

/* The id of the stack that was taken for the thread's allocation under way; 0: none. */
extern _Thread_local uint32_t tn_history_stack __attribute__((tls_model("initial-exec")));

/* Of an arena, or of a magazine. */
struct tn_history_writer {
    struct tn_ring_writer log;
    struct tn_block *freed; /* its free waits to be written; NULL: none does */
    uint64_t freed_number;
    /* The numbers from this one to log.base are of allocations in the page, behind its last number
     * that stands between; there may be none. */
    uint64_t run_begin;
};

/* A writer to the ring; NULL: it writes nothing. */
struct tn_history_writer tn_history_new_writer(struct tn_ring *ring);

/* The log has all events then. */
void tn_history_flush(struct tn_history_writer *history);

/* The writer's last event was written, or none may be. */
void tn_history_leave(struct tn_history_writer *history);

static inline bool tn_history_is_kept(const struct tn_history_writer *history)
{
    return history->log.ring != NULL;
}

/* Each writes that the block has become live: for the first time, or by a restore. */
void tn_history_alloc(struct tn_history_writer *history, const struct tn_block *block);
void tn_history_restored(struct tn_history_writer *history, const struct tn_block *block);

/* Writes that the block with this number is live no more. Reads nothing of the block: it may be free
 * by now, and still nobody else's. */
void tn_history_free(struct tn_history_writer *history, struct tn_block *block, uint64_t sequence);

/* The same, by the ring's writer for threads without one. */
void tn_history_free_by_guest(struct tn_ring *ring, const struct tn_block *block);

/* Adds an annotation, the id of a title, to a live block. The pool's lock is held. */
void tn_history_annotate(const struct tn_block *block, uint32_t title);

static TN_ALWAYS_INLINE struct tn_history_entry *tn_history_entry(const struct tn_block *block)
{
    /* As far from its table as the record from its slab. */
    const uintptr_t in_slab = (uintptr_t)block & (((uintptr_t)1 << TN_BLOCK_SLAB_BITS) - 1);
    struct tn_history_table *table = tn_block_slab(block)->table;

    TN_ASSERT(table != NULL);
    _Static_assert(sizeof(struct tn_history_entry) == sizeof(struct tn_block), "as far");
    return (void *)((char *)table + in_slab);
}

/* tn_history_free where no free waits; false: one does, and nothing is written. */
static TN_ALWAYS_INLINE bool tn_history_try_free(struct tn_history_writer *history,
                                                 struct tn_block *block)
{
    TN_ASSERT(atomic_load(&tn_history_entry(block)->number) == block->sequence);
    if (TN_UNLIKELY(history->freed != NULL))
        return false;
    history->freed = block;
    history->freed_number = block->sequence;
    return true;
}

/* Whether the free that waits, and an allocation of its block with this number, may be one event,
 * which has room. The block may have been allocated by another writer: its number may be above the
 * run's, too. */
static TN_ALWAYS_INLINE bool tn_history_may_join(const struct tn_history_writer *history,
                                                 uint64_t sequence)
{
    return TN_LIKELY(history->freed_number >= history->run_begin) &&
           TN_LIKELY(history->freed_number < sequence) &&
           TN_LIKELY(history->log.base == sequence) &&
           TN_LIKELY(history->log.at < history->log.stop);
}

/* Then: the block is allocated again, with the same bytes and the same request. */
static TN_ALWAYS_INLINE void tn_history_join(struct tn_history_writer *history, uint64_t sequence)
{
    struct tn_history_entry *entry = tn_history_entry(history->freed);

    TN_ASSERT(atomic_load(&entry->number) == history->freed_number);
    tn_ring_write(&history->log, tn_ring_first(TN_HISTORY_AGAIN, 0, history->freed_number));
    atomic_store_explicit(&entry->number, sequence, memory_order_release);
    history->freed = NULL;
    history->log.base = sequence + 1;
}

/* An allocation, as the log has it. */
struct tn_history_block {
    uint64_t address;
    uint64_t bytes;
    uint64_t requested;
};

/* Reads the two words of an allocation. */
static inline struct tn_history_block tn_history_block_of(const uint64_t words[2])
{
    uint64_t value = tn_ring_value(words[0]);
    uint64_t waste = (words[1] >> TN_HISTORY_ADDRESS_BITS << TN_HISTORY_WASTE_BITS) |
                     (value & ((UINT64_C(1) << TN_HISTORY_WASTE_BITS) - 1));
    uint64_t bytes = value >> TN_HISTORY_WASTE_BITS << TN_BLOCK_BITS;

    return (struct tn_history_block){
        .address = (words[1] & ((UINT64_C(1) << TN_HISTORY_ADDRESS_BITS) - 1)) << TN_BLOCK_BITS,
        .bytes = bytes,
        .requested = bytes - waste,
    };
}

#endif
