// SPDX-License-Identifier: Apache-2.0
#include "api/device_options.h"
#include "pools/opening.h"
#include "unit/unit.h"

static tarn_device_options options;

static void complete(void)
{
    options = (tarn_device_options)TARN_DEVICE_OPTIONS_INIT;
    OK(tn_device_options_complete(&options));
}

static tarn_status override(const char *text)
{
    complete();
    return tn_device_options_override(&options, text);
}

static void expect_divisions(const uint32_t *divisions)
{
    for (int i = 0; i < TARN_ROUNDUP_SIZES; i++)
        ck_assert_msg(options.roundup_power2_divisions[i] == divisions[i], "size %d: %u, not %u", i,
                      options.roundup_power2_divisions[i], divisions[i]);
}

GROUP(device_options, NULL)

TEST(device_options, defaults_are_filled_in)
{
    complete();
    ck_assert_uint_eq(options.region_bytes, 4 * TN_TIB);
    ck_assert_uint_eq(options.limit_bytes, 0);
    ck_assert_int_eq(options.unrouted, TARN_UNROUTED_ADOPT);
    ck_assert(!options.no_record_stream_reuse);
    expect_divisions((uint32_t[TARN_ROUNDUP_SIZES]){0});
}

TEST(device_options, a_caches_limit_of_0_is_the_default_and_no_cache_is_none)
{
    ck_assert_uint_eq(tn_cache_bytes(0, 7), 7);
    ck_assert_uint_eq(tn_cache_bytes(5, 7), 5);
    ck_assert_uint_eq(tn_cache_bytes(TARN_NO_CACHE, 7), 0);
}

TEST(device_options, divisions_of_options_are_powers_of_two)
{
    for (int i = 0; i < TARN_ROUNDUP_SIZES; i++) {
        complete();
        options.roundup_power2_divisions[i] = (uint32_t)1 << 31;
        OK(tn_device_options_complete(&options));
        options.roundup_power2_divisions[i] = 6;
        STATUS(TARN_ERR_INVALID_ARGUMENT, tn_device_options_complete(&options));
        unit_expect_sentence("roundup_power2_divisions");
    }
}

TEST(device_options, a_text_overrides_what_it_names_and_nothing_else)
{
    complete();
    options.limit_bytes = 5;
    options.memory_fraction = 0.25;
    options.unrouted = TARN_UNROUTED_ALLOW;
    OK(tn_device_options_override(&options, "limit_bytes:40G, region_bytes:64G"));
    ck_assert_uint_eq(options.limit_bytes, 40 * TN_GIB);
    ck_assert_uint_eq(options.region_bytes, 64 * TN_GIB);
    ck_assert_double_eq(options.memory_fraction, 0.25);
    ck_assert_int_eq(options.unrouted, TARN_UNROUTED_ALLOW);
    ck_assert_uint_eq(options.cache_limit_bytes, 0);
    OK(tn_device_options_override(&options, "limit_bytes:0"));
    ck_assert_uint_eq(options.limit_bytes, 0);
}

