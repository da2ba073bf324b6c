// SPDX-License-Identifier: Apache-2.0
/* A row of the table is a key of TARN_CONF: the function that reads its value, and the allowed
 * values. A key has the option's name, or PyTorch's name where PyTorch has a setting of the same
 * meaning.
 *
 * Trade-offs: a key of PyTorch's without a counterpart in Tarn is refused as unknown, and not
 * passed over: the user who sets the key would wait for an effect in vain. */
#include "api/device_options.h"

#include "api/handles.h"
#include "base/checked.h"
#include "base/conf.h"
#include "base/team.h"
#include "vmm/memory_cache.h"

static const uint64_t region_bytes_max = 4 * TN_TIB;
static const uint64_t region_bytes_min = TN_GIB;
static const uint64_t history_bytes_min = 64 * TN_KIB;
static const uint64_t history_bytes_max = 64 * TN_GIB;
static const uint64_t history_sample_max = TN_TIB;

#define REGION_RULE "a power of two from 1 GiB to 4 TiB"
#define HISTORY_RULE "from 64 KiB to 64 GiB; 0: 16 MiB; or none: no history"
#define OVERRUN_RULE "0, or a power of two from 1 to 512"
#define SIZE_RULE "a number of bytes, or one with K, M, G or T behind it, below 8388608T"
#define CACHE_RULE SIZE_RULE "; 0: 256 MiB; or none: no cache"

static bool is_region_bytes(uint64_t bytes)
{
    return tn_is_power_of_two(bytes) && bytes >= region_bytes_min && bytes <= region_bytes_max;
}

static bool is_division(uint64_t divisions)
{
    return divisions <= UINT32_MAX && (divisions == 0 || tn_is_power_of_two(divisions));
}

static bool is_history_bytes(uint64_t bytes)
{
    return bytes == 0 || bytes == TARN_NO_HISTORY ||
           (bytes >= history_bytes_min && bytes <= history_bytes_max);
}

static bool is_overrun_alignment(uint64_t alignment)
{
    return alignment == 0 || (tn_is_power_of_two(alignment) && alignment <= TN_BLOCK_BYTES_MIN);
}

static bool is_thread_count(uint64_t count)
{
    return count == 0 || (tn_is_power_of_two(count) && count <= TN_TEAM_THREADS_MAX);
}

static tarn_status check_finder(const tarn_device_options *options)
{
    return options->sanitizer && options->overrun_alignment != 0
               ? tn_bad_argument("sanitizer and overrun_alignment exclude each other")
               : TARN_OK;
}

tarn_status tn_device_options_complete(tarn_device_options *options)
{
    if (options->region_bytes == 0)
        options->region_bytes = region_bytes_max;
    if (!is_region_bytes(options->region_bytes))
        return tn_bad_argument("region_bytes must be " REGION_RULE);
    if (!(options->memory_fraction >= 0 && options->memory_fraction <= 1))
        return tn_bad_argument("memory_fraction must be a number from 0 to 1");
    if ((unsigned)options->unrouted > TARN_UNROUTED_ALLOW)
        return tn_bad_argument("unrouted is not one of tarn_unrouted");
    if ((unsigned)options->null_stream > TARN_NULL_STREAM_PER_THREAD)
        return tn_bad_argument("null_stream is not one of tarn_null_stream");
    if (!is_history_bytes(options->history_bytes))
        return tn_bad_argument(
            "history_bytes must be 0, TARN_NO_HISTORY, or from 64 KiB to 64 GiB");
    if ((unsigned)options->history_stacks > TARN_HISTORY_UNWIND)
        return tn_bad_argument("history_stacks is not one of tarn_history_stacks");
    if (options->history_sample_bytes > history_sample_max)
        return tn_bad_argument("history_sample_bytes must be at most 1T");
    if (!is_overrun_alignment(options->overrun_alignment))
        return tn_bad_argument("overrun_alignment must be " OVERRUN_RULE);
    if (!is_thread_count(options->pinned_num_register_threads))
        return tn_bad_argument(
            "pinned_num_register_threads must be 0, or a power of two up to 128");
    for (int i = 0; i < TARN_ROUNDUP_SIZES; i++) {
        if (!is_division(options->roundup_power2_divisions[i]))
            return tn_bad_argument("each of roundup_power2_divisions must be 0 or a power of two");
    }
    return check_finder(options);
}

/* The keys of TARN_CONF ---------------------------------------------------------------------- */

