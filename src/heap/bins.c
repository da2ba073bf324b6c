// SPDX-License-Identifier: Apache-2.0
/* A size maps to class and step: its highest bit, and the four bits below it. Every block in a bin
 * above a size's own fits. In its own bin a block may be too small. The search therefore looks at
 * the newest few of this bin first: memory freed and requested again in the same size is at the
 * head. Then come larger bins. The rest of the own bin comes only when no larger block is there,
 * before the heap would grow.
 *
 * The block before unmapped addresses is the block which a growth extends. It is worth more than
 * its bytes: a cut from it makes the next large request grow further. Doug Lea's allocator calls
 * this block the wilderness, and preserves it likewise; PyTorch's expandable segments count it as
 * endless, too.
 *
 * Trade-offs: good fit, not best fit: a bin is up to 1/16 of its size wide. */
#include "heap/bins.h"

#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/hot.h"

enum { STEP_BITS = 4, OWN_BIN_TRIES = 8 };

static inline unsigned word_of(unsigned bin)
{
    return bin >> TN_BIN_WORD_BITS;
}

static inline unsigned bit_of(unsigned bin)
{
    return bin & ((1U << TN_BIN_WORD_BITS) - 1);
}

/* Class and step in one number: TN_BIN_STEPS times the class, and the step. */
static inline unsigned bin_of(uint64_t bytes)
{
    unsigned high = tn_log2_floor(bytes);

    TN_ASSERT(bytes >= TN_BLOCK_BYTES_MIN && bytes <= TN_BLOCK_BYTES_MAX);
    /* The highest bit stands among the steps, and counts as one class. */
    return (unsigned)(bytes >> (high - STEP_BITS)) + ((high - TN_BLOCK_BITS - 1) << STEP_BITS);
}

/* Without a jump, since whether a bin is empty is unpredictable: a link which does not exist is
 * written to the sink. */
static inline void push(struct tn_bins *bins, struct tn_block *block, unsigned bin)
{
    struct tn_block *head = bins->heads[bin];
    struct tn_block *sink;
    struct tn_block **link = &sink;

    TN_ASSERT(head == NULL || (head->list_previous == NULL && head != block)); /* P4 */
    block->list_previous = NULL;
    block->list_next = head;
    bins->heads[bin] = block;
    if (head != NULL)
        link = &head->list_previous;
    TN_HIDE(link);
    *link = block;
    bins->word_map |= (uint64_t)1 << word_of(bin);
    bins->words[word_of(bin)] |= (uint64_t)1 << bit_of(bin);
}

/* Takes the block out of its bin. Jumps only where the word becomes empty. */
static inline void unlink_from(struct tn_bins *bins, const struct tn_block *block, unsigned bin)
{
    struct tn_block *next = block->list_next;
    struct tn_block *previous = block->list_previous;
    struct tn_block *sink;
    struct tn_block **from = &bins->heads[bin];
    struct tn_block **back = &sink;
    bool empties = next == NULL && previous == NULL;

    TN_ASSERT(previous != NULL || bins->heads[bin] == block); /* P4 */
    TN_HIDE(from); /* else the compiler computes it behind a jump */
    if (previous != NULL)
        from = &previous->list_next;
    if (next != NULL)
        back = &next->list_previous;
    TN_HIDE(from);
    TN_HIDE(back);
    *from = next;
    *back = previous;
    bins->words[word_of(bin)] &= ~((uint64_t)empties << bit_of(bin));
    if (TN_UNLIKELY(bins->words[word_of(bin)] == 0))
        bins->word_map &= ~((uint64_t)1 << word_of(bin));
}

void tn_bins_insert(struct tn_bins *bins, struct tn_block *block)
{
    TN_ASSERT(block->state == TN_BLOCK_FREE); /* P4 */
    block->extends = tn_block_is_at_unmapped(block);
    push(bins, block, bin_of(tn_block_bytes(block)));
}

