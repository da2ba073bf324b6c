// SPDX-License-Identifier: Apache-2.0
/* Structs with a size, from programs that are older than the library, and newer. */
#include <stdlib.h>

#include "support/world.h"

/* A struct as a newer version has it. */
#define NEWER(type)                                                                                \
    struct {                                                                                       \
        type known;                                                                                \
        uint64_t more;                                                                             \
    }

/* No version of a struct has these sizes. */
static const size_t wrong[] = {0, 8, 4104, SIZE_MAX - 7};
enum { WRONG = sizeof wrong / sizeof wrong[0] };

static tarn_graph *graph;
static tarn_driver_graph nodes;

static void open_graph(void)
{
    tarn_capture *capture;
    void *address;

    test_world_open();
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    address = test_alloc(world.pool, 4096, world.stream);
    test_fill(world.stream, address, 3, 16);
    OK(tarn_free(address));
    graph = test_capture_end(capture);
    OK(tarn_graph_driver_handles(graph, &nodes, NULL));
}

static void close_graph(void)
{
    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
    test_world_close();
}

/* -- Options ---------------------------------------------------------------------------------------- */

GROUP(options, open_graph, close_graph)

TEST(options, options_of_a_device_may_be_older_or_newer)
{
    NEWER(tarn_device_options) newer = {TARN_DEVICE_OPTIONS_INIT, 0};
    tarn_device_options older = TARN_DEVICE_OPTIONS_INIT;
    tarn_device *device = UNTOUCHED;

    older.size = offsetof(tarn_device_options, null_stream);
    older.null_stream = (tarn_null_stream)99; /* not the program's own, and not looked at */
    OK(tarn_device_open(0, &older, &device));
    OK(tarn_device_close(device));
    older.size = sizeof older;
    device = UNTOUCHED;
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "null_stream", tarn_device_open(0, &older, &device));
    newer.known.size = sizeof newer;
    OK(tarn_device_open(0, &newer.known, &device));
    OK(tarn_device_close(device));
    newer.more = 1;
    device = UNTOUCHED;
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "does not know", tarn_device_open(0, &newer.known, &device));
    for (size_t i = 0; i < WRONG; i++) {
        newer.known.size = wrong[i];
        REFUSE(TARN_ERR_INVALID_ARGUMENT, "size of a tarn_device_options",
               tarn_device_open(0, &newer.known, &device));
    }
    ck_assert_untouched(device);
}

TEST(options, options_of_a_pool_may_be_older_or_newer)
{
    NEWER(tarn_pool_options) newer = {TARN_POOL_OPTIONS_INIT, 0};
    tarn_pool_options older = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool = UNTOUCHED;

    older.size = offsetof(tarn_pool_options, guard);
    older.limit_bytes = 2 * MIB;
    older.guard = (tarn_guard)99;
    pool = test_pool_with(&older);
    STATUS(TARN_ERR_LIMIT, tarn_pool_reserve(pool, 4 * MIB, world.stream));
    OK(tarn_pool_destroy(pool));
    newer.known.size = sizeof newer;
    OK(tarn_pool_destroy(test_pool_with(&newer.known)));
    newer.more = UINT64_C(1) << 63;
    pool = UNTOUCHED;
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "does not know",
           tarn_pool_create(world.device, &newer.known, &pool));
    for (size_t i = 0; i < WRONG; i++) {
        newer.known.size = wrong[i];
        REFUSE(TARN_ERR_INVALID_ARGUMENT, "size of a tarn_pool_options",
               tarn_pool_create(world.device, &newer.known, &pool));
    }
    ck_assert_untouched(pool);
}

static void refuse_audits(const tarn_audit_options *options, const char *word)
{
    tarn_audit *audit = UNTOUCHED;

    REFUSE(TARN_ERR_INVALID_ARGUMENT, word, tarn_graph_audit(graph, options, &audit));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, word,
           tarn_driver_graph_audit(world.device, nodes, options, &audit));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, word, tarn_graph_guard(graph, TARN_GUARD_KEEP, options));
    ck_assert_untouched(audit);
}

static void expect_audits(const tarn_audit_options *options)
{
    tarn_audit *audit;

    OK(tarn_graph_audit(graph, options, &audit));
    ck_assert_ptr_nonnull(audit->pointers);
    tarn_audit_destroy(audit);
    OK(tarn_driver_graph_audit(world.device, nodes, options, &audit));
    ck_assert_ptr_nonnull(audit->pointers);
    tarn_audit_destroy(audit);
    OK(tarn_graph_guard(graph, TARN_GUARD_KEEP, options));
    OK(tarn_graph_guard(graph, TARN_GUARD_IGNORE, options));
}

