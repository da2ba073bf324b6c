// SPDX-License-Identifier: Apache-2.0
/* A text either is no PTX that the simulator can read; or it has kernels of different names, whose
 * parameters lie behind one another in what a launch may pass. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "sim/code/ptx.h"

enum { PARAM_BYTES_MAX = 32764 };

const char *const fuzz_name = "ptx";
const char *const fuzz_words[] = {
    ".version 7.0\n",
    ".target sm_70\n",
    ".address_size 64\n",
    ".visible ",
    ".weak ",
    ".extern ",
    ".entry ",
    ".entry k(",
    ".entry k",
    ".func (.param .b32 r) f(.param .b64 a)",
    ".param ",
    ".param .u64 a",
    ".param .align 8 .b8 a[16]",
    ".param .u64 .ptr .global .align 16 a",
    ".param .f32 ",
    ".reg .b32 r<3>;",
    ".global ",
    ".align ",
    ".ptr ",
    ".b8 ",
    ".s16 ",
    ".f64 ",
    ".b128 ",
    "[",
    "]",
    "[32764]",
    "[0x10]",
    "(",
    ")",
    ",",
    "{ ret; }",
    "// ",
    "/*",
    "*/",
    "\"",
    "tarn_k",
    "32764",
    "0x7ffc",
    "0",
    "18446744073709551617",
};
const size_t fuzz_word_count = sizeof fuzz_words / sizeof fuzz_words[0];

void fuzz_begin(void)
{
}

static void expect_entry(const struct tn_sim_ptx_entry *entry)
{
    size_t end = 0;

    FUZZ_EXPECT(entry->name != NULL && entry->name[0] != '\0');
    for (size_t i = 0; i < entry->param_count; i++) {
        FUZZ_EXPECT(entry->params[i].bytes > 0 && entry->params[i].offset >= end);
        end = entry->params[i].offset + entry->params[i].bytes;
    }
    FUZZ_EXPECT(end == entry->block_bytes && end <= PARAM_BYTES_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text = malloc(size + 1);
    struct tn_sim_ptx ptx;
    tn_cu_result result;

    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, bytes, size);
    text[size] = '\0';
    memset(&ptx, 0x5a, sizeof ptx);
    result = tn_sim_ptx_parse(text, &ptx);
    if (result == TN_CUDA_SUCCESS) {
        for (size_t i = 0; i < ptx.entry_count; i++) {
            expect_entry(&ptx.entries[i]);
            for (size_t j = 0; j < i; j++)
                FUZZ_EXPECT(strcmp(ptx.entries[i].name, ptx.entries[j].name) != 0);
        }
        tn_sim_ptx_fini(&ptx);
    } else {
        FUZZ_EXPECT(result == TN_CUDA_ERROR_INVALID_IMAGE || result == TN_CUDA_ERROR_INVALID_PTX);
    }
    FUZZ_EXPECT(ptx.entries == NULL && ptx.entry_count == 0);
    free(text);
    return 0;
}
