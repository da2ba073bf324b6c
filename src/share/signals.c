// SPDX-License-Identifier: Apache-2.0
/* A wait on the host looks at an event of the stream, and now and then at the other processes. When
 * the group is over, the cells of all ranks are finished, not the lost one's alone: the others may
 * have come to different barriers.
 *
 * Trade-offs: the host looks again after a pause, of 20 us to 1 ms. No thread and no host function
 * of the driver is needed, and a wait may be given up. */
#include "share/signals.h"

#include <time.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/contract.h"
#include "base/error.h"
#include "driver/stream.h"

#define PAUSE_FIRST_NS UINT64_C(20000)
#define PAUSE_MOST_NS UINT64_C(1000000)

static struct tn_pad_cell cell_of(const tarn_group *group, enum tn_cell_use use, uint32_t channel,
                                  uint32_t from, uint32_t to)
{
    return (struct tn_pad_cell){
        .pad = group->pad,
        .cell = {.index = tn_group_cell(group, use, channel, from, to), .generation = 1}};
}

/* One thread at a time gives streams work, which may wait for room in a queue. */
static void begin(tarn_group *group)
{
    tn_lock_acquire(&group->stream);
    tn_lock_acquire(&group->lock);
}

static void end(tarn_group *group)
{
    tn_lock_release(&group->lock);
    tn_lock_release(&group->stream);
}

/* The group's lock is held. */
static tarn_status admit(tarn_group *group, uint32_t channel)
{
    TN_ASSERT(tn_lock_is_held(&group->lock));
    if (channel >= group->channel_count)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT, "channel %u of the group '%s', which has %u",
                       channel, group->board.group, group->channel_count);
    return atomic_load(&group->is_over) ? tn_group_check(group) : TARN_OK;
}

static tarn_status admit_peer(tarn_group *group, uint32_t rank, uint32_t channel)
{
    if (rank >= group->world || rank == group->rank)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                       "rank %u is no other rank of the group '%s', which has %u", rank,
                       group->board.group, group->world);
    return admit(group, channel);
}

tarn_status tn_signals_barrier(tarn_group *group, uint32_t channel, tn_cu_stream stream)
{
    struct tn_pad_cell outgoing[TN_BARRIER_PEERS_MAX];
    struct tn_pad_cell incoming[TN_BARRIER_PEERS_MAX];
    uint32_t count = 0;
    tarn_status status;

    begin(group);
    status = admit(group, channel);
    for (uint32_t peer = 0; peer < group->world; peer++) {
        if (peer == group->rank)
            continue;
        outgoing[count] = cell_of(group, TN_CELL_BARRIER, channel, group->rank, peer);
        incoming[count++] = cell_of(group, TN_CELL_BARRIER, channel, peer, group->rank);
    }
    if (status == TARN_OK && count > 0)
        status = tn_pad_barrier(stream, outgoing, incoming, count);
    end(group);
    return status;
}

static tarn_status is_captured(tarn_group *group, tn_cu_stream stream, bool *captured)
{
    struct tn_stream_state state;
    tarn_status status = tn_stream_look(&group->device->gpu, stream, TN_STREAM_STATUS, &state);

    *captured = status == TARN_OK && state.captured;
    return status;
}

tarn_status tn_signals_put(tarn_group *group, uint32_t rank, uint32_t channel, tn_cu_stream stream)
{
    uint64_t value;
    bool captured = false;
    tarn_status status;

    begin(group);
    status = admit_peer(group, rank, channel);
    if (status == TARN_OK)
        status = is_captured(group, stream, &captured);
    if (status == TARN_OK) {
        struct tn_pad_cell to = cell_of(group, TN_CELL_SIGNAL, channel, group->rank, rank);

        status = captured ? tn_pad_raise(to.pad, stream, to.cell)
                          : tn_pad_signal(to.pad, stream, to.cell, &value);
    }
    end(group);
    return status;
}

tarn_status tn_signals_await(tarn_group *group, uint32_t rank, uint32_t channel,
                             tn_cu_stream stream)
{
    bool captured = false;
    tarn_status status;

    begin(group);
    status = admit_peer(group, rank, channel);
    if (status == TARN_OK)
        status = is_captured(group, stream, &captured);
    if (status == TARN_OK) {
        struct tn_pad_cell from = cell_of(group, TN_CELL_SIGNAL, channel, rank, group->rank);
        uint64_t *count = &group->waits[(size_t)channel * group->world + rank];

        status = captured ? tn_pad_take(from.pad, stream, from.cell)
                          : tn_pad_wait(from.pad, stream, from.cell, *count + 1);
        if (status == TARN_OK && !captured)
            *count += 1;
    }
    end(group);
    return status;
}

/* -- Waits on the host -- */

/* Does something with each cell from and to this rank; stops where it says so. */
typedef bool (*cell_visit)(tarn_group *group, struct tn_cell cell, uint32_t peer, uint32_t channel);

static bool visit_cells(tarn_group *group, cell_visit visit)
{
    for (uint32_t channel = 0; channel < group->channel_count; channel++) {
        for (uint32_t peer = 0; peer < group->world; peer++) {
            for (int i = 0; i < 4 && peer != group->rank; i++) {
                enum tn_cell_use use = i / 2 == 0 ? TN_CELL_BARRIER : TN_CELL_SIGNAL;
                uint32_t from = i % 2 == 0 ? peer : group->rank;
                uint32_t to = i % 2 == 0 ? group->rank : peer;

                if (visit(group, cell_of(group, use, channel, from, to).cell, peer, channel))
                    return true;
            }
        }
    }
    return false;
}

