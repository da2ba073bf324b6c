// SPDX-License-Identifier: Apache-2.0
/* Graphs without a mistake, each an honest use of memory: an audit finds none in them, and counts each address in the
 * class that it is of. They are audited only, and not launched but where their own story has it. */
#include "planted/correct.h"

enum { PAGE_BYTES = 2 << 20 };

/* -- Blocks ----------------------------------------------------------------------------------------- */

static void close_world(void)
{
    test_await_destructors(0);
    planted_close();
}

GROUP(blocks, planted_open_for_tarn, close_world)

TEST(blocks, inputs_are_of_the_default_pool_and_outputs_of_the_own)
{
    tarn_capture *capture = begin();
    void *output = test_malloc(BYTES);
    tarn_graph *graph;

    use(world.outputs[0], output);
    graph = test_capture_end(capture);
    expect(graph, COUNTS([TARN_POINTER_EXTERNAL] = 1, [TARN_POINTER_LIVE] = 1));
    destroy(graph);
    OK(tarn_free(output));
}

TEST(blocks, weights_are_in_another_private_pool)
{
    tarn_pool *other = test_pool("weights");
    void *weights = test_alloc(other, BYTES, world.stream);
    tarn_capture *capture = begin();
    tarn_graph *graph;

    use(weights, (char *)weights + BYTES - 8);
    graph = test_capture_end(capture);
    expect(graph, COUNTS([TARN_POINTER_EXTERNAL] = 2));
    destroy(graph);
    OK(tarn_free(weights));
    OK(tarn_pool_destroy(other));
}

TEST(blocks, blocks_of_the_own_pool_live_since_before_the_capture)
{
    void *block = test_alloc(world.pool, BYTES, world.stream);
    tarn_capture *capture = begin();
    tarn_graph *graph;

    use(block, block);
    graph = test_capture_end(capture);
    expect(graph, COUNTS([TARN_POINTER_LIVE] = 2));
    destroy(graph);
    OK(tarn_free(block));
}

TEST(blocks, temporaries_are_freed_in_the_capture)
{
    tarn_capture *capture = begin();
    char *temporary = test_malloc(BYTES);
    tarn_graph *graph;

    use(temporary, temporary + 512);
    OK(tarn_free(temporary));
    graph = test_capture_end(capture);
    expect(graph, COUNTS([TARN_POINTER_REUSED] = 2));
    destroy(graph);
}

TEST(blocks, an_output_lies_where_a_temporary_was)
{
    tarn_capture *capture = begin();
    void *temporary = test_malloc(BYTES);
    void *output;
    tarn_graph *graph;

    use(temporary, NULL);
    OK(tarn_free(temporary));
    output = test_malloc(BYTES);
    ck_assert_ptr_eq(output, temporary);
    set(output);
    graph = test_capture_end(capture);
    expect(graph, COUNTS([TARN_POINTER_LIVE] = 2));
    destroy(graph);
    OK(tarn_free(output));
}

/* The graph keeps the memory all the same. */
TEST(blocks, an_output_is_freed_behind_the_capture)
{
    tarn_capture *capture = begin();
    void *output = test_malloc(BYTES);
    tarn_graph *graph;
    void *next;

    use(output, NULL);
    graph = test_capture_end(capture);
    OK(tarn_free(output));
    next = test_alloc(world.pool, BYTES, world.stream);
    ck_assert_ptr_ne(next, output);
    expect(graph, COUNTS([TARN_POINTER_REUSED] = 1));
    destroy(graph);
    OK(tarn_free(next));
}

TEST(blocks, a_copy_ends_with_its_blocks_last_byte)
{
    void *block = test_alloc(world.pool, BYTES - 3, world.stream);
    tarn_capture *capture = begin();
    tarn_graph *graph;

    test_copy(world.stream, world.outputs[0], block, BYTES - 3);
    test_set_words(world.stream, world.outputs[1], 1, (16 << 10) / 4);
    test_copy_rows(world.stream, block, world.outputs[1], 509, 512, BYTES / 512);
    graph = test_capture_end(capture);
    expect(graph, COUNTS([TARN_POINTER_EXTERNAL] = 3, [TARN_POINTER_LIVE] = 2));
    destroy(graph);
    OK(tarn_free(block));
}

