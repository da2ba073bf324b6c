// SPDX-License-Identifier: Apache-2.0
/* A block's watches are a list in its cold record. */
#include "claims/watch.h"

#include "base/contract.h"

void tn_watch_tell(struct tn_watch *watch, size_t index)
{
    uint64_t fresh = watch->fresh;
    size_t none = 0;

    TN_ASSERT(index < watch->capacity);
    (void)atomic_compare_exchange_strong(&watch->gone, &none, index + 1);
    (void)atomic_compare_exchange_strong(watch->word, &fresh, watch->stale);
}

void tn_watched_tell(struct tn_watched *watched)
{
    struct tn_watch *watch = watched->watch;

    TN_ASSERT(watch != NULL);
    tn_watch_tell(watch, (size_t)(watched - watch->blocks));
}

void tn_watch_skip(struct tn_watch *watch)
{
    TN_ASSERT(watch->count < watch->capacity);
    watch->blocks[watch->count].watch = watch;
    watch->count += 1;
}

void tn_watched_link(struct tn_watched *watched, struct tn_block *block)
{
    struct tn_block_cold *cold = tn_block_cold(block);

    watched->block = block;
    watched->next = cold->watches;
    watched->link = &cold->watches;
    if (watched->next != NULL)
        watched->next->link = &watched->next;
    cold->watches = watched;
}

void tn_watched_unlink(struct tn_watched *watched)
{
    TN_ASSERT(*watched->link == watched);
    *watched->link = watched->next;
    if (watched->next != NULL)
        watched->next->link = watched->link;
}

void tn_watches_note_left(struct tn_watches *watches, const struct tn_watch *watch)
{
    TN_ASSERT(watches->count > 0);
    watches->count -= 1;
    if (!watch->is_lease && !tn_replays_are_over(atomic_load(watch->replays), watch->gpu))
        watches->unwatched_stamp = tn_gpu_epoch(watch->gpu);
}

/* Tells the watches which do not keep the block; keepers: all watches. Returns whether any is
 * left. */
static bool tell_all(struct tn_watches *watches, struct tn_block *block, bool keepers)
{
    struct tn_watched *next;

    for (struct tn_watched *watched = tn_block_cold(block)->watches; watched != NULL;
         watched = next) {
        next = watched->next;
        if (watched->watch->keeps && !keepers) {
            atomic_store(&watched->watch->is_waited_for, true);
            continue;
        }
        tn_watched_unlink(watched);
        tn_watches_note_left(watches, watched->watch);
        tn_watched_tell(watched);
        /* The last write: from now on the thread that ends the watch may find it gone. */
        atomic_store(&watched->pool, NULL);
    }
    return tn_block_cold(block)->watches != NULL;
}

bool tn_watches_tell(struct tn_watches *watches, struct tn_block *block)
{
    TN_ASSERT(watches->kept_count <= watches->count); /* P25 */
    if (tn_block_watches(block) == NULL || !tell_all(watches, block, false))
        return false;
    watches->kept_count += 1;
    return true;
}

void tn_watches_forsake(struct tn_watches *watches, struct tn_block *block)
{
    if (tn_block_watches(block) != NULL)
        (void)tell_all(watches, block, true);
}

void tn_watches_break(struct tn_watches *watches, struct tn_block *block)
{
    if (tn_block_watches(block) == NULL)
        return;
    (void)tell_all(watches, block, true);
    TN_ASSERT(watches->kept_count > 0);
    watches->kept_count -= 1;
}
