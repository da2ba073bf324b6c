// SPDX-License-Identifier: Apache-2.0
/* Each invariant of a pool is broken by hand, one thing at a time; the check must name it. */
#include "claims/watch.h"
#include "pools/arena_table.h"
#include "pools/watches.h"
#include "unit/one_pool.h"

static void *live;             /* 4096 bytes */
static void *large;            /* 3 MiB, over two pages of one chunk */
static struct tn_block *block; /* of live */
static struct tn_chunk *chunk; /* under live */
static struct tn_segment *segment;

/* A pool with live, free and unmapped blocks, in both heaps. */
static void set_up(void)
{
    make_pool();
    live = unit_alloc(pool, 4096, stream);
    large = unit_alloc(pool, 3 * MIB, stream);
    block = unit_block(live);
    chunk = unit_chunk(live);
    segment = unit_segment(live);
    OK(tarn_pool_validate(pool));
}

/* The first FREE block of the segment. */
static struct tn_block *free_block(void)
{
    struct tn_block *found = segment->first_block;

    while (found->state != TN_BLOCK_FREE)
        found = found->next;
    return found;
}

GROUP(sound, set_up)

TEST(sound, a_sound_pool_passes)
{
    OK(tarn_pool_validate(pool));
    OK(tarn_free(live));
    OK(tarn_free(large));
    OK(tarn_pool_validate(pool));
    OK(tarn_pool_trim(pool, NULL));
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(unit_stats(pool).segment_count, 0);
}

TEST(sound, the_sentence_has_both_values)
{
    pool->counters.metrics[TN_LIVE_BLOCKS].allocated[TN_HEAP_SMALL] += 5;
    unit_expect_corrupt(pool, "P8");
    unit_expect_sentence("number of live blocks of a kind is 6 and should be 1");
}

/* P8 */
TEST(sound, wrong_counters_by_kind_are_found)
{
    for (int id = 0; id < TN_METRICS; id++) {
        if (id == TN_ACTIVE_BLOCKS || id == TN_ACTIVE_BYTES)
            continue; /* they follow from the others */
        for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
            pool->counters.metrics[id].allocated[kind] += 1;
            unit_expect_corrupt(pool, "P8");
            pool->counters.metrics[id].allocated[kind] -= 1;
        }
    }
    OK(tarn_pool_validate(pool));
}

/* P19 */
TEST(sound, a_loose_block_is_found)
{
    block->state = TN_BLOCK_LOOSE;
    unit_expect_corrupt(pool, "P19");
    block->state = TN_BLOCK_LIVE;
    OK(tarn_pool_validate(pool));
}

/* P20 */
TEST(sound, a_block_of_another_size_than_its_heaps_says_so)
{
    struct tn_heap *const *heaps = block->heap->arena->heaps;

    ck_assert_int_eq(block->heap->kind, TN_HEAP_SMALL);
    ck_assert(!block->in_other_heap);
    tn_block_pass(block, heaps[TN_HEAP_LARGE]);
    ck_assert(block->in_other_heap);
    tn_block_pass(block, heaps[TN_HEAP_SMALL]);
    ck_assert(!block->in_other_heap);
    OK(tarn_pool_validate(pool));
    block->in_other_heap = true;
    unit_expect_corrupt(pool, "P20");
}

GROUP(broken, set_up)

/* P1 */
TEST(broken, a_gap_between_blocks_is_found)
{
    free_block()->offset += 512;
    unit_expect_corrupt(pool, "P1");
}

TEST(broken, a_wrong_link_between_neighbours_is_found)
{
    block->next->previous = NULL;
    unit_expect_corrupt(pool, "P1");
}

TEST(broken, blocks_that_do_not_begin_with_the_segment_are_found)
{
    segment->first_block = segment->first_block->next;
    unit_expect_corrupt(pool, "P1");
}

TEST(broken, blocks_that_do_not_end_with_the_segment_are_found)
{
    segment->last_block = segment->last_block->previous;
    unit_expect_corrupt(pool, "P1");
}

/* What the table says of the second page of a block that begins with one. */
static void set_second_page_of(const void *address, struct tn_chunk *chunk_there)
{
    uint64_t page = ((uint64_t)(uintptr_t)address >> TN_PAGE_BITS) + 1;

    atomic_store(&atomic_load(&tn_address_table.pages)[page], chunk_there);
}

