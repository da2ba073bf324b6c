// SPDX-License-Identifier: Apache-2.0
/* Four bins for each power of two of units. A search begins in the bin of its size, and looks at a
 * few ranges. The search then takes any range of the next bin with one: each is large enough.
 *
 * Host memory is taken before anything changes. Records are indices of one array, which
 * may move.
 *
 * Trade-offs: one order for all streams. Orders of their own would need blocks to pass between
 * them at collectives. */
#include "share/offsets.h"

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"

enum { LOOKS_MAX = 8, HEADS_MIN = 64 };

void tn_offsets_init(struct tn_offsets *offsets)
{
    *offsets = (struct tn_offsets){.unused = TN_RANGE_NONE, .last = TN_RANGE_NONE};
    for (uint32_t i = 0; i < TN_OFFSET_BINS; i++)
        offsets->bins[i] = TN_RANGE_NONE;
}

void tn_offsets_fini(struct tn_offsets *offsets)
{
    tn_host_free(offsets->ranges);
    tn_host_free(offsets->heads);
    tn_offsets_init(offsets);
}

/* -- Bins -- */

/* Ranges of a bin have at least the bytes of its lowest size. */
static uint32_t bin_of(uint64_t bytes)
{
    uint64_t units = bytes / TN_OFFSET_UNIT;
    unsigned log = tn_log2_floor(units);
    uint64_t quarter = log >= 2 ? units >> (log - 2) & 3 : units << (2 - log) & 3;
    uint32_t bin = (uint32_t)(log * 4 + quarter);

    TN_ASSERT(units > 0 && bin < TN_OFFSET_BINS);
    return bin;
}

static void put_in_bin(struct tn_offsets *offsets, uint32_t index)
{
    struct tn_offset_range *range = &offsets->ranges[index];
    uint32_t bin = bin_of(range->bytes);

    range->state = TN_OFFSET_FREE;
    range->newer = TN_RANGE_NONE;
    range->older = offsets->bins[bin];
    if (range->older != TN_RANGE_NONE)
        offsets->ranges[range->older].newer = index;
    offsets->bins[bin] = index;
    offsets->filled[bin / 64] |= (uint64_t)1 << bin % 64;
}

static void take_from_bin(struct tn_offsets *offsets, uint32_t index)
{
    const struct tn_offset_range *range = &offsets->ranges[index];
    uint32_t bin = bin_of(range->bytes);

    TN_ASSERT(range->state == TN_OFFSET_FREE);
    if (range->newer != TN_RANGE_NONE)
        offsets->ranges[range->newer].older = range->older;
    else
        offsets->bins[bin] = range->older;
    if (range->older != TN_RANGE_NONE)
        offsets->ranges[range->older].newer = range->newer;
    if (offsets->bins[bin] == TN_RANGE_NONE)
        offsets->filled[bin / 64] &= ~((uint64_t)1 << bin % 64);
}

/* The first bin with a range, from here on. */
static uint32_t next_filled(const struct tn_offsets *offsets, uint32_t bin)
{
    for (uint32_t word = bin / 64; word < TN_OFFSET_BINS / 64; word++) {
        uint64_t bits = offsets->filled[word];

        if (word == bin / 64)
            bits &= UINT64_MAX << bin % 64;
        if (bits != 0)
            return word * 64 + (uint32_t)tn_lowest_bit(bits);
    }
    return TN_OFFSET_BINS;
}

static uint32_t search(const struct tn_offsets *offsets, uint64_t bytes)
{
    uint32_t bin = bin_of(bytes);
    uint32_t index = offsets->bins[bin];

    for (int looks = 0; index != TN_RANGE_NONE && looks < LOOKS_MAX; looks++) {
        if (offsets->ranges[index].bytes >= bytes)
            return index;
        index = offsets->ranges[index].older;
    }
    bin = next_filled(offsets, bin + 1);
    if (bin < TN_OFFSET_BINS)
        return offsets->bins[bin];
    while (index != TN_RANGE_NONE && offsets->ranges[index].bytes < bytes)
        index = offsets->ranges[index].older;
    return index;
}

/* -- Records -- */

static uint32_t head_of(const struct tn_offsets *offsets, uint64_t offset)
{
    return (uint32_t)(offset / TN_OFFSET_UNIT * TN_GOLDEN >> 32) &
           (uint32_t)(offsets->head_count - 1);
}

