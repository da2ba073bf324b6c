// SPDX-License-Identifier: Apache-2.0
/* 03_your_own_capture.c -- Tarn under a capture that somebody else begins and ends.
 *
 * Many programs call cudaStreamBeginCapture themselves, or a framework does it for them. Then Tarn
 * only has to know which allocations belong to the section: a route sends them to the pool. After
 * the capture, tarn_graph_adopt takes the graph over and gives it the hold on the memory.
 *
 * The section here forks to a second stream, as real ones do, and joins it again. */
#include <stdint.h>
#include <stdio.h>

#include "common/driver.h"
#include "common/kernels.h"
#include "tarn/tarn.h"

enum { COUNT = 256 * 1024, BYTES = COUNT * sizeof(float) };

/* output = 2 * input + 5 * input, one half of it computed on a side stream. */
static void section(tarn_device *device, tarn_stream stream, tarn_stream side, void *output,
                    const void *input)
{
    void *doubled = NULL;
    void *fivefold = NULL;
    CHECK(tarn_malloc(device, BYTES, stream, &doubled));
    kernel_scale(stream, doubled, input, 2.0F, COUNT);

    /* The fork makes the side stream part of the capture, so the route catches this allocation
     * too. */
    sample_order(stream, side);
    CHECK(tarn_malloc(device, BYTES, side, &fivefold));
    kernel_scale(side, fivefold, input, 5.0F, COUNT);
    sample_order(side, stream);

    kernel_add(stream, output, doubled, fivefold, COUNT);

    /* The block belongs to the side stream's order, but its last use is on this one: freeing it
     * says so, or the side stream could reuse it while kernel_add still reads. */
    CHECK(tarn_free_on(fivefold, stream));
    CHECK(tarn_free(doubled));
}

static float first_and_last_sum(tarn_stream stream, const void *block)
{
    float ends[2];
    sample_copy_to_host(stream, &ends[0], block, sizeof(float));
    sample_copy_to_host(stream, &ends[1], (const float *)block + COUNT - 1, sizeof(float));
    return ends[0] + ends[1];
}

int main(void)
{
    sample_driver_open();
    kernels_load();
    tarn_stream stream = sample_stream_create();
    tarn_stream side = sample_stream_create();
    tarn_device *device = NULL;
    CHECK(tarn_device_open(0, NULL, &device));
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    options.name = "sample 3";
    tarn_pool *pool = NULL;
    CHECK(tarn_pool_create(device, &options, &pool));

    void *input = NULL;
    void *output = NULL;
    CHECK(tarn_pool_malloc(pool, BYTES, 0, stream, &input));
    CHECK(tarn_pool_malloc(pool, BYTES, 0, stream, &output));

    /* The bracket. tarn_filter_capture accepts the streams of the capture that `stream` begins,
     * forked ones included; allocations on any other stream go where they always went. */
    tarn_route *route = NULL;
    CHECK(tarn_begin_allocate_to_pool(device, pool, tarn_filter_capture, stream, &route));
    sample_begin_capture(stream); /* cuStreamBeginCapture */
    section(device, stream, side, output, input);
    tarn_driver_graph driver_graph = sample_end_capture(stream); /* cuStreamEndCapture */
    CHECK(tarn_end_allocate_to_pool(route));

    /* From here on the graph is Tarn's to replay and to destroy. */
    tarn_graph *graph = NULL;
    CHECK(tarn_graph_adopt(pool, driver_graph, &graph));

    for (int round = 1; round <= 3; round++) {
        kernel_fill(stream, input, (float)round, COUNT);
        CHECK(tarn_graph_replay(graph, stream));
        float expected = 7.0F * (float)round;
        REQUIRE(first_and_last_sum(stream, output) == 2.0F * expected);
        printf("replay %d: 2 * %d + 5 * %d = %.0f\n", round, round, round, (double)expected);
    }

    /* The driver's handles stay within reach, for tools that inspect graphs. */
    tarn_driver_exec exec = NULL;
    CHECK(tarn_graph_driver_handles(graph, NULL, &exec));
    REQUIRE(exec != NULL);

    CHECK(tarn_graph_destroy(graph));
    CHECK(tarn_free(output));
    CHECK(tarn_free(input));
    CHECK(tarn_pool_destroy(pool));
    CHECK(tarn_device_close(device));
    sample_stream_destroy(side);
    sample_stream_destroy(stream);
    kernels_unload();
    sample_driver_close();
    return 0;
}
