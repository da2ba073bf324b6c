// SPDX-License-Identifier: Apache-2.0
/* message.h -- what two processes say to each other, and a share as bytes.
 *
 * A message is one struct of 128 bytes, with a version. Its kind says which fields have a meaning;
 * all others are 0. A process believes nothing of a message before the check has passed, and no
 * message names a process. docs/sharing.md has the order of messages.
 *
 * Locking: none; any thread. */
#ifndef TARN_SHARE_MESSAGE_H
#define TARN_SHARE_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "tarn/share.h"

enum { TN_SHARE_VERSION = 1, TN_SHARE_NAME_MAX = 55, TN_TOKEN_BYTES = 16 };

/* Of a slot's leases: waits of streams for words of 32 bits reach so far. */
#define TN_SHARE_GENERATION_MAX ((uint32_t)INT32_MAX)

enum {
    TN_SHARE_SLOTS_MAX = 1 << 16, /* leases of a connection at a time */
    TN_SHARE_CHUNKS_MAX = 1 << 14,
    TN_SHARE_DESCRIPTORS_MAX = 2, /* of a message */
};

/* consumer: the process that asks for memory; producer: the one that has it. */
enum tn_message_kind {
    TN_MESSAGE_HELLO = 1, /* consumer: the first one */
    TN_MESSAGE_WELCOME,   /* producer: the connection, and both tables of leases */
    TN_MESSAGE_REFUSAL,   /* producer: why not */
    TN_MESSAGE_CHUNK,     /* producer: a chunk, with its memory */
    TN_MESSAGE_CLAIM,     /* consumer: a token, for its share */
    TN_MESSAGE_GRANT,     /* producer: the share of the token */
    TN_MESSAGE_WORDS,     /* producer: the words that order streams, with their memory */
    TN_MESSAGE_KINDS,
};

enum tn_refusal {
    TN_REFUSAL_NONE,
    TN_REFUSAL_VERSION, /* another version of messages */
    TN_REFUSAL_POLICY,  /* the program says no */
    TN_REFUSAL_TOKEN,   /* it was taken, its time is over, or nobody gave it */
    TN_REFUSAL_LIMIT,   /* no lease or chunk is left */
    TN_REFUSAL_GONE,    /* the block was freed */
    TN_REFUSALS,
};

struct tn_message {
    uint32_t magic; /* TN_MESSAGE_MAGIC */
    uint16_t version;
    uint16_t kind;                 /* enum tn_message_kind */
    uint64_t connection_id;        /* all but HELLO and a REFUSAL before WELCOME */
    uint32_t refusal;              /* REFUSAL: enum tn_refusal */
    uint32_t slot;                 /* GRANT */
    uint32_t slot_count;           /* WELCOME */
    uint32_t generation;           /* GRANT: of the slot; CHUNK: of the chunk */
    uint32_t chunk;                /* CHUNK */
    uint32_t chunk_count;          /* WELCOME: how many there may be at a time */
    uint64_t bytes;                /* CHUNK */
    uint8_t token[TN_TOKEN_BYTES]; /* CLAIM, and the answer to it */
    uint64_t unused[8];            /* 0 */
};

_Static_assert(sizeof(struct tn_message) == 128, "a message has no padding");

#define TN_MESSAGE_MAGIC 0x314d6e74U

/* What is wrong with received bytes. */
enum tn_message_fault {
    TN_MESSAGE_GOOD,
    TN_MESSAGE_LENGTH,
    TN_MESSAGE_FOREIGN, /* another magic number */
    TN_MESSAGE_VERSION,
    TN_MESSAGE_KIND,
    TN_MESSAGE_FIELD,
    TN_MESSAGE_DESCRIPTORS,
};

/* Checks received bytes with their count of descriptors, and copies a good message. */
enum tn_message_fault tn_message_check(const void *bytes, size_t length, size_t descriptor_count,
                                       struct tn_message *message);

/* What a fault is called in sentences. */
const char *tn_message_fault_name(enum tn_message_fault fault);

/* How many descriptors go with a message of this kind. */
size_t tn_message_descriptor_count(unsigned kind);

/* The bytes of a tarn_share. */
struct tn_share {
    uint32_t magic; /* TN_SHARE_MAGIC */
    uint16_t version;
    uint16_t has_token; /* 1: for whoever comes first; 0: for one connection */
    uint64_t connection_id;
    uint32_t slot;
    uint32_t generation;
    uint64_t bytes; /* of the block, as requested */
    uint8_t token[TN_TOKEN_BYTES];
    char name[TN_SHARE_NAME_MAX + 1]; /* of the listener */
    uint64_t unused[2];               /* 0 */
    uint64_t checksum;                /* against accidents; it protects from nobody */
};

_Static_assert(sizeof(struct tn_share) == sizeof(tarn_share), "a share has no padding");

#define TN_SHARE_MAGIC 0x31536e74U

void tn_share_seal(struct tn_share *share, tarn_share *bytes);

/* INVALID_ARGUMENT: the bytes are no share; NOT_SUPPORTED: they are of another version */
TARN_MUST_CHECK tarn_status tn_share_check(const tarn_share *bytes, struct tn_share *share);

#endif
