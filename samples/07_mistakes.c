// SPDX-License-Identifier: Apache-2.0
/* 07_mistakes.c -- what a captured graph must not refer to, and what Tarn says when it does.
 *
 * A graph is a list of addresses, and nothing in CUDA looks at them again: a replay that reads memory which was freed
 * reads garbage and reports success. Here mistakes are planted, one in each graph; the graph is looked through, and the
 * report printed. No graph with a mistake in it is ever launched: it does not have to run to be read.
 *
 * At the end two guards meet the first mistake: one refuses the replay, the other keeps the memory. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/driver.h"
#include "common/kernels.h"
#include "tarn/tarn.h"

enum { COUNT = 16 * 1024, BYTES = COUNT * sizeof(float), SCRATCH_BYTES = 64 << 20 };

static tarn_device *device;
static tarn_stream stream;
static tarn_pool *pool;    /* the graphs' own */
static tarn_pool *weights; /* another one: what it has is external to the graphs */
static void *input;        /* NULL between the mistakes */
static void *output;       /* is never wrong */

static void *take(tarn_pool *from)
{
    void *block = NULL;
    CHECK(tarn_pool_malloc(from, BYTES, 0, stream, &block));
    return block;
}

static void give_back(void **block)
{
    CHECK(tarn_free(*block));
    *block = NULL;
}

static tarn_pool *new_pool(const char *name)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *made = NULL;
    options.name = name;
    CHECK(tarn_pool_create(device, &options, &made));
    return made;
}

/* -- Sections. They allocate nothing: what a graph allocates itself, it holds. ------------------------- */

static void read_input(void)
{
    kernel_scale(stream, output, input, 2.0F, COUNT);
}

/* A kernel that takes one struct, with two pointers in it. To the driver that is a parameter of 24 bytes. */
typedef struct scaling {
    float factor;
    uint32_t count;
    void *out;
    const void *in;
} scaling;

_Static_assert(sizeof(scaling) == 24, "what the kernel's text says");

static const char scale_all_ptx[] = ".version 7.0\n"
                                    ".target sm_70\n"
                                    ".address_size 64\n"
                                    ".visible .entry scale_all(.param .align 8 .b8 what[24])\n"
                                    "{ ret; }\n"; /* it is never launched */
static sample_kernel scale_all;

static void scale_all_twin(const tarn_sim_launch *launch, void *const *params)
{
    (void)launch;
    (void)params;
}

static void read_input_by_struct(void)
{
    scaling what = {2.0F, COUNT, output, input};
    void *params[] = {&what};
    sample_launch(stream, scale_all, COUNT, params);
}

static void set_too_many_bytes(void)
{
    sample_set(stream, input, 0, BYTES + 256);
}

/* The address of a local variable is written into the graph, and read by each replay. */
static void copy_from_the_stack(void)
{
    float row[64] = {0.0F};
    sample_copy_to_device(stream, input, row, sizeof row);
}

static tarn_graph *capture(tarn_pool *into, void (*section)(void))
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    CHECK(tarn_capture_begin(into, stream, NULL, &capture));
    section();
    CHECK(tarn_capture_end(capture, &graph));
    return graph;
}

/* -- Mistakes. Each gives a graph that must not be replayed. ------------------------------------------ */

static tarn_graph *input_of_another_pool_freed(void)
{
    input = take(weights);
    tarn_graph *graph = capture(pool, read_input);
    give_back(&input);
    return graph;
}

/* To be of the graph's own pool does not help: the graph holds what it allocated, and this was there before. */
static tarn_graph *input_of_own_pool_freed(void)
{
    input = take(pool);
    tarn_graph *graph = capture(pool, read_input);
    give_back(&input);
    return graph;
}

static tarn_graph *address_used_again(void)
{
    input = take(weights);
    const void *before = input;
    tarn_graph *graph = capture(pool, read_input);
    give_back(&input);
    input = take(weights); /* somebody else's, later */
    REQUIRE(input == before);
    return graph;
}

/* The input is what another pool's graph computes. Nothing has the one replay wait for the other. */
static tarn_graph *writer; /* that other graph */
static void compute_input(void)
{
    CHECK(tarn_malloc(device, BYTES, stream, &input)); /* is live when the section ends */
    kernel_fill(stream, input, 1.0F, COUNT);
}

static tarn_graph *output_of_another_pools_graph(void)
{
    writer = capture(weights, compute_input);
    return capture(pool, read_input);
}

static tarn_graph *bytes_beyond_the_end(void)
{
    input = take(weights);
    return capture(pool, set_too_many_bytes);
}

static tarn_graph *pointer_in_a_struct(void)
{
    input = take(weights);
    tarn_graph *graph = capture(pool, read_input_by_struct);
    give_back(&input);
    return graph;
}

static tarn_graph *source_on_the_stack(void)
{
    input = take(weights);
    return capture(pool, copy_from_the_stack);
}

static tarn_graph *pool_of_the_input_destroyed(void)
{
    tarn_pool *passing = new_pool("passing");
    input = take(passing);
    tarn_graph *graph = capture(pool, read_input);
    give_back(&input);
    CHECK(tarn_pool_destroy(passing)); /* its memory is not mapped there any more */
    return graph;
}

/* The driver's own memory has no owner in Tarn: what was freed there nobody knows any more. */
static void *scratch;
static void set_scratch(void)
{
    sample_set(stream, scratch, 0, BYTES);
}

