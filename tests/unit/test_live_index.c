// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdlib.h>

#include "base/spin.h"
#include "heap/arena.h"
#include "heap/live_index.h"
#include "unit/unit.h"

enum { COUNT = 600, FIRST_ROOM = 18 /* nine sixteenths of 32 */ };

static tarn_pool *const owner = (tarn_pool *)(void *)&owner; /* compared, and never used */
static struct tn_segment segment = {.base = 0x200000000000, .bytes = TN_SLOT_BYTES};
static struct tn_chunk chunk = {.bytes = 16 * TN_MIB, .offset = 8 * TN_MIB};
static struct tn_block blocks[COUNT];
static struct tn_heap large_heap = {.kind = TN_HEAP_LARGE};
static struct tn_heap small_heap = {.kind = TN_HEAP_SMALL};

static void map_chunk(void)
{
    OK(tn_address_table_init());
    atomic_store(&segment.owner, (void *)owner);
    atomic_store(&chunk.segment, &segment);
    tn_address_table_set_pages(segment.base + chunk.offset, chunk.bytes, &chunk);
}

static void unmap_chunk(void)
{
    tn_host_free(chunk.live);
    tn_address_table_set_pages(segment.base + chunk.offset, chunk.bytes, NULL);
}

static struct tn_block *place(size_t i, uint64_t offset, uint64_t bytes)
{
    blocks[i].segment = &segment;
    blocks[i].offset = chunk.offset + offset;
    tn_block_set_bytes(&blocks[i], bytes);
    return &blocks[i];
}

SUITE("live index")
GROUP(index, map_chunk, unmap_chunk)

TEST(index, nothing_is_found_where_nothing_began)
{
    uint64_t address = segment.base + chunk.offset;

    ck_assert_ptr_null(tn_live_find(owner, address));
    ck_assert(tn_live_reserve(&chunk, 1));
    ck_assert_ptr_null(tn_live_find(owner, address));
    ck_assert_ptr_null(tn_live_find(owner, segment.base)); /* no chunk is there */
    ck_assert_ptr_null(tn_live_find(owner, UINT64_MAX));
}

/* P5, as the index sees it: beside a naive set. */
TEST(index, the_index_agrees_with_a_naive_set)
{
    uint64_t random = 0x7461726e;
    bool in[COUNT] = {false};
    uint32_t count = 0;

    ck_assert(tn_live_reserve(&chunk, COUNT));
    for (size_t i = 0; i < COUNT; i++)
        (void)place(i, i * 512, 512);
    for (int round = 0; round < 6000; round++) {
        size_t i;

        random = random * 6364136223846793005U + 1442695040888963407U; /* Knuth's MMIX */
        i = (size_t)(random >> 40) % COUNT;
        if (in[i])
            tn_live_remove(&blocks[i]);
        else
            tn_live_insert(&blocks[i]);
        in[i] = !in[i];
        count = in[i] ? count + 1 : count - 1;
        ck_assert_uint_eq(chunk.live_count, count);
        for (size_t k = 0; k < COUNT && round % 100 == 0; k++)
            ck_assert_ptr_eq(tn_live_find(owner, tn_block_address(&blocks[k])),
                             in[k] ? &blocks[k] : NULL);
    }
}

TEST(index, small_and_large_blocks_are_found_beside_each_other)
{
    struct tn_block *small = place(0, 0, TN_SMALL_BYTES_MAX);
    struct tn_block *large = place(1, TN_SMALL_BYTES_MAX, TN_SMALL_BYTES_MAX + 512);
    struct tn_block *last = place(2, 2 * TN_SMALL_BYTES_MAX + 512, 512);

    ck_assert(tn_live_reserve(&chunk, 3));
    tn_live_insert(small);
    tn_live_insert(large);
    tn_live_insert(last);
    ck_assert_ptr_eq(tn_live_find(owner, tn_block_address(small)), small);
    ck_assert_ptr_eq(tn_live_find(owner, tn_block_address(large)), large);
    ck_assert_ptr_eq(tn_live_find(owner, tn_block_address(last)), last);
    ck_assert_ptr_null(tn_live_find(owner, tn_block_address(small) + 1));
    ck_assert_ptr_null(tn_live_find(owner, tn_block_address(large) + 512));
}

