// SPDX-License-Identifier: Apache-2.0
/* groups.h -- live blocks by stack or by pool, in lines for people or as JSON. */
#ifndef TARN_COMMAND_GROUPS_H
#define TARN_COMMAND_GROUPS_H

#include "history.h"
#include "json.h"
#include "live.h"
#include "symbols.h"

/* Each group with its stack; at most so many. */
void groups_print_stacks(const struct live_groups *groups, struct history *history,
                         struct symbols *symbols, size_t most, FILE *file);
void groups_print_pools(const struct live_groups *groups, FILE *file);

/* Arrays under the keys "stacks" and "pools". */
void groups_stacks_to_json(const struct live_groups *groups, struct history *history,
                           struct symbols *symbols, size_t most, struct json *json);
void groups_pools_to_json(const struct live_groups *groups, struct json *json);

#endif
