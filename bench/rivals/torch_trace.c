// SPDX-License-Identifier: Apache-2.0
/* torch_trace -- what tarn_bench measures, of PyTorch's allocator: pairs on one and on several threads, the
 * random trace of the limits, growth, its history, and recorded traces. Rows and variants have the same names, and
 * mean the same work, measured by the same harness; the lines of JSON say "PyTorch" or "PyTorch,
 * expandable segments" as the rival.
 *
 * It is a program of its own since PyTorch reads its configuration once in a process: with --expandable
 * it starts itself anew with that configuration in its environment. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "player.h"
#include "quiet.h"
#include "report.h"
#include "script_compare.h"
#include "torch_allocator.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

enum {
    SAMPLES = 101,
    THREADS_MAX = 16,
    THREAD_SAMPLES = 41,
    WINDOW_NS = 20000000,
    WINDOW_QUICK_NS = 1000000,
    WARM_UP_PAIRS = 200, /* on each thread, before its window opens */
    GROWTH_STEPS = 256,  /* of 32 MiB: 8 GiB */
    GROWTH_WARM_UP_RUNS = 3,
    GROWTH_SAMPLES_MAX = 16,
    TRACES_MAX = 16,
};

static const char *const configurations[] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"};
static const char *rival = "PyTorch";
static bool quick;

/* ---- pairs --------------------------------------------------------------------------------- */

struct pairs {
    void *stream;
    size_t bytes;
};

static void run_pairs(void *context, size_t iterations)
{
    const struct pairs *pairs = context;

    for (size_t i = 0; i < iterations; i++)
        torch_free(torch_allocate(pairs->bytes, pairs->stream));
}

static void measure_pairs(const char *variant, size_t bytes)
{
    struct pairs pairs = {torch_stream_create(), bytes};
    struct bench_case subject = {NULL, run_pairs, NULL, &pairs, 0};
    struct bench_plan plan = bench_plan_for(quick, SAMPLES);
    struct bench_series series;

    bench_measure(&plan, &subject, 1, &series);
    bench_report("pair", variant, rival, "ns", bench_summarize(&series));
    torch_stream_destroy(pairs.stream);
}

static void prepare_recorded(void *context)
{
    (void)context;
    torch_record(true);
}

static void prepare_unrecorded(void *context)
{
    (void)context;
    torch_record(false);
}

/* What PyTorch's own history adds to a pair. */
static void row_history(void)
{
    struct pairs pairs = {torch_stream_create(), 4096};
    struct bench_case cases[] = {
        {prepare_unrecorded, run_pairs, NULL, &pairs, 0},
        {prepare_recorded, run_pairs, NULL, &pairs, 0},
    };
    struct bench_plan plan = bench_plan_for(quick, SAMPLES);
    struct bench_series series[2];

    bench_measure(&plan, cases, 2, series);
    torch_record(false);
    bench_report("history", "pair without", rival, "ns", bench_summarize(&series[0]));
    bench_report("history", "pair recorded", rival, "ns", bench_summarize(&series[1]));
    bench_report("history", "pair recorded, added", rival, "ns",
                 bench_difference(&series[1], &series[0]));
    torch_stream_destroy(pairs.stream);
}

/* What the threads of one sample share. */
struct window {
    atomic_uint ready;
    atomic_bool open;
    atomic_bool closed;
};

struct worker {
    struct pairs pairs;
    struct window *window;
    pthread_t thread;
    uint64_t pair_count; /* done in the window */
};

static void *work(void *context)
{
    struct worker *worker = context;
    struct window *window = worker->window;
    uint64_t count = 0;

    torch_enter_thread();
    run_pairs(&worker->pairs, WARM_UP_PAIRS);
    atomic_fetch_add(&window->ready, 1);
    while (!atomic_load_explicit(&window->open, memory_order_acquire))
        (void)sched_yield();
    for (; !atomic_load_explicit(&window->closed, memory_order_relaxed); count++)
        run_pairs(&worker->pairs, 1);
    worker->pair_count = count;
    return NULL;
}

