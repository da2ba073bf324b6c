// SPDX-License-Identifier: Apache-2.0
/* Inputs that are bytes: bits and whole numbers are changed, bytes inserted and left out, and parts are
 * taken from another input. */
#include <string.h>

#include "fuzz/fuzz.h"

static size_t change_number(uint8_t *bytes, size_t size)
{
    static const uint64_t numbers[] = {0,          1,          2,          0x7f,
                                       0x80,       0xff,       0xffff,     0x7fffffff,
                                       1u << 31,   UINT32_MAX, 1ull << 46, (1ull << 46) + 1,
                                       1ull << 63, UINT64_MAX};
    uint64_t number = numbers[fuzz_below(sizeof numbers / sizeof numbers[0])];
    size_t width = (size_t)1 << fuzz_below(4);

    if (size < width)
        return size;
    memcpy(bytes + fuzz_below(size - width + 1), &number, width);
    return size;
}

size_t fuzz_change(uint8_t *bytes, size_t size, const struct fuzz_input *other)
{
    uint8_t byte = (uint8_t)fuzz_below(256);
    size_t at = fuzz_below(size + 1);
    size_t from;

    switch (fuzz_below(6)) {
    case 0:
        if (at < size)
            bytes[at] ^= (uint8_t)(1u << fuzz_below(8));
        return size;
    case 1:
        return fuzz_replace(bytes, size, at, at < size, &byte, 1);
    case 2:
        return fuzz_replace(bytes, size, at, 0, &byte, 1);
    case 3:
        return fuzz_replace(bytes, size, at, fuzz_below((size - at < 8 ? size - at : 8) + 1), "",
                            0);
    case 4:
        return change_number(bytes, size);
    default:
        from = fuzz_below(other->size + 1);
        return fuzz_replace(bytes, size, at, 0, other->bytes + from,
                            fuzz_below(other->size - from + 1));
    }
}
