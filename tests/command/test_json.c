// SPDX-License-Identifier: Apache-2.0
#include "json.h"

#include <stdlib.h>

#include "support/registry.h"

SUITE("JSON")

static char *text;
static size_t bytes;
static struct json json;

static void begin(void)
{
    json = (struct json){.file = open_memstream(&text, &bytes)};
    ck_assert_ptr_nonnull(json.file);
}

static void expect(const char *expected)
{
    ck_assert_int_eq(fclose(json.file), 0);
    ck_assert_str_eq(text, expected);
    free(text);
}

GROUP(values, begin)

TEST(values, have_commas_between_them_and_none_behind)
{
    json_begin(&json, NULL, '{');
    json_number(&json, "a", UINT64_MAX);
    json_begin(&json, "b", '[');
    json_text(&json, NULL, "c");
    json_bool(&json, NULL, true);
    json_end(&json, ']');
    json_begin(&json, "d", '{');
    json_end(&json, '}');
    json_address(&json, "e", 0xab);
    json_decimal(&json, "f", 2.6);
    json_text(&json, "g", NULL);
    json_end(&json, '}');
    expect("{\n \"a\": 18446744073709551615,\n \"b\": [\n  \"c\",\n  true\n ],\n \"d\": {},\n"
           " \"e\": \"0xab\",\n \"f\": 3,\n \"g\": null\n}\n");
}

TEST(values, are_texts_with_escapes)
{
    json_text(&json, NULL, "\"\\\n\x1b\x7f/");
    expect("\"\\\"\\\\\\u000a\\u001b\\u007f/\"");
}

TEST(values, are_utf_8_whatever_the_bytes)
{
    /* A letter of two bytes, a lone one, one too long for its value, a surrogate, a cut one, four. */
    json_text(&json, NULL,
              "\xc3\xa9|\x80|\xc0\xaf|\xed\xa0\x80|\xe2\x82|\xf0\x9f\x98\x80|\xf4\x90\x80\x80");
    expect(
        "\"\xc3\xa9|\\ufffd|\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd|\\ufffd\\ufffd|\xf0\x9f\x98\x80|"
        "\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

TEST(values, below_a_depth_stand_in_one_line)
{
    json.packed_depth = 1;
    json_begin(&json, NULL, '[');
    for (uint64_t i = 0; i < 2; i++) {
        json_begin(&json, NULL, '{');
        json_raw(&json, "a", "1.5");
        json_begin(&json, "b", '[');
        json_number(&json, NULL, i);
        json_number(&json, NULL, i);
        json_end(&json, ']');
        json_end(&json, '}');
    }
    json_end(&json, ']');
    expect("[\n {\"a\": 1.5,\"b\": [0,0]},\n {\"a\": 1.5,\"b\": [1,1]}\n]\n");
}
