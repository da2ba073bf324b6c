// SPDX-License-Identifier: Apache-2.0
/* user_code.h -- functions of the program's that the library calls: they return, and nothing else.
 *
 * Behind an exception, a longjmp, or the end of the thread in such a function the calls around it are never finished:
 * their memory, their claims, the thread's capture mode. No state is made up for that. The process ends with a
 * sentence: at once, where the stack is unwound; else at the thread's next call, or its end.
 *
 * Each call stands on the stack, and the thread knows the innermost. A call of the library's that comes while one is
 * there is made by the function, deeper in the stack, or behind a jump that has left it.
 *
 * Locking: none; a thread's own. */
#ifndef TARN_BASE_USER_CODE_H
#define TARN_BASE_USER_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hot.h"

enum tn_user_function { TN_USER_FREE_CALLBACK, TN_USER_OBSERVER, TN_USER_FILTER };

enum { TN_USER_CODE_MARKS = 8 };

/* Words that what comes to lie there on the stack would overwrite. */
struct tn_user_code {
    enum tn_user_function function;
    bool inside;
    uintptr_t frame; /* where the stack ended when it was entered */
    struct tn_user_code *outer;
    uintptr_t marks[TN_USER_CODE_MARKS];
};

/* NULL: the thread is in none. Calls look at it, and steady frees, too: at a fixed distance from the thread's own words,
 * wherever the library was loaded. Steady allocations and replays look first at their device's word (tn_gpu_is_calm). */
extern _Thread_local struct tn_user_code *tn_user_code_innermost
    __attribute__((tls_model("initial-exec")));

/* Declares one that is left before its block ends, or by unwinding the stack. */
#define TN_USER_CODE(name)                                                                         \
    struct tn_user_code name __attribute__((cleanup(tn_user_code_check_left))) = {.inside = false}

/* Of a function that declares one: the record stands on the thread's stack, not where a sanitizer would have it. */
#define TN_USER_CODE_ON_STACK __attribute__((noinline, no_sanitize("address")))

void tn_user_code_enter(struct tn_user_code *code, enum tn_user_function function);
void tn_user_code_leave(struct tn_user_code *code);
void tn_user_code_check_left(const struct tn_user_code *code); /* ends the process when it is not */

TN_RARE void tn_user_code_check_inside(void); /* the part of the next that is rare */

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
