// SPDX-License-Identifier: Apache-2.0
/* The index has open addressing with linear probing, and is never more than three quarters full. An
 * entry goes from 0 to its value once, behind the record's head. Whoever finds an entry finds the
 * record. Two threads that miss the same stack add it once: behind the lock each looks again.
 *
 * The hash is a sum of products of neighbouring frames, each frame moved by a constant of its place.
 * The products depend on nothing but their frames, so the processor has them under way together.
 *
 * Sources: linear probing, D. E. Knuth, The Art of Computer Programming, volume 3, section 6.4,
 * algorithm L; the sum of products, J. Black et al., UMAC: Fast and Secure Message Authentication
 * (CRYPTO 1999), there NH.
 *
 * Trade-offs: a tree, whose nodes are a frame and the id of the outer ones, would share the outer
 * frames of stacks. Where stacks of 16 frames share 12, it takes 64 bytes and an index of 4 entries
 * for each, and whole stacks take 136 bytes and one entry. But a tree is searched once for each frame,
 * one search behind the other: 39 ns for 16 frames, where whole stacks take 13 ns. A program has some
 * thousand stacks, which take some hundred KiB either way. */
#include "base/stacks.h"

#include <string.h>

#include "base/checked.h"
#include "base/host.h"
#include "base/hot.h"

/* A record for each entry at most: of 42 bytes with the index at three quarters. */
enum { BYTES_FOR_ENTRY = 32, ENTRIES_MIN = 64, ID_BITS = 32 };

bool tn_stacks_init(struct tn_stacks *stacks, void *memory, size_t bytes)
{
    const size_t wanted = tn_max(bytes / BYTES_FOR_ENTRY, ENTRIES_MIN);
    const size_t entries = (size_t)1 << tn_log2_floor(wanted);

    *stacks = (struct tn_stacks){.index_mask = entries - 1};
    tn_scroll_init(&stacks->scroll, memory, bytes);
    stacks->index = tn_host_alloc(entries, sizeof *stacks->index);
    TN_ASSERT(tn_is_power_of_two(entries));
    return stacks->index != NULL;
}

void tn_stacks_drop(struct tn_stacks *stacks)
{
    TN_ASSERT(!tn_spin_is_taken(&stacks->lock));
    tn_host_free(stacks->index);
    *stacks = (struct tn_stacks){.index = NULL};
}

/* What is looked for: a record of these words, or, with a key, one that begins with the first of
 * them. */
struct wanted {
    const uint64_t *words;
    size_t count;
    size_t key_count; /* count: no key */
    uint64_t hash;    /* of the key */
};

static inline uint64_t hash_of(const uint64_t *words, size_t count)
{
    uint64_t place = TN_GOLDEN;
    uint64_t sum = count;
    size_t i = 0;

    for (; i + 2 <= count; i += 2) {
        sum += (words[i] + place) * (words[i + 1] + ~place);
        place += TN_GOLDEN;
    }
    if (i < count)
        sum += (words[i] + place) * ~place;
    sum = (sum ^ sum >> 32) * TN_GOLDEN;
    return sum ^ sum >> 29;
}

/* Without a branch for each word: nearly all records that are compared are equal. */
static inline bool is_wanted(const struct tn_stacks *stacks, uint32_t id,
                             const struct wanted *wanted)
{
    const uint64_t *words = tn_scroll_words(&stacks->scroll, id);
    const size_t count = (uint32_t)words[-1];
    uint64_t differs = 0;

    if (TN_UNLIKELY(wanted->key_count == wanted->count ? count != wanted->count
                                                       : count < wanted->key_count))
        return false;
    for (size_t i = 0; i < wanted->key_count; i++)
        differs |= words[i] ^ wanted->words[i];
    return differs == 0;
}

/* The record's id, or 0: *at is where its entry goes. */
static inline uint32_t find(const struct tn_stacks *stacks, const struct wanted *wanted, size_t *at)
{
    for (*at = (size_t)wanted->hash & stacks->index_mask;; *at = (*at + 1) & stacks->index_mask) {
        const uint64_t entry = atomic_load_explicit(&stacks->index[*at], memory_order_acquire);

        if (entry == 0)
            return 0;
        if (TN_LIKELY(entry >> ID_BITS == wanted->hash >> ID_BITS) &&
            TN_LIKELY(is_wanted(stacks, (uint32_t)entry, wanted)))
            return (uint32_t)entry;
    }
}

/* Whether there is no room: from then on no stack is added, however few frames it has. */
static bool is_full(const struct tn_stacks *stacks)
{
    return atomic_load_explicit(&stacks->full, memory_order_relaxed);
}

