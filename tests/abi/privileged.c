// SPDX-License-Identifier: Apache-2.0
/* privileged DRIVER...   says what the program does of what its environment asks: whether it has more rights than its
 * user, what opening a device answers, and how many devices each of the drivers has that are loaded by their paths.
 * privileged.sh runs it as its user and with more rights. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include <tarn/tarn.h>

static void ask(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *init_address = library != NULL ? dlsym(library, "cuInit") : NULL;
    void *count_address = library != NULL ? dlsym(library, "cuDeviceGetCount") : NULL;
    int (*init)(unsigned int flags);
    int (*get_count)(int *count);
    int count = -1;

    if (init_address == NULL || count_address == NULL) {
        (void)printf("no driver: %s\n", path);
        return;
    }
    memcpy(&init, &init_address, sizeof init);
    memcpy(&get_count, &count_address, sizeof get_count);
    if (init(0) == 0 && get_count(&count) == 0)
        (void)printf("devices: %d\n", count);
    else
        (void)printf("devices: none\n");
}

int main(int count, char **arguments)
{
    tarn_device *device;
    tarn_status status = tarn_device_open(0, NULL, &device);

    (void)printf("more rights: %s\n", getauxval(AT_SECURE) != 0 ? "yes" : "no");
    (void)printf("open: %s\n", tarn_status_name(status));
    for (int i = 1; i < count; i++)
        ask(arguments[i]);
    return 0;
}
