// SPDX-License-Identifier: Apache-2.0
/* Births are copied under the pool's lock, once for each pool, and sorted outside the lock. The
 * births at an address are listed once and kept, for nodes that name the address follow each other.
 * Each of an order's births stands behind the birth before: a node's place among them is found by
 * bisection.
 *
 * Trade-offs: births of other graphs' captures are copied, too, for a child graph may be any of
 * theirs. */
#include "inspect/meant.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/host.h"
#include "claims/hold.h"
#include "heap/births.h"
#include "inspect/precedence.h"
#include "pools/free.h"
#include "pools/pool.h"

static tarn_status no_memory(void)
{
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for what a graph's captures allocated");
}

/* -- The births of a pool ---------------------------------------------------------------------- */

struct known_birth {
    struct tn_birth birth;         /* place: in the words of all */
    uint64_t reach;                /* highest end of a block up to here */
    tn_cu_graph graph;             /* the captured graph; NULL: not known any more */
    const struct tn_births *order; /* compared: its places follow each other */
    bool is_own;                   /* of a capture whose memory the audited graph holds */
};

/* The births whose blocks had an address: of each order together, and the newest first. */
struct lain {
    uint64_t address;
    bool all; /* not only own births */
    bool is_known;
    struct known_birth **found;
    size_t count;
    size_t capacity;
    size_t longest;     /* index of the birth whose block ends last */
    uint64_t other_end; /* where the last of the other blocks ends; 0: no others */
};

enum { LAIN_COUNT = 64 };

struct tn_known_births {
    struct tn_known_births *next;
    const tarn_pool *pool; /* compared */
    struct known_birth *items;
    size_t count;
    size_t capacity;
    uint64_t *words;
    size_t word_count;
    size_t word_capacity;
    bool lost;                    /* own births are missing here */
    struct lain lain[LAIN_COUNT]; /* by address; the last one looked up in each place */
};

static int compare_births(const void *a, const void *b)
{
    const struct known_birth *first = a;
    const struct known_birth *second = b;

    return (first->birth.address > second->birth.address) -
           (first->birth.address < second->birth.address);
}

static int compare_found(const void *a, const void *b)
{
    const struct known_birth *first = *(struct known_birth *const *)a;
    const struct known_birth *second = *(struct known_birth *const *)b;
    int order = ((uintptr_t)first->order > (uintptr_t)second->order) -
                ((uintptr_t)first->order < (uintptr_t)second->order);

    return order != 0 ? order
                      : (first->birth.sequence < second->birth.sequence) -
                            (first->birth.sequence > second->birth.sequence);
}

static void copy_hold(struct tn_known_births *known, const struct tn_hold *hold, bool is_own)
{
    known->lost = known->lost || (is_own && hold->births_lost);
    for (const struct tn_births *births = hold->births; births != NULL; births = births->next) {
        for (size_t i = 0; i < births->count && known->count + i < known->capacity; i++) {
            struct known_birth *to = &known->items[known->count + i];

            *to = (struct known_birth){births->items[i], 0, hold->graph, births, is_own};
            to->birth.place += known->word_count;
        }
        if (births->word_count > 0 && /* else they were lost at once */
            known->word_count + births->word_count <= known->word_capacity)
            memcpy(&known->words[known->word_count], births->words,
                   births->word_count * sizeof *births->words);
        known->count += births->count;
        known->word_count += births->word_count;
    }
}

/* Copies as many births as there is room for, and counts all. The pool is locked. */
static void copy_births(struct tn_known_births *known, tarn_pool *pool, tn_cu_graph graph)
{
    const struct tn_hold *selected = tn_holds_select(&pool->holds, graph);

    known->count = 0;
    known->word_count = 0;
    known->lost = false;
    for (const struct tn_hold *hold = pool->holds.first; hold != NULL; hold = hold->next) {
        const struct tn_hold *own = selected;

        while (own != NULL && own != hold)
            own = own->selected;
        copy_hold(known, hold, own != NULL);
    }
}

