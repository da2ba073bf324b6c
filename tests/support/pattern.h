// SPDX-License-Identifier: Apache-2.0
/* pattern.h -- kernels that fill memory with a pattern of its own and look whether it is still there.
 *
 * A pattern is a number; word i of it is pattern_word(pattern, i). What a verification finds is in
 * device memory, so that nothing waits for it: see struct pattern_result. */
#ifndef TARN_TESTS_SUPPORT_PATTERN_H
#define TARN_TESTS_SUPPORT_PATTERN_H

#include "support/cuda.h"

struct pattern_result {
    uint32_t bad;   /* not 0: a word was another one */
    uint32_t index; /* that word, the first that was seen */
    uint32_t found;
    uint32_t runs; /* verifications that have written here */
};

static inline uint32_t pattern_word(uint32_t pattern, uint32_t index)
{
    return (pattern + index) * 0x9E3779B1U;
}

/* Once, after test_start, before anything is captured. */
void pattern_start(void);

/* Any thread; the results are the driver's. */
tn_cu_result pattern_fill(tn_cu_stream stream, const void *address, uint32_t pattern, size_t words);
tn_cu_result pattern_verify(tn_cu_stream stream, const void *address, uint32_t pattern,
                            size_t words, tn_cu_deviceptr result);

#endif
