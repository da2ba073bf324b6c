// SPDX-License-Identifier: Apache-2.0
/* clock.h -- the time, in nanoseconds of a clock of the system. */
#ifndef TARN_BASE_CLOCK_H
#define TARN_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC, or CLOCK_REALTIME for the time since 1970. */
static inline uint64_t tn_clock_nanoseconds(clockid_t clock)
{
    struct timespec time;

    (void)clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

#endif
