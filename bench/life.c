// SPDX-License-Identifier: Apache-2.0
#include "life.h"

#include "base.h"

enum { BYTES = 64 << 10, LARGE_BYTES = 3 << 20 };

/* Of the driver's own lives: a life of Tarn maps two chunks, as the call recorder has counted. */
enum { PARTS = 2, PART_BYTES = 2 << 20 };

static tarn_graph *capture(tarn_pool *pool, tarn_stream stream)
{
    tarn_capture *capturing = NULL;
    tarn_graph *graph = NULL;
    void *word = NULL;

    BENCH_OK(tarn_capture_begin(pool, stream, NULL, &capturing));
    BENCH_OK(tarn_pool_malloc(pool, BYTES, 0, stream, &word));
    bench_touch_launch(stream, word);
    BENCH_OK(tarn_free(word));
    BENCH_OK(tarn_capture_end(capturing, &graph));
    return graph;
}

static void use_checkpoint(tarn_pool *pool, tarn_stream stream)
{
    tarn_checkpoint *checkpoint = NULL;
    void *kept = NULL;

    BENCH_OK(tarn_pool_malloc(pool, BYTES, 0, stream, &kept));
    BENCH_OK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, stream, &checkpoint));
    BENCH_OK(tarn_free(kept));
    BENCH_OK(tarn_checkpoint_restore(checkpoint, stream, NULL));
    BENCH_OK(tarn_free(kept)); /* it is live again */
    BENCH_OK(tarn_checkpoint_destroy(checkpoint));
}

void bench_life(tarn_device *device, uint64_t number, bool silently)
{
    tarn_stream stream = bench_stream_create();
    tarn_pool *pool = NULL;
    tarn_graph *graph;
    void *shared = NULL;
    void *last = NULL;

    BENCH_OK(tarn_pool_create(device, NULL, &pool));
    BENCH_OK(tarn_malloc(device, LARGE_BYTES, stream, &shared));
    graph = capture(pool, stream);
    BENCH_OK(tarn_graph_replay(graph, stream));
    use_checkpoint(pool, stream);
    BENCH_OK(tarn_pool_malloc(pool, BYTES, 0, stream, &last));
    BENCH_OK(tarn_graph_destroy(graph));
    BENCH_OK(tarn_free(shared));
    bench_stream_drain(stream);
    if (number % 3 == 0) {
        BENCH_OK(tarn_pool_release(pool));
        BENCH_OK(tarn_free(last));
    } else {
        BENCH_OK(tarn_free(last));
        BENCH_OK(tarn_pool_destroy(pool));
    }
    if (!silently)
        BENCH_OK(tarn_stream_retire(device, stream));
    bench_stream_destroy(stream);
}

void bench_driver_life_begin(struct bench_driver_life *life, tarn_device *device)
{
    const tn_cu_allocation_prop prop = {.type = TN_CU_MEM_ALLOCATION_TYPE_PINNED,
                                        .location = {TN_CU_MEM_LOCATION_TYPE_DEVICE, cu.device}};

    BENCH_OK(tarn_malloc(device, sizeof(uint32_t), NULL, &life->word));
    BENCH_CU(cu.cuMemAddressReserve(&life->addresses, PARTS * PART_BYTES, 0, 0, 0));
    BENCH_CU(cu.cuMemCreate(&life->memory, PART_BYTES, &prop, 0));
}

void bench_driver_life_end(struct bench_driver_life *life)
{
    BENCH_CU(cu.cuMemRelease(life->memory));
    BENCH_CU(cu.cuMemAddressFree(life->addresses, PARTS * PART_BYTES));
    BENCH_OK(tarn_free(life->word));
}

/* Each part of the addresses gets the same memory, as Tarn's comes from a cache. */
static void map_and_unmap(const struct bench_driver_life *life)
{
    const tn_cu_access_desc access = {{TN_CU_MEM_LOCATION_TYPE_DEVICE, cu.device},
                                      TN_CU_MEM_ACCESS_READWRITE};

    for (int i = 0; i < PARTS; i++) {
        BENCH_CU(
            cu.cuMemMap(life->addresses + (size_t)i * PART_BYTES, PART_BYTES, 0, life->memory, 0));
        BENCH_CU(
            cu.cuMemSetAccess(life->addresses + (size_t)i * PART_BYTES, PART_BYTES, &access, 1));
    }
    for (int i = 0; i < PARTS; i++)
        BENCH_CU(cu.cuMemUnmap(life->addresses + (size_t)i * PART_BYTES, PART_BYTES));
}

void bench_life_of_driver(const struct bench_driver_life *life)
{
    tarn_stream stream = bench_stream_create();
    tn_cu_graphexec exec = NULL;
    tn_cu_graph graph = NULL;
    size_t free_bytes = 0;
    size_t bytes = 0;

    BENCH_CU(cu.cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_THREAD_LOCAL));
    bench_touch_launch(stream, life->word);
    BENCH_CU(cu.cuStreamEndCapture(stream, &graph));
    /* Tarn asks before and after, too: what an executable takes is in its statistics. */
    BENCH_CU(cu.cuMemGetInfo(&free_bytes, &bytes));
    BENCH_CU(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    BENCH_CU(cu.cuMemGetInfo(&free_bytes, &bytes));
    BENCH_CU(cu.cuGraphLaunch(exec, stream));
    BENCH_CU(cu.cuGraphExecDestroy(exec));
    BENCH_CU(cu.cuGraphDestroy(graph));
    bench_stream_drain(stream);
    map_and_unmap(life);
    bench_stream_destroy(stream);
}
