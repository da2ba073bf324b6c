// SPDX-License-Identifier: Apache-2.0
/* TARN_CONF, and the options that came with it: what they say is what the device does. */
#include <stdlib.h>

#include "support/world.h"

static void set_conf(const char *text)
{
    ck_assert_int_eq(setenv("TARN_CONF", text, 1), 0);
}

static void open_world(const char *conf, tarn_device_options options)
{
    ck_assert_int_eq(setenv("TARN_SIM_MEMORY_MIB", "256", 1), 0);
    set_conf(conf);
    test_world_open_with(&options);
}

/* Refused: the output is untouched, and the driver has nothing that it did not have before. */
static void refuse_open(const char *conf, const char *key, const char *value)
{
    tarn_device *device = UNTOUCHED;
    tarn_sim_ledger before = test_ledger();

    set_conf(conf);
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_device_open(0, NULL, &device));
    ck_assert_untouched(device);
    ck_assert_msg(strstr(tarn_last_error(), "TARN_CONF") != NULL &&
                      strstr(tarn_last_error(), key) != NULL &&
                      strstr(tarn_last_error(), value) != NULL,
                  "%s", tarn_last_error());
    test_same_ledger(&before);
}

static void refuse_all_that_is_wrong(void)
{
    refuse_open("limit_byte:40G", "'limit_byte'", "limit_bytes");
    refuse_open("limit_bytes:40GB", "'limit_bytes'", "'40GB'");
    refuse_open("limit_bytes:1G,limit_bytes:2G", "'limit_bytes'", "'2G'");
    refuse_open("limit_bytes:1G,", "''", "key:value");
    refuse_open("limit_bytes:1G unrouted:allow", "'limit_bytes'", "'1G unrouted:allow'");
    refuse_open("limit_bytes:99999999999999999999", "'limit_bytes'", "'99999999999999999999'");
    refuse_open("per_process_memory_fraction:1.5", "'per_process_memory_fraction'", "'1.5'");
    refuse_open("roundup_power2_divisions:[64:8,32:4]", "'roundup_power2_divisions'",
                "'[64:8,32:4]'");
    refuse_open("expandable_segments:False", "'expandable_segments'", "always are expandable");
    refuse_open("max_split_size_mb:128", "'max_split_size_mb'", "its keys are");
}

SUITE("configuration")
GROUP(conf, NULL)

TEST(conf, what_is_wrong_is_named_and_opens_nothing)
{
    test_start();
    refuse_all_that_is_wrong();
}

TEST(conf, it_is_checked_by_every_open_and_used_by_the_first)
{
    tarn_device *again = NULL;

    open_world("limit_bytes:64M", (tarn_device_options)TARN_DEVICE_OPTIONS_INIT);
    refuse_all_that_is_wrong();
    set_conf("limit_bytes:32M");
    OK(tarn_device_open(0, NULL, &again));
    ck_assert_ptr_eq(again, world.device);
    ck_assert_uint_eq(test_device_stats().limit_bytes, 64 * MIB);
    OK(tarn_device_close(again));
    test_world_close();
}

TEST(conf, an_empty_one_says_nothing)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.limit_bytes = 32 * MIB;
    open_world(" ", options);
    ck_assert_uint_eq(test_device_stats().limit_bytes, 32 * MIB);
    test_world_close();
}

TEST(conf, it_has_the_last_word_on_options_and_the_program_on_what_comes_later)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.region_bytes = 16 * GIB;
    options.limit_bytes = 32 * MIB;
    options.memory_fraction = 0.5;
    open_world("limit_bytes:200M, region_bytes:8G, cache_limit_bytes:none", options);
    ck_assert_uint_eq(test_device_stats().limit_bytes, 128 * MIB); /* the option's fraction */
    ck_assert_uint_eq(test_device_stats().reserved_bytes, 8 * GIB);
    OK(tarn_free(test_alloc(world.pool, 60 * MIB, world.stream)));
    OK(tarn_pool_destroy(world.pool));
    ck_assert_uint_eq(test_device_stats().cached_bytes, 0);
    OK(tarn_device_set_limit(world.device, 16 * MIB));
    ck_assert_uint_eq(test_device_stats().limit_bytes, 16 * MIB);
    world.pool = test_pool("test");
    test_world_close();
}

TEST(conf, a_fraction_of_it_holds)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.memory_fraction = 0.5;
    open_world("per_process_memory_fraction:0.25", options);
    ck_assert_uint_eq(test_device_stats().limit_bytes, 64 * MIB);
    test_world_close();
}

