// SPDX-License-Identifier: Apache-2.0
/* A change publishes the new functions, then lets both phases run out, the present one first. Threads
 * of later calls count in the other phase, so no wait lasts for ever. A thread that counts in a phase
 * late has read the new functions.
 *
 * Source: the two phases of sleepable RCU, P. E. McKenney (Linux, srcu.c). */
#include "pools/interpreter.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/host.h"
#include "base/lock.h"
#include "base/user_code.h"

enum { NAME_BYTES = TN_TITLE_BYTES_MAX + 1 };

/* Whether the thread is in such a function, also by way of others. */
static bool is_inside(void)
{
    for (const struct tn_user_code *code = tn_user_code_innermost; code != NULL;
         code = code->outer) {
        if (code->function == TN_USER_INTERPRETER)
            return true;
    }
    return false;
}

/* Waits until all threads have left functions from before this call. */
static void await_leaving(struct tn_interpreter *interpreter)
{
    for (int i = 0; i < 2; i++) {
        const unsigned phase = atomic_fetch_xor(&interpreter->phase, 1) & 1;

        while (atomic_load(&interpreter->inside[phase]) > 0)
            (void)sched_yield();
    }
}

tarn_status tn_interpreter_set(struct tn_interpreter *interpreter,
                               const struct tn_interpreter_functions *functions)
{
    struct tn_interpreter_functions *made = NULL;

    TN_ASSERT(tn_lock_none_held());
    if (is_inside())
        return tn_fail(TARN_ERR_WRONG_STATE,
                       "the thread is in a function for an interpreter's frames");
    if (functions != NULL) {
        made = tn_host_alloc(1, sizeof *made);
        if (made == NULL)
            return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for an interpreter's functions");
        *made = *functions;
    }
    if (atomic_exchange(&interpreter->changing, true)) {
        tn_host_free(made);
        return tn_fail(TARN_ERR_BUSY, "another thread changes the interpreter's functions");
    }
    made = atomic_exchange(&interpreter->functions, made);
    await_leaving(interpreter);
    tn_host_free(made);
    atomic_store(&interpreter->changing, false);
    return TARN_OK;
}

void tn_interpreter_drop(struct tn_interpreter *interpreter)
{
    TN_ASSERT(atomic_load(&interpreter->inside[0]) + atomic_load(&interpreter->inside[1]) == 0);
    tn_host_free(atomic_exchange(&interpreter->functions, NULL));
}

static TN_USER_CODE_ON_STACK uint64_t call_token(const struct tn_interpreter_functions *functions)
{
    uint64_t token;
    TN_USER_CODE(code);

    tn_user_code_enter(&code, TN_USER_INTERPRETER);
    token = functions->token(functions->user);
    tn_user_code_leave(&code);
    return token;
}

static TN_USER_CODE_ON_STACK void call_name(const struct tn_interpreter_functions *functions,
                                            uint64_t token, char *name)
{
    TN_USER_CODE(code);

    tn_user_code_enter(&code, TN_USER_INTERPRETER);
    functions->name(token, name, NAME_BYTES, functions->user);
    tn_user_code_leave(&code);
}

/* The title of a new token. */
static uint32_t enter_name(const struct tn_interpreter_functions *functions, uint64_t token,
                           struct tn_stacks *stacks)
{
    struct tn_title title;
    char name[NAME_BYTES] = "";

    if (functions->name != NULL)
        call_name(functions, token, name);
    name[NAME_BYTES - 1] = '\0';
    if (name[0] == '\0')
        (void)snprintf(name, sizeof name, "0x%" PRIx64, token);
    tn_title_make_frame(&title, token, name);
    return tn_title_enter(stacks, &title);
}

static uint32_t title_of(const struct tn_interpreter_functions *functions, struct tn_stacks *stacks)
{
    const uint64_t token = call_token(functions);
    uint32_t title;

    if (token == 0)
        return 0;
    title = tn_title_find_frame(stacks, token);
    return title != 0 ? title : enter_name(functions, token, stacks);
}

uint32_t tn_interpreter_title(struct tn_interpreter *interpreter, struct tn_stacks *stacks)
{
    const struct tn_interpreter_functions *functions;
    uint32_t title = 0;
    unsigned phase;
    int cancel;

    if (atomic_load_explicit(&interpreter->functions, memory_order_relaxed) == NULL || is_inside())
        return 0;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    phase = atomic_load(&interpreter->phase) & 1;
    atomic_fetch_add(&interpreter->inside[phase], 1);
    functions = atomic_load(&interpreter->functions);
    if (functions != NULL)
        title = title_of(functions, stacks);
    atomic_fetch_sub(&interpreter->inside[phase], 1);
    (void)pthread_setcancelstate(cancel, NULL);
    return title;
}
