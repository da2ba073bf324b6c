// SPDX-License-Identifier: Apache-2.0
/* Audits of a graph that the program captured, whose output lies where a larger temporary was. What could not be noted in
 * the capture is doubtful afterwards, and no mistake. */
#include "fault/fault.h"
#include "support/nodes.h"

enum { TEMPORARY_BYTES = 18432, OUTPUT_BYTES = 1024, INPUT_BYTES = 4096 };

static void *input; /* of the default pool; NULL: none */
static void *output;
static tn_cu_graph graph; /* NULL: it is being captured, or there is none */
static bool captures;
static bool routed;

static void open_input(void)
{
    fault_open();
    if (fault_is_over())
        return;
    STEP(ROOM | LOST, tarn_malloc(DEVICE, INPUT_BYTES, SIDE, &fault.out.address));
    input = fault_taken(fault.out.pools[0], INPUT_BYTES);
}

/* In a pool that a route leads to: an adopted one might go with a refused call. */
static void capture(void)
{
    void *temporary;

    STEP(S(HOST_MEMORY) | LOST, tarn_begin_allocate_to_pool(DEVICE, POOL, tarn_filter_capture, MAIN,
                                                            &fault.out.routes[0]));
    routed = true;
    test_begin_capture(MAIN, TN_CU_CAPTURE_MODE_RELAXED);
    captures = true;
    STEP(ROOM | S(CAPTURE_BROKEN) | LOST,
         tarn_malloc(DEVICE, TEMPORARY_BYTES, MAIN, &fault.out.address));
    temporary = fault_taken(POOL, TEMPORARY_BYTES);
    test_set_words(MAIN, temporary, 1, TEMPORARY_BYTES / 4);
    test_copy(MAIN, temporary, input, INPUT_BYTES);
    FREE(temporary);
    (void)test_stats(POOL); /* what is freed joins its neighbours */
    STEP(ROOM | S(CAPTURE_BROKEN) | LOST,
         tarn_malloc(DEVICE, OUTPUT_BYTES, MAIN, &fault.out.address));
    output = fault_taken(POOL, OUTPUT_BYTES);
    if (!fault_has_struck())
        ck_assert_ptr_eq(output, temporary);
    test_set_words(MAIN, output, 1, OUTPUT_BYTES / 4);
    graph = test_end_capture(MAIN);
    captures = false;
}

static void audit(void)
{
    const tarn_audit *audit;

    STEP(NOTE, tarn_driver_graph_audit(DEVICE, graph, NULL, &fault.out.audit));
    audit = fault.out.audit;
    ck_assert_uint_eq(audit->mistake_count, 0);
    ck_assert_uint_eq(audit->counts[TARN_POINTER_LIVE] + audit->counts[TARN_POINTER_DOUBTFUL] +
                          audit->counts[TARN_POINTER_REUSED],
                      3);
    if (!fault_has_struck())
        ck_assert_uint_eq(audit->counts[TARN_POINTER_REUSED], 2);
    tarn_audit_destroy(fault.out.audit);
    fault.out.audit = UNTOUCHED;
}

/* Behind the capture's end, which nobody has marked. */
static void use_again(void)
{
    FREE(input);
    STEP(ROOM | LOST, tarn_malloc(DEVICE, INPUT_BYTES, SIDE, &fault.out.address));
    ck_assert_ptr_eq(fault.out.address, input);
    (void)fault_taken(fault.out.pools[0], INPUT_BYTES);
    STEP(NOTE, tarn_driver_graph_audit(DEVICE, graph, NULL, &fault.out.audit));
    ck_assert_uint_eq(fault.out.audit->mistake_count, 1);
    ck_assert_uint_eq(fault.out.audit->counts[TARN_POINTER_USED_AGAIN], 1);
    tarn_audit_destroy(fault.out.audit);
    fault.out.audit = UNTOUCHED;
}

static void leave(void)
{
    FREE(input);
    FREE(output);
    STEP(0, tarn_end_allocate_to_pool(fault.out.routes[0]));
    routed = false;
    test_destroy_graph(graph);
    graph = NULL;
    fault_settle(fault.ledger.user_objects);
    fault_close(CALLED | S(BUSY));
}

static void end_own(void)
{
    if (captures)
        graph = test_end_capture(MAIN);
    if (graph != NULL)
        test_destroy_graph(graph);
    if (routed)
        END(tarn_end_allocate_to_pool(fault.out.routes[0]));
}

int main(void)
{
    static const struct fault_scenario audits = {
        .name = "audits",
        .parts = {open_input, capture, audit, use_again, leave},
        .ends = end_own,
    };

    return fault_main(&audits);
}
