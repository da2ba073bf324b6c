// SPDX-License-Identifier: Apache-2.0
/* A process that runs writes while it is read: each read is then one of the file, in the order that
 * the readers ask for. A file of a dead process never changes, and is read in large pieces. */
#include "history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/host.h"
#include "say.h"

/* A source: the context is a struct history. */
static bool from_history(void *context, size_t offset, void *bytes, size_t count)
{
    struct history *history = context;
    const size_t parts =
        history->source.page_count * TN_RING_PAGE_BYTES + history->source.area_bytes;
    const size_t base = offset >= parts ? parts : 0; /* a piece is in one part */
    const size_t begin = base + tn_round_down(offset - base, HISTORY_READ_BYTES);

    _Static_assert(TN_RING_FIRST_PART_BYTES % HISTORY_READ_BYTES == 0, "pieces fill a part");
    if (history->is_alive || offset + count > begin + HISTORY_READ_BYTES)
        return tn_ring_from_file(&history->reader, offset, bytes, count);
    if (history->read_at != begin || history->read_bytes == 0) {
        history->read_at = begin;
        history->read_bytes = HISTORY_READ_BYTES;
        if (!tn_ring_from_file(&history->reader, begin, history->read, HISTORY_READ_BYTES))
            history->read_bytes = 0; /* it crosses the file's end, or is in no part of it */
    }
    if (history->read_bytes == 0)
        return tn_ring_from_file(&history->reader, offset, bytes, count);
    memcpy(bytes, history->read + (offset - begin), count);
    return true;
}

/* A source of a scroll: the context is a struct history. */
static bool from_stacks(void *context, size_t offset, void *bytes, size_t count)
{
    struct history *history = context;

    return from_history(history, history->source.page_count * TN_RING_PAGE_BYTES + offset, bytes,
                        count);
}

static bool from_modules(void *context, size_t offset, void *bytes, size_t count)
{
    const struct history *history = context;

    TN_ASSERT(offset + count <= history->reader.head.area_bytes[1]);
    return from_stacks(context, tn_ring_area_offset(&history->reader.head, 1) + offset, bytes,
                       count);
}

static bool read_modules(struct history *history)
{
    const struct tn_scroll_reader reader = {from_modules, history,
                                            (size_t)history->reader.head.area_bytes[1]};
    void *modules = NULL;
    size_t capacity = 0;
    uint32_t id = TN_SCROLL_FIRST;

    while (history->module_count < HISTORY_MODULES_MAX) {
        struct tn_module module;
        uint32_t next;

        if (tn_modules_read(&reader, id, &module, &next) != TN_SCROLL_READ)
            break;
        if (!tn_host_grow(&modules, &capacity, history->module_count + 1, sizeof module))
            return false;
        history->modules = modules;
        history->modules[history->module_count++] = module;
        id = next;
    }
    return true;
}

/* The file of the module that was found first, which is the program's; else what the kernel says of a
 * process that runs. */
static void name_program(struct history *history)
{
    char path[64];
    FILE *file;

    if (history->module_count > 0 && history->modules[0].path[0] != '\0') {
        const char *slash = strrchr(history->modules[0].path, '/');

        (void)snprintf(history->program, sizeof history->program, "%.255s",
                       slash != NULL ? slash + 1 : history->modules[0].path);
        return;
    }
    if (!history->is_alive)
        return;
    (void)snprintf(path, sizeof path, "/proc/%llu/comm",
                   (unsigned long long)history->reader.head.process);
    file = fopen(path, "re");
    if (file == NULL)
        return;
    if (fgets(history->program, sizeof history->program, file) != NULL)
        history->program[strcspn(history->program, "\n")] = '\0';
    (void)fclose(file);
}

static bool refuse(const char *path, enum tn_ring_opened opened,
                   const struct tn_ring_reader *reader, int error)
{
    if (opened == TN_RING_VERSION)
        (void)say(ANSWER_WRONG, "%s is a history of version %u: this command reads version %u",
                  path, (unsigned)reader->head.version, (unsigned)TN_RING_FILE_VERSION);
    else if (opened == TN_RING_FOREIGN)
        (void)say(ANSWER_WRONG, "%s is no history, or is cut short, or is another user's", path);
    else if (error == EACCES || error == EPERM)
        (void)say(ANSWER_WRONG, "%s may not be read: it is another user's", path);
    else if (error == ELOOP)
        (void)say(ANSWER_WRONG, "%s is a symbolic link: name the file that it leads to", path);
    else
        (void)say(ANSWER_WRONG, "%s cannot be opened: %s", path, strerror(error));
    return false;
}

enum tn_ring_opened history_try(struct history *history, const char *path)
{
    enum tn_ring_opened opened;

    *history = (struct history){.path = path};
    opened = tn_ring_reader_open(&history->reader, path);
    if (opened != TN_RING_OPENED)
        return opened;
    history->is_alive = tn_ring_reader_is_alive(&history->reader);
    history->source = (struct tn_told_source){
        .read = from_history,
        .context = history,
        .page_count = (size_t)history->reader.head.page_count,
        .area_bytes = tn_ring_area_offset(&history->reader.head, TN_RING_AREAS),
        .part_count = tn_ring_reader_parts(&history->reader),
    };
    history->stacks =
        (struct tn_scroll_reader){from_stacks, history, (size_t)history->reader.head.area_bytes[0]};
    history->read = tn_host_alloc(HISTORY_READ_BYTES, 1);
    if (history->read == NULL || !read_modules(history)) {
        history_close(history);
        errno = ENOMEM;
        return TN_RING_NO_FILE;
    }
    name_program(history);
    return TN_RING_OPENED;
}

bool history_open(struct history *history, const char *path)
{
    enum tn_ring_opened opened = history_try(history, path);

    return opened == TN_RING_OPENED || refuse(path, opened, &history->reader, errno);
}

void history_close(struct history *history)
{
    TN_ASSERT(history->reader.fd >= 0);
    (void)close(history->reader.fd);
    tn_host_free(history->modules);
    tn_host_free(history->read);
    *history = (struct history){.reader.fd = -1};
}

uint64_t history_time(const struct history *history, uint64_t stamp)
{
    return history->reader.head.began + (stamp - history->reader.head.began_in_stamps);
}

const struct tn_module *history_module_at(const struct history *history, uint64_t address)
{
    for (size_t i = history->module_count; i > 0; i--) {
        const struct tn_module *module = &history->modules[i - 1];

        if (address >= module->start && address < module->end)
            return module;
    }
    return NULL;
}

void history_print_build_id(char text[HISTORY_BUILD_ID_BYTES], const struct tn_module *module)
{
    TN_ASSERT(module->build_id_bytes <= TN_MODULE_BUILD_ID_MAX);
    text[0] = '\0';
    for (size_t i = 0; i < module->build_id_bytes; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", module->build_id[i]);
}

size_t history_log_bytes(const struct history *history)
{
    return history->source.page_count * TN_RING_PAGE_BYTES;
}

bool history_is_label_alone(const struct history *history, uint64_t stack)
{
    struct tn_stack frames;

    return stack <= UINT32_MAX &&
           tn_stacks_read(&history->stacks, (uint32_t)stack, &frames) == TN_SCROLL_READ &&
           frames.count == 1 && tn_stack_title_of(frames.frames[0], TN_STACK_LABEL) != 0;
}
