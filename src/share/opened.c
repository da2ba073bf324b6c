// SPDX-License-Identifier: Apache-2.0
/* A share names only its slot. The grant of the slot, which the producer alone writes, says where the
 * block is: in a run of chunks.
 *
 * The consumer believes the table of grants as little as a message, and checks chunks, offset and
 * bytes against the received memory. A producer can give other bytes than were promised, as ever,
 * and cannot lead the consumer out of the mappings.
 *
 * A close on a stream takes the share from the program at once, and leaves the memory mapped until
 * the stream has come there. The stream itself tells the producer; this process learns of it later,
 * in some other call.
 *
 * Trade-offs: several closes of one share are in order behind each other, whatever their streams. So
 * the last one speaks for all. */
#include "share/opened.h"

#include <string.h>

#include "base/contract.h"
#include "base/error.h"
#include "share/channel.h"
#include "share/given.h"
#include "share/receive.h"

enum { POLLED = 2 }; /* leases that a call looks after, besides its own */

/* A grant, read once: the producer may write another at any time. */
struct grant_copy {
    uint64_t offset;
    uint64_t bytes;
    uint32_t count;
    uint32_t ids[TN_IMPORT_RUN_MAX];
    bool begins; /* with a word of a stream */
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
    copy->begins = atomic_load_explicit(&grant->begins, memory_order_relaxed) != 0;
    if (copy->begins && connection->handoff.both.address == 0)
        return tn_fail(TARN_ERR_BUSY, "the words that order streams have not come yet");
    return TARN_OK;
}

static uint32_t *head_of(tarn_connection *connection, uint64_t address)
{
    return &connection->consumer.heads[tn_share_hash(address, connection->tables.slot_count)];
}

/* Leases that streams leave --------------------------------------------------------------------- */

/* The slot's memory is no longer used: its run goes. state: what the producer is told. */
static void end_slot(tarn_connection *connection, uint32_t slot, enum tn_slot_state state)
{
    struct tn_opened *opened = &connection->consumer.opened[slot];
    struct tn_given_run *run = opened->run;

    TN_ASSERT(run->open_count > 0 && opened->count == 0);
    connection->consumer.opened_count -= 1;
    tn_device_note(connection->device, TN_NOTE_SHARE_RETURNED,
                   TN_OPERANDS(opened->address, opened->block.bytes, connection->id));
    tn_import_block_end(&opened->block);
    tn_import_leave(&connection->device->imports, &run->import);
    run->open_count -= 1;
    if (run->open_count == 0 && !run->is_known)
        tn_given_run_end(connection, run);
    opened->run = NULL;
    opened->is_leaving = false;
    atomic_store_explicit(&connection->tables.returns[slot],
                          tn_slot_word(opened->generation, state), memory_order_release);
}

/* Whether streams that wait for the beginning of the lease have gone on, also by its loss. */
static bool has_begun(const tarn_connection *connection, uint32_t slot)
{
    const struct tn_opened *opened = &connection->consumer.opened[slot];

    return opened->wait_count == 0 || connection->state == TN_CONNECTION_GONE ||
           tn_gpu_is_lost(&connection->device->gpu) ||
           tn_handoff_is_told(&connection->handoff, TN_HANDOFF_BEGINS, slot, opened->generation);
}

/* Whether no stream and no graph has the closed slot any more. */
static bool has_left(const tarn_connection *connection, uint32_t slot)
{
    struct tn_opened *opened = &connection->consumer.opened[slot];

    return has_begun(connection, slot) &&
           tn_handoff_has_passed(&connection->device->gpu, &connection->handoff, slot,
                                 opened->writes) &&
           !tn_import_block_is_kept(&opened->block);
}

/* The closed slot is returned once its streams have come there, and no graph keeps it. */
static void leave(tarn_connection *connection, uint32_t slot)
{
    struct tn_consumer *consumer = &connection->consumer;

    if (has_left(connection, slot)) {
        end_slot(connection, slot, TN_SLOT_RETURNED);
        return;
    }
    consumer->opened[slot].is_leaving = true;
    consumer->opened[slot].next = TN_SHARE_NONE;
    if (consumer->first_leaving == TN_SHARE_NONE)
        consumer->first_leaving = slot;
    else
        consumer->opened[consumer->last_leaving].next = slot;
    consumer->last_leaving = slot;
}

/* Tells guards that the producer is gone, once. */
static void tell_loss(tarn_connection *connection)
{
    struct tn_consumer *consumer = &connection->consumer;

    if (connection->state != TN_CONNECTION_GONE || consumer->knows_loss)
        return;
    consumer->knows_loss = true;
    for (uint32_t slot = 0; consumer->opened != NULL && slot < connection->tables.slot_count;
         slot++) {
        if (consumer->opened[slot].run != NULL)
            tn_import_block_tell(&consumer->opened[slot].block);
    }
}

