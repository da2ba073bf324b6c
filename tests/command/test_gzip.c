// SPDX-License-Identifier: Apache-2.0
/* What is written is read again by the system's gzip, or is as it was. */
#include "gzip.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/registry.h"

SUITE("bytes as gzip")

GROUP(bytes, NULL)

enum { BYTES = 200000 };

static unsigned char good[BYTES];

/* The file's bytes as gzip reads them; 0: it reads none. */
static size_t read_back(const char *path, unsigned char *bytes)
{
    char command[64];
    FILE *pipe;
    size_t count;

    (void)snprintf(command, sizeof command, "gzip -dc < %s 2>&1", path);
    pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    count = fread(bytes, 1, BYTES + 1, pipe);
    (void)pclose(pipe);
    return count;
}

TEST(bytes, are_read_by_gzip)
{
    static unsigned char bytes[BYTES + 1];
    char path[] = "/tmp/tarn-gzip-XXXXXX";
    const int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w+");

    ck_assert_ptr_nonnull(file);
    for (size_t i = 0; i < BYTES; i++)
        good[i] = (unsigned char)(i * i >> 7);
    ck_assert(gzip_write(good, BYTES, file));
    ck_assert_int_eq(fflush(file), 0);
    rewind(file);
    ck_assert_uint_eq(fread(bytes, 1, 2, file), 2);
    if (bytes[0] == 0x1f && bytes[1] == 0x8b) { /* else there is no zlib */
        ck_assert_uint_eq(read_back(path, bytes), BYTES);
        ck_assert_mem_eq(bytes, good, BYTES);
    }
    (void)fclose(file);
    (void)unlink(path);
}
