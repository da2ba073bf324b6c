// SPDX-License-Identifier: Apache-2.0
/* Captures and graphs of one pool: two captures at a time, replays on several streams, a capture that
 * breaks, one that is given up by its stream, and the frees of what they allocated. */
#include "fault/fault.h"

enum { WORDS = 256, KIB = 1024 };

static void *output;    /* of POOL */
static void *kept;      /* allocated in the first graph, and freed after it */
static void *discarded; /* of an aborted capture */

static void open_pool(void)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;

    options.name = "graphs";
    options.guard = TARN_GUARD_REFUSE; /* so that an end makes a guard, too */
    STEP(OPEN, tarn_device_open(0, NULL, &DEVICE));
    STEP(0, tarn_device_default_pool(DEVICE, &fault.out.pools[0]));
    STEP(S(HOST_MEMORY) | LOST, tarn_pool_create(DEVICE, &options, &POOL));
    STEP(ROOM | LOST, tarn_pool_reserve(POOL, 8 * MIB, MAIN));
    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 64 * KIB, 0, MAIN, &fault.out.address));
    output = fault_taken(POOL, 64 * KIB);
}

/* Two at a time, each on its own stream; the output is written by both. */
static void capture_two(void)
{
    void *block;

    STEP(CAPTURE_BEGIN,
         tarn_capture_begin(POOL, MAIN, CAPTURE_MODE(TARN_CAPTURE_RELAXED), &fault.out.capture));
    STEP(CAPTURE_BEGIN,
         tarn_capture_begin(POOL, SIDE, CAPTURE_MODE(TARN_CAPTURE_RELAXED), &fault.out.second));
    STEP(ROOM | LOST, tarn_malloc(DEVICE, 2 * MIB, MAIN, &fault.out.address));
    kept = fault_taken(POOL, 2 * MIB);
    test_fill(MAIN, kept, 3, WORDS);
    test_copy(MAIN, output, kept, WORDS * sizeof(uint32_t));
    STEP(ROOM | LOST, tarn_malloc(DEVICE, 2 * MIB, SIDE, &fault.out.address));
    block = fault_taken(POOL, 2 * MIB);
    fault_owned(block, fault.out.second);
    test_fill(SIDE, block, 4, WORDS);
    test_copy(SIDE, output, block, WORDS * sizeof(uint32_t));
    FREE(block);
    STEP(CAPTURE_END, tarn_capture_end(fault.out.capture, &fault.out.graphs[0]));
    fault.out.capture = UNTOUCHED;
    STEP(CAPTURE_END, tarn_capture_end(fault.out.second, &fault.out.graphs[1]));
    fault.out.second = UNTOUCHED;
}

/* In turn on two streams: the first waits for the device, later ones for an event. */
static void replay(void)
{
    STEP(REPLAY, tarn_graph_replay(fault.out.graphs[0], MAIN));
    STEP(REPLAY, tarn_graph_replay(fault.out.graphs[1], SIDE));
    STEP(REPLAY, tarn_graph_replay(fault.out.graphs[0], MAIN));
    test_expect_words(MAIN, output, 3, WORDS);
    STEP(REPLAY, tarn_graph_replay(fault.out.graphs[1], THIRD));
    test_expect_words(THIRD, output, 4, WORDS);
    FREE(kept);
}

/* What they cost: looked at while both are there. */
static void count(void)
{
    tarn_graph_memory_info memory = TARN_GRAPH_MEMORY_INFO_INIT;

    STEP(NOTE, tarn_graph_memory(fault.out.graphs[0], &memory));
    ck_assert_uint_ge(memory.own_pool_bytes + memory.shared_pool_bytes, 2 * MIB);
    STEP(NOTE, tarn_device_graph_memory(DEVICE, &memory));
    ck_assert_uint_eq(memory.graph_count, 2);
}

/* One holds what it freed; the output is live, and no graph's. */
static void audit(void)
{
    tarn_driver_graph handle = NULL;

    STEP(NOTE, tarn_graph_audit(fault.out.graphs[0], NULL, &fault.out.audit));
    ck_assert_uint_eq(fault.out.audit->counts[TARN_POINTER_LIVE], 1);
    ck_assert_uint_eq(fault.out.audit->counts[TARN_POINTER_REUSED], 2);
    ck_assert_uint_eq(fault.out.audit->mistake_count, 0);
    tarn_audit_destroy(fault.out.audit);
    fault.out.audit = UNTOUCHED;
    STEP(0, tarn_graph_driver_handles(fault.out.graphs[1], &handle, NULL));
    STEP(NOTE, tarn_driver_graph_audit(DEVICE, handle, NULL, &fault.out.audit));
    ck_assert_uint_eq(fault.out.audit->counts[TARN_POINTER_LIVE], 1);
    tarn_audit_destroy(fault.out.audit);
    fault.out.audit = UNTOUCHED;
}

