// SPDX-License-Identifier: Apache-2.0
/* Executable graphs that take a new capture's form: what runs then, and what stays held. */
#include "support/world.h"

enum { WORDS = 1 << 10 };

static void *temporary; /* of the last section */

/* Captures a fill of a temporary block and a copy of it to the output; nodes: fills before them. */
static tarn_capture *section(uint32_t value, void *output, int nodes)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);

    temporary = test_malloc(4 * MIB);
    for (int i = 0; i < nodes; i++)
        test_fill(world.stream, temporary, 0, WORDS);
    test_fill(world.stream, temporary, value, WORDS);
    test_spin(world.stream, 3);
    test_copy(world.stream, output, temporary, WORDS * 4);
    OK(tarn_free(temporary));
    return capture;
}

static tarn_graph *make_graph(uint32_t value)
{
    return test_capture_end(section(value, world.outputs[0], 0));
}

GROUP(graph_update, test_outputs_open, test_outputs_close)

TEST(graph_update, an_updated_graph_runs_the_new_section)
{
    tarn_graph *graph = make_graph(5);
    tarn_driver_exec exec = NULL;
    tarn_driver_exec same = NULL;

    OK(tarn_graph_driver_handles(graph, NULL, &exec));
    for (uint32_t round = 0; round < 10; round++) {
        OK(tarn_graph_replay(graph, world.stream));
        test_expect_words(world.stream, world.outputs[0], 5 + round, WORDS);
        OK(tarn_graph_update(graph, section(6 + round, world.outputs[0], 0)));
    }
    OK(tarn_graph_driver_handles(graph, NULL, &same));
    ck_assert_ptr_eq(same, exec);
    ck_assert_uint_eq(test_stats(world.pool).graph_count, 1);
    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, 0);
}

TEST(graph_update, the_captures_handle_is_gone_and_the_graph_has_its_template)
{
    tarn_graph *graph = make_graph(5);
    tarn_capture *capture = section(6, world.outputs[0], 0);
    tarn_driver_graph before = NULL;
    tarn_driver_graph after = NULL;
    tarn_graph *another = UNTOUCHED;
    tn_cu_graph clone;

    OK(tarn_graph_driver_handles(graph, &before, NULL));
    OK(tarn_graph_update(graph, capture));
    OK(tarn_graph_driver_handles(graph, &after, NULL));
    ck_assert_ptr_ne(after, before);
    REFUSE(TARN_ERR_INVALID_HANDLE, "capture", tarn_capture_end(capture, &another));
    REFUSE(TARN_ERR_INVALID_HANDLE, "capture", tarn_capture_abort(capture));
    REFUSE(TARN_ERR_INVALID_HANDLE, "capture", tarn_graph_update(graph, capture));
    ck_assert_untouched(another);
    clone = test_clone(after); /* of the new section */
    OK(tarn_graph_destroy(graph));
    test_launch_once(clone, world.stream);
    test_expect_words(world.stream, world.outputs[0], 6, WORDS);
    test_destroy_graph(clone);
}

TEST(graph_update, memory_of_the_old_section_is_free_when_the_update_is_made)
{
    void *big;
    tarn_capture *capture = NULL;
    tarn_graph *graph;

    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    big = test_malloc(64 * MIB);
    test_fill(world.stream, big, 1, WORDS);
    test_copy(world.stream, world.outputs[0], big, WORDS * 4);
    OK(tarn_free(big));
    graph = test_capture_end(capture);
    ck_assert_uint_ge(test_stats(world.pool).captured_bytes, 64 * MIB);
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    temporary = test_malloc(MIB); /* with chunks of its own kind: small */
    test_fill(world.stream, temporary, 2, WORDS);
    test_copy(world.stream, world.outputs[0], temporary, WORDS * 4);
    OK(tarn_graph_update(graph, capture));
    test_await_destructors(1);
    ck_assert_uint_lt(test_stats(world.pool).captured_bytes, 128 * MIB);
    OK(tarn_graph_replay(graph, world.stream));
    test_expect_words(world.stream, world.outputs[0], 2, WORDS);
    OK(tarn_free(temporary));
    OK(tarn_graph_destroy(graph));
}

