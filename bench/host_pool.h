// SPDX-License-Identifier: Apache-2.0
/* host_pool.h -- a memory pool of the driver's for page-locked memory of the host, as a rival. */
#ifndef TARN_BENCH_HOST_POOL_H
#define TARN_BENCH_HOST_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "driver.h"

#define BENCH_HOST_POOL "driver's host pool"

/* A new pool, of the node 0, that the device has access to and that keeps what is freed. False: this
 * driver has none. */
bool bench_host_pool_create(tn_cu_mempool *pool);
void bench_host_pool_destroy(tn_cu_mempool pool);
void bench_host_pool_get_peaks(tn_cu_mempool pool, uint64_t *reserved, uint64_t *allocated);

#endif
