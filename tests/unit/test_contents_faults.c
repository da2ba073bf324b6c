// SPDX-License-Identifier: Apache-2.0
/* Takes with contents during which the pool changes, so that memory is taken more than once, and each call that they
 * make fails in its turn. */
#include "checkpoint/contents.h"
#include "pools/allocate.h"
#include "pools/staging.h"
#include "support/world.h"
#include "unit/one_pool.h"

enum { CHANGES = 3, BLOCKS_A_CHANGE = 4, BLOCKS_MAX = 32 };

/* What happens each time that memory for contents is taken: a block goes; later ones come. */
static bool changing;
static int rooms; /* that were taken */
static void *victim;
static void *added[BLOCKS_MAX];
static size_t added_count;

tarn_status __real_tn_pool_allocate(tarn_pool *from, const struct tn_request *request,
                                    tn_cu_stream on, void **address);
tarn_status __wrap_tn_pool_allocate(tarn_pool *from, const struct tn_request *request,
                                    tn_cu_stream on, void **address);

/* These may fail, too: then there are fewer. */
static void change(void)
{
    const struct tn_request request = {4096, 512, unit_order(device, stream)};

    if (rooms == 1 && tarn_free(victim) == TARN_OK)
        victim = NULL;
    for (int i = 0; i < BLOCKS_A_CHANGE && rooms > 1 && rooms <= CHANGES; i++)
        if (__real_tn_pool_allocate(pool, &request, stream, &added[added_count]) == TARN_OK)
            added_count += 1;
}

tarn_status __wrap_tn_pool_allocate(tarn_pool *from, const struct tn_request *request,
                                    tn_cu_stream on, void **address)
{
    tarn_status status = __real_tn_pool_allocate(from, request, on, address);

    if (changing && from == device->default_pool) {
        rooms += 1;
        change();
    }
    return status;
}

static void expect_nothing_left(void)
{
    ck_assert_uint_eq(pool->claims.checkpoint_count, 0);
    ck_assert_uint_eq(atomic_load(&device->contents_bytes), 0);
    ck_assert_uint_eq(unit_stats(device->default_pool).live_count, 0);
    for (const struct tn_segment *segment = pool->segments.first; segment != NULL;
         segment = segment->next)
        ck_assert_uint_eq(segment->checkpoint_count, 0);
    for (const struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ALL]; arena != NULL;
         arena = tn_arena_next(arena))
        ck_assert_uint_eq(arena->saved_count, 0);
}

/* What fails, by its n-th call. */
static const struct {
    const char *function; /* NULL: host memory */
    tn_cu_result result;
} faults[] = {
    {NULL, TN_CUDA_SUCCESS},
    {"cuMemCreate", TN_CUDA_ERROR_OUT_OF_MEMORY},
    {"cuMemMap", TN_CUDA_ERROR_OUT_OF_MEMORY},
    {"cuMemSetAccess", TN_CUDA_ERROR_OUT_OF_MEMORY},
    {"cuLaunchKernel", TN_CUDA_ERROR_UNKNOWN},
    {"cuEventCreate", TN_CUDA_ERROR_UNKNOWN},
    {"cuEventRecord", TN_CUDA_ERROR_UNKNOWN},
};

enum { FAULT_COUNT = sizeof faults / sizeof faults[0] };

/* One take with that fault; false: it did not come to it. */
static bool take_with_fault(tarn_contents contents, int fault, uint64_t nth)
{
    tarn_checkpoint *checkpoint = NULL;
    tarn_status status;
    bool failed;

    if (faults[fault].function == NULL)
        (void)tn_host_plan_fault(nth, false);
    else
        sim.plan_fault(faults[fault].function, nth, 0, faults[fault].result);
    rooms = 0;
    changing = true;
    status = tn_checkpoint_take(pool, contents, stream, &checkpoint);
    changing = false;
    failed = faults[fault].function == NULL ? tn_host_plan_fault(0, false) > 0
                                            : sim.clear_fault(NULL) > 0;
    if (status == TARN_OK) {
        OK(tn_checkpoint_verify(checkpoint, stream));
        tn_checkpoint_destroy(checkpoint);
    } else {
        ck_assert(failed);
        ck_assert_ptr_null(checkpoint);
    }
    return failed;
}

GROUP(take, make_pool)

TEST_LOOP(take, a_take_that_fails_while_memory_is_taken_anew_leaves_nothing, 0, 2 * FAULT_COUNT)
{
    tarn_contents contents = _i < FAULT_COUNT ? TARN_CONTENTS_DEVICE : TARN_CONTENTS_HOST;
    bool failed = true;

    for (uint64_t nth = 1; failed; nth++) {
        void *recorded = unit_alloc(pool, 4096, stream);

        OK(tarn_record_stream(recorded, other));
        victim = unit_alloc(pool, 8192, stream);
        failed = take_with_fault(contents, _i % FAULT_COUNT, nth);
        ck_assert(failed || rooms > 1);
        expect_nothing_left();
        while (added_count > 0)
            OK(tarn_free(added[--added_count]));
        if (victim != NULL)
            OK(tarn_free(victim));
        OK(tarn_free(recorded));
        OK(tarn_pool_validate(pool));
    }
    OK(tarn_pool_destroy(pool));
}

/* The device may write to it still: nobody else gets it before a wait. */
TEST(take, what_a_verification_writes_is_nobody_elses_before_a_wait)
{
    tarn_checkpoint *checkpoint;
    uint64_t waits;

    (void)unit_alloc(pool, 4096, stream);
    OK(tn_checkpoint_take(pool, TARN_CONTENTS_DEVICE, stream, &checkpoint));
    waits = atomic_load(&device->gpu.calls[TN_CALL_WAIT]);
    sim.plan_fault("cuEventSynchronize", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_checkpoint_verify(checkpoint, stream));
    ck_assert_uint_eq(sim.clear_fault(NULL), 1);
    ck_assert_uint_eq(atomic_load(&device->gpu.calls[TN_CALL_WAIT]), waits + 1);
    OK(tn_checkpoint_verify(checkpoint, stream));
    ck_assert_uint_eq(atomic_load(&device->gpu.calls[TN_CALL_WAIT]), waits + 1);
    tn_checkpoint_destroy(checkpoint);
}
