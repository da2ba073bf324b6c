// SPDX-License-Identifier: Apache-2.0
/* A chunk comes once, by message; a share names only its slot. The grant of the slot, which the
 * producer alone writes, says where the block is: in a run of chunks. Runs are kept with their
 * mappings: a block of a known run costs no call of driver or system.
 *
 * The consumer believes the table of grants as little as a message, and checks chunks, offset and
 * bytes against the received memory. A producer can give other bytes than were promised, as ever,
 * and cannot lead the consumer out of the mappings. */
#include "share/receive.h"

#include <stddef.h>
#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "driver/mapping.h"
#include "share/channel.h"

/* A grant, read once: the producer may write another at any time. */
struct grant_copy {
    uint64_t offset;
    uint64_t bytes;
    uint32_t count;
    uint32_t ids[TN_IMPORT_RUN_MAX];
};

tarn_status tn_receive_greet(tarn_connection *connection)
{
    const struct tn_message message = {
        .magic = TN_MESSAGE_MAGIC, .version = TN_SHARE_VERSION, .kind = TN_MESSAGE_HELLO};

    TN_ASSERT(tn_lock_is_held(&connection->lock) && !connection->is_producer);
    return tn_channel_send(connection->channel, &message, NULL);
}

/* Chunks and runs ------------------------------------------------------------------------------- */

static void end_chunk(tarn_connection *connection, struct tn_given_chunk *chunk)
{
    TN_ASSERT(chunk->run_count == 0 && !chunk->is_known);
    tn_memory_destroy(&connection->device->gpu, chunk->memory);
    tn_host_free(chunk);
}

/* Ends a run without an open block, which is no longer in the list. */
static void end_run(tarn_connection *connection, struct tn_given_run *run)
{
    TN_ASSERT(run->open_count == 0 && !run->is_known); /* L5 */
    tn_import_fini(&connection->device->imports, &run->import);
    for (size_t i = 0; i < run->import.count; i++) {
        struct tn_given_chunk *chunk = run->chunks[i];

        chunk->run_count -= 1;
        if (chunk->run_count == 0 && !chunk->is_known)
            end_chunk(connection, chunk);
    }
    tn_host_free(run->chunks);
    tn_host_free(run->memories);
    tn_host_free(run);
}

static bool has_chunk(const struct tn_given_run *run, const struct tn_given_chunk *chunk)
{
    size_t i = 0;

    while (i < run->import.count && run->chunks[i] != chunk)
        i++;
    return i < run->import.count;
}

/* The id no longer leads to the chunk, which goes with the last open block. */
static void forget_chunk(tarn_connection *connection, uint32_t id)
{
    struct tn_consumer *consumer = &connection->consumer;
    struct tn_given_chunk *chunk = consumer->chunks[id];

    consumer->chunks[id] = NULL;
    for (uint32_t first = 0; chunk->run_count > 0 && first < connection->tables.chunk_count;
         first++) {
        struct tn_given_run **link = &consumer->runs[first];

        while (*link != NULL) {
            struct tn_given_run *run = *link;

            if (!has_chunk(run, chunk)) {
                link = &run->next;
                continue;
            }
            *link = run->next;
            run->is_known = false;
            if (run->open_count == 0)
                end_run(connection, run);
        }
    }
    chunk->is_known = false;
    if (chunk->run_count == 0)
        end_chunk(connection, chunk);
}

static void free_run(struct tn_given_run *run)
{
    tn_host_free(run->chunks);
    tn_host_free(run->memories);
    tn_host_free(run);
}

static struct tn_given_run *allocate_run(size_t count)
{
    struct tn_given_run *run = tn_host_alloc(1, sizeof *run);

    if (run == NULL)
        return NULL;
    run->chunks = tn_host_alloc(count, sizeof(struct tn_given_chunk *));
    run->memories = tn_host_alloc(count, sizeof(struct tn_memory *));
    if (run->chunks != NULL && run->memories != NULL)
        return run;
    free_run(run);
    return NULL;
}

static bool is_run_of(const struct tn_consumer *consumer, const struct tn_given_run *run,
                      const struct grant_copy *grant)
{
    if (run->import.count != grant->count)
        return false;
    for (size_t i = 0; i < grant->count; i++) {
        if (run->chunks[i] != consumer->chunks[grant->ids[i]])
            return false;
    }
    return true;
}