TEST(graph_update, a_running_launch_keeps_the_memory_of_the_old_section)
{
    void *others[8];
    tarn_graph *graph = make_graph(7);
    const void *old = temporary;
    tarn_capture *capture;

    sim.hold_work();
    OK(tarn_graph_replay(graph, world.stream));
    capture = section(8, world.outputs[1], 0);
    OK(tarn_graph_update(graph, capture));
    ck_assert_uint_ge(test_stats(world.pool).captured_bytes, 4 * MIB);
    for (int i = 0; i < 8; i++) { /* outside captures: none of it is the old section's */
        others[i] = test_alloc(world.pool, 4 * MIB, world.side);
        ck_assert_ptr_ne(others[i], old);
        ck_assert_ptr_ne(others[i], temporary);
        test_set_words(world.side, others[i], 0xdead, WORDS);
    }
    OK(tarn_pool_validate(world.pool));
    sim.resume_work();
    test_expect_words(world.stream, world.outputs[0], 7, WORDS);
    OK(tarn_graph_replay(graph, world.side));
    test_expect_words(world.side, world.outputs[1], 8, WORDS);
    for (int i = 0; i < 8; i++)
        OK(tarn_free(others[i]));
    OK(tarn_graph_destroy(graph));
}

/* Both sections have their temporary at one address. */
TEST(graph_update, the_next_launch_on_another_stream_is_behind_the_one_under_way)
{
    tarn_graph *graph = make_graph(1);
    const void *old = temporary;

    for (uint32_t round = 0; round < 10; round++) {
        OK(tarn_graph_replay(graph, round % 2 == 0 ? world.stream : world.side));
        OK(tarn_graph_update(graph, section(round + 2, world.outputs[(round + 1) % 2], 0)));
        ck_assert_ptr_eq(temporary, old);
    }
    OK(tarn_graph_replay(graph, world.stream));
    test_synchronize(world.side);
    test_expect_words(world.stream, world.outputs[0], 11, WORDS);
    test_expect_words(world.stream, world.outputs[1], 10, WORDS);
    OK(tarn_graph_destroy(graph));
}

TEST(graph_update, a_section_of_another_form_is_refused_and_not_lost)
{
    tarn_graph *graph = make_graph(5);
    tarn_capture *capture = section(6, world.outputs[0], 2);
    tarn_graph *another = NULL;

    STATUS(TARN_ERR_CANNOT_UPDATE, tarn_graph_update(graph, capture));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "other nodes"));
    REFUSE(TARN_ERR_CANNOT_UPDATE, "other nodes", tarn_graph_update(graph, capture));
    OK(tarn_graph_replay(graph, world.stream)); /* as it was */
    test_expect_words(world.stream, world.outputs[0], 5, WORDS);
    OK(tarn_capture_end(capture, &another));
    OK(tarn_graph_replay(another, world.stream));
    test_expect_words(world.stream, world.outputs[0], 6, WORDS);
    OK(tarn_graph_destroy(graph));
    OK(tarn_graph_destroy(another));
}

TEST(graph_update, a_refused_section_may_be_aborted_or_be_for_another_graph)
{
    tarn_graph *graph = make_graph(5);
    tarn_graph *longer = test_capture_end(section(6, world.outputs[0], 2));
    tarn_capture *capture = section(7, world.outputs[0], 2);

    STATUS(TARN_ERR_CANNOT_UPDATE, tarn_graph_update(graph, capture));
    OK(tarn_graph_update(longer, capture));
    OK(tarn_graph_replay(longer, world.stream));
    test_expect_words(world.stream, world.outputs[0], 7, WORDS);
    capture = section(8, world.outputs[0], 1);
    STATUS(TARN_ERR_CANNOT_UPDATE, tarn_graph_update(graph, capture));
    OK(tarn_capture_abort(capture));
    OK(tarn_graph_destroy(graph));
    OK(tarn_graph_destroy(longer));
    test_await_destructors(0);
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, 0);
}

