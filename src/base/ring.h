// SPDX-License-Identifier: Apache-2.0
/* ring.h -- a log of events in memory, for other processes to read, and for later ones.
 *
 * The memory is pages of 4 KiB. A writer has a page at a time, and writes events behind each other.
 * When the page is full, the writer leaves it and takes the one that was left longest ago. Its old
 * events are lost. Readers can tell, for pages of a writer are numbered.
 *
 * An event has one to four words. The first has the kind and the number of further words, and is not
 * 0. The head of a page says how many words are written:
 *
 *     a writer                             a reader
 *     page's serial: 0                     copies the serial
 *     count of words: 0                    copies the head
 *     page's serial: the next              copies the words
 *     an event's words                     copies the serial: it is the same one as before
 *     count of words: with the event's
 *
 * A reader thus never takes half an event for a whole event, wherever the writer is, or was when the
 * process was killed. Readers stop nobody. A killed writer has written all events but the last.
 *
 * An event has no clock of its own. A stamp, the time in nanoseconds, stands at the beginning of
 * each page, and behind at most 64 words. Whoever writes rarely puts a stamp before each event.
 *
 * Pages are overwritten in the order in which they were left, once all have been written. An event that finds no page is counted
 * as lost. With each page the ring keeps the value that a counter of the user's had when the page was
 * left. Later counts were written behind this page.
 *
 * A thread without a writer of its own uses a shared one, with a lock.
 *
 * Source: H.-J. Boehm, Can Seqlocks Get Along With Programming Language Memory Models? (MSPC 2012).
 *
 * Locking: a writer belongs to whoever holds the lock of what it records. The ring has a spin lock
 * for its pages, and one for each shared writer, which comes before. */
#ifndef TARN_BASE_RING_H
#define TARN_BASE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/contract.h"
#include "base/hot.h"
#include "base/spin.h"

enum {
    TN_RING_PAGE_BYTES = 4096,
    TN_RING_WORDS = 504, /* of events in a page */
    TN_RING_EVENT_WORDS_MAX = 4,
    TN_RING_STAMP_WORDS = 64, /* at most, from a stamp to the next */
    TN_RING_KIND_BITS = 4,
    TN_RING_VALUE_SHIFT = 6, /* of an event's first word: a kind, a count of words, a value */
    TN_RING_STAMP = 1,       /* the kind whose value is the time; others are the user's, 2 to 15 */
    TN_RING_SHARED = 64,     /* writers; a power of two */
};

#define TN_RING_SKIPS_OWN UINT64_C(1)

/* The greatest value of a first word, exclusive. */
#define TN_RING_VALUE_MAX (UINT64_C(1) << (64 - TN_RING_VALUE_SHIFT))

struct tn_ring_page {
    atomic_uint_fast64_t serial; /* rises with each page taken, from 1; 0: being made empty */
    atomic_uint_fast64_t count;  /* words of whole events */
    atomic_uint_fast64_t writer; /* whose events it has */
    atomic_uint_fast64_t place;  /* among the writer's pages, from 0: a gap is lost */
    atomic_uint_fast64_t lost;   /* the writer's events before that found no page */
    atomic_uint_fast64_t base;   /* of the writer's own: see tn_ring_writer */
    /* In the first page alone: events of all writers that found no page; it stays when the page is
     * taken. */
    atomic_uint_fast64_t lost_in_ring;
    /* Likewise: pages taken up to the last time that the ring was cleared. */
    atomic_uint_fast64_t cleared_in_ring;
    atomic_uint_fast64_t words[TN_RING_WORDS];
};

_Static_assert(sizeof(atomic_uint_fast64_t) == sizeof(uint64_t), "a word");
_Static_assert(sizeof(struct tn_ring_page) == TN_RING_PAGE_BYTES, "a page");

struct tn_ring_writer {
    uint64_t at;               /* where the next event goes */
    uint64_t stop;             /* no event crosses it without tn_ring_turn */
    struct tn_ring_page *page; /* NULL: none */
    uint64_t base;             /* the user's, for the head of the next page */
    struct tn_ring *ring;      /* NULL: it writes nothing */
    uint64_t id;               /* never another writer's of the same ring */
    uint64_t place;            /* of its next page */
    uint64_t lost;
};

struct tn_ring_shared {
    _Alignas(128) struct tn_spin lock;
    struct tn_ring_writer writer;
};

/* A page that was left. */
struct tn_ring_left {
    uint64_t counter; /* the user's, at that moment */
    size_t page;
};

/* Makes sure of the memory of further pages, which follow those it was asked for before. */
typedef bool (*tn_ring_reserve)(void *context, size_t page, size_t count);

/* In this process alone. Zeroed: no ring. */
struct tn_ring {
    struct tn_ring_page *pages; /* immutable, as the next five */
    size_t page_count;
    const atomic_uint_fast64_t *counter; /* the user's */
    struct tn_ring_shared *shared;
    tn_ring_reserve reserve; /* NULL: all pages have memory */
    void *reserve_context;
    /* What the counter counted above this was written to pages that stay until nearly half of those
     * without a writer are taken. */
    atomic_uint_fast64_t recent;
    /* Events that are not written. TN_RING_SKIPS_OWN: of all writers but the shared ones; other bits
     * are the user's. */
    atomic_uint_fast64_t skipped;
    /* What follows is written often. Bytes, and no alignment: the ring is part of a record whose
     * address a program may have made up. */
    char apart[128];
    atomic_uint_fast64_t writer_count; /* so far */
    struct tn_spin lock;               /* of the others */
    size_t reserved;                   /* pages that have memory */
    uint64_t taken;                    /* pages, all in all, with those that never got memory */
    uint64_t overwritten;              /* of them: pages with earlier events */
    uint64_t left_count;               /* the same, with those that nobody had yet */
    struct tn_ring_left *left; /* the page_count last ones; since those taken, all have no writer */
};

