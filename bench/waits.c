// SPDX-License-Identifier: Apache-2.0
/* A look that has begun before what is measured counts, and so does one that ends behind it: a call
 * that is stopped for the whole time is one look. */
#include "waits.h"

#include <sched.h>
#include <stdlib.h>

#include "base.h"
#include "quiet.h"

enum { SET_BYTES = 4096, LOOKS_BEFORE = 200 };

static void *look(void *context)
{
    struct bench_waits *waits = context;

    bench_driver_enter_thread();
    while (!atomic_load(&waits->over)) {
        uint64_t begin = bench_now();
        uint64_t took;

        BENCH_CU(cu.cuMemsetD8Async(waits->memory, 1, SET_BYTES, waits->stream));
        BENCH_CU(cu.cuStreamSynchronize(waits->stream));
        took = bench_now() - begin;
        if (atomic_load(&waits->counts) && waits->count < BENCH_WAITS_MAX)
            waits->ns[waits->count++] = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
        (void)atomic_fetch_add(&waits->looks, 1);
    }
    return NULL;
}

void bench_waits_open(struct bench_waits *waits)
{
    *waits = (struct bench_waits){.stream = bench_stream_create()};
    waits->ns = calloc(BENCH_WAITS_MAX, sizeof *waits->ns);
    if (waits->ns == NULL)
        bench_fail("no host memory");
    BENCH_CU(cu.cuMemAlloc(&waits->memory, SET_BYTES));
    bench_thread_start(&waits->thread, look, waits);
    while (atomic_load(&waits->looks) < LOOKS_BEFORE)
        (void)sched_yield();
}

void bench_waits_begin(struct bench_waits *waits)
{
    atomic_store(&waits->counts, true);
}

static int by_length(const void *a, const void *b)
{
    const uint32_t first = *(const uint32_t *)a;
    const uint32_t second = *(const uint32_t *)b;

    return (first > second) - (first < second);
}

void bench_waits_end(struct bench_waits *waits, double *most_of_999, double *longest)
{
    atomic_store(&waits->over, true);
    (void)pthread_join(waits->thread, NULL);
    *most_of_999 = 0;
    *longest = 0;
    if (waits->count > 0) {
        qsort(waits->ns, waits->count, sizeof *waits->ns, by_length);
        *most_of_999 = waits->ns[(waits->count - 1) * 999 / 1000] * 1e-3;
        *longest = waits->ns[waits->count - 1] * 1e-3;
    }
    free(waits->ns);
    BENCH_CU(cu.cuMemFree(waits->memory));
    bench_stream_destroy(waits->stream);
}
