// SPDX-License-Identifier: Apache-2.0
/* stays_loaded LIBTARN   whether the library is there still when the program has closed it: a thread's end may
 * call it afterwards, and so may the driver. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments)
{
    void *library = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;

    if (library == NULL) {
        (void)fprintf(stderr, "usage: stays_loaded LIBTARN; %s\n", count == 2 ? dlerror() : "");
        return 2;
    }
    (void)dlclose(library);
    library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    (void)puts(library != NULL ? "it stays loaded" : "it was unloaded");
    return library != NULL ? 0 : 1;
}
