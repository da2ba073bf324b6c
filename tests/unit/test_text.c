// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "unit/unit.h"

GROUP(writing, NULL)

TEST(writing, a_text_grows_by_what_is_put)
{
    char buffer[32];
    struct tn_text text = {buffer, sizeof buffer, 0};

    tn_put(&text, "%d pools", 3);
    tn_put(&text, ", %s", "idle");
    ck_assert_str_eq(buffer, "3 pools, idle");
    ck_assert_uint_eq(text.length, 13);
}

TEST(writing, what_does_not_fit_is_counted_and_not_written)
{
    char buffer[8] = "*******";
    struct tn_text text = {buffer, 4, 0};

    tn_put(&text, "abc");
    ck_assert_str_eq(buffer, "abc");
    tn_put(&text, "def");
    tn_put(&text, "ghi");
    ck_assert_str_eq(buffer, "abc");
    ck_assert_mem_eq(buffer + 4, "***", 4);
    ck_assert_uint_eq(text.length, 9);
}

TEST(writing, a_text_without_a_buffer_has_a_length)
{
    struct tn_text text = {NULL, 0, 0};

    tn_put(&text, "%s", "twelve bytes");
    ck_assert_uint_eq(text.length, 12);
}

TEST(writing, a_string_is_one_of_json_whatever_its_bytes)
{
    char buffer[64];
    struct tn_text text = {buffer, sizeof buffer, 0};

    tn_put_string(&text, "a\"b\\c\n\x7f\xfc");
    ck_assert_str_eq(buffer, "\"a\\u0022b\\u005cc\\u000a\\u007f\\u00fc\"");
}
