// SPDX-License-Identifier: Apache-2.0
/* quiet.h -- a CPU to measure on.
 *
 * Two hardware threads share a core, and in a virtual machine the other one is often a stranger's: while that one
 * works everything here takes up to twice as long, for milliseconds or minutes. So whoever measures on one thread goes
 * to a CPU where a short walk through cached memory is as fast as on any, and leaves it when it is much slower than the
 * fastest ever seen.
 * Cases that are compared are measured on one CPU, each round of samples; what the figures say of them is the same.
 *
 * For one thread at a time. */
#ifndef TARN_BENCH_QUIET_H
#define TARN_BENCH_QUIET_H

#include <pthread.h>
#include <stdbool.h>

/* Whether CPUs are chosen at all; not unless this says so. Not for the simulated driver: the threads of its GPU would
 * be put on the same one. */
void bench_quiet_choose(bool chosen);

void bench_quiet_begin(
    void); /* puts the calling thread on the quietest of the CPUs that the process may use */
/* The same where the present one is slower than it was then. False: it is, whether there was a quieter one or not. */
bool bench_quiet_keep(void);
void bench_quiet_end(void); /* lets the thread run on all of them again */

/* A thread that may run on all of them, whatever the caller's may; it is the caller's to join. */
void bench_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
