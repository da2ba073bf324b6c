// SPDX-License-Identifier: Apache-2.0
#include "base/host.h"
#include "base/word_set.h"
#include "unit/unit.h"

SUITE("word sets")
GROUP(words, NULL)

TEST(words, words_are_found_with_the_bit_beside_them)
{
    enum { WORDS = 1000 };
    struct tn_word_set set = {.table = NULL};

    for (uint64_t i = 1; i <= WORDS; i++) {
        uint64_t *place;

        ck_assert(tn_word_set_reserve(&set));
        place = tn_word_set_place(&set, 512 * i);
        ck_assert_uint_eq(*place, 0);
        *place = 512 * i + i % 2;
        set.count += 1;
    }
    for (uint64_t i = 1; i <= WORDS; i++) {
        ck_assert_uint_eq(*tn_word_set_place(&set, 512 * i), 512 * i + i % 2);
        ck_assert_uint_eq(*tn_word_set_place(&set, 512 * i + 1), 512 * i + i % 2);
        ck_assert_uint_eq(*tn_word_set_place(&set, 512 * i + 2), 0);
    }
    ck_assert_uint_ge(set.capacity, 2 * set.count);
    tn_word_set_drop(&set);
    ck_assert_uint_eq(set.capacity, 0);
    tn_word_set_drop(&set);
}

TEST(words, without_memory_a_set_is_as_it_was)
{
    struct tn_word_set set = {.table = NULL};
    uint64_t word = 2;

    (void)tn_host_plan_fault(1, false);
    ck_assert(!tn_word_set_reserve(&set));
    (void)tn_host_plan_fault(0, false);
    ck_assert(tn_word_set_reserve(&set));
    for (; 2 * (set.count + 1) <= set.capacity; word += 2) {
        *tn_word_set_place(&set, word) = word;
        set.count += 1;
    }
    (void)tn_host_plan_fault(1, false);
    ck_assert(!tn_word_set_reserve(&set));
    (void)tn_host_plan_fault(0, false);
    for (uint64_t i = 2; i < word; i += 2)
        ck_assert_uint_eq(*tn_word_set_place(&set, i), i);
    tn_word_set_drop(&set);
}
