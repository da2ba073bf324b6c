// SPDX-License-Identifier: Apache-2.0
/* naming.h -- what a frame of a stack is called: its module, the place in the module's file, and the
 * function, where the module exports it.
 *
 * Names of functions are those of this process's dynamic symbols. Other functions are named by
 * module and place. Tools with the module's file find the function.
 *
 * Locking: none may be held, for the loader's lock is taken. */
#ifndef TARN_OBSERVE_NAMING_H
#define TARN_OBSERVE_NAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/modules.h"

enum { TN_FRAME_TEXT_MAX = 512 };

struct tn_naming_module;

/* The modules of a history, for frames to be looked up. */
struct tn_naming {
    struct tn_naming_module *modules; /* in the order in which they were found */
    size_t count;
    char program[TN_MODULE_PATH_MAX + 1]; /* its path; empty: not known */
};

/* In texts a byte that is not printable ASCII is '?'. */
struct tn_frame_name {
    char path[TN_MODULE_PATH_MAX + 1]; /* of the module; "??": not known */
    char function[TN_FRAME_TEXT_MAX];  /* longer names are cut */
    uint64_t offset;                   /* of the call in the module's file; 0: not known */
};

/* False: no memory. The modules may be of any process that ran the same binary files. */
bool tn_naming_begin(struct tn_naming *naming, const struct tn_scroll *modules);
void tn_naming_end(struct tn_naming *naming);

/* frame: no title (base/stack.h). */
void tn_name_frame(const struct tn_naming *naming, uint64_t frame, struct tn_frame_name *name);

/* Names the frame of an interpreter by its text. */
void tn_name_text(const char *text, struct tn_frame_name *name);

#endif
