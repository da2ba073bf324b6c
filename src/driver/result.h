// SPDX-License-Identifier: Apache-2.0
/* capture_error.h -- the driver's errors about captures: their meaning, and the help.
 *
 * The table is the only place for both. A call that breaks a capture is answered with one of these
 * errors. The end of a broken capture is answered with another, which says little of that call.
 * Some calls break a capture with errors that are not about captures: a kernel that cannot be
 * launched, a wait for an event of a capture that is over.
 *
 * Locking: none; all is constant. */
#ifndef TARN_DRIVER_CAPTURE_ERROR_H
#define TARN_DRIVER_CAPTURE_ERROR_H

#include "abi/cuda.h"

struct tn_driver_capture_error {
    tn_cu_result result;
    const char *meaning; /* for the capture; the end of a sentence, as the next */
    const char *remedy;
};

/* The meaning of the result; NULL: the result is not about captures. */
const struct tn_driver_capture_error *tn_driver_capture_error_find(tn_cu_result result);

#endif
