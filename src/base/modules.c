// SPDX-License-Identifier: Apache-2.0
/* The loader counts the objects that it has loaded. A refresh asks for this counter; where it has
 * risen, all objects are looked at. An object's mapping is added unless the newest record with one of
 * its addresses has the same mapping, build id and path.
 *
 * The loader reports with its lock held. Meanwhile nothing is allocated, for an allocator may wait for
 * the loader; the records that memory is set aside for at first are as many as have room. Two
 * refreshes may look at the same objects: what either adds, the other finds.
 *
 * The counter is asked for before the objects are looked at, and kept afterwards. A thread that finds
 * it unchanged thus finds all records; what is loaded meanwhile is looked at again.
 *
 * Trade-offs: what was known is compared by a hash of build id and path, in the process's own memory:
 * nothing in memory that others may write is trusted. Of two objects at one place with equal hashes,
 * one in 2^64, the second has no record. */
#include "base/modules.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/host.h"

enum {
    WORD_BYTES = sizeof(uint64_t),
    PATH_SHIFT = 32,
    NOTE_ALIGNMENT = 4,
};

_Static_assert(TN_MODULE_FIXED_WORDS + (TN_MODULE_BUILD_ID_MAX + TN_MODULE_PATH_MAX) / WORD_BYTES <=
                   TN_SCROLL_WORDS_MAX,
               "a record has room");

struct tn_module_range {
    uint64_t start;
    uint64_t end;
    uint64_t offset;
    uint64_t hash; /* of build id and path */
};

bool tn_modules_init(struct tn_modules *modules, void *memory, size_t bytes)
{
    /* A record's head and fixed words. */
    const size_t most = bytes / ((1 + TN_MODULE_FIXED_WORDS) * WORD_BYTES);

    *modules = (struct tn_modules){.range_max = most};
    tn_scroll_init(&modules->scroll, memory, bytes);
    modules->ranges = tn_host_alloc(tn_max(most, 1), sizeof *modules->ranges);
    return modules->ranges != NULL;
}

void tn_modules_drop(struct tn_modules *modules)
{
    TN_ASSERT(!tn_spin_is_taken(&modules->lock));
    tn_host_free(modules->ranges);
    *modules = (struct tn_modules){.ranges = NULL};
}

size_t tn_module_find_build_id(const unsigned char *notes, size_t bytes, const unsigned char **id)
{
    static const char gnu[] = "GNU";

    while (bytes >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        size_t name;
        size_t content;

        memcpy(&note, notes, sizeof note);
        name = tn_round_up(note.n_namesz, NOTE_ALIGNMENT);
        content = tn_round_up(note.n_descsz, NOTE_ALIGNMENT);
        notes += sizeof note;
        bytes -= sizeof note;
        if (name > bytes || content > bytes - name)
            return 0;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof gnu &&
            memcmp(notes, gnu, sizeof gnu) == 0) {
            *id = notes + name;
            return tn_min(note.n_descsz, TN_MODULE_BUILD_ID_MAX);
        }
        notes += name + content;
        bytes -= name + content;
    }
    return 0;
}

/* Whether the loader has mapped the notes, to be read. */
static bool is_mapped(const struct dl_phdr_info *object, const ElfW(Phdr) * notes)
{
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];

        if (part->p_type == PT_LOAD && (part->p_flags & PF_R) != 0 &&
            notes->p_vaddr >= part->p_vaddr && notes->p_memsz <= part->p_filesz &&
            notes->p_vaddr - part->p_vaddr <= part->p_filesz - notes->p_memsz)
            return true;
    }
    return false;
}

static size_t build_id_of(const struct dl_phdr_info *object, const unsigned char **id)
{
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        size_t bytes = 0;

        if (part->p_type == PT_NOTE && is_mapped(object, part))
            bytes = tn_module_find_build_id(
                (const unsigned char *)(object->dlpi_addr + part->p_vaddr), part->p_memsz, id);
        if (bytes > 0)
            return bytes;
    }
    return 0;
}

/* What an object's records have in common: words from the fourth on, and how many. */
struct name {
    uint64_t words[TN_SCROLL_WORDS_MAX];
    size_t count;
    uint64_t hash;
};

static void name_object(const struct dl_phdr_info *object, const char *path, struct name *name)
{
    const unsigned char *id = NULL;
    const size_t id_bytes = build_id_of(object, &id);
    size_t path_bytes = strlen(path);
    unsigned char *text = (unsigned char *)&name->words[TN_MODULE_FIXED_WORDS];

    if (path_bytes > TN_MODULE_PATH_MAX) {
        path += path_bytes - TN_MODULE_PATH_MAX;
        path_bytes = TN_MODULE_PATH_MAX;
    }
    name->count = TN_MODULE_FIXED_WORDS + (id_bytes + path_bytes + WORD_BYTES - 1) / WORD_BYTES;
    TN_ASSERT(name->count <= TN_SCROLL_WORDS_MAX);
    name->words[name->count - 1] = 0;
    name->words[4] = (uint64_t)path_bytes << PATH_SHIFT | id_bytes;
    if (id_bytes > 0)
        memcpy(text, id, id_bytes);
    memcpy(text + id_bytes, path, path_bytes);
    name->hash = 0;
    for (size_t i = 4; i < name->count; i++) {
        name->hash = (name->hash ^ name->words[i]) * TN_GOLDEN;
        name->hash ^= name->hash >> 32;
    }
}

