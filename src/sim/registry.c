// SPDX-License-Identifier: Apache-2.0
/* registry.c -- a hash table from handle to object.
 *
 * How it works. Open addressing with linear probes, at most half full; removal closes the gap by
 * moving later entries of the run back, so no tombstones pile up. A handle is kind << 40 with the
 * serial << 4 below: the values look like addresses of aligned objects, and are none.
 *
 * Trade-offs. The table never shrinks. */
#include "sim/registry.h"

#include <stdlib.h>

#define KIND_SHIFT 40
#define SERIAL_SHIFT 4
#define FIRST_CAPACITY 64 /* a power of two, as every later one */

static struct tn_sim_object **slots;
static size_t capacity;
static size_t used;
static uintptr_t next_serial = 1;

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
    /* The serial only rises (S1). */
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
    return NULL;
}

void *tn_sim_find_owned(enum tn_sim_kind kind, const struct tn_sim_context *context)
{
    for (size_t i = 0; i < capacity; i++) {
        if (slots[i] != NULL && slots[i]->kind == kind && slots[i]->context == context)
            return slots[i];
    }
    return NULL;
}