/* The run of the grant's chunks, which are all here. NULL: no host memory */
static struct tn_given_run *find_run(struct tn_consumer *consumer, const struct grant_copy *grant)
{
    struct tn_given_run *run = consumer->runs[grant->ids[0]];

    while (run != NULL && !is_run_of(consumer, run, grant))
        run = run->next;
    if (run != NULL)
        return run;
    run = allocate_run(grant->count);
    if (run == NULL)
        return NULL;
    for (size_t i = 0; i < grant->count; i++) {
        run->chunks[i] = consumer->chunks[grant->ids[i]];
        run->chunks[i]->run_count += 1;
        run->memories[i] = run->chunks[i]->memory;
    }
    tn_import_init(&run->import, run->memories, grant->count);
    run->is_known = true;
    run->next = consumer->runs[grant->ids[0]];
    consumer->runs[grant->ids[0]] = run;
    return run;
}

/* Messages -------------------------------------------------------------------------------------- */

static void free_arrays(struct tn_consumer *consumer)
{
    TN_ASSERT(consumer->opened_count == 0);
    tn_host_free(consumer->chunks);
    tn_host_free(consumer->runs);
    tn_host_free(consumer->opened);
    tn_host_free(consumer->heads);
    consumer->chunks = NULL;
    consumer->runs = NULL;
    consumer->opened = NULL;
    consumer->heads = NULL;
}

static bool make_arrays(struct tn_consumer *consumer, const struct tn_message *message)
{
    consumer->chunks = tn_host_alloc(message->chunk_count, sizeof(struct tn_given_chunk *));
    consumer->runs = tn_host_alloc(message->chunk_count, sizeof(struct tn_given_run *));
    consumer->opened = tn_host_alloc(message->slot_count, sizeof *consumer->opened);
    consumer->heads = tn_host_alloc(message->slot_count, sizeof *consumer->heads);
    for (uint32_t i = 0; consumer->heads != NULL && i < message->slot_count; i++)
        consumer->heads[i] = TN_SHARE_NONE;
    return consumer->chunks != NULL && consumer->runs != NULL && consumer->opened != NULL &&
           consumer->heads != NULL;
}

static tarn_status take_welcome(tarn_connection *connection, const struct tn_message *message,
                                int descriptors[TN_SHARE_DESCRIPTORS_MAX])
{
    tarn_status status;

    if (connection->state != TN_CONNECTION_GREETING)
        return tn_fail(TARN_ERR_PEER_LOST, "the other process has greeted twice");
    if (!make_arrays(&connection->consumer, message)) {
        free_arrays(&connection->consumer); /* all or none are there */
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a connection");
    }
    status = tn_tables_open(&connection->tables, descriptors[0], descriptors[1],
                            message->slot_count, message->chunk_count);
    descriptors[0] = -1;
    descriptors[1] = -1;
    if (status != TARN_OK) {
        free_arrays(&connection->consumer);
        return status;
    }
    tn_tables_close_files(&connection->tables);
    connection->id = message->connection_id;
    connection->state = TN_CONNECTION_READY;
    return TARN_OK;
}

