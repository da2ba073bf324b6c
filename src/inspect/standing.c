// SPDX-License-Identifier: Apache-2.0
/* Most addresses are beginnings of blocks, which the index finds at once. The others are put in
 * order: those in one block, or in neighbours, are found one behind the other.
 *
 * Trade-offs: a pool with addresses inside blocks is locked twice, for nothing is put in order
 * under its lock. */
#include "inspect/standing.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "claims/hold.h"
#include "claims/import_block.h"
#include "claims/watch.h"
#include "heap/live_index.h"
#include "nodes/pointer.h"
#include "pools/free.h"
#include "pools/janitor.h"
#include "pools/pool.h"
#include "vmm/imports.h"

enum {
    AHEAD = 16,     /* references: some hundred nanoseconds ahead */
    STEPS_NEAR = 16 /* from block to block, before a search */
};

/* An address at which no block begins. */
struct tn_inner {
    uint64_t address;
    size_t index; /* of the reference */
};

struct search {
    struct tn_standings *to;
    const struct tn_references *references;
    tn_cu_graph graph;
    const tarn_pool *own;
    size_t inner_count;
    /* The locked pool: */
    const struct tn_found_pool *found;
    const struct tn_hold *holds; /* the graph's */
};

static uint64_t address_of(const struct search *search, size_t index)
{
    return search->references->items[index].address;
}

/* The pool's segment that contains the address, NULL: none; the pool is locked. */
static struct tn_segment *segment_of(const tarn_pool *pool, uint64_t address)
{
    struct tn_segment *segment = tn_address_table_find(address);

    return segment != NULL && atomic_load_explicit(&segment->owner, memory_order_relaxed) == pool
               ? segment
               : NULL;
}

/* Whether the graph holds the memory at the address. The template of a child graph is another
 * graph, whose holds the node's clone keeps. The driver does not tell which holds those are: for
 * addresses named there, any hold counts. */
static bool is_held(const struct search *search, size_t index, const struct tn_segment *segment)
{
    uint32_t node = search->references->items[index].node;
    bool is_in_child = node < search->references->node_count &&
                       search->references->nodes[node].parent != TARN_NO_NODE;
    const struct tn_chunk *chunk;

    if (search->holds == NULL && !is_in_child)
        return false;
    chunk = tn_segment_chunk_at(segment, address_of(search, index) - segment->base);
    for (const struct tn_hold *hold = search->holds; hold != NULL; hold = hold->selected) {
        if (tn_chunk_set_has_id(&hold->chunks, chunk->id))
            return true;
    }
    return is_in_child && chunk->hold_count > 0;
}

/* Finds a live block. The finding is written where it stays: there are many. */
static void find_live(const struct search *search, tarn_pool *pool, size_t index,
                      const struct tn_block *block)
{
    struct tn_finding *finding = &search->to->findings[index];

    finding->standing = TN_STANDING_LIVE;
    finding->held = is_held(search, index, block->segment);
    finding->kept = false;
    finding->captured = tn_block_order(block).capture_id != 0;
    finding->device = -1;
    finding->pool = search->found;
    finding->block = tn_describe_block(pool, block);
}

static bool is_kept(const struct search *search, const struct tn_block *block)
{
    const struct tn_watched *watched =
        block->state == TN_BLOCK_PENDING ? tn_block_watches(block) : NULL;

    while (watched != NULL && watched->watch != search->to->keeper)
        watched = watched->next;
    return watched != NULL;
}

/* Finds by the block that contains the address. */
static void classify_block(const struct search *search, tarn_pool *pool, size_t index,
                           const struct tn_block *block)
{
    struct tn_finding *finding = &search->to->findings[index];

    if (block->state == TN_BLOCK_LIVE) {
        find_live(search, pool, index, block);
        return;
    }
    *finding = (struct tn_finding){.standing = TN_STANDING_UNMAPPED,
                                   .device = -1,
                                   .pool = search->found,
                                   .block = {.pool = pool}};
    if (block->state == TN_BLOCK_UNMAPPED)
        return;
    finding->standing = TN_STANDING_FREED;
    finding->held = is_held(search, index, block->segment);
    finding->kept = is_kept(search, block);
    if (finding->kept)
        finding->block = tn_describe_block(pool, block);
}

/* A reference into the pool, and the block whose record was prefetched for it; NULL: no block
 * begins there. */
struct glance {
    size_t index;
    const struct tn_block *block;
};

