// SPDX-License-Identifier: Apache-2.0
/* Captures into graphs of the caller's: one that stands alone and is adopted, and the two bodies of a
 * conditional node, of which one is given up. */
#include "fault/fault.h"
#include "support/bodies.h"

enum { WORDS = 256, KIB = 1024 };

static void *output;       /* of POOL */
static void *discarded;    /* of a body that was aborted */
static tn_cu_graph target; /* the caller's, until it is adopted */

static void open_pool(void)
{
    fault_open();
    if (fault_is_over())
        return;
    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 64 * KIB, 0, MAIN, &fault.out.address));
    output = fault_taken(POOL, 64 * KIB);
}

/* A temporary that is written and copied to the output. */
static void section(tn_cu_stream stream, tarn_capture *capture, uint32_t value)
{
    void *block;

    STEP(ROOM | LOST, tarn_malloc(DEVICE, 2 * MIB, stream, &fault.out.address));
    block = fault_taken(POOL, 2 * MIB);
    fault_owned(block, capture);
    test_fill(stream, block, value, WORDS);
    test_copy(stream, output, block, WORDS * sizeof(uint32_t));
    FREE(block);
}

static void capture_alone(void)
{
    target = test_graph();
    STEP(CAPTURE_BEGIN,
         tarn_capture_begin(POOL, MAIN, CAPTURE_INTO(NULL, 0, target, TARN_CAPTURE_RELAXED),
                            &fault.out.capture));
    section(MAIN, fault.out.capture, 3);
    if (fault_is_over())
        return;
    STEP(CAPTURE_END, tarn_capture_end(fault.out.capture, NULL));
    fault.out.capture = UNTOUCHED;
    STEP(CAPTURE_END, tarn_graph_adopt(POOL, target, &fault.out.graphs[0]));
    target = NULL;
    STEP(REPLAY, tarn_graph_replay(fault.out.graphs[0], MAIN));
    test_expect_words(MAIN, output, 3, WORDS);
}

static void capture_bodies(void)
{
    struct test_node node;

    STEP(CAPTURE_BEGIN,
         tarn_capture_begin(POOL, MAIN, CAPTURE_MODE(TARN_CAPTURE_RELAXED), &fault.out.capture));
    node = test_add_conditional(MAIN, TN_CU_GRAPH_COND_IF, 2, 1);
    for (size_t i = 0; i < 2; i++) {
        STEP(CAPTURE_BEGIN, tarn_capture_begin(POOL, SIDE,
                                               CAPTURE_INTO(fault.out.capture, 7, node.bodies[i],
                                                            TARN_CAPTURE_RELAXED),
                                               &fault.out.second));
        section(SIDE, fault.out.second, 4 + (uint32_t)i);
        if (fault_is_over())
            return;
        if (i == 0) {
            STEP(CAPTURE_END, tarn_capture_end(fault.out.second, NULL));
        } else {
            STEP(ROOM | LOST, tarn_malloc(DEVICE, 1 * MIB, SIDE, &fault.out.address));
            discarded = fault_taken(POOL, 1 * MIB);
            fault_owned(discarded, fault.out.second);
            STEP(0, tarn_capture_abort(fault.out.second));
            fault_discarded(fault.out.second);
            fault_dead(discarded);
        }
        fault.out.second = UNTOUCHED;
    }
    STEP(CAPTURE_END, tarn_capture_end(fault.out.capture, &fault.out.graphs[1]));
    fault.out.capture = UNTOUCHED;
    STEP(REPLAY, tarn_graph_replay(fault.out.graphs[1], MAIN));
    test_expect_words(MAIN, output, 4, WORDS);
    STEP(0, tarn_free(discarded));
    discarded = NULL;
}

static void destroy(void)
{
    for (size_t i = 0; i < 2; i++) {
        STEP(0, tarn_graph_destroy(fault.out.graphs[i]));
        fault.out.graphs[i] = UNTOUCHED;
    }
    fault_settle(fault.ledger.user_objects);
    FREE(output);
    /* BUSY: the driver keeps a graph that it refused to destroy. */
    fault_close(CALLED | S(BUSY));
}

static void end_own(void)
{
    fault_abort(&fault.out.second);
    fault_abort(&fault.out.capture);
    if (target != NULL && test_capture_status(MAIN) != TN_CU_CAPTURE_STATUS_NONE)
        (void)test_end_capture(MAIN); /* its end was refused */
    if (target != NULL)
        test_destroy_graph(target);
    if (discarded != NULL)
        END(tarn_free(discarded));
}

int main(void)
{
    static const struct fault_scenario bodies = {
        .name = "captures into graphs",
        .parts = {open_pool, capture_alone, capture_bodies, destroy},
        .ends = end_own,
    };

    return fault_main(&bodies);
}
