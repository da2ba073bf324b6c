// SPDX-License-Identifier: Apache-2.0
/* thread.h -- the identity of a thread.
 *
 * The system gives the pthread_t of an ended thread to a new thread, so a kept pthread_t is no
 * identity. A number here is never given twice.
 *
 * Locking: none; any thread. */
#ifndef TARN_BASE_THREAD_H
#define TARN_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* The calling thread's number; not 0, and never another thread's. */
uint64_t tn_thread_id(void);

/* A word that no other thread has while this thread runs; not 0. For guesses that must cost
 * nothing, since a later thread may have the same word. */
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
