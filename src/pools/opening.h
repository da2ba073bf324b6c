// SPDX-License-Identifier: Apache-2.0
/* opening.h -- opening and closing devices, counted among their users.
 *
 * Locking: the PROCESS lock guards the list of open devices and their user counts. No lock may be held. */
#ifndef TARN_POOLS_OPENING_H
#define TARN_POOLS_OPENING_H

#include "pools/device.h"

/* options: checked, with nothing left to default. stated: they are the program's, so that a device which is open already
 * must read NULL streams as they say.
 *   WRONG_STATE  it does not; what opening a device may answer */
TARN_MUST_CHECK tarn_status tn_device_open(int ordinal, const tarn_device_options *options,
                                           bool stated, tarn_device **device);
TARN_MUST_CHECK tarn_status tn_device_close(tarn_device *device);

#endif
