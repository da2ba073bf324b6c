// SPDX-License-Identifier: Apache-2.0
/* The life of a device, its pools, graphs and checkpoints, with every driver call and every host
 * allocation of it made to fail. */
#include "fault/fault.h"

enum { WORDS = 256, KIB = 1024 };

static void *weights;          /* 3 MiB, on the first stream, from here on to the end */
static void *biases;           /* 100 KiB, until the checkpoints are taken */
static void *scratch;          /* of the default pool */
static void *output;           /* allocated in the first graph and kept */
static void *discarded;        /* of an aborted capture */
static tn_cu_graph user_graph; /* of the user's own capture, until it is adopted */
static bool user_captures;
static bool routed;
static tarn_snapshot *written; /* until its writing is over */

static void expect(const void *address, uint32_t value)
{
    test_expect_words(MAIN, address, value, WORDS);
}

static void open_and_load(void)
{
    fault_open();
    if (fault_is_over())
        return;
    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 3 * MIB, 0, MAIN, &fault.out.address));
    weights = fault_taken(POOL, 3 * MIB);
    test_fill(MAIN, weights, 7, WORDS);
    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 100 * KIB, 4096, MAIN, &fault.out.address));
    biases = fault_taken(POOL, 100 * KIB);
    test_fill(MAIN, biases, 11, WORDS);
    STEP(ROOM | LOST, tarn_malloc(DEVICE, 2 * MIB, SIDE, &fault.out.address));
    scratch = fault_taken(fault.out.pools[0], 2 * MIB);
    test_fill(SIDE, scratch, 13, WORDS);
    STEP(0, tarn_block_at(biases, &fault.out.block));
    test_synchronize(MAIN);
    test_synchronize(SIDE);
}

/* Captures a step that leaves 8, the weights' 7 and 1, in `output`. */
static void capture(void)
{
    void *activation;
    void *forked;

    STEP(CAPTURE_BEGIN, tarn_capture_begin(POOL, MAIN, NULL, &fault.out.capture));
    STEP(ROOM | LOST, tarn_malloc(DEVICE, 2 * MIB, MAIN, &fault.out.address));
    activation = fault_taken(POOL, 2 * MIB);
    STEP(ROOM | LOST, tarn_malloc(DEVICE, 64 * KIB, MAIN, &fault.out.address));
    output = fault_taken(POOL, 64 * KIB);
    test_copy(MAIN, output, weights, WORDS * sizeof(uint32_t));
    FREE(activation);
    STEP(ROOM | LOST, tarn_malloc(DEVICE, 2 * MIB, MAIN, &fault.out.address));
    activation = fault_taken(POOL, 2 * MIB);
    ck_assert_ptr_eq(activation, fault.out.address);
    test_fill(MAIN, activation, 1, WORDS);
    test_order(MAIN, SIDE);
    STEP(ROOM | LOST, tarn_malloc(DEVICE, 1 * MIB + 512, SIDE, &fault.out.address));
    forked = fault_taken(POOL, 1 * MIB + 512);
    test_fill(SIDE, forked, 2, WORDS);
    STEP(NOTE, tarn_record_stream(activation, SIDE));
    FREE(activation);
    STEP(NOTE, tarn_free_on(forked, MAIN));
    fault_dead(forked);
    test_order(SIDE, MAIN);
    test_add(MAIN, output, 1, WORDS);

    /* Beside the capture, in the default pool. */
    STEP(ROOM | LOST, tarn_malloc(DEVICE, 4 * MIB, THIRD, &fault.out.address));
    (void)fault_taken(fault.out.pools[0], 4 * MIB);
    FREE(fault.out.address);
    STEP(TRIM, tarn_pool_trim(fault.out.pools[0], &fault.out.freed_bytes));
    ck_assert_int_eq((int)test_capture_status(MAIN), (int)TN_CU_CAPTURE_STATUS_ACTIVE);

    STEP(CAPTURE_END, tarn_capture_end(fault.out.capture, &fault.out.graphs[0]));
    fault.out.capture = UNTOUCHED;
}

static void replay(void)
{
    for (int i = 0; i < 2; i++) {
        STEP(REPLAY, tarn_graph_replay(fault.out.graphs[0], MAIN));
        expect(output, 8);
        expect(weights, 7);
    }
}

/* A block used on two streams, freed with the use recorded, and memory that goes back. */
static void change(void)
{
    void *shared;

    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 5 * MIB, 2 * MIB, MAIN, &fault.out.address));
    shared = fault_taken(POOL, 5 * MIB);
    test_fill(SIDE, shared, 3, WORDS);
    STEP(NOTE, tarn_record_stream(shared, SIDE));
    test_synchronize(SIDE);
    FREE(shared);
    FREE(weights);
    STEP(NOTE, tarn_free_on(biases, SIDE));
    fault_dead(biases);
    test_synchronize(SIDE);
    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 200 * KIB, 0, SIDE, &fault.out.address));
    (void)fault_taken(POOL, 200 * KIB);
    test_fill(MAIN, output, 9, WORDS);
    test_synchronize(MAIN);
    STEP(TRIM, tarn_pool_trim(POOL, &fault.out.freed_bytes));
}

