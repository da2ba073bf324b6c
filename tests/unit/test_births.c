// SPDX-License-Identifier: Apache-2.0
#include "heap/births.h"
#include "support/world.h"
#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *pool;
static tn_cu_stream stream;
static tarn_capture *capture;

static void begin(void)
{
    device = unit_device();
    pool = unit_pool(device);
    stream = test_stream();
    capture = unit_begin(pool, stream);
}

static void end(void)
{
    OK(tarn_capture_abort(capture));
}

static void *take(size_t bytes)
{
    void *address = NULL;

    OK(tarn_malloc(device, bytes, stream, &address));
    return address;
}

static const struct tn_hold *hold(void)
{
    return unit_find_hold(pool, unit_order(device, stream).capture_id);
}

static const struct tn_births *births(void)
{
    ck_assert_ptr_nonnull(hold()->births);
    ck_assert_ptr_null(hold()->births->next);
    return hold()->births;
}

/* The newest: a block of so many bytes there, where the stream stood behind so many nodes. */
static void expect(size_t count, const void *address, uint64_t requested, uint64_t nodes)
{
    const struct tn_birth *birth = &births()->items[births()->count - 1];

    ck_assert_uint_eq(births()->count, count);
    ck_assert_uint_eq(birth->address, (uint64_t)(uintptr_t)address);
    ck_assert_uint_eq(birth->requested, requested);
    ck_assert_uint_eq(births()->words[birth->place], nodes);
    if (nodes == 1)
        ck_assert_uint_eq(births()->words[birth->place + 1],
                          (uint64_t)(uintptr_t)test_last_node(stream));
    OK(tarn_pool_validate(pool));
}

GROUP(births, begin, end)

TEST(births, each_block_has_its_birth_behind_the_streams_last_node)
{
    char *first = take(4096);
    char *second;

    expect(1, first, 4096, 0);
    second = take(1000);
    expect(2, second, 1000, 0);
    test_fill(stream, first, 1, 16);
    second = take(5000);
    expect(3, second, 5000, 1);
    test_fill(stream, first, 1, 16);
    second = take(6000);
    expect(4, second, 6000, 1);
}

TEST(births, what_was_freed_last_is_taken_again_without_a_birth)
{
    char *first = take(4096);

    test_fill(stream, first, 1, 16);
    OK(tarn_free(first));
    ck_assert_ptr_eq(take(4096), first);
    expect(1, first, 4096, 0);
    OK(tarn_free(first));
    ck_assert_ptr_eq(take(4000), first); /* as much memory, and other bytes */
    expect(2, first, 4000, 1);
}

/* Over and over: no node can have meant what was there before. */
TEST(births, what_comes_and_goes_between_two_nodes_has_one_birth)
{
    for (int i = 0; i < 1000; i++) {
        OK(tarn_free(take(4096)));
        (void)unit_stats(pool); /* what is loose is joined */
        OK(tarn_free(take(8192)));
        (void)unit_stats(pool);
    }
    ck_assert_uint_le(births()->count, 2);
    ck_assert_uint_le(births()->word_count, 1);
}

TEST(births, a_stream_behind_many_nodes_stands_nowhere_that_is_known)
{
    enum { MANY = TN_PLACE_MAX + 1 };
    tn_cu_stream sides[MANY];
    void *words = take(4096);

    test_fill(stream, words, 1, 16);
    for (int i = 0; i < MANY; i++) {
        sides[i] = test_stream();
        test_order(stream, sides[i]);
        test_fill(sides[i], words, 1, 16);
    }
    for (int i = 0; i < MANY; i++)
        test_order(sides[i], stream);
    expect(2, take(5000), 5000, TN_PLACE_UNKNOWN);
}

TEST(births, without_host_memory_births_are_lost_and_blocks_are_not)
{
    for (size_t i = 0; i < 63; i++) {
        (void)take(4096 + 512 * i);
        test_fill(stream, take(64 << 10), 1, 16);
    }
    ck_assert(!hold()->births_lost);
    for (uint64_t nth = 1; !hold()->births_lost; nth++) {
        void *address = NULL;
        tarn_status status;

        ck_assert_uint_lt(nth, 10000);
        (void)tn_host_plan_fault(1, false);
        status = tarn_malloc(device, 512 * nth, stream, &address);
        (void)tn_host_plan_fault(0, false);
        ck_assert(status == TARN_OK || status == TARN_ERR_HOST_MEMORY);
    }
    (void)take(777);
    ck_assert(hold()->births_lost);
    OK(tarn_pool_validate(pool));
}

/* P27 */
TEST(births, births_out_of_order_are_named)
{
    struct tn_births *broken;

    (void)take(4096);
    (void)take(8192);
    broken = (struct tn_births *)(uintptr_t)births();
    broken->items[1].sequence = broken->items[0].sequence;
    unit_expect_corrupt(pool, "P27");
    broken->items[1].sequence += 1;
    OK(tarn_pool_validate(pool));
    broken->items[1].place = broken->word_count;
    unit_expect_corrupt(pool, "P27");
    broken->items[1].place = 0;
}

TEST(births, births_go_with_their_hold)
{
    int64_t before;
    tarn_graph *graph;

    OK(tarn_free(take(4096)));
    OK(tarn_capture_end(capture, &graph));
    before = tn_host_outstanding();
    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
    (void)unit_stats(pool);
    OK(tarn_pool_trim(pool, NULL));
    ck_assert_int_lt(tn_host_outstanding(), before);
    capture = unit_begin(pool, stream);
}
