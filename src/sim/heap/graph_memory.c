// SPDX-License-Identifier: Apache-2.0
/* graph_memory.c -- gives graphs' allocations addresses and memory.
 *
 * How it works. All books are kept when calls are made, in the order of the calls, as the driver
 * keeps them: a launch makes the blocks of its graph live at once, or not live when the graph frees
 * them. A launch gets its memory before it is queued. The last use of a block is remembered as a
 * point of a stream. A trim and another graph can then tell when the memory is idle.
 *
 * Trade-offs. Within a graph no address is given out twice, although a block freed before could
 * lend its address. Lists are walked from end to end: chunks are few. */
#include "sim/heap/graph_memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "sim/graph/op.h"

#define CHUNK_BYTES (32 * TN_SIM_MIB)
#define BLOCK_ALIGNMENT ((size_t)512)

/* Memory of a device that chunks share. */
struct slab {
    int device;
    struct tn_sim_extent *extent;
    uint64_t block_id;
    struct slab *next;
};

struct tn_sim_graph_chunk {
    struct tn_sim_span span;
    int device;
    unsigned int references; /* of blocks, and of a memory with this chunk for its next blocks */
    size_t cut;              /* bytes given to blocks */
    bool given_back;         /* the launches of its graph free all their allocations */
    struct slab *slab;       /* or NULL */
    struct tn_sim_graph_chunk *next;
};

static struct slab *slabs;
static struct tn_sim_graph_chunk *chunks;
static size_t reserved_high[TN_SIM_MAX_DEVICES];

static struct tn_sim_store *store_of(int device)
{
    return &tn_sim_devices[device].store;
}

/* -- Chunks -- */

static void chunk_release(struct tn_sim_graph_chunk *chunk)
{
    if (--chunk->references > 0)
        return;
    struct tn_sim_graph_chunk **link = &chunks;
    while (*link != chunk)
        link = &(*link)->next;
    *link = chunk->next;
    tn_sim_space_return(chunk->span.start, chunk->span.bytes);
    free(chunk);
}

