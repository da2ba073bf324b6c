// SPDX-License-Identifier: Apache-2.0
/* Allocation and free: what is handed out, every refusal, and that a refusal changes nothing. */
#include <stdio.h>
#include <stdlib.h>

#include "support/world.h"

GROUP(world, test_world_open, test_world_close, .name = "in a world")

TEST(world, blocks_are_aligned_distinct_and_writable)
{
    enum { COUNT = 64 };
    static const size_t sizes[] = {1, 511, 512, 513, 4096, MIB - 1, MIB, MIB + 1, 3 * MIB};
    void *blocks[COUNT];

    for (uint32_t i = 0; i < COUNT; i++) {
        size_t bytes = sizes[i % (sizeof sizes / sizeof sizes[0])];

        blocks[i] = test_malloc(bytes);
        ck_assert_uint_eq((uintptr_t)blocks[i] % 512, 0);
        test_fill(world.stream, blocks[i], i, bytes / 4);
    }
    OK(tarn_pool_validate(world.default_pool));
    for (uint32_t i = 0; i < COUNT; i++)
        test_expect_words(world.stream, blocks[i], i,
                          sizes[i % (sizeof sizes / sizeof sizes[0])] / 4);
    for (uint32_t i = 0; i < COUNT; i++)
        OK(tarn_free(blocks[i]));
    ck_assert_uint_eq(test_stats(world.default_pool).live_count, 0);
}

TEST(world, nothing_asked_for_is_nothing_given)
{
    void *address = UNTOUCHED;
    struct test_picture before = test_picture();

    OK(tarn_malloc(world.device, 0, world.stream, &address));
    ck_assert_ptr_null(address);
    address = UNTOUCHED;
    OK(tarn_pool_malloc(world.pool, 0, 4096, world.stream, &address));
    ck_assert_ptr_null(address);
    test_same_picture(&before);
}

TEST(world, memory_freed_is_reused_at_once_by_its_own_stream)
{
    void *first = test_malloc(4 * MIB);

    test_spin(world.stream, 5);
    OK(tarn_free(first));
    ck_assert_ptr_eq(test_malloc(4 * MIB), first);
    OK(tarn_free(first));
    test_synchronize(world.stream);
}

TEST(world, another_stream_does_not_get_what_one_has_freed)
{
    void *first = test_malloc(4 * MIB);
    void *second;

    OK(tarn_free(first));
    second = test_alloc(world.default_pool, 4 * MIB, world.side);
    ck_assert_ptr_ne(second, first);
    OK(tarn_free(second));
}

TEST(world, alignments_are_kept)
{
    enum { ALIGNMENTS = 22 }; /* 1 to 2 MiB */
    void *blocks[ALIGNMENTS];

    for (size_t i = 0; i < ALIGNMENTS; i++) {
        OK(tarn_pool_malloc(world.pool, 700, (size_t)1 << i, world.stream, &blocks[i]));
        ck_assert_uint_eq((uintptr_t)blocks[i] % ((size_t)1 << i), 0);
        ck_assert_uint_eq((uintptr_t)blocks[i] % 512, 0);
    }
    OK(tarn_pool_validate(world.pool));
    ck_assert_uint_eq(test_stats(world.pool).live_bytes, ALIGNMENTS * 1024);
    for (size_t i = 0; i < ALIGNMENTS; i++)
        OK(tarn_free(blocks[i]));
}

TEST(world, bad_arguments_of_malloc_are_refused)
{
    void *address = UNTOUCHED;

    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_malloc(NULL, 512, world.stream, &address));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device",
           tarn_malloc((tarn_device *)(void *)world.pool, 512, world.stream, &address));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "address is NULL",
           tarn_malloc(world.device, 512, world.stream, NULL));
    ck_assert_untouched(address);
}

TEST(world, bad_arguments_of_alloc_are_refused)
{
    _Alignas(128) uint64_t zeros[1024] = {0}; /* aligned as a record is */
    void *address = UNTOUCHED;

    REFUSE(TARN_ERR_INVALID_HANDLE, "pool", tarn_pool_malloc(NULL, 512, 0, world.stream, &address));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool",
           tarn_pool_malloc((tarn_pool *)(void *)world.device, 512, 0, world.stream, &address));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool",
           tarn_pool_malloc((tarn_pool *)(void *)zeros, 512, 0, world.stream, &address));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "address is NULL",
           tarn_pool_malloc(world.pool, 512, 0, world.stream, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "alignment",
           tarn_pool_malloc(world.pool, 512, 3, world.stream, &address));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "alignment",
           tarn_pool_malloc(world.pool, 512, 4 * MIB, world.stream, &address));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "alignment",
           tarn_pool_malloc(world.pool, 512, SIZE_MAX, world.stream, &address));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "alignment",
           tarn_pool_malloc(world.pool, 0, 3, world.stream, &address));
    ck_assert_untouched(address);
}

