// SPDX-License-Identifier: Apache-2.0
/* Graphs that refer to memory of other processes: what an audit says of it, and what guards do when
 * a share is closed. Both ends of the connection are in this process. */
#include "support/world.h"

enum { WORDS = 1 << 10, BYTES = WORDS * 4 };

static struct {
    tarn_pool *pool; /* shared */
    tarn_listener *listener;
    tarn_connection *producer;
    tarn_connection *consumer;
    char *block; /* the producer's */
    tarn_share share;
    char *opened; /* the same, as the consumer has it */
    char *output; /* that graphs write */
} with;

static void open_all(void)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    char name[56];

    test_world_open();
    options.flags = TARN_POOL_SHARED;
    with.pool = test_pool_with(&options);
    with.block = test_alloc(with.pool, BYTES, world.stream);
    with.output = test_alloc(world.default_pool, BYTES, world.stream);
    test_fill(world.stream, with.block, 7, WORDS);
    test_synchronize(world.stream);
    OK(tarn_listener_create(world.device, NULL, &with.listener));
    OK(tarn_listener_name(with.listener, name));
    OK(tarn_connection_open(world.device, name, &with.consumer));
    OK(tarn_listener_progress(with.listener));
    OK(tarn_listener_accept(with.listener, &with.producer));
    OK(tarn_share_block(with.producer, with.block, &with.share));
    OK(tarn_share_open(with.consumer, &with.share, 0, (void **)&with.opened));
}

static void close_all(void)
{
    OK(tarn_connection_destroy(with.consumer));
    OK(tarn_connection_destroy(with.producer));
    OK(tarn_listener_destroy(with.listener));
    if (with.block != NULL)
        OK(tarn_free(with.block));
    OK(tarn_free(with.output));
    OK(tarn_pool_destroy(with.pool));
    test_world_close();
}

/* A graph that copies some bytes of the opened block. */
static tarn_graph *copying(size_t bytes)
{
    tarn_capture *capture = test_capture_on(world.pool, world.stream, TARN_CAPTURE_THREAD_LOCAL);

    test_copy(world.stream, with.output, with.opened, bytes);
    return test_capture_end(capture);
}

static tarn_graph *guarded(tarn_guard guard)
{
    tarn_graph *graph = copying(BYTES);

    OK(tarn_graph_guard(graph, guard, NULL));
    OK(tarn_graph_check(graph));
    return graph;
}

static void expect_replay(tarn_graph *graph, uint32_t value)
{
    OK(tarn_graph_replay(graph, world.stream));
    test_expect_words(world.stream, with.output, value, WORDS);
}

/* The class of the copy's source; the audit is to be destroyed. */
static tarn_audit *expect_source(tarn_graph *graph, tarn_pointer_class of, size_t mistakes)
{
    tarn_audit_options options = TARN_AUDIT_OPTIONS_INIT;
    tarn_audit *audit;

    options.list_all = true;
    OK(tarn_graph_audit(graph, &options, &audit));
    ck_assert_uint_eq(audit->counts[of], 1);
    ck_assert_uint_eq(audit->mistake_count, mistakes);
    return audit;
}

static tarn_connection_info describe(tarn_connection *connection)
{
    tarn_connection_info info = TARN_CONNECTION_INFO_INIT;

    OK(tarn_connection_describe(connection, &info));
    return info;
}

static uint64_t collect(void)
{
    uint64_t ended;

    OK(tarn_share_collect(world.device, &ended));
    return ended;
}

SUITE("graphs with memory of other processes")
GROUP(audits, open_all, close_all)

TEST(audits, a_block_that_is_open_is_named_imported)
{
    tarn_graph *graph = copying(BYTES);
    tarn_audit *audit = expect_source(graph, TARN_POINTER_IMPORTED, 0);
    const tarn_pointer *pointer = audit->pointers;

    while (pointer->pointer_class != TARN_POINTER_IMPORTED)
        pointer += 1;
    ck_assert_ptr_eq(pointer->block.address, with.opened);
    ck_assert_uint_eq(pointer->block.bytes, BYTES);
    ck_assert_uint_gt(pointer->block.sequence, 0);
    ck_assert_ptr_null(pointer->pool);
    tarn_audit_destroy(audit);
    OK(tarn_graph_destroy(graph));
    OK(tarn_share_close(with.consumer, with.opened));
}

TEST(audits, a_block_that_was_closed_is_a_mistake)
{
    tarn_graph *graph = copying(BYTES);
    tarn_audit *audit;
    char text[2048];

    OK(tarn_share_close(with.consumer, with.opened));
    audit = expect_source(graph, TARN_POINTER_LET_GO, 1);
    ck_assert_int_eq(audit->mistakes[0].place, TARN_PLACE_SOURCE);
    OK(tarn_audit_report(audit, TARN_REPORT_TEXT, text, sizeof text, NULL));
    ck_assert_ptr_nonnull(strstr(text, "is let go: in memory of another process, whose share is "
                                       "closed"));
    tarn_audit_destroy(audit);
    OK(tarn_graph_destroy(graph));
}

