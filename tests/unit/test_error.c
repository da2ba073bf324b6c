// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit/unit.h"

GROUP(fail, NULL)

TEST(fail, the_sentence_is_empty_before_the_first_failure)
{
    ck_assert_str_eq(tarn_last_error(), "");
}

TEST(fail, a_failure_leaves_its_sentence_and_returns_its_status)
{
    ck_assert_int_eq(tn_fail(TARN_ERR_BUSY, "pool '%s' has %d blocks", "net", 3), TARN_ERR_BUSY);
    ck_assert_str_eq(tarn_last_error(), "pool 'net' has 3 blocks");
    ck_assert_int_eq(tn_fail(TARN_ERR_LIMIT, "too much"), TARN_ERR_LIMIT);
    ck_assert_str_eq(tarn_last_error(), "too much");
}

TEST(fail, a_sentence_too_long_is_cut)
{
    char words[3000];

    memset(words, 'w', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    (void)tn_fail(TARN_ERR_DRIVER, "%s", words);
    ck_assert_uint_eq(strlen(tarn_last_error()), 1023);
}

static void expect_no_sentence_then_leave_one(void *argument)
{
    (void)argument;
    ck_assert_str_eq(tarn_last_error(), "");
    (void)tn_fail(TARN_ERR_BUSY, "the other thread's");
}

TEST(fail, each_thread_has_its_own_sentence)
{
    (void)tn_fail(TARN_ERR_BUSY, "this thread's");
    test_elsewhere(expect_no_sentence_then_leave_one, NULL);
    ck_assert_str_eq(tarn_last_error(), "this thread's");
}

/* What one failure writes to standard error. */
static size_t read_log(char *text, size_t text_bytes)
{
    int ends[2];
    int saved = dup(STDERR_FILENO);
    ssize_t length;

    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
    (void)tn_fail(TARN_ERR_BUSY, "in use");
    ck_assert_int_ge(dup2(saved, STDERR_FILENO), 0);
    (void)close(ends[1]);
    length = read(ends[0], text, text_bytes - 1);
    ck_assert_int_ge(length, 0);
    text[length] = '\0';
    return (size_t)length;
}

TEST(fail, sentences_are_logged_on_request_alone)
{
    char text[256];

    (void)unsetenv("TARN_LOG");
    ck_assert_uint_eq(read_log(text, sizeof text), 0);
    (void)setenv("TARN_LOG", "0", 1);
    ck_assert_uint_eq(read_log(text, sizeof text), 0);
    (void)setenv("TARN_LOG", "1", 1);
    ck_assert_uint_gt(read_log(text, sizeof text), 0);
    ck_assert_str_eq(text, "tarn: TARN_ERR_BUSY: in use\n");
}

CONTRACT_TEST(fail, success_is_no_failure)
{
    (void)tn_fail(TARN_OK, "nothing");
}

GROUP(tables, NULL)

TEST(tables, every_status_has_its_name_and_sentence)
{
#define EXPECT_ROW(name, number, sentence)                                                         \
    ck_assert_int_eq(name, number);                                                                \
    ck_assert_str_eq(tarn_status_name(name), #name);                                               \
    ck_assert_str_eq(tarn_status_sentence(name), sentence);
    TARN_STATUS_TABLE(EXPECT_ROW)
#undef EXPECT_ROW
}

TEST(tables, an_unknown_status_is_called_so)
{
    ck_assert_str_eq(tarn_status_name((tarn_status)99), "unknown status");
    ck_assert_str_eq(tarn_status_sentence((tarn_status)-1), "unknown status");
}
