// SPDX-License-Identifier: Apache-2.0
/* Live and pending blocks are sorted by address, and put into the segments, which chunks make. What
 * lies between blocks is free. In the end the live blocks of each pool must be as many as the pool
 * had, with as many bytes; else all begins anew.
 *
 * A sort has a word for each block: its address and its index. The digits of the address alone are
 * sorted, at most fourteen bits at a time: addresses within 128 GiB take two passes.
 *
 * Source: radix sort, D. E. Knuth, The Art of Computer Programming, volume 3, section 5.2.5.
 *
 * Trade-offs: where threads allocate and free faster than the log can be read, the third try is the
 * last, and the pools are stopped for a walk. A larger log helps. */
#include "observe/snapshot_live.h"

#include <stdlib.h>
#include <string.h>

#include "base/contract.h"
#include "base/host.h"
#include "observe/ground.h"
#include "pools/pool.h"
#include "pools/visit.h"

enum {
    TRIES = 3,
    INDEX_BITS = 24,
    DIGIT_BITS_MAX = 14,
    DIGITS_MAX = 1 << DIGIT_BITS_MAX,
    AHEAD = 16,
};

struct looking {
    struct tn_ground_counts need;
    struct tn_ground ground;
    struct tn_recall recall;
    bool walk; /* a block is DISCARDED */
    bool copy; /* there may be room */
};

static bool count_one(tarn_pool *pool, void *context)
{
    struct looking *looking = context;

    if (!tn_ground_count(pool, &looking->need))
        looking->walk = true;
    return false;
}

static bool copy_one(tarn_pool *pool, void *context)
{
    struct looking *looking = context;

    tn_ground_copy(&looking->ground, &looking->recall, pool);
    return false;
}

static bool is_enough(const struct looking *looking)
{
    const struct tn_ground_counts *need = &looking->need;
    const struct tn_ground_counts *room = &looking->ground.room;

    return looking->copy && !looking->walk && need->pools <= room->pools &&
           need->chunks <= room->chunks && need->blocks <= room->blocks &&
           need->writers <= room->writers;
}

/* Stops the pools, and copies them if there is room, or says what is needed. */
static bool look(tarn_device *device, tarn_pool *pool, struct looking *looking)
{
    bool copied;

    looking->need = (struct tn_ground_counts){.pools = 0};
    if (pool != NULL) {
        tn_pool_lock(pool);
        (void)count_one(pool, looking);
    } else {
        tn_lock_acquire(&device->lock);
        tn_device_stop(device);
        tn_device_look(device, count_one, looking);
    }
    copied = is_enough(looking);
    if (copied)
        tn_recall_cut_others(&looking->recall);
    if (copied && pool != NULL)
        (void)copy_one(pool, looking);
    else if (copied)
        tn_device_look(device, copy_one, looking);
    if (pool != NULL) {
        tn_pool_unlock(pool);
    } else {
        tn_device_resume(device);
        tn_lock_release(&device->lock);
    }
    return copied;
}

static void leave(struct looking *looking)
{
    if (looking->copy) {
        tn_ground_drop(&looking->ground);
        tn_recall_end(&looking->recall);
    }
    looking->copy = false;
}

/* Room for what is needed, and an eighth more. */
static bool prepare(tarn_device *device, const tarn_pool *pool, struct looking *looking)
{
    const struct tn_ground_counts *need = &looking->need;
    const struct tn_ground_counts room = {.pools = need->pools + need->pools / 8 + 1,
                                          .chunks = need->chunks + need->chunks / 8 + 16,
                                          .blocks = need->blocks + need->blocks / 8 + 64,
                                          .writers = need->writers + need->writers / 8 + 16};

    leave(looking);
    if (!tn_ground_make(&looking->ground, &room))
        return false;
    looking->copy = tn_recall_begin(&looking->recall, device,
                                    pool != NULL ? pool->holds.pool_serial : 0, room.writers);
    if (!looking->copy)
        tn_ground_drop(&looking->ground);
    return looking->copy;
}

/* What is put together. */
struct making {
    const struct tn_recall *recall;
    const struct tn_ground *ground;
    struct tn_snapshot_arrays at;
    struct tn_snapshot_counts used;
    struct tn_ground_pool *pools; /* less the live blocks that were found */
    uint64_t *keys;
    size_t key_count;
};

static uint64_t address_of(const struct making *making, size_t index)
{
    return index < making->recall->count
               ? making->recall->seen[index].address
               : making->ground->blocks[index - making->recall->count].address;
}

/* A digit of the keys, and where the next key with each of its values goes. */
struct digit {
    unsigned shift;
    unsigned bits;
    uint32_t *places;
};

static void sort_by_digit(const uint64_t *from, uint64_t *to, size_t count, struct digit digit)
{
    const size_t values = (size_t)1 << digit.bits;
    uint32_t place = 0;

    memset(digit.places, 0, values * sizeof *digit.places);
    for (size_t i = 0; i < count; i++)
        digit.places[from[i] >> digit.shift & (values - 1)] += 1;
    for (size_t value = 0; value < values; value++) {
        const uint32_t number = digit.places[value];

        digit.places[value] = place;
        place += number;
    }
    TN_ASSERT(place == count);
    for (size_t i = 0; i < count; i++)
        to[digit.places[from[i] >> digit.shift & (values - 1)]++] = from[i];
}

