// SPDX-License-Identifier: Apache-2.0
/* histories.h -- the open devices that keep a history, for the end of the process.
 *
 * When a process ends its threads may still be at work, and a lock of theirs may never be given
 * back. The list has a lock of its own, under which nothing waits. A device leaves the list before
 * its history goes.
 *
 * Locking: the list's own lock, a spin lock without a rank. */
#ifndef TARN_POOLS_HISTORIES_H
#define TARN_POOLS_HISTORIES_H

#include "pools/device.h"

void tn_histories_add(tarn_device *device);
/* The device may be in no list, where it keeps no history. */
void tn_histories_remove(tarn_device *device);

/* Locks the list: the histories stay. False: there is none of this process's own, or a thread has
 * had the lock for so long. */
bool tn_histories_lock(uint64_t wait_ns);
void tn_histories_unlock(void);

/* The newest device of the locked list; NULL: none. The next is history.next of it. */
tarn_device *tn_histories_first(void);

#endif
