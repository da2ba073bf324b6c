// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <string.h>

#include "support/registry.h"

SUITE("options of the command")

enum { WORDS = 8 };

/* Reads words with blanks between them. */
static bool read_words(struct options *options, const char *line, const char *known,
                       unsigned operands)
{
    static char copy[256];
    char *arguments[WORDS + 1] = {NULL};
    int count = 0;

    (void)strcpy(copy, line);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " "))
        arguments[count++] = word;
    return options_read(options, count, arguments, known, operands);
}

GROUP(options, NULL)

TEST(options, have_values_wherever_they_stand)
{
    struct options options;

    ck_assert(read_words(&options, "dump --events 5 123 --block 0xAb --json", "ojeptb", 1));
    ck_assert_str_eq(options.what, "123");
    ck_assert_uint_eq(options.events, 5);
    ck_assert(options.by_address && options.address == 0xab);
    ck_assert(options.as_json && !options.by_pool && !options.has_top && options.out == NULL);
    ck_assert(read_words(&options, "dump --pool 9 -o a file --top 0", "ojeptb", 1));
    ck_assert_str_eq(options.what, "file");
    ck_assert_str_eq(options.out, "a");
    ck_assert(options.by_pool && options.pool == 9);
    ck_assert(options.has_top && options.top == 0);
    ck_assert_uint_eq(options.events, 20);
}

TEST(options, may_stand_between_two_operands)
{
    struct options options;

    ck_assert(read_words(&options, "diff a --top 3 b", "ojptd", 2));
    ck_assert_str_eq(options.what, "a");
    ck_assert_str_eq(options.other, "b");
    ck_assert_uint_eq(options.top, 3);
    ck_assert(!read_words(&options, "diff a", "ojptd", 2));
    ck_assert(!read_words(&options, "diff a b c", "ojptd", 2));
}

TEST(options, that_make_no_sense_are_refused)
{
    static const char *const lines[] = {
        "dump",
        "dump 1 2",
        "dump 1 --events",
        "dump 1 --events x",
        "dump 1 --events -1",
        "dump 1 --events 5x",
        "dump 1 --block 0x",
        "dump 1 --nonsense",
        "dump 1 -z",
        "dump 1 --pool 99999999999999999999",
    };
    struct options options;

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        ck_assert_msg(!read_words(&options, lines[i], "ojeptb", 1), "%s", lines[i]);
    ck_assert(!read_words(&options, "list 1", "oj", 0));
    ck_assert(!read_words(&options, "list --events 5", "oj", 0));
}
