// SPDX-License-Identifier: Apache-2.0
#include "proto.h"

#include <string.h>

#include "support/registry.h"

SUITE("messages of protocol buffers")

static struct proto proto;

static void begin(void)
{
    proto = (struct proto){.bytes = NULL};
}

static void end(void)
{
    proto_free(&proto);
}

static void expect(const char *bytes, size_t count)
{
    ck_assert(!proto.is_broken);
    ck_assert_uint_eq(proto.count, count);
    ck_assert_mem_eq(proto.bytes, bytes, count);
}

GROUP(messages, begin, .end = end)

TEST(messages, have_numbers_of_seven_bits_a_byte)
{
    proto_number(&proto, 1, 150);
    proto_number(&proto, 30, UINT64_MAX);
    expect("\x08\x96\x01\xf0\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 15);
}

TEST(messages, have_texts_that_are_utf_8)
{
    proto_text(&proto, 2, "a\xc3\xa4\xff");
    expect("\x12\x04"
           "a\xc3\xa4?",
           6);
}

TEST(messages, stand_within_messages_behind_their_length)
{
    char text[201];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    proto_begin(&proto, 1);
    proto_begin(&proto, 2);
    proto_text(&proto, 3, text);
    proto_end(&proto);
    proto_begin(&proto, 4);
    proto_packed(&proto, 5);
    proto_packed(&proto, 300);
    proto_end(&proto);
    proto_end(&proto);
    ck_assert_uint_eq(proto.count, 3 + 3 + 3 + 200 + 2 + 3);
    ck_assert_mem_eq(proto.bytes, "\x0a\xd3\x01\x12\xcb\x01\x1a\xc8\x01xx", 11);
    ck_assert_mem_eq(proto.bytes + proto.count - 5, "\x22\x03\x05\xac\x02", 5);
    proto_clear(&proto);
    ck_assert_uint_eq(proto.count, 0);
}
