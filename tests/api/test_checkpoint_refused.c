// SPDX-License-Identifier: Apache-2.0
/* Checkpoints that are refused: every reason, and that nothing has changed then. */
#include <stdlib.h>

#include "support/world.h"

enum { WORDS = 4096 };

SUITE("checkpoints refused")
GROUP(refusals, test_world_open, test_world_close)

TEST(refusals, bad_arguments_of_checkpoints_are_refused)
{
    _Alignas(128) uint64_t zeros[1024] = {0}; /* aligned as a record is */
    tarn_checkpoint *checkpoint = UNTOUCHED;
    tarn_checkpoint *foreign[] = {NULL, (tarn_checkpoint *)(void *)zeros,
                                  (tarn_checkpoint *)(void *)world.pool};
    tarn_delta *delta = UNTOUCHED;

    REFUSE(TARN_ERR_INVALID_HANDLE, "pool",
           tarn_checkpoint_take(NULL, TARN_CONTENTS_NONE, world.stream, &checkpoint));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool",
           tarn_checkpoint_take((tarn_pool *)(void *)zeros, TARN_CONTENTS_NONE, world.stream,
                                &checkpoint));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "checkpoint is NULL",
           tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, world.stream, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "contents",
           tarn_checkpoint_take(world.pool, (tarn_contents)3, world.stream, &checkpoint));
    REFUSE(TARN_ERR_WRONG_STATE, "default pool",
           tarn_checkpoint_take(world.default_pool, TARN_CONTENTS_NONE, NULL, &checkpoint));
    ck_assert_untouched(checkpoint);
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        REFUSE(TARN_ERR_INVALID_HANDLE, "checkpoint",
               tarn_checkpoint_restore(foreign[i], world.stream, &delta));
        if (foreign[i] != NULL)
            REFUSE(TARN_ERR_INVALID_HANDLE, "checkpoint", tarn_checkpoint_destroy(foreign[i]));
    }
    checkpoint = test_take(TARN_CONTENTS_NONE);
    REFUSE(TARN_ERR_WRONG_STATE, "without contents",
           tarn_checkpoint_verify(checkpoint, world.stream));
    OK(tarn_checkpoint_destroy(checkpoint));
    REFUSE(TARN_ERR_INVALID_HANDLE, "checkpoint", tarn_checkpoint_destroy(checkpoint));
    REFUSE(TARN_ERR_INVALID_HANDLE, "checkpoint", tarn_checkpoint_verify(checkpoint, world.stream));
    REFUSE(TARN_ERR_INVALID_HANDLE, "checkpoint",
           tarn_checkpoint_restore(checkpoint, world.stream, &delta));
    ck_assert_untouched(delta);
}

TEST(refusals, while_a_capture_is_under_way_checkpoints_are_refused)
{
    void *address = test_filled(WORDS, 1);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_DEVICE);
    tarn_checkpoint *second = UNTOUCHED;
    tarn_delta *delta = UNTOUCHED;
    tarn_capture *capture = NULL;

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    REFUSE(TARN_ERR_WRONG_STATE, "capture",
           tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, world.side, &second));
    REFUSE(TARN_ERR_WRONG_STATE, "capture",
           tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.side, &second));
    REFUSE(TARN_ERR_WRONG_STATE, "capture",
           tarn_checkpoint_restore(checkpoint, world.side, &delta));
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_capture_abort(capture));
    test_await_destructors(0);
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED); /* of no pool */
    REFUSE(TARN_ERR_WRONG_STATE, "stream is being captured",
           tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &second));
    REFUSE(TARN_ERR_WRONG_STATE, "stream is being captured",
           tarn_checkpoint_restore(checkpoint, world.stream, &delta));
    REFUSE(TARN_ERR_WRONG_STATE, "stream is being captured",
           tarn_checkpoint_verify(checkpoint, world.stream));
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_destroy_graph(test_end_capture(world.stream));
    ck_assert_untouched(second);
    ck_assert_untouched(delta);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(address));
}

