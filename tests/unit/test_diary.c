// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "share/diary.h"
#include "unit/unit.h"

static struct tn_diary diaries[2];

static void begin(void)
{
    tn_diary_init(&diaries[0]);
    tn_diary_init(&diaries[1]);
}

static void add(struct tn_diary *diary, uint64_t bytes)
{
    tn_diary_add(
        diary, (struct tn_diary_entry){.kind = TN_DIARY_ALLOCATION, .bytes = bytes, .offset = 512});
}

SUITE("diaries")
GROUP(diary, begin, NULL)

TEST(diary, the_same_calls_have_the_same_hash)
{
    for (uint64_t i = 0; i < 10; i++) {
        add(&diaries[0], i);
        add(&diaries[1], i);
        ck_assert_uint_eq(diaries[0].hash, diaries[1].hash);
    }
    add(&diaries[0], 1);
    add(&diaries[1], 2);
    ck_assert_uint_ne(diaries[0].hash, diaries[1].hash);
    add(&diaries[0], 3);
    add(&diaries[1], 3);
    ck_assert_uint_ne(diaries[0].hash, diaries[1].hash); /* and never again */
}

TEST(diary, each_field_of_a_call_counts)
{
    const struct tn_diary_entry entries[] = {
        {.kind = TN_DIARY_FREE},
        {.kind = TN_DIARY_ALLOCATION},
        {.kind = TN_DIARY_FREE, .bytes = 1},
        {.kind = TN_DIARY_FREE, .offset = 1},
        {.kind = TN_DIARY_FREE, .id = 1},
    };
    uint64_t hashes[5];

    for (size_t i = 0; i < 5; i++) {
        tn_diary_init(&diaries[0]);
        tn_diary_add(&diaries[0], entries[i]);
        hashes[i] = diaries[0].hash;
        for (size_t j = 0; j < i; j++)
            ck_assert_uint_ne(hashes[i], hashes[j]);
    }
}

TEST(diary, hashes_of_the_last_calls_are_known)
{
    uint64_t hashes[3 * TN_DIARY_KEPT + 1] = {0};
    uint64_t hash = 1;

    for (uint64_t i = 1; i <= 3 * TN_DIARY_KEPT; i++) {
        add(&diaries[0], i);
        hashes[i] = diaries[0].hash;
        if (i < TN_DIARY_KEPT)
            ck_assert_uint_eq(tn_diary_oldest(&diaries[0]), 0);
    }
    ck_assert_uint_eq(tn_diary_oldest(&diaries[0]), 2 * TN_DIARY_KEPT + 1);
    for (uint64_t i = 0; i <= 3 * TN_DIARY_KEPT; i++) {
        bool known = tn_diary_hash_of(&diaries[0], i, &hash);

        ck_assert(known == (i >= tn_diary_oldest(&diaries[0])));
        ck_assert(!known || hash == hashes[i]);
    }
    ck_assert(!tn_diary_hash_of(&diaries[0], 3 * TN_DIARY_KEPT + 1, &hash));
    ck_assert(tn_diary_hash_of(&diaries[1], 0, &hash));
    ck_assert_uint_eq(tn_diary_at(&diaries[0], 3 * TN_DIARY_KEPT - 1)->bytes, 3 * TN_DIARY_KEPT);
    ck_assert_uint_eq(tn_diary_at(&diaries[0], 2 * TN_DIARY_KEPT)->bytes, 2 * TN_DIARY_KEPT + 1);
}

TEST(diary, a_call_in_words)
{
    char text[120];

    tn_diary_say(&(struct tn_diary_entry){.kind = TN_DIARY_FREE, .bytes = 7, .offset = 512}, text,
                 sizeof text);
    ck_assert_str_eq(text, "frees 7 bytes at offset 512");
    tn_diary_say(&(struct tn_diary_entry){.kind = TN_DIARY_ALLOCATION, .bytes = 7, .id = 3}, text,
                 sizeof text);
    ck_assert_str_eq(text, "allocates 7 bytes at offset 0, id 3");
    tn_diary_say(&(struct tn_diary_entry){.kind = TN_DIARY_GROWTH, .bytes = 7}, text, sizeof text);
    ck_assert_str_eq(text, "reserves 7 bytes at offset 0");
    tn_diary_say(&(struct tn_diary_entry){.kind = 0}, text, sizeof text);
    ck_assert_str_eq(text, "has made no call");
}
