// SPDX-License-Identifier: Apache-2.0
#include "base/conf.h"
#include "unit/unit.h"

struct settings {
    uint64_t bytes;
    bool fast;
    char word[16];
};

static bool read_bytes(struct tn_words value, void *settings)
{
    return tn_words_size(value, &((struct settings *)settings)->bytes);
}

static bool read_fast(struct tn_words value, void *settings)
{
    return tn_words_bool(value, &((struct settings *)settings)->fast);
}

static bool read_word(struct tn_words value, void *settings)
{
    struct settings *written = settings;

    if (value.length >= sizeof written->word)
        return false;
    (void)snprintf(written->word, sizeof written->word, "%.*s", (int)value.length, value.first);
    return true;
}

static const struct tn_conf_key keys[] = {
    {"bytes", read_bytes, "a size"},
    {"fast", read_fast, "True or False"},
    {"word", read_word, "a word of up to 15 letters"},
};

static struct settings settings;

static tarn_status read_text(const char *text)
{
    settings = (struct settings){.bytes = 1};
    return tn_conf_read("TEXT", text, keys, sizeof keys / sizeof keys[0], &settings);
}

static struct tn_words text_of(const char *words)
{
    return (struct tn_words){words, strlen(words)};
}

GROUP(pairs, NULL)

TEST(pairs, pairs_are_read_in_any_order)
{
    OK(read_text("bytes:40G,fast:True"));
    ck_assert_uint_eq(settings.bytes, 40 * TN_GIB);
    ck_assert(settings.fast);
    OK(read_text("fast:False,bytes:5"));
    ck_assert_uint_eq(settings.bytes, 5);
    ck_assert(!settings.fast);
}

TEST(pairs, blanks_around_words_mean_nothing)
{
    OK(read_text(" \tbytes :\n 2K  ,\r fast: True "));
    ck_assert_uint_eq(settings.bytes, 2 * TN_KIB);
    ck_assert(settings.fast);
}

/* Each setting is as it was, and none is what it would be when it was cleared. */
TEST_LOOP(pairs, a_text_without_words_says_nothing, 0, 4)
{
    static const char *const texts[] = {"", " ", " \n\t", "\r\n"};
    static const struct settings before = {.bytes = 77, .fast = true, .word = "kept"};

    memcpy(&settings, &before, sizeof settings);
    OK(tn_conf_read("TEXT", texts[_i], keys, sizeof keys / sizeof keys[0], &settings));
    ck_assert_uint_eq(settings.bytes, before.bytes);
    ck_assert(settings.fast);
    ck_assert_str_eq(settings.word, before.word);
}

TEST(pairs, commas_and_colons_in_brackets_belong_to_the_value)
{
    OK(read_text("word:[a:1,b:2],bytes:3"));
    ck_assert_str_eq(settings.word, "[a:1,b:2]");
    ck_assert_uint_eq(settings.bytes, 3);
    OK(read_text("word:[a,[b],c],bytes:4"));
    ck_assert_str_eq(settings.word, "[a,[b],c]");
    ck_assert_uint_eq(settings.bytes, 4);
    OK(read_text("word:a]b,bytes:5"));
    ck_assert_str_eq(settings.word, "a]b");
    OK(read_text("word:[a,bytes:6")); /* never closed */
    ck_assert_str_eq(settings.word, "[a,bytes:6");
    ck_assert_uint_eq(settings.bytes, 1);
}

