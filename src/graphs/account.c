// SPDX-License-Identifier: Apache-2.0
/* An account is of a single graph, or of all graphs of a device. It has three steps:
 * - It reads the graphs back, counts their nodes, and notes the addresses of Tarn's that the nodes
 *   name.
 * - It lays the maps of holds over each other, word by word: of the graph's own holds, or of all. A
 *   chunk with more holds than its first holder has there is held by others, too.
 * - It looks the noted addresses up, in order: addresses in the same block stand side by side.
 *
 * A hold counts for the graph that keeps it: for a body, the outermost graph. A hold whose keeper
 * is gone counts as a holder of its own.
 *
 * Trade-offs: an external block that is freed between the lookup of its address and the look at its
 * chunks is left out. A program may destroy a driver's graph itself, while an executable of the
 * graph is left. If the next graph gets the same handle, the account takes the old graph for the
 * new, as claims/hold.h does. */
#include "graphs/account.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "driver/exec.h"
#include "inspect/references.h"
#include "inspect/standing.h"
#include "pools/free.h"
#include "pools/pool.h"
#include "pools/visit.h"

enum { BITS = 64 };

struct account {
    tarn_device *device;
    bool whole;          /* all graphs of the device */
    tn_cu_graph *graphs; /* the accounted graphs; in order once all are read */
    size_t graph_count;
    size_t graph_capacity;
    /* Addresses of Tarn's that nodes name; in order, each once, when all graphs are read. */
    uint64_t *addresses;
    size_t address_count;
    size_t address_capacity;
    tarn_graph_memory_info memory;
};

static tarn_status no_memory(void)
{
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for the account of a graph");
}

/* -- Graphs read back -------------------------------------------------------------------------- */

static void count_nodes(struct account *account, const struct tn_references *references)
{
    tarn_graph_memory_info *memory = &account->memory;

    memory->node_count += references->node_count;
    for (size_t i = 0; i < references->node_count; i++) {
        const tarn_audit_node *node = &references->nodes[i];

        memory->kernel_count += node->type == TN_CU_NODE_KERNEL;
        memory->allocation_count += node->type == TN_CU_NODE_MEM_ALLOC;
        memory->uninspected_count += node->inspection != TARN_INSPECTED;
    }
    for (size_t i = 0; i < references->count; i++) {
        if (references->items[i].place == TARN_PLACE_ALLOCATED)
            memory->node_bytes += references->items[i].bytes;
    }
}

/* A host function's argument is no use of memory, whatever its value. */
static tarn_status note_addresses(struct account *account, const struct tn_references *references)
{
    if (!tn_host_grow((void **)&account->addresses, &account->address_capacity,
                      account->address_count + references->count, sizeof *account->addresses))
        return no_memory();
    for (size_t i = 0; i < references->count; i++) {
        const struct tn_reference *item = &references->items[i];

        if (item->place == TARN_PLACE_ARGUMENT || tn_address_table_find(item->address) == NULL)
            continue;
        account->addresses[account->address_count] = item->address;
        account->address_count += 1;
    }
    TN_ASSERT(account->address_count <= account->address_capacity);
    return TARN_OK;
}

/* The GRAPHS lock is held. */
static tarn_status read_graph(struct account *account, const tarn_graph *graph)
{
    struct tn_references references = {.nodes = NULL};
    tarn_status status;

    TN_ASSERT(tn_lock_is_held(&account->device->graphs_lock));
    if (!tn_host_grow((void **)&account->graphs, &account->graph_capacity, account->graph_count + 1,
                      sizeof(tn_cu_graph)))
        return no_memory();
    status =
        tn_references_collect(&references, &account->device->regions, graph->driver_graph, NULL, 0);
    if (status != TARN_OK)
        return status;
    account->graphs[account->graph_count] = graph->driver_graph;
    account->graph_count += 1;
    account->memory.graph_count += 1;
    count_nodes(account, &references);
    status = note_addresses(account, &references);
    tn_references_drop(&references);
    return status;
}

static int compare_graphs(const void *a, const void *b)
{
    uintptr_t first = (uintptr_t) * (const tn_cu_graph *)a;
    uintptr_t second = (uintptr_t) * (const tn_cu_graph *)b;

    return (first > second) - (first < second);
}

static int compare_addresses(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a;
    uint64_t second = *(const uint64_t *)b;

    return (first > second) - (first < second);
}