/* What is enqueued on the legacy stream breaks captures of blocking streams, other pools' too. */
TEST(refusals, contents_are_not_copied_on_the_legacy_stream_beside_a_blocking_capture)
{
    static const tn_cu_stream handles[] = {NULL, TN_CU_STREAM_LEGACY};
    void *address = test_filled(WORDS, 1);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_DEVICE);
    tarn_checkpoint *state = test_take(TARN_CONTENTS_NONE);
    tarn_checkpoint *second = UNTOUCHED;
    tarn_delta *delta = UNTOUCHED;
    tarn_pool *other = test_pool("other");
    tn_cu_stream blocking = test_blocking_stream();
    tarn_capture *capture;

    test_synchronize(world.stream);
    capture = test_capture_on(other, blocking, TARN_CAPTURE_RELAXED);
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        REFUSE(TARN_ERR_WRONG_STATE, "legacy",
               tarn_checkpoint_take(world.pool, TARN_CONTENTS_HOST, handles[i], &second));
        REFUSE(TARN_ERR_WRONG_STATE, "legacy",
               tarn_checkpoint_restore(checkpoint, handles[i], &delta));
        REFUSE(TARN_ERR_WRONG_STATE, "legacy", tarn_checkpoint_verify(checkpoint, handles[i]));
        OK(tarn_checkpoint_restore(state, handles[i], NULL)); /* which enqueues nothing */
    }
    OK(tarn_checkpoint_restore(checkpoint, world.side, NULL));
    ck_assert_int_eq(test_capture_status(blocking), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_graph_destroy(test_capture_end(capture)));
    OK(tarn_checkpoint_restore(checkpoint, NULL, NULL));
    test_synchronize(NULL);
    ck_assert_untouched(second);
    ck_assert_untouched(delta);
    OK(tarn_checkpoint_destroy(state));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(address));
    OK(tarn_pool_destroy(other));
    test_destroy_stream(blocking);
}

TEST(refusals, a_discarded_block_in_the_way_is_named)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    tarn_checkpoint *checkpoint;
    tarn_delta *delta = UNTOUCHED;
    void *block;
    void *discarded;

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    block = test_malloc(4 * MIB);
    OK(tarn_capture_end(capture, &graph));
    checkpoint = test_take(TARN_CONTENTS_NONE);
    OK(tarn_free(block));
    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    discarded = test_malloc(4 * MIB);
    ck_assert_ptr_eq(discarded, block);
    OK(tarn_capture_abort(capture));
    test_await_destructors(1);
    REFUSE(TARN_ERR_WRONG_STATE, "free it first",
           tarn_checkpoint_restore(checkpoint, world.stream, &delta));
    ck_assert_untouched(delta);
    OK(tarn_free(discarded));
    tarn_delta_destroy(test_restore(checkpoint, 0, 1));
    OK(tarn_free(block));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_graph_destroy(graph));
}

TEST(refusals, a_take_that_the_driver_refuses_leaves_nothing)
{
    static const struct {
        const char *call;
        tn_cu_result result;
        tarn_status status;
        uint64_t nth;
    } faults[] = {
        {"cuEventCreate", TN_CUDA_ERROR_UNKNOWN, TARN_ERR_DRIVER, 1},
        {"cuMemCreate", TN_CUDA_ERROR_UNKNOWN, TARN_ERR_DRIVER, 1}, /* of the host */
        {"cuMemCreate", TN_CUDA_ERROR_OUT_OF_MEMORY, TARN_ERR_HOST_MEMORY, 1},
        {"cuMemCreate", TN_CUDA_ERROR_UNKNOWN, TARN_ERR_DRIVER, 2}, /* of the device */
        {"cuKernelGetFunction", TN_CUDA_ERROR_INVALID_PTX, TARN_ERR_NOT_SUPPORTED, 1},
        {"cuLaunchKernel", TN_CUDA_ERROR_UNKNOWN, TARN_ERR_DRIVER, 1}, /* for the table */
        {"cuLaunchKernel", TN_CUDA_ERROR_UNKNOWN, TARN_ERR_DRIVER, 2},
        {"cuEventRecord", TN_CUDA_ERROR_UNKNOWN, TARN_ERR_DRIVER, 1},
    };
    void *address = test_alloc(world.pool, 8 * MIB, world.stream);
    tarn_checkpoint *checkpoint = UNTOUCHED;

    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        sim.plan_fault(faults[i].call, faults[i].nth,
                       faults[i].result == TN_CUDA_ERROR_OUT_OF_MEMORY, faults[i].result);
        STATUS(faults[i].status,
               tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint));
        ck_assert_msg(strstr(tarn_last_error(), faults[i].status == TARN_ERR_HOST_MEMORY
                                                    ? "page-locked"
                                                    : faults[i].call) != NULL,
                      "%s", tarn_last_error());
        ck_assert_uint_gt(sim.clear_fault(NULL), 0);
        ck_assert_untouched(checkpoint);
        ck_assert_uint_eq(test_stats(world.default_pool).live_count, 0);
        ck_assert_uint_eq(test_stats(world.pool).checkpoint_count, 0);
        ck_assert_uint_eq(test_stats(world.pool).live_count, 1);
        OK(tarn_pool_trim(world.default_pool, NULL));
        OK(tarn_pool_validate(world.pool));
    }
    OK(tarn_free(address));
}

