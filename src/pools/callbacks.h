// SPDX-License-Identifier: Apache-2.0
/* callbacks.h -- a list of user functions, called without a lock and removable at any time.
 *
 * Locking: the lock given to init, which guards the list; callers hold none. */
#ifndef TARN_POOLS_CALLBACKS_H
#define TARN_POOLS_CALLBACKS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/lock.h"
#include "tarn/types.h"

/* Any function; its caller casts it back to the added type. */
typedef void (*tn_function)(void);

struct tn_callback {
    struct tn_callback *next; /* guarded by the lock */
    tn_function function;     /* immutable */
    void *user;               /* immutable */
    unsigned mask;            /* immutable: what it is called for; the adder's */
    uint64_t id;              /* immutable; rising in the list */
    uint32_t running;         /* threads inside it; guarded by the lock */
    bool removed;             /* guarded by the lock; its last thread frees the record */
};

struct tn_callbacks {
    struct tn_lock *lock;
    struct tn_callback *first;    /* oldest first */
    atomic_uint_fast64_t last_id; /* written under the lock */
    atomic_uint mask;             /* of all; written under the lock */
    bool inner;                   /* called within other callbacks, too; immutable */
    pthread_cond_t left;          /* a thread has left a callback */
};

/* inner: a thread inside a callback of another list may enter this list's. */
void tn_callbacks_init(struct tn_callbacks *callbacks, struct tn_lock *lock, bool inner);
void tn_callbacks_fini(struct tn_callbacks *callbacks);

/* HOST_MEMORY; WRONG_STATE: already in the list */
TARN_MUST_CHECK tarn_status tn_callbacks_add(struct tn_callbacks *callbacks, tn_function function,
                                             void *user, unsigned mask);

/* What any of them is called for. */
static inline unsigned tn_callbacks_mask(const struct tn_callbacks *callbacks)
{
    return atomic_load_explicit(&callbacks->mask, memory_order_relaxed);
}

/* Waits until no other thread is inside the callback. WRONG_STATE: not in the list */
TARN_MUST_CHECK tarn_status tn_callbacks_remove(struct tn_callbacks *callbacks,
                                                tn_function function, void *user);

/* Whether the thread is inside a callback of an inner list; or of another list, for lists that are
 * not inner. */
bool tn_callbacks_are_entered(const struct tn_callbacks *callbacks);

/* The id of the newest. */
static inline uint64_t tn_callbacks_last(const struct tn_callbacks *callbacks)
{
    return atomic_load(&callbacks->last_id);
}

/* Enters the first callback behind the id (0: the first of all), to be called and left. NULL: none,
 * or this thread is inside a callback of such a list, or of an inner one. */
struct tn_callback *tn_callbacks_enter(struct tn_callbacks *callbacks, uint64_t behind_id);
void tn_callbacks_leave(struct tn_callbacks *callbacks, struct tn_callback *callback);

#endif
