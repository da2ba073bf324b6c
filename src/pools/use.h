// SPDX-License-Identifier: Apache-2.0
/* use.h -- blocks that other orders use, and freed blocks that wait for them.
 *
 * A use is noted when a stream is recorded, and what its end needs is set aside then, so that the free
 * cannot fail. At the free it joins a fence of the stream (pools/stream_table.h); the block is PENDING
 * until all its fences are done.
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
 * Locking: the pool's lock, where a pool is named; else none. */
#ifndef TARN_POOLS_USE_H
#define TARN_POOLS_USE_H

#include "pools/pool.h"
#include "pools/stream_table.h"

struct tn_use {
    struct tn_use *next; /* of the block */
    struct tn_order order;
    tn_cu_stream handle; /* in a capture: the stream's; NULL: it was retired */
    uint64_t thread;     /* in a capture: that named the stream last, and alone uses the handle */
    struct tn_known_stream *stream; /* outside captures, NOTED: the block is live */
    struct tn_fence *fence;         /* outside captures, freed: what ends the use */
    struct tn_markers markers;      /* in a capture, freed: what the stream had there at the free */
};

/* Notes that the block's cold record may have uses, a fence or watches. */
void tn_block_tangle(struct tn_block *block);

/* Notes that the order uses the LIVE block, and that the calling thread named the stream; the latter alone
 * when it is noted before, and nothing when it is the block's own order. HOST_MEMORY, DEVICE_LOST,
 * DRIVER. */
TARN_MUST_CHECK tarn_status tn_use_note(tarn_pool *pool, struct tn_block *block,
                                        tn_cu_stream stream, struct tn_order order);

/* A noted use of no block yet. HOST_MEMORY, DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_use_make(tarn_device *device, tn_cu_stream stream,
                                        struct tn_order order, struct tn_use **use);
void tn_use_end(tarn_device *device, struct tn_use *use);

/* Ends a noted use outside captures with the work that is on its stream now. DRIVER: only a wait for
 * the device proves the end. */
TARN_MUST_CHECK tarn_status tn_use_record(tarn_device *device, struct tn_use *use);

/* Gives the LIVE block a recorded use; an older one of the same order, which ends before it, goes. */
void tn_use_add(tarn_pool *pool, struct tn_block *block, struct tn_use *use);

/* The stamp of a free of the block now: 0 where no work of its own stream can be left. */
uint64_t tn_block_freed_stamp(const tarn_pool *pool, const struct tn_block *block);

/* Ends all uses of the block. */
void tn_uses_end(tarn_pool *pool, struct tn_block *block);

/* The stream of that handle is retired: no use of the pool's blocks, in a capture, uses the handle any
 * more. */
void tn_uses_forget(tarn_pool *pool, tn_cu_stream handle);

/* What a checkpoint keeps of the uses of a LIVE block: the streams that it was recorded for, outside
 * captures. Save acquires a reference to each; it fills room for as many as count says. */
size_t tn_uses_count(const struct tn_block *block);
void tn_uses_save(tarn_pool *pool, const struct tn_block *block, struct tn_known_stream **streams);

/* Noted uses of those of the streams that are not retired, of no block yet: all of them or none.
 * HOST_MEMORY, DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_uses_make(tarn_device *device,
                                         struct tn_known_stream *const *streams, size_t count,
                                         struct tn_use **uses);
void tn_uses_drop(tarn_device *device, struct tn_use *uses);

/* Gives the LIVE block the uses that were made for it. */
void tn_uses_give(struct tn_block *block, struct tn_use *uses);

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

/* The block's own stream is retired: from now on the fence stands for its work there, and it is of no
 * order. */
void tn_block_retire(tarn_pool *pool, struct tn_block *block, struct tn_fence *fence);

/* Whether the work of the block's own stream has ended because that was retired; forgets the fence. */
bool tn_block_settle(tarn_pool *pool, struct tn_block *block);

#endif
