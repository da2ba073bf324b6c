// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include "graphs/stop.h"
#include "support/liar.h"
#include "support/world.h"
#include "unit/one_pool.h"

static tarn_sim_ledger before;

static void set_up(void)
{
    make_pool();
    before = test_ledger();
}

GROUP(broken, set_up)

TEST(broken, an_invalidated_capture_can_only_be_aborted)
{
    tarn_capture *capture = unit_begin(pool, stream);
    tarn_graph *graph = NULL;

    test_break_capture();
    for (int i = 0; i < 2; i++) {
        STATUS(TARN_ERR_CAPTURE_BROKEN, tn_capture_end(capture, &graph));
        unit_expect_sentence("tarn_capture_abort");
    }
    ck_assert_ptr_null(graph);
    tn_capture_abort(capture);
    ck_assert_int_eq(test_capture_status(stream), TN_CU_CAPTURE_STATUS_NONE);
    unit_expect_no_capture(pool, &before);
    OK(tarn_graph_destroy(unit_end(unit_begin(pool, stream)))); /* the stream serves again */
}

TEST(broken, a_capture_ended_elsewhere_can_only_be_aborted)
{
    tarn_capture *capture = unit_begin(pool, stream);
    tarn_graph *graph = NULL;

    test_destroy_graph(test_end_capture(stream));
    STATUS(TARN_ERR_CAPTURE_BROKEN, tn_capture_end(capture, &graph));
    unit_expect_sentence("ended elsewhere");
    ck_assert_int_eq(capture->stage, TN_CAPTURE_BROKEN);
    STATUS(TARN_ERR_CAPTURE_BROKEN, tn_capture_end(capture, &graph));
    tn_capture_abort(capture);
    unit_expect_no_capture(pool, &before);
}

TEST(broken, a_later_capture_of_the_stream_is_left_alone)
{
    tarn_capture *capture = unit_begin(pool, stream);
    tarn_graph *graph = NULL;

    test_destroy_graph(test_end_capture(stream));
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    STATUS(TARN_ERR_CAPTURE_BROKEN, tn_capture_end(capture, &graph));
    tn_capture_abort(capture);
    ck_assert_int_eq(test_capture_status(stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_destroy_graph(test_end_capture(stream));
    unit_expect_no_capture(pool, &before);
}

/* The claims pass from the hold to the call and back, or end with it. */
TEST(broken, a_capture_that_goes_while_it_is_being_ended_is_told)
{
    tarn_capture *capture = unit_begin(pool, stream);
    tarn_graph *graph = NULL;

    test_order(stream, other);
    test_fill(other, unit_alloc(pool, 4096, other), 1, 16); /* not joined: the driver drops it */
    STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_capture_end(capture, &graph));
    unit_await_gone(capture);
    ck_assert_uint_eq(pool->claims.capture_count, 0);
    ck_assert_uint_eq(pool->claims.route_count, 0);
    STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_capture_end(capture, &graph));
    OK(tarn_capture_abort(capture));
    unit_expect_no_capture(pool, &before);
}

TEST(broken, a_capture_that_a_refused_end_has_ended_can_only_be_aborted)
{
    const struct tn_driver *driver = device->gpu.driver;
    const struct tn_driver liar = test_ending_and_refusing(driver);
    tarn_capture *capture = unit_begin(pool, stream);
    tarn_graph *graph = NULL;

    device->gpu.driver = &liar;
    STATUS(TARN_ERR_CAPTURE_BROKEN, tn_capture_end(capture, &graph));
    unit_expect_sentence("CUDA_ERROR_UNKNOWN; abort it");
    device->gpu.driver = driver;
    ck_assert_int_eq(capture->stage, TN_CAPTURE_BROKEN);
    STATUS(TARN_ERR_CAPTURE_BROKEN, tn_capture_end(capture, &graph));
    ck_assert_ptr_null(graph);
    tn_capture_abort(capture);
    unit_expect_no_capture(pool, &before);
}

TEST(broken, a_fork_that_is_not_joined_breaks_the_capture)
{
    tarn_capture *capture = unit_begin(pool, stream);
    tarn_graph *graph = NULL;

    test_order(stream, other);
    test_fill(other, unit_alloc(pool, 4096, other), 1, 16);
    STATUS(TARN_ERR_CAPTURE_BROKEN, tn_capture_end(capture, &graph));
    unit_expect_sentence("not joined");
    tn_capture_abort(capture);
    unit_expect_no_capture(pool, &before);
}