/* -- Several graphs --------------------------------------------------------------------------------- */

GROUP(several, planted_open_for_tarn, close_world, .name = "several graphs")

TEST(several, a_later_graph_of_the_pool_uses_what_an_earlier_one_freed)
{
    tarn_capture *capture = begin();
    void *temporary = test_malloc(BYTES);
    tarn_graph *earlier;
    tarn_graph *later;
    void *output;

    use(temporary, NULL);
    OK(tarn_free(temporary));
    earlier = test_capture_end(capture);
    capture = begin();
    output = test_malloc(BYTES);
    ck_assert_ptr_eq(output, temporary);
    set(output);
    later = test_capture_end(capture);
    expect(earlier, COUNTS([TARN_POINTER_OVERWRITES] = 1));
    expect(later, COUNTS([TARN_POINTER_LIVE] = 1));
    destroy(earlier);
    destroy(later);
    OK(tarn_free(output));
}

TEST(several, a_graph_has_memory_of_two_pools)
{
    tarn_pool *other = test_pool("second");
    tarn_capture *capture = begin();
    void *own = test_malloc(BYTES);
    void *second = test_alloc(other, BYTES, world.stream);
    tarn_graph *graph;

    use(own, second);
    OK(tarn_free(second));
    graph = test_capture_end(capture);
    expect(graph, COUNTS([TARN_POINTER_LIVE] = 1, [TARN_POINTER_REUSED] = 1));
    destroy(graph);
    test_await_destructors(0);
    OK(tarn_free(own));
    OK(tarn_pool_destroy(other));
}

/* A graph over both pools has put their replays in one order. */
TEST(several, an_output_of_a_pool_in_one_order_is_read)
{
    tarn_pool *other = test_pool("second");
    tarn_capture *capture = begin();
    void *own = test_malloc(BYTES);
    void *output = test_alloc(other, BYTES, world.stream);
    tarn_graph *both;
    tarn_graph *reader;

    use(own, output);
    both = test_capture_end(capture);
    capture = begin();
    use(output, NULL);
    reader = test_capture_end(capture);
    expect(both, COUNTS([TARN_POINTER_LIVE] = 2));
    expect(reader, COUNTS([TARN_POINTER_EXTERNAL] = 1));
    destroy(both);
    destroy(reader);
    test_await_destructors(0);
    OK(tarn_free(own));
    OK(tarn_free(output));
    OK(tarn_pool_destroy(other));
}

TEST(several, a_graph_is_updated_with_other_addresses)
{
    tarn_capture *capture = begin();
    void *first = test_malloc(BYTES);
    tarn_graph *graph;
    void *second;

    use(first, NULL);
    graph = test_capture_end(capture);
    capture = begin();
    second = test_malloc(BYTES);
    ck_assert_ptr_ne(first, second);
    use(second, world.outputs[0]);
    OK(tarn_graph_update(graph, capture));
    OK(tarn_free(first));
    expect(graph, COUNTS([TARN_POINTER_LIVE] = 1, [TARN_POINTER_EXTERNAL] = 1));
    destroy(graph);
    OK(tarn_free(second));
}

TEST(several, a_section_is_captured_again_after_a_restore)
{
    void *kept = test_alloc(world.pool, BYTES, world.stream);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_NONE);
    void *outputs[2];
    tarn_graph *graphs[2];

    for (int i = 0; i < 2; i++) {
        tarn_capture *capture = begin();

        outputs[i] = test_malloc(BYTES);
        use(kept, outputs[i]);
        graphs[i] = test_capture_end(capture);
        expect(graphs[i], COUNTS([TARN_POINTER_LIVE] = 2));
        if (i == 0)
            tarn_delta_destroy(test_restore(checkpoint, 1, 0));
    }
    ck_assert_ptr_eq(outputs[0], outputs[1]);
    expect(graphs[0], COUNTS([TARN_POINTER_LIVE] = 1, [TARN_POINTER_OVERWRITES] = 1));
    destroy(graphs[0]);
    destroy(graphs[1]);
    OK(tarn_free(outputs[1]));
    OK(tarn_free(kept));
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* -- Captures --------------------------------------------------------------------------------------- */