static bool make_room(struct tn_known_births *known)
{
    size_t count = known->count + known->count / 8 + 1;
    size_t word_count = known->word_count + known->word_count / 8 + 1;

    tn_host_free(known->items);
    tn_host_free(known->words);
    known->items = tn_host_alloc_unset(count, sizeof *known->items);
    known->words = tn_host_alloc_unset(word_count, sizeof *known->words);
    known->capacity = count;
    known->word_capacity = word_count;
    return known->items != NULL && known->words != NULL;
}

/* Copies all births of the pool that has the address, if this is still the known pool. */
static tarn_status fill(struct tn_known_births *known, uint64_t address, tn_cu_graph graph)
{
    bool has_all = false;

    while (!has_all) {
        struct tn_segment *segment;
        tarn_pool *pool;

        if (tn_pool_lock_segment(address, &pool, &segment) != TARN_OK)
            return TARN_OK;
        if (pool != known->pool) {
            tn_pool_unlock(pool);
            return TARN_OK;
        }
        copy_births(known, pool, graph);
        tn_pool_unlock(pool);
        has_all = known->count <= known->capacity && known->word_count <= known->word_capacity;
        if (!has_all && !make_room(known))
            return no_memory();
    }
    if (known->count > 0)
        qsort(known->items, known->count, sizeof *known->items, compare_births);
    for (size_t i = 0; i < known->count; i++) {
        const struct tn_birth *birth = &known->items[i].birth;

        known->items[i].reach = birth->address + birth->requested;
        if (i > 0)
            known->items[i].reach = tn_max(known->items[i].reach, known->items[i - 1].reach);
    }
    return TARN_OK;
}

static tarn_status find_births(struct tn_meanings *meanings, tn_cu_graph graph, uint64_t address,
                               const tarn_pool *pool, struct tn_known_births **known)
{
    struct tn_known_births *found = meanings->pools;

    while (found != NULL && found->pool != pool)
        found = found->next;
    *known = found;
    if (found != NULL)
        return TARN_OK;
    found = tn_host_alloc(1, sizeof *found);
    if (found == NULL)
        return no_memory();
    found->pool = pool;
    found->next = meanings->pools;
    meanings->pools = found;
    *known = found;
    return fill(found, address, graph);
}

/* The end of the birth's block. */
static uint64_t end_of(const struct known_birth *item)
{
    return item->birth.address + item->birth.requested;
}

static void note_ends(struct lain *lain)
{
    lain->longest = 0;
    lain->other_end = 0;
    for (size_t i = 1; i < lain->count; i++) {
        uint64_t end = end_of(lain->found[i]);
        uint64_t longest = end_of(lain->found[lain->longest]);

        lain->other_end = tn_max(lain->other_end, end < longest ? end : longest);
        lain->longest = end > longest ? i : lain->longest;
    }
}

/* HOST_MEMORY. */
static tarn_status list_births(const struct tn_known_births *known, struct lain *lain)
{
    size_t from = 0;
    size_t to = known->count;

    lain->count = 0;
    while (from < to) { /* the first birth behind the address */
        size_t middle = from + (to - from) / 2;

        if (known->items[middle].birth.address <= lain->address)
            from = middle + 1;
        else
            to = middle;
    }
    for (size_t i = from; i > 0 && known->items[i - 1].reach > lain->address; i--) {
        struct known_birth *item = &known->items[i - 1];

        if (!(item->is_own || lain->all) || end_of(item) <= lain->address)
            continue;
        if (!tn_host_grow((void **)&lain->found, &lain->capacity, lain->count + 1,
                          sizeof(struct known_birth *)))
            return no_memory();
        lain->found[lain->count++] = item;
    }
    if (lain->count > 1)
        qsort(lain->found, lain->count, sizeof(struct known_birth *), compare_found);
    note_ends(lain);
    return TARN_OK;
}

/* The births whose blocks had the address. all: not only own births. HOST_MEMORY. */
static tarn_status births_of_address(struct tn_known_births *known, uint64_t address, bool all,
                                     const struct lain **found)
{
    struct lain *lain = &known->lain[(address / 512 + all) % LAIN_COUNT];
    tarn_status status = TARN_OK;

    if (!lain->is_known || lain->address != address || lain->all != all) {
        lain->address = address;
        lain->all = all;
        status = list_births(known, lain);
        lain->is_known = status == TARN_OK;
    }
    *found = lain;
    return status;
}