static tarn_status take_chunk(tarn_connection *connection, const struct tn_message *message,
                              int descriptor)
{
    const struct tn_memory_properties properties = {.exportable = false};
    struct tn_consumer *consumer = &connection->consumer;
    struct tn_gpu *gpu = &connection->device->gpu;
    struct tn_given_chunk *chunk;
    tn_cu_memhandle handle;
    tarn_status status;

    if (connection->state != TN_CONNECTION_READY || message->connection_id != connection->id ||
        message->chunk >= connection->tables.chunk_count)
        return tn_fail(TARN_ERR_PEER_LOST, "the other process has sent a chunk that has no place");
    if (consumer->chunks[message->chunk] != NULL)
        forget_chunk(connection, message->chunk);
    chunk = tn_host_alloc(1, sizeof *chunk);
    if (chunk == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a chunk");
    status = tn_gpu_import_memory(gpu, descriptor, &handle);
    if (status == TARN_OK) {
        status = tn_memory_import(handle, message->bytes, properties, &chunk->memory);
        if (status != TARN_OK)
            tn_gpu_release_memory(gpu, handle);
    }
    if (status != TARN_OK) {
        tn_host_free(chunk);
        return status;
    }
    chunk->generation = message->generation;
    chunk->is_known = true;
    consumer->chunks[message->chunk] = chunk;
    return TARN_OK;
}

static tarn_status take_message(tarn_connection *connection, const struct tn_message *message,
                                int descriptors[TN_SHARE_DESCRIPTORS_MAX])
{
    switch (message->kind) {
    case TN_MESSAGE_WELCOME:
        return take_welcome(connection, message, descriptors);
    case TN_MESSAGE_CHUNK:
        return take_chunk(connection, message, descriptors[0]);
    case TN_MESSAGE_REFUSAL:
        connection->refusal = (enum tn_refusal)message->refusal;
        return tn_fail(TARN_ERR_PEER_LOST, "the other process refuses the connection");
    default:
        return tn_fail(TARN_ERR_PEER_LOST, "the other process has sent a message out of turn");
    }
}

/* Forgets chunks which the producer no longer has. */
static void forget_retired(tarn_connection *connection)
{
    for (uint32_t id = 0; id < connection->tables.chunk_count; id++) {
        uint64_t word =
            atomic_load_explicit(&connection->tables.chunks[id].word, memory_order_acquire);

        if (connection->consumer.chunks[id] != NULL &&
            (word & UINT32_MAX) != (uint64_t)TN_SLOT_GRANTED)
            forget_chunk(connection, id);
    }
}

/* The message that was kept, or the next one. */
static tarn_status next_message(tarn_connection *connection, struct tn_message *message,
                                int descriptors[TN_SHARE_DESCRIPTORS_MAX])
{
    struct tn_consumer *consumer = &connection->consumer;

    if (!consumer->has_kept)
        return tn_channel_receive(connection->channel, message, descriptors);
    *message = consumer->kept;
    memcpy(descriptors, consumer->kept_files, sizeof consumer->kept_files);
    consumer->has_kept = false;
    return TARN_OK;
}

/* Keeps a message that was received, and may be taken with more memory or descriptors. */
static void keep(struct tn_consumer *consumer, const struct tn_message *message,
                 int descriptors[TN_SHARE_DESCRIPTORS_MAX])
{
    TN_ASSERT(!consumer->has_kept);
    consumer->kept = *message;
    for (size_t i = 0; i < TN_SHARE_DESCRIPTORS_MAX; i++) {
        consumer->kept_files[i] = descriptors[i];
        descriptors[i] = -1;
    }
    consumer->has_kept = true;
}

static bool is_shortage(tarn_status status)
{
    return status == TARN_ERR_LIMIT || status == TARN_ERR_HOST_MEMORY;
}

void tn_receive_messages(tarn_connection *connection)
{
    struct tn_message message;
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_is_held(&connection->lock) && !connection->is_producer);
    for (int i = 0; i < TN_SHARE_MESSAGES_MAX && status == TARN_OK && connection->channel >= 0;
         i++) {
        int descriptors[TN_SHARE_DESCRIPTORS_MAX] = {-1, -1};

        status = next_message(connection, &message, descriptors);
        if (status == TARN_OK) {
            status = take_message(connection, &message, descriptors);
            if (is_shortage(status) && descriptors[0] >= 0)
                keep(&connection->consumer, &message, descriptors);
            else if (is_shortage(status))
                status = TARN_ERR_PEER_LOST; /* the message has gone */
        }
        tn_channel_close(&descriptors[0]);
        tn_channel_close(&descriptors[1]);
    }
    connection->consumer.lacks = is_shortage(status) ? status : TARN_OK;
    if (status != TARN_OK && status != TARN_ERR_BUSY && !is_shortage(status))
        tn_connection_part(connection);
    tn_connection_look(connection);
    if (connection->state == TN_CONNECTION_READY)
        forget_retired(connection);
}

/* Shares ---------------------------------------------------------------------------------------- */

static tarn_status is_over(void)
{
    return tn_fail(TARN_ERR_STALE, "the lease of the share is over: it was returned, or its block "
                                   "was taken back");
}

