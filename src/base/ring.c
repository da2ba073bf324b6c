// SPDX-License-Identifier: Apache-2.0
/* A page's serial is 0 while its count is made 0. A reader with the same serial before and after the
 * copies has words of this serial alone: whoever reads a word of a later serial, written by a
 * release as all of them are, finds a later serial afterwards.
 *
 * Pages nobody had yet are left from the beginning. The list of those left is a circle: a page that
 * is taken makes room for itself. */
#include "base/ring.h"

#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/thread.h"

bool tn_ring_init(struct tn_ring *ring, void *pages, size_t page_count,
                  const atomic_uint_fast64_t *counter)
{
    TN_ASSERT(page_count > 0);
    TN_ASSERT((uintptr_t)pages % _Alignof(struct tn_ring_page) == 0);
    *ring = (struct tn_ring){.pages = pages, .page_count = page_count, .counter = counter};
    ring->left = tn_host_alloc(page_count, sizeof *ring->left);
    ring->shared = tn_host_alloc_aligned(_Alignof(struct tn_ring_shared),
                                         TN_RING_SHARED * sizeof *ring->shared);
    if (ring->left == NULL || ring->shared == NULL) {
        tn_host_free(ring->left);
        tn_host_free(ring->shared);
        return false;
    }
    memset(ring->shared, 0, TN_RING_SHARED * sizeof *ring->shared);
    for (size_t i = 0; i < page_count; i++)
        ring->left[i] = (struct tn_ring_left){.page = i};
    ring->left_count = page_count;
    ring->reserved = page_count;
    for (size_t i = 0; i < TN_RING_SHARED; i++)
        ring->shared[i].writer = tn_ring_new_writer(ring);
    return true;
}

void tn_ring_reserve_by(struct tn_ring *ring, size_t reserved, tn_ring_reserve reserve,
                        void *context)
{
    TN_ASSERT(ring->taken == 0 && reserved > 0 && reserved <= ring->page_count);
    ring->reserved = reserved;
    ring->reserve = reserve;
    ring->reserve_context = context;
}

size_t tn_ring_reserved(struct tn_ring *ring)
{
    size_t count;

    tn_spin_acquire(&ring->lock);
    count = ring->reserved;
    tn_spin_release(&ring->lock);
    return count;
}

void tn_ring_drop(struct tn_ring *ring)
{
    for (size_t i = 0; i < TN_RING_SHARED && ring->shared != NULL; i++)
        tn_ring_leave(&ring->shared[i].writer);
    TN_ASSERT(ring->left_count ==
              ring->taken + (ring->reserve != NULL ? ring->page_count : ring->reserved));
    tn_host_free(ring->left);
    tn_host_free(ring->shared);
    *ring = (struct tn_ring){.pages = NULL};
}

/* Pages that were left have the counter of now. */
static void forget(struct tn_ring *ring)
{
    const uint64_t counter = atomic_load_explicit(ring->counter, memory_order_relaxed);

    TN_ASSERT(tn_spin_is_taken(&ring->lock));
    for (uint64_t i = ring->taken; i < ring->left_count; i++)
        ring->left[i % ring->page_count].counter = counter;
    atomic_store_explicit(&ring->recent, counter, memory_order_relaxed);
}

void tn_ring_forget(struct tn_ring *ring)
{
    tn_spin_acquire(&ring->lock);
    forget(ring);
    tn_spin_release(&ring->lock);
}

void tn_ring_distrust(struct tn_ring *ring)
{
    tn_spin_acquire(&ring->lock);
    atomic_store_explicit(&ring->recent, UINT64_MAX, memory_order_relaxed);
    tn_spin_release(&ring->lock);
}

void tn_ring_clear(struct tn_ring *ring)
{
    for (size_t i = 0; i < TN_RING_SHARED; i++) {
        tn_spin_acquire(&ring->shared[i].lock);
        tn_ring_leave(&ring->shared[i].writer);
        tn_spin_release(&ring->shared[i].lock);
    }
    tn_spin_acquire(&ring->lock);
    for (uint64_t i = ring->taken; i < ring->left_count; i++) {
        const size_t page = ring->left[i % ring->page_count].page;

        if (page < ring->reserved)
            atomic_store_explicit(&ring->pages[page].serial, 0, memory_order_release);
    }
    atomic_store_explicit(&ring->pages->cleared_in_ring, ring->taken, memory_order_release);
    forget(ring);
    tn_spin_release(&ring->lock);
}

struct tn_ring_counts tn_ring_count(struct tn_ring *ring)
{
    struct tn_ring_counts counts = {
        .lost = atomic_load_explicit(&ring->pages->lost_in_ring, memory_order_relaxed)};

    tn_spin_acquire(&ring->lock);
    counts.taken = ring->taken;
    counts.overwritten = ring->overwritten;
    tn_spin_release(&ring->lock);
    TN_ASSERT(counts.overwritten <= counts.taken);
    return counts;
}

