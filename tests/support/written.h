// SPDX-License-Identifier: Apache-2.0
/* written.h -- what a snapshot's writer was given, kept as far as it has room, and looked through. */
#ifndef TARN_TESTS_WRITTEN_H
#define TARN_TESTS_WRITTEN_H

#include <string.h>

#include "support/world.h"

static char written[1 << 20];
static size_t written_count;

/* A tarn_writer. */
static inline tarn_status take_text(const void *bytes, size_t count, void *user)
{
    (void)user;
    ck_assert_uint_lt(written_count + count, sizeof written);
    memcpy(written + written_count, bytes, count);
    written_count += count;
    return TARN_OK;
}

/* How often the text was written. */
static inline size_t count_of(const char *text)
{
    size_t count = 0;
    const char *at = written;

    while ((at = memmem(at, (size_t)(written + written_count - at), text, strlen(text))) != NULL) {
        at += 1;
        count += 1;
    }
    return count;
}

#endif
