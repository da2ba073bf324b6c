// SPDX-License-Identifier: Apache-2.0
/* The loader is asked for the symbol in front of an address. The answer is believed where the loader
 * names the same module as the history: a module may have gone since, and another may have come.
 *
 * Trade-offs: the loader looks through all symbols of the module. A large library has some hundred
 * thousand, so a frame is to be named once, and kept. */
#include "observe/naming.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/contract.h"
#include "base/host.h"
#include "base/stack.h"

struct tn_naming_module {
    uint64_t start;
    uint64_t end;
    uint64_t offset;
    char path[TN_MODULE_PATH_MAX + 1];
};

static bool add(struct tn_naming *naming, size_t *capacity, const struct tn_module *module)
{
    void *all = naming->modules;

    if (!tn_host_grow(&all, capacity, naming->count + 1, sizeof *naming->modules))
        return false;
    naming->modules = all;
    naming->modules[naming->count] =
        (struct tn_naming_module){module->start, module->end, module->offset, ""};
    memcpy(naming->modules[naming->count].path, module->path, sizeof module->path);
    naming->count += 1;
    return true;
}

bool tn_naming_begin(struct tn_naming *naming, const struct tn_scroll *modules)
{
    const struct tn_scroll_reader reader = {tn_scroll_from_memory, (void *)(uintptr_t)modules,
                                            modules->word_count * sizeof(uint64_t)};
    const ssize_t length = readlink("/proc/self/exe", naming->program, TN_MODULE_PATH_MAX);
    uint32_t id = TN_SCROLL_FIRST;
    uint32_t next = 0;
    size_t capacity = 0;
    struct tn_module module;

    naming->modules = NULL;
    naming->count = 0;
    naming->program[length > 0 ? length : 0] = '\0';
    for (; tn_modules_read(&reader, id, &module, &next) == TN_SCROLL_READ; id = next) {
        if (!add(naming, &capacity, &module)) {
            tn_naming_end(naming);
            return false;
        }
    }
    TN_ASSERT(naming->count <= modules->word_count);
    return true;
}

void tn_naming_end(struct tn_naming *naming)
{
    tn_host_free(naming->modules);
    naming->modules = NULL;
    naming->count = 0;
}

/* The newest module that had the address; NULL: none did. */
static const struct tn_naming_module *find(const struct tn_naming *naming, uint64_t address)
{
    for (size_t i = naming->count; i > 0; i--) {
        const struct tn_naming_module *module = &naming->modules[i - 1];

        if (address >= module->start && address < module->end)
            return module;
    }
    return NULL;
}

static void copy_text(char *to, size_t room, const char *from)
{
    size_t i = 0;

    for (; from[i] != '\0' && i + 1 < room; i++)
        to[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
    TN_ASSERT(i < room);
    to[i] = '\0';
}

/* The function that the module exports in front of the address; NULL: none, or not any more. */
static const char *find_symbol(const struct tn_naming *naming,
                               const struct tn_naming_module *module, uint64_t address)
{
    Dl_info found;

    if (dladdr((const void *)(uintptr_t)address, &found) == 0 || found.dli_sname == NULL)
        return NULL;
    if (strcmp(found.dli_fname, module->path) != 0 && strcmp(naming->program, module->path) != 0)
        return NULL;
    return found.dli_sname;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

void tn_name_frame(const struct tn_naming *naming, uint64_t frame, struct tn_frame_name *name)
{
    const uint64_t address = frame - 1; /* within the call */
    const struct tn_naming_module *module;
    const char *symbol;
    char place[TN_FRAME_TEXT_MAX];

    TN_ASSERT((frame & TN_STACK_TITLE) == 0);
    *name = (struct tn_frame_name){.path = "??"};
    module = find(naming, address);
    if (module == NULL) {
        (void)snprintf(name->function, sizeof name->function, "0x%llx", (unsigned long long)frame);
        return;
    }
    name->offset = address - module->start + module->offset;
    copy_text(name->path, sizeof name->path, module->path);
    symbol = find_symbol(naming, module, address);
    if (symbol == NULL) {
        (void)snprintf(place, sizeof place, "%.400s+0x%llx", last_part(module->path),
                       (unsigned long long)name->offset);
        symbol = place;
    }
    copy_text(name->function, sizeof name->function, symbol);
}

void tn_name_text(const char *text, struct tn_frame_name *name)
{
    *name = (struct tn_frame_name){.path = "??"};
    copy_text(name->function, sizeof name->function, text);
}
