// SPDX-License-Identifier: Apache-2.0
/* Live blocks are copied first: under the locks of all pools, or from the tables. The copies are
 * sorted by place, pool and number, and each place is a run of blocks. Stacks and modules are read
 * before the list of histories is unlocked. The loader is asked for nothing here: a thread with the
 * loader's lock may wait for the list.
 *
 * A free waits in its writer (heap/history.h), so an entry of a table may be of a free block. The
 * block's record tells: the state is not LIVE then, or the block is a round of a magazine. Its
 * owner may write the record meanwhile, so an old state may be read. The slab stays for as long as
 * the lock of the tables is held.
 *
 * Trade-offs: a block is in graphs by its first chunk, and so are all blocks of this chunk. */
#include "observe/leaks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/host.h"
#include "heap/magazine.h"
#include "heap/sequence.h"
#include "observe/lists.h"
#include "pools/pool.h"
#include "pools/visit.h"

/* A live block. */
struct found {
    uint64_t stack;
    uint64_t pool; /* its number */
    uint64_t number;
    uint64_t requested;
    uint64_t bytes;
    bool in_graphs;
    bool discarded;
};

struct pool_name {
    uint64_t number;
    char name[sizeof((tarn_leak_pool *)NULL)->name];
};

struct finding {
    struct found *blocks;
    size_t count;
    size_t capacity;
    struct pool_name *pools; /* a pool may be there more than once */
    size_t pool_count;
    size_t pool_capacity;
    tarn_leak_sum contents;
    size_t block_need; /* when last counted */
    size_t pool_need;
};

static void add_to(tarn_leak_sum *sum, uint64_t blocks, uint64_t bytes)
{
    sum->blocks += blocks;
    sum->bytes += bytes;
}

/* There is room. */
static void add_block(struct finding *finding, const struct found *block)
{
    TN_ASSERT(finding->count < finding->capacity && block->number != 0);
    if (block->stack == TN_STACKS_OWN) {
        add_to(&finding->contents, 1, block->requested);
        return;
    }
    finding->blocks[finding->count] = *block;
    finding->count += 1;
}

static void drop_finding(struct finding *finding)
{
    tn_host_free(finding->blocks);
    tn_host_free(finding->pools);
    *finding = (struct finding){.blocks = NULL};
}

/* False: no memory. */
static bool make_room(struct finding *finding, size_t blocks, size_t pools)
{
    void *all_blocks = finding->blocks;
    void *all_pools = finding->pools;
    const bool made =
        tn_host_grow(&all_blocks, &finding->capacity, blocks, sizeof *finding->blocks) &&
        tn_host_grow(&all_pools, &finding->pool_capacity, pools, sizeof *finding->pools);

    finding->blocks = all_blocks;
    finding->pools = all_pools;
    return made;
}

/* Of pools ------------------------------------------------------------------------------------ */

static bool count_pool(tarn_pool *pool, void *context)
{
    struct finding *finding = context;

    TN_ASSERT(tn_pool_is_locked(pool));
    finding->block_need += tn_pool_live_count(pool) + tn_pool_discarded_count(pool);
    finding->pool_need += 1;
    return false;
}

static bool is_in_graphs(const struct tn_block *block)
{
    return tn_block_watches(block) != NULL ||
           tn_segment_chunk_at(block->segment, block->offset)->hold_count > 0;
}

static uint64_t stack_of(const struct tn_block *block)
{
    if (tn_block_slab(block)->table == NULL)
        return 0;
    return atomic_load_explicit(&tn_history_entry(block)->stack, memory_order_relaxed);
}

static bool copy_pool(tarn_pool *pool, void *context)
{
    struct finding *finding = context;
    struct pool_name *name = &finding->pools[finding->pool_count];

    TN_ASSERT(tn_pool_is_locked(pool));
    if (!tn_pool_is_listed(pool))
        return false;
    TN_ASSERT(finding->pool_count < finding->pool_capacity);
    name->number = pool->holds.pool_serial;
    (void)snprintf(name->name, sizeof name->name, "%s", pool->name);
    finding->pool_count += 1;
    for (struct tn_block *block = tn_live_first(pool->segments.first); block != NULL;
         block = tn_live_next(block)) {
        if (block->state != TN_BLOCK_LIVE && block->state != TN_BLOCK_DISCARDED)
            continue;
        add_block(finding, &(struct found){.stack = stack_of(block),
                                           .pool = name->number,
                                           .number = block->sequence,
                                           .requested = block->requested,
                                           .bytes = tn_block_bytes(block),
                                           .in_graphs = is_in_graphs(block),
                                           .discarded = block->state == TN_BLOCK_DISCARDED});
    }
    return false;
}

