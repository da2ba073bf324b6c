// SPDX-License-Identifier: Apache-2.0
/* A page's serial is 0 while the words are made empty. A reader with the same serial before and
 * after the copies has words of this serial alone: whoever reads a word of a later serial, written
 * by a release as all of them are, finds a later serial afterwards.
 *
 * A reader copies a page twice. The words in the first copy, and with each first word the rest of the
 * event, were written before the second copy began. A copy may read words in any order. */
#include "base/ring.h"

#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/host.h"

static uint64_t now(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

bool tn_ring_init(struct tn_ring *ring, void *pages, size_t page_count)
{
    TN_ASSERT(page_count > 0);
    TN_ASSERT((uintptr_t)pages % _Alignof(struct tn_ring_page) == 0);
    ring->pages = pages;
    ring->page_count = page_count;
    atomic_init(&ring->taken, 0);
    ring->written = tn_host_alloc(page_count, sizeof *ring->written);
    return ring->written != NULL;
}

void tn_ring_drop(struct tn_ring *ring)
{
    for (size_t i = 0; i < ring->page_count && ring->written != NULL; i++)
        TN_ASSERT(!atomic_load(&ring->written[i]));
    tn_host_free(ring->written);
    *ring = (struct tn_ring){.pages = NULL};
}

/* The next page without a writer becomes the caller's, empty; NULL: none. *serial: for the page,
 * once it may be read. */
static struct tn_ring_page *take_page(struct tn_ring *ring, uint64_t *serial)
{
    for (size_t tries = 0; tries < ring->page_count; tries++) {
        uint64_t taken = atomic_fetch_add_explicit(&ring->taken, 1, memory_order_relaxed);
        size_t at = (size_t)(taken % ring->page_count);
        struct tn_ring_page *page = &ring->pages[at];
        bool written = false;

        if (!atomic_compare_exchange_strong_explicit(&ring->written[at], &written, true,
                                                     memory_order_acquire, memory_order_relaxed))
            continue;
        *serial = taken + 1;
        atomic_store_explicit(&page->serial, 0, memory_order_relaxed);
        for (size_t i = 0; i < TN_RING_WORDS;
             i++) /* who reads a 0 finds that serial, or a later one */
            atomic_store_explicit(&page->words[i], 0, memory_order_release);
        return page;
    }
    return NULL;
}

void tn_ring_leave(struct tn_ring_writer *writer)
{
    if (writer->page != NULL) {
        size_t at = (size_t)(writer->page - writer->ring->pages);

        TN_ASSERT(at < writer->ring->page_count && atomic_load(&writer->ring->written[at]));
        atomic_store_explicit(&writer->ring->written[at], false, memory_order_release);
    }
    writer->page = NULL;
    writer->next = NULL;
    writer->stop = NULL;
}

static bool begin_page(struct tn_ring_writer *writer)
{
    uint64_t serial = 0;
    struct tn_ring_page *page;

    tn_ring_leave(writer);
    page = take_page(writer->ring, &serial);
    if (page == NULL)
        return false;
    atomic_store_explicit(&page->writer, writer->id, memory_order_release);
    atomic_store_explicit(&page->place, writer->place, memory_order_release);
    atomic_store_explicit(&page->lost, writer->lost, memory_order_release);
    atomic_store_explicit(&page->base, writer->base, memory_order_release);
    atomic_store_explicit(&page->serial, serial, memory_order_release);
    writer->place += 1;
    writer->page = page;
    writer->next = page->words;
    return true;
}

/* Where no event of so many words, with a stamp before it, has room: the end of the page. */
static bool is_full(const struct tn_ring_writer *writer, size_t words)
{
    return writer->page == NULL ||
           writer->page->words + TN_RING_WORDS - writer->next < (ptrdiff_t)(words + 1);
}

bool tn_ring_turn(struct tn_ring_writer *writer, size_t words)
{
    size_t left;

    TN_ASSERT(words > 0 && words <= TN_RING_EVENT_WORDS_MAX);
    if (writer->ring == NULL)
        return false;
    if (is_full(writer, words) && !begin_page(writer)) {
        writer->lost += 1;
        return false;
    }
    atomic_store_explicit(writer->next, tn_ring_first(TN_RING_STAMP, 0, now()),
                          memory_order_release);
    writer->next += 1;
    left = (size_t)(writer->page->words + TN_RING_WORDS - writer->next);
    TN_ASSERT(left >= words);
    writer->stop = writer->next + tn_min(left, TN_RING_STAMP_WORDS);
    return true;
}

void tn_ring_put_more(struct tn_ring_writer *writer, unsigned kind, uint64_t value,
                      const uint64_t *more, size_t count)
{
    TN_ASSERT(count < TN_RING_EVENT_WORDS_MAX);
    if (!tn_ring_has_room(writer, 1 + count))
        return;
    for (size_t i = 0; i < count; i++)
        atomic_store_explicit(writer->next + 1 + i, more[i], memory_order_release);
    atomic_store_explicit(writer->next, tn_ring_first(kind, (unsigned)count, value),
                          memory_order_release);
    writer->next += 1 + count;
}

bool tn_ring_from_memory(void *context, size_t offset, void *bytes, size_t count)
{
    const struct tn_ring *ring = context;
    const atomic_uint_fast64_t *from = (const void *)((const char *)ring->pages + offset);

    TN_ASSERT(offset % sizeof *from == 0 && count % sizeof *from == 0);
    TN_ASSERT(offset + count <= ring->page_count * TN_RING_PAGE_BYTES);
    for (size_t i = 0; i < count / sizeof *from; i++)
        ((uint64_t *)bytes)[i] = atomic_load_explicit(from + i, memory_order_acquire);
    return true;
}

/* The words of whole events; false: no writer writes such a page. */
static bool count_words(const uint64_t *words, size_t *count)
{
    size_t at = 0;

    while (at < TN_RING_WORDS && words[at] != 0) {
        size_t event = tn_ring_words(words[at]);

        if (tn_ring_kind(words[at]) == 0 || event > TN_RING_WORDS - at)
            return false;
        at += event;
    }
    *count = at;
    return true;
}

/* Whether a copy has the events of an earlier one: no word is written twice. */
static bool has_events(const uint64_t *words, const uint64_t *earlier, size_t count)
{
    for (size_t at = 0; at < count; at += tn_ring_words(earlier[at])) {
        if (words[at] != earlier[at])
            return false;
    }
    return true;
}

enum tn_ring_read tn_ring_read(tn_ring_source source, void *context, size_t page,
                               struct tn_ring_copy *copy)
{
    /* As in struct tn_ring_page, in plain words. */
    enum { HEAD = offsetof(struct tn_ring_page, words) / sizeof(uint64_t) };
    uint64_t first[HEAD + TN_RING_WORDS];
    uint64_t second[HEAD + TN_RING_WORDS];
    uint64_t serial;
    uint64_t serial_after;
    size_t offset = page * TN_RING_PAGE_BYTES;

    if (!source(context, offset, &serial, sizeof serial))
        return TN_RING_BROKEN;
    if (serial == 0)
        return TN_RING_EMPTY;
    if (!source(context, offset, first, sizeof first))
        return TN_RING_BROKEN;
    if (!source(context, offset, second, sizeof second))
        return TN_RING_BROKEN;
    if (!source(context, offset, &serial_after, sizeof serial_after))
        return TN_RING_BROKEN;
    if (serial_after != serial)
        return TN_RING_EMPTY;
    if (!count_words(first + HEAD, &copy->word_count) ||
        !has_events(second + HEAD, first + HEAD, copy->word_count))
        return TN_RING_BROKEN;
    copy->serial = serial;
    copy->writer = second[1];
    copy->place = second[2];
    copy->lost = second[3];
    copy->base = second[4];
    memcpy(copy->words, second + HEAD, copy->word_count * sizeof *copy->words);
    return TN_RING_READ;
}
