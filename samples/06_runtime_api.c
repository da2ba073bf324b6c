// SPDX-License-Identifier: Apache-2.0
/* 06_runtime_api.c -- a program of the CUDA runtime API: cudaStreamBeginCapture, and Tarn's pair
 * around it.
 *
 * A cudaStream_t is a tarn_stream and a cudaGraph_t a tarn_driver_graph, so handles of the runtime
 * pass without a cast, and Tarn needs no initialisation beside cudaSetDevice. The sections work as
 * those of many programs do: a scratch block is allocated and freed inside, a second stream is
 * forked and joined with events.
 *
 * It is built where a CUDA toolkit of 13.0 or newer is found, and needs a GPU: the runtime does not
 * run on the simulated driver. Without a GPU it says so and exits with 77. */
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tarn/tarn.h"

#define CHECK(call) check_status((call), #call, __LINE__)
#define CUDA(call) check_error((call), #call, __LINE__)

enum { COUNT = 1 << 20, BYTES = COUNT * sizeof(float), THREADS = 256, NO_GPU = 77 };

static void check_status(tarn_status status, const char *call, int line)
{
    if (status == TARN_OK)
        return;
    fprintf(stderr, "line %d: %s: %s: %s\n", line, call, tarn_status_name(status),
            tarn_last_error());
    exit(EXIT_FAILURE);
}

static void check_error(cudaError_t error, const char *call, int line)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "line %d: %s: %s\n", line, call, cudaGetErrorString(error));
    exit(EXIT_FAILURE);
}

/* out[i] = a * x[i] + y[i]. The sample brings its kernel as PTX, so that it needs no CUDA compiler;
 * yours may come from nvcc as always. */
