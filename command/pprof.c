// SPDX-License-Identifier: Apache-2.0
/* The fields are those of pprof's proto/profile.proto. A sample is a stack with four values: what was
 * allocated in the story, and what is live at its end. Where some allocations alone have a stack, the values
 * are estimates of all.
 *
 * Locations, functions and texts get their numbers as they are first seen; the message wants those of
 * locations and functions from 1, and the empty text as number 0. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/contract.h"
#include "base/host.h"
#include "base/title.h"
#include "formats.h"
#include "gzip.h"
#include "head.h"
#include "intern.h"
#include "live.h"
#include "proto.h"

enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_TEXT = 6,
    PROFILE_TIME = 9,
    PROFILE_DURATION = 10,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD = 12,
    PROFILE_DEFAULT_TYPE = 14,
    TYPE_TYPE = 1,
    TYPE_UNIT = 2,
    SAMPLE_LOCATIONS = 1,
    SAMPLE_VALUES = 2,
    SAMPLE_LABEL = 3,
    LABEL_KEY = 1,
    LABEL_TEXT = 2,
    MAPPING_ID = 1,
    MAPPING_START = 2,
    MAPPING_END = 3,
    MAPPING_OFFSET = 4,
    MAPPING_FILE = 5,
    MAPPING_BUILD_ID = 6,
    MAPPING_HAS_FUNCTIONS = 7,
    MAPPING_HAS_FILES = 8,
    MAPPING_HAS_LINES = 9,
    MAPPING_HAS_INLINED = 10,
    LOCATION_ID = 1,
    LOCATION_MAPPING = 2,
    LOCATION_ADDRESS = 3,
    LOCATION_LINE = 4,
    LINE_FUNCTION = 1,
    LINE_LINE = 2,
    FUNCTION_ID = 1,
    FUNCTION_NAME = 2,
    FUNCTION_SYSTEM_NAME = 3,
    FUNCTION_FILE = 4,
};

enum { ALLOCATED_COUNT, ALLOCATED_BYTES, LIVE_COUNT, LIVE_BYTES, VALUES };

enum { KEY_BYTES = SYMBOL_NAME_BYTES + SYMBOL_FILE_BYTES + 8 };

struct pprof {
    struct tale *tale;
    struct proto proto;
    struct intern texts;
    struct intern functions; /* a name, a line's end, a file */
    struct intern locations; /* a frame as hexadecimal digits */
    struct intern stacks;    /* the number */
    double (*values)[VALUES];
    size_t capacity; /* of values */
    bool is_broken;
};

static uint64_t number_of(struct pprof *pprof, struct intern *intern, const char *text,
                          bool *is_new)
{
    const int64_t number = intern_add(intern, text, is_new);

    pprof->is_broken = pprof->is_broken || number == INTERN_NONE;
    return number == INTERN_NONE ? 0 : (uint64_t)number;
}

static uint64_t text_of(struct pprof *pprof, const char *text)
{
    return number_of(pprof, &pprof->texts, text, NULL);
}

static void write_type(struct pprof *pprof, unsigned field, const char *type, const char *unit)
{
    proto_begin(&pprof->proto, field);
    proto_number(&pprof->proto, TYPE_TYPE, text_of(pprof, type));
    proto_number(&pprof->proto, TYPE_UNIT, text_of(pprof, unit));
    proto_end(&pprof->proto);
}

static void write_mappings(struct pprof *pprof)
{
    const struct history *history = &pprof->tale->history;
    struct proto *proto = &pprof->proto;
    char build_id[HISTORY_BUILD_ID_BYTES];

    for (size_t i = 0; i < history->module_count; i++) {
        const struct tn_module *module = &history->modules[i];

        history_print_build_id(build_id, module);
        proto_begin(proto, PROFILE_MAPPING);
        proto_number(proto, MAPPING_ID, i + 1);
        proto_number(proto, MAPPING_START, module->start);
        proto_number(proto, MAPPING_END, module->end);
        proto_number(proto, MAPPING_OFFSET, module->offset);
        proto_number(proto, MAPPING_FILE, text_of(pprof, module->path));
        proto_number(proto, MAPPING_BUILD_ID, text_of(pprof, build_id));
        for (unsigned has = MAPPING_HAS_FUNCTIONS; has <= MAPPING_HAS_INLINED; has++)
            proto_number(proto, has, 1);
        proto_end(proto);
    }
}

