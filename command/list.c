// SPDX-License-Identifier: Apache-2.0
#include "list.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "find.h"
#include "history.h"
#include "json.h"
#include "out.h"
#include "text.h"

struct listed {
    const struct found *found;
    const char *state;
    char program[HISTORY_PROGRAM_BYTES];
    uint64_t bytes; /* that it takes of the memory */
    uint64_t age_seconds;
};

/* False: the file is gone by now. */
static bool look(struct listed *listed, const struct found *found, uint64_t now)
{
    struct history history;
    struct stat what;

    if (stat(found->path, &what) != 0)
        return false;
    *listed = (struct listed){.found = found, .bytes = (uint64_t)what.st_blocks * 512};
    listed->age_seconds = now > found->made ? (now - found->made) / 1000000000 : 0;
    switch (history_try(&history, found->path)) {
    case TN_RING_OPENED:
        listed->state = history.is_alive ? "running" : "ended";
        memcpy(listed->program, history.program, sizeof listed->program);
        history_close(&history);
        return true;
    case TN_RING_VERSION:
        listed->state = "of another version";
        return true;
    case TN_RING_FOREIGN:
        listed->state = "no history";
        return true;
    default:
        listed->state = "not readable";
        return true;
    }
}

static void print(const struct listed *listed, FILE *file)
{
    const uint64_t minutes = listed->age_seconds / 60;
    char age[32];

    if (minutes < 60)
        (void)snprintf(age, sizeof age, "%" PRIu64 "m%02" PRIu64 "s", minutes,
                       listed->age_seconds % 60);
    else if (minutes < 48 * UINT64_C(60))
        (void)snprintf(age, sizeof age, "%" PRIu64 "h%02" PRIu64 "m", minutes / 60, minutes % 60);
    else
        (void)snprintf(age, sizeof age, "%" PRIu64 "d%02" PRIu64 "h", minutes / 1440,
                       minutes / 60 % 24);
    (void)fprintf(file, "%8" PRIu64 "  %-8s %8s ", listed->found->process, listed->state, age);
    (void)fprintf(file, "%7" PRIu64 " KiB  ", listed->bytes / 1024);
    text_put(file, listed->program[0] != '\0' ? listed->program : "-");
    (void)fputs("  ", file);
    text_put(file, listed->found->path);
    (void)fputc('\n', file);
}

static void to_json(const struct listed *listed, struct json *json)
{
    json_begin(json, NULL, '{');
    json_number(json, "process", listed->found->process);
    json_text(json, "state", listed->state);
    json_text(json, "program", listed->program[0] != '\0' ? listed->program : NULL);
    json_number(json, "age_seconds", listed->age_seconds);
    json_number(json, "bytes", listed->bytes);
    json_text(json, "file", listed->found->path);
    json_end(json, '}');
}

enum answer list_run(const struct options *options)
{
    const uint64_t now = tn_clock_nanoseconds(CLOCK_REALTIME);
    struct finds finds;
    struct out out;
    struct json json;
    size_t count = 0;

    if (finds_read(&finds) != ANSWER_FOUND)
        return ANSWER_WRONG;
    if (!out_open(&out, options->out)) {
        finds_free(&finds);
        return ANSWER_WRONG;
    }
    json = (struct json){.file = out.file};
    if (options->as_json)
        json_begin(&json, NULL, '[');
    for (size_t i = 0; i < finds.count; i++) {
        struct listed listed;

        if (!look(&listed, &finds.all[i], now))
            continue;
        if (!options->as_json && count == 0)
            (void)fputs(" process  state         age       size  program  file\n", out.file);
        if (options->as_json)
            to_json(&listed, &json);
        else
            print(&listed, out.file);
        count += 1;
    }
    if (options->as_json)
        json_end(&json, ']');
    finds_free(&finds);
    if (!out_close(&out))
        return ANSWER_WRONG;
    return count > 0 ? ANSWER_FOUND : say(ANSWER_NOTHING, "this user has no histories");
}
