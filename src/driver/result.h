// SPDX-License-Identifier: Apache-2.0
/* result.h -- the driver's results: names, faults of the context, errors about captures.
 *
 * The table of errors about captures is the only place for their meaning and the help. A call that
 * breaks a capture is answered with one of these errors. The end of a broken capture is answered
 * with another one, and says little of that call. Some calls break a capture with errors that are not
 * about captures: a kernel that cannot be launched, a wait for an event of a capture that is over.
 *
 * Locking: none; all is constant. */
#ifndef TARN_DRIVER_RESULT_H
#define TARN_DRIVER_RESULT_H

#include <stdbool.h>

#include "abi/cuda.h"

/* "CUDA_ERROR_OUT_OF_MEMORY" and the like; never NULL. */
const char *tn_result_name(tn_cu_result result);

/* Whether a context answers no other call after this result. CUDA_ERROR_DEINITIALIZED is among
 * them: a driver that shuts down at process exit takes its memory along. */
bool tn_result_is_sticky(tn_cu_result result);

struct tn_driver_capture_error {
    tn_cu_result result;
    const char *meaning; /* for the capture; the end of a sentence, as the next */
    const char *remedy;
};

/* The meaning of the result; NULL: the result is not about captures. */
const struct tn_driver_capture_error *tn_result_about_capture(tn_cu_result result);

#endif