/* The pairs that so many threads do together, in millions a second. */
static double measure_rate(struct worker *workers, unsigned thread_count)
{
    struct window window = {.ready = 0};
    struct timespec rest = {0, quick ? WINDOW_QUICK_NS : WINDOW_NS};
    uint64_t begin;
    uint64_t end;
    uint64_t pair_count = 0;

    for (unsigned i = 0; i < thread_count; i++) {
        workers[i].window = &window;
        bench_thread_start(&workers[i].thread, work, &workers[i]);
    }
    while (atomic_load(&window.ready) < thread_count)
        (void)sched_yield();
    begin = bench_now();
    atomic_store(&window.open, true);
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        ;
    atomic_store(&window.closed, true);
    end = bench_now();
    for (unsigned i = 0; i < thread_count; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        pair_count += workers[i].pair_count;
    }
    return (double)pair_count / (double)(end - begin) * 1e3;
}

static void measure_threads(void)
{
    struct worker workers[THREADS_MAX];
    struct bench_plan plan = bench_plan_for(quick, THREAD_SAMPLES);
    struct bench_series alone = {.count = 0};
    struct bench_series together = {.count = 0};
    cpu_set_t allowed;
    unsigned thread_count = THREADS_MAX;
    char variant[64];

    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) < THREADS_MAX)
        thread_count = CPU_COUNT(&allowed) < 2 ? 2 : (unsigned)CPU_COUNT(&allowed);
    for (unsigned i = 0; i < thread_count; i++)
        workers[i].pairs = (struct pairs){torch_stream_create(), MIB};
    for (size_t round = 0; round < plan.sample_count; round++) {
        bench_series_add(&alone, measure_rate(workers, 1));
        bench_series_add(&together, measure_rate(workers, thread_count));
    }
    for (unsigned i = 0; i < thread_count; i++)
        torch_stream_destroy(workers[i].pairs.stream);
    bench_report("pair", "1 MiB, 1 thread", rival, "million pairs/s", bench_summarize(&alone));
    (void)snprintf(variant, sizeof variant, "1 MiB, %u threads", thread_count);
    bench_report("pair", variant, rival, "million pairs/s", bench_summarize(&together));
}

static void row_pair(void)
{
    measure_pairs("512 B", 512);
    measure_pairs("64 KiB", (size_t)64 << 10);
    measure_pairs("1 MiB", MIB);
    measure_pairs("32 MiB", 32 * MIB);
    measure_threads();
}

/* ---- the random trace ---------------------------------------------------------------------- */

static void open_script(struct script_player *player)
{
    torch_empty();
    player->stream = torch_stream_create();
}

static void *allocate_script(const struct script_player *player, size_t bytes)
{
    return torch_allocate(bytes, player->stream);
}

static void free_script(const struct script_player *player, void *address)
{
    (void)player;
    torch_free(address);
}

static void drain_script(const struct script_player *player)
{
    torch_stream_drain(player->stream);
}

static void get_peaks_script(const struct script_player *player, uint64_t *reserved,
                             uint64_t *allocated)
{
    (void)player;
    torch_get_peaks(reserved, allocated);
}

static void close_script(struct script_player *player)
{
    torch_empty();
    torch_stream_destroy(player->stream);
}

static void row_trace(void)
{
    const struct script_allocator allocator = {
        .rival = rival,
        .open = open_script,
        .allocate = allocate_script,
        .free = free_script,
        .drain = drain_script,
        .get_peaks = get_peaks_script,
        .close = close_script,
    };
    struct script_comparison comparison = {.bytes_max = SCRIPT_COMPARE_BYTES_MAX, .quick = quick};
    struct script_player player = {.allocator = &allocator};

    script_players_compare(&comparison, &player, 1);
}

/* ---- growth -------------------------------------------------------------------------------- */

struct growth {
    void *stream;
    void *blocks[GROWTH_STEPS];
};

static void grow(void *context, size_t iterations)
{
    struct growth *growth = context;

    (void)iterations;
    for (size_t i = 0; i < GROWTH_STEPS; i++)
        growth->blocks[i] = torch_allocate(32 * MIB, growth->stream);
}

static void shrink(void *context)
{
    struct growth *growth = context;

    for (size_t i = 0; i < GROWTH_STEPS; i++)
        torch_free(growth->blocks[i]);
    torch_empty();
}

/* As many samples as there is memory that the driver has not had back from this process, and so has
 * to clear; the row of tarn_bench says more. */
