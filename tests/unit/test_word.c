// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "driver/word.h"
#include "support/world.h"
#include "unit/unit.h"

static struct tn_gpu gpu;
static tn_cu_stream stream;
static tarn_sim_ledger before;

static void open_gpu(void)
{
    unit_gpu(&gpu);
    stream = test_stream();
    sim.read_ledger(&before);
}

static void leaves_nothing(void)
{
    tarn_sim_ledger after;

    sim.read_ledger(&after);
    ck_assert_uint_eq(after.handles, before.handles);
    ck_assert_uint_eq(after.mappings, before.mappings);
    ck_assert_uint_eq(after.reservations, before.reservations);
}

static void close_gpu(void)
{
    test_synchronize(stream);
    leaves_nothing();
    OK(tn_gpu_check(&gpu));
}

static struct tn_word_memory make(enum tn_word_place place)
{
    struct tn_word_memory memory;

    OK(tn_word_memory_create(&gpu, place, 100, &memory));
    ck_assert_uint_eq(memory.bytes, 2 * MIB);
    ck_assert_uint_eq(memory.address % memory.bytes, 0);
    return memory;
}

static int exported(const struct tn_word_memory *memory)
{
    int descriptor = -1;

    OK(tn_word_memory_export(&gpu, memory, &descriptor));
    ck_assert_int_ge(descriptor, 0);
    return descriptor;
}

/* Has a stream write a word, and waits for it. */
static void write_word(uint64_t address, uint64_t value, bool wide)
{
    tn_cu_batch_op op = tn_word_write(address, value, wide);

    OK(tn_stream_do_words(&gpu, stream, &op, 1));
    test_synchronize(stream);
}

static atomic_uint_least64_t *word_at(const struct tn_word_memory *memory)
{
    return (atomic_uint_least64_t *)(uintptr_t)memory->address;
}

GROUP(word, open_gpu, close_gpu)

TEST_LOOP(word, memory_is_mapped_for_streams_and_shown_by_an_import, 0, 2)
{
    enum tn_word_place place = _i == 0 ? TN_WORDS_ON_HOST : TN_WORDS_ON_DEVICE;
    struct tn_word_memory memory = make(place);
    struct tn_word_memory same;
    int descriptor = exported(&memory);

    OK(tn_word_memory_import(&gpu, place, 100, descriptor, &same));
    close(descriptor);
    ck_assert_uint_ne(same.address, memory.address);
    write_word(memory.address, UINT64_C(5) << 40, true);
    ck_assert_uint_eq(*word_at(&same), UINT64_C(5) << 40);
    write_word(same.address, (UINT64_C(1) << 32) + 7, false); /* the low half */
    ck_assert_uint_eq(*word_at(&memory), (UINT64_C(5) << 40) + 7);
    tn_word_memory_end(&gpu, &memory);
    write_word(same.address, 8, true);
    tn_word_memory_end(&gpu, &same);
}

TEST(word, operations_are_done_in_their_order_and_wait)
{
    struct tn_word_memory memory = make(TN_WORDS_ON_HOST);
    tn_cu_batch_op ops[4] = {
        tn_word_write(memory.address, 1, true),
        tn_word_await_equal(memory.address + 8, 3),
        tn_word_await(memory.address + 16, UINT64_C(1) << 40, true),
        tn_word_write(memory.address, 2, true),
    };

    memset((void *)(uintptr_t)memory.address, 0, 64);
    OK(tn_stream_do_words(&gpu, stream, ops, 4));
    while (word_at(&memory)[0] == 0)
        sched_yield();
    ck_assert(test_is_at_work(stream));
    word_at(&memory)[2] = UINT64_C(1) << 41;
    word_at(&memory)[1] = 4; /* another one */
    ck_assert(test_is_at_work(stream));
    word_at(&memory)[1] = 3;
    test_synchronize(stream);
    ck_assert_uint_eq(word_at(&memory)[0], 2);
    tn_word_memory_end(&gpu, &memory);
}

TEST(word, the_legacy_stream_breaks_no_capture)
{
    struct tn_word_memory memory = make(TN_WORDS_ON_HOST);
    tn_cu_batch_op op = tn_word_write(memory.address, 1, true);
    tn_cu_stream blocking = test_blocking_stream();

    OK(tn_stream_do_words(&gpu, NULL, &op, 1));
    OK(tn_stream_do_words(&gpu, TN_CU_STREAM_PER_THREAD, &op, 1));
    test_begin_capture(blocking, TN_CU_CAPTURE_MODE_RELAXED);
    STATUS(TARN_ERR_WRONG_STATE, tn_stream_do_words(&gpu, NULL, &op, 1));
    ck_assert_int_eq((int)test_capture_status(blocking), (int)TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tn_stream_do_words(&gpu, blocking, &op, 1));
    test_destroy_graph(test_end_capture(blocking));
    test_synchronize(NULL);
    test_synchronize(TN_CU_STREAM_PER_THREAD);
    tn_word_memory_end(&gpu, &memory);
}