void tn_bins_remove_first(struct tn_bins *bins, struct tn_block *block)
{
    TN_ASSERT(block->list_previous == NULL);
    unlink_from(bins, block, bin_of(tn_block_bytes(block)));
}

void tn_bins_resized(struct tn_bins *bins, struct tn_block *block, uint64_t bytes_before)
{
    unsigned from = bin_of(bytes_before);
    unsigned to = bin_of(tn_block_bytes(block));

    TN_ASSERT(block->extends == tn_block_is_at_unmapped(block)); /* P4 */
    if (TN_UNLIKELY(from == to) && block->list_previous == NULL)
        return; /* it would come back there */
    unlink_from(bins, block, from);
    push(bins, block, to);
}

/* The head of the first bin that is not empty, from *bin on. Moves *bin there. */
static inline struct tn_block *first_from(const struct tn_bins *bins, unsigned *bin)
{
    unsigned word = word_of(*bin);
    uint64_t bits = bins->words[word] & (~UINT64_C(0) << bit_of(*bin));

    if (bits == 0) {
        uint64_t words = bins->word_map >> word >> 1;

        if (words == 0)
            return NULL;
        word += 1 + (unsigned)tn_lowest_bit(words);
        bits = bins->words[word];
    }
    *bin = (word << TN_BIN_WORD_BITS) + (unsigned)tn_lowest_bit(bits);
    TN_ASSERT(bins->heads[*bin] != NULL); /* P4 */
    return bins->heads[*bin];
}

static inline struct tn_block *first_above(const struct tn_bins *bins, unsigned *bin)
{
    *bin += 1;
    return first_from(bins, bin);
}

struct tn_block *tn_bins_find(const struct tn_bins *bins, uint64_t bytes)
{
    unsigned bin = bin_of(bytes);
    struct tn_block *block = bins->heads[bin];
    struct tn_block *larger;

    for (int steps = 0; block != NULL && steps < OWN_BIN_TRIES; steps++) {
        if (tn_block_bytes(block) >= bytes)
            return block;
        block = block->list_next;
    }
    larger = first_above(bins, &bin);
    TN_ASSERT(larger == NULL || tn_block_bytes(larger) >= bytes);
    if (larger != NULL)
        return larger;
    while (block != NULL && tn_block_bytes(block) < bytes)
        block = block->list_next;
    return block;
}

/* The first block that cannot be extended, in the bins of a word from heads on, whose bits these are;
 * NULL: none. Of each bin only the first two blocks are looked at. */
static inline struct tn_block *find_inner_of(struct tn_block *const *heads, uint64_t bits)
{
    TN_ASSERT(bits != 0);
    TN_HIDE(heads); /* else each index is computed from the first bin on */
    do {
        struct tn_block *block = heads[tn_lowest_bit(bits)];

        if (!block->extends)
            return block;
        block = block->list_next;
        if (TN_UNLIKELY(block != NULL) && !block->extends)
            return block;
        bits &= bits - 1;
    } while (bits != 0);
    return NULL;
}

/* find_inner_of for all bins above the bin. */
static inline struct tn_block *find_inner_above(const struct tn_bins *bins, unsigned bin)
{
    unsigned word = word_of(bin);
    uint64_t bits = bins->words[word] >> bit_of(bin) >> 1;
    struct tn_block *found = bits != 0 ? find_inner_of(&bins->heads[bin + 1], bits) : NULL;

    for (uint64_t words = bins->word_map >> word >> 1; found == NULL && words != 0;
         words = bins->word_map >> word >> 1) {
        word += 1 + (unsigned)tn_lowest_bit(words);
        found = find_inner_of(&bins->heads[word << TN_BIN_WORD_BITS], bins->words[word]);
    }
    return found;
}

/* Called when every fitting block found so far may be extended: edge, which is smaller, and larger,
 * the head of bin. */
