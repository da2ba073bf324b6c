// SPDX-License-Identifier: Apache-2.0
/* memory.c -- a stress thread's memory: mapping it, changing it in order, and checking it. */
#include <string.h>

#include "stress/stress.h"

atomic_uint_fast64_t stress_callbacks_due;
atomic_uint_fast64_t stress_callbacks_run;

/* SplitMix64, by S. Vigna. */
uint64_t stress_random(struct thread *t)
{
    uint64_t z = t->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

int stress_below(struct thread *t, int limit)
{
    return (int)(stress_random(t) % (uint64_t)limit);
}

/* -- Modes: a thread that captures makes unsafe calls in relaxed mode -- */

void stress_enter_unsafe(struct thread *t)
{
    tn_cu_capture_mode mode = TN_CU_CAPTURE_MODE_RELAXED;
    if (!t->capturing)
        return;
    DO(cu.cuThreadExchangeStreamCaptureMode(&mode));
    ck_assert_int_eq((int)mode, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
}

void stress_leave_unsafe(struct thread *t)
{
    tn_cu_capture_mode mode = TN_CU_CAPTURE_MODE_THREAD_LOCAL;
    if (t->capturing)
        DO(cu.cuThreadExchangeStreamCaptureMode(&mode));
}

/* -- Memory -- */

tn_cu_deviceptr stress_slot(const struct thread *t, int slot)
{
    return t->base + (size_t)slot * SLOT_BYTES;
}

tn_cu_deviceptr stress_address(const struct thread *t, int slot, int area)
{
    return stress_slot(t, slot) + (size_t)area * AREA_STRIDE;
}

struct area *stress_area(struct thread *t, int slot, int area)
{
    return &t->handles[t->mapped[slot]].areas[area];
}

/* A stream that takes no part in the capture. */
int stress_usable_stream(struct thread *t)
{
    return t->capturing ? 2 + stress_below(t, STREAMS - 2) : stress_below(t, STREAMS);
}

int stress_mapped_slot(struct thread *t)
{
    int slot = stress_below(t, SLOTS);
    return t->mapped[slot] >= 0 ? slot : stress_below(t, FIXED_SLOTS);
}

/* Lets a stream touch an area after those that did so before. */
void stress_order(struct thread *t, struct area *area, int stream)
{
    if (area->stream != UNORDERED && area->stream != stream) {
        DO(cu.cuEventRecord(t->event, t->streams[area->stream]));
        DO(cu.cuStreamWaitEvent(t->streams[stream], t->event, 0));
    }
    area->stream = stream;
}

/* Waits for a stream; nothing is unfinished in it then. */
void stress_settle(struct thread *t, int stream)
{
    DO_UNSAFE(cu.cuStreamSynchronize(t->streams[stream]));
    for (int i = 0; i < HANDLES; i++) {
        for (int area = 0; area < AREAS; area++) {
            if (t->handles[i].areas[area].stream == stream)
                t->handles[i].areas[area].stream = UNORDERED;
        }
    }
}

/* Waits for what is unfinished on a handle's memory. */
static void settle_handle(struct thread *t, const struct physical *physical)
{
    for (int area = 0; area < AREAS; area++) {
        if (physical->areas[area].stream != UNORDERED)
            stress_settle(t, physical->areas[area].stream);
    }
}

void stress_make_handle(struct thread *t, struct physical *physical)
{
    tn_cu_allocation_prop prop = {
        .type = TN_CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    *physical = (struct physical){.slot = -1, .fresh = true, .shared = stress_below(t, 2) == 0};
    if (physical->shared)
        prop.requested_handle_types = TN_CU_MEM_HANDLE_TYPE_POSIX_FD;
    for (int area = 0; area < AREAS; area++)
        physical->areas[area].stream = UNORDERED;
    DO(cu.cuMemCreate(&physical->handle, SLOT_BYTES, &prop, 0));
}

/* Gives the areas of fresh memory a value, which it has none of. */
static void fill_fresh(struct thread *t, int slot)
{
    for (int number = 0; number < AREAS; number++) {
        struct area *area = stress_area(t, slot, number);
        area->stream = stress_usable_stream(t);
        area->value = (uint32_t)stress_random(t);
        DO(cu.cuMemsetD32Async(stress_address(t, slot, number), area->value, AREA_WORDS,
                               t->streams[area->stream]));
    }
}

void stress_lay(struct thread *t, tn_cu_memhandle handle, tn_cu_deviceptr address)
{
    tn_cu_access_desc desc = {
        .location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
        .flags = TN_CU_MEM_ACCESS_READWRITE,
    };
    DO(cu.cuMemMap(address, SLOT_BYTES, 0, handle, 0));
    DO(cu.cuMemSetAccess(address, SLOT_BYTES, &desc, 1));
}

void stress_map(struct thread *t, int handle, int slot)
{
    stress_lay(t, t->handles[handle].handle, stress_slot(t, slot));
    t->handles[handle].slot = slot;
    t->mapped[slot] = handle;
    if (t->handles[handle].fresh)
        fill_fresh(t, slot);
    t->handles[handle].fresh = false;
}

void stress_unmap(struct thread *t, int slot)
{
    struct physical *physical = &t->handles[t->mapped[slot]];
    settle_handle(t, physical);
    DO(cu.cuMemUnmap(stress_slot(t, slot), SLOT_BYTES));
    physical->slot = -1;
    t->mapped[slot] = -1;
}

void stress_apply(struct thread *t, const struct effect *effect)
{
    struct area *area = stress_area(t, effect->slot, effect->area);
    const struct area *from = stress_area(t, effect->slot, effect->from);
    switch (effect->kind) {
    case EFFECT_FILL:
        area->value = effect->value;
        break;
    case EFFECT_ADD:
        area->value += effect->value;
        break;
    case EFFECT_COPY:
        area->value = from->value;
        break;
    case EFFECT_HOST:
        atomic_fetch_add(&stress_callbacks_due, 1);
        break;
    case EFFECT_KINDS:
        break;
    }
}

struct effect stress_choose_effect(struct thread *t, int slot)
{
    struct effect effect = {
        .kind = (enum effect_kind)stress_below(t, EFFECT_KINDS),
        .slot = slot,
        .area = stress_below(t, AREAS),
        .value = (uint32_t)stress_random(t),
    };
    effect.from = (effect.area + 1) % AREAS;
    return effect;
}

/* Makes an effect happen in the order of a stream, or become a node. */
static void called_back(void *user)
{
    (void)user;
    atomic_fetch_add(&stress_callbacks_run, 1);
}

void stress_enqueue(struct thread *t, const struct effect *effect, tn_cu_stream stream)
{
    tn_cu_deviceptr address = stress_address(t, effect->slot, effect->area);
    void *memory = (void *)(uintptr_t)address;
    switch (effect->kind) {
    case EFFECT_FILL:
        if (effect->value % 2 == 0)
            DO(cu.cuMemsetD32Async(address, effect->value, AREA_WORDS, stream));
        else
            test_fill(stream, memory, effect->value, AREA_WORDS);
        break;
    case EFFECT_ADD:
        test_add(stream, memory, effect->value, AREA_WORDS);
        break;
    case EFFECT_COPY:
        DO(cu.cuMemcpyDtoDAsync(address, stress_address(t, effect->slot, effect->from),
                                AREA_WORDS * sizeof(uint32_t), stream));
        break;
    case EFFECT_HOST:
        DO(cu.cuLaunchHostFunc(stream, called_back, NULL));
        break;
    case EFFECT_KINDS:
        break;
    }
}

void stress_verify_at(struct thread *t, tn_cu_deviceptr base, int slot, int number)
{
    struct area *area = stress_area(t, slot, number);
    int stream = stress_usable_stream(t);
    stress_order(t, area, stream);
    memset(t->host, 0xee, AREA_WORDS * sizeof *t->host);
    DO(cu.cuMemcpyDtoHAsync(t->host, base + (size_t)number * AREA_STRIDE,
                            AREA_WORDS * sizeof *t->host, t->streams[stream]));
    stress_settle(t, stream);
    for (int i = 0; i < AREA_WORDS; i++)
        ck_assert_msg(t->host[i] == area->value,
                      "thread %d, slot %d, area %d, word %d: %08x instead of %08x", t->number, slot,
                      number, i, t->host[i], area->value);
}

void stress_verify(struct thread *t, int slot, int number)
{
    stress_verify_at(t, stress_slot(t, slot), slot, number);
}
