// SPDX-License-Identifier: Apache-2.0
/* registry.c -- a hash table from handle to object.
 *
 * How it works. Open addressing with linear probes, at most half full; removal closes the gap by
 * moving later entries of the run back, so no tombstones pile up. A handle is kind << 40 with the
 * serial << 4 below: the values look like addresses of aligned objects, and are none.
 *
 * When the simulator is not strict, the newest value that a stream, a graph or physical memory has
 * given up goes to the next object, as measured on the driver: a double release frees somebody
 * else's object, and a captured graph has the handle of the one destroyed before.
 *
 * Trade-offs. The table never shrinks. A value that cannot be remembered, for lack of memory, does
 * not come back. */
#include "sim/core/registry.h"

#include <stdlib.h>

#include "sim/core/report.h"

#define KIND_SHIFT 40
#define SERIAL_SHIFT 4
#define FIRST_CAPACITY 64 /* a power of two, as every later one */

static struct tn_sim_object **slots;
static size_t capacity;
static size_t used;
static uintptr_t next_serial = 1;

/* Values that have been given up, by kind; the newest last. */
static struct {
    uintptr_t *values;
    size_t count;
    size_t capacity;
} given_up[TN_SIM_KIND_COUNT];

static const char *const kind_names[TN_SIM_KIND_COUNT] = {
    [TN_SIM_KIND_CONTEXT] = "context",
    [TN_SIM_KIND_STREAM] = "stream",
    [TN_SIM_KIND_EVENT] = "event",
    [TN_SIM_KIND_MODULE] = "module",
    [TN_SIM_KIND_FUNCTION] = "function",
    [TN_SIM_KIND_LIBRARY] = "library",
    [TN_SIM_KIND_KERNEL] = "kernel",
    [TN_SIM_KIND_GRAPH] = "graph",
    [TN_SIM_KIND_NODE] = "graph node",
    [TN_SIM_KIND_EXEC] = "executable graph",
    [TN_SIM_KIND_USER_OBJECT] = "user object",
    [TN_SIM_KIND_PHYSICAL] = "memory handle",
    [TN_SIM_KIND_CONDITIONAL] = "conditional handle",
    [TN_SIM_KIND_POOL] = "memory pool",
};

static uintptr_t serial_of(uintptr_t handle)
{
    return (handle & (((uintptr_t)1 << KIND_SHIFT) - 1)) >> SERIAL_SHIFT;
}

static bool recycled(enum tn_sim_kind kind)
{
    return !tn_sim_strict() && (kind == TN_SIM_KIND_STREAM || kind == TN_SIM_KIND_GRAPH ||
                                kind == TN_SIM_KIND_PHYSICAL);
}

static void remember(enum tn_sim_kind kind, uintptr_t handle)
{
    if (given_up[kind].count == given_up[kind].capacity) {
        size_t more = given_up[kind].capacity == 0 ? FIRST_CAPACITY : given_up[kind].capacity * 2;
        uintptr_t *values = realloc(given_up[kind].values, more * sizeof *values);
        if (values == NULL)
            return;
        given_up[kind].values = values;
        given_up[kind].capacity = more;
    }
    given_up[kind].values[given_up[kind].count++] = handle;
}

static size_t home(uintptr_t handle)
{
    /* Fibonacci hashing: serials are consecutive, and must not be neighbours of other kinds'. */
    return (size_t)((handle >> SERIAL_SHIFT) * UINT64_C(0x9E3779B97F4A7C15) >> 20) & (capacity - 1);
}

static void place(struct tn_sim_object *object)
{
    size_t slot = home(object->handle);
    while (slots[slot] != NULL)
        slot = (slot + 1) & (capacity - 1);
    slots[slot] = object;
}

static bool grow(void)
{
    size_t old_capacity = capacity;
    struct tn_sim_object **old_slots = slots;
    size_t new_capacity = capacity == 0 ? FIRST_CAPACITY : capacity * 2;
    struct tn_sim_object **new_slots = calloc(new_capacity, sizeof(struct tn_sim_object *));
    if (new_slots == NULL)
        return false;
    slots = new_slots;
    capacity = new_capacity;
    for (size_t i = 0; i < old_capacity; i++) {
        if (old_slots[i] != NULL)
            place(old_slots[i]);
    }
    free(old_slots);
    return true;
}

bool tn_sim_register(struct tn_sim_object *object, enum tn_sim_kind kind,
                     struct tn_sim_context *context)
{
    if ((used + 1) * 2 > capacity && !grow())
        return false;
    object->kind = kind;
    object->context = context;
    if (recycled(kind) && given_up[kind].count > 0)
        object->handle = given_up[kind].values[--given_up[kind].count];
    else /* The serial only rises (SS1). */
        object->handle = ((uintptr_t)kind << KIND_SHIFT) | (next_serial++ << SERIAL_SHIFT);
    place(object);
    used++;
    return true;
}

void tn_sim_unregister(struct tn_sim_object *object)
{
    if (object->handle == 0)
        return;
    size_t gap = home(object->handle);
    while (slots[gap] != object)
        gap = (gap + 1) & (capacity - 1);
    for (size_t slot = (gap + 1) & (capacity - 1); slots[slot] != NULL;
         slot = (slot + 1) & (capacity - 1)) {
        /* An entry may move back into the gap unless its home lies after the gap. */
        size_t distance = (slot - home(slots[slot]->handle)) & (capacity - 1);
        if (distance >= ((slot - gap) & (capacity - 1))) {
            slots[gap] = slots[slot];
            gap = slot;
        }
    }
    slots[gap] = NULL;
    used--;
    if (recycled(object->kind))
        remember(object->kind, object->handle);
    object->handle = 0;
}

void *tn_sim_find(enum tn_sim_kind kind, uintptr_t handle)
{
    if (handle == 0 || handle >> KIND_SHIFT != (uintptr_t)kind || capacity == 0)
        return NULL;
    for (size_t slot = home(handle); slots[slot] != NULL; slot = (slot + 1) & (capacity - 1)) {
        if (slots[slot]->handle == handle)
            return slots[slot];
    }
    /* Contexts leave stale names behind that a program may still have current. */
    if (kind != TN_SIM_KIND_CONTEXT && serial_of(handle) < next_serial && serial_of(handle) > 0)
        tn_sim_report("uses a destroyed %s: 0x%llx", kind_names[kind], (unsigned long long)handle);
    return NULL;
}

void *tn_sim_find_owned(enum tn_sim_kind kind, const struct tn_sim_context *context)
{
    static size_t found; /* where callers that remove one after the other go on */
    for (size_t i = 0; i < capacity; i++) {
        size_t slot = (found + i) & (capacity - 1);
        if (slots[slot] == NULL || slots[slot]->kind != kind || slots[slot]->context != context)
            continue;
        found = slot;
        return slots[slot];
    }
    return NULL;
}

void *tn_sim_find_next(enum tn_sim_kind kind, size_t *at)
{
    while (*at < capacity) {
        struct tn_sim_object *object = slots[(*at)++];
        if (object != NULL && object->kind == kind)
            return object;
    }
    return NULL;
}