struct tn_ring_writer tn_ring_new_writer(struct tn_ring *ring)
{
    uint64_t id =
        ring == NULL ? 0 : atomic_fetch_add_explicit(&ring->writer_count, 1, memory_order_relaxed);

    return (struct tn_ring_writer){.ring = ring, .id = id};
}

/* Finds what will stay until half of the pages without a writer are taken. */
static void raise_recent(struct tn_ring *ring)
{
    const uint64_t left = ring->left_count - ring->taken;
    uint64_t recent = UINT64_MAX;

    TN_ASSERT(tn_spin_is_taken(&ring->lock) && ring->left_count >= ring->taken);
    if (left > 0)
        recent = ring->left[(ring->taken + left / 2) % ring->page_count].counter;
    atomic_store_explicit(&ring->recent, recent, memory_order_relaxed);
}

/* Gives memory to the next pages. Without memory the pages that never had any are passed over. */
static void reserve_more(struct tn_ring *ring)
{
    enum { STEP = 32 };
    const size_t count = tn_min((size_t)STEP, ring->page_count - ring->reserved);

    TN_ASSERT(tn_spin_is_taken(&ring->lock) && ring->taken == ring->reserved);
    if (ring->reserve(ring->reserve_context, ring->reserved, count)) {
        ring->reserved += count;
        return;
    }
    ring->reserve = NULL;
    ring->taken = ring->page_count;
    raise_recent(ring);
}

/* The page left longest ago becomes the caller's, not to be read; NULL: none is left. *serial: for
 * the page, once it may be read. */
static struct tn_ring_page *take_page(struct tn_ring *ring, uint64_t *serial)
{
    struct tn_ring_page *page = NULL;

    tn_spin_acquire(&ring->lock);
    TN_ASSERT(ring->left_count - ring->taken <= ring->page_count);
    if (ring->reserve != NULL && ring->taken == ring->reserved && ring->reserved < ring->page_count)
        reserve_more(ring);
    if (ring->left_count > ring->taken) {
        page = &ring->pages[ring->left[ring->taken % ring->page_count].page];
        ring->taken += 1;
        ring->overwritten += atomic_load_explicit(&page->serial, memory_order_relaxed) != 0 ? 1 : 0;
        *serial = ring->taken;
        if (ring->taken % (ring->page_count / 16 + 1) == 0)
            raise_recent(ring);
    }
    tn_spin_release(&ring->lock);
    if (page != NULL)
        atomic_store_explicit(&page->serial, 0, memory_order_relaxed);
    return page;
}

void tn_ring_leave(struct tn_ring_writer *writer)
{
    struct tn_ring *ring = writer->ring;

    if (writer->page != NULL) {
        struct tn_ring_left left = {.page = (size_t)(writer->page - ring->pages)};

        TN_ASSERT(left.page < ring->page_count);
        tn_spin_acquire(&ring->lock);
        left.counter = atomic_load_explicit(ring->counter, memory_order_relaxed);
        ring->left[ring->left_count % ring->page_count] = left;
        ring->left_count += 1;
        tn_spin_release(&ring->lock);
    }
    writer->page = NULL;
    writer->at = 0;
    writer->stop = 0;
}

static bool begin_page(struct tn_ring_writer *writer)
{
    uint64_t serial = 0;
    struct tn_ring_page *page;

    tn_ring_leave(writer);
    page = take_page(writer->ring, &serial);
    if (page == NULL)
        return false;
    atomic_store_explicit(&page->count, 0, memory_order_release);
    atomic_store_explicit(&page->writer, writer->id, memory_order_release);
    atomic_store_explicit(&page->place, writer->place, memory_order_release);
    atomic_store_explicit(&page->lost, writer->lost, memory_order_release);
    atomic_store_explicit(&page->base, writer->base, memory_order_release);
    atomic_store_explicit(&page->serial, serial, memory_order_release);
    writer->place += 1;
    writer->page = page;
    return true;
}

/* Where no event of so many words, with a stamp before it, has room: the end of the page. */
static bool is_full(const struct tn_ring_writer *writer, size_t words)
{
    return writer->page == NULL || TN_RING_WORDS - writer->at < words + 1;
}

/* Brings the lines of the words behind the next stamp near: they were written a whole ring ago. */
static void bring_near(const struct tn_ring_writer *writer)
{
    enum { WORDS = 64 / sizeof(uint64_t) };

    for (uint64_t at = writer->at; at < writer->at + 2 * (uint64_t)TN_RING_STAMP_WORDS; at += WORDS)
        __builtin_prefetch(&writer->page->words[tn_min(at, (uint64_t)TN_RING_WORDS - 1)], 1);
}

