// SPDX-License-Identifier: Apache-2.0
/* https://protobuf.dev/programming-guides/encoding is the format. A message's length stands before it,
 * so its bytes move behind the length when the message ends. */
#include "proto.h"

#include <string.h>

#include "base/contract.h"
#include "base/host.h"
#include "text.h"

enum { WIRE_NUMBER = 0, WIRE_BYTES = 2, VARINT_BYTES_MAX = 10 };

static bool make_room(struct proto *proto, size_t bytes)
{
    void *all = proto->bytes;

    proto->is_broken =
        proto->is_broken || !tn_host_grow(&all, &proto->capacity, proto->count + bytes, 1);
    if (!proto->is_broken)
        proto->bytes = all;
    return !proto->is_broken;
}

/* Seven bits a byte, the lowest first. Returns the bytes that were written. */
static size_t write_varint(unsigned char *at, uint64_t value)
{
    size_t count = 0;

    for (; value >= 0x80; value >>= 7)
        at[count++] = (unsigned char)(value | 0x80);
    at[count++] = (unsigned char)value;
    TN_ASSERT(count <= VARINT_BYTES_MAX);
    return count;
}

void proto_clear(struct proto *proto)
{
    TN_ASSERT(proto->depth == 0);
    proto->count = 0;
}

void proto_free(struct proto *proto)
{
    tn_host_free(proto->bytes);
    *proto = (struct proto){.bytes = NULL};
}

void proto_packed(struct proto *proto, uint64_t value)
{
    if (make_room(proto, VARINT_BYTES_MAX))
        proto->count += write_varint(proto->bytes + proto->count, value);
}

static void put_key(struct proto *proto, unsigned field, unsigned wire)
{
    TN_ASSERT(field > 0);
    proto_packed(proto, (uint64_t)field << 3 | wire);
}

void proto_number(struct proto *proto, unsigned field, uint64_t value)
{
    put_key(proto, field, WIRE_NUMBER);
    proto_packed(proto, value);
}

void proto_text(struct proto *proto, unsigned field, const char *text)
{
    const size_t bytes = strlen(text);

    put_key(proto, field, WIRE_BYTES);
    proto_packed(proto, bytes);
    if (!make_room(proto, bytes))
        return;
    for (size_t i = 0, whole; i<bytes; i += whole> 0 ? whole : 1) {
        unsigned char *at = proto->bytes + proto->count + i;

        whole = text_character_bytes((const unsigned char *)text + i);
        if (whole > 0)
            memcpy(at, text + i, whole);
        else
            *at = '?';
    }
    proto->count += bytes;
}

void proto_begin(struct proto *proto, unsigned field)
{
    TN_ASSERT(proto->depth < PROTO_DEPTH_MAX);
    put_key(proto, field, WIRE_BYTES);
    proto->open[proto->depth++] = proto->count;
}

void proto_end(struct proto *proto)
{
    unsigned char length[VARINT_BYTES_MAX];
    size_t begin;
    size_t bytes;

    TN_ASSERT(proto->depth > 0);
    begin = proto->open[--proto->depth];
    if (!make_room(proto, VARINT_BYTES_MAX))
        return;
    TN_ASSERT(begin <= proto->count);
    bytes = write_varint(length, proto->count - begin);
    memmove(proto->bytes + begin + bytes, proto->bytes + begin, proto->count - begin);
    memcpy(proto->bytes + begin, length, bytes);
    proto->count += bytes;
}
