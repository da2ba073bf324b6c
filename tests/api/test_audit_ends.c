// SPDX-License-Identifier: Apache-2.0
/* Where a capture ended that its user began, as an audit knows it without a mark; and later graphs of the pool. */
#include "support/audited.h"
#include "support/nodes.h"

static void look(tarn_graph *graph)
{
    tarn_audit_destroy(audit);
    audit = NULL;
    OK(tarn_graph_audit(graph, &options, &audit));
    ck_assert_ptr_nonnull(audit);
}

static void look_at_driver_graph(tarn_driver_graph graph)
{
    tarn_audit_destroy(audit);
    audit = NULL;
    OK(tarn_driver_graph_audit(world.device, graph, &options, &audit));
    ck_assert_ptr_nonnull(audit);
}

/* So many pointers are of that class, and so many mistakes there are in all. */
static void expect(tarn_pointer_class of, size_t count, size_t mistakes)
{
    ck_assert_msg(audit->counts[of] == count, "%zu are %s, expected %zu", audit->counts[of],
                  tarn_pointer_class_name(of), count);
    ck_assert_uint_eq(audit->mistake_count, mistakes);
}

/* The same address is another block's. */
static void use_input_again(void)
{
    void *before = input;

    OK(tarn_free(input));
    input = test_alloc(world.default_pool, BYTES, world.stream);
    ck_assert_ptr_eq(input, before);
}

/* The program's own graph, on the side stream: it copies the input through a temporary block without a route. */
static tn_cu_graph make_adopted_graph(void)
{
    void *temporary = NULL;

    test_begin_capture(world.side, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tarn_malloc(world.device, BYTES, world.side, &temporary));
    test_copy(world.side, temporary, input, BYTES);
    test_copy(world.side, output, temporary, BYTES);
    OK(tarn_free(temporary));
    return test_end_capture(world.side);
}

GROUP(ends, open_world, close_world, .name = "ends of captures")

TEST(ends, the_end_of_a_capture_that_allocated_is_known_without_a_mark)
{
    tn_cu_graph graph = make_adopted_graph();

    look_at_driver_graph(graph);
    expect(TARN_POINTER_USED_AGAIN, 0, 0);
    use_input_again();
    look_at_driver_graph(graph);
    expect(TARN_POINTER_USED_AGAIN, 1, 1);
    ck_assert_ptr_eq(audit->mistakes[0].block.address, input);
    options.mark = TARN_NO_MARK;
    look_at_driver_graph(graph);
    expect(TARN_POINTER_USED_AGAIN, 0, 0);
    ck_assert_uint_eq(audit->counts[TARN_POINTER_EXTERNAL], 2);
    test_destroy_graph(graph);
}

/* Whichever stream is the first to allocate behind it. */
TEST(ends, the_end_of_a_capture_is_known_on_the_legacy_stream)
{
    tn_cu_graph graph;

    OK(tarn_free(input));
    input = test_alloc(world.default_pool, BYTES, NULL);
    graph = make_adopted_graph();
    OK(tarn_free(input));
    OK(tarn_malloc(world.device, BYTES, NULL, (void **)&input));
    look_at_driver_graph(graph);
    expect(TARN_POINTER_USED_AGAIN, 1, 1);
    test_destroy_graph(graph);
}

TEST(ends, the_end_of_a_capture_by_a_route_is_known_without_a_mark)
{
    tn_cu_graph graph;
    tarn_route *route = test_route(world.pool, tarn_filter_capture, world.side);

    graph = make_adopted_graph();
    OK(tarn_end_allocate_to_pool(route));
    use_input_again();
    look_at_driver_graph(graph);
    expect(TARN_POINTER_USED_AGAIN, 1, 1);
    test_destroy_graph(graph);
}

