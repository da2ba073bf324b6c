// SPDX-License-Identifier: Apache-2.0
/* The handler is there before the first stake, so before any lock that a child could find taken.
 *
 * Trade-offs: a child that was made without fork handlers, by _Fork() or by clone() itself, is not known. */
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
    TN_ASSERT(false); /* there is room for those who ask */
}

tarn_status tn_fork_refuse(void)
{
    return tn_fail(TARN_ERR_FORKED, "this process is a fork of one that used CUDA; call exec "
                                    "before using the GPU");
}
