// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/modules.h"
#include "unit/unit.h"

SUITE("modules of a process")

enum { BYTES = 256 * 1024, PAGE = 4096 };

static uint64_t *memory;
static struct tn_modules modules;
static struct tn_scroll_reader reader;

static void open_table(size_t bytes)
{
    memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(memory, MAP_FAILED);
    ck_assert(tn_modules_init(&modules, memory, bytes));
    reader = (struct tn_scroll_reader){tn_scroll_from_memory, &modules.scroll, bytes};
}

static void open_whole_table(void)
{
    open_table(BYTES);
}

static void close_table(void)
{
    tn_modules_drop(&modules);
    ck_assert_int_eq(munmap(memory, BYTES), 0);
}

GROUP(modules, open_whole_table, .end = close_table)

/* The newest module with the address. Returns how many there are in all. */
static size_t look_up(uint64_t address, struct tn_module *found)
{
    uint32_t id = TN_SCROLL_FIRST;
    struct tn_module module;
    enum tn_scroll_answer answer;
    size_t count = 0;

    memset(found, 0, sizeof *found);
    while ((answer = tn_modules_read(&reader, id, &module, &id)) == TN_SCROLL_READ) {
        if (address - module.start < module.end - module.start)
            *found = module;
        count += 1;
    }
    ck_assert_int_eq(answer, TN_SCROLL_EMPTY);
    return count;
}

/* The code at the address and the build id are in the module's file. */
static void expect_in_file(const struct tn_module *module, uint64_t address)
{
    const size_t offset = (size_t)(address - module->start + module->offset);
    const struct {
        uint32_t words[3];
        char name[4];
    } note = {{4, (uint32_t)module->build_id_bytes, 3}, "GNU"};
    int fd = open(module->path, O_RDONLY);
    struct stat what;
    char *file;
    const char *at;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fstat(fd, &what), 0);
    file = mmap(NULL, (size_t)what.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    ck_assert_ptr_ne(file, MAP_FAILED);
    ck_assert_uint_lt(offset + 16, (size_t)what.st_size);
    ck_assert_mem_eq(file + offset, (const void *)(uintptr_t)address, 16);
    at = memmem(file, (size_t)what.st_size, &note, sizeof note);
    ck_assert_int_eq(at != NULL, module->build_id_bytes > 0);
    if (at != NULL)
        ck_assert_mem_eq(at + sizeof note, module->build_id, module->build_id_bytes);
    ck_assert_int_eq(munmap(file, (size_t)what.st_size), 0);
    ck_assert_int_eq(close(fd), 0);
}

TEST(modules, a_refresh_finds_the_program_and_its_libraries)
{
    const uint64_t here = (uintptr_t)look_up;
    const uint64_t there = (uintptr_t)dlsym(RTLD_NEXT, "getppid");
    struct tn_module module;
    char path[TN_MODULE_PATH_MAX] = {0};
    size_t count;

    ck_assert_uint_eq(look_up(here, &module), 0);
    tn_modules_refresh(&modules);
    count = look_up(here, &module);
    ck_assert_uint_ge(count, 2);
    ck_assert_int_gt(readlink("/proc/self/exe", path, sizeof path - 1), 0);
    ck_assert_str_eq(module.path, path);
    ck_assert_uint_gt(module.found, 0);
    expect_in_file(&module, here);
    ck_assert_uint_eq(look_up(there, &module), count);
    ck_assert_ptr_nonnull(strstr(module.path, "libc"));
    ck_assert_uint_ge(module.build_id_bytes, 8);
    expect_in_file(&module, there);
    tn_modules_refresh(&modules);
    ck_assert_uint_eq(look_up((uintptr_t)&count, &module), count);
    ck_assert_uint_eq(module.end, 0); /* data is in no module */
}

/* A small library of the C library's own, which nothing uses. */
static const char library[] = "libBrokenLocale.so.1";

TEST(modules, what_is_loaded_later_is_found_by_the_next_refresh)
{
    struct tn_module module;
    size_t count;
    void *handle;
    uint64_t init;

    tn_modules_refresh(&modules);
    count = look_up((uintptr_t)memory, &module);
    handle = dlopen(library, RTLD_NOW);
    ck_assert_msg(handle != NULL, "%s", dlerror());
    init = (uintptr_t)dlsym(handle, "__ctype_get_mb_cur_max");
    ck_assert_uint_ne(init, 0);
    ck_assert_uint_eq(look_up((uintptr_t)memory, &module), count);
    tn_modules_refresh(&modules);
    ck_assert_uint_gt(look_up(init, &module), count);
    ck_assert_ptr_nonnull(strstr(module.path, library));
    count = look_up(init, &module);
    ck_assert_int_eq(dlclose(handle), 0);
    tn_modules_refresh(&modules);
    ck_assert_uint_eq(look_up(init, &module), count); /* it stays */
    ck_assert_ptr_nonnull(strstr(module.path, library));
}

