// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fork.h"
#include "unit/unit.h"

static int times_kept;

void __wrap_tn_object_keep(void);
void __wrap_tn_object_keep(void)
{
    times_kept += 1;
}

GROUP(load, NULL)

/* It may call back as long as the process lives. */
TEST(load, what_loads_a_driver_stays_loaded)
{
    const struct tn_driver *driver;

    OK(tn_driver_load(&driver));
    ck_assert_int_eq(times_kept, 1);
}

TEST(load, loading_fills_the_table_once)
{
    const struct tn_driver *first;
    const struct tn_driver *second;

    OK(tn_driver_load(&first));
    ck_assert_int_ge(first->version, 12000);
    ck_assert_str_eq(first->path, getenv("TARN_DRIVER"));
#define EXPECT_FUNCTION(name, symbol, version, parameters, names)                                  \
    ck_assert_msg(first->name != NULL, "%s is missing", #name);
    TN_CUDA_LIBRARY_FUNCTIONS(EXPECT_FUNCTION)
    TN_CUDA_OPTIONAL_FUNCTIONS(EXPECT_FUNCTION)
#undef EXPECT_FUNCTION
#define EXPECT_VERSION(own, name, symbol, version, parameters, names)                              \
    ck_assert_msg(first->own != NULL, "%s is missing", #own);
    TN_CUDA_LIBRARY_VERSIONS(EXPECT_VERSION)
#undef EXPECT_VERSION
    (void)setenv("TARN_DRIVER", "/no/such/library.so", 1); /* read by the first load alone */
    OK(tn_driver_load(&second));
    ck_assert_ptr_eq(first, second);
}

TEST(load, a_driver_may_lack_what_is_optional)
{
    const struct tn_driver *driver = NULL;

    (void)setenv("TARN_SIM_MISSING", "cuStreamBatchMemOp", 1);
    OK(tn_driver_load(&driver));
    ck_assert_ptr_nonnull(driver);
}

TEST(load, a_driver_may_not_lack_the_rest)
{
    const struct tn_driver *driver = NULL;

    (void)setenv("TARN_SIM_MISSING", "cuMemCreate", 1);
    STATUS(TARN_ERR_DRIVER_TOO_OLD, tn_driver_load(&driver));
    unit_expect_sentence("cuMemCreate");
}

TEST(load, a_library_that_is_not_there_is_named_and_tried_again)
{
    const struct tn_driver *driver = NULL;
    char *path = strdup(getenv("TARN_DRIVER"));

    (void)setenv("TARN_DRIVER", "/no/such/library.so", 1);
    STATUS(TARN_ERR_NO_DRIVER, tn_driver_load(&driver));
    unit_expect_sentence("/no/such/library.so");
    unit_expect_sentence("TARN_DRIVER=sim");
    ck_assert_ptr_null(driver);
    (void)setenv("TARN_DRIVER", path, 1);
    OK(tn_driver_load(&driver));
    free(path);
}

TEST(load, a_library_that_is_no_driver_is_too_old)
{
    const struct tn_driver *driver = NULL;

    (void)setenv("TARN_DRIVER", "libm.so.6", 1);
    STATUS(TARN_ERR_DRIVER_TOO_OLD, tn_driver_load(&driver));
    unit_expect_sentence("libm.so.6");
    ck_assert_ptr_null(driver);
}

TEST(load, a_driver_without_a_device_is_not_kept)
{
    const struct tn_driver *driver = NULL;

    test_start();
    sim.plan_fault("cuInit", 1, 0, TN_CUDA_ERROR_NO_DEVICE);
    STATUS(TARN_ERR_NO_DEVICE, tn_driver_load(&driver));
    ck_assert_ptr_null(driver);
    OK(tn_driver_load(&driver));
}

TEST(load, a_driver_that_fails_to_start_is_not_kept)
{
    static const char *const calls[] = {"cuInit", "cuDriverGetVersion"};
    const struct tn_driver *driver = NULL;

    test_start();
    for (size_t i = 0; i < 2; i++) {
        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER, tn_driver_load(&driver));
        unit_expect_sentence("CUDA_ERROR_UNKNOWN");
        ck_assert_ptr_null(driver);
    }
    OK(tn_driver_load(&driver));
}

TEST(load, a_fork_of_a_process_that_used_the_driver_is_refused)
{
    const struct tn_driver *driver;
    int result = 0;
    pid_t child;

    OK(tn_driver_load(&driver));
    ck_assert(!tn_is_forked());
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        _exit(tn_is_forked() && tn_driver_load(&driver) == TARN_ERR_FORKED ? 0 : 1);
    ck_assert_int_eq(waitpid(child, &result, 0), child);
    ck_assert_int_eq(result, 0);
    ck_assert(!tn_is_forked());
}
