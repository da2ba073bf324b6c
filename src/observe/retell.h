// SPDX-License-Identifier: Apache-2.0
/* retell.h -- the live blocks of a device, by its history.
 *
 * The history may be of another process, or of a process which is gone. A page's words are read with
 * suspicion, and nothing is told beyond the pages. */
#ifndef TARN_OBSERVE_RETELL_H
#define TARN_OBSERVE_RETELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ring.h"
#include "tarn/status.h"
#include "tarn/types.h"

struct tn_told_block {
    uint64_t sequence;
    uint64_t address;
    uint64_t bytes;
    uint64_t requested;
};

struct tn_told {
    struct tn_told_block *blocks; /* live behind the last event, in order of their numbers */
    size_t count;
    uint64_t event_count;   /* allocations and frees that were read */
    uint64_t lost_pages;    /* overwritten pages of writers that have others; at least */
    uint64_t lost_events;   /* without a page */
    uint64_t unknown_frees; /* of blocks without an allocation here */
    uint64_t broken_pages;  /* with words of no writer's */
};

/* Reads a ring's pages, which writers may write meanwhile. *told: end it by tn_told_free.
 *   HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_retell(tn_ring_source source, void *context, size_t page_count,
                                      struct tn_told *told);

void tn_told_free(struct tn_told *told);

#endif
