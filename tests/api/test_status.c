// SPDX-License-Identifier: Apache-2.0
/* Statuses, their names and sentences, the last error, the version. */
#include <stdio.h>

#include "support/world.h"

static const struct {
    tarn_status status;
    const char *name;
    int number;
    const char *sentence;
} table[] = {
#define ROW(name, number, sentence) {name, #name, number, sentence},
    TARN_STATUS_TABLE(ROW)
#undef ROW
};
enum { STATUS_COUNT = sizeof table / sizeof table[0] };

SUITE("statuses")
GROUP(without, NULL, .name = "without a device")

TEST(without, every_status_has_its_name_number_and_sentence)
{
    for (size_t i = 0; i < STATUS_COUNT; i++) {
        ck_assert_int_eq((int)table[i].status, table[i].number);
        ck_assert_str_eq(tarn_status_name(table[i].status), table[i].name);
        ck_assert_str_eq(tarn_status_sentence(table[i].status), table[i].sentence);
    }
}

TEST(without, numbers_are_unique_and_success_is_zero)
{
    ck_assert_int_eq((int)TARN_OK, 0);
    for (size_t i = 0; i < STATUS_COUNT; i++) {
        for (size_t j = 0; j < i; j++)
            ck_assert_int_ne(table[i].number, table[j].number);
    }
}

TEST(without, any_other_number_is_an_unknown_status)
{
    static const int others[] = {-1, 1, 99, 109, 205, 999, 0x7fffffff};

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        ck_assert_str_eq(tarn_status_name((tarn_status)others[i]), "unknown status");
        ck_assert_str_eq(tarn_status_sentence((tarn_status)others[i]), "unknown status");
    }
}

TEST(without, the_last_error_is_empty_before_the_first_failure)
{
    ck_assert_ptr_nonnull(tarn_last_error());
    ck_assert_str_eq(tarn_last_error(), "");
}

static void last_error_of_a_new_thread(void *before)
{
    ck_assert_str_eq(tarn_last_error(), "");
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_device_close(NULL));
    ck_assert_str_ne(tarn_last_error(), before);
}

TEST(without, each_thread_has_its_own_last_error)
{
    char mine[1024];

    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_device_open(0, NULL, NULL));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "device is NULL"));
    (void)snprintf(mine, sizeof mine, "%s", tarn_last_error());
    test_elsewhere(last_error_of_a_new_thread, mine);
    ck_assert_str_eq(tarn_last_error(), mine);
}

TEST(without, the_next_failure_replaces_the_last_error)
{
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_device_open(0, NULL, NULL));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "device"));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_pool_validate(NULL));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "pool"));
    ck_assert_ptr_null(strstr(tarn_last_error(), "device is NULL"));
}

TEST(without, ends_of_nothing_succeed)
{
    OK(tarn_free(NULL));
    OK(tarn_free_on(NULL, NULL));
    OK(tarn_pool_destroy(NULL));
    OK(tarn_capture_abort(NULL));
    OK(tarn_graph_destroy(NULL));
    OK(tarn_checkpoint_destroy(NULL));
    tarn_delta_destroy(NULL);
    tarn_layout_destroy(NULL);
    tarn_live_diff_destroy(NULL);
}

TEST(without, the_running_version_is_that_of_the_headers)
{
    char expected[32];

    (void)snprintf(expected, sizeof expected, "%d.%d.%d", TARN_VERSION_MAJOR, TARN_VERSION_MINOR,
                   TARN_VERSION_PATCH);
    ck_assert_str_eq(tarn_version(), TARN_VERSION_STRING);
    ck_assert_str_eq(tarn_version(), expected);
}
