// SPDX-License-Identifier: Apache-2.0
/* conf.h -- settings that people write as text: key:value,key:value.
 *
 * Blanks around words mean nothing. A comma inside brackets belongs to the value. Everything else
 * that is not understood is refused, with the key and the value in the sentence. Nothing is
 * guessed, and no word counts in part.
 *
 * All functions may be called from any thread; none takes a lock or needs host memory. The locale's
 * rules for numbers and letters play no part. */
#ifndef TARN_BASE_CONF_H
#define TARN_BASE_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarn/status.h"
#include "tarn/types.h"

/* A part of a text that the caller owns. */
struct tn_words {
    const char *first; /* NULL: used up */
    size_t length;
};

/* A key that a text may have. */
struct tn_conf_key {
    const char *name;
    /* Writes the value to the settings; false: the value is not allowed. */
    bool (*read)(struct tn_words value, void *settings);
    const char *allowed; /* allowed values, for the sentence: "True or False" */
};

/* Reads the pairs of a text into the settings. A text of blanks alone sets nothing. name: of the
 * text, for the sentence. key_count: 64 at most.
 *   INVALID_ARGUMENT  an entry is no pair, its key is unknown or stands there twice, or its value is not
 *                     allowed; the settings may have been written in part */
TARN_MUST_CHECK tarn_status tn_conf_read(const char *name, const char *text,
                                         const struct tn_conf_key *keys, size_t key_count,
                                         void *settings);

/* Takes what stands before the first separator outside brackets off the text, the blanks around it
 * left out. False: the text was used up before. Behind a separator there is one more piece, maybe
 * empty. */
bool tn_words_next(struct tn_words *text, char separator, struct tn_words *piece);

/* Takes the brackets off; false where a value has none. */
bool tn_words_unwrap(struct tn_words *text);

/* Reads a word; false, with nothing written, for a word of another kind.
 *   word      this very one
 *   bool      True or False
 *   number    decimal digits, below 2^64
 *   size      bytes: a number, or one with K, M, G or T behind it, powers of 1024; below 2^63
 *   decimal   digits with or without a point among them; as many as a double can tell
 *             apart count */
bool tn_words_is(struct tn_words text, const char *word);
bool tn_words_bool(struct tn_words text, bool *value);
bool tn_words_number(struct tn_words text, uint64_t *value);
bool tn_words_size(struct tn_words text, uint64_t *bytes);
bool tn_words_decimal(struct tn_words text, double *value);

#endif