/* The text, and two parts of the sentence. */
static const char *const wrong[][3] = {
    {"size:1", "the key 'size'", "its keys are bytes, fast, word"},
    {"Bytes:1", "the key 'Bytes'", "TEXT"},
    {"byte:1", "the key 'byte'", "TEXT"},
    {"bytes1:1", "the key 'bytes1'", "TEXT"},
    {"by tes:1", "the key 'by tes'", "TEXT"},
    {"bytes:1,bytes:2", "the key 'bytes' twice", "'2'"},
    {"bytes:1,fast:True,bytes:1", "the key 'bytes' twice", "'1'"},
    {"bytes", "'bytes' where a pair", "TEXT"},
    {"bytes=1", "'bytes=1' where a pair", "TEXT"},
    {":1", "':1' where a pair", "TEXT"},
    {",", "'' where a pair", "TEXT"},
    {"bytes:1,", "'' where a pair", "TEXT"},
    {"bytes:1,,fast:True", "'' where a pair", "TEXT"},
    {"bytes:1;fast:True", "the value '1;fast:True' for the key 'bytes'", "must be a size"},
    {"bytes:", "the value '' for the key 'bytes'", "must be a size"},
    {"bytes:1:2", "the value '1:2' for the key 'bytes'", "must be a size"},
    {"bytes:1 2", "the value '1 2' for the key 'bytes'", "must be a size"},
    {"bytes:[1]", "the value '[1]' for the key 'bytes'", "must be a size"},
    {"fast:true", "the value 'true' for the key 'fast'", "must be True or False"},
    {"fast:1", "the value '1' for the key 'fast'", "must be True or False"},
    {"fast:True,bytes:x", "the value 'x' for the key 'bytes'", "must be a size"},
};
enum { WRONG = sizeof wrong / sizeof wrong[0] };

TEST_LOOP(pairs, what_is_wrong_is_named_with_what_is_allowed, 0, WRONG)
{
    STATUS(TARN_ERR_INVALID_ARGUMENT, read_text(wrong[_i][0]));
    unit_expect_sentence("TEXT has ");
    unit_expect_sentence(wrong[_i][1]);
    unit_expect_sentence(wrong[_i][2]);
}

TEST(pairs, a_word_without_end_is_cut_and_what_is_allowed_is_still_said)
{
    char text[3000];

    memset(text, 'w', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    memcpy(text, "bytes:", 6);
    STATUS(TARN_ERR_INVALID_ARGUMENT, read_text(text));
    unit_expect_sentence("for the key 'bytes', which must be a size");
    memcpy(text, "bites:", 6);
    text[100] = ':';
    STATUS(TARN_ERR_INVALID_ARGUMENT, read_text(text));
    unit_expect_sentence("its keys are bytes, fast, word");
    text[5] = 'w';
    STATUS(TARN_ERR_INVALID_ARGUMENT, read_text(text));
    unit_expect_sentence("its keys are bytes, fast, word");
}

TEST(pairs, more_keys_than_a_sentence_has_room_for_are_cut)
{
    static char name[80];
    struct tn_conf_key many[64];

    memset(name, 'k', sizeof name - 1);
    for (size_t i = 0; i < 64; i++)
        many[i] = (struct tn_conf_key){name, read_bytes, "a size"};
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_conf_read("TEXT", "a:1", many, 64, &settings));
    unit_expect_sentence("the key 'a'");
    ck_assert_uint_lt(strlen(tarn_last_error()), 800);
    many[63].name = "last";
    OK(tn_conf_read("TEXT", "last:7", many, 64, &settings));
    ck_assert_uint_eq(settings.bytes, 7);
}

CONTRACT_TEST(pairs, more_keys_than_are_kept_in_mind_break_the_contract)
{
    OK(tn_conf_read("TEXT", "", keys, 65, &settings));
}

GROUP(words, NULL)

TEST(words, pieces_are_what_stands_between_separators)
{
    struct tn_words rest = text_of(" a, ,b");
    struct tn_words piece;

    ck_assert(tn_words_next(&rest, ',', &piece) && tn_words_is(piece, "a"));
    ck_assert(tn_words_next(&rest, ',', &piece) && tn_words_is(piece, ""));
    ck_assert(tn_words_next(&rest, ',', &piece) && tn_words_is(piece, "b"));
    ck_assert(!tn_words_next(&rest, ',', &piece));
    rest = text_of("a,");
    ck_assert(tn_words_next(&rest, ',', &piece) && tn_words_is(piece, "a"));
    ck_assert(tn_words_next(&rest, ',', &piece) && tn_words_is(piece, ""));
    ck_assert(!tn_words_next(&rest, ',', &piece));
}

