// SPDX-License-Identifier: Apache-2.0
/* Graphs that are guarded: what becomes of the blocks they refer to, and of their replays. */
#include <stdio.h>

#include "support/world.h"

enum { WORDS = 1 << 10, BYTES = WORDS * 4 };

static char *input; /* of the default pool: no graph's own */
static char *output;
static uint64_t input_number;

static void *external(size_t bytes)
{
    return test_alloc(world.default_pool, bytes, world.stream);
}

static uint64_t number_of(const void *address)
{
    tarn_block block;

    OK(tarn_block_at(address, &block));
    return block.sequence;
}

static void open_world(void)
{
    test_world_open();
    input = external(BYTES);
    output = external(BYTES);
    input_number = number_of(input);
    test_fill(world.stream, input, 7, WORDS);
}

/* What is freed here and kept no more goes with its pool. */
static void close_world(void)
{
    if (output != NULL)
        OK(tarn_free(output));
    test_world_close();
}

/* Captures into the pool a temporary block, which the input is copied through to the output. */
static tarn_capture *section(tarn_pool *pool)
{
    tarn_capture *capture = test_capture_on(pool, world.stream, TARN_CAPTURE_THREAD_LOCAL);
    void *temporary = test_malloc(BYTES);

    test_copy(world.stream, temporary, input, BYTES);
    test_copy(world.stream, output, temporary, BYTES);
    OK(tarn_free(temporary));
    return capture;
}

static tarn_graph *make_graph(tarn_guard guard)
{
    tarn_graph *graph = test_capture_end(section(world.pool));

    OK(tarn_graph_guard(graph, guard, NULL));
    OK(tarn_graph_check(graph));
    return graph;
}

static void expect_replay(tarn_graph *graph, uint32_t value)
{
    OK(tarn_graph_replay(graph, world.stream));
    test_expect_words(world.stream, output, value, WORDS);
}

static void expect_words_of_error(const char *const *words)
{
    for (; *words != NULL; words++)
        ck_assert_msg(strstr(tarn_last_error(), *words) != NULL, "no '%s' in: %s", *words,
                      tarn_last_error());
}

/* It is the copy from the input, which is the section's first node. */
static void expect_stale(tarn_graph *graph)
{
    char block[64];
    char address[32];
    const char *const words[] = {"node 0, copy, source", block, address, NULL};

    (void)snprintf(block, sizeof block, "block %llu of pool", (unsigned long long)input_number);
    (void)snprintf(address, sizeof address, "0x%llx", (unsigned long long)(uintptr_t)input);
    STATUS(TARN_ERR_STALE, tarn_graph_replay(graph, world.stream));
    expect_words_of_error(words);
    STATUS(TARN_ERR_STALE, tarn_graph_check(graph));
    expect_words_of_error(words);
}

SUITE("guards")
GROUP(blocks, open_world, close_world)

TEST(blocks, a_guarded_graph_is_replayed_as_any)
{
    for (int guard = TARN_GUARD_IGNORE; guard <= TARN_GUARD_REFUSE; guard++) {
        tarn_graph *graph = make_graph((tarn_guard)guard);

        expect_replay(graph, 7);
        OK(tarn_pool_validate(world.default_pool));
        OK(tarn_graph_destroy(graph));
    }
    OK(tarn_free(input));
}

TEST(blocks, a_graph_whose_input_was_freed_is_refused)
{
    tarn_graph *graph = make_graph(TARN_GUARD_REFUSE);

    expect_replay(graph, 7);
    OK(tarn_free(input));
    OK(tarn_pool_validate(world.default_pool));
    expect_stale(graph);
    OK(tarn_graph_destroy(graph));
}

TEST(blocks, unguarded_it_is_not)
{
    tarn_graph *graph = make_graph(TARN_GUARD_IGNORE);

    OK(tarn_free(input));
    OK(tarn_graph_check(graph));
    OK(tarn_graph_replay(graph, world.stream));
    test_synchronize(world.stream);
    OK(tarn_graph_destroy(graph));
}