/* The end of the births that are of the same order as the birth at this index. */
static size_t end_of_group(const struct lain *lain, size_t index)
{
    size_t from = index;
    size_t to = lain->count;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (lain->found[middle]->order == lain->found[index]->order)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* Among an order's births from begin to end, the first with a lower sequence number than this; end:
 * none. */
static size_t find_older(const struct lain *lain, size_t begin, size_t end, uint64_t sequence)
{
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;

        if (lain->found[middle]->birth.sequence < sequence)
            end = middle;
        else
            begin = middle + 1;
    }
    return begin;
}

/* -- What is meant ----------------------------------------------------------------------------- */

struct question {
    struct tn_meanings *meanings;
    struct tn_gpu *gpu;
    const struct tn_references *references;
    const struct tn_reference *reference;
    const tarn_block *live;
};

static bool fits(const struct tn_reference *reference, const struct tn_birth *birth)
{
    return reference->address - birth->address + reference->bytes <= birth->requested;
}

/* The level of the graph; level_count: the graph is not looked through. */
static size_t find_level(const struct tn_references *references, tn_cu_graph graph)
{
    size_t index = 0;

    while (index < references->level_count &&
           (graph == NULL || references->levels[index].graph != graph))
        index += 1;
    return index;
}

/* Moves up to the node of the level that the node is, or is in; false: none. */
static bool rise(const struct tn_references *references, const struct tn_level *level,
                 uint32_t *node)
{
    while (*node != TARN_NO_NODE && *node - level->first >= level->count)
        *node = references->nodes[*node].parent;
    return *node != TARN_NO_NODE;
}

static tarn_status compare(const struct question *question, const struct tn_known_births *known,
                           const struct known_birth *item, enum tn_captured *order)
{
    const struct tn_references *references = question->references;
    size_t index = find_level(references, item->graph);
    const struct tn_level *level = &references->levels[index];
    uint32_t node = question->reference->node;
    tarn_status status;

    *order = TN_CAPTURED_UNKNOWN;
    if (index == references->level_count || !rise(references, level, &node))
        return TARN_OK;
    status =
        tn_precedence_read(&question->meanings->levels[index], question->gpu, references, level);
    if (status == TARN_OK)
        *order = tn_precedence_find(&question->meanings->levels[index], node - level->first,
                                    &known->words[item->birth.place]);
    return status;
}

/* The birth of the live block: the newest birth that is no newer than the block; count: it is
 * missing. */
static size_t find_live(const struct question *question, const struct lain *lain)
{
    size_t newest = lain->count;

    for (size_t begin = 0, end; begin < lain->count; begin = end) {
        size_t index;

        end = end_of_group(lain, begin);
        index = find_older(lain, begin, end, question->live->sequence + 1);
        if (index < end && (newest == lain->count || lain->found[index]->birth.sequence >
                                                         lain->found[newest]->birth.sequence))
            newest = index;
    }
    if (newest < lain->count &&
        lain->found[newest]->birth.address == (uint64_t)(uintptr_t)question->live->address &&
        lain->found[newest]->birth.requested == question->live->bytes)
        return newest;
    return lain->count;
}

/* Among an order's births, the newest that the node was not captured before; end: none. A node
 * captured before a birth was captured before all newer births. */
static tarn_status find_meant(const struct question *question, const struct tn_known_births *known,
                              const struct lain *lain, size_t begin, size_t end, size_t *index,
                              enum tn_captured *order)
{
    *index = end;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        enum tn_captured found;
        tarn_status status = compare(question, known, lain->found[middle], &found);

        if (status != TARN_OK)
            return status;
        if (found == TN_CAPTURED_BEFORE) {
            begin = middle + 1;
        } else {
            *index = end = middle;
            *order = found;
        }
    }
    return TARN_OK;
}

