// SPDX-License-Identifier: Apache-2.0
/* Graphs that are looked through beside other threads' captures, and with another context's kernels. */
#include <pthread.h>
#include <stdatomic.h>

#include "support/world.h"

enum { WORDS = 1 << 10, BYTES = WORDS * 4 };

static void *input; /* of the default pool */
static void *output;

static void open_world(void)
{
    test_world_open();
    input = test_alloc(world.default_pool, BYTES, world.stream);
    output = test_alloc(world.default_pool, BYTES, world.stream);
}

static void close_world(void)
{
    OK(tarn_free(input));
    OK(tarn_free(output));
    test_world_close();
}

/* Copies the input to the output. */
static tarn_graph *make_graph(void)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);

    test_copy(world.stream, output, input, BYTES);
    return test_capture_end(capture);
}

static void expect_two_external(tarn_graph *graph)
{
    tarn_audit *audit = NULL;

    OK(tarn_graph_audit(graph, NULL, &audit));
    ck_assert_uint_eq(audit->counts[TARN_POINTER_EXTERNAL], 2);
    ck_assert_uint_eq(audit->mistake_count, 0);
    tarn_audit_destroy(audit);
}

/* Who captures and looks through what was captured, over and over. */
struct capturing {
    pthread_t thread;
    tn_cu_context context;
    tn_cu_stream stream;
    tarn_pool *pool;
    int captures;
    atomic_bool over;
};

static void *capture_on_and_on(void *argument)
{
    enum { CAPTURES = 40 };
    struct capturing *capturing = argument;
    tn_cu_stream stream = capturing->stream;

    test_set_context(capturing->context);

    for (; capturing->captures < CAPTURES; capturing->captures++) {
        tarn_capture *capture = test_capture_on(capturing->pool, stream, TARN_CAPTURE_GLOBAL);
        void *temporary = test_alloc(capturing->pool, BYTES, stream);
        tarn_audit *own = NULL;
        tarn_graph *graph;

        test_copy(stream, temporary, input, BYTES);
        OK(tarn_free(temporary));
        graph = test_capture_end(capture);
        OK(tarn_graph_audit(graph, NULL, &own));
        ck_assert_uint_eq(own->counts[TARN_POINTER_EXTERNAL], 1);
        ck_assert_uint_eq(own->mistake_count, 0);
        tarn_audit_destroy(own);
        OK(tarn_graph_destroy(graph));
    }
    atomic_store(&capturing->over, true);
    return NULL;
}

SUITE("audits beside others")
GROUP(beside, open_world, close_world, .name = "beside others")

TEST(beside, graphs_are_looked_through_beside_another_threads_captures)
{
    struct capturing capturing = {
        .context = test_context(), .stream = test_stream(), .pool = test_pool("captured")};
    tarn_graph *graph = make_graph();
    int looks = 0;

    ck_assert_int_eq(pthread_create(&capturing.thread, NULL, capture_on_and_on, &capturing), 0);
    while (!atomic_load(&capturing.over)) {
        expect_two_external(graph);
        OK(tarn_graph_guard(graph, (tarn_guard)(looks % 3), NULL));
        OK(tarn_graph_check(graph));
        looks += 1;
    }
    ck_assert_int_eq(pthread_join(capturing.thread, NULL), 0);
    ck_assert_int_gt(looks, 0);
    OK(tarn_graph_destroy(graph));
    test_wait_for_all();
    OK(tarn_pool_destroy(capturing.pool));
    test_destroy_stream(capturing.stream);
}

TEST(beside, kernels_of_another_context_of_the_device_are_looked_at)
{
    tn_cu_context before = test_context();
    tn_cu_context other = test_make_context();
    tn_cu_stream stream = test_stream();
    tn_cu_graph graph;
    tarn_audit *audit = NULL;

    test_use_kernels_here();
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    test_fill(stream, input, 1, WORDS);
    test_fill(stream, output, 1, WORDS);
    graph = test_end_capture(stream);
    test_set_context(before);
    test_use_kernels_here();
    OK(tarn_driver_graph_audit(world.device, graph, NULL, &audit));
    ck_assert_uint_eq(audit->kernel_count, 2);
    ck_assert_uint_eq(audit->uninspected_count, 0);
    ck_assert_uint_eq(audit->counts[TARN_POINTER_EXTERNAL], 2);
    ck_assert_uint_eq(audit->mistake_count, 0);
    tarn_audit_destroy(audit);
    test_destroy_graph(graph);
    test_set_context(other);
    test_destroy_stream(stream);
    test_end_context(other);
    test_set_context(before);
}
