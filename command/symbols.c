// SPDX-License-Identifier: Apache-2.0
/* Each module has a reader of its own (elfutils' libdwfl), made when an address of the module is asked
 * for. The module's mapping is one of the file's segments, which says where the file's symbols have an
 * address.
 *
 * C++ names are made readable by libstdc++, where the system has it: it is loaded at the first such
 * name. So the command is not linked with it. */
#include "symbols.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/contract.h"
#include "base/host.h"

enum { FOLDER_BYTES = 4096 }; /* of a path at most */

typedef char *demangle_function(const char *name, char *buffer, size_t *bytes, int *status);

struct names {
    bool was_opened;
    Dwfl *dwfl; /* NULL: the module has no file that counts */
    Dwfl_Module *module;
    bool is_debug; /* the file has debug information alone */
};

struct symbols {
    const struct history *history;
    const char *folder; /* of debug information, besides the system's; NULL: none */
    char *path;
    struct names *names; /* one for each module of the history */
    bool was_demangled;
    demangle_function *demangle; /* NULL: names stay as they are */
};

static const char system_folder[] = "/usr/lib/debug";
static char *debug_path; /* where elfutils looks, by its own syntax */

static const Dwfl_Callbacks callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .section_address = dwfl_offline_section_address,
    .debuginfo_path = &debug_path,
};

/* Beside the file, in its folder .debug, in the folder that was named, in the system's. */
static char *make_path(const char *folder)
{
    static const char beside[] = ":.debug:";
    const size_t bytes =
        sizeof beside + (folder != NULL ? strlen(folder) : 0) + sizeof system_folder + 1;
    char *path = tn_host_alloc(bytes, 1);

    if (path != NULL)
        (void)snprintf(path, bytes, "%s%s%s%s", beside, folder != NULL ? folder : "",
                       folder != NULL ? ":" : "", system_folder);
    return path;
}

struct symbols *symbols_open(const struct history *history, const char *debug_folder)
{
    struct symbols *symbols = tn_host_alloc(1, sizeof *symbols);

    (void)elf_version(EV_CURRENT);
    if (symbols == NULL)
        return NULL;
    symbols->history = history;
    symbols->folder = debug_folder;
    symbols->names = tn_host_alloc(history->module_count + 1, sizeof *symbols->names);
    symbols->path = make_path(debug_folder);
    debug_path = symbols->path;
    if (symbols->names != NULL && symbols->path != NULL)
        return symbols;
    tn_host_free(symbols->names);
    tn_host_free(symbols->path);
    tn_host_free(symbols);
    return NULL;
}

void symbols_close(struct symbols *symbols)
{
    for (size_t i = 0; i < symbols->history->module_count; i++) {
        if (symbols->names[i].dwfl != NULL)
            dwfl_end(symbols->names[i].dwfl);
    }
    tn_host_free(symbols->names);
    tn_host_free(symbols->path);
    tn_host_free(symbols);
}

/* The file at the path, if it is an ELF file with the module's build id; -1: it is not. */
static int open_file(const char *path, const struct tn_module *module)
{
    struct stat what;
    const void *id = NULL;
    ssize_t bytes = -1;
    Elf *elf = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return -1;
    if (fstat(fd, &what) == 0 && S_ISREG(what.st_mode))
        elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    if (elf != NULL)
        bytes = dwelf_elf_gnu_build_id(elf, &id);
    if (bytes <= 0 || (size_t)bytes != module->build_id_bytes ||
        memcmp(id, module->build_id, module->build_id_bytes) != 0) {
        (void)close(fd);
        fd = -1;
    }
    if (elf != NULL)
        (void)elf_end(elf);
    return fd;
}

static int open_debug_file(const char *folder, const struct tn_module *module)
{
    char path[FOLDER_BYTES + 3 * TN_MODULE_BUILD_ID_MAX];
    int length = snprintf(path, sizeof path, "%.*s/.build-id/%02x/", FOLDER_BYTES, folder,
                          module->build_id[0]);

    for (size_t i = 1; i < module->build_id_bytes; i++)
        length +=
            snprintf(path + length, sizeof path - (size_t)length, "%02x", module->build_id[i]);
    (void)snprintf(path + length, sizeof path - (size_t)length, ".debug");
    return open_file(path, module);
}

static void open_names(const struct symbols *symbols, struct names *names,
                       const struct tn_module *module)
{
    int fd = -1;

    names->was_opened = true;
    if (module->build_id_bytes == 0)
        return;
    if (module->path[0] != '\0')
        fd = open_file(module->path, module);
    names->is_debug = fd < 0;
    if (fd < 0 && symbols->folder != NULL)
        fd = open_debug_file(symbols->folder, module);
    if (fd < 0)
        fd = open_debug_file(system_folder, module);
    if (fd < 0)
        return;
    names->dwfl = dwfl_begin(&callbacks);
    if (names->dwfl != NULL) {
        dwfl_report_begin(names->dwfl);
        names->module = dwfl_report_offline(names->dwfl, module->path, module->path, fd);
        if (names->module != NULL)
            fd = -1; /* the reader's */
        (void)dwfl_report_end(names->dwfl, NULL, NULL);
    }
    if (fd >= 0)
        (void)close(fd);
    if (names->dwfl != NULL && names->module == NULL) {
        dwfl_end(names->dwfl);
        names->dwfl = NULL;
    }
}

/* The address, as the reader has it, of one of the process. The module's mapping is one of the file's
 * segments. In a file of debug information alone segments have other places, and the same sizes. False:
 * no segment is the mapping's, or several may be. */