TEST(blocks, the_same_address_again_makes_no_graph_fresh)
{
    tarn_graph *graph = make_graph(TARN_GUARD_REFUSE);

    OK(tarn_free(input));
    ck_assert_ptr_eq(external(BYTES), input);
    expect_stale(graph);
    OK(tarn_graph_guard(graph, TARN_GUARD_REFUSE, NULL)); /* a new look finds the same */
    STATUS(TARN_ERR_STALE, tarn_graph_check(graph));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "node 0, copy, source"));
    OK(tarn_free(input));
    OK(tarn_graph_destroy(graph));
}

TEST(blocks, what_is_kept_is_given_to_nobody_before_the_graph_is_gone)
{
    tarn_graph *graph = make_graph(TARN_GUARD_KEEP);
    void *others[8];

    OK(tarn_free(input));
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(input));
    ck_assert_int_eq(test_state_of(world.default_pool, input), TARN_EXTENT_PENDING);
    for (size_t i = 0; i < 8; i++) {
        others[i] = external(BYTES);
        ck_assert_ptr_ne(others[i], input);
        test_fill(world.stream, others[i], 1, WORDS);
    }
    OK(tarn_pool_trim(world.default_pool, NULL)); /* a wait proves nothing of it */
    OK(tarn_pool_validate(world.default_pool));
    ck_assert_int_eq(test_state_of(world.default_pool, input), TARN_EXTENT_PENDING);
    expect_replay(graph, 7);
    for (size_t i = 0; i < 8; i++)
        OK(tarn_free(others[i]));
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_validate(world.default_pool));
    OK(tarn_pool_trim(world.default_pool, NULL));
    ck_assert_int_ne(test_state_of(world.default_pool, input), TARN_EXTENT_PENDING);
}

/* A launch of a graph that was destroyed may still run. */
TEST(blocks, what_was_kept_waits_for_the_last_launch)
{
    tarn_graph *graph = make_graph(TARN_GUARD_KEEP);

    OK(tarn_free(input));
    test_spin(world.stream, 30);
    OK(tarn_graph_replay(graph, world.stream));
    OK(tarn_graph_destroy(graph));
    ck_assert_int_eq(test_state_of(world.default_pool, input), TARN_EXTENT_PENDING);
    ck_assert(!test_is_given(input, BYTES, world.side));
    OK(tarn_pool_trim(world.default_pool, NULL));
    ck_assert_int_ne(test_state_of(world.default_pool, input), TARN_EXTENT_PENDING);
    test_expect_words(world.stream, output, 7, WORDS);
}

TEST(blocks, a_block_of_several_graphs_is_kept_for_the_last)
{
    tarn_graph *first = make_graph(TARN_GUARD_KEEP);
    tarn_graph *second = make_graph(TARN_GUARD_KEEP);
    tarn_graph *refused = make_graph(TARN_GUARD_REFUSE);

    OK(tarn_free(input));
    expect_stale(refused);
    OK(tarn_graph_destroy(first));
    OK(tarn_pool_validate(world.default_pool));
    OK(tarn_pool_trim(world.default_pool, NULL));
    ck_assert_int_eq(test_state_of(world.default_pool, input), TARN_EXTENT_PENDING);
    expect_replay(second, 7);
    OK(tarn_graph_guard(second, TARN_GUARD_IGNORE, NULL));
    OK(tarn_pool_trim(world.default_pool, NULL));
    ck_assert_int_ne(test_state_of(world.default_pool, input), TARN_EXTENT_PENDING);
    OK(tarn_graph_destroy(second));
    OK(tarn_graph_destroy(refused));
}

