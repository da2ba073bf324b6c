// SPDX-License-Identifier: Apache-2.0
/* pending.h -- freed blocks that wait for claims.
 *
 * A block that is freed is PENDING until the fences of its uses (claims/use.h) are done, and nothing else claims it.
 *
 * A use in a capture never runs by itself. For others it ends when that capture's hold closes. For the
 * block's own order in that capture it ends when that order's next work comes after it in the graph:
 * the free marks the nodes that end the use, and an allocation looks whether its stream comes after all
 * of them.
 *
 * Polls find what the driver happens to say. In a pool with checkpoints the addresses of a section that is captured again after
 * a restore follow from the calls alone. So what a poll finds there is no capture's: such a block stays PENDING, noted as
 * ended, until a restore or a take settles the pool (checkpoint/settle.h), memory is short, or too much waits.
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_PENDING_H
#define TARN_POOLS_PENDING_H

#include "claims/use.h"
#include "pools/pool.h"

/* The stamp of a free of the block now: 0 where no work of its own stream can be left. */
uint64_t tn_block_freed_stamp(const tarn_pool *pool, const struct tn_block *block);

/* Makes a freed block PENDING: the last step of a free that cannot be carried out at once. proof_stamp: not
 * 0: an epoch that must be proven idle, too. graphs_alone: P26. */
void tn_pending_add(tarn_pool *pool, struct tn_block *block, uint64_t proof_stamp,
                    bool graphs_alone);

/* How many blocks were freed in a capture without a hold that may be a graph's: one with a hold of that serial
 * (0: without) that is older than the free is not what they wait for. */
uint64_t tn_pending_count_unheld(const tarn_pool *pool, uint64_t serial);

/* The hold, which is open, of such a graph has them now. */
void tn_pending_hold(tarn_pool *pool, uint64_t serial, struct tn_hold *hold);

/* Whether a poll may free memory: something is pending, or a retired stream's arena is left. */
bool tn_pool_has_pending(const tarn_pool *pool);

/* Frees the PENDING blocks whose uses have ended, and the arenas of retired streams whose work has.
 * force: all blocks, when the device is idle and no capture is under way. */
void tn_pending_poll(tarn_pool *pool, bool force);

/* Whether what polls find is kept from captures. */
bool tn_pool_defers(const tarn_pool *pool);

/* A poll for the sake of an allocation, in a capture or outside. Where the pool defers captures get nothing by it. */
void tn_pending_poll_to_use(tarn_pool *pool, bool captured);

/* A poll for the sake of statistics. */
void tn_pending_collect(tarn_pool *pool);

/* Frees the PENDING blocks that were waiting for the end of captures, and of nothing else. */
void tn_pending_end_captured(tarn_pool *pool);

/* Whether the use, in a capture, has ended with that. */
bool tn_use_has_ended_captured(const tarn_pool *pool, const struct tn_block *block,
                               const struct tn_use *use);

/* Whether a graph may still be adopted that brings what was freed without a hold one. */
bool tn_pending_awaits_adoption(const tarn_pool *pool, const struct tn_block *block);

/* Whether the chunks of the PENDING block go to the idle memory when it is freed: it was freed beside captures, and a
 * graph holds them. */
bool tn_pending_moves(const tarn_pool *pool, const struct tn_block *block);

/* Frees the PENDING block, whose uses the caller has put a stream behind. Takes up to two records. */
void tn_pending_free(tarn_pool *pool, struct tn_block *block);

/* Frees the PENDING blocks of the arena, an order in a capture, whose uses were all in that capture and
 * come before what the order does next. stream: of that order, and of the caller's. */
void tn_pending_poll_capture(tarn_pool *pool, struct tn_arena *arena, tn_cu_stream stream);

/* Takes a PENDING block off the list and ends its uses: the device was waited for, and its memory is
 * to be used again at once. The caller makes it FREE. */
void tn_pending_remove(tarn_pool *pool, struct tn_block *block);

#endif
