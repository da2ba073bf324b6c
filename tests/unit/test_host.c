// SPDX-License-Identifier: Apache-2.0
#include "unit/unit.h"

struct thing {
    uint64_t magic;
    void *link;
    uint64_t words[6];
};

GROUP(alloc, NULL)

TEST(alloc, memory_comes_zeroed_and_is_counted)
{
    int64_t before = tn_host_outstanding();
    uint64_t *words = tn_host_alloc(1000, sizeof *words);

    ck_assert_ptr_nonnull(words);
    for (size_t i = 0; i < 1000; i++)
        ck_assert_uint_eq(words[i], 0);
    ck_assert_int_eq(tn_host_outstanding(), before + 1);
    tn_host_free(words);
    ck_assert_int_eq(tn_host_outstanding(), before);
}

TEST(alloc, memory_that_is_touched_keeps_what_is_in_it)
{
    unsigned char *bytes = tn_host_alloc(3, 4096);

    memset(bytes, 7, 10000);
    tn_host_touch(bytes, 12288);
    for (size_t i = 0; i < 12288; i++)
        ck_assert_uint_eq(bytes[i], i < 10000 ? 7 : 0);
    tn_host_free(bytes);
}

TEST(alloc, bytes_are_counted_as_they_were_given)
{
    struct tn_host_usage before = tn_host_usage();
    struct tn_host_usage now;
    void *first = tn_host_alloc(100, 100);
    void *second = tn_host_alloc_unset(1, 5000);
    void *third = tn_host_alloc_aligned(4096, 4096);
    uint64_t bytes = 10000 + 5000 + 4096;

    now = tn_host_usage();
    ck_assert_uint_ge(now.current_bytes, before.current_bytes + bytes);
    ck_assert_uint_lt(now.current_bytes, before.current_bytes + bytes + 512);
    ck_assert_uint_ge(now.peak_bytes, now.current_bytes);
    ck_assert_uint_eq(now.allocated_bytes - before.allocated_bytes,
                      now.current_bytes - before.current_bytes);
    tn_host_free(second);
    tn_host_free(NULL);
    ck_assert_uint_le(tn_host_usage().current_bytes, now.current_bytes - 5000);
    ck_assert_uint_eq(tn_host_usage().peak_bytes, now.peak_bytes);
    ck_assert_uint_eq(tn_host_usage().allocated_bytes, now.allocated_bytes);
    tn_host_free(first);
    tn_host_free(third);
    ck_assert_uint_eq(tn_host_usage().current_bytes, before.current_bytes);
}

TEST(alloc, an_allocation_that_fails_is_no_bytes)
{
    struct tn_host_usage before = tn_host_usage();

    (void)tn_host_plan_fault(1, true);
    ck_assert_ptr_null(tn_host_alloc(1, 8));
    (void)tn_host_plan_fault(0, false);
    ck_assert_uint_eq(tn_host_usage().allocated_bytes, before.allocated_bytes);
}

TEST(alloc, freeing_null_does_nothing)
{
    int64_t before = tn_host_outstanding();

    tn_host_free(NULL);
    ck_assert_int_eq(tn_host_outstanding(), before);
}

CONTRACT_TEST(alloc, an_allocation_of_nothing_is_a_broken_contract)
{
    (void)tn_host_alloc(0, 8);
}

TEST(alloc, a_planned_fault_fails_the_nth_allocation_once)
{
    void *first;
    void *third;

    (void)tn_host_plan_fault(2, false);
    first = tn_host_alloc(1, 8);
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_null(tn_host_alloc(1, 8));
    third = tn_host_alloc(1, 8);
    ck_assert_ptr_nonnull(third);
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    tn_host_free(first);
    tn_host_free(third);
}

TEST(alloc, a_fault_for_good_fails_every_allocation_until_forgotten)
{
    void *memory;

    (void)tn_host_plan_fault(1, true);
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_null(tn_host_alloc(1, 8));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 3);
    memory = tn_host_alloc(1, 8);
    ck_assert_ptr_nonnull(memory);
    tn_host_free(memory);
}