/* Memory of the chunk beside the block is not the consumer's. */
TEST(audits, bytes_behind_a_block_are_beyond_it)
{
    tarn_graph *graph = copying(BYTES);
    tarn_audit *audit;
    char text[2048];

    OK(tarn_graph_destroy(graph));
    with.opened += 8;
    graph = copying(BYTES);
    with.opened -= 8;
    audit = expect_source(graph, TARN_POINTER_BEYOND, 1);
    OK(tarn_audit_report(audit, TARN_REPORT_TEXT, text, sizeof text, NULL));
    ck_assert_ptr_nonnull(strstr(text, "of another process, 4096 bytes at 0x"));
    tarn_audit_destroy(audit);
    OK(tarn_graph_destroy(graph));
    OK(tarn_share_close(with.consumer, with.opened));
}

/* Another lease, behind the capture, is another block. */
TEST(audits, a_share_that_is_opened_behind_the_capture_is_used_again)
{
    tarn_graph *graph = copying(BYTES);
    tarn_share share;
    void *again;

    OK(tarn_share_close(with.consumer, with.opened));
    OK(tarn_share_block(with.producer, with.block, &share));
    OK(tarn_share_open(with.consumer, &share, 0, &again));
    ck_assert_ptr_eq(again, with.opened);
    tarn_audit_destroy(expect_source(graph, TARN_POINTER_USED_AGAIN, 1));
    OK(tarn_graph_destroy(graph));
    OK(tarn_share_close(with.consumer, again));
}

TEST(audits, a_segment_of_another_process_is_described)
{
    tarn_segment segment = TARN_SEGMENT_INIT;
    char *behind = with.opened + BYTES;

    OK(tarn_segment_at(with.opened + 100, &segment));
    ck_assert_int_eq(segment.location, TARN_LOCATION_PROCESS);
    ck_assert_ptr_null(segment.pool);
    ck_assert_int_eq(segment.device, 0);
    ck_assert_ptr_eq(segment.run, with.opened);
    ck_assert_uint_eq(segment.run_bytes, BYTES);
    ck_assert_int_eq(segment.run_state, TARN_EXTENT_LIVE);
    ck_assert_uint_eq(segment.bytes, segment.chunk_bytes);
    ck_assert((char *)segment.chunk <= with.opened);
    OK(tarn_segment_at(behind, &segment));
    ck_assert_ptr_eq(segment.run, segment.chunk);
    ck_assert_int_eq(segment.run_state, TARN_EXTENT_FREE);
    OK(tarn_share_close(with.consumer, with.opened));
    OK(tarn_segment_at(with.opened, &segment)); /* mapped still */
    ck_assert_int_eq(segment.run_state, TARN_EXTENT_FREE);
}

GROUP(guards, open_all, close_all)

TEST(guards, a_graph_is_stale_once_its_share_is_closed)
{
    tarn_graph *graph = guarded(TARN_GUARD_REFUSE);

    expect_replay(graph, 7);
    OK(tarn_share_close(with.consumer, with.opened));
    REFUSE(TARN_ERR_STALE, "of another process", tarn_graph_replay(graph, world.stream));
    REFUSE(TARN_ERR_STALE, "is closed, or the other process is gone", tarn_graph_check(graph));
    OK(tarn_graph_guard(graph, TARN_GUARD_REFUSE, NULL));
    REFUSE(TARN_ERR_STALE, "whose share is closed", tarn_graph_check(graph));
    OK(tarn_graph_destroy(graph));
    ck_assert_uint_eq(collect(), 1);
}

TEST(guards, a_graph_keeps_what_it_reads)
{
    tarn_graph *graph = guarded(TARN_GUARD_KEEP);

    OK(tarn_share_close(with.consumer, with.opened));
    OK(tarn_free(with.block));
    ck_assert_uint_eq(describe(with.consumer).lease_count, 1);
    ck_assert_uint_eq(describe(with.consumer).limbo_count, 1);
    ck_assert_uint_eq(collect(), 0);
    ck_assert_int_eq(test_state_of(with.pool, with.block), TARN_EXTENT_PENDING);
    expect_replay(graph, 7);
    tarn_audit_destroy(expect_source(graph, TARN_POINTER_KEPT, 0));
    REFUSE(TARN_ERR_WRONG_STATE, "keeps freed blocks",
           tarn_graph_guard(graph, TARN_GUARD_REFUSE, NULL));
    REFUSE(TARN_ERR_NOT_OURS, "no share is open", tarn_share_close(with.consumer, with.opened));
    REFUSE(TARN_ERR_BUSY, "kept by graphs", tarn_connection_destroy(with.consumer));
    OK(tarn_graph_destroy(graph));
    test_trim_with_a_wait(world.pool);
    (void)collect(); /* the consumer returns the lease */
    (void)collect(); /* and the producer takes it back */
    ck_assert_uint_eq(describe(with.producer).lease_count, 0);
    ck_assert_uint_eq(describe(with.consumer).lease_count, 0);
    ck_assert_int_eq(test_state_of(with.pool, with.block), TARN_EXTENT_FREE);
    with.block = NULL;
}

