// SPDX-License-Identifier: Apache-2.0
/* A chunk comes once, by message. A message without host memory or descriptors is kept for the next
 * round. */
#include "share/receive.h"

#include <stddef.h>
#include <string.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "driver/mapping.h"
#include "share/channel.h"
#include "share/given.h"

tarn_status tn_receive_greet(tarn_connection *connection)
{
    const struct tn_message message = {
        .magic = TN_MESSAGE_MAGIC, .version = TN_SHARE_VERSION, .kind = TN_MESSAGE_HELLO};

    TN_ASSERT(tn_lock_is_held(&connection->lock) && !connection->is_producer);
    return tn_channel_send(connection->channel, &message, NULL);
}

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
    consumer->first_leaving = TN_SHARE_NONE;
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
        tn_given_chunk_forget(connection, message->chunk);
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

static tarn_status take_words(tarn_connection *connection, const struct tn_message *message,
                              int descriptor)
{
    if (connection->state != TN_CONNECTION_READY || message->connection_id != connection->id ||
        connection->handoff.both.address != 0)
        return tn_fail(TARN_ERR_PEER_LOST, "the other process has sent words that have no place");
    return tn_handoff_open(&connection->device->gpu, connection->tables.slot_count,
                           &connection->handoff, descriptor);
}

static tarn_status take_message(tarn_connection *connection, const struct tn_message *message,
                                int descriptors[TN_SHARE_DESCRIPTORS_MAX])
{
    switch (message->kind) {
    case TN_MESSAGE_WELCOME:
        return take_welcome(connection, message, descriptors);
    case TN_MESSAGE_CHUNK:
        return take_chunk(connection, message, descriptors[0]);
    case TN_MESSAGE_WORDS:
        return take_words(connection, message, descriptors[0]);
    case TN_MESSAGE_GRANT:
        if (connection->state == TN_CONNECTION_READY && message->connection_id == connection->id &&
            tn_bid_answer(&connection->consumer.bids, message))
            return TARN_OK;
        return tn_fail(TARN_ERR_PEER_LOST, "the other process has granted what nobody claimed");
    case TN_MESSAGE_REFUSAL:
        if (connection->state == TN_CONNECTION_READY &&
            tn_bid_answer(&connection->consumer.bids, message))
            return TARN_OK;
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
            tn_given_chunk_forget(connection, id);
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

/* Keeps a received message for a later round with more memory or descriptors. */
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

/* Returns all granted leases; none is open. Later ones end with the process. */
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
        TN_ASSERT(consumer->opened[slot].count == 0 && !consumer->opened[slot].is_leaving);
    }
    for (uint32_t id = 0; consumer->chunks != NULL && id < connection->tables.chunk_count; id++) {
        if (consumer->chunks[id] != NULL)
            tn_given_chunk_forget(connection, id);
    }
    for (size_t i = 0; consumer->has_kept && i < TN_SHARE_DESCRIPTORS_MAX; i++)
        tn_channel_close(&consumer->kept_files[i]);
    return_all(&connection->tables);
    tn_handoff_fini(&connection->device->gpu, &connection->handoff);
    free_arrays(consumer);
}
