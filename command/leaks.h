// SPDX-License-Identifier: Apache-2.0
/* leaks.h -- tarn leaks: the live blocks of a history by the stacks of their allocations. */
#ifndef TARN_COMMAND_LEAKS_H
#define TARN_COMMAND_LEAKS_H

#include "options.h"
#include "say.h"

enum answer leaks_run(const struct options *options);

#endif
