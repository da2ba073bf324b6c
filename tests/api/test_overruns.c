// SPDX-License-Identifier: Apache-2.0
/* Blocks that end with their pages: kernels that pass their ends, or use freed blocks, fault. Each
 * mistake is in a process of its own. */
#include <stdlib.h>

#include "support/world.h"

enum { WORD = sizeof(uint32_t) };

static const size_t sizes[] = {4,        508,           512,          1000,
                               4096,     2 * MIB - 512, 2 * MIB,      2 * MIB + 4,
                               32 * MIB, 33 * MIB,      64 * MIB - 4, 64 * MIB};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void open_with(size_t alignment)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.overrun_alignment = alignment;
    test_world_open_with(&options);
}

static void open_by_512(void)
{
    open_with(512);
}

static void open_by_words(void)
{
    open_with(WORD);
}

static void open_by_bytes(void)
{
    open_with(1);
}

static char *alloc(size_t bytes)
{
    return test_alloc(world.pool, bytes, world.stream);
}

static void write_word(void *address)
{
    test_fill(world.stream, address, 1, 1);
}

static void expect_fault(void)
{
    ck_assert_int_eq(test_stream_result(world.stream), TN_CUDA_ERROR_ILLEGAL_ADDRESS);
    test_world_abandon();
}

GROUP(by_512, open_by_512, test_world_close)
GROUP(by_words, open_by_words, test_world_close)
GROUP(by_bytes, open_by_bytes, test_world_close)

TEST(by_512, every_block_is_whole_and_ends_with_its_pages)
{
    char *blocks[SIZES];

    for (size_t i = 0; i < SIZES; i++) {
        blocks[i] = alloc(sizes[i]);
        ck_assert_uint_eq((uintptr_t)blocks[i] % 512, 0);
        ck_assert_uint_eq(((uintptr_t)blocks[i] + (sizes[i] + 511) / 512 * 512) % (2 * MIB), 0);
        write_word(blocks[i]);
        write_word(blocks[i] + sizes[i] / WORD * WORD - WORD);
    }
    test_synchronize(world.stream);
    for (size_t i = 0; i < SIZES; i++)
        OK(tarn_free(blocks[i]));
}

TEST_LOOP(by_512, a_write_behind_the_rounded_end_faults, 0, SIZES)
{
    char *before = alloc(sizes[_i]);
    char *block = alloc(sizes[_i]);
    char *after = alloc(sizes[_i]);

    ck_assert_ptr_ne(before, after);
    write_word(block + (sizes[_i] + 511) / 512 * 512 - WORD);
    test_synchronize(world.stream);
    write_word(block + (sizes[_i] + 511) / 512 * 512);
    expect_fault();
}

TEST_LOOP(by_words, a_write_behind_the_last_word_faults, 0, SIZES)
{
    char *block = alloc(sizes[_i]);

    ck_assert_uint_eq((uintptr_t)block % WORD, 0);
    write_word(block + sizes[_i] - WORD);
    test_synchronize(world.stream);
    write_word(block + sizes[_i]);
    expect_fault();
}

TEST_LOOP(by_bytes, a_write_behind_the_last_byte_faults, 0, SIZES)
{
    char *block = alloc(sizes[_i] + 3);

    write_word(block + sizes[_i] + 3 - WORD);
    test_synchronize(world.stream);
    write_word(block + sizes[_i] + 3);
    expect_fault();
}

/* The next allocation finds the memory idle, and lets it go; no later block gets its place. */
TEST_LOOP(by_512, a_use_of_a_freed_block_faults, 0, 2)
{
    char *block = alloc(1000);

    write_word(block);
    OK(tarn_free(block));
    (void)alloc(512);
    test_synchronize(world.stream);
    for (size_t i = 0; i < 20; i++)
        ck_assert_ptr_ne(alloc(1000), block);
    if (_i == 1)
        OK(tarn_pool_trim(world.pool, NULL));
    write_word(block);
    expect_fault();
}

TEST(by_512, memory_in_use_stays)
{
    char *block = alloc(4 * MIB);

    sim.hold_work();
    test_fill(world.stream, block, 1, MIB);
    OK(tarn_free(block));
    for (size_t i = 0; i < 4; i++)
        OK(tarn_free(alloc(4 * MIB)));
    sim.resume_work();
    test_synchronize(world.stream);
}

TEST(by_512, memory_that_waits_for_a_stream_goes_after_it)
{
    char *block = alloc(1000);

    test_fill(world.side, block, 1, 1);
    OK(tarn_free_on(block, world.side));
    test_synchronize(world.side);
    OK(tarn_free(alloc(512)));
    test_synchronize(world.stream);
    (void)alloc(512);
    write_word(block);
    expect_fault();
}

TEST(by_512, memory_goes_without_a_wait)
{
    for (size_t i = 0; i < 1000; i++) {
        OK(tarn_free(alloc(4 * MIB)));
        if (i % 10 == 0)
            test_synchronize(world.stream);
    }
    ck_assert_uint_lt(test_stats(world.pool).mapped_bytes, 200 * MIB);
}

TEST(by_512, larger_alignments_hold)
{
    static const size_t alignments[] = {1024, 4096, 64 * 1024, 2 * MIB};

    for (size_t i = 0; i < 4; i++) {
        void *block;

        OK(tarn_pool_malloc(world.pool, 1000, alignments[i], world.stream, &block));
        ck_assert_uint_eq((uintptr_t)block % alignments[i], 0);
        write_word(block);
        OK(tarn_pool_validate(world.pool));
        OK(tarn_free(block));
    }
    test_synchronize(world.stream);
}

