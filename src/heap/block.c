// SPDX-License-Identifier: Apache-2.0
/* Trade-offs: slabs of records are kept until the pool goes. */
#include "heap/block.h"

#include <stddef.h>
#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/host.h"
#include "base/hot.h"
#include "heap/history_table.h"

enum {
    SLAB_ALIGNMENT = 1 << TN_BLOCK_SLAB_BITS,
    /* A word less than the alignment, which malloc needs itself: slabs stand side by side. */
    SLAB_BYTES = SLAB_ALIGNMENT - (int)sizeof(void *),
};

_Static_assert(offsetof(struct tn_block_slab, table) + sizeof(struct tn_history_table *) <=
                   SLAB_BYTES,
               "room for a slab's own");

static void push(struct tn_block_store *store, struct tn_block *block)
{
    TN_ASSERT(store->spare_begun <= TN_BLOCK_BATCH);
    if (store->spare_begun == TN_BLOCK_BATCH) {
        store->spare->list_previous = store->batches;
        store->batches = store->spare;
        store->spare = NULL;
        store->spare_begun = 0;
    }
    block->list_next = store->spare;
    store->spare = block;
    store->spare_begun += 1;
    store->spare_count += 1;
}

/* Makes the batch's records the next to be taken. */
static void open_batch(struct tn_block_store *store)
{
    TN_ASSERT(store->spare == NULL && store->batches != NULL);
    store->spare = store->batches;
    store->batches = store->spare->list_previous;
    store->spare_begun = TN_BLOCK_BATCH;
}

static struct tn_block *pop(struct tn_block_store *store)
{
    struct tn_block *block;

    TN_ASSERT(store->spare_count > 0); /* reserved before */
    store->spare_count -= 1;
    if (store->spare == NULL && store->batches != NULL)
        open_batch(store);
    block = store->spare;
    if (block != NULL) {
        store->spare = block->list_next;
        store->spare_begun -= 1;
        __builtin_prefetch(store->spare, 1); /* the next to be taken */
        return block;
    }
    TN_ASSERT(store->fresh_count > 0);
    store->fresh_count -= 1;
    return store->fresh++;
}

/* Lists the records never taken as ordinary spare records. A new slab's records become the records
 * never taken. */
static void list_fresh(struct tn_block_store *store)
{
    size_t count = store->fresh_count;

    store->spare_count -= count;
    store->fresh_count = 0;
    while (count > 0) {
        count -= 1;
        push(store, &store->fresh[count]);
    }
    TN_ASSERT(store->fresh_count == 0);
}

static bool add_cold(struct tn_block_slab *slab)
{
    if (slab->cold == NULL)
        slab->cold = tn_host_alloc(TN_BLOCK_SLAB_RECORDS, sizeof *slab->cold);
    return slab->cold != NULL;
}

/* Makes a slab whose records' addresses fit into an entry. An allocator may mark pointers in their
 * upper bits, or a system may return higher addresses than requested: the index would lose such
 * blocks. */
static struct tn_block_slab *make_slab(void)
{
    struct tn_block_slab *slab = tn_host_alloc_aligned(SLAB_ALIGNMENT, SLAB_BYTES);
    uintptr_t last = (uintptr_t)slab + SLAB_BYTES - 1;

    if (slab == NULL || last >> TN_BLOCK_ADDRESS_BITS == 0)
        return slab;
    tn_host_free(slab);
    return NULL;
}

static void drop_slab(const struct tn_block_store *store, struct tn_block_slab *slab)
{
    tn_host_free(slab->cold);
    tn_host_free(slab->tags);
    if (slab->table != NULL)
        tn_history_table_give(store->tables->of_device, slab->table);
    tn_host_free(slab);
}

static bool add_slab(struct tn_block_store *store)
{
    struct tn_block_slab *slab = make_slab();

    if (slab == NULL)
        return false;
    TN_ASSERT((uintptr_t)slab % SLAB_ALIGNMENT == 0); /* tn_block_slab */
    slab->next = store->slabs;
    slab->cold = NULL;
    slab->tags = NULL;
    slab->table = NULL;
    if (store->tables != NULL)
        slab->table =
            tn_history_table_take(store->tables->of_device,
                                  &(struct tn_history_table_owner){store->tables->pool_serial,
                                                                   store->tables->pool_name, slab});
    if ((store->tables != NULL && slab->table == NULL) || (store->all_cold && !add_cold(slab))) {
        drop_slab(store, slab);
        return false;
    }
    store->slabs = slab;
    list_fresh(store);
    store->fresh = slab->records;
    store->fresh_count = TN_BLOCK_SLAB_RECORDS;
    store->spare_count += TN_BLOCK_SLAB_RECORDS;
    return true;
}

