// SPDX-License-Identifier: Apache-2.0
/* stacking.h -- stacks of allocations, for the histories of devices.
 *
 * A public function that allocates takes the stack of its caller before it allocates, where a device
 * wants stacks. The stack's id waits in a word of the thread's own until the history writes the
 * allocation. Frees have no stacks.
 *
 * A growth has the stack of the call that grows. Where none waits, the growth takes one by unwind
 * tables: growths are rare, and far slower. The call has left its caller for this in another word of
 * the thread's, for a stack begins there. Functions of the program's that the call runs may call, too:
 * who runs them keeps the word.
 *
 * A callback of an allocation may allocate, too, on another device as well: the stack of the outer
 * allocation is not the inner one's.
 *
 * Frame pointers lead from the function that takes the stack to the public function's caller, which
 * is known by its address.
 *
 * Locking: any thread, without locks: a new stack may have to see which modules the loader has
 * loaded. Under the pool's lock a growth leaves that to the end of the call. */
#ifndef TARN_POOLS_STACKING_H
#define TARN_POOLS_STACKING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/hot.h"
#include "base/modules.h"
#include "base/ring_file.h"
#include "base/sample.h"
#include "base/stacks.h"
#include "heap/history.h"

/* The areas of a ring's file (base/ring_file.h). */
enum { TN_STACKING_STACKS, TN_STACKING_MODULES };

struct tn_stacking {
    struct tn_stack_settings settings; /* level NONE: no stacks are taken */
    uint64_t sample_bytes; /* 0: no stacks are taken; 1: of all allocations; see base/sample.h */
    struct tn_stacks stacks;
    struct tn_modules modules;
    atomic_bool has_new; /* stacks since modules were looked at */
};

/* Devices that want stacks. */
extern atomic_uint tn_stacking_count;

/* Adds the areas to the plan of a file, if any are wanted. */
void tn_stacking_plan(struct tn_ring_plan *plan, enum tn_stack_level level, uint64_t sample_bytes);

/* In the areas of the file that was planned so. False: no memory. */
bool tn_stacking_init(struct tn_stacking *stacking, const struct tn_ring_file *file,
                      enum tn_stack_level level, uint64_t sample_bytes);
void tn_stacking_fini(struct tn_stacking *stacking);

/* Of the calling thread. */
extern _Thread_local struct tn_sample tn_stacking_sample __attribute__((tls_model("initial-exec")));

/* What the public function that the thread is in returns to, where a device wants stacks. */
extern _Thread_local const void *tn_stacking_caller __attribute__((tls_model("initial-exec")));

/* Whether an allocation of so many bytes is certain to have no stack. Calls nothing: it stands in the
 * hot functions. */
static TN_ALWAYS_INLINE bool tn_stacking_passes(const struct tn_stacking *stacking, uint64_t bytes)
{
    if (TN_LIKELY(atomic_load_explicit(&tn_stacking_count, memory_order_relaxed) == 0))
        return true;
    if (tn_history_stack != 0 || tn_stacking_sample.mean_bytes != stacking->sample_bytes ||
        TN_UNLIKELY(tn_stacking_sample.left <= (int64_t)bytes))
        return false;
    tn_stacking_sample.left -= (int64_t)bytes;
    tn_stacking_caller = TN_STACK_CALLER_HERE; /* of the function that this is part of */
    return true;
}

/* Where that is not certain: the id of the calling thread's stack, from the caller of the public
 * function on; 0: the allocation has none. frame: of a function at most eight calls inside of the
 * caller, which keeps its frame pointer. */
uint32_t tn_stacking_take(struct tn_stacking *stacking, uint64_t bytes, const void *caller,
                          const void *frame);

/* Begins a public function that may grow, and allocates no block of the caller's. Returns the stack
 * of an outer allocation, to be put back into tn_history_stack. */
uint32_t tn_stacking_begin_call(const void *caller);

/* The stack of the call that grows; 0: none is known, or none is wanted. */
uint32_t tn_stacking_of_growth(struct tn_stacking *stacking);

/* Behind calls that may have grown; no lock may be held. */
static inline void tn_stacking_end_growth(struct tn_stacking *stacking)
{
    if (TN_UNLIKELY(atomic_load_explicit(&stacking->has_new, memory_order_relaxed)) &&
        atomic_exchange(&stacking->has_new, false))
        tn_modules_refresh(&stacking->modules);
}

#endif