static const char axpy_ptx[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .entry axpy(.param .u64 out, .param .f32 a, .param .u64 x, .param .u64 y)\n"
    "{\n"
    "    .reg .b32 %i, %t, %b; .reg .f32 %f<4>; .reg .b64 %o, %p, %q, %s;\n"
    "    ld.param.u64 %o, [out]; ld.param.f32 %f1, [a];\n"
    "    ld.param.u64 %p, [x]; ld.param.u64 %q, [y];\n"
    "    mov.u32 %b, %ctaid.x; mov.u32 %t, %ntid.x; mov.u32 %i, %tid.x;\n"
    "    mad.lo.u32 %i, %b, %t, %i; mul.wide.u32 %s, %i, 4;\n"
    "    add.u64 %o, %o, %s; add.u64 %p, %p, %s; add.u64 %q, %q, %s;\n"
    "    ld.global.f32 %f2, [%p]; ld.global.f32 %f3, [%q];\n"
    "    fma.rn.f32 %f2, %f1, %f2, %f3; st.global.f32 [%o], %f2;\n"
    "    ret;\n"
    "}\n";

static cudaKernel_t axpy_kernel;

static void axpy(cudaStream_t stream, float *out, float a, const float *x, const float *y)
{
    void *arguments[] = {&out, &a, &x, &y};

    CUDA(cudaLaunchKernel((const void *)axpy_kernel, (dim3){COUNT / THREADS, 1, 1},
                          (dim3){THREADS, 1, 1}, arguments, 0, stream));
}

/* The runtime's way to fork and to join. */
static void order(cudaStream_t first, cudaStream_t then)
{
    cudaEvent_t event;

    CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CUDA(cudaEventRecord(event, first));
    CUDA(cudaStreamWaitEvent(then, event, 0));
    CUDA(cudaEventDestroy(event));
}

/* state = 3 * state + 2 * (state + input): the halves on two streams. */
static void step(tarn_device *device, cudaStream_t stream, cudaStream_t side, float *state,
                 const float *input, const float *zero)
{
    void *tripled;
    void *doubled;

    CHECK(tarn_malloc(device, BYTES, stream, &tripled));
    axpy(stream, tripled, 3.0F, state, zero);

    order(stream, side);
    CHECK(tarn_malloc(device, BYTES, side, &doubled)); /* the fork is routed too */
    axpy(side, doubled, 1.0F, state, input);
    order(side, stream);

    axpy(stream, state, 2.0F, doubled, tripled);
    CHECK(tarn_free_on(doubled, stream)); /* last used on another stream than its own */
    CHECK(tarn_free(tripled));
}

static cudaGraph_t capture_step(tarn_device *device, tarn_pool *pool, cudaStream_t stream,
                                cudaStream_t side, float *state, const float *input,
                                const float *zero)
{
    tarn_route *route;
    cudaGraph_t graph;

    /* The route first: nothing of the section slips past it. */
    CHECK(tarn_begin_allocate_to_pool(device, pool, tarn_filter_capture, stream, &route));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    step(device, stream, side, state, input, zero);
    CUDA(cudaStreamEndCapture(stream, &graph));
    CHECK(tarn_end_allocate_to_pool(route));
    return graph;
}

static float read_last(cudaStream_t stream, const float *block)
{
    float value;

    CUDA(cudaMemcpyAsync(&value, block + COUNT - 1, sizeof value, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
    return value;
}

/* An allocation of the rest of the program, with bytes of its own. */
static void *disturb(tarn_device *device, cudaStream_t stream)
{
    void *other;

    CHECK(tarn_malloc(device, BYTES, stream, &other));
    CUDA(cudaMemsetAsync(other, 0xff, BYTES, stream));
    return other;
}

int main(void)
{
    int device_count = 0;
    if (cudaGetDeviceCount(&device_count) != cudaSuccess || device_count == 0) {
        puts("no GPU: the CUDA runtime API needs one");
        return NO_GPU;
    }
    CUDA(cudaSetDevice(0));
    cudaLibrary_t library;
    CUDA(cudaLibraryLoadData(&library, axpy_ptx, NULL, NULL, 0, NULL, NULL, 0));
    CUDA(cudaLibraryGetKernel(&axpy_kernel, library, "axpy"));
    cudaStream_t stream;
    cudaStream_t side;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));

    tarn_device *device;
    tarn_pool *pool;
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    options.name = "runtime sample";
    CHECK(tarn_device_open(0, NULL, &device));
    CHECK(tarn_pool_create(device, &options, &pool));
    void *state;
    void *input;
    void *zero;
    CHECK(tarn_pool_malloc(pool, BYTES, 0, stream, &state));
    CHECK(tarn_pool_malloc(pool, BYTES, 0, stream, &input));
    CHECK(tarn_pool_malloc(pool, BYTES, 0, stream, &zero));
    CUDA(cudaMemsetAsync(zero, 0, BYTES, stream));
    CUDA(cudaMemsetAsync(state, 0, BYTES, stream));

    /* Instead of cudaGraphInstantiate, tarn_graph_adopt: it instantiates, and the graph keeps the
     * memory of its scratch blocks although they have been freed. */
    tarn_graph *graph;
    CHECK(tarn_graph_adopt(pool, capture_step(device, pool, stream, side, state, input, zero),
                           &graph));

    static float host[COUNT];
    float expected = 0.0F;
    for (int round = 1; round <= 4; round++) {
        for (int i = 0; i < COUNT; i++)
            host[i] = (float)round;
        CUDA(cudaMemcpyAsync(input, host, BYTES, cudaMemcpyHostToDevice, stream));
        void *other = disturb(device, stream); /* never in memory of the graph */
        CHECK(tarn_graph_replay(graph, stream));
        expected = 3.0F * expected + 2.0F * (expected + (float)round);
        float got = read_last(stream, state);
        printf("replay %d: state %.0f\n", round, (double)got);
        if (got != expected) {
            fprintf(stderr, "expected %.0f\n", (double)expected);
            return EXIT_FAILURE;
        }
        CHECK(tarn_free(other));
    }

    CHECK(tarn_graph_destroy(graph));
    CHECK(tarn_free(state));
    CHECK(tarn_free(input));
    CHECK(tarn_free(zero));
    CHECK(tarn_pool_destroy(pool));
    CHECK(tarn_device_close(device));
    CUDA(cudaStreamDestroy(side));
    CUDA(cudaStreamDestroy(stream));
    CUDA(cudaLibraryUnload(library));
    return EXIT_SUCCESS;
}
