// SPDX-License-Identifier: Apache-2.0
/* A pickle is a program for a machine with a stack and a memo. A list begins as an empty list and a
 * mark, and one opcode at its end appends all that lies above the mark; a dictionary likewise. Words
 * go to the memo under their number.
 *
 * Trade-offs: the reader has a whole list on its stack before the end, which a batch of some
 * thousand items at a time would avoid. Readers of lists have them in memory anyway. */
#include "observe/pickle.h"

#include <endian.h>
#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "base/hot.h"

enum opcode {
    PROTO = 0x80,
    STOP = '.',
    MARK = '(',
    EMPTY_LIST = ']',
    APPENDS = 'e',
    EMPTY_DICT = '}',
    SETITEMS = 'u',
    BINFLOAT = 'G',
    NEWTRUE = 0x88,
    NEWFALSE = 0x89,
    TUPLE2 = 0x86,
    BINUNICODE = 'X',
    BINPUT = 'q',
    LONG_BINPUT = 'r',
    LONG_BINGET = 'j',
};

enum { PROTOCOL = 2 };

static void flush(struct tn_pickle *pickle)
{
    if (pickle->status == TARN_OK && pickle->used > 0)
        pickle->status = pickle->sink(pickle->context, pickle->buffer, pickle->used);
    pickle->used = 0;
}

static TN_APART void put(struct tn_pickle *pickle, const void *bytes, size_t count)
{
    const unsigned char *from = bytes;

    while (count > 0) {
        size_t room = TN_PICKLE_BYTES - pickle->used;
        size_t part = count < room ? count : room;

        memcpy(pickle->buffer + pickle->used, from, part);
        pickle->used += part;
        from += part;
        count -= part;
        if (pickle->used == TN_PICKLE_BYTES)
            flush(pickle);
    }
    TN_ASSERT(pickle->used < TN_PICKLE_BYTES);
}

/* Up to eight bytes, the lowest first: nearly always eight are written, and count of them kept. */
static TN_ALWAYS_INLINE void put_few(struct tn_pickle *pickle, uint64_t bytes, size_t count)
{
    const uint64_t low_first = htole64(bytes);

    TN_ASSERT(count <= sizeof low_first);
    if (TN_LIKELY(pickle->used + sizeof low_first < TN_PICKLE_BYTES)) {
        memcpy(pickle->buffer + pickle->used, &low_first, sizeof low_first);
        pickle->used += count;
    } else {
        put(pickle, &low_first, count);
    }
}

static TN_ALWAYS_INLINE void put_opcode(struct tn_pickle *pickle, enum opcode opcode)
{
    put_few(pickle, opcode, 1);
}

/* An opcode, and the lowest bytes of a value. */
static TN_ALWAYS_INLINE void put_with(struct tn_pickle *pickle, enum opcode opcode, uint64_t value,
                                      size_t count)
{
    TN_ASSERT(count < sizeof value);
    put_few(pickle, value << 8 | opcode, count + 1);
}

tarn_status tn_pickle_begin(struct tn_pickle *pickle, tn_pickle_sink sink, void *context)
{
    *pickle = (struct tn_pickle){.sink = sink, .context = context};
    pickle->buffer = tn_host_alloc(1, TN_PICKLE_BYTES);
    if (pickle->buffer == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a buffer of %d bytes",
                       (int)TN_PICKLE_BYTES);
    put_with(pickle, PROTO, PROTOCOL, 1);
    return TARN_OK;
}

tarn_status tn_pickle_end(struct tn_pickle *pickle)
{
    TN_ASSERT(pickle->depth == 0);
    put_opcode(pickle, STOP);
    flush(pickle);
    tn_host_free(pickle->buffer);
    pickle->buffer = NULL;
    return pickle->status;
}

static void begin(struct tn_pickle *pickle, enum opcode empty)
{
    pickle->depth += 1;
    put_with(pickle, empty, MARK, 1);
}

static void end(struct tn_pickle *pickle, enum opcode all)
{
    TN_ASSERT(pickle->depth > 0);
    pickle->depth -= 1;
    put_opcode(pickle, all);
}

void tn_pickle_begin_list(struct tn_pickle *pickle)
{
    begin(pickle, EMPTY_LIST);
}

void tn_pickle_end_list(struct tn_pickle *pickle)
{
    end(pickle, APPENDS);
}

void tn_pickle_begin_dict(struct tn_pickle *pickle)
{
    begin(pickle, EMPTY_DICT);
}

void tn_pickle_end_dict(struct tn_pickle *pickle)
{
    end(pickle, SETITEMS);
}

unsigned char *tn_pickle_room(struct tn_pickle *pickle, size_t bytes)
{
    TN_ASSERT(bytes + sizeof(uint64_t) <= TN_PICKLE_BYTES);
    if (TN_UNLIKELY(pickle->used + bytes + sizeof(uint64_t) > TN_PICKLE_BYTES))
        flush(pickle);
    return pickle->buffer + pickle->used;
}

unsigned char *tn_pickle_write_new_word(struct tn_pickle *pickle, unsigned char *at,
                                        unsigned number, const char *text)
{
    const size_t length = strlen(text);

    TN_ASSERT(length <= TN_PICKLE_WORD_BYTES);
    at = tn_pickle_write_few(at, length << 8 | BINUNICODE, 5);
    memcpy(at, text, length);
    pickle->known[number] = true;
    return tn_pickle_write_few(at + length, (uint64_t)number << 8 | BINPUT, 2);
}

void tn_pickle_integer(struct tn_pickle *pickle, int64_t value)
{
    tn_pickle_end_room(
        pickle, tn_pickle_write_integer(tn_pickle_room(pickle, TN_PICKLE_VALUE_BYTES), value));
}

/* The highest byte first. */
void tn_pickle_float(struct tn_pickle *pickle, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    put_opcode(pickle, BINFLOAT);
    put_few(pickle, __builtin_bswap64(bits), sizeof bits);
}

void tn_pickle_boolean(struct tn_pickle *pickle, bool value)
{
    put_opcode(pickle, value ? NEWTRUE : NEWFALSE);
}

void tn_pickle_pair(struct tn_pickle *pickle, int64_t first, int64_t second)
{
    tn_pickle_integer(pickle, first);
    tn_pickle_integer(pickle, second);
    put_opcode(pickle, TUPLE2);
}

void tn_pickle_string(struct tn_pickle *pickle, const char *text)
{
    size_t length = strlen(text);

    TN_ASSERT(length <= UINT32_MAX);
    put_with(pickle, BINUNICODE, length, 4);
    put(pickle, text, length);
}

void tn_pickle_word(struct tn_pickle *pickle, unsigned number, const char *text)
{
    unsigned char *at = tn_pickle_room(pickle, TN_PICKLE_VALUE_BYTES);

    tn_pickle_end_room(pickle, tn_pickle_write_word(pickle, at, number, text));
}

void tn_pickle_keep(struct tn_pickle *pickle, uint32_t number)
{
    TN_ASSERT(number >= TN_PICKLE_WORDS);
    put_with(pickle, LONG_BINPUT, number, 4);
}

void tn_pickle_again(struct tn_pickle *pickle, uint32_t number)
{
    TN_ASSERT(number >= TN_PICKLE_WORDS);
    put_with(pickle, LONG_BINGET, number, 4);
}
