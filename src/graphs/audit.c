// SPDX-License-Identifier: Apache-2.0
/* References are collected (graphs/references.c), each is found in the pools or by the driver (graphs/standing.c), and
 * then it is decided here what it is to the graph. What an audit says is put together once for its mistakes and, where
 * that is asked for, for all pointers.
 *
 * Host memory that is page-locked no more, or never was, and memory of a device that was given back, are the same to the
 * driver: it knows neither. What tells them apart is whether the host has a page there. */
#include "graphs/audit.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/host.h"
#include "graphs/standing.h"

/* What is found, and what the audit keeps of it. */
struct record {
    tarn_audit view;                 /* what the caller has is a pointer to this */
    struct tn_references references; /* its nodes and their names; no items any more */
    struct tn_found_pool *pools;     /* their names */
    tarn_pointer *pointers;          /* those that are listed, and the mistakes behind them */
    size_t listed_count;
};

struct work {
    const struct tn_audit_subject *subject;
    uint32_t accepted;
    enum tn_audit_list list;
    struct record *record;
    struct tn_standings standings;
    struct tn_range *given; /* by allocation nodes, in order */
    size_t given_count;
    uint8_t *classes; /* of each reference */
    bool *listed;     /* TN_LIST_NOT_HELD: whether each is */
};

static tarn_status no_memory(void)
{
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for an audit");
}

/* -- What a pointer is ----------------------------------------------------------------------------- */

static int compare_ranges(const void *a, const void *b)
{
    const struct tn_range *first = a;
    const struct tn_range *second = b;

    return (first->base > second->base) - (first->base < second->base);
}

/* What allocation nodes give. Ranges may overlap, for a graph's memory is used again in it: so each ends where it, or
 * one before it, reaches farthest. */
static tarn_status list_given(struct work *work)
{
    const struct tn_references *references = &work->record->references;
    size_t count = 0;
    uint64_t end = 0;

    for (size_t i = 0; i < references->count; i++)
        count += references->items[i].place == TARN_PLACE_ALLOCATED;
    if (count == 0)
        return TARN_OK;
    work->given = tn_host_alloc_unset(count, sizeof *work->given);
    if (work->given == NULL)
        return no_memory();
    for (size_t i = 0; i < references->count; i++) {
        const struct tn_reference *item = &references->items[i];

        if (item->place == TARN_PLACE_ALLOCATED)
            work->given[work->given_count++] = (struct tn_range){item->address, item->bytes};
    }
    qsort(work->given, count, sizeof *work->given, compare_ranges);
    for (size_t i = 0; i < count; i++) {
        end = tn_max(end, work->given[i].base + work->given[i].bytes);
        work->given[i].bytes = end - work->given[i].base;
    }
    return TARN_OK;
}

static bool is_given(const struct work *work, uint64_t address)
{
    size_t from = 0;
    size_t to = work->given_count;

    while (from < to) { /* the last that begins at the address or before it */
        size_t middle = from + (to - from) / 2;

        if (work->given[middle].base <= address)
            from = middle + 1;
        else
            to = middle;
    }
    return from > 0 && address - work->given[from - 1].base < work->given[from - 1].bytes;
}

static bool is_beyond(const struct tn_reference *reference, const tarn_block *block)
{
    uint64_t offset = reference->address - (uint64_t)(uintptr_t)block->address;

    return reference->bytes > 0 && offset + reference->bytes > block->bytes;
}

static tarn_pointer_class class_of_live(const struct work *work,
                                        const struct tn_reference *reference,
                                        const struct tn_finding *finding)
{
    const struct tn_found_pool *pool = &work->standings.pools[finding->pool];
    bool is_later = work->subject->mark != 0 && finding->block.sequence >= work->subject->mark;

    if (is_later && pool->is_own && finding->held)
        return TARN_POINTER_REUSED;
    if (is_later)
        return TARN_POINTER_USED_AGAIN;
    if (is_beyond(reference, &finding->block))
        return TARN_POINTER_BEYOND;
    if (pool->is_own)
        return TARN_POINTER_LIVE;
    return finding->captured && !pool->in_order ? TARN_POINTER_UNORDERED : TARN_POINTER_EXTERNAL;
}

static tarn_pointer_class class_of_freed(const struct work *work, const struct tn_finding *finding)
{
    if (!work->standings.pools[finding->pool].is_own)
        return TARN_POINTER_FREED_EXTERNAL;
    return finding->held ? TARN_POINTER_REUSED : TARN_POINTER_FREED;
}