enum { PARTS = 4 };

/* An object that the loader might report: notes, data, and two mappings with code. */
struct object {
    unsigned char notes[64];
    ElfW(Phdr) parts[PARTS];
    struct dl_phdr_info info;
};

static void make_object(struct object *object, const char *build_id)
{
    const uint32_t note[3] = {4, (uint32_t)strlen(build_id), 3};
    const uint64_t vaddr = offsetof(struct object, notes);

    memset(object, 0, sizeof *object);
    memcpy(object->notes, note, sizeof note);
    memcpy(object->notes + 12, "GNU", 4);
    memcpy(object->notes + 16, build_id, strlen(build_id));
    object->parts[0] = (ElfW(Phdr)){
        .p_type = PT_NOTE, .p_vaddr = vaddr, .p_memsz = 16 + (strlen(build_id) + 3) / 4 * 4};
    object->parts[1] = (ElfW(Phdr)){
        .p_type = PT_LOAD, .p_flags = PF_R, .p_vaddr = vaddr, .p_memsz = 64, .p_filesz = 64};
    object->parts[2] = (ElfW(Phdr)){.p_type = PT_LOAD,
                                    .p_flags = PF_R | PF_X,
                                    .p_vaddr = 4 * PAGE,
                                    .p_memsz = PAGE,
                                    .p_offset = PAGE};
    object->parts[3] = (ElfW(Phdr)){.p_type = PT_LOAD,
                                    .p_flags = PF_X,
                                    .p_vaddr = 8 * PAGE,
                                    .p_memsz = PAGE,
                                    .p_offset = 2 * PAGE};
    object->info = (struct dl_phdr_info){.dlpi_addr = (ElfW(Addr))(uintptr_t)object,
                                         .dlpi_phdr = object->parts,
                                         .dlpi_phnum = PARTS};
}

static uint64_t code_of(const struct object *object)
{
    return (uintptr_t)object + 4 * PAGE + 5;
}

TEST(modules, each_mapping_with_code_is_added_once)
{
    struct object object;
    struct tn_module module;

    make_object(&object, "build-7");
    for (uint64_t now = 1; now < 4; now++) {
        tn_modules_add(&modules, &object.info, "/a/path.so", now);
        ck_assert_uint_eq(look_up(code_of(&object), &module), 2);
    }
    ck_assert_uint_eq(module.start, (uintptr_t)&object + 4 * PAGE);
    ck_assert_uint_eq(module.end, module.start + PAGE);
    ck_assert_uint_eq(module.offset, PAGE);
    ck_assert_uint_eq(module.found, 1);
    ck_assert_uint_eq(module.build_id_bytes, 7);
    ck_assert_mem_eq(module.build_id, "build-7", 7);
    ck_assert_str_eq(module.path, "/a/path.so");
    (void)look_up(code_of(&object) + 4 * PAGE, &module);
    ck_assert_uint_eq(module.offset, 2 * PAGE);
    ck_assert_str_eq(module.path, "/a/path.so");
}

/* What changes: nothing, the path, the build id, the place in the file, the end. */
TEST_LOOP(modules, another_object_at_an_address_is_the_newest_there, 0, 5)
{
    struct object one;
    struct tn_module module;
    const char *path = _i == 1 ? "/another" : "/path";
    ElfW(Phdr) *part = &one.parts[2];

    make_object(&one, "build");
    one.info.dlpi_phnum = 3;
    tn_modules_add(&modules, &one.info, "/path", 1);
    if (_i == 2)
        one.notes[16] = 'B';
    else if (_i == 3)
        part->p_offset += PAGE;
    else if (_i == 4)
        part->p_memsz += PAGE;
    tn_modules_add(&modules, &one.info, path, 2);
    ck_assert_uint_eq(look_up(code_of(&one), &module), _i == 0 ? 1 : 2);
    ck_assert_uint_eq(module.found, _i == 0 ? 1 : 2);
    ck_assert_str_eq(module.path, path);
    ck_assert_uint_eq(module.end - module.start, part->p_memsz);
    make_object(&one, "build");
    one.info.dlpi_phnum = 3;
    tn_modules_add(&modules, &one.info, "/path", 3); /* the first one is back */
    ck_assert_uint_eq(look_up(code_of(&one), &module), _i == 0 ? 1 : 3);
    ck_assert_uint_eq(module.found, _i == 0 ? 1 : 3);
}