TEST(device_options, each_key_sets_its_option)
{
    OK(override("per_process_memory_fraction:0.75"));
    ck_assert_double_eq(options.memory_fraction, 0.75);
    OK(override("per_process_memory_fraction:1"));
    ck_assert_double_eq(options.memory_fraction, 1);
    OK(tn_device_options_override(&options, "per_process_memory_fraction:0"));
    ck_assert_double_eq(options.memory_fraction, 0);
    OK(override("cache_limit_bytes:1G"));
    ck_assert_uint_eq(options.cache_limit_bytes, TN_GIB);
    OK(override("cache_limit_bytes:none"));
    ck_assert_uint_eq(options.cache_limit_bytes, TARN_NO_CACHE);
    OK(tn_device_options_override(&options, "cache_limit_bytes:0"));
    ck_assert_uint_eq(options.cache_limit_bytes, 0);
    OK(override("pinned_cache_limit_bytes:20G"));
    ck_assert_uint_eq(options.pinned_cache_limit_bytes, 20 * TN_GIB);
    ck_assert_uint_eq(options.cache_limit_bytes, 0);
    OK(override("pinned_cache_limit_bytes:none"));
    ck_assert_uint_eq(options.pinned_cache_limit_bytes, TARN_NO_CACHE);
    OK(tn_device_options_override(&options, "pinned_cache_limit_bytes:0"));
    ck_assert_uint_eq(options.pinned_cache_limit_bytes, 0);
    OK(override("unrouted:refuse"));
    ck_assert_int_eq(options.unrouted, TARN_UNROUTED_REFUSE);
    OK(override("unrouted:allow"));
    ck_assert_int_eq(options.unrouted, TARN_UNROUTED_ALLOW);
    OK(tn_device_options_override(&options, "unrouted:adopt"));
    ck_assert_int_eq(options.unrouted, TARN_UNROUTED_ADOPT);
    OK(override("import_cache_limit_bytes:64M"));
    ck_assert_uint_eq(options.import_cache_limit_bytes, 64 * MIB);
    OK(override("move_limit_bytes:64M"));
    ck_assert_uint_eq(options.move_limit_bytes, 64 * MIB);
    OK(tn_device_options_override(&options, "move_limit_bytes:none"));
    ck_assert_uint_eq(options.move_limit_bytes, TARN_NO_MOVES);
    OK(tn_device_options_override(&options, "move_limit_bytes:0"));
    ck_assert_uint_eq(options.move_limit_bytes, 0);
    OK(override("pinned_use_cuda_host_register:True,pinned_num_register_threads:8"));
    ck_assert(options.pinned_use_cuda_host_register);
    ck_assert_uint_eq(options.pinned_num_register_threads, 8);
    OK(override("history_bytes:16M"));
    ck_assert_uint_eq(options.history_bytes, 16 * MIB);
    OK(tn_device_options_override(&options, "history_bytes:none"));
    ck_assert_uint_eq(options.history_bytes, TARN_NO_HISTORY);
    OK(tn_device_options_override(&options, "history_bytes:0"));
    ck_assert_uint_eq(options.history_bytes, 0);
    OK(tn_device_options_override(&options, "history_stacks:unwind,history_sample_bytes:2M"));
    ck_assert_int_eq(options.history_stacks, TARN_HISTORY_UNWIND);
    ck_assert_uint_eq(options.history_sample_bytes, 2 * MIB);
    OK(tn_device_options_override(&options, "history_stacks:none,history_sample_bytes:0"));
    ck_assert_int_eq(options.history_stacks, TARN_HISTORY_NO_STACKS);
    OK(override("null_stream:per_thread"));
    ck_assert_int_eq(options.null_stream, TARN_NULL_STREAM_PER_THREAD);
    OK(tn_device_options_override(&options, "null_stream:legacy"));
    ck_assert_int_eq(options.null_stream, TARN_NULL_STREAM_LEGACY);
    OK(override("graph_capture_record_stream_reuse:False"));
    ck_assert(options.no_record_stream_reuse);
    OK(tn_device_options_override(&options, "graph_capture_record_stream_reuse:True"));
    ck_assert(!options.no_record_stream_reuse);
    OK(override("expandable_segments:True,backend:native"));
}

TEST(device_options, one_number_rounds_all_sizes)
{
    OK(override("roundup_power2_divisions:8"));
    expect_divisions(
        (uint32_t[TARN_ROUNDUP_SIZES]){8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8});
    OK(tn_device_options_override(&options, "roundup_power2_divisions:0"));
    expect_divisions((uint32_t[TARN_ROUNDUP_SIZES]){0});
}

