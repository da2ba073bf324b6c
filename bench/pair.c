// SPDX-License-Identifier: Apache-2.0
#include "pair.h"

#include "driver.h"

static void *tarn_allocate(const struct pair_lane *lane)
{
    void *address = NULL;

    BENCH_OK(tarn_malloc(lane->device, lane->bytes, lane->stream, &address));
    return address;
}

static void tarn_give(const struct pair_lane *lane, void *address)
{
    (void)lane;
    BENCH_OK(tarn_free(address));
}

static void tarn_pair(struct pair_lane *lane)
{
    tarn_give(lane, tarn_allocate(lane));
}

static void tarn_give_on(const struct pair_lane *lane, void *address)
{
    BENCH_OK(tarn_free_on(address, lane->stream));
}

static void tarn_pair_on(struct pair_lane *lane)
{
    tarn_give_on(lane, tarn_allocate(lane));
}

static void *driver_allocate(const struct pair_lane *lane)
{
    tn_cu_deviceptr address = 0;

    BENCH_CU(cu.cuMemAllocFromPoolAsync(&address, lane->bytes, cu.rival_pool, lane->stream));
    return (void *)(uintptr_t)address;
}

static void driver_give(const struct pair_lane *lane, void *address)
{
    BENCH_CU(cu.cuMemFreeAsync((tn_cu_deviceptr)(uintptr_t)address, lane->stream));
}

static void driver_pair(struct pair_lane *lane)
{
    driver_give(lane, driver_allocate(lane));
}

static void spin_lock_pair(struct pair_lane *lane)
{
    while (atomic_flag_test_and_set_explicit(&lane->lock, memory_order_acquire))
        ;
    atomic_flag_clear_explicit(&lane->lock, memory_order_release);
}

const struct pair_contender pair_tarn = {NULL, tarn_allocate, tarn_give, tarn_pair};
const struct pair_contender pair_tarn_on = {NULL, tarn_allocate, tarn_give_on, tarn_pair_on};
const struct pair_contender pair_driver = {"cuMemAllocFromPoolAsync", driver_allocate, driver_give,
                                           driver_pair};
const struct pair_contender pair_spin_lock = {"private spin lock", NULL, NULL, spin_lock_pair};
