// SPDX-License-Identifier: Apache-2.0
/* Captures that copy from page-locked memory and to it: such a block is the graph's input, and waits
 * for its end. Each case replays after whatever was freed, and compares what the replay has read. */
#include "support/world.h"

enum { WORDS = 256 * 1024 }; /* 1 MiB: a block has a size that no other block here has */

#define BYTES (WORDS * sizeof(uint32_t))

/* Each case is one of the device's default pool of the host, and of private pools of both kinds. */
enum { DEFAULT_POOL, PRIVATE_POOL, REGISTERED_POOL, POOLS };

static uint32_t *output; /* of a device's, what the graphs write */
static tarn_pool *own;   /* a private pool of the case; NULL: none */

static void open_with_output(void)
{
    test_world_open();
    output = test_alloc(world.default_pool, BYTES, world.stream);
    own = NULL;
}

static void close_with_output(void)
{
    if (own != NULL)
        OK(tarn_pool_destroy(own));
    OK(tarn_free(output));
    test_world_close();
}

static tarn_pool *host_pool(int which)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool = NULL;

    options.location = which == PRIVATE_POOL ? TARN_LOCATION_HOST : TARN_LOCATION_REGISTERED;
    if (which != DEFAULT_POOL && own == NULL)
        own = test_pool_with(&options);
    if (which != DEFAULT_POOL)
        return own;
    OK(tarn_host_pool(world.device, &pool));
    return pool;
}

static uint32_t *host_malloc(int which, uint32_t value)
{
    void *address = NULL;
    uint32_t *words;

    if (which == DEFAULT_POOL)
        OK(tarn_host_malloc(world.device, BYTES, &address));
    else
        OK(tarn_pool_malloc(host_pool(which), BYTES, 0, NULL, &address));
    words = address;
    for (size_t i = 0; i < WORDS; i++)
        words[i] = value;
    return words;
}

/* Whether a new block of this size gets the address. What it gets is overwritten, as a program does
 * at once. */
static bool is_reused(int which, const uint32_t *address)
{
    uint32_t *next = host_malloc(which, 0xdead);
    bool reused = next == address;

    OK(tarn_free(next));
    return reused;
}

static void expect_output(uint32_t value)
{
    test_expect_words(world.stream, output, value, WORDS);
    test_set_words(world.stream, output, 0, WORDS);
    test_synchronize(world.stream);
}

SUITE("page-locked memory in captures")
GROUP(captured, open_with_output, close_with_output, .name = "captures")

TEST_LOOP(captured, a_block_freed_in_the_capture_waits_for_the_graph, 0, POOLS)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    uint32_t *input = host_malloc(_i, 5);
    tarn_graph *graph;

    test_copy(world.stream, output, input, BYTES);
    OK(tarn_free_on(input, world.stream));
    ck_assert(!is_reused(_i, input)); /* in the capture */
    graph = test_capture_end(capture);
    ck_assert(!is_reused(_i, input)); /* behind it */
    for (int i = 0; i < 3; i++) {
        OK(tarn_graph_replay(graph, world.stream));
        expect_output(5);
    }
    ck_assert_uint_eq(test_stats(host_pool(_i)).pending_count, 1);
    OK(tarn_graph_destroy(graph));
    OK(tarn_device_collect(world.device));
    ck_assert(is_reused(_i, input));
    OK(tarn_pool_validate(host_pool(_i)));
}

TEST_LOOP(captured, a_block_that_no_captured_work_was_named_for_is_free_at_once, 0, POOLS)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    uint32_t *used = host_malloc(_i, 4);
    uint32_t *unused = host_malloc(_i, 5);
    tarn_graph *graph;

    test_copy(world.stream, output, used, BYTES);
    OK(tarn_record_stream(used, world.stream)); /* the capture is known there from now on */
    OK(tarn_free(unused));
    ck_assert(is_reused(_i, unused));
    graph = test_capture_end(capture);
    ck_assert(is_reused(_i, unused));
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(used));
}

TEST_LOOP(captured, a_block_of_a_stream_alone_waits_for_no_capture, 0, POOLS)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    uint32_t *captured = host_malloc(_i, 4);
    uint32_t *other = host_malloc(_i, 5);

    test_copy(world.stream, output, captured, BYTES);
    OK(tarn_record_stream(captured, world.stream));
    test_copy(world.side, output, other, BYTES);
    OK(tarn_free_on(other, world.side));
    test_synchronize(world.side);
    OK(tarn_device_collect(world.device)); /* looks at the stream */
    ck_assert(is_reused(_i, other));
    OK(tarn_graph_destroy(test_capture_end(capture)));
    OK(tarn_free(captured));
}