GROUP(own, NULL, .name = "in a world of its own")

TEST(own, a_full_device_has_no_room_for_contents)
{
    tarn_checkpoint *checkpoint = UNTOUCHED;
    void *address;

    ck_assert_int_eq(setenv("TARN_SIM_MEMORY_MIB", "128", 1), 0);
    test_world_open();
    address = test_alloc(world.pool, 80 * MIB, world.stream);
    REFUSE(TARN_ERR_DEVICE_MEMORY, "default",
           tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint));
    ck_assert_untouched(checkpoint);
    checkpoint = test_take(TARN_CONTENTS_NONE); /* which needs none */
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(address));
    test_world_close();
}

TEST(own, limits_and_addresses_bound_contents_too)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_checkpoint *checkpoint = UNTOUCHED;
    void *address;
    void *rest;

    test_start();
    world.stream = test_stream();
    options.region_bytes = GIB;
    options.limit_bytes = 1536 * MIB;
    OK(tarn_device_open(0, &options, &world.device));
    OK(tarn_device_default_pool(world.device, &world.default_pool));
    world.pool = test_pool("test");
    address = test_alloc(world.pool, 600 * MIB, world.stream);
    sim.set_hints(2, GIB / 2);
    REFUSE(TARN_ERR_ADDRESS_SPACE, "addresses",
           tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint));
    sim.set_hints(0, 0);
    rest = test_alloc(world.pool, 400 * MIB, world.stream);
    STATUS(TARN_ERR_LIMIT,
           tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "1536 MiB"));
    ck_assert_untouched(checkpoint);
    OK(tarn_free(rest));
    OK(tarn_free(address));
    OK(tarn_pool_destroy(world.pool));
    OK(tarn_device_close(world.device));
    test_world_abandon();
}

TEST(refusals, a_verification_that_the_driver_refuses_says_so)
{
    static const struct {
        const char *call;
        tn_cu_result result;
        tarn_status status;
    } faults[] = {
        {"cuKernelGetFunction", TN_CUDA_ERROR_INVALID_PTX, TARN_ERR_NOT_SUPPORTED},
        {"cuEventCreate", TN_CUDA_ERROR_UNKNOWN, TARN_ERR_DRIVER},
        {"cuMemCreate", TN_CUDA_ERROR_UNKNOWN, TARN_ERR_DRIVER},
        {"cuMemsetD8Async", TN_CUDA_ERROR_UNKNOWN, TARN_ERR_DRIVER},
        {"cuLaunchKernel", TN_CUDA_ERROR_UNKNOWN, TARN_ERR_DRIVER},
        {"cuMemcpyDtoHAsync", TN_CUDA_ERROR_UNKNOWN, TARN_ERR_DRIVER},
        {"cuEventRecord", TN_CUDA_ERROR_UNKNOWN, TARN_ERR_DRIVER},
        {"cuEventSynchronize", TN_CUDA_ERROR_UNKNOWN, TARN_ERR_DRIVER},
    };
    void *address = test_alloc(world.pool, 2 * MIB, world.stream);
    tarn_checkpoint *checkpoint;
    tarn_delta *delta = UNTOUCHED;

    test_fill(world.stream, address, 1, MIB / 2);
    checkpoint = test_take(TARN_CONTENTS_DEVICE);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        sim.plan_fault(faults[i].call, 1, 0, faults[i].result);
        if (faults[i].status == TARN_ERR_DRIVER)
            STATUS(TARN_ERR_DRIVER, tarn_checkpoint_verify(checkpoint, world.stream));
        else
            STATUS(TARN_ERR_NOT_SUPPORTED, tarn_checkpoint_verify(checkpoint, world.stream));
        ck_assert_msg(strstr(tarn_last_error(), faults[i].call) != NULL, "%s", tarn_last_error());
        ck_assert_uint_eq(sim.clear_fault(NULL), 1);
        ck_assert_uint_eq(test_stats(world.default_pool).live_count, 1);
    }
    sim.plan_fault("cuKernelGetFunction", 1, 0, TN_CUDA_ERROR_INVALID_PTX);
    STATUS(TARN_ERR_NOT_SUPPORTED, tarn_checkpoint_restore(checkpoint, world.stream, &delta));
    ck_assert_untouched(delta);
    OK(tarn_checkpoint_verify(checkpoint, world.stream));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(address));
}

