// SPDX-License-Identifier: Apache-2.0
/* A list of free memory, newest first. A take chooses the smallest entry that fits and is not more
 * than twice too large. The entry's event tells whether the device has finished with the memory.
 *
 * Memory that the driver refuses to take back stays in the list, and in the books, until the device
 * is closed. The device is poisoned by then, so nobody takes this memory.
 *
 * Trade-offs: a take passes over memory still in use, and gets more from the driver. Lists are
 * short: each entry comes from a checkpoint that has gone. */
#include "driver/pinned.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/host.h"
#include "driver/idle.h"
#include "driver/result.h"

static const uint64_t unit_bytes = (uint64_t)64 << 10;

static void forget_used(struct tn_gpu *gpu, struct tn_pinned *pinned)
{
    if (pinned->used != NULL)
        tn_event_destroy(gpu, pinned->used);
    pinned->used = NULL;
}

/* Whether the device has finished with the memory. */
static bool is_idle(struct tn_gpu *gpu, struct tn_pinned *pinned)
{
    if (pinned->used == NULL)
        return tn_gpu_is_proven(gpu, pinned->stamp);
    if (tn_event_query(gpu, pinned->used) != TN_EVENT_DONE)
        return false;
    forget_used(gpu, pinned);
    return true;
}

/* Waits until the memory is idle; false when the driver refuses the wait. */
static bool await_idle(struct tn_gpu *gpu, struct tn_pinned *pinned)
{
    if (pinned->used != NULL) {
        pinned->stamp = tn_event_wait(gpu, pinned->used) == TN_EVENT_DONE ? 0 : tn_gpu_epoch(gpu);
        forget_used(gpu, pinned);
    }
    return tn_gpu_is_proven(gpu, pinned->stamp) || tn_gpu_wait_idle(gpu) == TARN_OK;
}

/* Ends the record, whatever has become of the memory. */
static void forget(struct tn_gpu *gpu, struct tn_pinned *pinned)
{
    atomic_fetch_sub(&gpu->pinned_bytes, pinned->bytes);
    tn_host_free(pinned);
}

/* Frees memory with which the device has finished. False: the driver has refused, which is latched,
 * and the memory and its record remain. Memory that a lost device does not take back goes with the
 * process. */
static bool free_to_driver(struct tn_gpu *gpu, struct tn_pinned *pinned)
{
    struct tn_gpu_visit visit;
    tn_cu_result result;

    if (!tn_gpu_enter_to_give_back(gpu, gpu->context, &visit)) {
        if (!tn_gpu_is_lost(gpu))
            return false;
        forget(gpu, pinned);
        return true;
    }
    result = gpu->driver->cuMemFreeHost(pinned->address);
    tn_gpu_teardown(gpu, result, "cuMemFreeHost");
    tn_gpu_leave_relaxed(gpu, visit);
    if (result != TN_CUDA_SUCCESS && !tn_gpu_is_lost(gpu))
        return false;
    forget(gpu, pinned);
    return true;
}

/* Takes the entry at the link off the list; the mutex is held. */
static struct tn_pinned *unlink_at(struct tn_gpu *gpu, struct tn_pinned **link)
{
    struct tn_pinned *pinned = *link;

    *link = pinned->next;
    gpu->pinned_cached -= pinned->bytes; /* D5 */
    return pinned;
}

static void put(struct tn_gpu *gpu, struct tn_pinned *pinned)
{
    if (tn_is_forked()) /* another thread may have the mutex for good */
        return;
    tn_lock_acquire(&gpu->pinned_lock);
    pinned->fresh = false;
    pinned->next = gpu->pinned;
    gpu->pinned = pinned;
    gpu->pinned_cached += pinned->bytes; /* D5 */
    tn_lock_release(&gpu->pinned_lock);
}

/* Takes the smallest entry that fits off the list; NULL when none fits. */
static struct tn_pinned *pick(struct tn_gpu *gpu, uint64_t bytes)
{
    struct tn_pinned **best = NULL;
    struct tn_pinned *picked = NULL;

    tn_lock_acquire(&gpu->pinned_lock);
    for (struct tn_pinned **link = &gpu->pinned; *link != NULL; link = &(*link)->next) {
        if ((*link)->bytes >= bytes && (*link)->bytes <= 2 * bytes &&
            (best == NULL || (*link)->bytes < (*best)->bytes))
            best = link;
    }
    if (best != NULL)
        picked = unlink_at(gpu, best);
    tn_lock_release(&gpu->pinned_lock);
    return picked;
}

