// SPDX-License-Identifier: Apache-2.0
/* Graphs that are looked through: by whom and when, with which options, what is refused, and what becomes of reports. */
#include <stdlib.h>

#include "support/audited.h"
#include "support/bodies.h"
#include "support/nodes.h"

/* The driver's own, which sets the input and copies it to the output. */
static tn_cu_graph make_driver_graph(void)
{
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    test_set_words(world.stream, input, 3, WORDS);
    test_copy(world.stream, output, input, BYTES);
    return test_end_capture(world.stream);
}

static tarn_driver_graph handle_of(tarn_graph *graph)
{
    tarn_driver_graph handle = NULL;

    OK(tarn_graph_driver_handles(graph, &handle, NULL));
    return handle;
}

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

static void free_input(void)
{
    OK(tarn_free(input));
    input = NULL;
}

/* The same address is another block's. */
static void use_input_again(void)
{
    void *before = input;

    OK(tarn_free(input));
    input = test_alloc(world.default_pool, BYTES, world.stream);
    ck_assert_ptr_eq(input, before);
}

SUITE("audits")
GROUP(looked, open_world, close_world, .name = "looked through")

TEST(looked, a_section_is_looked_through)
{
    tarn_graph *graph = make_graph();

    OK(tarn_graph_audit(graph, NULL, &audit));
    ck_assert_uint_eq(audit->node_count, 2);
    ck_assert_uint_eq(audit->pointer_count, 4);
    ck_assert_uint_eq(audit->counts[TARN_POINTER_REUSED], 2);
    expect(TARN_POINTER_EXTERNAL, 2, 0);
    ck_assert_ptr_null(audit->pointers);
    tarn_audit_destroy(audit);
    audit = NULL;
    free_input();
    OK(tarn_graph_audit(graph, NULL, &audit));
    expect(TARN_POINTER_FREED_EXTERNAL, 1, 1);
    ck_assert_uint_eq(audit->mistakes[0].node, 0);
    ck_assert_int_eq(audit->mistakes[0].place, TARN_PLACE_SOURCE);
    ck_assert_ptr_eq(audit->mistakes[0].block.pool, world.default_pool);
    OK(tarn_graph_destroy(graph));
    expect(TARN_POINTER_FREED_EXTERNAL, 1, 1); /* it is the caller's */
    tarn_audit_destroy(NULL);
}

TEST(looked, all_pointers_are_listed_where_that_is_asked_for)
{
    tarn_graph *graph = make_graph();

    options.list_all = true;
    look(graph);
    ck_assert_ptr_nonnull(audit->pointers);
    ck_assert_uint_eq(audit->pointers[0].address, (uint64_t)(uintptr_t)input);
    ck_assert_uint_eq(audit->pointers[1].address, audit->pointers[2].address);
    ck_assert_uint_eq(audit->pointers[3].address, (uint64_t)(uintptr_t)output);
    for (size_t i = 0; i < 4; i++)
        ck_assert_uint_eq(audit->pointers[i].node, i / 2);
    OK(tarn_graph_destroy(graph));
}

TEST(looked, what_is_accepted_is_no_mistake)
{
    tarn_graph *graph = make_graph();

    free_input();
    options.accepted = 1u << TARN_POINTER_FREED_EXTERNAL;
    look(graph);
    expect(TARN_POINTER_FREED_EXTERNAL, 1, 0);
    options.accepted = 1u << TARN_POINTER_FREED | 1u << TARN_POINTER_UNKNOWN;
    look(graph);
    expect(TARN_POINTER_FREED_EXTERNAL, 1, 1);
    OK(tarn_graph_destroy(graph));
}

TEST(looked, a_mark_divides_the_blocks)
{
    tarn_block before;
    tarn_block after;
    uint64_t mark = 0;
    uint64_t next = 0;

    OK(tarn_block_at(input, &before));
    OK(tarn_device_mark(world.device, &mark));
    use_input_again();
    OK(tarn_block_at(input, &after));
    ck_assert_uint_lt(before.sequence, mark);
    ck_assert_uint_ge(after.sequence, mark);
    OK(tarn_device_mark(world.device, &next));
    ck_assert_uint_gt(next, after.sequence);
}