/* Blocks of that size until there is no room. */
static tarn_status fill_up(size_t bytes)
{
    tarn_status status = TARN_OK;
    void *address = NULL;

    while (status == TARN_OK)
        status = tarn_pool_malloc(world.pool, bytes, 0, world.stream, &address);
    return status;
}

TEST(own, a_verification_needs_some_room)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_checkpoint *checkpoint;
    void *address;

    ck_assert_int_eq(setenv("TARN_SIM_POISON", "0", 1), 0);
    test_start();
    world.stream = test_stream();
    options.region_bytes = GIB;
    options.limit_bytes = 1100 * MIB;
    OK(tarn_device_open(0, &options, &world.device));
    OK(tarn_device_default_pool(world.device, &world.default_pool));
    world.pool = test_pool("test");
    address = test_alloc(world.pool, 2 * MIB, world.stream);
    test_fill(world.stream, address, 1, MIB / 2);
    checkpoint = test_take(TARN_CONTENTS_DEVICE);
    sim.plan_fault("cuMemCreate", 1, 1, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_checkpoint_verify(checkpoint, world.stream));
    (void)sim.clear_fault(NULL);
    sim.set_hints(2, GIB / 2);
    ck_assert_int_eq(fill_up(32 * MIB), TARN_ERR_ADDRESS_SPACE);
    STATUS(TARN_ERR_ADDRESS_SPACE, tarn_checkpoint_verify(checkpoint, world.stream));
    sim.set_hints(0, 0);
    ck_assert_int_eq(fill_up(2 * MIB), TARN_ERR_LIMIT);
    STATUS(TARN_ERR_LIMIT, tarn_checkpoint_verify(checkpoint, world.stream));
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    OK(tarn_pool_trim(world.pool, NULL));
    OK(tarn_checkpoint_verify(checkpoint, world.stream));
    OK(tarn_free(address));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_pool_destroy(world.pool));
    OK(tarn_device_close(world.device));
    test_world_abandon();
}

TEST(own, a_restore_without_room_changes_nothing)
{
    void *address;
    void *held;
    tarn_checkpoint *checkpoint;
    tarn_delta *delta = UNTOUCHED;

    ck_assert_int_eq(setenv("TARN_SIM_MEMORY_MIB", "128", 1), 0);
    test_world_open();
    address = test_alloc(world.pool, 80 * MIB, world.stream);
    checkpoint = test_take(TARN_CONTENTS_NONE);
    OK(tarn_free(address));
    OK(tarn_pool_trim(world.pool, NULL));
    held = test_alloc(world.default_pool, 80 * MIB, world.stream);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_checkpoint_restore(checkpoint, world.stream, &delta));
    ck_assert_untouched(delta);
    ck_assert_uint_eq(test_stats(world.pool).live_count, 0);
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
    OK(tarn_pool_validate(world.pool));
    OK(tarn_free(held));
    OK(tarn_pool_trim(world.default_pool, NULL));
    tarn_delta_destroy(test_restore(checkpoint, 0, 1));
    OK(tarn_free(address));
    OK(tarn_checkpoint_destroy(checkpoint));
    test_world_close();
}