static struct tn_sim_graph_chunk *chunk_create(int device, size_t bytes)
{
    if (bytes > SIZE_MAX - CHUNK_BYTES)
        return NULL;
    struct tn_sim_graph_chunk *chunk = calloc(1, sizeof *chunk);
    if (chunk == NULL)
        return NULL;
    chunk->span.bytes = (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
    chunk->span.start = tn_sim_space_obtain(chunk->span.bytes, CHUNK_BYTES, 0);
    if (chunk->span.start == 0) {
        free(chunk);
        return NULL;
    }
    chunk->device = device;
    chunk->references = 1;
    chunk->next = chunks;
    chunks = chunk;
    return chunk;
}

/* Asks whether a chunk's memory is in use: by a live block, or by unfinished work. Work of the
 * stream `except` does not count, unless `except` is NULL. */
static bool in_use(const struct tn_sim_graph_chunk *chunk, const struct tn_sim_stream *except)
{
    for (size_t i = 0; i < tn_sim_graph_blocks.count; i++) {
        const struct tn_sim_graph_block *block =
            (const struct tn_sim_graph_block *)tn_sim_graph_blocks.items[i];
        if (except != NULL && !block->claimed && !block->live && block->used_until.stream == except)
            continue;
        if (block->chunk == chunk &&
            (block->claimed || block->live || !tn_sim_point_reached(&block->used_until)))
            return true;
    }
    return false;
}

/* -- Slabs -- */

static bool slab_in_use(const struct slab *slab)
{
    for (const struct tn_sim_graph_chunk *chunk = chunks; chunk != NULL; chunk = chunk->next) {
        if (chunk->slab == slab && in_use(chunk, NULL))
            return true;
    }
    return false;
}

/* Asks whether a chunk, about to be used by a stream, may have a slab together with other chunks.
 * It may when the others are idle. It also may when each launch gives all these chunks back, and
 * only this stream uses them: a stream does its launches one after the other. */
static bool may_have(const struct tn_sim_graph_chunk *chunk, const struct slab *slab,
                     const struct tn_sim_stream *stream)
{
    for (const struct tn_sim_graph_chunk *other = chunks; other != NULL; other = other->next) {
        if (other == chunk || other->slab != slab)
            continue;
        bool in_order = chunk->given_back && other->given_back;
        if (in_use(other, in_order ? stream : NULL))
            return false;
    }
    return true;
}

/* Bytes of a device's slabs. */
static size_t slab_bytes(int device)
{
    size_t bytes = 0;
    for (const struct slab *slab = slabs; slab != NULL; slab = slab->next) {
        if (slab->device == device)
            bytes += slab->extent->bytes;
    }
    return bytes;
}

static struct slab *slab_create(int device, size_t bytes)
{
    struct slab *slab = calloc(1, sizeof *slab);
    if (slab == NULL)
        return NULL;
    slab->extent = tn_sim_store_take(store_of(device), bytes);
    if (slab->extent == NULL) {
        free(slab);
        return NULL;
    }
    slab->device = device;
    slab->block_id = tn_sim_space_next_id();
    slab->next = slabs;
    slabs = slab;
    tn_sim.ledger.graph_memory_bytes += bytes;
    size_t reserved = slab_bytes(device);
    if (reserved > reserved_high[device])
        reserved_high[device] = reserved;
    return slab;
}

/* A slab (SB1) for a chunk, about to be used by a stream: its own, another or a new slab; or
 * NULL. */
static struct slab *slab_for(const struct tn_sim_graph_chunk *chunk,
                             const struct tn_sim_stream *stream)
{
    if (chunk->slab != NULL && may_have(chunk, chunk->slab, stream))
        return chunk->slab;
    for (struct slab *slab = slabs; slab != NULL; slab = slab->next) {
        if (slab->device == chunk->device && slab->extent->bytes == chunk->span.bytes &&
            may_have(chunk, slab, stream))
            return slab;
    }
    return slab_create(chunk->device, chunk->span.bytes);
}

/* For a chunk that shares its slab and cannot get another: makes a stream wait for the work of
 * other streams on the slab. */
static bool wait_for_sharers(const struct tn_sim_graph_chunk *chunk, struct tn_sim_stream *stream)
{
    for (size_t i = 0; i < tn_sim_graph_blocks.count; i++) {
        const struct tn_sim_graph_block *block =
            (const struct tn_sim_graph_block *)tn_sim_graph_blocks.items[i];
        if (block->chunk != chunk && block->chunk->slab == chunk->slab &&
            !tn_sim_point_reached(&block->used_until) &&
            tn_sim_queue_push(stream, NULL, NULL, &block->used_until) != TN_CUDA_SUCCESS)
            return false;
    }
    return true;
}

/* Gives a chunk memory for the use by `stream`; NULL: nobody uses it yet. A chunk with unfinished
 * work keeps its memory. */
static bool chunk_attach(struct tn_sim_graph_chunk *chunk, struct tn_sim_stream *stream)
{
    if (chunk->slab != NULL && in_use(chunk, NULL))
        return stream == NULL || may_have(chunk, chunk->slab, stream) ||
               wait_for_sharers(chunk, stream);
    struct slab *slab = slab_for(chunk, stream);
    if (slab == NULL)
        return false;
    if (slab == chunk->slab)
        return true;
    if (!tn_sim_space_lay(chunk->span.start, store_of(chunk->device), slab->extent,
                          PROT_READ | PROT_WRITE))
        return false;
    chunk->slab = slab;
    return true;
}

/* Gives a slab's memory back, and takes the slab from its chunks. */
static void slab_destroy(struct slab *slab)
{
    for (struct tn_sim_graph_chunk *chunk = chunks; chunk != NULL; chunk = chunk->next) {
        if (chunk->slab != slab)
            continue;
        tn_sim_space_clear(chunk->span.start, chunk->span.bytes);
        chunk->slab = NULL;
    }
    tn_sim.ledger.graph_memory_bytes -= slab->extent->bytes;
    tn_sim_store_give(store_of(slab->device), slab->extent);
    free(slab);
}

/* -- Blocks -- */

/* Cuts a range from a chunk of a graph's memory. */
static bool cut(struct tn_sim_graph_memory *memory, struct tn_sim_graph_block *block, int device)
{
    struct tn_sim_graph_chunk *chunk = memory->chunk;
    if (chunk == NULL || chunk->device != device ||
        chunk->span.bytes - chunk->cut < block->span.bytes) {
        chunk = chunk_create(device, block->span.bytes);
        if (chunk == NULL)
            return false;
        if (memory->chunk != NULL)
            chunk_release(memory->chunk);
        memory->chunk = chunk;
    }
    block->chunk = chunk;
    block->span.start = chunk->span.start + chunk->cut;
    size_t bytes = (block->span.bytes + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT * BLOCK_ALIGNMENT;
    chunk->cut = bytes < chunk->span.bytes - chunk->cut ? chunk->cut + bytes : chunk->span.bytes;
    chunk->references++;
    return true;
}

static void fini_memory(struct tn_sim_graph_memory *memory)
{
    if (memory->chunk != NULL)
        chunk_release(memory->chunk);
}

struct tn_sim_graph_block *tn_sim_graph_block_create(struct tn_sim_graph_memory **memory,
                                                     int device, size_t bytes)
{
    if (*memory == NULL) {
        *memory = calloc(1, sizeof **memory);
        if (*memory == NULL)
            return NULL;
        (*memory)->references = 1;
        (*memory)->fini = fini_memory;
    }
    struct tn_sim_graph_block *block = calloc(1, sizeof *block);
    if (block == NULL)
        return NULL;
    block->span.bytes = bytes;
    if (!cut(*memory, block, device)) {
        free(block);
        return NULL;
    }
    if (!tn_sim_index_add(&tn_sim_graph_blocks, &block->span)) {
        chunk_release(block->chunk);
        free(block);
        return NULL;
    }
    block->references = 1;
    block->access[device] = true;
    block->buffer_id = tn_sim_space_next_id();
    tn_sim.ledger.graph_blocks++;
    return block;
}

struct tn_sim_graph_block *tn_sim_graph_block_acquire(struct tn_sim_graph_block *block)
{
    block->references++;
    return block;
}

void tn_sim_graph_block_release(struct tn_sim_graph_block *block)
{
    if (--block->references > 0)
        return;
    tn_sim_index_remove(&tn_sim_graph_blocks, &block->span);
    tn_sim_point_clear(&block->used_until);
    chunk_release(block->chunk);
    free(block);
    tn_sim.ledger.graph_blocks--;
}

static void give_up(struct tn_sim_op *op)
{
    tn_sim_graph_block_release(op->alloc.block);
}

void tn_sim_graph_block_name(struct tn_sim_op *op, struct tn_sim_graph_block *block)
{
    op->alloc.block = block;
    op->give_up = give_up;
}

struct tn_sim_graph_block *tn_sim_graph_block_at(uintptr_t address)
{
    return tn_sim_index_find(&tn_sim_graph_blocks, address);
}

bool tn_sim_graph_block_backed(const struct tn_sim_graph_block *block)
{
    return block->chunk->slab != NULL;
}

uint64_t tn_sim_graph_block_id(const struct tn_sim_graph_block *block)
{
    return block->chunk->slab->block_id;
}

struct tn_sim_span tn_sim_graph_block_mapping(const struct tn_sim_graph_block *block)
{
    return block->chunk->span;
}

int tn_sim_graph_block_device(const struct tn_sim_graph_block *block)
{
    return block->chunk->device;
}

bool tn_sim_graph_memory_covers(uintptr_t address, size_t bytes)
{
    const struct tn_sim_graph_block *block = tn_sim_graph_block_at(address);
    return block != NULL && bytes <= block->span.bytes - (address - block->span.start);
}

tn_cu_result tn_sim_graph_block_claim(struct tn_sim_graph_block *block, bool given_back,
                                      struct tn_sim_stream *stream)
{
    block->chunk->given_back = given_back;
    if (!chunk_attach(block->chunk, stream))
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    block->claimed = true;
    return TN_CUDA_SUCCESS;
}

void tn_sim_graph_block_used(struct tn_sim_graph_block *block, struct tn_sim_stream *stream)
{
    /* A mark of the present needs no work: the launch is queued. */
    tn_sim_point_clear(&block->used_until);
    stream->references++;
    block->used_until = (struct tn_sim_point){.stream = stream, .ticket = stream->queued};
}

void tn_sim_graph_block_allocate(struct tn_sim_graph_block *block)
{
    if (!block->live)
        block->references++; /* SB3 */
    block->live = true;
}

void tn_sim_graph_block_free(struct tn_sim_graph_block *block)
{
    if (!block->live)
        return;
    block->live = false;
    tn_sim_graph_block_release(block);
}

tn_cu_result tn_sim_graph_memory_free(uintptr_t address, struct tn_sim_stream *stream)
{
    struct tn_sim_graph_block *block = tn_sim_graph_block_at(address);
    if (block == NULL || block->span.start != address || !block->live)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (stream != NULL) {
        /* The stream's queued work may use the block: the block goes when the stream gets there. */
        struct tn_sim_op *op = tn_sim_op_create(TN_CU_NODE_MEM_FREE, stream->object.context);
        if (op == NULL)
            return TN_CUDA_ERROR_OUT_OF_MEMORY;
        tn_sim_graph_block_name(op, tn_sim_graph_block_acquire(block));
        tn_cu_result result = tn_sim_queue_push(stream, op, NULL, NULL);
        tn_sim_op_release(op);
        if (result != TN_CUDA_SUCCESS)
            return result;
        tn_sim_graph_block_used(block, stream);
    }
    tn_sim_graph_block_free(block);
    return TN_CUDA_SUCCESS;
}

/* -- The driver's calls -- */

tn_cu_result tn_sim_cuDeviceGraphMemTrim(tn_cu_device device)
{
    if (!tn_sim_device_exists(device))
        return TN_CUDA_ERROR_INVALID_DEVICE;
    for (struct slab **link = &slabs; *link != NULL;) {
        struct slab *slab = *link;
        if (slab->device != device || slab_in_use(slab)) { /* SB2 */
            link = &slab->next;
            continue;
        }
        *link = slab->next;
        slab_destroy(slab);
    }
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuDeviceGetGraphMemAttribute(tn_cu_device device,
                                                 tn_cu_graph_mem_attribute attribute, void *value)
{
    if (value == NULL || (unsigned int)attribute > TN_CU_GRAPH_MEM_RESERVED_HIGH)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (!tn_sim_device_exists(device))
        return TN_CUDA_ERROR_INVALID_DEVICE;
    /* The driver calls memory kept for graphs used, until a trim. */
    const size_t answers[] = {
        [TN_CU_GRAPH_MEM_USED_CURRENT] = slab_bytes(device),
        [TN_CU_GRAPH_MEM_USED_HIGH] = reserved_high[device],
        [TN_CU_GRAPH_MEM_RESERVED_CURRENT] = slab_bytes(device),
        [TN_CU_GRAPH_MEM_RESERVED_HIGH] = reserved_high[device],
    };
    *(uint64_t *)value = answers[attribute];
    return TN_CUDA_SUCCESS;
}
