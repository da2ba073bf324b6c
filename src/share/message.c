// SPDX-License-Identifier: Apache-2.0
#include "share/message.h"

#include <stdbool.h>
#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "vmm/address_table.h"
#include "vmm/memory.h"

static bool is_zero(const void *bytes, size_t count)
{
    const uint8_t *at = bytes;

    for (size_t i = 0; i < count; i++) {
        if (at[i] != 0)
            return false;
    }
    return true;
}

static bool is_generation(uint32_t generation)
{
    return generation > 0 && generation <= TN_SHARE_GENERATION_MAX;
}

size_t tn_message_descriptor_count(unsigned kind)
{
    TN_ASSERT(kind < TN_MESSAGE_KINDS);
    if (kind == TN_MESSAGE_WELCOME)
        return 2;
    return kind == TN_MESSAGE_CHUNK || kind == TN_MESSAGE_WORDS ? 1 : 0;
}

/* Sets the fields of the message's kind to 0; all others must be 0 already. False: a field is out
 * of range. */
static bool take_fields(struct tn_message *rest)
{
    const struct tn_message has = *rest;
    bool good =
        has.kind == TN_MESSAGE_HELLO || has.kind == TN_MESSAGE_REFUSAL || has.connection_id != 0;

    TN_ASSERT(has.kind > 0 && has.kind < TN_MESSAGE_KINDS);
    if (has.kind != TN_MESSAGE_HELLO)
        rest->connection_id = 0;
    switch (has.kind) {
    case TN_MESSAGE_WELCOME:
        rest->slot_count = 0;
        rest->chunk_count = 0;
        return good && has.slot_count > 0 && has.slot_count <= TN_SHARE_SLOTS_MAX &&
               has.chunk_count > 0 && has.chunk_count <= TN_SHARE_CHUNKS_MAX;
    case TN_MESSAGE_REFUSAL:
        rest->refusal = 0;
        memset(rest->token, 0, sizeof rest->token);
        return good && has.refusal > 0 && has.refusal < TN_REFUSALS;
    case TN_MESSAGE_CHUNK:
        rest->chunk = 0;
        rest->generation = 0;
        rest->bytes = 0;
        return good && has.chunk < TN_SHARE_CHUNKS_MAX && has.generation > 0 &&
               tn_is_power_of_two(has.bytes) && has.bytes >= TN_PAGE_BYTES &&
               has.bytes <= TN_MEMORY_BYTES_MAX;
    case TN_MESSAGE_CLAIM:
        memset(rest->token, 0, sizeof rest->token);
        return good;
    case TN_MESSAGE_GRANT:
        rest->slot = 0;
        rest->generation = 0;
        memset(rest->token, 0, sizeof rest->token);
        return good && has.slot < TN_SHARE_SLOTS_MAX && is_generation(has.generation);
    default:
        return good;
    }
}

static enum tn_message_fault find_fault(const struct tn_message *message, size_t descriptor_count)
{
    struct tn_message rest = *message;

    if (message->magic != TN_MESSAGE_MAGIC)
        return TN_MESSAGE_FOREIGN;
    if (message->version != TN_SHARE_VERSION)
        return TN_MESSAGE_VERSION;
    if (message->kind == 0 || message->kind >= TN_MESSAGE_KINDS)
        return TN_MESSAGE_KIND;
    if (descriptor_count != tn_message_descriptor_count(message->kind))
        return TN_MESSAGE_DESCRIPTORS;
    if (!take_fields(&rest))
        return TN_MESSAGE_FIELD;
    rest.magic = 0;
    rest.version = 0;
    rest.kind = 0;
    return is_zero(&rest, sizeof rest) ? TN_MESSAGE_GOOD : TN_MESSAGE_FIELD;
}

enum tn_message_fault tn_message_check(const void *bytes, size_t length, size_t descriptor_count,
                                       struct tn_message *message)
{
    struct tn_message copy;
    enum tn_message_fault fault;

    if (length != sizeof copy)
        return TN_MESSAGE_LENGTH;
    memcpy(&copy, bytes, sizeof copy);
    fault = find_fault(&copy, descriptor_count);
    if (fault == TN_MESSAGE_GOOD)
        *message = copy;
    return fault;
}

const char *tn_message_fault_name(enum tn_message_fault fault)
{
    static const char *const names[] = {
        [TN_MESSAGE_GOOD] = "nothing",
        [TN_MESSAGE_LENGTH] = "its length",
        [TN_MESSAGE_FOREIGN] = "its first bytes, which are none of Tarn's",
        [TN_MESSAGE_VERSION] = "its version",
        [TN_MESSAGE_KIND] = "its kind",
        [TN_MESSAGE_FIELD] = "a field",
        [TN_MESSAGE_DESCRIPTORS] = "its count of file descriptors",
    };

    TN_ASSERT((size_t)fault < sizeof names / sizeof names[0]);
    return names[fault];
}

/* FNV-1a, of G. Fowler, L. C. Noll and K.-P. Vo. */
static uint64_t checksum_of(const struct tn_share *share)
{
    const uint8_t *at = (const uint8_t *)share;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < offsetof(struct tn_share, checksum); i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

void tn_share_seal(struct tn_share *share, tarn_share *bytes)
{
    share->magic = TN_SHARE_MAGIC;
    share->version = TN_SHARE_VERSION;
    share->checksum = checksum_of(share);
    memcpy(bytes->bytes, share, sizeof *share);
}

tarn_status tn_share_check(const tarn_share *bytes, struct tn_share *share)
{
    struct tn_share copy;

    memcpy(&copy, bytes->bytes, sizeof copy);
    if (copy.magic != TN_SHARE_MAGIC)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT, "the bytes are no share of Tarn's");
    if (copy.version != TN_SHARE_VERSION)
        return tn_fail(TARN_ERR_NOT_SUPPORTED,
                       "the share has version %u, and this Tarn knows version %u", copy.version,
                       (unsigned)TN_SHARE_VERSION);
    if (copy.checksum != checksum_of(&copy) || copy.has_token > 1 || copy.bytes == 0 ||
        copy.name[TN_SHARE_NAME_MAX] != '\0' || !is_zero(copy.unused, sizeof copy.unused) ||
        (copy.has_token == 0) != is_zero(copy.token, sizeof copy.token) ||
        (copy.has_token == 0 && (copy.slot >= TN_SHARE_SLOTS_MAX ||
                                 !is_generation(copy.generation) || copy.connection_id == 0)))
        return tn_fail(TARN_ERR_INVALID_ARGUMENT, "the share was damaged on its way");
    *share = copy;
    return TARN_OK;
}
