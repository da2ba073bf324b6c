// SPDX-License-Identifier: Apache-2.0
/* apart.h -- a process made by fork() in a test, which is none of Check's. */
#ifndef TARN_TESTS_SUPPORT_APART_H
#define TARN_TESTS_SUPPORT_APART_H

#include <fcntl.h>
#include <unistd.h>

enum { TEST_APART_FILES = 256 };

/* In the child, before its first assertion: files of its parent are /dev/null from now on, but for
 * the first three and `kept` (-1: none). Check's own, in which it notes each assertion, is one of
 * them. A kill, or two processes whose buffers are full, would leave torn notes there. */
static inline void test_apart(int kept)
{
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int file = 3; file < TEST_APART_FILES; file++) {
        if (file != kept && file != nowhere && fcntl(file, F_GETFD) >= 0)
            (void)dup3(nowhere, file, O_CLOEXEC);
    }
}

#endif
