// SPDX-License-Identifier: Apache-2.0
/* Births are copied under the pool's lock, once for each pool, and sorted outside.
 *
 * Trade-offs: births of other graphs' captures are copied, too, for a child graph may be any of theirs. */
#include "graphs/meant.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "graphs/node_order.h"
#include "pools/births.h"
#include "pools/hold.h"
#include "pools/pool.h"

static tarn_status no_memory(void)
{
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for what a graph's captures allocated");
}

/* -- The births of a pool --------------------------------------------------------------------------- */

struct known_birth {
    struct tn_birth birth; /* place: in the words of all */
    uint64_t reach;        /* the end of the longest up to here */
    tn_cu_graph graph;     /* that was captured; NULL: not known any more */
    bool is_own;           /* of a capture whose memory the audited graph holds */
};

struct tn_known_births {
    struct tn_known_births *next;
    const tarn_pool *pool; /* compared */
    struct known_birth *items;
    size_t count;
    size_t capacity;
    uint64_t *words;
    size_t word_count;
    size_t word_capacity;
    struct known_birth **found; /* of one address; room for all */
    bool lost;                  /* own ones are not among them */
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

    return (first->birth.sequence < second->birth.sequence) -
           (first->birth.sequence > second->birth.sequence); /* the newest first */
}

static void copy_hold(struct tn_known_births *known, const struct tn_hold *hold, bool is_own)
{
    known->lost = known->lost || (is_own && hold->births_lost);
    for (const struct tn_births *births = hold->births; births != NULL; births = births->next) {
        for (size_t i = 0; i < births->count && known->count + i < known->capacity; i++) {
            struct known_birth *to = &known->items[known->count + i];

            *to = (struct known_birth){births->items[i], 0, hold->graph, is_own};
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

/* Copies as much as there is room for, and counts all. The pool is locked. */
static void copy_births(struct tn_known_births *known, tarn_pool *pool, tn_cu_graph graph)
{
    const struct tn_hold *selected = tn_holds_select(pool, graph);

    known->count = 0;
    known->word_count = 0;
    known->lost = false;
    for (const struct tn_hold *hold = pool->holds; hold != NULL; hold = hold->next) {
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
    tn_host_free(known->found);
    known->items = tn_host_alloc_unset(count, sizeof *known->items);
    known->words = tn_host_alloc_unset(word_count, sizeof *known->words);
    known->found = tn_host_alloc_unset(count, sizeof(struct known_birth *));
    known->capacity = count;
    known->word_capacity = word_count;
    return known->items != NULL && known->words != NULL && known->found != NULL;
}

/* Copies all births of the pool that has the address, if it is that one still. */
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

/* Lists the births whose blocks had the address, the newest first; how many there are. all: not own ones alone. */
static size_t find_at(struct tn_known_births *known, uint64_t address, bool all)
{
    size_t from = 0;
    size_t to = known->count;
    size_t count = 0;

    while (from < to) { /* the first one that begins behind the address */
        size_t middle = from + (to - from) / 2;

        if (known->items[middle].birth.address <= address)
            from = middle + 1;
        else
            to = middle;
    }
    for (size_t i = from; i > 0 && known->items[i - 1].reach > address; i--) {
        struct known_birth *item = &known->items[i - 1];

        if ((item->is_own || all) && address - item->birth.address < item->birth.requested)
            known->found[count++] = item;
    }
    if (count > 1)
        qsort(known->found, count, sizeof(struct known_birth *), compare_found);
    return count;
}

/* -- What is meant -------------------------------------------------------------------------------- */

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

/* The level of the graph; level_count: it is not looked through. */
static size_t find_level(const struct tn_references *references, tn_cu_graph graph)
{
    size_t index = 0;

    while (index < references->level_count &&
           (graph == NULL || references->levels[index].graph != graph))
        index += 1;
    return index;
}

/* The node of the level that the node is, or is in; false: there is none. */
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
        tn_node_order_read(&question->meanings->levels[index], question->gpu, references, level);
    if (status == TARN_OK)
        *order = tn_node_order_find(&question->meanings->levels[index], node - level->first,
                                    &known->words[item->birth.place]);
    return status;
}

/* Of births whose blocks had the address, the newest first, that of the live block; count: it is not there. */
static size_t find_live(const struct question *question, struct known_birth *const *found,
                        size_t count)
{
    size_t index = 0;

    while (index < count && found[index]->birth.sequence > question->live->sequence)
        index += 1;
    if (index < count &&
        found[index]->birth.address == (uint64_t)(uintptr_t)question->live->address &&
        found[index]->birth.requested == question->live->bytes)
        return index;
    return count;
}

/* The node was captured before the live block was allocated: one of the births behind that is meant. */
static tarn_status find_earlier(const struct question *question,
                                const struct tn_known_births *known, size_t from, size_t count,
                                enum tn_meant *meant)
{
    *meant = TN_MEANT_UNKNOWN;
    for (size_t i = from; i < count; i++) {
        const struct known_birth *item = known->found[i];
        enum tn_captured order;
        tarn_status status = compare(question, known, item, &order);

        if (status != TARN_OK)
            return status;
        if (order == TN_CAPTURED_BEFORE)
            continue;
        if (fits(question->reference, &item->birth))
            *meant = TN_MEANT_EARLIER;
        else if (order == TN_CAPTURED_BEHIND)
            *meant = TN_MEANT_LIVE;
        return TARN_OK;
    }
    return TARN_OK;
}

static tarn_status decide(const struct question *question, struct tn_known_births *known,
                          enum tn_meant *meant)
{
    uint32_t parent = question->references->nodes[question->reference->node].parent;
    size_t count = find_at(known, question->reference->address, parent != TARN_NO_NODE);
    size_t live = find_live(question, known->found, count);
    enum tn_captured order = TN_CAPTURED_UNKNOWN;
    bool may_fit = known->lost;
    tarn_status status = TARN_OK;

    for (size_t i = 0; i < count; i++)
        may_fit = may_fit || (i != live && fits(question->reference, &known->found[i]->birth));
    *meant = may_fit ? TN_MEANT_UNKNOWN : TN_MEANT_LIVE;
    if (!may_fit || live == count)
        return TARN_OK;
    status = compare(question, known, known->found[live], &order);
    if (status == TARN_OK && order == TN_CAPTURED_BEHIND)
        *meant = TN_MEANT_LIVE;
    if (status == TARN_OK && order == TN_CAPTURED_BEFORE)
        status = find_earlier(question, known, live + 1, count, meant);
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
        if (finding->captured && finding->pool->is_default) /* it keeps no births for graphs */
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
        tn_host_free(meanings->pools->found);
        tn_host_free(meanings->pools);
        meanings->pools = next;
    }
    for (size_t i = 0; i < meanings->level_count; i++)
        tn_node_order_drop(&meanings->levels[i]);
    tn_host_free(meanings->levels);
    *meanings = (struct tn_meanings){.pools = NULL};
}
