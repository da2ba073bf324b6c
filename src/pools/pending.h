// SPDX-License-Identifier: Apache-2.0
/* pending.h -- freed blocks which wait for claims.
 *
 * A freed block is PENDING until the fences of its uses (claims/use.h) are done, and nothing else
 * claims it.
 *
 * A use in a capture never runs by itself. For other orders it ends when the capture's hold closes.
 * For the block's own order in the capture it ends when the order's next work comes after it in the
 * graph. The free notes the nodes which end the use, and an allocation checks whether its stream
 * comes after all of them.
 *
 * The result of a poll depends on the driver's timing. But in a pool with checkpoints, a section
 * captured again after a restore must get the same addresses from the same calls. Memory found by a
 * poll there is therefore not for captures. The block stays PENDING, noted as ended, until a
 * restore or a take settles the pool (checkpoint/settle.h), memory is short, or too much waits.
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_PENDING_H
#define TARN_POOLS_PENDING_H

#include "claims/use.h"
#include "pools/pool.h"

/* The stamp of a free of the block now: 0 if no work of its own stream can be left. */
uint64_t tn_block_freed_stamp(const tarn_pool *pool, const struct tn_block *block);

/* Whether a hold has a chunk of the block. */
bool tn_block_is_held(const struct tn_block *block);

/* Makes a freed block PENDING: the last step of a free which cannot take effect at once.
 * proof_stamp: not 0: an epoch which must be proven idle, too. graphs_alone: P26. */
void tn_pending_add(tarn_pool *pool, struct tn_block *block, uint64_t proof_stamp,
                    bool graphs_alone);

/* The number of blocks freed in a capture without a hold, which a graph's hold may still claim.
 * serial: of the graph's hold, 0: it has none. Blocks freed after this hold was opened do not wait
 * for it, and do not count. */
uint64_t tn_pending_count_unheld(const tarn_pool *pool, uint64_t serial);

/* The open hold of such a graph takes these blocks over. */
void tn_pending_hold(tarn_pool *pool, uint64_t serial, struct tn_hold *hold);

/* Whether a poll may free memory: a block is pending, or a retired stream's arena is left. */
bool tn_pool_has_pending(const tarn_pool *pool);

/* Frees the PENDING blocks whose uses have ended, and the arenas of retired streams whose work has
 * ended. force: all blocks, when the device is idle and no capture is under way. */
void tn_pending_poll(tarn_pool *pool, bool force);

/* Whether the pool keeps memory found by polls from captures. */
bool tn_pool_defers(const tarn_pool *pool);

/* Polls for an allocation, in a capture or outside. Where the pool defers, captures get nothing by
 * it. */
void tn_pending_poll_to_use(tarn_pool *pool, bool captured);

/* Polls for statistics. */
void tn_pending_collect(tarn_pool *pool);

/* Frees the PENDING blocks which only the end of captures kept. */
void tn_pending_end_captured(tarn_pool *pool);

/* Whether the use, in a capture, has ended with the capture. */
bool tn_capture_use_has_ended(const tarn_pool *pool, const struct tn_block *block,
                              const struct tn_use *use);

/* Ends the block's uses in captures which have ended. The block is being freed. */
void tn_captured_uses_end(tarn_pool *pool, struct tn_block *block);

/* Whether a graph may still be adopted whose hold takes over a block freed without a hold. */
bool tn_pending_awaits_adoption(const tarn_pool *pool, const struct tn_block *block);

/* Whether the chunks of the PENDING block go to the idle memory at its free: the block was freed
 * beside captures, and a graph holds the chunks. */
bool tn_pending_moves(const tarn_pool *pool, const struct tn_block *block);

/* Frees the PENDING block; the caller has put a stream behind its uses. Takes up to two records. */
void tn_pending_free(tarn_pool *pool, struct tn_block *block);

/* Frees the PENDING blocks of the arena, an order in a capture, whose uses were all in this capture
 * and come before the order's next work. stream: of this order, and the caller's. */
void tn_pending_poll_capture(tarn_pool *pool, struct tn_arena *arena, tn_cu_stream stream);

/* Takes a PENDING block off the list and ends its uses. The caller has waited for the device,
 * reuses the memory at once, and makes the block FREE. */
void tn_pending_remove(tarn_pool *pool, struct tn_block *block);

#endif