/* The next to allocate may be another capture, which takes the memory of the input: Tarn's own, or another of the user's. */
TEST_LOOP(ends, the_end_of_a_capture_is_known_in_the_next_capture, 0, 2)
{
    tn_cu_stream own = test_stream();
    tn_cu_graph graph;
    tn_cu_graph next = NULL;
    tarn_graph *next_of_tarn = NULL;
    tarn_capture *capture = NULL;
    void *before;
    tarn_route *route;

    OK(tarn_free(input));
    input = test_alloc(world.pool, BYTES, own);
    graph = make_adopted_graph();
    before = input;
    OK(tarn_free(input));
    OK(tarn_stream_retire(world.device, own)); /* its memory is anyone's */
    test_destroy_stream(own);
    test_wait_for_all();
    route = test_route(world.pool, tarn_filter_capture, world.stream);
    if (_i == 0)
        capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    else
        test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tarn_malloc(world.device, BYTES, world.stream, (void **)&input));
    ck_assert_ptr_eq(input, before);
    test_set_words(world.stream, input, 1, WORDS);
    if (_i == 0)
        next_of_tarn = test_capture_end(capture);
    else
        next = test_end_capture(world.stream);
    OK(tarn_end_allocate_to_pool(route));
    look_at_driver_graph(graph);
    expect(TARN_POINTER_USED_AGAIN, 1, 1);
    test_destroy_graph(graph);
    if (_i == 0)
        OK(tarn_graph_destroy(next_of_tarn));
    else
        test_destroy_graph(next);
}

/* What is allocated beside a capture while that goes on may be its input. */
TEST(ends, blocks_from_before_the_end_of_a_capture_are_its_own_affair)
{
    void *temporary = NULL;
    void *late;
    tn_cu_graph graph;

    test_begin_capture(world.side, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tarn_malloc(world.device, BYTES, world.side, &temporary));
    test_copy(world.side, temporary, input, BYTES);
    late = test_alloc(world.default_pool, BYTES, world.stream);
    test_copy(world.side, late, temporary, BYTES);
    look_at_driver_graph(test_graph_of_capture(world.side));
    expect(TARN_POINTER_USED_AGAIN, 0, 0);
    OK(tarn_free(temporary));
    graph = test_end_capture(world.side);
    look_at_driver_graph(graph);
    expect(TARN_POINTER_USED_AGAIN, 0, 0);
    OK(tarn_free(test_alloc(world.default_pool, BYTES, world.stream)));
    look_at_driver_graph(graph);
    expect(TARN_POINTER_USED_AGAIN, 0, 0);
    ck_assert_uint_eq(audit->counts[TARN_POINTER_EXTERNAL], 2);
    test_destroy_graph(graph);
    OK(tarn_free(late));
}

/* A later graph of the pool has its output where this one's temporary was. */
TEST(ends, a_later_graphs_output_is_overwritten)
{
    tarn_graph *graph = make_graph();
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    void *its = test_malloc(BYTES);
    tarn_graph *later;

    test_copy(world.stream, its, input, BYTES);
    later = test_capture_end(capture);
    look(graph);
    expect(TARN_POINTER_OVERWRITES, 1, 0); /* what it reads there it has written itself */
    expect(TARN_POINTER_REUSED, 1, 0);
    ck_assert_uint_eq(audit->overwrite_count, 1);
    ck_assert_int_eq(audit->overwrites[0].place, TARN_PLACE_DESTINATION);
    ck_assert_uint_eq(audit->overwrites[0].node, 0);
    ck_assert_ptr_eq(audit->overwrites[0].block.address, its);
    options.refused = 1u << TARN_POINTER_OVERWRITES;
    look(graph);
    expect(TARN_POINTER_OVERWRITES, 1, 1);
    ck_assert_uint_eq(audit->overwrite_count, 1);
    options.refused = 0;
    OK(tarn_graph_guard(graph, TARN_GUARD_REFUSE, NULL));
    OK(tarn_graph_check(graph)); /* by itself it harms the other graph alone */
    look(graph);
    expect(TARN_POINTER_OVERWRITES, 1, 1);
    options.accepted = 1u << TARN_POINTER_OVERWRITES;
    look(graph);
    expect(TARN_POINTER_OVERWRITES, 1, 0);
    options.accepted = 0;
    OK(tarn_free(its));
    look(graph);
    expect(TARN_POINTER_OVERWRITES, 0, 0);
    OK(tarn_graph_destroy(graph));
    OK(tarn_graph_destroy(later));
}
