// SPDX-License-Identifier: Apache-2.0
/* user_code.h -- functions of the program's that the library calls: they return, and nothing else.
 *
 * If the function is left by an exception, a longjmp or the end of the thread, the calls around it
 * are never finished: their memory, their claims, the thread's capture mode. The library has no
 * state for this case. The process ends with a sentence: at once, where the stack is unwound; else
 * at the thread's next call, or its end.
 *
 * The library calls them in calls that have disabled cancellation (tn_call_begin). A function may
 * enable cancellation for its own part; behind the function it is disabled again.
 *
 * Each call stands on the stack, and the thread knows the innermost. A call of the library that
 * finds a record was made by the function, deeper in the stack, or after a jump has left the
 * function.
 *
 * Locking: none; a thread's own. */
#ifndef TARN_BASE_USER_CODE_H
#define TARN_BASE_USER_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hot.h"

enum tn_user_function {
    TN_USER_FREE_CALLBACK,
    TN_USER_OBSERVER,
    TN_USER_FILTER,
    TN_USER_WRITER,
    TN_USER_TRACKER,
    TN_USER_INTERPRETER,
    TN_USER_POLICY,
    TN_USER_GATHERER
};

enum { TN_USER_CODE_CANARIES = 8 };

/* A record with words that later calls on the stack would overwrite. */
struct tn_user_code {
    enum tn_user_function function;
    bool inside;
    uintptr_t frame; /* the end of the stack at entry */
    void *caller;    /* a place in the code of the function whose frame the record is in */
    struct tn_user_code *outer;
    uintptr_t canaries[TN_USER_CODE_CANARIES];
};

/* NULL: the thread is in no such function. Calls read this word, and steady frees do, too. The word
 * is at a fixed distance from the thread's own words, wherever the library was loaded. Steady
 * allocations and replays first look at their device's word (tn_gpu_is_calm). */
extern _Thread_local struct tn_user_code *tn_user_code_innermost
    __attribute__((tls_model("initial-exec")));

/* Declares a record whose call must be left before its block ends. Unwinding the stack ends the
 * process. */
#define TN_USER_CODE(name)                                                                         \
    struct tn_user_code name __attribute__((cleanup(tn_user_code_check_left))) = {.inside = false}

/* For a function that declares a record: the record stands on the thread's stack, not in a
 * sanitizer's memory. */
#define TN_USER_CODE_ON_STACK __attribute__((noinline, no_sanitize("address")))

void tn_user_code_enter(struct tn_user_code *code, enum tn_user_function function);
void tn_user_code_leave(struct tn_user_code *code);            /* and disables cancellation again */
void tn_user_code_check_left(const struct tn_user_code *code); /* ends the process if not left */

TN_RARE void tn_user_code_check_inside(void); /* the rare part of the next function */

/* Ends the process when the innermost function has been left by a jump. */
static inline void tn_user_code_check(void)
{
    if (TN_UNLIKELY(tn_user_code_innermost != NULL))
        tn_user_code_check_inside();
}

/* Whether the thread is in a filter of routes. */
static inline bool tn_user_code_is_filter(void)
{
    return tn_user_code_innermost != NULL && tn_user_code_innermost->function == TN_USER_FILTER;
}

#endif
