// SPDX-License-Identifier: Apache-2.0
/* A frame is two words, on x86-64 and on aarch64 alike: where the next outer frame is, and the
 * address that the function returns to.
 *
 * A thread's bounds are words of its own, at a fixed distance from the thread's others: to reach
 * them is never to allocate, wherever the library was loaded. All memory from a frame to the upper
 * bound is the stack's, and mapped. The lower bound only tells whether a frame is on this stack.
 *
 * Trade-offs: an alternate stack could be followed, too, up to bounds that the kernel tells; this
 * takes a system call each time. A function without frame pointers hides its caller, where the
 * function leaves the register alone; a function that uses the register hides all frames around. */
#include "base/stack.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unwind.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/hot.h"

/* Reads what a compiler says nothing of, and what sanitizers may say is not to be read. */
#define ANYTHING_THERE __attribute__((noinline, no_sanitize("address", "thread")))

/* On other processors a frame is something else, and the caller is all. */
#if defined(__x86_64__) || defined(__aarch64__)
enum { HAS_FRAMES = 1 };
#else
enum { HAS_FRAMES = 0 };
#endif

struct frame {
    uintptr_t outer;
    uintptr_t returns;
};

/* A first thread without a limit is given all addresses down to the next mapping. Others may get
 * mapped there later. */
#define STACK_BYTES_MAX TN_GIB

/* No code is on the first page; addresses of programs have no top bit. */
enum { CODE_FIRST = 4096 };

/* The stack that the thread was begun with. Empty: not asked for, or not known. */
static _Thread_local uintptr_t own_begin __attribute__((tls_model("initial-exec")));
static _Thread_local uintptr_t own_end __attribute__((tls_model("initial-exec")));
static _Thread_local bool is_asked __attribute__((tls_model("initial-exec")));

/* The C library may open a file, where a cancelled thread would end. */
static TN_RARE void find_own(void)
{
    pthread_attr_t attributes;
    void *begin = NULL;
    size_t bytes = 0;
    int cancel;

    is_asked = true;
    atomic_signal_fence(memory_order_seq_cst);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &begin, &bytes) == 0) {
            const uintptr_t end = (uintptr_t)begin + bytes;

            own_begin = end - tn_min(bytes, STACK_BYTES_MAX);
            atomic_signal_fence(memory_order_seq_cst); /* a handler never sees an end alone */
            own_end = end;
        }
        (void)pthread_attr_destroy(&attributes);
    }
    (void)pthread_setcancelstate(cancel, NULL);
}

bool tn_stack_is_own(uintptr_t address)
{
    if (TN_UNLIKELY(!is_asked))
        find_own();
    TN_ASSERT(own_begin <= own_end);
    return address >= own_begin && address < own_end;
}

static inline bool is_code(uintptr_t address)
{
    return address - CODE_FIRST < TN_STACK_TITLE - CODE_FIRST;
}

/* Without the signature that a processor of ARM's may have put into the address. Others take the
 * instruction for none. */
static inline uintptr_t unsigned_address(uintptr_t address)
{
#if defined(__aarch64__)
    register uintptr_t link __asm__("x30") = address;

    __asm__("hint #7" : "+r"(link)); /* xpaclri */
    return link;
#else
    return address;
#endif
}

/* What is still wanted of a stack. */
struct wanted {
    size_t skip;
    size_t most;
};

/* Adds an address. False: there are enough. */
static inline bool add(struct tn_stack *stack, struct wanted *wanted, uintptr_t address)
{
    if (TN_UNLIKELY(wanted->skip > 0)) {
        wanted->skip -= 1;
        return true;
    }
    stack->frames[stack->count] = address;
    stack->count += 1;
    return stack->count < wanted->most;
}

/* Adds what the frames around a frame return to, as far as the chain is whole. */
static ANYTHING_THERE void follow(struct tn_stack *stack, struct wanted wanted, uintptr_t at)
{
    const uintptr_t last = own_end - sizeof(struct frame);

    TN_ASSERT(at >= own_begin && at < own_end);
    for (;;) {
        const uintptr_t outer = ((const struct frame *)at)->outer;
        uintptr_t returns;

        if (outer <= at || outer > last || outer % _Alignof(struct frame) != 0)
            return;
        at = outer;
        returns = unsigned_address(((const struct frame *)at)->returns);
        if (!is_code(returns) || !add(stack, &wanted, returns))
            return;
    }
}

/* Whether a frame can be at this place of the thread's own stack. */
static bool is_frame(const void *frame)
{
    const uintptr_t at = (uintptr_t)frame;

    return HAS_FRAMES && at % _Alignof(struct frame) == 0 && tn_stack_is_own(at) &&
           own_end - at >= sizeof(struct frame);
}

struct unwound {
    struct tn_stack *stack;
    struct wanted wanted;
    uintptr_t caller;
    bool is_found;       /* the caller was seen, */
    unsigned seen_count; /* behind so many frames of the library */
};

static _Unwind_Reason_Code see_frame(struct _Unwind_Context *context, void *argument)
{
    struct unwound *unwound = argument;
    int is_before = 0; /* where a signal came, the address is not behind a call */
    const uintptr_t address = _Unwind_GetIPInfo(context, &is_before);

    if (!unwound->is_found) {
        unwound->is_found = address == unwound->caller; /* which has been added */
        unwound->seen_count += 1;
        return unwound->seen_count < TN_STACK_FRAMES_MAX ? _URC_NO_REASON : _URC_NORMAL_STOP;
    }
    if (!is_code(address) || !add(unwound->stack, &unwound->wanted, address + (is_before != 0)))
        return _URC_NORMAL_STOP;
    return _URC_NO_REASON;
}

void tn_stack_take(struct tn_stack *stack, const struct tn_stack_settings *settings,
                   const void *caller, const void *frame)
{
    struct wanted wanted = {.skip = settings->skip, .most = settings->most};
    struct unwound unwound = {.stack = stack, .caller = unsigned_address((uintptr_t)caller)};

    TN_ASSERT(settings->most <= TN_STACK_FRAMES_MAX && stack->count <= TN_STACK_FRAMES_MAX);
    if (settings->level == TN_STACK_NONE || stack->count >= wanted.most ||
        !add(stack, &wanted, unwound.caller) || settings->level == TN_STACK_CALLER)
        return;
    if (settings->level == TN_STACK_UNWIND) {
        unwound.wanted = wanted;
        (void)_Unwind_Backtrace(see_frame, &unwound);
    } else if (is_frame(frame)) {
        follow(stack, wanted, (uintptr_t)frame);
    }
}
