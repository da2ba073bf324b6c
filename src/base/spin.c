// SPDX-License-Identifier: Apache-2.0
#include "base/spin.h"

#include <pthread.h>
#include <time.h>

#include "base/clock.h"

enum { ROUNDS = 200 }; /* some microseconds */

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

    if (rounds < ROUNDS) {
        pause_a_little();
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