/* Adds a record at the index's place. 0: no room. */
static uint32_t add(struct tn_stacks *stacks, const struct wanted *wanted, size_t at)
{
    const size_t count_max = stacks->index_mask - stacks->index_mask / 4;
    uint32_t id = 0;

    TN_ASSERT(tn_spin_is_taken(&stacks->lock));
    TN_ASSERT(atomic_load(&stacks->index[at]) == 0);
    if (stacks->count < count_max)
        id = tn_scroll_add(&stacks->scroll, wanted->words, wanted->count);
    else
        tn_scroll_lose(&stacks->scroll);
    if (id == 0) {
        atomic_store_explicit(&stacks->full, true, memory_order_relaxed);
        return 0;
    }
    stacks->count += 1;
    TN_ASSERT(stacks->count < stacks->index_mask);
    atomic_store_explicit(&stacks->index[at], (wanted->hash >> ID_BITS) << ID_BITS | id,
                          memory_order_release);
    return id;
}

static TN_RARE uint32_t enter_new(struct tn_stacks *stacks, const struct wanted *wanted,
                                  bool *is_new)
{
    uint32_t id;
    size_t at;

    if (is_full(stacks)) {
        tn_scroll_lose(&stacks->scroll);
        return TN_STACKS_FULL;
    }
    tn_spin_acquire(&stacks->lock);
    id = find(stacks, wanted, &at);
    if (id == 0) {
        id = add(stacks, wanted, at);
        *is_new = id != 0;
    }
    tn_spin_release(&stacks->lock);
    return id != 0 ? id : TN_STACKS_FULL;
}

TN_ALIGNED uint32_t tn_stacks_enter(struct tn_stacks *stacks, const struct tn_stack *stack,
                                    bool *is_new)
{
    const struct wanted wanted = {stack->frames, stack->count, stack->count,
                                  hash_of(stack->frames, stack->count)};
    uint32_t id;
    size_t at;

    TN_ASSERT(stack->count <= TN_STACK_FRAMES_MAX);
    *is_new = false;
    id = find(stacks, &wanted, &at);
    return TN_LIKELY(id != 0) ? id : enter_new(stacks, &wanted, is_new);
}

uint32_t tn_stacks_find_title(const struct tn_stacks *stacks, const uint64_t *key, size_t key_count)
{
    const struct wanted wanted = {key, SIZE_MAX, key_count, hash_of(key, key_count)};
    size_t at;

    TN_ASSERT(key_count > 0 && key_count <= TN_SCROLL_WORDS_MAX);
    return find(stacks, &wanted, &at);
}

/* Whether so many more words of titles leave half of the scroll to stacks; then they are counted. */
static bool take_title_room(struct tn_stacks *stacks, size_t words)
{
    TN_ASSERT(tn_spin_is_taken(&stacks->lock));
    if (words > stacks->scroll.word_count / 2 - stacks->title_words)
        return false;
    stacks->title_words += words;
    return true;
}

uint32_t tn_stacks_enter_title(struct tn_stacks *stacks, const uint64_t *words, size_t count,
                               size_t key_count)
{
    const struct wanted wanted = {words, count, key_count, hash_of(words, key_count)};
    uint32_t id;
    size_t at;

    TN_ASSERT(key_count > 0 && key_count <= count && count <= TN_SCROLL_WORDS_MAX);
    id = find(stacks, &wanted, &at);
    if (id != 0)
        return id;
    tn_spin_acquire(&stacks->lock);
    id = find(stacks, &wanted, &at);
    if (id == 0 && !is_full(stacks) && take_title_room(stacks, 1 + count))
        id = add(stacks, &wanted, at);
    else if (id == 0)
        tn_scroll_lose(&stacks->scroll);
    tn_spin_release(&stacks->lock);
    return id != 0 ? id : TN_STACKS_FULL;
}

struct tn_stacks_counts tn_stacks_count(struct tn_stacks *stacks)
{
    struct tn_stacks_counts counts = {.lost = tn_scroll_lost(&stacks->scroll)};

    tn_spin_acquire(&stacks->lock);
    counts.records = stacks->count;
    counts.bytes = stacks->scroll.next * sizeof(uint64_t);
    tn_spin_release(&stacks->lock);
    TN_ASSERT(counts.bytes <= (stacks->scroll.word_count + 1) * sizeof(uint64_t));
    return counts;
}

enum tn_scroll_answer tn_stacks_read(const struct tn_scroll_reader *reader, uint32_t id,
                                     struct tn_stack *stack)
{
    uint64_t words[TN_SCROLL_WORDS_MAX];
    enum tn_scroll_answer answer;

    stack->count = 0;
    if (id == TN_STACKS_FULL || id == TN_STACKS_OWN)
        return TN_SCROLL_READ;
    answer = tn_scroll_read(reader, id, words, &stack->count);
    if (answer == TN_SCROLL_READ && stack->count > TN_STACK_FRAMES_MAX)
        answer = TN_SCROLL_BROKEN;
    if (answer != TN_SCROLL_READ)
        stack->count = 0;
    memcpy(stack->frames, words, stack->count * sizeof *words);
    return answer;
}
