// SPDX-License-Identifier: Apache-2.0
/* environment.h -- the environment's requests to the library, the simulator and the recorder.
 *
 * TARN_DRIVER names a library to load, and other variables name files to write. A set-user-id
 * program, or a program with capabilities, has more rights than its user and must do neither for
 * the user. In such a program no variable counts as set. Nothing else in the sources reads the
 * environment; tests/tidy checks this.
 *
 * Inline, for the simulator and the recorder share no object code with the library.
 *
 * Locking: none; as getenv, not while another thread changes the environment. */
#ifndef TARN_BASE_ENVIRONMENT_H
#define TARN_BASE_ENVIRONMENT_H

#include <stdbool.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

/* The variable's value; NULL: it is not set, or not for this program. */
static inline const char *tn_environment(const char *name)
{
    return secure_getenv(name);
}

/* Whether the program has more rights than its user. */
static inline bool tn_environment_is_closed(void)
{
    return getauxval(AT_SECURE) != 0;
}

/* All variables, "name=value" each and NULL at the end; NULL: there are none for this program. */
static inline char *const *tn_environment_all(void)
{
    return tn_environment_is_closed() ? NULL : environ;
}

#endif
