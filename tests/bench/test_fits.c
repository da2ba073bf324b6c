// SPDX-License-Identifier: Apache-2.0
/* The model of fits, on traces made by hand. */
#include <check.h>
#include <string.h>

#include "fits.h"
#include "support/cuda.h"

enum { KIB = 1024, EVENTS_MAX = 32, SLOTS = 16 };

static struct bench_trace_event events[EVENTS_MAX];
static struct bench_trace trace;

static void begin(void)
{
    trace = (struct bench_trace){
        .name = "made", .stream_count = 2, .slot_count = SLOTS, .events = events};
}

static void allocate(uint32_t slot, uint64_t bytes, uint8_t stream)
{
    events[trace.event_count++] = (struct bench_trace_event){
        .bytes = bytes, .slot = slot, .kind = BENCH_TRACE_ALLOCATE, .stream = stream};
}

static void give_back(uint32_t slot)
{
    events[trace.event_count++] =
        (struct bench_trace_event){.slot = slot, .kind = BENCH_TRACE_FREE};
}

static uint64_t peak_of(const char *name)
{
    for (size_t i = 0; i < bench_fit_count; i++) {
        if (name == NULL ? bench_fits[i].name == NULL
                         : bench_fits[i].name != NULL && strcmp(bench_fits[i].name, name) == 0)
            return bench_fit_place(&bench_fits[i], &trace).peak_bytes;
    }
    ck_abort_msg("no fit has this name");
}

/* Holes of 10, 8 and 9 KiB, in this order of addresses; freed in the order 9, 8, 10. */
static void make_holes(void)
{
    static const uint64_t kib[] = {10, 1, 8, 1, 9, 1};

    for (uint32_t i = 0; i < 6; i++)
        allocate(i, kib[i] * KIB, 0);
    give_back(4);
    give_back(2);
    give_back(0);
}

GROUP(fits, NULL)

TEST(fits, each_fit_takes_its_own_hole)
{
    /* Then 8 KiB, and what tells which hole is left. */
    static const struct {
        const char *fit;
        uint64_t then_kib[2];
        uint64_t rises_kib;
    } cases[] = {
        {"best fit", {10, 9}, 0}, {"first fit", {9, 8}, 0},  {"first fit", {10, 9}, 9},
        {"worst fit", {9, 8}, 0}, {"worst fit", {10, 9}, 9}, {"next fit", {9, 8}, 0},
        {NULL, {10, 9}, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin();
        make_holes();
        allocate(6, 8 * KIB, 0);
        allocate(7, cases[i].then_kib[0] * KIB, 0);
        allocate(8, cases[i].then_kib[1] * KIB, 0);
        ck_assert_msg((peak_of(cases[i].fit) > 30 * KIB) == (cases[i].rises_kib > 0),
                      "case %zu rises to %zu KiB", i, (size_t)(peak_of(cases[i].fit) / KIB));
    }
}

/* Classes whose blocks are not all large enough are passed over. */
TEST(fits, classes_that_fit_as_a_whole_leave_the_exact_hole)
{
    begin();
    make_holes();
    allocate(6, 9 * KIB + 512, 0);
    ck_assert_uint_eq(peak_of("best fit"), 30 * KIB);
    ck_assert_uint_eq(peak_of("half fit"), 39 * KIB + 512);
    ck_assert_uint_eq(peak_of("two-level segregated"), 30 * KIB);
}

TEST(fits, the_heap_rises_by_what_its_last_hole_lacks)
{
    begin();
    allocate(0, 4 * KIB, 0);
    allocate(1, 2 * KIB, 0);
    give_back(1);
    allocate(2, 5 * KIB, 0);
    ck_assert_uint_eq(peak_of("best fit"), 9 * KIB);
}

TEST(fits, streams_and_kinds_have_heaps_of_their_own)
{
    begin();
    allocate(0, 600 * KIB, 0);
    give_back(0);
    allocate(1, 4 * KIB, 0);
    allocate(2, 600 * KIB, 1);
    ck_assert_uint_eq(peak_of(NULL), 1204 * KIB);
}

TEST(fits, free_neighbours_coalesce)
{
    begin();
    for (uint32_t i = 0; i < 4; i++)
        allocate(i, 4 * KIB, 0);
    give_back(0);
    give_back(2);
    give_back(1);
    allocate(4, 12 * KIB, 0);
    ck_assert_uint_eq(peak_of("first fit"), 16 * KIB);
}
