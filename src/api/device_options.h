// SPDX-License-Identifier: Apache-2.0
/* device_options.h -- what a device is opened with: the program's options, and TARN_CONF's word on them. */
#ifndef TARN_API_DEVICE_OPTIONS_H
#define TARN_API_DEVICE_OPTIONS_H

#include "tarn/device.h"

/* Checks the options and fills in what is left to the default. INVALID_ARGUMENT. */
TARN_MUST_CHECK tarn_status tn_device_options_complete(tarn_device_options *options);

/* Puts what the text says, TARN_CONF's, in the place of what the options say; they are complete before
 * and after. INVALID_ARGUMENT: nothing has changed. */
TARN_MUST_CHECK tarn_status tn_device_options_override(tarn_device_options *options,
                                                       const char *text);

#endif
