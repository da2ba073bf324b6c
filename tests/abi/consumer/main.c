// SPDX-License-Identifier: Apache-2.0
/* A program as a user of an installed Tarn would build it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/tarn.h>

/* Says which driver it is. */
static int open_device(void)
{
    tarn_device *device;
    tarn_device_info info = TARN_DEVICE_INFO_INIT;

    if (tarn_device_open(0, NULL, &device) != TARN_OK) {
        printf("no device: %s\n", tarn_last_error());
        return 1;
    }
    if (tarn_device_describe(device, &info) != TARN_OK || tarn_device_close(device) != TARN_OK)
        return 1;
    printf("    %s: %s\n", info.name, info.driver);
    return 0;
}

int main(void)
{
    printf("tarn %s\n", tarn_version());
    if (strcmp(tarn_version(), TARN_VERSION_STRING) != 0) {
        fprintf(stderr, "the headers are of version %s\n", TARN_VERSION_STRING);
        return 1;
    }
    if (strcmp(tarn_status_name(TARN_ERR_BUSY), "TARN_ERR_BUSY") != 0) {
        fprintf(stderr, "TARN_ERR_BUSY is called %s\n", tarn_status_name(TARN_ERR_BUSY));
        return 1;
    }
    return getenv("TARN_DRIVER") != NULL ? open_device() : 0;
}
