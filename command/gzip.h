// SPDX-License-Identifier: Apache-2.0
/* gzip.h -- writes bytes as gzip, where the command was built with zlib. */
#ifndef TARN_COMMAND_GZIP_H
#define TARN_COMMAND_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Without zlib the bytes are written as they are. False: no memory. */
bool gzip_write(const unsigned char *bytes, size_t count, FILE *file);

#endif