TEST(own, a_restore_finds_memory_that_other_pools_have_free)
{
    void *address;
    void *other;
    tarn_checkpoint *checkpoint;

    ck_assert_int_eq(setenv("TARN_SIM_MEMORY_MIB", "128", 1), 0);
    test_world_open();
    address = test_alloc(world.pool, 80 * MIB, world.stream);
    test_fill(world.stream, address, 4, WORDS);
    checkpoint = test_take(TARN_CONTENTS_HOST);
    OK(tarn_free(address));
    OK(tarn_device_trim(world.device, 0, NULL));
    other = test_alloc(world.default_pool, 80 * MIB, world.side);
    OK(tarn_free(other)); /* mapped still, and not proven idle */
    tarn_delta_destroy(test_restore(checkpoint, 0, 1));
    test_expect_words(world.stream, address, 4, WORDS);
    ck_assert_uint_lt(test_stats(world.default_pool).mapped_bytes, 80 * MIB);
    OK(tarn_free(address));
    OK(tarn_checkpoint_destroy(checkpoint));
    test_world_close();
}

TEST(refusals, a_restore_beyond_the_pools_limit_changes_nothing)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_checkpoint *checkpoint = NULL;
    tarn_delta *delta = UNTOUCHED;
    tarn_pool *pool = NULL;
    void *address;
    void *other;

    options.limit_bytes = 64 * MIB;
    OK(tarn_pool_create(world.device, &options, &pool));
    address = test_alloc(pool, 32 * MIB, world.stream);
    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, NULL, &checkpoint));
    OK(tarn_free(address));
    OK(tarn_pool_trim(pool, NULL));
    other = test_alloc(pool, 64 * MIB, world.stream);
    STATUS(TARN_ERR_LIMIT, tarn_checkpoint_restore(checkpoint, world.stream, &delta));
    ck_assert_untouched(delta);
    ck_assert_uint_eq(test_stats(pool).live_count, 1);
    OK(tarn_pool_validate(pool));
    OK(tarn_free(other));
    OK(tarn_pool_trim(pool, NULL));
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    OK(tarn_free(address));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_pool_destroy(pool));
}

TEST(refusals, a_restore_that_the_driver_refuses_can_be_repeated)
{
    static const char *const calls[] = {"cuEventCreate", "cuMemCreate", "cuMemSetAccess",
                                        "cuLaunchKernel"};
    void *address = test_alloc(world.pool, 8 * MIB, world.stream);
    tarn_checkpoint *checkpoint;
    tarn_delta *delta = UNTOUCHED;

    test_fill(world.stream, address, 3, 2 * MIB);
    checkpoint = test_take(TARN_CONTENTS_DEVICE);
    OK(tarn_free(address));
    OK(tarn_pool_trim(world.pool, NULL));
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER, tarn_checkpoint_restore(checkpoint, world.stream, &delta));
        ck_assert_msg(strstr(tarn_last_error(), calls[i]) != NULL, "%s", tarn_last_error());
        ck_assert_uint_eq(sim.clear_fault(NULL), 1);
        ck_assert_untouched(delta);
        ck_assert_uint_eq(test_stats(world.pool).live_count, 0);
        OK(tarn_pool_validate(world.pool));
    }
    tarn_delta_destroy(test_restore(checkpoint, 0, 1));
    test_expect_words(world.stream, address, 3, 2 * MIB);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(address));
}

/* A restore that cannot be put behind a take's copies, on another stream, leaves all as it was. */
TEST(refusals, a_restore_that_cannot_follow_a_take_changes_nothing)
{
    enum { WORDS_TAKEN = 1 << 10 };
    tarn_checkpoint *before = NULL;
    tarn_checkpoint *after = NULL;
    struct test_picture picture;
    void *block = test_alloc(world.pool, WORDS_TAKEN * 4, world.side);

    test_fill(world.stream, block, 1, WORDS_TAKEN);
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_HOST, world.stream, &before));
    test_fill(world.stream, block, 2, WORDS_TAKEN);
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_HOST, world.stream, &after));
    test_synchronize(world.stream);
    picture = test_picture();
    /* Behind the last take, and behind the one whose contents come back. */
    for (uint64_t wait = 1; wait <= 2; ++wait) {
        sim.plan_fault("cuStreamWaitEvent", wait, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER, tarn_checkpoint_restore(before, world.side, NULL));
        ck_assert_ptr_nonnull(strstr(tarn_last_error(), "cuStreamWaitEvent"));
        test_same_picture(&picture);
    }
    test_expect_words(world.side, block, 2, WORDS_TAKEN);
    OK(tarn_checkpoint_restore(before, world.side, NULL));
    test_expect_words(world.side, block, 1, WORDS_TAKEN);
    OK(tarn_checkpoint_destroy(before));
    OK(tarn_checkpoint_destroy(after));
    OK(tarn_free(block));
}
