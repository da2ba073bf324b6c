// SPDX-License-Identifier: Apache-2.0
/* What libFuzzer asks of a target besides an input: to begin, and to change an input. Half of the changes are
 * the target's own, which know what its inputs are made of. */
#include <string.h>

#include "fuzz/fuzz.h"

uint64_t fuzz_random;

int LLVMFuzzerInitialize(int *count, char ***words);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned int seed);

/* SplitMix64, by S. Vigna. */
size_t fuzz_below(size_t bound)
{
    uint64_t x = fuzz_random += 0x9e3779b97f4a7c15;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return (size_t)((x ^ (x >> 31)) % bound);
}

int LLVMFuzzerInitialize(int *count, char ***words)
{
    (void)count;
    (void)words;
    fuzz_begin();
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned int seed)
{
    static uint8_t buffer[FUZZ_BYTES_MAX];
    struct fuzz_input other = {bytes, size};

    fuzz_random = seed;
    if (size > sizeof buffer || fuzz_below(2) == 0)
        return LLVMFuzzerMutate(bytes, size, room);
    memset(buffer, 0, sizeof buffer);
    memcpy(buffer, bytes, size);
    for (size_t changes = 1 + fuzz_below(6); changes > 0; changes--)
        size = fuzz_change(buffer, size, &other);
    size = size < room ? size : room;
    memcpy(bytes, buffer, size);
    return size;
}
