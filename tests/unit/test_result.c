// SPDX-License-Identifier: Apache-2.0
#include "driver/result.h"
#include "unit/unit.h"

static const tn_cu_result all_results[] = {
#define RESULT_ITEM(name, number) TN_CUDA_##name,
    TN_CUDA_RESULTS(RESULT_ITEM)
#undef RESULT_ITEM
};

enum { RESULTS = sizeof all_results / sizeof all_results[0] };

SUITE("the driver's results")
GROUP(words, NULL)

TEST(words, every_result_has_its_name)
{
#define EXPECT_NAME(name, number) ck_assert_str_eq(tn_result_name(TN_CUDA_##name), "CUDA_" #name);
    TN_CUDA_RESULTS(EXPECT_NAME)
#undef EXPECT_NAME
    ck_assert_str_eq(tn_result_name((tn_cu_result)12345), "an unknown CUDA error");
}

TEST(words, every_error_about_captures_has_words_and_no_other)
{
    int found = 0;

    for (size_t i = 0; i < RESULTS; i++) {
        const struct tn_driver_capture_error *error = tn_result_about_capture(all_results[i]);
        const char *name = tn_result_name(all_results[i]);

        ck_assert_msg((error != NULL) == (strstr(name, "CAPTURE") != NULL), "%s", name);
        if (error == NULL)
            continue;
        found += 1;
        ck_assert_int_eq(error->result, all_results[i]);
        ck_assert_uint_gt(strlen(error->meaning), 20);
        ck_assert_uint_gt(strlen(error->remedy), 20);
    }
    ck_assert_int_eq(found, 9);
    ck_assert_ptr_null(tn_result_about_capture((tn_cu_result)12345));
}

TEST(words, no_two_say_the_same)
{
    for (size_t i = 0; i < RESULTS; i++) {
        const struct tn_driver_capture_error *one = tn_result_about_capture(all_results[i]);

        for (size_t j = 0; one != NULL && j < i; j++) {
            const struct tn_driver_capture_error *other = tn_result_about_capture(all_results[j]);

            ck_assert(other == NULL || (strcmp(one->meaning, other->meaning) != 0 &&
                                        strcmp(one->remedy, other->remedy) != 0));
        }
    }
}

TEST(words, a_refusal_of_any_call_says_them)
{
    struct tn_gpu gpu = {.ordinal = 0};
    tn_cu_result result = TN_CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    const struct tn_driver_capture_error *error = tn_result_about_capture(result);

    STATUS(TARN_ERR_DRIVER, tn_gpu_failed(&gpu, result, "ordering a stream", "cuStreamWaitEvent"));
    unit_expect_sentence("cuStreamWaitEvent answered CUDA_ERROR_STREAM_CAPTURE_ISOLATION: ");
    unit_expect_sentence(error->meaning);
    unit_expect_sentence(error->remedy);
}
