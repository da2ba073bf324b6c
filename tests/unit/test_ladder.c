// SPDX-License-Identifier: Apache-2.0
#include "pools/ladder.h"
#include "pools/totals.h"
#include "support/bodies.h"
#include "unit/one_pool.h"

/* The library's clock in some tests: it goes by what is slept alone, so nothing depends on the machine. */
static bool clock_is_ours;
static int64_t slept_ns;
static tn_cu_graph doomed; /* destroyed when that has been slept */
static int64_t doomed_at_ns;

static void await_gone(void)
{
    int64_t deadline = test_deadline();

    while (atomic_load(&device->gone_holds) == NULL && test_pause(deadline))
        continue;
    ck_assert_ptr_nonnull(atomic_load(&device->gone_holds));
}

int __real_nanosleep(const struct timespec *pause, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest)
{
    if (!clock_is_ours)
        return __real_nanosleep(pause, rest);
    slept_ns += pause->tv_nsec;
    if (doomed != NULL && slept_ns >= doomed_at_ns) {
        clock_is_ours = false;
        test_destroy_graph(doomed);
        doomed = NULL;
        await_gone();
        clock_is_ours = true;
    }
    return 0;
}

int __real_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
    if (!clock_is_ours)
        return __real_clock_gettime(id, now);
    *now = (struct timespec){slept_ns / 1000000000, slept_ns % 1000000000};
    return 0;
}

/* Fails with the next status of the list at each try; the list ends with TARN_OK. */
struct tries {
    const tarn_status *statuses;
    int count;
    int frugal_count;
};

static tarn_status attempt(tarn_pool *tried, const void *request, bool frugal, void **result)
{
    struct tries *tries = *result;

    (void)request;
    ck_assert_ptr_eq(tried, pool);
    ck_assert(tn_lock_held(TN_RANK_POOL));
    tries->frugal_count += frugal;
    tries->count += 1;
    return tries->statuses[tries->count - 1];
}

static tarn_status run(struct tries *tries)
{
    void *result = tries;
    tarn_status status = tn_ladder_run(pool, attempt, NULL, 4096, &result);

    ck_assert(tn_lock_none_held());
    return status;
}

GROUP(ladder, make_pool)

TEST(ladder, what_works_at_once_is_tried_once)
{
    struct tries tries = {(tarn_status[]){TARN_OK}, 0, 0};

    OK(run(&tries));
    ck_assert_int_eq(tries.count, 1);
    ck_assert_int_eq(tries.frugal_count, 0);
}

static uint64_t failure_count(void)
{
    struct tn_totals totals;

    tn_totals_read(device, false, &totals);
    return totals.events[TN_OUT_OF_MEMORY].count;
}

/* No memory, frugal or not; and when the device was waited for, memory and no addresses. */
TEST(ladder, missing_addresses_are_named_whenever_they_are_what_is_missing)
{
    struct tries tries = {
        (tarn_status[]){TARN_ERR_DEVICE_MEMORY, TARN_ERR_DEVICE_MEMORY, TARN_ERR_ADDRESS_SPACE}, 0,
        0};
    struct tries addresses = {(tarn_status[]){TARN_ERR_ADDRESS_SPACE}, 0, 0};
    uint64_t failures = failure_count();

    STATUS(TARN_ERR_ADDRESS_SPACE, run(&tries));
    ck_assert_int_eq(tries.count, 3);
    unit_expect_sentence("region_bytes");
    STATUS(TARN_ERR_ADDRESS_SPACE, run(&addresses));
    ck_assert_int_eq(addresses.count, 1);
    ck_assert_int_eq(addresses.frugal_count, 0);
    unit_expect_sentence("'net'");
    ck_assert_uint_eq(failure_count(), failures);
}

TEST(ladder, other_failures_are_no_reason_to_go_down)
{
    struct tries tries = {(tarn_status[]){TARN_ERR_HOST_MEMORY}, 0, 0};

    STATUS(TARN_ERR_HOST_MEMORY, run(&tries));
    ck_assert_int_eq(tries.count, 1);
}

TEST(ladder, a_limit_goes_down_the_ladder_too)
{
    struct tries tries = {(tarn_status[]){TARN_ERR_LIMIT, TARN_ERR_DEVICE_MEMORY, TARN_OK}, 0, 0};

    OK(run(&tries));
    ck_assert_int_eq(tries.count, 3);
}

TEST(ladder, the_sentence_names_each_pool_and_fits)
{
    for (int i = 0; i < 40; i++) /* more than the sentence can name */
        (void)unit_pool_of(device, "a name of thirty-one characters", 0);
    (void)unit_alloc(pool, 3 * MIB, stream);
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_ladder_failed(pool, 12345));
    unit_expect_sentence("device 0 has no 12345 bytes for pool 'net'");
    unit_expect_sentence("Tarn maps 4 MiB; pool 'a name of thirty-one characters' maps 0 MiB");
    ck_assert(tn_lock_none_held());
}

