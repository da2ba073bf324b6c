// SPDX-License-Identifier: Apache-2.0
#include "telling.h"

#include <inttypes.h>

#include "frames.h"
#include "heap/history.h"
#include "notes.h"
#include "text.h"

static const char *kind_name(unsigned kind)
{
    switch (kind) {
    case TN_HISTORY_ALLOC:
        return "allocated";
    case TN_HISTORY_FREE:
        return "freed";
    case TN_HISTORY_RESTORED:
        return "restored";
    default:
        return "note";
    }
}

static void print_words(const struct tn_told_block *block, FILE *file)
{
    (void)fprintf(file, "block %" PRIu64, block->sequence);
    if (block->bytes == 0)
        return;
    (void)fprintf(file, ", address 0x%" PRIx64 ", ", block->address);
    text_bytes(file, (double)block->bytes);
    (void)fprintf(file, " (%" PRIu64 " bytes requested)", block->requested);
}

void telling_print_event(const struct telling *telling, const struct tn_told_event *event,
                         bool with_stack, FILE *file)
{
    const struct owner *owner = owners_find(telling->owners, event->writer);

    text_time(file, history_time(telling->history, event->since));
    if (event->kind == TN_HISTORY_NOTE) {
        (void)fprintf(file, "  %s", note_name(event->note.note));
        if (event->note.pool != 0)
            (void)fprintf(file, ", pool %" PRIu64, event->note.pool);
        note_print(&event->note, file);
        (void)fputc('\n', file);
        return;
    }
    (void)fprintf(file, "  %s ", kind_name(event->kind));
    print_words(&event->block, file);
    if (owner != NULL) {
        (void)fprintf(file, ", pool %" PRIu64 ", stream %" PRIu64, owner->pool, owner->stream);
        if (owner->capture != 0)
            (void)fprintf(file, ", capture %" PRIu64, owner->capture);
    }
    (void)fputc('\n', file);
    if (with_stack && event->kind != TN_HISTORY_FREE && event->block.stack != 0)
        frames_print(telling->history, telling->symbols, event->block.stack, file, 4);
}

static void block_to_json(const struct tn_told_block *block, struct json *json)
{
    json_number(json, "block", block->sequence);
    if (block->bytes == 0)
        return;
    json_address(json, "address", block->address);
    json_number(json, "bytes", block->bytes);
    json_number(json, "requested", block->requested);
    json_number(json, "stack", block->stack);
}

void telling_event_to_json(const struct telling *telling, const struct tn_told_event *event,
                           struct json *json)
{
    const struct owner *owner = owners_find(telling->owners, event->writer);

    json_begin(json, NULL, '{');
    json_number(json, "time_ns", history_time(telling->history, event->since));
    json_bool(json, "exact", event->kind == TN_HISTORY_NOTE);
    if (event->kind == TN_HISTORY_NOTE) {
        json_text(json, "event", note_name(event->note.note));
        json_number(json, "pool", event->note.pool);
        note_to_json(&event->note, json);
        json_end(json, '}');
        return;
    }
    json_text(json, "event", kind_name(event->kind));
    block_to_json(&event->block, json);
    if (owner != NULL) {
        json_number(json, "pool", owner->pool);
        json_number(json, "stream", owner->stream);
        json_number(json, "capture", owner->capture);
    }
    if (event->kind != TN_HISTORY_FREE && event->block.stack != 0)
        frames_to_json(telling->history, telling->symbols, event->block.stack, json);
    json_end(json, '}');
}

void telling_print_block(const struct telling *telling, const struct tn_told_block *block,
                         FILE *file)
{
    print_words(block, file);
    if (block->pool != 0)
        (void)fprintf(file, ", pool %" PRIu64, block->pool);
    (void)fputc('\n', file);
    frames_print(telling->history, telling->symbols, block->stack, file, 4);
}

void telling_block_to_json(const struct telling *telling, const struct tn_told_block *block,
                           struct json *json)
{
    json_begin(json, NULL, '{');
    block_to_json(block, json);
    json_number(json, "pool", block->pool);
    frames_to_json(telling->history, telling->symbols, block->stack, json);
    json_end(json, '}');
}
