// SPDX-License-Identifier: Apache-2.0
/* Each rank gives the count and hash of its calls, and a bit for each freed block: idle or not. The
 * blocks with a bit of each rank return, in the order of their frees. All ranks decide by the same
 * bytes, so all decide the same.
 *
 * Ranks with other calls look for the first that differs: by halves, with a hash of the first calls
 * of each in every turn, and at last with the call itself.
 *
 * A turn that was left open by a time limit goes on with the bytes given first. They are read back
 * with those of the others. */
#include "share/collect.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "driver/stream.h"

enum { ASKED_MAX = 7000, BITS_BYTES = (ASKED_MAX + 7) / 8, FENCES_MAX = 1024 };

/* What a rank gives. */
struct ballot {
    uint64_t count; /* of the calls, as hash and oldest */
    uint64_t hash;
    uint64_t oldest;
    uint32_t asked; /* freed blocks that have a bit */
    unsigned char idle[BITS_BYTES];
};

_Static_assert(sizeof(struct ballot) <= TN_TOPIC_BYTES_MAX, "a ballot is one turn");

/* A fence that cannot be asked is not over: its stream may be at work. */
static bool is_over(tarn_symmetric *pool, uint32_t fence)
{
    tn_cu_event event = pool->fences[fence].event;

    return event != NULL && tn_event_query(&pool->group->device->gpu, event) == TN_EVENT_DONE;
}

/* Looks at each fence once, but for those beyond the room. */
static void fill_ballot(tarn_symmetric *pool, struct ballot *ballot)
{
    unsigned char done[FENCES_MAX] = {0}; /* 1: yes; 2: no; 0: not asked */

    TN_ASSERT(tn_lock_is_held(&pool->lock));
    *ballot = (struct ballot){.count = pool->diary.count,
                              .hash = pool->diary.hash,
                              .oldest = tn_diary_oldest(&pool->diary),
                              .asked = (uint32_t)tn_min(pool->freed_count, ASKED_MAX)};
    for (uint32_t i = 0; i < ballot->asked; i++) {
        uint32_t fence = pool->freed[i].fence;
        bool idle;

        if (fence < FENCES_MAX && done[fence] == 0)
            done[fence] = is_over(pool, fence) ? 1 : 2;
        if (fence < FENCES_MAX)
            idle = done[fence] == 1;
        else
            idle = fence == TN_FENCE_NONE || is_over(pool, fence);
        if (idle)
            ballot->idle[i / 8] |= (unsigned char)(1U << i % 8);
    }
}

/* -- Different calls -- */

struct digest {
    uint64_t known;
    uint64_t hash; /* of the first calls, as many as asked for */
};

/* Whether all ranks have the same first `count` calls. */
static tarn_status have_same(tarn_symmetric *pool, uint64_t count, uint64_t deadline_ns, bool *same)
{
    struct digest own = {.known = 0};
    const unsigned char *all;
    uint32_t step;
    tarn_status status;

    tn_lock_acquire(&pool->lock);
    own.known = tn_diary_hash_of(&pool->diary, count, &own.hash) ? 1 : 0;
    tn_lock_release(&pool->lock);
    status = tn_group_gather(pool->group, TN_TOPIC_HASH, pool->number, &own, sizeof own,
                             deadline_ns, &all, &step);
    *same = status == TARN_OK;
    for (uint32_t i = 0; *same && i < pool->group->world; i++) {
        struct digest first;
        struct digest other;

        memcpy(&first, all, sizeof first);
        memcpy(&other, &all[(size_t)i * step], sizeof other);
        *same = other.known == 1 && first.known == 1 && other.hash == first.hash;
    }
    return status;
}

static tarn_status name_call(tarn_symmetric *pool, uint64_t index, uint64_t deadline_ns)
{
    struct tn_diary_entry own = {.kind = 0};
    struct tn_diary_entry first;
    const tarn_group *group = pool->group;
    const unsigned char *all;
    char texts[2][120];
    uint32_t step;
    tarn_status status;

    tn_lock_acquire(&pool->lock);
    if (index < pool->diary.count)
        own = *tn_diary_at(&pool->diary, index);
    tn_lock_release(&pool->lock);
    status = tn_group_gather(pool->group, TN_TOPIC_CALL, pool->number, &own, sizeof own,
                             deadline_ns, &all, &step);
    if (status != TARN_OK)
        return status;
    memcpy(&first, all, sizeof first);
    for (uint32_t i = 1; i < group->world; i++) {
        struct tn_diary_entry other;

        memcpy(&other, &all[(size_t)i * step], sizeof other);
        if (other.kind == first.kind && other.hash == first.hash)
            continue;
        tn_diary_say(&first, texts[0], sizeof texts[0]);
        tn_diary_say(&other, texts[1], sizeof texts[1]);
        return tn_fail(TARN_ERR_WRONG_STATE,
                       "the ranks of the group '%s' have made different calls of the symmetric "
                       "pool: as call %llu, rank 0 %s, and rank %u %s",
                       group->board.group, (unsigned long long)index, texts[0], i, texts[1]);
    }
    return tn_fail(TARN_ERR_WRONG_STATE,
                   "the ranks of the group '%s' have made different calls of the symmetric pool",
                   group->board.group);
}

