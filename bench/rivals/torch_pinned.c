// SPDX-License-Identifier: Apache-2.0
/* torch_pinned -- what tarn_bench measures in its rows pinned and pinned_recorded, of PyTorch's
 * allocator of page-locked memory. Rows and variants have the same names, and mean the same work,
 * measured by the same harness; the lines of JSON say "PyTorch", or "PyTorch, N register threads" as
 * the rival.
 *
 * It is a program of its own since this allocator needs the library of tensors, and since PyTorch
 * reads its configuration once in a process: the program starts itself anew with the configuration in
 * its environment. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "player.h"
#include "quiet.h"
#include "report.h"
#include "torch_allocator.h"
#include "torch_host_allocator.h"
#include "waits.h"

#define MIB ((size_t)1 << 20)

enum {
    FIRST_MIB = 4096,
    FIRST_QUICK_MIB = 64,
    BLOCK_MIB = 16,
    BLOCKS_MAX = 256,
    FIRST_SAMPLES = 5,
    WRITTEN_PART = 16, /* of the first, one of so many bytes is written */
    PAIR_SAMPLES = 101,
    TRACES_MAX = 16,
    THREADS_MAX = 128,
};

static const char *const configurations[] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"};
static char rival[48] = "PyTorch";
static bool quick;

/* ---- the first ------------------------------------------------------------------------------- */

enum figure { TIME_MS, WAIT_MOST_US, WAIT_LONGEST_US, WRITE_GBS, FIGURES };

struct looked_at {
    void *stream;
    void *memory;
};

static void look(void *context)
{
    const struct looked_at *at = context;

    torch_device_set(at->memory, BENCH_WAITS_BYTES, at->stream);
}

static void measure_first(const struct looked_at *at, size_t count, size_t bytes,
                          double figures[FIGURES])
{
    struct torch_host_block blocks[BLOCKS_MAX];
    struct bench_waits waits;
    size_t written = count > 1 ? 1 + (count - 1) / WRITTEN_PART : 1;
    size_t written_bytes = count > 1 ? bytes : bytes / WRITTEN_PART;
    uint64_t begin;

    torch_host_empty();
    bench_waits_open(&waits, (struct bench_look){torch_enter_thread, look, (void *)at});
    bench_waits_begin(&waits);
    begin = bench_now();
    for (size_t i = 0; i < count; i++)
        blocks[i] = torch_host_allocate(bytes);
    figures[TIME_MS] = (double)(bench_now() - begin) * 1e-6;
    bench_waits_end(&waits, &figures[WAIT_MOST_US], &figures[WAIT_LONGEST_US]);
    begin = bench_now();
    for (size_t i = 0; i < written; i++)
        memset(blocks[i].address, 1, written_bytes);
    figures[WRITE_GBS] = (double)(written * written_bytes) / (double)(bench_now() - begin);
    for (size_t i = 0; i < count; i++)
        torch_host_free(blocks[i]);
}

static void row_first(const char *what, size_t count, size_t bytes)
{
    static const struct {
        const char *behind;
        const char *unit;
    } names[FIGURES] = {{"", "ms"},
                        {", others wait, 99.9 %", "us"},
                        {", others wait, longest", "us"},
                        {", first written", "GB/s"}};
    static struct bench_series series[FIGURES];
    struct looked_at at = {torch_stream_create(), torch_device_allocate(BENCH_WAITS_BYTES)};

    for (int i = 0; i < FIGURES; i++)
        series[i].count = 0;
    for (int sample = 0; sample < (quick ? 1 : FIRST_SAMPLES); sample++) {
        double figures[FIGURES];

        measure_first(&at, count, bytes, figures);
        for (int i = 0; i < FIGURES; i++)
            bench_series_add(&series[i], figures[i]);
    }
    for (int i = 0; i < FIGURES; i++) {
        char variant[64];

        (void)snprintf(variant, sizeof variant, "%.36s%s", what, names[i].behind);
        bench_report("pinned", variant, rival, names[i].unit, bench_summarize(&series[i]));
    }
    torch_stream_destroy(at.stream);
}

static void row_firsts(void)
{
    const size_t mib = quick ? FIRST_QUICK_MIB : FIRST_MIB;
    const char *size = quick ? "64 MiB" : "4 GiB";
    char what[32];

    (void)snprintf(what, sizeof what, "first %s", size);
    row_first(what, mib / BLOCK_MIB, BLOCK_MIB * MIB);
    (void)snprintf(what, sizeof what, "one block of %s", size);
    row_first(what, 1, mib * MIB);
}

/* ---- pairs ----------------------------------------------------------------------------------- */

static void run_pairs(void *context, size_t iterations)
{
    const size_t *bytes = context;

    for (size_t i = 0; i < iterations; i++)
        torch_host_free(torch_host_allocate(*bytes));
}

static void row_pairs(void)
{
    static struct bench_series series;
    size_t bytes = MIB;
    struct bench_case subject = {NULL, run_pairs, NULL, &bytes, 0};
    struct bench_plan plan = bench_plan_for(quick, PAIR_SAMPLES);

    bench_measure(&plan, &subject, 1, &series);
    bench_report("pinned", "pair, 1 MiB", rival, "ns", bench_summarize(&series));
}

/* ---- recorded traces --------------------------------------------------------------------------- */

/* The contexts of live blocks, by slot. */
static void open_recorded(struct bench_player *player)
{
    torch_host_empty();
    player->context = calloc(player->trace->slot_count, sizeof(struct torch_host_block));
    if (player->context == NULL)
        bench_fail("no host memory");
}

