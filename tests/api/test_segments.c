// SPDX-License-Identifier: Apache-2.0
/* What is mapped at an address: tarn_segment_at. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "support/world.h"

static tarn_segment at(const void *address)
{
    tarn_segment segment = TARN_SEGMENT_INIT;

    OK(tarn_segment_at(address, &segment));
    ck_assert_uint_eq(segment.size, sizeof segment);
    return segment;
}

static void refuse(const void *address, const char *word)
{
    tarn_segment segment = TARN_SEGMENT_INIT;

    segment.index = 77;
    REFUSE(TARN_ERR_NOT_OURS, word, tarn_segment_at(address, &segment));
    ck_assert_uint_eq(segment.index, 77);
    ck_assert_ptr_null(segment.base);
}

static bool contains(const void *base, size_t bytes, const void *address)
{
    return (uintptr_t)address - (uintptr_t)base < bytes;
}

GROUP(segments, test_world_open, test_world_close)

TEST(segments, a_live_block_is_found_by_each_of_its_addresses)
{
    char *block = test_alloc(world.pool, 40 * MIB, world.stream);
    static const size_t offsets[] = {0, 1, 2 * MIB - 1, 2 * MIB, 39 * MIB, 40 * MIB - 1};

    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        tarn_segment segment = at(block + offsets[i]);

        ck_assert_ptr_eq(segment.run, block);
        ck_assert_uint_eq(segment.run_bytes, 40 * MIB);
        ck_assert_int_eq(segment.run_state, TARN_EXTENT_LIVE);
        ck_assert(contains(segment.chunk, segment.chunk_bytes, block + offsets[i]));
        ck_assert(contains(segment.base, segment.bytes, segment.chunk));
        ck_assert_ptr_eq(segment.pool, world.pool);
        ck_assert_int_eq(segment.location, TARN_LOCATION_DEVICE);
        ck_assert_int_eq(segment.device, 0);
        ck_assert(!segment.is_held && !segment.is_exportable && !segment.is_gpu_direct_rdma);
    }
    OK(tarn_free(block));
    ck_assert_int_eq(at(block).run_state, TARN_EXTENT_FREE);
    ck_assert_uint_ge(at(block).run_bytes, 40 * MIB);
}

TEST(segments, addresses_without_memory_are_not_ours_and_the_sentence_says_why)
{
    tarn_segment wrong = {.size = sizeof wrong - 1};
    void *linear = test_linear_alloc(4096);
    char *kept = test_alloc(world.pool, 4 * MIB, world.stream);
    char *gone = test_alloc(world.pool, 4 * MIB, world.stream);
    tarn_segment segment = at(gone);

    ck_assert_ptr_eq(at(kept).base, segment.base);
    OK(tarn_free(gone));
    OK(tarn_pool_trim(world.pool, NULL));
    refuse(gone, "nothing is mapped there");
    refuse((char *)segment.base + segment.bytes - 1, "nothing is mapped there");
    refuse(kept + 16 * GIB, "no pool uses it");
    refuse(NULL, "0x0");
    refuse(linear, "not handed out");
    refuse(&segment, "not handed out");
    refuse((void *)UINTPTR_MAX, "not handed out");
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "NULL", tarn_segment_at(kept, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "size of a tarn_segment", tarn_segment_at(kept, &wrong));
    OK(tarn_free(kept));
    test_linear_free(linear);
}

TEST(segments, memory_of_a_graph_is_held_until_the_graph_goes)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    void *block = test_malloc(4 * MIB);
    tarn_graph *graph;

    ck_assert(at(block).is_held);
    test_fill(world.stream, block, 7, 16);
    OK(tarn_free(block));
    graph = test_capture_end(capture);
    ck_assert(at(block).is_held);
    ck_assert_int_eq(at(block).run_state, TARN_EXTENT_FREE);
    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
    OK(tarn_device_collect(world.device));
    ck_assert(!at(block).is_held);
}

TEST(segments, properties_are_those_of_the_pool_and_a_released_pool_has_no_handle)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *exportable;
    tarn_pool *rdma;
    void *first;
    void *second;

    options.exportable = true;
    exportable = test_pool_with(&options);
    options.exportable = false;
    options.gpu_direct_rdma = true;
    rdma = test_pool_with(&options);
    first = test_alloc(exportable, MIB, world.stream);
    second = test_alloc(rdma, MIB, world.stream);
    ck_assert(at(first).is_exportable && !at(first).is_gpu_direct_rdma);
    ck_assert(!at(second).is_exportable && at(second).is_gpu_direct_rdma);
    ck_assert_ptr_eq(at(second).pool, rdma);
    OK(tarn_pool_release(rdma));
    ck_assert_ptr_null(at(second).pool);
    OK(tarn_free(second));
    OK(tarn_free(first));
    OK(tarn_pool_destroy(exportable));
}

TEST(segments, segments_of_a_pool_are_numbered_as_in_its_layout)
{
    void *small = test_alloc(world.pool, 4096, world.stream);
    void *large = test_alloc(world.pool, 4 * MIB, world.stream);
    tarn_layout *layout;

    OK(tarn_pool_layout(world.pool, &layout));
    ck_assert_uint_ne(at(small).index, at(large).index);
    for (size_t i = 0; i < layout->extent_count; i++) {
        const tarn_extent *extent = &layout->extents[i];
        tarn_segment segment;

        if (extent->state == TARN_EXTENT_UNMAPPED) {
            refuse(extent->address, "nothing is mapped there");
            continue;
        }
        segment = at(extent->address);
        ck_assert_ptr_eq(segment.run, extent->address);
        ck_assert_uint_eq(segment.run_bytes, extent->bytes);
        ck_assert_int_eq(segment.run_state, extent->state);
        ck_assert_uint_eq(segment.index, extent->segment_index);
    }
    tarn_layout_destroy(layout);
    OK(tarn_free(small));
    OK(tarn_free(large));
}

enum { ROUNDS = 150 };

static atomic_bool over;
static _Atomic(char *) last;

/* Looks at memory that the other thread maps and gives back. */
static void *look(void *count)
{
    while (!atomic_load(&over)) {
        tarn_segment segment = TARN_SEGMENT_INIT;
        char *address = atomic_load(&last);
        tarn_status status = tarn_segment_at(address, &segment);

        ck_assert(status == TARN_OK || status == TARN_ERR_NOT_OURS);
        if (status == TARN_OK) {
            *(size_t *)count += 1;
            ck_assert(contains(segment.run, segment.run_bytes, address));
            ck_assert(contains(segment.chunk, segment.chunk_bytes, address));
            ck_assert(contains(segment.base, segment.bytes, address));
            ck_assert(contains(segment.base, segment.bytes, segment.chunk));
        }
        (void)sched_yield();
    }
    return NULL;
}

TEST(segments, a_look_beside_trims_sees_whole_chunks_or_none)
{
    size_t counts[2] = {0, 0};
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, look, &counts[i]), 0);
    for (int i = 0; i < ROUNDS || counts[0] == 0; i++) {
        tarn_pool *pool = i % 8 == 0 ? test_pool("short") : world.pool;
        char *block = test_alloc(pool, (size_t)(2 + i % 3 * 2) * MIB, world.stream);

        atomic_store(&last, block + (size_t)(i % 3) * MIB);
        (void)sched_yield();
        OK(tarn_free(block));
        OK(tarn_pool_trim(pool, NULL));
        if (pool != world.pool)
            OK(tarn_pool_destroy(pool));
    }
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}
