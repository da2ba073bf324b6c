// SPDX-License-Identifier: Apache-2.0
/* loader.h -- which library is the driver, and where it lies.
 *
 * TARN_DRIVER chooses: `cuda`, which is the default, `sim`, or the path of another driver. The
 * loader looks for the simulated driver
 *
 *   1. by its name, where the system looks for libraries: a search path may override the rest;
 *   2. beside the object with the library: libtarn.so, or a plugin or program with libtarn.a;
 *   3. of a program in a folder for programs, in the folder for libraries next to that;
 *   4. where Tarn was configured to be installed.
 *
 * Locking: the PROCESS lock. */
#ifndef TARN_DRIVER_LOADER_H
#define TARN_DRIVER_LOADER_H

#include "tarn/status.h"

struct tn_loaded {
    void *handle;   /* the loader's */
    char path[256]; /* the name or path of the library; cut if longer */
};

/* Loads the library. NO_DRIVER, with a sentence that lists the places tried. */
TARN_MUST_CHECK tarn_status tn_loader_open(struct tn_loaded *loaded);

/* Advice for a user without a GPU, to stand behind "the driver found no device". Never advises the
 * driver that was tried. */
const char *tn_loader_advice(void);

#endif
