// SPDX-License-Identifier: Apache-2.0
/* stacks.h -- a table that gives each stack an id: equal stacks have one id, and are kept once.
 *
 * Stacks are records of a scroll (base/scroll.h), whose words are the frames (base/stack.h), up to
 * 64. A stack's id is that of its record. The memory is handed in: other processes read it, and later
 * ones. A file names stacks by ids alone.
 *
 *     id 0   no stack: never given
 *     id 1   a stack that found no room: the scroll's word 0 counts how often
 *     id 2   no stack, but of what the library did by itself: never given, but the caller's to say
 *
 * Titles (base/title.h) are records of the same scroll, and take at most half of it.
 *
 * To give a known stack its id takes no lock, and writes nothing. The way from frames to ids is an
 * index in the process's own memory, which no reader needs.
 *
 * Locking: any thread. A spin lock guards what is added: it is held for a copy of one stack and
 * taken with whatever others are held. Not from a handler of a signal. */
#ifndef TARN_BASE_STACKS_H
#define TARN_BASE_STACKS_H

#include <stdatomic.h>

#include "base/scroll.h"
#include "base/spin.h"
#include "base/stack.h"

enum { TN_STACKS_NONE = 0, TN_STACKS_FULL = 1, TN_STACKS_OWN = 2 };

/* In this process alone. */
struct tn_stacks {
    struct tn_scroll scroll;     /* guarded by lock; what was added is immutable */
    atomic_uint_fast64_t *index; /* a part of the hash (high half) and an id (low), or 0 */
    size_t index_mask;           /* immutable; the index has one entry more, a power of two */
    size_t count;                /* guarded by lock; of records */
    size_t title_words;          /* guarded by lock; of the scroll, in records that are titles */
    struct tn_spin lock;
    atomic_bool full; /* a stack found no room */
};

/* A table in zeroed memory that begins at a multiple of eight; the memory stays the caller's. False:
 * no memory for the index, an eighth to a quarter of what is handed in. */
bool tn_stacks_init(struct tn_stacks *stacks, void *memory, size_t bytes);
void tn_stacks_drop(struct tn_stacks *stacks); /* nobody calls it any more */

/* The id of the stack, never 0. *is_new: whether it was added by this call. */
uint32_t tn_stacks_enter(struct tn_stacks *stacks, const struct tn_stack *stack, bool *is_new);

/* The id of the title of these words, never 0. It is the one whose first key_count words are these:
 * all words of a label; of others the first two. */
uint32_t tn_stacks_enter_title(struct tn_stacks *stacks, const uint64_t *words, size_t count,
                               size_t key_count);

/* The id of the title with these first words; 0: there is none. */
uint32_t tn_stacks_find_title(const struct tn_stacks *stacks, const uint64_t *key,
                              size_t key_count);

struct tn_stacks_counts {
    uint64_t records; /* stacks and titles */
    uint64_t bytes;   /* of the scroll, so far */
    uint64_t lost;    /* records without room, counted each time */
};

/* Any thread. */
struct tn_stacks_counts tn_stacks_count(struct tn_stacks *stacks);

/* Reads a stack of any process. FULL and OWN are read as stacks without frames. */
enum tn_scroll_answer tn_stacks_read(const struct tn_scroll_reader *reader, uint32_t id,
                                     struct tn_stack *stack);

#endif
