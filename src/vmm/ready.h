// SPDX-License-Identifier: Apache-2.0
/* ready.h -- registered memory that is ready, in pieces of 16 MiB.
 *
 * Registering is forbidden under a lock. A caller with a lock takes a piece from the list, which calls
 * no driver; callers without a lock fill the list and trim it. Each piece has a slot of addresses, and
 * the rest of the slot has no memory. No two pieces are neighbours, and no block spans two of them.
 *
 *   V12  each piece in the list is one registration, at the base of its slot
 *
 * Locking: a mutex inside, rank REGION, under which nothing else is taken and no driver is called.
 * tn_ready_take and tn_ready_give may be called with locks of lower rank held, the others with
 * none. */
#ifndef TARN_VMM_READY_H
#define TARN_VMM_READY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "vmm/registered.h"

struct tn_ready {
    struct tn_registered *registered; /* immutable */
    struct tn_lock lock;
    uint64_t *bases; /* of the pieces, the last taken first; guarded by lock, as all below */
    size_t capacity;
    size_t count;
    size_t out_count; /* pieces that were taken */
};

void tn_ready_init(struct tn_ready *ready, struct tn_registered *registered);

/* Waits for the device, and gives up all pieces. None is out. */
void tn_ready_fini(struct tn_ready *ready);

/* Registers pieces until count of them are ready. Pieces that were made stay when a later one is
 * refused. Others take pieces meanwhile, so fewer may be there at the return.
 *   The statuses of tn_registered_add, and ADDRESS_SPACE. */
TARN_MUST_CHECK tarn_status tn_ready_fill(struct tn_ready *ready, size_t count);

/* Takes a piece of TN_HOST_PIECE_BYTES; false: none is ready. Its contents are undefined. */
bool tn_ready_take(struct tn_ready *ready, uint64_t *base);

/* Gives a piece back with which the device, and every other user, has finished. */
void tn_ready_give(struct tn_ready *ready, uint64_t base);

/* Ends registrations until keep_count pieces are ready or fewer; returns the bytes. Waits for the
 * device's work. */
uint64_t tn_ready_trim(struct tn_ready *ready, size_t keep_count);

/* The bytes that are ready. */
uint64_t tn_ready_bytes(struct tn_ready *ready);

/* Recomputes V12. CORRUPT, with the invariant. */
TARN_MUST_CHECK tarn_status tn_ready_check(struct tn_ready *ready);

#endif
