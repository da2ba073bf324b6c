// SPDX-License-Identifier: Apache-2.0
/* map.h -- a pool's segments as text, and addresses as places in them. */
#ifndef SAMPLES_COMMON_MAP_H
#define SAMPLES_COMMON_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "tarn/tarn.h"

/* Prints a line of 64 cells for each segment of the pool, and a legend. */
void map_draw(tarn_pool *pool);

/* Where in the pool's segments an address is. The same program has its blocks at the same places in
 * every run, whatever the addresses are. */
typedef struct map_place {
    size_t segment;
    size_t offset;
} map_place;

map_place map_find(tarn_pool *pool, const void *address);

/* The bytes of device memory that the pool has mapped. */
uint64_t map_mapped_bytes(tarn_pool *pool);

#endif