static void hash_in(struct tn_offsets *offsets, uint32_t index)
{
    uint32_t *head = &offsets->heads[head_of(offsets, offsets->ranges[index].offset)];

    offsets->ranges[index].next = *head;
    *head = index;
    offsets->hashed_count++;
}

static void hash_out(struct tn_offsets *offsets, uint32_t index)
{
    uint32_t *link = &offsets->heads[head_of(offsets, offsets->ranges[index].offset)];

    while (*link != index)
        link = &offsets->ranges[*link].next;
    *link = offsets->ranges[index].next;
    offsets->hashed_count--;
}

static bool widen_heads(struct tn_offsets *offsets)
{
    size_t count = offsets->head_count > 0 ? offsets->head_count * 2 : HEADS_MIN;
    uint32_t *heads = tn_host_alloc(count, sizeof *heads);

    if (heads == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        heads[i] = TN_RANGE_NONE;
    tn_host_free(offsets->heads);
    offsets->heads = heads;
    offsets->head_count = count;
    offsets->hashed_count = 0;
    for (uint32_t i = 0; i < offsets->begun; i++) {
        enum tn_range_state state = offsets->ranges[i].state;

        if (state != TN_OFFSET_UNUSED && state != TN_OFFSET_FREE)
            hash_in(offsets, i);
    }
    return true;
}

tarn_status tn_offsets_prepare(struct tn_offsets *offsets)
{
    bool is_good = offsets->unused != TN_RANGE_NONE ||
                   tn_host_grow((void **)&offsets->ranges, &offsets->capacity,
                                (size_t)offsets->begun + 1, sizeof *offsets->ranges);

    if (is_good && offsets->hashed_count >= offsets->head_count)
        is_good = widen_heads(offsets);
    return is_good
               ? TARN_OK
               : tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a block of symmetric memory");
}

static uint32_t new_record(struct tn_offsets *offsets)
{
    uint32_t index = offsets->unused;

    if (index != TN_RANGE_NONE)
        offsets->unused = offsets->ranges[index].older;
    else
        index = offsets->begun++;
    TN_ASSERT(index < offsets->capacity);
    offsets->ranges[index] =
        (struct tn_offset_range){.before = TN_RANGE_NONE, .after = TN_RANGE_NONE};
    return index;
}

static void drop_record(struct tn_offsets *offsets, uint32_t index)
{
    offsets->ranges[index].state = TN_OFFSET_UNUSED;
    offsets->ranges[index].older = offsets->unused;
    offsets->unused = index;
}

/* -- Ranges -- */

/* The second of two neighbours becomes part of the first. */
static void join(struct tn_offsets *offsets, uint32_t first, uint32_t second)
{
    struct tn_offset_range *range = &offsets->ranges[first];

    TN_ASSERT(range->after == second);
    range->bytes += offsets->ranges[second].bytes;
    range->after = offsets->ranges[second].after;
    if (range->after != TN_RANGE_NONE)
        offsets->ranges[range->after].before = first;
    else
        offsets->last = first;
    drop_record(offsets, second);
}

static bool is_free(const struct tn_offsets *offsets, uint32_t index)
{
    return index != TN_RANGE_NONE && offsets->ranges[index].state == TN_OFFSET_FREE;
}

/* A range in no bin comes to its bin, with its free neighbours (O2). */
static void free_range(struct tn_offsets *offsets, uint32_t index)
{
    uint32_t before = offsets->ranges[index].before;
    uint32_t after = offsets->ranges[index].after;

    if (is_free(offsets, after)) {
        take_from_bin(offsets, after);
        join(offsets, index, after);
    }
    if (is_free(offsets, before)) {
        take_from_bin(offsets, before);
        join(offsets, before, index);
        index = before;
    }
    put_in_bin(offsets, index);
}

tarn_status tn_offsets_grow(struct tn_offsets *offsets, uint64_t bytes)
{
    uint32_t index;
    tarn_status status = tn_offsets_prepare(offsets);

    TN_ASSERT(bytes > 0 && bytes % TN_OFFSET_UNIT == 0);
    if (status != TARN_OK)
        return status;
    index = new_record(offsets);
    offsets->ranges[index].offset = offsets->bytes;
    offsets->ranges[index].bytes = bytes;
    offsets->ranges[index].before = offsets->last;
    if (offsets->last != TN_RANGE_NONE)
        offsets->ranges[offsets->last].after = index;
    offsets->last = index;
    offsets->bytes += bytes;
    free_range(offsets, index);
    return TARN_OK;
}

tarn_status tn_offsets_take(struct tn_offsets *offsets, uint64_t bytes, uint32_t *index)
{
    uint64_t rounded;
    uint32_t taken;
    tarn_status status;

    TN_ASSERT(bytes > 0);
    if (bytes > offsets->bytes)
        return tn_fail(TARN_ERR_LIMIT, "%llu bytes are more than the %llu of the symmetric pool",
                       (unsigned long long)bytes, (unsigned long long)offsets->bytes);
    rounded = tn_round_up(bytes, TN_OFFSET_UNIT);
    taken = search(offsets, rounded);
    if (taken == TN_RANGE_NONE)
        return tn_fail(
            TARN_ERR_LIMIT,
            "no free range of the symmetric pool has %llu bytes: collect what was freed, "
            "or reserve more",
            (unsigned long long)bytes);
    status = tn_offsets_prepare(offsets);
    if (status != TARN_OK)
        return status;
    take_from_bin(offsets, taken);
    if (offsets->ranges[taken].bytes > rounded) {
        uint32_t rest = new_record(offsets);
        struct tn_offset_range *range = &offsets->ranges[taken];

        offsets->ranges[rest].offset = range->offset + rounded;
        offsets->ranges[rest].bytes = range->bytes - rounded;
        offsets->ranges[rest].before = taken;
        offsets->ranges[rest].after = range->after;
        if (range->after != TN_RANGE_NONE)
            offsets->ranges[range->after].before = rest;
        else
            offsets->last = rest;
        range->after = rest;
        range->bytes = rounded;
        put_in_bin(offsets, rest);
    }
    offsets->ranges[taken].state = TN_OFFSET_LIVE;
    offsets->ranges[taken].requested = bytes;
    offsets->ranges[taken].id = 0;
    hash_in(offsets, taken);
    *index = taken;
    return TARN_OK;
}

void tn_offsets_give(struct tn_offsets *offsets, uint32_t index)
{
    TN_ASSERT(index < offsets->begun && offsets->ranges[index].state != TN_OFFSET_FREE);
    hash_out(offsets, index);
    free_range(offsets, index);
}

uint32_t tn_offsets_find(const struct tn_offsets *offsets, uint64_t offset)
{
    uint32_t index = TN_RANGE_NONE;

    if (offsets->head_count > 0 && offset % TN_OFFSET_UNIT == 0)
        index = offsets->heads[head_of(offsets, offset)];
    while (index != TN_RANGE_NONE && offsets->ranges[index].offset != offset)
        index = offsets->ranges[index].next;
    return index;
}

/* -- Checks -- */

static size_t count_in_bins(const struct tn_offsets *offsets)
{
    size_t count = 0;

    for (uint32_t bin = 0; bin < TN_OFFSET_BINS; bin++) {
        for (uint32_t i = offsets->bins[bin]; i != TN_RANGE_NONE; i = offsets->ranges[i].older)
            count +=
                is_free(offsets, i) && bin_of(offsets->ranges[i].bytes) == bin ? 1 : SIZE_MAX / 2;
    }
    return count;
}

tarn_status tn_offsets_check(const struct tn_offsets *offsets)
{
    uint64_t end = offsets->bytes;
    size_t free_count = 0;

    for (uint32_t i = offsets->last; i != TN_RANGE_NONE; i = offsets->ranges[i].before) {
        const struct tn_offset_range *range = &offsets->ranges[i];

        if (range->offset + range->bytes != end)
            return tn_fail(
                TARN_ERR_CORRUPT, "O1: a range ends at %llu, and the next begins at %llu",
                (unsigned long long)(range->offset + range->bytes), (unsigned long long)end);
        if (is_free(offsets, i) && is_free(offsets, range->before))
            return tn_fail(TARN_ERR_CORRUPT, "O2: the free range at %llu has a free neighbour",
                           (unsigned long long)range->offset);
        free_count += is_free(offsets, i) ? 1 : 0;
        end = range->offset;
    }
    if (end != 0)
        return tn_fail(TARN_ERR_CORRUPT, "O1: no range has the first %llu bytes",
                       (unsigned long long)end);
    if (count_in_bins(offsets) != free_count)
        return tn_fail(TARN_ERR_CORRUPT, "O3: %zu ranges are free, and the bins have others",
                       free_count);
    return TARN_OK;
}
