// SPDX-License-Identifier: Apache-2.0
/* leaks_exit.h -- live blocks at the end of the process, or when a device cannot be closed, where
 * the environment asks for them: TARN_LEAKS, as tarn/leaks.h says.
 *
 * The text goes to standard error, or to the end of a file, by the system's write: no lock of the C
 * library is needed. A device's text begins with "tarn: ".
 *
 * At the end of the process the library's destructor writes: behind all functions of atexit() and
 * all destructors of objects that use the library. The driver may be gone by then. Nothing is
 * written where the process ends otherwise: by a signal, _exit() or quick_exit(). The exit status
 * stays.
 *
 * Locking: none may be held. */
#ifndef TARN_OBSERVE_LEAKS_EXIT_H
#define TARN_OBSERVE_LEAKS_EXIT_H

#include <stdbool.h>

#include "pools/device.h"

/* Reads the environment: whether TARN_LEAKS asks. The last answer counts. */
bool tn_leaks_are_asked_for(void);

/* The device cannot be closed: writes its live blocks, if asked to. A pin keeps the device. */
void tn_leaks_tell_at_close(tarn_device *device);

/* The destructor's work. */
void tn_leaks_tell_at_exit(void);

#endif
