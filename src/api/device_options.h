// SPDX-License-Identifier: Apache-2.0
/* device_options.h -- the options of a device: the program's, and TARN_CONF over them. */
#ifndef TARN_API_DEVICE_OPTIONS_H
#define TARN_API_DEVICE_OPTIONS_H

#include "tarn/device.h"

/* Checks the options and fills in the defaults. INVALID_ARGUMENT. */
TARN_MUST_CHECK tarn_status tn_device_options_complete(tarn_device_options *options);

/* Puts the settings of the text, which is TARN_CONF's, in the place of the options'. The options
 * are complete before and after. INVALID_ARGUMENT: nothing has changed. */
TARN_MUST_CHECK tarn_status tn_device_options_override(tarn_device_options *options,
                                                       const char *text);

#endif
