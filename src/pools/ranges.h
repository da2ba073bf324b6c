// SPDX-License-Identifier: Apache-2.0
/* ranges.h -- ranges of a program's time, such as a profiler's, in a ring of their own: however many
 * there are, they overwrite nothing but each other.
 *
 * The begin and the end of a range are an event each. Both have the range's id, which names its
 * title: so the end has a name, too, when the begin is overwritten. All events are of one writer, in
 * their order.
 *
 *     first word's value   the number of the thread
 *     second word          the range: bits 0 to 31 its title, bits 32 to 63 its number
 *
 * Locking: a spin lock of its own, with any others held. */
#ifndef TARN_POOLS_RANGES_H
#define TARN_POOLS_RANGES_H

#include "base/ring_file.h"
#include "base/spin.h"

/* The area of a ring's file (base/ring_file.h), behind those of stacking.h. */
enum { TN_RANGES = 2 };

enum tn_range_kind { TN_RANGE_BEGUN = TN_RING_STAMP + 1, TN_RANGE_ENDED };

/* Zeroed: of a device without a history. */
struct tn_ranges {
    struct tn_ring ring;
    struct tn_ring_writer writer; /* guarded by lock */
    struct tn_spin lock;
    atomic_uint_fast64_t count; /* of ranges that were begun */
    atomic_bool skipped;        /* ranges are counted, and not written */
};

void tn_ranges_plan(struct tn_ring_plan *plan);

/* In the area of the file that was planned so. False: no memory. */
bool tn_ranges_init(struct tn_ranges *ranges, const struct tn_ring_file *file);
void tn_ranges_fini(struct tn_ranges *ranges);

/* No range that was written is left. */
void tn_ranges_clear(struct tn_ranges *ranges);

/* Begins a range with a title, and returns the range, never 0. */
uint64_t tn_range_begin(struct tn_ranges *ranges, uint32_t title);

/* False: no such range was begun. */
bool tn_range_end(struct tn_ranges *ranges, uint64_t range);

#endif
