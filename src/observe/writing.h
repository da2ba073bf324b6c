// SPDX-License-Identifier: Apache-2.0
/* writing.h -- bytes handed to a function of the program's.
 *
 * Locking: none may be held. */
#ifndef TARN_OBSERVE_WRITING_H
#define TARN_OBSERVE_WRITING_H

#include <stdint.h>

#include "tarn/snapshot.h"

/* The program's writer, and how much it has taken. */
struct tn_writing {
    tarn_writer writer;
    void *user;
    uint64_t written_bytes;
};

/* Hands bytes to the writer; the context is a struct tn_writing. The writer's status, with a
 * sentence; in a child of a writer that has forked, that of a fork. */
TARN_MUST_CHECK tarn_status tn_write_part(void *context, const void *bytes, size_t count);

#endif