TEST(index, blocks_of_another_pool_are_not_found)
{
    struct tn_block *block = place(0, 0, 512);

    ck_assert(tn_live_reserve(&chunk, 1));
    tn_live_insert(block);
    ck_assert_ptr_null(
        tn_live_find((const tarn_pool *)(const void *)&blocks, tn_block_address(block)));
}

TEST(index, room_is_made_for_as_many_as_are_asked_for)
{
    (void)tn_host_plan_fault(1, false);
    ck_assert(!tn_live_has_room(&chunk));
    ck_assert(!tn_live_reserve(&chunk, 1));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert(tn_live_reserve(&chunk, FIRST_ROOM));
    (void)tn_host_plan_fault(1, true);
    for (size_t i = 0; i < FIRST_ROOM; i++) {
        ck_assert(tn_live_has_room(&chunk) && tn_live_reserve(&chunk, 1));
        tn_live_insert(place(i, i * 4096, 512));
    }
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 0);
    ck_assert(!tn_live_has_room(&chunk));
    (void)tn_host_plan_fault(1, false);
    ck_assert(!tn_live_reserve(&chunk, 1));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    for (size_t i = 0; i < FIRST_ROOM; i++)
        ck_assert_ptr_eq(tn_live_find(owner, tn_block_address(&blocks[i])), &blocks[i]);
    ck_assert(tn_live_reserve(&chunk, 1)); /* takes all along */
    ck_assert(tn_live_has_room(&chunk));
    for (size_t i = 0; i < FIRST_ROOM; i++)
        ck_assert_ptr_eq(tn_live_find(owner, tn_block_address(&blocks[i])), &blocks[i]);
}

/* Of blocks that fill a tenth of the chunk there will be ten times as many; of some that leave no room, hardly
 * more. */
TEST(index, a_table_becomes_as_large_as_its_chunk_will_need)
{
    ck_assert(tn_live_reserve(&chunk, FIRST_ROOM));
    for (size_t i = 0; i < FIRST_ROOM; i++)
        tn_live_insert(place(i, i * 4096, 4096));
    chunk.used_bytes = chunk.bytes / 10;
    ck_assert(tn_live_reserve(&chunk, 1)); /* twice, at most */
    ck_assert_uint_ge(chunk.live_room, 2 * FIRST_ROOM);
    ck_assert_uint_le(chunk.live_room, 2 * FIRST_ROOM + 2);
    for (size_t i = FIRST_ROOM; i < 2 * FIRST_ROOM; i++)
        tn_live_insert(place(i, i * 4096, 4096));
    chunk.used_bytes = chunk.bytes - 4096;
    ck_assert(tn_live_reserve(&chunk, 3));
    ck_assert_uint_le(chunk.live_room, 2 * FIRST_ROOM + 2 * FIRST_ROOM / 8 + 2);
    for (size_t i = 0; i < 2 * FIRST_ROOM; i++)
        ck_assert_ptr_eq(tn_live_find(owner, tn_block_address(&blocks[i])), &blocks[i]);
    for (size_t i = 0; i < 2 * FIRST_ROOM; i++)
        tn_live_remove(&blocks[i]);
    tn_live_drop(&chunk);
    ck_assert(!tn_live_has_room(&chunk));
    ck_assert_ptr_null(tn_live_find(owner, tn_block_address(&blocks[0])));
}

/* Blocks of more than TN_SMALL_BYTES_MAX, side by side, and as many as can be. */
static uint32_t place_large(uint64_t bytes)
{
    uint32_t count = 0;

    for (uint64_t offset = 0; offset < chunk.bytes; offset += bytes)
        tn_live_insert(place(count++, offset, bytes));
    return count;
}

