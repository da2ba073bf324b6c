// SPDX-License-Identifier: Apache-2.0
/* 04_two_streams_one_pool.c -- two graphs on two streams, in one pool.
 *
 * A program serves two kinds of requests, each by a graph of its own on a stream of its own. Captured in
 * one pool the graphs work in the same memory, so the second costs nearly nothing; and nobody has to
 * keep them apart: each replay waits on the GPU for the pool's last one, whatever the streams. */
#include <stdint.h>
#include <stdio.h>

#include "common/driver.h"
#include "common/kernels.h"
#include "tarn/tarn.h"

enum { COUNT = 1 << 20, LAYERS = 4, REPLAYS = 50 };

/* One kind of request: output = value * 2^LAYERS, by way of blocks that live only meanwhile. */
typedef struct service {
    tarn_stream stream;
    tarn_graph *graph;
    void *output; /* outlives the capture */
    void *first;  /* where its first block was */
    float value;
} service;

static void serve(service *s, tarn_device *device)
{
    void *block = NULL;
    CHECK(tarn_malloc(device, COUNT * sizeof(float), s->stream, &block));
    s->first = block;
    kernel_fill(s->stream, block, s->value, COUNT);
    for (int layer = 0; layer < LAYERS; layer++) {
        void *next = NULL;
        CHECK(tarn_malloc(device, COUNT * sizeof(float), s->stream, &next));
        kernel_scale(s->stream, next, block, 2.0F, COUNT);
        CHECK(tarn_free(block));
        block = next;
    }
    kernel_scale(s->stream, s->output, block, 1.0F, COUNT);
    CHECK(tarn_free(block));
}

static void capture(service *s, tarn_device *device, tarn_pool *pool)
{
    tarn_capture_options options = TARN_CAPTURE_OPTIONS_INIT;
    tarn_capture *section = NULL;
    tarn_pool *outside = NULL;
    CHECK(tarn_device_default_pool(device, &outside));
    CHECK(tarn_pool_malloc(outside, COUNT * sizeof(float), 0, s->stream, &s->output));
    options.mode = TARN_CAPTURE_THREAD_LOCAL;
    CHECK(tarn_capture_begin(pool, s->stream, &options, &section));
    serve(s, device);
    CHECK(tarn_capture_end(section, &s->graph));
}

static float words[COUNT];

static void check_output(const service *s)
{
    const float expected = s->value * (float)(1 << LAYERS);
    sample_copy_to_host(s->stream, words, s->output, sizeof words);
    sample_synchronize(s->stream);
    for (size_t i = 0; i < COUNT; i++) {
        REQUIRE(words[i] == expected);
    }
}

int main(void)
{
    tarn_device *device = NULL;
    tarn_pool *pool = NULL;
    tarn_stats stats = TARN_STATS_INIT;
    service services[2] = {{.value = 3.0F}, {.value = 5.0F}};

    sample_driver_open();
    kernels_load();
    CHECK(tarn_device_open(0, NULL, &device));
    CHECK(tarn_pool_create(device, NULL, &pool));
    for (int i = 0; i < 2; i++) {
        services[i].stream = sample_stream_create();
        capture(&services[i], device, pool);
        CHECK(tarn_pool_stats(pool, &stats));
        printf("graph %d captured: the pool has %llu MiB\n", i + 1,
               (unsigned long long)stats.mapped_bytes.all.current >> 20);
    }
    REQUIRE(services[0].first == services[1].first); /* the same memory */
    for (int replay = 0; replay < REPLAYS; replay++) {
        CHECK(tarn_graph_replay(services[0].graph, services[0].stream));
        CHECK(tarn_graph_replay(services[1].graph, services[1].stream));
    }
    for (int i = 0; i < 2; i++) {
        check_output(&services[i]);
    }
    printf("%d replays on two streams: both outputs are right\n", 2 * REPLAYS);
    for (int i = 0; i < 2; i++) {
        CHECK(tarn_graph_destroy(services[i].graph));
        CHECK(tarn_free(services[i].output));
        sample_stream_destroy(services[i].stream);
    }
    CHECK(tarn_pool_destroy(pool));
    CHECK(tarn_device_close(device));
    kernels_unload();
    sample_driver_close();
    return 0;
}