static tarn_status bad_grant(void)
{
    return tn_fail(TARN_ERR_PEER_LOST, "the other process has granted a lease of no memory");
}

/* Copies the grant of the share. BUSY: a chunk has not come. */
static tarn_status read_grant(const tarn_connection *connection, const struct tn_share *share,
                              struct grant_copy *copy)
{
    const struct tn_tables *tables = &connection->tables;
    const struct tn_grant *grant = &tables->grants[share->slot];
    uint64_t word = tn_slot_word(share->generation, TN_SLOT_GRANTED);
    const struct tn_given_chunk *chunk;
    uint64_t run_bytes = 0;
    uint32_t id;

    if (atomic_load_explicit(&grant->word, memory_order_acquire) != word)
        return is_over();
    copy->offset = atomic_load_explicit(&grant->offset, memory_order_relaxed);
    copy->bytes = atomic_load_explicit(&grant->bytes, memory_order_relaxed);
    copy->count = atomic_load_explicit(&grant->chunk_count, memory_order_relaxed);
    id = atomic_load_explicit(&grant->first_chunk, memory_order_relaxed);
    if (copy->count == 0 || copy->count > TN_IMPORT_RUN_MAX)
        return bad_grant();
    for (uint32_t i = 0; i < copy->count; i++) {
        if (id >= tables->chunk_count)
            return bad_grant();
        chunk = connection->consumer.chunks[id];
        if (chunk == NULL || atomic_load_explicit(&tables->chunks[id].word, memory_order_relaxed) !=
                                 tn_slot_word(chunk->generation, TN_SLOT_GRANTED))
            return tn_fail(TARN_ERR_BUSY, "the chunk of the share has not come yet");
        run_bytes += chunk->memory->bytes;
        copy->ids[i] = id;
        id = atomic_load_explicit(&tables->chunks[id].next, memory_order_relaxed);
    }
    if (copy->bytes == 0 || copy->offset > run_bytes || copy->bytes > run_bytes - copy->offset ||
        copy->bytes != share->bytes)
        return bad_grant();
    return TARN_OK;
}

static uint32_t *head_of(tarn_connection *connection, uint64_t address)
{
    return &connection->consumer.heads[tn_share_hash(address, connection->tables.slot_count)];
}

/* Opens a slot for the first time. */
static tarn_status open_slot(tarn_connection *connection, const struct tn_share *share,
                             uint64_t *address)
{
    struct tn_opened *opened = &connection->consumer.opened[share->slot];
    struct grant_copy grant;
    struct tn_given_run *run;
    uint64_t base;
    uint32_t *head;
    tarn_status status;

    grant.count = 0; /* not all of its ids */
    grant.offset = 0;
    status = read_grant(connection, share, &grant);
    if (status != TARN_OK)
        return status;
    TN_ASSERT(grant.count > 0);
    run = find_run(&connection->consumer, &grant);
    if (run == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to map a share");
    status = tn_import_use(&connection->device->imports, &run->import, &base);
    if (status != TARN_OK)
        return status;
    run->open_count += 1;
    head = head_of(connection, base + grant.offset);
    *opened = (struct tn_opened){.generation = share->generation,
                                 .next = *head,
                                 .count = 1,
                                 .address = base + grant.offset,
                                 .run = run};
    *head = share->slot;
    connection->consumer.opened_count += 1;
    atomic_store_explicit(&connection->tables.returns[share->slot],
                          tn_slot_word(share->generation, TN_SLOT_OPENED), memory_order_release);
    *address = opened->address;
    return TARN_OK;
}

/* Lock held. */
static tarn_status open_share(tarn_connection *connection, const struct tn_share *share,
                              uint64_t *address)
{
    struct tn_opened *opened;
    uint64_t returned = tn_slot_word(share->generation, TN_SLOT_RETURNED);
    tarn_status status = tn_connection_check(connection);

    if (status != TARN_OK)
        return status;
    if (share->connection_id != connection->id || share->slot >= connection->tables.slot_count)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT, "the share is for another connection");
    opened = &connection->consumer.opened[share->slot];
    if (opened->count > 0 && opened->generation == share->generation) {
        opened->count += 1;
        *address = opened->address;
        return TARN_OK;
    }
    if (opened->count > 0 || atomic_load_explicit(&connection->tables.returns[share->slot],
                                                  memory_order_relaxed) == returned)
        return is_over();
    return open_slot(connection, share, address);
}

