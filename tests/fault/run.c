// SPDX-License-Identifier: Apache-2.0
/* The runs of a scenario. The first are without a fault: they count the driver calls and host
 * allocations that the scenario makes. Then comes one for each of them and each way to fail, and a
 * few more, until a run meets no fault.
 *
 * A run may make fewer calls than were counted, and end before its fault. It is made again then, until each call has
 * been made to fail in each way: no part of them is left out. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "fault/fault.h"

/* How soon an event is done is not always the same, so a run may make a few calls more than the one
 * that was counted: an eighth, and some. */
enum { MORE_RUNS = 8, CLEAN_RUNS = 3 };

/* How often the runs that ended before their fault are made again, and the largest number of a call. */
enum { AGAIN_MAX = 20, NTH_MAX = 4096 };

/* The ways to fail. */
enum way {
    ONCE_OUT_OF_MEMORY,
    ONCE_UNKNOWN,
    ONCE_UNSUPPORTED,
    LOST_DEVICE,
    ON_OUT_OF_MEMORY,
    ON_TO_THE_END,
    ONCE_NO_HOST_MEMORY,
    ON_NO_HOST_MEMORY,
    WAYS
};

static const struct fault_scenario *scenario;

/* Shared by the processes of the tests. */
static struct counts {
    /* The fewest of the runs without a fault: one that is put aside for a moment asks more often whether
     * work is over. */
    uint64_t points[FAULT_HOST + 1];
    uint64_t highest[FAULT_HOST + 1]; /* run that met its fault */
    bool met[WAYS][NTH_MAX];
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
    for (enum fault_kind kind = FAULT_DRIVER; kind <= FAULT_HOST; kind++) {
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

static enum fault_kind kind_of(enum way way)
{
    return way < ONCE_NO_HOST_MEMORY ? FAULT_DRIVER : FAULT_HOST;
}

static void go_with(enum way way, int index, int result, bool for_good, bool teardown)
{
    enum fault_kind kind = kind_of(way);
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
    counts->met[way][nth] = fault_has_struck();
    ck_assert_msg(fault_has_struck() || fault_points(kind) < (uint64_t)nth,
                  "%llu points were met, and number %d did not fail",
                  (unsigned long long)fault_points(kind), nth);
    if (fault_has_struck() && counts->highest[kind] < (uint64_t)nth)
        counts->highest[kind] = (uint64_t)nth;
}

START_TEST(every_driver_call_is_refused_once_with_out_of_memory)
{
    go_with(ONCE_OUT_OF_MEMORY, _i, TN_CUDA_ERROR_OUT_OF_MEMORY, false, false);
}
END_TEST

START_TEST(every_driver_call_is_refused_once_with_an_unknown_error)
{
    go_with(ONCE_UNKNOWN, _i, TN_CUDA_ERROR_UNKNOWN, false, false);
}
END_TEST

START_TEST(every_driver_call_is_refused_once_as_unsupported_in_a_capture)
{
    go_with(ONCE_UNSUPPORTED, _i, TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, false, false);
}
END_TEST

START_TEST(every_driver_call_finds_the_device_lost)
{
    go_with(LOST_DEVICE, _i, TN_CUDA_ERROR_ILLEGAL_ADDRESS, _i % 2 == 0, _i % 4 == 0);
}
END_TEST

START_TEST(from_every_driver_call_on_the_device_is_out_of_memory)
{
    go_with(ON_OUT_OF_MEMORY, _i, TN_CUDA_ERROR_OUT_OF_MEMORY, true, false);
}
END_TEST

START_TEST(from_every_driver_call_on_all_are_refused_to_the_end)
{
    go_with(ON_TO_THE_END, _i, TN_CUDA_ERROR_UNKNOWN, true, _i % 2 == 0);
}
END_TEST

START_TEST(every_host_allocation_fails_once)
{
    go_with(ONCE_NO_HOST_MEMORY, _i, 0, false, false);
}
END_TEST

START_TEST(from_every_host_allocation_on_all_fail_and_teardown_needs_none)
{
    go_with(ON_NO_HOST_MEMORY, _i, 0, true, true);
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

static const TTest *test_of(enum way way)
{
    switch (way) {
    case ONCE_OUT_OF_MEMORY:
        return every_driver_call_is_refused_once_with_out_of_memory;
    case ONCE_UNKNOWN:
        return every_driver_call_is_refused_once_with_an_unknown_error;
    case ONCE_UNSUPPORTED:
        return every_driver_call_is_refused_once_as_unsupported_in_a_capture;
    case LOST_DEVICE:
        return every_driver_call_finds_the_device_lost;
    case ON_OUT_OF_MEMORY:
        return from_every_driver_call_on_the_device_is_out_of_memory;
    case ON_TO_THE_END:
        return from_every_driver_call_on_all_are_refused_to_the_end;
    case ONCE_NO_HOST_MEMORY:
        return every_host_allocation_fails_once;
    default:
        return from_every_host_allocation_on_all_fail_and_teardown_needs_none;
    }
}

static Suite *fault_suite(void)
{
    Suite *suite = suite_create(scenario->name);
    TCase *tcase = tcase_create("with faults");

    for (enum way way = 0; way < WAYS; way++)
        tcase_add_loop_test(tcase, test_of(way), 1, (int)run_count(kind_of(way)) / stride() + 1);
    suite_add_tcase(suite, tcase);
    return suite;
}

/* The runs that have not met the fault that they were made for; *count: how many. */
static Suite *suite_again(uint64_t *count)
{
    Suite *suite = suite_create(scenario->name);
    TCase *tcase = tcase_create("with faults, again");

    *count = 0;
    for (enum way way = 0; way < WAYS; way++) {
        uint64_t points = counts->points[kind_of(way)];

        for (int i = 1; (uint64_t)(i * stride()) <= points; i++) {
            if (counts->met[way][i * stride()])
                continue;
            *count += 1;
            tcase_add_loop_test(tcase, test_of(way), i, i + 1);
        }
    }
    suite_add_tcase(suite, tcase);
    return suite;
}

/* Runs what has not met its fault again; how many have not in the end. */
static uint64_t run_again(int *failed)
{
    uint64_t count;

    for (int round = 0;; round++) {
        Suite *suite = suite_again(&count);

        if (count == 0 || round == AGAIN_MAX || *failed != 0) {
            srunner_free(srunner_create(suite));
            return count;
        }
        (void)printf("%llu runs ended before their fault, and are made again\n",
                     (unsigned long long)count);
        *failed = test_main(suite);
    }
}

int fault_main(const struct fault_scenario *given)
{
    bool ended = true;
    uint64_t unmet = 0;
    int failed;

    scenario = given;
    for (size_t i = 0; i < FAULT_SETTINGS && given->settings[i].name != NULL; i++)
        (void)setenv(given->settings[i].name, given->settings[i].value, 1);
    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counts == MAP_FAILED)
        return 1;
    failed = test_main(clean_suite());
    for (enum fault_kind kind = FAULT_DRIVER; kind <= FAULT_HOST; kind++) {
        if (run_count(kind) >= NTH_MAX)
            return 1;
    }
    if (failed == 0)
        failed = test_main(fault_suite());
    if (getenv("TARN_FAULT_NTH") == NULL)
        unmet = run_again(&failed);
    (void)printf("%llu driver calls, %llu host allocations; %llu runs did not meet their fault\n",
                 (unsigned long long)counts->points[FAULT_DRIVER],
                 (unsigned long long)counts->points[FAULT_HOST], (unsigned long long)unmet);
    for (enum fault_kind kind = FAULT_DRIVER; kind <= FAULT_HOST; kind++)
        ended = ended && counts->highest[kind] < run_count(kind);
    if (!ended)
        (void)printf("the last run met a fault still: there are more points than were counted\n");
    return failed != 0 || !ended || unmet > 0 ? 1 : 0;
}
