// SPDX-License-Identifier: Apache-2.0
/* version.h -- the versions of the headers and of the running library. */
#ifndef TARN_VERSION_H
#define TARN_VERSION_H

#include "tarn/status.h"

#define TARN_VERSION_MAJOR 0
#define TARN_VERSION_MINOR 1
#define TARN_VERSION_PATCH 0
#define TARN_VERSION_STRING "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the running library, such as "0.1.0". Any thread. */
TARN_API const char *tarn_version(void);

#ifdef __cplusplus
}
#endif
#endif