static tarn_pointer_class class_of_unknown(const struct work *work,
                                           const struct tn_reference *reference)
{
    if (reference->place == TARN_PLACE_ARGUMENT)
        return TARN_POINTER_ARGUMENT;
    /* A free node may end what an allocation node of another graph gives. */
    if (reference->place == TARN_PLACE_ALLOCATED || reference->place == TARN_PLACE_FREED ||
        is_given(work, reference->address))
        return TARN_POINTER_NODE;
    return reference->may_be_host && tn_host_has_page(reference->address) ? TARN_POINTER_PAGEABLE
                                                                          : TARN_POINTER_UNKNOWN;
}

static tarn_pointer_class class_of(const struct work *work, const struct tn_reference *reference,
                                   const struct tn_finding *finding)
{
    switch ((enum tn_standing)finding->standing) {
    case TN_STANDING_LIVE:
        return class_of_live(work, reference, finding);
    case TN_STANDING_FREED:
        return class_of_freed(work, finding);
    case TN_STANDING_UNMAPPED:
        return TARN_POINTER_UNMAPPED;
    case TN_STANDING_DEVICE:
        if (is_given(work, reference->address))
            return TARN_POINTER_NODE;
        return is_beyond(reference, &finding->block) ? TARN_POINTER_BEYOND : TARN_POINTER_FOREIGN;
    case TN_STANDING_PINNED:
        return is_beyond(reference, &finding->block) ? TARN_POINTER_BEYOND : TARN_POINTER_PINNED;
    case TN_STANDING_NONE:
    case TN_STANDING_UNKNOWN:
        break;
    }
    return class_of_unknown(work, reference);
}

static bool is_mistake(const struct work *work, tarn_pointer_class pointer_class)
{
    return tn_pointer_is_mistake(pointer_class) && (work->accepted >> pointer_class & 1) == 0;
}

/* G6 */
static tarn_status classify(struct work *work)
{
    tarn_audit *view = &work->record->view;
    const struct tn_references *references = &work->record->references;

    view->pointer_count = references->count;
    if (references->count == 0)
        return TARN_OK;
    work->classes = tn_host_alloc_unset(references->count, sizeof *work->classes);
    if (work->classes == NULL)
        return no_memory();
    for (size_t i = 0; i < references->count; i++) {
        tarn_pointer_class found =
            class_of(work, &references->items[i], &work->standings.findings[i]);

        work->classes[i] = (uint8_t)found;
        view->counts[found] += 1;
        view->mistake_count += is_mistake(work, found);
    }
    return TARN_OK;
}

/* -- What an audit says ------------------------------------------------------------------------------ */

static tarn_pointer describe(const struct work *work, size_t index)
{
    const struct tn_reference *reference = &work->record->references.items[index];
    const struct tn_finding *finding = &work->standings.findings[index];
    tarn_pointer pointer = {
        .pointer_class = (tarn_pointer_class)work->classes[index],
        .place = (tarn_pointer_place)reference->place,
        .node = reference->node,
        .index = reference->index,
        .offset = reference->offset,
        .device = finding->device,
        .address = reference->address,
        .bytes = reference->bytes,
        .block = finding->block,
    };

    if (finding->pool != TN_NO_POOL)
        pointer.pool = work->standings.pools[finding->pool].name;
    return pointer;
}

/* A set of numbers of blocks. */
struct numbers {
    uint64_t *table; /* 0: an empty place; no block has that number */
    size_t capacity; /* a power of two, at least twice as many as there will be */
};

/* Whether the number is new. */
static bool note_number(struct numbers *numbers, uint64_t number)
{
    size_t at = (size_t)(number * TN_GOLDEN >> 32) & (numbers->capacity - 1);

    for (; numbers->table[at] != 0; at = (at + 1) & (numbers->capacity - 1)) {
        if (numbers->table[at] == number)
            return false;
    }
    numbers->table[at] = number;
    return true;
}

static bool is_not_held(const struct work *work, size_t index)
{
    const struct tn_finding *finding = &work->standings.findings[index];

    return finding->standing == TN_STANDING_LIVE && !finding->held &&
           (!tn_pointer_is_dead((tarn_pointer_class)work->classes[index]) ||
            !is_mistake(work, (tarn_pointer_class)work->classes[index]));
}