GROUP(grow, NULL)

TEST(grow, an_array_grows_from_nothing_and_keeps_its_items)
{
    uint32_t *items = NULL;
    size_t capacity = 0;

    ck_assert(tn_host_grow((void **)&items, &capacity, 1, sizeof *items));
    ck_assert_uint_eq(capacity, 8);
    for (uint32_t i = 0; i < 8; i++)
        items[i] = i + 1;
    ck_assert(tn_host_grow((void **)&items, &capacity, 9, sizeof *items));
    ck_assert_uint_eq(capacity, 16);
    for (uint32_t i = 0; i < 16; i++)
        ck_assert_uint_eq(items[i], i < 8 ? i + 1 : 0);
    ck_assert(tn_host_grow((void **)&items, &capacity, 1000, sizeof *items));
    ck_assert_uint_eq(capacity, 1000);
    ck_assert_uint_eq(items[7], 8);
    tn_host_free(items);
}

TEST(grow, an_array_with_room_is_left_alone)
{
    uint32_t *items = NULL;
    size_t capacity = 0;
    uint32_t *before;

    ck_assert(tn_host_grow((void **)&items, &capacity, 8, sizeof *items));
    before = items;
    (void)tn_host_plan_fault(1, true);
    ck_assert(tn_host_grow((void **)&items, &capacity, 8, sizeof *items));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 0);
    ck_assert_ptr_eq(items, before);
    tn_host_free(items);
}

TEST(grow, an_array_that_cannot_grow_is_unchanged)
{
    uint32_t *items = NULL;
    size_t capacity = 0;
    uint32_t *before;

    ck_assert(tn_host_grow((void **)&items, &capacity, 8, sizeof *items));
    before = items;
    (void)tn_host_plan_fault(1, false);
    ck_assert(!tn_host_grow((void **)&items, &capacity, 9, sizeof *items));
    ck_assert_ptr_eq(items, before);
    ck_assert_uint_eq(capacity, 8);
    tn_host_free(items);
}

static struct tn_records records = TN_RECORDS_INIT(struct thing); /* slabs are never given back */

GROUP(records, NULL)

TEST(records, a_record_comes_zeroed_and_is_recycled)
{
    struct thing *thing = tn_records_take(&records);

    ck_assert_ptr_nonnull(thing);
    thing->magic = 7;
    thing->words[5] = 9;
    thing->magic = 0;
    tn_records_give(&records, thing);
    ck_assert_ptr_eq(tn_records_take(&records), thing);
    ck_assert_uint_eq(thing->magic, 0);
    ck_assert_ptr_null(thing->link);
    ck_assert_uint_eq(thing->words[5], 0);
}

TEST(records, a_free_record_has_a_magic_of_zero)
{
    struct thing *a = tn_records_take(&records);
    struct thing *b = tn_records_take(&records);

    tn_records_give(&records, a);
    tn_records_give(&records, b); /* linked to a, behind its magic */
    ck_assert_uint_eq(a->magic, 0);
    ck_assert_uint_eq(b->magic, 0);
}

TEST(records, records_of_several_slabs_do_not_overlap)
{
    enum { COUNT = 1000 }; /* of 64 bytes: of every size of slab, several of the largest */
    static struct thing *things[COUNT];

    for (size_t i = 0; i < COUNT; i++) {
        things[i] = tn_records_take(&records);
        ck_assert_ptr_nonnull(things[i]);
        ck_assert_uint_eq((uintptr_t)things[i] % 16, 0);
        for (size_t word = 0; word < 6; word++)
            things[i]->words[word] = i;
    }
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t word = 0; word < 6; word++)
            ck_assert_uint_eq(things[i]->words[word], i);
    }
}

