// SPDX-License-Identifier: Apache-2.0
/* Records come from slabs. The first slab has about 2 KiB and each later slab twice the size of the
 * slab before, up to 16 KiB, since many programs have few records of each type. A slab has room for
 * at least one record. The free list is linked through the second word of a record. The first word,
 * the magic number, therefore stays 0 in a free record.
 *
 * Trade-offs: slabs live as long as the process. Records are few: devices, pools, segments,
 * captures, graphs and checkpoints, not blocks. Large ones that no stale pointer leads to have no
 * slabs, and a program which once had many of them gets nearly all of their memory back. */
#include "base/host.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/checked.h"
#include "base/contract.h"

enum {
    SLAB_BYTES_MIN = 2048,
    SLAB_BYTES_MAX = 16384,
    LINE_BYTES = 64,
    /* Two cache lines: processors fetch them in pairs. Slabs begin at a multiple, so that records of
     * types which are aligned to pairs are, too; no record has less. */
    PAIR_BYTES = 128,
};

#ifdef TARN_TESTING
#include <pthread.h>

static pthread_mutex_t fault_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t fault_countdown; /* guarded by fault_mutex; 0: no plan */
static bool fault_for_good;
static uint64_t fault_hits;
static uint64_t asked; /* guarded by fault_mutex, as the next */
static int64_t outstanding;

uint64_t tn_host_plan_fault(uint64_t nth, bool for_good)
{
    uint64_t hits;

    (void)pthread_mutex_lock(&fault_mutex);
    hits = fault_hits;
    fault_countdown = nth;
    fault_for_good = for_good;
    fault_hits = 0;
    (void)pthread_mutex_unlock(&fault_mutex);
    return hits;
}

uint64_t tn_host_alloc_count(void)
{
    uint64_t count;

    (void)pthread_mutex_lock(&fault_mutex);
    count = asked;
    (void)pthread_mutex_unlock(&fault_mutex);
    return count;
}

int64_t tn_host_outstanding(void)
{
    int64_t count;

    (void)pthread_mutex_lock(&fault_mutex);
    count = outstanding;
    (void)pthread_mutex_unlock(&fault_mutex);
    return count;
}

static bool allocation_fails(void)
{
    bool fails = false;

    (void)pthread_mutex_lock(&fault_mutex);
    asked += 1;
    if (fault_countdown == 1) {
        fails = true;
        fault_hits += 1;
        if (!fault_for_good)
            fault_countdown = 0;
    } else if (fault_countdown > 1) {
        fault_countdown -= 1;
    }
    (void)pthread_mutex_unlock(&fault_mutex);
    return fails;
}

static void count_outstanding(int change)
{
    (void)pthread_mutex_lock(&fault_mutex);
    outstanding += change;
    (void)pthread_mutex_unlock(&fault_mutex);
}
#else
static bool allocation_fails(void)
{
    return false;
}

static void count_outstanding(int change)
{
    (void)change;
}
#endif

static atomic_uint_fast64_t used_bytes;
static atomic_uint_fast64_t used_peak_bytes;
static atomic_uint_fast64_t taken_bytes;

/* used_bytes leaves out memory that was given back, so the peak is exact. NULL is allowed. */
static void *count_taken(void *memory)
{
    uint64_t bytes;

    if (memory == NULL)
        return NULL;
    bytes = malloc_usable_size(memory);
    atomic_fetch_add_explicit(&taken_bytes, bytes, memory_order_relaxed);
    tn_atomic_raise(&used_peak_bytes, atomic_fetch_add(&used_bytes, bytes) + bytes);
    return memory;
}

static void count_given(void *memory)
{
    atomic_fetch_sub(&used_bytes, malloc_usable_size(memory));
}

struct tn_host_usage tn_host_usage(void)
{
    struct tn_host_usage usage = {.current_bytes = atomic_load(&used_bytes)};

    usage.allocated_bytes = tn_max(usage.current_bytes, atomic_load(&taken_bytes));
    usage.peak_bytes = tn_max(usage.current_bytes, atomic_load(&used_peak_bytes));
    return usage;
}

void *tn_host_alloc(size_t count, size_t item_bytes)
{
    void *memory;

    TN_ASSERT(count > 0 && item_bytes > 0);
    memory = allocation_fails() ? NULL : calloc(count, item_bytes);
    if (memory != NULL)
        count_outstanding(1);
    return count_taken(memory);
}

void *tn_host_alloc_unset(size_t count, size_t item_bytes)
{
    void *memory;

    TN_ASSERT(count > 0 && item_bytes > 0 && count <= SIZE_MAX / item_bytes);
    memory = allocation_fails() ? NULL : malloc(count * item_bytes);
    if (memory != NULL)
        count_outstanding(1);
    return count_taken(memory);
}