/* A launch of a graph that was destroyed may still run. */
TEST(guards, what_was_kept_waits_for_the_last_launch)
{
    tarn_graph *graph = guarded(TARN_GUARD_KEEP);

    OK(tarn_share_close(with.consumer, with.opened));
    test_spin(world.stream, 30);
    OK(tarn_graph_replay(graph, world.stream));
    OK(tarn_graph_destroy(graph));
    ck_assert_uint_eq(collect() + collect(), 0);
    ck_assert_uint_eq(describe(with.consumer).limbo_count, 1);
    test_expect_words(world.stream, with.output, 7, WORDS);
    test_trim_with_a_wait(world.pool);
    ck_assert_uint_eq(collect() + collect(), 1);
}

TEST(guards, a_share_that_is_kept_is_closed_all_the_same)
{
    tarn_graph *graph = guarded(TARN_GUARD_KEEP);
    void *again;

    OK(tarn_share_close(with.consumer, with.opened));
    REFUSE(TARN_ERR_STALE, "is over", tarn_share_open(with.consumer, &with.share, 0, &again));
    OK(tarn_graph_destroy(graph));
    test_trim_with_a_wait(world.pool);
    ck_assert_uint_eq(collect() + collect(), 1);
}

/* The stream comes to the close, and the graph still keeps the block. */
TEST(guards, a_graph_keeps_what_was_closed_on_a_stream)
{
    tarn_graph *graph = guarded(TARN_GUARD_KEEP);

    OK(tarn_share_close_on(with.consumer, with.opened, world.side));
    test_synchronize(world.side);
    ck_assert_uint_eq(collect() + collect(), 0);
    ck_assert_uint_eq(describe(with.consumer).limbo_count, 1);
    expect_replay(graph, 7);
    OK(tarn_graph_destroy(graph));
    test_trim_with_a_wait(world.pool);
    ck_assert_uint_eq(collect() + collect(), 1);
}

TEST(guards, a_close_that_a_stream_refuses_leaves_the_graph_fresh)
{
    tarn_graph *graph = guarded(TARN_GUARD_REFUSE);

    OK(tarn_share_close_on(with.consumer, with.opened, world.side)); /* its words are there now */
    STATUS(TARN_ERR_STALE, tarn_graph_check(graph));
    test_synchronize(world.side);
    ck_assert_uint_eq(collect() + collect(), 1);
    OK(tarn_graph_destroy(graph));
    OK(tarn_share_block(with.producer, with.block, &with.share));
    OK(tarn_share_open(with.consumer, &with.share, 0, (void **)&with.opened));
    graph = guarded(TARN_GUARD_REFUSE);
    sim.plan_fault("cuStreamBatchMemOp", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_share_close_on(with.consumer, with.opened, world.side));
    ck_assert_uint_eq(sim.clear_fault(NULL), 1);
    expect_replay(graph, 7);
    OK(tarn_share_close(with.consumer, with.opened));
    STATUS(TARN_ERR_STALE, tarn_graph_check(graph));
    OK(tarn_graph_destroy(graph));
}

/* The block is open as long as any lease of it is. */
TEST(guards, a_graph_is_fresh_while_another_share_of_the_block_is_open)
{
    tarn_graph *graph;
    tarn_share share;
    void *again;

    OK(tarn_share_block(with.producer, with.block, &share));
    OK(tarn_share_open(with.consumer, &share, 0, &again));
    ck_assert_ptr_eq(again, with.opened);
    graph = guarded(TARN_GUARD_REFUSE);
    OK(tarn_share_close(with.consumer, again)); /* the lease that was opened last */
    expect_replay(graph, 7);
    OK(tarn_share_close(with.consumer, again));
    STATUS(TARN_ERR_STALE, tarn_graph_check(graph));
    OK(tarn_graph_destroy(graph));
    ck_assert_uint_eq(collect(), 2);
}

TEST(guards, a_graph_without_a_guard_is_told_nothing)
{
    tarn_graph *graph = guarded(TARN_GUARD_IGNORE);

    OK(tarn_share_close(with.consumer, with.opened));
    OK(tarn_graph_check(graph));
    OK(tarn_graph_destroy(graph));
}

/* Blocks of pools and of other processes, watched together. */
TEST(guards, either_kind_of_block_makes_a_graph_stale)
{
    for (int i = 0; i < 2; i++) {
        tarn_capture *capture;
        tarn_graph *graph;
        char *input = test_alloc(world.default_pool, BYTES, world.stream);

        capture = test_capture_on(world.pool, world.stream, TARN_CAPTURE_THREAD_LOCAL);
        test_copy(world.stream, input, with.opened, BYTES);
        test_copy(world.stream, with.output, input, BYTES);
        graph = test_capture_end(capture);
        OK(tarn_graph_guard(graph, TARN_GUARD_REFUSE, NULL));
        if (i == 0)
            OK(tarn_free(input));
        else
            OK(tarn_share_close(with.consumer, with.opened));
        REFUSE(TARN_ERR_STALE, i == 0 ? "was freed" : "of another process",
               tarn_graph_check(graph));
        OK(tarn_graph_destroy(graph));
        if (i == 1)
            OK(tarn_free(input));
    }
}