static bool finish(tarn_group *group, struct tn_cell cell, uint32_t peer, uint32_t channel)
{
    const struct tn_cell_record *record = &group->pad->cells[cell.index];

    (void)peer;
    (void)channel;
    /* The pad is on the host: a processor writes, and nothing can fail. */
    TN_ASSERT(group->pad->memory.place == TN_WORDS_ON_HOST);
    if (record->awaits || record->writes)
        TARN_IGNORE(tn_pad_finish(group->pad, cell, NULL));
    return false;
}

static void finish_all(tarn_group *group)
{
    tn_lock_acquire(&group->lock);
    if (group->pad != NULL)
        (void)visit_cells(group, finish);
    tn_lock_release(&group->lock);
}

/* BUSY: names a signal that has not come. */
static bool name_missing(tarn_group *group, struct tn_cell cell, uint32_t peer, uint32_t channel)
{
    const struct tn_cell_record *record = &group->pad->cells[cell.index];
    struct tn_rank_name name;

    if (!record->awaits || tn_pad_has_reached(group->pad, cell, record->awaited))
        return false;
    tn_board_name(&group->board, peer, &name);
    (void)tn_fail(TARN_ERR_BUSY,
                  "the stream's work is not over in time: rank %u of the group '%s' (process %d on "
                  "%s) has not signalled over channel %u",
                  peer, group->board.group, (int)name.pid, name.host, channel);
    return true;
}

static tarn_status say_late(tarn_group *group)
{
    bool is_named;

    tn_lock_acquire(&group->lock);
    is_named = group->pad != NULL && visit_cells(group, name_missing);
    tn_lock_release(&group->lock);
    if (is_named)
        return TARN_ERR_BUSY;
    return tn_fail(TARN_ERR_BUSY,
                   "the stream's work is not over in time, and no signal of the group '%s' outside "
                   "graphs is missing",
                   group->board.group);
}

static void pause_for(uint64_t *pause_ns)
{
    const struct timespec time = {.tv_nsec = (long)*pause_ns};

    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
    *pause_ns = tn_min(*pause_ns * 2, PAUSE_MOST_NS);
}

/* Whether a rank has left and owes a signal. A rank that leaves in order owes none. */
static bool owes(tarn_group *group, struct tn_cell cell, uint32_t peer, uint32_t channel)
{
    const struct tn_cell_record *record = &group->pad->cells[cell.index];

    (void)channel;
    /* The rank first: it may signal, and leave behind that. */
    if (!record->awaits || tn_board_is_here(&group->board, peer) ||
        tn_pad_has_reached(group->pad, cell, record->awaited))
        return false;
    tn_board_note_lost(&group->board, (int)peer);
    return true;
}

/* Whether the stream may wait for ever: a rank is gone. */
static bool is_lost(tarn_group *group)
{
    bool owed;

    if (atomic_load(&group->is_over) || tn_group_check(group) != TARN_OK)
        return true;
    tn_lock_acquire(&group->lock);
    owed = group->pad != NULL && visit_cells(group, owes);
    tn_lock_release(&group->lock);
    return owed && tn_group_check(group) != TARN_OK;
}

/* BUSY: the time is over before the event; DEVICE_LOST; DRIVER: nobody knows of the event. */
static tarn_status wait_for(tarn_group *group, tn_cu_event event, uint64_t deadline_ns)
{
    struct tn_gpu *gpu = &group->device->gpu;
    uint64_t pause_ns = PAUSE_FIRST_NS;
    enum tn_event_answer answer = tn_event_query(gpu, event);

    TN_ASSERT(tn_lock_none_held());
    while (answer == TN_EVENT_NOT_YET) {
        if (is_lost(group))
            finish_all(group);
        if (tn_clock_nanoseconds(CLOCK_MONOTONIC) >= deadline_ns)
            return say_late(group);
        pause_for(&pause_ns);
        answer = tn_event_query(gpu, event);
    }
    if (answer == TN_EVENT_UNKNOWN)
        return tn_fail(TARN_ERR_DRIVER,
                       "the driver does not say whether the stream's work is over");
    return tn_gpu_check(gpu); /* on a lost device all work is over */
}

tarn_status tn_signals_wait(tarn_group *group, tn_cu_stream stream, uint64_t timeout_ns)
{
    struct tn_gpu *gpu = &group->device->gpu;
    uint64_t deadline_ns = tn_group_deadline(timeout_ns);
    tn_cu_event event = NULL;
    tarn_status status;

    if (tn_stream_is_closed(gpu, stream))
        return tn_fail(TARN_ERR_WRONG_STATE,
                       "the stream is being captured, or ordered with one that is: nothing of it "
                       "runs yet");
    if (atomic_load(&group->is_over))
        finish_all(group); /* the event itself may wait for room in the stream's queue */
    status = tn_event_create(gpu, stream, &event);
    if (status != TARN_OK)
        return status;
    if (tn_event_record(gpu, event, stream))
        status = wait_for(group, event, deadline_ns);
    else
        status = tn_fail(TARN_ERR_DRIVER, "the driver records no event on the stream");
    tn_event_destroy(gpu, event);
    if (status == TARN_OK && atomic_load(&group->is_over))
        status = tn_group_check(group);
    return status;
}
