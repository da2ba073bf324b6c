// SPDX-License-Identifier: Apache-2.0
/* What another process hands over: a message with its descriptors, or a share. The first byte says which,
 * and with how many descriptors; for a share, whether it has the checksum of its bytes. What is accepted has
 * each field in its range, and what is refused leaves the result as it was. */
#include <string.h>

#include "base/checked.h"
#include "fuzz/fuzz.h"
#include "share/message.h"
#include "vmm/memory.h"

const char *const fuzz_name = "share";

void fuzz_begin(void)
{
}

static void expect_chunk(const struct tn_message *message)
{
    FUZZ_EXPECT(message->chunk < TN_SHARE_CHUNKS_MAX && message->generation > 0);
    FUZZ_EXPECT(tn_is_power_of_two(message->bytes) && message->bytes <= TN_MEMORY_BYTES_MAX);
}

static void read_message(const uint8_t *bytes, size_t size, size_t descriptor_count)
{
    struct tn_message message;
    struct tn_message before;
    enum tn_message_fault fault;

    memset(&message, 0x5e, sizeof message);
    before = message;
    fault = tn_message_check(bytes, size, descriptor_count, &message);
    FUZZ_EXPECT(tn_message_fault_name(fault) != NULL);
    if (fault != TN_MESSAGE_GOOD) {
        FUZZ_EXPECT(memcmp(&message, &before, sizeof message) == 0);
        return;
    }
    FUZZ_EXPECT(size == sizeof message && memcmp(&message, bytes, size) == 0);
    FUZZ_EXPECT(message.kind > 0 && message.kind < TN_MESSAGE_KINDS);
    FUZZ_EXPECT(descriptor_count == tn_message_descriptor_count(message.kind));
    FUZZ_EXPECT(message.slot < TN_SHARE_SLOTS_MAX && message.slot_count <= TN_SHARE_SLOTS_MAX);
    FUZZ_EXPECT(message.refusal < TN_REFUSALS && message.chunk_count <= TN_SHARE_CHUNKS_MAX);
    if (message.kind == TN_MESSAGE_CHUNK)
        expect_chunk(&message);
}

static void read_share(const uint8_t *bytes, size_t size, bool seal)
{
    struct tn_share share = {.magic = 0};
    struct tn_share sealed;
    tarn_share given = {{0}};

    memcpy(given.bytes, bytes, tn_min(size, sizeof given));
    if (seal) {
        memcpy(&sealed, given.bytes, sizeof sealed);
        tn_share_seal(&sealed, &given);
    }
    if (tn_share_check(&given, &share) != TARN_OK) {
        FUZZ_EXPECT(share.magic == 0);
        return;
    }
    FUZZ_EXPECT(memcmp(&share, given.bytes, sizeof share) == 0);
    FUZZ_EXPECT(share.bytes > 0 && strnlen(share.name, sizeof share.name) <= TN_SHARE_NAME_MAX);
    FUZZ_EXPECT(share.has_token <= 1);
    if (share.has_token == 0)
        FUZZ_EXPECT(share.slot < TN_SHARE_SLOTS_MAX && share.generation > 0 &&
                    share.connection_id != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size == 0)
        return 0;
    if ((bytes[0] & 4) == 0)
        read_message(bytes + 1, size - 1, bytes[0] & 3);
    else
        read_share(bytes + 1, size - 1, (bytes[0] & 1) != 0);
    return 0;
}
