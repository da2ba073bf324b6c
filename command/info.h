// SPDX-License-Identifier: Apache-2.0
/* info.h -- "tarn info": the driver, the devices, and what Tarn takes of each when it is opened. */
#ifndef TARN_COMMAND_INFO_H
#define TARN_COMMAND_INFO_H

#include "options.h"
#include "say.h"

enum answer info_run(const struct options *options);

#endif