/* The texts of PyTorch's documentation and tests, and what PyTorch makes of them. */
TEST(device_options, a_list_has_a_number_for_each_size)
{
    OK(override("roundup_power2_divisions:[64:8,256:4,>:1]"));
    expect_divisions(
        (uint32_t[TARN_ROUNDUP_SIZES]){8, 8, 8, 8, 8, 8, 8, 0, 4, 1, 1, 1, 1, 1, 1, 1});
    OK(override("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]"));
    expect_divisions(
        (uint32_t[TARN_ROUNDUP_SIZES]){1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8});
    OK(override(" roundup_power2_divisions : [ 64 : 8 , 128 : 2 ] "));
    expect_divisions((uint32_t[TARN_ROUNDUP_SIZES]){8, 8, 8, 8, 8, 8, 8, 2});
    OK(override("roundup_power2_divisions:[1:2,>:4]"));
    expect_divisions(
        (uint32_t[TARN_ROUNDUP_SIZES]){2, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4});
    OK(override("roundup_power2_divisions:[32768:16,>:4]"));
    expect_divisions((uint32_t[TARN_ROUNDUP_SIZES]){16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16,
                                                    16, 16, 16, 16});
    OK(tn_device_options_override(&options, "roundup_power2_divisions:[4:2]"));
    expect_divisions((uint32_t[TARN_ROUNDUP_SIZES]){2, 2, 2});
}

/* Key, value, and what the sentence says is allowed. */
static const char *const wrong[][3] = {
    {"limit_bytes", "40GB", "K, M, G or T"},
    {"limit_bytes", "-1", "a number of bytes"},
    {"limit_bytes", "8388608T", "below 8388608T"},
    {"cache_limit_bytes", "lots", "a number of bytes"},
    {"cache_limit_bytes", "None", "or none: no cache"},
    {"pinned_cache_limit_bytes", "lots", "a number of bytes"},
    {"import_cache_limit_bytes", "lots", "a number of bytes"},
    {"move_limit_bytes", "None", "or none: no moves"},
    {"history_bytes", "65535", "from 64 KiB to 64 GiB"},
    {"history_bytes", "65G", "from 64 KiB to 64 GiB"},
    {"history_bytes", "None", "from 64 KiB to 64 GiB"},
    {"history_stacks", "all", "none, caller, frames or unwind"},
    {"history_sample_bytes", "2T", "up to 1T; 0: all allocations"},
    {"pinned_use_cuda_host_register", "yes", "True or False"},
    {"pinned_num_register_threads", "12", "0, or a power of two up to 128"},
    {"pinned_num_register_threads", "256", "0, or a power of two up to 128"},
    {"per_process_memory_fraction", "1.0001", "from 0 to 1; 0: no limit"},
    {"per_process_memory_fraction", "-0.5", "from 0 to 1; 0: no limit"},
    {"per_process_memory_fraction", "nan", "from 0 to 1; 0: no limit"},
    {"per_process_memory_fraction", "80%", "from 0 to 1; 0: no limit"},
    {"region_bytes", "0", "a power of two from 1 GiB to 4 TiB"},
    {"region_bytes", "3G", "a power of two from 1 GiB to 4 TiB"},
    {"region_bytes", "512M", "a power of two from 1 GiB to 4 TiB"},
    {"region_bytes", "8T", "a power of two from 1 GiB to 4 TiB"},
    {"region_bytes", "many", "a power of two from 1 GiB to 4 TiB"},
    {"unrouted", "ADOPT", "adopt, refuse or allow"},
    {"unrouted", "", "adopt, refuse or allow"},
    {"unrouted", "adopt allow", "adopt, refuse or allow"},
    {"null_stream", "PER_THREAD", "legacy or per_thread"},
    {"null_stream", "", "legacy or per_thread"},
    {"roundup_power2_divisions", "", "0 or a power of two"},
    {"roundup_power2_divisions", "3", "0 or a power of two"},
    {"roundup_power2_divisions", "4294967296", "below 2^32"},
    {"roundup_power2_divisions", "True", "0 or a power of two"},
    {"roundup_power2_divisions", "[]", "[64:8,256:4,>:1]"},
    {"roundup_power2_divisions", "[64:8", "[64:8,256:4,>:1]"},
    {"roundup_power2_divisions", "64:8]", "[64:8,256:4,>:1]"},
    {"roundup_power2_divisions", "[64:8]]", "[64:8,256:4,>:1]"},
    {"roundup_power2_divisions", "[64:8]x", "[64:8,256:4,>:1]"},
    {"roundup_power2_divisions", "[[64:8]]", "[64:8,256:4,>:1]"},
    {"roundup_power2_divisions", "[64]", "[64:8,256:4,>:1]"},
    {"roundup_power2_divisions", "[64:]", "[64:8,256:4,>:1]"},
    {"roundup_power2_divisions", "[:8]", "[64:8,256:4,>:1]"},
    {"roundup_power2_divisions", "[64:8:2]", "[64:8,256:4,>:1]"},
    {"roundup_power2_divisions", "[64:8,]", "[64:8,256:4,>:1]"},
    {"roundup_power2_divisions", "[64:6]", "[64:8,256:4,>:1]"},
    {"roundup_power2_divisions", "[48:8]", "rising powers of two"},
    {"roundup_power2_divisions", "[0:8]", "from 1 to 32768"},
    {"roundup_power2_divisions", "[65536:8]", "from 1 to 32768"},
    {"roundup_power2_divisions", "[64M:8]", "(MiB)"},
    {"roundup_power2_divisions", "[64:8,64:4]", "rising powers of two"},
    {"roundup_power2_divisions", "[256:8,64:4]", "rising powers of two"},
    {"roundup_power2_divisions", "[>:8]", "then for those above"},
    {"roundup_power2_divisions", "[64:8,>:4,>:2]", "then for those above"},
    {"roundup_power2_divisions", "[64:8,>:4,256:2]", "then for those above"},
    {"roundup_power2_divisions", "[64:8,>256:2]", "rising powers of two"},
    {"graph_capture_record_stream_reuse", "1", "True or False"},
    {"graph_capture_record_stream_reuse", "true", "True or False"},
    {"expandable_segments", "False", "Tarn's segments always are"},
    {"expandable_segments", "yes", "must be True"},
    {"backend", "cudaMallocAsync", "must be native"},
};
enum { WRONG = sizeof wrong / sizeof wrong[0] };