/* A ring in pages that are zeroed: page_count is at least 1. counter: of the user's, which rises; it
 * outlives the ring. False: no memory. */
bool tn_ring_init(struct tn_ring *ring, void *pages, size_t page_count,
                  const atomic_uint_fast64_t *counter);

/* Of a new ring: only the first pages have memory yet. Others get memory when first taken, some at
 * a time, under the lock of the ring's pages. Where there is no memory, the ring has fewer pages
 * from then on. */
void tn_ring_reserve_by(struct tn_ring *ring, size_t reserved, tn_ring_reserve reserve,
                        void *context);

/* The pages that have memory: the first ones. Others may not be touched. */
size_t tn_ring_reserved(struct tn_ring *ring);

void tn_ring_drop(struct tn_ring *ring); /* no writer is left; the pages stay as they are */

/* A writer of its own; ring NULL: it writes nothing. */
struct tn_ring_writer tn_ring_new_writer(struct tn_ring *ring);

/* All pages without a writer become empty, and shared writers take new ones. Other writers have been
 * left by their owners, or go on in their pages. */
void tn_ring_clear(struct tn_ring *ring);

/* Numbers of the user's counter up to now may be overwritten soon, or were not written. */
void tn_ring_forget(struct tn_ring *ring);

/* Until then nothing of the log counts as recent. */
void tn_ring_distrust(struct tn_ring *ring);

static inline bool tn_ring_skips(const struct tn_ring *ring, uint64_t bits)
{
    return (atomic_load_explicit(&ring->skipped, memory_order_relaxed) & bits) != 0;
}

struct tn_ring_counts {
    uint64_t taken;       /* pages, all in all */
    uint64_t overwritten; /* of them: pages with earlier events */
    uint64_t lost;        /* events of all writers that found no page */
};

/* Any thread. */
struct tn_ring_counts tn_ring_count(struct tn_ring *ring);

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
    return TN_LIKELY(writer->at + words <= writer->stop) || tn_ring_turn(writer, words);
}

/* Each writes an event's words, for which there is room. */
static TN_ALWAYS_INLINE void tn_ring_write(struct tn_ring_writer *writer, uint64_t first)
{
    struct tn_ring_page *page = writer->page;
    const uint64_t at = writer->at;

    TN_ASSERT(at + 1 <= TN_RING_WORDS);
    writer->at = at + 1;
    atomic_store_explicit(&page->words[at], first, memory_order_release);
    atomic_store_explicit(&page->count, at + 1, memory_order_release);
}

static TN_ALWAYS_INLINE void tn_ring_write_two(struct tn_ring_writer *writer, uint64_t first,
                                               uint64_t second)
{
    struct tn_ring_page *page = writer->page;
    const uint64_t at = writer->at;

    TN_ASSERT(at + 2 <= TN_RING_WORDS);
    writer->at = at + 2;
    atomic_store_explicit(&page->words[at], first, memory_order_release);
    atomic_store_explicit(&page->words[at + 1], second, memory_order_release);
    atomic_store_explicit(&page->count, at + 2, memory_order_release);
}

/* Each writes one event. */
static TN_ALWAYS_INLINE void tn_ring_put(struct tn_ring_writer *writer, unsigned kind,
                                         uint64_t value)
{
    if (tn_ring_has_room(writer, 1))
        tn_ring_write(writer, tn_ring_first(kind, 0, value));
}

static TN_ALWAYS_INLINE void tn_ring_put_two(struct tn_ring_writer *writer, unsigned kind,
                                             uint64_t value, uint64_t second)
{
    if (tn_ring_has_room(writer, 2))
        tn_ring_write_two(writer, tn_ring_first(kind, 1, value), second);
}

/* more: up to three words, of which there are count. */
void tn_ring_put_more(struct tn_ring_writer *writer, unsigned kind, uint64_t value,
                      const uint64_t *more, size_t count);

/* The shared writer for the calling thread, locked; give it back. */
struct tn_ring_writer *tn_ring_enter(struct tn_ring *ring);
void tn_ring_exit(struct tn_ring_writer *writer);

/* Numbers of the ring's counter up to here may have been overwritten soon. */
static TN_ALWAYS_INLINE uint64_t tn_ring_recent(const struct tn_ring_writer *writer)
{
    return atomic_load_explicit(&writer->ring->recent, memory_order_relaxed);
}

/* Writes the time; the event behind it happened then. */
void tn_ring_put_stamp(struct tn_ring_writer *writer);

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

/* Copies words of this process as a source does. */
void tn_ring_copy_words(uint64_t *to, const atomic_uint_fast64_t *from, size_t count);

/* Pages taken before the ring was cleared last; 0: that cannot be read. */
uint64_t tn_ring_cleared(tn_ring_source source, void *context);

enum tn_ring_read {
    TN_RING_READ,
    TN_RING_EMPTY,  /* nothing is written there, or it was overwritten meanwhile */
    TN_RING_BROKEN, /* it cannot be read, or has words of no writer's */
};

/* Events that found no page, so far; 0: that cannot be read. */
uint64_t tn_ring_lost(tn_ring_source source, void *context);

/* Reads a page, whoever writes it meanwhile. */
enum tn_ring_read tn_ring_read(tn_ring_source source, void *context, size_t page,
                               struct tn_ring_copy *copy);

#endif
