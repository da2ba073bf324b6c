// SPDX-License-Identifier: Apache-2.0
/* The runs of a scenario. The first are without a fault: they count the driver calls and host
 * allocations that the scenario makes. Then comes one for each of them and each way to fail, and one more, which
 * meets no fault.
 *
 * How many calls there are depends on nothing but the scenario: the simulator works when the program waits, or at once
 * (TARN_SIM_WORK), and the clock that the library waits by goes on by its own pauses. So each run meets the fault that
 * it was made for, on a busy machine, too. Memory whose work is awaited, and memory whose work is done, are treated
 * differently: some ways to fail see the one, some the other. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "fault/fault.h"

enum { CLEAN_RUNS = 3 };

/* How the scenario's work is done meanwhile. */
enum course {
    AWAITED,  /* when somebody waits */
    FINISHED, /* the same, and all of it before each step, since the device may be lost there */
    AT_ONCE,
    COURSES
};

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

static const enum course courses[WAYS] = {
    [ONCE_OUT_OF_MEMORY] = AWAITED,  [ONCE_UNKNOWN] = AWAITED,      [ONCE_UNSUPPORTED] = AT_ONCE,
    [LOST_DEVICE] = FINISHED,        [ON_OUT_OF_MEMORY] = AT_ONCE,  [ON_TO_THE_END] = AWAITED,
    [ONCE_NO_HOST_MEMORY] = AWAITED, [ON_NO_HOST_MEMORY] = AT_ONCE,
};

static const struct fault_scenario *scenario;

/* Shared by the processes of the tests: the driver calls and host allocations of a run without a fault. */
static uint64_t (*points)[FAULT_HOST + 1];

/* The library's clock (tarn_interpose): a reading is a microsecond, a pause as long as it was to be, however long
 * the machine has taken. */
static atomic_llong clock_ns;
int __wrap_clock_gettime(clockid_t which, struct timespec *now);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *left);
int __real_nanosleep(const struct timespec *pause, struct timespec *left);

int __wrap_clock_gettime(clockid_t which, struct timespec *now)
{
    long long ns = atomic_fetch_add(&clock_ns, 1000);

    (void)which;
    *now = (struct timespec){ns / 1000000000, ns % 1000000000};
    return 0;
}

int __wrap_nanosleep(const struct timespec *pause, struct timespec *left)
{
    (void)atomic_fetch_add(&clock_ns, pause->tv_sec * 1000000000LL + pause->tv_nsec);
    return __real_nanosleep(pause, left);
}

static enum fault_kind kind_of(enum way way)
{
    return way < ONCE_NO_HOST_MEMORY ? FAULT_DRIVER : FAULT_HOST;
}

static uint64_t points_of(enum way way)
{
    return points[courses[way]][kind_of(way)];
}

static void go(enum course course, struct fault_plan *plan)
{
    ck_assert_int_eq(setenv("TARN_SIM_WORK", course == AT_ONCE ? "at-once" : "awaited", 1), 0);
    plan->finished = course == FINISHED;
    fault_begin(plan);
    for (size_t i = 0; i < FAULT_PARTS && scenario->parts[i] != NULL && !fault_is_over(); i++)
        scenario->parts[i]();
    fault_teardown(scenario->ends);
}

/* The n-th of each course. */
START_TEST(without_faults_it_leaves_nothing_and_makes_the_same_calls_each_time)
{
    enum course course = (enum course)(_i % COURSES);
    struct fault_plan plan = {.kind = FAULT_NONE};

    go(course, &plan);
    for (enum fault_kind kind = FAULT_DRIVER; kind <= FAULT_HOST; kind++) {
        if (_i < COURSES)
            points[course][kind] = fault_points(kind);
        ck_assert_uint_eq(fault_points(kind), points[course][kind]);
    }
}
END_TEST

/* Of so many runs one is made: TARN_FAULT_EVERY in the environment. */
static int stride(void)
{
    const char *every = getenv("TARN_FAULT_EVERY");

    return every != NULL && atoi(every) > 0 ? atoi(every) : 1;
}

static void go_with(enum way way, int index, int result, bool for_good, bool teardown)
{
    enum fault_kind kind = kind_of(way);
    uint64_t nth = (uint64_t)index * (uint64_t)stride();
    struct fault_plan plan = {.kind = kind,
                              .nth = nth,
                              .result = result,
                              .for_good = for_good,
                              .through_teardown = teardown};
    const char *only = getenv("TARN_FAULT_NTH");

    if (only != NULL && strtoull(only, NULL, 10) != nth)
        return;
    go(courses[way], &plan);
    ck_assert_msg(fault_has_struck() == (nth <= points_of(way)),
                  "call %llu %s; %llu were met, and without a fault %llu", (unsigned long long)nth,
                  fault_has_struck() ? "has failed" : "did not fail",
                  (unsigned long long)fault_points(kind), (unsigned long long)points_of(way));
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

    tcase_add_loop_test(tcase, without_faults_it_leaves_nothing_and_makes_the_same_calls_each_time,
                        0, COURSES * CLEAN_RUNS);
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
        tcase_add_loop_test(tcase, test_of(way), 1, (int)points_of(way) / stride() + 2);
    suite_add_tcase(suite, tcase);
    return suite;
}

int fault_main(const struct fault_scenario *given)
{
    bool seen = true;
    int failed;

    scenario = given;
    for (size_t i = 0; i < FAULT_SETTINGS && given->settings[i].name != NULL; i++)
        (void)setenv(given->settings[i].name, given->settings[i].value, 1);
    points = mmap(NULL, COURSES * sizeof *points, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (points == MAP_FAILED)
        return 1;
    failed = test_main(srunner_create(clean_suite()));
    if (failed == 0)
        failed = test_main(srunner_create(fault_suite()));
    for (enum course course = 0; course < COURSES; course++) {
        seen = seen && points[course][FAULT_DRIVER] > 0 && points[course][FAULT_HOST] > 0;
        (void)printf("%llu driver calls, %llu host allocations\n",
                     (unsigned long long)points[course][FAULT_DRIVER],
                     (unsigned long long)points[course][FAULT_HOST]);
    }
    return failed != 0 || !seen ? 1 : 0;
}
