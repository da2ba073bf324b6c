// SPDX-License-Identifier: Apache-2.0
/* space.h -- the books of the address space: what lies where, and who may touch it.
 *
 * Four kinds of ranges are kept, each in an index ordered by address: reservations, mappings
 * inside them, linear allocations (those of pools included) and page-locked host memory.
 *
 * Invariants
 *   SA1  ranges of one index do not overlap, nor do those of several: but for mappings in reservations
 *   SA2  strict: every mapping lies in reservations that leave no gap under it
 *   SA3  the protection of a mapping's pages is the greatest right that anyone has there
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_SPACE_H
#define TARN_SIM_SPACE_H

#include "sim/core/context.h"

#define TN_SIM_ADDRESS_LIMIT ((uintptr_t)1 << 47) /* user addresses end here */

struct tn_sim_physical;

/* The first member of everything that has addresses. */
struct tn_sim_span {
    uintptr_t start;
    size_t bytes; /* never 0 */
};

/* Spans ordered by address. */
struct tn_sim_index {
    struct tn_sim_span **items;
    size_t count;
    size_t capacity;
};

/* Who may touch a mapping: TN_CU_MEM_ACCESS_*. */
struct tn_sim_rights {
    unsigned char device[TN_SIM_MAX_DEVICES];
    unsigned char host; /* to memory of the host */
};

struct tn_sim_mapping {
    struct tn_sim_span span;
    struct tn_sim_physical *physical;
    /* from its start, that can have pages; all of it when the simulator is strict */
    size_t page_bytes;
    uint64_t buffer_id; /* names the mapping in pointer queries */
    struct tn_sim_rights rights;
    int protection; /* of its pages now: PROT_* */
};

/* Memory of cuMemAlloc or of a pool; span.bytes is what was asked for. */
struct tn_sim_linear {
    struct tn_sim_span span;
    struct tn_sim_piece *piece; /* its place in a driver block */
    int device;
    struct tn_sim_context *context; /* NULL for memory of a pool */
    struct tn_sim_pool *pool;       /* NULL for memory of cuMemAlloc */
    uint64_t buffer_id;
    bool sync_memops; /* the program wants copies of it to be synchronous */
};

/* Page-locked memory of the host; span.bytes is what was asked for. */
struct tn_sim_host {
    struct tn_sim_span span;
    struct tn_sim_piece *piece; /* its place in a driver block; NULL when it is the program's own
                                   memory, of cuMemHostRegister */
    struct tn_sim_context *context;
    uint64_t buffer_id;
    bool sync_memops; /* the program wants copies of it to be synchronous */
};

extern struct tn_sim_index tn_sim_reservations; /* of struct tn_sim_span */
extern struct tn_sim_index tn_sim_mappings;     /* of struct tn_sim_mapping */
extern struct tn_sim_index tn_sim_linears;      /* of struct tn_sim_linear */
extern struct tn_sim_index tn_sim_hosts;        /* of struct tn_sim_host */
extern struct tn_sim_index tn_sim_blocks;       /* of struct tn_sim_block (block.h) */
extern struct tn_sim_index tn_sim_openings;     /* of struct tn_sim_opening (ipc.h) */
extern struct tn_sim_index tn_sim_graph_blocks; /* of struct tn_sim_graph_block (graph_memory.h) */

/* The span that contains an address, or NULL. */
void *tn_sim_index_find(const struct tn_sim_index *index, uintptr_t address);

/* The position of the first span that ends after an address; index->count when there is none. */
size_t tn_sim_index_after(const struct tn_sim_index *index, uintptr_t address);

/* The first span that shares a byte with a range, or NULL. */
void *tn_sim_index_overlap(const struct tn_sim_index *index, uintptr_t start, size_t bytes);

/* Adds a span that overlaps none. Returns false when memory ran out. */
bool tn_sim_index_add(struct tn_sim_index *index, struct tn_sim_span *span);

/* Takes a span out that is in. */
void tn_sim_index_remove(struct tn_sim_index *index, const struct tn_sim_span *span);

/* A number for a new mapping or block, never given twice. */
uint64_t tn_sim_space_next_id(void);

/* The mapping whose pages an address lies in, or NULL. */
struct tn_sim_mapping *tn_sim_mapping_at(uintptr_t address);

/* Asks whether an address belongs to the driver: reserved, linear or page-locked. */
bool tn_sim_space_knows(uintptr_t address);

/* Asks whether a range has addresses of memory that was not made for mapping: of cuMemAlloc, pools, graphs
 * or other processes, or page-locked. */
bool tn_sim_space_taken(uintptr_t start, size_t bytes);

/* Gets addresses from the system, a multiple of alignment, without memory or rights; near hint
 * when that is not 0 and the system likes it, and else where no mapping is. Returns 0 when there are
 * none. */
uintptr_t tn_sim_space_obtain(size_t bytes, size_t alignment, uintptr_t hint);

/* The same, the first low ones that nobody has: where the driver puts large things. From the system when
 * it has none there. */
uintptr_t tn_sim_space_obtain_low(size_t bytes, size_t alignment);

/* Asks whether the process has something at either end of a range, so that the system would give other addresses for it. To
 * obtain those and return them is slow under ThreadSanitizer, which looks through large ranges both times. */
bool tn_sim_space_is_occupied(uintptr_t start, size_t bytes);

/* Gives addresses back to the system. */
void tn_sim_space_return(uintptr_t start, size_t bytes);

/* How many bytes from an address on, at most so many, are reserved without a gap. */
size_t tn_sim_space_reserved(uintptr_t start, size_t bytes);

/* How many bytes from an address on, at most so many, can have pages: what reservations have, and what
 * else can be obtained from the system, which this does. */
size_t tn_sim_space_reach(uintptr_t start, size_t bytes);

/* Gives back to the system what of a range no reservation and no mapping has. */
void tn_sim_space_give_up(uintptr_t start, size_t bytes);

/* Lays an extent of a store over addresses that were obtained. Returns false when the system
 * refuses, in which case nothing has changed. */
bool tn_sim_space_lay(uintptr_t start, const struct tn_sim_store *store,
                      const struct tn_sim_extent *extent, int protection);

/* The same with any part of a file. */
bool tn_sim_space_lay_file(uintptr_t start, size_t bytes, int file, size_t offset, int protection);

/* Takes memory and rights from addresses that stay obtained. */
void tn_sim_space_clear(uintptr_t start, size_t bytes);

#endif
