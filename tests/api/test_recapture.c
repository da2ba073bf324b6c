// SPDX-License-Identifier: Apache-2.0
/* Sections that are captured again after a restore get the same addresses, whatever the driver says
 * when it is asked whether work is done: what is so, never, or always. Nor does it matter when the
 * driver runs destructors of user objects. Random sections free with tarn_free and tarn_free_on,
 * behind forks and joins; what they leave is freed outside, for streams that are busy.
 * TARN_TREE_SEED repeats a run. */
#include <stdio.h>
#include <stdlib.h>

#include "support/world.h"

enum { CALLS = 40, SECTIONS = 3, ROUNDS = 4, ANSWERS = 3, LIVE = 64 };

static tn_cu_stream third;
static uint64_t state;
static bool own;          /* the captures are the program's own, and are adopted */
static tarn_route *route; /* of such a capture */
static bool awaits;       /* the destructors behind each section */
static size_t compared;   /* rounds */

static size_t pick(size_t below)
{
    state ^= state << 13; /* Marsaglia's xorshift */
    state ^= state >> 7;
    state ^= state << 17;
    return (size_t)(state >> 11) % below;
}

static void open_streams(void)
{
    test_world_open();
    third = test_stream();
    own = false;
}

static void close_streams(void)
{
    sim.set_queries(0);
    test_wait_for_all();
    test_destroy_stream(third);
    test_world_close();
}

static size_t some_bytes(void)
{
    return pick(4) == 0 ? MIB + pick(2 * MIB) : pick(60000) + 1;
}

static tarn_capture *begin(void)
{
    if (!own)
        return test_capture_begin(TARN_CAPTURE_GLOBAL);
    route = test_route(world.pool, tarn_filter_capture, world.stream);
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    return NULL;
}

static tarn_graph *end(tarn_capture *capture)
{
    tarn_graph *graph;
    tn_cu_graph captured;

    if (!own)
        return test_capture_end(capture);
    captured = test_end_capture(world.stream);
    OK(tarn_end_allocate_to_pool(route));
    OK(tarn_graph_adopt(world.pool, captured, &graph));
    return graph;
}

/* A section with a fork to the side stream, which is joined now and then, and at the end. */
static size_t section(void **addresses, void **left)
{
    tarn_capture *capture = begin();
    tarn_graph *graph;
    void *live[CALLS];
    size_t count = 0;

    test_order(world.stream, world.side);
    for (size_t i = 0; i < CALLS; i++) {
        bool forked = pick(4) == 0;
        size_t gone;

        OK(tarn_malloc(world.device, some_bytes(), forked ? world.side : world.stream,
                       &addresses[i]));
        test_fill(forked ? world.side : world.stream, addresses[i], 1, 1);
        live[count++] = addresses[i];
        if (pick(5) == 0)
            OK(tarn_record_stream(addresses[i], forked ? world.stream : world.side));
        if (pick(6) == 0)
            test_order(world.side, world.stream);
        if (pick(6) == 0)
            test_order(world.stream, world.side);
        if (pick(2) == 0)
            continue;
        gone = pick(count);
        if (pick(2) == 0)
            OK(tarn_free_on(live[gone], pick(2) == 0 ? world.side : world.stream));
        else
            OK(tarn_free(live[gone]));
        live[gone] = live[--count];
    }
    test_order(world.side, world.stream);
    graph = end(capture);
    OK(tarn_graph_replay(graph, world.stream));
    test_synchronize(world.stream);
    OK(tarn_graph_destroy(graph));
    if (awaits)
        test_await_destructors(0);
    memcpy(left, live, count * sizeof *live);
    return count;
}

static void free_it(void *block)
{
    OK(tarn_free(block));
}

/* Frees what a section has left, mostly: for streams that are busy, here or on another thread. */
static void free_left(void **left, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tn_cu_stream user = pick(2) == 0 ? third : world.side;
        bool used;

        if (pick(3) == 0)
            continue;
        used = pick(2) == 0;
        if (used)
            test_fill(user, left[i], 2, 1);
        if (pick(4) != 0) {
            OK(tarn_free_on(left[i], user));
            continue;
        }
        if (used)
            OK(tarn_record_stream(left[i], user));
        test_elsewhere(free_it, left[i]);
    }
}