TEST(modules, of_a_long_path_the_end_is_kept)
{
    struct object object;
    struct tn_module module;
    char path[3 * TN_MODULE_PATH_MAX];

    make_object(&object, "0123456789");
    for (size_t i = 0; i < sizeof path; i++)
        path[i] = (char)('a' + i % 26);
    path[sizeof path - 1] = '\0';
    tn_modules_add(&modules, &object.info, path, 1);
    (void)look_up(code_of(&object), &module);
    ck_assert_str_eq(module.path, path + sizeof path - 1 - TN_MODULE_PATH_MAX);
    ck_assert_mem_eq(module.build_id, "0123456789", 10);
    path[TN_MODULE_PATH_MAX] = '\0';
    tn_modules_add(&modules, &object.info, path, 2);
    (void)look_up(code_of(&object), &module);
    ck_assert_str_eq(module.path, path);
}

TEST(modules, notes_that_are_not_mapped_are_not_read)
{
    struct object object;
    struct tn_module module;

    for (unsigned i = 0; i < 4; i++) {
        make_object(&object, "build");
        object.notes[20] = (unsigned char)i; /* another object each time */
        if (i == 0)
            object.parts[1].p_flags = PF_W;
        else if (i == 1)
            object.parts[1].p_filesz = 8;
        else if (i == 2)
            object.parts[1].p_vaddr += 8;
        else
            object.parts[0].p_memsz = UINT64_MAX;
        tn_modules_add(&modules, &object.info, "/path", i);
        (void)look_up(code_of(&object), &module);
        ck_assert_uint_eq(module.build_id_bytes, 0);
        ck_assert_str_eq(module.path, "/path");
    }
}

/* Every length that notes may be cut at, and lengths in them that lead beyond: a sanitizer sees. */
TEST(modules, notes_lead_nowhere_beyond_their_end)
{
    const uint32_t words[] = {4, 8, 1, 0x00554e47, 1, 2, 4, 5, 3, 0x00554e47, 0x64636261, 0x65};
    const unsigned char *id = NULL;

    for (size_t bytes = 0; bytes <= sizeof words; bytes++) {
        unsigned char *notes = malloc(bytes + (bytes == 0));

        memcpy(notes, words, bytes);
        ck_assert_uint_eq(tn_module_find_build_id(notes, bytes, &id),
                          bytes == sizeof words ? 5 : 0);
        if (bytes == sizeof words)
            ck_assert_mem_eq(id, "abcde", 5);
        free(notes);
    }
    for (unsigned at = 0; at < 2; at++) {
        static const uint32_t sizes[] = {0x7fffffff, 0xfffffffd, UINT32_MAX, 64};

        for (unsigned i = 0; i < 4; i++) {
            uint32_t *notes = malloc(sizeof words);

            memcpy(notes, words, sizeof words);
            notes[6 * at + i % 2] = sizes[i];
            (void)tn_module_find_build_id((const unsigned char *)notes, sizeof words, &id);
            notes[6 + i % 2] = sizes[i];
            (void)tn_module_find_build_id((const unsigned char *)notes, sizeof words, &id);
            free(notes);
        }
    }
}

TEST(modules, a_full_table_counts_what_it_has_not)
{
    struct object object;
    struct tn_module module;
    uint64_t *behind;

    close_table();
    open_table(512);
    behind = memory + 512 / 8;
    for (uint64_t i = 0; i < 100; i++) {
        make_object(&object, "build");
        object.info.dlpi_addr += i * 16 * PAGE;
        object.parts[0].p_type = PT_NULL;
        tn_modules_add(&modules, &object.info, "", i);
    }
    /* six words each, behind eight */
    ck_assert_uint_eq(look_up(code_of(&object), &module), 9);
    ck_assert_uint_eq(tn_scroll_lost(&modules.scroll), 200 - 9);
    ck_assert_uint_eq(*behind, 0);
    close_table();
    ck_assert(tn_modules_init(&modules, NULL, 0));
    tn_modules_add(&modules, &object.info, "", 1);
    tn_modules_drop(&modules);
    open_table(BYTES);
    (void)tn_host_plan_fault(1, false);
    ck_assert(!tn_modules_init(&(struct tn_modules){.ranges = NULL}, memory, BYTES));
    (void)tn_host_plan_fault(0, false);
}

static void expect_broken(size_t word, uint64_t value)
{
    struct tn_module module;
    uint32_t next = 77;
    uint64_t *at = memory + TN_SCROLL_FIRST + 1 + word;
    const uint64_t before = *at;

    *at = value;
    ck_assert_int_eq(tn_modules_read(&reader, TN_SCROLL_FIRST, &module, &next), TN_SCROLL_BROKEN);
    ck_assert_uint_eq(next, 77);
    *at = before;
    ck_assert_int_eq(tn_modules_read(&reader, TN_SCROLL_FIRST, &module, &next), TN_SCROLL_READ);
}