/* The node was captured before the live block was allocated: it means an older birth. */
static tarn_status find_older_meaning(const struct question *question,
                                      const struct tn_known_births *known, const struct lain *lain,
                                      size_t live, enum tn_meant *meant)
{
    uint64_t sequence = lain->found[live]->birth.sequence;
    const struct known_birth *newest = NULL;
    enum tn_captured order = TN_CAPTURED_UNKNOWN;

    for (size_t begin = 0, end; begin < lain->count; begin = end) {
        enum tn_captured found = TN_CAPTURED_UNKNOWN;
        size_t index;
        tarn_status status;

        end = end_of_group(lain, begin);
        status = find_meant(question, known, lain, find_older(lain, begin, end, sequence), end,
                            &index, &found);
        if (status != TARN_OK)
            return status;
        if (index == end ||
            (newest != NULL && lain->found[index]->birth.sequence < newest->birth.sequence))
            continue;
        newest = lain->found[index];
        order = found;
    }
    *meant = TN_MEANT_UNKNOWN;
    if (newest != NULL && fits(question->reference, &newest->birth))
        *meant = TN_MEANT_EARLIER;
    else if (newest != NULL && order == TN_CAPTURED_BEHIND)
        *meant = TN_MEANT_LIVE;
    return TARN_OK;
}

/* Whether the node's bytes end in a block that lay there, other than the live block. */
static bool may_fit(const struct question *question, const struct lain *lain, size_t live)
{
    uint64_t end = 0;

    if (lain->count > 0)
        end = lain->longest != live ? end_of(lain->found[lain->longest]) : lain->other_end;
    return question->reference->address + question->reference->bytes <= end;
}

static tarn_status decide(const struct question *question, struct tn_known_births *known,
                          enum tn_meant *meant)
{
    uint32_t parent = question->references->nodes[question->reference->node].parent;
    enum tn_captured order = TN_CAPTURED_UNKNOWN;
    const struct lain *lain;
    size_t live;
    tarn_status status =
        births_of_address(known, question->reference->address, parent != TARN_NO_NODE, &lain);

    if (status != TARN_OK)
        return status;
    live = find_live(question, lain);
    *meant = TN_MEANT_LIVE;
    if (!known->lost && !may_fit(question, lain, live))
        return TARN_OK;
    *meant = TN_MEANT_UNKNOWN;
    if (live == lain->count)
        return TARN_OK;
    status = compare(question, known, lain->found[live], &order);
    if (status == TARN_OK && order == TN_CAPTURED_BEHIND)
        *meant = TN_MEANT_LIVE;
    if (status == TARN_OK && order == TN_CAPTURED_BEFORE)
        status = find_older_meaning(question, known, lain, live, meant);
    return status;
}

tarn_status tn_meant_find(struct tn_meanings *meanings, struct tn_gpu *gpu, tn_cu_graph graph,
                          const struct tn_references *references,
                          const struct tn_reference *reference, const struct tn_finding *finding,
                          enum tn_meant *meant)
{
    const struct question question = {meanings, gpu, references, reference, &finding->block};
    struct tn_known_births *known;
    tarn_status status;

    *meant = TN_MEANT_LIVE;
    if (meanings->levels == NULL) {
        meanings->levels = tn_host_alloc(references->level_count, sizeof *meanings->levels);
        if (meanings->levels == NULL)
            return no_memory();
        meanings->level_count = references->level_count;
    }
    status = find_births(meanings, graph, reference->address, finding->pool->pool, &known);
    if (status != TARN_OK)
        return status;
    if (known->count == 0 && !known->lost) {
        /* the default pool keeps no births for graphs */
        if (finding->captured && finding->pool->is_default)
            *meant = TN_MEANT_UNKNOWN;
        return TARN_OK;
    }
    return decide(&question, known, meant);
}

void tn_meanings_drop(struct tn_meanings *meanings)
{
    while (meanings->pools != NULL) {
        struct tn_known_births *next = meanings->pools->next;

        tn_host_free(meanings->pools->items);
        tn_host_free(meanings->pools->words);
        for (size_t i = 0; i < LAIN_COUNT; i++)
            tn_host_free(meanings->pools->lain[i].found);
        tn_host_free(meanings->pools);
        meanings->pools = next;
    }
    for (size_t i = 0; i < meanings->level_count; i++)
        tn_precedence_drop(&meanings->levels[i]);
    tn_host_free(meanings->levels);
    *meanings = (struct tn_meanings){.pools = NULL};
}
