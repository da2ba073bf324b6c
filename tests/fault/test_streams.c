// SPDX-License-Identifier: Apache-2.0
/* Uses on several streams: recorded before the free and with it, many blocks at once, in a capture,
 * pending while memory is looked for and while it is trimmed. */
#include "fault/fault.h"

enum { WORDS = 256, COUNT = 6 };

/* Blocks that two other streams use, freed one after the other and looked for at once. */
static void free_many(void)
{
    void *blocks[COUNT];

    for (size_t i = 0; i < COUNT; i++) {
        STEP(ROOM | LOST, tarn_pool_malloc(POOL, 2 * MIB, 0, MAIN, &fault.out.address));
        blocks[i] = fault_taken(POOL, 2 * MIB);
        test_fill(SIDE, blocks[i], (uint32_t)i, WORDS);
        STEP(NOTE, tarn_record_stream(blocks[i], SIDE));
    }
    test_fill(THIRD, (char *)blocks[0] + WORDS * 4, 9, WORDS); /* beside what SIDE writes */
    STEP(NOTE, tarn_record_stream(blocks[0], THIRD));
    for (size_t i = 0; i < COUNT; i++) {
        STEP(0, tarn_free(blocks[i]));
        fault_dead(blocks[i]);
    }
    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 8 * MIB, 0, MAIN, &fault.out.address));
    blocks[0] = fault_taken(POOL, 8 * MIB);
    test_synchronize(SIDE);
    test_synchronize(THIRD);
    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 16 * MIB, 0, MAIN, &fault.out.address));
    blocks[1] = fault_taken(POOL, 16 * MIB);
    for (size_t i = 0; i < 2; i++) {
        STEP(NOTE, tarn_free_on(blocks[i], SIDE));
        fault_dead(blocks[i]);
    }
    STEP(TRIM, tarn_pool_trim(POOL, &fault.out.freed_bytes));
}

/* A use from before the capture, one in it, and one on a stream that is not captured. */
static void free_in_capture(void)
{
    void *before;
    void *inside;

    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 3 * MIB, 0, MAIN, &fault.out.address));
    before = fault_taken(POOL, 3 * MIB);
    test_fill(THIRD, before, 2, WORDS);
    STEP(NOTE, tarn_record_stream(before, THIRD));
    STEP(CAPTURE_BEGIN, tarn_capture_begin(POOL, MAIN, NULL, &fault.out.capture));
    FREE(before);
    STEP(ROOM | LOST, tarn_malloc(DEVICE, 3 * MIB, MAIN, &fault.out.address));
    inside = fault_taken(POOL, 3 * MIB);
    test_fill(MAIN, inside, 2, WORDS);
    test_order(MAIN, SIDE);
    test_fill(SIDE, inside, 3, WORDS);
    STEP(NOTE, tarn_record_stream(inside, SIDE));
    test_order(SIDE, MAIN);
    FREE(inside);
    STEP(ROOM | LOST, tarn_malloc(DEVICE, 3 * MIB, MAIN, &fault.out.address));
    inside = fault_taken(POOL, 3 * MIB);
    STEP(NOTE, tarn_free_on(inside, MAIN));
    fault_dead(inside);
    STEP(CAPTURE_END, tarn_capture_end(fault.out.capture, &fault.out.graphs[0]));
    fault.out.capture = UNTOUCHED;
    STEP(REPLAY, tarn_graph_replay(fault.out.graphs[0], MAIN));
    STEP(0, tarn_graph_destroy(fault.out.graphs[0]));
    fault.out.graphs[0] = UNTOUCHED;
    test_synchronize(MAIN);
    fault_settle(fault.ledger.user_objects);
    STEP(TRIM, tarn_pool_trim(POOL, &fault.out.freed_bytes));
}

/* A stream that is retired with a block allocated on it, blocks recorded on it, live and freed. */
static void retire(void)
{
    void *own;
    void *noted;
    void *freed;

    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 2 * MIB, 0, THIRD, &fault.out.address));
    own = fault_taken(POOL, 2 * MIB);
    test_fill(THIRD, own, 1, WORDS);
    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 2 * MIB, 0, MAIN, &fault.out.address));
    noted = fault_taken(POOL, 2 * MIB);
    STEP(NOTE, tarn_record_stream(noted, THIRD));
    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 2 * MIB, 0, MAIN, &fault.out.address));
    freed = fault_taken(POOL, 2 * MIB);
    STEP(NOTE, tarn_free_on(freed, THIRD));
    fault_dead(freed);
    STEP(S(HOST_MEMORY) | CALLED | LOST, tarn_stream_retire(DEVICE, THIRD));
    STEP(S(HOST_MEMORY) | CALLED | LOST, tarn_stream_retire(DEVICE, THIRD)); /* is OK */
    test_synchronize(THIRD);
    FREE(noted);
    FREE(own);
    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 24 * MIB, 0, SIDE, &fault.out.address));
    own = fault_taken(POOL, 24 * MIB);
    STEP(NOTE, tarn_free_on(own, THIRD)); /* a new one to the library */
    fault_dead(own);
    STEP(TRIM, tarn_pool_trim(POOL, &fault.out.freed_bytes));
}

/* A context that the program made is met, waited for, and left. */
static void use_context(void)
{
    void *block;

    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 2 * MIB, 0, FOREIGN, &fault.out.address));
    block = fault_taken(POOL, 2 * MIB);
    test_set_words(FOREIGN, block, 1, WORDS);
    STEP(NOTE, tarn_free_on(block, FOREIGN));
    fault_dead(block);
    STEP(TRIM, tarn_pool_trim(POOL, &fault.out.freed_bytes));
}

/* Pending blocks when pool and device go. */
static void leave(void)
{
    void *block;

    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 1 * MIB, 0, MAIN, &fault.out.address));
    block = fault_taken(POOL, 1 * MIB);
    test_fill(SIDE, block, 1, WORDS);
    STEP(NOTE, tarn_free_on(block, SIDE));
    fault_dead(block);
    STEP(ROOM | LOST, tarn_malloc(DEVICE, 1 * MIB, MAIN, &fault.out.address));
    block = fault_taken(fault.out.pools[0], 1 * MIB);
    test_fill(SIDE, block, 1, WORDS);
    STEP(NOTE, tarn_free_on(block, SIDE));
    fault_dead(block);
    fault_close(CALLED);
}

static void end_own(void)
{
    fault_abort(&fault.out.capture);
}

int main(void)
{
    static const struct fault_scenario streams = {
        .name = "streams",
        .parts = {fault_open, free_many, free_in_capture, retire, use_context, leave},
        .ends = end_own,
    };

    return fault_main(&streams);
}
