// SPDX-License-Identifier: Apache-2.0
/* A plugin with libtarn.a, for plugin_host.c. */
#include <stddef.h>
#include <stdio.h>

#include <tarn/tarn.h>

#define PLUGIN_API __attribute__((visibility("default")))

PLUGIN_API int plugin_route(void);
PLUGIN_API int plugin_capture(tarn_stream stream);

static int told(const char *what)
{
    (void)fprintf(stderr, "plugin: %s: %s\n", what, tarn_last_error());
    return 1;
}

/* Allocates by a route of the calling thread, and leaves nothing behind but what the thread has of it. */
int plugin_route(void)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_device *device;
    tarn_pool *pool;
    tarn_route *route;
    void *block;

    if (tarn_device_open(0, NULL, &device) != TARN_OK)
        return told("no device");
    if (tarn_pool_create(device, &options, &pool) != TARN_OK ||
        tarn_begin_allocate_to_pool(device, pool, tarn_filter_thread, NULL, &route) != TARN_OK ||
        tarn_malloc(device, 4096, NULL, &block) != TARN_OK || tarn_free(block) != TARN_OK ||
        tarn_end_allocate_to_pool(route) != TARN_OK || tarn_pool_destroy(pool) != TARN_OK ||
        tarn_device_close(device) != TARN_OK)
        return told("no allocation by a route");
    return 0;
}

/* Allocates on a stream that is being captured: the graph has a function of the library to call at its end. */
int plugin_capture(tarn_stream stream)
{
    tarn_device *device;
    void *block;

    if (tarn_device_open(0, NULL, &device) != TARN_OK)
        return told("no device");
    if (tarn_malloc(device, 4096, stream, &block) != TARN_OK)
        return told("no allocation in a capture");
    return 0;
}
