// SPDX-License-Identifier: Apache-2.0
/* Proof of idleness: cuMemUnmap does not wait for the GPU, so memory may go back to the driver only
 * when it is known to be idle. A wait begins by raising the epoch. Memory freed before carries a
 * lower stamp, and when the wait has ended all lower stamps are proven. The wait itself is the
 * cuMemFree of a small linear allocation, the token, with the thread's capture mode relaxed. This
 * free returns when its context has finished, and unlike cuCtxSynchronize kills no capture. The
 * token is kept ready, so waiting works when the device is full. A second allocation, the anchor,
 * stays beside the token. The driver cuts small allocations from blocks of 2 MiB, and gives a block
 * in use to nobody else. With the anchor in the block, the next token can be made on a full device,
 * too.
 *
 * The wait covers the primary context alone; see foreign.h for the others.
 *
 * Trade-offs: the wait covers all streams, also those of other libraries. A wait is the last resort
 * of trim, destroy and the out-of-memory ladder, and each documents its wait. */
#include "driver/idle.h"

#include "base/atomic.h"
#include "base/contract.h"
#include "base/lock.h"
#include "driver/foreign.h"
#include "driver/tool.h"

/* Frees the token and makes the next. If the last wait could not make a token, makes one first.
 * wait_lock is held. */
static tarn_status wait_in_context(struct tn_gpu *gpu)
{
    tn_cu_deviceptr token = gpu->token;
    tn_cu_deviceptr next = 0;
    int before = tn_gpu_relax(gpu);
    tn_cu_result result = TN_CUDA_SUCCESS;
    const char *call = "cuMemAlloc";

    if (before < 0)
        return tn_gpu_not_relaxed(gpu, "waiting for the device");
    if (token == 0)
        result = gpu->driver->cuMemAlloc(&token, TN_GPU_TOKEN_BYTES);
    if (result == TN_CUDA_SUCCESS) {
        call = "cuMemFree";
        result = gpu->driver->cuMemFree(token);
        if (result != TN_CUDA_SUCCESS)
            next = token; /* refused: the token still exists */
        else if (gpu->driver->cuMemAlloc(&next, TN_GPU_TOKEN_BYTES) != TN_CUDA_SUCCESS)
            next = 0; /* the next wait tries again */
        gpu->token = next;
    }
    tn_gpu_unrelax(gpu, before);
    return tn_gpu_answered(gpu, result, "waiting for the device", call);
}

tarn_status tn_gpu_wait_idle(struct tn_gpu *gpu)
{
    uint64_t begun;
    bool pushed;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    tn_tool_begin("tarn: wait for the device");
    begun = atomic_fetch_add(&gpu->epoch, 1) + 1;
    tn_gpu_count(gpu, TN_CALL_WAIT);
    status = tn_gpu_enter(gpu, gpu->context, &pushed);
    if (status == TARN_OK) {
        tn_lock_acquire(&gpu->wait_lock);
        status = wait_in_context(gpu);
        if (status == TARN_OK)
            status = tn_foreign_wait(gpu);
        tn_lock_release(&gpu->wait_lock);
        tn_gpu_leave(gpu, pushed);
    }
    tn_tool_end();
    if (status != TARN_OK && !tn_gpu_is_lost(gpu))
        return status;
    /* D3: begun was the epoch before this. A lost device does no more work: all is idle. */
    tn_atomic_raise(&gpu->proven, begun);
    if (atomic_load(&gpu->proof_wanted))
        atomic_store(&gpu->proof_news, 1);
    return TARN_OK;
}
