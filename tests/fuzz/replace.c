// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "fuzz/fuzz.h"

size_t fuzz_replace(uint8_t *bytes, size_t size, size_t at, size_t take, const void *give,
                    size_t give_size)
{
    if (size - take + give_size > FUZZ_BYTES_MAX)
        return size;
    memmove(bytes + at + give_size, bytes + at + take, size - at - take);
    if (give_size > 0)
        memcpy(bytes + at, give, give_size);
    return size - take + give_size;
}
