// SPDX-License-Identifier: Apache-2.0
/* gate.h -- a stream is held until the test lets it go on: by a function of the host, on any driver. */
#ifndef TARN_TESTS_SUPPORT_GATE_H
#define TARN_TESTS_SUPPORT_GATE_H

#include <stdatomic.h>
#include <time.h>

#include "support/cuda.h"
#include "support/nodes.h"

struct test_gate {
    atomic_bool is_open;
};

static inline void test_gate_await(void *gate)
{
    const struct timespec pause = {.tv_nsec = 50000};
    struct test_gate *closed = gate;

    while (!atomic_load(&closed->is_open))
        (void)nanosleep(&pause, NULL);
}

/* For work that must not be done meanwhile: an error would need less time. */
static inline void test_gate_linger(void)
{
    const struct timespec pause = {.tv_nsec = 20000000};

    (void)nanosleep(&pause, NULL);
}

/* The stream's later work waits. */
static inline void test_gate_close(struct test_gate *gate, tn_cu_stream stream)
{
    atomic_store(&gate->is_open, false);
    test_call_host(stream, test_gate_await, gate);
}

static inline void test_gate_open(struct test_gate *gate)
{
    atomic_store(&gate->is_open, true);
}

#endif
