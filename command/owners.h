// SPDX-License-Identifier: Apache-2.0
/* owners.h -- whose events a writer of the log has: the pool, the stream and the capture of its arena.
 *
 * Notes say so. Where the log has lost a writer's note, its owner is not known. */
#ifndef TARN_COMMAND_OWNERS_H
#define TARN_COMMAND_OWNERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "history.h"

struct owner {
    uint64_t writer;
    uint64_t pool;
    uint64_t stream;  /* the driver's id; 0: of idle memory */
    uint64_t capture; /* the driver's id; 0: outside captures */
};

struct owners {
    struct owner *all; /* by their writers */
    size_t count;
};

/* False: no memory. *event_count: what the log has. *broken: pages with words of no writer's. */
bool owners_read(struct owners *owners, const struct history *history, uint64_t *event_count,
                 uint64_t *broken);
void owners_free(struct owners *owners);

/* NULL: not known. */
const struct owner *owners_find(const struct owners *owners, uint64_t writer);

#endif
