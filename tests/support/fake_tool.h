// SPDX-License-Identifier: Apache-2.0
/* fake_tool.h -- a tool's library, which keeps what it is told: the place of compute-sanitizer where
 * there is none.
 *
 * A suite names the library in the environment before it opens a device, and asks the library's own
 * functions, which are found by name. TARN_FAKE_TOOL says how the tool is to fail:
 *   core      its core functions refuse
 *   memory    it takes no memory
 *   heap      it refuses heaps
 *   silent    no entry of the library serves
 *   stop      a mistake in what it is told ends the process */
#ifndef TARN_TESTS_FAKE_TOOL_H
#define TARN_TESTS_FAKE_TOOL_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_TOOL_VARIABLE "TARN_FAKE_TOOL"

/* What was told so far, and what is left of it. */
struct fake_tool_facts {
    uint64_t loads; /* of memory functions */
    uint64_t heaps;
    uint64_t regions;
    uint64_t regions_added; /* in all */
    uint64_t counters;      /* made */
    uint64_t samples;       /* of all counters */
    uint64_t ranges;        /* begun */
    uint64_t open_ranges;   /* and not ended */
    uint64_t mistakes; /* a region outside heaps, over another one, or one that was not there */
};

struct fake_tool {
    void *library;
    void (*look)(struct fake_tool_facts *facts);
    /* Whether the tool lets a kernel use all of the bytes. */
    bool (*allows)(uint64_t address, uint64_t bytes);
    /* The region at or before the address, or else behind it; false: no heap has the address. */
    bool (*nearest)(uint64_t address, uint64_t *base, uint64_t *bytes);
    /* The last value of the newest counter whose name has the text; false: none has, or no value. */
    bool (*value)(const char *text, int64_t *value);
    /* How many ranges with this name were begun. */
    uint64_t (*count_ranges)(const char *name);
};

/* Makes the library the tool of devices opened from now on. how: what TARN_FAKE_TOOL says; NULL:
 * nothing. */
void fake_tool_use(struct fake_tool *tool, const char *how);
/* The tool that the environment names already; false: none. */
bool fake_tool_find(struct fake_tool *tool);
struct fake_tool_facts fake_tool_look(const struct fake_tool *tool);

#endif
