// SPDX-License-Identifier: Apache-2.0
/* thread.h -- who a thread is.
 *
 * The system gives the name of a thread that has ended to the next one, so a pthread_t that was kept
 * is no identity. A number here is never given twice. Who needs to learn that a thread has ended
 * keeps its mark.
 *
 * Locking: none; any thread. */
#ifndef TARN_BASE_THREAD_H
#define TARN_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
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

struct tn_thread_mark;

/* A claim on the calling thread's mark; end it with tn_thread_mark_end. NULL when there is no memory. */
struct tn_thread_mark *tn_thread_mark_take(void);
void tn_thread_mark_end(struct tn_thread_mark *mark);

/* Whether the thread whose mark it is has ended. */
bool tn_thread_has_ended(const struct tn_thread_mark *mark);

#endif
