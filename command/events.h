// SPDX-License-Identifier: Apache-2.0
/* events.h -- the last events of a history, in the order of time: all, a pool's or an address's.
 *
 * The log is read as often as needed. The memory grows with the events that are kept and, where a
 * pool or an address is asked for, by a word for each of its allocations in the log. */
#ifndef TARN_COMMAND_EVENTS_H
#define TARN_COMMAND_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "history.h"
#include "owners.h"

struct wanted {
    size_t most; /* events, the last ones */
    bool by_pool;
    bool by_address;
    uint64_t pool;
    /* Any of a block. Its events are those of all blocks that had it, of the memory under it, and of
     * captures, graphs and checkpoints of the pools that gave it. */
    uint64_t address;
};

struct events {
    struct tn_told_event *all; /* in the order of time */
    size_t count;
    uint64_t matching; /* in the log: those that are not among the last are counted, too */
};

/* False: no memory. live: the blocks that the table has. */
bool events_read(struct events *events, const struct history *history, const struct owners *owners,
                 const struct wanted *wanted, const struct tn_told *live);
void events_free(struct events *events);

#endif
