// SPDX-License-Identifier: Apache-2.0
/* group.h -- some processes with common work: the ranks of a group.
 *
 * The ranks find each other by a hub (share/hub.h), meet on the host at a board (share/board.h), and
 * order their streams by a pad (share/pad.h) with two cells from each rank to each other one and
 * channel: one for barriers, and one for signals.
 *
 * A group with a lost rank gives its streams no more work with cells.
 *
 * Locking: the group's lock, of rank SHARES, guards the pad and the counts of waits. It is free while
 * a stream gets work; a second lock, of rank CLOSES, lets one thread do so at a time. The thread in a
 * collective has the board and the hub to itself, without the lock. */
#ifndef TARN_SHARE_GROUP_H
#define TARN_SHARE_GROUP_H

#include "base/pins.h"
#include "pools/device.h"
#include "share/board.h"
#include "share/hub.h"
#include "share/pad.h"
#include "tarn/symmetric.h"

enum { TN_GROUP_CHANNELS_MAX = 32, TN_GROUP_CHANNELS = 4 };

/* What a collective is about: the ranks must agree. */
enum tn_topic {
    TN_TOPIC_OPENING = 1,
    TN_TOPIC_MEETING,
    TN_TOPIC_POOL,
    TN_TOPIC_GROWTH,
    TN_TOPIC_VOTE,
    TN_TOPIC_COLLECTION,
    TN_TOPIC_HASH,
    TN_TOPIC_CALL,
};

enum { TN_TOPIC_BYTES_MAX = TN_BOARD_BYTES - 16 };

/* The two cells from one rank to another. */
enum tn_cell_use { TN_CELL_BARRIER, TN_CELL_SIGNAL };

struct tarn_group {
    _Atomic uint64_t magic; /* TN_GROUP_MAGIC; 0 in a recycled record */
    tarn_group *next;       /* links recycled records */
    tarn_device *device;    /* immutable, as rank, world and channel_count */
    uint32_t rank;
    uint32_t world;
    uint32_t channel_count;
    atomic_bool in_collective; /* a thread is, which has board and hub to itself */
    atomic_bool is_over;       /* a rank is lost, or the group was abandoned */
    enum tn_topic open_topic;  /* of the last turn, as open_pool */
    uint32_t open_pool;
    struct tn_board board;
    struct tn_hub hub;
    struct tn_pad *pad;   /* NULL: a group of one */
    uint64_t *waits;      /* of signals, by channel and rank */
    uint32_t pools_begun; /* the number of the next pool */
    atomic_uint pool_count;
    char *gathered; /* room for what all ranks give */
    /* Kept in a recycled record: */
    struct tn_lock lock;   /* rank SHARES */
    struct tn_lock stream; /* rank CLOSES: who gives streams work with cells */
    struct tn_pins pins;   /* calls that use the group */
    bool has_lock;
};

#define TN_GROUP_MAGIC 0x54477270ULL

/* options: checked, with defaults filled in. The statuses of tarn_group_create. */
TARN_MUST_CHECK tarn_status tn_group_create(tarn_device *device, const tarn_group_options *options,
                                            tarn_group **group);

/* own: pins of the caller's. BUSY */
TARN_MUST_CHECK tarn_status tn_group_destroy(tarn_group *group, uint64_t own);

/* Begins a collective. BUSY: another thread is in one; PEER_LOST */
TARN_MUST_CHECK tarn_status tn_group_begin(tarn_group *group);
void tn_group_end(tarn_group *group);

/* A turn of a collective: all ranks give bytes for one topic, of one pool (0: none). *all: theirs,
 * `step` apart; valid until the next turn.
 *   BUSY: the turn stays open; WRONG_STATE: other topics, or another turn is open; PEER_LOST */
TARN_MUST_CHECK tarn_status tn_group_gather(tarn_group *group, enum tn_topic topic, uint32_t pool,
                                            const void *own, uint32_t bytes, uint64_t deadline_ns,
                                            const unsigned char **all, uint32_t *step);

/* The group is over: a collective was left in the middle, or a rank is gone. */
void tn_group_give_up(tarn_group *group);

/* A socket has ended: waits a moment for the process that ended with it, and gives the group up.
 * PEER_LOST names a dead rank; without one, the status and its sentence stay. */
TARN_MUST_CHECK tarn_status tn_group_blame(tarn_group *group, tarn_status otherwise);

/* A moment of CLOCK_MONOTONIC, so long from now. */
uint64_t tn_group_deadline(uint64_t timeout_ns);

/* Statuses as in tarn/symmetric.h. */
TARN_MUST_CHECK tarn_status tn_group_meet(tarn_group *group, uint64_t timeout_ns);

/* Looks for deaths. PEER_LOST: a rank is gone, or the group was given up. */
TARN_MUST_CHECK tarn_status tn_group_check(tarn_group *group);

static inline uint32_t tn_group_cell(const tarn_group *group, enum tn_cell_use use,
                                     uint32_t channel, uint32_t from, uint32_t to)
{
    return (((uint32_t)use * group->channel_count + channel) * group->world + from) * group->world +
           to;
}

#endif
