// SPDX-License-Identifier: Apache-2.0
#include "head.h"

#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "text.h"

uint64_t head_sample_bytes(const struct history *history)
{
    return history->reader.head.notes[0];
}

/* The library's own module; NULL: it is not among them, as where a program has it inside. */
static const struct tn_module *find_library(const struct history *history)
{
    for (size_t i = 0; i < history->module_count; i++) {
        const char *slash = strrchr(history->modules[i].path, '/');

        if (slash != NULL && strncmp(slash, "/libtarn.so", 11) == 0)
            return &history->modules[i];
    }
    return NULL;
}

static void print_lost(const struct tn_told *told, FILE *file)
{
    if (told->lost_pages > 0)
        (void)fprintf(file, "lost      %" PRIu64 " older pages of the log, overwritten\n",
                      told->lost_pages);
    if (told->lost_events > 0)
        (void)fprintf(file, "lost      %" PRIu64 " events that found no page: give it more bytes\n",
                      told->lost_events);
    if (told->lost_blocks > 0)
        (void)fprintf(file, "lost      %" PRIu64 " live blocks of which no more is known\n",
                      told->lost_blocks);
    if (told->broken_pages > 0)
        (void)fprintf(file, "broken    %" PRIu64 " pages of the log\n", told->broken_pages);
    if (told->unread_parts > 0)
        (void)fprintf(file,
                      "unread    %" PRIu64 " parts of the table: cut short, or never in the file\n",
                      told->unread_parts);
}

void head_print(const struct history *history, const struct tn_told *told,
                const uint64_t *event_count, FILE *file)
{
    const struct tn_ring_file_head *head = &history->reader.head;
    const struct tn_module *library = find_library(history);
    const uint64_t sample_bytes = head_sample_bytes(history);
    char id[HISTORY_BUILD_ID_BYTES];

    (void)fputs("history   ", file);
    text_put(file, history->path);
    (void)fprintf(file, ", version %u\nprocess   %" PRIu64, (unsigned)head->version, head->process);
    if (history->program[0] != '\0') {
        (void)fputs(" (", file);
        text_put(file, history->program);
        (void)fputc(')', file);
    }
    (void)fprintf(file, ", %s\nbegun     ",
                  history->is_alive ? "running" : "ended without closing its device");
    text_time(file, head->began);
    (void)fputc('\n', file);
    if (library != NULL) {
        history_print_build_id(id, library);
        (void)fputs("library   ", file);
        text_put(file, library->path);
        (void)fprintf(file, ", build id %s\n", id[0] != '\0' ? id : "none");
    }
    (void)fputs("log       ", file);
    text_bytes(file, (double)history_log_bytes(history));
    if (event_count != NULL)
        (void)fprintf(file, ", %" PRIu64 " events", *event_count);
    if (sample_bytes == 0)
        (void)fputs("; no stacks: see history_stacks\n", file);
    else if (sample_bytes == 1)
        (void)fputs("; a stack of each allocation\n", file);
    else
        (void)fprintf(file, "; stacks of one allocation in %" PRIu64 " bytes\n", sample_bytes);
    print_lost(told, file);
    (void)fputc('\n', file);
}

void head_to_json(const struct history *history, const struct tn_told *told,
                  const uint64_t *event_count, struct json *json)
{
    const struct tn_ring_file_head *head = &history->reader.head;
    const struct tn_module *library = find_library(history);
    char id[HISTORY_BUILD_ID_BYTES];

    json_text(json, "file", history->path);
    json_number(json, "version", head->version);
    json_number(json, "process", head->process);
    json_text(json, "program", history->program[0] != '\0' ? history->program : NULL);
    json_bool(json, "running", history->is_alive);
    json_number(json, "begun_ns", head->began);
    if (library != NULL) {
        history_print_build_id(id, library);
        json_text(json, "library", library->path);
        json_text(json, "library_build_id", id);
    }
    json_number(json, "log_bytes", history_log_bytes(history));
    json_number(json, "stack_bytes", history->stacks.bytes);
    json_number(json, "sample_bytes", head_sample_bytes(history));
    if (event_count != NULL)
        json_number(json, "events_in_log", *event_count);
    json_number(json, "lost_pages", told->lost_pages);
    json_number(json, "lost_events", told->lost_events);
    json_number(json, "lost_blocks", told->lost_blocks);
    json_number(json, "broken_pages", told->broken_pages);
    json_number(json, "unread_parts", told->unread_parts);
}
