// SPDX-License-Identifier: Apache-2.0
/* What the driver refuses in the middle of a call, and what no call may do with it: wait, end, trim. */
#include "support/world.h"

enum { WORDS = 1024 };

/* Memory that only a wait for the device can prove idle. */
static void free_unproven(tarn_pool *pool, size_t bytes)
{
    void *address = test_alloc(pool, bytes, world.stream);

    test_fill(world.stream, address, 1, WORDS);
    OK(tarn_free(address));
}

/* The driver's wait is the free of a linear allocation. */
static void refuse_waits(void)
{
    sim.plan_fault("cuMemFree", 1, 0, TN_CUDA_ERROR_UNKNOWN);
}

GROUP(waits, test_world_open, test_world_close)

TEST(waits, a_trim_that_cannot_wait_gives_nothing_back_and_may_be_repeated)
{
    size_t freed = 77;

    free_unproven(world.pool, 4 * MIB);
    refuse_waits();
    REFUSE(TARN_ERR_DRIVER, "CUDA_ERROR_UNKNOWN", tarn_pool_trim(world.pool, &freed));
    ck_assert_uint_eq(freed, 77);
    OK(tarn_pool_trim(world.pool, &freed));
    ck_assert_uint_ge(freed, 4 * MIB);
}

TEST(waits, a_pool_that_cannot_be_waited_for_stays)
{
    free_unproven(world.pool, 4 * MIB);
    refuse_waits();
    REFUSE(TARN_ERR_DRIVER, "CUDA_ERROR_UNKNOWN", tarn_pool_destroy(world.pool));
    OK(tarn_free(test_alloc(world.pool, MIB, world.stream)));
}

TEST(waits, a_device_that_cannot_be_waited_for_stays_open)
{
    OK(tarn_pool_destroy(world.pool));
    world.pool = NULL;
    free_unproven(world.default_pool, 4 * MIB);
    refuse_waits();
    REFUSE(TARN_ERR_DRIVER, "CUDA_ERROR_UNKNOWN", tarn_device_close(world.device));
    OK(tarn_free(test_malloc(MIB)));
    world.pool = test_pool("next");
}

static tarn_graph *graph_that_writes(void *address)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);

    test_fill(world.stream, address, 3, WORDS);
    return test_capture_end(capture);
}

TEST(waits, a_first_ordered_replay_that_cannot_wait_is_refused_and_may_be_repeated)
{
    void *address = test_malloc(MIB);
    tarn_graph *first = graph_that_writes(address);
    tarn_graph *second;

    OK(tarn_graph_replay(first, world.side));
    second = graph_that_writes(address);
    sim.plan_fault("cuMemFree", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    REFUSE(TARN_ERR_DEVICE_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY",
           tarn_graph_replay(second, world.stream));
    (void)sim.clear_fault(NULL);
    OK(tarn_graph_replay(second, world.stream));
    test_expect_words(world.stream, address, 3, WORDS);
    OK(tarn_graph_destroy(first));
    OK(tarn_graph_destroy(second));
    OK(tarn_free(address));
}
