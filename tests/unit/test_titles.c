// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "observe/titles.h"
#include "unit/unit.h"

SUITE("copies of titles")

enum { BYTES = 256 * 1024 };

static uint64_t *words;
static struct tn_stacks stacks;
static struct tn_titles titles;

static void open_table(void)
{
    words = calloc(1, BYTES);
    ck_assert_ptr_nonnull(words);
    ck_assert(tn_stacks_init(&stacks, words, BYTES));
    titles =
        tn_titles_new(&(struct tn_scroll_reader){tn_scroll_from_memory, &stacks.scroll, BYTES});
}

static void close_table(void)
{
    tn_titles_free(&titles);
    tn_stacks_drop(&stacks);
    free(words);
}

GROUP(titles, open_table, .end = close_table)

static uint32_t enter(const char *text)
{
    struct tn_title title;

    ck_assert_int_eq(tn_title_make(&title, text), TN_TITLE_GOOD);
    return tn_title_enter(&stacks, &title);
}

static uint32_t enter_stack(uint64_t first, size_t count)
{
    const struct tn_stack stack = {.count = count, .frames = {first, 0x1000, 0x2000}};
    bool is_new;

    return tn_stacks_enter(&stacks, &stack, &is_new);
}

TEST(titles, many_texts_are_copied_once_each)
{
    enum { COUNT = 500 };
    static const char *copies[COUNT];
    static uint32_t ids[COUNT];
    char text[32];

    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(text, sizeof text, "text %d", i);
        ids[i] = enter(text);
        copies[i] = tn_titles_text(&titles, ids[i]);
        ck_assert_str_eq(copies[i], text);
    }
    for (int i = 0; i < COUNT; i++)
        ck_assert_ptr_eq(tn_titles_text(&titles, ids[i]), copies[i]);
    ck_assert_uint_eq(titles.count, COUNT);
    ck_assert(!titles.short_of_memory);
}

TEST(titles, a_stack_has_the_label_in_front)
{
    const uint32_t label = enter("a layer");

    ck_assert_str_eq(
        tn_titles_label(&titles, enter_stack(tn_stack_title(TN_STACK_LABEL, label), 3)), "a layer");
    ck_assert_str_eq(
        tn_titles_label(&titles, enter_stack(tn_stack_title(TN_STACK_LABEL, label), 1)), "a layer");
    ck_assert_str_eq(tn_titles_label(&titles, enter_stack(0x3000, 3)), "");
    ck_assert_str_eq(tn_titles_label(&titles, enter_stack(0, 0)), "");
}

TEST(titles, what_is_no_title_is_empty)
{
    const uint32_t stack = enter_stack(0x3000, 3);

    ck_assert_str_eq(tn_titles_text(&titles, 0), "");
    ck_assert_str_eq(tn_titles_text(&titles, TN_STACKS_FULL), "");
    ck_assert_str_eq(tn_titles_text(&titles, stack), "");
    ck_assert_str_eq(tn_titles_text(&titles, UINT64_C(1) << 32 | stack), "");
    ck_assert_str_eq(tn_titles_label(&titles, 0), "");
    ck_assert_str_eq(tn_titles_label(&titles, TN_STACKS_FULL), "");
    ck_assert_str_eq(tn_titles_label(&titles, 5000), "");
    ck_assert_str_eq(tn_titles_label(&titles, UINT64_MAX), "");
    ck_assert(!titles.short_of_memory);
}