/* Of a graph of Tarn's the mark is known; of the driver's it is what the caller says. */
TEST(looked, what_was_allocated_behind_the_capture_is_used_again)
{
    tarn_graph *graph = make_graph();
    tn_cu_graph driver_graph = make_driver_graph();
    tarn_graph *adopted = NULL;
    uint64_t mark = 0;

    OK(tarn_device_mark(world.device, &mark));
    OK(tarn_graph_adopt(world.pool, make_driver_graph(), &adopted));
    look(adopted);
    expect(TARN_POINTER_EXTERNAL, 3, 0);
    use_input_again();
    look(graph);
    expect(TARN_POINTER_USED_AGAIN, 1, 1);
    look(adopted);
    expect(TARN_POINTER_USED_AGAIN, 2, 2);
    look_at_driver_graph(driver_graph);
    expect(TARN_POINTER_USED_AGAIN, 0, 0);
    options.mark = mark;
    look_at_driver_graph(driver_graph);
    expect(TARN_POINTER_USED_AGAIN, 2, 2);
    OK(tarn_device_mark(world.device, &options.mark)); /* the user says that it is as it is to be */
    look(graph);
    expect(TARN_POINTER_EXTERNAL, 2, 0);
    test_destroy_graph(driver_graph);
    OK(tarn_graph_destroy(adopted));
    OK(tarn_graph_destroy(graph));
}

TEST(looked, a_section_is_over_with_the_first_attempt_to_end_it)
{
    tarn_graph *updated = make_graph();
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    tarn_graph *graph = NULL;

    copy_through();
    sim.plan_fault("cuGraphInstantiateWithFlags", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_capture_end(capture, &graph));
    use_input_again();
    graph = test_capture_end(capture);
    look(graph);
    expect(TARN_POINTER_USED_AGAIN, 1, 1);

    capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    copy_through();
    sim.plan_fault("cuGraphExecUpdate", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_graph_update(updated, capture));
    use_input_again();
    OK(tarn_graph_update(updated, capture));
    look(updated);
    expect(TARN_POINTER_USED_AGAIN, 1, 1);
    OK(tarn_graph_destroy(updated));
    OK(tarn_graph_destroy(graph));
}

TEST(looked, the_pool_of_the_options_is_the_own_one)
{
    tn_cu_graph graph = make_driver_graph();
    tarn_graph *captured = make_graph();

    look_at_driver_graph(graph);
    expect(TARN_POINTER_EXTERNAL, 3, 0);
    options.pool = world.default_pool;
    look_at_driver_graph(graph);
    expect(TARN_POINTER_LIVE, 3, 0);
    free_input();
    look_at_driver_graph(graph);
    expect(TARN_POINTER_FREED, 2, 2);
    options.pool = world.pool;
    look_at_driver_graph(graph);
    expect(TARN_POINTER_FREED_EXTERNAL, 2, 2);
    look(captured); /* it is its own */
    expect(TARN_POINTER_FREED_EXTERNAL, 1, 1);
    test_destroy_graph(graph);
    OK(tarn_graph_destroy(captured));
}

/* The input is named in the body alone. */
static tarn_graph *make_conditional(tarn_audit_body *body)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    tarn_capture *inner;
    tn_cu_graph inside = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1).bodies[0];

    *body = (tarn_audit_body){test_last_node(world.stream), inside};
    inner = test_begin_body(capture, 0, inside);
    test_copy(world.side, output, input, BYTES);
    OK(tarn_capture_end(inner, NULL));
    return test_capture_end(capture);
}