static const size_t sizes_too_large[] = {
    SIZE_MAX,         SIZE_MAX - 511,        SIZE_MAX - 512,
    SIZE_MAX / 2 + 1, ((size_t)1 << 46) + 1, (size_t)1 << 47,
};
enum { SIZES_TOO_LARGE = sizeof sizes_too_large / sizeof sizes_too_large[0] };

TEST_LOOP(world, sizes_that_no_device_holds_are_invalid_arguments, 0, SIZES_TOO_LARGE)
{
    size_t bytes = sizes_too_large[_i];
    void *address = UNTOUCHED;

    REFUSE(TARN_ERR_INVALID_ARGUMENT, "bytes",
           tarn_malloc(world.device, bytes, world.stream, &address));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "bytes",
           tarn_pool_malloc(world.pool, bytes, 2 * MIB, world.stream, &address));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "bytes", tarn_pool_reserve(world.pool, bytes, world.stream));
    ck_assert_untouched(address);
}

TEST(world, the_largest_size_is_refused_for_lack_of_room_only)
{
    static const size_t sizes[] = {(size_t)1 << 40, ((size_t)1 << 40) - 511, (size_t)1 << 38};
    void *address = UNTOUCHED;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        tarn_status status =
            tarn_pool_malloc(world.pool, sizes[i], 2 * MIB, world.stream, &address);

        ck_assert_msg(status == TARN_ERR_DEVICE_MEMORY || status == TARN_ERR_ADDRESS_SPACE,
                      "%s; %s", tarn_status_name(status), tarn_last_error());
        ck_assert_untouched(address);
        OK(tarn_pool_validate(world.pool));
        ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
        ck_assert_uint_eq(test_stats(world.pool).live_count, 0);
    }
}

GROUP(own, NULL, .name = "in a world of its own")

TEST(own, a_region_that_is_full_and_no_other_is_no_address_space)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    void *address = UNTOUCHED;

    test_start();
    world.stream = test_stream();
    options.region_bytes = GIB;
    OK(tarn_device_open(0, &options, &world.device));
    OK(tarn_device_default_pool(world.device, &world.default_pool));
    sim.set_hints(2, GIB / 2);
    REFUSE(TARN_ERR_ADDRESS_SPACE, "addresses",
           tarn_malloc(world.device, GIB + 1, world.stream, &address));
    REFUSE(TARN_ERR_ADDRESS_SPACE, "addresses",
           tarn_pool_reserve(world.default_pool, GIB + 1, world.stream));
    REFUSE(TARN_ERR_ADDRESS_SPACE, "addresses",
           tarn_pool_malloc(world.default_pool, GIB + 1, 0, world.stream, &address));
    ck_assert_untouched(address);
    sim.set_hints(0, 0);
    OK(tarn_malloc(world.device, GIB + 1, world.stream, &address)); /* a second region */
    ck_assert_uint_ge(test_device_stats().reserved_bytes, 3 * GIB);
    OK(tarn_free(address));
    OK(tarn_device_close(world.device));
    world.device = NULL;
}

TEST(own, a_full_device_is_told_with_who_holds_what)
{
    void *address = UNTOUCHED;
    void *held;

    ck_assert_int_eq(setenv("TARN_SIM_MEMORY_MIB", "256", 1), 0);
    test_world_open();
    held = test_alloc(world.pool, 128 * MIB, world.stream);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_malloc(world.device, 160 * MIB, world.stream, &address));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "pool 'test' maps 128 MiB, 128 live"));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "pool 'default'"));
    ck_assert_untouched(address);
    OK(tarn_pool_validate(world.pool));
    ck_assert_uint_eq(test_stats(world.pool).live_count, 1);
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 128 * MIB);
    OK(tarn_free(held));
    OK(tarn_malloc(world.device, 160 * MIB, world.stream,
                   &address)); /* the other pool's free memory */
    OK(tarn_free(address));
    test_world_close();
}

TEST(own, memory_freed_on_other_streams_is_waited_for_before_the_device_is_full)
{
    void *address = NULL;
    void *held;

    ck_assert_int_eq(setenv("TARN_SIM_MEMORY_MIB", "256", 1), 0);
    test_world_open();
    held = test_alloc(world.pool, 160 * MIB, world.side);
    test_spin(world.side, 30);
    test_fill(world.side, held, 9, 40 * MIB);
    OK(tarn_free(held));
    OK(tarn_malloc(world.device, 160 * MIB, world.stream, &address));
    ck_assert_uint_ge(test_device_stats().idle_waits, 1);
    ck_assert_int_eq(test_stream_result(world.side), TN_CUDA_SUCCESS);
    OK(tarn_free(address));
    test_world_close();
}