static bool read_limit(struct tn_words value, void *settings)
{
    tarn_device_options *options = settings;

    return tn_words_size(value, &options->limit_bytes);
}

static bool read_fraction(struct tn_words value, void *settings)
{
    tarn_device_options *options = settings;

    return tn_words_decimal(value, &options->memory_fraction) && options->memory_fraction <= 1;
}

_Static_assert(TARN_NO_CACHE == SIZE_MAX && TARN_NO_MOVES == SIZE_MAX &&
                   TARN_NO_HISTORY == SIZE_MAX,
               "none");

static bool read_bytes_or_none(struct tn_words value, size_t *bytes)
{
    if (tn_words_is(value, "none")) {
        *bytes = SIZE_MAX;
        return true;
    }
    return tn_words_size(value, bytes);
}

static bool read_cache_limit(struct tn_words value, void *settings)
{
    tarn_device_options *options = settings;

    return read_bytes_or_none(value, &options->cache_limit_bytes);
}

static bool read_pinned_cache_limit(struct tn_words value, void *settings)
{
    tarn_device_options *options = settings;

    return read_bytes_or_none(value, &options->pinned_cache_limit_bytes);
}

static bool read_import_cache_limit(struct tn_words value, void *settings)
{
    tarn_device_options *options = settings;

    return read_bytes_or_none(value, &options->import_cache_limit_bytes);
}

static bool read_move_limit(struct tn_words value, void *settings)
{
    tarn_device_options *options = settings;

    return read_bytes_or_none(value, &options->move_limit_bytes);
}

static bool read_history(struct tn_words value, void *settings)
{
    tarn_device_options *options = settings;

    return read_bytes_or_none(value, &options->history_bytes) &&
           is_history_bytes(options->history_bytes);
}

static bool read_history_stacks(struct tn_words value, void *settings)
{
    static const char *const names[] = {"none", "caller", "frames", "unwind"};
    tarn_device_options *options = settings;

    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (tn_words_is(value, names[i])) {
            options->history_stacks = (tarn_history_stacks)i;
            return true;
        }
    }
    return false;
}

static bool read_history_sample(struct tn_words value, void *settings)
{
    tarn_device_options *options = settings;

    return tn_words_size(value, &options->history_sample_bytes) &&
           options->history_sample_bytes <= history_sample_max;
}

static bool read_overrun(struct tn_words value, void *settings)
{
    tarn_device_options *options = settings;

    return tn_words_number(value, &options->overrun_alignment) &&
           is_overrun_alignment(options->overrun_alignment);
}

static bool read_region(struct tn_words value, void *settings)
{
    tarn_device_options *options = settings;

    return tn_words_size(value, &options->region_bytes) && is_region_bytes(options->region_bytes);
}

static bool read_unrouted(struct tn_words value, void *settings)
{
    static const char *const words[] = {
        [TARN_UNROUTED_ADOPT] = "adopt",
        [TARN_UNROUTED_REFUSE] = "refuse",
        [TARN_UNROUTED_ALLOW] = "allow",
    };
    tarn_device_options *options = settings;

    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (tn_words_is(value, words[i])) {
            options->unrouted = (tarn_unrouted)i;
            return true;
        }
    }
    return false;
}

static bool read_null_stream(struct tn_words value, void *settings)
{
    tarn_device_options *options = settings;
    bool per_thread = tn_words_is(value, "per_thread");

    if (!per_thread && !tn_words_is(value, "legacy"))
        return false;
    options->null_stream = per_thread ? TARN_NULL_STREAM_PER_THREAD : TARN_NULL_STREAM_LEGACY;
    return true;
}

/* Reads an entry of the list. *next: the first size that the entry may name; behind `>`, a number
 * above all sizes. The first entry stands for all smaller sizes, too. `>` stands last, for all
 * larger sizes. */
static bool read_division(struct tn_words entry, uint32_t *divisions, unsigned *next)
{
    struct tn_words value = entry;
    struct tn_words from;
    uint64_t mib;
    uint64_t count;
    unsigned first = *next;
    unsigned end = TARN_ROUNDUP_SIZES;

    if (!tn_words_next(&value, ':', &from) || !tn_words_next(&value, ':', &entry) ||
        value.first != NULL || !tn_words_number(entry, &count) || !is_division(count))
        return false;
    if (tn_words_is(from, ">")) {
        if (*next == 0 || *next > end)
            return false;
        *next = end + 1;
    } else {
        if (!tn_words_number(from, &mib) || !tn_is_power_of_two(mib) || tn_log2_floor(mib) >= end ||
            tn_log2_floor(mib) < *next)
            return false;
        end = tn_log2_floor(mib) + 1;
        first = *next != 0 ? end - 1 : 0;
        *next = end;
    }
    for (unsigned i = first; i < end; i++)
        divisions[i] = (uint32_t)count;
    return true;
}

