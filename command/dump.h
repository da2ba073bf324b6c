// SPDX-License-Identifier: Apache-2.0
/* dump.h -- tarn dump: what a history tells of a process: its live blocks, and its last events. */
#ifndef TARN_COMMAND_DUMP_H
#define TARN_COMMAND_DUMP_H

#include "options.h"
#include "say.h"

enum answer dump_run(const struct options *options);

#endif
