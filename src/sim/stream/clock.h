// SPDX-License-Identifier: Apache-2.0
/* clock.h -- vector clocks of device work, and accesses to memory at two addresses that are not
 * ordered. Part of the checker (check.h): without the checker nothing is kept.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_CLOCK_H
#define TARN_SIM_CLOCK_H

#include "sim/core/core.h"

struct tn_sim_op;
struct tn_sim_clock;
struct tn_sim_point;
struct tn_sim_stream;

/* Notes that memory has a second address: from now on order matters. */
void tn_sim_clock_watch(void);

/* Notes that a stream's newest work, just queued, comes after up to two further points. These are
 * points besides those of its stream and of the legacy stream's rule. Points may be NULL. */
void tn_sim_clock_push(struct tn_sim_stream *stream, const struct tn_sim_point *first,
                       const struct tn_sim_point *second);

/* Notes that a stream's present moment is being marked, for others to wait for. */
void tn_sim_clock_record(struct tn_sim_stream *stream);

/* Notes that a stream's work from now on comes after a point already reached. */
void tn_sim_clock_follow(struct tn_sim_stream *stream, const struct tn_sim_point *point);

/* Notes that the program knows a point to be reached, or all queued work of a stream to be done. */
void tn_sim_clock_known(const struct tn_sim_point *point);
void tn_sim_clock_known_all(struct tn_sim_stream *stream);

/* Says which work the calling worker does from now on. */
void tn_sim_clock_enter(struct tn_sim_stream *stream, uint64_t ticket);

/* Notes that the program may learn of everything before the present work by means other than a
 * wait: by a host function, or by a word written for the program. */
void tn_sim_clock_told(void);

/* Notes that the present work has learnt of everything that the program may have learnt. */
void tn_sim_clock_heard(void);

/* Notes that an operation of the present work touches memory with several addresses: a range of a
 * piece of memory, at one of its addresses. Reports accesses not ordered with this access. */
void tn_sim_clock_touch(const struct tn_sim_op *op, const void *memory, size_t offset, size_t bytes,
                        uintptr_t address, bool write);

/* Forgets a piece of memory about to be given back. */
void tn_sim_clock_forget(const void *memory);

/* Releases the checker's record of a stream that goes. */
void tn_sim_clock_release(struct tn_sim_clock *order);

#endif
