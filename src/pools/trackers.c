// SPDX-License-Identifier: Apache-2.0
/* Trade-offs: a thread looks through the whole queue for its own events. */
#include "pools/trackers.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/thread.h"
#include "base/user_code.h"
#include "driver/open.h"
#include "pools/pool.h"

tarn_status tn_tracker_add(tarn_device *device, tarn_tracker tracker, void *user, unsigned events)
{
    return tn_callbacks_add(&device->trackers.callbacks, (tn_function)tracker, user, events);
}

/* Calls a tracker with the thread's mode relaxed: else its calls might break a capture. Where the
 * driver refuses that, a broken capture is better than untold memory. */
static TN_USER_CODE_ON_STACK void
call_tracker(tarn_device *device, const struct tn_callback *tracker, const tarn_tracked *what)
{
    const struct tn_stacking_call call = tn_stacking_leave_call();
    const int mode = tn_gpu_relax(&device->gpu);
    TN_USER_CODE(code);

    TN_ASSERT(tn_lock_none_held());
    tn_gpus_enter_user_code();
    tn_user_code_enter(&code, TN_USER_TRACKER);
    ((tarn_tracker)tracker->function)(device, what, tracker->user);
    tn_user_code_leave(&code);
    tn_stacking_resume_call(call);
    tn_gpus_leave_user_code();
    if (!tn_is_forked())
        tn_gpu_unrelax(&device->gpu, mode);
}

/* Tells all trackers of the event, but none registered meanwhile: a tracker may register itself anew.
 * The thread's last error stays. */
static void tell(tarn_device *device, tarn_tracked *what)
{
    struct tn_trackers *trackers = &device->trackers;
    struct tn_error_sentence sentence;
    const uint64_t last = tn_callbacks_last(&trackers->callbacks);
    struct tn_callback *tracker = tn_callbacks_enter(&trackers->callbacks, 0);

    what->size = sizeof *what;
    what->lost_count = atomic_load(&trackers->lost);
    tn_error_keep(&sentence);
    while (tracker != NULL) {
        const uint64_t id = tracker->id;

        if ((tracker->mask & (unsigned)what->event) != 0 && id <= last)
            call_tracker(device, tracker, what);
        if (tn_is_forked())
            return;
        tn_callbacks_leave(&trackers->callbacks, tracker);
        tracker = tn_callbacks_enter(&trackers->callbacks, id);
    }
    tn_error_put_back(&sentence);
}

static tarn_tracked describe(const struct tn_chunk *chunk, tarn_tracked_event event)
{
    return (tarn_tracked){.event = event,
                          .address = (void *)(uintptr_t)tn_chunk_address(chunk),
                          .bytes = chunk->bytes};
}

static enum tn_notice notice_of(const struct tn_chunk *chunk)
{
    return (enum tn_notice)(atomic_load(&chunk->notice) & TN_NOTICE_BITS);
}

/* GIVEN to all trackers of this moment. */
static int given_now(const struct tn_trackers *trackers)
{
    const uint64_t last = tn_callbacks_last(&trackers->callbacks);

    return (int)((last * (TN_NOTICE_BITS + 1) + TN_NOTICE_GIVEN) & INT32_MAX);
}

/* Whether trackers know of the chunk, or may have found it in a snapshot. */
static bool is_known(const struct tn_trackers *trackers, const struct tn_chunk *chunk)
{
    return chunk->notice == TN_NOTICE_NONE ||
           (notice_of(chunk) == TN_NOTICE_GIVEN && chunk->notice != given_now(trackers));
}

static void put_notice(struct tn_trackers *trackers, struct tn_chunk *chunk, int notice)
{
    const int before = atomic_load(&chunk->notice);

    TN_ASSERT(tn_spin_is_taken(&trackers->lock));
    TN_ASSERT(before == TN_NOTICE_NONE || atomic_load(&trackers->noticed) > 0);
    atomic_fetch_add(&trackers->noticed,
                     (uint64_t)(notice != TN_NOTICE_NONE) - (before != TN_NOTICE_NONE));
    atomic_fetch_add(&trackers->busy,
                     (uint64_t)(notice == TN_NOTICE_BUSY) - (before == TN_NOTICE_BUSY));
    atomic_store(&chunk->notice, notice);
}

