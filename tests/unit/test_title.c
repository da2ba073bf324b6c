// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/title.h"
#include "unit/unit.h"

SUITE("titles")

enum { BYTES = 256 * 1024, SMALL = 4096 };

static uint64_t *words;
static struct tn_stacks stacks;
static struct tn_scroll_reader reader;

static void open_table(size_t bytes)
{
    words = calloc(1, bytes);
    ck_assert_ptr_nonnull(words);
    ck_assert(tn_stacks_init(&stacks, words, bytes));
    reader = (struct tn_scroll_reader){tn_scroll_from_memory, &stacks.scroll, bytes};
}

static void open_large(void)
{
    open_table(BYTES);
}

static void open_small(void)
{
    open_table(SMALL);
}

static void close_table(void)
{
    tn_stacks_drop(&stacks);
    free(words);
}

GROUP(titles, open_large, .end = close_table)
GROUP(small, open_small, .end = close_table)
GROUP(texts, NULL)

static uint32_t enter(const char *text)
{
    struct tn_title title;

    ck_assert_int_eq(tn_title_make(&title, text), TN_TITLE_GOOD);
    ck_assert_str_eq(tn_title_text(&title), text);
    return tn_title_enter(&stacks, &title);
}

static uint32_t enter_frame(uint64_t token, const char *text)
{
    struct tn_title title;

    tn_title_make_frame(&title, token, text);
    return tn_title_enter(&stacks, &title);
}

static void expect(uint32_t id, enum tn_title_kind kind, uint64_t token, const char *text)
{
    struct tn_title_text read;

    ck_assert_int_eq(tn_title_read(&reader, id, &read), TN_SCROLL_READ);
    ck_assert_int_eq(read.kind, kind);
    ck_assert_uint_eq(read.token, token);
    ck_assert_str_eq(read.text, text);
}

TEST(titles, equal_texts_have_one_id)
{
    static const char *const all[] = {"", "a", "layer 1", "layer 2", "12345678", "123456789"};
    uint32_t ids[6];

    for (size_t i = 0; i < 6; i++) {
        ids[i] = enter(all[i]);
        for (size_t j = 0; j < i; j++)
            ck_assert_uint_ne(ids[i], ids[j]);
    }
    for (size_t i = 0; i < 6; i++) {
        ck_assert_uint_eq(enter(all[i]), ids[i]);
        expect(ids[i], TN_TITLE_TEXT, 0, all[i]);
    }
}

TEST(titles, a_token_has_the_name_that_it_got_first)
{
    uint32_t first;
    uint32_t nameless;

    ck_assert_uint_eq(tn_title_find_frame(&stacks, 7), 0);
    first = enter_frame(7, "model.py:12 forward");
    ck_assert_uint_eq(tn_title_find_frame(&stacks, 7), first);
    ck_assert_uint_eq(tn_title_find_frame(&stacks, 8), 0);
    ck_assert_uint_eq(enter_frame(7, "another"), first);
    nameless = enter_frame(UINT64_MAX, "");
    ck_assert_uint_eq(enter_frame(UINT64_MAX, "late"), nameless);
    expect(first, TN_TITLE_FRAME, 7, "model.py:12 forward");
    expect(nameless, TN_TITLE_FRAME, UINT64_MAX, "");
}

TEST(titles, a_stack_is_no_title_and_a_title_no_other_stack)
{
    struct tn_stack stack = {.count = 2, .frames = {0x1000, 0x2000}};
    struct tn_title_text read;
    bool is_new;
    uint32_t id = tn_stacks_enter(&stacks, &stack, &is_new);

    ck_assert_int_eq(tn_title_read(&reader, id, &read), TN_SCROLL_BROKEN);
    ck_assert_int_eq(tn_title_read(&reader, 0, &read), TN_SCROLL_BROKEN);
    ck_assert_int_eq(tn_title_read(&reader, 5000, &read), TN_SCROLL_EMPTY);
    stack.count = 0;
    id = tn_stacks_enter(&stacks, &stack, &is_new);
    ck_assert_int_eq(tn_title_read(&reader, id, &read), TN_SCROLL_BROKEN);
    expect(TN_STACKS_FULL, TN_TITLE_TEXT, 0, "");
}

