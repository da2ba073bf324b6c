// SPDX-License-Identifier: Apache-2.0
/* pickle.h -- values written as a pickle of Python's, protocol 2, piece by piece.
 *
 * A list is its begin, its items and its end. A dictionary is the same, with a key and a value for
 * each item. The whole is one value, between tn_pickle_begin and tn_pickle_end. Every opcode is one
 * that the viewer of PyTorch's memory snapshots reads, and each value is written at once: a buffer
 * of fixed size is all the memory that any pickle takes.
 *
 * After a failure the rest of what is written is dropped, and tn_pickle_end reports the failure.
 *
 * Locking: none; a pickle is its writer's. */
#ifndef TARN_OBSERVE_PICKLE_H
#define TARN_OBSERVE_PICKLE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/hot.h"
#include "tarn/status.h"

/* Takes bytes; any status but OK ends the writing. */
typedef tarn_status (*tn_pickle_sink)(void *context, const void *bytes, size_t count);

enum {
    TN_PICKLE_BYTES = 64 * 1024, /* of the buffer */
    TN_PICKLE_WORDS = 64,        /* strings that a pickle may name again */
    TN_PICKLE_WORD_BYTES = 32,   /* of such a string, at most */
};

/* The most bytes that one of the values below takes: a word that is written for the first time. */
enum { TN_PICKLE_VALUE_BYTES = TN_PICKLE_WORD_BYTES + 8 };

/* Opcodes that a number or a word begins with. */
enum {
    TN_PICKLE_BININT = 'J',  /* four bytes, signed */
    TN_PICKLE_BININT1 = 'K', /* one byte */
    TN_PICKLE_BININT2 = 'M', /* two bytes */
    TN_PICKLE_LONG1 = 0x8a,  /* a count, and as many bytes, signed */
    TN_PICKLE_BINGET = 'h',
};

struct tn_pickle {
    unsigned char *buffer;
    size_t used;
    tn_pickle_sink sink;
    void *context;
    tarn_status status; /* of the first failure */
    uint32_t depth;     /* lists and dictionaries that are open */
    bool known[TN_PICKLE_WORDS];
};

/* HOST_MEMORY, with nothing written, and no end to come. */
TARN_MUST_CHECK tarn_status tn_pickle_begin(struct tn_pickle *pickle, tn_pickle_sink sink,
                                            void *context);

/* Writes what is left and frees the buffer. The sink's status, or OK. */
TARN_MUST_CHECK tarn_status tn_pickle_end(struct tn_pickle *pickle);

void tn_pickle_begin_list(struct tn_pickle *pickle);
void tn_pickle_end_list(struct tn_pickle *pickle);
void tn_pickle_begin_dict(struct tn_pickle *pickle);
void tn_pickle_end_dict(struct tn_pickle *pickle);

void tn_pickle_integer(struct tn_pickle *pickle, int64_t value);
void tn_pickle_float(struct tn_pickle *pickle, double value);
void tn_pickle_boolean(struct tn_pickle *pickle, bool value);
/* A tuple of two integers. */
void tn_pickle_pair(struct tn_pickle *pickle, int64_t first, int64_t second);
/* ASCII or UTF-8. */
void tn_pickle_string(struct tn_pickle *pickle, const char *text);
/* The same for a string that comes often: written once, and then named by its number, which belongs
 * to this text alone. */
void tn_pickle_word(struct tn_pickle *pickle, unsigned number, const char *text);

/* Many values, without a look at the buffer between them:
 *
 *     unsigned char *at = tn_pickle_room(pickle, 3 * TN_PICKLE_VALUE_BYTES);
 *
 *     at = tn_pickle_write_word(pickle, at, KEY, "key");
 *     at = tn_pickle_write_integer(at, 1);
 *     tn_pickle_end_room(pickle, at);
 *
 * No other function writes in between. */
unsigned char *tn_pickle_room(struct tn_pickle *pickle, size_t bytes);

static inline void tn_pickle_end_room(struct tn_pickle *pickle, const unsigned char *at)
{
    pickle->used = (size_t)(at - pickle->buffer);
    TN_ASSERT(pickle->used <= TN_PICKLE_BYTES);
}

/* The lowest bytes of a word, the lowest first. Eight are written, and count of them kept. */
static TN_ALWAYS_INLINE unsigned char *tn_pickle_write_few(unsigned char *at, uint64_t bytes,
                                                           size_t count)
{
    const uint64_t low_first = htole64(bytes);

    memcpy(at, &low_first, sizeof low_first);
    return at + count;
}

unsigned char *tn_pickle_write_new_word(struct tn_pickle *pickle, unsigned char *at,
                                        unsigned number, const char *text);

static TN_ALWAYS_INLINE unsigned char *
tn_pickle_write_word(struct tn_pickle *pickle, unsigned char *at, unsigned number, const char *text)
{
    TN_ASSERT(number < TN_PICKLE_WORDS);
    if (TN_UNLIKELY(!pickle->known[number]))
        return tn_pickle_write_new_word(pickle, at, number, text);
    return tn_pickle_write_few(at, (uint64_t)number << 8 | TN_PICKLE_BINGET, 2);
}

/* The bytes of a number in two's complement: the highest bit of the last one is the sign. */
static inline size_t tn_pickle_bytes_of(int64_t value)
{
    const uint64_t magnitude = value < 0 ? ~(uint64_t)value : (uint64_t)value;

    TN_ASSERT(magnitude <= INT64_MAX);
    return magnitude == 0 ? 1 : (tn_log2_floor(magnitude) + 1) / 8 + 1;
}

static TN_ALWAYS_INLINE unsigned char *tn_pickle_write_integer(unsigned char *at, int64_t value)
{
    const uint64_t bits = (uint64_t)value;

    if (value >= 0 && value <= UINT8_MAX)
        return tn_pickle_write_few(at, bits << 8 | TN_PICKLE_BININT1, 2);
    if (value >= 0 && value <= UINT16_MAX)
        return tn_pickle_write_few(at, bits << 8 | TN_PICKLE_BININT2, 3);
    if (value >= INT32_MIN && value <= INT32_MAX)
        return tn_pickle_write_few(at, bits << 8 | TN_PICKLE_BININT, 5);
    at = tn_pickle_write_few(at, tn_pickle_bytes_of(value) << 8 | TN_PICKLE_LONG1, 2);
    return tn_pickle_write_few(at, bits, tn_pickle_bytes_of(value));
}

/* The value that was just written gets a number, at least TN_PICKLE_WORDS, and is written again by
 * this number alone. Readers get the same object each time. */
void tn_pickle_keep(struct tn_pickle *pickle, uint32_t number);
void tn_pickle_again(struct tn_pickle *pickle, uint32_t number);

#endif