TEST(records, no_record_without_memory_for_a_slab)
{
    (void)tn_host_plan_fault(1, false);
    ck_assert_ptr_null(tn_records_take(&records));
    ck_assert_ptr_nonnull(tn_records_take(&records));
    ck_assert(tn_lock_none_held());
}

static uint64_t taken_bytes(void)
{
    return tn_host_usage().allocated_bytes;
}

TEST(records, slabs_begin_small_and_double)
{
    enum { KIB = 1024, TAKES = 2000 };
    uint64_t sizes[16];
    size_t count = 0;

    (void)tn_host_plan_fault(1, false);
    ck_assert_ptr_null(tn_records_take(&records)); /* a refusal makes none larger */
    for (size_t i = 0; i < TAKES && count < 16; i++) {
        uint64_t before = taken_bytes();

        ck_assert_ptr_nonnull(tn_records_take(&records));
        if (taken_bytes() > before)
            sizes[count++] = taken_bytes() - before;
    }
    ck_assert_uint_ge(count, 8);
    for (size_t i = 0; i < count; i++) {
        uint64_t expected = i < 3 ? (uint64_t)(2 * KIB) << i : 16 * KIB;

        ck_assert_uint_ge(sizes[i], expected);
        ck_assert_uint_lt(sizes[i], expected + KIB / 2);
    }
}

struct large_thing {
    uint64_t magic;
    char bytes[5000];
};

TEST(records, a_record_larger_than_a_slab_has_one_of_its_own)
{
    static struct tn_records large = TN_RECORDS_INIT(struct large_thing);

    for (int i = 0; i < 2; i++) { /* the third slab has room for one, too: 8 KiB */
        uint64_t before = taken_bytes();

        ck_assert_ptr_nonnull(tn_records_take(&large));
        ck_assert_uint_ge(taken_bytes() - before, sizeof(struct large_thing));
        ck_assert_uint_lt(taken_bytes() - before, 2 * sizeof(struct large_thing));
    }
}

TEST(records, of_records_without_slabs_a_few_are_kept)
{
    enum { KEPT = 2, COUNT = 5 };
    static struct tn_records spare = TN_RECORDS_INIT_SPARE(struct large_thing, KEPT);
    const uint64_t begin = tn_host_usage().current_bytes;
    struct large_thing *things[COUNT];

    for (int i = 0; i < COUNT; i++) {
        things[i] = tn_records_take(&spare);
        ck_assert_ptr_nonnull(things[i]);
        ck_assert_uint_eq((uintptr_t)things[i] % 128, 0);
        ck_assert_uint_eq(things[i]->magic, 0);
        for (size_t at = 0; at < sizeof things[i]->bytes; at++)
            ck_assert_int_eq(things[i]->bytes[at], 0);
    }
    ck_assert_uint_ge(tn_host_usage().current_bytes, begin + COUNT * sizeof *things[0]);
    for (int i = 0; i < COUNT; i++)
        tn_records_give(&spare, things[i]);
    ck_assert_uint_ge(tn_host_usage().current_bytes, begin + KEPT * sizeof *things[0]);
    ck_assert_uint_lt(tn_host_usage().current_bytes, begin + (KEPT + 1) * sizeof *things[0]);
    ck_assert_ptr_eq(tn_records_take(&spare), things[1]);
    ck_assert_ptr_eq(tn_records_take(&spare), things[0]);
    (void)tn_host_plan_fault(1, false);
    ck_assert_ptr_null(tn_records_take(&spare));
    (void)tn_host_plan_fault(0, false);
    things[2] = tn_records_take(&spare);
    ck_assert_ptr_nonnull(things[2]);
    for (int i = 0; i < 3; i++)
        tn_records_give(&spare, things[i]);
}

CONTRACT_TEST(records, a_record_given_back_with_its_magic_is_a_broken_contract)
{
    struct thing *thing = tn_records_take(&records);

    thing->magic = 7;
    tn_records_give(&records, thing);
}