TEST(index, large_blocks_stand_where_they_are_looked_for)
{
    uint32_t count;

    atomic_store(&chunk.heap, &large_heap);
    ck_assert(tn_live_reserve(&chunk, 1));
    ck_assert_uint_ge(chunk.live_room, chunk.bytes / (TN_SMALL_BYTES_MAX + 512) + 1);
    (void)tn_host_plan_fault(1, true);
    count = place_large(TN_SMALL_BYTES_MAX + 512);
    ck_assert_uint_eq(count, 32);
    ck_assert(tn_live_reserve(&chunk, 0));
    (void)tn_host_plan_fault(0, false);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t hash = tn_live_hash(&chunk, blocks[i].offset);
        uint32_t at = tn_live_home(hash, chunk.live_size);

        ck_assert_ptr_eq(tn_live_block(chunk.live[at]), &blocks[i]);
        ck_assert_ptr_eq(tn_live_find(owner, tn_block_address(&blocks[i])), &blocks[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        tn_live_remove(&blocks[i]);
    for (uint32_t i = 0; i < chunk.live_size; i++)
        ck_assert_uint_eq(chunk.live[i], 0);
}

/* So do those of the largest chunk, and of the smallest. */
TEST(index, places_of_large_blocks_are_in_order)
{
    const uint64_t sizes[] = {TN_MEMORY_BYTES_MAX, TN_PAGE_BYTES};

    atomic_store(&chunk.heap, &large_heap);
    for (size_t i = 0; i < 2; i++) {
        struct tn_chunk one = {.bytes = sizes[i]};
        uint32_t last = UINT32_MAX;

        atomic_store(&one.heap, &large_heap);
        ck_assert(tn_live_reserve(&one, 1));
        for (uint64_t at = 0; at < one.bytes; at += TN_SMALL_BYTES_MAX + 512) {
            uint32_t home = tn_live_home(tn_live_hash(&one, at), one.live_size);

            ck_assert_uint_lt(home, one.live_size);
            ck_assert(last == UINT32_MAX || home > last);
            last = home;
        }
        tn_live_drop(&one);
    }
}

/* A heap of small blocks has taken the chunk over: they are spread from the first on. Without memory for that they
 * are entered as they come. */
TEST(index, small_blocks_do_not_crowd_a_table_for_large_ones)
{
    struct tn_block *large = place(0, 4 * TN_MIB, TN_MIB);

    atomic_store(&chunk.heap, &large_heap);
    ck_assert(tn_live_reserve(&chunk, 1));
    ck_assert_uint_eq(chunk.live_factor % 2, 0);
    tn_live_insert(large);
    atomic_store(&chunk.heap, &small_heap);
    (void)tn_host_plan_fault(1, true);
    ck_assert(tn_live_reserve(&chunk, 2));
    for (size_t i = 1; i < 3; i++)
        tn_live_insert(place(i, i * 512, 512));
    (void)tn_host_plan_fault(0, false);
    ck_assert(tn_live_reserve(&chunk, 1));
    for (size_t i = 0; i < 3; i++)
        ck_assert_ptr_eq(tn_live_find(owner, tn_block_address(&blocks[i])), &blocks[i]);
    ck_assert_uint_eq(chunk.live_factor % 2, 1); /* spread */
}

/* The largest chunk, too, where the distance itself is the hash. */
TEST(index, small_blocks_are_spread_over_the_largest_chunk_that_large_ones_have_left)
{
    struct tn_chunk one = {.bytes = TN_MEMORY_BYTES_MAX};
    uint32_t distance;

    atomic_store(&one.heap, &large_heap);
    ck_assert(tn_live_reserve(&one, 1));
    distance = one.live_factor;
    atomic_store(&one.heap, &small_heap);
    ck_assert(tn_live_reserve(&one, 1));
    ck_assert_uint_ne(one.live_factor, distance);
    tn_live_drop(&one);
}

/* P23 */
TEST(index, entries_are_closed_for_blocks_that_are_not_plain)
{
    struct tn_block *block = place(0, 4096, 512);

    atomic_store(&chunk.heap, &large_heap);
    ck_assert(tn_live_reserve(&chunk, 1));
    block->state = TN_BLOCK_LIVE;
    block->own_order = true;
    tn_live_insert(block);
    ck_assert(tn_live_is_open(block));
    block->may_have_claims = true;
    tn_live_update(block);
    ck_assert(!tn_live_is_open(block));
    ck_assert_ptr_eq(tn_live_at(&chunk, block->offset), block);
    ck_assert_ptr_null(tn_live_open_at(&chunk, block->offset));
    tn_live_remove(block);
    ck_assert_ptr_null(tn_live_at(&chunk, block->offset));
    tn_live_insert(block);
    ck_assert(!tn_live_is_open(block));
    block->may_have_claims = false;
    tn_live_update(block);
    ck_assert(tn_live_is_open(block));
    block->in_other_heap = true;
    tn_live_update(block);
    ck_assert(!tn_live_is_open(block));
    block->in_other_heap = false;
    block->state = TN_BLOCK_DISCARDED;
    tn_live_update(block);
    ck_assert(!tn_live_is_open(block));
    block->state = TN_BLOCK_LIVE;
    block->own_order = false;
    tn_live_update(block);
    ck_assert(!tn_live_is_open(block));
    atomic_store(&chunk.heap, &small_heap);
    ck_assert(tn_live_reserve(&chunk, 1)); /* in a table of other hashes */
    ck_assert(!tn_live_is_open(block));
}

TEST(index, an_entry_is_closed_once_and_stays_so_where_it_moves)
{
    ck_assert(tn_live_reserve(&chunk, FIRST_ROOM));
    for (size_t i = 0; i < FIRST_ROOM; i++) {
        struct tn_block *block = place(i, i * 512, 512);

        block->state = TN_BLOCK_LIVE;
        block->own_order = true;
        tn_live_insert(block);
    }
    ck_assert_ptr_null(tn_live_close_at(&chunk, blocks[0].offset + 8));
    ck_assert_ptr_null(tn_live_close_at(&chunk, blocks[FIRST_ROOM - 1].offset + 512));
    for (size_t i = 0; i < FIRST_ROOM; i += 2) {
        ck_assert_ptr_eq(tn_live_close_at(&chunk, blocks[i].offset), &blocks[i]);
        ck_assert_ptr_null(tn_live_close_at(&chunk, blocks[i].offset));
    }
    for (size_t i = 0; i < FIRST_ROOM; i += 3)
        tn_live_remove(&blocks[i]);
    ck_assert(tn_live_reserve(&chunk, FIRST_ROOM)); /* in another table */
    for (size_t i = 0; i < FIRST_ROOM; i++) {
        if (i % 3 != 0)
            ck_assert_int_eq(tn_live_is_open(&blocks[i]), i % 2 == 1);
        else
            ck_assert_ptr_null(tn_live_at(&chunk, blocks[i].offset));
    }
    tn_live_update(&blocks[2]);
    ck_assert_ptr_eq(tn_live_close_at(&chunk, blocks[2].offset), &blocks[2]);
}

enum { MOVES = 5000 };

static atomic_int meetings[2]; /* of who moves entries, and of who closes some */

static void meet(int who)
{
    int meeting = atomic_fetch_add(&meetings[who], 1) + 1;

    for (unsigned looks = 0; atomic_load(&meetings[1 - who]) < meeting; looks++)
        tn_spin_pause(looks);
}

/* Closes the entries of every second block, twice. */
static void *close_often(void *unused)
{
    (void)unused;
    for (int round = 0; round < MOVES; round++) {
        meet(1);
        for (size_t i = 1; i < 2 * FIRST_ROOM; i += 2) {
            struct tn_block *block = &blocks[i % FIRST_ROOM];

            if (tn_live_close_at(&chunk, block->offset) != NULL)
                block->requested += 1;
        }
        meet(1);
    }
    return NULL;
}

/* The others are removed at the same time, as by who has the arena's lock, so that those behind them move. */
TEST(index, an_entry_that_moves_while_it_is_closed_is_closed)
{
    pthread_t thread;

    atomic_store(&chunk.heap, &large_heap); /* where small blocks crowd */
    ck_assert(tn_live_reserve(&chunk, FIRST_ROOM));
    ck_assert_int_eq(pthread_create(&thread, NULL, close_often, NULL), 0);
    for (int round = 0; round < MOVES; round++) {
        for (size_t i = 0; i < FIRST_ROOM; i++) {
            blocks[i] = (struct tn_block){.state = TN_BLOCK_LIVE, .own_order = true};
            tn_live_insert(place(i, i * 512, 512));
        }
        meet(0);
        for (size_t i = 0; i < FIRST_ROOM; i += 2)
            tn_live_remove(&blocks[i]);
        meet(0);
        for (size_t i = 1; i < FIRST_ROOM; i += 2) {
            if (blocks[i].requested > 1 ||
                tn_live_is_open(&blocks[i]) != (blocks[i].requested == 0))
                ck_abort_msg("block %zu was closed %d times", i, (int)blocks[i].requested);
            tn_live_remove(&blocks[i]);
        }
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* No two places of a chunk have one hash, be it for small blocks or for large ones, the largest or the smallest. */
TEST(index, every_place_has_a_hash_of_its_own)
{
    const uint64_t sizes[] = {TN_MEMORY_BYTES_MAX, TN_PAGE_BYTES};

    for (size_t i = 0; i < 4; i++) {
        struct tn_chunk one = {.bytes = sizes[i / 2], .offset = 3 * TN_GIB};
        bool *seen = calloc((size_t)1 << TN_LIVE_HASH_BITS, sizeof *seen);

        ck_assert_ptr_nonnull(seen);
        atomic_store(&one.heap, i % 2 == 0 ? &small_heap : &large_heap);
        ck_assert(tn_live_reserve(&one, 1));
        for (uint64_t at = 0; at < one.bytes; at += TN_BLOCK_BYTES_MIN) {
            uint32_t hash = tn_live_hash(&one, one.offset + at);

            if (seen[hash])
                ck_abort_msg("the hash of what lies at %llu is another's, too",
                             (unsigned long long)at);
            seen[hash] = true;
        }
        free(seen);
        tn_live_drop(&one);
    }
}

/* Records lie anywhere below 2^48; user space has all of that on 64-bit ARM. None of these is looked at. */
TEST(index, an_entry_has_room_for_each_address_of_a_record)
{
    const uint32_t last_hash = ((uint32_t)1 << TN_LIVE_HASH_BITS) - 1;
    const uint32_t hashes[] = {0, 1, last_hash / 3, last_hash};
    uint64_t record = 0xffffffffffc0;

    for (; record != 0; record = record >> 1 & ~(uint64_t)63) {
        const struct tn_block *block = (const struct tn_block *)(uintptr_t)record;

        for (size_t i = 0; i < 8; i++) {
            uint32_t hash = hashes[i / 2];
            uint64_t entry = tn_live_entry(hash, i % 2 == 0, block);

            ck_assert_ptr_eq(tn_live_block(entry), block);
            ck_assert_ptr_eq(tn_live_block(entry | TN_LIVE_CLOSED), block);
            ck_assert_uint_eq(entry >> TN_LIVE_HASH_SHIFT, hash);
            ck_assert_uint_eq(entry & TN_LIVE_CLOSED, i % 2 == 0 ? 0 : TN_LIVE_CLOSED);
        }
    }
}

/* Each of those addresses with one bit alone, and an entry that is looked for and closed where it stands. */
TEST(index, an_entry_is_found_and_closed_wherever_its_record_lies)
{
    ck_assert(tn_live_reserve(&chunk, 1));
    for (unsigned bit = TN_LIVE_RECORD_BITS; bit < TN_BLOCK_ADDRESS_BITS; bit++) {
        struct tn_block *block = (struct tn_block *)((uintptr_t)1 << bit);
        uint64_t offset = chunk.offset + bit * TN_BLOCK_BYTES_MIN;
        uint32_t hash = tn_live_hash(&chunk, offset);
        uint32_t at = tn_live_home(hash, chunk.live_size);

        atomic_store(&chunk.live[at], tn_live_entry(hash, true, block));
        ck_assert_ptr_eq(tn_live_at(&chunk, offset), block);
        ck_assert_ptr_eq(tn_live_open_at(&chunk, offset), block);
        ck_assert_ptr_eq(tn_live_close_at(&chunk, offset), block);
        ck_assert_ptr_null(tn_live_open_at(&chunk, offset));
        ck_assert_ptr_null(tn_live_close_at(&chunk, offset));
        ck_assert_ptr_eq(tn_live_at(&chunk, offset), block);
        atomic_store(&chunk.live[at], 0);
    }
}

/* P5: an address has one block. */
CONTRACT_TEST(index, entering_an_address_twice_is_a_broken_contract)
{
    ck_assert(tn_live_reserve(&chunk, 1));
    tn_live_insert(place(0, 0, 512));
    tn_live_insert(&blocks[0]);
}

CONTRACT_TEST(index, removing_what_is_not_there_is_a_broken_contract)
{
    ck_assert(tn_live_reserve(&chunk, 1));
    tn_live_remove(place(0, 0, 512));
}

static const struct tn_block *naive_at(const struct tn_segment *in, uint64_t offset)
{
    const struct tn_block *block = in->first_block;

    while (tn_block_end(block) <= offset)
        block = block->next;
    return block;
}

GROUP(pool, NULL)

/* Small and large blocks, some pending, some free, and memory that was given back between. */
TEST_LOOP(pool, the_block_over_an_offset_is_found_as_by_a_walk, 0, 4)
{
    enum { BLOCKS = 3000, OFFSETS = 4000 };
    static void *live[BLOCKS];
    tarn_device *device = unit_device();
    tarn_pool *pool = unit_pool(device);
    tn_cu_stream stream = test_stream();
    tn_cu_stream other = test_stream();
    unsigned seed = (unsigned)_i;

    for (size_t i = 0; i < BLOCKS; i++) {
        unsigned kind = (unsigned)rand_r(&seed) % 40;
        size_t bytes = 1 + (unsigned)rand_r(&seed) % (kind == 0  ? 9000000U
                                                      : kind < 4 ? 300000U
                                                                 : 3000U);

        live[i] = unit_alloc(pool, bytes, stream);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if (rand_r(&seed) % 2 == 0) {
            OK(tarn_free(live[i]));
            live[i] = NULL;
        }
    }
    OK(tarn_pool_trim(pool, NULL));
    test_set_words(other, unit_alloc(pool, 4096, other), 1, 1); /* a use of the stream */
    sim.hold_work();
    test_set_words(other, unit_alloc(pool, 4096, other), 1, 1);
    for (size_t i = 0; i < BLOCKS; i++) {
        if (live[i] != NULL && rand_r(&seed) % 4 == 0)
            OK(tarn_free_on(live[i], other));
    }
    ck_assert_uint_gt(tn_metric_all(&pool->counters.metrics[TN_PENDING_BLOCKS]), 0);
    tn_pool_lock(pool);
    for (const struct tn_segment *in = pool->segments.first; in != NULL; in = in->next) {
        for (int i = 0; i < OFFSETS; i++) {
            uint64_t offset = ((uint64_t)rand_r(&seed) << 20 ^ (uint64_t)rand_r(&seed)) % in->bytes;

            if (i % 4 == 0)
                offset %= 16 * TN_MIB;
            ck_assert_ptr_eq(tn_segment_block_at(in, offset), naive_at(in, offset));
        }
        ck_assert_ptr_eq(tn_segment_block_at(in, 0), in->first_block);
        ck_assert_ptr_eq(tn_segment_block_at(in, in->bytes - 1), in->last_block);
    }
    tn_pool_unlock(pool);
    sim.resume_work();
}