static TN_APART struct tn_block *find_behind_edges(const struct tn_bins *bins, uint64_t bytes,
                                                   unsigned bin, struct tn_block *larger,
                                                   struct tn_block *edge, struct tn_block *rest)
{
    TN_ASSERT((edge == NULL || edge->extends) && (larger == NULL || larger->extends));
    if (larger != NULL) {
        struct tn_block *inner = larger->list_next;

        if (inner == NULL || inner->extends)
            inner = find_inner_above(bins, bin);
        if (inner != NULL)
            return inner;
        edge = edge != NULL ? edge : larger;
    }
    if (edge != NULL)
        return edge;
    while (rest != NULL && tn_block_bytes(rest) < bytes)
        rest = rest->list_next;
    return rest;
}

struct tn_block *tn_bins_find_inner(const struct tn_bins *bins, uint64_t bytes)
{
    unsigned bin = bin_of(bytes);
    struct tn_block *block = bins->heads[bin];
    struct tn_block *edge = NULL; /* the smallest block which can be extended, or nearly */
    struct tn_block *larger;

    for (int steps = 0; block != NULL && steps < OWN_BIN_TRIES; steps++) {
        if (tn_block_bytes(block) >= bytes) {
            if (!block->extends)
                return block;
            edge = block;
        }
        block = block->list_next;
    }
    larger = first_above(bins, &bin);
    TN_ASSERT(larger == NULL || tn_block_bytes(larger) >= bytes);
    if (larger != NULL && !larger->extends)
        return larger;
    return find_behind_edges(bins, bytes, bin, larger, edge, block);
}

struct tn_block *tn_bins_next(const struct tn_bins *bins, const struct tn_block *block,
                              uint64_t bytes)
{
    unsigned bin = bin_of(tn_block_bytes(block));
    struct tn_block *next = block->list_next;

    TN_ASSERT(block->state == TN_BLOCK_FREE && tn_block_bytes(block) >= bytes);
    while (next != NULL && tn_block_bytes(next) < bytes)
        next = next->list_next;
    return next != NULL ? next : first_above(bins, &bin);
}

static struct tn_block *reversed(struct tn_block *head)
{
    struct tn_block *last = NULL;

    for (struct tn_block *block = head; block != NULL; block = last->list_previous) {
        struct tn_block *next = block->list_next;

        block->list_next = block->list_previous;
        block->list_previous = next;
        last = block;
    }
    TN_ASSERT(last == NULL || last->list_previous == NULL);
    return last;
}

/* The head of the lowest bin of the word whose bit is set in bits. */
static struct tn_block **head_of(struct tn_bins *bins, unsigned word, uint64_t bits)
{
    TN_ASSERT(bits != 0);
    return &bins->heads[(word << TN_BIN_WORD_BITS) + (unsigned)tn_lowest_bit(bits)];
}

void tn_bins_reverse(struct tn_bins *bins)
{
    for (uint64_t words = bins->word_map; words != 0; words &= words - 1) {
        unsigned word = (unsigned)tn_lowest_bit(words);

        for (uint64_t bits = bins->words[word]; bits != 0; bits &= bits - 1) {
            struct tn_block **head = head_of(bins, word, bits);

            TN_ASSERT(*head != NULL); /* the bit says so */
            *head = reversed(*head);
        }
    }
}

static bool precedes(const struct tn_block *a, const struct tn_block *b)
{
    TN_ASSERT(a != b);
    return a->segment == b->segment ? a->offset < b->offset : a->segment->index < b->segment->index;
}

/* Merges two lists in order, linked forwards alone. */
static struct tn_block *merge(struct tn_block *a, struct tn_block *b)
{
    struct tn_block *head = NULL;
    struct tn_block **link = &head;

    while (a != NULL && b != NULL) {
        struct tn_block **first = precedes(a, b) ? &a : &b;

        *link = *first;
        link = &(*first)->list_next;
        *first = *link;
    }
    *link = a != NULL ? a : b;
    return head;
}

/* A merge sort from below: a run of 2^i blocks, or none, for each i. */
struct tn_block *tn_blocks_sort(struct tn_block *block)
{
    enum { RUNS = 40 }; /* no more blocks than addresses of 512 bytes */
    struct tn_block *runs[RUNS] = {NULL};
    struct tn_block *head = NULL;
    struct tn_block *previous = NULL;