/* P2 */
TEST(broken, a_block_without_a_chunk_is_found)
{
    set_second_page_of(large, NULL);
    unit_expect_corrupt(pool, "P2");
}

TEST(broken, an_unmapped_block_over_a_chunk_is_found)
{
    segment->last_block->previous->state = TN_BLOCK_UNMAPPED;
    segment->last_block->state = TN_BLOCK_FREE;
    unit_expect_corrupt(pool, "P2");
}

TEST(broken, a_chunk_of_another_heap_under_a_block_is_found)
{
    chunk->heap = pool->idle.heaps[TN_HEAP_SMALL];
    unit_expect_corrupt(pool, "P2");
}

TEST(broken, a_segment_that_does_not_know_that_it_is_mixed_is_found)
{
    segment->mixed = false;
    segment->first_arena = &pool->idle;
    unit_expect_corrupt(pool, "P2");
}

TEST(broken, a_wrong_count_of_unmapped_blocks_is_found)
{
    segment->unmapped_count += 1;
    unit_expect_corrupt(pool, "P2");
}

/* P3 */
TEST(broken, two_free_neighbours_of_one_heap_are_found)
{
    ck_assert(tn_blocks_reserve(&pool->store, 1));
    (void)tn_block_split(&pool->store, free_block(), free_block()->offset + 4096);
    unit_expect_corrupt(pool, "P3");
}

TEST(broken, two_unmapped_neighbours_are_found)
{
    ck_assert(tn_blocks_reserve(&pool->store, 1));
    (void)tn_block_split(&pool->store, segment->last_block,
                         segment->last_block->offset + TN_PAGE_BYTES);
    unit_expect_corrupt(pool, "P3");
}

/* P4 */
TEST(broken, a_free_block_in_no_bin_is_found)
{
    tn_bins_remove(&free_block()->heap->bins, free_block());
    unit_expect_corrupt(pool, "P4");
}

TEST(broken, a_free_block_in_the_bins_of_another_heap_is_found)
{
    struct tn_block *found = free_block();

    tn_bins_remove(&found->heap->bins, found);
    tn_bins_insert(&pool->idle.heaps[TN_HEAP_SMALL]->bins, found);
    unit_expect_corrupt(pool, "P4");
}

TEST(broken, a_live_block_in_a_bin_is_found)
{
    block->state = TN_BLOCK_FREE;
    tn_bins_insert(&block->heap->bins, block);
    block->state = TN_BLOCK_LIVE;
    unit_expect_corrupt(pool, "P4");
}

TEST(broken, a_bin_that_is_said_to_be_empty_is_found)
{
    struct tn_bins *bins = &free_block()->heap->bins;
    uint64_t word_map = bins->word_map;

    bins->word_map = 0;
    unit_expect_corrupt(pool, "P4");
    bins->word_map = word_map;
    OK(tarn_pool_validate(pool));
}

TEST(broken, a_free_block_that_denies_what_follows_it_is_found)
{
    struct tn_block *found = free_block();

    found->extends = !found->extends;
    unit_expect_corrupt(pool, "P4");
    found->extends = !found->extends;
    OK(tarn_pool_validate(pool));
}

/* P16 */
TEST(broken, an_arena_that_its_stream_does_not_lead_to_is_found)
{
    struct tn_arena *arena = block->heap->arena;

    arena->order.stream_id += 1;
    unit_expect_corrupt(pool, "P16");
    arena->order.stream_id -= 1;
    OK(tarn_pool_validate(pool));
}

/* P21 */
TEST(broken, an_arena_of_another_pool_in_the_table_is_found)
{
    static struct tn_heaps heaps;
    struct tn_arena foreign = {.order = {UINT32_MAX, 0}, .heaps = {&heaps.of[0], &heaps.of[1]}};

    tn_pool_lock(pool);
    ck_assert(tn_arena_table_reserve(pool));
    tn_arena_table_enter(pool, &foreign);
    tn_pool_unlock(pool);
    unit_expect_corrupt(pool, "P21");
    tn_pool_lock(pool);
    tn_arena_table_leave(pool, &foreign);
    tn_pool_unlock(pool);
    OK(tarn_pool_validate(pool));
}

/* P5 */
TEST(broken, a_live_block_that_the_index_lacks_is_found)
{
    tn_live_remove(block);
    unit_expect_corrupt(pool, "P5");
}

