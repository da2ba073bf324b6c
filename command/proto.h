// SPDX-License-Identifier: Apache-2.0
/* proto.h -- writes messages in the wire format of protocol buffers, field by field.
 *
 * A message is built in memory. Where memory runs out, nothing more is added, and is_broken says so. */
#ifndef TARN_COMMAND_PROTO_H
#define TARN_COMMAND_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROTO_DEPTH_MAX = 4 };

struct proto {
    unsigned char *bytes;
    size_t count;
    size_t capacity;
    size_t open[PROTO_DEPTH_MAX]; /* where the messages that are open begin */
    unsigned depth;
    bool is_broken;
};

/* Begins anew, in the same memory. */
void proto_clear(struct proto *proto);
void proto_free(struct proto *proto);

void proto_number(struct proto *proto, unsigned field, uint64_t value);
/* Of a text that is not UTF-8 the bytes that are none become question marks. */
void proto_text(struct proto *proto, unsigned field, const char *text);

/* A number of a repeated field that is packed: between a begin and an end. */
void proto_packed(struct proto *proto, uint64_t value);

/* A message within, or a packed field. */
void proto_begin(struct proto *proto, unsigned field);
void proto_end(struct proto *proto);

#endif
