// SPDX-License-Identifier: Apache-2.0
/* telling.h -- events and blocks, in lines for people or as JSON. */
#ifndef TARN_COMMAND_TELLING_H
#define TARN_COMMAND_TELLING_H

#include <stdbool.h>

#include "history.h"
#include "json.h"
#include "owners.h"
#include "symbols.h"

struct telling {
    struct history *history;
    struct symbols *symbols;
    const struct owners *owners;
};

/* A line for the event; with its allocation's stack below, where with_stack is set. */
void telling_print_event(const struct telling *telling, const struct tn_told_event *event,
                         bool with_stack, FILE *file);
void telling_event_to_json(const struct telling *telling, const struct tn_told_event *event,
                           struct json *json);

/* A live block, with its stack. */
void telling_print_block(const struct telling *telling, const struct tn_told_block *block,
                         FILE *file);
void telling_block_to_json(const struct telling *telling, const struct tn_told_block *block,
                           struct json *json);

#endif
