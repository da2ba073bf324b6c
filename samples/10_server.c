// SPDX-License-Identifier: Apache-2.0
/* 10_server.c -- a server with a stream a thread, with tarn/core.h alone.
 *
 * Each thread replays a graph of its own for its requests, in a pool of its own, so no thread waits for
 * another. The last use of an answer is on a stream that all threads share: tarn_free_on names that
 * stream, and nobody waits for the use. */
#include <pthread.h>

#include "common/driver.h"
#include "common/kernels.h"
#include "tarn/core.h"

enum { COUNT = 4096, BYTES = COUNT * sizeof(float), THREADS = 4, REQUESTS = 16 };

struct server {
    pthread_t thread;
    tarn_stream stream;
    tarn_pool *pool;
    tarn_graph *graph; /* output = 4 * input */
    void *input, *output;
};
static tarn_device *device;
static tarn_stream shared;
static void *total; /* of all answers, on the shared stream */

static void begin(struct server *server)
{
    tarn_capture *capture;
    server->stream = sample_stream_create();
    CHECK(tarn_pool_create(device, NULL, &server->pool));
    CHECK(tarn_malloc(device, BYTES, server->stream, &server->input));
    CHECK(tarn_capture_begin(server->pool, server->stream, NULL, &capture));
    CHECK(tarn_malloc(device, BYTES, server->stream, &server->output)); /* stays live */
    kernel_scale(server->stream, server->output, server->input, 4.0F, COUNT);
    CHECK(tarn_capture_end(capture, &server->graph));
}

static void *serve(void *argument)
{
    struct server *server = argument;
    void *answer;
    sample_thread_open();
    for (int request = 0; request < REQUESTS; request++) {
        CHECK(tarn_malloc(device, BYTES, server->stream, &answer));
        kernel_fill(server->stream, server->input, (float)request, COUNT);
        CHECK(tarn_graph_replay(server->graph, server->stream));
        kernel_scale(server->stream, answer, server->output, 1.0F, COUNT);
        sample_order(server->stream, shared);
        kernel_axpy(shared, total, answer, 1.0F, COUNT);
        CHECK(tarn_free_on(answer, shared));
    }
    return NULL;
}

int main(void)
{
    struct server servers[THREADS];
    shared = sample_open();
    CHECK(tarn_device_open(0, NULL, &device));
    CHECK(tarn_malloc(device, BYTES, shared, &total));
    kernel_fill(shared, total, 0.0F, COUNT);
    for (int i = 0; i < THREADS; i++)
        begin(&servers[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&servers[i].thread, NULL, serve, &servers[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(servers[i].thread, NULL);
        CHECK(tarn_graph_destroy(servers[i].graph));
        CHECK(tarn_free(servers[i].output));
        CHECK(tarn_free(servers[i].input));
        CHECK(tarn_pool_destroy(servers[i].pool));
    }
    REQUIRE(sample_first(shared, total) == 4.0F * THREADS * (REQUESTS * (REQUESTS - 1) / 2));
    CHECK(tarn_free(total));
    CHECK(tarn_device_close(device));
}