TEST_LOOP(captured, a_block_freed_behind_the_capture_waits_for_the_graph, 0, POOLS)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    uint32_t *input = host_malloc(_i, 5);
    tarn_graph *graph;

    test_copy(world.stream, output, input, BYTES);
    OK(tarn_record_stream(input, world.stream));
    graph = test_capture_end(capture);
    OK(tarn_graph_replay(graph, world.stream));
    expect_output(5);
    OK(tarn_free(input));
    ck_assert(!is_reused(_i, input));
    OK(tarn_graph_replay(graph, world.stream));
    expect_output(5);
    OK(tarn_graph_destroy(graph));
    OK(tarn_device_collect(world.device));
    ck_assert(is_reused(_i, input));
}

TEST_LOOP(captured, a_block_that_is_kept_is_read_anew_by_each_replay, 0, POOLS)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    uint32_t *input = host_malloc(_i, 5);
    tarn_graph *graph;

    test_copy(world.stream, output, input, BYTES);
    OK(tarn_record_stream(input, world.stream));
    graph = test_capture_end(capture);
    for (uint32_t value = 6; value < 9; value++) {
        for (size_t i = 0; i < WORDS; i++)
            input[i] = value;
        OK(tarn_graph_replay(graph, world.stream));
        expect_output(value);
    }
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(input));
    ck_assert(is_reused(_i, input)); /* the graph had gone before */
}

TEST_LOOP(captured, a_block_of_two_graphs_waits_for_both, 0, POOLS)
{
    uint32_t *input = host_malloc(_i, 5);
    tarn_graph *graphs[2];

    for (int i = 0; i < 2; i++) {
        tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);

        test_copy(world.stream, output, input, BYTES);
        OK(tarn_record_stream(input, world.stream));
        graphs[i] = test_capture_end(capture);
    }
    OK(tarn_free(input));
    OK(tarn_graph_destroy(graphs[0]));
    OK(tarn_device_collect(world.device));
    ck_assert(!is_reused(_i, input));
    OK(tarn_graph_replay(graphs[1], world.stream));
    expect_output(5);
    OK(tarn_graph_destroy(graphs[1]));
    OK(tarn_device_collect(world.device));
    ck_assert(is_reused(_i, input));
}

TEST_LOOP(captured, a_launch_that_runs_keeps_the_block_of_a_destroyed_graph, 0, POOLS)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    uint32_t *input = host_malloc(_i, 5);
    tarn_graph *graph;

    test_copy(world.stream, output, input, BYTES);
    OK(tarn_free_on(input, world.stream));
    graph = test_capture_end(capture);
    sim.hold_work();
    OK(tarn_graph_replay(graph, world.stream));
    OK(tarn_graph_destroy(graph));
    OK(tarn_device_collect(world.device));
    ck_assert(!is_reused(_i, input));
    sim.resume_work();
    expect_output(5);
    test_await_destructors(0);
    OK(tarn_device_collect(world.device));
    ck_assert(is_reused(_i, input));
}

TEST(captured, blocks_of_a_private_pool_follow_the_same_rules)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_capture *capture;
    tarn_graph *graph;
    tarn_pool *pool;
    void *input = NULL;

    options.name = "inputs";
    options.location = TARN_LOCATION_HOST;
    pool = test_pool_with(&options);
    capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    OK(tarn_pool_malloc(pool, BYTES, 0, world.stream, &input));
    memset(input, 5, BYTES);
    test_copy(world.stream, output, input, BYTES);
    OK(tarn_free_on(input, world.stream));
    graph = test_capture_end(capture);
    STATUS(TARN_ERR_BUSY, tarn_pool_destroy(pool));
    OK(tarn_pool_release(pool)); /* goes with the graph */
    OK(tarn_graph_replay(graph, world.stream));
    expect_output(0x05050505);
    OK(tarn_graph_destroy(graph));
    OK(tarn_device_collect(world.device));
}

TEST_LOOP(captured, a_graph_of_the_program_keeps_its_inputs_until_its_own_end, 0, POOLS)
{
    tn_cu_graphexec exec;
    tn_cu_graph graph;
    uint32_t *input;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    input = host_malloc(_i, 5);
    test_copy(world.stream, output, input, BYTES);
    OK(tarn_free_on(input, world.stream));
    graph = test_end_capture(world.stream);
    exec = test_instantiate(graph);
    test_destroy_graph(graph);
    OK(tarn_device_collect(world.device));
    ck_assert(!is_reused(_i, input));
    test_launch(exec, world.stream);
    expect_output(5);
    test_destroy_exec(exec);
    test_await_destructors(0);
    OK(tarn_device_collect(world.device));
    ck_assert(is_reused(_i, input));
}

TEST_LOOP(captured, an_aborted_capture_keeps_nothing, 0, POOLS)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    uint32_t *freed = host_malloc(_i, 5);
    uint32_t *kept;

    test_copy(world.stream, output, freed, BYTES);
    OK(tarn_free_on(freed, world.stream));
    kept = host_malloc(_i, 6);
    test_copy(world.stream, output, kept, BYTES);
    OK(tarn_record_stream(kept, world.stream));
    OK(tarn_capture_abort(capture));
    OK(tarn_device_collect(world.device));
    ck_assert(is_reused(_i, freed));
    ck_assert_uint_eq(kept[0], 6); /* live: nothing of the capture's was its memory */
    OK(tarn_free(kept));
    ck_assert_uint_eq(test_stats(host_pool(_i)).pending_count, 0);
}