/* Stacks keep half of the room, and come in when titles do not. */
TEST(small, titles_take_half_of_the_room)
{
    struct tn_stack stack = {.count = 8};
    uint64_t lost;
    char text[32];
    uint32_t last = 0;
    bool is_new;
    int count = 0;

    for (; last != TN_STACKS_FULL && count < 1000; count++) {
        (void)snprintf(text, sizeof text, "title %06d", count % 1000000);
        last = enter(text);
    }
    ck_assert_int_gt(count, SMALL / 8 / 2 / 4 - 4); /* each takes 4 words */
    ck_assert_int_lt(count, SMALL / 8 / 2 / 4 + 2);
    lost = tn_scroll_lost(&stacks.scroll);
    ck_assert_uint_eq(lost, 1);
    ck_assert_uint_eq(enter("title 000000"), TN_SCROLL_FIRST);
    ck_assert_uint_eq(enter("one more"), TN_STACKS_FULL);
    ck_assert_uint_eq(tn_scroll_lost(&stacks.scroll), 2);
    for (uint64_t i = 0; i < 8; i++)
        stack.frames[i] = 0x1000 + i;
    ck_assert_uint_gt(tn_stacks_enter(&stacks, &stack, &is_new), TN_STACKS_FULL);
    ck_assert(is_new);
}

TEST(texts, a_title_has_so_many_bytes_at_most)
{
    char text[TN_TITLE_BYTES_MAX + 2];
    struct tn_title title;

    memset(text, 'x', sizeof text);
    text[TN_TITLE_BYTES_MAX] = '\0';
    ck_assert_int_eq(tn_title_make(&title, text), TN_TITLE_GOOD);
    ck_assert_uint_eq(strlen(tn_title_text(&title)), TN_TITLE_BYTES_MAX);
    text[TN_TITLE_BYTES_MAX] = 'x';
    text[TN_TITLE_BYTES_MAX + 1] = '\0';
    ck_assert_int_eq(tn_title_make(&title, text), TN_TITLE_LONG);
}

TEST(texts, a_title_is_utf_8)
{
    static const char *const good[] = {
        "plain",        "\x7f",         "\xc2\x80",         "\xdf\xbf",         "\xe0\xa0\x80",
        "\xed\x9f\xbf", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "a\xc3\xa9z",
    };
    static const char *const bad[] = {
        "\x80",
        "\xc0\x80",
        "\xc1\xbf",
        "\xc2",
        "\xc2\x7f",
        "\xc2\xc0",
        "\xe0\x9f\xbf",
        "\xed\xa0\x80",
        "\xe1\x80",
        "\xe1\x80\xc0",
        "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xf1\x80\x80",
        "ab\xff",
    };
    struct tn_title title;

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        ck_assert_int_eq(tn_title_make(&title, good[i]), TN_TITLE_GOOD);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_int_eq(tn_title_make(&title, bad[i]), TN_TITLE_BYTES);
}

/* A name from elsewhere becomes one: cut behind a whole character, with a mark for other bytes. */
TEST(titles, a_frame_s_name_is_made_utf_8)
{
    char text[TN_TITLE_BYTES_MAX + 3];
    char expected[TN_TITLE_BYTES_MAX];

    expect(enter_frame(1, "a\xff\xc3\xa9\xc3"), TN_TITLE_FRAME, 1, "a?\xc3\xa9?");
    memset(text, 'x', sizeof text);
    memset(expected, 'x', sizeof expected);
    memcpy(text + TN_TITLE_BYTES_MAX - 1, "\xc3\xa9", 3);
    expected[TN_TITLE_BYTES_MAX - 1] = '\0';
    expect(enter_frame(2, text), TN_TITLE_FRAME, 2, expected);
}

/* What no writer wrote. */
TEST(titles, foreign_records_are_refused)
{
    static const uint64_t top = UINT64_C(3) << 62;
    static const struct {
        size_t count;
        uint64_t words[2];
    } foreign[] = {{1, {0}},       {1, {top >> 1}},  {1, {top}},           {1, {top | 3}},
                   {1, {top | 2}}, {128, {top | 1}}, {1, {(top >> 1) | 1}}};
    uint64_t record[200] = {0};
    struct tn_title_text read;

    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        memcpy(record, foreign[i].words, sizeof foreign[i].words);
        ck_assert_int_eq(
            tn_title_read(&reader, tn_scroll_add(&stacks.scroll, record, foreign[i].count), &read),
            TN_SCROLL_BROKEN);
    }
    record[0] = top | 1;
    record[1] = UINT64_C(0x0000ff4141414141);
    expect(tn_scroll_add(&stacks.scroll, record, 2), TN_TITLE_TEXT, 0, "AAAAA?");
}