/* The blocks of the checkpoints are live again and nothing else is. */
static void change_back(void *unsaved)
{
    fault_dead(unsaved);
    fault_live(POOL, weights, 3 * MIB);
    fault_live(POOL, biases, 100 * KIB);
}

static tarn_status take_bytes(const void *bytes, size_t count, void *user)
{
    (void)bytes;
    (void)count;
    (void)user;
    return TARN_OK;
}

static void snapshot(void)
{
    STEP(S(HOST_MEMORY), tarn_snapshot_take(DEVICE, POOL, &fault.out.snapshot));
    ck_assert_uint_eq(fault.out.snapshot->pool_count, 1);
    tarn_snapshot_destroy(fault.out.snapshot);
    STEP(S(HOST_MEMORY), tarn_snapshot_take(DEVICE, NULL, &fault.out.snapshot));
    ck_assert_uint_eq(fault.out.snapshot->pool_count, 3); /* of contents, too */
    written = fault.out.snapshot;
    STEP(S(HOST_MEMORY), tarn_snapshot_write_pytorch(written, take_bytes, NULL));
    tarn_snapshot_destroy(written);
    written = NULL;
    STEP(S(HOST_MEMORY), tarn_leaks_find(DEVICE, NULL, &fault.out.leaks));
    ck_assert_uint_gt(fault.out.leaks->count, 0);
    tarn_leaks_destroy(fault.out.leaks);
    STEP(0, tarn_device_write_metrics(DEVICE, TARN_METRICS_PROMETHEUS, 0, take_bytes, NULL));
}

static void checkpoint(void)
{
    void *unsaved;

    STEP(S(HOST_MEMORY), tarn_block_set_tag(weights, 17));
    STEP(S(HOST_MEMORY) | LOST,
         tarn_checkpoint_take(POOL, TARN_CONTENTS_NONE, MAIN, &fault.out.checkpoints[0]));
    STEP(TAKE, tarn_checkpoint_take(POOL, TARN_CONTENTS_DEVICE, MAIN, &fault.out.checkpoints[1]));
    test_synchronize(MAIN);
    change();
    if (fault_is_over())
        return;
    unsaved = fault.out.address;
    STEP(RESTORE, tarn_checkpoint_restore(fault.out.checkpoints[1], THIRD, &fault.out.delta));
    ck_assert_uint_eq(fault.out.delta->freed_count, 1);
    ck_assert_uint_eq(fault.out.delta->revived_count, 2);
    tarn_delta_destroy(fault.out.delta);
    change_back(unsaved);
    test_synchronize(THIRD);
    expect(weights, 7);
    expect(biases, 11);
    expect(output, 8);
    change();
    if (fault_is_over())
        return;
    unsaved = fault.out.address;
    STEP(RESTORE, tarn_checkpoint_restore(fault.out.checkpoints[0], MAIN, NULL));
    change_back(unsaved);
    STEP(0, tarn_block_at(weights, &fault.out.block));
    ck_assert_uint_eq(fault.out.block.tag, 17);
    fault.out.segment = (tarn_segment)TARN_SEGMENT_INIT;
    STEP(0, tarn_segment_at(weights, &fault.out.segment));
    expect(output, 9);
    test_fill(MAIN, weights, 7, WORDS);
    STEP(S(HOST_MEMORY), tarn_pool_check_live(POOL, NULL, 0, &fault.out.diff));
    ck_assert_uint_eq(fault.out.diff->count, 3);
    tarn_live_diff_destroy(fault.out.diff);
    STEP(S(HOST_MEMORY), tarn_pool_layout(POOL, &fault.out.layout));
    tarn_layout_destroy(fault.out.layout);
    STEP(S(HOST_MEMORY), tarn_pool_blocks(POOL, &fault.out.blocks));
    ck_assert_uint_eq(fault.out.blocks->count, 3);
    tarn_block_list_destroy(fault.out.blocks);
    STEP(S(HOST_MEMORY), tarn_device_pools(DEVICE, &fault.out.pool_list));
    tarn_pool_list_destroy(fault.out.pool_list);
    snapshot();
}

