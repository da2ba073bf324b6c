// SPDX-License-Identifier: Apache-2.0
/* settle.h -- a pool's free memory brought into one form.
 *
 * A section that is captured again after a restore gets the same addresses, whatever polls have
 * found meanwhile. So a restore frees what is PENDING without asking whether its uses have ended:
 * it puts its stream behind them. What is enqueued later comes behind that stream. A take does the
 * same, for a section is captured behind that first.
 *
 *   C8  a settled pool has no PENDING block but those that a guard keeps, that wait for a graph to
 *       be adopted or, after a take, that only a wait would free or that are other streams' alone
 *
 * Locking: the pool's lock; no capture is under way in the pool. */
#ifndef TARN_CHECKPOINT_SETTLE_H
#define TARN_CHECKPOINT_SETTLE_H

#include "pools/pending.h"

struct tn_settlement {
    tarn_pool *pool; /* immutable, as the next ones */
    tn_cu_stream stream;
    struct tn_order order;
    bool by_events; /* the stream may wait for events */
    bool all;       /* of a restore: also what is other streams' alone, if need be after a wait */
    uint64_t idle_sequence; /* LIVE blocks up to this one were there before the last wait */
    /* Found by the plan: */
    uint16_t mark;        /* that blocks carry which it is to free */
    bool needs_wait;      /* only a wait for the device ends some use */
    bool ends_retired;    /* the arenas of retired streams end, too */
    bool serves_captures; /* memory that others use still goes to captures */
    size_t count;         /* of marked blocks */
};

/* A number that no live block of the pool is marked with; its lock is held. */
uint16_t tn_next_mark(tarn_pool *pool);

/* Finds out what is to be freed. Changes marks, and records fences. */
void tn_settle_plan(struct tn_settlement *settlement);

/* The same for a LIVE block that the restore is about to free. */
void tn_settle_plan_live(struct tn_settlement *settlement, struct tn_block *block);

/* Puts the stream behind what was planned for. DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_settle_prepare(const struct tn_settlement *settlement);

/* Frees it. Takes up to two records for each marked block. A LIVE block is freed by now; where the
 * driver refuses to put the stream behind its uses it stays PENDING. */
void tn_settle_commit(const struct tn_settlement *settlement);

#endif