TEST(broken, a_free_block_in_the_index_is_found)
{
    struct tn_block *found = free_block();

    ck_assert(tn_live_reserve(tn_address_table_chunk(tn_block_address(found)), 1));
    tn_live_insert(found);
    unit_expect_corrupt(pool, "P5");
}

/* P22 */
TEST(broken, a_block_in_an_inbox_of_a_locked_pool_is_found)
{
    struct tn_arena *arena = block->heap->arena;
    atomic_uintptr_t *place;

    ck_assert(tn_steady_share(arena));
    OK(tarn_pool_validate(pool));
    tn_pool_lock(pool);
    tn_inbox_open(arena->inbox);
    STATUS(TARN_ERR_CORRUPT, tn_pool_check(pool));
    unit_expect_sentence("P22");
    place = tn_inbox_enter(arena->inbox);
    tn_inbox_close(arena->inbox);
    STATUS(TARN_ERR_CORRUPT, tn_pool_check(pool));
    unit_expect_sentence("P22");
    tn_inbox_put(place, NULL);
    ck_assert_ptr_null(tn_inbox_first(arena->inbox));
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
}

/* P23 */
TEST(broken, an_entry_that_is_closed_though_its_block_is_plain_is_found)
{
    atomic_uint_fast64_t *entry = NULL;

    (void)tn_live_seek(chunk, block->offset, TN_LIVE_HASH_SHIFT, &entry);
    *entry ^= TN_LIVE_CLOSED;
    unit_expect_corrupt(pool, "P23");
    *entry ^= TN_LIVE_CLOSED;
    OK(tarn_pool_validate(pool));
}

/* P6 */
TEST(broken, wrong_used_bytes_of_a_chunk_are_found)
{
    chunk->used_bytes -= 512;
    unit_expect_corrupt(pool, "P6");
}

/* P7 */
TEST(broken, a_hold_that_no_hold_accounts_for_is_found)
{
    chunk->hold_count += 1;
    unit_expect_corrupt(pool, "P7");
}

TEST(broken, a_chunk_missing_in_the_map_of_its_hold_is_found)
{
    void *captured;
    tarn_graph *graph = unit_graph(pool, stream, 4096, &captured);
    struct tn_chunk *held = unit_chunk(captured);

    ck_assert_ptr_nonnull(graph);
    ck_assert_uint_eq(held->hold_count, 1);
    pool->holds.first->chunks.words[held->id / 64] &= ~((uint64_t)1 << (held->id % 64));
    unit_expect_corrupt(pool, "P7");
}

TEST(broken, a_wrong_count_of_known_holds_is_found)
{
    void *captured;
    tarn_graph *graph = unit_graph(pool, stream, 4096, &captured);
    struct tn_chunk *held = unit_chunk(captured);

    ck_assert_ptr_nonnull(graph);
    ck_assert_uint_eq(held->known_count, 1);
    pool->holds.first->known = false;
    unit_expect_corrupt(pool, "P33");
    pool->holds.first->known = true;
    held->known_count += 1;
    unit_expect_corrupt(pool, "P33");
}

TEST(broken, a_hold_that_the_index_does_not_have_is_found)
{
    void *captured;
    tarn_graph *graph = unit_graph(pool, stream, 4096, &captured);
    struct tn_hold *hold = pool->holds.first;
    uint64_t key = hold->entries[TN_BY_KEEPER].key;

    ck_assert_ptr_nonnull(graph);
    tn_pool_index_put(&device->index, TN_BY_KEEPER, &hold->entries[TN_BY_KEEPER], 0);
    unit_expect_corrupt(pool, "P31");
    hold->entries[TN_BY_KEEPER].key = key;
    unit_expect_corrupt(pool, "P31");
    hold->entries[TN_BY_KEEPER].key = 0;
    tn_pool_index_put(&device->index, TN_BY_KEEPER, &hold->entries[TN_BY_KEEPER], key);
    pool->holds.open = hold;
    unit_expect_corrupt(pool, "P31");
    pool->holds.open = NULL;
    hold->open = true;
    unit_expect_corrupt(pool, "P31");
    hold->open = false;
    OK(tarn_pool_validate(pool));
}

/* P8 */
TEST(broken, every_counter_is_recomputed)
{
    uint64_t *const fields[] = {
        &chunk->heap->mapped_bytes,
        &pool->pending.ended_bytes,
        &pool->pending.unheld_count,
    };

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        *fields[i] += 1;
        unit_expect_corrupt(pool, "P8");
        *fields[i] -= 1;
        OK(tarn_pool_validate(pool));
    }
    pool->chunks.count += 1;
    unit_expect_corrupt(pool, "P8");
}

