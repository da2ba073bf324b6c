// SPDX-License-Identifier: Apache-2.0
/* hub.h -- how the ranks of a group find each other, and pass file descriptors on.
 *
 * Rank 0 is the hub: it listens at a name, the others connect, and each says who it is. Rank 0
 * compares what they say. It then welcomes all, or refuses all with one sentence. The sockets stay:
 * over them descriptors go from each rank to each other one, by the hub.
 *
 * A stranger that connects and says nothing, or no hello, is dropped.
 *
 * Locking: one thread of a process at a time. Deadlines are of CLOCK_MONOTONIC. */
#ifndef TARN_SHARE_HUB_H
#define TARN_SHARE_HUB_H

#include "share/board.h"
#include "share/message.h"

struct tn_hub {
    char name[TN_SHARE_NAME_MAX + 1];
    char group[TN_GROUP_NAME_MAX + 1];
    struct tn_rank_name self;
    uint32_t rank;
    uint32_t world;
    uint32_t channel_count;     /* of the group's signals: the ranks must agree */
    int channels[TN_RANKS_MAX]; /* of rank 0: to each other one; of others: channels[0]; -1: none */
};

/* The ranks come together. processes: descriptors of the other ranks at rank 0, of rank 0 at the
 * others; -1 elsewhere; the caller closes them, also after a failure.
 *   INVALID_ARGUMENT: the ranks disagree, or one came twice; the sentence says where
 *   BUSY: the name is taken; or ranks have not come in time, which the sentence names
 *   PEER_LOST: a rank has ended meanwhile
 *   NOT_PERMITTED: also when rank 0's process is another user's; NOT_SUPPORTED, LIMIT */
TARN_MUST_CHECK tarn_status tn_hub_meet(struct tn_hub *hub, uint64_t deadline_ns,
                                        int processes[TN_RANKS_MAX]);

/* Rank 0: sends descriptors to all others; or its last sentence, which they return with the status.
 *   BUSY: a rank does not read; PEER_LOST: a rank is gone */
TARN_MUST_CHECK tarn_status tn_hub_welcome(struct tn_hub *hub, const int *descriptors,
                                           uint32_t count, uint64_t deadline_ns);
void tn_hub_refuse(struct tn_hub *hub, tarn_status status);

/* The others: receive what tn_hub_welcome sends. BUSY: not in time; PEER_LOST; any status of a
 * refusal */
TARN_MUST_CHECK tarn_status tn_hub_await_welcome(struct tn_hub *hub, int *descriptors,
                                                 uint32_t count, uint64_t deadline_ns);

/* Each rank gives a descriptor, which stays its own, and gets those of all; its own place has -1.
 *   BUSY: not in time; PEER_LOST: also when rank 0 has failed; LIMIT. Nothing is left in all[], and
 *   after a failure of rank 0 no exchange works. */
TARN_MUST_CHECK tarn_status tn_hub_exchange(struct tn_hub *hub, int own, int all[TN_RANKS_MAX],
                                            uint64_t deadline_ns);

void tn_hub_close(struct tn_hub *hub);

#endif
