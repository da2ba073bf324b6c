// SPDX-License-Identifier: Apache-2.0
/* The suite is a program with the library in it; interposed, it looks like a plugin. That one which has used Tarn stays is
 * shown of a real one in tests/abi/plugin_host.c. */
#include "base/object.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/user_code.h"
#include "unit/unit.h"

static const char *plugin_path; /* NULL: as it is */
static const char *called_as;   /* the program; NULL: as it was */
static bool place_is_secret;
static char opened[64];
static int opened_mode;

int __real_dl_iterate_phdr(int (*look)(struct dl_phdr_info *, size_t, void *), void *data);
int __wrap_dl_iterate_phdr(int (*look)(struct dl_phdr_info *, size_t, void *), void *data);
int __wrap_dl_iterate_phdr(int (*look)(struct dl_phdr_info *, size_t, void *), void *data)
{
    return plugin_path != NULL ? 0 : __real_dl_iterate_phdr(look, data);
}

int __real_dladdr(const void *address, Dl_info *info);
int __wrap_dladdr(const void *address, Dl_info *info);
int __wrap_dladdr(const void *address, Dl_info *info)
{
    int found = __real_dladdr(address, info);

    if (plugin_path != NULL || called_as != NULL)
        info->dli_fname = plugin_path != NULL ? plugin_path : called_as;
    return place_is_secret ? 0 : found;
}

void *__real_dlopen(const char *path, int mode);
void *__wrap_dlopen(const char *path, int mode);
void *__wrap_dlopen(const char *path, int mode)
{
    if (plugin_path == NULL)
        return __real_dlopen(path, mode);
    (void)snprintf(opened, sizeof opened, "%s", path);
    opened_mode = mode;
    return NULL;
}

ssize_t __real_readlink(const char *path, char *target, size_t bytes);
ssize_t __wrap_readlink(const char *path, char *target, size_t bytes);
ssize_t __wrap_readlink(const char *path, char *target, size_t bytes)
{
    return place_is_secret ? -1 : __real_readlink(path, target, bytes);
}

GROUP(object, NULL)

TEST(object, a_program_lies_where_the_kernel_says)
{
    char folder[1024];
    char program[1100];

    called_as = "./some_name"; /* which was of use where it was called */
    ck_assert(tn_object_is_program());
    ck_assert(tn_object_folder(folder, sizeof folder));
    (void)snprintf(program, sizeof program, "%s/unit_object", folder);
    ck_assert_int_eq(access(program, X_OK), 0);
    ck_assert(!tn_object_folder(folder, 4)); /* too long */
    place_is_secret = true;
    ck_assert(!tn_object_folder(folder, sizeof folder));
}

TEST(object, a_plugin_lies_where_it_was_opened)
{
    char folder[64];

    plugin_path = "/opt/plugins/one.so";
    ck_assert(!tn_object_is_program());
    ck_assert(tn_object_folder(folder, sizeof folder));
    ck_assert_str_eq(folder, "/opt/plugins");
    ck_assert(!tn_object_folder(folder, strlen(plugin_path)));
    plugin_path = "one.so";
    ck_assert(!tn_object_folder(folder, sizeof folder));
    place_is_secret = true;
    plugin_path = "/opt/plugins/one.so";
    ck_assert(!tn_object_folder(folder, sizeof folder));
}

TEST(object, a_plugin_is_kept_and_nothing_else_is_loaded)
{
    plugin_path = "/opt/plugins/one.so";
    tn_object_keep();
    ck_assert_str_eq(opened, plugin_path);
    ck_assert_int_eq(opened_mode & (RTLD_NOLOAD | RTLD_NODELETE), RTLD_NOLOAD | RTLD_NODELETE);
    opened[0] = '\0';
    tn_object_keep(); /* once is enough */
    ck_assert_str_eq(opened, "");
}

TEST(object, a_thread_that_calls_a_function_of_the_programs_keeps_the_plugin)
{
    TN_USER_CODE(code);

    plugin_path = "/opt/plugins/one.so";
    tn_user_code_enter(&code, TN_USER_FILTER);
    tn_user_code_leave(&code);
    ck_assert_str_eq(opened, plugin_path);
}
