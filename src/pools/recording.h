// SPDX-License-Identifier: Apache-2.0
/* recording.h -- which events a device's history gets from now on, and that it begins anew.
 *
 * Nothing of this is asked on the way of an event that is recorded. Where events of blocks are
 * skipped, their writers have no page, and find no new one. The table of live blocks is always kept.
 *
 * Locking: none may be held: each pool is locked in turn. */
#ifndef TARN_POOLS_RECORDING_H
#define TARN_POOLS_RECORDING_H

#include "pools/device.h"

/* As tarn_history_settings in tarn/history.h has them. */
struct tn_recording {
    uint64_t skipped; /* of tarn_history_kind */
    enum tn_stack_level level;
    bool logs_stacks; /* else the table of live blocks alone has them */
};

/* The device keeps a history. */
void tn_recording_set(tarn_device *device, const struct tn_recording *recording);
struct tn_recording tn_recording_get(const tarn_device *device);

/* What was written up to now is no longer there, but for the table of live blocks. The device keeps a
 * history. */
void tn_recording_clear(tarn_device *device);

#endif
