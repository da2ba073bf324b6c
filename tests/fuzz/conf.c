// SPDX-License-Identifier: Apache-2.0
/* A text for TARN_CONF either is refused, with a sentence that is about it and nothing changed; or it makes
 * options that a device may be opened with, and that a text written of them makes again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/device_options.h"
#include "fuzz/fuzz.h"

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail(__LINE__, #condition);                                                            \
    } while (0)

static void fail(int line, const char *condition)
{
    (void)fprintf(stderr, "fuzz/conf.c:%d: %s does not hold; the sentence is: %s\n", line,
                  condition, tarn_last_error());
    abort();
}

static void expect_same(const tarn_device_options *a, const tarn_device_options *b)
{
    EXPECT(a->size == b->size);
    EXPECT(a->region_bytes == b->region_bytes);
    EXPECT(a->limit_bytes == b->limit_bytes);
    EXPECT(a->memory_fraction - b->memory_fraction < 1e-15);
    EXPECT(b->memory_fraction - a->memory_fraction < 1e-15);
    EXPECT(a->cache_limit_bytes == b->cache_limit_bytes);
    EXPECT(a->pinned_cache_limit_bytes == b->pinned_cache_limit_bytes);
    EXPECT(a->unrouted == b->unrouted);
    EXPECT(memcmp(a->roundup_power2_divisions, b->roundup_power2_divisions,
                  sizeof a->roundup_power2_divisions) == 0);
    EXPECT(a->no_record_stream_reuse == b->no_record_stream_reuse);
    EXPECT(a->null_stream == b->null_stream);
    EXPECT(a->move_limit_bytes == b->move_limit_bytes);
    EXPECT(a->history_bytes == b->history_bytes);
    EXPECT(a->overrun_alignment == b->overrun_alignment);
    EXPECT(a->sanitizer == b->sanitizer);
    EXPECT(a->pinned_use_cuda_host_register == b->pinned_use_cuda_host_register);
    EXPECT(a->pinned_num_register_threads == b->pinned_num_register_threads);
}

static const char *write_kept(size_t bytes, char text[32])
{
    if (bytes == TARN_NO_CACHE)
        return "none";
    (void)snprintf(text, 32, "%zu", bytes);
    return text;
}

/* The options as a text that names each of them, but for a fraction of nothing. */
static void write_options(const tarn_device_options *options, char *text, size_t text_bytes)
{
    static const char *const unrouted[] = {"adopt", "refuse", "allow"};
    const uint32_t *divisions = options->roundup_power2_divisions;
    char kept[3][32];
    int used = snprintf(
        text, text_bytes,
        "region_bytes:%zu,limit_bytes:%zu,cache_limit_bytes:%s,"
        "pinned_cache_limit_bytes:%s,unrouted:%s,null_stream:%s,"
        "pinned_use_cuda_host_register:%s,pinned_num_register_threads:%zu,"
        "move_limit_bytes:%s,overrun_alignment:%zu,sanitizer:%s,graph_capture_record_stream_reuse:%s,roundup_power2_divisions:[",
        options->region_bytes, options->limit_bytes,
        write_kept(options->cache_limit_bytes, kept[0]),
        write_kept(options->pinned_cache_limit_bytes, kept[1]), unrouted[options->unrouted],
        options->null_stream == TARN_NULL_STREAM_PER_THREAD ? "per_thread" : "legacy",
        options->pinned_use_cuda_host_register ? "True" : "False",
        options->pinned_num_register_threads, write_kept(options->move_limit_bytes, kept[2]),
        options->overrun_alignment, options->sanitizer ? "True" : "False",
        options->no_record_stream_reuse ? "False" : "True");

    for (int i = 0; i < TARN_ROUNDUP_SIZES; i++)
        used += snprintf(text + used, text_bytes - (size_t)used, "%s%d:%u", i > 0 ? "," : "",
                         1 << i, divisions[i]);
    used += snprintf(text + used, text_bytes - (size_t)used, "]");
    if (options->memory_fraction > 1e-30)
        (void)snprintf(text + used, text_bytes - (size_t)used, ",per_process_memory_fraction:%.40f",
                       options->memory_fraction);
}

static void expect_good(const tarn_device_options *made)
{
    tarn_device_options checked = *made;
    tarn_device_options again = TARN_DEVICE_OPTIONS_INIT;
    char text[1024];

    EXPECT(tn_device_options_complete(&checked) == TARN_OK);
    expect_same(made, &checked); /* nothing was left to complete */
    EXPECT(tn_device_options_complete(&again) == TARN_OK);
    write_options(made, text, sizeof text);
    EXPECT(tn_device_options_override(&again, text) == TARN_OK);
    expect_same(made, &again);
}

const char *const fuzz_name = "conf";
const char *const fuzz_words[] = {
    "limit_bytes:",
    "per_process_memory_fraction:",
    "cache_limit_bytes:",
    "pinned_cache_limit_bytes:",
    "import_cache_limit_bytes:",
    "pinned_use_cuda_host_register:",
    "pinned_num_register_threads:",
    "region_bytes:",
    "unrouted:",
    "null_stream:",
    "move_limit_bytes:",
    "overrun_alignment:",
    "sanitizer:",
    "roundup_power2_divisions:",
    "graph_capture_record_stream_reuse:",
    "expandable_segments:",
    "backend:",
    "none",
    "adopt",
    "refuse",
    "allow",
    "legacy",
    "per_thread",
    "True",
    "False",
    "native",
    "0.5",
    "1.0",
    "[64:8,256:4,>:1]",
    "[1:2]",
    ">:",
    "32768",
    "65536",
    "4294967296",
    "18446744073709551615",
    "9223372036854775807",
    "8388607T",
    "4T",
    "1G",
    "0",
};
const size_t fuzz_word_count = sizeof fuzz_words / sizeof fuzz_words[0];

void fuzz_begin(void)
{
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text = malloc(size + 1); /* of its own, so that a step beside it is seen */
    tarn_device_options before = TARN_DEVICE_OPTIONS_INIT;
    tarn_device_options options;
    tarn_status status;

    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, bytes, size);
    text[size] = '\0';
    EXPECT(tn_device_options_complete(&before) == TARN_OK);
    options = before;
    status = tn_device_options_override(&options, text);
    if (status == TARN_OK) {
        expect_good(&options);
    } else {
        EXPECT(status == TARN_ERR_INVALID_ARGUMENT);
        EXPECT(strncmp(tarn_last_error(), "TARN_CONF has ", 14) == 0);
        EXPECT(strlen(tarn_last_error()) < 1000); /* not cut: what is allowed stands at the end */
        expect_same(&before, &options);
    }
    free(text);
    return 0;
}
