// SPDX-License-Identifier: Apache-2.0
/* error.h -- the thread's last error sentence. */
#ifndef TARN_BASE_ERROR_H
#define TARN_BASE_ERROR_H

#include "tarn/status.h"

/* Records the sentence for tarn_last_error on this thread and returns the status, so that a failure
 * is one statement: return tn_fail(TARN_ERR_BUSY, "...", ...). With TARN_LOG=1 in the environment
 * the sentence also goes to standard error. Never called with TARN_OK. */
tarn_status tn_fail(tarn_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));

/* With TARN_LOG=1, tells a sentence about something that is no failure of the call. */
void tn_note(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* The thread's sentence, around a function of the program's, which may call the library. */
struct tn_error_sentence {
    char text[1024];
};

void tn_error_keep(struct tn_error_sentence *sentence);
void tn_error_put_back(const struct tn_error_sentence *sentence);

#endif
