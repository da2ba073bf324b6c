// SPDX-License-Identifier: Apache-2.0
/* What a program with more rights than its user reads: nothing. tests/abi/privileged.sh shows it of a real one. */
#include "base/environment.h"

#include <stdlib.h>
#include <string.h>

#include "unit/unit.h"

static bool has_more_rights;

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

static bool is_listed(const char *variable)
{
    char *const *all = tn_environment_all();

    while (all != NULL && *all != NULL && strcmp(*all, variable) != 0)
        all++;
    return all != NULL && *all != NULL;
}

GROUP(environment, NULL)

TEST(environment, a_variable_is_read)
{
    (void)setenv("TARN_TEST_VARIABLE", "some text", 1);
    ck_assert_str_eq(tn_environment("TARN_TEST_VARIABLE"), "some text");
    ck_assert_ptr_null(tn_environment("TARN_TEST_ANOTHER"));
    ck_assert(is_listed("TARN_TEST_VARIABLE=some text"));
    ck_assert(!tn_environment_is_closed());
}

TEST(environment, a_program_with_more_rights_than_its_user_reads_none)
{
    (void)setenv("TARN_TEST_VARIABLE", "some text", 1);
    has_more_rights = true;
    ck_assert_ptr_null(tn_environment("TARN_TEST_VARIABLE"));
    ck_assert(!is_listed("TARN_TEST_VARIABLE=some text"));
    ck_assert(tn_environment_is_closed());
}

TEST(environment, such_a_program_takes_no_settings_from_its_user)
{
    tarn_device *device;

    (void)setenv("TARN_CONF", "no such option", 1);
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_device_open(0, NULL, &device));
    (void)setenv("TARN_DRIVER", "/no/such/library.so", 1);
    has_more_rights = true;
    ck_assert_int_ne(tarn_device_open(0, NULL, &device), TARN_ERR_INVALID_ARGUMENT);
    ck_assert_ptr_null(strstr(tarn_last_error(), "/no/such/library.so"));
    ck_assert_ptr_null(strstr(tarn_last_error(), "TARN_DRIVER=sim"));
}

/* What the library says on stderr goes to a file. */
static long bytes_told(void)
{
    FILE *told = tmpfile();
    int before = dup(STDERR_FILENO);
    long bytes;

    ck_assert_ptr_nonnull(told);
    ck_assert_int_ge(before, 0);
    (void)fflush(stderr);
    ck_assert_int_ge(dup2(fileno(told), STDERR_FILENO), 0);
    (void)tn_fail(TARN_ERR_BUSY, "a sentence");
    (void)fflush(stderr);
    (void)dup2(before, STDERR_FILENO);
    bytes = lseek(fileno(told), 0, SEEK_END);
    (void)fclose(told);
    (void)close(before);
    return bytes;
}

TEST(environment, such_a_program_logs_nothing_for_its_user)
{
    (void)setenv("TARN_LOG", "1", 1);
    ck_assert_int_gt(bytes_told(), 0);
    has_more_rights = true;
    ck_assert_int_eq(bytes_told(), 0);
}
