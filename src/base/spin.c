// SPDX-License-Identifier: Apache-2.0
#include "base/spin.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "base/clock.h"

/* Pauses take some microseconds, and as many times more are lent to other threads. A nap takes 70: the
 * system's timers are that coarse. */
enum { PAUSES = 200, YIELDS = 100 };

static void pause_a_little(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void tn_spin_pause(unsigned rounds)
{
    const struct timespec nap = {0, 20000};
    int cancel;

    if (rounds < PAUSES) {
        pause_a_little();
        return;
    }
    if (rounds < PAUSES + YIELDS) {
        (void)sched_yield();
        return;
    }
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* nanosleep heeds cancels */
    (void)nanosleep(&nap, NULL);
    (void)pthread_setcancelstate(cancel, NULL);
}

bool tn_spin_acquire_for(struct tn_spin *lock, uint64_t wait_ns)
{
    const uint64_t begun = tn_clock_nanoseconds(CLOCK_MONOTONIC);

    for (unsigned looks = 0; !tn_spin_try(lock); looks++) {
        if (tn_clock_nanoseconds(CLOCK_MONOTONIC) - begun >= wait_ns)
            return false;
        tn_spin_pause(looks);
    }
    TN_ASSERT(tn_spin_is_taken(lock));
    return true;
}
