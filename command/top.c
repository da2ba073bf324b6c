// SPDX-License-Identifier: Apache-2.0
/* Each picture is a reading of its own, from the file's beginning: the process may overwrite any page
 * meanwhile. Where the output is no terminal, or the process has ended, there is one picture. */
#include "top.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/contract.h"
#include "find.h"
#include "frames.h"
#include "head.h"
#include "heap/history.h"
#include "history.h"
#include "live.h"
#include "screen.h"
#include "symbols.h"
#include "tarn/status.h"
#include "text.h"

enum { PERIOD_MS = 1000, GROUPS = 8, SIZE_BYTES = 32, NAME_BYTES = 512 };

/* What the log tells, of its events since a stamp, and of all. */
struct counts {
    uint64_t since;
    uint64_t newest; /* the last stamp */
    uint64_t allocations;
    uint64_t frees;
    uint64_t replays;
    uint64_t growths;
    uint64_t rungs;
    uint64_t failures; /* out of memory */
    int64_t graphs;    /* made, less those destroyed */
    int64_t captures;  /* open ones */
};

struct top {
    const struct options *options;
    struct screen screen;
    struct history history;
    struct symbols *symbols;
    struct tn_told told;
    struct counts counts;
    double seconds; /* of the rates */
};

static void count_note(struct counts *counts, enum tn_note note, bool is_recent)
{
    switch (note) {
    case TN_NOTE_GRAPH_REPLAYED:
        counts->replays += is_recent;
        break;
    case TN_NOTE_MAPPED:
        counts->growths += is_recent;
        break;
    case TN_NOTE_RUNG:
        counts->rungs += 1;
        break;
    case TN_NOTE_OUT_OF_MEMORY:
        counts->failures += 1;
        break;
    case TN_NOTE_GRAPH_MADE:
        counts->graphs += 1;
        break;
    case TN_NOTE_GRAPH_DESTROYED:
        counts->graphs -= 1;
        break;
    case TN_NOTE_CAPTURE_BEGUN:
        counts->captures += 1;
        break;
    case TN_NOTE_CAPTURE_ENDED:
    case TN_NOTE_CAPTURE_ABORTED:
        counts->captures -= 1;
        break;
    default:
        break;
    }
}

static bool visit(void *context, const struct tn_told_event *event)
{
    struct counts *counts = context;
    const bool is_recent = event->since > counts->since;

    counts->newest = tn_max(counts->newest, event->since);
    if (event->kind == TN_HISTORY_NOTE)
        count_note(counts, event->note.note, is_recent);
    else if (event->kind == TN_HISTORY_FREE)
        counts->frees += is_recent;
    else
        counts->allocations += is_recent;
    return true;
}

static void write_size(char text[SIZE_BYTES], uint64_t bytes)
{
    FILE *file = fmemopen(text, SIZE_BYTES, "w");

    text[0] = '\0';
    if (file == NULL)
        return;
    text_bytes(file, (double)bytes);
    (void)fclose(file);
    text[SIZE_BYTES - 1] = '\0';
}

/* The first line of a stack's frames that has a function, or the first of all. */
static void write_name(struct top *top, uint64_t stack, char name[NAME_BYTES])
{
    FILE *file = fmemopen(name, NAME_BYTES, "w");

    name[0] = '\0';
    if (file == NULL)
        return;
    frames_print(&top->history, top->symbols, stack, file, 0);
    (void)fclose(file);
    name[NAME_BYTES - 1] = '\0';
    for (char *line = name; *line != '\0'; line++) {
        if (*line == '\n')
            *line = ' ';
    }
}

static bool print_groups(struct top *top, enum live_key key, const char *what)
{
    const size_t most = top->options->has_top ? top->options->top : GROUPS;
    struct live_groups groups;

    if (!live_group(&groups, &top->told, key, NULL, head_sample_bytes(&top->history),
                    &top->history)) {
        live_free(&groups);
        return false;
    }
    if (groups.count > 0 && (key != LIVE_BY_TAG || groups.count > 1 || groups.all[0].key != 0))
        screen_line(&top->screen, "%s", "");
    else
        groups.count = 0;
    for (size_t i = 0; i < groups.count && i < most; i++) {
        char size[SIZE_BYTES];
        char name[NAME_BYTES];

        write_size(size, groups.all[i].bytes);
        if (key == LIVE_BY_STACK)
            write_name(top, groups.all[i].key, name);
        else
            (void)snprintf(name, sizeof name, "%s %" PRIu64, what, groups.all[i].key);
        screen_line(&top->screen, "%10s %7" PRIu64 " %s", size, groups.all[i].blocks, name);
    }
    live_free(&groups);
    return true;
}