static void *allocate_recorded(struct bench_player *player, const struct bench_trace_event *event)
{
    struct torch_host_block *blocks = player->context;

    blocks[event->slot] = torch_host_allocate(event->bytes);
    return blocks[event->slot].address;
}

static void free_recorded(struct bench_player *player, const struct bench_trace_event *event)
{
    const struct torch_host_block *blocks = player->context;

    torch_host_free(blocks[event->slot]);
}

static void use_recorded(struct bench_player *player, const struct bench_trace_event *event)
{
    const struct torch_host_block *blocks = player->context;

    torch_host_use(blocks[event->slot], player->streams[event->stream]);
}

static void get_peaks_recorded(struct bench_player *player, uint64_t *reserved, uint64_t *allocated)
{
    (void)player;
    torch_host_get_peaks(reserved, allocated);
}

static void close_recorded(struct bench_player *player)
{
    torch_host_empty();
    free(player->context);
}

static void row_recorded(const struct bench_trace *trace)
{
    const struct bench_allocator allocator = {
        .rival = rival,
        .open = open_recorded,
        .stream_create = torch_stream_create,
        .stream_destroy = torch_stream_destroy,
        .stream_drain = torch_stream_drain,
        .allocate = allocate_recorded,
        .free = free_recorded,
        .use = use_recorded,
        .get_peaks = get_peaks_recorded,
        .close = close_recorded,
    };
    struct bench_player player = {
        .allocator = &allocator, .trace = trace, .row = "pinned_recorded"};

    bench_players_compare(&player, 1, quick);
}

/* ---- the program ------------------------------------------------------------------------------- */

struct options {
    const char *out_path;
    unsigned long thread_count; /* 0: PyTorch as it comes */
    size_t trace_count;
    const char *trace_paths[TRACES_MAX];
};

static bool read_threads(const char *text, unsigned long *count)
{
    char *end = NULL;

    *count = strtoul(text, &end, 10);
    return *end == '\0' && *count > 0 && *count <= THREADS_MAX && (*count & (*count - 1)) == 0;
}

static bool parse(int count, char **arguments, struct options *options)
{
    for (int i = 1; i < count; i++) {
        const char *argument = arguments[i];
        bool more = i + 1 < count;

        if (strcmp(argument, "--quick") == 0)
            quick = true;
        else if (strcmp(argument, "--register") == 0 && more &&
                 read_threads(arguments[i + 1], &options->thread_count))
            i += 1;
        else if (strcmp(argument, "--out") == 0 && more)
            options->out_path = arguments[++i];
        else if (strcmp(argument, "--trace") == 0 && more && options->trace_count < TRACES_MAX)
            options->trace_paths[options->trace_count++] = arguments[++i];
        else
            return false;
    }
    return true;
}

/* PyTorch looks at its configuration before main begins, so the program begins again, once. */
static void configure(char **arguments, unsigned long thread_count)
{
    char wanted[128] = "pinned_use_cuda_host_register:False";
    bool set = true;

    if (thread_count > 0)
        (void)snprintf(wanted, sizeof wanted,
                       "pinned_use_cuda_host_register:True,pinned_num_register_threads:%lu",
                       thread_count);
    for (size_t i = 0; i < sizeof configurations / sizeof configurations[0]; i++) {
        const char *is = getenv(configurations[i]);

        set = set && is != NULL && strcmp(is, wanted) == 0;
        if (setenv(configurations[i], wanted, 1) != 0)
            bench_fail("%s: the environment has no room left", configurations[i]);
    }
    if (!set) {
        (void)execv("/proc/self/exe", arguments);
        bench_fail("cannot start itself anew: %s", strerror(errno));
    }
    if (thread_count > 0)
        (void)snprintf(rival, sizeof rival, "PyTorch, %lu register threads", thread_count);
}

static void measure(const struct options *options, const struct bench_trace traces[TRACES_MAX])
{
    struct torch_device device = {.driver_version = 0};
    struct bench_machine machine = {.simulated = false};

    torch_open(&device);
    machine.device_name = device.name;
    machine.driver_version = device.driver_version;
    bench_report_begin(&machine, options->out_path);
    row_firsts();
    row_pairs();
    for (size_t i = 0; i < options->trace_count; i++)
        row_recorded(&traces[i]);
    bench_report_end();
}

int main(int count, char **arguments)
{
    struct options options = {.out_path = NULL};
    struct bench_trace traces[TRACES_MAX];
    char error[BENCH_TRACE_ERROR_BYTES];

    if (!parse(count, arguments, &options)) {
        (void)fputs(
            "usage: torch_pinned [--register N] [--trace FILE]... [--quick] [--out FILE]\n"
            "  --register N  PyTorch registers memory that N threads touch, a power of two\n"
            "  --trace FILE  a recorded trace of page-locked memory (docs/traces.md)\n"
            "  --quick       few samples: to see that it works, not to keep the figures\n"
            "  --out FILE    append a line of JSON for each result\n",
            stderr);
        return 2;
    }
    for (size_t i = 0; i < options.trace_count; i++) {
        if (!bench_trace_load(options.trace_paths[i], &traces[i], error))
            bench_fail("%s %s", options.trace_paths[i], error);
    }
    configure(arguments, options.thread_count);
    bench_quiet_choose(true);
    measure(&options, traces);
    for (size_t i = 0; i < options.trace_count; i++)
        bench_trace_destroy(&traces[i]);
    return 0;
}
