// SPDX-License-Identifier: Apache-2.0
#include "pools/host_pool.h"

#include <stddef.h>

#include "base/contract.h"
#include "heap/steady.h"
#include "pools/allocate.h"
#include "pools/arena_table.h"
#include "pools/entry.h"

static TN_APART tarn_status pin_and_allocate(tarn_pool *pool, uint64_t bytes, uint64_t alignment,
                                             void **address)
{
    const struct tn_request request = {bytes, alignment, TN_ORDER_HOST};
    TN_CALL(call);

    return tn_call_pool(&call, pool) ? tn_pool_allocate(pool, &request, NULL, address)
                                     : call.status;
}

TN_HOT tarn_status tn_host_pool_allocate(tarn_pool *pool, uint64_t bytes, uint64_t alignment,
                                         void **address)
{
    const struct tn_steady_key key = {.order = TN_ORDER_HOST, .pool = pool};
    struct tn_arena *arena = tn_arena_seek(pool, TN_ORDER_HOST);

    TN_ASSERT(bytes > 0 && (alignment & (alignment - 1)) == 0);
    if (TN_LIKELY(arena != NULL) &&
        TN_LIKELY(tn_steady_try_allocate(arena, key, bytes, alignment, address)))
        return TARN_OK;
    return pin_and_allocate(pool, bytes, alignment, address);
}

tarn_status tn_host_pool_allocate_routed(tarn_pool *pool, uint64_t bytes, void **address)
{
    const struct tn_request request = {bytes, TN_BLOCK_BYTES_MIN, TN_ORDER_HOST};
    TN_CALL(call);

    TN_ASSERT(pool->in_host && bytes > 0);
    return tn_call_allocation(&call, pool, true) ? tn_pool_allocate(pool, &request, NULL, address)
                                                 : call.status;
}