static bool read_divisions(struct tn_words value, void *settings)
{
    tarn_device_options *options = settings;
    uint32_t *divisions = options->roundup_power2_divisions;
    struct tn_words entry;
    uint64_t count = 0;
    unsigned next = 0;
    bool is_list = tn_words_unwrap(&value);

    if (!is_list && (!tn_words_number(value, &count) || !is_division(count)))
        return false;
    for (int i = 0; i < TARN_ROUNDUP_SIZES; i++)
        divisions[i] = (uint32_t)count;
    while (is_list && tn_words_next(&value, ',', &entry)) {
        if (!read_division(entry, divisions, &next))
            return false;
    }
    return true;
}

static bool read_reuse(struct tn_words value, void *settings)
{
    tarn_device_options *options = settings;
    bool reuse;

    if (!tn_words_bool(value, &reuse))
        return false;
    options->no_record_stream_reuse = !reuse;
    return true;
}

static bool read_registers(struct tn_words value, void *settings)
{
    tarn_device_options *options = settings;

    return tn_words_bool(value, &options->pinned_use_cuda_host_register);
}

static bool read_register_threads(struct tn_words value, void *settings)
{
    tarn_device_options *options = settings;
    uint64_t count;

    if (!tn_words_number(value, &count) || !is_thread_count(count))
        return false;
    options->pinned_num_register_threads = count;
    return true;
}

static bool read_sanitizer(struct tn_words value, void *settings)
{
    tarn_device_options *options = settings;

    return tn_words_bool(value, &options->sanitizer);
}

static bool read_expandable(struct tn_words value, void *settings)
{
    (void)settings;
    return tn_words_is(value, "True");
}

static bool read_backend(struct tn_words value, void *settings)
{
    (void)settings;
    return tn_words_is(value, "native");
}

static const struct tn_conf_key keys[] = {
    {"limit_bytes", read_limit, SIZE_RULE "; 0: no limit"},
    {"per_process_memory_fraction", read_fraction, "a number from 0 to 1; 0: no limit"},
    {"cache_limit_bytes", read_cache_limit, CACHE_RULE},
    {"pinned_cache_limit_bytes", read_pinned_cache_limit, CACHE_RULE},
    {"import_cache_limit_bytes", read_import_cache_limit, CACHE_RULE},
    {"pinned_use_cuda_host_register", read_registers, "True or False"},
    {"pinned_num_register_threads", read_register_threads, "0, or a power of two up to 128"},
    {"region_bytes", read_region, REGION_RULE ", as 64G or a number of bytes"},
    {"unrouted", read_unrouted, "adopt, refuse or allow"},
    {"null_stream", read_null_stream, "legacy or per_thread"},
    {"move_limit_bytes", read_move_limit, SIZE_RULE "; 0: no limit; or none: no moves"},
    {"history_bytes", read_history, HISTORY_RULE},
    {"history_stacks", read_history_stacks, "none, caller, frames or unwind"},
    {"history_sample_bytes", read_history_sample, "up to 1T; 0: all allocations"},
    {"overrun_alignment", read_overrun, OVERRUN_RULE},
    {"sanitizer", read_sanitizer, "True or False"},
    {"roundup_power2_divisions", read_divisions,
     "0 or a power of two below 2^32; or a list of such numbers for rising powers of two from 1 to 32768 "
     "(MiB), then for those above: [64:8,256:4,>:1]"},
    {"graph_capture_record_stream_reuse", read_reuse, "True or False"},
    {"expandable_segments", read_expandable, "True: Tarn's segments always are expandable"},
    {"backend", read_backend, "native: Tarn takes memory from no other allocator"},
};

tarn_status tn_device_options_override(tarn_device_options *options, const char *text)
{
    tarn_device_options chosen = *options;
    tarn_status status =
        tn_conf_read("TARN_CONF", text, keys, sizeof keys / sizeof keys[0], &chosen);

    if (status == TARN_OK)
        status = check_finder(&chosen);
    if (status == TARN_OK)
        *options = chosen;
    return status;
}