tarn_status tn_receive_open(tarn_connection *connection, const struct tn_share *share,
                            uint64_t *address)
{
    tarn_status status;

    TN_ASSERT(tn_lock_none_held() && !connection->is_producer);
    tn_lock_acquire(&connection->lock);
    status = open_share(connection, share, address);
    if (status == TARN_ERR_BUSY) {
        tn_receive_messages(connection);
        status = open_share(connection, share, address);
        if (status == TARN_ERR_BUSY && connection->consumer.lacks != TARN_OK)
            status = tn_fail(connection->consumer.lacks,
                             "no host memory or file descriptor is left to take the other "
                             "process's messages");
    }
    tn_lock_release(&connection->lock);
    return status;
}

/* The last close of a slot: its run, and then the lease. */
static void close_slot(tarn_connection *connection, uint32_t slot, uint32_t *link)
{
    struct tn_opened *opened = &connection->consumer.opened[slot];
    struct tn_given_run *run = opened->run;

    TN_ASSERT(run->open_count > 0);
    *link = opened->next;
    connection->consumer.opened_count -= 1;
    tn_import_leave(&connection->device->imports, &run->import);
    run->open_count -= 1;
    if (run->open_count == 0 && !run->is_known)
        end_run(connection, run);
    opened->run = NULL;
    atomic_store_explicit(&connection->tables.returns[slot],
                          tn_slot_word(opened->generation, TN_SLOT_RETURNED), memory_order_release);
}

tarn_status tn_receive_close(tarn_connection *connection, uint64_t address)
{
    struct tn_consumer *consumer = &connection->consumer;
    uint32_t slot = TN_SHARE_NONE;
    uint32_t *link = NULL;

    TN_ASSERT(tn_lock_none_held() && !connection->is_producer);
    tn_lock_acquire(&connection->lock);
    if (consumer->heads != NULL) {
        link = head_of(connection, address);
        while (*link != TN_SHARE_NONE && consumer->opened[*link].address != address)
            link = &consumer->opened[*link].next;
        slot = *link;
    }
    if (slot != TN_SHARE_NONE) {
        consumer->opened[slot].count -= 1;
        if (consumer->opened[slot].count == 0)
            close_slot(connection, slot, link);
    }
    tn_lock_release(&connection->lock);
    if (slot != TN_SHARE_NONE)
        return TARN_OK;
    return tn_fail(TARN_ERR_NOT_OURS, "no share is open at address 0x%llx",
                   (unsigned long long)address);
}

/* Returns all granted leases; none is open. Those that come later end with the process. */
static void return_all(struct tn_tables *tables)
{
    for (uint32_t slot = 0; tables->returns != NULL && slot < tables->slot_count; slot++) {
        uint64_t word = atomic_load_explicit(&tables->grants[slot].word, memory_order_acquire);
        uint32_t generation = (uint32_t)(word >> 32);

        if (word == tn_slot_word(generation, TN_SLOT_GRANTED))
            atomic_store_explicit(&tables->returns[slot],
                                  tn_slot_word(generation, TN_SLOT_RETURNED), memory_order_release);
    }
}

/* The memory of the producer goes from this process, and then the leases go. */
void tn_receive_fini(tarn_connection *connection)
{
    struct tn_consumer *consumer = &connection->consumer;

    for (uint32_t slot = 0; consumer->opened != NULL && slot < connection->tables.slot_count;
         slot++) {
        TN_ASSERT(consumer->opened[slot].count == 0);
    }
    for (uint32_t id = 0; consumer->chunks != NULL && id < connection->tables.chunk_count; id++) {
        if (consumer->chunks[id] != NULL)
            forget_chunk(connection, id);
    }
    for (size_t i = 0; consumer->has_kept && i < TN_SHARE_DESCRIPTORS_MAX; i++)
        tn_channel_close(&consumer->kept_files[i]);
    return_all(&connection->tables);
    free_arrays(consumer);
}
