// SPDX-License-Identifier: Apache-2.0
/* thread.h -- who a thread is.
 *
 * The system gives the name of a thread that has ended to the next one, so a pthread_t that was kept
 * is no identity. A number here is never given twice.
 *
 * Locking: none; any thread. */
#ifndef TARN_BASE_THREAD_H
#define TARN_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* The calling thread's number; not 0, and never another thread's. */
uint64_t tn_thread_id(void);

/* A word that no other thread has while this one runs; not 0. For guesses that must cost nothing: a later thread may
 * have it. */
static inline uintptr_t tn_thread_word(void)
{
#ifdef __has_builtin
#if __has_builtin(__builtin_thread_pointer)
    return (uintptr_t)__builtin_thread_pointer();
#endif
#endif
    return (uintptr_t)pthread_self();
}

#endif
