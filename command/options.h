// SPDX-License-Identifier: Apache-2.0
/* options.h -- what a subcommand was asked for. */
#ifndef TARN_COMMAND_OPTIONS_H
#define TARN_COMMAND_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct options {
    const char *what;   /* PID or FILE; NULL: none */
    const char *other;  /* the second one; NULL: none */
    const char *format; /* NULL: none */
    const char *out;    /* NULL: standard output */
    const char *debug;  /* a folder of debug information; NULL: the system's alone */
    bool as_json;
    bool has_top;
    bool by_pool;
    bool by_address;
    bool has_events;
    size_t events; /* at most */
    size_t top;    /* groups at most, where has_top is set */
    uint64_t pool;
    uint64_t address;
};

enum { OPTIONS_OPERANDS_MAX = 2 };

/* The options that a subcommand knows, as letters of "ojeptbdf": out, json, events, pool, top, block, debug, to.
 * operands: how many of PID or FILE it takes. arguments begin with the subcommand. False: it was said
 * what is wrong. */
bool options_read(struct options *options, int count, char **arguments, const char *known,
                  unsigned operands);

#endif
