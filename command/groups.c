// SPDX-License-Identifier: Apache-2.0
#include "groups.h"

#include <inttypes.h>

#include "frames.h"
#include "head.h"
#include "text.h"

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static void print_group(const struct live_group *group, bool is_sampled, FILE *file)
{
    text_bytes(file, (double)group->bytes);
    (void)fprintf(file, " in %" PRIu64 " block%s", group->blocks, plural(group->blocks));
    if (is_sampled) {
        (void)fputs(", which stand for some ", file);
        text_bytes(file, group->estimated_requested);
        (void)fprintf(file, " in %.0f", group->estimated_blocks);
    }
    if (group->blocks == 1)
        (void)fprintf(file, ": number %" PRIu64, group->oldest);
    else
        (void)fprintf(file, ": numbers %" PRIu64 " to %" PRIu64, group->oldest, group->newest);
}

void groups_print_stacks(const struct live_groups *groups, struct history *history,
                         struct symbols *symbols, size_t most, FILE *file)
{
    const uint64_t sample_bytes = head_sample_bytes(history);

    for (size_t i = 0; i < groups->count && i < most; i++) {
        const struct live_group *group = &groups->all[i];

        print_group(group, sample_bytes > 1 && group->key != 0, file);
        if (group->pool != 0)
            (void)fprintf(file, ", pool %" PRIu64, group->pool);
        (void)fputc('\n', file);
        frames_print(history, symbols, group->key, file, 4);
    }
    if (groups->count > most)
        (void)fprintf(file, "and %zu more: see --top\n", groups->count - most);
}

void groups_print_pools(const struct live_groups *groups, FILE *file)
{
    for (size_t i = 0; i < groups->count; i++) {
        const struct live_group *group = &groups->all[i];

        if (group->key != 0)
            (void)fprintf(file, "pool %" PRIu64 ": ", group->key);
        else
            (void)fputs("pool not known: ", file);
        print_group(group, false, file);
        (void)fputc('\n', file);
    }
}

static void group_to_json(const struct live_group *group, struct json *json)
{
    json_number(json, "blocks", group->blocks);
    json_number(json, "bytes", group->bytes);
    json_number(json, "requested", group->requested);
    json_number(json, "oldest", group->oldest);
    json_number(json, "newest", group->newest);
}

void groups_stacks_to_json(const struct live_groups *groups, struct history *history,
                           struct symbols *symbols, size_t most, struct json *json)
{
    json_begin(json, "stacks", '[');
    for (size_t i = 0; i < groups->count && i < most; i++) {
        const struct live_group *group = &groups->all[i];

        json_begin(json, NULL, '{');
        json_number(json, "stack", group->key);
        group_to_json(group, json);
        json_number(json, "pool", group->pool);
        json_decimal(json, "estimated_blocks", group->estimated_blocks);
        json_decimal(json, "estimated_requested", group->estimated_requested);
        frames_to_json(history, symbols, group->key, json);
        json_end(json, '}');
    }
    json_end(json, ']');
}

void groups_pools_to_json(const struct live_groups *groups, struct json *json)
{
    json_begin(json, "pools", '[');
    for (size_t i = 0; i < groups->count; i++) {
        json_begin(json, NULL, '{');
        json_number(json, "pool", groups->all[i].key);
        group_to_json(&groups->all[i], json);
        json_end(json, '}');
    }
    json_end(json, ']');
}