/* The function's number; described where it is new. No other message may be open. */
static uint64_t function_of(struct pprof *pprof, const char *name, const char *file)
{
    struct proto *proto = &pprof->proto;
    char key[KEY_BYTES];
    bool is_new;
    uint64_t number;

    (void)snprintf(key, sizeof key, "%.*s\n%s", SYMBOL_NAME_BYTES, name, file);
    number = number_of(pprof, &pprof->functions, key, &is_new) + 1;
    if (!is_new)
        return number;
    proto_begin(proto, PROFILE_FUNCTION);
    proto_number(proto, FUNCTION_ID, number);
    proto_number(proto, FUNCTION_NAME, text_of(pprof, name));
    proto_number(proto, FUNCTION_SYSTEM_NAME, text_of(pprof, name));
    proto_number(proto, FUNCTION_FILE, text_of(pprof, file));
    proto_end(proto);
    return number;
}

static void write_line(struct proto *proto, uint64_t function, uint64_t line)
{
    proto_begin(proto, LOCATION_LINE);
    proto_number(proto, LINE_FUNCTION, function);
    if (line != 0)
        proto_number(proto, LINE_LINE, line);
    proto_end(proto);
}

/* An address, with the functions that it is in, innermost first. */
static void describe_address(struct pprof *pprof, uint64_t address, uint64_t number)
{
    const struct history *history = &pprof->tale->history;
    struct proto *proto = &pprof->proto;
    uint64_t functions[SYMBOL_INLINED_MAX];
    struct symbol symbol;

    symbols_find(pprof->tale->symbols, address, &symbol);
    TN_ASSERT(symbol.count <= SYMBOL_INLINED_MAX);
    for (unsigned i = 0; i < symbol.count; i++) {
        const struct function_at *function = &symbol.functions[i];

        functions[i] =
            function->name[0] != '\0' ? function_of(pprof, function->name, function->file) : 0;
    }
    proto_begin(proto, PROFILE_LOCATION);
    proto_number(proto, LOCATION_ID, number);
    if (symbol.module != NULL)
        proto_number(proto, LOCATION_MAPPING, (uint64_t)(symbol.module - history->modules) + 1);
    proto_number(proto, LOCATION_ADDRESS, address);
    for (unsigned i = 0; i < symbol.count; i++) {
        if (functions[i] != 0)
            write_line(proto, functions[i], symbol.functions[i].line);
    }
    proto_end(proto);
}

/* A frame of an interpreter. */
static void describe_title(struct pprof *pprof, const char *text, uint64_t number)
{
    const uint64_t function = function_of(pprof, text, "");

    proto_begin(&pprof->proto, PROFILE_LOCATION);
    proto_number(&pprof->proto, LOCATION_ID, number);
    write_line(&pprof->proto, function, 0);
    proto_end(&pprof->proto);
}

static void read_title(const struct pprof *pprof, uint64_t frame, struct tn_title_text *title)
{
    if (tn_title_read(&pprof->tale->history.stacks, (uint32_t)frame, title) != TN_SCROLL_READ)
        title->text[0] = '\0';
}

static bool is_label(uint64_t frame)
{
    return (frame & TN_STACK_TITLE) != 0 && tn_stack_title_of(frame, TN_STACK_LABEL) != 0;
}

/* The location's number; described where it is new. */
static uint64_t location_of(struct pprof *pprof, uint64_t frame)
{
    struct tn_title_text title;
    char key[32];
    bool is_new;
    uint64_t number;

    (void)snprintf(key, sizeof key, "%" PRIx64, frame);
    number = number_of(pprof, &pprof->locations, key, &is_new) + 1;
    if (is_new && (frame & TN_STACK_TITLE) != 0) {
        read_title(pprof, frame, &title);
        describe_title(pprof, title.text, number);
    } else if (is_new) {
        describe_address(pprof, frame - 1, number);
    }
    return number;
}

static void write_label(struct pprof *pprof, const char *text)
{
    proto_begin(&pprof->proto, SAMPLE_LABEL);
    proto_number(&pprof->proto, LABEL_KEY, text_of(pprof, "label"));
    proto_number(&pprof->proto, LABEL_TEXT, text_of(pprof, text));
    proto_end(&pprof->proto);
}