static bool is_enough(const struct finding *finding)
{
    return finding->block_need <= finding->capacity && finding->pool_need <= finding->pool_capacity;
}

/* Copies what there is room for, or says what is needed. */
static bool copy(tarn_device *device, tarn_pool *pool, struct finding *finding)
{
    bool copied;

    finding->block_need = 0;
    finding->pool_need = 0;
    if (pool != NULL) {
        tn_pool_lock(pool);
        (void)count_pool(pool, finding);
        copied = is_enough(finding);
        if (copied)
            (void)copy_pool(pool, finding);
        tn_pool_unlock(pool);
        return copied;
    }
    tn_lock_acquire(&device->lock);
    tn_device_stop(device);
    tn_device_look(device, count_pool, finding);
    copied = is_enough(finding);
    if (copied)
        tn_device_look(device, copy_pool, finding);
    tn_device_resume(device);
    tn_lock_release(&device->lock);
    return copied;
}

/* Of tables ----------------------------------------------------------------------------------- */

/* Whether the record says that its block is live. Its owner may write the record meanwhile. */
static __attribute__((noinline, no_sanitize("thread"))) bool
seems_live(const struct tn_block *block)
{
    const uint8_t state = *(const volatile uint8_t *)&block->state;

    return state == TN_BLOCK_LIVE &&
           (atomic_load_explicit(&block->magazine, memory_order_relaxed) & TN_MAGAZINE_ROUND) == 0;
}

/* Whether the entry is of a live block, and which. */
static bool read_entry(const struct tn_history_table *table, size_t i, struct found *block)
{
    const struct tn_history_entry *entry = &table->entries[i];
    const uint64_t number = atomic_load_explicit(&entry->number, memory_order_acquire);

    if (number == 0 || !seems_live(&table->slab->records[i]))
        return false;
    block->number = number;
    block->requested = atomic_load_explicit(&entry->requested, memory_order_acquire);
    block->bytes = atomic_load_explicit(&entry->units, memory_order_acquire) << TN_BLOCK_BITS;
    block->stack = atomic_load_explicit(&entry->stack, memory_order_acquire);
    return atomic_load_explicit(&entry->number, memory_order_acquire) == number;
}

static void read_name(const struct tn_history_table *table, struct pool_name *name)
{
    _Static_assert(sizeof name->name == TN_HISTORY_NAME_WORDS * sizeof(uint64_t), "a name");
    for (size_t i = 0; i < TN_HISTORY_NAME_WORDS; i++) {
        const uint64_t word = atomic_load_explicit(&table->name[i], memory_order_acquire);

        memcpy(name->name + i * sizeof word, &word, sizeof word);
    }
    name->name[sizeof name->name - 1] = '\0';
}

/* False: no memory. */
static bool read_table(struct finding *finding, const struct tn_history_table *table)
{
    struct found block = {.pool = atomic_load_explicit(&table->pool, memory_order_acquire)};
    struct pool_name *name;

    if (block.pool == 0)
        return true;
    if (!make_room(finding, finding->count + TN_HISTORY_ENTRIES, finding->pool_count + 1))
        return false;
    name = &finding->pools[finding->pool_count];
    name->number = block.pool;
    read_name(table, name);
    finding->pool_count += 1;
    for (size_t i = 0; i < TN_HISTORY_ENTRIES; i++) {
        if (read_entry(table, i, &block))
            add_block(finding, &block);
    }
    return true;
}

static bool read_tables(const struct tn_history *history, struct finding *finding)
{
    const struct tn_ring_file *file = &history->file;
    bool read = true;

    TN_ASSERT(tn_spin_is_taken(&history->tables.lock));
    for (size_t part = 0; part < file->part_count && read; part++) {
        const struct tn_history_table *tables = file->parts[part];
        const size_t count = tn_ring_part_bytes(part) / sizeof *tables;

        for (size_t i = 0; i < count && read; i++)
            read = read_table(finding, &tables[i]);
    }
    return read;
}

/* Places -------------------------------------------------------------------------------------- */

