// SPDX-License-Identifier: Apache-2.0
/* The default streams, for which the device's context must be current: the legacy one, and the thread's
 * own, which is captured, restored to, replayed on and retired. */
#include "fault/fault.h"

enum { WORDS = 256 };

#define LEGACY NULL
#define OWN ((tn_cu_stream)(uintptr_t)2)

static void *output;
static bool captures; /* the thread's own stream */

/* Each uses the other's block. */
static void use(void)
{
    void *blocks[2];

    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 2 * MIB, 0, LEGACY, &fault.out.address));
    blocks[0] = fault_taken(POOL, 2 * MIB);
    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 2 * MIB, 0, OWN, &fault.out.address));
    blocks[1] = fault_taken(POOL, 2 * MIB);
    test_fill(OWN, blocks[0], 1, WORDS);
    test_fill(LEGACY, blocks[1], 1, WORDS); /* behind the other, as all of that stream's is */
    STEP(NOTE, tarn_record_stream(blocks[0], OWN));
    FREE(blocks[0]);
    STEP(NOTE, tarn_free_on(blocks[1], LEGACY));
    fault_dead(blocks[1]);
    test_synchronize(OWN);
    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 32 * MIB, 0, LEGACY, &fault.out.address));
    blocks[0] = fault_taken(POOL, 32 * MIB);
    FREE(blocks[0]);
    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 1 * MIB, 0, OWN, &fault.out.address));
    output = fault_taken(POOL, 1 * MIB);
}

static void capture(void)
{
    void *block;

    STEP(CAPTURE_BEGIN,
         tarn_capture_begin(POOL, OWN, CAPTURE_MODE(TARN_CAPTURE_RELAXED), &fault.out.capture));
    captures = true;
    STEP(ROOM | LOST, tarn_malloc(DEVICE, 2 * MIB, OWN, &fault.out.address));
    block = fault_taken(POOL, 2 * MIB);
    test_fill(OWN, block, 4, WORDS);
    test_copy(OWN, output, block, WORDS * sizeof(uint32_t));
    FREE(block);
    STEP(CAPTURE_END, tarn_capture_end(fault.out.capture, &fault.out.graphs[0]));
    fault.out.capture = UNTOUCHED;
    captures = false;
    STEP(REPLAY, tarn_graph_replay(fault.out.graphs[0], OWN));
    test_expect_words(OWN, output, 4, WORDS);
    STEP(REPLAY, tarn_graph_replay(fault.out.graphs[0], LEGACY));
    test_expect_words(LEGACY, output, 4, WORDS);
    STEP(0, tarn_graph_destroy(fault.out.graphs[0]));
    fault.out.graphs[0] = UNTOUCHED;
    fault_settle(fault.ledger.user_objects);
}

#define CONTENTS (TAKE | S(NOT_SUPPORTED))

static void checkpoint(void)
{
    STEP(CONTENTS,
         tarn_checkpoint_take(POOL, TARN_CONTENTS_DEVICE, OWN, &fault.out.checkpoints[0]));
    STEP(CONTENTS, tarn_checkpoint_verify(fault.out.checkpoints[0], LEGACY));
    test_fill(OWN, output, 5, WORDS);
    STEP(RESTORE | S(NOT_SUPPORTED) | S(ADDRESS_SPACE),
         tarn_checkpoint_restore(fault.out.checkpoints[0], OWN, &fault.out.delta));
    tarn_delta_destroy(fault.out.delta);
    test_expect_words(OWN, output, 4, WORDS);
    STEP(0, tarn_checkpoint_destroy(fault.out.checkpoints[0]));
    fault.out.checkpoints[0] = UNTOUCHED;
}

static void leave(void)
{
    STEP(NOTE, tarn_record_stream(output, LEGACY));
    fault_expect(TARN_ERR_INVALID_ARGUMENT);
    STEP(S(INVALID_ARGUMENT) | LOST, tarn_stream_retire(DEVICE, LEGACY));
    STEP(NOTE, tarn_stream_retire(DEVICE, OWN));
    FREE(output);
    test_synchronize(OWN);
    fault_close(CALLED);
}

static void end_own(void)
{
    fault_abort(&fault.out.capture);
    if (captures && test_capture_status(OWN) != TN_CU_CAPTURE_STATUS_NONE)
        test_destroy_graph(test_end_capture(OWN));
}

int main(void)
{
    static const struct fault_scenario defaults = {
        .name = "default streams",
        .parts = {fault_open, use, capture, checkpoint, leave},
        .ends = end_own,
    };

    return fault_main(&defaults);
}
