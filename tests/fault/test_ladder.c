// SPDX-License-Identifier: Apache-2.0
/* Running out of memory: what only a callback saves, what only a wait saves, what nothing saves, and
 * who is told. The device has little memory. */
#include "fault/fault.h"
#include "tarn/pressure.h"

enum { WORDS = 256 };

static uint64_t told; /* how often the observer was */

static bool trim(tarn_device *device, size_t wanted_bytes, void *user)
{
    size_t freed = 0;

    (void)device;
    (void)wanted_bytes;
    (void)user;
    if (POOL == UNTOUCHED || tarn_pool_trim(POOL, &freed) != TARN_OK)
        return false;
    return freed > 0;
}

static void observe(tarn_device *device, const tarn_out_of_memory *what, void *user)
{
    (void)device;
    (void)what;
    (void)user;
    told += 1;
}

static void open_pools(void)
{
    fault_open();
    if (fault_is_over())
        return;
    STEP(S(HOST_MEMORY) | LOST, tarn_pool_create(DEVICE, NULL, &OTHER_POOL));
    STEP(S(HOST_MEMORY), tarn_device_add_oom_observer(DEVICE, observe, NULL));
}

/* 40 of 96 MiB in the pool, free on a stream. */
static void leave_free(void)
{
    void *block;

    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 40 * MIB, 0, SIDE, &fault.out.address));
    block = fault_taken(POOL, 40 * MIB);
    test_fill(SIDE, block, 1, WORDS);
    /* Tarn does not know; and a device that is told to be lost does work still. */
    test_synchronize(SIDE);
    FREE(block);
}

/* The device is waited for, and the other pool's memory taken. */
static void wait_for_memory(void)
{
    void *block;

    leave_free();
    if (fault_is_over())
        return;
    STEP(ROOM | LOST, tarn_pool_malloc(OTHER_POOL, 80 * MIB, 0, MAIN, &fault.out.address));
    block = fault_taken(OTHER_POOL, 80 * MIB);
    FREE(block);
    STEP(TRIM, tarn_pool_trim(OTHER_POOL, &fault.out.freed_bytes));
}

/* A callback trims the pool before that. */
static void call_back(void)
{
    void *block;

    STEP(S(HOST_MEMORY), tarn_device_add_free_callback(DEVICE, trim, NULL));
    leave_free();
    if (fault_is_over())
        return;
    STEP(ROOM | LOST, tarn_pool_malloc(OTHER_POOL, 80 * MIB, 0, MAIN, &fault.out.address));
    block = fault_taken(OTHER_POOL, 80 * MIB);
    told = 0;
    fault_expect(TARN_ERR_DEVICE_MEMORY);
    STEP(ROOM | LOST, tarn_malloc(DEVICE, 64 * MIB, MAIN, &fault.out.address));
    ck_assert_uint_ge(told, 1);
    STEP(0, tarn_device_remove_free_callback(DEVICE, trim, NULL));
    FREE(block);
}

static void destroy(void)
{
    STEP(0, tarn_device_remove_oom_observer(DEVICE, observe, NULL));
    STEP(CALLED, tarn_pool_destroy(OTHER_POOL));
    OTHER_POOL = UNTOUCHED;
    fault_close(CALLED);
}

static void end_own(void)
{
}

int main(void)
{
    static const struct fault_scenario ladder = {
        .name = "ladder",
        .settings = {{"TARN_SIM_MEMORY_MIB", "96"}},
        .parts = {open_pools, wait_for_memory, call_back, destroy},
        .ends = end_own,
    };

    return fault_main(&ladder);
}