TEST(looked, bodies_are_looked_through_where_they_are_given)
{
    tarn_audit_body body;
    tarn_graph *graph = make_conditional(&body);

    look(graph);
    ck_assert_uint_eq(audit->node_count, 1);
    ck_assert_uint_eq(audit->uninspected_count, 1);
    ck_assert_uint_eq(audit->pointer_count, 0);
    options.bodies = &body;
    options.body_count = 1;
    look(graph);
    ck_assert_uint_eq(audit->node_count, 2);
    ck_assert_uint_eq(audit->nodes[1].parent, 0);
    ck_assert_uint_eq(audit->uninspected_count, 0);
    expect(TARN_POINTER_EXTERNAL, 2, 0);
    body.node = NULL; /* somewhere in the graph */
    look(graph);
    ck_assert_uint_eq(audit->nodes[1].parent, TARN_NO_NODE);
    ck_assert_uint_eq(audit->uninspected_count, 1);
    expect(TARN_POINTER_EXTERNAL, 2, 0);
    OK(tarn_graph_destroy(graph));
}

TEST(looked, a_guard_watches_what_bodies_name)
{
    tarn_audit_body body;
    tarn_graph *graph = make_conditional(&body);

    options.bodies = &body;
    options.body_count = 1;
    OK(tarn_graph_guard(graph, TARN_GUARD_REFUSE, &options));
    free_input();
    STATUS(TARN_ERR_STALE, tarn_graph_check(graph));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "node 0.0, copy, source"));
    OK(tarn_graph_guard(graph, TARN_GUARD_REFUSE, NULL)); /* which does not see them */
    OK(tarn_graph_check(graph));
    OK(tarn_graph_destroy(graph));
}

TEST(looked, a_guard_goes_by_the_mark_of_its_options)
{
    tarn_graph *graph = make_graph();

    use_input_again();
    OK(tarn_graph_guard(graph, TARN_GUARD_REFUSE, NULL));
    STATUS(TARN_ERR_STALE, tarn_graph_check(graph));
    OK(tarn_device_mark(world.device, &options.mark));
    OK(tarn_graph_guard(graph, TARN_GUARD_REFUSE, &options));
    OK(tarn_graph_check(graph));
    OK(tarn_graph_replay(graph, world.stream));
    test_synchronize(world.stream);
    OK(tarn_graph_destroy(graph));
}

GROUP(whenever, open_world, close_world)

/* On the thread that captures it, as far as it has come. */
TEST(whenever, a_graph_that_is_being_captured_is_looked_through)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);

    look_at_driver_graph(test_graph_of_capture(world.stream));
    ck_assert_uint_eq(audit->node_count, 0);
    copy_through();
    look_at_driver_graph(test_graph_of_capture(world.stream));
    ck_assert_uint_eq(audit->node_count, 2);
    expect(TARN_POINTER_REUSED, 2, 0);
    expect(TARN_POINTER_EXTERNAL, 2, 0);
    OK(tarn_graph_destroy(test_capture_end(capture)));
}

static void use_all(void *graph)
{
    uint64_t mark = 0;
    char text[256];

    look(graph);
    expect(TARN_POINTER_EXTERNAL, 2, 0);
    OK(tarn_audit_report(audit, TARN_REPORT_TEXT, text, sizeof text, NULL));
    look_at_driver_graph(handle_of(graph));
    expect(TARN_POINTER_EXTERNAL, 2, 0);
    OK(tarn_device_mark(world.device, &mark));
    for (int guard = TARN_GUARD_REFUSE; guard >= TARN_GUARD_IGNORE; guard--)
        OK(tarn_graph_guard(graph, (tarn_guard)guard, NULL));
    OK(tarn_graph_check(graph));
}

/* A capture in the global mode forbids all threads what the driver calls unsafe. */
TEST(whenever, a_capture_goes_on_while_other_graphs_are_looked_through)
{
    tarn_pool *pool = test_pool("captured");
    tarn_graph *graph = make_graph();
    tarn_capture *capture = test_capture_on(pool, world.stream, TARN_CAPTURE_GLOBAL);
    tarn_graph *made;

    copy_through();
    test_elsewhere(use_all, graph);
    use_all(graph);
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    made = test_capture_end(capture);
    look(made);
    ck_assert_uint_eq(audit->node_count, 2);
    OK(tarn_graph_destroy(made));
    OK(tarn_graph_destroy(graph));
    test_wait_for_all();
    OK(tarn_pool_destroy(pool));
}

