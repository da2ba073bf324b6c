// SPDX-License-Identifier: Apache-2.0
/* Pointers that lie in a pool's own bytes. */
#include "support/bodies.h"
#include "support/world.h"

enum { WORDS = 1 << 10, BYTES = WORDS * 4 };

static char *input;
static char *output;
static tarn_audit *audit;
static tarn_audit_options options;

static void open_world(void)
{
    test_world_open();
    input = test_alloc(world.default_pool, BYTES, world.stream);
    output = test_alloc(world.default_pool, BYTES, world.stream);
    options = (tarn_audit_options)TARN_AUDIT_OPTIONS_INIT;
}

/* Copies the input to the output. */
static tarn_graph *make_graph(void)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);

    test_copy(world.stream, output, input, BYTES);
    return test_capture_end(capture);
}

static void look(tarn_graph *graph)
{
    tarn_audit_destroy(audit);
    OK(tarn_graph_audit(graph, &options, &audit));
}

static void expect(tarn_pointer_class of, size_t count, size_t mistakes)
{
    ck_assert_uint_eq(audit->counts[of], count);
    ck_assert_uint_eq(audit->mistake_count, mistakes);
}

SUITE("scans")
GROUP(scans, open_world, test_world_close)

/* Pointers that lie in the pool's own bytes are judged as those of nodes. */
TEST(scans, the_pools_bytes_are_looked_through_where_that_is_asked_for)
{
    tarn_graph *graph = make_graph();
    char *table = test_alloc(world.pool, BYTES, world.stream);
    void *pointers[] = {input, NULL, output};
    tarn_audit *none = UNTOUCHED;

    test_fill(world.stream, table, 0, WORDS);
    test_write(world.stream, table + 64, pointers, sizeof pointers);
    OK(tarn_free(input));
    options.accepted = 1u << TARN_POINTER_FREED_EXTERNAL;
    look(graph);
    ck_assert_uint_eq(audit->scanned_bytes, 0);
    expect(TARN_POINTER_FREED_EXTERNAL, 1, 0);
    options.accepted = 0;
    options.scan = true;
    options.scan_stream = world.stream;
    look(graph);
    ck_assert_uint_eq(audit->scanned_bytes, BYTES);
    expect(TARN_POINTER_FREED_EXTERNAL, 2, 2);
    ck_assert_int_eq(audit->mistakes[1].place, TARN_PLACE_MEMORY);
    ck_assert_uint_eq(audit->mistakes[1].at, (uint64_t)(uintptr_t)(table + 64));
    ck_assert_uint_eq(audit->mistakes[1].address, audit->mistakes[0].address);
    ck_assert_uint_eq(audit->mistakes[1].node, TARN_NO_NODE);
    ck_assert_uint_eq(audit->counts[TARN_POINTER_EXTERNAL], 2); /* the copy's, and the table's */
    test_begin_capture(world.side, TN_CU_CAPTURE_MODE_RELAXED);
    options.scan_stream = world.side;
    STATUS(TARN_ERR_WRONG_STATE, tarn_graph_audit(graph, &options, &none));
    ck_assert_ptr_eq(none, UNTOUCHED);
    test_drop_capture(world.side);
    tarn_audit_destroy(audit);
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(table));
    OK(tarn_free(output));
}

TEST(scans, no_pool_has_no_bytes)
{
    tn_cu_graph graph = test_graph();
    tarn_audit *none = UNTOUCHED;

    options.scan = true;
    STATUS(TARN_ERR_INVALID_ARGUMENT,
           tarn_driver_graph_audit(world.device, graph, &options, &none));
    options.pool = world.pool;
    test_begin_capture(world.side, TN_CU_CAPTURE_MODE_RELAXED);
    options.scan_stream = world.side;
    STATUS(TARN_ERR_WRONG_STATE, tarn_driver_graph_audit(world.device, graph, &options, &none));
    ck_assert_ptr_eq(none, UNTOUCHED);
    test_drop_capture(world.side);
    test_destroy_graph(graph);
    OK(tarn_free(input));
    OK(tarn_free(output));
}

static bool give_input(tarn_device *device, size_t wanted_bytes, void *user)
{
    (void)device;
    (void)wanted_bytes;
    (void)sim.clear_fault(NULL);
    OK(tarn_free(*(void **)user));
    return true;
}

/* What a callback frees is no live block in the audit. */
TEST(scans, callbacks_are_called_before_the_graph_is_read)
{
    tarn_graph *graph = make_graph();
    void *table = test_alloc(world.pool, BYTES, world.stream);

    OK(tarn_device_add_free_callback(world.device, give_input, &input));
    sim.plan_fault("cuMemCreate", 1, 1, TN_CUDA_ERROR_OUT_OF_MEMORY);
    options.scan = true;
    options.scan_stream = world.stream;
    look(graph);
    ck_assert_uint_eq(audit->scanned_bytes, BYTES);
    expect(TARN_POINTER_FREED_EXTERNAL, 1, 1);
    OK(tarn_device_remove_free_callback(world.device, give_input, &input));
    tarn_audit_destroy(audit);
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(table));
    OK(tarn_free(output));
}

TEST(scans, without_page_locked_memory_there_is_no_audit)
{
    tarn_graph *graph = make_graph();
    void *table = test_alloc(world.pool, BYTES, world.stream);
    tarn_audit *none = UNTOUCHED;

    options.scan = true;
    options.scan_stream = world.stream;
    sim.plan_fault("cuMemCreate", 1, 1, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_HOST_MEMORY, tarn_graph_audit(graph, &options, &none));
    (void)sim.clear_fault(NULL);
    ck_assert_untouched(none);
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(table));
    OK(tarn_free(input));
    OK(tarn_free(output));
}
