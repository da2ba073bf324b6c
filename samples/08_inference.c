// SPDX-License-Identifier: Apache-2.0
/* 08_inference.c -- an inference loop over five batch sizes, with tarn/core.h alone.
 *
 * One graph for each batch size, captured in one pool, the largest first: the smaller graphs reuse its
 * memory. Input, weights and output are ordinary memory, and outlive the graphs. */
#include "common/driver.h"
#include "common/kernels.h"
#include "tarn/core.h"

enum { WIDTH = 64, SIZES = 5, INPUT = 0, WEIGHTS, OUTPUT, BLOCKS };
static const uint32_t sizes[SIZES] = {128, 64, 16, 4, 1};

/* output = relu(input * weights); the hidden block is live in the section alone. */
static void infer(tarn_device *device, tarn_stream stream, void *const io[BLOCKS], uint32_t batch)
{
    void *hidden;
    CHECK(tarn_malloc(device, batch * WIDTH * sizeof(float), stream, &hidden));
    kernel_matmul(stream, hidden, io[INPUT], io[WEIGHTS], batch, WIDTH, WIDTH);
    kernel_relu(stream, hidden, batch * WIDTH);
    kernel_scale(stream, io[OUTPUT], hidden, 1.0F, batch * WIDTH);
    CHECK(tarn_free(hidden));
}

int main(void)
{
    tarn_device *device;
    tarn_pool *pool;
    tarn_capture *capture;
    tarn_graph *graphs[SIZES];
    void *io[BLOCKS];
    tarn_stream stream = sample_open();
    CHECK(tarn_device_open(0, NULL, &device));
    CHECK(tarn_pool_create(device, NULL, &pool));
    for (int i = 0; i < BLOCKS; i++)
        CHECK(tarn_malloc(device, sizes[0] * WIDTH * sizeof(float), stream, &io[i]));
    kernel_fill(stream, io[WEIGHTS], 0.5F, WIDTH * WIDTH);
    for (int i = 0; i < SIZES; i++) {
        CHECK(tarn_capture_begin(pool, stream, NULL, &capture));
        infer(device, stream, io, sizes[i]);
        CHECK(tarn_capture_end(capture, &graphs[i]));
    }
    for (int request = 0; request < 100; request++) {
        kernel_fill(stream, io[INPUT], (float)request, sizes[0] * WIDTH);
        CHECK(tarn_graph_replay(graphs[request % SIZES], stream));
        REQUIRE(sample_first(stream, io[OUTPUT]) == 0.5F * WIDTH * (float)request);
    }
    for (int i = 0; i < SIZES; i++)
        CHECK(tarn_graph_destroy(graphs[i]));
    for (int i = 0; i < BLOCKS; i++)
        CHECK(tarn_free(io[i]));
    CHECK(tarn_pool_destroy(pool));
    CHECK(tarn_device_close(device));
}
