// SPDX-License-Identifier: Apache-2.0
/* 2^22 pointers, 32 MiB of addresses, of which only the pages in use have memory. */
#include "vmm/address_table.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#include "base/contract.h"
#include "base/error.h"

static const uint64_t entry_count = (uint64_t)1 << (TN_ADDRESS_BITS - TN_SLOT_BITS);

typedef _Atomic(struct tn_segment *) table_entry;

static _Atomic(table_entry *) table; /* set once, under the PROCESS lock */

tarn_status tn_address_table_init(void)
{
    void *memory;

    if (atomic_load(&table) != NULL)
        return TARN_OK;
    memory = mmap(NULL, entry_count * sizeof(table_entry), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no 32 MiB of host addresses for the address table");
    atomic_store(&table, (table_entry *)memory);
    return TARN_OK;
}

void tn_address_table_set(uint64_t base, uint64_t slot_count, struct tn_segment *segment)
{
    table_entry *entries = atomic_load_explicit(&table, memory_order_relaxed);
    uint64_t first = base >> TN_SLOT_BITS;

    TN_ASSERT(base % TN_SLOT_BYTES == 0 && first + slot_count <= entry_count);
    for (uint64_t i = first; i < first + slot_count; i++) /* V1 */
        atomic_store_explicit(&entries[i], segment, memory_order_release);
}

struct tn_segment *tn_address_table_find(uint64_t address)
{
    table_entry *entries = atomic_load_explicit(&table, memory_order_acquire);

    if (entries == NULL || address >> TN_ADDRESS_BITS != 0)
        return NULL;
    return atomic_load_explicit(&entries[address >> TN_SLOT_BITS], memory_order_acquire);
}
