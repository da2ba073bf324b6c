// SPDX-License-Identifier: Apache-2.0
/* A lease is a keeping watch on its block (claims/watch.h), and a word in the table of grants. So a
 * free of the block waits as one of a guarded graph's input does, and all that asks whether memory
 * may go asks after leases, too.
 *
 *     grants a lease                            ends one
 *     a slot, under the lock                    the word of the returns, or the end of the process
 *     the block's chunks, under its pool's      FREE in the grants, under the lock
 *     what the consumer lacks of them is sent   the watch, without the lock
 *     the watch                                 the slot is free, under the lock
 *     GRANTED in the grants
 *
 * Trade-offs: a chunk is exported and sent under the lock of its pool, once for each connection, so
 * that it cannot go meanwhile. */
#include "share/grant.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "driver/mapping.h"
#include "pools/free.h"
#include "pools/lone.h"
#include "pools/pending.h"
#include "pools/visit.h"
#include "pools/watches.h"
#include "share/channel.h"
#include "vmm/chunk.h"

/* Where a block is, in chunks that the consumer has. */
struct grant_place {
    tarn_pool *pool;
    uint64_t sequence;
    uint64_t offset; /* in the first chunk */
    uint64_t bytes;
    uint32_t first;
    uint32_t count;
    bool begins; /* with a word of a stream */
};

static bool make_arrays(struct tn_producer *producer)
{
    producer->leases = tn_host_alloc(producer->slot_count, sizeof *producer->leases);
    producer->chunks = tn_host_alloc(producer->chunk_count, sizeof *producer->chunks);
    producer->heads = tn_host_alloc(producer->chunk_count, sizeof *producer->heads);
    for (uint32_t i = 0; producer->heads != NULL && i < producer->chunk_count; i++)
        producer->heads[i] = TN_SHARE_NONE;
    producer->free_slot = TN_SHARE_NONE;
    producer->free_chunk = TN_SHARE_NONE;
    return producer->leases != NULL && producer->chunks != NULL && producer->heads != NULL;
}

static void free_arrays(struct tn_producer *producer)
{
    tn_host_free(producer->leases);
    tn_host_free(producer->chunks);
    tn_host_free(producer->heads);
    producer->leases = NULL;
    producer->chunks = NULL;
    producer->heads = NULL;
}

tarn_status tn_grant_welcome(tarn_connection *connection)
{
    struct tn_producer *producer = &connection->producer;
    struct tn_message message = {
        .magic = TN_MESSAGE_MAGIC, .version = TN_SHARE_VERSION, .kind = TN_MESSAGE_WELCOME};
    int files[2];
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_is_held(&connection->lock) && connection->is_producer);
    TN_ASSERT(connection->state == TN_CONNECTION_GREETING);
    connection->id = tn_share_random();
    if (!make_arrays(producer))
        status = tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for the leases of a connection");
    if (status == TARN_OK)
        status = tn_tables_make(&connection->tables, producer->slot_count, producer->chunk_count);
    if (status == TARN_OK) {
        message.connection_id = connection->id;
        message.slot_count = producer->slot_count;
        message.chunk_count = producer->chunk_count;
        files[0] = connection->tables.grants_file;
        files[1] = connection->tables.returns_file;
        status = tn_channel_send(connection->channel, &message, files);
    }
    tn_tables_close_files(&connection->tables);
    if (status != TARN_OK) {
        tn_tables_close(&connection->tables);
        free_arrays(producer);
        return status;
    }
    connection->state = TN_CONNECTION_READY;
    return TARN_OK;
}

void tn_grant_fini(tarn_connection *connection)
{
    TN_ASSERT(connection->producer.granted_count == 0);
    tn_handoff_fini(&connection->device->gpu, &connection->handoff);
    free_arrays(&connection->producer);
}