static int compare(uint64_t left, uint64_t right)
{
    return (left > right) - (left < right);
}

static int compare_blocks(const void *a, const void *b)
{
    const struct found *left = a;
    const struct found *right = b;

    if (left->stack != right->stack)
        return compare(left->stack, right->stack);
    if (left->pool != right->pool)
        return compare(left->pool, right->pool);
    if (left->stack == 0 && left->requested != right->requested)
        return compare(left->requested, right->requested);
    return compare(left->number, right->number);
}

static bool have_one_place(const struct found *left, const struct found *right)
{
    return left->stack == right->stack &&
           (left->stack != 0 || (left->pool == right->pool && left->requested == right->requested));
}

static int compare_names(const void *a, const void *b)
{
    return compare(((const struct pool_name *)a)->number, ((const struct pool_name *)b)->number);
}

static int compare_pools(const void *a, const void *b)
{
    const tarn_leak_pool *left = a;
    const tarn_leak_pool *right = b;

    return left->live.bytes != right->live.bytes ? compare(right->live.bytes, left->live.bytes)
                                                 : compare(left->number, right->number);
}

/* The worst first. */
static int compare_places(const void *a, const void *b)
{
    const tarn_leak *left = a;
    const tarn_leak *right = b;

    if (left->estimated.bytes != right->estimated.bytes)
        return compare(right->estimated.bytes, left->estimated.bytes);
    return left->live.bytes != right->live.bytes ? compare(right->live.bytes, left->live.bytes)
                                                 : compare(left->oldest, right->oldest);
}

/* The pool of the block, among those of the place: the last, or a new one. */
static tarn_leak_pool *pool_of(const struct finding *finding, const struct found *block,
                               tarn_leak_pool *pools, size_t *count)
{
    const struct pool_name wanted = {.number = block->pool};
    const struct pool_name *name;
    tarn_leak_pool *made = &pools[*count];

    if (*count > 0 && pools[*count - 1].number == block->pool)
        return &pools[*count - 1];
    name = bsearch(&wanted, finding->pools, finding->pool_count, sizeof wanted, compare_names);
    TN_ASSERT(name != NULL);
    *made = (tarn_leak_pool){.number = block->pool};
    memcpy(made->name, name->name, sizeof made->name);
    *count += 1;
    return made;
}

/* One block stands for so many of its size. */
static double weight_of(const struct tn_leaks *leaks, const struct found *block)
{
    const uint64_t mean_bytes = leaks->read.sample_bytes;

    if (mean_bytes <= 1)
        return 1;
    return block->stack != 0 ? tn_sample_weight(tn_max(block->requested, 1), mean_bytes) : 0;
}

/* A place of the sorted blocks, of so many. Its pools are the next ones. */
static void fill_place(struct tn_leaks *leaks, const struct finding *finding, size_t first,
                       size_t count, tarn_leak_pool *pools)
{
    const struct found *blocks = &finding->blocks[first];
    tarn_leak *place = &leaks->places[leaks->read.count];
    double estimated_blocks = 0;
    double estimated_bytes = 0;

    *place =
        (tarn_leak){.stack = blocks[0].stack, .label = "", .oldest = UINT64_MAX, .pools = pools};
    for (size_t i = 0; i < count; i++) {
        const uint64_t bytes = blocks[i].requested;
        const double weight = weight_of(leaks, &blocks[i]);

        add_to(&place->live, 1, bytes);
        add_to(&place->in_graphs, blocks[i].in_graphs, blocks[i].in_graphs ? bytes : 0);
        add_to(&place->discarded, blocks[i].discarded, blocks[i].discarded ? bytes : 0);
        add_to(&pool_of(finding, &blocks[i], pools, &place->pool_count)->live, 1, bytes);
        place->block_bytes += blocks[i].bytes;
        place->oldest = tn_min(place->oldest, blocks[i].number);
        place->newest = tn_max(place->newest, blocks[i].number);
        estimated_blocks += weight;
        estimated_bytes += weight * (double)bytes;
    }
    place->estimated =
        (tarn_leak_sum){(uint64_t)(estimated_blocks + 0.5), (uint64_t)(estimated_bytes + 0.5)};
    qsort(pools, place->pool_count, sizeof *pools, compare_pools);
    add_to(&leaks->read.live, place->live.blocks, place->live.bytes);
    add_to(&leaks->read.in_graphs, place->in_graphs.blocks, place->in_graphs.bytes);
    add_to(&leaks->read.discarded, place->discarded.blocks, place->discarded.bytes);
    leaks->read.count += 1;
}

