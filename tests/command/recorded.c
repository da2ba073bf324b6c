// SPDX-License-Identifier: Apache-2.0
/* A program that records, for the tests of the command: it allocates in functions with names, says where,
 * and waits to be killed.
 *
 *     recorded          leaks blocks, captures a graph, frees a block that the graph reads, and replays
 *     recorded churn N  allocates and frees N times, on top
 *     recorded more     leaks five blocks with a tag and a label in a range, on top
 *     recorded two      opens a second device
 *     recorded brief    allocates, closes its device, and ends with status 3 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/driver.h"
#include "tarn/tarn.h"

/* Neither inlined nor left by a jump: each is a frame. */
#ifdef __clang__
#define FRAME __attribute__((noinline))
#else
#define FRAME __attribute__((noinline, noclone))
#endif

static tarn_device *device;
static tarn_pool *pool;
static tarn_stream stream;

static inline __attribute__((always_inline)) void *allocate(size_t bytes)
{
    void *block = NULL;

    CHECK(tarn_malloc(device, bytes, stream, &block)); /* line of allocate */
    return block;
}

static FRAME void leak_weights(void)
{
    for (int i = 0; i < 3; i++)
        (void)allocate(1000000); /* line of leak_weights */
}

static FRAME void leak_table(void)
{
    (void)allocate(5000); /* line of leak_table */
}

static FRAME void leak_more(void)
{
    uint64_t range;

    CHECK(tarn_range_begin(device, "more leaks", &range));
    CHECK(tarn_label_set("a label"));
    for (int i = 0; i < 5; i++)
        CHECK(tarn_block_set_tag(allocate(20000), 77)); /* line of leak_more */
    CHECK(tarn_label_set(NULL));
    CHECK(tarn_range_end(device, range));
}

/* Its name is one of C++. */
static FRAME void make_tables(void) __asm__("_ZN6tables4makeEi");
static FRAME void make_tables(void)
{
    leak_table();
}

static FRAME void *make_scratch(void)
{
    void *block = NULL;

    CHECK(tarn_pool_malloc(pool, 70000, 0, stream, &block)); /* line of make_scratch */
    return block;
}

static FRAME void churn(unsigned long count)
{
    for (unsigned long i = 0; i < count; i++)
        CHECK(tarn_free(allocate(512 + 512 * (i % 3))));
}

/* Its device leaves no file. */
static int be_brief(void)
{
    CHECK(tarn_free(allocate(1000)));
    (void)sleep(1); /* who looks for the file may be slow */
    CHECK(tarn_device_close(device));
    sample_stream_destroy(stream);
    sample_driver_close();
    return 3;
}

int main(int count, char **arguments)
{
    const char *mode = count > 1 ? arguments[1] : "";
    tarn_device *other = NULL;
    tarn_capture *capture;
    tarn_graph *graph;
    void *scratch;

    sample_driver_open();
    stream = sample_stream_create();
    CHECK(tarn_device_open(0, NULL, &device));
    if (strcmp(mode, "brief") == 0)
        return be_brief();
    CHECK(tarn_pool_create(device, NULL, &pool));
    make_tables();
    leak_weights();
    CHECK(tarn_capture_begin(pool, stream, NULL, &capture));
    scratch = make_scratch();
    CHECK(tarn_free(scratch));
    CHECK(tarn_capture_end(capture, &graph));
    CHECK(tarn_graph_replay(graph, stream));
    CHECK(tarn_graph_replay(graph, stream));
    if (strcmp(mode, "churn") == 0 && count > 2)
        churn(strtoul(arguments[2], NULL, 10));
    if (strcmp(mode, "more") == 0)
        leak_more();
    if (strcmp(mode, "two") == 0)
        CHECK(tarn_device_open(1, NULL, &other));
    (void)printf("scratch %" PRIxPTR "\n", (uintptr_t)scratch);
    (void)fflush(stdout);
    (void)alarm(300); /* where nobody kills it */
    for (;;)
        (void)pause();
}