/* The id of a chunk that the consumer has; TN_SHARE_NONE: it has not. */
static uint32_t find_chunk(const struct tn_producer *producer, uint64_t serial)
{
    uint32_t id = producer->heads[tn_share_hash(serial, producer->chunk_count)];

    while (id != TN_SHARE_NONE && producer->chunks[id].serial != serial)
        id = producer->chunks[id].next;
    return id;
}

/* Gives back the ids of chunks whose memory has gone. */
static void sweep_chunks(tarn_connection *connection)
{
    struct tn_producer *producer = &connection->producer;

    for (uint32_t id = 0; id < producer->chunks_begun; id++) {
        struct tn_handed_chunk *chunk = &producer->chunks[id];
        uint32_t *link;

        if (chunk->memory == NULL || tn_memory_is_still(chunk->memory, chunk->serial))
            continue;
        link = &producer->heads[tn_share_hash(chunk->serial, producer->chunk_count)];
        while (*link != id)
            link = &producer->chunks[*link].next;
        *link = chunk->next;
        chunk->memory = NULL;
        chunk->next = producer->free_chunk;
        producer->free_chunk = id;
        atomic_store_explicit(&connection->tables.chunks[id].word,
                              tn_slot_word(chunk->generation, TN_SLOT_FREE), memory_order_release);
    }
}

/* An id whose generation is not exhausted; TN_SHARE_NONE: none is left. */
static uint32_t take_chunk_id(tarn_connection *connection)
{
    struct tn_producer *producer = &connection->producer;
    uint32_t id;

    if (producer->free_chunk == TN_SHARE_NONE && producer->chunks_begun == producer->chunk_count)
        sweep_chunks(connection);
    id = producer->free_chunk;
    if (id != TN_SHARE_NONE)
        producer->free_chunk = producer->chunks[id].next;
    else if (producer->chunks_begun < producer->chunk_count)
        id = producer->chunks_begun++;
    return id;
}

static tarn_status send_chunk(tarn_connection *connection, const struct tn_memory *memory,
                              uint32_t id, uint32_t generation)
{
    struct tn_message message = {.magic = TN_MESSAGE_MAGIC,
                                 .version = TN_SHARE_VERSION,
                                 .kind = TN_MESSAGE_CHUNK,
                                 .connection_id = connection->id,
                                 .chunk = id,
                                 .generation = generation,
                                 .bytes = memory->bytes};
    int descriptor = -1;
    tarn_status status =
        tn_gpu_export_memory(&connection->device->gpu, memory->handle, &descriptor);

    if (status == TARN_OK)
        status = tn_channel_send(connection->channel, &message, &descriptor);
    tn_channel_close(&descriptor);
    return status;
}

/* Hands the memory of a chunk over, unless the consumer has it. Its pool is locked. */
static tarn_status hand_over(tarn_connection *connection, struct tn_memory *memory, uint32_t *id)
{
    struct tn_producer *producer = &connection->producer;
    uint64_t serial = tn_memory_serial(memory);
    struct tn_handed_chunk *chunk;
    uint32_t *head = &producer->heads[tn_share_hash(serial, producer->chunk_count)];
    tarn_status status;

    *id = find_chunk(producer, serial);
    if (*id != TN_SHARE_NONE)
        return TARN_OK;
    *id = take_chunk_id(connection);
    if (*id == TN_SHARE_NONE)
        return tn_fail(TARN_ERR_LIMIT, "the connection with process %d has its %u chunks",
                       (int)connection->process.pid, producer->chunk_count);
    chunk = &producer->chunks[*id];
    TN_ASSERT(chunk->memory == NULL); /* L4 */
    chunk->generation += 1;
    /* First the word: the consumer believes no message of a chunk that is not granted. */
    atomic_store_explicit(&connection->tables.chunks[*id].word,
                          tn_slot_word(chunk->generation, TN_SLOT_GRANTED), memory_order_release);
    status = send_chunk(connection, memory, *id, chunk->generation);
    if (status != TARN_OK) {
        atomic_store_explicit(&connection->tables.chunks[*id].word,
                              tn_slot_word(chunk->generation, TN_SLOT_FREE), memory_order_release);
        chunk->next = producer->free_chunk;
        producer->free_chunk = *id;
        return status;
    }
    chunk->memory = memory;
    chunk->serial = serial;
    chunk->next = *head;
    *head = *id;
    return TARN_OK;
}