/* The executable is not read: who has changed it has the graph that says what it does now. */
TEST(whenever, an_update_behind_tarns_back_is_not_seen)
{
    tarn_driver_graph handle;
    tarn_driver_exec exec;
    tarn_graph *graph;
    tn_cu_graph changed;
    char *moved = test_alloc(world.default_pool, BYTES, world.stream);

    OK(tarn_graph_adopt(world.pool, make_driver_graph(), &graph));
    free_input();
    input = moved;
    changed = make_driver_graph();
    OK(tarn_graph_driver_handles(graph, &handle, &exec));
    test_update_exec(exec, changed);
    look(graph);
    expect(TARN_POINTER_FREED_EXTERNAL, 2, 2);
    look_at_driver_graph(changed);
    expect(TARN_POINTER_EXTERNAL, 3, 0);
    options.list_all = true;
    look_at_driver_graph(changed);
    ck_assert_uint_eq(audit->pointers[0].address, (uint64_t)(uintptr_t)moved);
    test_destroy_graph(changed);
    OK(tarn_graph_destroy(graph));
}

/* The report; the caller's to free. */
static char *report_of(tarn_report_format format)
{
    size_t length = 0;
    size_t again = 0;
    char *text;

    OK(tarn_audit_report(audit, format, NULL, 0, &length));
    text = malloc(length + 1);
    OK(tarn_audit_report(audit, format, text, length + 1, &again));
    ck_assert_uint_eq(again, length);
    ck_assert_uint_eq(strlen(text), length);
    return text;
}

static void expect_in(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "'%s' is not in\n%s", part, text);
}

TEST(looked, a_report_names_pools_and_graphs_that_are_gone)
{
    tarn_pool *weights = test_pool("weights");
    tarn_graph *graph;
    char part[11] = "xxxxxxxxxx";
    char *text;

    free_input();
    input = test_alloc(weights, BYTES, world.stream);
    graph = make_graph();
    free_input();
    options.list_all = true;
    look(graph);
    OK(tarn_graph_destroy(graph));
    test_wait_for_all();
    OK(tarn_pool_destroy(weights));
    text = report_of(TARN_REPORT_TEXT);
    expect_in(text, "2 nodes, 0 of them kernels; 4 pointers, 1 mistakes\n");
    expect_in(text, "node 0, copy, source: 0x");
    expect_in(text, "is freed external: in freed memory of another pool; pool 'weights'\n");
    OK(tarn_audit_report(audit, TARN_REPORT_TEXT, part, 10, NULL));
    ck_assert_mem_eq(part, text, 9);
    ck_assert(part[9] == '\0' && part[10] == '\0');
    free(text);
    text = report_of(TARN_REPORT_JSON);
    expect_in(text, "{\"nodes\": 2, \"kernels\": 0, \"pointers\": 4, ");
    expect_in(text, "\"mistakes\": [{\"class\": \"freed external\", \"node\": \"0\", ");
    expect_in(text, "\"pool\": \"weights\"");
    expect_in(text, "\"listed\": [{");
    free(text);
}

TEST(looked, classes_are_named)
{
    ck_assert_str_eq(tarn_pointer_class_name(TARN_POINTER_USED_AGAIN), "used again");
    ck_assert_str_eq(tarn_pointer_class_sentence(TARN_POINTER_FREED_EXTERNAL),
                     "in freed memory of another pool");
    ck_assert_str_eq(tarn_pointer_class_name((tarn_pointer_class)TARN_POINTER_CLASSES), "no class");
    ck_assert_str_eq(tarn_pointer_class_sentence((tarn_pointer_class)-1), "no class");
}

