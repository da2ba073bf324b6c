// SPDX-License-Identifier: Apache-2.0
#include "claims/usable.h"

#include <stdlib.h>

#include "support/fake_tool.h"
#include "unit/unit.h"

static struct fake_tool tool;
static tarn_device *device;
static tarn_pool *pool;
static tn_cu_stream stream;

static void open_linear(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    fake_tool_use(&tool, NULL);
    test_start();
    options.sanitizer = true;
    OK(tarn_device_open(0, &options, &device));
    pool = unit_pool_of(device, "linear", 0);
    stream = test_stream();
}

static bool allows(const void *address, size_t bytes)
{
    return tool.allows((uint64_t)(uintptr_t)address, bytes);
}

static struct tn_block *lock_block(const void *address)
{
    tn_pool_lock(pool);
    return tn_live_find(pool, (uint64_t)(uintptr_t)address);
}

GROUP(usable, open_linear, NULL)

TEST(usable, allocations_and_frees_take_the_lock)
{
    char *block = unit_alloc(pool, 1000, stream);
    const struct tn_block *found = lock_block(block);

    ck_assert_int_eq(found->state, TN_BLOCK_LIVE); /* and not loose at any time */
    ck_assert_uint_eq(found->requested, 1000);
    tn_pool_unlock(pool);
    OK(tarn_free(block));
    ck_assert(!allows(block, 1));
}

/* A block over the edge of two chunks, of which a hold has one. */
TEST(usable, parts_in_held_chunks_stay)
{
    tn_cu_stream other = test_stream();
    char *block = unit_alloc(pool, 60 * MIB, stream);
    struct tn_block *found;
    struct tn_chunk *first;
    struct tn_chunk *last;

    OK(tarn_record_stream(block, other));
    test_spin(other, 1);
    found = lock_block(block);
    first = tn_segment_chunk_at(found->segment, found->offset);
    last = tn_segment_chunk_at(found->segment, tn_block_end(found) - 512);
    ck_assert_ptr_ne(first, last);
    tn_usable_end(&device->gpu, found, true);
    ck_assert(allows(block, 60 * MIB));
    last->hold_count += 1;
    found->state = TN_BLOCK_PENDING;
    tn_usable_settle(&device->gpu, found);
    ck_assert(!allows(block, 1));
    ck_assert(allows((char *)(uintptr_t)tn_chunk_address(last), 512));
    last->hold_count -= 1;
    tn_usable_let_go(&device->gpu, last); /* the block is not FREE: what it keeps stays */
    ck_assert(allows((char *)(uintptr_t)tn_chunk_address(last), 512));
    found->state = TN_BLOCK_FREE;
    tn_usable_let_go(&device->gpu, last);
    ck_assert(!allows((char *)(uintptr_t)tn_chunk_address(last), 1));
    found->state = TN_BLOCK_LIVE;
    tn_usable_begin(&device->gpu, found);
    tn_pool_unlock(pool);
    ck_assert(allows(block, 60 * MIB));
    OK(tarn_free(block));
}

/* A guarded graph's input stays for its replays, and goes with the graph. */
TEST(usable, a_block_that_a_guard_keeps_stays)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_capture *capture;
    tarn_graph *graph;
    tarn_pool *guarded;
    char *input = unit_alloc(pool, 4096, stream);

    options.guard = TARN_GUARD_KEEP;
    OK(tarn_pool_create(device, &options, &guarded));
    OK(tarn_capture_begin(guarded, stream, NULL, &capture));
    test_fill(stream, input, 1, 1024);
    OK(tarn_capture_end(capture, &graph));
    OK(tarn_free(input));
    ck_assert(allows(input, 4096));
    OK(tarn_graph_replay(graph, stream));
    test_synchronize(stream);
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_trim(pool, NULL));
    ck_assert(!allows(input, 1));
    ck_assert_uint_eq(fake_tool_look(&tool).mistakes, 0);
}