/* The graph's own look knows what its guard keeps; another guard would let it go. */
TEST(blocks, what_is_kept_is_no_mistake_and_no_other_guards)
{
    tarn_graph *graph = make_graph(TARN_GUARD_KEEP);
    tarn_graph *other = make_graph(TARN_GUARD_IGNORE);
    tarn_audit_options options = TARN_AUDIT_OPTIONS_INIT;
    tarn_audit *audit = NULL;

    OK(tarn_free(input));
    options.list_all = true;
    OK(tarn_graph_audit(graph, &options, &audit));
    ck_assert_uint_eq(audit->mistake_count, 0);
    ck_assert_uint_eq(audit->counts[TARN_POINTER_KEPT], 1);
    ck_assert_int_eq(audit->pointers[0].pointer_class, TARN_POINTER_KEPT);
    ck_assert_ptr_eq(audit->pointers[0].block.address, input);
    ck_assert_uint_eq(audit->pointers[0].block.sequence, input_number);
    tarn_audit_destroy(audit);
    OK(tarn_graph_audit(other, NULL, &audit)); /* it has no guard */
    ck_assert_uint_eq(audit->mistake_count, 1);
    ck_assert_int_eq(audit->mistakes[0].pointer_class, TARN_POINTER_FREED_EXTERNAL);
    tarn_audit_destroy(audit);
    STATUS(TARN_ERR_WRONG_STATE, tarn_graph_guard(graph, TARN_GUARD_KEEP, NULL));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "1 pointers into them"));
    STATUS(TARN_ERR_WRONG_STATE, tarn_graph_guard(graph, TARN_GUARD_REFUSE, NULL));
    expect_replay(graph, 7);
    OK(tarn_graph_guard(graph, TARN_GUARD_IGNORE, NULL));
    OK(tarn_graph_audit(graph, NULL, &audit));
    ck_assert_uint_eq(audit->mistake_count, 1);
    tarn_audit_destroy(audit);
    OK(tarn_graph_destroy(graph));
    OK(tarn_graph_destroy(other));
}

TEST(blocks, what_is_kept_keeps_its_pool)
{
    tarn_pool *weights = test_pool("weights");
    tarn_graph *graph;

    OK(tarn_free(input));
    input = test_alloc(weights, BYTES, world.stream);
    graph = make_graph(TARN_GUARD_KEEP);
    OK(tarn_free(input));
    STATUS(TARN_ERR_BUSY, tarn_pool_destroy(weights));
    ck_assert_ptr_nonnull(
        strstr(tarn_last_error(), "1 blocks that were freed and that graphs keep"));
    OK(tarn_pool_release(weights));
    ck_assert_uint_eq(test_device_stats().pool_count, 3);
    OK(tarn_graph_destroy(graph));
    test_trim_with_a_wait(world.pool);
    OK(tarn_pool_trim(world.pool, NULL)); /* the next call finds it idle */
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
}

GROUP(others, open_world, close_world)

TEST(others, a_pool_guards_its_graphs)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool;
    tarn_graph *graph;

    options.guard = TARN_GUARD_REFUSE;
    pool = test_pool_with(&options);
    graph = test_capture_end(section(pool));
    OK(tarn_graph_check(graph));
    OK(tarn_free(input));
    expect_stale(graph);
    input = external(2 * BYTES); /* not where it was */
    input_number = number_of(input);
    test_fill(world.stream, input, 9, WORDS);
    OK(tarn_graph_update(graph, section(pool)));
    expect_replay(graph, 9);
    OK(tarn_free(input));
    expect_stale(graph);
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_destroy(pool));
}

/* A pool whose graphs are guarded from their end or adoption on. */
static tarn_pool *guarding_pool(void)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;

    options.guard = TARN_GUARD_REFUSE;
    return test_pool_with(&options);
}

/* Asserts that the refused call made an executable and that none is left. */
static void expect_no_executable(tarn_status status, const tarn_graph *graph, uint64_t made,
                                 uint64_t left)
{
    STATUS(TARN_ERR_DRIVER, status);
    ck_assert_untouched(graph);
    ck_assert_uint_eq(sim.call_count("cuGraphInstantiateWithFlags"), made + 1);
    ck_assert_uint_eq(test_ledger().graph_execs, left);
}

/* _i: which of the audit's questions the driver does not answer. */
static const char *const audit_calls[] = {"cuGraphGetNodes", "cuGraphNodeGetType",
                                          "cuGraphMemcpyNodeGetParams"};
enum { AUDIT_CALLS = sizeof audit_calls / sizeof audit_calls[0] };

