// SPDX-License-Identifier: Apache-2.0
/* Most addresses are where a block begins, and the index finds that at once. The others are put in order, and each
 * segment's blocks are gone through once beside them.
 *
 * Trade-offs: a pool with addresses inside blocks is locked twice, for nothing is put in order under its lock. */
#include "graphs/standing.h"

#include <stdlib.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "driver/pointer.h"
#include "pools/hold.h"
#include "pools/live_index.h"
#include "pools/pool.h"

/* An address that no block begins at. */
struct inner {
    uint64_t address;
    size_t index; /* of the reference */
};

struct search {
    const struct tn_references *references;
    struct tn_finding *findings;
    tn_cu_graph graph;
    struct inner *inner; /* room for all references */
    size_t inner_count;
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

static struct tn_finding live(tarn_pool *pool, const struct tn_block *block)
{
    return (struct tn_finding){
        .standing = TN_STANDING_LIVE, .pool = pool, .block = tn_describe_block(pool, block)};
}

/* By the block that contains the address. */
static struct tn_finding standing_in(const struct search *search, tarn_pool *pool,
                                     const struct tn_block *block, uint64_t address)
{
    const struct tn_hold *hold;

    if (block->state == TN_BLOCK_LIVE)
        return live(pool, block);
    if (block->state == TN_BLOCK_UNMAPPED)
        return (struct tn_finding){.standing = TN_STANDING_UNMAPPED, .pool = pool};
    hold = search->graph != NULL ? tn_hold_find_graph(pool, search->graph) : NULL;
    return (struct tn_finding){
        .standing = TN_STANDING_FREED,
        .held =
            hold != NULL && tn_hold_has(hold, block->segment, address - block->segment->base, 1),
        .pool = pool};
}

/* Those of the pool, which is locked, from that reference on: at which blocks begin; the others are listed. */
static void find_beginnings(struct search *search, tarn_pool *pool, size_t from)
{
    search->inner_count = 0;
    for (size_t i = from; i < search->references->count; i++) {
        uint64_t address = address_of(search, i);
        const struct tn_block *block;

        if (search->findings[i].standing != TN_STANDING_NONE || segment_of(pool, address) == NULL)
            continue;
        block = tn_live_find(pool, address);
        if (block != NULL && block->state == TN_BLOCK_LIVE) {
            search->findings[i] = live(pool, block);
        } else {
            search->inner[search->inner_count] = (struct inner){address, i};
            search->inner_count += 1;
        }
    }
}

static int compare_inner(const void *a, const void *b)
{
    const struct inner *first = a;
    const struct inner *second = b;

    return (first->address > second->address) - (first->address < second->address);
}

/* Those that were listed, in order; the pool is locked again. */
static void find_inner(const struct search *search, tarn_pool *pool)
{
    const struct tn_segment *segment = NULL;
    const struct tn_block *block = NULL;

    for (size_t i = 0; i < search->inner_count; i++) {
        const struct inner *inner = &search->inner[i];
        const struct tn_segment *now = segment_of(pool, inner->address);

        search->findings[inner->index] =
            (struct tn_finding){.standing = TN_STANDING_UNMAPPED}; /* the segment went meanwhile */
        if (now == NULL)
            continue;
        if (now != segment)
            block = now->first_block;
        segment = now;
        while (tn_block_end(block) <= inner->address - segment->base)
            block = block->next;
        search->findings[inner->index] = standing_in(search, pool, block, inner->address);
    }
}

/* All of the pool that has the reference's address, if one has. */
static void find_in_pool(struct search *search, size_t index)
{
    struct tn_segment *segment;
    tarn_pool *pool;

    if (tn_address_table_find(address_of(search, index)) == NULL ||
        tn_pool_lock_segment(address_of(search, index), &pool, &segment) != TARN_OK)
        return;
    find_beginnings(search, pool, index);
    if (search->inner_count > 0) {
        tn_pool_pin(pool);
        tn_pool_unlock(pool);
        qsort(search->inner, search->inner_count, sizeof *search->inner, compare_inner);
        tn_pool_lock(pool);
        find_inner(search, pool);
        tn_pool_unlock(pool);
        tn_pool_unpin(pool);
    } else {
        tn_pool_unlock(pool);
    }
}

/* One that is no pool's. */
static tarn_status ask_driver(struct tn_regions *regions, uint64_t address,
                              struct tn_finding *finding)
{
    static const uint8_t standings[] = {[TN_MEMORY_UNKNOWN] = TN_STANDING_UNKNOWN,
                                        [TN_MEMORY_DEVICE] = TN_STANDING_DEVICE,
                                        [TN_MEMORY_HOST] = TN_STANDING_PINNED};
    struct tn_memory memory;
    tarn_status status;

    if (tn_regions_contain(regions, address)) {
        finding->standing = TN_STANDING_UNMAPPED;
        return TARN_OK;
    }
    status = tn_memory_look(regions->gpu, address, &memory);
    finding->standing = standings[memory.kind];
    return status;
}

tarn_status tn_standings_find(const struct tn_references *references, struct tn_regions *regions,
                              tn_cu_graph graph, struct tn_finding *findings)
{
    struct search search = {.references = references, .findings = findings, .graph = graph};
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_none_held());
    if (references->count == 0)
        return TARN_OK;
    search.inner = tn_host_alloc_unset(references->count, sizeof *search.inner);
    if (search.inner == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to look %zu addresses up",
                       references->count);
    for (size_t i = 0; i < references->count; i++)
        findings[i] = (struct tn_finding){.standing = TN_STANDING_NONE};
    for (size_t i = 0; status == TARN_OK && i < references->count; i++) {
        if (findings[i].standing == TN_STANDING_NONE)
            find_in_pool(&search, i); /* G5 */
        if (findings[i].standing == TN_STANDING_NONE)
            status = ask_driver(regions, address_of(&search, i), &findings[i]);
    }
    tn_host_free(search.inner);
    return status;
}