enum { ALL = 8 << 20 }; /* of a pool's limit */

/* Allocates all that the pool may map, and returns how much was slept. */
static int64_t allocate_all(tarn_pool *limited, tarn_status expected)
{
    void *address = NULL;

    clock_is_ours = true;
    slept_ns = 0;
    STATUS(expected, tarn_pool_malloc(limited, ALL, 0, stream, &address));
    clock_is_ours = false;
    return slept_ns;
}

static tn_cu_graph clone_of(tarn_graph *graph)
{
    tarn_driver_graph driver_graph;

    OK(tarn_graph_driver_handles(graph, &driver_graph, NULL));
    return test_clone(driver_graph);
}

/* A graph is destroyed that had all memory, and its hold goes half a second later. _i: by destroying the
 * graph, by its update, or by an abort of what could not be instantiated. */
TEST_LOOP(ladder, the_hold_of_a_graph_that_was_destroyed_is_waited_for, 0, 3)
{
    tarn_pool *limited = unit_pool_of(device, "limited", ALL);
    void *words = unit_words(stream);
    tarn_graph *graph = NULL;
    tarn_capture *capture;

    if (_i < 2) {
        graph = unit_graph(limited, stream, ALL, NULL);
        doomed = clone_of(graph);
    }
    capture = unit_begin(limited, stream);
    if (_i == 2)
        OK(tarn_free(unit_alloc(limited, ALL, stream)));
    test_fill(stream, words, 7, 128);
    if (_i == 1) {
        OK(tarn_graph_update(graph, capture));
    } else if (_i == 2) {
        sim.plan_fault("cuGraphInstantiateWithFlags", 1, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER, tarn_capture_end(capture, &graph));
        doomed = test_clone(capture->section.graph);
    }
    if (_i != 1)
        OK(tarn_capture_abort(capture));
    if (_i == 0)
        OK(tarn_graph_destroy(graph));
    doomed_at_ns = 500000000;
    ck_assert_int_lt(allocate_all(limited, TARN_OK), 1000000000);
    if (_i == 1)
        OK(tarn_graph_destroy(graph));
}

TEST(ladder, the_hold_of_a_graph_with_a_clone_is_waited_for_once)
{
    tarn_pool *limited = unit_pool_of(device, "limited", ALL);
    tarn_graph *graph = unit_graph(limited, stream, ALL, NULL);
    tn_cu_graph clone = clone_of(graph);

    OK(tarn_graph_destroy(graph));
    ck_assert_int_ge(allocate_all(limited, TARN_ERR_LIMIT), 900000000);
    ck_assert_int_le(allocate_all(limited, TARN_ERR_LIMIT), 50000000);
    test_destroy_graph(clone);
    unit_reap_all(limited);
}

TEST(ladder, the_hold_of_a_graph_of_the_users_is_not_waited_for)
{
    tarn_pool *limited = unit_pool_of(device, "limited", ALL);
    tn_cu_graph graph = test_graph();
    tarn_capture *capture;

    OK(tarn_capture_begin(limited, stream, CAPTURE_INTO(NULL, 0, graph, TARN_CAPTURE_RELAXED),
                          &capture));
    OK(tarn_free(unit_alloc(limited, ALL, stream)));
    OK(tarn_capture_end(capture, NULL));
    ck_assert_int_le(allocate_all(limited, TARN_ERR_LIMIT), 50000000);
    test_destroy_graph(graph);
}

static uint64_t wait_count(void)
{
    tarn_stats stats = TARN_STATS_INIT;

    OK(tarn_device_stats(device, &stats));
    return stats.idle_waits;
}

static tarn_pool *giver;

/* A large growth meets the limit of the pool; a frugal one lacks what another pool has free. */
static tarn_status attempt_within_a_limit(tarn_pool *tried, const void *request, bool frugal,
                                          void **result)
{
    (void)request;
    (void)result;
    tried->limit.met = !frugal;
    if (!frugal)
        return TARN_ERR_LIMIT;
    return tn_pool_mapped_bytes(giver) > 0 ? TARN_ERR_DEVICE_MEMORY : TARN_OK;
}

TEST(ladder, other_pools_give_memory_to_a_growth_that_was_too_large_for_the_limit)
{
    uint64_t waits;

    giver = unit_pool_of(device, "giver", 0);
    OK(tarn_free(unit_alloc(giver, 2 * MIB, stream)));
    OK(tn_gpu_wait_idle(&device->gpu)); /* proves idle what giver has */
    waits = wait_count();
    OK(tn_ladder_run(pool, attempt_within_a_limit, NULL, 2 * MIB, NULL));
    ck_assert_uint_eq(tn_pool_mapped_bytes(giver), 0);
    ck_assert_uint_eq(wait_count(), waits);
}
