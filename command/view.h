// SPDX-License-Identifier: Apache-2.0
/* view.h -- "tarn view": a history as a picture, in one page without outside references. */
#ifndef TARN_COMMAND_VIEW_H
#define TARN_COMMAND_VIEW_H

#include "options.h"
#include "say.h"

enum answer view_run(const struct options *options);

#endif
