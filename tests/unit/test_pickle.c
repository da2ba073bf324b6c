// SPDX-License-Identifier: Apache-2.0
#include "observe/pickle.h"

#include <stdlib.h>

#include "base/host.h"
#include "unit/unit.h"

/* What a sink has got. */
static struct {
    unsigned char *bytes;
    size_t count;
    size_t part_count;
    size_t refused_part; /* the number of the part that is refused; 0: none */
} got;

static tarn_status take(void *context, const void *bytes, size_t count)
{
    ck_assert_ptr_eq(context, &got);
    ck_assert_uint_gt(count, 0);
    ck_assert_uint_le(count, TN_PICKLE_BYTES);
    got.part_count += 1;
    if (got.part_count == got.refused_part)
        return TARN_ERR_LIMIT;
    got.bytes = realloc(got.bytes, got.count + count);
    ck_assert_ptr_nonnull(got.bytes);
    memcpy(got.bytes + got.count, bytes, count);
    got.count += count;
    return TARN_OK;
}

static struct tn_pickle pickle;

static void begin(void)
{
    memset(&got, 0, sizeof got);
    OK(tn_pickle_begin(&pickle, take, &got));
}

/* Whether the pickle is these bytes, after its protocol and before its stop. */
static void expect(const char *bytes, size_t count)
{
    OK(tn_pickle_end(&pickle));
    ck_assert_uint_eq(got.count, count + 3);
    ck_assert_mem_eq(got.bytes, "\x80\x02", 2);
    ck_assert_mem_eq(got.bytes + 2, bytes, count);
    ck_assert_int_eq(got.bytes[count + 2], '.');
    free(got.bytes);
}

#define EXPECT(bytes) expect(bytes, sizeof(bytes) - 1)

GROUP(values, begin)

TEST(values, a_value_that_was_kept_is_named_by_its_number)
{
    tn_pickle_begin_list(&pickle);
    tn_pickle_end_list(&pickle);
    tn_pickle_keep(&pickle, 64);
    tn_pickle_again(&pickle, 64);
    tn_pickle_again(&pickle, 0x12345678);
    EXPECT("](er\x40\0\0\0j\x40\0\0\0j\x78\x56\x34\x12");
}

TEST(values, an_integer_takes_the_fewest_bytes)
{
    static const struct {
        int64_t value;
        const char *bytes;
        size_t count;
    } cases[] = {
        {0, "K\0", 2},
        {255, "K\xff", 2},
        {256, "M\0\x01", 3},
        {65535, "M\xff\xff", 3},
        {65536, "J\0\0\x01\0", 5},
        {INT32_MAX, "J\xff\xff\xff\x7f", 5},
        {-1, "J\xff\xff\xff\xff", 5},
        {INT32_MIN, "J\0\0\0\x80", 5},
        {(int64_t)INT32_MAX + 1, "\x8a\x05\0\0\0\x80\0", 7},
        {(int64_t)INT32_MIN - 1, "\x8a\x05\xff\xff\xff\x7f\xff", 7},
        {0x7fffffffff, "\x8a\x05\xff\xff\xff\xff\x7f", 7},
        {0x8000000000, "\x8a\x06\0\0\0\0\x80\0", 8},
        {-0x8000000000, "\x8a\x05\0\0\0\0\x80", 7},
        {INT64_MAX, "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", 10},
        {INT64_MIN, "\x8a\x08\0\0\0\0\0\0\0\x80", 10},
    };

    OK(tn_pickle_end(&pickle));
    free(got.bytes);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin();
        tn_pickle_integer(&pickle, cases[i].value);
        expect(cases[i].bytes, cases[i].count);
    }
}

TEST(values, a_float_has_its_highest_byte_first)
{
    tn_pickle_float(&pickle, -2.5);
    EXPECT("G\xc0\x04\0\0\0\0\0\0");
}

TEST(values, a_string_comes_with_its_length)
{
    tn_pickle_string(&pickle, "abc");
    EXPECT("X\x03\0\0\0abc");
}

