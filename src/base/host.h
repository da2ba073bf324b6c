// SPDX-License-Identifier: Apache-2.0
/* host.h -- the library's host memory: the only seam to malloc.
 *
 * Every allocation of the library passes here, so that tests can make any of them fail. */
#ifndef TARN_BASE_HOST_H
#define TARN_BASE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"

/* Zeroed memory for count items of item_bytes, or NULL. count is not 0. */
void *tn_host_alloc(size_t count, size_t item_bytes);
/* The same, not zeroed: for large arrays that the caller writes at once. */
void *tn_host_alloc_unset(size_t count, size_t item_bytes);
/* Zeroed memory or NULL, kept with a recycled record for as long as the process. */
void *tn_host_alloc_lasting(size_t bytes);
/* Memory that begins at a multiple of a power of two; not zeroed. */
void *tn_host_alloc_aligned(size_t alignment, size_t bytes);
void tn_host_free(void *memory); /* NULL is allowed */

/* Has the system provide the memory now: the first write to each page takes the system some 0.5
 * us. */
void tn_host_touch(void *memory, size_t bytes);

/* Whether the process has a page at the address, whoever has mapped it. */
bool tn_host_has_page(uint64_t address);

/* The process's host memory from this file, in bytes as malloc gave them. */
struct tn_host_usage {
    uint64_t current_bytes;
    uint64_t peak_bytes;
    uint64_t allocated_bytes; /* all in all */
};
struct tn_host_usage tn_host_usage(void);

/* Makes *items, an array with room for *capacity items, hold at least needed; new room is zeroed.
 * False, with nothing changed, when there is no memory. */
bool tn_host_grow(void **items, size_t *capacity, size_t needed, size_t item_bytes);

/* Records are recycled and never given back to malloc. A stale pointer to a record always points to
 * a record of the same type, so the magic number can be read. */
struct tn_records {
    struct tn_lock lock; /* rank RECORDS */
    size_t record_bytes; /* immutable; at least a pointer's */
    /* immutable; from there to the end a record is zeroed when it is taken, and what lies around
     * is kept in a recycled one */
    size_t zeroed_first;
    size_t zeroed_end;
    void *free_list;        /* guarded by lock; linked through the first word behind the magic */
    void *slabs;            /* guarded by lock; all memory taken, for leak checkers to see */
    size_t next_slab_bytes; /* guarded by lock; 0: none was taken yet */
    size_t spare_max;       /* immutable; 0: records come from slabs, and all are kept */
    size_t spare_count;     /* guarded by lock; of the free list, unless they come from slabs */
};

#define TN_RECORDS_INIT(type)                                                                      \
    {                                                                                              \
        .lock = TN_LOCK_INIT(TN_RANK_RECORDS), .record_bytes = sizeof(type),                       \
        .zeroed_first = sizeof(uint64_t), .zeroed_end = sizeof(type)                               \
    }

/* The same, but only a new record is zeroed whole. A reused record is zeroed from the member first
 * up to the member end. The rest is kept: a lock that is taken, and words that are read, before the
 * record is known to be the right one. */
#define TN_RECORDS_INIT_KEEPING(type, first, end)                                                  \
    {                                                                                              \
        .lock = TN_LOCK_INIT(TN_RANK_RECORDS), .record_bytes = sizeof(type),                       \
        .zeroed_first = offsetof(type, first), .zeroed_end = offsetof(type, end)                   \
    }

/* Records which nobody reads once they are given: they have no slabs. Of those given, this many are
 * kept for the next to take, and the others go back to malloc. Only a new record is zeroed whole; of
 * a reused one the first two words are. */
#define TN_RECORDS_INIT_SPARE(type, the_spare_max)                                                 \
    {                                                                                              \
        .lock = TN_LOCK_INIT(TN_RANK_RECORDS), .record_bytes = sizeof(type),                       \
        .zeroed_first = sizeof(uint64_t), .zeroed_end = 2 * sizeof(uint64_t),                      \
        .spare_max = (the_spare_max)                                                               \
    }

/* A record, zeroed except for the kept members, and alone on its cache lines; NULL when there is no
 * memory. The first 8 bytes of every record type are its magic number, written by the caller,
 * atomically where stale handles are checked without a lock; a recycled record keeps it 0 until
 * then. */
void *tn_records_take(struct tn_records *records);
void tn_records_give(struct tn_records *records, void *record);

#ifdef TARN_TESTING
/* The nth allocation from now (1 is the next) fails, or with for_good every one from then on. 0
 * forgets the plan. Returns how many failed since the plan was made. */
uint64_t tn_host_plan_fault(uint64_t nth, bool for_good);
uint64_t tn_host_alloc_count(void); /* allocations asked for since the process began */
int64_t tn_host_outstanding(void);  /* allocations not freed, slabs of records left out */
#endif

#endif
