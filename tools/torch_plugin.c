// SPDX-License-Identifier: Apache-2.0
/* Tarn as PyTorch's allocator, through torch.cuda.memory.CUDAPluggableAllocator: what tools/torch_plugin.py builds.
 *
 * PyTorch hands over the stream of each allocation, and this stream at the free. An allocation in a capture that no route leads
 * anywhere gets a pool of the capture's own (TARN_UNROUTED_ADOPT), which is there as long as the graph. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include "tarn/tarn.h"

static tarn_device *device;

static void check(tarn_status status, const char *what)
{
    if (status == TARN_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, tarn_status_name(status), tarn_last_error());
    abort();
}

tarn_device *tarn_torch_device(void)
{
    if (device == NULL)
        check(tarn_device_open(0, NULL, &device), "tarn_device_open");
    return device;
}

void *tarn_torch_alloc(ssize_t bytes, int ordinal, tarn_stream stream)
{
    void *address = NULL;

    (void)ordinal;
    check(tarn_malloc(tarn_torch_device(), (size_t)bytes, stream, &address), "tarn_malloc");
    return address;
}

void tarn_torch_free(void *address, ssize_t bytes, int ordinal, tarn_stream stream)
{
    (void)bytes;
    (void)ordinal;
    (void)stream;
    check(tarn_free(address), "tarn_free");
}

/* The same for a program of several streams: others get the memory sooner. */
void tarn_torch_free_on(void *address, ssize_t bytes, int ordinal, tarn_stream stream)
{
    (void)bytes;
    (void)ordinal;
    check(tarn_free_on(address, stream), "tarn_free_on");
}

void tarn_torch_record_stream(void *address, tarn_stream stream)
{
    check(tarn_record_stream(address, stream), "tarn_record_stream");
}
