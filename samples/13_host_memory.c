// SPDX-License-Identifier: Apache-2.0
/* 13_host_memory.c -- batches that go to the device through page-locked memory.
 *
 * A loader writes each batch into a block of page-locked memory, and a copy takes it to the device
 * while the loader writes the next. Whoever names the copy's stream in the free never waits for the
 * copy: the block serves again when the copy is done. In a captured section the same call keeps the
 * block for the graph. */
#include <stdint.h>
#include <stdio.h>

#include "common/driver.h"
#include "common/kernels.h"
#include "tarn/tarn.h"

enum { COUNT = 256 * 1024, BYTES = COUNT * sizeof(float), BATCHES = 8 };

/* A block that is written at once: nothing reads it any more. */
static float *load(tarn_device *device, float value)
{
    void *block = NULL;
    CHECK(tarn_host_malloc(device, BYTES, &block));
    float *batch = block;
    for (size_t i = 0; i < COUNT; i++) {
        batch[i] = value;
    }
    return batch;
}

int main(void)
{
    sample_driver_open();
    kernels_load();
    tarn_stream stream = sample_stream_create();

    tarn_device *device = NULL;
    tarn_pool *pool = NULL;
    CHECK(tarn_device_open(0, NULL, &device));
    CHECK(tarn_pool_create(device, NULL, &pool));
    void *input = NULL;
    void *sum = NULL;
    CHECK(tarn_pool_malloc(pool, BYTES, 0, stream, &input));
    CHECK(tarn_pool_malloc(pool, BYTES, 0, stream, &sum));
    kernel_fill(stream, sum, 0.0F, COUNT);

    for (int i = 1; i <= BATCHES; i++) {
        float *batch = load(device, (float)i);
        sample_copy_to_device(stream, input, batch, BYTES);
        CHECK(tarn_free_on(batch, stream)); /* the loader goes on, the block waits for the copy */
        kernel_add(stream, sum, sum, input, COUNT);
    }
    printf("sum of %d batches: %.0f\n", (int)BATCHES, (double)sample_first(stream, sum));
    REQUIRE(sample_first(stream, sum) == (float)(BATCHES * (BATCHES + 1) / 2));

    tarn_stats stats = TARN_STATS_INIT;
    CHECK(tarn_host_stats(device, &stats));
    printf("page-locked: %.1f MiB mapped, at most %.1f MiB in use at a time\n",
           (double)stats.mapped_bytes.all.current / (1 << 20),
           (double)stats.active_bytes.all.peak / (1 << 20));

    /* In a capture, the block is the graph's input: each replay reads it, long after the free. */
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    CHECK(tarn_capture_begin(pool, stream, NULL, &capture));
    float *constant = load(device, 100.0F);
    sample_copy_to_device(stream, input, constant, BYTES);
    CHECK(tarn_free_on(constant, stream));
    kernel_add(stream, sum, sum, input, COUNT);
    CHECK(tarn_capture_end(capture, &graph));
    CHECK(tarn_free(load(device, -1.0F))); /* lies elsewhere */
    for (int i = 0; i < 2; i++) {
        CHECK(tarn_graph_replay(graph, stream));
    }
    printf("and 100 twice: %.0f\n", (double)sample_first(stream, sum));
    REQUIRE(sample_first(stream, sum) == (float)(BATCHES * (BATCHES + 1) / 2 + 200));

    CHECK(tarn_graph_destroy(graph));
    CHECK(tarn_free(sum));
    CHECK(tarn_free(input));
    CHECK(tarn_pool_destroy(pool));
    CHECK(tarn_device_close(device));
    sample_stream_destroy(stream);
    kernels_unload();
    sample_driver_close();
    return 0;
}
