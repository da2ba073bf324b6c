// SPDX-License-Identifier: Apache-2.0
/* live.h -- the live blocks of a history, by the stacks of their allocations, by pools and by tags. */
#ifndef TARN_COMMAND_LIVE_H
#define TARN_COMMAND_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "history.h"
#include "observe/retell.h"

struct live_group {
    uint64_t key; /* the stack's number, the pool's, or the tag */
    uint64_t blocks;
    uint64_t bytes;
    uint64_t requested;
    uint64_t oldest; /* the lowest number of a block: numbers rise with allocations */
    uint64_t newest;
    uint64_t pool; /* of the block with the most bytes */
    uint64_t largest;
    /* All that these blocks stand for, where some allocations alone have a stack; else the same as
     * blocks and requested. */
    double estimated_blocks;
    double estimated_requested;
};

struct live_groups {
    struct live_group *all; /* worst first */
    size_t count;
    struct live_group total;
};

enum live_key { LIVE_BY_STACK, LIVE_BY_POOL, LIVE_BY_TAG, LIVE_KEYS };

/* How many allocations one stands for, where some allocations alone have a stack. history: as below. */
double live_weight(uint64_t requested, uint64_t stack, uint64_t sample_bytes,
                   const struct history *history);

/* The pool's blocks alone, or those of all pools (NULL). sample_bytes: of how many bytes, in the mean,
 * an allocation has a stack. history: where the stacks are; NULL: none is a label alone, which an
 * allocation has that was not chosen. The blocks get another order. False: no memory. */
bool live_group(struct live_groups *groups, struct tn_told *told, enum live_key key,
                const uint64_t *pool, uint64_t sample_bytes, struct history *history);
void live_free(struct live_groups *groups);

#endif
