// SPDX-License-Identifier: Apache-2.0
/* Waits for contexts that the program made.
 *
 * Each context that is met gets an anchor, as the primary context has. Each wait makes and frees a
 * token in each context. A foreign context may end, and its handle and addresses may be given out
 * again; the library is not told. The library therefore keeps nothing but the anchor in a foreign
 * context. An anchor counts as ours only while it has the id that the driver gave it: the driver
 * never gives an id twice. No work outlives its context, so a context that is gone is idle.
 *
 * Trade-offs: a wait is a few calls longer for each context of the program's that lives. */
#include "driver/foreign.h"

#include "base/error.h"
#include "base/host.h"
#include "driver/result.h"

/* Bytes of an anchor and of a token. */
static const uint64_t piece_bytes = 512;

/* A context of the program's own in which memory may be in use. */
struct tn_foreign {
    struct tn_foreign *next;
    tn_cu_context context;
    uint64_t anchor;    /* 0: none yet; guarded by wait_lock once in the list */
    uint64_t anchor_id; /* the driver's, never given twice; guarded like anchor */
};

/* Whether the context has ended, and its work too: destroyed, or broken by a fault of its own,
 * which says nothing of the primary context. */
static bool is_over(tn_cu_result result)
{
    return result == TN_CUDA_ERROR_CONTEXT_IS_DESTROYED ||
           result == TN_CUDA_ERROR_INVALID_CONTEXT || tn_result_is_sticky(result);
}

/* From here to tn_gpu_meet_context the context is current, and the mode relaxed. */

/* The id of the memory at the address; asks twice where needed. INVALID_VALUE: the address holds
 * nothing. Memory without a known id is never given back, for it may be a stranger's. */
static tn_cu_result ask_id(struct tn_gpu *gpu, tn_cu_deviceptr address, unsigned long long *id)
{
    tn_cu_result result = gpu->driver->cuPointerGetAttribute(id, TN_CU_POINTER_BUFFER_ID, address);

    if (result != TN_CUDA_SUCCESS && result != TN_CUDA_ERROR_INVALID_VALUE && !is_over(result))
        result = gpu->driver->cuPointerGetAttribute(id, TN_CU_POINTER_BUFFER_ID, address);
    return result;
}

static tn_cu_result make_anchor(struct tn_gpu *gpu, struct tn_foreign *foreign)
{
    tn_cu_deviceptr address = 0;
    unsigned long long id = 0;
    tn_cu_result result = gpu->driver->cuMemAlloc(&address, piece_bytes);

    if (result != TN_CUDA_SUCCESS)
        return result;
    result = ask_id(gpu, address, &id);
    if (result != TN_CUDA_SUCCESS) {
        /* The few bytes are the context's: their free would wait, and locks may be held. */
        if (!is_over(result))
            tn_gpu_teardown(gpu, result, "cuPointerGetAttribute");
        return result;
    }
    foreign->anchor = address;
    foreign->anchor_id = id;
    return TN_CUDA_SUCCESS;
}

/* *there: whether the anchor still exists. The result says whether the driver knows. */
static tn_cu_result find_anchor(struct tn_gpu *gpu, const struct tn_foreign *foreign, bool *there)
{
    unsigned long long id = 0;
    tn_cu_result result = TN_CUDA_SUCCESS;

    *there = false;
    if (foreign->anchor == 0)
        return TN_CUDA_SUCCESS;
    result = ask_id(gpu, foreign->anchor, &id);
    *there = result == TN_CUDA_SUCCESS && id == foreign->anchor_id;
    return result == TN_CUDA_ERROR_INVALID_VALUE ? TN_CUDA_SUCCESS : result;
}

/* Waits for the work of the context, or of another context that has the same handle by now. */
static tn_cu_result wait_in_foreign(struct tn_gpu *gpu, struct tn_foreign *foreign)
{
    tn_cu_deviceptr token = 0;
    bool there;
    tn_cu_result result = find_anchor(gpu, foreign, &there);

    if (result == TN_CUDA_SUCCESS && !there)
        result = make_anchor(gpu, foreign);
    if (result == TN_CUDA_SUCCESS)
        result = gpu->driver->cuMemAlloc(&token, piece_bytes);
    if (result != TN_CUDA_SUCCESS)
        return result;
    result = gpu->driver->cuMemFree(token);
    if (!is_over(result))
        tn_gpu_teardown(gpu, result, "cuMemFree"); /* the token still exists, and nobody owns it */
    return result;
}

