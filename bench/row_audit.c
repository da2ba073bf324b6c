// SPDX-License-Identifier: Apache-2.0
/* An audit of a graph of 10,000 kernels: with four pointers each, into as many blocks of its pool; and with a struct of
 * 3 KiB each, which has four pointers among numbers.
 *
 * Beside it is the driver's part of that alone: its list of the nodes, each one's type and parameters. They take turns. The
 * graph is only looked through, and never instantiated. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "harness.h"
#include "report.h"
#include "rows.h"

enum {
    SAMPLES = 101,
    KERNELS = 10000,
    QUICK_KERNELS = 500,
    POINTERS = 4, /* of a kernel */
    STRUCT_WORDS = 384,
    BLOCKS = 10000,
    QUICK_BLOCKS = 500,
    BLOCK_BYTES = 4096,
};

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry tarn_bench_pointers(.param .u64 a, .param .u64 b,\n"
                          "    .param .u64 c, .param .u64 d)\n{ ret; }\n"
                          ".visible .entry tarn_bench_struct(.param .align 8 .b8 all[3072])\n"
                          "{ ret; }\n";

struct audited {
    tarn_device *device;
    tarn_pool *pool;
    tarn_stream stream;
    size_t kernel_count;
    size_t block_count;
    uint64_t *blocks;
    tn_cu_module module;
    tn_cu_graph graph;
    tn_cu_graphnode *nodes; /* room for all */
    tarn_audit *audit;
};

static void do_nothing(const tarn_sim_launch *launch, void *const *params)
{
    (void)launch;
    (void)params;
}

static tn_cu_function load(struct audited *made, const char *entry)
{
    tn_cu_function function;

    if (cu.simulated && cu.register_kernel(entry, do_nothing) != 0)
        bench_fail("the simulated driver does not take the kernel's twin");
    BENCH_CU(cu.cuModuleGetFunction(&function, made->module, entry));
    return function;
}

static void create(struct audited *made, const struct bench *bench)
{
    *made = (struct audited){.device = bench->device,
                             .stream = bench_stream_create(),
                             .kernel_count = bench->quick ? QUICK_KERNELS : KERNELS,
                             .block_count = bench->quick ? QUICK_BLOCKS : BLOCKS};
    made->blocks = calloc(made->block_count, sizeof *made->blocks);
    made->nodes = calloc(made->kernel_count, sizeof(tn_cu_graphnode));
    if (made->blocks == NULL || made->nodes == NULL)
        bench_fail("no host memory");
    BENCH_OK(tarn_pool_create(made->device, NULL, &made->pool));
    for (size_t i = 0; i < made->block_count; i++) {
        void *address = NULL;

        BENCH_OK(tarn_pool_malloc(made->pool, BLOCK_BYTES, 0, made->stream, &address));
        made->blocks[i] = (uint64_t)(uintptr_t)address;
    }
    BENCH_CU(cu.cuModuleLoadData(&made->module, ptx));
}

static void end(struct audited *made)
{
    for (size_t i = 0; i < made->block_count; i++)
        BENCH_OK(tarn_free((void *)(uintptr_t)made->blocks[i]));
    BENCH_OK(tarn_pool_destroy(made->pool));
    bench_stream_destroy(made->stream);
    BENCH_CU(cu.cuModuleUnload(made->module));
    free(made->blocks);
    free(made->nodes);
}

static uint64_t next_block(const struct audited *made, uint64_t *random)
{
    return made->blocks[(bench_random(random) >> 32) % made->block_count];
}

static void launch_with_pointers(const struct audited *made, tn_cu_function function,
                                 uint64_t *random)
{
    uint64_t pointers[POINTERS];
    void *params[POINTERS];

    for (size_t i = 0; i < POINTERS; i++) {
        pointers[i] = next_block(made, random);
        params[i] = &pointers[i];
    }
    BENCH_CU(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, made->stream, params, NULL));
}

