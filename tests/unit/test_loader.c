// SPDX-License-Identifier: Apache-2.0
#include "driver/loader.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "unit/unit.h"

/* Where the library is, as the suite says; NULL: not known. Then nothing is found by its name. */
static const char *own_folder;
static bool is_program;
static bool place_is_chosen;
static const char *only_file; /* the one that is there; NULL: none */
static bool file_is_broken;
static bool has_more_rights;
static char tried[8][256];
static int tried_count;

bool __real_tn_object_folder(char *folder, size_t bytes);
bool __wrap_tn_object_folder(char *folder, size_t bytes);
bool __wrap_tn_object_folder(char *folder, size_t bytes)
{
    if (!place_is_chosen)
        return __real_tn_object_folder(folder, bytes);
    if (own_folder != NULL)
        (void)snprintf(folder, bytes, "%s", own_folder);
    return own_folder != NULL;
}

bool __real_tn_object_is_program(void);
bool __wrap_tn_object_is_program(void);
bool __wrap_tn_object_is_program(void)
{
    return place_is_chosen ? is_program : __real_tn_object_is_program();
}

int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);
int __wrap_access(const char *path, int mode)
{
    if (!place_is_chosen)
        return __real_access(path, mode);
    return only_file != NULL && strcmp(path, only_file) == 0 ? 0 : -1;
}

void *__real_dlopen(const char *path, int mode);
void *__wrap_dlopen(const char *path, int mode);
void *__wrap_dlopen(const char *path, int mode)
{
    if (!place_is_chosen)
        return __real_dlopen(path, mode);
    if (tried_count < 8)
        (void)snprintf(tried[tried_count++], sizeof tried[0], "%s", path);
    if (only_file == NULL || strcmp(path, only_file) != 0 || file_is_broken)
        return __real_dlopen("libtarn_is_not_there.so", mode);
    return __real_dlopen(getenv("TEST_SIMULATOR"), mode);
}

char *__real_secure_getenv(const char *name);
char *__wrap_secure_getenv(const char *name);
char *__wrap_secure_getenv(const char *name)
{
    return has_more_rights ? NULL : __real_secure_getenv(name);
}

unsigned long __real_getauxval(unsigned long type);
unsigned long __wrap_getauxval(unsigned long type);
unsigned long __wrap_getauxval(unsigned long type)
{
    return type == AT_SECURE ? has_more_rights : __real_getauxval(type);
}

static struct tn_loaded loaded;

static void want_simulator(void)
{
    (void)setenv("TEST_SIMULATOR", getenv("TARN_DRIVER"), 1);
    (void)setenv("TARN_DRIVER", "sim", 1);
    place_is_chosen = true;
}

static void expect_no_such_advice(const char *advice)
{
    ck_assert_msg(strstr(tarn_last_error(), advice) == NULL, "it advises %s: %s", advice,
                  tarn_last_error());
}

GROUP(loader, NULL)

TEST(loader, the_simulator_is_found_by_its_name)
{
    test_start(); /* the loader knows it from here on */
    (void)setenv("TARN_DRIVER", "sim", 1);
    OK(tn_loader_open(&loaded));
    ck_assert_str_eq(loaded.path, "libtarn_sim.so");
}

TEST(loader, the_simulator_is_found_beside_the_library)
{
    want_simulator();
    own_folder = "/opt/lib";
    only_file = "/opt/lib/libtarn_sim.so";
    OK(tn_loader_open(&loaded));
    ck_assert_str_eq(loaded.path, only_file);
    ck_assert_int_eq(tried_count, 2);
    ck_assert_str_eq(tried[0], "libtarn_sim.so"); /* a search path overrides */
}

TEST(loader, the_simulator_is_found_in_the_folder_of_libraries_beside_that_of_a_program)
{
    want_simulator();
    own_folder = "/opt/bin";
    is_program = true;
    only_file = "/opt/bin/" TARN_LIBDIR_FROM_BINDIR "/libtarn_sim.so";
    OK(tn_loader_open(&loaded));
    ck_assert_str_eq(loaded.path, only_file);
}