static void row_growth(void)
{
    struct growth growth = {.stream = torch_stream_create()};
    struct bench_case subject = {NULL, grow, shrink, &growth, 1};
    size_t runs = torch_free_bytes() / (8 * GIB);
    size_t samples = runs > GROWTH_WARM_UP_RUNS + 1 ? runs - GROWTH_WARM_UP_RUNS : 1;
    struct bench_plan plan = {.sample_count =
                                  samples < GROWTH_SAMPLES_MAX ? samples : GROWTH_SAMPLES_MAX};
    struct bench_series series;

    torch_empty();
    bench_measure(&plan, &subject, 1, &series);
    bench_report("growth", "8 GiB", rival, "us", bench_scaled(bench_summarize(&series), 1e-3));
    torch_stream_destroy(growth.stream);
}

/* ---- recorded traces ----------------------------------------------------------------------- */

static void open_recorded(struct bench_player *player)
{
    (void)player;
    torch_empty();
}

static void *allocate_recorded(struct bench_player *player, const struct bench_trace_event *event)
{
    return torch_allocate(event->bytes, player->streams[event->stream]);
}

static void free_recorded(struct bench_player *player, const struct bench_trace_event *event)
{
    torch_free(player->blocks[event->slot]);
}

static void use_recorded(struct bench_player *player, const struct bench_trace_event *event)
{
    torch_use(player->blocks[event->slot], player->streams[event->stream]);
}

static void get_peaks_recorded(struct bench_player *player, uint64_t *reserved, uint64_t *allocated)
{
    (void)player;
    torch_get_peaks(reserved, allocated);
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
        .close = open_recorded,
    };
    struct bench_player player = {.allocator = &allocator, .trace = trace, .row = "recorded"};

    bench_players_compare(&player, 1, quick);
}

/* ---- the program --------------------------------------------------------------------------- */

struct options {
    const char *out_path;
    bool expandable;
    size_t trace_count;
    const char *trace_paths[TRACES_MAX];
    bool only_traces;
};

static bool parse(int count, char **arguments, struct options *options)
{
    for (int i = 1; i < count; i++) {
        const char *argument = arguments[i];
        bool more = i + 1 < count;

        if (strcmp(argument, "--quick") == 0)
            quick = true;
        else if (strcmp(argument, "--expandable") == 0)
            options->expandable = true;
        else if (strcmp(argument, "--only-traces") == 0)
            options->only_traces = true;
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
static void configure(char **arguments, bool expandable)
{
    const char *wanted = expandable ? "expandable_segments:True" : "expandable_segments:False";
    bool set = true;

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
    if (expandable)
        rival = "PyTorch, expandable segments";
}

static void load_traces(const struct options *options, struct bench_trace traces[TRACES_MAX])
{
    char error[BENCH_TRACE_ERROR_BYTES];

    for (size_t i = 0; i < options->trace_count; i++) {
        if (!bench_trace_load(options->trace_paths[i], &traces[i], error))
            bench_fail("%s %s", options->trace_paths[i], error);
    }
}

/* Growth comes first, on memory that the process has not had yet. */
static void measure(const struct options *options, const struct bench_trace traces[TRACES_MAX])
{
    struct torch_device device = {.driver_version = 0};
    struct bench_machine machine = {.simulated = false};

    torch_open(&device);
    machine.device_name = device.name;
    machine.driver_version = device.driver_version;
    bench_report_begin(&machine, options->out_path);
    if (!options->only_traces) {
        row_growth();
        row_pair();
        row_history();
        row_trace();
    }
    for (size_t i = 0; i < options->trace_count; i++)
        row_recorded(&traces[i]);
    bench_report_end();
}

int main(int count, char **arguments)
{
    struct options options = {.out_path = NULL};
    struct bench_trace traces[TRACES_MAX];

    if (!parse(count, arguments, &options)) {
        (void)fputs("usage: torch_trace [--expandable] [--trace FILE]... [--only-traces] [--quick] "
                    "[--out FILE]\n"
                    "  --expandable   PyTorch with expandable segments; without it, without them\n"
                    "  --trace FILE   a recorded trace (docs/traces.md); may be repeated\n"
                    "  --only-traces  leaves out pairs, the random trace and growth\n"
                    "  --quick        few samples: to see that it works, not to keep the figures\n"
                    "  --out FILE     append a line of JSON for each result\n",
                    stderr);
        return 2;
    }
    load_traces(&options, traces);
    configure(arguments, options.expandable);
    bench_quiet_choose(true);
    measure(&options, traces);
    for (size_t i = 0; i < options.trace_count; i++)
        bench_trace_destroy(&traces[i]);
    return 0;
}
