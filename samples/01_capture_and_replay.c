// SPDX-License-Identifier: Apache-2.0
/* 01_capture_and_replay.c -- a section of work, captured once and replayed.
 *
 * A CUDA graph has the addresses of its kernels' memory written into it. Memory that a section
 * allocates and frees while it is captured would be somebody else's by the time of the replay; an
 * ordinary allocator does not know. In a private pool it stays the graph's: mapped, at the same
 * addresses, and given to nobody else, for as long as the graph lives. */
#include <stdint.h>
#include <stdio.h>

#include "common/driver.h"
#include "common/kernels.h"
#include "tarn/tarn.h"

enum { COUNT = 64 * 1024, BYTES = COUNT * sizeof(float) };

/* The section: output = 3 * input + 1, with two temporary blocks. It is ordinary code: the same
 * function runs uncaptured, and then its memory comes from the default pool. */
static void triple_and_one(tarn_device *device, tarn_stream stream, void *output, const void *input)
{
    void *tripled = NULL;
    void *ones = NULL;
    CHECK(tarn_malloc(device, BYTES, stream, &tripled));
    CHECK(tarn_malloc(device, BYTES, stream, &ones));
    kernel_scale(stream, tripled, input, 3.0F, COUNT);
    kernel_fill(stream, ones, 1.0F, COUNT);
    kernel_add(stream, output, tripled, ones, COUNT);
    /* No wait is needed before a free: the memory is reused only by later work of this stream. */
    CHECK(tarn_free(ones));
    CHECK(tarn_free(tripled));
}

/* Whether every float of the block has this value. */
static bool all_are(tarn_stream stream, const void *block, float value)
{
    static float host[COUNT];
    sample_copy_to_host(stream, host, block, BYTES);
    for (size_t i = 0; i < COUNT; i++) {
        if (host[i] != value) {
            return false;
        }
    }
    return true;
}

int main(void)
{
    sample_driver_open();
    kernels_load();
    tarn_stream stream = sample_stream_create();

    tarn_device *device = NULL;
    CHECK(tarn_device_open(0, NULL, &device));
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    options.name = "sample 1";
    tarn_pool *pool = NULL;
    CHECK(tarn_pool_create(device, &options, &pool));

    /* What goes in and out of the graph lives as long as the graph does, so it is allocated before
     * the capture. */
    void *input = NULL;
    void *output = NULL;
    CHECK(tarn_pool_malloc(pool, BYTES, 0, stream, &input));
    CHECK(tarn_pool_malloc(pool, BYTES, 0, stream, &output));

    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    CHECK(tarn_capture_begin(pool, stream, NULL, &capture));
    triple_and_one(device, stream, output, input);
    CHECK(tarn_capture_end(capture, &graph));

    /* Both temporary blocks are free, yet nobody else gets their memory: allocations of the same
     * size from the same pool lie elsewhere, and scribbling on them does the graph no harm. */
    void *other[2] = {NULL, NULL};
    for (size_t i = 0; i < 2; i++) {
        CHECK(tarn_pool_malloc(pool, BYTES, 0, stream, &other[i]));
        kernel_fill(stream, other[i], -1.0F, COUNT);
    }

    for (int round = 0; round < 3; round++) {
        float value = (float)round + 0.5F;
        kernel_fill(stream, input, value, COUNT);
        CHECK(tarn_graph_replay(graph, stream));
        REQUIRE(all_are(stream, output, 3.0F * value + 1.0F));
        printf("replay %d: 3 * %.1f + 1 = %.1f in all %d places\n", round, (double)value,
               (double)(3.0F * value + 1.0F), (int)COUNT);
    }
    /* And the graph has not touched what is not its own. */
    REQUIRE(all_are(stream, other[0], -1.0F) && all_are(stream, other[1], -1.0F));

    tarn_stats stats = TARN_STATS_INIT;
    stats.walk = true;
    CHECK(tarn_pool_stats(pool, &stats));
    printf("the pool maps %.1f MiB, of which the graph holds %.1f MiB\n",
           (double)stats.mapped_bytes.all.current / (1 << 20),
           (double)stats.captured_bytes / (1 << 20));

    /* The graph goes first: while it lives, so does the memory that it uses. */
    CHECK(tarn_graph_destroy(graph));
    for (size_t i = 0; i < 2; i++) {
        CHECK(tarn_free(other[i]));
    }
    CHECK(tarn_free(output));
    CHECK(tarn_free(input));
    CHECK(tarn_pool_destroy(pool));
    CHECK(tarn_device_close(device));

    sample_stream_destroy(stream);
    kernels_unload();
    sample_driver_close();
    return 0;
}