/* P9 */
TEST(broken, a_grower_of_another_pool_is_found)
{
    segment->grower = unit_pool(device)->idle.heaps[TN_HEAP_SMALL];
    unit_expect_corrupt(pool, "P9");
}

/* P2, P8, P9 */
TEST(broken, lists_of_a_heap_that_lack_something_are_found)
{
    struct tn_heap *heap = block->heap;
    struct tn_chunk *chunks = heap->chunks;
    struct tn_segment *segments = heap->segments;

    heap->chunks = chunks->heap_next;
    unit_expect_corrupt(pool, "P8");
    heap->chunks = chunks;
    heap->segments = segments->grower_next;
    unit_expect_corrupt(pool, "P9");
    heap->segments = segments;
    heap->pending_count += 1;
    unit_expect_corrupt(pool, "P8");
    heap->pending_count -= 1;
    segment->idle_bytes += TN_PAGE_BYTES;
    unit_expect_corrupt(pool, "P2");
    segment->idle_bytes -= TN_PAGE_BYTES;
    segment->owned_bytes -= TN_PAGE_BYTES;
    unit_expect_corrupt(pool, "P2");
    segment->owned_bytes += TN_PAGE_BYTES;
    OK(tarn_pool_validate(pool));
}

TEST(broken, what_is_wrong_with_retired_streams_is_found)
{
    struct tn_arena *arena = block->heap->arena;
    struct tn_known_stream *known;

    sim.hold_work();
    test_fill(stream, live, 1, 16);
    OK(tarn_record_stream(large, test_stream()));
    OK(tarn_stream_retire(device, stream));
    OK(tarn_pool_validate(pool));
    pool->arenas.retired_count += 1;
    unit_expect_corrupt(pool, "P14");
    pool->arenas.retired_count -= 1;
    arena->order.stream_id = 1;
    unit_expect_corrupt(pool, "P14");
    arena->order = TN_ORDER_NONE;
    tn_block_set_order(block, (struct tn_order){1, 0});
    unit_expect_corrupt(pool, "P14");
    tn_block_set_order(block, TN_ORDER_NONE);
    block->may_have_claims = false;
    unit_expect_corrupt(pool, "P18");
    block->may_have_claims = true;
    known = tn_block_uses(unit_block(large))->stream;
    known->noted_count += 1;
    unit_expect_corrupt(pool, "P11");
    known->noted_count -= 1;
    OK(tarn_pool_validate(pool));
    sim.resume_work();
}

/* V4 */
TEST(broken, a_page_with_the_chunk_of_another_place_is_found)
{
    set_second_page_of(large, chunk);
    unit_expect_corrupt(pool, "V4");
}

TEST(broken, a_page_in_a_block_with_the_chunk_of_another_place_is_found)
{
    tarn_pool *fresh = unit_pool(device);
    void *over = unit_alloc(fresh, 4 * MIB, stream); /* two pages of one chunk */

    ck_assert_ptr_eq(unit_chunk(over), unit_chunk((char *)over + TN_PAGE_BYTES));
    set_second_page_of(over, chunk);
    unit_expect_corrupt(fresh, "V4");
    unit_expect_sentence("the chunk at an offset is 0 ");
}

TEST(broken, a_chunk_under_the_wrong_id_is_found)
{
    chunk->id += 1;
    unit_expect_corrupt(pool, "V4");
}

/* P8 */
TEST(broken, wrong_free_ids_of_chunks_are_found)
{
    struct tn_chunk_set *free_ids = &pool->chunks.free_ids;
    const struct tn_chunk beyond = {.id = (uint32_t)pool->chunks.ids};

    OK(tarn_pool_validate(pool));
    ck_assert(tn_chunk_set_add(free_ids, chunk)); /* its id is taken */
    unit_expect_corrupt(pool, "P8");
    unit_expect_sentence("whether a chunk's id is free is 1 ");
    ck_assert_uint_eq(tn_chunk_set_take_first(free_ids), chunk->id);
    ck_assert(tn_chunk_set_add(free_ids, &beyond)); /* its id comes later */
    unit_expect_corrupt(pool, "P8");
    unit_expect_sentence("an owner's count of free ids is 1 ");
    ck_assert_uint_eq(tn_chunk_set_take_first(free_ids), pool->chunks.ids);
    pool->chunks.ids += 1; /* as if the last chunk had gone */
    unit_expect_corrupt(pool, "P8");
    unit_expect_sentence("whether a chunk's id is free is 0 ");
    ck_assert(tn_chunk_set_add(free_ids, &beyond));
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(tn_chunk_set_take_first(free_ids), beyond.id);
    pool->chunks.ids -= 1;
    OK(tarn_pool_validate(pool));
}