static tarn_graph *memory_of_the_driver_freed(void)
{
    scratch = sample_device_alloc(SCRATCH_BYTES);
    tarn_graph *graph = capture(pool, set_scratch);
    sample_device_free(scratch);
    return graph;
}

static const struct mistake {
    const char *what;
    tarn_graph *(*plant)(void);
    tarn_pointer_class expected;
} mistakes[] = {
    {"an input of another pool was freed", input_of_another_pool_freed,
     TARN_POINTER_FREED_EXTERNAL},
    {"an input of the own pool was freed", input_of_own_pool_freed, TARN_POINTER_FREED},
    {"an input was freed, and another block is there now", address_used_again,
     TARN_POINTER_USED_AGAIN},
    {"an input is another pool's graph's output", output_of_another_pools_graph,
     TARN_POINTER_UNORDERED},
    {"a set goes beyond the end of a block", bytes_beyond_the_end, TARN_POINTER_BEYOND},
    {"a pointer in a struct is of a freed block", pointer_in_a_struct, TARN_POINTER_FREED_EXTERNAL},
    {"a copy's source is a local variable", source_on_the_stack, TARN_POINTER_PAGEABLE},
    {"the input's pool was destroyed", pool_of_the_input_destroyed, TARN_POINTER_UNMAPPED},
    {"memory of the driver's was freed", memory_of_the_driver_freed, TARN_POINTER_UNKNOWN},
};

static void print_report(const tarn_audit *audit)
{
    size_t length = 0;
    CHECK(tarn_audit_report(audit, TARN_REPORT_TEXT, NULL, 0, &length));
    char *text = malloc(length + 1);
    REQUIRE(text != NULL);
    CHECK(tarn_audit_report(audit, TARN_REPORT_TEXT, text, length + 1, NULL));
    fputs(text, stdout);
    free(text);
}

static void show(const struct mistake *m)
{
    tarn_graph *graph = m->plant();
    tarn_audit *audit = NULL;
    CHECK(tarn_graph_audit(graph, NULL, &audit));
    printf("\n-- %s\n", m->what);
    print_report(audit);
    REQUIRE(audit->mistake_count == 1);
    REQUIRE(audit->mistakes[0].pointer_class == m->expected);
    REQUIRE(audit->uninspected_count == 0);
    tarn_audit_destroy(audit);
    CHECK(tarn_graph_destroy(graph));
    CHECK(tarn_graph_destroy(writer)); /* of most it is NULL, which is allowed */
    writer = NULL;
    if (input != NULL) {
        give_back(&input);
    }
}

/* A graph of which the first mistake is made under that guard. */
static tarn_graph *guarded(tarn_guard guard)
{
    input = take(weights);
    kernel_fill(stream, input, 3.0F, COUNT);
    tarn_graph *graph = capture(pool, read_input);
    CHECK(tarn_graph_guard(graph, guard, NULL));
    CHECK(tarn_graph_check(graph));
    give_back(&input);
    return graph;
}

static void show_refuse(void)
{
    tarn_graph *graph = guarded(TARN_GUARD_REFUSE);
    REQUIRE(tarn_graph_check(graph) == TARN_ERR_STALE);
    REQUIRE(tarn_graph_replay(graph, stream) == TARN_ERR_STALE);
    printf("\n-- TARN_GUARD_REFUSE: the input was freed, and a replay answers %s\n%s\n",
           tarn_status_name(TARN_ERR_STALE), tarn_last_error());
    CHECK(tarn_graph_destroy(graph));
}

static void show_keep(void)
{
    static float host[COUNT];
    tarn_graph *graph = guarded(TARN_GUARD_KEEP);
    void *other = take(weights); /* is somewhere else, for what was freed is kept */
    kernel_fill(stream, other, 5.0F, COUNT);
    CHECK(tarn_graph_check(graph));
    CHECK(tarn_graph_replay(graph, stream));
    sample_copy_to_host(stream, host, output, BYTES);
    for (size_t i = 0; i < COUNT; i++) {
        REQUIRE(host[i] == 6.0F);
    }
    printf("\n-- TARN_GUARD_KEEP: the input was freed, and a replay is right: 2 * 3 = %.0f\n",
           (double)host[0]);
    CHECK(tarn_graph_destroy(graph)); /* now the input's memory goes back */
    CHECK(tarn_free(other));
}

int main(void)
{
    sample_driver_open();
    kernels_load();
    scale_all = sample_kernel_load(scale_all_ptx, "scale_all", scale_all_twin);
    stream = sample_stream_create();
    CHECK(tarn_device_open(0, NULL, &device));
    pool = new_pool("sample 7");
    weights = new_pool("weights");
    tarn_pool *outside = NULL;
    CHECK(tarn_device_default_pool(device, &outside));
    output = take(outside);

    const size_t count = sizeof(mistakes) / sizeof(mistakes[0]);
    for (size_t i = 0; i < count; i++) {
        show(&mistakes[i]);
    }
    show_refuse();
    show_keep();
    printf("\n%zu mistakes were planted and named, and none was launched\n", count);

    give_back(&output);
    CHECK(tarn_pool_destroy(weights));
    CHECK(tarn_pool_destroy(pool));
    CHECK(tarn_device_close(device));
    sample_stream_destroy(stream);
    sample_kernel_unload(scale_all);
    kernels_unload();
    sample_driver_close();
    return 0;
}
