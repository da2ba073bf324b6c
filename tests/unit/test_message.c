// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>

#include "share/message.h"
#include "unit/unit.h"

static struct tn_message good[TN_MESSAGE_KINDS];

static void make_good(void)
{
    for (uint16_t kind = 1; kind < TN_MESSAGE_KINDS; kind++) {
        good[kind] = (struct tn_message){
            .magic = TN_MESSAGE_MAGIC, .version = TN_SHARE_VERSION, .kind = kind};
        if (kind != TN_MESSAGE_HELLO)
            good[kind].connection_id = 77;
    }
    good[TN_MESSAGE_WELCOME].slot_count = TN_SHARE_SLOTS_MAX;
    good[TN_MESSAGE_WELCOME].chunk_count = TN_SHARE_CHUNKS_MAX;
    good[TN_MESSAGE_REFUSAL].refusal = TN_REFUSAL_POLICY;
    good[TN_MESSAGE_CHUNK].chunk = TN_SHARE_CHUNKS_MAX - 1;
    good[TN_MESSAGE_CHUNK].generation = 1;
    good[TN_MESSAGE_CHUNK].bytes = GIB;
    good[TN_MESSAGE_CLAIM].token[3] = 9;
    good[TN_MESSAGE_GRANT].slot = TN_SHARE_SLOTS_MAX - 1;
    good[TN_MESSAGE_GRANT].generation = TN_SHARE_GENERATION_MAX;
}

static enum tn_message_fault fault_of(const struct tn_message *message)
{
    struct tn_message read = {.magic = 0};
    size_t count =
        message->kind < TN_MESSAGE_KINDS ? tn_message_descriptor_count(message->kind) : 0;
    enum tn_message_fault fault = tn_message_check(message, sizeof *message, count, &read);

    ck_assert((fault == TN_MESSAGE_GOOD) == (memcmp(&read, message, sizeof read) == 0));
    return fault;
}

GROUP(messages, make_good)

TEST(messages, a_message_of_each_kind_is_good)
{
    for (size_t kind = 1; kind < TN_MESSAGE_KINDS; kind++)
        ck_assert_int_eq(fault_of(&good[kind]), TN_MESSAGE_GOOD);
}

/* A field that a kind does not have is 0, so any other byte is seen. */
TEST(messages, every_byte_that_means_nothing_is_checked)
{
    for (size_t kind = 1; kind < TN_MESSAGE_KINDS; kind++) {
        for (size_t byte = offsetof(struct tn_message, unused); byte < sizeof good[0]; byte++) {
            struct tn_message message = good[kind];

            ((unsigned char *)&message)[byte] = 1;
            ck_assert_int_eq(fault_of(&message), TN_MESSAGE_FIELD);
        }
    }
}

#define WITH(kind_, member, value, expected)                                                       \
    do {                                                                                           \
        struct tn_message message = good[kind_];                                                   \
                                                                                                   \
        message.member = (value);                                                                  \
        ck_assert_int_eq(fault_of(&message), expected);                                            \
    } while (0)

TEST(messages, a_field_out_of_its_range_is_seen)
{
    WITH(TN_MESSAGE_HELLO, magic, 1, TN_MESSAGE_FOREIGN);
    WITH(TN_MESSAGE_HELLO, version, TN_SHARE_VERSION + 1, TN_MESSAGE_VERSION);
    WITH(TN_MESSAGE_HELLO, kind, 0, TN_MESSAGE_KIND);
    WITH(TN_MESSAGE_HELLO, kind, TN_MESSAGE_KINDS, TN_MESSAGE_KIND);
    WITH(TN_MESSAGE_HELLO, connection_id, 1, TN_MESSAGE_FIELD);
    WITH(TN_MESSAGE_HELLO, slot, 1, TN_MESSAGE_FIELD);
    WITH(TN_MESSAGE_WELCOME, connection_id, 0, TN_MESSAGE_FIELD);
    WITH(TN_MESSAGE_WELCOME, slot_count, 0, TN_MESSAGE_FIELD);
    WITH(TN_MESSAGE_WELCOME, slot_count, TN_SHARE_SLOTS_MAX + 1, TN_MESSAGE_FIELD);
    WITH(TN_MESSAGE_WELCOME, chunk_count, 0, TN_MESSAGE_FIELD);
    WITH(TN_MESSAGE_WELCOME, chunk_count, TN_SHARE_CHUNKS_MAX + 1, TN_MESSAGE_FIELD);
    WITH(TN_MESSAGE_WELCOME, bytes, 1, TN_MESSAGE_FIELD);
    WITH(TN_MESSAGE_REFUSAL, refusal, 0, TN_MESSAGE_FIELD);
    WITH(TN_MESSAGE_REFUSAL, refusal, TN_REFUSALS, TN_MESSAGE_FIELD);
    WITH(TN_MESSAGE_CHUNK, chunk, TN_SHARE_CHUNKS_MAX, TN_MESSAGE_FIELD);
    WITH(TN_MESSAGE_CHUNK, generation, 0, TN_MESSAGE_FIELD);
    WITH(TN_MESSAGE_CHUNK, bytes, MIB, TN_MESSAGE_FIELD);
    WITH(TN_MESSAGE_CHUNK, bytes, 6 * MIB, TN_MESSAGE_FIELD);
    WITH(TN_MESSAGE_CHUNK, bytes, 2 * GIB, TN_MESSAGE_FIELD);
    WITH(TN_MESSAGE_CHUNK, connection_id, 0, TN_MESSAGE_FIELD);
    WITH(TN_MESSAGE_CLAIM, connection_id, 0, TN_MESSAGE_FIELD);
    WITH(TN_MESSAGE_GRANT, slot, TN_SHARE_SLOTS_MAX, TN_MESSAGE_FIELD);
    WITH(TN_MESSAGE_GRANT, generation, 0, TN_MESSAGE_FIELD);
}

