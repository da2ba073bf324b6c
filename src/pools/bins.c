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

enum { STEP_BITS = 4, OWN_BIN_LOOKS = 8 };

struct bin_index {
    unsigned class;
    unsigned step;
};

static struct bin_index index_of(uint64_t bytes)
{
    unsigned high = tn_log2_floor(bytes);

    TN_ASSERT(bytes >= TN_BLOCK_BYTES_MIN && bytes <= TN_BLOCK_BYTES_MAX);
    return (struct bin_index){
        .class = high - TN_BLOCK_BITS,
        .step = (unsigned)(bytes >> (high - STEP_BITS)) & (TN_BIN_STEPS - 1),
    };
}

void tn_bins_insert(struct tn_bins *bins, struct tn_block *block)
{
    struct bin_index at = index_of(tn_block_bytes(block));
    struct tn_block **head = &bins->heads[at.class][at.step];

    TN_ASSERT(block->state == TN_BLOCK_FREE); /* P4 */
    block->list_previous = NULL;
    block->list_next = *head;
    if (*head != NULL)
        (*head)->list_previous = block;
    *head = block;
    bins->class_map |= (uint64_t)1 << at.class;
    bins->step_map[at.class] |= (uint16_t)(1U << at.step);
}

void tn_bins_remove(struct tn_bins *bins, struct tn_block *block)
{
    struct bin_index at = index_of(tn_block_bytes(block));
    struct tn_block **head = &bins->heads[at.class][at.step];

    if (block->list_next != NULL)
        block->list_next->list_previous = block->list_previous;
    if (block->list_previous != NULL) {
        block->list_previous->list_next = block->list_next;
        return;
    }
    TN_ASSERT(*head == block); /* P4 */
    *head = block->list_next;
    if (*head != NULL)
        return;
    bins->step_map[at.class] &= (uint16_t) ~(1U << at.step);
    if (bins->step_map[at.class] == 0)
        bins->class_map &= ~((uint64_t)1 << at.class);
}

/* The head of the first bin that is not empty at or above the index, which is moved there. */
static struct tn_block *first_from(const struct tn_bins *bins, struct bin_index *at)
{
    unsigned steps = bins->step_map[at->class] & (~0U << at->step);

    if (steps == 0) {
        uint64_t classes = bins->class_map >> at->class >> 1;

        if (classes == 0)
            return NULL;
        at->class += 1 + (unsigned)__builtin_ctzll(classes);
        steps = bins->step_map[at->class];
    }
    at->step = (unsigned)__builtin_ctz(steps);
    return bins->heads[at->class][at->step];
}

struct tn_block *tn_bins_find(const struct tn_bins *bins, uint64_t bytes)
{
    struct bin_index at = index_of(bytes);
    struct tn_block *block = bins->heads[at.class][at.step];
    struct tn_block *larger;

    for (int looks = 0; block != NULL && looks < OWN_BIN_LOOKS; looks++) {
        if (tn_block_bytes(block) >= bytes)
            return block;
        block = block->list_next;
    }
    at.step += 1;
    larger = first_from(bins, &at);
    if (larger != NULL)
        return larger;
    while (block != NULL && tn_block_bytes(block) < bytes)
        block = block->list_next;
    return block;
}

/* Reads no more of the neighbour than whether it has an owner: it may be another arena's. */
static bool can_extend(const struct tn_block *block)
{
    return block->next != NULL && block->next->heap == NULL;
}

struct tn_block *tn_bins_find_inner(const struct tn_bins *bins, uint64_t bytes)
{
    struct bin_index at = index_of(bytes);
    struct tn_block *block = bins->heads[at.class][at.step];
    struct tn_block *edge = NULL; /* the smallest that can extend, or nearly */
    struct tn_block *larger;

    for (int looks = 0; block != NULL && looks < OWN_BIN_LOOKS; looks++) {
        if (tn_block_bytes(block) >= bytes) {
            if (!can_extend(block))
                return block;
            edge = block;
        }
        block = block->list_next;
    }
    at.step += 1;
    larger = first_from(bins, &at);
    while (larger != NULL && can_extend(larger)) {
        if (larger->list_next != NULL && !can_extend(larger->list_next))
            return larger->list_next;
        edge = edge != NULL ? edge : larger;
        at.step += 1;
        larger = first_from(bins, &at);
    }
    if (larger != NULL)
        return larger;
    if (edge != NULL)
        return edge;
    while (block != NULL && tn_block_bytes(block) < bytes)
        block = block->list_next;
    return block;
}

struct tn_block *tn_bins_next(const struct tn_bins *bins, const struct tn_block *block,
                              uint64_t bytes)
{
    struct bin_index at = index_of(tn_block_bytes(block));
    struct tn_block *next = block->list_next;

    while (next != NULL && tn_block_bytes(next) < bytes)
        next = next->list_next;
    if (next != NULL)
        return next;
    at.step += 1;
    return first_from(bins, &at);
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

void tn_bins_reverse(struct tn_bins *bins)
{
    for (unsigned class = 0; class < TN_BIN_CLASSES; class ++) {
        for (unsigned steps = bins->step_map[class]; steps != 0; steps &= steps - 1) {
            unsigned step = (unsigned)__builtin_ctz(steps);

            bins->heads[class][step] = reversed(bins->heads[class][step]);
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
            struct tn_block **head = &bins->heads[class][__builtin_ctz(steps)];

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
    struct bin_index at = index_of(tn_block_bytes(block));

    return bins->heads[at.class][at.step] == block;
}

uint64_t tn_bins_count(const struct tn_bins *bins)
{
    uint64_t count = 0;

    for (unsigned class = 0; class < TN_BIN_CLASSES; class ++) {
        for (unsigned step = 0; step < TN_BIN_STEPS; step++) {
            for (const struct tn_block *block = bins->heads[class][step]; block != NULL;
                 block = block->list_next)
                count += 1;
        }
    }
    return count;
}