static tn_cu_result end_anchor(struct tn_gpu *gpu, struct tn_foreign *foreign)
{
    bool there;
    tn_cu_result result = find_anchor(gpu, foreign, &there);

    return result == TN_CUDA_SUCCESS && there ? gpu->driver->cuMemFree(foreign->anchor) : result;
}

/* Calls one of the three functions above in the foreign context. */
static tn_cu_result in_foreign(struct tn_gpu *gpu, struct tn_foreign *foreign,
                               tn_cu_result (*act)(struct tn_gpu *gpu, struct tn_foreign *foreign))
{
    bool pushed;
    tn_cu_result result = tn_gpu_try_enter(gpu, foreign->context, &pushed);
    int before;

    if (result != TN_CUDA_SUCCESS)
        return result;
    before = tn_gpu_relax(gpu);
    result = before >= 0 ? act(gpu, foreign) : TN_CUDA_ERROR_NOT_PERMITTED;
    tn_gpu_unrelax(gpu, before);
    tn_gpu_leave(gpu, pushed);
    return result;
}

/* contexts_lock is held. */
static tarn_status add_foreign(struct tn_gpu *gpu, tn_cu_context context)
{
    struct tn_foreign *made = tn_host_alloc(1, sizeof *made);
    tn_cu_result result;

    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to keep track of a context");
    made->context = context;
    result = in_foreign(gpu, made, make_anchor);
    /* On a full device the wait makes the anchor: nothing is refused for want of an anchor. */
    if (result != TN_CUDA_SUCCESS && result != TN_CUDA_ERROR_OUT_OF_MEMORY) {
        tn_host_free(made);
        return tn_gpu_failed(gpu, result, "meeting a context of the program's own", "cuMemAlloc");
    }
    made->next = gpu->foreign;
    gpu->foreign = made;
    return TARN_OK;
}

tarn_status tn_gpu_meet_context(struct tn_gpu *gpu, tn_cu_context context)
{
    const struct tn_foreign *known;
    tarn_status status = TARN_OK;

    if (context == gpu->context || context == atomic_load(&gpu->last_met))
        return TARN_OK;
    tn_lock_acquire(&gpu->contexts_lock);
    known = gpu->foreign;
    while (known != NULL && known->context != context)
        known = known->next;
    if (known == NULL)
        status = add_foreign(gpu, context);
    if (status == TARN_OK)
        atomic_store(&gpu->last_met, context);
    tn_lock_release(&gpu->contexts_lock);
    return status;
}

/* Takes an ended context off the list, unless a new context has its handle by now and may have been
 * met. wait_lock is held. */
static void drop_foreign(struct tn_gpu *gpu, struct tn_foreign *foreign)
{
    struct tn_foreign **link = &gpu->foreign;

    tn_lock_acquire(&gpu->contexts_lock);
    atomic_store(&gpu->last_met, NULL);
    if (is_over(in_foreign(gpu, foreign, make_anchor))) {
        while (*link != foreign)
            link = &(*link)->next;
        *link = foreign->next;
        tn_host_free(foreign);
    }
    tn_lock_release(&gpu->contexts_lock);
}

tarn_status tn_foreign_wait(struct tn_gpu *gpu)
{
    struct tn_foreign *foreign;
    struct tn_foreign *next;

    tn_lock_acquire(&gpu->contexts_lock);
    foreign = gpu->foreign;
    tn_lock_release(&gpu->contexts_lock);
    for (; foreign != NULL; foreign = next) {
        tn_cu_result result = in_foreign(gpu, foreign, wait_in_foreign);

        next = foreign->next;
        if (is_over(result))
            drop_foreign(gpu, foreign);
        else if (result != TN_CUDA_SUCCESS)
            return tn_gpu_failed(gpu, result, "waiting for a context of the program's own",
                                 "cuMemAlloc or cuMemFree");
    }
    return TARN_OK;
}

void tn_foreign_end(struct tn_gpu *gpu)
{
    while (gpu->foreign != NULL) {
        struct tn_foreign *foreign = gpu->foreign;
        tn_cu_result result = in_foreign(gpu, foreign, end_anchor);

        if (result != TN_CUDA_SUCCESS &&
            !is_over(result)) /* an anchor that has gone is not found any more */
            result = in_foreign(gpu, foreign, end_anchor);
        gpu->foreign = foreign->next;
        if (!is_over(result))
            tn_gpu_teardown(gpu, result, "cuMemFree");
        tn_host_free(foreign);
    }
    atomic_store(&gpu->last_met, NULL);
}
