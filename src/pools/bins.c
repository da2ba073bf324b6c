// SPDX-License-Identifier: Apache-2.0
/* A size maps to class and step: its highest bit, and the four bits below it. Every block in a bin
 * above a size's own fits. In its own bin a block may be too small, so the newest few are looked at
 * first: memory freed and asked for again in the same size is found at the head. The rest of that bin
 * is looked through only when no larger block is there, before the heap would grow.
 *
 * The block before unmapped addresses is the one that a growth extends, so it is worth more than its bytes: what is
 * cut from it is lacking when something large is asked for next. Doug Lea's allocator calls it the wilderness,
 * and preserves it as this does; PyTorch's expandable segments count it as endless, too.
 *
 * Trade-offs: good fit, not best fit: a bin is up to 1/16 of its size wide. */
#include "pools/bins.h"

#include "base/checked.h"
#include "base/contract.h"
#include "base/hot.h"

enum { STEP_BITS = 4, OWN_BIN_LOOKS = 8 };

/* Class and step in one number: TN_BIN_STEPS times the class, and the step. */
static inline unsigned bin_of(uint64_t bytes)
{
    unsigned high = tn_log2_floor(bytes);

    TN_ASSERT(bytes >= TN_BLOCK_BYTES_MIN && bytes <= TN_BLOCK_BYTES_MAX);
    /* The highest bit stands among the steps, and counts as one class. */
    return (unsigned)(bytes >> (high - STEP_BITS)) + ((high - TN_BLOCK_BITS - 1) << STEP_BITS);
}

static inline void push(struct tn_bins *bins, struct tn_block *block, unsigned bin)
{
    struct tn_block *head = bins->heads[bin];

    block->list_previous = NULL;
    block->list_next = head;
    bins->heads[bin] = block;
    if (head != NULL) {
        head->list_previous = block;
        return;
    }
    bins->class_map |= (uint64_t)1 << (bin >> STEP_BITS);
    bins->step_map[bin >> STEP_BITS] |= (uint16_t)(1U << (bin & (TN_BIN_STEPS - 1)));
}

static TN_APART void note_empty(struct tn_bins *bins, unsigned bin)
{
    unsigned class = bin >> STEP_BITS;

    bins->step_map[class] &= (uint16_t) ~(1U << (bin & (TN_BIN_STEPS - 1)));
    if (bins->step_map[class] == 0)
        bins->class_map &= ~((uint64_t)1 << class);
}

/* Takes the first block out of the bin. */
static inline void pop(struct tn_bins *bins, const struct tn_block *block, unsigned bin)
{
    struct tn_block *next = block->list_next;

    TN_ASSERT(bins->heads[bin] == block); /* P4 */
    bins->heads[bin] = next;
    if (next != NULL)
        next->list_previous = NULL;
    else
        note_empty(bins, bin);
}

void tn_bins_insert(struct tn_bins *bins, struct tn_block *block)
{
    TN_ASSERT(block->state == TN_BLOCK_FREE); /* P4 */
    block->extends = tn_block_is_at_unmapped(block);
    push(bins, block, bin_of(tn_block_bytes(block)));
}

void tn_bins_remove_first(struct tn_bins *bins, struct tn_block *block)
{
    pop(bins, block, bin_of(tn_block_bytes(block)));
}

void tn_bins_resized(struct tn_bins *bins, struct tn_block *block, uint64_t bytes_before)
{
    unsigned bin = bin_of(tn_block_bytes(block));
    unsigned bin_before;

    TN_ASSERT(block->extends == tn_block_is_at_unmapped(block)); /* P4 */
    if (block->list_previous != NULL) {
        tn_bins_remove(bins, block);
    } else {
        bin_before = bin_of(bytes_before);
        if (bin == bin_before)
            return; /* it is at the head, where it would come to stand */
        pop(bins, block, bin_before);
    }
    push(bins, block, bin);
}

/* The head of the first bin that is not empty from *bin on, which is moved there. */
static inline struct tn_block *first_from(const struct tn_bins *bins, unsigned *bin)
{
    unsigned class = *bin >> STEP_BITS;
    unsigned steps = bins->step_map[class] & (~0U << (*bin & (TN_BIN_STEPS - 1)));

    if (steps == 0) {
        uint64_t classes = bins->class_map >> class >> 1;

        if (classes == 0)
            return NULL;
        class += 1 + (unsigned)__builtin_ctzll(classes);
        steps = bins->step_map[class];
    }
    *bin = (class << STEP_BITS) + (unsigned)__builtin_ctz(steps);
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

    for (int looks = 0; block != NULL && looks < OWN_BIN_LOOKS; looks++) {
        if (tn_block_bytes(block) >= bytes)
            return block;
        block = block->list_next;
    }
    larger = first_above(bins, &bin);
    if (larger != NULL)
        return larger;
    while (block != NULL && tn_block_bytes(block) < bytes)
        block = block->list_next;
    return block;
}

