// SPDX-License-Identifier: Apache-2.0
/* order.h -- which device work is ordered behind which, and what touches memory at two addresses
 * without being so. Part of the checker (check.h): without it nothing is kept.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_ORDER_H
#define TARN_SIM_ORDER_H

#include "sim/core/core.h"

struct tn_sim_op;
struct tn_sim_order;
struct tn_sim_point;
struct tn_sim_stream;

/* Notes that memory has got a second address: from now on order matters. */
void tn_sim_order_watch(void);

/* Notes that a stream's newest work, just queued, comes after up to two points besides what its
 * stream and the legacy stream's rule demand. Points may be NULL. */
void tn_sim_order_push(struct tn_sim_stream *stream, const struct tn_sim_point *first,
                       const struct tn_sim_point *second);

/* Notes that a stream's present moment is being marked, for others to wait for. */
void tn_sim_order_mark(struct tn_sim_stream *stream);

/* Notes that what a stream is given from now on comes after a point that is reached already. */
void tn_sim_order_follow(struct tn_sim_stream *stream, const struct tn_sim_point *point);

/* Notes that the program knows a point to be reached, or all that a stream has queued to be done. */
void tn_sim_order_known(const struct tn_sim_point *point);
void tn_sim_order_known_all(struct tn_sim_stream *stream);

/* Says which work the calling worker does from now on. */
void tn_sim_order_begin(struct tn_sim_stream *stream, uint64_t ticket);

/* Notes that the program may learn of everything before the present work, by other means than a
 * wait: a host function, or a word that is written for it. */
void tn_sim_order_told(void);

/* Notes that an operation of the present work touches memory that has several addresses: a range of
 * a piece of memory, at one of them. Reports what is unordered with that. */
void tn_sim_order_touch(const struct tn_sim_op *op, const void *memory, size_t offset, size_t bytes,
                        uintptr_t address, bool write);

/* Forgets a piece of memory that is being given back. */
void tn_sim_order_forget(const void *memory);

/* Releases what is kept for a stream that is going. */
void tn_sim_order_release(struct tn_sim_order *order);

#endif