TEST(conf, a_wrong_option_is_refused_though_it_says_another)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_device *device = UNTOUCHED;

    test_start();
    set_conf("region_bytes:1G,roundup_power2_divisions:2");
    options.region_bytes = 3 * GIB;
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_device_open(0, &options, &device));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "region_bytes"));
    options.region_bytes = 0;
    options.roundup_power2_divisions[3] = 3;
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_device_open(0, &options, &device));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "roundup_power2_divisions"));
    ck_assert_untouched(device);
}

TEST(conf, an_allocation_that_no_route_catches_is_refused_as_it_says)
{
    void *address = UNTOUCHED;

    open_world("unrouted:refuse", (tarn_device_options)TARN_DEVICE_OPTIONS_INIT);
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    STATUS(TARN_ERR_UNROUTED, tarn_malloc(world.device, 512, world.stream, &address));
    ck_assert_untouched(address);
    test_destroy_graph(test_end_capture(world.stream));
    test_world_close();
}

/* Rounding ----------------------------------------------------------------------------------- */

/* What the blocks of so many bytes take. */
static void expect_taken(size_t requested, uint64_t taken)
{
    struct test_stats before = test_stats(world.pool);
    void *addresses[2];
    tarn_block block;

    for (size_t i = 0; i < 2; i++) { /* mapped for it, and found in the arena */
        addresses[i] = test_alloc(world.pool, requested, world.stream);
        OK(tarn_block_at(addresses[i], &block));
        ck_assert_uint_eq(block.bytes, requested);
        ck_assert_uint_eq(block.block_bytes, taken);
    }
    ck_assert_uint_eq(test_stats(world.pool).requested_bytes - before.requested_bytes,
                      2 * requested);
    ck_assert_uint_eq(test_stats(world.pool).live_bytes - before.live_bytes, 2 * taken);
    OK(tarn_pool_validate(world.pool));
    for (size_t i = 0; i < 2; i++)
        OK(tarn_free(addresses[i]));
}

static void expect_rounding_by_four(void)
{
    expect_taken(1, 512);
    expect_taken(2000, 2048);
    expect_taken(2049, 2560);
    expect_taken(4097, 5120);
    expect_taken(MIB + 1, MIB + MIB / 4); /* a large block */
    expect_taken(MIB - 1, MIB);
    expect_taken(33 * MIB, 40 * MIB);
}

GROUP(rounding, NULL)

TEST(rounding, blocks_are_rounded_to_steps_as_the_option_says)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    for (int i = 0; i < TARN_ROUNDUP_SIZES; i++)
        options.roundup_power2_divisions[i] = 4;
    open_world("", options);
    expect_rounding_by_four();
    test_world_close();
}

TEST(rounding, blocks_are_rounded_to_steps_as_it_says)
{
    open_world("roundup_power2_divisions:4", (tarn_device_options)TARN_DEVICE_OPTIONS_INIT);
    expect_rounding_by_four();
    test_world_close();
}

TEST(rounding, each_size_is_rounded_by_its_own_number)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.roundup_power2_divisions[0] = 2; /* which it takes back */
    open_world("roundup_power2_divisions:[2:1,4:2,16:4]", options);
    expect_taken(MIB + 1, MIB + 512);
    expect_taken(3 * MIB + 1, 3 * MIB + 512);
    expect_taken(4 * MIB + 1, 6 * MIB);
    expect_taken(9 * MIB, 9 * MIB);
    expect_taken(17 * MIB, 20 * MIB);
    test_world_close();
}

TEST(rounding, nothing_is_rounded_unless_it_is_said)
{
    open_world("", (tarn_device_options)TARN_DEVICE_OPTIONS_INIT);
    expect_taken(4097, 4608);
    expect_taken(33 * MIB + 1, 33 * MIB + 512);
    test_world_close();
}

TEST(rounding, a_request_of_nearly_the_size_gets_the_place_of_another)
{
    void *first;
    void *wall;
    void *second;

    open_world("roundup_power2_divisions:4", (tarn_device_options)TARN_DEVICE_OPTIONS_INIT);
    first = test_alloc(world.pool, 9 * MIB, world.stream);
    wall = test_alloc(world.pool, 512, world.stream);
    OK(tarn_free(first));
    second = test_alloc(world.pool, 9 * MIB + 70000, world.stream);
    ck_assert_ptr_eq(first, second);
    OK(tarn_free(second));
    OK(tarn_free(wall));
    test_world_close();
}