bool tn_blocks_add_tables(struct tn_block_store *store, struct tn_history_tables *of_device)
{
    TN_ASSERT(store->slabs == NULL && store->tables == NULL);
    store->tables = tn_host_alloc(1, sizeof *store->tables);
    if (store->tables != NULL)
        *store->tables = (struct tn_block_tables){.of_device = of_device, .pool_name = ""};
    return store->tables != NULL;
}

bool tn_blocks_reserve(struct tn_block_store *store, size_t count)
{
    while (store->spare_count < count) {
        if (!add_slab(store))
            return false;
    }
    TN_ASSERT(store->spare_count >= count);
    return true;
}

bool tn_blocks_add_cold(struct tn_block_store *store)
{
    for (struct tn_block_slab *slab = store->slabs; slab != NULL && !store->all_cold;
         slab = slab->next) {
        if (!add_cold(slab))
            return false;
    }
    store->all_cold = true;
    return true;
}

bool tn_block_add_cold(const struct tn_block *block)
{
    return add_cold(tn_block_slab(block));
}

static bool add_tags(struct tn_block_store *store, struct tn_block_slab *slab)
{
    if (slab->tags == NULL)
        slab->tags = tn_host_alloc(TN_BLOCK_SLAB_RECORDS, sizeof *slab->tags);
    store->tagged = store->tagged || slab->tags != NULL;
    return slab->tags != NULL;
}

bool tn_blocks_add_tags(struct tn_block_store *store)
{
    for (struct tn_block_slab *slab = store->slabs; slab != NULL; slab = slab->next) {
        if (!add_tags(store, slab))
            return false;
    }
    return true;
}

bool tn_block_set_tag(struct tn_block_store *store, struct tn_block *block, uint64_t value)
{
    struct tn_block_slab *slab = tn_block_slab(block);

    TN_ASSERT(block->state == TN_BLOCK_LIVE && block->sequence != 0);
    if (value == 0 && slab->tags == NULL)
        return true;
    if (!add_tags(store, slab))
        return false;
    slab->tags[block - slab->records] = (struct tn_block_tag){block->sequence, value};
    if (slab->table != NULL)
        tn_history_set_tag(&slab->table->entries[block - slab->records], block->sequence, value);
    TN_ASSERT(tn_block_tag(block) == value);
    return true;
}

struct tn_block *tn_block_take(struct tn_block_store *store)
{
    struct tn_block *block = pop(store);

    memset(block, 0, sizeof *block);
    return block;
}

void tn_block_give(struct tn_block_store *store, struct tn_block *block)
{
    TN_ASSERT(!block->may_have_claims ||
              (tn_block_cold(block)->uses == NULL && tn_block_cold(block)->fence == NULL &&
               tn_block_cold(block)->watches == NULL));
    if (TARN_DEBUG_CHECKS)
        memset(block, 0x5e, sizeof *block); /* a stale pointer fails at once */
    block->units = 0;
    push(store, block);
}

/* Moves records never taken at once, if the target has few of this kind, which are listed. Returns
 * the count. */
static size_t move_fresh(struct tn_block_store *from, struct tn_block_store *to, size_t count)
{
    size_t moved = tn_min(count, from->fresh_count);

    TN_ASSERT(from != to);
    if (moved == 0 || to->fresh_count > TN_BLOCK_BATCH)
        return 0;
    list_fresh(to);
    to->fresh = from->fresh;
    to->fresh_count = moved;
    from->fresh += moved;
    from->fresh_count -= moved;
    return moved;
}

static size_t move_batches(struct tn_block_store *from, struct tn_block_store *to, size_t count)
{
    size_t moved = 0;

    while (from->batches != NULL && moved + TN_BLOCK_BATCH <= count) {
        struct tn_block *batch = from->batches;

        from->batches = batch->list_previous;
        batch->list_previous = to->batches;
        to->batches = batch;
        moved += TN_BLOCK_BATCH;
    }
    TN_ASSERT(moved <= count && moved <= from->spare_count);
    return moved;
}