TEST_LOOP(captured, graphs_that_share_memory_of_the_host_alone_have_no_order, 0, POOLS)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    uint32_t *input = host_malloc(_i, 5);
    tarn_pool *pools[2];
    tarn_graph *graphs[4]; /* two of each pool: a single one needs no order */
    tn_cu_stream streams[2] = {world.stream, world.side};

    options.replay_order = TARN_REPLAY_REFUSED; /* an order would be told */
    for (int i = 0; i < 4; i++) {
        tarn_capture *capture;
        void *block;

        if (i < 2)
            pools[i] = test_pool_with(&options);
        capture = test_capture_on(pools[i % 2], streams[i % 2], TARN_CAPTURE_RELAXED);
        block = test_alloc(pools[i % 2], BYTES, streams[i % 2]);
        test_copy(streams[i % 2], block, input, BYTES);
        OK(tarn_record_stream(input, streams[i % 2]));
        OK(tarn_free(block));
        graphs[i] = test_capture_end(capture);
    }
    sim.hold_work();
    for (int i = 0; i < 4; i++)
        OK(tarn_graph_replay(graphs[i], streams[i % 2]));
    sim.resume_work();
    test_wait_for_all();
    for (int i = 0; i < 4; i++)
        OK(tarn_graph_destroy(graphs[i]));
    for (int i = 0; i < 2; i++)
        OK(tarn_pool_destroy(pools[i]));
    OK(tarn_free(input));
}

/* A query in a capture that is not relaxed breaks the capture. */
TEST_LOOP(captured, blocks_that_wait_for_streams_disturb_no_capture, 0, POOLS)
{
    uint32_t *slow = host_malloc(_i, 5);
    tarn_capture *capture;
    uint32_t *next;

    sim.hold_work();
    test_copy(world.side, output, slow, BYTES);
    OK(tarn_free_on(slow, world.side));
    capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    next = host_malloc(_i, 6); /* looks for memory, and at the stream */
    ck_assert_ptr_ne(next, slow);
    test_copy(world.stream, output, next, BYTES);
    OK(tarn_free_on(next, world.stream));
    sim.resume_work();
    OK(tarn_graph_destroy(test_capture_end(capture)));
    test_wait_for_all();
    OK(tarn_device_collect(world.device));
}

/* An audit knows the addresses in both kinds of memory of the host. */
TEST(captured, an_audit_names_the_inputs_of_a_graph)
{
    static const tarn_location locations[] = {TARN_LOCATION_HOST, TARN_LOCATION_REGISTERED};
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;

    for (int i = 0; i < 2; i++) {
        tarn_capture *capture;
        tarn_audit *audit = NULL;
        void *input = NULL;
        tarn_graph *graph;
        tarn_pool *pool;

        options.location = locations[i];
        pool = test_pool_with(&options);
        OK(tarn_pool_malloc(pool, BYTES, 0, NULL, &input));
        capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
        test_copy(world.stream, output, input, BYTES);
        graph = test_capture_end(capture);
        OK(tarn_graph_audit(graph, NULL, &audit));
        ck_assert_uint_eq(audit->counts[TARN_POINTER_EXTERNAL], 2); /* the output, too */
        ck_assert_uint_eq(audit->mistake_count, 0);
        tarn_audit_destroy(audit);
        OK(tarn_free(input)); /* it was not named: the graph reads what nobody keeps */
        OK(tarn_graph_audit(graph, NULL, &audit));
        ck_assert_uint_eq(audit->mistake_count, 1);
        tarn_audit_destroy(audit);
        OK(tarn_graph_destroy(graph));
        OK(tarn_pool_destroy(pool));
    }
}

/* A guard finds inputs that were not named, and keeps them. */
TEST_LOOP(captured, a_guard_keeps_inputs_that_nobody_named, 0, POOLS)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    uint32_t *input = host_malloc(_i, 5);
    tarn_capture *capture;
    tarn_graph *graph;
    tarn_pool *pool;

    options.guard = TARN_GUARD_KEEP;
    pool = test_pool_with(&options);
    capture = test_capture_on(pool, world.stream, TARN_CAPTURE_RELAXED);
    test_copy(world.stream, output, input, BYTES);
    graph = test_capture_end(capture);
    OK(tarn_free(input));
    ck_assert(!is_reused(_i, input));
    OK(tarn_graph_replay(graph, world.stream));
    expect_output(5);
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_destroy(pool));
    OK(tarn_pool_trim(host_pool(_i), NULL)); /* a wait: the guard cannot tell when replays ended */
    ck_assert_uint_eq(test_stats(host_pool(_i)).pending_count, 0);
}
