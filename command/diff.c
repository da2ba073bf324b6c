// SPDX-License-Identifier: Apache-2.0
/* Pools are told by their numbers, tags by the program's, and stacks by what they name: a stack's own
 * number is another one in each history. */
#include "diff.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/host.h"
#include "find.h"
#include "frames.h"
#include "growth.h"
#include "head.h"
#include "history.h"
#include "json.h"
#include "live.h"
#include "out.h"
#include "symbols.h"
#include "tarn/status.h"
#include "text.h"

enum { GROUPS = 10 };

struct half {
    char path[FIND_PATH_BYTES];
    struct history history;
    struct tn_told told;
    struct symbols *symbols;
};

struct diff {
    const struct options *options;
    struct half halves[GROWTH_SIDES];
    struct growths by[LIVE_KEYS];
    struct growth total;
    char *key; /* room for a stack's */
};

static void write_key(struct diff *diff, struct half *half, enum live_key by, uint64_t number)
{
    if (by == LIVE_BY_STACK)
        frames_key(diff->key, &half->history, number);
    else
        (void)snprintf(diff->key, FRAMES_KEY_BYTES, "%020" PRIu64, number);
}

static bool add_groups(struct diff *diff, enum growth_side side, enum live_key by)
{
    struct half *half = &diff->halves[side];
    const uint64_t *pool = diff->options->by_pool ? &diff->options->pool : NULL;
    struct live_groups groups;
    bool added = live_group(&groups, &half->told, by, pool, 1, NULL);

    for (size_t i = 0; added && i < groups.count; i++) {
        const struct live_group *group = &groups.all[i];

        write_key(diff, half, by, group->key);
        added = growth_add(&diff->by[by], side, diff->key, group->key, group->blocks, group->bytes);
    }
    diff->total.blocks[side] = groups.total.blocks;
    diff->total.bytes[side] = groups.total.bytes;
    live_free(&groups);
    return added;
}

static bool read_half(struct diff *diff, enum growth_side side)
{
    struct half *half = &diff->halves[side];

    half->symbols = symbols_open(&half->history, diff->options->debug);
    if (half->symbols == NULL || tn_retell_blocks(&half->history.source, &half->told) != TARN_OK)
        return false;
    for (int by = LIVE_BY_STACK; by < LIVE_KEYS; by++) {
        if (!add_groups(diff, side, (enum live_key)by))
            return false;
    }
    return true;
}

/* Whether the two sides differ there. */
static bool has_changed(const struct growth *growth)
{
    return growth->blocks[GROWTH_BEFORE] != growth->blocks[GROWTH_AFTER] ||
           growth_bytes(growth) != 0;
}

static void print_growth(const struct growth *growth, FILE *file)
{
    const int64_t bytes = growth_bytes(growth);

    (void)fputc(bytes < 0 ? '-' : '+', file);
    text_bytes(file, bytes < 0 ? -(double)bytes : (double)bytes);
    (void)fputs(": from ", file);
    text_bytes(file, (double)growth->bytes[GROWTH_BEFORE]);
    (void)fprintf(file, " in %" PRIu64 " to ", growth->blocks[GROWTH_BEFORE]);
    text_bytes(file, (double)growth->bytes[GROWTH_AFTER]);
    (void)fprintf(file, " in %" PRIu64, growth->blocks[GROWTH_AFTER]);
}

static void print_numbers(const struct growths *growths, const char *name, FILE *file)
{
    for (size_t i = 0; i < growths->count; i++) {
        const struct growth *growth = &growths->all[i];

        if (!has_changed(growth))
            continue;
        if (growth->number != 0)
            (void)fprintf(file, "%s %" PRIu64 ": ", name, growth->number);
        else
            (void)fprintf(file, "no %s: ", name);
        print_growth(growth, file);
        (void)fputc('\n', file);
    }
}

static void print_stacks(struct diff *diff, FILE *file)
{
    const struct growths *growths = &diff->by[LIVE_BY_STACK];
    const size_t most = diff->options->has_top ? diff->options->top : GROUPS;
    size_t changed = 0;

    for (size_t i = 0; i < growths->count; i++) {
        const struct growth *growth = &growths->all[i];
        struct half *half = &diff->halves[growth->side];

        if (!has_changed(growth) || ++changed > most)
            continue;
        print_growth(growth, file);
        (void)fputc('\n', file);
        frames_print(&half->history, half->symbols, growth->number, file, 4);
    }
    if (changed > most)
        (void)fprintf(file, "and %zu more: see --top\n", changed - most);
}