void tn_share_poll(tarn_connection *connection, uint32_t most)
{
    struct tn_consumer *consumer = &connection->consumer;
    uint32_t last = TN_SHARE_NONE;
    uint32_t slot = consumer->heads != NULL ? consumer->first_leaving : TN_SHARE_NONE;

    TN_ASSERT(tn_lock_is_held(&connection->lock) && !connection->is_producer);
    tell_loss(connection);
    for (; slot != TN_SHARE_NONE && most > 0; most--) {
        uint32_t next = consumer->opened[slot].next;

        if (!has_left(connection, slot)) {
            last = slot;
        } else {
            if (last == TN_SHARE_NONE)
                consumer->first_leaving = next;
            else
                consumer->opened[last].next = next;
            if (consumer->last_leaving == slot)
                consumer->last_leaving = last;
            end_slot(connection, slot, TN_SLOT_RETURNED);
        }
        slot = next;
    }
}

/* Opening --------------------------------------------------------------------------------------- */

/* BUSY: the producer's stream has not come to the beginning of the lease. */
static tarn_status check_begun(tarn_connection *connection, const struct tn_share *share)
{
    if (tn_handoff_is_told(&connection->handoff, TN_HANDOFF_BEGINS, share->slot, share->generation))
        return TARN_OK;
    connection->consumer.awaits_words = true;
    return tn_fail(TARN_ERR_BUSY, "the producer's stream has not come to the share: open it on a "
                                  "stream, or later");
}

static void link_address(tarn_connection *connection, uint32_t slot)
{
    struct tn_opened *opened = &connection->consumer.opened[slot];
    uint32_t *head = head_of(connection, opened->address);

    opened->next = *head;
    *head = slot;
}

/* Opens a slot for the first time. */
static tarn_status open_slot(tarn_connection *connection, const struct tn_share *share,
                             bool on_stream)
{
    struct tn_opened *opened = &connection->consumer.opened[share->slot];
    struct grant_copy grant;
    struct tn_given_run *run;
    uint64_t base;
    tarn_status status;

    grant.count = 0; /* not all of its ids */
    grant.offset = 0;
    grant.begins = false;
    status = read_grant(connection, share, &grant);
    if (status == TARN_OK && grant.begins && !on_stream)
        status = check_begun(connection, share);
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
    *opened = (struct tn_opened){.generation = share->generation,
                                 .writes = opened->writes,
                                 .begins = grant.begins,
                                 .address = base + grant.offset,
                                 .run = run};
    tn_import_block_enter(&opened->block, &connection->device->gpu, opened->address, grant.bytes);
    tn_device_note(connection->device, TN_NOTE_SHARE_OPENED,
                   TN_OPERANDS(opened->address, grant.bytes, connection->id));
    link_address(connection, share->slot);
    connection->consumer.opened_count += 1;
    atomic_store_explicit(&connection->tables.returns[share->slot],
                          tn_slot_word(share->generation, TN_SLOT_OPENED), memory_order_release);
    return TARN_OK;
}

/* Opens a slot that is open already. */
static tarn_status open_again(tarn_connection *connection, const struct tn_share *share,
                              bool on_stream)
{
    const struct tn_opened *opened = &connection->consumer.opened[share->slot];

    if (opened->generation != share->generation)
        return is_over();
    return opened->begins && !on_stream ? check_begun(connection, share) : TARN_OK;
}

/* The former lease of the slot is not returned yet, although the producer may say so. */
static tarn_status wait_for_former(tarn_connection *connection, const struct tn_share *share)
{
    if (connection->consumer.opened[share->slot].generation == share->generation)
        return is_over();
    connection->consumer.awaits_words = true;
    return tn_fail(TARN_ERR_BUSY, "a stream has not left the former lease yet");
}

/* Claims the token, and completes the share by the producer's answer. BUSY: it has not come. */
static tarn_status claim(tarn_connection *connection, struct tn_share *share)
{
    struct tn_message message = {.magic = TN_MESSAGE_MAGIC,
                                 .version = TN_SHARE_VERSION,
                                 .kind = TN_MESSAGE_CLAIM,
                                 .connection_id = connection->id};
    struct tn_bid *claim = tn_bid_find(&connection->consumer.bids, share->token);
    tarn_status status;

    share->connection_id = connection->id;
    if (claim != NULL)
        return tn_bid_read(claim, share);
    if (strncmp(share->name, connection->name, sizeof share->name) != 0)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                       "the share is of listener '%s', and the connection of listener '%s'",
                       share->name, connection->name);
    memcpy(message.token, share->token, sizeof message.token);
    claim = tn_bid_add(&connection->consumer.bids, share->token);
    if (claim == NULL)
        return tn_fail(TARN_ERR_LIMIT, "%d tokens were claimed, and their shares not opened",
                       (int)TN_BIDS_MAX);
    status = tn_channel_send(connection->channel, &message, NULL);
    if (status != TARN_OK)
        claim->state = TN_BID_NONE;
    return status != TARN_OK ? status : tn_bid_read(claim, share);
}