GROUP(captures, planted_open_for_tarn, close_world)

TEST(captures, forked_streams_have_temporaries_of_their_own)
{
    tarn_capture *capture = begin();
    void *mine = test_malloc(BYTES);
    void *forked = NULL;
    tarn_graph *graph;

    use(mine, NULL);
    test_order(world.stream, world.side);
    OK(tarn_malloc(world.device, BYTES, world.side, &forked));
    use_on(world.side, forked, mine);
    test_order(world.side, world.stream);
    OK(tarn_free_on(forked, world.stream));
    set(mine);
    graph = test_capture_end(capture);
    expect(graph, COUNTS([TARN_POINTER_LIVE] = 3, [TARN_POINTER_REUSED] = 1));
    destroy(graph);
    OK(tarn_free(mine));
}

TEST(captures, the_programs_own_capture_is_adopted)
{
    tarn_graph *graph;
    void *temporary;
    void *output;
    tarn_route *route = test_route(world.pool, tarn_filter_capture, world.stream);

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    temporary = test_malloc(BYTES);
    output = test_malloc(BYTES);
    use(temporary, output);
    OK(tarn_free(temporary));
    graph = adopt(test_end_capture(world.stream));
    OK(tarn_end_allocate_to_pool(route));
    expect(graph, COUNTS([TARN_POINTER_LIVE] = 1, [TARN_POINTER_REUSED] = 1));
    destroy(graph);
    OK(tarn_free(output));
}

TEST(captures, a_graph_is_looked_at_while_it_is_captured)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *temporary = test_malloc(BYTES);
    tarn_graph *graph;

    use(temporary, world.outputs[0]);
    expect_driver(test_graph_of_capture(world.stream), world.pool,
                  COUNTS([TARN_POINTER_LIVE] = 1, [TARN_POINTER_EXTERNAL] = 1));
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_free(temporary));
    graph = test_capture_end(capture);
    expect(graph, COUNTS([TARN_POINTER_REUSED] = 1, [TARN_POINTER_EXTERNAL] = 1));
    destroy(graph);
}

TEST(captures, of_a_graph_without_an_own_pool_all_blocks_are_external)
{
    void *block = test_alloc(world.pool, BYTES, world.stream);
    tn_cu_graph graph;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    use(block, world.outputs[0]);
    graph = test_end_capture(world.stream);
    expect_driver(graph, NULL, COUNTS([TARN_POINTER_EXTERNAL] = 2));
    test_destroy_graph(graph);
    OK(tarn_free(block));
}

TEST(captures, an_empty_graph_has_no_pointers)
{
    tn_cu_graph graph = test_graph();

    expect_driver(graph, world.pool, COUNTS(0));
    test_add_empty(graph);
    expect_driver(graph, world.pool, COUNTS(0));
    test_destroy_graph(graph);
}

/* -- Graphs in graphs ------------------------------------------------------------------------------- */

GROUP(nested, planted_open_for_tarn, close_world, .name = "graphs in graphs")

TEST(nested, graphs_of_the_pool_are_nested)
{
    tn_cu_graph outer = test_graph();
    tarn_driver_graph captured;
    tarn_capture *capture = begin();
    void *temporary = test_malloc(BYTES);
    tarn_graph *inner;

    use(temporary, world.outputs[0]);
    OK(tarn_free(temporary));
    inner = test_capture_end(capture);
    OK(tarn_graph_driver_handles(inner, &captured, NULL));
    test_add_child(outer, captured);
    test_add_child(outer, captured);
    expect_driver(outer, world.pool,
                  COUNTS([TARN_POINTER_REUSED] = 2, [TARN_POINTER_EXTERNAL] = 2));
    destroy(inner);
    expect_driver(outer, world.pool, /* whose clones hold what the inner one held */
                  COUNTS([TARN_POINTER_REUSED] = 2, [TARN_POINTER_EXTERNAL] = 2));
    test_destroy_graph(outer);
}

