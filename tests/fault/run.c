// SPDX-License-Identifier: Apache-2.0
/* The runs of a scenario. The first is without a fault: it counts the driver calls and host
 * allocations that the scenario makes. Then comes one for each of them and each way to fail, and a
 * few more, until a run meets no fault. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "fault/fault.h"

/* How soon an event is done is not always the same, so a run may make a few calls more than the one
 * that was counted: an eighth, and some. */
enum { MORE_RUNS = 8, CLEAN_RUNS = 3 };

static const struct fault_scenario *scenario;

/* Shared by the processes of the tests. */
static struct counts {
    /* The fewest of the runs without a fault: one that is put aside for a moment asks more often whether
     * work is over. */
    uint64_t points[FAULT_HOST + 1];
    uint64_t runs;
    uint64_t struck;
    uint64_t highest[FAULT_HOST + 1]; /* run that met its fault */
} * counts;

static uint64_t run_count(enum fault_kind kind)
{
    return counts->points[kind] + counts->points[kind] / 8 + MORE_RUNS;
}

static void go(void)
{
    for (size_t i = 0; i < FAULT_PARTS && scenario->parts[i] != NULL && !fault_is_over(); i++)
        scenario->parts[i]();
    fault_teardown(scenario->ends);
}

START_TEST(without_faults_it_leaves_nothing)
{
    struct fault_plan plan = {.kind = FAULT_NONE};

    fault_begin(&plan);
    go();
    for (size_t kind = FAULT_DRIVER; kind <= FAULT_HOST; kind++) {
        if (_i == 0 || fault_points(kind) < counts->points[kind])
            counts->points[kind] = fault_points(kind);
    }
}
END_TEST

/* Of so many runs one is made: TARN_FAULT_EVERY in the environment. */
static int stride(void)
{
    const char *every = getenv("TARN_FAULT_EVERY");

    return every != NULL && atoi(every) > 0 ? atoi(every) : 1;
}

static void go_with(enum fault_kind kind, int index, int result, bool for_good, bool teardown)
{
    int nth = index * stride();
    struct fault_plan plan = {.kind = kind,
                              .nth = (uint64_t)nth,
                              .result = result,
                              .for_good = for_good,
                              .through_teardown = teardown};
    const char *only = getenv("TARN_FAULT_NTH");

    if (only != NULL && atoi(only) != nth)
        return;
    fault_begin(&plan);
    go();
    counts->runs += (uint64_t)nth <= counts->points[kind];
    counts->struck += fault_has_struck() && (uint64_t)nth <= counts->points[kind];
    if (fault_has_struck() && counts->highest[kind] < (uint64_t)nth)
        counts->highest[kind] = (uint64_t)nth;
}

START_TEST(every_driver_call_is_refused_once_with_out_of_memory)
{
    go_with(FAULT_DRIVER, _i, TN_CUDA_ERROR_OUT_OF_MEMORY, false, false);
}
END_TEST

START_TEST(every_driver_call_is_refused_once_with_an_unknown_error)
{
    go_with(FAULT_DRIVER, _i, TN_CUDA_ERROR_UNKNOWN, false, false);
}
END_TEST

START_TEST(every_driver_call_is_refused_once_as_unsupported_in_a_capture)
{
    go_with(FAULT_DRIVER, _i, TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, false, false);
}
END_TEST

START_TEST(every_driver_call_finds_the_device_lost)
{
    go_with(FAULT_DRIVER, _i, TN_CUDA_ERROR_ILLEGAL_ADDRESS, _i % 2 == 0, _i % 4 == 0);
}
END_TEST

START_TEST(from_every_driver_call_on_the_device_is_out_of_memory)
{
    go_with(FAULT_DRIVER, _i, TN_CUDA_ERROR_OUT_OF_MEMORY, true, false);
}
END_TEST

START_TEST(from_every_driver_call_on_all_are_refused_to_the_end)
{
    go_with(FAULT_DRIVER, _i, TN_CUDA_ERROR_UNKNOWN, true, _i % 2 == 0);
}
END_TEST

START_TEST(every_host_allocation_fails_once)
{
    go_with(FAULT_HOST, _i, 0, false, false);
}
END_TEST

START_TEST(from_every_host_allocation_on_all_fail_and_teardown_needs_none)
{
    go_with(FAULT_HOST, _i, 0, true, true);
}
END_TEST

static Suite *clean_suite(void)
{
    Suite *suite = suite_create(scenario->name);
    TCase *tcase = tcase_create("without faults");

    tcase_add_loop_test(tcase, without_faults_it_leaves_nothing, 0, CLEAN_RUNS);
    suite_add_tcase(suite, tcase);
    return suite;
}

static Suite *fault_suite(void)
{
    Suite *suite = suite_create(scenario->name);
    TCase *tcase = tcase_create("with faults");
    int calls = (int)run_count(FAULT_DRIVER) / stride() + 1;
    int allocations = (int)run_count(FAULT_HOST) / stride() + 1;

#define EVERY(test, end) tcase_add_loop_test(tcase, test, 1, end)
    EVERY(every_driver_call_is_refused_once_with_out_of_memory, calls);
    EVERY(every_driver_call_is_refused_once_with_an_unknown_error, calls);
    EVERY(every_driver_call_is_refused_once_as_unsupported_in_a_capture, calls);
    EVERY(every_driver_call_finds_the_device_lost, calls);
    EVERY(from_every_driver_call_on_the_device_is_out_of_memory, calls);
    EVERY(from_every_driver_call_on_all_are_refused_to_the_end, calls);
    EVERY(every_host_allocation_fails_once, allocations);
    EVERY(from_every_host_allocation_on_all_fail_and_teardown_needs_none, allocations);
#undef EVERY
    suite_add_tcase(suite, tcase);
    return suite;
}

int fault_main(const struct fault_scenario *given)
{
    bool ended = true;
    int failed;

    scenario = given;
    for (size_t i = 0; i < FAULT_SETTINGS && given->settings[i].name != NULL; i++)
        (void)setenv(given->settings[i].name, given->settings[i].value, 1);
    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counts == MAP_FAILED)
        return 1;
    failed = test_main(clean_suite());
    if (failed == 0)
        failed = test_main(fault_suite());
    (void)printf("%llu driver calls, %llu host allocations; %llu of %llu runs met their fault\n",
                 (unsigned long long)counts->points[FAULT_DRIVER],
                 (unsigned long long)counts->points[FAULT_HOST], (unsigned long long)counts->struck,
                 (unsigned long long)counts->runs);
    for (size_t kind = FAULT_DRIVER; kind <= FAULT_HOST; kind++)
        ended = ended && counts->highest[kind] < run_count(kind);
    if (!ended)
        (void)printf("the last run met a fault still: there are more points than were counted\n");
    return failed != 0 || !ended || counts->struck * 20 < counts->runs * 19 ? 1 : 0;
}
