// SPDX-License-Identifier: Apache-2.0
/* list.h -- tarn list: the histories of this user. */
#ifndef TARN_COMMAND_LIST_H
#define TARN_COMMAND_LIST_H

#include "options.h"
#include "say.h"

enum answer list_run(const struct options *options);

#endif
