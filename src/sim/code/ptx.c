// SPDX-License-Identifier: Apache-2.0
/* ptx.c -- a reader of PTX declarations.
 *
 * How it works. The text is read token by token: words (letters, digits and _ $ . % with a leading
 * dot kept), single punctuation marks, comments skipped. Each `.entry name` is followed by an
 * optional parameter list of `.param` declarations; a parameter takes its type's size, times the
 * length for an array, at the next offset that its alignment allows. Bodies are passed over.
 *
 * Trade-offs. Nothing but declarations is checked; a kernel's body may be nonsense. */
#include "sim/code/ptx.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PARAM_BYTES ((size_t)32764) /* the most that CUDA 12.1 and later pass to a kernel */

/* A token of the text. An empty token is the end. */
struct token {
    const char *start;
    size_t length;
};

static bool word_character(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.' || c == '%';
}

static const char *skip_blank(const char *at)
{
    for (;;) {
        while (isspace((unsigned char)*at))
            at++;
        if (at[0] == '/' && at[1] == '/') {
            while (*at != '\0' && *at != '\n')
                at++;
        } else if (at[0] == '/' && at[1] == '*') {
            const char *end = strstr(at + 2, "*/");
            at = end == NULL ? at + strlen(at) : end + 2;
        } else {
            return at;
        }
    }
}

static struct token next(const char **at)
{
    struct token token = {.start = skip_blank(*at)};
    while (word_character(token.start[token.length]))
        token.length++;
    if (token.length == 0 && *token.start != '\0')
        token.length = 1;
    *at = token.start + token.length;
    return token;
}

static bool is(struct token token, const char *text)
{
    return token.length == strlen(text) && memcmp(token.start, text, token.length) == 0;
}

/* Reads a number, decimal or after 0x hexadecimal, of at most MAX_PARAM_BYTES. */
static bool number(struct token token, size_t *value)
{
    bool hexadecimal = token.length > 2 && token.start[0] == '0' &&
                       (token.start[1] == 'x' || token.start[1] == 'X');
    *value = 0;
    for (size_t i = hexadecimal ? 2 : 0; i < token.length; i++) {
        unsigned char c = (unsigned char)token.start[i];
        if (hexadecimal ? !isxdigit(c) : !isdigit(c))
            return false;
        size_t digit = isdigit(c) ? (size_t)(c - '0') : (size_t)(tolower(c) - 'a' + 10);
        *value = *value * (hexadecimal ? 16 : 10) + digit;
        if (*value > MAX_PARAM_BYTES)
            return false;
    }
    return token.length > 0;
}

/* The size of a PTX type such as .u64; 0 for another token. */
static size_t type_bytes(struct token token)
{
    if (token.length < 3 || token.start[0] != '.' || strchr("bsuf", token.start[1]) == NULL)
        return 0;
    struct token digits = {.start = token.start + 2, .length = token.length - 2};
    size_t bits;
    if (!number(digits, &bits))
        return 0;
    return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? bits / 8 : 0;
}

/* Reads a parameter after `.param`, up to and with the `,` or `)` that ends it. */
static bool read_param(const char **at, struct token *end, size_t *bytes, size_t *alignment)
{
    size_t element = 0;
    size_t length = 1;
    bool pointer = false; /* after .ptr, .align speaks of the pointer's target */
    *alignment = 0;
    for (;;) {
        struct token token = next(at);
        if (token.length == 0)
            return false;
        if (is(token, ",") || is(token, ")")) {
            *end = token;
            break;
        }
        if (is(token, ".ptr")) {
            pointer = true;
        } else if (is(token, ".align")) {
            size_t value;
            if (!number(next(at), &value) || value == 0 || (value & (value - 1)) != 0)
                return false;
            if (!pointer)
                *alignment = value;
        } else if (is(token, "[")) {
            if (!number(next(at), &length) || length == 0 || !is(next(at), "]"))
                return false;
        } else if (element == 0 && type_bytes(token) != 0) {
            element = type_bytes(token);
        }
    }
    *bytes = element * length;
    if (*alignment < element)
        *alignment = element;
    return element != 0;
}

