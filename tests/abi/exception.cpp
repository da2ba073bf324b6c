// SPDX-License-Identifier: Apache-2.0
// A callback that throws, below a handler: the program must not get to see the exception.
#include <cstdio>
#include <stdexcept>

#include "tarn/tarn.h"

static bool throwing(tarn_device *, size_t, void *)
{
    throw std::runtime_error("out of a callback");
}

int main()
{
    tarn_device *device = nullptr;
    void *address = nullptr;

    if (tarn_device_open(0, nullptr, &device) != TARN_OK ||
        tarn_device_add_free_callback(device, throwing, nullptr) != TARN_OK)
        return 2;
    try {
        const tarn_status status =
            tarn_malloc(device, static_cast<size_t>(8191) << 20, nullptr, &address);

        std::printf("the call has answered %s\n", tarn_status_name(status));
    } catch (const std::exception &) {
        std::printf("the exception has passed through the call\n");
    }
    return 0;
}