/* From here on the output is kept for the first graph, whatever that is updated to. */
static void guard(void)
{
    STEP(NOTE, tarn_graph_guard(fault.out.graphs[0], TARN_GUARD_REFUSE, NULL));
    STEP(0, tarn_graph_check(fault.out.graphs[0]));
    STEP(NOTE, tarn_graph_guard(fault.out.graphs[0], TARN_GUARD_KEEP, NULL));
    STEP(0, tarn_graph_check(fault.out.graphs[0]));
    STEP(NOTE, tarn_graph_guard(fault.out.graphs[1], TARN_GUARD_REFUSE, NULL));
    STEP(LOST, tarn_graph_guard(fault.out.graphs[1], TARN_GUARD_IGNORE, NULL));
}

/* The first graph writes another value from here on; then a section of another form comes, which has
 * to be instantiated. */
static void update(void)
{
    STEP(CAPTURE_BEGIN,
         tarn_capture_begin(POOL, MAIN, CAPTURE_MODE(TARN_CAPTURE_RELAXED), &fault.out.capture));
    STEP(ROOM | LOST, tarn_malloc(DEVICE, 2 * MIB, MAIN, &fault.out.address));
    kept = fault_taken(POOL, 2 * MIB);
    test_fill(MAIN, kept, 5, WORDS);
    test_copy(MAIN, output, kept, WORDS * sizeof(uint32_t));
    FREE(kept);
    STEP(CAPTURE_END, tarn_graph_update(fault.out.graphs[0], fault.out.capture));
    fault.out.capture = UNTOUCHED;
    STEP(REPLAY, tarn_graph_replay(fault.out.graphs[0], MAIN));
    test_expect_words(MAIN, output, 5, WORDS);
    STEP(CAPTURE_BEGIN,
         tarn_capture_begin(POOL, MAIN, CAPTURE_MODE(TARN_CAPTURE_RELAXED), &fault.out.capture));
    test_fill(MAIN, output, 6, WORDS);
    fault_expect(TARN_ERR_CANNOT_UPDATE);
    STEP(CAPTURE_END | S(CANNOT_UPDATE), tarn_graph_update(fault.out.graphs[0], fault.out.capture));
    STEP(CAPTURE_END, tarn_capture_end(fault.out.capture, &fault.out.graphs[2]));
    fault.out.capture = UNTOUCHED;
    STEP(REPLAY, tarn_graph_replay(fault.out.graphs[2], MAIN));
    test_expect_words(MAIN, output, 6, WORDS);
    STEP(0, tarn_graph_destroy(fault.out.graphs[2]));
    fault.out.graphs[2] = UNTOUCHED;
}

/* Both fill a block that they freed, and copy from it: with other values. */
static void compare(void)
{
    STEP(CALLED | S(HOST_MEMORY) | LOST,
         tarn_graph_compare(fault.out.graphs[0], fault.out.graphs[1], &fault.out.graph_diff));
    ck_assert(fault.out.graph_diff->same_structure && !fault.out.graph_diff->equal);
    tarn_graph_diff_destroy(fault.out.graph_diff);
}

/* A call of the user's breaks the capture: it can only be aborted. */
static void break_capture(void)
{
    STEP(CAPTURE_BEGIN, tarn_capture_begin(POOL, MAIN, NULL, &fault.out.capture));
    STEP(ROOM | LOST, tarn_malloc(DEVICE, 3 * MIB, MAIN, &fault.out.address));
    discarded = fault_taken(POOL, 3 * MIB);
    test_break_capture();
    STEP(0, tarn_capture_abort(fault.out.capture));
    fault_discarded(fault.out.capture);
    fault.out.capture = UNTOUCHED;
    fault_dead(discarded);
    if (test_capture_status(MAIN) != TN_CU_CAPTURE_STATUS_NONE && !fault_is_spoiled())
        test_end_broken_capture(MAIN); /* the fault has said that it was over */
    STEP(0, tarn_free(discarded));
    discarded = NULL;
}

static void destroy(void)
{
    FREE(output);
    STEP(0, tarn_graph_check(fault.out.graphs[0]));
    for (size_t i = 0; i < 2; i++) {
        STEP(0, tarn_graph_destroy(fault.out.graphs[i]));
        fault.out.graphs[i] = UNTOUCHED;
    }
    fault_settle(fault.ledger.user_objects);
    STEP(TRIM, tarn_pool_trim(POOL, &fault.out.freed_bytes));
    /* BUSY: the driver keeps a capture that it refused to end. */
    fault_close(CALLED | S(BUSY));
}

static void end_own(void)
{
    fault_abort(&fault.out.capture);
    fault_abort(&fault.out.second);
    if (discarded != NULL)
        END(tarn_free(discarded));
}

int main(void)
{
    static const struct fault_scenario graphs = {
        .name = "graphs",
        .parts = {open_pool, capture_two, replay, count, audit, guard, update, compare,
                  break_capture, destroy},
        .ends = end_own,
    };

    return fault_main(&graphs);
}