TEST(graph_update, bad_arguments_of_update_are_refused)
{
    uint64_t zeros[64] = {0};
    tarn_pool *other = test_pool("other");
    tarn_graph *graph = make_graph(5);
    tarn_capture *capture = NULL;

    OK(tarn_capture_begin(other, world.stream, CAPTURE_MODE(TARN_CAPTURE_RELAXED), &capture));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "another pool", tarn_graph_update(graph, capture));
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    REFUSE(TARN_ERR_INVALID_HANDLE, "graph", tarn_graph_update(NULL, capture));
    REFUSE(TARN_ERR_INVALID_HANDLE, "graph",
           tarn_graph_update((tarn_graph *)(void *)zeros, capture));
    REFUSE(TARN_ERR_INVALID_HANDLE, "graph",
           tarn_graph_update((tarn_graph *)(void *)capture, capture));
    REFUSE(TARN_ERR_INVALID_HANDLE, "capture", tarn_graph_update(graph, NULL));
    REFUSE(TARN_ERR_INVALID_HANDLE, "capture",
           tarn_graph_update(graph, (tarn_capture *)(void *)graph));
    OK(tarn_capture_abort(capture));
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_destroy(other));
}

struct attempt {
    tarn_graph *graph;
    tarn_capture *capture;
};

static void update_elsewhere(void *argument)
{
    const struct attempt *attempt = argument;

    STATUS(TARN_ERR_WRONG_THREAD, tarn_graph_update(attempt->graph, attempt->capture));
}

TEST(graph_update, a_capture_of_another_thread_is_refused)
{
    struct attempt attempt = {.graph = make_graph(5)};

    attempt.capture = section(6, world.outputs[0], 0);
    test_elsewhere(update_elsewhere, &attempt);
    OK(tarn_graph_update(attempt.graph, attempt.capture));
    OK(tarn_graph_destroy(attempt.graph));
}

TEST(graph_update, a_broken_capture_updates_nothing)
{
    tarn_graph *graph = make_graph(5);
    tarn_capture *capture = section(6, world.outputs[0], 0);

    test_break_capture();
    STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_graph_update(graph, capture));
    OK(tarn_capture_abort(capture));
    OK(tarn_graph_replay(graph, world.stream));
    test_expect_words(world.stream, world.outputs[0], 5, WORDS);
    OK(tarn_graph_destroy(graph));
}

TEST(graph_update, after_a_refusal_of_the_drivers_it_can_be_tried_again)
{
    tarn_graph *graph = make_graph(5);
    tarn_capture *capture = section(6, world.outputs[0], 0);

    for (size_t i = 0; i < TEST_REFUSALS; i++) {
        sim.plan_fault("cuGraphExecUpdate", 1, 0, test_refusals[i].result);
        STATUS(test_refusals[i].status, tarn_graph_update(graph, capture));
        ck_assert_ptr_nonnull(strstr(tarn_last_error(), "cuGraphExecUpdate"));
    }
    OK(tarn_graph_update(graph, capture));
    OK(tarn_graph_replay(graph, world.stream));
    test_expect_words(world.stream, world.outputs[0], 6, WORDS);
    OK(tarn_graph_destroy(graph));
}

TEST(graph_update, an_update_disturbs_no_capture_elsewhere)
{
    tarn_graph *graph = make_graph(5);
    tarn_capture *capture = section(6, world.outputs[0], 0);

    test_begin_capture(world.side, TN_CU_CAPTURE_MODE_GLOBAL);
    OK(tarn_graph_update(graph, capture));
    ck_assert_int_eq(test_capture_status(world.side), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_destroy_graph(test_end_capture(world.side));
    OK(tarn_graph_destroy(graph));
}
