// SPDX-License-Identifier: Apache-2.0
/* A head has its own place in its upper half. A reader with a false id thus finds no record in the
 * middle of another, unless somebody made it up. Even then every number is checked. */
#include "base/scroll.h"

#include <stdatomic.h>
#include <string.h>

#include "base/checked.h"

enum { WORD_BYTES = sizeof(uint64_t), ID_SHIFT = 32 };

_Static_assert(sizeof(atomic_uint_fast64_t) == WORD_BYTES, "a word");

static atomic_uint_fast64_t *word_at(const struct tn_scroll *scroll, size_t at)
{
    TN_ASSERT(at < scroll->word_count);
    return (atomic_uint_fast64_t *)&scroll->words[at];
}

void tn_scroll_init(struct tn_scroll *scroll, void *memory, size_t bytes)
{
    TN_ASSERT((uintptr_t)memory % WORD_BYTES == 0);
    scroll->words = memory;
    scroll->word_count = tn_min(bytes / WORD_BYTES, UINT32_MAX);
    scroll->next = TN_SCROLL_FIRST;
}

void tn_scroll_lose(struct tn_scroll *scroll)
{
    if (scroll->word_count >= TN_SCROLL_FIRST)
        atomic_fetch_add_explicit(word_at(scroll, 0), 1, memory_order_relaxed);
}

uint32_t tn_scroll_add(struct tn_scroll *scroll, const uint64_t *words, size_t count)
{
    const uint32_t id = (uint32_t)scroll->next;

    TN_ASSERT(count <= TN_SCROLL_WORDS_MAX);
    if (scroll->next + count >= scroll->word_count) {
        tn_scroll_lose(scroll);
        return 0;
    }
    memcpy(scroll->words + id + 1, words, count * WORD_BYTES);
    scroll->next += 1 + count;
    atomic_store_explicit(word_at(scroll, id), (uint64_t)id << ID_SHIFT | count,
                          memory_order_release);
    return id;
}

uint64_t tn_scroll_lost(const struct tn_scroll *scroll)
{
    TN_ASSERT(scroll->words != NULL);
    if (scroll->word_count < TN_SCROLL_FIRST)
        return 0;
    return atomic_load_explicit(word_at(scroll, 0), memory_order_relaxed);
}

bool tn_scroll_from_memory(void *context, size_t offset, void *bytes, size_t count)
{
    const struct tn_scroll *scroll = context;
    const size_t at = offset / WORD_BYTES;

    TN_ASSERT(offset % WORD_BYTES == 0 && count % WORD_BYTES == 0);
    TN_ASSERT(at + count / WORD_BYTES <= scroll->word_count);
    for (size_t i = 0; i < count / WORD_BYTES; i++)
        ((uint64_t *)bytes)[i] =
            atomic_load_explicit(word_at(scroll, at + i), memory_order_acquire);
    return true;
}

enum tn_scroll_answer tn_scroll_read(const struct tn_scroll_reader *reader, uint32_t id,
                                     uint64_t *words, size_t *count)
{
    const size_t word_count = reader->bytes / WORD_BYTES;
    uint64_t head;

    if (id < TN_SCROLL_FIRST)
        return TN_SCROLL_BROKEN;
    if (id >= word_count)
        return TN_SCROLL_EMPTY;
    if (!reader->source(reader->context, (size_t)id * WORD_BYTES, &head, sizeof head))
        return TN_SCROLL_BROKEN;
    if (head == 0)
        return TN_SCROLL_EMPTY;
    *count = (uint32_t)head;
    if (head >> ID_SHIFT != id || *count > TN_SCROLL_WORDS_MAX || *count >= word_count - id)
        return TN_SCROLL_BROKEN;
    if (*count > 0 &&
        !reader->source(reader->context, ((size_t)id + 1) * WORD_BYTES, words, *count * WORD_BYTES))
        return TN_SCROLL_BROKEN;
    return TN_SCROLL_READ;
}