TEST_LOOP(device_options, a_value_that_is_not_allowed_is_named_with_its_key_and_changes_nothing, 0,
          WRONG)
{
    tarn_device_options before;
    char text[200];

    complete();
    memcpy(&before, &options, sizeof before);
    (void)snprintf(text, sizeof text, "%s%s:%s",
                   strcmp(wrong[_i][0], "limit_bytes") != 0 ? "limit_bytes:1G," : "", wrong[_i][0],
                   wrong[_i][1]);
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_device_options_override(&options, text));
    (void)snprintf(text, sizeof text,
                   "TARN_CONF has the value '%s' for the key '%s', which must be ", wrong[_i][1],
                   wrong[_i][0]);
    unit_expect_sentence(text);
    unit_expect_sentence(wrong[_i][2]);
    ck_assert_int_eq(memcmp(&before, &options, sizeof before), 0);
}

/* PyTorch's keys for which Tarn has nothing are errors, too. */
TEST(device_options, a_key_that_is_none_is_named_beside_those_that_are)
{
    static const char *const none[] = {"max_split_size_mb:512", "garbage_collection_threshold:0.8",
                                       "memory_fraction:0.5", "limit:1G"};

    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        char key[64];

        STATUS(TARN_ERR_INVALID_ARGUMENT, override(none[i]));
        (void)snprintf(key, sizeof key, "'%.*s'", (int)strcspn(none[i], ":"), none[i]);
        unit_expect_sentence(key);
        unit_expect_sentence(
            "limit_bytes, per_process_memory_fraction, cache_limit_bytes, "
            "pinned_cache_limit_bytes, import_cache_limit_bytes, pinned_use_cuda_host_register, "
            "pinned_num_register_threads, "
            "region_bytes, unrouted, null_stream, move_limit_bytes, "
            "history_bytes, history_stacks, history_sample_bytes, overrun_alignment, sanitizer, roundup_power2_divisions, graph_capture_record_stream_reuse, expandable_segments, backend");
    }
}
