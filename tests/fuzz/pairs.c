// SPDX-License-Identifier: Apache-2.0
/* Inputs of TARN_CONF: words and single characters are inserted, changed and left out, and parts are
 * taken from another text. */
#include <string.h>

#include "fuzz/fuzz.h"

const char *const fuzz_name = "conf";

static const char *const words[] = {
    "limit_bytes:",
    "per_process_memory_fraction:",
    "cache_limit_bytes:",
    "pinned_cache_limit_bytes:",
    "region_bytes:",
    "unrouted:",
    "roundup_power2_divisions:",
    "graph_capture_record_stream_reuse:",
    "expandable_segments:",
    "backend:",
    "adopt",
    "refuse",
    "allow",
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
static const char letters[] = ",:[]>. \t\n0123456789KMGTx-+e\x80";

void fuzz_begin(void)
{
}

/* Puts so many bytes in the place of others; what has no room is left out. */
static size_t replace(uint8_t *bytes, size_t size, size_t at, size_t take, const void *give,
                      size_t give_size)
{
    if (size - take + give_size > FUZZ_BYTES_MAX)
        return size;
    memmove(bytes + at + give_size, bytes + at + take, size - at - take);
    memcpy(bytes + at, give, give_size);
    return size - take + give_size;
}

size_t fuzz_change(uint8_t *bytes, size_t size, const struct fuzz_input *other)
{
    const char *word = words[fuzz_below(sizeof words / sizeof words[0])];
    const char *letter = &letters[fuzz_below(sizeof letters)]; /* NUL is one */
    size_t at = fuzz_below(size + 1);
    size_t count = fuzz_below(size - at + 1);
    size_t from;

    switch (fuzz_below(6)) {
    case 0:
        return replace(bytes, size, at, 0, word, strlen(word));
    case 1:
        return replace(bytes, size, at, count, word, strlen(word));
    case 2:
        return replace(bytes, size, at, 0, letter, 1);
    case 3:
        return replace(bytes, size, at, at < size, letter, 1);
    case 4:
        return replace(bytes, size, at, count, "", 0);
    default:
        from = fuzz_below(other->size + 1);
        return replace(bytes, size, at, 0, other->bytes + from, fuzz_below(other->size - from + 1));
    }
}
