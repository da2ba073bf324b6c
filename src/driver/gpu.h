// SPDX-License-Identifier: Apache-2.0
/* gpu.h -- one CUDA device as the driver sees it: its context, its faults, what is proven idle.
 *
 *   D1  every call here leaves the thread's current context and capture mode as they were
 *   D2  no call here disturbs a capture, of this or any other thread
 *   D3  proven <= epoch; memory freed at an epoch below proven is idle
 *
 * Teardown calls return void: a driver that refuses one is latched with its first cause and the GPU
 * is POISONED, so no layer above has a path on which undoing fails. After a device fault the GPU is
 * LOST: teardown goes on and its results no longer count.
 *
 * Locking: none; every function may be called from any thread. Nothing in this folder waits for
 * the GPU except tn_gpu_wait_idle (driver/idle.h) and who takes page-locked memory that is in use (driver/pinned.h). */
#ifndef TARN_DRIVER_GPU_H
#define TARN_DRIVER_GPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/hot.h"
#include "base/lock.h"
#include "driver/driver.h"

struct tn_foreign;
struct tn_pinned;

/* What is counted of the driver's calls, whatever it answers. */
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
    atomic_uint_fast64_t proof_news; /* not 0: a wait that was wanted has ended, or the like */
    /* The driver's cuGraphLaunch, a load nearer; immutable: */
    tn_cu_result (*launch)(tn_cu_graphexec exec, tn_cu_stream stream);
    /* TN_GPU_UNUSABLE: tn_gpu_check says why; and TN_GPU_USER_CODE for each function of the program's that is being
     * called: the steady calls look at this word alone. */
    atomic_uint attention;
    atomic_bool proof_wanted;    /* the end of a wait is news: see tn_gpu_want_proof */
    atomic_uint_fast64_t epoch;  /* rises with every wait begun */
    atomic_uint_fast64_t proven; /* the highest epoch whose wait has ended */
    /* The driver's cuStreamGetId and cuStreamIsCapturing; immutable: */
    tn_cu_result (*stream_id)(tn_cu_stream stream, unsigned long long *id);
    tn_cu_result (*is_capturing)(tn_cu_stream stream, tn_cu_capture_status *status);
    const struct tn_driver *driver; /* immutable */
    /* Above is what allocations, frees and replays look at. */
    atomic_int fault;         /* the first sticky result; 0: none */
    atomic_int poison_result; /* of the first teardown call refused; 0: none */
    struct tn_gpu *next_open; /* see open.c */
    int ordinal;              /* immutable */
    tn_cu_device device;      /* immutable */
    tn_cu_context context;    /* immutable; the primary context, retained */
    size_t total_bytes;       /* immutable */
    char name[128];           /* immutable */
    _Atomic(const char *) poison_call;
    struct tn_lock wait_lock;        /* one waits at a time; nothing else is ever taken inside */
    uint64_t token;                  /* a small linear allocation whose free waits; 0: none; guarded
                                        by wait_lock */
    uint64_t anchor;                 /* another, which keeps the driver's block that both share;
                                        immutable while the GPU is open */
    struct tn_lock contexts_lock;    /* nothing waits inside; taken inside wait_lock */
    struct tn_foreign *foreign;      /* contexts of the program's own; guarded by contexts_lock,
                                        and only who has wait_lock too takes one off */
    _Atomic(tn_cu_context) last_met; /* one that is in the list; NULL: none */
    /* See kernel.h: */
    struct tn_lock kernel_lock;            /* loading the code */
    tn_cu_library library;                 /* guarded by kernel_lock */
    tn_cu_kernel begin_kernel;             /* there when contents_kernel is */
    _Atomic(tn_cu_kernel) contents_kernel; /* NULL: not loaded */
    /* See pinned.h: */
    struct tn_lock pinned_lock;
    struct tn_pinned *pinned;          /* that nobody has, newest first; guarded by pinned_lock */
    uint64_t pinned_cached;            /* their bytes; guarded by pinned_lock */
    atomic_uint_fast64_t pinned_limit; /* how much of it is kept that nobody has */
    atomic_uint_fast64_t pinned_bytes; /* taken from the driver */
    /* Away from what every free reads above. */
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

/* Of the linear allocation whose free is the wait: see driver/idle.c. */
enum { TN_GPU_TOKEN_BYTES = 512 };

