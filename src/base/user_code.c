// SPDX-License-Identifier: Apache-2.0
/* After a jump the stack above its aim is as good as free: the next call overwrites that part, or
 * begins above the record that was left, or has another function's frame around the record. A
 * record was therefore left in three cases:
 *
 *   - its words have changed;
 *   - the record lies below the present frame on the same stack;
 *   - the frames from here to the record's place are known, and the frame around this place belongs
 *     to another function than the one that made the record.
 *
 * A function may go to a stack of its own, where places say nothing.
 *
 * Trade-offs: the frames are found by the unwinder, which costs some microseconds, in calls by the
 * program's functions alone. Code without unwind information ends the look. A call through such code
 * after a jump is taken for a call of the function, if the call comes from a frame deeper than the
 * record, and the record's words are the same. The next call from a higher frame is not. */
#include "base/user_code.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

#include "base/contract.h"
#include "base/object.h"
#include "base/stack.h"

_Thread_local struct tn_user_code *tn_user_code_innermost;

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* of each thread that has called a function of the program's */
static bool key_is_made;  /* written once, in key_once */

/* Another function may use that memory by now, which a sanitizer would report. */
#define ANYTHING_THERE __attribute__((noinline, no_sanitize("address", "thread")))

/* Where locks of the C library may be held, too: a system call and the end. */
static _Noreturn void end_process(const char *sentence)
{
    ssize_t written = write(STDERR_FILENO, sentence, strlen(sentence));

    (void)written;
    abort();
}

/* At the end of a thread nothing is left on its stack. Whoever leaves by unwinding was seen
 * before. */
static void end_thread(void *mine)
{
    (void)mine;
    if (tn_user_code_innermost != NULL)
        end_process(
            "tarn: a free-memory callback, an out-of-memory observer, a route's filter, a snapshot's "
            "writer, a tracker, a policy or an interpreter's function was left by longjmp, and its thread has ended; such "
            "functions return: the process ends\n");
}

static void make_key(void)
{
    /* end_thread is called at the end of any thread that has called a function of the program's. */
    tn_object_keep();
    key_is_made = pthread_key_create(&key, end_thread) == 0;
}

static const uintptr_t mixer = (uintptr_t)0x9e3779b97f4a7c15ULL;

/* Of the place and of every word but the canaries: what a call writes there may have gaps, as the
 * dynamic linker's copy of the registers has, with all canaries in one. */
static ANYTHING_THERE uintptr_t sum_of(const struct tn_user_code *code)
{
    const unsigned char *inside = (const unsigned char *)&code->inside; /* of any value */
    uintptr_t sum = (uintptr_t)code;

    sum = (sum ^ ((uintptr_t)code->function << 8 | *inside)) * mixer;
    sum = (sum ^ code->frame) * mixer;
    sum = (sum ^ (uintptr_t)code->caller) * mixer;
    return (sum ^ (uintptr_t)code->outer) * mixer;
}

__attribute__((noinline)) void tn_user_code_enter(struct tn_user_code *code,
                                                  enum tn_user_function function)
{
    volatile uintptr_t *canaries = code->canaries;
    uintptr_t sum;

    code->function = function;
    code->inside = true;
    code->frame = (uintptr_t)__builtin_frame_address(0);
    code->caller = __builtin_return_address(0);
    code->outer = tn_user_code_innermost;
    sum = sum_of(code);
    for (size_t i = 0; i < TN_USER_CODE_CANARIES; i++)
        canaries[i] = sum + i * mixer;
    tn_user_code_innermost = code;
    (void)pthread_once(&key_once, make_key);
    if (key_is_made && code->outer == NULL)
        (void)pthread_setspecific(key, &key); /* without memory for this, the end is not noticed */
}

void tn_user_code_leave(struct tn_user_code *code)
{
    int ignored;

    TN_ASSERT(tn_user_code_innermost == code);
    code->inside = false;
    tn_user_code_innermost = code->outer;
    /* The function may have enabled it. */
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ignored);
}

/* One sentence for each enum tn_user_function. */
static const char *const unwound[] = {
    "tarn: a free-memory callback was left by an exception, or ended its thread; a callback returns: "
    "the process ends\n",
    "tarn: an out-of-memory observer was left by an exception, or ended its thread; an observer "
    "returns: the process ends\n",
    "tarn: a route's filter was left by an exception, or ended its thread; a filter returns: the "
    "process ends\n",
    "tarn: a snapshot's writer was left by an exception, or ended its thread; a writer returns: the "
    "process ends\n",
    "tarn: a tracker was left by an exception, or ended its thread; a tracker returns: the process "
    "ends\n",
    "tarn: a function for an interpreter's frames was left by an exception, or ended its thread; such "
    "a function returns: the process ends\n",
};
static const char jumped[] =
    "tarn: a free-memory callback, an out-of-memory observer, a route's filter, a snapshot's writer, "
    "a tracker or an interpreter's function was left by longjmp, and this thread calls again; such functions return: the process ends\n";

void tn_user_code_check_left(const struct tn_user_code *code)
{
    if (code->inside)
        end_process(unwound[code->function]);
}

static ANYTHING_THERE bool is_overwritten(const struct tn_user_code *code)
{
    const volatile uintptr_t *canaries = code->canaries;
    const uintptr_t sum = sum_of(code);

    for (size_t i = 0; i < TN_USER_CODE_CANARIES; i++) {
        if (canaries[i] != sum + i * mixer)
            return true;
    }
    return false;
}

/* Whether both places are on the thread's own stack, and the first is the deeper. */
static bool is_below(uintptr_t first, uintptr_t second)
{
    return first < second && tn_stack_is_own(first) && tn_stack_is_own(second);
}

/* The function whose frame an address of the stack is in. */
struct owner {
    uintptr_t address;
    uintptr_t end;      /* the lowest address of the frame seen last, */
    uintptr_t function; /* and its function */
    bool is_known;
};

/* The frame seen last reaches up to the lowest address of this one. */
static _Unwind_Reason_Code see_frame(struct _Unwind_Context *frame, void *argument)
{
    struct owner *owner = argument;
    uintptr_t end = _Unwind_GetCFA(frame);

    owner->is_known = end > owner->address;
    if (owner->is_known || end < owner->end) /* that is on another stack */
        return _URC_NORMAL_STOP;
    owner->end = end;
    owner->function = _Unwind_GetRegionStart(frame);
    return _URC_NO_REASON;
}

/* Whether another function's frame is around the record by now. False, too: the frames up to there
 * are not known. For a record on the thread's own stack, above the present frame: what frames of
 * other stacks lead to may be gone. */
static ANYTHING_THERE bool is_in_other_frame(const struct tn_user_code *code)
{
    struct owner owner = {.address = (uintptr_t)code};
    uintptr_t caller = (uintptr_t)_Unwind_FindEnclosingFunction(code->caller);

    (void)_Unwind_Backtrace(see_frame, &owner);
    return owner.is_known && owner.function != caller;
}

ANYTHING_THERE void tn_user_code_check_inside(void)
{
    const struct tn_user_code *code = tn_user_code_innermost;
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    bool left = is_overwritten(code) || is_below(code->frame, frame) ||
                (is_below(frame, (uintptr_t)code) && is_in_other_frame(code));

    if (left)
        end_process(jumped);
}
