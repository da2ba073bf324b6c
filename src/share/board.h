// SPDX-License-Identifier: Apache-2.0
/* board.h -- memory where the ranks of a group meet on the host.
 *
 * Each rank has a place on the board, and is the only writer of this place. In each turn every rank
 * gives some bytes, and reads the bytes of all. A rank is at most one turn ahead of another rank. A place
 * therefore has room for two turns. A rank that has left writes nothing more.
 *
 * A rank that waits looks from time to time at the descriptors of the others' processes.
 *
 * Locking: one thread of a process at a time; others may look for deaths meanwhile. */
#ifndef TARN_SHARE_BOARD_H
#define TARN_SHARE_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarn/status.h"

enum {
    TN_RANKS_MAX = 64,
    TN_GROUP_NAME_MAX = 55,
    TN_HOST_NAME_MAX = 63,
    TN_BOARD_BYTES = 1024, /* of a rank in a turn */
};

/* Who a rank is, for sentences. */
struct tn_rank_name {
    int32_t pid;
    char host[TN_HOST_NAME_MAX + 1];
};

struct tn_board_memory;

struct tn_board {
    struct tn_board_memory *memory; /* shared by all ranks; NULL: no board */
    int processes[TN_RANKS_MAX];    /* their descriptors; -1: this very rank */
    uint64_t turn;                  /* the last one that this rank has begun */
    uint32_t posted_bytes;          /* of the open turn; 0: none is open */
    uint32_t rank;                  /* immutable, as world and group */
    uint32_t world;
    atomic_int lost_rank; /* the first one known to be gone; -1: none */
    char group[TN_GROUP_NAME_MAX + 1];
};

/* A board for this many ranks, and a descriptor of it, which the caller closes.
 *   LIMIT: no descriptor is left; HOST_MEMORY; NOT_SUPPORTED */
TARN_MUST_CHECK tarn_status tn_board_create(uint32_t world, int *descriptor);

/* Maps a board. The processes' descriptors go along from then on; group, rank, world are set.
 *   HOST_MEMORY; PEER_LOST: the descriptor is of no board for this world */
TARN_MUST_CHECK tarn_status tn_board_open(struct tn_board *board, int descriptor);

/* Leaves, as the others see. Unmaps, and closes the processes' descriptors. */
void tn_board_close(struct tn_board *board);

/* Says who this rank is. */
void tn_board_sign(struct tn_board *board, const struct tn_rank_name *name);
void tn_board_name(const struct tn_board *board, uint32_t rank, struct tn_rank_name *name);

/* Gives bytes and gets the bytes of all ranks, in their order. Waits for the others until the
 * deadline, of CLOCK_MONOTONIC. After BUSY the turn stays open: a further call goes on with this
 * turn, and with the bytes given first.
 *   BUSY: some rank has not come; the sentence names them
 *   PEER_LOST: a rank is gone or has left; the sentence names it */
TARN_MUST_CHECK tarn_status tn_board_gather(struct tn_board *board, const void *own, uint32_t bytes,
                                            uint64_t deadline_ns, void *all);

/* Looks whether a process has ended whose rank had not left, and remembers the first. PEER_LOST names
 * the rank. */
TARN_MUST_CHECK tarn_status tn_board_look(struct tn_board *board);

/* Remembers a rank that is missed, unless another one was lost before. */
void tn_board_note_lost(struct tn_board *board, int rank);

/* The sentence of a rank that is gone. */
tarn_status tn_board_lost(const struct tn_board *board);

/* Whether a rank's process lives, and has not left. */
bool tn_board_is_here(const struct tn_board *board, uint32_t rank);

static inline bool tn_board_is_open(const struct tn_board *board)
{
    return board->memory != NULL;
}

#endif
