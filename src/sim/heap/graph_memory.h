// SPDX-License-Identifier: Apache-2.0
/* graph_memory.h -- memory that graphs allocate and free themselves.
 *
 * A block is the allocation of a MEM_ALLOC node. Its address is fixed when the node is made. The
 * block gets memory when an executable graph with the node is first launched or uploaded, and a
 * trim may take the memory away while nothing uses it. Blocks are cut from chunks of addresses,
 * multiples of 32 MiB. Whole chunks get memory, as slabs, which the device keeps. Chunks may share
 * a slab if at most one of them is in use at a time.
 *
 * Invariants
 *   SB1  a chunk in use has a slab that no other chunk in use has, unless a single stream uses
 *       all of them, in launches that give everything back
 *   SB2  a live block has memory
 *   SB3  a block goes with the last operation that names the block, but not while live
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_GRAPH_MEMORY_H
#define TARN_SIM_GRAPH_MEMORY_H

#include "sim/memory/space.h"
#include "sim/stream/stream.h"

struct tn_sim_graph_chunk;

struct tn_sim_graph_block {
    struct tn_sim_span span; /* its bytes are as requested */
    unsigned int references; /* of operations; and another while live */
    struct tn_sim_graph_chunk *chunk;
    bool access[TN_SIM_MAX_DEVICES]; /* devices that may use the block */
    uint64_t buffer_id;
    bool claimed;                   /* a launch that needs the block is about to be queued */
    bool live;                      /* a launch has allocated the block and nothing has freed it */
    struct tn_sim_point used_until; /* the end of the last work that used the block */
};

/* Makes a block, with one reference, in the memory of a graph. Makes this memory first when *memory
 * is NULL. NULL when addresses or memory ran out. */
struct tn_sim_graph_block *tn_sim_graph_block_create(struct tn_sim_graph_memory **memory,
                                                     int device, size_t bytes);

struct tn_sim_graph_block *tn_sim_graph_block_acquire(struct tn_sim_graph_block *block);
void tn_sim_graph_block_release(struct tn_sim_graph_block *block);

/* Lets a new operation name a block, and take over the reference to the block. */
void tn_sim_graph_block_name(struct tn_sim_op *op, struct tn_sim_graph_block *block);

/* The block that contains an address, or NULL. */
struct tn_sim_graph_block *tn_sim_graph_block_at(uintptr_t address);

/* Asks whether a block has memory. */
bool tn_sim_graph_block_backed(const struct tn_sim_graph_block *block);

/* The answers of pointer queries about a block with memory: the memory's name, the span of its
 * chunk, and its device. */
uint64_t tn_sim_graph_block_id(const struct tn_sim_graph_block *block);
struct tn_sim_span tn_sim_graph_block_mapping(const struct tn_sim_graph_block *block);
int tn_sim_graph_block_device(const struct tn_sim_graph_block *block);

/* Asks whether a range lies in a single block, with memory or without. */
bool tn_sim_graph_memory_covers(uintptr_t address, size_t bytes);

/* Gives a block memory, and claims it for a launch into a stream; for NULL, into none.
 * `given_back`: each launch of its graph frees all its allocations. OUT_OF_MEMORY. */
tn_cu_result tn_sim_graph_block_claim(struct tn_sim_graph_block *block, bool given_back,
                                      struct tn_sim_stream *stream);

/* A launch on the stream, just queued, uses a block. */
void tn_sim_graph_block_used(struct tn_sim_graph_block *block, struct tn_sim_stream *stream);

/* Makes a block live, or not. */
void tn_sim_graph_block_allocate(struct tn_sim_graph_block *block);
void tn_sim_graph_block_free(struct tn_sim_graph_block *block);

/* Frees a block by its address: for cuMemFree (stream NULL, after its wait) and cuMemFreeAsync
 * outside captures. INVALID_VALUE unless the address is the start of a live block.
 * OUT_OF_MEMORY. */
tn_cu_result tn_sim_graph_memory_free(uintptr_t address, struct tn_sim_stream *stream);

#endif