/* Sorts the keys by what stands above their indices, of that many bits; there is room for as many
 * behind them. */
static void sort_keys(uint64_t *keys, size_t count, unsigned bits, uint32_t *places)
{
    const unsigned passes = (bits + DIGIT_BITS_MAX - 1) / DIGIT_BITS_MAX;
    uint64_t *from = keys;
    uint64_t *to = keys + count;

    for (unsigned pass = 0; pass < passes; pass++) {
        const unsigned width = (bits + passes - 1) / passes;
        uint64_t *sorted = to;

        sort_by_digit(from, to, count, (struct digit){INDEX_BITS + pass * width, width, places});
        to = from;
        from = sorted;
    }
    if (from != keys)
        memcpy(keys, from, count * sizeof *keys);
}

static unsigned bits_of(uint64_t value)
{
    unsigned bits = 0;

    for (; value != 0; value >>= 1)
        bits += 1;
    return bits;
}

/* False: no memory, or too many blocks for the indices. */
static bool sort_blocks(struct making *making)
{
    const size_t count = making->recall->count + making->ground->used.blocks;
    uint64_t lowest = UINT64_MAX;
    uint64_t highest = 0;
    uint64_t *keys;

    making->key_count = count;
    if (count >> INDEX_BITS != 0)
        return false;
    keys = tn_host_alloc_unset(2 * count + DIGITS_MAX / 2, sizeof *keys);
    if (keys == NULL)
        return false;
    making->keys = keys;
    for (size_t i = 0; i < count; i++) {
        const uint64_t unit = address_of(making, i) >> TN_BLOCK_BITS;

        lowest = unit < lowest ? unit : lowest;
        highest = unit > highest ? unit : highest;
        keys[i] = unit;
    }
    for (size_t i = 0; i < count; i++)
        keys[i] = (keys[i] - lowest) << INDEX_BITS | i;
    if (count > 1)
        sort_keys(keys, count, bits_of(highest - lowest), (uint32_t *)(void *)(keys + 2 * count));
    return true;
}

static int compare_chunks(const void *a, const void *b)
{
    const uint64_t left = ((const struct tn_ground_chunk *)a)->address;
    const uint64_t right = ((const struct tn_ground_chunk *)b)->address;

    return (left > right) - (left < right);
}

/* A segment ends where nothing is mapped, and where another heap begins, or other addresses. */
static void make_segments(struct making *making)
{
    const struct tn_ground *ground = making->ground;
    const struct tn_ground_chunk *last = NULL;
    tarn_snapshot_segment *made = NULL;

    if (ground->used.chunks > 0)
        qsort(ground->chunks, ground->used.chunks, sizeof *ground->chunks, compare_chunks);
    for (size_t i = 0; i < ground->used.chunks; i++) {
        const struct tn_ground_chunk *chunk = &ground->chunks[i];
        const struct tn_ground_heap *heap = &ground->heaps[chunk->heap];

        if (last == NULL || last->address + last->bytes != chunk->address ||
            last->segment != chunk->segment || ground->heaps[last->heap].heap != heap->heap) {
            made = &making->at.segments[making->used.segments++];
            *made = (tarn_snapshot_segment){.address = (void *)(uintptr_t)chunk->address,
                                            .pool = &making->at.pools[heap->pool],
                                            .is_small = heap->is_small,
                                            .stream = heap->stream,
                                            .stream_id = heap->stream_id,
                                            .capture_id = heap->capture_id};
        }
        made->bytes += chunk->bytes;
        made->held_bytes += chunk->is_held ? chunk->bytes : 0;
        making->at.pools[heap->pool].mapped_bytes += chunk->bytes;
        last = chunk;
    }
}

static void put(struct making *making, tarn_snapshot_segment *segment,
                const tarn_snapshot_block *block, uint32_t stack)
{
    making->at.blocks[making->used.blocks] = *block;
    making->at.stacks[making->used.blocks] = stack;
    making->used.blocks += 1;
    segment->block_count += 1;
}

static void put_free(struct making *making, tarn_snapshot_segment *segment, uint64_t begin,
                     uint64_t end)
{
    if (begin < end)
        put(making, segment,
            &(tarn_snapshot_block){.address = (void *)(uintptr_t)begin,
                                   .block_bytes = end - begin,
                                   .state = TARN_EXTENT_FREE},
            0);
}