/* As a library's own structs are: sizes, pitches in bytes, factors, and zeros. */
static void launch_with_struct(const struct audited *made, tn_cu_function function,
                               uint64_t *random)
{
    uint64_t words[STRUCT_WORDS] = {0};
    void *params[] = {words};
    const double factor = 0.125;

    for (size_t i = 0; i < STRUCT_WORDS; i += 3)
        words[i] = 512 + 64 * (i % 48);
    for (size_t i = 1; i < STRUCT_WORDS; i += 12)
        memcpy(&words[i], &factor, sizeof factor);
    for (size_t i = 2; i < STRUCT_WORDS; i += 24)
        words[i] = (uint64_t)4096 * 4096 * (1 + i % 5);
    for (size_t i = 0; i < POINTERS; i++)
        words[96 * i] = next_block(made, random);
    BENCH_CU(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, made->stream, params, NULL));
}

static void capture(struct audited *made, bool structs)
{
    tn_cu_function function = load(made, structs ? "tarn_bench_struct" : "tarn_bench_pointers");
    uint64_t random = BENCH_RANDOM_SEED;

    BENCH_CU(cu.cuGraphCreate(&made->graph, 0));
    BENCH_CU(cu.cuStreamBeginCaptureToGraph(made->stream, made->graph, NULL, NULL, 0,
                                            TN_CU_CAPTURE_MODE_GLOBAL));
    for (size_t i = 0; i < made->kernel_count; i++) {
        if (structs)
            launch_with_struct(made, function, &random);
        else
            launch_with_pointers(made, function, &random);
    }
    BENCH_CU(cu.cuStreamEndCapture(made->stream, &made->graph));
}

static void audit(void *context, size_t iterations)
{
    struct audited *made = context;
    tarn_audit_options options = TARN_AUDIT_OPTIONS_INIT;

    (void)iterations;
    options.pool = made->pool;
    BENCH_OK(tarn_driver_graph_audit(made->device, made->graph, &options, &made->audit));
}

static void check(void *context)
{
    struct audited *made = context;
    const tarn_audit *found = made->audit;

    if (found->counts[TARN_POINTER_LIVE] != POINTERS * made->kernel_count ||
        found->kernel_count != made->kernel_count || found->uninspected_count > 0)
        bench_fail("the audit found %zu pointers of %zu kernels", found->counts[TARN_POINTER_LIVE],
                   found->kernel_count);
    tarn_audit_destroy(made->audit);
}

static void read_alone(void *context, size_t iterations)
{
    struct audited *made = context;
    size_t count = made->kernel_count;

    (void)iterations;
    BENCH_CU(cu.cuGraphGetNodes(made->graph, NULL, &count));
    BENCH_CU(cu.cuGraphGetNodes(made->graph, made->nodes, &count));
    for (size_t i = 0; i < count; i++) {
        tn_cu_graphnode_type type;
        tn_cu_kernel_node_params params;

        BENCH_CU(cu.cuGraphNodeGetType(made->nodes[i], &type));
        BENCH_CU(cu.cuGraphKernelNodeGetParams(made->nodes[i], &params));
    }
}

static void measure(struct audited *made, const struct bench *bench, const char *variant)
{
    const struct bench_case cases[] = {{NULL, audit, check, made, 1},
                                       {NULL, read_alone, NULL, made, 1}};
    const struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);
    struct bench_series series[2];

    bench_measure(&plan, cases, 2, series);
    bench_report("audit", variant, NULL, "ms", bench_scaled(bench_summarize(&series[0]), 1e-6));
    bench_report("audit", variant, "the driver's part", "ms",
                 bench_scaled(bench_summarize(&series[1]), 1e-6));
}

void bench_row_audit(const struct bench *bench)
{
    static const char *const variants[] = {"10000 kernels, 4 pointers each",
                                           "10000 kernels, a struct of 3 KiB each"};
    static const char *const quick_variants[] = {"500 kernels, 4 pointers each",
                                                 "500 kernels, a struct of 3 KiB each"};
    struct audited made;

    create(&made, bench);
    for (int structs = 0; structs < 2; structs++) {
        capture(&made, structs != 0);
        measure(&made, bench, bench->quick ? quick_variants[structs] : variants[structs]);
        BENCH_CU(cu.cuGraphDestroy(made.graph));
    }
    end(&made);
}
