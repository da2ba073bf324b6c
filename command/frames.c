// SPDX-License-Identifier: Apache-2.0
/* A frame is the address behind a call. The call itself is before it, and has the line. */
#include "frames.h"

#include <inttypes.h>
#include <string.h>

#include "base/title.h"
#include "text.h"

/* The frames of a stack; why there are none, or NULL. */
static const char *read_stack(struct history *history, uint64_t id, struct tn_stack *stack)
{
    stack->count = 0;
    if (id == TN_STACKS_NONE)
        return "no stack was taken";
    if (id == TN_STACKS_FULL)
        return "no room was left for the stack";
    if (id == TN_STACKS_OWN)
        return "Tarn's own: contents of a checkpoint";
    if (id > UINT32_MAX || tn_stacks_read(&history->stacks, (uint32_t)id, stack) != TN_SCROLL_READ)
        return "the stack cannot be read";
    return stack->count == 0 ? "the stack has no frames" : NULL;
}

static const char *short_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static void print_function(const struct symbol *symbol, unsigned which, FILE *file)
{
    const struct function_at *function = &symbol->functions[which];

    if (function->name[0] != '\0')
        text_put(file, function->name);
    else if (symbol->module != NULL)
        (void)fprintf(file, "?");
    if (function->file[0] != '\0') {
        (void)fputs(" at ", file);
        text_put(file, function->file);
        (void)fprintf(file, ":%u", function->line);
    }
    if (which + 1 < symbol->count)
        (void)fputs(" (inlined)", file);
}

static void print_place(const struct symbol *symbol, uint64_t address, FILE *file)
{
    if (symbol->module == NULL || symbol->module->path[0] == '\0') {
        (void)fprintf(file, "0x%" PRIx64, address);
        return;
    }
    text_put(file, short_name(symbol->module->path));
    (void)fprintf(file, "+0x%" PRIx64, symbol->offset);
}

/* The text of a title among frames; empty: it cannot be read. */
static const char *read_title(const struct history *history, uint64_t frame,
                              struct tn_title_text *title)
{
    if (tn_title_read(&history->stacks, (uint32_t)frame, title) != TN_SCROLL_READ)
        title->text[0] = '\0';
    return title->text;
}

static void print_title(const struct history *history, uint64_t frame, FILE *file, int indent)
{
    struct tn_title_text title;

    (void)fprintf(file, "%*s%s", indent, "",
                  tn_stack_title_of(frame, TN_STACK_LABEL) != 0 ? "label: " : "");
    text_put(file, read_title(history, frame, &title));
    (void)fputc('\n', file);
}

static void print_frame(struct symbols *symbols, uint64_t frame, FILE *file, int indent)
{
    struct symbol symbol;

    symbols_find(symbols, frame - 1, &symbol);
    for (unsigned i = 0; i < symbol.count; i++) {
        const bool is_last = i + 1 == symbol.count;

        (void)fprintf(file, "%*s", indent, "");
        if (symbol.functions[i].name[0] != '\0' || symbol.functions[i].file[0] != '\0') {
            print_function(&symbol, i, file);
            if (is_last)
                (void)fputs(" in ", file);
        }
        if (is_last)
            print_place(&symbol, frame - 1, file);
        (void)fputc('\n', file);
    }
}

void frames_print(struct history *history, struct symbols *symbols, uint64_t stack, FILE *file,
                  int indent)
{
    struct tn_stack frames;
    const char *none = read_stack(history, stack, &frames);

    if (none != NULL)
        (void)fprintf(file, "%*s(%s)\n", indent, "", none);
    for (size_t i = 0; i < frames.count; i++) {
        if ((frames.frames[i] & TN_STACK_TITLE) != 0)
            print_title(history, frames.frames[i], file, indent);
        else
            print_frame(symbols, frames.frames[i], file, indent);
    }
}

/* The text of one frame, with its end; no longer than the room. */
static void write_key(char *key, size_t room, const struct history *history, uint64_t frame)
{
    char build_id[HISTORY_BUILD_ID_BYTES];
    const struct tn_module *module;
    struct tn_title_text title;

    if ((frame & TN_STACK_TITLE) != 0) {
        (void)snprintf(key, room, "%c%s\n",
                       tn_stack_title_of(frame, TN_STACK_LABEL) != 0 ? 'l' : 'i',
                       read_title(history, frame, &title));
        return;
    }
    module = history_module_at(history, frame - 1);
    if (module == NULL) {
        (void)snprintf(key, room, "a%" PRIx64 "\n", frame);
        return;
    }
    history_print_build_id(build_id, module);
    (void)snprintf(key, room, "m%s %s %" PRIx64 "\n", short_name(module->path), build_id,
                   frame - module->start + module->offset);
}

void frames_key(char key[FRAMES_KEY_BYTES], struct history *history, uint64_t stack)
{
    struct tn_stack frames;
    const char *none = read_stack(history, stack, &frames);
    size_t used = 0;

    (void)snprintf(key, FRAMES_KEY_BYTES, "%s", none != NULL ? none : "");
    for (size_t i = 0; i < frames.count && used + 1 < FRAMES_KEY_BYTES; i++) {
        write_key(key + used, FRAMES_KEY_BYTES - used, history, frames.frames[i]);
        used += strlen(key + used);
    }
}

static void put_known(struct json *json, const char *key, const char *text)
{
    if (text[0] != '\0')
        json_text(json, key, text);
}

static void title_to_json(const struct history *history, uint64_t frame, struct json *json)
{
    struct tn_title_text title;

    json_begin(json, NULL, '{');
    json_text(json, tn_stack_title_of(frame, TN_STACK_LABEL) != 0 ? "label" : "interpreted",
              read_title(history, frame, &title));
    json_end(json, '}');
}

static void frame_to_json(struct symbols *symbols, uint64_t frame, struct json *json)
{
    char build_id[HISTORY_BUILD_ID_BYTES] = "";
    struct symbol symbol;

    symbols_find(symbols, frame - 1, &symbol);
    if (symbol.module != NULL)
        history_print_build_id(build_id, symbol.module);
    for (unsigned i = 0; i < symbol.count; i++) {
        const struct function_at *function = &symbol.functions[i];

        json_begin(json, NULL, '{');
        json_address(json, "address", frame - 1);
        put_known(json, "function", function->name);
        put_known(json, "file", function->file);
        if (function->line != 0)
            json_number(json, "line", function->line);
        json_bool(json, "inlined", i + 1 < symbol.count);
        if (symbol.module != NULL) {
            put_known(json, "module", symbol.module->path);
            put_known(json, "build_id", build_id);
            json_address(json, "offset", symbol.offset);
        }
        json_end(json, '}');
    }
}

void frames_to_json(struct history *history, struct symbols *symbols, uint64_t stack,
                    struct json *json)
{
    struct tn_stack frames;

    (void)read_stack(history, stack, &frames);
    json_begin(json, "frames", '[');
    for (size_t i = 0; i < frames.count; i++) {
        if ((frames.frames[i] & TN_STACK_TITLE) != 0)
            title_to_json(history, frames.frames[i], json);
        else
            frame_to_json(symbols, frames.frames[i], json);
    }
    json_end(json, ']');
}