/* The frames are described first: a message is not begun within another one. */
static void write_sample(struct pprof *pprof, uint64_t stack, const double values[VALUES])
{
    struct proto *proto = &pprof->proto;
    uint64_t numbers[TN_STACK_FRAMES_MAX];
    struct tn_title_text title = {.text = ""};
    struct tn_stack frames;
    size_t count = 0;

    frames.count = 0;
    if (stack > UINT32_MAX ||
        tn_stacks_read(&pprof->tale->history.stacks, (uint32_t)stack, &frames) != TN_SCROLL_READ)
        frames.count = 0;
    for (size_t i = 0; i < frames.count; i++) {
        if (is_label(frames.frames[i]))
            read_title(pprof, frames.frames[i], &title);
        else
            numbers[count++] = location_of(pprof, frames.frames[i]);
    }
    proto_begin(proto, PROFILE_SAMPLE);
    proto_begin(proto, SAMPLE_LOCATIONS);
    for (size_t i = 0; i < count; i++)
        proto_packed(proto, numbers[i]);
    proto_end(proto);
    proto_begin(proto, SAMPLE_VALUES);
    for (size_t i = 0; i < VALUES; i++)
        proto_packed(proto, (uint64_t)(values[i] + 0.5));
    proto_end(proto);
    if (title.text[0] != '\0')
        write_label(pprof, title.text);
    proto_end(proto);
}

/* The values of a stack; NULL: no memory. */
static double *values_of(struct pprof *pprof, uint64_t stack)
{
    void *values = pprof->values;
    char key[32];
    uint64_t number;

    (void)snprintf(key, sizeof key, "%" PRIu64, stack);
    number = number_of(pprof, &pprof->stacks, key, NULL);
    pprof->is_broken = pprof->is_broken ||
                       !tn_host_grow(&values, &pprof->capacity, number + 1, sizeof *pprof->values);
    if (pprof->is_broken)
        return NULL;
    pprof->values = values;
    return pprof->values[number];
}

static void add_change(struct pprof *pprof, const struct change *change)
{
    struct history *history = &pprof->tale->history;
    const double weight =
        live_weight(change->requested, change->stack, head_sample_bytes(history), history);
    const double sign = change->kind == CHANGE_FREE ? -1 : 1;
    double *values = values_of(pprof, change->stack);

    if (values == NULL)
        return;
    values[LIVE_COUNT] += sign * weight;
    values[LIVE_BYTES] += sign * weight * (double)change->bytes;
    if (change->kind != CHANGE_ALLOC)
        return;
    values[ALLOCATED_COUNT] += weight;
    values[ALLOCATED_BYTES] += weight * (double)change->bytes;
}

static void write_samples(struct pprof *pprof)
{
    const struct story *story = &pprof->tale->story;

    for (size_t i = 0; !pprof->is_broken && i < story->count; i++) {
        if (story->all[i].kind != CHANGE_NOTE)
            add_change(pprof, &story->all[i]);
    }
    for (size_t i = 0; !pprof->is_broken && i < pprof->stacks.count; i++)
        write_sample(pprof, strtoull(pprof->stacks.all[i], NULL, 10), pprof->values[i]);
}

static void write_all(struct pprof *pprof)
{
    const struct tale *tale = pprof->tale;
    const struct story *story = &tale->story;
    const uint64_t end = story->count > 0 ? story->all[story->count - 1].time : tale->begin;
    struct proto *proto = &pprof->proto;

    (void)text_of(pprof, "");
    write_type(pprof, PROFILE_SAMPLE_TYPE, "alloc_objects", "count");
    write_type(pprof, PROFILE_SAMPLE_TYPE, "alloc_space", "bytes");
    write_type(pprof, PROFILE_SAMPLE_TYPE, "inuse_objects", "count");
    write_type(pprof, PROFILE_SAMPLE_TYPE, "inuse_space", "bytes");
    write_type(pprof, PROFILE_PERIOD_TYPE, "space", "bytes");
    proto_number(proto, PROFILE_PERIOD, head_sample_bytes(&tale->history));
    proto_number(proto, PROFILE_TIME, tale->begin);
    proto_number(proto, PROFILE_DURATION, end - tale->begin);
    proto_number(proto, PROFILE_DEFAULT_TYPE, text_of(pprof, "inuse_space"));
    write_mappings(pprof);
    write_samples(pprof);
    for (size_t i = 0; i < pprof->texts.count; i++)
        proto_text(proto, PROFILE_TEXT, pprof->texts.all[i]);
}

bool format_pprof(struct tale *tale, FILE *file)
{
    struct pprof pprof = {.tale = tale};
    bool done;

    write_all(&pprof);
    done = !pprof.is_broken && !pprof.proto.is_broken &&
           gzip_write(pprof.proto.bytes, pprof.proto.count, file);
    intern_free(&pprof.texts);
    intern_free(&pprof.functions);
    intern_free(&pprof.locations);
    intern_free(&pprof.stacks);
    tn_host_free(pprof.values);
    proto_free(&pprof.proto);
    return done;
}