/* Whether the newest record with any address of the range is of this very range. */
static bool is_known(const struct tn_modules *modules, const struct tn_module_range *range)
{
    TN_ASSERT(tn_spin_is_taken(&modules->lock));
    for (size_t i = modules->range_count; i > 0; i--) {
        const struct tn_module_range *known = &modules->ranges[i - 1];

        if (known->start < range->end && known->end > range->start)
            return known->start == range->start && known->end == range->end &&
                   known->offset == range->offset && known->hash == range->hash;
    }
    return false;
}

static void add(struct tn_modules *modules, const struct tn_module_range *range, struct name *name)
{
    name->words[0] = range->start;
    name->words[1] = range->end;
    name->words[2] = range->offset;
    tn_spin_acquire(&modules->lock);
    if (!is_known(modules, range) &&
        tn_scroll_add(&modules->scroll, name->words, name->count) != 0) {
        TN_ASSERT(modules->range_count < modules->range_max);
        modules->ranges[modules->range_count++] = *range;
    }
    tn_spin_release(&modules->lock);
}

void tn_modules_add(struct tn_modules *modules, const struct dl_phdr_info *object, const char *path,
                    uint64_t now)
{
    struct name name;

    name_object(object, path, &name);
    name.words[3] = now;
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        const uint64_t start = object->dlpi_addr + part->p_vaddr;

        if (part->p_type == PT_LOAD && (part->p_flags & PF_X) != 0 && part->p_memsz > 0)
            add(modules,
                &(struct tn_module_range){start, start + part->p_memsz, part->p_offset, name.hash},
                &name);
    }
}

/* What a refresh hands to the loader's function. */
struct refresh {
    struct tn_modules *modules;
    uint64_t now;
    char program[TN_MODULE_PATH_MAX + 1]; /* its path */
};

static int add_object(struct dl_phdr_info *object, size_t bytes, void *argument)
{
    const struct refresh *refresh = argument;
    const bool is_named = object->dlpi_name != NULL && object->dlpi_name[0] != '\0';

    (void)bytes;
    tn_modules_add(refresh->modules, object, is_named ? object->dlpi_name : refresh->program,
                   refresh->now);
    return 0;
}

/* The counter is the same in all reports: the first is enough. */
static int read_counter(struct dl_phdr_info *object, size_t bytes, void *counter)
{
    if (bytes >= offsetof(struct dl_phdr_info, dlpi_subs))
        *(uint64_t *)counter = object->dlpi_adds;
    return 1;
}

void tn_modules_refresh(struct tn_modules *modules)
{
    struct refresh refresh = {.modules = modules};
    uint64_t loaded_count = UINT64_MAX; /* a loader without the counter: look each time */
    ssize_t length;

    (void)dl_iterate_phdr(read_counter, &loaded_count);
    if (loaded_count != UINT64_MAX &&
        loaded_count == atomic_load_explicit(&modules->loaded_count, memory_order_acquire))
        return;
    length = readlink("/proc/self/exe", refresh.program, sizeof refresh.program - 1);
    refresh.program[length > 0 ? length : 0] = '\0';
    refresh.now = tn_clock_nanoseconds(CLOCK_MONOTONIC);
    (void)dl_iterate_phdr(add_object, &refresh);
    atomic_store_explicit(&modules->loaded_count, loaded_count, memory_order_release);
}

enum tn_scroll_answer tn_modules_read(const struct tn_scroll_reader *reader, uint32_t id,
                                      struct tn_module *module, uint32_t *next)
{
    uint64_t words[TN_SCROLL_WORDS_MAX];
    size_t count = 0;
    size_t path_bytes;
    const unsigned char *text = (const unsigned char *)&words[TN_MODULE_FIXED_WORDS];
    enum tn_scroll_answer answer = tn_scroll_read(reader, id, words, &count);

    if (answer != TN_SCROLL_READ)
        return answer;
    if (count < TN_MODULE_FIXED_WORDS)
        return TN_SCROLL_BROKEN;
    *module = (struct tn_module){.start = words[0],
                                 .end = words[1],
                                 .offset = words[2],
                                 .found = words[3],
                                 .build_id_bytes = (uint32_t)words[4]};
    path_bytes = (size_t)(words[4] >> PATH_SHIFT);
    if (module->start >= module->end || module->build_id_bytes > TN_MODULE_BUILD_ID_MAX ||
        path_bytes > TN_MODULE_PATH_MAX ||
        module->build_id_bytes + path_bytes > (count - TN_MODULE_FIXED_WORDS) * WORD_BYTES)
        return TN_SCROLL_BROKEN;
    memcpy(module->build_id, text, module->build_id_bytes);
    memcpy(module->path, text + module->build_id_bytes, path_bytes);
    *next = id + 1 + (uint32_t)count;
    return TN_SCROLL_READ;
}
