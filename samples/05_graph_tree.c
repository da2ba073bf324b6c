// SPDX-License-Identifier: Apache-2.0
/* 05_graph_tree.c -- a tree of graphs in one pool, with a checkpoint at each node.
 *
 * A program whose path depends on data captures its sections one by one, and what a section leaves
 * for the next ones stays allocated between the graphs:
 *
 *                  ┌── double ── shift
 *        start ── triple
 *                  └── mix
 *
 * Each node's graph is captured in the state in which its parent ends: the parent's outputs live, all
 * else is free. So before a branch is recorded, the pool is put back to the parent's checkpoint. What
 * `double` left is free then, and `mix` uses the same memory: the tree costs what its longest path
 * costs, not the sum of its branches. Only one path runs at a time, so that does no harm. */
#include <stdint.h>
#include <stdio.h>

#include "common/driver.h"
#include "common/kernels.h"
#include "tarn/tarn.h"

enum { COUNT = 256 * 1024, BYTES = COUNT * sizeof(float) };

/* What all nodes work with. */
static tarn_device *device;
static tarn_pool *pool;
static tarn_stream stream;
static void *input; /* outlives every graph */

typedef struct node {
    const char *name;
    struct node *parent;
    /* Computes the output from the parent's; scratch is free again when the section ends. */
    void (*section)(void *output, const void *from, void *scratch);
    tarn_graph *graph;
    void *output;                /* of the capture: live in the states of this node and below it */
    tarn_checkpoint *checkpoint; /* the pool's state when the node has run */
} node;

static void triple(void *output, const void *from, void *scratch)
{
    kernel_scale(stream, scratch, from, 2.0F, COUNT);
    kernel_add(stream, output, scratch, from, COUNT);
}

static void twice(void *output, const void *from, void *scratch)
{
    kernel_scale(stream, scratch, from, 1.0F, COUNT);
    kernel_add(stream, output, scratch, from, COUNT);
}

static void shift(void *output, const void *from, void *scratch)
{
    kernel_fill(stream, scratch, 100.0F, COUNT);
    kernel_add(stream, output, from, scratch, COUNT);
}

static void mix(void *output, const void *from, void *scratch)
{
    kernel_scale(stream, scratch, from, -1.0F, COUNT);
    kernel_add(stream, output, scratch, input, COUNT);
}

static uint64_t mapped_bytes(void)
{
    tarn_stats stats = TARN_STATS_INIT;
    CHECK(tarn_pool_stats(pool, &stats));
    return stats.mapped_bytes.all.current;
}

/* Puts the pool into the state in which a node ends. No bytes are put back: they are computed. */
static void go_to(const node *n)
{
    tarn_delta *delta = NULL;
    CHECK(tarn_checkpoint_restore(n->checkpoint, stream, &delta));
    printf("  at %s: %zu blocks freed, %zu live again\n", n->name, delta->freed_count,
           delta->revived_count);
    tarn_delta_destroy(delta);
}

/* Captures a node's section behind its parent, and takes the checkpoint of the state that it leaves. */
static void record(node *n)
{
    tarn_capture *capture = NULL;
    void *scratch = NULL;
    go_to(n->parent);
    CHECK(tarn_capture_begin(pool, stream, NULL, &capture));
    CHECK(tarn_malloc(device, BYTES, stream, &n->output));
    CHECK(tarn_malloc(device, BYTES, stream, &scratch));
    n->section(n->output, n->parent->output, scratch);
    CHECK(tarn_free(scratch));
    CHECK(tarn_capture_end(capture, &n->graph));
    CHECK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, stream, &n->checkpoint));
    printf("recorded %s behind %s: the pool maps %.1f MiB\n", n->name, n->parent->name,
           (double)mapped_bytes() / (1 << 20));
}

static void forget(node *n)
{
    CHECK(tarn_checkpoint_destroy(n->checkpoint));
    CHECK(tarn_graph_destroy(n->graph));
    n->checkpoint = NULL;
    n->graph = NULL;
}

static void replay_path(const node *n)
{
    if (n->parent != NULL) {
        replay_path(n->parent);
        CHECK(tarn_graph_replay(n->graph, stream));
    }
}

/* Runs the path to a node with all inputs of one value, and compares what comes out. */
static void expect(const node *n, float value, float result)
{
    static float host[COUNT];
    go_to(n);
    kernel_fill(stream, input, value, COUNT);
    replay_path(n);
    sample_copy_to_host(stream, host, n->output, BYTES);
    for (size_t i = 0; i < COUNT; i++) {
        REQUIRE(host[i] == result);
    }
    printf("replayed the path to %s: %.1f gives %.1f\n", n->name, (double)value, (double)result);
}

int main(void)
{
    sample_driver_open();
    kernels_load();
    stream = sample_stream_create();
    CHECK(tarn_device_open(0, NULL, &device));
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    options.name = "sample 5";
    CHECK(tarn_pool_create(device, &options, &pool));
    CHECK(tarn_pool_malloc(pool, BYTES, 0, stream, &input));

    /* The root is no graph: the state with nothing but the input. */
    node start = {.name = "start", .output = input};
    node tripled = {.name = "triple", .parent = &start, .section = triple};
    node doubled = {.name = "double", .parent = &tripled, .section = twice};
    node shifted = {.name = "shift", .parent = &doubled, .section = shift};
    node mixed = {.name = "mix", .parent = &tripled, .section = mix};
    CHECK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, stream, &start.checkpoint));

    /* The first path, then a branch from its middle, in the memory that the path has there. */
    record(&tripled);
    record(&doubled);
    record(&shifted);
    uint64_t mapped_by_path = mapped_bytes();
    record(&mixed);
    REQUIRE(mapped_bytes() == mapped_by_path);
    REQUIRE(mixed.output == doubled.output);

    /* Any path, any number of times. */
    for (int round = 1; round <= 2; round++) {
        float value = (float)round;
        expect(&shifted, value, 6.0F * value + 100.0F);
        expect(&mixed, value, -2.0F * value);
        expect(&doubled, value, 6.0F * value);
    }

    /* A branch that is dropped and recorded again gets the same addresses: the same calls after the
     * same restore do, as long as the pool maps the same memory. */
    void *output = mixed.output;
    forget(&mixed);
    record(&mixed);
    REQUIRE(mixed.output == output);
    expect(&mixed, 7.0F, -14.0F);

    /* Back to the root: nothing is live but the input. */
    go_to(&start);
    forget(&mixed);
    forget(&shifted);
    forget(&doubled);
    forget(&tripled);
    CHECK(tarn_checkpoint_destroy(start.checkpoint));
    CHECK(tarn_free(input));
    CHECK(tarn_pool_destroy(pool));
    CHECK(tarn_device_close(device));
    sample_stream_destroy(stream);
    kernels_unload();
    sample_driver_close();
    return 0;
}
