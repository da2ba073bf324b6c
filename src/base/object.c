// SPDX-License-Identifier: Apache-2.0
/* The loader knows the object in which an address lies. For a program, the loader knows only the
 * name by which the program was called, which need not be its path. The kernel knows the path.
 *
 * Trade-offs: a plugin with libtarn.a that has used Tarn is never unloaded, and keeps its state
 * where the plugin is opened again. The same holds for libtarn.so, which is linked to stay
 * loaded. */
#include "base/object.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static const char here; /* lies in the object */
static pthread_once_t kept = PTHREAD_ONCE_INIT;

/* The loader reports the program first. */
static int check_first(struct dl_phdr_info *object, size_t bytes, void *found)
{
    uintptr_t offset = (uintptr_t)&here - object->dlpi_addr;

    (void)bytes;
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        if (object->dlpi_phdr[i].p_type == PT_LOAD &&
            offset - object->dlpi_phdr[i].p_vaddr < object->dlpi_phdr[i].p_memsz)
            *(bool *)found = true;
    }
    return 1;
}

bool tn_object_is_program(void)
{
    bool found = false;

    (void)dl_iterate_phdr(check_first, &found);
    return found;
}

/* The handle stays open. An open handle alone would keep the object loaded, except where the count
 * of handles is wrong. */
static void keep(void)
{
    Dl_info object;

    if (!tn_object_is_program() && dladdr(&here, &object) != 0 && object.dli_fname != NULL)
        (void)dlopen(object.dli_fname, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE);
}

void tn_object_keep(void)
{
    (void)pthread_once(&kept, keep);
}

/* Cuts the file's name off; false: the path has no folder. */
static bool cut_name(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash == NULL)
        return false;
    *slash = '\0';
    return true;
}

bool tn_object_folder(char *folder, size_t bytes)
{
    Dl_info object;
    ssize_t length;

    if (tn_object_is_program()) {
        length = readlink("/proc/self/exe", folder, bytes);
        if (length < 0 || (size_t)length >= bytes)
            return false;
        folder[length] = '\0';
        return cut_name(folder);
    }
    if (dladdr(&here, &object) == 0 || object.dli_fname == NULL ||
        strlen(object.dli_fname) >= bytes)
        return false;
    memcpy(folder, object.dli_fname, strlen(object.dli_fname) + 1);
    return cut_name(folder);
}