/* False: no memory. */
static bool fill_places(struct tn_leaks *leaks, struct finding *finding)
{
    const struct found *blocks = finding->blocks;
    size_t places = 0;
    size_t pools = 0;
    size_t end;

    qsort(finding->blocks, finding->count, sizeof *blocks, compare_blocks);
    qsort(finding->pools, finding->pool_count, sizeof *finding->pools, compare_names);
    for (size_t i = 0; i < finding->count; i++) {
        const bool is_next = i > 0 && have_one_place(&blocks[i - 1], &blocks[i]);

        places += !is_next;
        pools += !is_next || blocks[i - 1].pool != blocks[i].pool;
    }
    leaks->places = tn_host_alloc(places, sizeof *leaks->places);
    leaks->pools = tn_host_alloc(pools, sizeof *leaks->pools);
    if (leaks->places == NULL || leaks->pools == NULL)
        return false;
    pools = 0;
    for (size_t i = 0; i < finding->count; i = end) {
        for (end = i + 1; end < finding->count && have_one_place(&blocks[i], &blocks[end]);)
            end += 1;
        fill_place(leaks, finding, i, end - i, &leaks->pools[pools]);
        pools += leaks->places[leaks->read.count - 1].pool_count;
    }
    TN_ASSERT(leaks->read.count == places);
    return true;
}

/* The result ---------------------------------------------------------------------------------- */

void tn_leaks_drop(tarn_leaks *leaks)
{
    struct tn_leaks *whole = (struct tn_leaks *)(void *)leaks;

    if (whole == NULL)
        return;
    tn_host_free(whole->places);
    tn_host_free(whole->pools);
    tn_host_free(whole->frames);
    tn_host_free(whole->interpreted);
    tn_titles_free(&whole->titles);
    tn_host_free(whole->modules);
    tn_host_free(whole->module_views);
    tn_host_free(whole);
}

/* Of what was found, which goes. NULL: no memory. */
static tarn_leaks *make(const tarn_device *device, struct finding *finding)
{
    const struct tn_history *history = &device->history;
    struct tn_leaks *leaks = tn_host_alloc(1, sizeof *leaks);
    bool made = leaks != NULL;

    if (made) {
        leaks->read.device = device->gpu.ordinal;
        leaks->read.contents = finding->contents;
        leaks->read.sample_bytes =
            atomic_load_explicit(&history->stacking.sample_bytes, memory_order_relaxed);
        leaks->read.last_number = atomic_load_explicit(tn_sequence_counter(), memory_order_relaxed);
        made = finding->count == 0 || fill_places(leaks, finding);
        leaks->read.leaks = leaks->places;
    }
    if (made && finding->count > 0 && history->file.head != NULL)
        made = tn_leaks_read_stacks(leaks, &history->file);
    if (made && finding->count > 0)
        qsort(leaks->places, leaks->read.count, sizeof *leaks->places, compare_places);
    drop_finding(finding);
    if (made)
        return &leaks->read;
    if (leaks != NULL)
        tn_leaks_drop(&leaks->read);
    return NULL;
}

tarn_leaks *tn_leaks_find(tarn_device *device, tarn_pool *pool)
{
    struct finding finding = {.blocks = NULL};

    TN_ASSERT(tn_lock_none_held() && (pool == NULL || pool->device == device));
    while (!copy(device, pool, &finding)) {
        const size_t need = finding.block_need;

        if (!make_room(&finding, need + need / 8 + 8, finding.pool_need + 8)) {
            drop_finding(&finding);
            return NULL;
        }
    }
    return make(device, &finding);
}

tarn_leaks *tn_leaks_find_in_tables(tarn_device *device)
{
    struct tn_history *history = &device->history;
    struct finding finding = {.blocks = NULL};
    bool read;

    TN_ASSERT(history->file.head != NULL);
    if (!tn_spin_acquire_for(&history->tables.lock, TN_LEAKS_WAIT_NS))
        return NULL;
    read = read_tables(history, &finding);
    tn_spin_release(&history->tables.lock);
    if (!read) {
        drop_finding(&finding);
        return NULL;
    }
    return make(device, &finding);
}