TEST(options, options_of_an_audit_may_be_older_or_newer)
{
    NEWER(tarn_audit_options) newer = {TARN_AUDIT_OPTIONS_INIT, 0};
    tarn_audit_options older = TARN_AUDIT_OPTIONS_INIT;

    older.list_all = true;
    older.size = offsetof(tarn_audit_options, refused);
    older.refused = UINT32_MAX;
    expect_audits(&older);
    older.size = sizeof older;
    refuse_audits(&older, "refused");
    newer.known.size = sizeof newer;
    newer.known.list_all = true;
    expect_audits(&newer.known);
    newer.more = 1;
    refuse_audits(&newer.known, "does not know");
    for (size_t i = 0; i < WRONG; i++) {
        newer.known.size = wrong[i];
        refuse_audits(&newer.known, "size of a tarn_audit_options");
    }
}

TEST(options, options_of_a_capture_may_be_older_or_newer)
{
    NEWER(tarn_capture_options) newer = {TARN_CAPTURE_OPTIONS_INIT, 0};
    tarn_capture_options older = TARN_CAPTURE_OPTIONS_INIT;
    tarn_capture *capture = UNTOUCHED;

    older.size = offsetof(tarn_capture_options, outer);
    older.outer = UNTOUCHED;
    older.group = 7;
    OK(tarn_capture_begin(world.pool, world.stream, &older, &capture));
    OK(tarn_capture_abort(capture));
    newer.known.size = sizeof newer;
    OK(tarn_capture_begin(world.pool, world.stream, &newer.known, &capture));
    OK(tarn_capture_abort(capture));
    newer.more = 1;
    capture = UNTOUCHED;
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "does not know",
           tarn_capture_begin(world.pool, world.stream, &newer.known, &capture));
    for (size_t i = 0; i < WRONG; i++) {
        newer.known.size = wrong[i];
        REFUSE(TARN_ERR_INVALID_ARGUMENT, "size of a tarn_capture_options",
               tarn_capture_begin(world.pool, world.stream, &newer.known, &capture));
    }
    ck_assert_untouched(capture);
}

/* -- Results ---------------------------------------------------------------------------------------- */

/* Whether the size is as it was, and each byte from there on. */
static void expect_untouched_from(const void *given, size_t bytes, size_t whole_bytes)
{
    ck_assert_uint_eq(*(const size_t *)given, bytes);
    for (size_t at = bytes; at < whole_bytes; at++)
        ck_assert_uint_eq(((const unsigned char *)given)[at], 0xa5);
}

GROUP(results, open_graph, close_graph)

TEST(results, the_description_of_a_device_may_be_older_or_newer)
{
    NEWER(tarn_device_info) given;

    memset(&given, 0xa5, sizeof given);
    given.known.size = offsetof(tarn_device_info, simulated);
    OK(tarn_device_describe(world.device, &given.known));
    ck_assert_str_eq(given.known.driver, getenv("TARN_DRIVER"));
    expect_untouched_from(&given, offsetof(tarn_device_info, simulated), sizeof given);
    given.known.size = sizeof given;
    OK(tarn_device_describe(world.device, &given.known));
    ck_assert(given.known.simulated);
    ck_assert_uint_eq(given.more, 0);
    ck_assert_uint_eq(given.known.size, sizeof given);
    for (size_t i = 0; i < WRONG; i++) {
        given.known.size = wrong[i];
        REFUSE(TARN_ERR_INVALID_ARGUMENT, "size of a tarn_device_info",
               tarn_device_describe(world.device, &given.known));
    }
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "NULL", tarn_device_describe(world.device, NULL));
}

static tarn_status read_pool(tarn_stats *stats)
{
    return tarn_pool_stats(world.pool, stats);
}

static tarn_status read_device(tarn_stats *stats)
{
    return tarn_device_stats(world.device, stats);
}