/* Lock held. */
static tarn_status open_share(tarn_connection *connection, struct tn_share *share, bool on_stream)
{
    struct tn_opened *opened;
    uint64_t returned;
    tarn_status status = tn_connection_check(connection);

    connection->consumer.awaits_words = false;
    if (status == TARN_OK && share->has_token != 0)
        status = claim(connection, share);
    if (status != TARN_OK)
        return status;
    returned = tn_slot_word(share->generation, TN_SLOT_RETURNED);
    if (share->connection_id != connection->id || share->slot >= connection->tables.slot_count)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT, "the share is for another connection");
    opened = &connection->consumer.opened[share->slot];
    tn_share_poll(connection, opened->is_leaving ? UINT32_MAX : POLLED);
    if (opened->is_leaving)
        status = wait_for_former(connection, share);
    else if (opened->count > 0)
        status = open_again(connection, share, on_stream);
    else if (atomic_load_explicit(&connection->tables.returns[share->slot], memory_order_relaxed) ==
             returned)
        status = is_over();
    else
        status = open_slot(connection, share, on_stream);
    if (status == TARN_OK) {
        opened->count += 1;
        opened->wait_count += opened->begins && on_stream;
    }
    return status;
}

static void unlink_address(tarn_connection *connection, uint32_t slot)
{
    uint32_t *link = head_of(connection, connection->consumer.opened[slot].address);

    while (*link != slot)
        link = &connection->consumer.opened[*link].next;
    *link = connection->consumer.opened[slot].next;
}

/* An open that its stream did not get: another try may follow, unless somebody has closed the share
 * meanwhile. The CLOSES lock is held. */
static void take_back(tarn_connection *connection, uint32_t slot)
{
    struct tn_opened *opened = &connection->consumer.opened[slot];

    TN_ASSERT(tn_lock_is_held(&connection->closes) && tn_lock_is_held(&connection->lock));
    TN_ASSERT(opened->count > 0 && opened->wait_count > 0);
    opened->count -= 1;
    opened->wait_count -= 1;
    if (opened->count > 0)
        return;
    unlink_address(connection, slot);
    (void)!tn_import_block_close(&opened->block);
    tn_import_block_tell(&opened->block);
    if (has_left(connection, slot))
        end_slot(connection, slot, opened->has_closed ? TN_SLOT_RETURNED : TN_SLOT_FREE);
    else
        leave(connection, slot); /* another open was closed meanwhile, on a stream */
}

/* The token of an opened share has served. */
static void end_claim(tarn_connection *connection, const struct tn_share *given)
{
    struct tn_bid *claim =
        given->has_token != 0 ? tn_bid_find(&connection->consumer.bids, given->token) : NULL;

    if (claim != NULL)
        claim->state = TN_BID_NONE;
}

tarn_status tn_share_open(tarn_connection *connection, const struct tn_share *given,
                          const tn_cu_stream *stream, uint64_t *address)
{
    struct tn_share completed = *given;
    struct tn_share *share = &completed;
    struct tn_gpu *gpu = &connection->device->gpu;
    bool begins = false;
    uint64_t opened = 0;
    tarn_status status = stream != NULL ? tn_handoff_admit(gpu, *stream) : TARN_OK;

    TN_ASSERT(tn_lock_none_held() && !connection->is_producer);
    if (status != TARN_OK)
        return status;
    tn_lock_acquire(&connection->lock);
    status = open_share(connection, share, stream != NULL);
    if (status == TARN_ERR_BUSY) {
        tn_receive_messages(connection);
        status = open_share(connection, share, stream != NULL);
        if (status == TARN_ERR_BUSY && connection->consumer.lacks != TARN_OK)
            status = tn_fail(connection->consumer.lacks,
                             "no host memory or file descriptor is left to take the other "
                             "process's messages");
    }
    if (status == TARN_OK) {
        end_claim(connection, given);
        opened = connection->consumer.opened[share->slot].address;
        begins = connection->consumer.opened[share->slot].begins;
    }
    tn_lock_release(&connection->lock);
    if (begins && stream != NULL) {
        status =
            tn_handoff_wait(gpu, &connection->handoff, *stream, share->slot, share->generation);
        if (status != TARN_OK) {
            tn_lock_acquire(&connection->closes);
            tn_lock_acquire(&connection->lock);
            take_back(connection, share->slot);
            tn_lock_release(&connection->lock);
            tn_lock_release(&connection->closes);
        }
    }
    if (status == TARN_OK)
        *address = opened;
    return status;
}

