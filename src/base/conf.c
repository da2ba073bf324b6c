// SPDX-License-Identifier: Apache-2.0
/* A text is cut into entries, an entry into key and value; the key's own function reads the value.
 * The sentences are made here, so that every refusal names the key and the value in the same way.
 *
 * Trade-offs: the numbers are read by hand. The C library's functions follow the locale, skip
 * blanks and signs, and take hexadecimal, infinity and NaN, none of which a setting means. */
#include "base/conf.h"

#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"

enum { SHOWN_MAX = 100 }; /* of a word in a sentence, which has room for 1,023 bytes */

/* The two arguments of %.*s. */
#define SHOWN(text) (int)tn_min((text).length, SHOWN_MAX), (text).first

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static struct tn_words trim(struct tn_words text)
{
    while (text.length > 0 && is_blank(text.first[0])) {
        text.first += 1;
        text.length -= 1;
    }
    while (text.length > 0 && is_blank(text.first[text.length - 1]))
        text.length -= 1;
    return text;
}

bool tn_words_next(struct tn_words *text, char separator, struct tn_words *piece)
{
    size_t end = 0;
    size_t depth = 0;

    if (text->first == NULL)
        return false;
    while (end < text->length && (depth > 0 || text->first[end] != separator)) {
        if (text->first[end] == '[')
            depth += 1;
        else if (text->first[end] == ']' && depth > 0)
            depth -= 1;
        end += 1;
    }
    *piece = trim((struct tn_words){text->first, end});
    if (end < text->length)
        *text = (struct tn_words){text->first + end + 1, text->length - end - 1};
    else
        *text = (struct tn_words){NULL, 0};
    return true;
}

bool tn_words_unwrap(struct tn_words *text)
{
    if (text->length < 2 || text->first[0] != '[' || text->first[text->length - 1] != ']')
        return false;
    *text = (struct tn_words){text->first + 1, text->length - 2};
    return true;
}

bool tn_words_is(struct tn_words text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.first, word, text.length) == 0;
}

bool tn_words_bool(struct tn_words text, bool *value)
{
    if (!tn_words_is(text, "True") && !tn_words_is(text, "False"))
        return false;
    *value = tn_words_is(text, "True");
    return true;
}

bool tn_words_number(struct tn_words text, uint64_t *value)
{
    uint64_t number = 0;

    for (size_t i = 0; i < text.length; i++) {
        uint64_t digit = (uint64_t)(text.first[i] - '0');

        if (!is_digit(text.first[i]) || number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    if (text.length == 0)
        return false;
    *value = number;
    return true;
}

bool tn_words_size(struct tn_words text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    const char *unit = text.length > 0 ? strchr(units, text.first[text.length - 1]) : NULL;
    unsigned shift = 0;
    uint64_t number;

    if (unit != NULL && *unit != '\0') {
        shift = 10 * (unsigned)(unit - units + 1);
        text.length -= 1;
    }
    if (!tn_words_number(text, &number) || number > (uint64_t)INT64_MAX >> shift)
        return false;
    *bytes = number << shift;
    return true;
}

bool tn_words_decimal(struct tn_words text, double *value)
{
    const uint64_t enough = 100000000000000000; /* 10^17: a double tells no more digits apart */
    uint64_t digits = 0;
    double scale = 1;
    bool any = false;
    bool behind_point = false;

    for (size_t i = 0; i < text.length; i++) {
        if (text.first[i] == '.' && !behind_point) {
            behind_point = true;
            continue;
        }
        if (!is_digit(text.first[i]))
            return false;
        any = true;
        if (digits >= enough && behind_point)
            continue;
        if (digits >= enough)
            return false;
        digits = digits * 10 + (uint64_t)(text.first[i] - '0');
        scale *= behind_point ? 10 : 1;
    }
    if (any)
        *value = (double)digits / scale;
    return any;
}

/* Appends what fits. */
static void append(char *list, size_t list_bytes, const char *words)
{
    size_t used = strlen(list);
    size_t more = tn_min(strlen(words), list_bytes - 1 - used);

    memcpy(list + used, words, more);
    list[used + more] = '\0';
}

static tarn_status unknown_key(const char *name, struct tn_words key,
                               const struct tn_conf_key *keys, size_t key_count)
{
    char list[640] = "";

    for (size_t i = 0; i < key_count; i++) {
        append(list, sizeof list, i > 0 ? ", " : "");
        append(list, sizeof list, keys[i].name);
    }
    return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                   "%s has the key '%.*s', which Tarn does not; its keys are %s", name, SHOWN(key),
                   list);
}

/* One entry; *seen: a bit for each key that the text has had. */
static tarn_status read_entry(const char *name, struct tn_words entry,
                              const struct tn_conf_key *keys, size_t key_count, uint64_t *seen,
                              void *settings)
{
    struct tn_words value = entry;
    struct tn_words key;
    size_t at = 0;

    if (!tn_words_next(&value, ':', &key) || value.first == NULL || key.length == 0)
        return tn_fail(
            TARN_ERR_INVALID_ARGUMENT,
            "%s has '%.*s' where a pair key:value must be; pairs have commas between them", name,
            SHOWN(entry));
    value = trim(value);
    while (at < key_count && !tn_words_is(key, keys[at].name))
        at += 1;
    if (at == key_count)
        return unknown_key(name, key, keys, key_count);
    if ((*seen >> at & 1) != 0)
        return tn_fail(
            TARN_ERR_INVALID_ARGUMENT,
            "%s has the key '%s' twice, the second time with the value '%.*s'; say it once", name,
            keys[at].name, SHOWN(value));
    *seen |= (uint64_t)1 << at;
    if (!keys[at].read(value, settings))
        return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                       "%s has the value '%.*s' for the key '%s', which must be %s", name,
                       SHOWN(value), keys[at].name, keys[at].allowed);
    return TARN_OK;
}

tarn_status tn_conf_read(const char *name, const char *text, const struct tn_conf_key *keys,
                         size_t key_count, void *settings)
{
    struct tn_words rest = {text, strlen(text)};
    struct tn_words entry;
    uint64_t seen = 0;
    tarn_status status = TARN_OK;

    TN_ASSERT(key_count <= 64); /* bits of seen */
    if (trim(rest).length == 0)
        return TARN_OK;
    while (status == TARN_OK && tn_words_next(&rest, ',', &entry))
        status = read_entry(name, entry, keys, key_count, &seen, settings);
    return status;
}
