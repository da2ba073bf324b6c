// SPDX-License-Identifier: Apache-2.0
#include "driver/kernel.h"
#include "driver/open.h"
#include "support/world.h"
#include "unit/unit.h"

static struct tn_gpu gpu;
static tn_cu_stream stream;

static void open_gpu(void)
{
    unit_gpu(&gpu);
    stream = test_stream();
}

GROUP(kernel, open_gpu)

TEST(kernel, the_code_is_there_when_the_device_is_open)
{
    uint64_t loads = sim.call_count("cuLibraryLoadData");

    ck_assert_ptr_nonnull(atomic_load(&gpu.contents_kernel));
    OK(tn_kernels_load(&gpu, stream));
    ck_assert_uint_eq(sim.call_count("cuLibraryLoadData"), loads);
}

TEST(kernel, it_goes_with_the_device)
{
    uint64_t modules = test_ledger().modules;

    tn_gpu_close(&gpu);
    ck_assert_uint_eq(test_ledger().modules, modules - 1);
}

TEST(kernel, a_device_opens_without_it_and_loading_is_tried_again)
{
    static const struct {
        const char *call;
        tn_cu_result result;
        tarn_status status;
    } faults[] = {
        {"cuLibraryLoadData", TN_CUDA_ERROR_INVALID_PTX, TARN_ERR_NOT_SUPPORTED},
        {"cuLibraryGetKernel", TN_CUDA_ERROR_INVALID_PTX, TARN_ERR_NOT_SUPPORTED},
        {"cuLibraryGetKernel", TN_CUDA_ERROR_UNKNOWN, TARN_ERR_DRIVER},
        {"cuKernelGetFunction", TN_CUDA_ERROR_OUT_OF_MEMORY, TARN_ERR_DEVICE_MEMORY},
    };
    struct tn_gpu second = {0};

    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        uint64_t modules = test_ledger().modules;

        sim.plan_fault(faults[i].call, 1, 1, faults[i].result);
        OK(tn_gpu_open(&second, gpu.driver, 0));
        STATUS(faults[i].status, tn_kernels_load(&second, stream));
        unit_expect_sentence(faults[i].call);
        (void)sim.clear_fault(NULL);
        OK(tn_kernels_load(&second, stream));
        tn_gpu_close(&second);
        ck_assert_uint_eq(test_ledger().modules, modules);
    }
    sim.plan_fault("cuKernelGetFunction", 1, 0, TN_CUDA_ERROR_LAUNCH_FAILED);
    STATUS(TARN_ERR_DEVICE_LOST, tn_gpu_open(&second, gpu.driver, 0));
}

TEST(kernel, a_launch_in_another_context_finds_the_code)
{
    tn_cu_context before = test_context();
    tn_cu_context context;
    tn_cu_stream foreign;
    char *memory = test_linear_alloc(4096);
    struct tn_contents_item item = {.live = (uintptr_t)memory + 1024,
                                    .saved = (uintptr_t)memory + 2048,
                                    .bytes = 512,
                                    .first_tile = 0};
    struct tn_contents_table table = {
        .items = (uintptr_t)memory, .tiles = 1, .count = 1, .tile_bits = 16};

    test_write(stream, memory, &item, sizeof item);
    test_fill(stream, memory + 1024, 6, 128);
    test_synchronize(stream);
    context = test_make_context();
    foreign = test_stream();
    test_set_context(before);
    OK(tn_kernels_load(&gpu, foreign));
    OK(tn_kernel_contents(&gpu, foreign, &table, 0, TN_CONTENTS_OUT | TN_CONTENTS_COPY));
    test_synchronize(foreign);
    ck_assert_ptr_eq(test_context(), before);
    test_expect_words(stream, memory + 2048, 6, 128);
    test_end_context(context);
}

