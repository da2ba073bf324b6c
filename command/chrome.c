// SPDX-License-Identifier: Apache-2.0
/* Times count from the first change, in microseconds: a viewer reads them as floating point, which has
 * no room for nanoseconds since 1970. */
#include <inttypes.h>
#include <stdio.h>

#include "base/title.h"
#include "formats.h"
#include "json.h"
#include "notes.h"

enum { NAME_BYTES = 64 };

struct chrome {
    struct tale *tale;
    struct json json;
    struct sums sums;
};

/* Begins an event; the caller ends it. */
static void begin(struct chrome *chrome, const char *phase, uint64_t time, uint64_t thread,
                  const char *name)
{
    struct json *json = &chrome->json;
    const uint64_t since = time > chrome->tale->begin ? time - chrome->tale->begin : 0;
    char text[NAME_BYTES];

    json_begin(json, NULL, '{');
    json_text(json, "ph", phase);
    json_number(json, "pid", chrome->tale->history.reader.head.process);
    json_number(json, "tid", thread);
    (void)snprintf(text, sizeof text, "%" PRIu64 ".%03u", since / 1000, (unsigned)(since % 1000));
    json_raw(json, "ts", text);
    json_text(json, "name", name);
}

static void write_name(struct chrome *chrome)
{
    const struct history *history = &chrome->tale->history;

    begin(chrome, "M", 0, 0, "process_name");
    json_begin(&chrome->json, "args", '{');
    json_text(&chrome->json, "name", history->program[0] != '\0' ? history->program : "Tarn");
    json_end(&chrome->json, '}');
    json_end(&chrome->json, '}');
}

/* A viewer puts both values on top of each other: the height is the bytes of the blocks. */
static void write_sum(struct chrome *chrome, uint64_t time, const struct sum *sum)
{
    char name[NAME_BYTES];

    (void)snprintf(name, sizeof name, "pool %" PRIu64, sum->pool);
    begin(chrome, "C", time, 0, name);
    json_begin(&chrome->json, "args", '{');
    json_number(&chrome->json, "requested", sum->requested);
    json_number(&chrome->json, "rounding", sum->bytes - sum->requested);
    json_end(&chrome->json, '}');
    json_end(&chrome->json, '}');
}

/* The phase of a note that begins or ends something with a number; NULL: neither. */
static const char *phase_of(enum tn_note note, const char **category)
{
    switch (note) {
    case TN_NOTE_CAPTURE_BEGUN:
        *category = "capture";
        return "b";
    case TN_NOTE_CAPTURE_ENDED:
    case TN_NOTE_CAPTURE_ABORTED:
        *category = "capture";
        return "e";
    case TN_NOTE_GRAPH_MADE:
        *category = "graph";
        return "b";
    case TN_NOTE_GRAPH_DESTROYED:
        *category = "graph";
        return "e";
    default:
        return NULL;
    }
}

static void write_slice(struct chrome *chrome, const struct change *change,
                        const struct tn_note_words *note)
{
    const char *category = NULL;
    const char *phase = phase_of(note->note, &category);
    char name[NAME_BYTES];

    if (phase == NULL)
        return;
    (void)snprintf(name, sizeof name, "%s %" PRIu64, category, note->operands[0]);
    begin(chrome, phase, change->time, 0, name);
    json_text(&chrome->json, "cat", category);
    json_address(&chrome->json, "id", note->operands[0]);
    json_end(&chrome->json, '}');
}

static void write_note(struct chrome *chrome, const struct change *change)
{
    const struct tn_note_words *note = &chrome->tale->story.notes[change->block];

    begin(chrome, "i", change->time, 0, note_name(note->note));
    json_text(&chrome->json, "s", "p");
    json_begin(&chrome->json, "args", '{');
    json_number(&chrome->json, "pool", note->pool);
    note_to_json(note, &chrome->json);
    json_end(&chrome->json, '}');
    json_end(&chrome->json, '}');
    write_slice(chrome, change, note);
}

static void write_range(struct chrome *chrome, const struct tn_told_range *range)
{
    const struct history *history = &chrome->tale->history;
    struct tn_title_text title;

    if (range->title > UINT32_MAX ||
        tn_title_read(&history->stacks, (uint32_t)range->title, &title) != TN_SCROLL_READ)
        title.text[0] = '\0';
    begin(chrome, range->ends ? "E" : "B", history_time(history, range->time), range->thread,
          title.text);
    json_end(&chrome->json, '}');
}

bool format_chrome(struct tale *tale, FILE *file)
{
    struct chrome chrome = {.tale = tale, .json = {.file = file, .packed_depth = 2}};
    struct sum *sum = NULL;
    bool done = true;

    json_begin(&chrome.json, NULL, '{');
    json_begin(&chrome.json, "traceEvents", '[');
    write_name(&chrome);
    for (size_t i = 0; done && i < tale->story.count; i++) {
        const struct change *change = &tale->story.all[i];

        if (change->kind == CHANGE_NOTE) {
            write_note(&chrome, change);
            continue;
        }
        sum = sums_add(&chrome.sums, change);
        done = sum != NULL;
        if (done)
            write_sum(&chrome, change->time, sum);
    }
    for (size_t i = 0; done && i < tale->ranges.count; i++)
        write_range(&chrome, &tale->ranges.all[i]);
    json_end(&chrome.json, ']');
    json_text(&chrome.json, "displayTimeUnit", "ns");
    json_begin(&chrome.json, "otherData", '{');
    json_number(&chrome.json, "begun_ns", tale->begin);
    json_end(&chrome.json, '}');
    json_end(&chrome.json, '}');
    sums_free(&chrome.sums);
    return done;
}