/* A conditional node with two bodies, each with a temporary; after the outer capture's own. */
static tarn_graph *capture_bodies(tarn_audit_body bodies[2])
{
    tarn_capture *capture = begin();
    void *temporary = test_malloc(BYTES);
    struct test_node node;

    use(temporary, NULL);
    node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 2, 1);
    for (int i = 0; i < 2; i++) {
        tarn_capture *body = test_begin_body(capture, 1, node.bodies[i]);
        void *own = test_alloc(world.pool, BYTES, world.side);

        bodies[i] = (tarn_audit_body){test_last_node(world.stream), node.bodies[i]};
        use_on(world.side, own, temporary);
        OK(tarn_free(own));
        OK(tarn_capture_end(body, NULL));
    }
    OK(tarn_free(temporary));
    return test_capture_end(capture);
}

TEST(nested, bodies_of_a_conditional_node_have_temporaries)
{
    tarn_audit_options options = TARN_AUDIT_OPTIONS_INIT;
    tarn_audit *audit = NULL;
    tarn_audit_body bodies[2];
    tarn_graph *graph = capture_bodies(bodies);

    options.bodies = bodies;
    options.body_count = 2;
    OK(tarn_graph_audit(graph, &options, &audit));
    judge(audit, 0, COUNTS([TARN_POINTER_REUSED] = 5));
    destroy(graph);
}

TEST(nested, bodies_that_are_not_handed_in_are_not_inspected)
{
    tarn_audit *audit = NULL;
    tarn_audit_body bodies[2];
    tarn_graph *graph = capture_bodies(bodies);

    OK(tarn_graph_audit(graph, NULL, &audit));
    ck_assert_int_eq(audit->nodes[1].inspection, TARN_INSPECTION_NO_BODIES);
    judge(audit, 1, COUNTS([TARN_POINTER_REUSED] = 1));
    destroy(graph);
}

/* -- Not Tarn's ------------------------------------------------------------------------------------- */

GROUP(others, planted_open_for_tarn, close_world, .name = "not Tarn's")

TEST(others, memory_nodes_of_the_driver_give_what_kernels_use)
{
    tarn_capture *capture = begin();
    char *given = test_allocate_node(world.stream, BYTES);
    tarn_graph *graph;

    use(given, given + BYTES - 8);
    test_free_node(world.stream, given);
    graph = test_capture_end(capture);
    expect(graph, COUNTS([TARN_POINTER_NODE] = 4));
    destroy(graph);
}

TEST(others, events_name_no_memory)
{
    tn_cu_event event = test_event();
    tarn_capture *capture = begin();
    tarn_graph *graph;

    set(world.outputs[0]);
    test_record_node(world.stream, event);
    test_wait_node(world.stream, event);
    graph = test_capture_end(capture);
    expect(graph, COUNTS([TARN_POINTER_EXTERNAL] = 1));
    destroy(graph);
    test_event_destroy(event);
}

TEST(others, copies_have_pinned_memory_on_the_host)
{
    char *pinned = test_host_alloc(BYTES);
    tarn_capture *capture = begin();
    tarn_graph *graph;

    test_copy_up(world.stream, world.outputs[0], pinned, BYTES);
    test_copy_any(world.stream, world.outputs[0], pinned + 512, BYTES - 512);
    test_copy_down(world.stream, pinned, world.outputs[1], BYTES);
    use(pinned, NULL);
    graph = test_capture_end(capture);
    expect(graph, COUNTS([TARN_POINTER_PINNED] = 4, [TARN_POINTER_EXTERNAL] = 3));
    destroy(graph);
    test_host_free(pinned);
}

static void host_function(void *user)
{
    (void)user;
}

