// SPDX-License-Identifier: Apache-2.0
/* capture_error.h -- what the driver's errors about captures mean, and what helps.
 *
 * The one table of them. A call that breaks a capture is answered with one of these; the end of a broken capture
 * with another, which says little of that call. Some calls break a capture with errors that are not about captures:
 * a kernel that cannot be launched, a wait for an event of a capture that is over.
 *
 * Locking: none; all is constant. */
#ifndef TARN_DRIVER_CAPTURE_ERROR_H
#define TARN_DRIVER_CAPTURE_ERROR_H

#include "abi/cuda.h"

struct tn_capture_error {
    tn_cu_result result;
    const char *meaning; /* for the capture; the end of a sentence, as the next */
    const char *remedy;
};

/* What there is to say of the result; NULL: it is not about captures. */
const struct tn_capture_error *tn_capture_error_find(tn_cu_result result);

#endif