/* Hands the chunks of the block over, from its user's address on; its pool is locked. */
static tarn_status hand_all_over(tarn_connection *connection, const tarn_pool *pool,
                                 const struct tn_block *block, struct grant_place *place)
{
    uint64_t at = block->offset + (tn_lone_address(pool, block) - tn_block_address(block));
    const uint64_t end = at + block->requested;
    uint32_t last = TN_SHARE_NONE;
    tarn_status status = TARN_OK;

    place->count = 0;
    while (status == TARN_OK && at < end) {
        const struct tn_chunk *chunk = tn_block_chunk_at(block, at);
        uint32_t id;

        if (place->count == TN_IMPORT_RUN_MAX)
            return tn_fail(TARN_ERR_LIMIT, "the block lies in more than %d chunks",
                           (int)TN_IMPORT_RUN_MAX);
        status = hand_over(connection, chunk->memory, &id);
        if (status != TARN_OK)
            break;
        if (last == TN_SHARE_NONE) {
            place->first = id;
            place->offset = at - chunk->offset;
        } else {
            atomic_store_explicit(&connection->tables.chunks[last].next, id, memory_order_relaxed);
        }
        last = id;
        place->count += 1;
        at = tn_chunk_end(chunk);
    }
    return status;
}

/* Whether blocks of the pool may be shared on the device. */
static tarn_status check_pool(const tarn_device *device, const tarn_pool *pool)
{
    if (pool->device != device)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                       "the block is of device %d, and the connection of device %d",
                       pool->device->gpu.ordinal, device->gpu.ordinal);
    if (!pool->memory.properties.shared)
        return tn_fail(TARN_ERR_WRONG_STATE,
                       "pool '%s' was not made to be shared: a process that has a chunk reads all "
                       "of its bytes",
                       pool->name);
    return TARN_OK;
}

tarn_status tn_grant_check_block(const tarn_device *device, uint64_t address, uint64_t *sequence,
                                 uint64_t *bytes)
{
    struct tn_block *block;
    tarn_pool *pool;
    tarn_status status = tn_pool_lock_block(address, true, &pool, &block);

    if (status != TARN_OK)
        return status;
    *sequence = block->sequence;
    *bytes = block->requested;
    status = check_pool(device, pool);
    tn_pool_unlock(pool);
    return status;
}

/* place->sequence: of the block that is meant; 0: of any. */
static tarn_status find_place(tarn_connection *connection, uint64_t address,
                              struct grant_place *place)
{
    struct tn_block *block;
    tarn_pool *pool;
    tarn_status status = tn_pool_lock_block(address, true, &pool, &block);

    if (status != TARN_OK)
        return status;
    if (place->sequence != 0 && place->sequence != block->sequence)
        status = tn_fail(TARN_ERR_DOUBLE_FREE, "the block at 0x%llx was freed since",
                         (unsigned long long)address);
    if (status == TARN_OK)
        status = check_pool(connection->device, pool);
    place->pool = pool;
    place->sequence = block->sequence;
    place->bytes = block->requested;
    if (status == TARN_OK)
        status = hand_all_over(connection, pool, block, place);
    tn_pool_unlock(pool);
    return status;
}