/* Behind the telling. */
static void end_busy(struct tn_trackers *trackers, struct tn_chunk *chunk, int notice)
{
    tn_spin_acquire(&trackers->lock);
    TN_ASSERT(chunk->notice == TN_NOTICE_BUSY);
    put_notice(trackers, chunk, notice);
    tn_spin_release(&trackers->lock);
}

/* False: the event is lost. */
static bool enqueue(tarn_device *device, const struct tn_tracker_event *event)
{
    struct tn_trackers *trackers = &device->trackers;

    TN_ASSERT(tn_spin_is_taken(&trackers->lock) && trackers->queued <= TN_TRACKER_QUEUE);
    if (trackers->queued == TN_TRACKER_QUEUE || tn_trackers_are_deaf(device)) {
        atomic_fetch_add(&trackers->lost, 1);
        return false;
    }
    trackers->queue[trackers->queued] = *event;
    trackers->queue[trackers->queued].thread = tn_thread_word();
    trackers->queued += 1;
    atomic_fetch_add(&trackers->due, 1);
    return true;
}

void tn_trackers_note_mapped(tarn_device *device, struct tn_chunk *chunk)
{
    struct tn_trackers *trackers = &device->trackers;
    const struct tn_tracker_event event = {.chunk = chunk,
                                           .what = describe(chunk, TARN_TRACKED_MAPPED)};

    if (!tn_trackers_want(device, TARN_TRACKED_MAPPED))
        return;
    tn_spin_acquire(&trackers->lock);
    TN_ASSERT(chunk->notice == TN_NOTICE_NONE);
    if (enqueue(device, &event))
        put_notice(trackers, chunk, TN_NOTICE_QUEUED);
    tn_spin_release(&trackers->lock);
}

void tn_trackers_note_failed(tarn_device *device, uint64_t bytes, tarn_status status)
{
    const struct tn_tracker_event event = {
        .what = {.event = TARN_TRACKED_OUT_OF_MEMORY, .status = status, .bytes = bytes}};

    if (!tn_trackers_want(device, TARN_TRACKED_OUT_OF_MEMORY))
        return;
    tn_spin_acquire(&device->trackers.lock);
    (void)enqueue(device, &event);
    tn_spin_release(&device->trackers.lock);
}

/* Takes an event out of the queue; the others stay in their order. */
static struct tn_tracker_event take_out(struct tn_trackers *trackers, size_t at)
{
    struct tn_tracker_event event = trackers->queue[at];

    TN_ASSERT(tn_spin_is_taken(&trackers->lock) && at < trackers->queued);
    trackers->queued -= 1;
    memmove(&trackers->queue[at], &trackers->queue[at + 1],
            (trackers->queued - at) * sizeof trackers->queue[0]);
    atomic_fetch_sub(&trackers->due, 1);
    return event;
}

/* Untold memory is to go. */
static void drop_queued(struct tn_trackers *trackers, const struct tn_chunk *chunk)
{
    size_t at = 0;

    TN_ASSERT(chunk->notice == TN_NOTICE_QUEUED);
    while (trackers->queue[at].chunk != chunk)
        at += 1;
    (void)take_out(trackers, at);
}

/* The oldest event of the calling thread. The memory stays until the event is told. */
static bool take_own(struct tn_trackers *trackers, struct tn_tracker_event *event)
{
    const uintptr_t thread = tn_thread_word();
    bool found = false;

    tn_spin_acquire(&trackers->lock);
    for (size_t at = 0; at < trackers->queued && !found; at++) {
        found = trackers->queue[at].thread == thread;
        if (found)
            *event = take_out(trackers, at);
    }
    if (found && event->chunk != NULL)
        put_notice(trackers, event->chunk, TN_NOTICE_BUSY);
    tn_spin_release(&trackers->lock);
    return found;
}

void tn_trackers_tell_own(tarn_device *device)
{
    struct tn_tracker_event event;

    if (tn_trackers_are_deaf(device)) /* the call around the tracker tells */
        return;
    while (!tn_is_forked() && take_own(&device->trackers, &event)) {
        tell(device, &event.what);
        if (event.chunk != NULL && !tn_is_forked())
            end_busy(&device->trackers, event.chunk, TN_NOTICE_NONE);
    }
}

