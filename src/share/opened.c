// SPDX-License-Identifier: Apache-2.0
/* A share names only its slot. The grant of the slot, which the producer alone writes, says where the
 * block is: in a run of chunks.
 *
 * The consumer believes the table of grants as little as a message, and checks chunks, offset and
 * bytes against the received memory. A producer can give other bytes than were promised, as ever,
 * and cannot lead the consumer out of the mappings. */
#include "share/opened.h"

#include "base/contract.h"
#include "base/error.h"
#include "share/given.h"
#include "share/receive.h"

/* A grant, read once: the producer may write another at any time. */
struct grant_copy {
    uint64_t offset;
    uint64_t bytes;
    uint32_t count;
    uint32_t ids[TN_IMPORT_RUN_MAX];
};
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

/* The address leads to the slot from now on. */
static void enter_slot(tarn_connection *connection, uint32_t slot)
{
    struct tn_opened *opened = &connection->consumer.opened[slot];
    uint32_t *head = head_of(connection, opened->address);

    TN_ASSERT(opened->run != NULL && opened->count == 0);
    opened->count = 1;
    opened->next = *head;
    *head = slot;
}

/* Opens a slot for the first time. */
static tarn_status open_slot(tarn_connection *connection, const struct tn_share *share,
                             uint64_t *address)
{
    struct tn_opened *opened = &connection->consumer.opened[share->slot];
    struct grant_copy grant;
    struct tn_given_run *run;
    uint64_t base;
    tarn_status status;

    grant.count = 0; /* not all of its ids */
    grant.offset = 0;
    status = read_grant(connection, share, &grant);
    if (status != TARN_OK)
        return status;
    TN_ASSERT(grant.count > 0);
    run = tn_given_run_find(&connection->consumer, grant.ids, grant.count);
    if (run == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to map a share");
    status = tn_import_use(&connection->device->imports, &run->import, &base);
    if (status != TARN_OK)
        return status;
    run->open_count += 1;
    *opened = (struct tn_opened){
        .generation = share->generation, .address = base + grant.offset, .run = run};
    tn_import_block_enter(&opened->block, &connection->device->gpu, opened->address, grant.bytes);
    enter_slot(connection, share->slot);
    connection->consumer.opened_count += 1;
    atomic_store_explicit(&connection->tables.returns[share->slot],
                          tn_slot_word(share->generation, TN_SLOT_OPENED), memory_order_release);
    *address = opened->address;
    return TARN_OK;
}

/* A closed slot that a graph keeps is open again. */
static void reopen_slot(tarn_connection *connection, uint32_t slot)
{
    struct tn_consumer *consumer = &connection->consumer;
    uint32_t *link = &consumer->first_kept;

    TN_ASSERT(consumer->kept_count > 0);
    while (*link != slot)
        link = &consumer->opened[*link].next;
    *link = consumer->opened[slot].next;
    consumer->kept_count -= 1;
    tn_import_block_reopen(&consumer->opened[slot].block);
    enter_slot(connection, slot);
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
    if (opened->run != NULL && opened->generation == share->generation) {
        reopen_slot(connection, share->slot);
        *address = opened->address;
        return TARN_OK;
    }
    if (opened->run != NULL || atomic_load_explicit(&connection->tables.returns[share->slot],
                                                    memory_order_relaxed) == returned)
        return is_over();
    return open_slot(connection, share, address);
}

tarn_status tn_share_open(tarn_connection *connection, const struct tn_share *share,
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

/* A slot that is closed, and that no graph keeps: its run goes, and then the lease. */
static void end_slot(tarn_connection *connection, uint32_t slot)
{
    struct tn_opened *opened = &connection->consumer.opened[slot];
    struct tn_given_run *run = opened->run;

    TN_ASSERT(run->open_count > 0 && opened->count == 0);
    connection->consumer.opened_count -= 1;
    tn_import_block_end(&opened->block);
    tn_import_leave(&connection->device->imports, &run->import);
    run->open_count -= 1;
    if (run->open_count == 0 && !run->is_known)
        tn_given_run_end(connection, run);
    opened->run = NULL;
    atomic_store_explicit(&connection->tables.returns[slot],
                          tn_slot_word(opened->generation, TN_SLOT_RETURNED), memory_order_release);
}

/* The last close of a slot. */
static void close_slot(tarn_connection *connection, uint32_t slot, uint32_t *link)
{
    struct tn_consumer *consumer = &connection->consumer;
    struct tn_opened *opened = &consumer->opened[slot];

    *link = opened->next;
    if (!tn_import_block_let_go(&opened->block)) {
        end_slot(connection, slot);
        return;
    }
    opened->next = consumer->first_kept;
    consumer->first_kept = slot;
    consumer->kept_count += 1;
}

/* Ends slots that no graph keeps any more. */
static void end_kept(tarn_connection *connection)
{
    struct tn_consumer *consumer = &connection->consumer;
    uint32_t *link = &consumer->first_kept;

    for (uint64_t left = consumer->kept_count; left > 0; left--) {
        uint32_t slot = *link;

        if (tn_import_block_is_kept(&consumer->opened[slot].block)) {
            link = &consumer->opened[slot].next;
            continue;
        }
        *link = consumer->opened[slot].next;
        consumer->kept_count -= 1;
        end_slot(connection, slot);
    }
}

/* Tells the graphs that the producer is gone, once. */
static void tell_loss(tarn_connection *connection)
{
    struct tn_consumer *consumer = &connection->consumer;

    if (connection->state != TN_CONNECTION_GONE || consumer->knows_loss)
        return;
    consumer->knows_loss = true;
    for (uint32_t slot = 0; consumer->opened != NULL && slot < connection->tables.slot_count;
         slot++) {
        if (consumer->opened[slot].run != NULL)
            tn_import_block_lose(&consumer->opened[slot].block);
    }
}

void tn_opened_collect(tarn_connection *connection)
{
    TN_ASSERT(tn_lock_none_held() && !connection->is_producer);
    tn_lock_acquire(&connection->lock);
    tn_connection_look(connection);
    tell_loss(connection);
    end_kept(connection);
    tn_lock_release(&connection->lock);
}

tarn_status tn_share_close(tarn_connection *connection, uint64_t address)
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
    end_kept(connection);
    tn_lock_release(&connection->lock);
    if (slot != TN_SHARE_NONE)
        return TARN_OK;
    return tn_fail(TARN_ERR_NOT_OURS, "no share is open at address 0x%llx",
                   (unsigned long long)address);
}
