// SPDX-License-Identifier: Apache-2.0
/* two_streams.h -- for suites of memory that passes between streams: a pool in which two streams have
 * arenas. */
#ifndef TARN_TESTS_TWO_STREAMS_H
#define TARN_TESTS_TWO_STREAMS_H

#include "unit/one_pool.h"

static void make_arenas(void)
{
    make_pool();
    (void)unit_alloc(pool, 4096, stream); /* so that both have arenas */
    (void)unit_alloc(pool, 4096, other);
}

static uint64_t mapped(void)
{
    return unit_stats(pool).mapped_bytes;
}

#endif