TEST(modules, records_that_are_no_modules_are_refused)
{
    struct object object;
    struct tn_module module;
    const uint64_t words[4] = {1, 2, 3, 4};
    uint32_t next;
    uint32_t id;

    make_object(&object, "build");
    tn_modules_add(&modules, &object.info, "/path.so", 1);
    expect_broken(0, memory[TN_SCROLL_FIRST + 2]); /* nothing between start and end */
    expect_broken(1, 0);
    expect_broken(4, UINT64_C(8) << 32 | 9);  /* more than the record has */
    expect_broken(4, UINT64_C(12) << 32 | 5); /* the same */
    expect_broken(4, UINT64_C(8) << 32 | 65);
    expect_broken(4, UINT64_C(1025) << 32 | 5);
    expect_broken(4, UINT64_MAX);
    expect_broken(4, UINT64_C(0xffffffff) << 32 | 1);
    id = tn_scroll_add(&modules.scroll, words, 4);
    ck_assert_int_eq(tn_modules_read(&reader, id, &module, &next), TN_SCROLL_BROKEN);
}

/* The loader's report. */
int __real_dl_iterate_phdr(int (*act)(struct dl_phdr_info *, size_t, void *), void *context);
int __wrap_dl_iterate_phdr(int (*act)(struct dl_phdr_info *, size_t, void *), void *context);

static atomic_uint reports;
static struct object *reported; /* NULL: what the loader has */
static size_t reported_bytes;

int __wrap_dl_iterate_phdr(int (*act)(struct dl_phdr_info *, size_t, void *), void *context)
{
    reports += 1;
    if (reported == NULL)
        return __real_dl_iterate_phdr(act, context);
    return act(&reported->info, reported_bytes, context);
}

TEST(modules, objects_are_looked_at_only_when_some_were_loaded)
{
    struct object object;
    struct tn_module module;

    make_object(&object, "build");
    object.info.dlpi_name = "/path";
    object.info.dlpi_adds = 3;
    reported = &object;
    reported_bytes = sizeof object.info;
    tn_modules_refresh(&modules);
    ck_assert_uint_eq(reports, 2);
    tn_modules_refresh(&modules);
    ck_assert_uint_eq(reports, 3); /* the counter alone */
    object.notes[16] = 'B';
    object.info.dlpi_adds = 4;
    tn_modules_refresh(&modules);
    ck_assert_uint_eq(reports, 5);
    ck_assert_uint_eq(look_up(code_of(&object), &module), 4);
}

TEST(modules, a_loader_without_a_counter_is_asked_each_time)
{
    struct object object;
    struct tn_module module;
    char path[TN_MODULE_PATH_MAX + 1] = {0};

    make_object(&object, "build"); /* and without a name: the program */
    reported = &object;
    reported_bytes = offsetof(struct dl_phdr_info, dlpi_adds);
    for (unsigned i = 0; i < 3; i++) {
        object.notes[16] = (unsigned char)i;
        tn_modules_refresh(&modules);
        ck_assert_uint_eq(look_up(code_of(&object), &module), 2 * i + 2);
        ck_assert_uint_eq(module.build_id[0], i);
    }
    ck_assert_int_gt(readlink("/proc/self/exe", path, sizeof path - 1), 0);
    ck_assert_str_eq(module.path, path);
}

/* No record is like the one before of its addresses. */
static void expect_no_two_alike(void)
{
    struct tn_module module;
    struct tn_module before;
    uint32_t next;

    for (uint32_t id = TN_SCROLL_FIRST;
         tn_modules_read(&reader, id, &module, &next) == TN_SCROLL_READ; id = next) {
        const size_t bytes = reader.bytes;

        reader.bytes = (size_t)id * 8; /* without this one */
        (void)look_up(module.start, &before);
        reader.bytes = bytes;
        ck_assert(strcmp(module.path, before.path) != 0 || module.start != before.start);
    }
}

static void *refresh_for_long(void *unused)
{
    for (unsigned i = 0; i < 200; i++)
        tn_modules_refresh(&modules);
    return unused;
}

TEST(modules, threads_that_refresh_add_a_module_once)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    struct tn_module module;
    size_t count;

    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, refresh_for_long, NULL), 0);
    for (unsigned i = 0; i < 20; i++) {
        void *handle = dlopen(library, RTLD_NOW);

        ck_assert_ptr_nonnull(handle);
        ck_assert_int_eq(dlclose(handle), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    tn_modules_refresh(&modules);
    count = look_up((uintptr_t)memory, &module);
    ck_assert_uint_ge(count, 3);
    ck_assert_uint_eq(modules.range_count, count);
    expect_no_two_alike();
}