static tarn_status choose_not_held(struct work *work)
{
    size_t count = work->record->view.pointer_count;
    struct numbers numbers = {.capacity = 2};

    if (count == 0)
        return TARN_OK;
    while (numbers.capacity < 2 * count)
        numbers.capacity *= 2;
    numbers.table = tn_host_alloc(numbers.capacity, sizeof *numbers.table);
    work->listed = tn_host_alloc(count, sizeof *work->listed);
    if (numbers.table == NULL || work->listed == NULL) {
        tn_host_free(numbers.table);
        return no_memory();
    }
    for (size_t i = 0; i < count; i++) {
        work->listed[i] = is_not_held(work, i) &&
                          note_number(&numbers, work->standings.findings[i].block.sequence);
        work->record->listed_count += work->listed[i];
    }
    tn_host_free(numbers.table);
    return TARN_OK;
}

static bool is_listed(const struct work *work, size_t index)
{
    return work->list == TN_LIST_ALL || (work->list == TN_LIST_NOT_HELD && work->listed[index]);
}

/* Those that are listed, and the mistakes behind them. */
static tarn_status list_pointers(struct work *work)
{
    struct record *record = work->record;
    tarn_audit *view = &record->view;
    tarn_pointer *listed;
    tarn_pointer *mistakes;

    if (work->list == TN_LIST_ALL)
        record->listed_count = view->pointer_count;
    if (record->listed_count + view->mistake_count == 0)
        return TARN_OK;
    record->pointers =
        tn_host_alloc_unset(record->listed_count + view->mistake_count, sizeof *record->pointers);
    if (record->pointers == NULL)
        return no_memory();
    listed = record->pointers;
    mistakes = listed + record->listed_count;
    view->pointers = record->listed_count > 0 ? listed : NULL;
    view->mistakes = view->mistake_count > 0 ? mistakes : NULL;
    for (size_t i = 0; i < view->pointer_count; i++) {
        if (is_listed(work, i))
            *listed++ = describe(work, i);
        if (is_mistake(work, (tarn_pointer_class)work->classes[i]))
            *mistakes++ = describe(work, i);
    }
    return TARN_OK;
}

static void count_nodes(struct record *record)
{
    tarn_audit *view = &record->view;

    view->node_count = record->references.node_count;
    view->nodes = record->references.nodes;
    view->tensor_map_count = record->references.tensor_map_count;
    for (size_t i = 0; i < view->node_count; i++) {
        view->kernel_count += view->nodes[i].type == TN_CU_NODE_KERNEL;
        view->uninspected_count += view->nodes[i].inspection != TARN_INSPECTED;
    }
}

/* The audit keeps nodes and names; what was collected beside goes. */
static void finish(struct work *work)
{
    struct record *record = work->record;

    record->pools = work->standings.pools;
    work->standings.pools = NULL;
    tn_host_free(record->references.items);
    record->references.items = NULL;
}

static tarn_status look_through(struct work *work, tarn_device *device,
                                const tarn_audit_options *options)
{
    struct tn_references *references = &work->record->references;
    tarn_status status = tn_references_collect(references, &device->regions, work->subject->graph,
                                               options->bodies, options->body_count);

    if (status == TARN_OK)
        status = tn_standings_find(&work->standings, references, &device->regions,
                                   work->subject->graph, work->subject->pool);
    if (status == TARN_OK)
        status = list_given(work);
    if (status == TARN_OK)
        status = classify(work);
    if (status == TARN_OK && work->list == TN_LIST_NOT_HELD)
        status = choose_not_held(work);
    return status == TARN_OK ? list_pointers(work) : status;
}

tarn_status tn_audit(tarn_device *device, const struct tn_audit_subject *subject,
                     const tarn_audit_options *options, enum tn_audit_list list, tarn_audit **audit)
{
    struct work work = {.subject = subject, .accepted = options->accepted, .list = list};
    tarn_status status;

    work.record = tn_host_alloc(1, sizeof *work.record);
    if (work.record == NULL)
        return no_memory();
    status = look_through(&work, device, options);
    if (status == TARN_OK) {
        count_nodes(work.record);
        finish(&work);
        *audit = &work.record->view;
    } else {
        tn_audit_drop(&work.record->view);
    }
    tn_host_free(work.classes);
    tn_host_free(work.listed);
    tn_host_free(work.given);
    tn_standings_drop(&work.standings);
    return status;
}

size_t tn_audit_listed(const tarn_audit *audit)
{
    return ((const struct record *)audit)->listed_count;
}

void tn_audit_drop(tarn_audit *audit)
{
    struct record *record = (struct record *)audit;

    tn_references_drop(&record->references);
    tn_host_free(record->pools);
    tn_host_free(record->pointers);
    tn_host_free(record);
}
