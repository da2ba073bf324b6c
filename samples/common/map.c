// SPDX-License-Identifier: Apache-2.0
#include "common/map.h"

#include <stdint.h>
#include <stdio.h>

#include "common/driver.h"

enum { CELLS = 64, STATES = TARN_EXTENT_UNMAPPED + 1 };

/* The character of a cell, given how many of its bytes are in each state. */
static char cell_character(const size_t bytes[STATES])
{
    size_t others = bytes[TARN_EXTENT_PENDING] + bytes[TARN_EXTENT_DISCARDED] +
                    bytes[TARN_EXTENT_FREE] + bytes[TARN_EXTENT_UNMAPPED];
    if (bytes[TARN_EXTENT_LIVE] > 0) {
        return others == 0 ? '#' : '+';
    }
    if (bytes[TARN_EXTENT_PENDING] + bytes[TARN_EXTENT_DISCARDED] > 0) {
        return '~';
    }
    return bytes[TARN_EXTENT_FREE] > 0 ? '.' : '_';
}

/* How many bytes of the extent, which begins at start, lie in [from, to). All three are counted
 * from the segment's start. */
static size_t overlap(const tarn_extent *extent, size_t start, size_t from, size_t to)
{
    size_t end = start + extent->bytes;
    size_t low = start > from ? start : from;
    size_t high = end < to ? end : to;
    return high > low ? high - low : 0;
}

/* The bytes of each state in [from, to), counted from the segment's start. */
static void count_states(const tarn_extent *extents, size_t count, size_t from, size_t to,
                         size_t bytes[STATES])
{
    size_t start = 0;
    for (size_t i = 0; i < count; i++) {
        bytes[extents[i].state] += overlap(&extents[i], start, from, to);
        start += extents[i].bytes;
    }
}

/* Draws the extents of one segment. A segment reserves addresses far ahead of what it uses, so the
 * cells are scaled to the part up to the last block, or to the mapped part where there is none; the
 * rest is told in words. A cell is a power of two of bytes, so that maps can be compared. */
static void draw_segment(const tarn_extent *extents, size_t count)
{
    size_t total = 0;
    size_t mapped = 0;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        total += extents[i].bytes;
        if (extents[i].state != TARN_EXTENT_UNMAPPED) {
            mapped = total;
        }
        if (extents[i].state != TARN_EXTENT_UNMAPPED && extents[i].state != TARN_EXTENT_FREE) {
            used = total;
        }
    }
    size_t shown = used > 0 ? used : mapped;
    size_t cell_bytes = 1024;
    while (cell_bytes * CELLS < shown) {
        cell_bytes *= 2;
    }

    char line[CELLS + 1] = "";
    for (size_t cell = 0; cell < CELLS; cell++) {
        size_t bytes[STATES] = {0};
        count_states(extents, count, cell * cell_bytes, (cell + 1) * cell_bytes, bytes);
        line[cell] = cell_character(bytes);
    }
    size_t rest[STATES] = {0};
    count_states(extents, count, CELLS * cell_bytes, total, rest);
    printf("    segment %zu |%s| %zu KiB each, then %zu KiB free, %zu KiB unmapped\n",
           extents[0].segment_index, line, cell_bytes >> 10, rest[TARN_EXTENT_FREE] >> 10,
           rest[TARN_EXTENT_UNMAPPED] >> 10);
}

void map_draw(tarn_pool *pool)
{
    tarn_layout *layout = NULL;
    CHECK(tarn_pool_layout(pool, &layout));
    size_t first = 0;
    while (first < layout->extent_count) {
        size_t end = first;
        while (end < layout->extent_count &&
               layout->extents[end].segment_index == layout->extents[first].segment_index) {
            end++;
        }
        draw_segment(&layout->extents[first], end - first);
        first = end;
    }
    printf("    # live   + live in part   ~ pending   . free   _ unmapped\n");
    tarn_layout_destroy(layout);
}

map_place map_find(tarn_pool *pool, const void *address)
{
    tarn_layout *layout = NULL;
    CHECK(tarn_pool_layout(pool, &layout));
    map_place place = {0, 0};
    uintptr_t base = 0;
    bool found = false;
    for (size_t i = 0; i < layout->extent_count && !found; i++) {
        const tarn_extent *extent = &layout->extents[i];
        uintptr_t start = (uintptr_t)extent->address;
        if (i == 0 || extent->segment_index != place.segment) {
            place.segment = extent->segment_index;
            base = start;
        }
        place.offset = (uintptr_t)address - base;
        found = (uintptr_t)address - start < extent->bytes;
    }
    tarn_layout_destroy(layout);
    REQUIRE(found);
    return place;
}

uint64_t map_mapped_bytes(tarn_pool *pool)
{
    tarn_stats stats = TARN_STATS_INIT;
    CHECK(tarn_pool_stats(pool, &stats));
    return stats.mapped_bytes.all.current;
}
