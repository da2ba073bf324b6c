// SPDX-License-Identifier: Apache-2.0
/* ring.h -- a log of events in memory, for other processes to read, and for later ones.
 *
 * The memory is a head and pages of 4 KiB. A writer has a page at a time, and writes events behind
 * each other. When the page is full, the writer takes another: of those without a writer the page
 * taken longest ago. Its old events are lost. Readers can tell, for pages of a writer are numbered.
 * Writers share nothing but the counter of pages taken.
 *
 * An event has one to four words. The first has the kind and the number of further words, and is not
 * 0. The words of a page are 0 when a writer begins it, and each is written once:
 *
 *     a writer                             a reader
 *     page's serial: 0                     copies the serial
 *     words: 0                             copies the page: how many words it may believe
 *     page's serial: the next              copies the page again: these words
 *     an event's last words                copies the serial: it is the same one as before
 *     its first word
 *
 * A reader thus never takes half an event for a whole event, wherever the writer is, or was when the
 * process was killed. Readers stop nobody. A killed writer has written all events but the last.
 *
 * An event has no clock of its own. A stamp, the time in nanoseconds, stands at the beginning of
 * each page, and behind at most 64 words.
 *
 * Source: H.-J. Boehm, Can Seqlocks Get Along With Programming Language Memory Models? (MSPC 2012).
 *
 * Locking: a writer belongs to whoever holds the lock of what it records. Pages pass by atomic
 * operations. */
#ifndef TARN_BASE_RING_H
#define TARN_BASE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/contract.h"
#include "base/hot.h"

enum {
    TN_RING_PAGE_BYTES = 4096,
    TN_RING_WORDS = 504, /* of events in a page */
    TN_RING_EVENT_WORDS_MAX = 4,
    TN_RING_STAMP_WORDS = 64, /* at most, from a stamp to the next */
    TN_RING_KIND_BITS = 4,
    TN_RING_VALUE_SHIFT = 6, /* of an event's first word: a kind, a count of words, a value */
    TN_RING_STAMP = 1,       /* the kind whose value is the time; others are the user's, 2 to 15 */
};

/* The greatest value of a first word, exclusive. */
#define TN_RING_VALUE_MAX (UINT64_C(1) << (64 - TN_RING_VALUE_SHIFT))

struct tn_ring_page {
    atomic_uint_fast64_t serial; /* rises with each page taken, from 1; 0: being made empty */
    atomic_uint_fast64_t writer; /* whose events it has */
    atomic_uint_fast64_t place;  /* among the writer's pages, from 0: a gap is lost */
    atomic_uint_fast64_t lost;   /* the writer's events before that found no page */
    atomic_uint_fast64_t base;   /* of the writer's own: see tn_ring_writer */
    uint64_t unused[3];
    atomic_uint_fast64_t words[TN_RING_WORDS];
};

_Static_assert(sizeof(atomic_uint_fast64_t) == sizeof(uint64_t), "a word");
_Static_assert(sizeof(struct tn_ring_page) == TN_RING_PAGE_BYTES, "a page");

/* In this process alone. Zeroed: no ring. */
struct tn_ring {
    struct tn_ring_page *pages;
    size_t page_count;
    atomic_uint_fast64_t taken; /* pages, all in all */
    atomic_bool *written;       /* of each page: a writer has it */
};

struct tn_ring_writer {
    atomic_uint_fast64_t *next; /* where the next event goes */
    atomic_uint_fast64_t *stop; /* no event crosses it without tn_ring_turn */
    struct tn_ring *ring;       /* NULL: it writes nothing */
    struct tn_ring_page *page;  /* NULL: none */
    uint64_t id;                /* never another writer's of the same ring */
    uint64_t place;             /* of its next page */
    uint64_t lost;
    uint64_t base; /* the user's, for the head of the next page */
};

/* A ring in pages that are zeroed, or whose process has ended: page_count is at least 1. False: no
 * memory. */
