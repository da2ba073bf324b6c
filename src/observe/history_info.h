// SPDX-License-Identifier: Apache-2.0
/* history_info.h -- the contents and the memory of a device's history, in numbers.
 *
 * Locking: any thread; spin locks alone. */
#ifndef TARN_OBSERVE_HISTORY_INFO_H
#define TARN_OBSERVE_HISTORY_INFO_H

#include "pools/device.h"
#include "tarn/history.h"

/* The memory of the history: its file, and the parts in the process's own memory. */
uint64_t tn_history_bytes(const tarn_device *device);

tarn_history_info tn_history_describe(tarn_device *device);

#endif
