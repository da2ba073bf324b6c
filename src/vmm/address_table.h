// SPDX-License-Identifier: Apache-2.0
/* address_table.h -- from an address to the segment that contains it, and to the chunk mapped
 * there.
 *
 *   V1  the entry of every slot of a segment is that segment; every other entry is NULL
 *   V4  the entry of every page under a chunk is that chunk; every other entry is NULL
 *
 * The process has two tables, indexed by address >> TN_SLOT_BITS and address >> TN_PAGE_BITS. They
 * cover the 48 bits of addresses that x86-64 and 64-bit ARM give, and are touched lazily. A lookup
 * is a shift and a load, without a lock, wherever regions lie. No region lies above the 48 bits
 * (vmm/region.c). Segments and chunks are recycled, never freed, so the result of a lookup can
 * always be read.
 *
 * Locking: entries are atomic. Writers hold the lock of the segment's pool. A reader without it
 * must look again once it holds it. */
#ifndef TARN_VMM_ADDRESS_TABLE_H
#define TARN_VMM_ADDRESS_TABLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hot.h"
#include "tarn/status.h"

struct tn_chunk;
struct tn_segment;

enum { TN_SLOT_BITS = 25, TN_PAGE_BITS = 21, TN_ADDRESS_BITS = 48 };

#define TN_SLOT_BYTES ((uint64_t)1 << TN_SLOT_BITS) /* 32 MiB: smallest size with exact hints */
#define TN_PAGE_BYTES                                                                              \
    ((uint64_t)1 << TN_PAGE_BITS) /* 2 MiB: the driver's step, and smallest chunk */

typedef _Atomic(struct tn_segment *) tn_address_slot;
typedef _Atomic(struct tn_chunk *) tn_address_page;

/* Set once, under the PROCESS lock; before, both are NULL and no address is anybody's. */
struct tn_address_table {
    _Atomic(tn_address_slot *) slots;
    _Atomic(tn_address_page *) pages;
};

extern struct tn_address_table tn_address_table;

/* Makes the tables; called under the PROCESS lock, any number of times. HOST_MEMORY. */
TARN_MUST_CHECK tarn_status tn_address_table_init(void);

void tn_address_table_set(uint64_t base, uint64_t slot_count, struct tn_segment *segment);
void tn_address_table_set_pages(uint64_t address, uint64_t bytes, struct tn_chunk *chunk);

/* NULL when no segment contains the address, for any address at all. */
static inline struct tn_segment *tn_address_table_find(uint64_t address)
{
    tn_address_slot *slots = atomic_load_explicit(&tn_address_table.slots, memory_order_acquire);

    if (slots == NULL || address >> TN_ADDRESS_BITS != 0)
        return NULL;
    return atomic_load_explicit(&slots[address >> TN_SLOT_BITS], memory_order_acquire);
}

/* NULL when no chunk is mapped at the address. */
static inline struct tn_chunk *tn_address_table_chunk(uint64_t address)
{
    tn_address_page *pages = atomic_load_explicit(&tn_address_table.pages, memory_order_acquire);

    if (TN_UNLIKELY(pages == NULL) || TN_UNLIKELY(address >> TN_ADDRESS_BITS != 0))
        return NULL;
    return atomic_load_explicit(&pages[address >> TN_PAGE_BITS], memory_order_acquire);
}

#endif
