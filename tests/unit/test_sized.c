// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/sized.h"
#include "unit/unit.h"

/* As the library knows it; what came before it has no more than first, and what comes behind it has more. */
struct known {
    size_t size;
    uint64_t first;
    uint64_t last;
};
struct older {
    size_t size;
    uint64_t first;
};
struct newer {
    size_t size;
    uint64_t first;
    uint64_t last;
    uint64_t more[2];
};

static const struct tn_sized sized = {"tarn_known", sizeof(struct older), sizeof(struct known)};

GROUP(inputs, NULL)

TEST(inputs, a_struct_is_described_by_its_type_and_its_first_fields)
{
    struct tn_sized made = TN_SIZED(struct known, first);

    ck_assert_str_eq(made.name, "struct known");
    ck_assert_uint_eq(made.least_bytes, sizeof(struct older));
    ck_assert_uint_eq(made.known_bytes, sizeof(struct known));
}

TEST(inputs, no_input_is_all_defaults)
{
    struct known known = {7, 7, 7};

    OK(tn_sized_read(sized, NULL, &known));
    ck_assert_uint_eq(known.size, sizeof known);
    ck_assert_uint_eq(known.first, 0);
    ck_assert_uint_eq(known.last, 0);
}

TEST(inputs, an_older_input_has_defaults_for_what_it_lacks)
{
    struct newer bytes = {
        sizeof(struct older), 1, 2, {3, 4}}; /* what stands behind it is not its own */
    struct known known = {7, 7, 7};

    OK(tn_sized_read(sized, &bytes, &known));
    ck_assert_uint_eq(known.size, sizeof known);
    ck_assert_uint_eq(known.first, 1);
    ck_assert_uint_eq(known.last, 0);
    ck_assert_uint_eq(bytes.size, sizeof(struct older));
}

TEST(inputs, an_input_of_this_version_is_read_whole)
{
    struct newer bytes = {sizeof(struct known), 1, 2, {3, 4}};
    struct known known = {7, 7, 7};

    OK(tn_sized_read(sized, &bytes, &known));
    ck_assert_uint_eq(known.first, 1);
    ck_assert_uint_eq(known.last, 2);
}

TEST(inputs, a_newer_input_is_read_where_its_new_fields_are_0)
{
    struct newer given = {sizeof given, 1, 2, {0, 0}};
    struct known known = {7, 7, 7};

    OK(tn_sized_read(sized, &given, &known));
    ck_assert_uint_eq(known.size, sizeof known);
    ck_assert_uint_eq(known.first, 1);
    ck_assert_uint_eq(known.last, 2);
}

/* Each byte of them counts. */
TEST(inputs, a_newer_input_with_a_new_field_set_is_refused)
{
    for (size_t at = sizeof(struct known); at < sizeof(struct newer); at++) {
        struct newer given = {sizeof given, 1, 2, {0, 0}};
        struct known known = {7, 7, 7};

        ((char *)&given)[at] = 1;
        STATUS(TARN_ERR_INVALID_ARGUMENT, tn_sized_read(sized, &given, &known));
        unit_expect_sentence("tarn_known");
        unit_expect_sentence("does not know");
        ck_assert_uint_eq(known.size, sizeof known);
        ck_assert_uint_eq(known.first, 0);
    }
}

TEST(inputs, wrong_sizes_are_refused)
{
    static const size_t wrong[] = {0,
                                   1,
                                   sizeof(size_t),
                                   sizeof(struct older) - 1,
                                   sizeof(struct known) - 1,
                                   sizeof(struct known) + 4,
                                   TN_SIZED_BYTES_MAX + 8,
                                   SIZE_MAX};
    struct known known = {7, 7, 7};

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct known given = {wrong[i], 1, 2};

        STATUS(TARN_ERR_INVALID_ARGUMENT, tn_sized_check(sized, &given));
        unit_expect_sentence("size of a tarn_known");
        STATUS(TARN_ERR_INVALID_ARGUMENT, tn_sized_read(sized, &given, &known));
        ck_assert_uint_eq(known.first, 0);
    }
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_sized_check(sized, NULL));
    unit_expect_sentence("tarn_known is NULL");
}

TEST(inputs, the_least_and_the_largest_size_are_allowed)
{
    static union {
        struct newer given;
        char bytes[TN_SIZED_BYTES_MAX];
    } most;
    struct older least = {sizeof least, 1};
    struct known known;

    OK(tn_sized_check(sized, &least));
    most.given.size = sizeof most;
    OK(tn_sized_read(sized, &most, &known));
    most.bytes[sizeof most - 1] = 1;
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_sized_read(sized, &most, &known));
}

GROUP(outputs, NULL)

TEST(outputs, an_older_output_gets_its_own_fields_and_no_byte_more)
{
    const struct known known = {sizeof known, 1, 2};
    struct newer given = {sizeof(struct older), 7, 7, {7, 7}};

    tn_sized_write(sized, &given, &known);
    ck_assert_uint_eq(given.size, sizeof(struct older));
    ck_assert_uint_eq(given.first, 1);
    ck_assert_uint_eq(given.last, 7);
    ck_assert_uint_eq(given.more[0], 7);
}

TEST(outputs, a_newer_output_has_0_in_its_new_fields)
{
    const struct known known = {sizeof known, 1, 2};
    struct {
        struct newer given;
        uint64_t behind;
    } bytes = {{sizeof(struct newer), 7, 7, {7, 7}}, 7};

    tn_sized_write(sized, &bytes.given, &known);
    ck_assert_uint_eq(bytes.given.size, sizeof(struct newer));
    ck_assert_uint_eq(bytes.given.first, 1);
    ck_assert_uint_eq(bytes.given.last, 2);
    ck_assert_uint_eq(bytes.given.more[0], 0);
    ck_assert_uint_eq(bytes.given.more[1], 0);
    ck_assert_uint_eq(bytes.behind, 7);
}
