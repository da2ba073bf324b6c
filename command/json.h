// SPDX-License-Identifier: Apache-2.0
/* json.h -- writes JSON, one value behind the other: commas, indentation and escapes are its own.
 *
 * A key is NULL in an array, and for the whole. Integers are written in full: they may be above
 * 2^53. Addresses are strings. Of a text that is not UTF-8 the bytes that are none become U+FFFD. */
#ifndef TARN_COMMAND_JSON_H
#define TARN_COMMAND_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *file;
    unsigned depth;
    bool is_first;         /* of the object or array that is open */
    bool is_html;          /* stands in a page: no text ends the element around it */
    unsigned packed_depth; /* what is deeper stands in one line; 0: nothing does */
};

void json_begin(struct json *json, const char *key, char bracket); /* '{' or '[' */
void json_end(struct json *json, char bracket);                    /* '}' or ']' */
void json_number(struct json *json, const char *key, uint64_t value);
void json_decimal(struct json *json, const char *key, double value);
void json_address(struct json *json, const char *key, uint64_t value);
void json_text(struct json *json, const char *key, const char *value); /* NULL: null */
void json_raw(struct json *json, const char *key, const char *value);  /* as it is */
void json_bool(struct json *json, const char *key, bool value);

#endif