bool tn_ring_turn(struct tn_ring_writer *writer, size_t words)
{
    TN_ASSERT(words > 0 && words <= TN_RING_EVENT_WORDS_MAX);
    if (writer->ring == NULL)
        return false;
    if (writer->id >= TN_RING_SHARED && tn_ring_skips(writer->ring, TN_RING_SKIPS_OWN))
        return false;
    if (is_full(writer, words) && !begin_page(writer)) {
        writer->lost += 1;
        /* A writer that never gets a page tells nobody else. */
        atomic_fetch_add_explicit(&writer->ring->pages->lost_in_ring, 1, memory_order_relaxed);
        return false;
    }
    tn_ring_put_stamp(writer);
    TN_ASSERT(writer->at + words <= writer->stop);
    bring_near(writer);
    return true;
}

void tn_ring_put_stamp(struct tn_ring_writer *writer)
{
    if (is_full(writer, 0))
        return; /* the next event begins a page, with a stamp */
    tn_ring_write(writer, tn_ring_first(TN_RING_STAMP, 0, tn_clock_nanoseconds(CLOCK_MONOTONIC)));
    writer->stop = tn_min(writer->at + TN_RING_STAMP_WORDS, (uint64_t)TN_RING_WORDS);
}

void tn_ring_put_more(struct tn_ring_writer *writer, unsigned kind, uint64_t value,
                      const uint64_t *more, size_t count)
{
    TN_ASSERT(count < TN_RING_EVENT_WORDS_MAX);
    if (!tn_ring_has_room(writer, 1 + count))
        return;
    for (size_t i = 0; i < count; i++)
        atomic_store_explicit(&writer->page->words[writer->at + 1 + i], more[i],
                              memory_order_release);
    atomic_store_explicit(&writer->page->words[writer->at],
                          tn_ring_first(kind, (unsigned)count, value), memory_order_release);
    writer->at += 1 + count;
    TN_ASSERT(writer->at <= TN_RING_WORDS);
    atomic_store_explicit(&writer->page->count, writer->at, memory_order_release);
}

struct tn_ring_writer *tn_ring_enter(struct tn_ring *ring)
{
    uint64_t thread = (uint64_t)tn_thread_word() * TN_GOLDEN;
    struct tn_ring_shared *shared = &ring->shared[thread >> 58 & (TN_RING_SHARED - 1)];

    tn_spin_acquire(&shared->lock);
    return &shared->writer;
}

void tn_ring_exit(struct tn_ring_writer *writer)
{
    struct tn_ring_shared *shared =
        (void *)((char *)writer - offsetof(struct tn_ring_shared, writer));

    tn_spin_release(&shared->lock);
}

void tn_ring_copy_words(uint64_t *to, const atomic_uint_fast64_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = atomic_load_explicit(from + i, memory_order_acquire);
}

bool tn_ring_from_memory(void *context, size_t offset, void *bytes, size_t count)
{
    const struct tn_ring *ring = context;

    TN_ASSERT(offset % sizeof(uint64_t) == 0 && count % sizeof(uint64_t) == 0);
    TN_ASSERT(offset + count <= ring->page_count * TN_RING_PAGE_BYTES);
    tn_ring_copy_words(bytes, (const void *)((const char *)ring->pages + offset),
                       count / sizeof(uint64_t));
    return true;
}

uint64_t tn_ring_lost(tn_ring_source source, void *context)
{
    uint64_t lost;

    return source(context, offsetof(struct tn_ring_page, lost_in_ring), &lost, sizeof lost) ? lost
                                                                                            : 0;
}

uint64_t tn_ring_cleared(tn_ring_source source, void *context)
{
    uint64_t cleared;

    return source(context, offsetof(struct tn_ring_page, cleared_in_ring), &cleared, sizeof cleared)
               ? cleared
               : 0;
}

/* Whether these are whole events, as writers write them. */
static bool are_events(const uint64_t *words, size_t count)
{
    size_t at = 0;

    while (at < count) {
        if (tn_ring_kind(words[at]) == 0)
            return false;
        at += tn_ring_words(words[at]);
    }
    return at == count;
}

enum tn_ring_read tn_ring_read(tn_ring_source source, void *context, size_t page,
                               struct tn_ring_copy *copy)
{
    /* As in struct tn_ring_page, in plain words. */
    enum { HEAD = offsetof(struct tn_ring_page, words) / sizeof(uint64_t) };
    uint64_t head[HEAD];
    uint64_t serial;
    uint64_t serial_after;
    size_t offset = page * TN_RING_PAGE_BYTES;

    if (!source(context, offset, &serial, sizeof serial))
        return TN_RING_BROKEN;
    if (serial == 0)
        return TN_RING_EMPTY;
    if (!source(context, offset, head, sizeof head) ||
        !source(context, offset + sizeof head, copy->words, sizeof copy->words) ||
        !source(context, offset, &serial_after, sizeof serial_after))
        return TN_RING_BROKEN;
    if (serial_after != serial)
        return TN_RING_EMPTY;
    copy->serial = serial;
    copy->word_count = (size_t)head[1];
    copy->writer = head[2];
    copy->place = head[3];
    copy->lost = head[4];
    copy->base = head[5];
    if (head[1] > TN_RING_WORDS || !are_events(copy->words, copy->word_count))
        return TN_RING_BROKEN;
    return TN_RING_READ;
}