/* Trackers know of the chunk, or will. True: the chunk stays. False: it is not told of any more. */
static bool list_or_end(tarn_device *device, struct tn_farewells *farewells, struct tn_chunk *chunk)
{
    struct tn_trackers *trackers = &device->trackers;

    TN_ASSERT(tn_spin_is_taken(&trackers->lock) && chunk->notice != TN_NOTICE_ENDED);
    if (chunk->notice == TN_NOTICE_BUSY)
        return true;
    if (is_known(trackers, chunk) && tn_trackers_want(device, TARN_TRACKED_UNMAPPING)) {
        if (farewells->next_count < TN_FAREWELLS && !tn_trackers_are_deaf(device)) {
            put_notice(trackers, chunk, TN_NOTICE_BUSY);
            farewells->next[farewells->next_count] = chunk;
            farewells->next_count += 1;
            farewells->next_bytes += chunk->bytes;
        }
        return true;
    }
    if (chunk->notice == TN_NOTICE_QUEUED)
        drop_queued(trackers, chunk);
    put_notice(trackers, chunk, TN_NOTICE_ENDED);
    return false;
}

bool tn_farewells_keep(tarn_device *device, struct tn_farewells *farewells, struct tn_chunk *chunk)
{
    bool keeps;

    if (farewells == NULL || !tn_trackers_follow(device))
        return false;
    tn_spin_acquire(&device->trackers.lock);
    keeps = list_or_end(device, farewells, chunk);
    tn_spin_release(&device->trackers.lock);
    return keeps;
}

/* The chunk was told to go and is mapped still: from here on it stays. By now another chunk may have
 * the record, and other memory the address. */
static bool take_back(struct tn_trackers *trackers, const struct tn_farewell *given)
{
    bool stays;

    tn_spin_acquire(&trackers->lock);
    stays = tn_address_table_chunk(given->address) == given->chunk &&
            notice_of(given->chunk) == TN_NOTICE_GIVEN;
    if (stays)
        put_notice(trackers, given->chunk, TN_NOTICE_BUSY);
    tn_spin_release(&trackers->lock);
    return stays;
}

/* Tells trackers that chunks stay. */
static void end_given(tarn_device *device, struct tn_farewells *farewells)
{
    for (size_t i = 0; i < farewells->given_count; i++) {
        const struct tn_farewell *given = &farewells->given[i];
        tarn_tracked what;

        if (!take_back(&device->trackers, given))
            continue;
        what = describe(given->chunk, TARN_TRACKED_MAPPED);
        tell(device, &what);
        if (tn_is_forked())
            return;
        end_busy(&device->trackers, given->chunk, TN_NOTICE_NONE);
    }
    farewells->given_count = 0;
}

bool tn_farewells_tell(tarn_device *device, struct tn_farewells *farewells)
{
    TN_ASSERT(tn_lock_none_held());
    end_given(device, farewells);
    for (size_t i = 0; i < farewells->next_count && !tn_is_forked(); i++) {
        struct tn_chunk *chunk = farewells->next[i];
        tarn_tracked what = describe(chunk, TARN_TRACKED_UNMAPPING);
        const int given = given_now(&device->trackers); /* one may come meanwhile */

        tell(device, &what);
        if (tn_is_forked())
            return false;
        farewells->given[i] = (struct tn_farewell){chunk, tn_chunk_address(chunk)};
        end_busy(&device->trackers, chunk, given);
    }
    farewells->given_count = farewells->next_count;
    farewells->next_count = 0;
    farewells->next_bytes = 0;
    return farewells->given_count > 0 && !tn_is_forked();
}

void tn_farewells_end(tarn_device *device, struct tn_farewells *farewells)
{
    TN_ASSERT(tn_lock_none_held());
    if (tn_is_forked())
        return;
    for (size_t i = 0; i < farewells->next_count; i++)
        end_busy(&device->trackers, farewells->next[i], TN_NOTICE_NONE);
    farewells->next_count = 0;
    farewells->next_bytes = 0;
    end_given(device, farewells);
}