TEST(messages, a_length_or_count_of_descriptors_that_is_wrong_is_seen)
{
    struct tn_message read;

    for (size_t kind = 1; kind < TN_MESSAGE_KINDS; kind++) {
        size_t right = tn_message_descriptor_count((unsigned)kind);

        for (size_t count = 0; count < 4; count++)
            ck_assert_int_eq(tn_message_check(&good[kind], sizeof read, count, &read),
                             count == right ? TN_MESSAGE_GOOD : TN_MESSAGE_DESCRIPTORS);
        for (size_t length = 0; length < 2 * sizeof read; length++)
            ck_assert_int_eq(tn_message_check(good, length, right, &read) == TN_MESSAGE_LENGTH,
                             length != sizeof read);
    }
    for (int fault = 0; fault <= TN_MESSAGE_DESCRIPTORS; fault++)
        ck_assert_ptr_nonnull(tn_message_fault_name((enum tn_message_fault)fault));
}

static tarn_share share_of(const struct tn_share *share)
{
    struct tn_share copy = *share;
    tarn_share bytes;

    tn_share_seal(&copy, &bytes);
    return bytes;
}

static const struct tn_share plain = {
    .connection_id = 3, .slot = 4, .generation = 5, .bytes = 4096, .name = "@tarn"};

TEST(messages, a_share_comes_as_it_was_sealed)
{
    tarn_share bytes = share_of(&plain);
    struct tn_share read;

    OK(tn_share_check(&bytes, &read));
    ck_assert_uint_eq(read.connection_id, 3);
    ck_assert_uint_eq(read.slot, 4);
    ck_assert_uint_eq(read.generation, 5);
    ck_assert_uint_eq(read.bytes, 4096);
    ck_assert_str_eq(read.name, "@tarn");
}

TEST(messages, a_share_with_any_byte_changed_is_refused)
{
    tarn_share bytes = share_of(&plain);

    for (size_t i = 0; i < sizeof bytes; i++) {
        struct tn_share read = {.magic = 0};

        bytes.bytes[i] ^= 0x40;
        ck_assert_int_ne(tn_share_check(&bytes, &read), TARN_OK);
        ck_assert_uint_eq(read.magic, 0);
        bytes.bytes[i] ^= 0x40;
    }
}

#define SHARE_WITH(member, value)                                                                  \
    do {                                                                                           \
        struct tn_share made = plain;                                                              \
        struct tn_share read;                                                                      \
        tarn_share bytes;                                                                          \
                                                                                                   \
        made.member = (value);                                                                     \
        bytes = share_of(&made);                                                                   \
        STATUS(TARN_ERR_INVALID_ARGUMENT, tn_share_check(&bytes, &read));                          \
    } while (0)

/* Whoever knows the checksum can make shares, too. */
TEST(messages, a_share_with_a_field_out_of_its_range_is_refused)
{
    SHARE_WITH(has_token, 2);
    SHARE_WITH(has_token, 1); /* without a token */
    SHARE_WITH(token[0], 1);
    SHARE_WITH(connection_id, 0);
    SHARE_WITH(slot, TN_SHARE_SLOTS_MAX);
    SHARE_WITH(generation, 0);
    SHARE_WITH(bytes, 0);
    SHARE_WITH(name[TN_SHARE_NAME_MAX], 'x');
    SHARE_WITH(unused[1], 1);
}

TEST(messages, a_share_of_another_version_is_named_so)
{
    tarn_share bytes = share_of(&plain);
    struct tn_share read;

    memcpy(&read, bytes.bytes, sizeof read);
    read.version += 1;
    memcpy(bytes.bytes, &read, sizeof read);
    STATUS(TARN_ERR_NOT_SUPPORTED, tn_share_check(&bytes, &read));
    unit_expect_sentence("version");
}