TEST(values, an_empty_string_is_one)
{
    tn_pickle_string(&pickle, "");
    EXPECT("X\0\0\0\0");
}

TEST(values, lists_and_dictionaries_lie_in_each_other)
{
    tn_pickle_begin_dict(&pickle);
    tn_pickle_string(&pickle, "k");
    tn_pickle_begin_list(&pickle);
    tn_pickle_boolean(&pickle, true);
    tn_pickle_boolean(&pickle, false);
    tn_pickle_begin_list(&pickle);
    tn_pickle_end_list(&pickle);
    tn_pickle_end_list(&pickle);
    tn_pickle_end_dict(&pickle);
    EXPECT("}(X\x01\0\0\0k](\x88\x89](eeu");
}

TEST(values, a_pair_is_a_tuple)
{
    tn_pickle_pair(&pickle, 0, 300);
    EXPECT("K\0M\x2c\x01\x86");
}

TEST(values, a_word_is_written_once_and_named_again)
{
    tn_pickle_begin_list(&pickle);
    tn_pickle_word(&pickle, 5, "five");
    tn_pickle_word(&pickle, 63, "last");
    tn_pickle_word(&pickle, 5, "five");
    tn_pickle_end_list(&pickle);
    EXPECT("](X\x04\0\0\0fiveq\x05X\x04\0\0\0lastq\x3fh\x05"
           "e");
}

GROUP(parts, begin)

/* The first string ends where the buffer does; the second one is larger than the buffer. */
TEST(parts, bytes_come_in_parts_of_the_buffers_size)
{
    static char exact[TN_PICKLE_BYTES - 2 - 5 + 1];
    static char larger[2 * TN_PICKLE_BYTES + 1];

    memset(exact, 'a', sizeof exact - 1);
    memset(larger, 'b', sizeof larger - 1);
    tn_pickle_string(&pickle, exact);
    ck_assert_uint_eq(got.part_count, 1);
    ck_assert_uint_eq(got.count, TN_PICKLE_BYTES);
    tn_pickle_string(&pickle, larger);
    ck_assert_uint_eq(got.part_count, 3);
    OK(tn_pickle_end(&pickle));
    ck_assert_uint_eq(got.part_count, 4);
    ck_assert_uint_eq(got.count, 2 + 5 + sizeof exact - 1 + 5 + sizeof larger - 1 + 1);
    ck_assert_mem_eq(got.bytes + 7, exact, sizeof exact - 1);
    ck_assert_mem_eq(got.bytes + 7 + sizeof exact - 1 + 5, larger, sizeof larger - 1);
    free(got.bytes);
}

TEST(parts, nothing_is_written_behind_a_refusal)
{
    static char text[TN_PICKLE_BYTES];

    memset(text, 'a', sizeof text - 1);
    got.refused_part = 2;
    for (int i = 0; i < 8; i++)
        tn_pickle_string(&pickle, text);
    STATUS(TARN_ERR_LIMIT, tn_pickle_end(&pickle));
    ck_assert_uint_eq(got.part_count, 2);
    ck_assert_uint_eq(got.count, TN_PICKLE_BYTES);
    free(got.bytes);
}

GROUP(memory, NULL)

TEST(memory, without_a_buffer_nothing_begins)
{
    int64_t before = tn_host_outstanding();

    memset(&got, 0, sizeof got);
    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_pickle_begin(&pickle, take, &got));
    (void)tn_host_plan_fault(0, false);
    ck_assert_uint_eq(got.part_count, 0);
    OK(tn_pickle_begin(&pickle, take, &got));
    OK(tn_pickle_end(&pickle));
    ck_assert_int_eq(tn_host_outstanding(), before);
    free(got.bytes);
}

CONTRACT_TEST(memory, an_open_list_at_the_end_is_a_broken_contract)
{
    begin();
    tn_pickle_begin_list(&pickle);
    TARN_IGNORE(tn_pickle_end(&pickle));
}
