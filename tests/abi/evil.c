// SPDX-License-Identifier: Apache-2.0
/* A library that says that it was loaded, for privileged.sh. */
#include <stdio.h>

__attribute__((constructor)) static void say(void)
{
    (void)puts("loaded: what the environment names");
}