static void sort_and_unite(struct account *account)
{
    uint64_t *addresses = account->addresses;
    size_t kept = 0;

    if (account->graph_count > 1)
        qsort(account->graphs, account->graph_count, sizeof *account->graphs, compare_graphs);
    if (account->address_count == 0)
        return;
    qsort(addresses, account->address_count, sizeof *addresses, compare_addresses);
    for (size_t i = 1; i < account->address_count; i++) {
        if (addresses[i] != addresses[kept])
            addresses[++kept] = addresses[i];
    }
    TN_ASSERT(kept < account->address_count);
    account->address_count = kept + 1;
}

/* -- What is held ------------------------------------------------------------------------------ */

static bool is_accounted(const struct account *account, tn_cu_graph graph)
{
    return graph != NULL && account->graph_count > 0 &&
           bsearch(&graph, account->graphs, account->graph_count, sizeof(tn_cu_graph),
                   compare_graphs) != NULL;
}

/* The pool's holds that count: all, or those of the single graph. The pool is locked. */
static const struct tn_hold *first_hold(const struct account *account, tarn_pool *pool)
{
    return account->whole ? pool->holds.first : tn_holds_select(&pool->holds, account->graphs[0]);
}

static const struct tn_hold *next_hold(const struct account *account, const struct tn_hold *hold)
{
    return account->whole ? hold->next : hold->selected;
}

/* Adds the chunks of a word of the maps; first: the pool's first hold that counts. */
static void add_word(struct account *account, const tarn_pool *pool, const struct tn_hold *first,
                     size_t word)
{
    tarn_graph_memory_info *memory = &account->memory;
    const void *holders[BITS] = {NULL}; /* the first holder of each chunk */
    uint64_t counts[BITS] = {0};        /* and how many holds of its have the chunk */
    uint64_t held = 0;
    uint64_t accounted = 0; /* by one accounted graph, or by several */
    uint64_t several = 0;

    TN_ASSERT(tn_pool_is_locked(pool));
    for (const struct tn_hold *hold = first; hold != NULL; hold = next_hold(account, hold)) {
        uint64_t bits = tn_chunk_set_word(&hold->chunks, word);
        const void *holder = hold->keeper != NULL ? (const void *)hold->keeper : hold;

        for (uint64_t left = bits; left != 0; left &= left - 1) {
            int at = __builtin_ctzll(left);

            if (holders[at] == NULL)
                holders[at] = holder;
            counts[at] += holders[at] == holder;
        }
        held |= bits;
        if (bits != 0 && is_accounted(account, hold->keeper))
            accounted |= bits;
    }
    for (uint64_t left = accounted; left != 0; left &= left - 1) {
        int at = __builtin_ctzll(left);

        if (pool->chunks.by_id[BITS * word + (size_t)at]->hold_count > counts[at]) /* P7 */
            several |= (uint64_t)1 << at;
    }
    memory->own_pool_bytes += tn_holds_bytes_in(&pool->holds, word, accounted & ~several);
    memory->shared_pool_bytes += tn_holds_bytes_in(&pool->holds, word, accounted & several);
    if (account->whole)
        memory->other_pool_bytes += tn_holds_bytes_in(&pool->holds, word, held & ~accounted);
}

/* The first word at or behind this one in which a hold has a chunk; SIZE_MAX: none. */
static size_t next_held_word(const struct account *account, const struct tn_hold *first,
                             size_t word)
{
    size_t next = SIZE_MAX;

    for (const struct tn_hold *hold = first; hold != NULL; hold = next_hold(account, hold)) {
        size_t of_hold = tn_chunk_set_next(&hold->chunks, word);

        if (of_hold < hold->chunks.word_count)
            next = tn_min(next, of_hold);
    }
    return next;
}

static bool add_pool(tarn_pool *pool, void *account)
{
    const struct tn_hold *first = first_hold(account, pool);

    for (size_t word = next_held_word(account, first, 0); word != SIZE_MAX;
         word = next_held_word(account, first, word + 1))
        add_word(account, pool, first, word);
    return false;
}

/* -- What is only referred to ------------------------------------------------------------------ */

/* Whether add_word has counted the chunk. */
static bool is_counted(const struct account *account, const struct tn_hold *first,
                       const struct tn_chunk *chunk)
{
    const struct tn_hold *hold = first;

    if (account->whole)
        return chunk->hold_count > 0;
    while (hold != NULL && !tn_chunk_set_has_id(&hold->chunks, chunk->id))
        hold = next_hold(account, hold);
    return hold != NULL;
}

