// SPDX-License-Identifier: Apache-2.0
/* growth.h -- what two moments have of live blocks, side by side, by keys that hold in both. */
#ifndef TARN_COMMAND_GROWTH_H
#define TARN_COMMAND_GROWTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum growth_side { GROWTH_BEFORE, GROWTH_AFTER, GROWTH_SIDES };

struct growth {
    char *key;
    uint64_t blocks[GROWTH_SIDES];
    uint64_t bytes[GROWTH_SIDES];
    uint64_t number; /* the caller's own for the key, of the side below */
    enum growth_side side;
};

struct growths {
    struct growth *all;
    size_t count;
    size_t capacity;
};

/* Adds blocks of one side. The key is copied. False: no memory. */
bool growth_add(struct growths *growths, enum growth_side side, const char *key, uint64_t number,
                uint64_t blocks, uint64_t bytes);

/* Makes one entry of each key, and puts what grew most first. Of an entry that both sides have,
 * number and side are those after. */
void growth_finish(struct growths *growths);
void growth_free(struct growths *growths);

/* What the bytes are more, or less; far apart, the limits. */
int64_t growth_bytes(const struct growth *growth);

#endif