TEST_LOOP(others, an_end_whose_guard_cannot_be_made_leaves_no_executable, 0, AUDIT_CALLS)
{
    tarn_pool *pool = guarding_pool();
    tarn_capture *capture = section(pool);
    tarn_graph *graph = UNTOUCHED;
    uint64_t made = sim.call_count("cuGraphInstantiateWithFlags");
    uint64_t left = test_ledger().graph_execs;

    sim.plan_fault(audit_calls[_i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
    expect_no_executable(tarn_capture_end(capture, &graph), graph, made, left);
    OK(tarn_capture_end(capture, &graph));
    expect_replay(graph, 7);
    OK(tarn_free(input));
    expect_stale(graph);
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_destroy(pool));
}

TEST_LOOP(others, an_adoption_whose_guard_cannot_be_made_leaves_no_executable, 0, AUDIT_CALLS)
{
    tarn_pool *pool = guarding_pool();
    tarn_graph *graph = UNTOUCHED;
    uint64_t made = sim.call_count("cuGraphInstantiateWithFlags");
    uint64_t left = test_ledger().graph_execs;
    tn_cu_graph captured;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    test_copy(world.stream, output, input, BYTES);
    captured = test_end_capture(world.stream);
    sim.plan_fault(audit_calls[_i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
    expect_no_executable(tarn_graph_adopt(pool, captured, &graph), graph, made, left);
    ck_assert_uint_eq(test_stats(pool).graph_count, 0);
    OK(tarn_graph_adopt(pool, captured, &graph));
    expect_replay(graph, 7);
    OK(tarn_free(input));
    expect_stale(graph);
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_destroy(pool));
}

/* A graph whose input is freed before its capture ends is stale from its first moment on. */
TEST(others, what_is_freed_in_the_capture_is_missed_at_its_end)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool;
    tarn_capture *capture;
    tarn_graph *graph;

    options.guard = TARN_GUARD_KEEP;
    pool = test_pool_with(&options);
    capture = section(pool);
    OK(tarn_free(input));
    graph = test_capture_end(capture);
    STATUS(TARN_ERR_STALE, tarn_graph_replay(graph, world.stream));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "node 0, copy, source"));
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_destroy(pool));
}

TEST(blocks, its_own_memory_is_not_watched)
{
    void *kept;
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    tarn_graph *graph;

    kept = test_malloc(BYTES);
    test_copy(world.stream, kept, input, BYTES);
    graph = test_capture_end(capture);
    OK(tarn_graph_guard(graph, TARN_GUARD_REFUSE, NULL));
    OK(tarn_free(kept)); /* the graph holds it */
    OK(tarn_graph_check(graph));
    OK(tarn_free(input));
    expect_stale(graph);
    OK(tarn_graph_destroy(graph));
}

/* Of its own pool, in memory of which nothing was captured. */
TEST(blocks, an_input_of_its_own_pool_is_watched)
{
    tarn_graph *graph;

    OK(tarn_free(input));
    input = test_alloc(world.pool, 40 * MIB, world.stream);
    input_number = number_of(input);
    graph = make_graph(TARN_GUARD_REFUSE);
    OK(tarn_free(input));
    expect_stale(graph);
    OK(tarn_graph_destroy(graph));
}

TEST(others, a_restore_that_frees_an_input_is_noticed)
{
    tarn_checkpoint *checkpoint = NULL;
    tarn_pool *weights = test_pool("weights");
    tarn_graph *graph;
    tarn_graph *keeper;

    OK(tarn_free(input));
    OK(tarn_checkpoint_take(weights, TARN_CONTENTS_NONE, world.stream, &checkpoint));
    input = test_alloc(weights, BYTES, world.stream);
    input_number = number_of(input);
    test_fill(world.stream, input, 3, WORDS);
    graph = make_graph(TARN_GUARD_REFUSE);
    keeper = make_graph(TARN_GUARD_KEEP);
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    expect_stale(graph);
    OK(tarn_pool_validate(weights));
    expect_replay(keeper, 3);
    OK(tarn_graph_destroy(graph));
    OK(tarn_graph_destroy(keeper));
    OK(tarn_checkpoint_destroy(checkpoint));
    test_wait_for_all();
    OK(tarn_pool_destroy(weights));
}

/* What is kept makes way for what a restore brings back. */
TEST(others, a_restore_over_kept_memory_makes_the_graph_stale)
{
    tarn_checkpoint *checkpoint = NULL;
    tarn_pool *weights = test_pool("weights");
    tarn_graph *keeper;

    OK(tarn_free(input));
    input = test_alloc(weights, BYTES, world.stream);
    input_number = number_of(input);
    OK(tarn_checkpoint_take(weights, TARN_CONTENTS_NONE, world.stream, &checkpoint));
    keeper = make_graph(TARN_GUARD_KEEP);
    OK(tarn_free(input));
    OK(tarn_graph_check(keeper));
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    OK(tarn_pool_validate(weights));
    expect_stale(keeper);
    OK(tarn_graph_destroy(keeper));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(input));
    OK(tarn_pool_destroy(weights));
}

