// SPDX-License-Identifier: Apache-2.0
/* The table of operations. A frame's first byte is the number of an operation here; random runs choose
 * it by weight. New operations go to the end, so that stored inputs keep their meaning. */
#include "model/state.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    unsigned weight;
    operation *run;
    const char *name;
} operations[] = {
#define OPERATION(weight, name)                                                                    \
    {                                                                                              \
        weight, do_##name, #name                                                                   \
    }
    OPERATION(40, alloc),
    OPERATION(30, free),
    OPERATION(10, free_on),
    OPERATION(10, record),
    OPERATION(14, touch),
    OPERATION(4, look),
    OPERATION(4, misuse_address),
    OPERATION(12, drain),
    OPERATION(2, new_stream),
    OPERATION(2, end_stream),
    OPERATION(4, new_pool),
    OPERATION(2, end_pool),
    OPERATION(1, release_pool),
    OPERATION(4, trim),
    OPERATION(3, reserve),
    OPERATION(2, layout),
    OPERATION(3, check_live),
    OPERATION(3, route),
    OPERATION(4, end_route),
    OPERATION(16, begin),
    OPERATION(6, fork),
    OPERATION(24, captured_alloc),
    OPERATION(14, captured_free),
    OPERATION(6, captured_touch),
    OPERATION(5, captured_last_use),
    OPERATION(8, end_capture),
    OPERATION(2, abort),
    OPERATION(1, break),
    OPERATION(1, wrong_end),
    OPERATION(1, unrouted),
    OPERATION(14, replay),
    OPERATION(3, destroy_graph),
    OPERATION(1, raw_exec),
    OPERATION(1, clone),
    OPERATION(4, take),
    OPERATION(5, restore),
    OPERATION(3, destroy_checkpoint),
    OPERATION(1, verify),
    OPERATION(4, update),
    OPERATION(1, pressure),
    OPERATION(3, retire),
    OPERATION(2, trim_to),
    OPERATION(2, device_trim),
    OPERATION(2, collect),
    OPERATION(1, limit),
    OPERATION(1, pool_limit),
    OPERATION(1, cache_limit),
    OPERATION(26, begin_body),
    OPERATION(10, use_in_body),
    OPERATION(1, misuse_body),
    OPERATION(2, adopt),
    OPERATION(1, nest),
    OPERATION(1, add_peer),
    OPERATION(1, look_at_memory),
    OPERATION(1, fraction),
    OPERATION(8, section),
    OPERATION(2, account),
    OPERATION(3, calloc),
#undef OPERATION
};

enum { OPERATIONS = sizeof operations / sizeof operations[0] };

void model_random_frame(uint64_t *random, uint8_t frame[MODEL_FRAME_BYTES])
{
    size_t total = 0;
    size_t at;

    for (size_t i = 0; i < MODEL_FRAME_BYTES; i++)
        frame[i] = (uint8_t)(model_next(random) >> 24);
    for (size_t i = 0; i < OPERATIONS; i++)
        total += operations[i].weight;
    at = (size_t)(model_next(random) % total);
    for (size_t i = 0; i < OPERATIONS; i++) {
        if (at < operations[i].weight) {
            frame[0] = (uint8_t)i;
            return;
        }
        at -= operations[i].weight;
    }
}

/* Plans a fault for the next call, of those that take something from the driver: a refusal to take it
 * back poisons the device for good. */
static void plan_fault(struct model *m)
{
    static const char *const functions[] = {
        "cuMemCreate",
        "cuMemMap",
        "cuMemSetAccess",
        "cuMemAddressReserve",
        "cuEventCreate",
        "cuEventRecord",
        "cuGraphInstantiateWithFlags",
        "cuUserObjectCreate",
        "cuGraphRetainUserObject",
        "cuStreamBeginCapture",
        "cuStreamBeginCaptureToGraph",
    };
    static const int results[] = {TN_CUDA_ERROR_OUT_OF_MEMORY, TN_CUDA_ERROR_UNKNOWN};

    if (!m->config.faults || !chance(m, 12))
        return;
    m->fault_planned = true;
    m->fault_function = functions[below(m, sizeof functions / sizeof functions[0])];
    m->fault_nth = 1 + below(m, 3);
    m->fault_result = results[below(m, 2)];
}

static void look_at_pools(struct model *m)
{
    bool is_due = m->step % 64 == 0;

    for (int p = 0; p < POOLS; p++) {
        const struct pool *pool = &m->pools[p];

        if (pool->handle == NULL || pool->is_released || pool->is_shared)
            continue;
        if (is_due || !m->config.large)
            WELL(m, tarn_pool_validate(pool->handle));
    }
}

void model_step(struct model *m, const uint8_t frame[MODEL_FRAME_BYTES])
{
    size_t number = frame[0] % OPERATIONS;

    memcpy(m->frame, frame, MODEL_FRAME_BYTES);
    m->frame_at = 1;
    memcpy(&m->frame_random, frame + MODEL_FRAME_BYTES - sizeof m->frame_random,
           sizeof m->frame_random);
    m->step += 1;
    touch_relax(true);
    trace("%llu %s", (unsigned long long)m->step, operations[number].name);
    plan_fault(m);
    note_waits();
    operations[number].run(m);
    m->fault_planned = false;
    sweep_pools(m);
    look_at_pools(m);
    expect_statistics(m);
    touch_relax(false);
}

static void random_head(uint64_t *random, uint8_t head[MODEL_HEAD_BYTES])
{
    for (size_t i = 0; i < MODEL_HEAD_BYTES; i++)
        head[i] = (uint8_t)(model_next(random) >> 24);
}

void model_run_random(uint64_t seed, uint64_t steps)
{
    uint8_t head[MODEL_HEAD_BYTES];
    uint8_t frame[MODEL_FRAME_BYTES];
    uint64_t random = seed;
    struct model_config config;
    struct model *m;

    random_head(&random, head);
    config = model_config(head);
    m = model_create(&config);
    for (uint64_t i = 0; i < steps; i++) {
        model_random_frame(&random, frame);
        model_step(m, frame);
    }
    model_destroy(m);
}

uint8_t *model_random_bytes(uint64_t seed, uint64_t steps, size_t *size)
{
    uint64_t random = seed;
    uint8_t *bytes;

    *size = MODEL_HEAD_BYTES + (size_t)steps * MODEL_FRAME_BYTES;
    bytes = malloc(*size);
    ck_assert_ptr_nonnull(bytes);
    random_head(&random, bytes);
    for (uint64_t i = 0; i < steps; i++)
        model_random_frame(&random, bytes + MODEL_HEAD_BYTES + (size_t)i * MODEL_FRAME_BYTES);
    return bytes;
}

void model_run_bytes(const uint8_t *bytes, size_t size)
{
    uint8_t head[MODEL_HEAD_BYTES] = {0};
    struct model_config config;
    struct model *m;

    memcpy(head, bytes, size < MODEL_HEAD_BYTES ? size : MODEL_HEAD_BYTES);
    config = model_config(head);
    m = model_create(&config);
    for (size_t at = MODEL_HEAD_BYTES; at < size; at += MODEL_FRAME_BYTES) {
        uint8_t frame[MODEL_FRAME_BYTES] = {0};
        size_t left = size - at;

        memcpy(frame, bytes + at, left < MODEL_FRAME_BYTES ? left : MODEL_FRAME_BYTES);
        model_step(m, frame);
    }
    model_destroy(m);
}
