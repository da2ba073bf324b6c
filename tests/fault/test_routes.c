// SPDX-License-Identifier: Apache-2.0
/* Routes and the captures that users begin themselves: nested routes, one capture that takes memory
 * of two pools, a graph that is adopted and one that is not; and captures without a route, which get a
 * pool of their own or are served by the default pool. */
#include "fault/fault.h"

enum { WORDS = 256, KIB = 1024 };

static void *output;           /* of POOL, until destroy */
static tn_cu_graph user_graph; /* of the user's own capture, until it is adopted */
static bool user_captures;
static bool routed[2]; /* to POOL, to OTHER_POOL */

#define ROUTE (S(HOST_MEMORY) | LOST)
/* UNROUTED: the route's own stream could not be looked at. */
#define ROUTED (ROOM | LOST | S(UNROUTED))

static void open_pools(void)
{
    fault_open();
    if (fault_is_over())
        return;
    STEP(S(HOST_MEMORY) | LOST, tarn_pool_create(DEVICE, NULL, &OTHER_POOL));
    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 64 * KIB, 0, MAIN, &fault.out.address));
    output = fault_taken(POOL, 64 * KIB);
}

/* The newest route that accepts wins. */
static void nest(void)
{
    void *outer;
    void *inner;
    void *aligned;
    void *zeroed;

    STEP(ROUTE,
         tarn_begin_allocate_to_pool(DEVICE, POOL, tarn_filter_thread, NULL, &fault.out.routes[0]));
    routed[0] = true;
    STEP(ROUTE, tarn_begin_allocate_to_pool(DEVICE, OTHER_POOL, tarn_filter_stream, SIDE,
                                            &fault.out.routes[1]));
    routed[1] = true;
    STEP(ROOM | LOST, tarn_malloc(DEVICE, 3 * MIB, MAIN, &fault.out.address));
    outer = fault_taken(POOL, 3 * MIB);
    STEP(ROOM | LOST, tarn_malloc(DEVICE, 3 * MIB, SIDE, &fault.out.address));
    inner = fault_taken(OTHER_POOL, 3 * MIB);
    STEP(ROOM | LOST, tarn_malloc_aligned(DEVICE, MIB, 2 * MIB, MAIN, &fault.out.address));
    aligned = fault_taken(POOL, MIB);
    STEP(ROOM | LOST, tarn_malloc(DEVICE, 5 * MIB, SIDE, &fault.out.address));
    zeroed = fault_taken(OTHER_POOL, 5 * MIB);
    test_fill(SIDE, zeroed, 7, WORDS);
    FREE(zeroed); /* a set that is refused leaves what was mapped for it */
    STEP(ROOM | LOST, tarn_calloc(DEVICE, 5, MIB, SIDE, &fault.out.address));
    zeroed = fault_taken(OTHER_POOL, 5 * MIB);
    test_expect_words(SIDE, zeroed, 0, WORDS);
    STEP(0, tarn_end_allocate_to_pool(fault.out.routes[1]));
    routed[1] = false;
    STEP(0, tarn_end_allocate_to_pool(fault.out.routes[0]));
    routed[0] = false;
    FREE(zeroed);
    FREE(aligned);
    FREE(inner);
    FREE(outer);
}

/* One capture of the user's own with memory of two pools; a block from before is freed in it. */
static void capture_two_pools(bool adopted)
{
    void *before;
    void *block;

    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 2 * MIB, 0, MAIN, &fault.out.address));
    before = fault_taken(POOL, 2 * MIB);
    STEP(ROUTE, tarn_begin_allocate_to_pool(DEVICE, OTHER_POOL, tarn_filter_stream, SIDE,
                                            &fault.out.routes[1]));
    routed[1] = true;
    STEP(ROUTE, tarn_begin_allocate_to_pool(DEVICE, POOL, tarn_filter_capture, MAIN,
                                            &fault.out.routes[0]));
    routed[0] = true;
    test_begin_capture(MAIN, TN_CU_CAPTURE_MODE_RELAXED);
    user_captures = true;
    test_copy(MAIN, output, before, WORDS * sizeof(uint32_t));
    FREE(before);
    STEP(ROUTED, tarn_malloc(DEVICE, 2 * MIB, MAIN, &fault.out.address));
    block = fault_taken(POOL, 2 * MIB);
    test_fill(MAIN, block, 6, WORDS);
    FREE(block);
    test_copy(MAIN, output, block, WORDS * sizeof(uint32_t));
    STEP(ROUTED, tarn_calloc(DEVICE, 1, MIB, MAIN, &fault.out.address));
    block = fault_taken(POOL, MIB);
    FREE(block);
    STEP(0, tarn_end_allocate_to_pool(fault.out.routes[0]));
    routed[0] = false;
    test_order(MAIN, SIDE);
    STEP(ROUTED, tarn_malloc(DEVICE, 1 * MIB, SIDE, &fault.out.address));
    block = fault_taken(OTHER_POOL, 1 * MIB);
    test_fill(SIDE, block, 5, WORDS);
    FREE(block);
    test_order(SIDE, MAIN);
    user_graph = test_end_capture(MAIN);
    user_captures = false;
    if (adopted) {
        STEP(CAPTURE_END, tarn_graph_adopt(POOL, user_graph, &fault.out.graphs[0]));
        user_graph = NULL;
    }
    STEP(0, tarn_end_allocate_to_pool(fault.out.routes[1]));
    routed[1] = false;
}

