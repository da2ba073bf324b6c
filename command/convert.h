// SPDX-License-Identifier: Apache-2.0
/* convert.h -- "tarn convert": a history as a file of other tools. */
#ifndef TARN_COMMAND_CONVERT_H
#define TARN_COMMAND_CONVERT_H

#include "options.h"
#include "say.h"

enum answer convert_run(const struct options *options);

#endif
