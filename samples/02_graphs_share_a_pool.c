// SPDX-License-Identifier: Apache-2.0
/* 02_graphs_share_a_pool.c -- one graph for each batch size, all in the memory of the largest.
 *
 * An inference engine captures its model once for every batch size that it serves. With memory of
 * its own for each graph, the smaller ones cost nearly as much again as the largest. They never run
 * at the same time, so they can share: captured in one pool, the largest first, each later graph
 * reuses what the earlier ones freed, and the pool does not grow any more. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/driver.h"
#include "common/kernels.h"
#include "common/random.h"
#include "tarn/tarn.h"

enum { INPUTS = 16, HIDDEN = 4096, OUTPUTS = 4, GRAPHS = 4 };
static const uint32_t batches[GRAPHS] = {256, 64, 16, 4}; /* the largest first */

/* The model: output = relu(input * first) * second. These blocks outlive every capture. */
typedef struct model {
    void *first;  /* INPUTS x HIDDEN */
    void *second; /* HIDDEN x OUTPUTS */
    void *input;  /* of the largest batch; smaller ones use its beginning */
    void *output;
} model;

static void run_model(const model *m, tarn_device *device, tarn_stream stream, uint32_t batch)
{
    void *hidden = NULL;
    CHECK(tarn_malloc(device, (size_t)batch * HIDDEN * sizeof(float), stream, &hidden));
    kernel_matmul(stream, hidden, m->input, m->first, batch, INPUTS, HIDDEN);
    kernel_relu(stream, hidden, batch * HIDDEN);
    kernel_matmul(stream, m->output, hidden, m->second, batch, HIDDEN, OUTPUTS);
    CHECK(tarn_free(hidden));
}

/* Allocates a block in the pool and fills it from the host. */
static void *upload(tarn_pool *pool, tarn_stream stream, const float *host, size_t count)
{
    void *block = NULL;
    CHECK(tarn_pool_malloc(pool, count * sizeof(float), 0, stream, &block));
    sample_copy_to_device(stream, block, host, count * sizeof(float));
    return block;
}

/* The host's own account of one row of the output. */
static void expect_row(const float *first, const float *second, const float *row, float *out)
{
    for (size_t o = 0; o < OUTPUTS; o++) {
        out[o] = 0.0F;
    }
    for (size_t h = 0; h < HIDDEN; h++) {
        float hidden = 0.0F;
        for (size_t i = 0; i < INPUTS; i++) {
            hidden += row[i] * first[i * HIDDEN + h];
        }
        for (size_t o = 0; o < OUTPUTS && hidden > 0.0F; o++) {
            out[o] += hidden * second[h * OUTPUTS + o];
        }
    }
}

/* Host copies of what the model works with. */
static float first[INPUTS * HIDDEN];
static float second[HIDDEN * OUTPUTS];
static float input[256 * INPUTS];
static float output[256 * OUTPUTS];

static void fill_randomly(float *values, size_t count, uint64_t *random)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = random_uniform(random);
    }
}

/* Compares every row with the host's account. The sums have thousands of terms, and a compiler may
 * round the host's differently: so a small difference is none. */
static bool output_is_right(const model *m, tarn_stream stream, uint32_t batch)
{
    sample_copy_to_host(stream, output, m->output, (size_t)batch * OUTPUTS * sizeof(float));
    for (size_t row = 0; row < batch; row++) {
        float expected[OUTPUTS];
        expect_row(first, second, &input[row * INPUTS], expected);
        for (size_t o = 0; o < OUTPUTS; o++) {
            float difference = output[row * OUTPUTS + o] - expected[o];
            if (!(difference < 0.01F && difference > -0.01F)) {
                return false;
            }
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
    options.name = "sample 2";
    tarn_pool *pool = NULL;
    CHECK(tarn_pool_create(device, &options, &pool));

    uint64_t random = 2;
    fill_randomly(first, sizeof(first) / sizeof(float), &random);
    fill_randomly(second, sizeof(second) / sizeof(float), &random);
    fill_randomly(input, sizeof(input) / sizeof(float), &random);
    model m;
    m.first = upload(pool, stream, first, sizeof(first) / sizeof(float));
    m.second = upload(pool, stream, second, sizeof(second) / sizeof(float));
    m.input = upload(pool, stream, input, sizeof(input) / sizeof(float));
    m.output = upload(pool, stream, output, sizeof(output) / sizeof(float));
    sample_synchronize(stream);

    tarn_stats stats = TARN_STATS_INIT;
    CHECK(tarn_pool_stats(pool, &stats));
    printf("weights, input and output: the pool maps %.1f MiB\n",
           (double)stats.mapped_bytes.all.current / (1 << 20));

    tarn_graph *graphs[GRAPHS];
    uint64_t mapped_by_largest = 0;
    for (size_t i = 0; i < GRAPHS; i++) {
        tarn_capture *capture = NULL;
        CHECK(tarn_capture_begin(pool, stream, NULL, &capture));
        run_model(&m, device, stream, batches[i]);
        CHECK(tarn_capture_end(capture, &graphs[i]));

        CHECK(tarn_pool_stats(pool, &stats));
        printf("captured batch %3u: the pool maps %.1f MiB\n", (unsigned int)batches[i],
               (double)stats.mapped_bytes.all.current / (1 << 20));
        if (i == 0) {
            mapped_by_largest = stats.mapped_bytes.all.current;
        }
        REQUIRE(stats.mapped_bytes.all.current == mapped_by_largest);
    }

    /* In any order, any number of times, on one stream: the graphs write the same memory, so they
     * must not overlap in time. Tarn refuses a replay on another stream. */
    static const size_t order[] = {3, 0, 2, 1, 3};
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        uint32_t batch = batches[order[i]];
        kernel_fill(stream, m.output, 0.0F, batch * OUTPUTS);
        CHECK(tarn_graph_replay(graphs[order[i]], stream));
        REQUIRE(output_is_right(&m, stream, batch));
        printf("replayed batch %3u: right\n", (unsigned int)batch);
    }

    for (size_t i = 0; i < GRAPHS; i++) {
        CHECK(tarn_graph_destroy(graphs[i]));
    }
    CHECK(tarn_free(m.first));
    CHECK(tarn_free(m.second));
    CHECK(tarn_free(m.input));
    CHECK(tarn_free(m.output));
    CHECK(tarn_pool_destroy(pool));
    CHECK(tarn_device_close(device));
    sample_stream_destroy(stream);
    kernels_unload();
    sample_driver_close();
    return 0;
}