/* All three calls that take options. */
static void refuse_options(tarn_graph *graph, tarn_status status, const char *word)
{
    tarn_audit *made = UNTOUCHED;

    REFUSE(status, word, tarn_graph_audit(graph, &options, &made));
    REFUSE(status, word, tarn_driver_graph_audit(world.device, handle_of(graph), &options, &made));
    REFUSE(status, word, tarn_graph_guard(graph, TARN_GUARD_KEEP, &options));
    ck_assert_untouched(made);
    options = (tarn_audit_options)TARN_AUDIT_OPTIONS_INIT;
}

GROUP(refused, open_world, close_world)

TEST(refused, options_out_of_range_are_refused)
{
    tarn_graph *graph = make_graph();
    tarn_audit_body body = {NULL, NULL};
    tarn_audit *made = UNTOUCHED;

    options.size -= 1;
    refuse_options(graph, TARN_ERR_INVALID_ARGUMENT, "size");
    options.body_count = 1;
    refuse_options(graph, TARN_ERR_INVALID_ARGUMENT, "bodies is NULL");
    options.bodies = &body;
    options.body_count = 1;
    refuse_options(graph, TARN_ERR_INVALID_ARGUMENT, "body's graph");
    body = (tarn_audit_body){(tarn_driver_node)world.pool, handle_of(graph)};
    options.bodies = &body;
    options.body_count = 1;
    refuse_options(graph, TARN_ERR_INVALID_ARGUMENT, "no conditional node");
    options.accepted = 1u << TARN_POINTER_CLASSES;
    refuse_options(graph, TARN_ERR_INVALID_ARGUMENT, "accepted");
    options.refused = 1u << TARN_POINTER_CLASSES;
    refuse_options(graph, TARN_ERR_INVALID_ARGUMENT, "refused");
    options.accepted = 3u << TARN_POINTER_BEYOND;
    options.refused = 1u << TARN_POINTER_BEYOND;
    refuse_options(graph, TARN_ERR_INVALID_ARGUMENT, "both");
    options.pool = (tarn_pool *)(void *)world.device;
    refuse_options(graph, TARN_ERR_INVALID_HANDLE, "pool");
    options.pool = world.default_pool; /* good, and not the graph's */
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "not the graph's", tarn_graph_audit(graph, &options, &made));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "not the graph's",
           tarn_graph_guard(graph, TARN_GUARD_REFUSE, &options));
    ck_assert_untouched(made);
    OK(tarn_graph_destroy(graph));
}

TEST(refused, wrong_handles_and_arguments_are_refused)
{
    uint64_t zeros[64] = {0};
    tarn_graph *foreign[] = {NULL, (tarn_graph *)(void *)zeros, (tarn_graph *)(void *)world.pool};
    tarn_graph *graph = make_graph();
    tarn_audit *made = UNTOUCHED;
    char buffer[8] = "";
    uint64_t mark = 77;
    size_t length = 77;

    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        REFUSE(TARN_ERR_INVALID_HANDLE, "graph", tarn_graph_audit(foreign[i], NULL, &made));
        REFUSE(TARN_ERR_INVALID_HANDLE, "graph",
               tarn_graph_guard(foreign[i], TARN_GUARD_KEEP, NULL));
        REFUSE(TARN_ERR_INVALID_HANDLE, "graph", tarn_graph_check(foreign[i]));
        REFUSE(TARN_ERR_INVALID_HANDLE, "device",
               tarn_driver_graph_audit((tarn_device *)(void *)foreign[i], handle_of(graph), NULL,
                                       &made));
        REFUSE(TARN_ERR_INVALID_HANDLE, "device",
               tarn_device_mark((tarn_device *)(void *)foreign[i], &mark));
    }
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "audit", tarn_graph_audit(graph, NULL, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "audit",
           tarn_driver_graph_audit(world.device, handle_of(graph), NULL, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "driver_graph",
           tarn_driver_graph_audit(world.device, NULL, NULL, &made));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "mark", tarn_device_mark(world.device, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "guard",
           tarn_graph_guard(graph, (tarn_guard)(TARN_GUARD_REFUSE + 1), NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "guard", tarn_graph_guard(graph, (tarn_guard)-1, NULL));
    look(graph);
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "audit",
           tarn_audit_report(NULL, TARN_REPORT_TEXT, buffer, sizeof buffer, &length));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "buffer",
           tarn_audit_report(audit, TARN_REPORT_TEXT, NULL, 8, &length));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "format",
           tarn_audit_report(audit, (tarn_report_format)2, buffer, sizeof buffer, &length));
    ck_assert_untouched(made);
    ck_assert_uint_eq(mark, 77);
    ck_assert_uint_eq(length, 77);
    ck_assert_str_eq(buffer, "");
    OK(tarn_graph_destroy(graph));
}