void tn_trackers_forget(tarn_device *device, struct tn_chunk *chunk)
{
    struct tn_trackers *trackers = &device->trackers;

    if (TN_LIKELY(atomic_load(&trackers->noticed) == 0))
        return;
    tn_spin_acquire(&trackers->lock);
    TN_ASSERT(chunk->notice != TN_NOTICE_BUSY);
    if (chunk->notice == TN_NOTICE_QUEUED)
        drop_queued(trackers, chunk);
    put_notice(trackers, chunk, TN_NOTICE_NONE);
    tn_spin_release(&trackers->lock);
}

bool tn_trackers_await(tarn_device *device, uint64_t most_ns)
{
    const uint64_t begun = tn_clock_nanoseconds(CLOCK_MONOTONIC);
    unsigned looks = 0;

    TN_ASSERT(tn_lock_none_held());
    if (tn_trackers_are_deaf(device))
        return false;
    while (atomic_load(&device->trackers.busy) > 0 &&
           tn_clock_nanoseconds(CLOCK_MONOTONIC) - begun < most_ns) {
        tn_spin_pause(looks);
        looks += 1;
    }
    return looks > 0;
}

bool tn_trackers_defer_end(tarn_pool *pool)
{
    TN_ASSERT(tn_lock_none_held() && atomic_load(&pool->magic) == 0);
    if (!tn_trackers_follow(pool->device))
        return false;
    tn_trackers_put_ending(pool);
    return true;
}

void tn_trackers_put_ending(tarn_pool *pool)
{
    struct tn_trackers *trackers = &pool->device->trackers;

    tn_spin_acquire(&trackers->lock);
    pool->next = trackers->ending;
    trackers->ending = pool;
    atomic_fetch_add(&trackers->due, 1);
    tn_spin_release(&trackers->lock);
}

tarn_pool *tn_trackers_take_ending(tarn_device *device)
{
    struct tn_trackers *trackers = &device->trackers;
    tarn_pool *pool;

    TN_ASSERT(tn_lock_none_held());
    if (tn_trackers_are_deaf(device))
        return NULL;
    tn_spin_acquire(&trackers->lock);
    pool = trackers->ending;
    if (pool != NULL) {
        trackers->ending = pool->next;
        atomic_fetch_sub(&trackers->due, 1);
    }
    tn_spin_release(&trackers->lock);
    return pool;
}

/* The part of a thread that ends a chunk's pool. */
enum farewell { IS_BUSY, IS_TOLD, IS_ENDED };

static enum farewell begin_end(tarn_device *device, struct tn_chunk *chunk)
{
    struct tn_trackers *trackers = &device->trackers;
    enum farewell farewell = IS_ENDED;

    TN_ASSERT(!tn_trackers_are_deaf(device));
    tn_spin_acquire(&trackers->lock);
    if (chunk->notice == TN_NOTICE_BUSY)
        farewell = IS_BUSY;
    else if (is_known(trackers, chunk) && tn_trackers_want(device, TARN_TRACKED_UNMAPPING))
        farewell = IS_TOLD;
    if (chunk->notice == TN_NOTICE_QUEUED)
        drop_queued(trackers, chunk);
    if (farewell != IS_BUSY)
        put_notice(trackers, chunk, farewell == IS_TOLD ? TN_NOTICE_BUSY : TN_NOTICE_ENDED);
    tn_spin_release(&trackers->lock);
    return farewell;
}

bool tn_trackers_note_end(tarn_pool *pool)
{
    tarn_device *device = pool->device;
    bool all = true;

    TN_ASSERT(tn_lock_none_held() && atomic_load(&pool->magic) == 0);
    for (size_t id = 0; id < pool->chunks.ids && !tn_is_forked(); id++) {
        struct tn_chunk *chunk = pool->chunks.by_id[id];
        enum farewell farewell = chunk != NULL ? begin_end(device, chunk) : IS_ENDED;

        all = all && farewell != IS_BUSY;
        if (farewell == IS_TOLD) {
            tarn_tracked what = describe(chunk, TARN_TRACKED_UNMAPPING);

            tell(device, &what);
            if (!tn_is_forked())
                end_busy(&device->trackers, chunk, TN_NOTICE_ENDED);
        }
    }
    return all && !tn_is_forked();
}