void tn_blocks_move(struct tn_block_store *from, struct tn_block_store *to, size_t count)
{
    size_t moved;
    size_t fresh;

    if (count == from->spare_count && to->fresh_count > TN_BLOCK_BATCH)
        list_fresh(from); /* all go, and mostly as batches */
    moved = move_batches(from, to, count);
    from->spare_count -= moved;
    to->spare_count += moved;
    for (; moved < count && from->spare_count > from->fresh_count; moved++)
        push(to, pop(from)); /* those taken before go first: a slab's part stays one */
    fresh = move_fresh(from, to, count - moved);
    from->spare_count -= fresh;
    to->spare_count += fresh;
    for (moved += fresh; moved < count && from->spare_count > 0; moved++)
        push(to, pop(from));
    TN_ASSERT(moved <= count);
}

void tn_blocks_bring_near(const struct tn_block_store *store, size_t count)
{
    const struct tn_block *batch = store->batches;
    const struct tn_block *block = store->spare;

    for (; count > 0 && (block != NULL || batch != NULL); count--) {
        if (block == NULL) {
            block = batch;
            batch = batch->list_previous;
        }
        __builtin_prefetch(block, 1);
        block = block->list_next;
    }
}

void tn_blocks_fini(struct tn_block_store *store)
{
    while (store->slabs != NULL) {
        struct tn_block_slab *slab = store->slabs;

        store->slabs = slab->next;
        drop_slab(store, slab);
    }
    tn_host_free(store->tables);
    *store = (struct tn_block_store){.slabs = NULL};
}

/* Links a new part between the block and its neighbour on one side. */
static void link_above(struct tn_block *block, struct tn_block *upper)
{
    TN_ASSERT(upper->segment == block->segment);
    upper->previous = block;
    upper->next = block->next;
    if (upper->next != NULL)
        upper->next->previous = upper;
    else
        block->segment->last_block = upper;
    block->next = upper;
}

static void link_below(struct tn_block *block, struct tn_block *lower)
{
    TN_ASSERT(lower->segment == block->segment);
    lower->next = block;
    lower->previous = block->previous;
    if (lower->previous != NULL)
        lower->previous->next = lower;
    else
        block->segment->first_block = lower;
    block->previous = lower;
}

static TN_ALWAYS_INLINE struct tn_block *take_part(struct tn_block_store *store,
                                                   const struct tn_block *block)
{
    struct tn_block *part = tn_block_take(store);

    part->segment = block->segment;
    part->heap = block->heap;
    part->state = block->state;
    if (block->state == TN_BLOCK_UNMAPPED)
        block->segment->unmapped_count += 1;
    return part;
}

struct tn_block *tn_block_split(struct tn_block_store *store, struct tn_block *block,
                                uint64_t offset)
{
    struct tn_block *upper = take_part(store, block);

    TN_ASSERT(offset > block->offset && offset < tn_block_end(block));
    upper->offset = offset;
    tn_block_set_bytes(upper, tn_block_end(block) - offset);
    tn_block_set_bytes(block, offset - block->offset);
    link_above(block, upper);
    return upper;
}

struct tn_block *tn_block_split_below(struct tn_block_store *store, struct tn_block *block,
                                      uint64_t offset)
{
    struct tn_block *lower = take_part(store, block);

    TN_ASSERT(offset > block->offset && offset < tn_block_end(block));
    lower->offset = block->offset;
    tn_block_set_bytes(lower, offset - block->offset);
    tn_block_set_bytes(block, tn_block_end(block) - offset);
    block->offset = offset;
    link_below(block, lower);
    return lower;
}

void tn_block_coalesce_next(struct tn_block_store *store, struct tn_block *block)
{
    struct tn_block *next = block->next;

    TN_ASSERT(next->segment == block->segment && next->previous == block);
    TN_ASSERT(next->offset == tn_block_end(block) && next->state == block->state); /* P1 */
    block->units += next->units;
    block->next = next->next;
    if (block->next != NULL)
        block->next->previous = block;
    else
        block->segment->last_block = block;
    if (block->state == TN_BLOCK_UNMAPPED)
        block->segment->unmapped_count -= 1;
    tn_block_give(store, next);
}