/* Watches the block. DOUBLE_FREE: another thread has freed it just now. */
static tarn_status keep(struct tn_lease *lease, uint64_t address, const struct grant_place *place)
{
    tarn_status status;

    atomic_store(&lease->told, 0);
    status = tn_watch_init(&lease->watch, place->pool, true, 1, &lease->told, 0, 1);
    if (status != TARN_OK)
        return status;
    lease->watch.is_lease = true;
    status = tn_watch_add(&lease->watch, address, place->sequence);
    if (status == TARN_OK && atomic_load(&lease->watch.gone) == 0)
        return TARN_OK;
    tn_watch_drop(&lease->watch);
    return status != TARN_OK ? status
                             : tn_fail(TARN_ERR_DOUBLE_FREE,
                                       "the block at 0x%llx was freed while it was being shared",
                                       (unsigned long long)address);
}

static uint32_t take_slot(struct tn_producer *producer)
{
    uint32_t slot = producer->free_slot;

    if (slot != TN_SHARE_NONE)
        producer->free_slot = producer->leases[slot].next;
    else if (producer->slots_begun < producer->slot_count)
        slot = producer->slots_begun++;
    return slot;
}

/* A slot whose generations are exhausted is never used again. */
static void give_slot(struct tn_producer *producer, uint32_t slot)
{
    struct tn_lease *lease = &producer->leases[slot];

    lease->state = TN_LEASE_FREE;
    if (lease->generation == TN_SHARE_GENERATION_MAX)
        return;
    lease->next = producer->free_slot;
    producer->free_slot = slot;
}

static void publish(tarn_connection *connection, uint32_t slot, const struct grant_place *place)
{
    struct tn_grant *grant = &connection->tables.grants[slot];
    struct tn_lease *lease = &connection->producer.leases[slot];

    TN_ASSERT(lease->watch.count == 1 && lease->state == TN_LEASE_FREE); /* L3 */
    lease->state = TN_LEASE_GRANTED;
    lease->generation += 1;
    connection->producer.granted_count += 1;
    atomic_store_explicit(&grant->offset, place->offset, memory_order_relaxed);
    atomic_store_explicit(&grant->bytes, place->bytes, memory_order_relaxed);
    atomic_store_explicit(&grant->first_chunk, place->first, memory_order_relaxed);
    atomic_store_explicit(&grant->chunk_count, place->count, memory_order_relaxed);
    atomic_store_explicit(&grant->begins, place->begins ? 1 : 0, memory_order_relaxed);
    atomic_store_explicit(&grant->word, tn_slot_word(lease->generation, TN_SLOT_GRANTED),
                          memory_order_release);
    tn_pool_note(place->pool, TN_NOTE_SHARED,
                 TN_OPERANDS(place->sequence, connection->id, (uint64_t)connection->process.pid));
}

/* Frees what waited for the leases alone. */
static bool poll(tarn_pool *pool, void *context)
{
    (void)context;
    tn_pending_poll(pool, false);
    return false;
}

/* No lock held. */
static void end_watch(tarn_connection *connection, struct tn_lease *lease)
{
    tn_watch_end(&lease->watch);
    (void)tn_device_visit_listed(connection->device, TN_POOLS_WAITING, poll, NULL);
}

/* The consumer gets the words that order streams, once. Lock held. */
static tarn_status send_words(tarn_connection *connection)
{
    const struct tn_message message = {.magic = TN_MESSAGE_MAGIC,
                                       .version = TN_SHARE_VERSION,
                                       .kind = TN_MESSAGE_WORDS,
                                       .connection_id = connection->id};
    struct tn_gpu *gpu = &connection->device->gpu;
    const uint32_t slots = connection->producer.slot_count;
    int descriptor = -1;
    tarn_status status;

    if (connection->handoff.both.address != 0)
        return TARN_OK;
    status = tn_handoff_make_own(gpu, slots, &connection->handoff);
    if (status == TARN_OK)
        status = tn_handoff_make(gpu, slots, &connection->handoff, &descriptor);
    if (status == TARN_OK)
        status = tn_channel_send(connection->channel, &message, &descriptor);
    tn_channel_close(&descriptor);
    if (status != TARN_OK)
        tn_handoff_fini(gpu, &connection->handoff);
    return status;
}