enum { TN_GPU_UNUSABLE = 1, TN_GPU_USER_CODE = 2 };

/* Some device of the process has become unusable by what its driver said; for good, for those who have no device at hand. */
extern atomic_bool tn_gpu_any_unusable;

/* Whether tn_gpu_check would say TARN_OK, without a call. */
static inline bool tn_gpu_is_usable(const struct tn_gpu *gpu)
{
    return (atomic_load_explicit(&gpu->attention, memory_order_relaxed) & TN_GPU_UNUSABLE) == 0;
}

/* The same, and no function of the program's is being called, of which one may have been left by a jump: whoever finds
 * it otherwise looks whether it was his (base/user_code.h). */
static inline bool tn_gpu_is_calm(const struct tn_gpu *gpu)
{
    return atomic_load_explicit(&gpu->attention, memory_order_relaxed) == 0;
}

static inline void tn_gpu_enter_user_code(struct tn_gpu *gpu)
{
    atomic_fetch_add(&gpu->attention, TN_GPU_USER_CODE);
}

static inline void tn_gpu_leave_user_code(struct tn_gpu *gpu)
{
    atomic_fetch_sub(&gpu->attention, TN_GPU_USER_CODE);
}

/* Turns a driver's refusal into a status and the thread's sentence: what was asked, the call, the
 * driver's name of the error, what to do. Latches sticky faults. */
TN_RARE tarn_status tn_gpu_failed(struct tn_gpu *gpu, tn_cu_result result, const char *what,
                                  const char *call);

/* OK for the driver's success, else what tn_gpu_failed says. */
TARN_MUST_CHECK tarn_status tn_gpu_answered(struct tn_gpu *gpu, tn_cu_result result,
                                            const char *what, const char *call);

/* Whether a context that answers so answers nothing else any more. */
bool tn_gpu_is_sticky(tn_cu_result result);

/* Latches a refused teardown call. A driver that is gone at process exit is no refusal. */
void tn_gpu_teardown(struct tn_gpu *gpu, tn_cu_result result, const char *call);

/* The stamp for memory freed now, and whether memory with that stamp is proven idle. */
static inline uint64_t tn_gpu_epoch(const struct tn_gpu *gpu)
{
    return atomic_load(&gpu->epoch);
}

/* The next wait that ends is news, from now on. Who wants that looks at stamps behind this call: what a wait has
 * proven by then it sees, and what one proves later is news. */
static inline void tn_gpu_want_proof(struct tn_gpu *gpu)
{
    atomic_store(&gpu->proof_news, 0);
    atomic_store(&gpu->proof_wanted, true);
}

/* Nobody wants it any more. */
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
 * before, or -1 when the driver refused: the device is poisoned, and a call that breaks captures may
 * not be made. tn_gpu_not_relaxed is the status then: DRIVER or DEVICE_LOST. */
int tn_gpu_relax(struct tn_gpu *gpu);
TARN_MUST_CHECK tarn_status tn_gpu_not_relaxed(struct tn_gpu *gpu, const char *what);
void tn_gpu_unrelax(struct tn_gpu *gpu, int before);

/* Both: the device's context is current and the thread relaxed until tn_gpu_leave_relaxed. what: is
 * being done, for the sentence. The statuses of tn_gpu_enter and tn_gpu_not_relaxed; then there is
 * nothing to leave. */
struct tn_gpu_visit {
    int mode;    /* of the thread, before */
    bool pushed; /* the context was not current */
};
TARN_MUST_CHECK tarn_status tn_gpu_enter_relaxed(struct tn_gpu *gpu, const char *what,
                                                 struct tn_gpu_visit *visit);
void tn_gpu_leave_relaxed(struct tn_gpu *gpu, struct tn_gpu_visit visit);

/* The same for what gives something back: each call is tried twice, since what is not given back then is lost. A context
 * that stays refused is latched as a refused teardown. False: that is so, and there is nothing to leave. Where the mode
 * stays refused, better a broken capture than a leak for good. */
bool tn_gpu_enter_to_give_back(struct tn_gpu *gpu, tn_cu_context context,
                               struct tn_gpu_visit *visit);

/* NOT_SUPPORTED where the device lacks the attribute, which what names; DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_gpu_require_attribute(struct tn_gpu *gpu,
                                                     tn_cu_device_attribute attribute,
                                                     const char *what);

#endif
