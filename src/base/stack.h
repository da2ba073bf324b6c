// SPDX-License-Identifier: Apache-2.0
/* stack.h -- the calling thread's stack, as an array of frames.
 *
 * A frame is a word. Its top bit says which kind it has:
 *
 *     0   an address behind a call, innermost first: the call is at the address less one
 *     1   a title (base/title.h): bits 0 to 31 are its id, bits 32 to 39 its purpose. Titles stand
 *         before addresses
 *
 * Addresses of programs never have the top bit.
 *
 * How deep a stack is looked into is a level, for the levels differ in what they cost:
 *
 *     level    frames, and what they need
 *     NONE     no addresses
 *     CALLER   the address that the public function returns to
 *     FRAMES   the chain of frame pointers, in code that keeps them: 1 ns a frame
 *     UNWIND   what unwind tables say, which nearly all code has: some 100 ns a frame
 *
 * Frame pointers lead from each frame to an outer frame. A chain is followed while it rises, within
 * the thread's own stack, from one aligned place to the next. So no read faults, whatever a function
 * without frame pointers has left in the register. On a stack that the thread was not begun with,
 * of a signal handler or a coroutine, the caller is all.
 *
 * Unwind tables are read by _Unwind_Backtrace of libgcc. The library needs libgcc anyway, for its
 * end of threads; each gcc has it, and clang on Linux links it. Code that has no tables ends a stack.
 *
 * The first FRAMES in a thread asks the C library for the bounds of the stack. The C library then
 * allocates memory, and for the first thread it reads /proc/self/maps. An allocator that calls back
 * meanwhile finds the caller alone. Later calls allocate nothing and take no lock.
 *
 * Locking: none; any thread. Not from a handler of a signal, where a thread has not called before. */
#ifndef TARN_BASE_STACK_H
#define TARN_BASE_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TN_STACK_FRAMES_MAX = 64 };

/* The bit of a frame that is a title. */
#define TN_STACK_TITLE (UINT64_C(1) << 63)

enum tn_stack_title {
    TN_STACK_LABEL = 0,   /* of the allocation: see pools/stacking.h */
    TN_STACK_INTERPRETER, /* the frame of an interpreter: see pools/interpreter.h */
};

static inline uint64_t tn_stack_title(enum tn_stack_title what, uint32_t id)
{
    return TN_STACK_TITLE | (uint64_t)what << 32 | id;
}

/* The id of the title, where the frame is a title for this purpose; else 0. */
static inline uint32_t tn_stack_title_of(uint64_t frame, enum tn_stack_title what)
{
    return frame >> 32 == tn_stack_title(what, 0) >> 32 ? (uint32_t)frame : 0;
}

enum tn_stack_level { TN_STACK_NONE, TN_STACK_CALLER, TN_STACK_FRAMES, TN_STACK_UNWIND };

struct tn_stack_settings {
    enum tn_stack_level level;
    uint32_t skip; /* addresses left out, from the caller on: the frames of an adapter */
    uint32_t most; /* frames, those that are there included; at most TN_STACK_FRAMES_MAX */
};

struct tn_stack {
    size_t count;
    uint64_t frames[TN_STACK_FRAMES_MAX]; /* of which count are written */
};

/* Two arguments of tn_stack_take, in a public function: its caller, and its own frame, which the
 * function must keep for this. The second is for FRAMES alone; elsewhere it may be NULL. */
#define TN_STACK_CALLER_HERE __builtin_return_address(0)
#define TN_STACK_FRAME_HERE __builtin_frame_address(0)

/* Takes the stack from the caller on: frames of the library are left out. Adds them to the frames
 * that are there. */
void tn_stack_take(struct tn_stack *stack, const struct tn_stack_settings *settings,
                   const void *caller, const void *frame);

/* Whether the address is on the stack that the thread was begun with. False, too: its bounds are
 * not known. */
bool tn_stack_is_own(uintptr_t address);

#endif
