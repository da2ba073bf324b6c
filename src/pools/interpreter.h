// SPDX-License-Identifier: Apache-2.0
/* interpreter.h -- frames of an interpreter, by functions of the program's: a number for the present
 * frame of the thread, and a name for each number.
 *
 * The first stack with a number asks for its name, which is a title of the history from then on. So
 * the name outlives the process.
 *
 * Functions are called without locks. The thread is not cancelled meanwhile. Allocations of these
 * functions have no frame of the interpreter.
 *
 * Locking: none; any thread. */
#ifndef TARN_POOLS_INTERPRETER_H
#define TARN_POOLS_INTERPRETER_H

#include "base/title.h"
#include "tarn/history.h"

/* Immutable. */
struct tn_interpreter_functions {
    tarn_frame_token token;
    tarn_frame_name name; /* NULL: names are numbers */
    void *user;
};

/* Zeroed: none. */
struct tn_interpreter {
    struct tn_interpreter_functions *_Atomic functions; /* NULL: none */
    /* Threads that are in functions: each counts in the phase in which it came. */
    atomic_uint phase;
    atomic_uint inside[2];
    atomic_bool changing; /* a thread waits until the functions before are left */
};

/* functions: copied; NULL: none. Waits until no thread is in the functions before.
 *   HOST_MEMORY
 *   BUSY         Another thread changes them.
 *   WRONG_STATE  This thread is in a function of them. */
TARN_MUST_CHECK tarn_status tn_interpreter_set(struct tn_interpreter *interpreter,
                                               const struct tn_interpreter_functions *functions);
void tn_interpreter_drop(struct tn_interpreter *interpreter); /* nobody uses it any more */

/* The title of the calling thread's frame; 0: none. */
uint32_t tn_interpreter_title(struct tn_interpreter *interpreter, struct tn_stacks *stacks);

#endif