/* Three sections, and looks between them. */
static void branch(uint64_t seed, void **addresses)
{
    void *left[CALLS];

    state = seed * 0x9E3779B97F4A7C15U + 1;
    for (size_t i = 0; i < SECTIONS; i++) {
        size_t count = section(addresses + i * CALLS, left);

        test_spin(third, 1);
        free_left(left, count);
        OK(tarn_device_collect(world.device));
    }
}

/* What the pool has before the checkpoint: some of it is pending when that is taken. */
static void begin_pool(uint64_t seed, bool held)
{
    void *blocks[LIVE];
    tn_cu_stream users[LIVE];

    state = seed * 77 + 1;
    if (held)
        sim.hold_work();
    for (size_t i = 0; i < LIVE; i++) {
        users[i] = pick(2) == 0 ? third : world.side;
        blocks[i] = test_alloc(world.pool, some_bytes(), world.stream);
        test_fill(users[i], blocks[i], 3, 1);
    }
    for (size_t i = 0; i < LIVE; i += 2)
        OK(tarn_free_on(blocks[i], users[i]));
    test_order(third, world.stream); /* what stays is the stream's again */
    test_order(world.side, world.stream);
}

/* The same branch, captured again and again under each answer. Only rounds before which
 * nothing was mapped are compared; the first ones map what all later ones find. */
static void check(uint64_t seed, tarn_contents contents)
{
    static void *addresses[SECTIONS * CALLS];
    static void *before[SECTIONS * CALLS];
    tarn_checkpoint *empty = NULL;
    tarn_checkpoint *checkpoint = NULL;
    uint64_t mapped = 0;

    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, world.stream, &empty));
    begin_pool(seed, true);
    OK(tarn_checkpoint_take(world.pool, contents, world.stream, &checkpoint));
    sim.resume_work();
    for (int round = 0; round < ANSWERS * ROUNDS; round++) {
        bool same = round > 0 && mapped == test_stats(world.pool).map_count;

        mapped = test_stats(world.pool).map_count;
        sim.set_queries(round % ANSWERS);
        branch(seed, addresses);
        OK(tarn_pool_validate(world.pool));
        for (size_t i = 0; same && i < SECTIONS * CALLS; i++)
            ck_assert_msg(addresses[i] == before[i],
                          "call %zu of round %d: %p, was %p (TARN_TREE_SEED=%llu)", i, round,
                          addresses[i], before[i], (unsigned long long)seed);
        compared += same;
        memcpy(before, addresses, sizeof before);
        OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
        ck_assert_uint_eq(test_stats(world.pool).pending_count, 0); /* C8 */
    }
    OK(tarn_checkpoint_restore(empty, world.stream, NULL));
    OK(tarn_checkpoint_destroy(empty));
    OK(tarn_checkpoint_destroy(checkpoint));
    test_await_destructors(0);
}

static uint64_t seed_of(int number)
{
    const char *value = getenv("TARN_TREE_SEED");
    uint64_t seed = value != NULL ? strtoull(value, NULL, 10)
                                  : test_setting("TARN_FRESH_SEED", 1) * 64 + (uint64_t)number;

    printf("TARN_TREE_SEED=%llu\n", (unsigned long long)seed);
    (void)fflush(stdout);
    return seed;
}

static void check_of(int number, bool adopted)
{
    own = adopted;
    awaits = number / 2 % 2 == 1;
    check(seed_of(number), number % 2 == 0 ? TARN_CONTENTS_NONE : TARN_CONTENTS_DEVICE);
    ck_assert_uint_ge(compared, ANSWERS);
}

SUITE("sections captured again")
GROUP(recapture, open_streams, close_streams)

TEST_LOOP(recapture, a_section_gets_the_same_addresses_whatever_queries_say, 0, 8)
{
    check_of(_i, false);
}

TEST_LOOP(recapture, an_adopted_section_gets_the_same_addresses_whatever_queries_say, 0, 4)
{
    check_of(_i, true);
}

TEST_LOOP(recapture, so_does_one_of_a_device_without_reuse_in_captures, 0, 4)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    close_streams();
    options.no_record_stream_reuse = true;
    test_world_open_with(&options);
    third = test_stream();
    awaits = _i % 2 == 1;
    check(seed_of(_i), TARN_CONTENTS_NONE);
    ck_assert_uint_ge(compared, ANSWERS);
}

/* The case that everybody meets: a temporary block, used behind a fork and freed behind the join. The next
 * section of the same pool gets its memory, with a restore between them and without. */
