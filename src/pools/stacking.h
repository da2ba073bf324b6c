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
 * A thread may give its allocations a label, a text of the program's (pools/labels.h). The label is
 * a title in front of the frames: so an allocation with a label has a stack, also where the device
 * wants none, which is then the label alone. Threads without a label pay nothing: those with one
 * have a sample with no byte left, so each of their allocations is looked at.
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
#include "base/title.h"
#include "heap/history.h"
#include "pools/interpreter.h"

/* The areas of a ring's file (base/ring_file.h). */
enum { TN_STACKING_STACKS, TN_STACKING_MODULES };

/* A text for allocations of a thread. */
struct tn_label {
    struct tn_label *outer; /* of the thread's own: pools/labels.h */
    uint64_t stacking;      /* of the device that knows the title by the id; 0: none */
    uint32_t id;
    struct tn_title title; /* empty: no label, in the place of outer ones */
};

static inline bool tn_label_has_text(const struct tn_label *label)
{
    return label->title.count > 1; /* behind the head */
}

/* Zeroed: of a device without a history. */
struct tn_stacking {
    uint64_t serial;     /* never another's; 0: of no history */
    struct tn_spin lock; /* of changes of the next two */
    atomic_uint level;   /* NONE: no stacks are taken */
    /* 0: no stacks are taken; 1: of all allocations; see base/sample.h */
    atomic_uint_fast64_t sample_bytes;
    uint64_t wanted_bytes; /* sample_bytes, where stacks are taken */
    uint64_t *told_bytes;  /* the same, for readers of the file */
    struct tn_stacks stacks;
    struct tn_modules modules;
    atomic_bool has_new; /* stacks since modules were looked at */
    struct tn_interpreter interpreter;
};

/* Devices that want stacks, and threads that have a label. */
extern atomic_uint tn_stacking_count;

/* Adds the areas to the plan of a file. */
void tn_stacking_plan(struct tn_ring_plan *plan, enum tn_stack_level level, uint64_t sample_bytes);

/* In the areas of the file that was planned so. False: no memory. */
bool tn_stacking_init(struct tn_stacking *stacking, const struct tn_ring_file *file,
                      enum tn_stack_level level, uint64_t sample_bytes);
void tn_stacking_fini(struct tn_stacking *stacking);

static inline enum tn_stack_level tn_stacking_level(const struct tn_stacking *stacking)
{
    return (enum tn_stack_level)atomic_load_explicit(&stacking->level, memory_order_relaxed);
}

/* From now on stacks are taken so. */
void tn_stacking_set_level(struct tn_stacking *stacking, enum tn_stack_level level);

/* Reads the stacks and titles. */
static inline struct tn_scroll_reader tn_stacking_reader(struct tn_stacking *stacking)
{
    return (struct tn_scroll_reader){tn_scroll_from_memory, &stacking->stacks.scroll,
                                     stacking->stacks.scroll.word_count * sizeof(uint64_t)};
}

/* Of the calling thread: side by side, for the hot functions ask for all of it. */
struct tn_stacking_own {
    struct tn_sample sample; /* without bytes left: the thread has a label */
    /* What the public function that the thread is in returns to, where a device wants stacks. */
    const void *caller;
};

extern _Thread_local struct tn_stacking_own tn_stacking_own
    __attribute__((tls_model("initial-exec")));

/* The label of the calling thread's allocations; NULL: none. */
struct tn_label *tn_stacking_label(void);
void tn_stacking_set_label(struct tn_label *label);

/* Whether an allocation of so many bytes is certain to have no stack. Calls nothing: it stands in the
 * hot functions. A function of the program's that runs in a call of Tarn has no stack of the call's
 * (tn_stacking_leave_call). */
static TN_ALWAYS_INLINE bool tn_stacking_passes(const struct tn_stacking *stacking, uint64_t bytes)
{
    struct tn_stacking_own *own = &tn_stacking_own;
    int64_t left;

    if (TN_LIKELY(atomic_load_explicit(&tn_stacking_count, memory_order_relaxed) == 0))
        return true;
    TN_ASSERT(tn_history_stack == 0);
    left = own->sample.left - (int64_t)bytes;
    if (TN_UNLIKELY(own->sample.mean_bytes !=
                    atomic_load_explicit(&stacking->sample_bytes, memory_order_relaxed)) ||
        TN_UNLIKELY(left <= 0))
        return false;
    own->sample.left = left;
    own->caller = TN_STACK_CALLER_HERE; /* of the function that this is part of */
    return true;
}

/* Where that is not certain: the id of the calling thread's stack, from the caller of the public
 * function on; 0: the allocation has none. label: of the allocation; NULL: none. frame: of a function
 * at most eight calls inside of the caller, which keeps its frame pointer. */
uint32_t tn_stacking_take(struct tn_stacking *stacking, uint64_t bytes, struct tn_label *label,
                          const void *caller, const void *frame);

/* The allocations that follow are the library's own: where the device wants stacks, theirs say so.
 * Returns what tn_history_stack is to be behind them. */
static inline uint32_t tn_stacking_begin_own(const struct tn_stacking *stacking)
{
    const bool stacks = tn_stacking_level(stacking) != TN_STACK_NONE;
    const uint32_t outer = tn_history_stack;

    TN_ASSERT(outer == 0 || stacks || atomic_load(&tn_stacking_count) > 0);
    tn_history_stack = stacks ? TN_STACKS_OWN : 0;
    return outer;
}

/* What a call has of stacks, while it runs a function of the program's: calls from there have their
 * own. */
struct tn_stacking_call {
    const void *caller;
    uint32_t stack;
};

static inline struct tn_stacking_call tn_stacking_leave_call(void)
{
    const struct tn_stacking_call call = {tn_stacking_own.caller, tn_history_stack};

    tn_history_stack = 0;
    return call;
}

static inline void tn_stacking_resume_call(struct tn_stacking_call call)
{
    tn_stacking_own.caller = call.caller;
    tn_history_stack = call.stack;
}

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
