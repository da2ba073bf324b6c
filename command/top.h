// SPDX-License-Identifier: Apache-2.0
/* top.h -- "tarn top": a process's memory, again and again while it runs. */
#ifndef TARN_COMMAND_TOP_H
#define TARN_COMMAND_TOP_H

#include "options.h"
#include "say.h"

enum answer top_run(const struct options *options);

#endif