    while (block != NULL) {
        struct tn_block *run = block;
        int i;

        block = block->list_next;
        run->list_next = NULL;
        for (i = 0; runs[i] != NULL; i++) {
            run = merge(runs[i], run);
            runs[i] = NULL;
        }
        runs[i] = run;
    }
    for (int i = 0; i < RUNS; i++)
        head = merge(runs[i], head);
    for (block = head; block != NULL; block = block->list_next) {
        TN_ASSERT(previous == NULL || precedes(previous, block));
        block->list_previous = previous;
        previous = block;
    }
    return head;
}

void tn_bins_take_all(struct tn_bins *bins, struct tn_block **list)
{
    for (unsigned word = 0; word < TN_BIN_WORDS; word++) {
        for (uint64_t bits = bins->words[word]; bits != 0; bits &= bits - 1) {
            struct tn_block **head = head_of(bins, word, bits);
            struct tn_block *last = *head;

            while (last->list_next != NULL)
                last = last->list_next;
            last->list_next = *list;
            *list = *head;
            *head = NULL;
        }
        bins->words[word] = 0;
    }
    bins->word_map = 0;
}

/* Whether the list is in order. Counts *steps down; false: *steps was too low. */
static bool check_sorted(const struct tn_block *block, uint64_t *steps, bool *is_sorted)
{
    *is_sorted = true;
    for (; block != NULL; block = block->list_next) {
        if (*steps == 0)
            return false;
        *steps -= 1;
        if (block->list_next != NULL && !precedes(block, block->list_next))
            *is_sorted = false;
    }
    return true;
}

bool tn_bins_sort(struct tn_bins *bins, uint64_t *steps)
{
    for (uint64_t words = bins->word_map; words != 0; words &= words - 1) {
        unsigned word = (unsigned)tn_lowest_bit(words);

        for (uint64_t bits = bins->words[word]; bits != 0; bits &= bits - 1) {
            struct tn_block **head = head_of(bins, word, bits);
            bool is_sorted;

            if ((*head)->list_next == NULL)
                continue;
            if (!check_sorted(*head, steps, &is_sorted))
                return false;
            if (!is_sorted)
                *head = tn_blocks_sort(*head);
        }
    }
    return true;
}

bool tn_bins_is_exact(const struct tn_bins *bins)
{
    uint64_t words[TN_BIN_WORDS + 1] = {0};
    uint64_t word_map = 0;

    for (unsigned bin = 0; bin < TN_BINS; bin++)
        words[word_of(bin)] |= (uint64_t)(bins->heads[bin] != NULL) << bit_of(bin);
    for (unsigned word = 0; word < TN_BIN_WORDS; word++)
        word_map |= (uint64_t)(words[word] != 0) << word;
    return bins->word_map == word_map && memcmp(bins->words, words, sizeof words) == 0;
}

bool tn_bins_has_head(const struct tn_bins *bins, const struct tn_block *block)
{
    return bins->heads[bin_of(tn_block_bytes(block))] == block;
}

bool tn_bins_has_linked(const struct tn_bins *bins, const struct tn_block *block)
{
    const struct tn_block *previous = block->list_previous;
    const struct tn_block *next = block->list_next;
    unsigned bin = bin_of(tn_block_bytes(block));

    if ((bins->words[word_of(bin)] >> bit_of(bin) & 1) == 0)
        return false;
    if (next != NULL && (next->list_previous != block || bin_of(tn_block_bytes(next)) != bin))
        return false;
    return previous == NULL ? bins->heads[bin] == block : previous->list_next == block;
}

uint64_t tn_bins_count(const struct tn_bins *bins)
{
    uint64_t count = 0;

    for (unsigned bin = 0; bin < TN_BINS; bin++) {
        for (const struct tn_block *block = bins->heads[bin]; block != NULL;
             block = block->list_next)
            count += 1;
    }
    return count;
}
