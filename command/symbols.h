// SPDX-License-Identifier: Apache-2.0
/* symbols.h -- the names of addresses, by the files that the code came from.
 *
 * A file counts as a module's where its build id is the one that the process had. Where it is not, a
 * file of debug information with the build id may be: in .build-id of /usr/lib/debug or of a folder. Otherwise an address
 * has the module's name and a place in its file, which is enough to ask elsewhere later. */
#ifndef TARN_COMMAND_SYMBOLS_H
#define TARN_COMMAND_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "history.h"

enum { SYMBOL_INLINED_MAX = 16, SYMBOL_NAME_BYTES = 512, SYMBOL_FILE_BYTES = 512 };

/* A function that an address is in. */
struct function_at {
    char name[SYMBOL_NAME_BYTES]; /* empty: not known */
    char file[SYMBOL_FILE_BYTES]; /* of the source; empty: not known */
    unsigned line;                /* 0: not known */
};

/* What is known of an address. */
struct symbol {
    const struct tn_module *module; /* NULL: none has it */
    uint64_t offset;                /* in the module's file */
    struct function_at
        functions[SYMBOL_INLINED_MAX]; /* innermost first: all but the last inlined */
    unsigned count;                    /* of functions, at least one */
};

struct symbols;

/* For a history, which outlives it, as does the folder: of debug information besides the system's, or
 * NULL. NULL: no memory. */
struct symbols *symbols_open(const struct history *history, const char *debug_folder);
void symbols_close(struct symbols *symbols);

/* Names the address of an instruction. */
void symbols_find(struct symbols *symbols, uint64_t address, struct symbol *symbol);

#endif
