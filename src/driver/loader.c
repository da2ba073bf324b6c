// SPDX-License-Identifier: Apache-2.0
/* The loader tries each place in turn. If a file exists and cannot be loaded, the sentence tells of
 * this file; otherwise the sentence lists the places.
 *
 * Trade-offs: a handle stays open, whatever the driver's fate, since drivers start threads. */
#include "driver/loader.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/hot.h"
#include "base/object.h"

#define SIMULATOR "libtarn_sim.so"

enum { PATH_BYTES = 1024 };

/* The folder of installed libraries, up to a line's end. If the archive is installed elsewhere than
 * configured, cmake/TarnInstall.cmake writes the new folder here: a program may lie anywhere. */
static const char libdir[PATH_BYTES] __attribute__((section("tarn_libdir"))) = TARN_LIBDIR;

enum choice { CHOICE_CUDA, CHOICE_SIMULATOR, CHOICE_PATH };

static const char *wanted(void)
{
    const char *name = tn_environment("TARN_DRIVER");

    return name != NULL && name[0] != '\0' ? name : "cuda";
}

static enum choice chosen(void)
{
    if (strcmp(wanted(), "cuda") == 0)
        return CHOICE_CUDA;
    return strcmp(wanted(), "sim") == 0 ? CHOICE_SIMULATOR : CHOICE_PATH;
}

static bool open_as(struct tn_loaded *loaded, const char *name)
{
    (void)snprintf(loaded->path, sizeof loaded->path, "%.*s", (int)sizeof loaded->path - 1, name);
    loaded->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    return loaded->handle != NULL;
}

static const char *last_error(const char *otherwise)
{
    const char *why = dlerror();

    return why != NULL ? why : otherwise;
}

const char *tn_loader_advice(void)
{
    if (tn_environment_is_closed())
        return "the simulated one is not for a program that has more rights than its user: there "
               "TARN_DRIVER is not read";
    switch (chosen()) {
    case CHOICE_CUDA:
        return "set TARN_DRIVER=sim for the simulated one";
    case CHOICE_SIMULATOR:
        return "TARN_SIM_FAULT may have it fail so";
    case CHOICE_PATH:
        break;
    }
    return "set TARN_DRIVER=sim for the simulated one, or TARN_DRIVER=cuda for NVIDIA's";
}

/* Hides the contents of libdir from the compiler, which must not fold them. */
static const char *installed_in(void)
{
    const char *folder = libdir;

    TN_HIDE(folder);
    return folder;
}

static size_t installed_length(void)
{
    size_t length = 0;

    while (length < sizeof libdir && installed_in()[length] != '\0' &&
           installed_in()[length] != '\n')
        length += 1;
    return length;
}

/* The places of the simulator, except for the search by its name. Names the nth place; false: the
 * list has ended. An empty path: the place is not known. */
static bool name_place(int nth, char *path, size_t path_bytes)
{
    char folder[PATH_BYTES];
    bool known = nth < 2 && tn_object_folder(folder, sizeof folder);
    int length = 0;

    path[0] = '\0';
    if (nth == 0 && known)
        length = snprintf(path, path_bytes, "%s/" SIMULATOR, folder);
    else if (nth == 1 && known && tn_object_is_program())
        length = snprintf(path, path_bytes, "%s/" TARN_LIBDIR_FROM_BINDIR "/" SIMULATOR, folder);
    else if (nth == 2)
        length =
            snprintf(path, path_bytes, "%.*s/" SIMULATOR, (int)installed_length(), installed_in());
    if (length >= (int)path_bytes)
        path[0] = '\0';
    return nth <= 2;
}

/* The simulator is in none of the places. */
static tarn_status simulator_missing(const char *why)
{
    char places[PATH_BYTES];
    char path[PATH_BYTES];
    size_t length = 0;

    places[0] = '\0';
    for (int nth = 0; name_place(nth, path, sizeof path); nth++) {
        if (path[0] != '\0' && length < sizeof places)
            length += (size_t)snprintf(places + length, sizeof places - length, "%s%s",
                                       length > 0 ? ", " : "", path);
    }
    return tn_fail(TARN_ERR_NO_DRIVER,
                   "loading the simulated driver failed: %s; nor is it any of %s; set TARN_DRIVER "
                   "to the path of " SIMULATOR,
                   why, places);
}

static tarn_status open_simulator(struct tn_loaded *loaded)
{
    char why[PATH_BYTES];
    char place[PATH_BYTES];

    if (open_as(loaded, SIMULATOR))
        return TARN_OK;
    (void)snprintf(why, sizeof why, "%s", last_error(SIMULATOR " is not found by its name"));
    for (int nth = 0; name_place(nth, place, sizeof place); nth++) {
        if (place[0] == '\0' || access(place, F_OK) != 0)
            continue;
        if (open_as(loaded, place))
            return TARN_OK;
        return tn_fail(TARN_ERR_NO_DRIVER,
                       "loading the simulated driver failed: %s; set TARN_DRIVER to the path of "
                       "another " SIMULATOR,
                       last_error(place));
    }
    return simulator_missing(why);
}

tarn_status tn_loader_open(struct tn_loaded *loaded)
{
    switch (chosen()) {
    case CHOICE_CUDA:
        if (open_as(loaded, "libcuda.so.1"))
            return TARN_OK;
        return tn_fail(TARN_ERR_NO_DRIVER,
                       "loading the CUDA driver failed: %s; install the NVIDIA driver, or %s",
                       last_error("libcuda.so.1"), tn_loader_advice());
    case CHOICE_SIMULATOR:
        return open_simulator(loaded);
    case CHOICE_PATH:
        break;
    }
    if (open_as(loaded, wanted()))
        return TARN_OK;
    return tn_fail(TARN_ERR_NO_DRIVER, "loading what TARN_DRIVER names failed: %s; %s",
                   last_error(wanted()), tn_loader_advice());
}
