// SPDX-License-Identifier: Apache-2.0
#include "host_pool.h"

bool bench_host_pool_create(tn_cu_mempool *pool)
{
    const tn_cu_pool_props props = {.type = TN_CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = {.type = TN_CU_MEM_LOCATION_TYPE_HOST_NUMA}};
    const tn_cu_access_desc access = {
        .location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = cu.device},
        .flags = TN_CU_MEM_ACCESS_READWRITE,
    };
    uint64_t threshold = UINT64_MAX;

    if (cu.cuMemPoolCreate == NULL || cu.cuMemPoolDestroy == NULL || cu.set_pool_access == NULL ||
        cu.cuMemPoolCreate(pool, &props) != TN_CUDA_SUCCESS)
        return false;
    BENCH_CU(cu.set_pool_access(*pool, &access, 1));
    BENCH_CU(cu.cuMemPoolSetAttribute(*pool, TN_CU_POOL_ATTR_RELEASE_THRESHOLD, &threshold));
    return true;
}

void bench_host_pool_destroy(tn_cu_mempool pool)
{
    BENCH_CU(cu.cuMemPoolDestroy(pool));
}

void bench_host_pool_get_peaks(tn_cu_mempool pool, uint64_t *reserved, uint64_t *allocated)
{
    BENCH_CU(cu.cuMemPoolGetAttribute(pool, TN_CU_POOL_ATTR_RESERVED_HIGH, reserved));
    BENCH_CU(cu.cuMemPoolGetAttribute(pool, TN_CU_POOL_ATTR_USED_HIGH, allocated));
}