/* The first call that differs lies between the calls that all know. */
static tarn_status find_difference(tarn_symmetric *pool, uint64_t oldest, uint64_t count,
                                   uint64_t deadline_ns)
{
    uint64_t same_count = oldest;
    uint64_t other_count = count + 1; /* the shortest diary's end may be where they part */
    bool same = false;
    tarn_status status = TARN_OK;

    if (oldest <= count)
        status = have_same(pool, oldest, deadline_ns, &same);
    if (status == TARN_OK && !same)
        return tn_fail(TARN_ERR_WRONG_STATE,
                       "the ranks of the group '%s' have made different calls of the symmetric "
                       "pool, before the last %d",
                       pool->group->board.group, (int)TN_DIARY_KEPT - 1);
    while (status == TARN_OK && other_count - same_count > 1) {
        uint64_t middle = same_count + (other_count - same_count) / 2;

        status = have_same(pool, middle, deadline_ns, &same);
        if (same)
            same_count = middle;
        else
            other_count = middle;
    }
    return status == TARN_OK ? name_call(pool, same_count, deadline_ns) : status;
}

/* -- The collective -- */

/* Whether the ranks agree; the blocks that are idle for all; and the range for a search. */
static bool count_ballots(const tarn_group *group, const unsigned char *all, uint32_t step,
                          struct ballot *result, uint64_t *count)
{
    bool agree = true;

    memcpy(result, all, sizeof *result);
    *count = result->count;
    for (uint32_t i = 1; i < group->world; i++) {
        struct ballot other;

        memcpy(&other, &all[(size_t)i * step], sizeof other);
        agree = agree && other.count == result->count && other.hash == result->hash;
        *count = tn_min(*count, other.count);
        result->oldest = tn_max(result->oldest, other.oldest);
        result->asked = (uint32_t)tn_min(result->asked, other.asked);
        for (size_t j = 0; j < BITS_BYTES; j++)
            result->idle[j] &= other.idle[j];
    }
    return agree;
}

static void give_back(tarn_symmetric *pool, const struct ballot *ballot)
{
    size_t kept = 0;

    tn_lock_acquire(&pool->lock);
    TN_ASSERT(ballot->asked <= pool->freed_count);
    for (size_t i = 0; i < pool->freed_count; i++) {
        struct tn_freed freed = pool->freed[i];

        if (i >= ballot->asked || (ballot->idle[i / 8] >> i % 8 & 1) == 0) {
            pool->freed[kept++] = freed;
            continue;
        }
        pool->freed_bytes -= pool->offsets.ranges[freed.range].bytes;
        if (freed.fence != TN_FENCE_NONE)
            pool->fences[freed.fence].freed_count--;
        tn_offsets_give(&pool->offsets, freed.range);
    }
    pool->freed_count = kept;
    tn_lock_release(&pool->lock);
}

tarn_status tn_symmetric_collect(tarn_symmetric *pool, uint64_t timeout_ns)
{
    uint64_t deadline_ns = tn_group_deadline(timeout_ns);
    struct ballot ballot;
    const unsigned char *all;
    uint64_t count;
    uint32_t step;
    tarn_status status = tn_group_begin(pool->group);

    if (status != TARN_OK)
        return status;
    tn_lock_acquire(&pool->lock);
    fill_ballot(pool, &ballot);
    tn_lock_release(&pool->lock);
    status = tn_group_gather(pool->group, TN_TOPIC_COLLECTION, pool->number, &ballot, sizeof ballot,
                             deadline_ns, &all, &step);
    if (status == TARN_OK) {
        if (count_ballots(pool->group, all, step, &ballot, &count)) {
            give_back(pool, &ballot);
        } else {
            status = find_difference(pool, ballot.oldest, count, deadline_ns);
            if (status == TARN_ERR_BUSY)
                tn_group_give_up(pool->group);
        }
    }
    tn_group_end(pool->group);
    return status;
}
