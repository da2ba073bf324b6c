// SPDX-License-Identifier: Apache-2.0
/* The fork handler is installed before the first stake, and therefore before any lock that a child
 * could find taken.
 *
 * Trade-offs: _Fork() and clone() run no fork handlers, so a child made by either is not
 * recognised. */
#include "base/fork.h"

#include <pthread.h>
#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"

enum { ACTS_MAX = 4 };

typedef void (*fork_act)(void);

atomic_bool tn_fork_flag;

static pthread_once_t watch_once = PTHREAD_ONCE_INIT;
static atomic_uint_fast64_t stakes;
static _Atomic(fork_act) acts[ACTS_MAX];

static void note_child(void)
{
    if (atomic_load(&stakes) == 0)
        return;
    atomic_store(&tn_fork_flag, true);
    for (size_t i = 0; i < ACTS_MAX && atomic_load(&acts[i]) != NULL; i++)
        atomic_load (&acts[i])();
}

static void watch(void)
{
    (void)pthread_atfork(NULL, NULL, note_child);
}

void tn_fork_stake(void)
{
    (void)pthread_once(&watch_once, watch);
    atomic_fetch_add(&stakes, 1);
}

void tn_fork_unstake(void)
{
    atomic_fetch_sub(&stakes, 1);
}

void tn_fork_tell(void (*act)(void))
{
    for (size_t i = 0; i < ACTS_MAX; i++) {
        fork_act none = NULL;

        if (atomic_compare_exchange_strong(&acts[i], &none, act) || none == act)
            return;
    }
    TN_ASSERT(false); /* acts has room for all callers */
}

tarn_status tn_fork_refuse(void)
{
    return tn_fail(TARN_ERR_FORKED, "this process is a fork of one that used CUDA; call exec "
                                    "before using the GPU");
}