/* Takes a slot, and watches the block; nobody knows of the lease yet. Lock held. */
static tarn_status prepare(tarn_connection *connection, uint64_t address, uint32_t *slot,
                           struct grant_place *place)
{
    struct tn_producer *producer = &connection->producer;
    tarn_status status = tn_connection_check(connection);

    if (status == TARN_OK && place->begins)
        status = send_words(connection);
    if (status != TARN_OK)
        return status;
    *slot = take_slot(producer);
    if (*slot == TN_SHARE_NONE)
        return tn_fail(TARN_ERR_LIMIT,
                       "process %d has its %u leases, and has returned none of them",
                       (int)connection->process.pid, producer->slot_count);
    status = find_place(connection, address, place);
    if (status == TARN_OK)
        status = keep(&producer->leases[*slot], address, place);
    if (status != TARN_OK)
        give_slot(producer, *slot);
    return status;
}

/* The stream writes the word of the prepared lease behind its work, without the lock: a stream may
 * wait for room in the queue. */
static tarn_status write_word(tarn_connection *connection, tn_cu_stream stream, uint32_t slot)
{
    struct tn_lease *lease = &connection->producer.leases[slot];
    tarn_status status;

    TN_ASSERT(tn_lock_none_held() && lease->state == TN_LEASE_FREE);
    status = tn_handoff_write(&connection->device->gpu, &connection->handoff, stream,
                              TN_HANDOFF_BEGINS, slot, lease->generation + 1, lease->writes + 1);
    if (status == TARN_OK)
        lease->writes += 1;
    return status;
}

/* Grants a lease, which begins with the work of the stream; NULL: at once. sequence: of the block
 * that is meant; 0: any. */
static tarn_status grant(tarn_connection *connection, uint64_t address, uint64_t sequence,
                         const tn_cu_stream *stream, struct tn_share *share)
{
    struct grant_place place = {.sequence = sequence, .begins = stream != NULL};
    struct tn_producer *producer = &connection->producer;
    uint32_t slot;
    tarn_status status;

    tn_lock_acquire(&connection->lock);
    status = prepare(connection, address, &slot, &place);
    if (status == TARN_OK && stream != NULL) {
        tn_lock_release(&connection->lock);
        status = write_word(connection, *stream, slot);
        if (status != TARN_OK)
            end_watch(connection, &producer->leases[slot]);
        tn_lock_acquire(&connection->lock);
        if (status != TARN_OK)
            give_slot(producer, slot);
    }
    if (status == TARN_OK) {
        publish(connection, slot, &place);
        *share = (struct tn_share){.connection_id = connection->id,
                                   .slot = slot,
                                   .generation = producer->leases[slot].generation,
                                   .bytes = place.bytes};
    }
    tn_lock_release(&connection->lock);
    return status;
}

tarn_status tn_grant_block(tarn_connection *connection, uint64_t address,
                           const tn_cu_stream *stream, struct tn_share *share)
{
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_none_held() && connection->is_producer);
    if (stream != NULL)
        status = tn_handoff_admit(&connection->device->gpu, *stream);
    if (status != TARN_OK)
        return status;
    status = grant(connection, address, 0, stream, share);
    if (status == TARN_ERR_LIMIT && tn_grant_collect(connection) > 0)
        status = grant(connection, address, 0, stream, share);
    return status;
}

/* Why a claimed block cannot be granted, as the consumer is told. */
static enum tn_refusal refusal_of(tarn_status status)
{
    switch (status) {
    case TARN_ERR_DOUBLE_FREE:
    case TARN_ERR_NOT_OURS:
    case TARN_ERR_INNER_ADDRESS:
        return TN_REFUSAL_GONE;
    default:
        return TN_REFUSAL_LIMIT;
    }
}