TEST(rounding, aligned_and_captured_blocks_are_rounded_too)
{
    tarn_capture *capture;
    void *address;

    open_world("roundup_power2_divisions:2", (tarn_device_options)TARN_DEVICE_OPTIONS_INIT);
    OK(tarn_pool_malloc(world.pool, 5 * MIB, 2 * MIB, world.stream, &address));
    ck_assert_uint_eq((uintptr_t)address % (2 * MIB), 0);
    ck_assert_uint_eq(test_stats(world.pool).live_bytes, 6 * MIB);
    OK(tarn_free(address));
    capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    address = test_malloc(5 * MIB);
    ck_assert_uint_eq(test_stats(world.pool).live_bytes, 6 * MIB);
    OK(tarn_free(address));
    OK(tarn_graph_destroy(test_capture_end(capture)));
    OK(tarn_pool_validate(world.pool));
    test_world_close();
}

/* The largest request of all is refused for want of memory, not rounded out of range. */
TEST(rounding, the_largest_request_is_no_larger_for_it)
{
    void *address = UNTOUCHED;
    tarn_status status;

    open_world("roundup_power2_divisions:2", (tarn_device_options)TARN_DEVICE_OPTIONS_INIT);
    for (size_t less = 0; less < 2; less++) {
        status =
            tarn_pool_malloc(world.pool, ((size_t)1 << 40) - less, 2 * MIB, world.stream, &address);
        ck_assert_msg(status == TARN_ERR_DEVICE_MEMORY || status == TARN_ERR_ADDRESS_SPACE, "%s",
                      tarn_last_error());
        test_note_status("tarn_pool_malloc", status, tarn_last_error());
        ck_assert_untouched(address);
        OK(tarn_pool_validate(world.pool));
    }
    test_world_close();
}

TEST(rounding, a_restore_revives_rounded_blocks_with_their_bytes)
{
    const size_t words = 5 * MIB / 4;
    tarn_checkpoint *checkpoint;
    tarn_delta *delta;
    void *block;

    open_world("roundup_power2_divisions:2", (tarn_device_options)TARN_DEVICE_OPTIONS_INIT);
    block = test_filled(words, 9);
    checkpoint = test_take(TARN_CONTENTS_DEVICE);
    OK(tarn_free(block));
    delta = test_restore(checkpoint, 0, 1);
    tarn_delta_destroy(delta);
    test_expect_words(world.stream, block, 9, words);
    ck_assert_uint_eq(test_stats(world.pool).live_bytes, 6 * MIB);
    ck_assert_uint_eq(test_stats(world.pool).requested_bytes, 5 * MIB);
    OK(tarn_pool_validate(world.pool));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(block));
    test_world_close();
}

/* Reuse in captures -------------------------------------------------------------------------- */

/* A block that the side stream used is freed behind the join. What the next allocation gets. */
static void *allocate_behind_the_join(void **block)
{
    *block = test_malloc(4 * MIB);
    test_order(world.stream, world.side);
    test_fill(world.side, *block, 5, 1024);
    OK(tarn_record_stream(*block, world.side));
    test_order(world.side, world.stream);
    OK(tarn_free(*block));
    return test_malloc(4 * MIB);
}

/* reuse: whether the block's memory is used again in the capture. When that has ended it is free. */
static void expect_reuse(bool reuse)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    tarn_graph *graph;
    void *block;
    void *next = allocate_behind_the_join(&block);

    ck_assert_int_eq(next == block, reuse);
    ck_assert_uint_eq(test_stats(world.pool).pending_count, reuse ? 0 : 1);
    OK(tarn_free(next));
    graph = test_capture_end(capture);
    OK(tarn_pool_trim(world.pool, NULL)); /* looks whether what is pending has ended */
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 0);
    OK(tarn_pool_validate(world.pool));
    OK(tarn_graph_destroy(graph));
    test_world_close();
}

GROUP(reuse, NULL)

TEST(reuse, what_other_streams_used_is_used_again_in_the_capture)
{
    open_world("", (tarn_device_options)TARN_DEVICE_OPTIONS_INIT);
    expect_reuse(true);
}

TEST(reuse, without_reuse_it_waits_for_the_captures_end)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.no_record_stream_reuse = true;
    open_world("", options);
    expect_reuse(false);
}

TEST(reuse, it_switches_reuse_off_and_on)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    open_world("graph_capture_record_stream_reuse:False", options);
    expect_reuse(false);
    options.no_record_stream_reuse = true;
    open_world("graph_capture_record_stream_reuse:True", options);
    expect_reuse(true);
}