/* Closing --------------------------------------------------------------------------------------- */

/* The slot that is open at the address; TN_SHARE_NONE: none. */
static uint32_t find_slot(tarn_connection *connection, uint64_t address)
{
    const struct tn_consumer *consumer = &connection->consumer;
    uint32_t slot = consumer->heads != NULL ? *head_of(connection, address) : TN_SHARE_NONE;

    while (slot != TN_SHARE_NONE && consumer->opened[slot].address != address)
        slot = consumer->opened[slot].next;
    return slot;
}

/* The stream writes that it has come to the close; of the last one, to the producer, too, unless a
 * graph keeps the block. The slot is closed already, and comes back where the stream refuses. The
 * CLOSES lock is held. */
static tarn_status write_end(tarn_connection *connection, tn_cu_stream stream, uint32_t slot,
                             bool is_kept)
{
    struct tn_opened *opened = &connection->consumer.opened[slot];
    struct tn_gpu *gpu = &connection->device->gpu;
    const bool tells = opened->count == 0 && !is_kept && connection->handoff.both.address != 0;
    uint32_t generation = tells ? opened->generation : 0;
    uint32_t number = opened->writes + 1;
    tarn_status status;

    TN_ASSERT(tn_lock_is_held(&connection->closes) && tn_lock_is_held(&connection->lock));
    opened->is_leaving = opened->count == 0;
    tn_lock_release(&connection->lock);
    status = tn_handoff_write(gpu, &connection->handoff, stream, TN_HANDOFF_ENDS, slot, generation,
                              number);
    tn_lock_acquire(&connection->lock);
    if (status == TARN_OK)
        opened->writes = number;
    return status;
}

/* Both locks are held. */
static tarn_status close_slot(tarn_connection *connection, const tn_cu_stream *stream,
                              uint32_t slot)
{
    struct tn_opened *opened = &connection->consumer.opened[slot];
    tarn_status status = TARN_OK;
    bool is_last = opened->count == 1;
    bool is_kept = false;

    opened->count -= 1;
    if (is_last) {
        unlink_address(connection, slot);
        is_kept = tn_import_block_close(&opened->block);
    }
    if (stream != NULL)
        status = write_end(connection, *stream, slot, is_kept);
    if (status == TARN_OK)
        opened->has_closed = true;
    if (status != TARN_OK) {
        if (opened->is_leaving) {
            link_address(connection, slot);
            tn_import_block_reopen(&opened->block);
        }
        opened->is_leaving = false;
        opened->count += 1;
    } else if (is_last) {
        tn_import_block_tell(&opened->block);
        leave(connection, slot);
    }
    return status;
}

tarn_status tn_share_close(tarn_connection *connection, uint64_t address,
                           const tn_cu_stream *stream)
{
    struct tn_gpu *gpu = &connection->device->gpu;
    uint32_t slot;
    tarn_status status = stream != NULL ? tn_handoff_admit(gpu, *stream) : TARN_OK;

    TN_ASSERT(tn_lock_none_held() && !connection->is_producer);
    if (status != TARN_OK)
        return status;
    tn_lock_acquire(&connection->closes);
    tn_lock_acquire(&connection->lock);
    slot = find_slot(connection, address);
    if (slot == TN_SHARE_NONE)
        status = tn_fail(TARN_ERR_NOT_OURS, "no share is open at address 0x%llx",
                         (unsigned long long)address);
    else if (stream != NULL)
        status = tn_handoff_make_own(gpu, connection->tables.slot_count, &connection->handoff);
    if (status == TARN_OK)
        status = close_slot(connection, stream, slot);
    if (status == TARN_OK)
        tn_share_poll(connection, POLLED);
    tn_lock_release(&connection->lock);
    tn_lock_release(&connection->closes);
    return status;
}

uint64_t tn_share_count_kept(const tarn_connection *connection)
{
    const struct tn_consumer *consumer = &connection->consumer;
    uint64_t count = 0;
    uint32_t slot = consumer->heads != NULL ? consumer->first_leaving : TN_SHARE_NONE;

    TN_ASSERT(tn_lock_is_held(&connection->lock));
    for (; slot != TN_SHARE_NONE; slot = consumer->opened[slot].next)
        count += tn_import_block_is_kept(&consumer->opened[slot].block);
    return count;
}
