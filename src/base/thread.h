// SPDX-License-Identifier: Apache-2.0
/* thread.h -- the identity of a thread.
 *
 * The system gives the pthread_t of an ended thread to a new thread, so a kept pthread_t is no
 * identity. A number here is never given twice. To learn of a thread's end, keep its mark.
 *
 * Locking: none; any thread. */
#ifndef TARN_BASE_THREAD_H
#define TARN_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
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

struct tn_thread_mark;

/* A claim on the calling thread's mark; end it with tn_thread_mark_end. NULL when there is no memory. */
struct tn_thread_mark *tn_thread_mark_take(void);
void tn_thread_mark_end(struct tn_thread_mark *mark);

/* Whether the thread of this mark has ended. */
bool tn_thread_has_ended(const struct tn_thread_mark *mark);

#endif