static void take(struct search *search, tarn_pool *pool, const struct glance *glance)
{
    if (glance->block != NULL && glance->block->state == TN_BLOCK_LIVE) {
        find_live(search, pool, glance->index, glance->block);
        return;
    }
    search->to->inner[search->inner_count] =
        (struct tn_inner){address_of(search, glance->index), glance->index};
    search->inner_count += 1;
}

/* Finds the references from `from` on into the locked pool at which blocks begin, and lists the
 * others. The records of blocks lie anywhere: the next records are prefetched while those before
 * them are looked at. */
static void find_beginnings(struct search *search, tarn_pool *pool, size_t from)
{
    struct glance glances[AHEAD];
    struct tn_live_place place = {.chunk = NULL};
    size_t begun = 0;
    size_t taken = 0;

    search->inner_count = 0;
    for (size_t i = from; i < search->references->count; i++) {
        uint64_t address = address_of(search, i);
        const struct tn_block *block;

        if (search->to->findings[i].standing != TN_STANDING_NONE)
            continue;
        block = tn_live_find_near(pool, address, &place);
        if (block == NULL && segment_of(pool, address) == NULL)
            continue;
        __builtin_prefetch(block);
        if (begun - taken == AHEAD)
            take(search, pool, &glances[taken++ % AHEAD]);
        glances[begun++ % AHEAD] = (struct glance){i, block};
    }
    while (taken < begun)
        take(search, pool, &glances[taken++ % AHEAD]);
}

static int compare_inner(const void *a, const void *b)
{
    const struct tn_inner *first = a;
    const struct tn_inner *second = b;

    return (first->address > second->address) - (first->address < second->address);
}

/* The block over the offset. block: one of the segment that begins before, or NULL. Most blocks
 * searched in a row are near to each other. */
static const struct tn_block *block_over(const struct tn_segment *segment,
                                         const struct tn_block *block, uint64_t offset)
{
    for (int steps = 0; block != NULL && steps < STEPS_NEAR; steps++) {
        if (tn_block_end(block) > offset)
            return block;
        block = block->next;
    }
    return tn_segment_block_at(segment, offset);
}

/* Finds the listed references, in order; the pool is locked again. */
static void find_inner(const struct search *search, tarn_pool *pool)
{
    const struct tn_segment *segment = NULL;
    const struct tn_block *block = NULL;

    for (size_t i = 0; i < search->inner_count; i++) {
        const struct tn_inner *inner = &search->to->inner[i];
        const struct tn_segment *now = segment_of(pool, inner->address);

        search->to->findings[inner->index] =
            (struct tn_finding){.standing = TN_STANDING_UNMAPPED, .device = -1};
        if (now == NULL)
            continue; /* the segment is gone */
        block = block_over(now, now == segment ? block : NULL, inner->address - now->base);
        segment = now;
        classify_block(search, pool, inner->index, block);
    }
}

/* Whether replays of the pool's graphs are in one order with replays of the own pool's. */
static bool shares_replays_with(const tarn_pool *pool, const tarn_pool *own)
{
    return own == NULL || pool->is_default ||
           atomic_load(&pool->replays) == atomic_load(&own->replays);
}

/* Notes the locked pool. A spare record is there. */
static void note_pool(struct search *search, tarn_pool *pool)
{
    struct tn_standings *to = search->to;
    struct tn_found_pool *found = to->pools;
    bool is_own;

    search->holds = tn_holds_select(&pool->holds, search->graph);
    is_own = pool == search->own || search->holds != NULL;
    while (found != NULL &&
           (found->pool != pool || found->is_own != is_own || strcmp(found->name, pool->name) != 0))
        found = found->next;
    if (found == NULL) {
        found = to->spare;
        to->spare = NULL;
        *found = (struct tn_found_pool){.next = to->pools,
                                        .pool = pool,
                                        .is_own = is_own,
                                        .is_default = pool->is_default,
                                        .shares_replays = shares_replays_with(pool, search->own)};
        memcpy(found->name, pool->name, sizeof found->name);
        to->pools = found;
    }
    search->found = found;
}

/* Finds all references into the pool of this reference's address, if the address has a pool. */
static bool find_in_pool(struct search *search, size_t index)
{
    struct tn_segment *segment;
    tarn_pool *pool;

    if (tn_address_table_find(address_of(search, index)) == NULL)
        return true;
    if (search->to->spare == NULL)
        search->to->spare = tn_host_alloc(1, sizeof *search->to->spare);
    if (search->to->spare == NULL)
        return false;
    if (tn_pool_lock_segment(address_of(search, index), &pool, &segment) != TARN_OK)
        return true;
    note_pool(search, pool);
    find_beginnings(search, pool, index);
    if (search->inner_count > 0) {
        tn_pool_pin(pool);
        tn_pool_unlock(pool);
        qsort(search->to->inner, search->inner_count, sizeof *search->to->inner, compare_inner);
        tn_pool_lock(pool);
        search->holds = tn_holds_select(&pool->holds, search->graph);
        find_inner(search, pool);
        tn_pool_unlock(pool);
        tn_pool_unpin(pool);
    } else {
        tn_pool_unlock(pool);
    }
    return true;
}