TEST(results, statistics_may_be_older_or_newer)
{
    tarn_status (*const calls[])(tarn_stats *) = {read_pool, read_device};
    void *block = test_alloc(world.pool, 1000, world.stream);
    NEWER(tarn_stats) given;

    for (size_t c = 0; c < 2; c++) {
        memset(&given, 0xa5, sizeof given);
        given.known.size = offsetof(tarn_stats, growth_count);
        given.known.walk = false;
        OK(calls[c](&given.known));
        ck_assert_uint_eq(given.known.live_bytes.all.current, 1024);
        expect_untouched_from(&given, offsetof(tarn_stats, growth_count), sizeof given);
        given.known.size = sizeof given;
        given.known.walk = true;
        OK(calls[c](&given.known));
        ck_assert_uint_gt(given.known.growth_count, 0);
        ck_assert_uint_gt(given.known.inactive_bytes.all, 0);
        ck_assert(given.known.walk);
        ck_assert_uint_eq(given.more, 0);
        ck_assert_uint_eq(given.known.size, sizeof given);
        for (size_t i = 0; i < WRONG; i++) {
            given.known.size = wrong[i];
            REFUSE(TARN_ERR_INVALID_ARGUMENT, "size of a tarn_stats", calls[c](&given.known));
        }
        REFUSE(TARN_ERR_INVALID_ARGUMENT, "NULL", calls[c](NULL));
    }
    OK(tarn_free(block));
}

static tarn_status account_graph(tarn_graph_memory_info *memory)
{
    return tarn_graph_memory(graph, memory);
}

static tarn_status account_device(tarn_graph_memory_info *memory)
{
    return tarn_device_graph_memory(world.device, memory);
}

TEST(results, memory_of_graphs_may_be_older_or_newer)
{
    tarn_status (*const calls[])(tarn_graph_memory_info *) = {account_graph, account_device};
    NEWER(tarn_graph_memory_info) given;

    for (size_t c = 0; c < 2; c++) {
        memset(&given, 0xa5, sizeof given);
        given.known.size = offsetof(tarn_graph_memory_info, node_count);
        OK(calls[c](&given.known));
        ck_assert_uint_eq(given.known.own_pool_bytes, 2 * MIB);
        expect_untouched_from(&given, offsetof(tarn_graph_memory_info, node_count), sizeof given);
        given.known.size = sizeof given;
        OK(calls[c](&given.known));
        ck_assert_uint_eq(given.known.kernel_count, 1);
        ck_assert_uint_eq(given.more, 0);
        ck_assert_uint_eq(given.known.size, sizeof given);
        for (size_t i = 0; i < WRONG; i++) {
            given.known.size = wrong[i];
            REFUSE(TARN_ERR_INVALID_ARGUMENT, "size of a tarn_graph_memory_info",
                   calls[c](&given.known));
        }
        REFUSE(TARN_ERR_INVALID_ARGUMENT, "NULL", calls[c](NULL));
    }
}

TEST(results, what_is_at_an_address_may_be_older_or_newer)
{
    void *block = test_alloc(world.pool, 1000, world.stream);
    NEWER(tarn_segment) given;

    memset(&given, 0xa5, sizeof given);
    given.known.size = offsetof(tarn_segment, index);
    OK(tarn_segment_at(block, &given.known));
    ck_assert_ptr_eq(given.known.run, block);
    expect_untouched_from(&given, offsetof(tarn_segment, index), sizeof given);
    given.known.size = sizeof given;
    OK(tarn_segment_at(block, &given.known));
    ck_assert_ptr_eq(given.known.pool, world.pool);
    ck_assert_uint_eq(given.more, 0);
    ck_assert_uint_eq(given.known.size, sizeof given);
    for (size_t i = 0; i < WRONG; i++) {
        given.known.size = wrong[i];
        REFUSE(TARN_ERR_INVALID_ARGUMENT, "size of a tarn_segment",
               tarn_segment_at(block, &given.known));
    }
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "NULL", tarn_segment_at(block, NULL));
    OK(tarn_free(block));
}

/* The library's own size: a program reads no further. */
static void observe(tarn_device *device, const tarn_out_of_memory *what, void *size)
{
    (void)device;
    *(size_t *)size = what->size;
}

TEST(results, an_observer_is_told_the_size_of_the_library)
{
    size_t size = 0;
    void *address = UNTOUCHED;

    OK(tarn_device_add_oom_observer(world.device, observe, &size));
    OK(tarn_pool_set_limit(world.pool, 2 * MIB));
    STATUS(TARN_ERR_LIMIT, tarn_pool_malloc(world.pool, 4 * MIB, 0, world.stream, &address));
    OK(tarn_device_remove_oom_observer(world.device, observe, &size));
    ck_assert_uint_eq(size, sizeof(tarn_out_of_memory));
}
