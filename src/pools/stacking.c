// SPDX-License-Identifier: Apache-2.0
/* Each thread counts its own bytes down to the next allocation that is taken. The count goes on where
 * a thread allocates on several devices with the same settings. */
#include "pools/stacking.h"

#include "base/checked.h"
#include "base/contract.h"
#include "base/sample.h"
#include "base/thread.h"

enum {
    FRAMES = 32,               /* of a stack, at most */
    MODULE_BYTES = 1 << 18,    /* some thousand modules */
    STACK_BYTES_MIN = 1 << 20, /* eight thousand stacks */
    FRAMES_BEFORE = 8,         /* of the library's own, up to the public function */
};

atomic_uint tn_stacking_count;

_Thread_local struct tn_sample tn_stacking_sample __attribute__((tls_model("initial-exec")));
_Thread_local const void *tn_stacking_caller __attribute__((tls_model("initial-exec")));

void tn_stacking_plan(struct tn_ring_plan *plan, enum tn_stack_level level, uint64_t sample_bytes)
{
    if (level == TN_STACK_NONE)
        return;
    TN_ASSERT(sample_bytes > 0);
    plan->area_bytes[TN_STACKING_STACKS] =
        tn_max(STACK_BYTES_MIN, plan->page_count / 4 * TN_RING_PAGE_BYTES);
    plan->area_bytes[TN_STACKING_MODULES] = MODULE_BYTES;
    plan->notes[TN_STACKING_STACKS] = sample_bytes;
}

bool tn_stacking_init(struct tn_stacking *stacking, const struct tn_ring_file *file,
                      enum tn_stack_level level, uint64_t sample_bytes)
{
    const uint64_t *bytes = file->head->area_bytes;

    *stacking = (struct tn_stacking){.settings = {.level = level, .most = FRAMES},
                                     .sample_bytes = level != TN_STACK_NONE ? sample_bytes : 0};
    if (level == TN_STACK_NONE)
        return true;
    if (!tn_stacks_init(&stacking->stacks, tn_ring_file_area(file, TN_STACKING_STACKS),
                        (size_t)bytes[TN_STACKING_STACKS]))
        return false;
    if (!tn_modules_init(&stacking->modules, tn_ring_file_area(file, TN_STACKING_MODULES),
                         (size_t)bytes[TN_STACKING_MODULES])) {
        tn_stacks_drop(&stacking->stacks);
        return false;
    }
    atomic_fetch_add(&tn_stacking_count, 1);
    return true;
}

void tn_stacking_fini(struct tn_stacking *stacking)
{
    if (stacking->settings.level == TN_STACK_NONE)
        return;
    TN_ASSERT(atomic_load(&tn_stacking_count) > 0);
    atomic_fetch_sub(&tn_stacking_count, 1);
    tn_modules_drop(&stacking->modules);
    tn_stacks_drop(&stacking->stacks);
    stacking->settings.level = TN_STACK_NONE;
}

/* Whether the thread's next allocation is one of those that are taken. */
static bool is_taken(const struct tn_stacking *stacking, uint64_t bytes)
{
    struct tn_sample *sample = &tn_stacking_sample;

    if (stacking->sample_bytes <= 1)
        return stacking->sample_bytes == 1;
    if (sample->mean_bytes != stacking->sample_bytes)
        tn_sample_init(sample, stacking->sample_bytes, tn_thread_id());
    return tn_sample_take(sample, bytes);
}

/* The frame whose function returns to the caller; NULL: none near. */
static const void *find_frame(const void *frame, const void *caller)
{
    for (int i = 0; i < FRAMES_BEFORE; i++) {
        const uintptr_t *words = frame;

        if (!tn_stack_is_own((uintptr_t)words) || !tn_stack_is_own((uintptr_t)(words + 1)))
            return NULL;
        if ((const void *)words[1] == caller)
            return frame;
        if (words[0] <= (uintptr_t)frame || words[0] % sizeof(uintptr_t) != 0)
            return NULL;
        frame = (const void *)words[0];
    }
    return NULL;
}

TN_APART uint32_t tn_stacking_take(struct tn_stacking *stacking, uint64_t bytes, const void *caller,
                                   const void *frame)
{
    struct tn_stack stack;
    bool is_new;
    uint32_t id;

    tn_stacking_caller = caller;
    if (!is_taken(stacking, bytes))
        return 0;
    TN_ASSERT(stacking->settings.level != TN_STACK_NONE);
    if (stacking->settings.level == TN_STACK_FRAMES)
        frame = find_frame(frame, caller);
    tn_stack_take(&stack, &stacking->settings, caller, frame);
    id = tn_stacks_enter(&stacking->stacks, &stack, &is_new);
    if (is_new)
        tn_modules_refresh(&stacking->modules);
    TN_ASSERT(id != 0);
    return id;
}

uint32_t tn_stacking_begin_call(const void *caller)
{
    const uint32_t outer = tn_history_stack;

    if (atomic_load_explicit(&tn_stacking_count, memory_order_relaxed) > 0) {
        tn_history_stack = 0;
        tn_stacking_caller = caller;
    }
    return outer;
}

uint32_t tn_stacking_of_growth(struct tn_stacking *stacking)
{
    struct tn_stack_settings settings = stacking->settings;
    struct tn_stack stack;
    bool is_new;
    uint32_t id;

    if (settings.level == TN_STACK_NONE || tn_history_stack != 0 || tn_stacking_caller == NULL)
        return settings.level == TN_STACK_NONE ? 0 : tn_history_stack;
    if (settings.level == TN_STACK_FRAMES)
        settings.level = TN_STACK_UNWIND;
    tn_stack_take(&stack, &settings, tn_stacking_caller, NULL);
    id = tn_stacks_enter(&stacking->stacks, &stack, &is_new);
    if (is_new)
        atomic_store(&stacking->has_new, true);
    TN_ASSERT(id != 0);
    return id;
}