static tarn_status make(struct tn_gpu *gpu, uint64_t bytes, struct tn_pinned **pinned)
{
    struct tn_pinned *made = tn_host_alloc(1, sizeof *made);
    tn_cu_result result;
    tarn_status status;
    bool pushed;
    int before;

    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a record of page-locked memory");
    status = tn_gpu_enter(gpu, gpu->context, &pushed);
    if (status != TARN_OK)
        goto free_record;
    before = tn_gpu_relax(gpu);
    if (before < 0) {
        tn_gpu_leave(gpu, pushed);
        status = tn_gpu_not_relaxed(gpu, "taking page-locked memory");
        goto free_record;
    }
    result = gpu->driver->cuMemHostAlloc(&made->address, bytes, TN_CU_MEMHOSTALLOC_PORTABLE);
    tn_gpu_unrelax(gpu, before);
    tn_gpu_leave(gpu, pushed);
    if (result == TN_CUDA_SUCCESS) {
        made->bytes = bytes;
        made->fresh = true;
        atomic_fetch_add(&gpu->pinned_bytes, bytes);
        *pinned = made;
        return TARN_OK;
    }
    status =
        result == TN_CUDA_ERROR_OUT_OF_MEMORY
            ? tn_fail(TARN_ERR_HOST_MEMORY,
                      "the driver has no %llu MiB of page-locked host memory: cuMemHostAlloc "
                      "answered %s",
                      (unsigned long long)((bytes + TN_MIB - 1) / TN_MIB), tn_result_name(result))
            : tn_gpu_failed(gpu, result, "taking page-locked memory", "cuMemHostAlloc");
free_record:
    tn_host_free(made);
    return status;
}

tarn_status tn_pinned_take(struct tn_gpu *gpu, uint64_t bytes, struct tn_pinned **pinned)
{
    struct tn_pinned *found;

    bytes = tn_round_up(bytes, unit_bytes);
    found = pick(gpu, bytes);
    if (found != NULL && !is_idle(gpu, found)) {
        put(gpu, found);
        found = NULL;
    }
    if (found == NULL)
        return make(gpu, bytes, pinned);
    *pinned = found;
    return TARN_OK;
}

void tn_pinned_give(struct tn_gpu *gpu, struct tn_pinned *pinned, tn_cu_event used)
{
    pinned->used = used;
    pinned->stamp = 0;
    put(gpu, pinned);
    tn_pinned_trim(gpu, atomic_load(&gpu->pinned_limit));
}

void tn_pinned_set_limit(struct tn_gpu *gpu, uint64_t bytes)
{
    atomic_store(&gpu->pinned_limit, bytes);
    tn_pinned_trim(gpu, bytes);
}

void tn_pinned_drop(struct tn_gpu *gpu, struct tn_pinned *pinned)
{
    pinned->stamp = tn_gpu_epoch(gpu);
    if (!await_idle(gpu, pinned) || !free_to_driver(gpu, pinned))
        put(gpu, pinned);
}

void tn_pinned_undo(struct tn_gpu *gpu, struct tn_pinned *pinned)
{
    if (!pinned->fresh || !free_to_driver(gpu, pinned))
        put(gpu, pinned);
}

/* Takes the oldest entry off the list when the list has more than keep_bytes; otherwise NULL. */
static struct tn_pinned *pick_oldest(struct tn_gpu *gpu, uint64_t keep_bytes)
{
    struct tn_pinned **last = &gpu->pinned;
    struct tn_pinned *picked = NULL;

    tn_lock_acquire(&gpu->pinned_lock);
    if (gpu->pinned != NULL && gpu->pinned_cached > keep_bytes) {
        while ((*last)->next != NULL)
            last = &(*last)->next;
        picked = unlink_at(gpu, last);
    }
    tn_lock_release(&gpu->pinned_lock);
    return picked;
}

void tn_pinned_trim(struct tn_gpu *gpu, uint64_t keep_bytes)
{
    struct tn_pinned *pinned;

    while ((pinned = pick_oldest(gpu, keep_bytes)) != NULL) {
        if (!await_idle(gpu, pinned) || !free_to_driver(gpu, pinned)) {
            put(gpu, pinned);
            return;
        }
    }
}

void tn_pinned_end(struct tn_gpu *gpu)
{
    struct tn_pinned *pinned;

    while ((pinned = pick_oldest(gpu, 0)) != NULL) {
        (void)await_idle(gpu, pinned); /* freed in any case */
        if (!free_to_driver(gpu, pinned) && !free_to_driver(gpu, pinned))
            forget(gpu, pinned);
    }
}

void tn_pinned_usage(struct tn_gpu *gpu, uint64_t *bytes, uint64_t *cached_bytes)
{
    tn_lock_acquire(&gpu->pinned_lock);
    *cached_bytes = gpu->pinned_cached;
    *bytes = tn_max(gpu->pinned_cached, atomic_load(&gpu->pinned_bytes));
    tn_lock_release(&gpu->pinned_lock);
}
