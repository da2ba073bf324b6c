// SPDX-License-Identifier: Apache-2.0
/* two_streams.h -- for suites of memory that passes between streams: a pool in which two streams have
 * arenas. */
#ifndef TARN_TESTS_TWO_STREAMS_H
#define TARN_TESTS_TWO_STREAMS_H

#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *pool;
static tn_cu_stream stream;
static tn_cu_stream other;

static void make_pool(void)
{
    device = unit_device();
    pool = unit_pool(device);
    stream = test_stream();
    other = test_stream();
    (void)unit_alloc(pool, 4096, stream); /* so that both have arenas */
    (void)unit_alloc(pool, 4096, other);
}

static uint64_t mapped(void)
{
    return unit_stats(pool).mapped_bytes;
}

#endif