TEST(loader, the_simulator_is_found_where_it_was_to_be_installed)
{
    want_simulator();
    own_folder = "/home/somebody";
    is_program = true;
    only_file = TARN_LIBDIR "/libtarn_sim.so";
    OK(tn_loader_open(&loaded));
    ck_assert_str_eq(loaded.path, only_file);
    own_folder = NULL;
    OK(tn_loader_open(&loaded));
    ck_assert_str_eq(loaded.path, only_file);
}

TEST(loader, a_simulator_that_is_nowhere_is_told_with_its_places)
{
    want_simulator();
    own_folder = "/opt/bin";
    is_program = true;
    STATUS(TARN_ERR_NO_DRIVER, tn_loader_open(&loaded));
    unit_expect_sentence("/opt/bin/libtarn_sim.so");
    unit_expect_sentence("/opt/bin/" TARN_LIBDIR_FROM_BINDIR "/libtarn_sim.so");
    unit_expect_sentence(TARN_LIBDIR "/libtarn_sim.so");
    unit_expect_sentence("set TARN_DRIVER to the path of libtarn_sim.so");
    expect_no_such_advice("TARN_DRIVER=sim");
    is_program = false;
    STATUS(TARN_ERR_NO_DRIVER, tn_loader_open(&loaded));
    expect_no_such_advice("/opt/bin/" TARN_LIBDIR_FROM_BINDIR);
}

/* What is wrong with a file that is there is said, and not that others are not. */
TEST(loader, a_simulator_that_is_broken_is_told)
{
    want_simulator();
    own_folder = "/opt/lib";
    only_file = "/opt/lib/libtarn_sim.so";
    file_is_broken = true;
    STATUS(TARN_ERR_NO_DRIVER, tn_loader_open(&loaded));
    unit_expect_sentence("libtarn_is_not_there.so: cannot open");
    expect_no_such_advice("TARN_DRIVER=sim");
    expect_no_such_advice("nor is it");
}

TEST(loader, what_was_tried_is_not_advised)
{
    (void)setenv("TARN_DRIVER", "/no/such/library.so", 1);
    STATUS(TARN_ERR_NO_DRIVER, tn_loader_open(&loaded));
    unit_expect_sentence("/no/such/library.so");
    unit_expect_sentence("TARN_DRIVER=sim");
    expect_no_such_advice("the CUDA driver");
    ck_assert_ptr_nonnull(strstr(tn_loader_advice(), "TARN_DRIVER=sim"));
    want_simulator();
    ck_assert_ptr_null(strstr(tn_loader_advice(), "TARN_DRIVER"));
    (void)setenv("TARN_DRIVER", "cuda", 1);
    STATUS(TARN_ERR_NO_DRIVER, tn_loader_open(&loaded));
    unit_expect_sentence("install the NVIDIA driver, or set TARN_DRIVER=sim");
    expect_no_such_advice("TARN_DRIVER=cuda");
    ck_assert_str_eq(tried[tried_count - 1], "libcuda.so.1");
    (void)setenv("TARN_DRIVER", "", 1);
    STATUS(TARN_ERR_NO_DRIVER, tn_loader_open(&loaded));
    ck_assert_str_eq(tried[tried_count - 1], "libcuda.so.1");
}

TEST(loader, a_program_with_more_rights_than_its_user_gets_the_cuda_driver)
{
    want_simulator();
    only_file = "libtarn_sim.so";
    OK(tn_loader_open(&loaded));
    has_more_rights = true;
    STATUS(TARN_ERR_NO_DRIVER, tn_loader_open(&loaded));
    ck_assert_str_eq(tried[tried_count - 1], "libcuda.so.1");
    expect_no_such_advice("set TARN_DRIVER");
}

/* Longer than what is shown of it. */
TEST(loader, a_long_path_is_opened_as_it_is)
{
    char path[2000];

    memset(path, '/', sizeof path);
    (void)snprintf(path + 1000, sizeof path - 1000, "%s", getenv("TARN_DRIVER"));
    (void)setenv("TARN_DRIVER", path, 1);
    OK(tn_loader_open(&loaded));
    ck_assert_uint_eq(strlen(loaded.path), sizeof loaded.path - 1);
}
