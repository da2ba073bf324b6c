// SPDX-License-Identifier: Apache-2.0
/* gpu.h -- one CUDA device as the driver sees it: its context, its faults, its proofs of idleness.
 *
 *   D1  every call here leaves the thread's current context and capture mode as they were
 *   D2  no call here disturbs a capture, of this or any other thread
 *   D3  proven <= epoch; memory freed at an epoch below proven is idle
 *
 * Teardown calls return void: the first refusal is latched with its cause, and the GPU is POISONED.
 * No layer above has a path on which undoing fails. After a device fault the GPU is LOST: teardown
 * goes on and its results no longer count.
 *
 * Locking: none; every function may be called from any thread. Nothing in this folder waits for the
 * GPU except tn_gpu_wait_idle (driver/idle.h), tn_event_wait and tn_gpu_unregister. */
#ifndef TARN_DRIVER_GPU_H
#define TARN_DRIVER_GPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/hot.h"
#include "base/lock.h"
#include "driver/driver.h"

struct tn_foreign;
struct tn_sanitizer;

/* The driver's calls that are counted, whatever the driver answers. */
enum tn_gpu_call {
    TN_CALL_CREATE,     /* cuMemCreate */
    TN_CALL_RELEASE,    /* cuMemRelease */
    TN_CALL_MAP,        /* cuMemMap */
    TN_CALL_UNMAP,      /* cuMemUnmap */
    TN_CALL_SET_ACCESS, /* cuMemSetAccess */
    TN_CALL_RESERVE,    /* cuMemAddressReserve */
    TN_CALL_UNRESERVE,  /* cuMemAddressFree */
    TN_CALL_RECORD,     /* cuEventRecord */
    TN_CALL_QUERY,      /* cuEventQuery */
    TN_CALL_WAIT,       /* waits for the whole device */
    TN_GPU_CALLS
};

struct tn_gpu {
    atomic_uint_fast64_t proof_news; /* not 0: a wanted wait has ended, or the like */
    /* The driver's cuGraphLaunch, a load nearer; immutable: */
    tn_cu_result (*launch)(tn_cu_graphexec exec, tn_cu_stream stream);
    /* TN_GPU_UNUSABLE: tn_gpu_check gives the reason. TN_GPU_USER_CODE is added for each running
     * function of the program's, whichever device calls it. The steady calls look at this word
     * alone. */
    atomic_uint attention;
    atomic_bool proof_wanted;    /* the end of a wait is news: see tn_gpu_want_proof */
    atomic_uint_fast64_t epoch;  /* rises with every wait begun */
    atomic_uint_fast64_t proven; /* the highest epoch whose wait has ended */
    /* The driver's cuStreamGetId and cuStreamIsCapturing; immutable: */
    tn_cu_result (*stream_id)(tn_cu_stream stream, unsigned long long *id);
    tn_cu_result (*is_capturing)(tn_cu_stream stream, tn_cu_capture_status *status);
    const struct tn_driver *driver; /* immutable */
    /* Above are the fields that allocations, frees and replays read. */
    atomic_int fault;         /* the first sticky result; 0: none */
    atomic_int poison_result; /* of the first teardown call refused; 0: none */
    struct tn_gpu *next_open; /* see open.c */
    int ordinal;              /* immutable */
    tn_cu_device device;      /* immutable */
    tn_cu_context context;    /* immutable; the primary context, retained */
    size_t total_bytes;       /* immutable */
    atomic_int host_node;     /* the NUMA node near the device; asked with the first host memory */
    char name[128];           /* immutable */
    _Atomic(const char *) poison_call;
    /* one waiter at a time; no other lock is taken inside, except contexts_lock */
    struct tn_lock wait_lock;
    /* a small linear allocation whose free waits; 0: none; guarded by wait_lock */
    uint64_t token;
    /* another allocation in the same block of the driver's, which keeps the block; immutable
     * while the GPU is open */
    uint64_t anchor;
    struct tn_lock contexts_lock; /* nothing waits inside; taken inside wait_lock */
    /* the program's own contexts; guarded by contexts_lock; removal needs wait_lock, too */
    struct tn_foreign *foreign;
    _Atomic(tn_cu_context) last_met; /* a context in the list; NULL: none */
    /* NULL: memory is mapped, as it should; immutable while regions exist; see sanitizer.h */
    struct tn_sanitizer *sanitizer;
    /* See kernel.h: */
    struct tn_lock kernel_lock;            /* loading the code */
    tn_cu_library library;                 /* guarded by kernel_lock */
    tn_cu_kernel prepare_kernel;           /* loaded when contents_kernel is */
    _Atomic(tn_cu_kernel) contents_kernel; /* NULL: not loaded */
    /* Away from the fields above that every free reads. */
    atomic_uint_fast64_t calls[TN_GPU_CALLS];
};

/* TARN_OK, or why nothing but teardown works any more: FORKED, DEVICE_LOST, POISONED. */
TARN_MUST_CHECK tarn_status tn_gpu_check(const struct tn_gpu *gpu);

static inline void tn_gpu_count(struct tn_gpu *gpu, enum tn_gpu_call call)
{
    atomic_fetch_add_explicit(&gpu->calls[call], 1, memory_order_relaxed);
}