/* Of the driver's own only the driver can tell. */
TEST(refused, destroyed_graphs_are_refused)
{
    tarn_graph *graph = make_graph();
    tn_cu_graph driver_graph = make_driver_graph();
    tarn_audit *made = UNTOUCHED;

    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
    test_destroy_graph(driver_graph);
    REFUSE(TARN_ERR_INVALID_HANDLE, "graph", tarn_graph_audit(graph, NULL, &made));
    REFUSE(TARN_ERR_INVALID_HANDLE, "graph", tarn_graph_guard(graph, TARN_GUARD_KEEP, NULL));
    REFUSE(TARN_ERR_INVALID_HANDLE, "graph", tarn_graph_check(graph));
    REFUSE(TARN_ERR_DRIVER, "cuGraphGetNodes",
           tarn_driver_graph_audit(world.device, driver_graph, NULL, &made));
    ck_assert_untouched(made);
}

TEST(refused, what_the_driver_refuses_is_told)
{
    static const char *const calls[] = {"cuGraphGetNodes", "cuGraphNodeGetType",
                                        "cuGraphMemcpyNodeGetParams"};
    tarn_graph *graph = make_graph();
    tarn_audit *made = UNTOUCHED;

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
        REFUSE(TARN_ERR_DRIVER, calls[i], tarn_graph_audit(graph, NULL, &made));
        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
        REFUSE(TARN_ERR_DRIVER, calls[i],
               tarn_driver_graph_audit(world.device, handle_of(graph), NULL, &made));
        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
        REFUSE(TARN_ERR_DRIVER, calls[i], tarn_graph_guard(graph, TARN_GUARD_KEEP, NULL));
    }
    ck_assert_untouched(made);
    OK(tarn_graph_check(graph));
    OK(tarn_graph_destroy(graph));
}

GROUP(two, NULL, .name = "two devices")

/* Of a kernel the driver tells whose it is; of copies and sets nobody asks. */
TEST(two, a_graph_or_pool_of_another_device_is_refused)
{
    tn_cu_context mine;
    tarn_device *second = NULL;
    tarn_pool *pool = NULL;
    tn_cu_stream stream;
    tn_cu_graph graph;
    void *block;
    tarn_audit *made = UNTOUCHED;

    ck_assert_int_eq(setenv("TARN_SIM_DEVICES", "2", 1), 0);
    open_world();
    mine = test_context();
    OK(tarn_device_open(1, NULL, &second));
    OK(tarn_pool_create(second, NULL, &pool));
    test_set_context(test_retain(1));
    test_use_kernels_here();
    stream = test_stream();
    block = test_alloc(pool, BYTES, stream);
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    test_fill(stream, block, 1, WORDS);
    graph = test_end_capture(stream);
    test_set_context(mine);
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "another device",
           tarn_driver_graph_audit(world.device, graph, NULL, &made));
    options.pool = pool;
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "another device",
           tarn_driver_graph_audit(world.device, graph, &options, &made));
    ck_assert_untouched(made);
    OK(tarn_driver_graph_audit(second, graph, &options, &audit));
    expect(TARN_POINTER_LIVE, 1, 0);
    test_destroy_graph(graph);
    OK(tarn_free(block));
    test_destroy_stream(stream);
    OK(tarn_pool_destroy(pool));
    OK(tarn_device_close(second));
    test_release(1);
    close_world();
}
