// SPDX-License-Identifier: Apache-2.0
/* graph_memory.h -- memory that graphs allocate and free themselves.
 *
 * A block is what one MEM_ALLOC node allocates. Its address is fixed when the node is made; memory
 * comes to it when an executable graph with the node is first launched or uploaded, and a trim may
 * take it away while nothing uses it. Blocks are cut from chunks of addresses, multiples of 32 MiB;
 * memory comes to whole chunks, as slabs, which the device keeps, and chunks of which only one is
 * in use at a time may share one.
 *
 * Invariants
 *   SB1  a chunk in use has a slab that no other chunk in use has, unless one stream does all of
 *       it, in launches that give everything back
 *   SB2  a live block has memory
 *   SB3  a block goes with the last operation that names it, but not while it is live
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_GRAPH_MEMORY_H
#define TARN_SIM_GRAPH_MEMORY_H

#include "sim/memory/space.h"
#include "sim/stream/stream.h"

struct tn_sim_graph_chunk;

struct tn_sim_graph_block {
    struct tn_sim_span span; /* its bytes are what was asked for */
    unsigned int references; /* of operations; and one while it is live */
    struct tn_sim_graph_chunk *chunk;
    bool access[TN_SIM_MAX_DEVICES]; /* devices that may use it */
    uint64_t buffer_id;
    bool claimed;                   /* a launch that needs it is about to be queued */
    bool live;                      /* a launch has allocated it and nothing has freed it */
    struct tn_sim_point used_until; /* the end of the work that used it last */
};

/* Makes a block, with one reference, in the memory of a graph, which is made when *memory is NULL.
 * NULL when addresses or memory ran out. */
struct tn_sim_graph_block *tn_sim_graph_block_create(struct tn_sim_graph_memory **memory,
                                                     int device, size_t bytes);

struct tn_sim_graph_block *tn_sim_graph_block_acquire(struct tn_sim_graph_block *block);
void tn_sim_graph_block_release(struct tn_sim_graph_block *block);

/* Lets an operation that was just made name a block, and have the reference to it. */
void tn_sim_graph_block_name(struct tn_sim_op *op, struct tn_sim_graph_block *block);

/* The block that contains an address, or NULL. */
struct tn_sim_graph_block *tn_sim_graph_block_at(uintptr_t address);

/* Asks whether a block has memory. */
bool tn_sim_graph_block_backed(const struct tn_sim_graph_block *block);

/* What pointer queries show of a block that has memory: the memory's name, and the span of its
 * chunk; and the device that it is on. */
uint64_t tn_sim_graph_block_id(const struct tn_sim_graph_block *block);
struct tn_sim_span tn_sim_graph_block_mapping(const struct tn_sim_graph_block *block);
int tn_sim_graph_block_device(const struct tn_sim_graph_block *block);

/* Asks whether a range lies in one block, with memory or without. */
bool tn_sim_graph_memory_covers(uintptr_t address, size_t bytes);

/* Gives a block memory, and claims it for a launch into a stream, or for none when that is NULL.
 * `given_back`: each launch of its graph frees all that it allocates. OUT_OF_MEMORY. */
tn_cu_result tn_sim_graph_block_claim(struct tn_sim_graph_block *block, bool given_back,
                                      struct tn_sim_stream *stream);

/* A launch on that stream, just queued, uses a block. */
void tn_sim_graph_block_used(struct tn_sim_graph_block *block, struct tn_sim_stream *stream);

/* Makes a block live, or not. */
void tn_sim_graph_block_allocate(struct tn_sim_graph_block *block);
void tn_sim_graph_block_free(struct tn_sim_graph_block *block);

/* What cuMemFree (stream NULL, after its wait) and cuMemFreeAsync outside captures do with the
 * address of a block: INVALID_VALUE unless it is the start of a live one. OUT_OF_MEMORY. */
tn_cu_result tn_sim_graph_memory_free(uintptr_t address, struct tn_sim_stream *stream);

#endif