/* A block of a capture that was aborted goes with its pool, whoever refers to it. */
TEST(others, a_discarded_input_goes_with_its_pool)
{
    tarn_pool *first = test_pool("first");
    tarn_capture *aborted = test_capture_on(first, world.side, TARN_CAPTURE_RELAXED);
    tarn_graph *graph;
    tarn_graph *keeper;

    OK(tarn_free(input));
    OK(tarn_malloc(world.device, BYTES, world.side, (void **)&input));
    input_number = number_of(input);
    graph = make_graph(TARN_GUARD_REFUSE);
    keeper = make_graph(TARN_GUARD_KEEP);
    OK(tarn_capture_abort(aborted));
    OK(tarn_graph_check(graph));
    OK(tarn_pool_validate(first));
    OK(tarn_pool_destroy(first));
    expect_stale(graph);
    expect_stale(keeper);
    OK(tarn_graph_destroy(graph));
    OK(tarn_graph_destroy(keeper));
}

static void free_input(void *argument)
{
    (void)argument;
    OK(tarn_free(input));
}

TEST(others, another_thread_frees_it)
{
    tarn_graph *graph = make_graph(TARN_GUARD_REFUSE);

    test_elsewhere(free_input, NULL);
    expect_stale(graph);
    OK(tarn_graph_destroy(graph));
}

/* A guard that ends leaves the block as any: its next free is its arena's affair. */
TEST(others, a_guard_that_ended_tells_nobody)
{
    tarn_graph *graph = make_graph(TARN_GUARD_REFUSE);

    OK(tarn_graph_guard(graph, TARN_GUARD_IGNORE, NULL));
    OK(tarn_free(input));
    OK(tarn_graph_check(graph));
    OK(tarn_graph_destroy(graph));
}

TEST(others, what_is_accepted_is_no_reason_to_refuse)
{
    tarn_audit_options options = TARN_AUDIT_OPTIONS_INIT;
    tarn_graph *graph = make_graph(TARN_GUARD_IGNORE);

    OK(tarn_free(input));
    OK(tarn_graph_guard(graph, TARN_GUARD_REFUSE, NULL));
    STATUS(TARN_ERR_STALE, tarn_graph_check(graph));
    options.accepted = 1u << TARN_POINTER_FREED_EXTERNAL;
    OK(tarn_graph_guard(graph, TARN_GUARD_REFUSE, &options));
    OK(tarn_graph_check(graph));
    OK(tarn_free(output));
    STATUS(TARN_ERR_STALE, tarn_graph_check(graph));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "node 1, copy, destination"));
    output = NULL;
    OK(tarn_graph_destroy(graph));
}

TEST(others, bad_guards_change_nothing)
{
    tarn_audit_options options = TARN_AUDIT_OPTIONS_INIT;
    tarn_pool_options pool_options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool = UNTOUCHED;
    tarn_graph *graph = make_graph(TARN_GUARD_REFUSE);

    STATUS(TARN_ERR_INVALID_HANDLE, tarn_graph_guard(NULL, TARN_GUARD_KEEP, NULL));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_graph_check(NULL));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_graph_guard(graph, (tarn_guard)3, NULL));
    options.size = 3;
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_graph_guard(graph, TARN_GUARD_KEEP, &options));
    pool_options.guard = (tarn_guard)7;
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_pool_create(world.device, &pool_options, &pool));
    ck_assert_ptr_eq(pool, UNTOUCHED);
    if (test_is_simulated()) {
        sim.plan_fault("cuGraphGetNodes", 1, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER, tarn_graph_guard(graph, TARN_GUARD_IGNORE + 1, NULL));
    }
    OK(tarn_free(input));
    expect_stale(graph); /* it is guarded as it was */
    OK(tarn_graph_destroy(graph));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_graph_guard(graph, TARN_GUARD_KEEP, NULL));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_graph_check(graph));
}