static uint64_t rate(const struct top *top, uint64_t count)
{
    return top->seconds > 0 ? (uint64_t)((double)count / top->seconds + 0.5) : 0;
}

static bool print(struct top *top)
{
    const struct counts *counts = &top->counts;
    struct screen *screen = &top->screen;
    uint64_t bytes = 0;
    char size[SIZE_BYTES];

    for (size_t i = 0; i < top->told.count; i++)
        bytes += top->told.blocks[i].bytes;
    write_size(size, bytes);
    screen_start(screen);
    screen_line(screen, "%" PRIu64 " %s %s", top->history.reader.head.process,
                top->history.is_alive ? "runs" : "has ended", top->history.program);
    screen_line(screen, "%s in %zu blocks", size, top->told.count);
    screen_line(screen, "%" PRIu64 "/s new, %" PRIu64 "/s freed, %" PRIu64 "/s replays",
                rate(top, counts->allocations), rate(top, counts->frees),
                rate(top, counts->replays));
    screen_line(screen, "%" PRIu64 "/s growths, %" PRIu64 " rungs, %" PRIu64 " out of memory",
                rate(top, counts->growths), counts->rungs, counts->failures);
    screen_line(screen, "%" PRIi64 " graphs, %" PRIi64 " captures open",
                counts->graphs > 0 ? counts->graphs : 0,
                counts->captures > 0 ? counts->captures : 0);
    return print_groups(top, LIVE_BY_POOL, "pool") && print_groups(top, LIVE_BY_TAG, "tag") &&
           print_groups(top, LIVE_BY_STACK, "stack");
}

/* The last second, before now or before the end. */
static bool read_counts(struct top *top)
{
    const uint64_t second = 1000000000;
    uint64_t now = tn_clock_nanoseconds(CLOCK_MONOTONIC);
    uint64_t broken;

    top->counts = (struct counts){.since = UINT64_MAX};
    (void)tn_told_walk(&top->history.source, visit, &top->counts, &broken);
    if (!top->history.is_alive)
        now = top->counts.newest;
    top->counts = (struct counts){.since = now > second ? now - second : 0};
    top->seconds = 1;
    return tn_told_walk(&top->history.source, visit, &top->counts, &broken);
}

/* False: no memory, or the output cannot be written. */
static bool show(struct top *top)
{
    bool done;

    if (tn_retell_blocks(&top->history.source, &top->told) != TARN_OK || !read_counts(top))
        return false;
    done = print(top);
    tn_told_free(&top->told);
    return screen_finish(&top->screen) && done;
}

static bool watch(struct top *top)
{
    bool done;

    screen_begin(&top->screen);
    do {
        const bool was_alive = top->history.is_alive;

        done = show(top);
        if (!was_alive) /* the last picture */
            break;
        top->history.is_alive = tn_ring_reader_is_alive(&top->history.reader);
    } while (done && top->screen.is_terminal && screen_wait(&top->screen, PERIOD_MS));
    screen_end(&top->screen);
    return done;
}

enum answer top_run(const struct options *options)
{
    struct top top = {.options = options};
    char path[FIND_PATH_BYTES];
    enum answer answer = find_file(options->what, path);

    if (answer != ANSWER_FOUND)
        return answer;
    if (!history_open(&top.history, path))
        return ANSWER_WRONG;
    top.symbols = symbols_open(&top.history, options->debug);
    if (top.symbols == NULL || !watch(&top))
        answer = say(ANSWER_WRONG, "no memory to watch %s, or the output cannot be written", path);
    if (top.symbols != NULL)
        symbols_close(top.symbols);
    history_close(&top.history);
    return answer;
}