/* Of more items than a block of threads does, and nothing behind them. */
TEST(kernel, the_table_is_fetched_and_digests_begin_with_zero)
{
    enum { COUNT = 2 * TN_CONTENTS_THREADS + 3, BYTES = 32 << 10 };
    struct tn_contents_item *given = test_host_alloc((COUNT + 1) * sizeof *given);
    struct tn_contents_item *got = test_host_alloc((COUNT + 1) * sizeof *got);
    uint64_t *digests = test_host_alloc((COUNT + 1) * sizeof *digests);
    char *memory = test_linear_alloc(BYTES);
    struct tn_contents_table table = {.items = (uintptr_t)memory, .tiles = 1, .count = COUNT};
    uint64_t sums = table.items + (COUNT + 1) * sizeof *given;

    test_fill(stream, memory, 7, BYTES / 4);
    for (uint64_t i = 0; i <= COUNT; i++)
        given[i] = (struct tn_contents_item){i, i + 1000, i + 2000, i + 3000};
    OK(tn_kernel_contents_prepare(&gpu, stream, &table, (uintptr_t)given, sums));
    OK(tn_stream_download(&gpu, got, table.items, (COUNT + 1) * sizeof *got, stream));
    OK(tn_stream_download(&gpu, digests, sums, (COUNT + 1) * sizeof *digests, stream));
    test_synchronize(stream);
    ck_assert_mem_eq(got, given, COUNT * sizeof *given);
    ck_assert_uint_eq(got[COUNT].live, 0x700000007);
    for (size_t i = 0; i < COUNT; i++)
        ck_assert_uint_eq(digests[i], 0);
    ck_assert_uint_eq(digests[COUNT], 0x700000007);
    test_host_free(given);
    test_host_free(got);
    test_host_free(digests);
}

TEST(kernel, a_refused_launch_is_a_failure)
{
    struct tn_contents_table table = {.items = 16, .tiles = 1, .count = 1};

    sim.plan_fault("cuLaunchKernel", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_kernel_contents_prepare(&gpu, stream, &table, 16, 16));
    unit_expect_sentence("cuLaunchKernel");
    sim.plan_fault("cuLaunchKernel", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_kernel_contents(&gpu, stream, &table, 0, TN_CONTENTS_COPY));
    unit_expect_sentence("cuLaunchKernel");
}

TEST(kernel, tiles_are_counted_up)
{
    ck_assert_uint_eq(tn_contents_tiles(1, 16), 1);
    ck_assert_uint_eq(tn_contents_tiles(65536, 16), 1);
    ck_assert_uint_eq(tn_contents_tiles(65537, 16), 2);
    ck_assert_uint_eq(tn_contents_tiles(65537, 14), 5);
}

TEST(kernel, tiles_are_smaller_where_there_are_few)
{
    ck_assert_uint_eq(tn_contents_tile_bits(512), TN_CONTENTS_TILE_BITS_MIN);
    ck_assert_uint_eq(tn_contents_tile_bits(512 * MIB - 512), TN_CONTENTS_TILE_BITS_MIN);
    ck_assert_uint_eq(tn_contents_tile_bits(512 * MIB), 15);
    ck_assert_uint_eq(tn_contents_tile_bits(TN_GIB), TN_CONTENTS_TILE_BITS_MAX);
    ck_assert_uint_eq(tn_contents_tile_bits(100 * TN_GIB), TN_CONTENTS_TILE_BITS_MAX);
}

/* The grid's tiles reach no further than their bytes. */
TEST(kernel, a_tile_has_as_many_bytes_as_the_table_says)
{
    enum { ITEM = 48 << 10 };
    char *memory = test_linear_alloc(3 * ITEM);
    struct tn_contents_item item = {.live = (uintptr_t)memory + ITEM,
                                    .saved = (uintptr_t)memory + 2 * ITEM,
                                    .bytes = ITEM,
                                    .first_tile = 0};
    struct tn_contents_table table = {
        .items = (uintptr_t)memory, .tiles = 2, .count = 1, .tile_bits = 14};

    test_fill(stream, memory, 5, 3 * ITEM / 4);
    test_write(stream, memory, &item, sizeof item);
    test_fill(stream, memory + ITEM, 6, ITEM / 4);
    OK(tn_kernel_contents(&gpu, stream, &table, 0, TN_CONTENTS_OUT | TN_CONTENTS_COPY));
    test_expect_words(stream, memory + 2 * ITEM, 6, 2 << 14 >> 2);
    test_expect_words(stream, memory + 2 * ITEM + (2 << 14), 5, 1 << 14 >> 2);
}