/* Whether the address is another process's. */
static bool find_import(const struct search *search, uint64_t address, struct tn_finding *finding)
{
    struct tn_import_found view;
    bool is_block = tn_import_blocks_find(address, search->to->keeper, &view);

    if (!is_block && !tn_import_is_at(address))
        return false;
    *finding = (struct tn_finding){.standing = TN_STANDING_LET_GO, .device = -1};
    if (!is_block)
        return true;
    finding->kept = view.is_kept;
    if (view.is_open)
        finding->standing = TN_STANDING_IMPORTED;
    if (view.is_open || view.is_kept)
        finding->block = (tarn_block){.address = (void *)(uintptr_t)view.address,
                                      .bytes = view.bytes,
                                      .sequence = view.sequence};
    return true;
}

/* Asks the driver about an address of no pool. */
static tarn_status ask_driver(struct tn_regions *regions, uint64_t address,
                              struct tn_finding *finding)
{
    static const uint8_t standings[] = {[TN_POINTEE_UNKNOWN] = TN_STANDING_UNKNOWN,
                                        [TN_POINTEE_DEVICE] = TN_STANDING_DEVICE,
                                        [TN_POINTEE_HOST] = TN_STANDING_PINNED};
    struct tn_pointee memory;
    tarn_status status;

    *finding = (struct tn_finding){.device = -1};
    if (tn_regions_contain(regions, address)) {
        finding->standing = TN_STANDING_UNMAPPED;
        return TARN_OK;
    }
    status = tn_pointer_query(regions->gpu, address, &memory);
    finding->standing = standings[memory.kind];
    finding->device = (int16_t)memory.ordinal;
    finding->block.address = (void *)(uintptr_t)memory.address;
    finding->block.bytes = memory.bytes;
    return status;
}

static tarn_status search_references(struct search *search, struct tn_regions *regions)
{
    struct tn_finding *findings = search->to->findings;
    size_t count = search->references->count;
    tarn_status status = TARN_OK;

    memset(findings, TN_STANDING_NONE, count * sizeof *findings);
    for (size_t i = 0; status == TARN_OK && i < count; i++) {
        if (findings[i].standing == TN_STANDING_NONE && !find_in_pool(search, i)) /* G5 */
            status = tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for the names of pools");
        if (status == TARN_OK && findings[i].standing == TN_STANDING_NONE &&
            !find_import(search, address_of(search, i), &findings[i]))
            status = ask_driver(regions, address_of(search, i), &findings[i]);
    }
    return status;
}

/* Reserves room for this many findings. */
static bool reserve(struct tn_standings *standings, size_t count)
{
    struct tn_finding *findings;
    struct tn_inner *inner;

    if (count <= standings->capacity)
        return true;
    findings = tn_host_alloc_unset(count, sizeof *findings);
    inner = tn_host_alloc_unset(count, sizeof *inner);
    if (findings == NULL || inner == NULL) {
        tn_host_free(findings);
        tn_host_free(inner);
        return false;
    }
    tn_host_free(standings->findings);
    tn_host_free(standings->inner);
    standings->findings = findings;
    standings->inner = inner;
    standings->capacity = count;
    return true;
}

tarn_status tn_standings_find(struct tn_standings *standings,
                              const struct tn_references *references, struct tn_regions *regions,
                              tn_cu_graph graph, const tarn_pool *own)
{
    struct search search = {.to = standings, .references = references, .graph = graph, .own = own};

    TN_ASSERT(tn_lock_none_held());
    if (references->count == 0)
        return TARN_OK;
    if (!reserve(standings, references->count))
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to look %zu addresses up",
                       references->count);
    return search_references(&search, regions);
}

void tn_found_pools_drop(struct tn_found_pool *pools)
{
    while (pools != NULL) {
        struct tn_found_pool *next = pools->next;

        tn_host_free(pools);
        pools = next;
    }
}

void tn_standings_drop(struct tn_standings *standings)
{
    tn_host_free(standings->findings);
    tn_host_free(standings->inner);
    tn_host_free(standings->spare);
    tn_found_pools_drop(standings->pools);
    *standings = (struct tn_standings){.findings = NULL};
}
