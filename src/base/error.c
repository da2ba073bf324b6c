// SPDX-License-Identifier: Apache-2.0
/* Each thread has one buffer for its last sentence. A sentence that does not fit is cut, since only
 * people read sentences. Names and sentences come from the public status table and cannot drift
 * from the table. */
#include "base/error.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/contract.h"
#include "base/environment.h"

static _Thread_local char last_sentence[sizeof(struct tn_error_sentence)];

static int log_wanted(void)
{
    const char *value = tn_environment("TARN_LOG");

    return value != NULL && value[0] != '\0' && value[0] != '0';
}

/* The write to a file would otherwise be a cancellation point. */
static void log_sentence(const char *what, const char *sentence)
{
    int cancel;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    (void)fprintf(stderr, "tarn: %s: %s\n", what, sentence);
    (void)pthread_setcancelstate(cancel, NULL);
}

tarn_status tn_fail(tarn_status status, const char *format, ...)
{
    va_list arguments;

    TN_ASSERT(status != TARN_OK);
    va_start(arguments, format);
    (void)vsnprintf(last_sentence, sizeof last_sentence, format, arguments);
    va_end(arguments);
    if (log_wanted())
        log_sentence(tarn_status_name(status), last_sentence);
    return status;
}

void tn_note(const char *format, ...)
{
    char sentence[sizeof last_sentence];
    va_list arguments;

    TN_ASSERT(format != NULL);
    if (!log_wanted())
        return;
    va_start(arguments, format);
    (void)vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    log_sentence("note", sentence);
}

void tn_error_keep(struct tn_error_sentence *sentence)
{
    memcpy(sentence->text, last_sentence, sizeof last_sentence);
}

void tn_error_put_back(const struct tn_error_sentence *sentence)
{
    TN_ASSERT(memchr(sentence->text, '\0', sizeof sentence->text) != NULL);
    memcpy(last_sentence, sentence->text, sizeof last_sentence);
}

const char *tarn_last_error(void)
{
    return last_sentence;
}

#define COUNT_ROW(name, number, sentence) +1
enum { STATUS_COUNT = 0 TARN_STATUS_TABLE(COUNT_ROW) };
#undef COUNT_ROW

#define SENTENCE_IS_THERE(name, number, sentence)                                                  \
    _Static_assert(sizeof(sentence) > 1, #name " needs a sentence");
TARN_STATUS_TABLE(SENTENCE_IS_THERE)
#undef SENTENCE_IS_THERE

static const struct status_row {
    tarn_status status;
    const char *name;
    const char *sentence;
} status_rows[STATUS_COUNT] = {
#define STATUS_ROW(name, number, sentence) {name, #name, sentence},
    TARN_STATUS_TABLE(STATUS_ROW)
#undef STATUS_ROW
};

static const struct status_row *find_row(tarn_status status)
{
    for (int i = 0; i < STATUS_COUNT; i++) {
        if (status_rows[i].status == status)
            return &status_rows[i];
    }
    return NULL;
}

const char *tarn_status_name(tarn_status status)
{
    const struct status_row *row = find_row(status);

    return row != NULL ? row->name : "unknown status";
}

const char *tarn_status_sentence(tarn_status status)
{
    const struct status_row *row = find_row(status);

    return row != NULL ? row->sentence : "unknown status";
}
