// SPDX-License-Identifier: Apache-2.0
/* written.h -- which bytes of the devices' memory were ever written: kept for the checker.
 *
 * Each device has a bitmap over the file behind its memory, a bit for each sector.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_WRITTEN_H
#define TARN_SIM_WRITTEN_H

#include "sim/core/store.h"

/* Makes sure that a device has its bitmap. Returns false when memory ran out. */
bool tn_sim_written_prepare(int device);

/* Notes that memory has been taken: nothing is written there yet. Without the checker nothing
 * happens. */
void tn_sim_written_clear(const struct tn_sim_store *store, const struct tn_sim_extent *extent);

/* Notes a write to a range of a device's file, which has its bitmap. */
void tn_sim_written_note(int device, size_t offset, size_t bytes);

/* Looks for the first sector without a write in a range of a device's file, which has its bitmap.
 * Returns false when every sector was written; otherwise *into is the sector's place in the
 * range. */
bool tn_sim_written_gap(int device, size_t offset, size_t bytes, size_t *into);

#endif
