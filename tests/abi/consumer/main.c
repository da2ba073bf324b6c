// SPDX-License-Identifier: Apache-2.0
/* A program as a user of an installed Tarn would build it. */
#include <stdio.h>
#include <string.h>

#include <tarn/tarn.h>

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
    return 0;
}
