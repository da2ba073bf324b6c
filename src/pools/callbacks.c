// SPDX-License-Identifier: Apache-2.0
/* A caller walks the list by ids and enters one callback after the other. The list may therefore
 * change between two calls. A record which is removed while threads are inside it goes with the
 * last of them. A removal waits for other threads, but never for its own: a callback may remove
 * itself.
 *
 * Trade-offs: a thread is inside one callback at most, and within it inside one of an inner list.
 * Allocations in a callback therefore call no callback. */
#include "pools/callbacks.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"

/* The first: of lists that are not inner. */
static _Thread_local const struct tn_callback *inside[2];

void tn_callbacks_init(struct tn_callbacks *callbacks, struct tn_lock *lock, bool inner)
{
    *callbacks = (struct tn_callbacks){.lock = lock, .inner = inner};
    (void)pthread_cond_init(&callbacks->left, NULL);
}

void tn_callbacks_fini(struct tn_callbacks *callbacks)
{
    while (callbacks->first != NULL) {
        struct tn_callback *next = callbacks->first->next;

        TN_ASSERT(callbacks->first->running == 0);
        tn_host_free(callbacks->first);
        callbacks->first = next;
    }
    (void)pthread_cond_destroy(&callbacks->left);
}

/* The link to the callback, or to the end of the list. */
static struct tn_callback **find(struct tn_callbacks *callbacks, tn_function function,
                                 const void *user)
{
    struct tn_callback **link = &callbacks->first;

    TN_ASSERT(tn_lock_is_held(callbacks->lock));
    while (*link != NULL && ((*link)->function != function || (*link)->user != user))
        link = &(*link)->next;
    return link;
}

/* Of those in the list now. */
static void renew_mask(struct tn_callbacks *callbacks)
{
    unsigned mask = 0;

    TN_ASSERT(tn_lock_is_held(callbacks->lock));
    for (const struct tn_callback *callback = callbacks->first; callback != NULL;
         callback = callback->next)
        mask |= callback->mask;
    atomic_store(&callbacks->mask, mask);
}

tarn_status tn_callbacks_add(struct tn_callbacks *callbacks, tn_function function, void *user,
                             unsigned mask)
{
    struct tn_callback *made = tn_host_alloc(1, sizeof *made);
    struct tn_callback **link;
    bool is_new;

    TN_ASSERT(tn_lock_none_held());
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a callback");
    made->function = function;
    made->user = user;
    made->mask = mask;
    tn_lock_acquire(callbacks->lock);
    link = find(callbacks, function, user);
    is_new = *link == NULL;
    if (is_new) {
        made->id = atomic_fetch_add(&callbacks->last_id, 1) + 1;
        *link = made;
        renew_mask(callbacks);
    }
    tn_lock_release(callbacks->lock);
    if (is_new)
        return TARN_OK;
    tn_host_free(made);
    return tn_fail(TARN_ERR_WRONG_STATE,
                   "this function is registered already, with this user data");
}

tarn_status tn_callbacks_remove(struct tn_callbacks *callbacks, tn_function function, void *user)
{
    struct tn_callback **link;
    struct tn_callback *callback;
    const char *late =
        "tarn: the removal of a callback or observer has waited 5 s for its call on another thread; "
        "such functions return: if one was left by longjmp, the wait does not end\n";
    uint32_t own;

    TN_ASSERT(tn_lock_none_held());
    tn_lock_acquire(callbacks->lock);
    link = find(callbacks, function, user);
    callback = *link;
    if (callback == NULL) {
        tn_lock_release(callbacks->lock);
        return tn_fail(TARN_ERR_WRONG_STATE, "this function is not registered with this user data");
    }
    *link = callback->next;
    renew_mask(callbacks);
    own = inside[callbacks->inner] == callback;
    callback->running += 1; /* keeps the record while others leave */
    callback->removed = true;
    while (callback->running > 1 + own)
        tn_lock_await(callbacks->lock, &callbacks->left, &late);
    TN_ASSERT(*find(callbacks, function, user) != callback);
    callback->running -= 1;
    tn_lock_release(callbacks->lock);
    if (own == 0)
        tn_host_free(callback);
    return TARN_OK;
}

bool tn_callbacks_are_entered(const struct tn_callbacks *callbacks)
{
    return inside[callbacks->inner] != NULL;
}

struct tn_callback *tn_callbacks_enter(struct tn_callbacks *callbacks, uint64_t behind_id)
{
    struct tn_callback *callback;

    TN_ASSERT(tn_lock_none_held());
    if (inside[callbacks->inner] != NULL || inside[true] != NULL)
        return NULL;
    tn_lock_acquire(callbacks->lock);
    callback = callbacks->first;
    while (callback != NULL && callback->id <= behind_id)
        callback = callback->next;
    if (callback != NULL)
        callback->running += 1;
    tn_lock_release(callbacks->lock);
    inside[callbacks->inner] = callback;
    TN_ASSERT(callback == NULL || callback->id > behind_id);
    return callback;
}

void tn_callbacks_leave(struct tn_callbacks *callbacks, struct tn_callback *callback)
{
    bool is_last;

    TN_ASSERT(inside[callbacks->inner] == callback);
    inside[callbacks->inner] = NULL;
    tn_lock_acquire(callbacks->lock);
    TN_ASSERT(callback->running > 0);
    callback->running -= 1;
    is_last = callback->removed && callback->running == 0; /* the callback removed itself */
    (void)pthread_cond_broadcast(&callbacks->left);
    tn_lock_release(callbacks->lock);
    if (is_last)
        tn_host_free(callback);
}