bool tn_ring_init(struct tn_ring *ring, void *pages, size_t page_count);
void tn_ring_drop(struct tn_ring *ring); /* no writer is left; the pages stay as they are */

/* The writer gives the page back for others to take, and will go on with a new page. */
void tn_ring_leave(struct tn_ring_writer *writer);

/* Makes room for an event of so many words: writes a stamp, or takes a page. False: every page has
 * another writer, and the event is counted as lost. */
TN_RARE bool tn_ring_turn(struct tn_ring_writer *writer, size_t words);

static TN_ALWAYS_INLINE uint64_t tn_ring_first(unsigned kind, unsigned more, uint64_t value)
{
    TN_ASSERT(kind > 0 && kind < 1U << TN_RING_KIND_BITS && more < TN_RING_EVENT_WORDS_MAX);
    TN_ASSERT(value < TN_RING_VALUE_MAX);
    return value << TN_RING_VALUE_SHIFT | (uint64_t)more << TN_RING_KIND_BITS | kind;
}

static inline unsigned tn_ring_kind(uint64_t first)
{
    return (unsigned)first & ((1U << TN_RING_KIND_BITS) - 1);
}

/* Of the whole event. */
static inline size_t tn_ring_words(uint64_t first)
{
    return 1 + (first >> TN_RING_KIND_BITS & (TN_RING_EVENT_WORDS_MAX - 1));
}

static inline uint64_t tn_ring_value(uint64_t first)
{
    return first >> TN_RING_VALUE_SHIFT;
}

/* Whether an event of so many words has room, which is made where there is none. */
static TN_ALWAYS_INLINE bool tn_ring_has_room(struct tn_ring_writer *writer, size_t words)
{
    return TN_LIKELY(writer->stop - writer->next >= (ptrdiff_t)words) ||
           tn_ring_turn(writer, words);
}

/* Each writes one event. */
static TN_ALWAYS_INLINE void tn_ring_put(struct tn_ring_writer *writer, unsigned kind,
                                         uint64_t value)
{
    if (!tn_ring_has_room(writer, 1))
        return;
    atomic_store_explicit(writer->next, tn_ring_first(kind, 0, value), memory_order_release);
    writer->next += 1;
}

static TN_ALWAYS_INLINE void tn_ring_put_two(struct tn_ring_writer *writer, unsigned kind,
                                             uint64_t value, uint64_t second)
{
    if (!tn_ring_has_room(writer, 2))
        return;
    atomic_store_explicit(writer->next + 1, second, memory_order_release);
    atomic_store_explicit(writer->next, tn_ring_first(kind, 1, value), memory_order_release);
    writer->next += 2;
}

/* more: up to three words, of which there are count. */
void tn_ring_put_more(struct tn_ring_writer *writer, unsigned kind, uint64_t value,
                      const uint64_t *more, size_t count);

/* What a reader believes of a page. */
struct tn_ring_copy {
    uint64_t serial;
    uint64_t writer;
    uint64_t place;
    uint64_t lost;
    uint64_t base;
    size_t word_count; /* whole events */
    uint64_t words[TN_RING_WORDS];
};

/* Copies bytes of the ring, from an offset in its pages, in an order of its own. All reads of a call
 * come before those of the next call. False: they cannot be read. */
typedef bool (*tn_ring_source)(void *context, size_t offset, void *bytes, size_t count);

/* A source: a ring in this process; the context is its struct tn_ring. */
bool tn_ring_from_memory(void *context, size_t offset, void *bytes, size_t count);

enum tn_ring_read {
    TN_RING_READ,
    TN_RING_EMPTY,  /* nothing is written there, or it was overwritten meanwhile */
    TN_RING_BROKEN, /* it cannot be read, or has words of no writer's */
};

/* Reads a page, whoever writes it meanwhile. */
enum tn_ring_read tn_ring_read(tn_ring_source source, void *context, size_t page,
                               struct tn_ring_copy *copy);

#endif