TEST(world, a_refused_mapping_is_undone)
{
    static const char *const calls[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess"};
    void *address = UNTOUCHED;
    tarn_sim_ledger before = test_ledger();

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER, tarn_malloc(world.device, MIB, world.stream, &address));
        ck_assert_ptr_nonnull(strstr(tarn_last_error(), calls[i]));
        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER, tarn_pool_malloc(world.pool, MIB, 0, world.stream, &address));
        ck_assert_ptr_nonnull(strstr(tarn_last_error(), calls[i]));
        ck_assert_ptr_nonnull(strstr(tarn_last_error(), "CUDA_ERROR_UNKNOWN"));
        ck_assert_untouched(address);
        ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
        OK(tarn_pool_validate(world.default_pool));
        test_same_ledger(&before);
    }
    OK(tarn_free(test_malloc(MIB)));
}

TEST(world, a_driver_without_memory_is_device_memory)
{
    void *address = UNTOUCHED;

    sim.plan_fault("cuMemCreate", 1, 1, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_malloc(world.device, MIB, world.stream, &address));
    ck_assert_untouched(address);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_pool_malloc(world.pool, MIB, 0, world.stream, &address));
    ck_assert_untouched(address);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_pool_reserve(world.pool, MIB, world.stream));
    ck_assert_uint_gt(sim.clear_fault(NULL), 0);
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
    OK(tarn_free(test_malloc(MIB)));
}

/* free, free_on, record_stream and block_at answer the same about an address. */
static void refuse_address(void *address, tarn_status expected, const char *word)
{
    tarn_block block = {.sequence = 77};

    REFUSE(expected, word, tarn_free(address));
    REFUSE(expected, word, tarn_free_on(address, world.side));
    REFUSE(expected, word, tarn_record_stream(address, world.side));
    if (expected != TARN_ERR_INNER_ADDRESS)
        REFUSE(expected, word, tarn_block_at(address, &block));
    ck_assert_uint_eq(block.sequence, 77);
}

TEST(world, addresses_that_tarn_did_not_hand_out_are_not_ours)
{
    int local = 0;
    void *heap = malloc(64);
    void *linear = test_linear_alloc(4096);
    char *mine = test_malloc(512);

    refuse_address(&local, TARN_ERR_NOT_OURS, "not handed out");
    refuse_address(heap, TARN_ERR_NOT_OURS, "not handed out");
    refuse_address(linear, TARN_ERR_NOT_OURS, "not handed out");
    refuse_address(UNTOUCHED, TARN_ERR_NOT_OURS, "not handed out");
    refuse_address((void *)UINTPTR_MAX, TARN_ERR_NOT_OURS, "not handed out");
    refuse_address((void *)((uintptr_t)1 << 63), TARN_ERR_NOT_OURS, "not handed out");
    refuse_address(mine + 16 * GIB, TARN_ERR_NOT_OURS, "not handed out"); /* reserved, no segment */
    OK(tarn_free(mine));
    test_linear_free(linear);
    free(heap);
}

TEST(world, null_has_no_use_and_no_block)
{
    tarn_block block = {.sequence = 77};

    OK(tarn_record_stream(NULL, world.side));
    REFUSE(TARN_ERR_NOT_OURS, "0x0", tarn_block_at(NULL, &block));
    ck_assert_uint_eq(block.sequence, 77);
}

TEST(world, an_inner_address_is_refused_and_the_sentence_names_the_block)
{
    char *address = test_malloc(3 * MIB);
    char sentence[64];

    (void)snprintf(sentence, sizeof sentence, "at 0x%llx", (unsigned long long)(uintptr_t)address);
    refuse_address(address + 1, TARN_ERR_INNER_ADDRESS, sentence);
    refuse_address(address + 512, TARN_ERR_INNER_ADDRESS, sentence);
    refuse_address(address + 3 * MIB - 1, TARN_ERR_INNER_ADDRESS, sentence);
    OK(tarn_free(address));
}

TEST(world, a_second_free_is_a_double_free)
{
    void *address = test_malloc(512);
    void *other = test_malloc(512);

    OK(tarn_free(address));
    refuse_address(address, TARN_ERR_DOUBLE_FREE, "0x");
    OK(tarn_free(other));
    refuse_address(address, TARN_ERR_DOUBLE_FREE, "0x"); /* joined with its neighbours meanwhile */
    refuse_address(other, TARN_ERR_DOUBLE_FREE, "0x");
}