void tn_grant_claimed(tarn_connection *connection, uint64_t address, uint64_t sequence,
                      struct tn_message *answer)
{
    struct tn_share share;
    tarn_status status = grant(connection, address, sequence, NULL, &share);

    TN_ASSERT(tn_lock_none_held() && sequence != 0);
    if (status != TARN_OK) {
        answer->refusal = refusal_of(status);
        return;
    }
    answer->kind = TN_MESSAGE_GRANT;
    answer->refusal = TN_REFUSAL_NONE;
    answer->slot = share.slot;
    answer->generation = share.generation;
}

uint64_t tn_grant_count_limbo(const tarn_connection *connection)
{
    const struct tn_producer *producer = &connection->producer;
    uint64_t count = 0;

    TN_ASSERT(tn_lock_is_held(&connection->lock));
    for (uint32_t slot = 0; producer->leases != NULL && slot < producer->slots_begun; slot++)
        count += producer->leases[slot].state == TN_LEASE_GRANTED &&
                 atomic_load(&producer->leases[slot].watch.is_waited_for);
    return count;
}

/* Whether both processes are done with the lease: the producer's streams with its word, and the
 * consumer, who has said so or is gone. */
static bool is_over(const tarn_connection *connection, uint32_t slot)
{
    const struct tn_lease *lease = &connection->producer.leases[slot];

    if (!tn_handoff_has_passed(&connection->device->gpu, &connection->handoff, slot,
                               lease->writes)) /* L6 */
        return false;
    return connection->state == TN_CONNECTION_GONE ||
           atomic_load_explicit(&connection->tables.returns[slot], memory_order_acquire) ==
               tn_slot_word(lease->generation, TN_SLOT_RETURNED) ||
           tn_handoff_is_told(&connection->handoff, TN_HANDOFF_ENDS, slot, lease->generation);
}

/* Takes the leases that are over out of the tables; returns the first of them. Lock held. */
static uint32_t take_ended(tarn_connection *connection)
{
    struct tn_producer *producer = &connection->producer;
    uint32_t first = TN_SHARE_NONE;

    for (uint32_t slot = 0; slot < producer->slots_begun; slot++) {
        struct tn_lease *lease = &producer->leases[slot];

        if (lease->state != TN_LEASE_GRANTED || !is_over(connection, slot))
            continue;
        atomic_store_explicit(&connection->tables.grants[slot].word,
                              tn_slot_word(lease->generation, TN_SLOT_FREE), memory_order_release);
        lease->state = TN_LEASE_ENDING;
        lease->next = first;
        first = slot;
    }
    return first;
}

uint64_t tn_grant_collect(tarn_connection *connection)
{
    struct tn_producer *producer = &connection->producer;
    uint64_t ended = 0;
    uint32_t first;

    TN_ASSERT(tn_lock_none_held() && connection->is_producer);
    tn_lock_acquire(&connection->lock);
    tn_connection_look(connection);
    first = producer->leases != NULL ? take_ended(connection) : TN_SHARE_NONE;
    if (first == TN_SHARE_NONE && producer->leases != NULL)
        sweep_chunks(connection);
    tn_lock_release(&connection->lock);
    if (first == TN_SHARE_NONE)
        return 0;
    for (uint32_t slot = first; slot != TN_SHARE_NONE; slot = producer->leases[slot].next)
        tn_watch_end(&producer->leases[slot].watch);
    (void)tn_device_visit_listed(connection->device, TN_POOLS_WAITING, poll, NULL);
    tn_lock_acquire(&connection->lock);
    while (first != TN_SHARE_NONE) {
        uint32_t next = producer->leases[first].next;

        give_slot(producer, first);
        producer->granted_count -= 1;
        ended += 1;
        first = next;
    }
    sweep_chunks(connection);
    tn_lock_release(&connection->lock);
    tn_device_note(connection->device, TN_NOTE_LEASES_ENDED,
                   TN_OPERANDS(connection->id, (uint64_t)connection->process.pid, ended));
    return ended;
}