void *tn_host_alloc_lasting(size_t bytes)
{
    return allocation_fails() ? NULL : count_taken(calloc(1, bytes));
}

void *tn_host_alloc_aligned(size_t alignment, size_t bytes)
{
    void *memory = NULL;

    if (allocation_fails() || posix_memalign(&memory, alignment, bytes) != 0)
        return NULL;
    count_outstanding(1);
    return count_taken(memory);
}

void tn_host_free(void *memory)
{
    if (memory == NULL)
        return;
    count_outstanding(-1);
    count_given(memory);
    free(memory);
}

void tn_host_touch(void *memory, size_t bytes)
{
    enum { PAGE_BYTES_MIN = 4096 };
    volatile char *at = memory; /* a write of the same value would be left out */

    for (size_t i = 0; i < bytes; i += PAGE_BYTES_MIN)
        at[i] = at[i];
}

bool tn_host_has_page(uint64_t address)
{
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    unsigned char resident;

    return mincore((void *)(uintptr_t)tn_round_down(address, page_bytes), 1, &resident) == 0;
}

bool tn_host_grow(void **items, size_t *capacity, size_t needed, size_t item_bytes)
{
    size_t doubled = *capacity < 8 ? 8 : *capacity * 2;
    size_t wanted = needed > doubled ? needed : doubled;
    void *bigger;

    if (needed <= *capacity)
        return true;
    bigger = tn_host_alloc(wanted, item_bytes);
    if (bigger == NULL)
        return false;
    if (*capacity > 0)
        memcpy(bigger, *items, *capacity * item_bytes);
    tn_host_free(*items);
    *items = bigger;
    *capacity = wanted;
    return true;
}

struct slab {
    struct slab *next;
};

struct free_record {
    uint64_t magic; /* 0: free */
    struct free_record *next;
};

/* Adds a slab's records to the free list; false when there is no memory. */
static bool add_slab(struct tn_records *records)
{
    size_t lines = (records->record_bytes + LINE_BYTES - 1) & ~(size_t)(LINE_BYTES - 1);
    size_t stride = lines < PAIR_BYTES ? PAIR_BYTES : lines;
    size_t bytes = records->next_slab_bytes > 0 ? records->next_slab_bytes : SLAB_BYTES_MIN;
    size_t count = bytes / stride > 0 ? bytes / stride : 1;
    struct slab *slab;
    char *first;

    slab = tn_host_alloc_lasting(sizeof *slab + PAIR_BYTES + count * stride);
    if (slab == NULL)
        return false;
    slab->next = records->slabs;
    records->slabs = slab;
    records->next_slab_bytes = bytes < SLAB_BYTES_MAX ? 2 * bytes : bytes;
    first = (char *)(slab + 1);
    first += PAIR_BYTES - (uintptr_t)first % PAIR_BYTES;
    for (size_t i = count; i-- > 0;) {
        struct free_record *record = (struct free_record *)(void *)(first + i * stride);

        record->next = records->free_list;
        records->free_list = record;
    }
    return true;
}

/* A record of a kind that has no slabs, zeroed. */
static struct free_record *make_spare(const struct tn_records *records)
{
    void *memory = NULL;

    TN_ASSERT(records->spare_max > 0 && records->slabs == NULL);
    if (allocation_fails() || posix_memalign(&memory, PAIR_BYTES, records->record_bytes) != 0)
        return NULL;
    memset(memory, 0, records->record_bytes);
    return count_taken(memory);
}

void *tn_records_take(struct tn_records *records)
{
    struct free_record *record = NULL;

    TN_ASSERT(records->record_bytes >= sizeof(struct free_record));
    tn_lock_acquire(&records->lock);
    if (records->free_list != NULL || (records->spare_max == 0 && add_slab(records))) {
        record = records->free_list;
        records->free_list = record->next;
        records->spare_count -= records->spare_max > 0;
    } else if (records->spare_max > 0) {
        record = make_spare(records);
    }
    tn_lock_release(&records->lock);
    if (record != NULL)
        memset((char *)record + records->zeroed_first, 0,
               records->zeroed_end - records->zeroed_first);
    return record;
}

void tn_records_give(struct tn_records *records, void *memory)
{
    struct free_record *record = memory;

    tn_lock_acquire(&records->lock);
    TN_ASSERT(__atomic_load_n(&record->magic, __ATOMIC_RELAXED) == 0);
    if (records->spare_max == 0 || records->spare_count < records->spare_max) {
        record->next = records->free_list;
        records->free_list = record;
        records->spare_count += records->spare_max > 0;
        record = NULL;
    }
    tn_lock_release(&records->lock);
    if (record != NULL) {
        count_given(record);
        free(record);
    }
}
