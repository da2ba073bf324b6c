// SPDX-License-Identifier: Apache-2.0
#include "nodes/layout.h"
#include "support/nodes.h"
#include "unit/unit.h"

enum { KERNELS = 200 };

static const char ptx[] =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    ".visible .entry unit_layout_mixed(.param .u8 small, .param .u64 address,\n"
    "    .param .align 8 .b8 block[40], .param .u32 last)\n{ ret; }\n"
    ".visible .entry unit_layout_bare()\n{ ret; }\n";

static struct tn_gpu gpu;
static struct tn_layouts layouts;

static void open_gpu(void)
{
    unit_gpu(&gpu);
}

static tn_cu_function kernel(const char *name)
{
    return test_kernel(ptx, name);
}

static const struct tn_layout *find(tn_cu_function function)
{
    const struct tn_layout *layout = NULL;

    OK(tn_layouts_find(&layouts, &gpu, function, &layout));
    ck_assert_ptr_eq(layout->function, function);
    return layout;
}

static void drop(void)
{
    tn_layouts_drop(&layouts);
    ck_assert_uint_eq(layouts.count, 0);
    ck_assert_int_eq(tn_host_outstanding(), 0);
}

GROUP(layouts, open_gpu)

TEST(layouts, each_parameter_has_its_place)
{
    static const struct tn_param expected[] = {{0, 1}, {8, 8}, {16, 40}, {56, 4}};
    const struct tn_layout *layout = find(kernel("unit_layout_mixed"));

    ck_assert_str_eq(layout->name, "unit_layout_mixed");
    ck_assert_uint_eq(layout->count, 4);
    ck_assert_mem_eq(layout->params, expected, sizeof expected);
    drop();
}

TEST(layouts, a_kernel_may_have_no_parameters)
{
    const struct tn_layout *layout = find(kernel("unit_layout_bare"));

    ck_assert_str_eq(layout->name, "unit_layout_bare");
    ck_assert_uint_eq(layout->count, 0);
    drop();
}

TEST(layouts, a_function_is_asked_for_once) /* D5 */
{
    tn_cu_function function = kernel("unit_layout_mixed");
    uint64_t calls;

    (void)find(function);
    calls = sim.call_count("cuFuncGetParamInfo");
    ck_assert_uint_eq(calls, 5); /* the last one is refused */
    for (int i = 0; i < 10; i++)
        ck_assert_uint_eq(find(function)->count, 4);
    ck_assert_uint_eq(sim.call_count("cuFuncGetParamInfo"), calls);
    ck_assert_uint_eq(layouts.count, 1);
    drop();
}

TEST(layouts, many_functions_are_told_apart)
{
    static tn_cu_function functions[KERNELS];
    char text[160];

    for (size_t i = 0; i < KERNELS; i++) {
        char name[32];

        (void)snprintf(
            text, sizeof text,
            ".version 7.0\n.target sm_52\n.address_size 64\n"
            ".visible .entry unit_layout_%zu(.param .align 1 .b8 block[%zu])\n{ ret; }\n",
            i, i + 1);
        (void)snprintf(name, sizeof name, "unit_layout_%zu", i);
        functions[i] = test_kernel(text, name);
        (void)find(functions[i]);
    }
    ck_assert_uint_eq(layouts.count, KERNELS);
    for (size_t i = 0; i < KERNELS; i++) {
        (void)snprintf(text, sizeof text, "unit_layout_%zu", i);
        ck_assert_str_eq(find(functions[i])->name, text);
        ck_assert_uint_eq(find(functions[i])->params[0].bytes, i + 1);
    }
    ck_assert_uint_eq(layouts.count, KERNELS);
    drop();
}

TEST(layouts, without_memory_nothing_is_kept)
{
    tn_cu_function function = kernel("unit_layout_mixed");
    const struct tn_layout *layout = NULL;

    for (uint64_t nth = 1; nth <= 3; nth++) { /* the table, the parameters, the name */
        (void)tn_host_plan_fault(nth, false);
        STATUS(TARN_ERR_HOST_MEMORY, tn_layouts_find(&layouts, &gpu, function, &layout));
        ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
        ck_assert_uint_eq(layouts.count, 0);
        ck_assert_ptr_null(layout);
        drop();
    }
    ck_assert_uint_eq(find(function)->count, 4);
    drop();
}

TEST(layouts, what_the_driver_refuses_is_asked_again)
{
    tn_cu_function function = kernel("unit_layout_mixed");
    const struct tn_layout *layout = NULL;

    sim.plan_fault("cuFuncGetParamInfo", 3, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_layouts_find(&layouts, &gpu, function, &layout));
    unit_expect_sentence("cuFuncGetParamInfo");
    ck_assert_uint_eq(layouts.count, 0);
    ck_assert_uint_eq(find(function)->count, 4);
    drop();
}

TEST(layouts, a_name_may_be_unknown)
{
    tn_cu_function function = kernel("unit_layout_mixed");

    sim.plan_fault("cuFuncGetName", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    ck_assert_ptr_null(find(function)->name);
    ck_assert_uint_eq(find(function)->count, 4);
    drop();
}
