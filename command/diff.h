// SPDX-License-Identifier: Apache-2.0
/* diff.h -- "tarn diff": which live blocks one history has more than another. */
#ifndef TARN_COMMAND_DIFF_H
#define TARN_COMMAND_DIFF_H

#include "options.h"
#include "say.h"

enum answer diff_run(const struct options *options);

#endif
