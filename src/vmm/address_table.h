// SPDX-License-Identifier: Apache-2.0
/* address_table.h -- from an address to the segment that contains it.
 *
 *   V1  the entry of every slot of a segment is that segment; every other entry is NULL
 *
 * One table for the process, indexed by address >> TN_SLOT_BITS over the whole 47-bit address space
 * and touched lazily: a lookup is a shift and a load, without a lock, wherever regions lie.
 *
 * Locking: entries are atomic. Writers hold the lock of the segment's pool. A reader without it must
 * look again once it holds it. */
#ifndef TARN_VMM_ADDRESS_TABLE_H
#define TARN_VMM_ADDRESS_TABLE_H

#include <stdint.h>

#include "tarn/status.h"

struct tn_segment;

enum { TN_SLOT_BITS = 25, TN_ADDRESS_BITS = 47 };

#define TN_SLOT_BYTES ((uint64_t)1 << TN_SLOT_BITS) /* 32 MiB: smallest size with exact hints */

/* Makes the table; called under the PROCESS lock, any number of times. HOST_MEMORY. */
TARN_MUST_CHECK tarn_status tn_address_table_init(void);

void tn_address_table_set(uint64_t base, uint64_t slot_count, struct tn_segment *segment);

/* NULL when no segment contains the address, whatever it is. */
struct tn_segment *tn_address_table_find(uint64_t address);

#endif