TEST(world, a_second_free_is_seen_while_the_first_is_pending)
{
    void *address = test_malloc(4 * MIB);

    sim.hold_work();
    test_spin(world.side, 1);
    OK(tarn_free_on(address, world.side));
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 1);
    refuse_address(address, TARN_ERR_DOUBLE_FREE, "0x");
    sim.resume_work();
}

TEST(world, an_address_beside_a_block_in_its_segment_is_not_live)
{
    char *address = test_malloc(512);

    refuse_address(address + 512, TARN_ERR_DOUBLE_FREE, "0x");      /* mapped, free */
    refuse_address(address + 16 * MIB, TARN_ERR_DOUBLE_FREE, "0x"); /* not mapped */
    OK(tarn_free(address));
}

TEST(world, a_free_after_the_memory_was_given_back_is_refused)
{
    void *address = test_alloc(world.pool, 4 * MIB, world.stream);
    void *kept = test_alloc(world.pool, 4 * MIB, world.stream);

    OK(tarn_free(address));
    OK(tarn_pool_trim(world.pool, NULL));
    refuse_address(address, TARN_ERR_DOUBLE_FREE, "0x");
    REFUSE(TARN_ERR_DOUBLE_FREE, "memory given back", tarn_free(address));
    OK(tarn_free(kept));
    OK(tarn_pool_trim(world.pool, NULL)); /* now its segment is gone as well */
    refuse_address(address, TARN_ERR_NOT_OURS, "not handed out");
}

TEST(world, a_free_of_a_pools_block_after_the_pool_is_not_ours)
{
    tarn_pool *pool = test_pool("gone");
    void *address = test_alloc(pool, MIB, world.stream);

    OK(tarn_free(address));
    OK(tarn_pool_destroy(pool));
    refuse_address(address, TARN_ERR_NOT_OURS, "not handed out");
}

TEST(world, a_block_is_described_from_any_address_inside_it)
{
    char *address = test_alloc(world.pool, 1000, world.stream);
    void *later = test_alloc(world.pool, 10, world.stream);
    tarn_block block;
    tarn_block inner;
    tarn_block second;

    OK(tarn_block_at(address, &block));
    ck_assert_ptr_eq(block.address, address);
    ck_assert_uint_eq(block.bytes, 1000);
    ck_assert_uint_eq(block.block_bytes, 1024);
    ck_assert_ptr_eq(block.pool, world.pool);
    OK(tarn_block_at(address + 1023, &inner));
    ck_assert_uint_eq(inner.sequence, block.sequence);
    OK(tarn_block_at(later, &second));
    ck_assert_uint_gt(second.sequence, block.sequence);
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "block is NULL", tarn_block_at(address, NULL));
    OK(tarn_free(later));
    OK(tarn_free(address));
}

TEST(world, the_default_streams_are_streams_too)
{
    static const uintptr_t handles[] = {0, 1, 2};

    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        tarn_stream stream = (tarn_stream)handles[i]; // NOLINT(performance-no-int-to-ptr)
        void *address = NULL;
        void *again = NULL;

        OK(tarn_malloc(world.device, MIB, stream, &address));
        OK(tarn_record_stream(address, world.side));
        OK(tarn_free(address));
        OK(tarn_malloc(world.device, MIB, stream, &again));
        OK(tarn_free_on(again, world.stream));
    }
    OK(tarn_pool_validate(world.default_pool));
}

TEST(world, null_and_legacy_are_one_stream)
{
    void *address = NULL;
    void *again = NULL;

    OK(tarn_malloc(world.device, 2 * MIB, NULL, &address));
    OK(tarn_free(address));
    OK(tarn_malloc(world.device, 2 * MIB, TN_CU_STREAM_LEGACY, &again));
    ck_assert_ptr_eq(again, address);
    OK(tarn_free(again));
}

TEST(world, a_stream_that_takes_the_handle_of_a_destroyed_one_does_not_take_its_memory)
{
    tn_cu_stream old = test_stream();
    void *address = test_alloc(world.default_pool, 4 * MIB, old);
    void *kept;

    OK(tarn_free(address));
    test_destroy_stream(old);
    for (int i = 0; i < 8; i++) {
        tn_cu_stream fresh = test_stream();

        kept = test_alloc(world.default_pool, 4 * MIB, fresh);
        ck_assert_ptr_ne(kept, address);
        OK(tarn_free(kept));
        test_destroy_stream(fresh);
    }
}
