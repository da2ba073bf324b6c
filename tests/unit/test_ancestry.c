// SPDX-License-Identifier: Apache-2.0
#include "nodes/ancestry.h"
#include "support/world.h"
#include "unit/unit.h"

static tarn_device *device;
static struct tn_gpu *gpu;
static tn_cu_stream stream;
static tn_cu_stream side;
static void *words;
static struct tn_ancestry ancestry;
static struct tn_frontier frontier;
static int64_t outstanding;

static void begin(void)
{
    device = unit_device();
    gpu = &device->gpu;
    stream = test_stream();
    side = test_stream();
    words = test_linear_alloc(4096);
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    outstanding = tn_host_outstanding();
}

static void end(void)
{
    tn_ancestry_fini(&ancestry);
    test_drop_capture(stream);
    ck_assert_int_eq(tn_host_outstanding(), outstanding);
}

static void work(tn_cu_stream on)
{
    test_fill(on, words, 1, 16);
}

static void take_frontier(tn_cu_stream on)
{
    tn_frontier_take(gpu, on, unit_order(device, on), &frontier);
}

static bool covered(tn_cu_stream by)
{
    return tn_ancestry_refresh(&ancestry, gpu, by, unit_order(device, by)) &&
           tn_ancestry_covers(&ancestry, &frontier);
}

GROUP(ancestry, begin)

TEST(ancestry, a_stream_comes_after_its_own_work)
{
    take_frontier(stream);
    ck_assert(frontier.known);
    ck_assert_uint_eq(frontier.count, 0);
    ck_assert(covered(stream)); /* nothing */
    for (int i = 0; i < 100; i++)
        work(stream);
    take_frontier(stream);
    ck_assert_uint_eq(frontier.count, 1);
    ck_assert(covered(stream));
    ck_assert_uint_eq(ancestry.count, 100);
    work(stream);
    ck_assert(covered(stream));
    ck_assert_uint_eq(ancestry.count, 101);
    end();
}

/* D4 */
TEST(ancestry, forked_work_is_covered_when_it_is_joined)
{
    work(stream);
    test_order(stream, side);
    take_frontier(side); /* what it begins with */
    ck_assert(covered(stream));
    work(side);
    take_frontier(side);
    ck_assert(!covered(stream));
    work(stream);
    ck_assert(!covered(stream));
    test_order(side, stream);
    ck_assert(covered(stream));
    ck_assert_uint_eq(ancestry.count, 3);
    work(side); /* after the join */
    take_frontier(side);
    ck_assert(!covered(stream));
    test_order(side, stream);
    ck_assert(covered(stream));
    end();
}

TEST(ancestry, every_node_of_the_frontier_counts)
{
    tn_cu_stream third = test_stream();

    work(stream);
    test_order(stream, side);
    test_order(stream, third);
    work(side);
    work(third);
    test_order(third, side);
    take_frontier(side);
    ck_assert_uint_eq(frontier.count, 2);
    test_order(third, stream); /* one of them */
    ck_assert(!covered(stream));
    test_order(side, stream);
    ck_assert(covered(stream));
    end();
}

TEST(ancestry, a_stream_that_is_cut_off_from_its_past_does_not_cover_it)
{
    tn_cu_graphnode first;

    work(stream);
    first = test_last_node(stream);
    work(stream);
    work(stream);
    take_frontier(stream);
    ck_assert(covered(stream));
    test_set_past(stream, first, true);
    ck_assert(!covered(stream));
    ck_assert_uint_eq(ancestry.count, 1);
    work(stream);
    ck_assert(!covered(stream));
    ck_assert_uint_eq(ancestry.count, 2);
    end();
}

TEST(ancestry, an_edge_that_does_not_wait_for_the_whole_node_orders_nothing)
{
    work(stream);
    take_frontier(stream);
    test_set_past(stream, test_last_node(stream), false);
    ck_assert(!covered(stream));
    ck_assert_uint_eq(ancestry.count, 0);
    work(stream); /* depends by that edge */
    (void)test_last_node(stream);
    ck_assert(!covered(stream));
    ck_assert_uint_eq(ancestry.count, 1);
    end();
}

TEST(ancestry, more_terminals_than_there_is_room_for_are_no_frontier)
{
    work(stream);
    for (int i = 0; i <= TN_FRONTIER_MAX; i++) {
        tn_cu_stream other = test_stream();

        test_order(stream, other);
        work(other);
        test_order(other, side);
    }
    take_frontier(side);
    ck_assert(!frontier.known);
    ck_assert(!covered(side));
    end();
}

TEST(ancestry, nodes_of_many_dependencies_are_walked)
{
    enum { COUNT = 40 };
    tn_cu_stream others[COUNT];

    work(stream);
    for (int i = 0; i < COUNT; i++) {
        others[i] = test_stream();
        test_order(stream, others[i]);
        work(others[i]);
    }
    take_frontier(others[7]);
    ck_assert(!covered(stream));
    for (int i = 0; i < COUNT; i++)
        test_order(others[i], stream);
    work(stream); /* with all of them before it */
    ck_assert(covered(stream));
    ck_assert_uint_eq(ancestry.count, COUNT + 2);
    end();
}

TEST(ancestry, nothing_is_known_of_a_stream_that_is_not_in_the_capture)
{
    struct tn_order order = unit_order(device, stream);

    work(stream);
    tn_frontier_take(gpu, side, order, &frontier);
    ck_assert(!frontier.known);
    ck_assert(!tn_ancestry_refresh(&ancestry, gpu, side, order));
    take_frontier(stream);
    ck_assert(frontier.known);
    test_destroy_graph(test_end_capture(stream));
    ck_assert(!tn_ancestry_refresh(&ancestry, gpu, stream, order));
    ck_assert(!tn_ancestry_covers(&ancestry, &frontier));
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED); /* another one */
    ck_assert(!tn_ancestry_refresh(&ancestry, gpu, stream, order));
    tn_frontier_take(gpu, stream, order, &frontier);
    ck_assert(!frontier.known);
    end();
}

TEST(ancestry, without_memory_or_answers_nothing_is_covered)
{
    uint64_t needed;

    for (int i = 0; i < 100; i++)
        work(stream);
    take_frontier(stream);
    for (needed = 1; needed < 100; needed++) {
        (void)tn_host_plan_fault(needed, false);
        if (covered(stream))
            break;
        ck_assert_uint_eq(ancestry.count, 0);
        tn_ancestry_fini(&ancestry);
    }
    ck_assert_uint_gt(needed, 5);
    (void)tn_host_plan_fault(0, false);
    tn_ancestry_fini(&ancestry);
    sim.plan_fault("cuGraphNodeGetDependencies", 50, 0, TN_CUDA_ERROR_UNKNOWN);
    ck_assert(!covered(stream));
    ck_assert(covered(stream));
    sim.plan_fault("cuStreamGetCaptureInfo", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    tn_frontier_take(gpu, stream, (struct tn_order){1, 1}, &frontier);
    sim.clear_fault(NULL);
    ck_assert(!frontier.known);
    ck_assert_int_eq(test_capture_status(stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    end();
}