static inline bool tn_gpu_is_lost(const struct tn_gpu *gpu)
{
    return atomic_load_explicit(&gpu->fault, memory_order_relaxed) != 0;
}

/* Bytes of the linear allocation whose free is the wait: see driver/idle.c. */
enum { TN_GPU_TOKEN_BYTES = 512 };

enum { TN_GPU_UNUSABLE = 1, TN_GPU_USER_CODE = 2 };

/* A device of the process has become unusable by an answer of the driver. Stays set for good; for
 * callers that have no device at hand. */
extern atomic_bool tn_gpu_any_unusable;

/* Whether tn_gpu_check would say TARN_OK, without a call. */
static inline bool tn_gpu_is_usable(const struct tn_gpu *gpu)
{
    return (atomic_load_explicit(&gpu->attention, memory_order_relaxed) & TN_GPU_UNUSABLE) == 0;
}

/* The GPU is usable, and no function of the program's is being called. Any such function may have
 * been left by a jump: a caller that gets false checks its own thread (base/user_code.h). */
static inline bool tn_gpu_is_calm(const struct tn_gpu *gpu)
{
    return atomic_load_explicit(&gpu->attention, memory_order_relaxed) == 0;
}

/* Turns a driver's refusal into a status and the thread's sentence: the request, the call, the
 * driver's name of the error, and advice. Latches sticky faults. */
TN_RARE tarn_status tn_gpu_failed(struct tn_gpu *gpu, tn_cu_result result, const char *what,
                                  const char *call);

/* OK for the driver's success, otherwise the status of tn_gpu_failed. */
TARN_MUST_CHECK tarn_status tn_gpu_answered(struct tn_gpu *gpu, tn_cu_result result,
                                            const char *what, const char *call);

/* Latches a refused teardown call. A driver that is gone at process exit is no refusal. */
void tn_gpu_teardown(struct tn_gpu *gpu, tn_cu_result result, const char *call);

/* The stamp for memory freed now, and whether memory with that stamp is proven idle. */
static inline uint64_t tn_gpu_epoch(const struct tn_gpu *gpu)
{
    return atomic_load(&gpu->epoch);
}

/* From now on, the next wait that ends is news. The caller looks at stamps after this call. It sees
 * the proofs of waits that ended before, and later proofs are news. */
static inline void tn_gpu_want_proof(struct tn_gpu *gpu)
{
    atomic_store(&gpu->proof_news, 0);
    atomic_store(&gpu->proof_wanted, true);
}

/* News of waits is no longer wanted. */
static inline void tn_gpu_want_no_proof(struct tn_gpu *gpu)
{
    atomic_store(&gpu->proof_wanted, false);
}

static inline bool tn_gpu_is_proven(const struct tn_gpu *gpu, uint64_t stamp)
{
    return stamp < atomic_load(&gpu->proven) || tn_gpu_is_lost(gpu);
}

/* Makes the context current when it is not; tn_gpu_leave undoes exactly that. */
TARN_MUST_CHECK tarn_status tn_gpu_enter(struct tn_gpu *gpu, tn_cu_context context, bool *pushed);
tn_cu_result tn_gpu_try_enter(struct tn_gpu *gpu, tn_cu_context context, bool *pushed);
void tn_gpu_leave(struct tn_gpu *gpu, bool pushed);

/* The device of a context, which lives. DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_gpu_device_of(struct tn_gpu *gpu, tn_cu_context context,
                                             tn_cu_device *device);

/* Lets the calls until tn_gpu_unrelax pass beside captures in progress. Returns the thread's mode
 * before, or -1 when the driver refused. After a refusal the device is poisoned, and the caller may
 * make no call that breaks captures. tn_gpu_not_relaxed then gives the status: DRIVER or
 * DEVICE_LOST. */
int tn_gpu_relax(struct tn_gpu *gpu);
TARN_MUST_CHECK tarn_status tn_gpu_not_relaxed(struct tn_gpu *gpu, const char *what);
void tn_gpu_unrelax(struct tn_gpu *gpu, int before);

/* Both: the device's context is current and the thread relaxed until tn_gpu_leave_relaxed. what:
 * the activity, for the sentence. The statuses of tn_gpu_enter and tn_gpu_not_relaxed; after a
 * failure the caller leaves nothing. */
struct tn_gpu_visit {
    int mode;    /* of the thread, before */
    bool pushed; /* the context was not current */
};
TARN_MUST_CHECK tarn_status tn_gpu_enter_relaxed(struct tn_gpu *gpu, const char *what,
                                                 struct tn_gpu_visit *visit);
void tn_gpu_leave_relaxed(struct tn_gpu *gpu, struct tn_gpu_visit visit);

/* The same for calls that give something back. Each call is tried twice, since a resource not given
 * back now is lost. If the context stays refused, the refusal is latched as a refused teardown; the
 * result is false, and the caller leaves nothing. If the mode stays refused, a broken capture is
 * better than a leak for good. */
bool tn_gpu_enter_to_give_back(struct tn_gpu *gpu, tn_cu_context context,
                               struct tn_gpu_visit *visit);

/* NOT_SUPPORTED where the device lacks the attribute, which what names; DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_gpu_require_attribute(struct tn_gpu *gpu,
                                                     tn_cu_device_attribute attribute,
                                                     const char *what);

#endif
