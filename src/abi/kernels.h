// SPDX-License-Identifier: Apache-2.0
/* kernels.h -- what the library's device code and its callers agree on.
 *
 * The code itself is PTX text in driver/kernel.c; its twin in C, for the simulated driver, is
 * sim/code/twins.c. Both follow what is written here, and give the same bits.
 *
 * The kernel tarn_contents moves the bytes of many blocks between two places each, and adds up
 * their digests, in one launch. Its parameters:
 *   items    address of count items, in device memory
 *   digests  address of count sums of 64 bits, which it adds to; unused without TN_CONTENTS_DIGEST
 *   count    of items
 *   mode     TN_CONTENTS_* bits
 *   bits     of a tile's bytes: that power of two
 * A block of threads does one tile: the grid's x is the sum of the items' tiles.
 *
 * The kernel tarn_contents_begin comes before the first of these: it copies the items to where they
 * are then read, and makes the digests 0. A copy of the driver's would be done by an engine that
 * also clears memory which was given back, and may wait for a millisecond of that. Its parameters:
 *   given    address of count items, in page-locked host memory
 *   items, digests, count    as above
 * A thread does one item.
 *
 * A digest is the sum, modulo 2^64, of tn_digest_term over the words of 8 bytes that lie whole in
 * the first multiple of 16 bytes, by their index; and over the up to 15 bytes behind that, each as
 * a word, by TN_DIGEST_TAIL and its offset. A sum depends on no order, so threads add to it as they
 * come. For one index the term is another for every other word, so a single wrong word is always
 * found. */
#ifndef TARN_ABI_KERNELS_H
#define TARN_ABI_KERNELS_H

#include <stdint.h>

#define TN_CONTENTS_ENTRY "tarn_contents"
#define TN_CONTENTS_BEGIN_ENTRY "tarn_contents_begin"

enum {
    TN_CONTENTS_OUT = 1,    /* read the live side, else the saved one */
    TN_CONTENTS_COPY = 2,   /* write what was read to the other side */
    TN_CONTENTS_DIGEST = 4, /* add it to the item's digest */
};

#define TN_CONTENTS_THREADS 256 /* of a block, each 16 bytes at a time, four times in a row */

enum { TN_CONTENTS_TILE_BITS_MIN = 14, TN_CONTENTS_TILE_BITS_MAX = 16 };

/* Both addresses are multiples of 16. */
struct tn_contents_item {
    uint64_t live;       /* address in the pool */
    uint64_t saved;      /* address of the copy */
    uint64_t bytes;      /* not 0 */
    uint64_t first_tile; /* tiles of all items before it */
};

#define TN_DIGEST_INDEX 0x9E3779B97F4A7C15ULL /* 2^64 over the golden ratio */
#define TN_DIGEST_MIX 0xD6E8FEB86659FD93ULL   /* odd, its bits well spread */
#define TN_DIGEST_TAIL ((uint64_t)1 << 63)

static inline uint64_t tn_digest_term(uint64_t word, uint64_t index)
{
    word ^= (index + 1) * TN_DIGEST_INDEX;
    word = (word ^ (word >> 32)) * TN_DIGEST_MIX;
    word = (word ^ (word >> 32)) * TN_DIGEST_MIX;
    return word ^ (word >> 32);
}

#endif