static void capture_and_adopt(void)
{
    capture_two_pools(true);
    if (fault_is_over())
        return;
    STEP(REPLAY, tarn_graph_replay(fault.out.graphs[0], MAIN));
    test_expect_words(MAIN, output, 6, WORDS);
}

/* User objects of the graph that was adopted: where a fault kept its capture from having a hold early, one more. */
static uint64_t held_by_graph(void)
{
    return fault.out.graphs[0] != UNTOUCHED ? test_ledger().user_objects
                                            : fault.ledger.user_objects;
}

/* The holds are the driver's graph's. */
static void capture_alone(void)
{
    uint64_t held = held_by_graph();

    capture_two_pools(false);
    if (fault_is_over())
        return;
    test_destroy_graph(user_graph);
    user_graph = NULL;
    fault_settle(held);
}

static void destroy(void)
{
    STEP(0, tarn_graph_destroy(fault.out.graphs[0]));
    fault.out.graphs[0] = UNTOUCHED;
    fault_settle(fault.ledger.user_objects);
    FREE(output);
    /* BUSY: the driver keeps a graph that it refused to destroy. */
    STEP(CALLED | S(BUSY), tarn_pool_destroy(OTHER_POOL));
    OTHER_POOL = UNTOUCHED;
    fault_close(CALLED);
}

/* What a capture without a route allocates, and what its graph does with it. */
static void capture_unrouted(tarn_pool *served)
{
    uint64_t held = held_by_graph();
    void *block;
    void *kept;

    test_begin_capture(MAIN, TN_CU_CAPTURE_MODE_RELAXED);
    user_captures = true;
    STEP(ROUTED, tarn_malloc(DEVICE, 2 * MIB, MAIN, &fault.out.address));
    block = fault_taken(served, 2 * MIB);
    test_fill(MAIN, block, 6, WORDS);
    STEP(ROUTED, tarn_pool_malloc(fault.out.pools[0], 1 * MIB, 0, MAIN, &fault.out.address));
    kept = fault_taken(served, 1 * MIB);
    test_copy(MAIN, kept, block, WORDS * sizeof(uint32_t));
    FREE(block);
    user_graph = test_end_capture(MAIN);
    user_captures = false;
    test_launch_once(user_graph, MAIN);
    test_expect_words(MAIN, kept, 6, WORDS);
    test_destroy_graph(user_graph);
    user_graph = NULL;
    fault_settle(held);
    FREE(kept);
}

static void be_adopted(void)
{
    capture_unrouted(NULL);
}

static void be_allowed(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.unrouted = TARN_UNROUTED_ALLOW;
    STEP(OPEN, tarn_device_open(0, &options, &DEVICE));
    STEP(0, tarn_device_default_pool(DEVICE, &fault.out.pools[0]));
    capture_unrouted(fault.out.pools[0]);
    if (fault_is_over())
        return;
    STEP(CALLED, tarn_device_close(DEVICE));
    DEVICE = UNTOUCHED;
    fault.out.pools[0] = UNTOUCHED;
}

static void end_own(void)
{
    if (user_captures)
        user_graph = test_end_capture(MAIN);
    if (user_graph != NULL)
        test_destroy_graph(user_graph);
    if (routed[0])
        END(tarn_end_allocate_to_pool(fault.out.routes[0]));
    if (routed[1])
        END(tarn_end_allocate_to_pool(fault.out.routes[1]));
}

int main(void)
{
    static const struct fault_scenario routes = {
        .name = "routes",
        .parts = {open_pools, nest, capture_and_adopt, capture_alone, be_adopted, destroy,
                  be_allowed},
        .ends = end_own,
    };

    return fault_main(&routes);
}
