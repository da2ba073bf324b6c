// SPDX-License-Identifier: Apache-2.0
#include "json.h"

#include <inttypes.h>

#include "base/contract.h"
#include "text.h"

static void put_text(const struct json *json, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    FILE *file = json->file;

    (void)fputc('"', file);
    while (*at != '\0') {
        const unsigned bytes = text_character_bytes(at);

        if (bytes == 0)
            (void)fputs("\\ufffd", file);
        else if (*at == '"' || *at == '\\')
            (void)fprintf(file, "\\%c", *at);
        else if (*at < ' ' || *at == 0x7f || (json->is_html && *at == '<'))
            (void)fprintf(file, "\\u%04x", (unsigned)*at);
        else
            (void)fwrite(at, 1, bytes, file);
        at += bytes > 0 ? bytes : 1;
    }
    (void)fputc('"', file);
}

static bool is_packed(const struct json *json)
{
    return json->packed_depth > 0 && json->depth > json->packed_depth;
}

/* What stands before each value. */
static void put_key(struct json *json, const char *key)
{
    if (json->depth > 0 && !json->is_first)
        (void)fputc(',', json->file);
    if (json->depth > 0 && !is_packed(json))
        (void)fprintf(json->file, "\n%*s", (int)json->depth, "");
    json->is_first = false;
    if (key == NULL)
        return;
    put_text(json, key);
    (void)fputs(": ", json->file);
}

void json_begin(struct json *json, const char *key, char bracket)
{
    put_key(json, key);
    (void)fputc(bracket, json->file);
    json->depth += 1;
    json->is_first = true;
}

void json_end(struct json *json, char bracket)
{
    const bool was_packed = is_packed(json);

    TN_ASSERT(json->depth > 0);
    json->depth -= 1;
    if (!json->is_first && !was_packed)
        (void)fprintf(json->file, "\n%*s", (int)json->depth, "");
    (void)fputc(bracket, json->file);
    json->is_first = false;
    if (json->depth == 0)
        (void)fputc('\n', json->file);
}

void json_number(struct json *json, const char *key, uint64_t value)
{
    put_key(json, key);
    (void)fprintf(json->file, "%" PRIu64, value);
}

void json_decimal(struct json *json, const char *key, double value)
{
    put_key(json, key);
    (void)fprintf(json->file, "%.0f", value);
}

void json_address(struct json *json, const char *key, uint64_t value)
{
    put_key(json, key);
    (void)fprintf(json->file, "\"0x%" PRIx64 "\"", value);
}

void json_text(struct json *json, const char *key, const char *value)
{
    put_key(json, key);
    if (value != NULL)
        put_text(json, value);
    else
        (void)fputs("null", json->file);
}

void json_raw(struct json *json, const char *key, const char *value)
{
    put_key(json, key);
    (void)fputs(value, json->file);
}

void json_bool(struct json *json, const char *key, bool value)
{
    put_key(json, key);
    (void)fputs(value ? "true" : "false", json->file);
}
