// SPDX-License-Identifier: Apache-2.0
/* compared.h -- what the suites of comparisons share: kernels, blocks, captures, and what is expected of a diff. */
#ifndef TARN_TESTS_COMPARED_H
#define TARN_TESTS_COMPARED_H

#include "inspect/compare.h"
#include "support/nodes.h"
#include "unit/unit.h"

enum { BYTES = 8192, PARAM_BYTES = 36 };

static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
                          ".visible .entry unit_compare(.param .u8 small, .param .u64 address,\n"
                          "    .param .align 8 .b8 block[20])\n{ ret; }\n"
                          ".visible .entry unit_compare_bare()\n{ ret; }\n";

/* unit_compare's parameters, packed. */
struct params {
    uint8_t small;
    uint64_t address;
    uint32_t block[5];
};

static tarn_device *device;
static tn_cu_stream stream;
static tn_cu_stream side;
static tn_cu_function kernel;
static tn_cu_function bare;
static char *memory; /* the driver's */
static char *block;  /* of a pool of Tarn's; and two more of the same size */
static char *second;
static char *third;
static tn_cu_event event;
static int64_t outstanding;
static tarn_graph_diff *diff;

static const struct params usual = {7, 0x1234, {1, 2, 3, 4, 5}};

static inline void open_device(void)
{
    tarn_pool *pool;

    device = unit_device();
    stream = test_stream();
    side = test_stream();
    kernel = test_kernel(ptx, "unit_compare");
    bare = test_kernel(ptx, "unit_compare_bare");
    memory = test_linear_alloc(BYTES);
    pool = unit_pool(device);
    block = unit_alloc(pool, BYTES, stream);
    second = unit_alloc(pool, BYTES, stream);
    third = unit_alloc(pool, BYTES, stream);
    event = test_event();
    outstanding = tn_host_outstanding();
}

static inline void begin(void)
{
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
}

static inline tn_cu_graph end(void)
{
    return test_end_capture(stream);
}

static inline uint64_t word_of(const void *address)
{
    return (uint64_t)(uintptr_t)address;
}

static inline void launch(const struct params *given)
{
    struct params params = *given;
    void *values[] = {&params.small, &params.address, params.block};

    test_launch_kernel(stream, kernel, values, NULL);
}

static inline void launch_packed(const struct params *given, size_t bytes)
{
    struct params params = *given;
    void *extra[] = {TN_CU_LAUNCH_PARAM_BUFFER_POINTER, &params, TN_CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, TN_CU_LAUNCH_PARAM_END};

    test_launch_kernel(stream, kernel, NULL, extra);
}

/* Names an address in a kernel's parameter. */
static inline void touch(const void *address)
{
    struct params params = usual;

    params.address = word_of(address);
    launch(&params);
}

static inline void compare(tn_cu_graph a, tn_cu_graph b, size_t count)
{
    OK(tn_graphs_compare(&device->regions, a, b, &diff));
    ck_assert(tn_lock_none_held());
    ck_assert_uint_eq(diff->difference_count, count);
    ck_assert(diff->equal == (count == 0));
    ck_assert(diff->complete == (diff->uninspected_count == 0));
    ck_assert(!diff->equal || diff->corresponds);
}

static inline void drop(tn_cu_graph a, tn_cu_graph b)
{
    tn_graph_diff_destroy(diff);
    ck_assert_int_eq(tn_host_outstanding(), outstanding);
    if (a != b)
        test_destroy_graph(b);
    test_destroy_graph(a);
}

static inline const tarn_graph_difference *expect(size_t at, tarn_graph_difference_kind kind,
                                                  uint32_t node, uint64_t a, uint64_t b)
{
    const tarn_graph_difference *difference = &diff->differences[at];

    ck_assert_uint_lt(at, diff->difference_count);
    ck_assert_int_eq(difference->kind, kind);
    ck_assert_uint_eq(difference->node, node);
    ck_assert_uint_eq(difference->values[0], a);
    ck_assert_uint_eq(difference->values[1], b);
    return difference;
}

static inline void expect_word(size_t at, uint32_t node, uint32_t param, uint32_t offset,
                               uint32_t bytes, uint64_t a, uint64_t b)
{
    const tarn_graph_difference *difference =
        expect(at, TARN_GRAPH_DIFFERENCE_PARAMETER, node, a, b);

    ck_assert_uint_eq(difference->index, param);
    ck_assert_uint_eq(difference->offset, offset);
    ck_assert_uint_eq(difference->bytes, bytes);
    ck_assert_ptr_null(difference->field);
    ck_assert_str_eq(diff->nodes[node].kernels[0], "unit_compare");
    ck_assert_str_eq(diff->nodes[node].kernels[1], "unit_compare");
}

static inline void expect_field(size_t at, tarn_graph_difference_kind kind, uint32_t node,
                                const char *field, uint64_t a, uint64_t b)
{
    ck_assert_str_eq(expect(at, kind, node, a, b)->field, field);
}

/* Each allocation of a comparison, of which there are so many at least, fails in its turn: nothing is left. */
static inline void expect_no_leak(tn_cu_graph a, tn_cu_graph b, uint64_t least)
{
    uint64_t failures = 0;
    tarn_status status;

    do {
        diff = UNTOUCHED;
        failures += 1;
        (void)tn_host_plan_fault(failures, false);
        status = tn_graphs_compare(&device->regions, a, b, &diff);
        ck_assert(status == TARN_OK || status == TARN_ERR_HOST_MEMORY);
        ck_assert_uint_eq(tn_host_plan_fault(0, false), status == TARN_OK ? 0 : 1);
        if (status == TARN_OK)
            tn_graph_diff_destroy(diff);
        else
            ck_assert_untouched(diff);
        ck_assert_int_eq(tn_host_outstanding(), outstanding);
    } while (status != TARN_OK);
    ck_assert_uint_gt(failures, least);
}

#endif
