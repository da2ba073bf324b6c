// SPDX-License-Identifier: Apache-2.0
/* Names of frames: module, place and function. */
#include "observe/naming.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/host.h"
#include "base/stack.h"
#include "unit/unit.h"

SUITE("names of frames")

enum { MODULE_BYTES = 1 << 16 };

static uint64_t memory[MODULE_BYTES / sizeof(uint64_t)];
static struct tn_modules modules;
static struct tn_naming naming;

static void begin(void)
{
    ck_assert(tn_modules_init(&modules, memory, sizeof memory));
    tn_modules_refresh(&modules);
    ck_assert(tn_naming_begin(&naming, &modules.scroll));
}

static void end(void)
{
    tn_naming_end(&naming);
    tn_modules_drop(&modules);
}

GROUP(names, begin, .end = end)

static __attribute__((noinline)) uint64_t here(void)
{
    return (uintptr_t)__builtin_return_address(0);
}

TEST(names, a_function_that_nobody_exports_is_named_by_its_module_and_place)
{
    struct tn_frame_name name;
    char program[TN_MODULE_PATH_MAX + 1] = "";
    char end_of_name[32];

    ck_assert_int_gt(readlink("/proc/self/exe", program, sizeof program - 1), 0);
    tn_name_frame(&naming, here(), &name);
    ck_assert_str_eq(name.path, program);
    ck_assert_uint_gt(name.offset, 0);
    (void)snprintf(end_of_name, sizeof end_of_name, "+0x%llx", (unsigned long long)name.offset);
    ck_assert_ptr_nonnull(strstr(name.function, end_of_name));
    ck_assert_ptr_nonnull(strstr(name.function, "unit_naming"));
    ck_assert_ptr_null(strchr(name.function, '/'));
}

/* An address behind a call is the function's in front of it, also where the call is the last thing in
 * the function. */
TEST(names, an_exported_function_has_its_name)
{
    uint64_t address = (uintptr_t)dlsym(RTLD_DEFAULT, "strverscmp");
    struct tn_frame_name name;

    ck_assert_uint_ne(address, 0);
    tn_name_frame(&naming, address + 1, &name);
    ck_assert_str_eq(name.function, "strverscmp");
    ck_assert_int_eq(name.path[0], '/');
    tn_name_frame(&naming, address, &name);
    ck_assert_str_ne(name.function, "strverscmp");
}

TEST(names, an_address_without_a_module_is_named_by_its_number_and_a_text_by_itself)
{
    struct tn_frame_name name;

    tn_name_text("train.py:7 step \xc3\xa4", &name);
    ck_assert_str_eq(name.function, "train.py:7 step ??");
    ck_assert_str_eq(name.path, "??");
    ck_assert_uint_eq(name.offset, 0);
    tn_name_frame(&naming, 0x1234, &name);
    ck_assert_str_eq(name.function, "0x1234");
    ck_assert_str_eq(name.path, "??");
}

/* The history says that another module was there: the loader's name for the address is not its. */
TEST(names, a_module_that_took_the_place_of_another_gives_no_names)
{
    static uint64_t other_memory[512];
    struct tn_scroll other;
    uint64_t address = (uintptr_t)dlsym(RTLD_DEFAULT, "strverscmp");
    uint64_t words[TN_MODULE_FIXED_WORDS + 2] = {address - 100, address + 100, 4096, 1,
                                                 (uint64_t)14 << 32};
    struct tn_naming gone;
    struct tn_frame_name name;

    memcpy(&words[TN_MODULE_FIXED_WORDS], "/usr/gone\xff\n.so", 14);
    tn_scroll_init(&other, other_memory, sizeof other_memory);
    ck_assert_uint_ne(tn_scroll_add(&other, words, TN_MODULE_FIXED_WORDS + 2), 0);
    ck_assert(tn_naming_begin(&gone, &other));
    tn_name_frame(&gone, address + 1, &name);
    ck_assert_str_eq(name.path, "/usr/gone??.so");
    ck_assert_uint_eq(name.offset, 4096 + 100);
    ck_assert_str_eq(name.function, "gone??.so+0x1064");
    tn_name_frame(&gone, address - 100, &name);
    ck_assert_str_eq(name.path, "??");
    tn_naming_end(&gone);
}

TEST(names, no_memory_names_nothing)
{
    struct tn_naming none;

    (void)tn_host_plan_fault(1, true);
    ck_assert(!tn_naming_begin(&none, &modules.scroll));
    (void)tn_host_plan_fault(0, false);
    ck_assert_ptr_null(none.modules);
}
