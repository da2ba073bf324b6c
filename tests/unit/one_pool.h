// SPDX-License-Identifier: Apache-2.0
/* one_pool.h -- for suites whose cases each have a pool of their own. */
#ifndef TARN_TESTS_ONE_POOL_H
#define TARN_TESTS_ONE_POOL_H

#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *pool;
static tn_cu_stream stream;
static tn_cu_stream other;

static void make_pool(void)
{
    device = unit_device();
    pool = unit_pool_of(device, "net", 0);
    stream = test_stream();
    other = test_stream();
}

#endif
