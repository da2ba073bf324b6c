// SPDX-License-Identifier: Apache-2.0
/* plugin_host PLUGIN thread|graph   a program that closes a plugin with libtarn.a in it, where something is left that
 * calls the library later:
 *
 *   thread   a thread had a route of its own, and ends when the plugin was closed
 *   graph    a graph has memory of Tarn, and is destroyed when the plugin was closed
 *
 * The driver is what TARN_DRIVER names, and must be a path. */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/functions.h"

struct host {
    void *plugin;
    int (*route)(void);
    sem_t used;
    sem_t closed;
    int result;
};

_Noreturn static void fail(const char *what)
{
    const char *why = dlerror();

    (void)fprintf(stderr, "plugin_host: %s: %s\n", what, why != NULL ? why : "it failed");
    exit(1);
}

static void find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);

    if (found == NULL)
        fail(name);
    memcpy(function, &found, sizeof found);
}

static void close_plugin(struct host *host)
{
    if (dlclose(host->plugin) != 0)
        fail("closing the plugin");
}

static void *use_and_end(void *of)
{
    struct host *host = of;

    host->result = host->route();
    (void)sem_post(&host->used);
    while (sem_wait(&host->closed) != 0)
        continue;
    return NULL;
}

static int end_thread(struct host *host)
{
    pthread_t thread;

    find(host->plugin, "plugin_route", &host->route);
    if (sem_init(&host->used, 0, 0) != 0 || sem_init(&host->closed, 0, 0) != 0 ||
        pthread_create(&thread, NULL, use_and_end, host) != 0)
        fail("a thread");
    while (sem_wait(&host->used) != 0)
        continue;
    close_plugin(host);
    (void)sem_post(&host->closed);
    if (pthread_join(thread, NULL) != 0)
        fail("the thread's end");
    return host->result;
}

static int destroy_graph(struct host *host)
{
    void *driver = dlopen(getenv("TARN_DRIVER"), RTLD_NOW | RTLD_LOCAL);
    tn_pfn_cuInit init;
    tn_pfn_cuDevicePrimaryCtxRetain retain;
    tn_pfn_cuCtxSetCurrent set_current;
    tn_pfn_cuStreamCreate make_stream;
    tn_pfn_cuStreamBeginCapture begin;
    tn_pfn_cuStreamEndCapture end;
    tn_pfn_cuGraphDestroy destroy;
    int (*allocate)(tn_cu_stream stream);
    tn_cu_context context;
    tn_cu_stream stream;
    tn_cu_graph graph;

    if (driver == NULL)
        fail("the driver");
    find(driver, "cuInit", &init);
    find(driver, "cuDevicePrimaryCtxRetain", &retain);
    find(driver, "cuCtxSetCurrent", &set_current);
    find(driver, "cuStreamCreate", &make_stream);
    find(driver, "cuStreamBeginCapture_v2", &begin);
    find(driver, "cuStreamEndCapture", &end);
    find(driver, "cuGraphDestroy", &destroy);
    find(host->plugin, "plugin_capture", &allocate);
    if (init(0) != TN_CUDA_SUCCESS || retain(&context, 0) != TN_CUDA_SUCCESS ||
        set_current(context) != TN_CUDA_SUCCESS || make_stream(&stream, 1) != TN_CUDA_SUCCESS ||
        begin(stream, TN_CU_CAPTURE_MODE_RELAXED) != TN_CUDA_SUCCESS || allocate(stream) != 0 ||
        end(stream, &graph) != TN_CUDA_SUCCESS)
        fail("a capture");
    close_plugin(host);
    return destroy(graph) == TN_CUDA_SUCCESS ? 0 : 1;
}

int main(int count, char **arguments)
{
    struct host host = {.plugin = NULL};

    if (count != 3) {
        (void)fprintf(stderr, "usage: plugin_host PLUGIN thread|graph\n");
        return 2;
    }
    host.plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (host.plugin == NULL)
        fail("the plugin");
    return strcmp(arguments[2], "graph") == 0 ? destroy_graph(&host) : end_thread(&host);
}
