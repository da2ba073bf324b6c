// SPDX-License-Identifier: Apache-2.0
/* leaks_stacks.h -- the stacks of the places of leaks, and the modules that these lead through.
 *
 * Locking: a result is its caller's; stacks and modules may be written meanwhile. */
#ifndef TARN_OBSERVE_LEAKS_STACKS_H
#define TARN_OBSERVE_LEAKS_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/modules.h"
#include "base/ring_file.h"
#include "observe/titles.h"
#include "tarn/leaks.h"

/* A result, with what it owns. */
struct tn_leaks {
    tarn_leaks read; /* first: programs have this address */
    tarn_leak *places;
    tarn_leak_pool *pools;
    uint64_t *frames;         /* TN_STACK_FRAMES_MAX of each place with a stack */
    const char **interpreted; /* as many */
    struct tn_titles titles;  /* the texts of these, and labels */
    struct tn_module *modules;
    size_t module_count;
    size_t module_capacity;
    tarn_leak_module *module_views;
};

/* Reads the stacks and modules of the places. False: no memory. */
bool tn_leaks_read_stacks(struct tn_leaks *leaks, const struct tn_ring_file *file);

/* The module with code at the frame's call; NULL: none is known. */
const tarn_leak_module *tn_leaks_module(const tarn_leaks *leaks, uint64_t frame);

#endif