static tn_cu_result add_param(struct tn_sim_ptx_entry *entry, size_t bytes, size_t alignment)
{
    size_t offset = (entry->block_bytes + alignment - 1) / alignment * alignment;
    if (offset + bytes > MAX_PARAM_BYTES)
        return TN_CUDA_ERROR_INVALID_PTX;
    struct tn_sim_ptx_param *params =
        realloc(entry->params, (entry->param_count + 1) * sizeof *params);
    if (params == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    entry->params = params;
    entry->params[entry->param_count++] =
        (struct tn_sim_ptx_param){.offset = offset, .bytes = bytes};
    entry->block_bytes = offset + bytes;
    return TN_CUDA_SUCCESS;
}

/* Reads a name and, in brackets, parameters after `.entry`. */
static tn_cu_result read_entry(const char **at, struct tn_sim_ptx_entry *entry)
{
    struct token name = next(at);
    if (name.length == 0 || !word_character(*name.start))
        return TN_CUDA_ERROR_INVALID_PTX;
    entry->name = strndup(name.start, name.length);
    if (entry->name == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    const char *after = *at;
    struct token token = next(&after);
    if (!is(token, "("))
        return TN_CUDA_SUCCESS;
    *at = after;
    token = next(at);
    while (!is(token, ")")) {
        size_t bytes;
        size_t alignment;
        if (is(token, ","))
            token = next(at);
        if (!is(token, ".param") || !read_param(at, &token, &bytes, &alignment))
            return TN_CUDA_ERROR_INVALID_PTX;
        tn_cu_result result = add_param(entry, bytes, alignment);
        if (result != TN_CUDA_SUCCESS)
            return result;
    }
    return TN_CUDA_SUCCESS;
}

/* Asks whether an entry before the last has this name. */
static bool known(const struct tn_sim_ptx *ptx, const char *name)
{
    for (size_t i = 0; i + 1 < ptx->entry_count; i++) {
        if (strcmp(ptx->entries[i].name, name) == 0)
            return true;
    }
    return false;
}

static void fini_entry(struct tn_sim_ptx_entry *entry)
{
    free(entry->name);
    free(entry->params);
}

tn_cu_result tn_sim_ptx_parse(const char *text, struct tn_sim_ptx *ptx)
{
    *ptx = (struct tn_sim_ptx){0};
    const char *at = text;
    if (!is(next(&at), ".version"))
        return TN_CUDA_ERROR_INVALID_IMAGE;
    for (struct token token = next(&at); token.length > 0; token = next(&at)) {
        if (!is(token, ".entry"))
            continue;
        struct tn_sim_ptx_entry *entries =
            realloc(ptx->entries, (ptx->entry_count + 1) * sizeof *entries);
        if (entries == NULL) {
            tn_sim_ptx_fini(ptx);
            return TN_CUDA_ERROR_OUT_OF_MEMORY;
        }
        ptx->entries = entries;
        struct tn_sim_ptx_entry *entry = &ptx->entries[ptx->entry_count++];
        *entry = (struct tn_sim_ptx_entry){0};
        tn_cu_result result = read_entry(&at, entry);
        if (result != TN_CUDA_SUCCESS) {
            tn_sim_ptx_fini(ptx);
            return result;
        }
        if (known(ptx, entry->name)) /* declared before, defined now */
            fini_entry(&ptx->entries[--ptx->entry_count]);
    }
    return TN_CUDA_SUCCESS;
}

void tn_sim_ptx_fini(struct tn_sim_ptx *ptx)
{
    for (size_t i = 0; i < ptx->entry_count; i++)
        fini_entry(&ptx->entries[i]);
    free(ptx->entries);
    *ptx = (struct tn_sim_ptx){0};
}