/* P14 */
TEST(broken, a_wrong_count_of_arenas_is_found)
{
    pool->arenas.count += 1;
    unit_expect_corrupt(pool, "P14");
    pool->arenas.count -= 1;
    OK(tarn_pool_validate(pool));
}

/* V5 */
TEST(broken, wrong_mapped_bytes_of_a_segment_are_found)
{
    segment->mapped_bytes += TN_PAGE_BYTES;
    unit_expect_corrupt(pool, "V5");
    segment->mapped_bytes -= TN_PAGE_BYTES;
    segment->chunk_count += 1;
    unit_expect_corrupt(pool, "V5");
}

/* V6, V7 */
TEST(broken, memory_that_does_not_fit_its_chunk_is_found)
{
    struct tn_memory *memory = chunk->memory;

    memory->bytes *= 2;
    unit_expect_corrupt(pool, "V7");
    memory->bytes /= 2;
    atomic_store(&memory->chunk_count, 0);
    unit_expect_corrupt(pool, "V6");
    atomic_store(&memory->chunk_count, 1);
    OK(tarn_pool_validate(pool));
}

static struct tn_watch watch;
static _Atomic uint64_t word;

static void watch_live(void)
{
    OK(tn_watch_init(&watch, pool, true, 1, &word, 1, 2));
    OK(tn_watch_add(&watch, (uint64_t)(uintptr_t)live, block->sequence));
    OK(tarn_pool_validate(pool));
}

/* P25 */
TEST(broken, a_watch_that_names_another_block_is_found)
{
    watch_live();
    watch.blocks[0].block = unit_block(large);
    unit_expect_corrupt(pool, "P25");
    watch.blocks[0].block = block;
    OK(tarn_pool_validate(pool));
}

TEST(broken, a_watch_that_names_another_pool_is_found)
{
    watch_live();
    atomic_store(&watch.blocks[0].pool, NULL);
    unit_expect_corrupt(pool, "P25");
    atomic_store(&watch.blocks[0].pool, pool);
    OK(tarn_pool_validate(pool));
}

TEST(broken, a_freed_block_with_a_watch_that_does_not_keep_it_is_found)
{
    watch_live();
    OK(tarn_free(live));
    OK(tarn_pool_validate(pool));
    watch.keeps = false;
    unit_expect_corrupt(pool, "P25");
    watch.keeps = true;
    OK(tarn_pool_validate(pool));
}

TEST(broken, a_wrong_count_of_kept_blocks_is_found)
{
    pool->watches.kept_count += 1;
    unit_expect_corrupt(pool, "P25");
    pool->watches.kept_count -= 1;
    watch_live();
    OK(tarn_free(live));
    ck_assert_uint_eq(pool->watches.kept_count, 1);
    pool->watches.kept_count = 0;
    unit_expect_corrupt(pool, "P25");
    pool->watches.kept_count = 1;
    OK(tarn_pool_validate(pool));
}

/* P18 */
TEST(broken, a_watched_block_without_claims_is_found)
{
    watch_live();
    block->may_have_claims = false;
    unit_expect_corrupt(pool, "P18");
    block->may_have_claims = true;
    OK(tarn_pool_validate(pool));
}

/* P26 */
TEST(broken, a_stamp_from_outside_that_is_above_the_chunks_own_is_found)
{
    chunk->outside_stamp = chunk->freed_stamp + 1;
    unit_expect_corrupt(pool, "P26");
}

TEST(broken, an_idle_chunk_whose_graph_is_gone_and_has_proven_nothing_is_found)
{
    tarn_pool *fresh = unit_pool(device);
    void *captured;

    OK(tarn_graph_destroy(unit_graph(fresh, stream, 4 * MIB, &captured)));
    unit_reap_all(fresh);
    ck_assert_uint_eq(unit_chunk(captured)->hold_count, 0);
    OK(tarn_pool_validate(fresh));
    unit_chunk(captured)->freed_stamp = 1;
    unit_expect_corrupt(fresh, "P26");
}