TEST(words, a_list_is_unwrapped_once)
{
    struct tn_words list = text_of("[[a],b]");

    ck_assert(tn_words_unwrap(&list) && tn_words_is(list, "[a],b"));
    ck_assert(!tn_words_unwrap(&list));
    list = text_of("[]");
    ck_assert(tn_words_unwrap(&list) && tn_words_is(list, ""));
    ck_assert(!tn_words_unwrap(&list));
    list = text_of("[");
    ck_assert(!tn_words_unwrap(&list));
    list = text_of("[a");
    ck_assert(!tn_words_unwrap(&list));
    list = text_of("a]");
    ck_assert(!tn_words_unwrap(&list));
}

static const struct {
    const char *words;
    bool good;
    uint64_t bytes;
} sizes[] = {
    {"0", true, 0},
    {"1", true, 1},
    {"007", true, 7},
    {"512K", true, 512 * TN_KIB},
    {"3M", true, 3 * TN_MIB},
    {"40G", true, 40 * TN_GIB},
    {"2T", true, 2 * TN_TIB},
    {"9223372036854775807", true, INT64_MAX},
    {"9223372036854775808", false, 0},
    {"18446744073709551616", false, 0},
    {"8388607T", true, 8388607 * TN_TIB},
    {"8388608T", false, 0},
    {"18446744073709551615T", false, 0},
    {"", false, 0},
    {"K", false, 0},
    {"40g", false, 0},
    {"40GB", false, 0},
    {"40 G", false, 0},
    {"G40", false, 0},
    {"-1", false, 0},
    {"+1", false, 0},
    {"0x10", false, 0},
    {"1.5G", false, 0},
    {"1e3", false, 0},
};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

TEST_LOOP(words, sizes_are_whole_numbers_with_a_unit, 0, SIZES)
{
    uint64_t bytes = 77;

    ck_assert_msg(tn_words_size(text_of(sizes[_i].words), &bytes) == sizes[_i].good, "'%s'",
                  sizes[_i].words);
    ck_assert_uint_eq(bytes, sizes[_i].good ? sizes[_i].bytes : 77);
}

TEST(words, a_byte_behind_the_text_plays_no_part)
{
    uint64_t value = 0;

    ck_assert(tn_words_size((struct tn_words){"12G", 2}, &value));
    ck_assert_uint_eq(value, 12);
    ck_assert(tn_words_number((struct tn_words){"123", 2}, &value));
    ck_assert_uint_eq(value, 12);
    ck_assert(!tn_words_size((struct tn_words){"1\0", 2}, &value)); /* NUL is no unit */
}

TEST(words, numbers_end_below_two_to_the_64)
{
    uint64_t value = 0;

    ck_assert(tn_words_number(text_of("18446744073709551615"), &value));
    ck_assert_uint_eq(value, UINT64_MAX);
    ck_assert(!tn_words_number(text_of("18446744073709551616"), &value));
    ck_assert(!tn_words_number(text_of("99999999999999999999"), &value));
    ck_assert(!tn_words_number(text_of("12a"), &value));
    ck_assert(!tn_words_number(text_of(""), &value));
    ck_assert_uint_eq(value, UINT64_MAX);
}

static const struct {
    const char *words;
    bool good;
    double value;
} decimals[] = {
    {"0", true, 0},
    {"1", true, 1},
    {"0.5", true, 0.5},
    {".5", true, 0.5},
    {"1.", true, 1},
    {"0.9", true, 0.9},
    {"0.3333333333333333", true, 0.3333333333333333},
    {"0.30000000000000004", true, 0.30000000000000004},
    {"0.333333333333333333333333333333333333333", true, 1.0 / 3},
    {"123456.789", true, 123456.789},
    {"99999999999999999999", false, 0},
    {"", false, 0},
    {".", false, 0},
    {"0,5", false, 0},
    {"0.5.5", false, 0},
    {"-0.5", false, 0},
    {"5e-1", false, 0},
    {"nan", false, 0},
    {"inf", false, 0},
    {"0x1p-1", false, 0},
    {"50%", false, 0},
};
enum { DECIMALS = sizeof decimals / sizeof decimals[0] };

TEST_LOOP(words, decimals_have_digits_and_one_point, 0, DECIMALS)
{
    double value = 77;

    ck_assert_msg(tn_words_decimal(text_of(decimals[_i].words), &value) == decimals[_i].good,
                  "'%s'", decimals[_i].words);
    ck_assert_double_eq_tol(value, decimals[_i].good ? decimals[_i].value : 77, 1e-15);
}