TEST(others, host_functions_have_arguments_of_any_kind)
{
    static int plain;
    void *pinned = test_host_alloc(BYTES);
    tarn_capture *capture = begin();
    tarn_graph *graph;

    test_call_host(world.stream, host_function, &plain);
    test_call_host(world.stream, host_function, pinned);
    test_call_host(world.stream, host_function, (void *)(uintptr_t)7);
    test_call_host(world.stream, host_function, NULL);
    graph = test_capture_end(capture);
    expect(graph, COUNTS([TARN_POINTER_ARGUMENT] = 2, [TARN_POINTER_PINNED] = 1));
    destroy(graph);
    test_host_free(pinned);
}

TEST(others, linear_memory_is_the_programs)
{
    char *linear = test_linear_alloc(BYTES);
    tarn_capture *capture = begin();
    tarn_graph *graph;

    use(linear, linear + BYTES - 8);
    set(linear + BYTES - 16);
    test_write_value(world.stream, linear + BYTES - 4, 1);
    test_copy(world.stream, linear, world.outputs[0], BYTES);
    graph = test_capture_end(capture);
    expect(graph, COUNTS([TARN_POINTER_FOREIGN] = 5, [TARN_POINTER_EXTERNAL] = 1));
    destroy(graph);
    test_linear_free(linear);
}

TEST(others, numbers_in_parameters_are_no_addresses)
{
    tarn_capture *capture = begin();
    char *output = test_malloc(BYTES);
    tarn_graph *graph;

    planted_launch(world.stream, &(struct planted_params){planted_word(output),
                                                          UINT32_MAX,
                                                          {0x3F8000003F800000, UINT64_MAX, 65535}});
    planted_launch(world.stream, &(struct planted_params){0, 0, {0x100000001, 1 << 20, 4096}});
    graph = test_capture_end(capture);
    expect(graph, COUNTS([TARN_POINTER_LIVE] = 1));
    destroy(graph);
    OK(tarn_free(output));
}

/* PyTorch's kernels that work on many tensors have such structs: a list of bytes, and no more of them than there are. What the
 * stack had behind the last one stays: here half of an address in memory that was freed. */
TEST(others, a_list_of_bytes_ends_in_what_was_an_address)
{
    char *before = test_malloc(BYTES);
    const uint64_t mixed = (planted_word(before) & ~(uint64_t)255) + 0x2e;
    tarn_capture *capture = begin();
    tarn_graph *graph;

    planted_launch(world.stream,
                   &(struct planted_params){0, 7, {0x2626262525252524, 0x2d2c2b2a29282827, mixed}});
    graph = test_capture_end(capture);
    OK(tarn_free(before));
    expect(graph, COUNTS([TARN_POINTER_DOUBTFUL] = 1));
    destroy(graph);
}

/* And arrays of strides, not all of which are used. What the stack had there may be the end of what is mapped. */
TEST(others, a_struct_has_what_never_was_an_address_of_memory)
{
    char *block = test_alloc(world.pool, BYTES, world.stream);
    tarn_capture *capture = begin();
    tarn_graph *graph;
    char *end = block - planted_word(block) % PAGE_BYTES;

    while (test_state_of(world.pool, end) != TARN_EXTENT_UNMAPPED)
        end += PAGE_BYTES;
    planted_launch(world.stream, &(struct planted_params){0, 7, {1, planted_word(end), 3}});
    graph = test_capture_end(capture);
    expect(graph, COUNTS([TARN_POINTER_DOUBTFUL] = 1));
    destroy(graph);
    OK(tarn_free(block));
}

TEST(others, parameters_are_packed)
{
    tarn_capture *capture = begin();
    void *output = test_malloc(BYTES);
    tarn_graph *graph;

    planted_launch_packed(
        world.stream,
        &(struct planted_params){planted_word(world.outputs[0]), 7, {0, 1, planted_word(output)}});
    graph = test_capture_end(capture);
    expect(graph, COUNTS([TARN_POINTER_EXTERNAL] = 1, [TARN_POINTER_LIVE] = 1));
    destroy(graph);
    OK(tarn_free(output));
}
