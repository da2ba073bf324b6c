// SPDX-License-Identifier: Apache-2.0
#include "text.h"

#include <stdlib.h>

#include "support/registry.h"

SUITE("texts for people")

static char *text;
static size_t bytes;
static FILE *file;

static void begin(void)
{
    file = open_memstream(&text, &bytes);
    ck_assert_ptr_nonnull(file);
}

static void expect(const char *expected)
{
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_str_eq(text, expected);
    free(text);
}

GROUP(texts, begin)

TEST(texts, move_no_cursor)
{
    text_put(file, "a\x1b[2J\r\n\x7f\tz\xc3\xa9");
    expect("a?[2J????z\xc3\xa9");
}

TEST(texts, of_bytes_have_units)
{
    text_bytes(file, 0);
    (void)fputc(' ', file);
    text_bytes(file, 1023);
    (void)fputc(' ', file);
    text_bytes(file, 1536);
    (void)fputc(' ', file);
    text_bytes(file, 1e30);
    expect("0 B 1023 B 1.5 KiB 888178419700125.2 PiB");
}

TEST(texts, of_moments_are_utc)
{
    text_time(file, 1700000000123456789);
    (void)fputc(' ', file);
    text_time(file, 18446744073709551615ULL);
    expect("2023-11-14T22:13:20.123456Z 2554-07-21T23:34:33.709551Z");
}