/* A second graph in the pool, so that replays are ordered, and a third from a capture of our own. */
static void capture_more(void)
{
    void *block;

    STEP(CAPTURE_BEGIN, tarn_capture_begin(POOL, MAIN, CAPTURE_MODE(TARN_CAPTURE_THREAD_LOCAL),
                                           &fault.out.capture));
    STEP(ROOM | LOST, tarn_malloc(DEVICE, 2 * MIB, MAIN, &fault.out.address));
    block = fault_taken(POOL, 2 * MIB);
    test_fill(MAIN, block, 5, WORDS);
    FREE(block);
    STEP(CAPTURE_END, tarn_capture_end(fault.out.capture, &fault.out.graphs[1]));
    fault.out.capture = UNTOUCHED;
    STEP(ROOM | LOST, tarn_pool_reserve(POOL, 16 * MIB, MAIN));

    STEP(S(HOST_MEMORY) | LOST, tarn_begin_allocate_to_pool(DEVICE, POOL, tarn_filter_capture, MAIN,
                                                            &fault.out.routes[0]));
    routed = true;
    test_begin_capture(MAIN, TN_CU_CAPTURE_MODE_RELAXED);
    user_captures = true;
    test_order(MAIN, SIDE);
    /* UNROUTED: the route's own stream could not be looked at. */
    STEP(ROOM | LOST | S(UNROUTED), tarn_malloc(DEVICE, 3 * MIB, SIDE, &fault.out.address));
    block = fault_taken(POOL, 3 * MIB);
    test_fill(SIDE, block, 6, WORDS);
    FREE(block);
    test_order(SIDE, MAIN);
    user_graph = test_end_capture(MAIN);
    user_captures = false;
    STEP(CAPTURE_END, tarn_graph_adopt(POOL, user_graph, &fault.out.graphs[2]));
    user_graph = NULL;
    STEP(0, tarn_end_allocate_to_pool(fault.out.routes[0]));
    routed = false;
    STEP(REPLAY, tarn_graph_replay(fault.out.graphs[2], MAIN));
    STEP(REPLAY, tarn_graph_replay(fault.out.graphs[1], MAIN));
    STEP(REPLAY, tarn_graph_replay(fault.out.graphs[0], MAIN));
    expect(output, 8);
}

static void abort_capture(void)
{
    STEP(CAPTURE_BEGIN,
         tarn_capture_begin(POOL, MAIN, CAPTURE_MODE(TARN_CAPTURE_RELAXED), &fault.out.capture));
    STEP(ROOM | LOST, tarn_malloc(DEVICE, 40 * MIB, MAIN, &fault.out.address));
    discarded = fault_taken(POOL, 40 * MIB);
    test_fill(MAIN, discarded, 4, WORDS);
    STEP(0, tarn_capture_abort(fault.out.capture));
    fault.out.capture = UNTOUCHED;
    fault_dead(discarded);
    if (test_capture_status(MAIN) != TN_CU_CAPTURE_STATUS_NONE && !fault_is_spoiled())
        test_destroy_graph(test_end_capture(MAIN)); /* the fault has said that it was over */
    fault_settle(fault.ledger.user_objects + 3);
    STEP(0, tarn_free(discarded));
    discarded = NULL;
    STEP(TRIM, tarn_pool_trim(POOL, &fault.out.freed_bytes));
    ck_assert_uint_lt(test_stats(POOL).mapped_bytes, 40 * MIB);
}

/* A pool whose handle is given up goes with its last block. */
static void release(void)
{
    void *block;

    STEP(S(HOST_MEMORY) | LOST, tarn_pool_create(DEVICE, NULL, &OTHER_POOL));
    STEP(ROOM | LOST, tarn_pool_malloc(OTHER_POOL, 1 * MIB, 0, MAIN, &fault.out.address));
    block = fault_taken(OTHER_POOL, 1 * MIB);
    STEP(0, tarn_pool_release(OTHER_POOL));
    OTHER_POOL = UNTOUCHED;
    FREE(block);
}

static void destroy(void)
{
    for (size_t i = 0; i < 3; i++) {
        STEP(0, tarn_graph_destroy(fault.out.graphs[i]));
        fault.out.graphs[i] = UNTOUCHED;
        fault_settle(fault.ledger.user_objects + 2 - i);
    }
    for (size_t i = 0; i < 2; i++) {
        STEP(0, tarn_checkpoint_destroy(fault.out.checkpoints[i]));
        fault.out.checkpoints[i] = UNTOUCHED;
    }
    FREE(output);
    FREE(biases);
    FREE(weights);
    FREE(scratch);
    release();
    if (fault_is_over())
        return;
    fault_close(CALLED);
}

/* What the scenario holds beside the handles. */
static void end_own(void)
{
    tarn_snapshot_destroy(written);
    written = NULL;
    fault_abort(&fault.out.capture);
    if (user_captures)
        user_graph = test_end_capture(MAIN);
    if (user_graph != NULL)
        test_destroy_graph(user_graph);
    if (routed)
        END(tarn_end_allocate_to_pool(fault.out.routes[0]));
    if (discarded != NULL)
        END(tarn_free(discarded));
}

int main(void)
{
    static const struct fault_scenario life = {
        .name = "life",
        .parts = {open_and_load, capture, replay, checkpoint, capture_more, abort_capture, destroy},
        .ends = end_own,
    };

    return fault_main(&life);
}
