// SPDX-License-Identifier: Apache-2.0
/* 2^23 pointers to segments and 2^27 to chunks: 1,088 MiB of addresses, of which only the pages in
 * use have memory. */
#include "vmm/address_table.h"

#include <sys/mman.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/fork.h"

static const uint64_t slot_count_max = (uint64_t)1 << (TN_ADDRESS_BITS - TN_SLOT_BITS);
static const uint64_t page_count_max = (uint64_t)1 << (TN_ADDRESS_BITS - TN_PAGE_BITS);

struct tn_address_table tn_address_table;

static void *reserve(uint64_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return memory != MAP_FAILED ? memory : NULL;
}

/* In a child of fork(): no address is anybody's, so a free finds no arena whose lock it would
 * take. */
static void forget(void)
{
    atomic_store(&tn_address_table.slots, NULL);
    atomic_store(&tn_address_table.pages, NULL);
}

tarn_status tn_address_table_init(void)
{
    tn_fork_tell(forget);
    if (atomic_load(&tn_address_table.slots) == NULL)
        atomic_store(&tn_address_table.slots, reserve(slot_count_max * sizeof(tn_address_slot)));
    if (atomic_load(&tn_address_table.pages) == NULL)
        atomic_store(&tn_address_table.pages, reserve(page_count_max * sizeof(tn_address_page)));
    if (atomic_load(&tn_address_table.slots) == NULL ||
        atomic_load(&tn_address_table.pages) == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY,
                       "no 1088 MiB of host addresses for the address tables; "
                       "they take memory only where they are used");
    return TARN_OK;
}

void tn_address_table_set(uint64_t base, uint64_t slot_count, struct tn_segment *segment)
{
    uint64_t first = base >> TN_SLOT_BITS;

    TN_ASSERT(base % TN_SLOT_BYTES == 0 && first + slot_count <= slot_count_max);
    for (uint64_t i = first; i < first + slot_count; i++) /* V1 */
        atomic_store_explicit(&tn_address_table.slots[i], segment, memory_order_release);
}

void tn_address_table_set_pages(uint64_t address, uint64_t bytes, struct tn_chunk *chunk)
{
    tn_address_page *pages = &tn_address_table.pages[address >> TN_PAGE_BITS];
    uint64_t count = bytes >> TN_PAGE_BITS;

    TN_ASSERT(address % TN_PAGE_BYTES == 0 && bytes % TN_PAGE_BYTES == 0);
#pragma GCC unroll 8
    for (uint64_t i = 0; i < count; i++) { /* V4 */
        TN_ASSERT((atomic_load(&pages[i]) == NULL) == (chunk != NULL));
        atomic_store_explicit(&pages[i], chunk, memory_order_release);
    }
}
