// SPDX-License-Identifier: Apache-2.0
/* Trade-offs: a thread looks through the whole queue for its own events. */
#include "pools/trackers.h"

#include <stdio.h>
#include <string.h>

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

/* Calls a tracker with the thread's mode relaxed: else its calls might break a capture. */
static TN_USER_CODE_ON_STACK void
call_tracker(tarn_device *device, const struct tn_callback *tracker, const tarn_tracked *what)
{
    int mode = tn_gpu_relax(&device->gpu);
    TN_USER_CODE(code);

    TN_ASSERT(tn_lock_none_held());
    if (mode < 0)
        return;
    tn_gpus_enter_user_code();
    tn_user_code_enter(&code, TN_USER_TRACKER);
    ((tarn_tracker)tracker->function)(device, what, tracker->user);
    tn_user_code_leave(&code);
    tn_gpus_leave_user_code();
    if (!tn_is_forked())
        tn_gpu_unrelax(&device->gpu, mode);
}

/* Tells all trackers of the event. The thread's last error stays. */
static void tell(tarn_device *device, tarn_tracked *what)
{
    struct tn_trackers *trackers = &device->trackers;
    struct tn_error_sentence sentence;
    struct tn_callback *tracker = tn_callbacks_enter(&trackers->callbacks, 0);

    what->size = sizeof *what;
    what->lost_count = atomic_load(&trackers->lost);
    tn_error_keep(&sentence);
    while (tracker != NULL) {
        const uint64_t id = tracker->id;

        if ((tracker->mask & (unsigned)what->event) != 0)
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

/* Whether the thread is in a tracker: its events are lost. */
static bool is_deaf(const tarn_device *device)
{
    return tn_callbacks_are_entered(&device->trackers.callbacks);
}

static void count_lost(struct tn_trackers *trackers)
{
    TN_ASSERT(tn_spin_is_taken(&trackers->lock));
    atomic_fetch_add(&trackers->lost, 1);
}

/* False: the event is lost. */
static bool enqueue(tarn_device *device, const struct tn_tracker_event *event)
{
    struct tn_trackers *trackers = &device->trackers;
    const uint64_t count = atomic_load(&trackers->queued);
    bool has_room = count < TN_TRACKER_QUEUE && !is_deaf(device);

    TN_ASSERT(tn_spin_is_taken(&trackers->lock) && count <= TN_TRACKER_QUEUE);
    if (has_room) {
        trackers->queue[count] = *event;
        trackers->queue[count].thread = tn_thread_word();
        atomic_store(&trackers->queued, count + 1);
    } else {
        count_lost(trackers);
    }
    return has_room;
}

void tn_trackers_note_mapped(tarn_device *device, struct tn_chunk *chunk)
{
    struct tn_trackers *trackers = &device->trackers;
    const struct tn_tracker_event event = {.chunk = chunk,
                                           .what = describe(chunk, TARN_TRACKED_MAPPED)};

    if (!tn_trackers_want(device, TARN_TRACKED_MAPPED))
        return;
    tn_spin_acquire(&trackers->lock);
    chunk->notice = enqueue(device, &event) ? TN_NOTICE_QUEUED : TN_NOTICE_LOST;
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
    const size_t count = (size_t)atomic_load(&trackers->queued);
    struct tn_tracker_event event = trackers->queue[at];

    TN_ASSERT(tn_spin_is_taken(&trackers->lock) && at < count);
    memmove(&trackers->queue[at], &trackers->queue[at + 1],
            (count - at - 1) * sizeof trackers->queue[0]);
    atomic_store(&trackers->queued, count - 1);
    return event;
}

static void drop_queued(struct tn_trackers *trackers, const struct tn_chunk *chunk)
{
    size_t at = 0;

    TN_ASSERT(chunk->notice == TN_NOTICE_QUEUED);
    while (trackers->queue[at].chunk != chunk)
        at += 1;
    (void)take_out(trackers, at);
}

/* The oldest event of the calling thread; its memory stays until it is told. */
static bool take_own(struct tn_trackers *trackers, struct tn_tracker_event *event)
{
    const uintptr_t thread = tn_thread_word();
    bool found = false;

    tn_spin_acquire(&trackers->lock);
    for (size_t at = 0; at < atomic_load(&trackers->queued) && !found; at++) {
        found = trackers->queue[at].thread == thread;
        if (found)
            *event = take_out(trackers, at);
    }
    if (found && event->chunk != NULL)
        event->chunk->notice = TN_NOTICE_BUSY;
    tn_spin_release(&trackers->lock);
    return found;
}

static void set_notice(struct tn_trackers *trackers, struct tn_chunk *chunk, enum tn_notice notice)
{
    tn_spin_acquire(&trackers->lock);
    TN_ASSERT(chunk->notice == TN_NOTICE_BUSY);
    chunk->notice = notice;
    tn_spin_release(&trackers->lock);
}

void tn_trackers_tell_own(tarn_device *device)
{
    struct tn_tracker_event event;

    if (tn_user_code_innermost != NULL) /* the call around the function tells */
        return;
    while (!tn_is_forked() && take_own(&device->trackers, &event)) {
        tell(device, &event.what);
        if (event.chunk != NULL && !tn_is_forked())
            set_notice(&device->trackers, event.chunk, TN_NOTICE_NONE);
    }
}

/* A chunk that trackers know of, or will. True: it stays. False: from here on nobody tells of it. */
static bool list_or_end(tarn_device *device, struct tn_farewells *farewells, struct tn_chunk *chunk)
{
    const bool wanted = tn_trackers_want(device, TARN_TRACKED_UNMAPPING);

    TN_ASSERT(tn_spin_is_taken(&device->trackers.lock));
    if (chunk->notice == TN_NOTICE_BUSY)
        return true;
    if (chunk->notice == TN_NOTICE_NONE && wanted && !is_deaf(device)) {
        if (farewells->next_count < TN_FAREWELLS) {
            chunk->notice = TN_NOTICE_BUSY;
            farewells->next[farewells->next_count] = chunk;
            farewells->next_count += 1;
        }
        return true;
    }
    if (chunk->notice == TN_NOTICE_NONE && wanted)
        count_lost(&device->trackers);
    if (chunk->notice == TN_NOTICE_QUEUED)
        drop_queued(&device->trackers, chunk);
    chunk->notice = TN_NOTICE_ENDED;
    return false;
}

bool tn_farewells_keep(tarn_device *device, struct tn_farewells *farewells, struct tn_chunk *chunk)
{
    bool keeps;

    if (farewells == NULL ||
        (chunk->notice == TN_NOTICE_NONE && !tn_trackers_want(device, TARN_TRACKED_UNMAPPING)))
        return false;
    tn_spin_acquire(&device->trackers.lock);
    keeps = list_or_end(device, farewells, chunk);
    tn_spin_release(&device->trackers.lock);
    return keeps;
}

/* Tells trackers that chunks stay. */
static void end_given(tarn_device *device, struct tn_farewells *farewells)
{
    for (size_t i = 0; i < farewells->given_count; i++) {
        struct tn_chunk *chunk = farewells->given[i];
        tarn_tracked what;
        bool stays;

        tn_spin_acquire(&device->trackers.lock);
        stays = chunk->notice == TN_NOTICE_GIVEN;
        if (stays) {
            chunk->notice = TN_NOTICE_BUSY;
            what = describe(chunk, TARN_TRACKED_MAPPED);
        }
        tn_spin_release(&device->trackers.lock);
        if (!stays)
            continue;
        tell(device, &what);
        if (tn_is_forked())
            return;
        set_notice(&device->trackers, chunk, TN_NOTICE_NONE);
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

        tell(device, &what);
        if (tn_is_forked())
            return false;
        set_notice(&device->trackers, chunk, TN_NOTICE_GIVEN);
        farewells->given[i] = chunk;
    }
    farewells->given_count = farewells->next_count;
    farewells->next_count = 0;
    return farewells->given_count > 0;
}

void tn_farewells_end(tarn_device *device, struct tn_farewells *farewells)
{
    TN_ASSERT(tn_lock_none_held());
    if (tn_is_forked())
        return;
    for (size_t i = 0; i < farewells->next_count; i++)
        set_notice(&device->trackers, farewells->next[i], TN_NOTICE_NONE);
    farewells->next_count = 0;
    end_given(device, farewells);
}

void tn_trackers_forget(tarn_device *device, struct tn_chunk *chunk)
{
    struct tn_trackers *trackers = &device->trackers;

    if (chunk->notice == TN_NOTICE_NONE && !tn_trackers_want(device, TARN_TRACKED_UNMAPPING))
        return;
    tn_spin_acquire(&trackers->lock);
    TN_ASSERT(chunk->notice != TN_NOTICE_BUSY);
    if (chunk->notice == TN_NOTICE_QUEUED)
        drop_queued(trackers, chunk);
    chunk->notice = TN_NOTICE_NONE;
    tn_spin_release(&trackers->lock);
}

/* Another thread may be telling of the chunk: its end comes behind. */
static bool begin_end(tarn_device *device, struct tn_chunk *chunk)
{
    struct tn_trackers *trackers = &device->trackers;
    bool wanted;
    bool tells;

    tn_spin_acquire(&trackers->lock);
    for (unsigned looks = 0; chunk->notice == TN_NOTICE_BUSY; looks++) {
        tn_spin_release(&trackers->lock);
        tn_spin_pause(looks);
        tn_spin_acquire(&trackers->lock);
    }
    if (chunk->notice == TN_NOTICE_QUEUED)
        drop_queued(trackers, chunk);
    wanted = chunk->notice == TN_NOTICE_NONE && tn_trackers_want(device, TARN_TRACKED_UNMAPPING);
    tells = wanted && !is_deaf(device);
    if (wanted && !tells)
        count_lost(trackers);
    chunk->notice = tells ? TN_NOTICE_BUSY : TN_NOTICE_ENDED;
    tn_spin_release(&trackers->lock);
    return tells;
}

void tn_trackers_note_end(tarn_pool *pool)
{
    tarn_device *device = pool->device;

    TN_ASSERT(tn_lock_none_held() && atomic_load(&pool->magic) == 0);
    for (size_t id = 0; id < pool->chunks.ids && !tn_is_forked(); id++) {
        struct tn_chunk *chunk = pool->chunks.by_id[id];
        tarn_tracked what;

        if (chunk == NULL || !begin_end(device, chunk))
            continue;
        what = describe(chunk, TARN_TRACKED_UNMAPPING);
        tell(device, &what);
        if (!tn_is_forked())
            set_notice(&device->trackers, chunk, TN_NOTICE_ENDED);
    }
}