/* Where all that fits may be extended: among the larger ones first, another in the bin of each such head. */
static TN_APART struct tn_block *find_behind_edges(const struct tn_bins *bins, uint64_t bytes,
                                                   unsigned bin, struct tn_block *larger,
                                                   struct tn_block *edge, struct tn_block *rest)
{
    while (larger != NULL && larger->extends) {
        if (larger->list_next != NULL && !larger->list_next->extends)
            return larger->list_next;
        edge = edge != NULL ? edge : larger;
        larger = first_above(bins, &bin);
    }
    if (larger != NULL)
        return larger;
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
    struct tn_block *edge = NULL; /* the smallest that can be extended, or nearly */
    struct tn_block *larger;

    for (int looks = 0; block != NULL && looks < OWN_BIN_LOOKS; looks++) {
        if (tn_block_bytes(block) >= bytes) {
            if (!block->extends)
                return block;
            edge = block;
        }
        block = block->list_next;
    }
    larger = first_above(bins, &bin);
    if (larger != NULL && !larger->extends)
        return larger;
    return find_behind_edges(bins, bytes, bin, larger, edge, block);
}

struct tn_block *tn_bins_next(const struct tn_bins *bins, const struct tn_block *block,
                              uint64_t bytes)
{
    unsigned bin = bin_of(tn_block_bytes(block));
    struct tn_block *next = block->list_next;

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
    return last;
}

/* The head of the lowest of the steps that are not empty. */
static struct tn_block **head_of(struct tn_bins *bins, unsigned class, unsigned steps)
{
    return &bins->heads[(class << STEP_BITS) + (unsigned)__builtin_ctz(steps)];
}

void tn_bins_reverse(struct tn_bins *bins)
{
    for (unsigned class = 0; class < TN_BIN_CLASSES; class ++) {
        for (unsigned steps = bins->step_map[class]; steps != 0; steps &= steps - 1) {
            struct tn_block **head = head_of(bins, class, steps);

            *head = reversed(*head);
        }
    }
}

static bool precedes(const struct tn_block *a, const struct tn_block *b)
{
    return a->segment == b->segment ? a->offset < b->offset : a->segment->index < b->segment->index;
}

/* Of two lists in order, linked forwards alone. */
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
static struct tn_block *sorted(struct tn_block *block)
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
        block->list_previous = previous;
        previous = block;
    }
    return head;
}

/* Whether the list is in order; *looks is counted down, and false where there are too few. */
static bool look_through(const struct tn_block *block, uint64_t *looks, bool *in_order)
{
    *in_order = true;
    for (; block != NULL; block = block->list_next) {
        if (*looks == 0)
            return false;
        *looks -= 1;
        if (block->list_next != NULL && !precedes(block, block->list_next))
            *in_order = false;
    }
    return true;
}

bool tn_bins_sort(struct tn_bins *bins, uint64_t *looks)
{
    for (uint64_t classes = bins->class_map; classes != 0; classes &= classes - 1) {
        unsigned class = (unsigned)__builtin_ctzll(classes);

        for (unsigned steps = bins->step_map[class]; steps != 0; steps &= steps - 1) {
            struct tn_block **head = head_of(bins, class, steps);
            bool in_order;

            if (!look_through(*head, looks, &in_order))
                return false;
            if (!in_order)
                *head = sorted(*head);
        }
    }
    return true;
}

bool tn_bins_has_head(const struct tn_bins *bins, const struct tn_block *block)
{
    return bins->heads[bin_of(tn_block_bytes(block))] == block;
}

uint64_t tn_bins_count(const struct tn_bins *bins)
{
    uint64_t count = 0;

    for (unsigned bin = 0; bin < TN_BIN_CLASSES * TN_BIN_STEPS; bin++) {
        for (const struct tn_block *block = bins->heads[bin]; block != NULL;
             block = block->list_next)
            count += 1;
    }
    return count;
}
