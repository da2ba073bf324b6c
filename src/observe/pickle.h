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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarn/status.h"

/* Takes bytes; any status but OK ends the writing. */
typedef tarn_status (*tn_pickle_sink)(void *context, const void *bytes, size_t count);

enum {
    TN_PICKLE_BYTES = 64 * 1024, /* of the buffer */
    TN_PICKLE_WORDS = 64,        /* strings that a pickle may name again */
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

/* The value that was just written gets a number, at least TN_PICKLE_WORDS, and is written again by
 * this number alone. Readers get the same object each time. */
void tn_pickle_keep(struct tn_pickle *pickle, uint32_t number);
void tn_pickle_again(struct tn_pickle *pickle, uint32_t number);

#endif
