// SPDX-License-Identifier: Apache-2.0
#include "graphs/account.h"

#include <stdlib.h>

#include "inspect/standing.h"
#include "pools/captures.h"
#include "unit/ordered.h"
#include "unit/unit.h"

enum { BYTES = 8192 };

static tarn_device *device;
static tarn_pool *pool;
static tarn_pool *other;
static tn_cu_stream stream;
static tarn_graph_memory_info memory;

/* What another thread does when the blocks have been looked up. */
static void (*meanwhile)(void);

__typeof__(tn_standings_find) __real_tn_standings_find;
__typeof__(tn_standings_find) __wrap_tn_standings_find;
tarn_status __wrap_tn_standings_find(struct tn_standings *standings,
                                     const struct tn_references *references,
                                     struct tn_regions *regions, tn_cu_graph graph,
                                     const tarn_pool *own)
{
    tarn_status status = __real_tn_standings_find(standings, references, regions, graph, own);

    if (meanwhile != NULL)
        meanwhile();
    return status;
}

static void open_device(void)
{
    device = unit_device();
    pool = unit_pool_of(device, "mine", 0);
    other = unit_pool_of(device, "other", 0);
    stream = test_stream();
}

/* A graph of the pool with 4 MiB of its own, whose one kernel names the block. */
static tarn_graph *naming(void *block)
{
    tarn_capture *capture = unit_begin(pool, stream);

    OK(tarn_free(unit_alloc(pool, 4 * MIB, stream)));
    test_fill(stream, block, 1, 16);
    return unit_end(capture);
}

static void expect(uint64_t own, uint64_t external_bytes, uint64_t external_count)
{
    ck_assert_uint_eq(memory.size, sizeof memory);
    ck_assert_uint_eq(memory.own_pool_bytes, own);
    ck_assert_uint_eq(memory.external_bytes, external_bytes);
    ck_assert_uint_eq(memory.external_count, external_count);
    ck_assert(tn_lock_none_held());
}

static tarn_status account_graph(void *graph)
{
    return tn_account_graph(graph, &memory);
}

static tarn_status account_device(void *which)
{
    return tn_account_device(which, &memory);
}

/* Each allocation fails in its turn; nothing is left, and nothing is said. */
static void fail_each(tarn_status (*account)(void *of), void *of)
{
    int64_t outstanding = tn_host_outstanding();
    uint64_t failures = 0;
    tarn_status status;

    do {
        failures += 1;
        memory.size = 77;
        (void)tn_host_plan_fault(failures, false);
        status = account(of);
        ck_assert(status == TARN_OK || status == TARN_ERR_HOST_MEMORY);
        ck_assert_uint_eq(tn_host_plan_fault(0, false), status == TARN_OK ? 0 : 1);
        ck_assert_uint_eq(memory.size, status == TARN_OK ? sizeof memory : 77);
        ck_assert_int_eq(tn_host_outstanding(), outstanding);
        ck_assert(tn_lock_none_held());
    } while (status != TARN_OK);
    ck_assert_uint_gt(failures, 8);
}

GROUP(account, open_device)

TEST(account, without_host_memory_there_is_no_account)
{
    void *block = unit_alloc(other, BYTES, stream);
    tarn_graph *graphs[2] = {naming(block), naming(block)};

    fail_each(account_graph, graphs[0]);
    expect(0, BYTES, 1);
    ck_assert_uint_eq(memory.shared_pool_bytes, 4 * MIB);
    fail_each(account_device, device);
    expect(0, BYTES, 1);
    ck_assert_uint_eq(memory.shared_pool_bytes, 4 * MIB);
}

TEST(account, what_the_driver_refuses_leaves_nothing)
{
    static const char *const calls[] = {"cuGraphGetNodes", "cuGraphNodeGetType",
                                        "cuGraphKernelNodeGetParams",
                                        "cuDeviceGetGraphMemAttribute"};
    tarn_graph *graph = naming(unit_alloc(other, BYTES, stream));
    int64_t outstanding = tn_host_outstanding();

    memory.size = 77;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (i < 3) {
            sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
            STATUS(TARN_ERR_DRIVER, tn_account_graph(graph, &memory));
        }
        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER, tn_account_device(device, &memory));
        unit_expect_sentence(calls[i]);
        ck_assert_int_eq(tn_host_outstanding(), outstanding);
        ck_assert(tn_lock_none_held());
    }
    ck_assert_uint_eq(memory.size, 77);
}

/* Named in turns, the upper one first. */
TEST(account, each_block_that_is_named_is_counted_once)
{
    char *lower = unit_alloc(other, BYTES, stream);
    char *upper = unit_alloc(other, 2 * BYTES, stream);
    tarn_capture *capture = unit_begin(pool, stream);
    tarn_graph *graph;

    ck_assert(lower < upper);
    for (int i = 0; i < 4; i++)
        test_fill(stream, i % 2 == 0 ? upper : lower, 1, 16);
    graph = unit_end(capture);
    OK(tn_account_graph(graph, &memory));
    expect(0, 3 * BYTES, 2);
}

static void *freed;

static void free_it(void)
{
    OK(tarn_free(freed));
}

