// SPDX-License-Identifier: Apache-2.0
/* space.c -- indexes of address ranges, and the pages behind them.
 *
 * How it works. An index is a sorted array of pointers, searched by halving. Addresses come from
 * plain mmap calls whose hints are compared afterwards. Only ranges obtained in this way are ever
 * mapped over with MAP_FIXED. This suits ThreadSanitizer, which moves hints and refuses fixed
 * mappings of its choice.
 *
 * Trade-offs. Adding to a sorted array moves the later entries: with the 65,530 mappings that Linux
 * allows a process, at most half a MiB. Pages have a single protection, the union of all devices'
 * rights. They do not stop a kernel on a device without rights; the books stop copies and sets. */
#include "sim/memory/space.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RESERVE_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)
#define FIRST_CAPACITY 16

struct tn_sim_index tn_sim_reservations;
struct tn_sim_index tn_sim_mappings;
struct tn_sim_index tn_sim_linears;
struct tn_sim_index tn_sim_hosts;
struct tn_sim_index tn_sim_blocks;
struct tn_sim_index tn_sim_openings;
struct tn_sim_index tn_sim_graph_blocks;

static uint64_t last_id;

uint64_t tn_sim_space_next_id(void)
{
    return ++last_id;
}

static uintptr_t end_of(const struct tn_sim_span *span)
{
    return span->start + span->bytes;
}

size_t tn_sim_index_after(const struct tn_sim_index *index, uintptr_t address)
{
    size_t low = 0;
    size_t high = index->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (end_of(index->items[middle]) > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void *tn_sim_index_overlap(const struct tn_sim_index *index, uintptr_t start, size_t bytes)
{
    size_t position = tn_sim_index_after(index, start);
    if (position == index->count || index->items[position]->start >= start + bytes)
        return NULL;
    return index->items[position];
}

void *tn_sim_index_find(const struct tn_sim_index *index, uintptr_t address)
{
    return tn_sim_index_overlap(index, address, 1);
}

/* SA1 is the callers': they look for an overlap first. */
bool tn_sim_index_add(struct tn_sim_index *index, struct tn_sim_span *span)
{
    if (index->count == index->capacity) {
        size_t capacity = index->capacity == 0 ? FIRST_CAPACITY : index->capacity * 2;
        struct tn_sim_span **items = realloc(index->items, capacity * sizeof(struct tn_sim_span *));
        if (items == NULL)
            return false;
        index->items = items;
        index->capacity = capacity;
    }
    size_t position = tn_sim_index_after(index, span->start);
    memmove(&index->items[position + 1], &index->items[position],
            (index->count - position) * sizeof(struct tn_sim_span *));
    index->items[position] = span;
    index->count++;
    return true;
}

void tn_sim_index_remove(struct tn_sim_index *index, const struct tn_sim_span *span)
{
    size_t position = tn_sim_index_after(index, span->start);
    index->count--;
    memmove(&index->items[position], &index->items[position + 1],
            (index->count - position) * sizeof(struct tn_sim_span *));
}

struct tn_sim_mapping *tn_sim_mapping_at(uintptr_t address)
{
    struct tn_sim_mapping *mapping = tn_sim_index_find(&tn_sim_mappings, address);
    /* The part of a mapping past its reservation, which only the driver allows, may lack pages
     * there. */
    return mapping == NULL || address - mapping->span.start >= mapping->page_bytes ? NULL : mapping;
}

bool tn_sim_space_knows(uintptr_t address)
{
    return tn_sim_index_find(&tn_sim_reservations, address) != NULL ||
           tn_sim_index_find(&tn_sim_linears, address) != NULL ||
           tn_sim_index_find(&tn_sim_openings, address) != NULL ||
           tn_sim_index_find(&tn_sim_hosts, address) != NULL ||
           tn_sim_index_find(&tn_sim_graph_blocks, address) != NULL;
}

bool tn_sim_space_taken(uintptr_t start, size_t bytes)
{
    return tn_sim_index_overlap(&tn_sim_blocks, start, bytes) != NULL ||
           tn_sim_index_overlap(&tn_sim_hosts, start, bytes) != NULL ||
           tn_sim_index_overlap(&tn_sim_openings, start, bytes) != NULL ||
           tn_sim_index_overlap(&tn_sim_graph_blocks, start, bytes) != NULL;
}

size_t tn_sim_space_reserved(uintptr_t start, size_t bytes)
{
    size_t reserved = 0;
    while (reserved < bytes) {
        const struct tn_sim_span *found = tn_sim_index_find(&tn_sim_reservations, start + reserved);
        if (found == NULL)
            return reserved;
        reserved = end_of(found) - start;
    }
    return bytes;
}

/* Obtains addresses wherever the system likes. */
static uintptr_t obtain_anywhere(size_t bytes, size_t alignment)
{
    /* Enough for an aligned start inside; the rest goes back. */
    size_t padded = bytes + alignment;
    if (padded < bytes)
        return 0;
    void *place = mmap(NULL, padded, PROT_NONE, RESERVE_FLAGS, -1, 0);
    if (place == MAP_FAILED)
        return 0;
    uintptr_t start = ((uintptr_t)place + alignment - 1) & ~((uintptr_t)alignment - 1);
    size_t before = start - (uintptr_t)place;
    if (before > 0)
        munmap(place, before);
    if (alignment > before)
        munmap((void *)(start + bytes), alignment - before);
    return start;
}

uintptr_t tn_sim_space_obtain(size_t bytes, size_t alignment, uintptr_t hint)
{
    if (hint != 0) {
        void *place = mmap((void *)hint, bytes, PROT_NONE, RESERVE_FLAGS, -1, 0);
        if (place == MAP_FAILED)
            return 0;
        if ((uintptr_t)place % alignment == 0)
            return (uintptr_t)place;
        munmap(place, bytes);
    }
    uintptr_t start = obtain_anywhere(bytes, alignment);
    if (start == 0 || tn_sim_index_overlap(&tn_sim_mappings, start, bytes) == NULL)
        return start;
    /* A mapping ran past its reservation into memory that the process had there then. */
    uintptr_t other = tn_sim_space_obtain(bytes, alignment, 0);
    munmap((void *)start, bytes);
    return other;
}

static bool has_page(uintptr_t address)
{
    uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    unsigned char resident;
    return mincore((void *)(address - address % page_bytes), 1, &resident) == 0;
}

bool tn_sim_space_is_occupied(uintptr_t start, size_t bytes)
{
    return has_page(start) || has_page(start + bytes - 1);
}

void tn_sim_space_return(uintptr_t start, size_t bytes)
{
    munmap((void *)start, bytes);
}

bool tn_sim_space_lay(uintptr_t start, const struct tn_sim_store *store,
                      const struct tn_sim_extent *extent, int protection)
{
    return tn_sim_space_lay_file(start, extent->bytes, store->file, extent->offset, protection);
}

bool tn_sim_space_lay_file(uintptr_t start, size_t bytes, int file, size_t offset, int protection)
{
    return mmap((void *)start, bytes, protection, MAP_SHARED | MAP_FIXED, file, (off_t)offset) !=
           MAP_FAILED;
}

void tn_sim_space_clear(uintptr_t start, size_t bytes)
{
    if (mmap((void *)start, bytes, PROT_NONE, RESERVE_FLAGS | MAP_FIXED, -1, 0) != MAP_FAILED)
        return;
    /* Splitting a mapping can exceed the mappings allowed to the process: rights can still go. */
    mprotect((void *)start, bytes, PROT_NONE);
}
