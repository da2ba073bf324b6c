// SPDX-License-Identifier: Apache-2.0
/* loader.h -- which library is the driver, and where it lies.
 *
 * TARN_DRIVER says: `cuda`, which is the default, `sim`, or the path of another. The simulated driver is looked for
 *
 *   1. by its name, where the loader looks for libraries, so that a search path may override the rest;
 *   2. beside what the library is a part of: libtarn.so, a plugin with libtarn.a, or a program with it;
 *   3. of a program in a folder for programs, in the folder for libraries next to that;
 *   4. where Tarn was configured to be installed.
 *
 * Locking: the PROCESS lock. */
#ifndef TARN_DRIVER_LOADER_H
#define TARN_DRIVER_LOADER_H

#include "tarn/status.h"

struct tn_loaded {
    void *handle;   /* the loader's */
    char path[256]; /* what it was found as; its beginning, where that is longer */
};

/* Loads the library. NO_DRIVER, with a sentence that says where it was looked for. */
TARN_MUST_CHECK tarn_status tn_loader_open(struct tn_loaded *loaded);

/* What helps who has no GPU, to stand behind "the driver found no device". It never is what was tried. */
const char *tn_loader_advice(void);

#endif