/* Returns the block's end. */
static uint64_t put_live(struct making *making, tarn_snapshot_segment *segment,
                         const struct tn_recalled_block *block)
{
    const uint64_t bytes = (uint64_t)block->units << TN_BLOCK_BITS;
    struct tn_ground_pool *pool = &making->pools[segment->pool - making->at.pools];

    put(making, segment,
        &(tarn_snapshot_block){.address = (void *)(uintptr_t)block->address,
                               .bytes = block->requested,
                               .block_bytes = bytes,
                               .sequence = block->number,
                               .tag = block->tag,
                               .state = TARN_EXTENT_LIVE},
        block->stack);
    segment->allocated_bytes += bytes;
    segment->active_bytes += bytes;
    segment->requested_bytes += block->requested;
    pool->live_count -= 1;
    pool->live_bytes -= bytes;
    return block->address + bytes;
}

static uint64_t put_pending(struct making *making, tarn_snapshot_segment *segment,
                            const struct tn_ground_block *block)
{
    put(making, segment,
        &(tarn_snapshot_block){.address = (void *)(uintptr_t)block->address,
                               .bytes = block->requested,
                               .block_bytes = block->bytes,
                               .sequence = block->sequence,
                               .tag = block->tag,
                               .state = TARN_EXTENT_PENDING},
        block->stack);
    segment->active_bytes += block->bytes;
    segment->requested_bytes += block->requested;
    return block->address + block->bytes;
}

/* A block that is there twice: in the table, and as one that was freed behind the cut. */
static bool is_repeated(const struct making *making, size_t key)
{
    const struct tn_recall *recall = making->recall;
    const size_t mask = ((size_t)1 << INDEX_BITS) - 1;
    const size_t index = making->keys[key] & mask;
    const size_t before = key > 0 ? making->keys[key - 1] & mask : SIZE_MAX;

    return index < recall->count && before < recall->count &&
           recall->seen[index].number == recall->seen[before].number;
}

/* False: the blocks do not fit, so something was lost. */
static bool fill_segment(struct making *making, tarn_snapshot_segment *segment, size_t *next)
{
    const size_t mask = ((size_t)1 << INDEX_BITS) - 1;
    const struct tn_recall *recall = making->recall;
    const uint64_t end = (uintptr_t)segment->address + segment->bytes;
    uint64_t at = (uintptr_t)segment->address;

    segment->blocks = &making->at.blocks[making->used.blocks];
    for (; *next < making->key_count; *next += 1) {
        const size_t index = making->keys[*next] & mask;
        const uint64_t address = address_of(making, index);

        if (*next + AHEAD < making->key_count)
            __builtin_prefetch(&recall->seen[making->keys[*next + AHEAD] & mask]);
        if (address >= end)
            break;
        if (is_repeated(making, *next))
            continue;
        if (address < at)
            return false;
        put_free(making, segment, at, address);
        at = index < recall->count
                 ? put_live(making, segment, &recall->seen[index])
                 : put_pending(making, segment, &making->ground->blocks[index - recall->count]);
        if (at > end)
            return false;
    }
    put_free(making, segment, at, end);
    return true;
}

static bool fill(struct making *making)
{
    const struct tn_ground *ground = making->ground;
    size_t next = 0;

    for (size_t i = 0; i < ground->used.pools; i++)
        making->at.pools[i] = ground->pools[i].told;
    making->used.pools = ground->used.pools;
    make_segments(making);
    for (size_t i = 0; i < making->used.segments; i++) {
        if (!fill_segment(making, &making->at.segments[i], &next))
            return false;
    }
    for (size_t i = 0; i < ground->used.pools; i++) {
        if (making->pools[i].live_count != 0 || making->pools[i].live_bytes != 0)
            return false;
    }
    return next == making->key_count;
}

/* NULL: no memory, or something was lost. */
static struct tn_snapshot *make(const struct tn_recall *recall, struct tn_ground *ground)
{
    struct making making = {.recall = recall, .ground = ground, .pools = ground->pools};
    const struct tn_snapshot_counts room = {.pools = ground->used.pools + 1,
                                            .segments = ground->used.chunks + 1,
                                            .blocks = 2 * (recall->count + ground->used.blocks) +
                                                      ground->used.chunks + 1};
    struct tn_snapshot *made = NULL;

    if (sort_blocks(&making))
        made = tn_snapshot_make(&room, &making.at);
    if (made != NULL && fill(&making)) {
        tn_snapshot_finish(made, &making.at, &making.used);
    } else {
        tn_host_free(made);
        made = NULL;
    }
    tn_host_free(making.keys);
    return made;
}

struct tn_snapshot *tn_snapshot_take_live(tarn_device *device, tarn_pool *pool)
{
    struct looking looking = {.walk = false};
    struct tn_snapshot *made = NULL;

    TN_ASSERT(tn_lock_none_held());
    (void)look(device, pool, &looking);
    for (int i = 0; i < TRIES && made == NULL && !looking.walk; i++) {
        enum tn_recall_answer answer = TN_RECALL_LOST;

        if (!prepare(device, pool, &looking))
            break;
        if (look(device, pool, &looking))
            answer = tn_recall_find(&looking.recall);
        if (answer == TN_RECALL_NO_MEMORY)
            break;
        if (answer == TN_RECALL_DONE)
            made = make(&looking.recall, &looking.ground);
    }
    leave(&looking);
    return made;
}