static bool read_address(const struct names *names, const struct tn_module *module,
                         uint64_t address, Dwarf_Addr *found)
{
    GElf_Addr bias;
    Elf *elf = dwfl_module_getelf(names->module, &bias);
    size_t count;
    size_t matching = 0;

    if (elf == NULL || elf_getphdrnum(elf, &count) != 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr part;

        if (gelf_getphdr(elf, (int)i, &part) == NULL || part.p_type != PT_LOAD ||
            (part.p_flags & PF_X) == 0 || part.p_memsz != module->end - module->start ||
            (part.p_vaddr - module->start) % TN_RING_PAGE_BYTES != 0 ||
            (!names->is_debug && part.p_offset != module->offset))
            continue;
        *found = part.p_vaddr + (address - module->start) + bias;
        matching += 1;
    }
    return matching == 1;
}

static void copy_text(char *to, size_t bytes, const char *text)
{
    (void)snprintf(to, bytes, "%s", text != NULL ? text : "");
}

static void copy_name(struct symbols *symbols, char to[SYMBOL_NAME_BYTES], const char *name)
{
    char *readable = NULL;
    int status;

    copy_text(to, SYMBOL_NAME_BYTES, name);
    if (name == NULL || strncmp(name, "_Z", 2) != 0)
        return;
    if (!symbols->was_demangled) {
        void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);

        symbols->was_demangled = true;
        if (library != NULL)
            *(void **)&symbols->demangle = dlsym(library, "__cxa_demangle");
    }
    if (symbols->demangle != NULL)
        readable = symbols->demangle(name, NULL, NULL, &status);
    if (readable == NULL)
        return;
    copy_text(to, SYMBOL_NAME_BYTES, readable);
    free(readable); /* the C++ library's, by its own rule */
}

/* The name that the linker has for a function, else the one in the source. */
static const char *name_of(Dwarf_Die *function)
{
    Dwarf_Attribute attribute;
    const char *name =
        dwarf_formstring(dwarf_attr_integrate(function, DW_AT_linkage_name, &attribute));

    return name != NULL ? name : dwarf_diename(function);
}

/* Where the inlined function was called. */
static void read_call(Dwarf_Die *unit, Dwarf_Die *function, struct function_at *caller)
{
    Dwarf_Attribute attribute;
    Dwarf_Word number;
    Dwarf_Files *files;
    size_t count;

    if (dwarf_formudata(dwarf_attr(function, DW_AT_call_line, &attribute), &number) == 0)
        caller->line = (unsigned)number;
    if (dwarf_getsrcfiles(unit, &files, &count) == 0 &&
        dwarf_formudata(dwarf_attr(function, DW_AT_call_file, &attribute), &number) == 0 &&
        number < count)
        copy_text(caller->file, sizeof caller->file, dwarf_filesrc(files, number, NULL, NULL));
}

/* The functions that are inlined there, and the one that they are in: the first has its line. */
static void read_inlined(struct symbols *symbols, Dwfl_Module *module, Dwarf_Addr address,
                         struct symbol *symbol)
{
    Dwarf_Addr bias;
    Dwarf_Die *unit = dwfl_module_addrdie(module, address, &bias);
    Dwarf_Die *inner = NULL;
    Dwarf_Die *scopes = NULL;
    int count = unit != NULL ? dwarf_getscopes(unit, address - bias, &inner) : 0;

    /* By the innermost alone: the others of the first list are not those of the place. */
    if (count > 0)
        count = dwarf_getscopes_die(&inner[0], &scopes);
    for (int i = 0; i < count && symbol->count < SYMBOL_INLINED_MAX; i++) {
        const int tag = dwarf_tag(&scopes[i]);
        struct function_at *function = &symbol->functions[symbol->count - 1];

        if (tag == DW_TAG_subprogram) {
            if (function->name[0] == '\0')
                copy_name(symbols, function->name, name_of(&scopes[i]));
            break;
        }
        if (tag != DW_TAG_inlined_subroutine)
            continue;
        copy_name(symbols, function->name, name_of(&scopes[i]));
        read_call(unit, &scopes[i], function + 1);
        symbol->count += 1;
    }
    free(inner);
    free(scopes);
}

void symbols_find(struct symbols *symbols, uint64_t address, struct symbol *symbol)
{
    struct names *names;
    struct function_at *last;
    Dwarf_Addr place = 0;
    Dwfl_Line *line;
    int number = 0;

    *symbol = (struct symbol){.count = 1};
    symbol->module = history_module_at(symbols->history, address);
    if (symbol->module == NULL)
        return;
    symbol->offset = address - symbol->module->start + symbol->module->offset;
    names = &symbols->names[symbol->module - symbols->history->modules];
    if (!names->was_opened)
        open_names(symbols, names, symbol->module);
    if (names->dwfl == NULL || !read_address(names, symbol->module, address, &place))
        return;
    line = dwfl_module_getsrc(names->module, place);
    if (line != NULL)
        copy_text(symbol->functions[0].file, SYMBOL_FILE_BYTES,
                  dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL));
    symbol->functions[0].line = (unsigned)number;
    read_inlined(symbols, names->module, place, symbol);
    TN_ASSERT(symbol->count >= 1 && symbol->count <= SYMBOL_INLINED_MAX);
    last = &symbol->functions[symbol->count - 1];
    if (symbol->count == 1 || last->name[0] == '\0') {
        const char *name = dwfl_module_addrname(names->module, place);

        if (name != NULL)
            copy_name(symbols, last->name, name);
    }
}