static void print(struct diff *diff, FILE *file)
{
    for (int side = GROWTH_BEFORE; side < GROWTH_SIDES; side++)
        head_print(&diff->halves[side].history, &diff->halves[side].told, NULL, file);
    (void)fputs("live blocks ", file);
    print_growth(&diff->total, file);
    (void)fputs("\n\nby pool:\n", file);
    print_numbers(&diff->by[LIVE_BY_POOL], "pool", file);
    (void)fputs("\nby tag:\n", file);
    print_numbers(&diff->by[LIVE_BY_TAG], "tag", file);
    (void)fputs("\nby stack, most growth first:\n", file);
    print_stacks(diff, file);
}

static void growth_to_json(const struct growth *growth, struct json *json)
{
    json_number(json, "blocks_before", growth->blocks[GROWTH_BEFORE]);
    json_number(json, "blocks_after", growth->blocks[GROWTH_AFTER]);
    json_number(json, "bytes_before", growth->bytes[GROWTH_BEFORE]);
    json_number(json, "bytes_after", growth->bytes[GROWTH_AFTER]);
}

static void groups_to_json(struct diff *diff, enum live_key by, const char *list, const char *name,
                           struct json *json)
{
    const struct growths *growths = &diff->by[by];
    const size_t most = diff->options->has_top ? diff->options->top : SIZE_MAX;

    json_begin(json, list, '[');
    for (size_t i = 0; i < growths->count && (by != LIVE_BY_STACK || i < most); i++) {
        const struct growth *growth = &growths->all[i];
        struct half *half = &diff->halves[growth->side];

        json_begin(json, NULL, '{');
        json_number(json, name, growth->number);
        growth_to_json(growth, json);
        if (by == LIVE_BY_STACK)
            frames_to_json(&half->history, half->symbols, growth->number, json);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void to_json(struct diff *diff, FILE *file)
{
    static const char *const names[GROWTH_SIDES] = {"before", "after"};
    struct json json = {.file = file};

    json_begin(&json, NULL, '{');
    for (int side = GROWTH_BEFORE; side < GROWTH_SIDES; side++) {
        json_begin(&json, names[side], '{');
        head_to_json(&diff->halves[side].history, &diff->halves[side].told, NULL, &json);
        json_end(&json, '}');
    }
    growth_to_json(&diff->total, &json);
    groups_to_json(diff, LIVE_BY_POOL, "pools", "pool", &json);
    groups_to_json(diff, LIVE_BY_TAG, "tags", "tag", &json);
    groups_to_json(diff, LIVE_BY_STACK, "stacks", "stack", &json);
    json_end(&json, '}');
}

static enum answer write_report(struct diff *diff)
{
    struct out out;
    bool has_found = false;

    for (int by = LIVE_BY_STACK; by < LIVE_KEYS; by++)
        growth_finish(&diff->by[by]);
    for (size_t i = 0; i < diff->by[LIVE_BY_STACK].count; i++)
        has_found = has_found || has_changed(&diff->by[LIVE_BY_STACK].all[i]);
    if (!out_open(&out, diff->options->out))
        return ANSWER_WRONG;
    if (diff->options->as_json)
        to_json(diff, out.file);
    else
        print(diff, out.file);
    if (!out_close(&out))
        return ANSWER_WRONG;
    return has_found ? ANSWER_FOUND : ANSWER_NOTHING;
}

static enum answer open_halves(struct diff *diff)
{
    const char *words[GROWTH_SIDES] = {diff->options->what, diff->options->other};
    enum answer answer = ANSWER_FOUND;

    for (int side = GROWTH_BEFORE; side < GROWTH_SIDES && answer == ANSWER_FOUND; side++) {
        struct half *half = &diff->halves[side];

        answer = find_file(words[side], half->path);
        if (answer == ANSWER_FOUND && !history_open(&half->history, half->path))
            answer = ANSWER_WRONG;
    }
    return answer;
}

static void free_half(struct half *half)
{
    tn_told_free(&half->told);
    if (half->symbols != NULL)
        symbols_close(half->symbols);
    if (half->history.path != NULL && half->history.reader.fd >= 0)
        history_close(&half->history);
}

enum answer diff_run(const struct options *options)
{
    struct diff *diff = tn_host_alloc(1, sizeof *diff);
    enum answer answer;

    if (diff == NULL)
        return say(ANSWER_WRONG, "no memory to compare");
    diff->options = options;
    diff->key = tn_host_alloc(FRAMES_KEY_BYTES, 1);
    answer = diff->key != NULL ? open_halves(diff) : say(ANSWER_WRONG, "no memory to compare");
    if (answer == ANSWER_FOUND)
        answer = read_half(diff, GROWTH_BEFORE) && read_half(diff, GROWTH_AFTER)
                     ? write_report(diff)
                     : say(ANSWER_WRONG, "no memory to compare");
    for (int by = LIVE_BY_STACK; by < LIVE_KEYS; by++)
        growth_free(&diff->by[by]);
    for (int side = GROWTH_BEFORE; side < GROWTH_SIDES; side++)
        free_half(&diff->halves[side]);
    tn_host_free(diff->key);
    tn_host_free(diff);
    return answer;
}
