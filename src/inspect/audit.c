// SPDX-License-Identifier: Apache-2.0
/* An audit reads references (inspect/references.c), finds each in the pools or by the driver
 * (inspect/standing.c), and decides here on its class. It takes some hundreds at a time: a whole
 * graph has more than the caches hold. The audit keeps a description of mistakes and, on request,
 * of all pointers.
 *
 * To the driver, host memory that is page-locked no more, host memory that never was, and device
 * memory that was given back are the same: unknown. A page of the host at the address tells host
 * memory from device memory. */
#include "inspect/audit.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/host.h"
#include "base/word_set.h"
#include "inspect/meant.h"
#include "inspect/scan.h"
#include "inspect/standing.h"

struct pointers {
    tarn_pointer *items;
    size_t count;
    size_t capacity;
};

/* References looked at together: few enough for the caches nearest to the processor. */
enum { TOGETHER = 256 };

/* The results of an audit, and the memory that they refer to. */
struct record {
    tarn_audit view;                 /* the caller's pointer points to this field */
    struct tn_references references; /* its nodes and their names; empty otherwise */
    struct tn_found_pool *pools;     /* their names */
    struct pointers mistakes;
    struct pointers overwrites;
    struct pointers listed;
};

struct work {
    const struct tn_audit_subject *subject;
    struct tn_regions *regions; /* of the device */
    uint32_t accepted;
    uint32_t refused;
    enum tn_audit_list list;
    struct record *record;
    struct tn_standings standings;
    struct tn_meanings meanings;
    /* TN_LIST_NOT_HELD: twice the sequence numbers of the listed blocks. */
    struct tn_word_set listed;
};

static tarn_status no_memory(void)
{
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for an audit");
}

/* -- What a pointer is ------------------------------------------------------------------------- */

static bool is_beyond(const struct tn_reference *reference, const tarn_block *block)
{
    uint64_t offset = reference->address - (uint64_t)(uintptr_t)block->address;

    return reference->place != TARN_PLACE_MEMORY && reference->bytes > 0 &&
           offset + reference->bytes > block->bytes;
}

static tarn_pointer_class class_of_live(const struct work *work,
                                        const struct tn_reference *reference,
                                        const struct tn_finding *finding)
{
    const struct tn_found_pool *pool = finding->pool;
    bool is_later = work->subject->mark != 0 && finding->block.sequence >= work->subject->mark;

    if (is_later && pool->is_own && finding->held)
        return reference->is_read_only || reference->place == TARN_PLACE_MEMORY
                   ? TARN_POINTER_REUSED
                   : TARN_POINTER_OVERWRITES;
    if (is_later)
        return TARN_POINTER_USED_AGAIN;
    if (is_beyond(reference, &finding->block))
        return TARN_POINTER_BEYOND;
    if (pool->is_own)
        return TARN_POINTER_LIVE;
    return finding->captured && !pool->shares_replays ? TARN_POINTER_UNORDERED
                                                      : TARN_POINTER_EXTERNAL;
}

static tarn_pointer_class class_of_freed(const struct tn_finding *finding)
{
    if (finding->kept)
        return TARN_POINTER_KEPT;
    if (!finding->pool->is_own)
        return TARN_POINTER_FREED_EXTERNAL;
    return finding->held ? TARN_POINTER_REUSED : TARN_POINTER_FREED;
}

static tarn_pointer_class class_of_imported(const struct work *work,
                                            const struct tn_reference *reference,
                                            const struct tn_finding *finding)
{
    if (work->subject->mark != 0 && finding->block.sequence >= work->subject->mark)
        return TARN_POINTER_USED_AGAIN;
    return is_beyond(reference, &finding->block) ? TARN_POINTER_BEYOND : TARN_POINTER_IMPORTED;
}

static tarn_pointer_class class_of_unknown(const struct work *work,
                                           const struct tn_reference *reference)
{
    if (reference->place == TARN_PLACE_ARGUMENT)
        return TARN_POINTER_ARGUMENT;
    /* A free node may free memory of another graph's allocation node. */
    if (reference->place == TARN_PLACE_ALLOCATED || reference->place == TARN_PLACE_FREED ||
        tn_references_give(&work->record->references, reference->address))
        return TARN_POINTER_NODE;
    return reference->may_be_host && tn_host_has_page(reference->address) ? TARN_POINTER_PAGEABLE
                                                                          : TARN_POINTER_UNKNOWN;
}

static bool is_tarns(const struct tn_finding *finding)
{
    return finding->standing == TN_STANDING_LIVE || finding->standing == TN_STANDING_FREED ||
           finding->standing == TN_STANDING_UNMAPPED || finding->standing == TN_STANDING_IMPORTED ||
           finding->standing == TN_STANDING_LET_GO;
}

/* A word of a struct is no address if it may be a number. It is none either where no memory has
 * ever been: then it is a leftover of the stack, as the end of a mapped range is. */