static void put_another_there(void)
{
    OK(tarn_free(freed));
    ck_assert_ptr_eq(unit_alloc(other, BYTES, stream), freed);
}

TEST(account, a_block_that_is_freed_meanwhile_is_left_out)
{
    tarn_graph *graph;

    freed = unit_alloc(other, BYTES, stream);
    graph = naming(freed);
    OK(tn_account_graph(graph, &memory));
    expect(4 * MIB, BYTES, 1);
    meanwhile = put_another_there;
    OK(tn_account_graph(graph, &memory));
    expect(4 * MIB, 0, 0);
    meanwhile = free_it;
    OK(tn_account_graph(graph, &memory));
    expect(4 * MIB, 0, 0);
}

/* The graph's hold has room for 512 chunks. It names an address that has memory later: in the 600th one. */
TEST(account, a_graph_does_not_hold_chunks_that_were_mapped_after_it)
{
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);
    const struct tn_hold *hold;
    tarn_graph *graph;
    char *last;

    heap->segment_bytes = 2 * GIB;
    tn_pool_lock(pool);
    OK(tn_heap_grow(pool, heap, 2 * MIB, true));
    last = (char *)(uintptr_t)pool->segments.first->base + 1198 * MIB;
    tn_pool_unlock(pool);
    graph = naming(last + 4096);
    OK(tn_account_graph(graph, &memory));
    expect(4 * MIB, 0, 0);
    tn_pool_lock(pool);
    for (uint64_t i = 2; i <= 600; i++)
        OK(tn_heap_grow(pool, heap, i * 2 * MIB, true));
    hold = tn_hold_find_graph(&pool->holds, graph->driver_graph);
    tn_pool_unlock(pool);
    ck_assert_ptr_eq(unit_alloc(pool, 1200 * MIB, stream), last - 1198 * MIB);
    ck_assert_uint_gt(unit_chunk(last)->id, hold->chunks.word_count * 64);
    OK(tn_account_graph(graph, &memory));
    expect(4 * MIB, 1200 * MIB, 1);
}

/* Chunks of 4 MiB that a graph has by two holds of the pool are its own. */
TEST(account, two_holds_of_one_graph_are_one_holder)
{
    void *block;
    tarn_graph *graph = unit_graph(pool, stream, 4 * MIB, &block);
    struct tn_hold *second;

    tn_pool_lock(pool);
    OK(tn_hold_open(pool, (struct tn_order){0, UINT64_MAX}, false, &second));
    tn_hold_set_keeper(second, graph->driver_graph);
    second->chunks.words[0] = pool->holds.first->next->chunks.words[0];
    unit_chunk(block)->hold_count += 1;
    unit_chunk(block)->known_count += 1;
    tn_pool_unlock(pool);
    ck_assert_uint_eq(unit_chunk(block)->hold_count, 2);
    OK(tn_account_graph(graph, &memory));
    expect(4 * MIB, 0, 0);
    OK(tn_account_device(device, &memory));
    expect(4 * MIB, 0, 0);
    ck_assert_uint_eq(memory.shared_pool_bytes, 0);
    tn_pool_lock(pool);
    tn_hold_set_keeper(second, NULL); /* of a graph that was destroyed, and whose launch runs */
    tn_pool_unlock(pool);
    OK(tn_account_graph(graph, &memory));
    expect(0, 0, 0);
    ck_assert_uint_eq(memory.shared_pool_bytes, 4 * MIB);
    tn_pool_lock(pool);
    tn_hold_drop(second);
    tn_pool_unlock(pool);
}

/* _i: which of the graphs is asked for, the older one or the newer one. */
TEST_LOOP(account, memory_of_other_graphs_is_not_counted, 0, 2)
{
    void *blocks[2];
    tarn_graph *graphs[2] = {unit_graph(pool, stream, 4 * MIB, &blocks[0]),
                             unit_graph(other, stream, 6 * MIB, &blocks[1])};

    OK(tn_account_graph(graphs[_i], &memory));
    expect(_i == 0 ? 4 * MIB : 6 * MIB, 0, 0);
    ck_assert_uint_eq(memory.shared_pool_bytes, 0);
}

static void open_two_devices(void)
{
    ck_assert_int_eq(setenv("TARN_SIM_DEVICES", "2", 1), 0);
    open_device();
}

GROUP(devices, open_two_devices)

/* A graph may use memory of a peer: that is no memory of its own device. */
TEST(devices, another_devices_blocks_are_not_counted)
{
    tarn_device *peer;
    tn_cu_context own = test_context();
    tarn_graph *graph;
    void *block;

    OK(tarn_device_open(1, NULL, &peer));
    test_set_context(test_retain(1));
    block = unit_alloc(unit_pool(peer), BYTES, test_stream());
    test_set_context(own);
    graph = naming(block);
    OK(tn_account_graph(graph, &memory));
    expect(4 * MIB, 0, 0);
    ck_assert_uint_eq(memory.kernel_count, 1);
    OK(tn_account_device(device, &memory));
    expect(4 * MIB, 0, 0);
    OK(tn_account_device(peer, &memory));
    expect(0, 0, 0);
    ck_assert_uint_eq(memory.graph_count, 0);
}