TEST(recapture, a_block_that_is_freed_behind_a_join_is_free_at_the_captures_end)
{
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_NONE);
    tarn_graph *graphs[3];
    void *first = NULL;

    sim.set_queries(1);
    for (int round = 0; round < 3; round++) {
        tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
        void *block = test_malloc(4 * MIB);

        if (first == NULL)
            first = block;
        ck_assert_ptr_eq(block, first);
        test_order(world.stream, world.side);
        test_fill(world.side, block, 1, 1);
        test_order(world.side, world.stream);
        OK(tarn_free_on(block, world.side));
        ck_assert_uint_eq(test_stats(world.pool).pending_count, 1);
        graphs[round] = test_capture_end(capture);
        ck_assert_uint_eq(test_stats(world.pool).pending_count, 0);
        if (round == 1)
            OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    }
    for (int round = 0; round < 3; round++)
        OK(tarn_graph_destroy(graphs[round]));
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* Used behind a fork, and freed outside, where the destructor of the graph has run or not. */
TEST(recapture, a_block_that_an_ended_capture_used_is_free_at_once)
{
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_NONE);

    for (int round = 0; round < 4; round++) {
        bool late = round % 2 == 1;
        tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
        void *block = test_malloc(MIB);
        tarn_graph *graph;

        test_order(world.stream, world.side);
        test_fill(world.side, block, 1, 1);
        OK(tarn_record_stream(block, world.side));
        test_order(world.side, world.stream);
        graph = test_capture_end(capture);
        sim.delay_destructors(late ? 10000000 : 0);
        OK(tarn_graph_destroy(graph));
        if (!late)
            test_await_destructors(0);
        OK(tarn_free(block));
        ck_assert_uint_eq(test_stats(world.pool).pending_count, 0);
        if (late)
            test_await_destructors(0);
        sim.delay_destructors(0);
        capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
        ck_assert_ptr_eq(test_malloc(MIB), block);
        OK(tarn_graph_destroy(test_capture_end(capture)));
        OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    }
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* In a pool with checkpoints a capture gets what was found at the next restore. */
TEST(recapture, a_collect_serves_statistics_and_no_capture)
{
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_NONE);
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *output = test_malloc(4 * MIB);
    void *next;

    OK(tarn_graph_destroy(test_capture_end(capture)));
    OK(tarn_free_on(output, world.side));
    test_synchronize(world.side);
    OK(tarn_device_collect(world.device));
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 0);
    ck_assert_int_eq(test_state_of(world.pool, output), TARN_EXTENT_FREE);
    OK(tarn_pool_validate(world.pool));
    capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    next = test_malloc(4 * MIB);
    ck_assert_ptr_ne(next, output);
    OK(tarn_graph_destroy(test_capture_end(capture)));
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    ck_assert_ptr_eq(test_malloc(4 * MIB), output);
    OK(tarn_capture_abort(capture));
    OK(tarn_free(output));
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* What a take frees behind a stream's use goes to captures at once, and the replays of what they capture come behind
 * that use, on a stream that is neither's and of a graph that is made later. */
TEST(recapture, replays_come_behind_what_a_take_found_in_use)
{
    enum { WORDS = 1 << 12 };
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *output = test_malloc(4 * MIB);
    tarn_checkpoint *checkpoint;
    tarn_graph *graph;
    void *copy = test_alloc(world.default_pool, WORDS * 4, world.side);
    void *next;

    OK(tarn_graph_destroy(test_capture_end(capture)));
    test_await_destructors(0);
    test_spin(world.side, 20);
    test_fill(world.side, output, 1, WORDS);
    test_copy(world.side, copy, output, WORDS * 4);
    OK(tarn_free_on(output, world.side));
    checkpoint = test_take(TARN_CONTENTS_NONE);
    capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    next = test_malloc(4 * MIB);
    ck_assert_ptr_eq(next, output);
    test_fill(world.stream, next, 2, WORDS);
    OK(tarn_free(next));
    graph = test_capture_end(capture);
    OK(tarn_graph_replay(graph, third)); /* neither the take's stream nor the use's */
    test_synchronize(third);
    test_expect_words(third, copy, 1, WORDS);
    test_expect_words(third, next, 2, WORDS);
    OK(tarn_graph_destroy(graph));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(copy));
}
