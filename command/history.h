// SPDX-License-Identifier: Apache-2.0
/* history.h -- a history that is read: of a process that runs, or of one that is gone.
 *
 * What the file says is never trusted: numbers are checked where they are read, and what no writer
 * wrote is left out. */
#ifndef TARN_COMMAND_HISTORY_H
#define TARN_COMMAND_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/modules.h"
#include "base/ring_file.h"
#include "base/scroll.h"
#include "base/stacks.h"
#include "observe/retell.h"

enum {
    HISTORY_PROGRAM_BYTES = 256,
    HISTORY_BUILD_ID_BYTES = 2 * TN_MODULE_BUILD_ID_MAX + 1,
    HISTORY_MODULES_MAX = 1 << 16, /* more are not read */
    HISTORY_READ_BYTES = 1 << 16,  /* at once, of a file that nobody writes */
};

struct history {
    const char *path;
    struct tn_ring_reader reader;
    bool is_alive;
    char program[HISTORY_PROGRAM_BYTES]; /* its name; empty: not known */
    struct tn_told_source source;
    struct tn_scroll_reader stacks;
    struct tn_module *modules; /* oldest first */
    size_t module_count;
    /* Of a dead process's file: what was read last, so that few calls of the system are made. */
    unsigned char *read;
    size_t read_at;
    size_t read_bytes;
};

/* path stays the caller's, and must stay. The history is not moved while it is open. NO_FILE: errno
 * tells, ENOMEM included. */
enum tn_ring_opened history_try(struct history *history, const char *path);

/* The same; false: it was said why not. */
bool history_open(struct history *history, const char *path);
void history_close(struct history *history);

/* The moment of a stamp, in nanoseconds since 1970. */
uint64_t history_time(const struct history *history, uint64_t stamp);

/* The newest module with the address; NULL: none. */
const struct tn_module *history_module_at(const struct history *history, uint64_t address);

/* The module's build id as hexadecimal digits. */
void history_print_build_id(char text[HISTORY_BUILD_ID_BYTES], const struct tn_module *module);

/* Whether the stack is the label of an allocation, without frames. */
bool history_is_label_alone(const struct history *history, uint64_t stack);

/* Bytes of the log. */
size_t history_log_bytes(const struct history *history);

#endif