TEST(word, a_broken_capture_is_named)
{
    struct tn_word_memory memory = make(TN_WORDS_ON_HOST);
    tn_cu_batch_op op = tn_word_write(memory.address, 1, true);

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    test_break_capture();
    STATUS(TARN_ERR_CAPTURE_BROKEN, tn_stream_do_words(&gpu, stream, &op, 1));
    test_end_broken_capture(stream);
    tn_word_memory_end(&gpu, &memory);
}

/* What the driver refuses, and what then is left: nothing. */
TEST_LOOP(word, a_refusal_leaves_nothing, 0, 7)
{
    static const char *const calls[] = {"cuMemGetAllocationGranularity",
                                        "cuMemCreate",
                                        "cuMemAddressReserve",
                                        "cuMemMap",
                                        "cuMemSetAccess",
                                        "cuMemImportFromShareableHandle",
                                        "cuMemExportToShareableHandle"};
    static const tarn_status statuses[] = {TARN_ERR_DEVICE_MEMORY, TARN_ERR_DEVICE_MEMORY,
                                           TARN_ERR_ADDRESS_SPACE, TARN_ERR_DEVICE_MEMORY,
                                           TARN_ERR_DEVICE_MEMORY, TARN_ERR_DEVICE_MEMORY,
                                           TARN_ERR_DEVICE_MEMORY};
    struct tn_word_memory memory = make(TN_WORDS_ON_HOST);
    struct tn_word_memory other = {.bytes = 7};
    int descriptor = exported(&memory);

    sim.plan_fault(calls[_i], 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    if (_i == 6) {
        STATUS(statuses[_i], tn_word_memory_export(&gpu, &memory, &descriptor));
    } else if (_i == 5) {
        STATUS(statuses[_i],
               tn_word_memory_import(&gpu, TN_WORDS_ON_HOST, 100, descriptor, &other));
    } else {
        STATUS(statuses[_i], tn_word_memory_create(&gpu, TN_WORDS_ON_HOST, 100, &other));
        sim.plan_fault(calls[_i], 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
        if (_i != 1)
            STATUS(statuses[_i],
                   tn_word_memory_import(&gpu, TN_WORDS_ON_HOST, 100, descriptor, &other));
        sim.clear_fault(NULL);
    }
    ck_assert_uint_eq(other.bytes, 7);
    close(descriptor);
    tn_word_memory_end(&gpu, &memory);
    leaves_nothing();
}

TEST(word, memory_of_another_kind_is_refused)
{
    struct tn_word_memory memory = make(TN_WORDS_ON_DEVICE);
    struct tn_word_memory other;
    int ends[2];
    int descriptor = exported(&memory);

    /* A processor has no access to memory of the device. */
    STATUS(TARN_ERR_DRIVER, tn_word_memory_import(&gpu, TN_WORDS_ON_HOST, 100, descriptor, &other));
    STATUS(TARN_ERR_DRIVER,
           tn_word_memory_import(&gpu, TN_WORDS_ON_DEVICE, 3 * MIB, descriptor, &other));
    close(descriptor);
    ck_assert_int_eq(pipe(ends), 0);
    STATUS(TARN_ERR_DRIVER, tn_word_memory_import(&gpu, TN_WORDS_ON_DEVICE, 100, ends[0], &other));
    STATUS(TARN_ERR_DRIVER, tn_word_memory_import(&gpu, TN_WORDS_ON_DEVICE, 100, -1, &other));
    close(ends[0]);
    close(ends[1]);
    tn_word_memory_end(&gpu, &memory);
}

TEST(word, streams_may_have_wide_words)
{
    bool wide = false;

    OK(tn_words_require(&gpu, &wide));
    ck_assert(wide);
    sim.plan_fault("cuDeviceGetAttribute", 1, 0, TN_CUDA_ERROR_INVALID_VALUE);
    STATUS(TARN_ERR_DRIVER, tn_words_require(&gpu, &wide));
}

static void open_without_batches(void)
{
    const struct tn_driver *driver;

    (void)setenv("TARN_SIM_MISSING", "cuStreamBatchMemOp", 1);
    OK(tn_driver_load(&driver));
    OK(tn_gpu_open(&gpu, driver, 0));
}

GROUP(without_batches, open_without_batches)

TEST(without_batches, words_are_not_supported)
{
    bool wide = false;

    STATUS(TARN_ERR_NOT_SUPPORTED, tn_words_require(&gpu, &wide));
    unit_expect_sentence("cuStreamBatchMemOp");
}
