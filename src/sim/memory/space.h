// SPDX-License-Identifier: Apache-2.0
/* space.h -- the books of the address space: the memory at each address, and the rights to touch
 * it.
 *
 * Four kinds of ranges are kept, each in an index ordered by address: reservations, mappings inside
 * them, linear allocations (of pools, too) and page-locked host memory.
 *
 * Invariants
 *   SA1  ranges do not overlap, in an index or between indexes: but for mappings in reservations
 *   SA2  strict: every mapping lies in reservations that leave no gap under it
 *   SA3  the protection of a mapping's pages is the greatest right of any device or the host
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_SPACE_H
#define TARN_SIM_SPACE_H

#include "sim/core/context.h"

#define TN_SIM_ADDRESS_LIMIT ((uintptr_t)1 << 47) /* user addresses end here */

struct tn_sim_physical;

/* The first member of every record with addresses. */
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

/* The rights to touch a mapping: TN_CU_MEM_ACCESS_*. */
struct tn_sim_rights {
    unsigned char device[TN_SIM_MAX_DEVICES];
    unsigned char host; /* to memory of the host */
};

struct tn_sim_mapping {
    struct tn_sim_span span;
    struct tn_sim_physical *physical;
    /* bytes from its start that can have pages; the whole mapping when the simulator is strict */
    size_t page_bytes;
    uint64_t buffer_id; /* names the mapping in pointer queries */
    struct tn_sim_rights rights;
    int protection; /* of its pages now: PROT_* */
};

/* Memory of cuMemAlloc or of a pool; span.bytes is the requested size. */
struct tn_sim_linear {
    struct tn_sim_span span;
    struct tn_sim_piece *piece; /* its place in a driver block */
    int device;
    struct tn_sim_context *context; /* NULL for memory of a pool */
    struct tn_sim_pool *pool;       /* NULL for memory of cuMemAlloc */
    uint64_t buffer_id;
    bool sync_memops; /* the program wants its copies to be synchronous */
};

/* Page-locked memory of the host; span.bytes is the requested size. */
struct tn_sim_host {
    struct tn_sim_span span;
    /* its place in a driver block; NULL for the program's own memory, of cuMemHostRegister */
    struct tn_sim_piece *piece;
    struct tn_sim_context *context;
    uint64_t buffer_id;
    bool sync_memops; /* the program wants its copies to be synchronous */
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

/* The position of the first span that ends after an address; index->count when none does. */
size_t tn_sim_index_after(const struct tn_sim_index *index, uintptr_t address);

/* The first span that shares a byte with a range, or NULL. */
void *tn_sim_index_overlap(const struct tn_sim_index *index, uintptr_t start, size_t bytes);

/* Adds a span that overlaps no other. Returns false when memory ran out. */
bool tn_sim_index_add(struct tn_sim_index *index, struct tn_sim_span *span);

/* Takes a span out of its index. */
void tn_sim_index_remove(struct tn_sim_index *index, const struct tn_sim_span *span);

/* A number for a new mapping or block, never given twice. */
uint64_t tn_sim_space_next_id(void);

/* The mapping whose pages an address lies in, or NULL. */
struct tn_sim_mapping *tn_sim_mapping_at(uintptr_t address);

/* Asks whether an address belongs to the driver: reserved, linear or page-locked. */
bool tn_sim_space_knows(uintptr_t address);

/* Asks whether a range has addresses of memory not made for mapping: of cuMemAlloc, pools, graphs
 * or other processes, or page-locked. */
bool tn_sim_space_taken(uintptr_t start, size_t bytes);

/* Gets addresses from the system, a multiple of alignment, without memory or rights; near a hint
 * other than 0 if the system agrees, and else where no mapping is. Returns 0 when none are left. */
uintptr_t tn_sim_space_obtain(size_t bytes, size_t alignment, uintptr_t hint);

/* The same for the first free low addresses, where the driver puts large things; from the system
 * when none are left there. */
uintptr_t tn_sim_space_obtain_low(size_t bytes, size_t alignment);

/* Asks whether the process has memory at either end of a range: the system would then give other
 * addresses. To obtain these and return them is slow under ThreadSanitizer, which looks through
 * large ranges both times. */
bool tn_sim_space_is_occupied(uintptr_t start, size_t bytes);

/* Gives addresses back to the system. */
void tn_sim_space_return(uintptr_t start, size_t bytes);

/* How many bytes from an address on, at most `bytes`, are reserved without a gap. */
size_t tn_sim_space_reserved(uintptr_t start, size_t bytes);

/* How many bytes from an address on, at most `bytes`, can have pages: reserved addresses, and
 * addresses that the system grants, which this function obtains. */
size_t tn_sim_space_reach(uintptr_t start, size_t bytes);

/* Gives back to the system the part of a range without a reservation or mapping. */
void tn_sim_space_give_up(uintptr_t start, size_t bytes);

/* Lays an extent of a store over obtained addresses. Returns false when the system refuses, in
 * which case nothing has changed. */
bool tn_sim_space_lay(uintptr_t start, const struct tn_sim_store *store,
                      const struct tn_sim_extent *extent, int protection);

/* The same with any part of a file. */
bool tn_sim_space_lay_file(uintptr_t start, size_t bytes, int file, size_t offset, int protection);

/* Takes memory and rights from addresses, which stay obtained. */
void tn_sim_space_clear(uintptr_t start, size_t bytes);

#endif