TEST_LOOP(by_bytes, larger_alignments_hold_there, 0, 4)
{
    const size_t alignment = (size_t)1 << (10 + 3 * _i);
    char *block;

    OK(tarn_pool_malloc(world.pool, 1001, alignment, world.stream, (void **)&block));
    ck_assert_uint_eq((uintptr_t)block % alignment, 0);
    OK(tarn_free(block));
    OK(tarn_pool_malloc(world.pool, 2 * MIB, alignment, world.stream, (void **)&block));
    ck_assert_uint_eq((uintptr_t)block % alignment, 0);
    OK(tarn_free(block));
}

/* A block is known by the address that its user got, and by no other one near. */
TEST(by_bytes, blocks_are_found_by_their_users_addresses)
{
    char *block = alloc(1001);
    tarn_block found;

    ck_assert_uint_eq(((uintptr_t)block + 1001) % (2 * MIB), 0);
    OK(tarn_block_set_tag(block, 7));
    OK(tarn_block_annotate(block, "weights"));
    OK(tarn_block_at(block, &found));
    ck_assert_uint_eq(found.tag, 7);
    ck_assert_uint_eq(found.bytes, 1001);
    ck_assert_uint_lt((uintptr_t)block - (uintptr_t)found.address, 512);
    OK(tarn_record_stream(block, world.side));
    ck_assert_int_ne((int)tarn_free(block + 1), (int)TARN_OK);
    ck_assert_int_ne((int)tarn_free(block - 1), (int)TARN_OK);
    OK(tarn_free_on(block, world.stream));
    ck_assert_int_ne((int)tarn_free(block), (int)TARN_OK);
    OK(tarn_stream_retire(world.device, world.side));
}

/* A block of whole pages with an alignment of a page begins at the user's address. */
TEST(by_bytes, whole_pages_hold_their_alignment)
{
    void *block;

    OK(tarn_pool_malloc(world.pool, 2 * MIB - 100, 2 * MIB, world.stream, &block));
    ck_assert_uint_eq((uintptr_t)block % (2 * MIB), 0);
    OK(tarn_free(block));
}

TEST(by_bytes, live_blocks_are_checked_by_their_users_addresses)
{
    char *first = alloc(1001);
    char *second = alloc(70001);
    const tarn_expected expected[] = {{.address = first, .bytes = 1001},
                                      {.address = second, .bytes = 70001}};
    tarn_live_diff *diff = NULL;

    OK(tarn_pool_check_live(world.pool, expected, 2, &diff));
    ck_assert_uint_eq(diff->count, 0);
    tarn_live_diff_destroy(diff);
    OK(tarn_free(first));
    OK(tarn_free(second));
}

static void open_rounded(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.overrun_alignment = 1;
    for (size_t i = 0; i < TARN_ROUNDUP_SIZES; i++)
        options.roundup_power2_divisions[i] = 1;
    options.pinned_use_cuda_host_register = true;
    test_world_open_with(&options);
}

GROUP(rounded, open_rounded, test_world_close)

/* Rounding would put the end of the block far behind the request's. */
TEST(rounded, requests_are_not_rounded)
{
    char *block = alloc(33 * MIB + 1);

    ck_assert_uint_eq(((uintptr_t)block + 33 * MIB + 1) % (2 * MIB), 0);
    OK(tarn_free(block));
}

/* Blocks lie side by side in a piece: none is lone. */
TEST(rounded, registered_memory_is_as_ever)
{
    void *block;

    OK(tarn_host_malloc(world.device, 2 * MIB - 100, &block));
    ck_assert_uint_eq((uintptr_t)block % 512, 0);
    OK(tarn_free(block));
}

TEST(by_bytes, zeros_are_the_requests)
{
    unsigned char *block;

    OK(tarn_calloc(world.device, 1, 1003, world.stream, (void **)&block));
    ck_assert_uint_eq(((uintptr_t)block + 1003) % (2 * MIB), 0);
    test_synchronize(world.stream);
    OK(tarn_free(block));
}

/* A section, its replays and a checkpoint are as they are elsewhere. */
TEST(by_bytes, graphs_and_checkpoints_keep_their_memory)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    uint32_t *temporary = (uint32_t *)(void *)alloc(1 * MIB);
    tarn_checkpoint *checkpoint;
    tarn_graph *graph;
    void *block;

    test_fill(world.stream, temporary, 5, 1000);
    OK(tarn_free(temporary));
    graph = test_capture_end(capture);
    block = alloc(999);
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint));
    OK(tarn_free(block));
    for (size_t i = 0; i < 3; i++) {
        (void)alloc(1000);
        OK(tarn_graph_replay(graph, world.stream));
        test_synchronize(world.stream);
    }
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    write_word((char *)block + 995);
    test_synchronize(world.stream);
    OK(tarn_pool_validate(world.pool));
    OK(tarn_free(block));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_graph_destroy(graph));
}

TEST(by_512, a_reserve_takes_nothing)
{
    const uint64_t before = test_stats(world.pool).mapped_bytes;

    OK(tarn_pool_reserve(world.pool, 64 * MIB, world.stream));
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, before);
}

TEST(by_512, other_numbers_are_refused)
{
    static const size_t wrong[] = {3, 24, 1024, SIZE_MAX};
    tarn_device *device = NULL;

    for (size_t i = 0; i < 4; i++) {
        tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

        options.overrun_alignment = wrong[i];
        STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_device_open(0, &options, &device));
        ck_assert_ptr_nonnull(strstr(tarn_last_error(), "overrun_alignment"));
    }
}
