// SPDX-License-Identifier: Apache-2.0
/* head.h -- what stands above a report: which history it is, of which process, and what it lacks. */
#ifndef TARN_COMMAND_HEAD_H
#define TARN_COMMAND_HEAD_H

#include <stdbool.h>
#include <stdio.h>

#include "history.h"
#include "json.h"

/* event_count: in the log, where it was read whole; NULL: it was not. */
void head_print(const struct history *history, const struct tn_told *told,
                const uint64_t *event_count, FILE *file);

/* The same as members of an object that is open. */
void head_to_json(const struct history *history, const struct tn_told *told,
                  const uint64_t *event_count, struct json *json);

/* Of how many bytes, in the mean, an allocation has a stack; 1: each has one, or none has. */
uint64_t head_sample_bytes(const struct history *history);

#endif