static uint64_t uncounted_bytes(const struct account *account, tarn_pool *pool,
                                const struct tn_block *block)
{
    const struct tn_hold *first = first_hold(account, pool);
    uint64_t bytes = 0;

    TN_ASSERT(tn_pool_is_locked(pool));
    for (uint64_t at = block->offset; at < tn_block_end(block);) {
        const struct tn_chunk *chunk = tn_block_chunk_at(block, at);
        uint64_t end = tn_min(tn_chunk_end(chunk), tn_block_end(block));

        if (!is_counted(account, first, chunk))
            bytes += end - at;
        at = end;
    }
    return bytes;
}

/* Adds the block `found`, which was live at its lookup. */
static void add_external(struct account *account, const tarn_block *found)
{
    tarn_pool *pool;
    struct tn_block *block;
    uint64_t bytes = 0;

    if (tn_pool_lock_block((uint64_t)(uintptr_t)found->address, true, &pool, &block) != TARN_OK)
        return; /* freed meanwhile */
    if (block->sequence == found->sequence && pool->device == account->device)
        bytes = uncounted_bytes(account, pool, block);
    tn_pool_unlock(pool);
    account->memory.external_bytes += bytes;
    account->memory.external_count += bytes > 0;
}

static bool is_another(const struct tn_finding *findings, size_t index)
{
    return findings[index].standing == TN_STANDING_LIVE &&
           (index == 0 || findings[index - 1].standing != TN_STANDING_LIVE ||
            findings[index - 1].block.sequence != findings[index].block.sequence);
}

static tarn_status add_externals(struct account *account)
{
    size_t count = account->address_count;
    struct tn_references references = {.nodes = NULL};
    struct tn_standings standings = {.findings = NULL};
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_none_held());
    if (count == 0)
        return TARN_OK;
    if (!tn_host_grow((void **)&references.items, &references.capacity, count,
                      sizeof *references.items))
        return no_memory();
    for (size_t i = 0; i < count; i++)
        references.items[i].address = account->addresses[i];
    references.count = count;
    status = tn_standings_find(&standings, &references, &account->device->regions, NULL, NULL);
    for (size_t i = 0; status == TARN_OK && i < count; i++) {
        if (is_another(standings.findings, i))
            add_external(account, &standings.findings[i].block);
    }
    tn_references_drop(&references);
    tn_standings_drop(&standings);
    return status;
}

/* -- The whole --------------------------------------------------------------------------------- */

/* status: of reading the graphs. */
static tarn_status finish(struct account *account, tarn_status status,
                          tarn_graph_memory_info *memory)
{
    if (status == TARN_OK) {
        sort_and_unite(account);
        if (account->whole)
            (void)tn_device_visit_listed(account->device, TN_POOLS_HELD, add_pool, account);
        else
            (void)tn_device_visit_holders(
                account->device, &(const struct tn_index_keys){.keeper = account->graphs[0]},
                add_pool, account);
        status = add_externals(account);
    }
    tn_host_free(account->graphs);
    tn_host_free(account->addresses);
    if (status == TARN_OK)
        *memory = account->memory;
    return status;
}

tarn_status tn_account_graph(const tarn_graph *graph, tarn_graph_memory_info *memory)
{
    tarn_device *device = graph->pool->device;
    struct account account = {.device = device, .memory = {.size = sizeof *memory}};
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    tn_lock_acquire(&device->graphs_lock);
    status = read_graph(&account, graph);
    tn_lock_release(&device->graphs_lock);
    account.memory.exec_bytes = graph->exec_bytes;
    return finish(&account, status, memory);
}

tarn_status tn_account_device(tarn_device *device, tarn_graph_memory_info *memory)
{
    struct account account = {.device = device, .whole = true, .memory = {.size = sizeof *memory}};
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    status = tn_driver_graph_memory_reserved(&device->gpu, &account.memory.node_reserved_bytes);
    tn_lock_acquire(&device->graphs_lock);
    for (const tarn_graph *graph = device->graphs; status == TARN_OK && graph != NULL;
         graph = graph->next)
        status = read_graph(&account, graph);
    tn_lock_release(&device->graphs_lock);
    account.memory.exec_bytes = atomic_load(&device->exec_bytes);
    return finish(&account, status, memory);
}
