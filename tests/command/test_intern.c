// SPDX-License-Identifier: Apache-2.0
#include "intern.h"

#include <stdio.h>

#include "support/registry.h"

SUITE("texts with numbers")

GROUP(texts, NULL)

TEST(texts, have_one_number_each_in_the_order_of_their_coming)
{
    enum { TEXTS = 1000 };
    struct intern intern = {.all = NULL};
    char text[32];
    bool is_new;

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < TEXTS; i++) {
            (void)snprintf(text, sizeof text, "text %d", i);
            ck_assert_int_eq(intern_add(&intern, text, &is_new), i);
            ck_assert_int_eq(is_new, round == 0);
        }
    }
    ck_assert_uint_eq(intern.count, TEXTS);
    ck_assert_str_eq(intern.all[7], "text 7");
    ck_assert_int_eq(intern_add(&intern, "", NULL), TEXTS);
    ck_assert_int_eq(intern_add(&intern, "", NULL), TEXTS);
    intern_free(&intern);
}