static bool is_doubtful(const struct work *work, const struct tn_reference *reference,
                        const struct tn_finding *finding)
{
    if (reference->may_be_number)
        return is_tarns(finding);
    return reference->in_struct && finding->standing == TN_STANDING_UNMAPPED &&
           !tn_regions_was_mapped(work->regions, reference->address);
}

static tarn_pointer_class class_of(const struct work *work, const struct tn_reference *reference,
                                   const struct tn_finding *finding)
{
    if (is_doubtful(work, reference, finding))
        return TARN_POINTER_DOUBTFUL;
    switch ((enum tn_standing)finding->standing) {
    case TN_STANDING_LIVE:
        return class_of_live(work, reference, finding);
    case TN_STANDING_FREED:
        return class_of_freed(finding);
    case TN_STANDING_UNMAPPED:
        return TARN_POINTER_UNMAPPED;
    case TN_STANDING_IMPORTED:
        return class_of_imported(work, reference, finding);
    case TN_STANDING_LET_GO:
        return finding->kept ? TARN_POINTER_KEPT : TARN_POINTER_LET_GO;
    case TN_STANDING_DEVICE:
        if (tn_references_give(&work->record->references, reference->address))
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
    return (tn_pointer_is_mistake(pointer_class) || (work->refused >> pointer_class & 1) != 0) &&
           (work->accepted >> pointer_class & 1) == 0;
}

static void begin_reading(const struct work *work, tarn_device *device)
{
    if (work->subject->is_listed)
        tn_lock_acquire(&device->graphs_lock);
}

static void end_reading(const struct work *work, tarn_device *device)
{
    if (work->subject->is_listed)
        tn_lock_release(&device->graphs_lock);
}

/* A node that touches more than its live block has may mean an earlier block at this address. */
static tarn_status reclassify_moved(struct work *work, tarn_device *device, size_t index,
                                    tarn_pointer_class *of)
{
    static const tarn_pointer_class classes[] = {[TN_MEANT_LIVE] = TARN_POINTER_BEYOND,
                                                 [TN_MEANT_EARLIER] = TARN_POINTER_REUSED,
                                                 [TN_MEANT_UNKNOWN] = TARN_POINTER_DOUBTFUL};
    const struct tn_references *references = &work->record->references;
    const struct tn_finding *finding = &work->standings.findings[index];
    enum tn_meant meant = TN_MEANT_LIVE;
    tarn_status status;

    if (TN_LIKELY(*of != TARN_POINTER_BEYOND) || finding->standing != TN_STANDING_LIVE)
        return TARN_OK;
    begin_reading(work, device);
    status = tn_meant_find(&work->meanings, &device->gpu, work->subject->graph, references,
                           &references->items[index], finding, &meant);
    end_reading(work, device);
    *of = classes[meant];
    return status;
}

/* -- What an audit says ------------------------------------------------------------------------ */

static tarn_pointer describe(const struct work *work, size_t index, tarn_pointer_class of)
{
    const struct tn_reference *reference = &work->record->references.items[index];
    const struct tn_finding *finding = &work->standings.findings[index];
    bool is_in_memory = reference->place == TARN_PLACE_MEMORY;

    return (tarn_pointer){
        .pointer_class = of,
        .place = (tarn_pointer_place)reference->place,
        .node = reference->node,
        .index = reference->index,
        .offset = reference->offset,
        .device = finding->device,
        .address = reference->address,
        .bytes = is_in_memory ? 0 : reference->bytes,
        .at = is_in_memory ? reference->at : 0,
        .block = finding->block,
        .pool = finding->pool != NULL ? finding->pool->name : NULL,
    };
}

static bool add_pointer(struct pointers *pointers, const tarn_pointer *pointer)
{
    if (!tn_host_grow((void **)&pointers->items, &pointers->capacity, pointers->count + 1,
                      sizeof *pointers->items))
        return false;
    pointers->items[pointers->count] = *pointer;
    pointers->count += 1;
    return true;
}

/* Whether the pointer is the first into a live block that the graph does not hold. */
static bool is_not_held(struct work *work, size_t index, tarn_pointer_class of, bool *known)
{
    const struct tn_finding *finding = &work->standings.findings[index];
    uint64_t *place;

    *known = true;
    if ((finding->standing != TN_STANDING_LIVE && finding->standing != TN_STANDING_IMPORTED) ||
        of == TARN_POINTER_DOUBTFUL || (finding->held && finding->pool->is_own) ||
        (tn_pointer_is_dead(of) && is_mistake(work, of)))
        return false;
    *known = tn_word_set_reserve(&work->listed);
    if (!*known)
        return false;
    place = tn_word_set_place(&work->listed, 2 * finding->block.sequence);
    if (*place != 0)
        return false;
    *place = 2 * finding->block.sequence;
    work->listed.count += 1;
    return true;
}

/* G6: the reference is of that class. */
static tarn_status note(struct work *work, size_t index, tarn_pointer_class of)
{
    tarn_audit *view = &work->record->view;
    bool lists = work->list == TN_LIST_ALL;
    bool known = true;
    tarn_pointer pointer;

    view->counts[of] += 1;
    if (work->list == TN_LIST_NOT_HELD)
        lists = is_not_held(work, index, of, &known);
    if (!known)
        return no_memory();
    if (!lists && !is_mistake(work, of) && of != TARN_POINTER_OVERWRITES)
        return TARN_OK;
    pointer = describe(work, index, of);
    if ((lists && !add_pointer(&work->record->listed, &pointer)) ||
        (is_mistake(work, of) && !add_pointer(&work->record->mistakes, &pointer)) ||
        (of == TARN_POINTER_OVERWRITES && !add_pointer(&work->record->overwrites, &pointer)))
        return no_memory();
    return TARN_OK;
}

/* Looks at the references that were read last. */
static tarn_status classify_batch(struct work *work, tarn_device *device)
{
    const struct tn_references *references = &work->record->references;
    tarn_status status = tn_standings_find(&work->standings, references, &device->regions,
                                           work->subject->graph, work->subject->pool);

    for (size_t i = 0; status == TARN_OK && i < references->count; i++) {
        tarn_pointer_class of = class_of(work, &references->items[i], &work->standings.findings[i]);

        status = reclassify_moved(work, device, i, &of);
        if (status == TARN_OK)
            status = note(work, i, of);
    }
    work->record->view.pointer_count += references->count;
    return status;
}

static tarn_status classify_graph(struct work *work, tarn_device *device,
                                  const tarn_audit_options *options)
{
    struct tn_references *references = &work->record->references;
    tarn_status status;

    begin_reading(work, device);
    status = tn_references_open(references, &device->regions, work->subject->graph, options->bodies,
                                options->body_count);
    end_reading(work, device);
    while (status == TARN_OK && tn_references_go_on(references)) {
        begin_reading(work, device);
        status = tn_references_read(references, TOGETHER);
        end_reading(work, device);
        if (status == TARN_OK)
            status = classify_batch(work, device);
    }
    return status;
}

static tarn_status scan_pool(struct work *work, tarn_device *device, struct tn_scan *scan)
{
    struct tn_references *references = &work->record->references;
    tarn_status status = TARN_OK;

    while (status == TARN_OK && tn_scan_goes_on(scan)) {
        status = tn_scan_read(scan, references);
        if (status == TARN_OK)
            status = classify_batch(work, device);
    }
    work->record->view.scanned_bytes = scan->scanned_bytes;
    return status;
}

/* A scan begins before the graph is read: it may call the program's functions. */
static tarn_status look(struct work *work, tarn_device *device, const tarn_audit_options *options)
{
    struct tn_scan scan = {.pool = NULL};
    tarn_status status = TARN_OK;

    if (options->scan && work->list != TN_LIST_NOT_HELD)
        status = tn_scan_begin(&scan, work->subject->pool,
                               tn_device_stream(device, options->scan_stream));
    if (status == TARN_OK)
        status = classify_graph(work, device, options);
    if (status == TARN_OK && scan.pool != NULL)
        status = scan_pool(work, device, &scan);
    tn_scan_end(&scan);
    return status;
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

/* The audit keeps nodes and names; the rest of the work's memory goes. */
static void finish(struct work *work)
{
    struct record *record = work->record;
    tarn_audit *view = &record->view;

    record->pools = work->standings.pools;
    work->standings.pools = NULL;
    tn_references_finish(&record->references);
    count_nodes(record);
    view->mistakes = record->mistakes.items;
    view->mistake_count = record->mistakes.count;
    view->overwrites = record->overwrites.items;
    view->overwrite_count = record->overwrites.count;
    view->pointers = record->listed.items;
}

tarn_status tn_audit(tarn_device *device, const struct tn_audit_subject *subject,
                     const tarn_audit_options *options, enum tn_audit_list list, tarn_audit **audit)
{
    struct work work = {.subject = subject,
                        .regions = &device->regions,
                        .accepted = options->accepted,
                        .refused = options->refused |
                                   (subject->is_guarded ? 1u << TARN_POINTER_OVERWRITES : 0),
                        .list = list,
                        .standings = {.keeper = subject->keeper}};
    tarn_status status;

    work.record = tn_host_alloc(1, sizeof *work.record);
    if (work.record == NULL)
        return no_memory();
    status = look(&work, device, options);
    if (status == TARN_OK) {
        finish(&work);
        *audit = &work.record->view;
    } else {
        tn_audit_drop(&work.record->view);
    }
    tn_word_set_drop(&work.listed);
    tn_standings_drop(&work.standings);
    tn_meanings_drop(&work.meanings);
    return status;
}

size_t tn_audit_listed(const tarn_audit *audit)
{
    return ((const struct record *)audit)->listed.count;
}

void tn_audit_drop(tarn_audit *audit)
{
    struct record *record = (struct record *)audit;

    tn_references_drop(&record->references);
    tn_found_pools_drop(record->pools);
    tn_host_free(record->mistakes.items);
    tn_host_free(record->overwrites.items);
    tn_host_free(record->listed.items);
    tn_host_free(record);
}
