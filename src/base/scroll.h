// SPDX-License-Identifier: Apache-2.0
/* scroll.h -- records of words, for other processes to read, and for later ones. A record is written
 * once, behind the others, and never changes.
 *
 * The memory is words of eight bytes, zeroed at first. All numbers are the machine's own:
 *
 *     word 0         how many records found no room
 *     words 1 to 7   nothing
 *     from word 8    records, one behind the other, up to a word 0 or the end
 *
 * A record is a head and up to 255 words behind it:
 *
 *     bits 0 to 7    of the head: the number of words behind it
 *     bits 8 to 31   0
 *     bits 32 to 63  the record's id: which word of the memory the head is
 *
 * Ids are thus 8 or more. 0 is never an id, and the user may give 1 to 7 meanings of its own.
 *
 * A writer writes a record's head last. A reader that finds a head finds the whole record, wherever
 * the writer is, or was when the process was killed. Readers stop nobody. A copy of the memory in
 * one piece has each record that was written when the copying began. Of later records a copy may have
 * the head without the words, for memory may be copied in any order.
 *
 * Locking: adding needs a lock of the user's. Any thread may read what was added before. */
#ifndef TARN_BASE_SCROLL_H
#define TARN_BASE_SCROLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/contract.h"

enum {
    TN_SCROLL_FIRST = 8, /* the first record's id */
    TN_SCROLL_WORDS_MAX = 255,
};

/* In this process alone. */
struct tn_scroll {
    uint64_t *words; /* NULL: none */
    size_t word_count;
    size_t next; /* where the next record's head goes */
};

/* In zeroed memory that begins at a multiple of eight. Fewer bytes than 64 have room for nothing. */
void tn_scroll_init(struct tn_scroll *scroll, void *memory, size_t bytes);

/* Writes a record of so many words, 255 at most, and returns its id. 0: no room, which is counted. */
uint32_t tn_scroll_add(struct tn_scroll *scroll, const uint64_t *words, size_t count);

/* Counts a record that the user has no room for. Any thread. */
void tn_scroll_lose(struct tn_scroll *scroll);

/* How many records found no room. Any thread. */
uint64_t tn_scroll_lost(const struct tn_scroll *scroll);

/* The words of a record that this process has added. */
static inline const uint64_t *tn_scroll_words(const struct tn_scroll *scroll, uint32_t id)
{
    TN_ASSERT(id >= TN_SCROLL_FIRST && id < scroll->word_count);
    return scroll->words + id + 1;
}

/* Copies bytes of the memory, from an offset, in an order of its own. All reads of a call come
 * before those of the next call. False: they cannot be read. */
typedef bool (*tn_scroll_source)(void *context, size_t offset, void *bytes, size_t count);

/* A source: a scroll in this process; the context is its struct tn_scroll. */
bool tn_scroll_from_memory(void *context, size_t offset, void *bytes, size_t count);

/* Where a reader finds a scroll that it does not trust. */
struct tn_scroll_reader {
    tn_scroll_source source;
    void *context;
    size_t bytes; /* that the source has */
};

enum tn_scroll_answer {
    TN_SCROLL_READ,
    TN_SCROLL_EMPTY,  /* nothing is written there */
    TN_SCROLL_BROKEN, /* it cannot be read, or no writer wrote it */
};

/* Reads the record of an id. words has room for 255. The next record's id is higher by *count + 1. */
enum tn_scroll_answer tn_scroll_read(const struct tn_scroll_reader *reader, uint32_t id,
                                     uint64_t *words, size_t *count);

#endif
