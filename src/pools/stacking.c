// SPDX-License-Identifier: Apache-2.0
/* Each thread counts its own bytes down to the next allocation that is taken. The count goes on where
 * a thread allocates on several devices with the same settings. */
#include "pools/stacking.h"

#include "base/checked.h"
#include "base/contract.h"
#include "base/fork.h"
#include "base/sample.h"
#include "base/thread.h"
#include "base/user_code.h"

enum {
    FRAMES = 32,                /* of a stack, at most */
    MODULE_BYTES = 1 << 18,     /* some thousand modules */
    MODULE_BYTES_MIN = 1 << 16, /* where no stacks are wanted yet */
    STACK_BYTES_MIN = 1 << 20,  /* eight thousand stacks */
    TITLE_BYTES_MIN = 1 << 16,  /* some hundred labels, where no stacks are wanted */
    FRAMES_BEFORE = 8,          /* of the library's own, up to the public function */
};

atomic_uint tn_stacking_count;

/* Without stacks a thread never counts so far. */
_Thread_local struct tn_stacking_own tn_stacking_own
    __attribute__((tls_model("initial-exec"))) = {.sample = {.left = INT64_MAX}};

/* Of a thread with a label: its sample, meanwhile. */
static _Thread_local struct tn_label *own_label __attribute__((tls_model("initial-exec")));
static _Thread_local struct tn_sample kept_sample __attribute__((tls_model("initial-exec")));

struct tn_label *tn_stacking_label(void)
{
    return own_label;
}

void tn_stacking_set_label(struct tn_label *label)
{
    TN_ASSERT(own_label == NULL || atomic_load(&tn_stacking_count) > 0);
    if (label != NULL && own_label == NULL) {
        kept_sample = tn_stacking_own.sample;
        tn_stacking_own.sample.left = 0;
        atomic_fetch_add(&tn_stacking_count, 1);
    } else if (label == NULL && own_label != NULL) {
        tn_stacking_own.sample = kept_sample;
        atomic_fetch_sub(&tn_stacking_count, 1);
    }
    own_label = label;
}

void tn_stacking_plan(struct tn_ring_plan *plan, enum tn_stack_level level, uint64_t sample_bytes)
{
    TN_ASSERT(sample_bytes > 0);
    if (level == TN_STACK_NONE) {
        plan->area_bytes[TN_STACKING_STACKS] =
            tn_max(TITLE_BYTES_MIN, tn_ring_plan_pages(plan) / 16 * TN_RING_PAGE_BYTES);
        plan->area_bytes[TN_STACKING_MODULES] = MODULE_BYTES_MIN;
        return;
    }
    plan->area_bytes[TN_STACKING_STACKS] =
        tn_max(STACK_BYTES_MIN, plan->page_count / 4 * TN_RING_PAGE_BYTES);
    plan->area_bytes[TN_STACKING_MODULES] = MODULE_BYTES;
    plan->notes[TN_STACKING_STACKS] = sample_bytes;
}

bool tn_stacking_init(struct tn_stacking *stacking, const struct tn_ring_file *file,
                      enum tn_stack_level level, uint64_t sample_bytes)
{
    const uint64_t *bytes = file->head->area_bytes;

    static atomic_uint_fast64_t serials;

    *stacking = (struct tn_stacking){.wanted_bytes = sample_bytes,
                                     .told_bytes = &file->head->notes[TN_STACKING_STACKS]};
    if (!tn_stacks_init(&stacking->stacks, tn_ring_file_area(file, TN_STACKING_STACKS),
                        (size_t)bytes[TN_STACKING_STACKS]))
        return false;
    if (!tn_modules_init(&stacking->modules, tn_ring_file_area(file, TN_STACKING_MODULES),
                         (size_t)bytes[TN_STACKING_MODULES])) {
        tn_stacks_drop(&stacking->stacks);
        return false;
    }
    stacking->serial = atomic_fetch_add(&serials, 1) + 1;
    tn_stacking_set_level(stacking, level);
    return true;
}

void tn_stacking_set_level(struct tn_stacking *stacking, enum tn_stack_level level)
{
    enum tn_stack_level before;

    TN_ASSERT(stacking->serial != 0 && level <= TN_STACK_UNWIND);
    tn_spin_acquire(&stacking->lock);
    before = (enum tn_stack_level)atomic_exchange(&stacking->level, level);
    atomic_store(&stacking->sample_bytes, level != TN_STACK_NONE ? stacking->wanted_bytes : 0);
    if (before == TN_STACK_NONE && level != TN_STACK_NONE) {
        *stacking->told_bytes = stacking->wanted_bytes;
        atomic_fetch_add(&tn_stacking_count, 1);
    } else if (before != TN_STACK_NONE && level == TN_STACK_NONE) {
        TN_ASSERT(atomic_load(&tn_stacking_count) > 0);
        atomic_fetch_sub(&tn_stacking_count, 1);
    }
    tn_spin_release(&stacking->lock);
}

void tn_stacking_fini(struct tn_stacking *stacking)
{
    TN_ASSERT(stacking->serial != 0);
    tn_stacking_set_level(stacking, TN_STACK_NONE);
    tn_interpreter_drop(&stacking->interpreter);
    tn_modules_drop(&stacking->modules);
    tn_stacks_drop(&stacking->stacks);
    *stacking = (struct tn_stacking){.serial = 0};
}

/* Whether the thread's next allocation is one of those that are taken. */
static bool is_taken(const struct tn_stacking *stacking, uint64_t bytes)
{
    struct tn_sample *sample = own_label == NULL ? &tn_stacking_own.sample : &kept_sample;
    const uint64_t mean = atomic_load_explicit(&stacking->sample_bytes, memory_order_relaxed);

    if (mean == 0 && own_label == NULL)
        *sample = (struct tn_sample){.left = INT64_MAX}; /* as without stacks */
    if (mean <= 1)
        return mean == 1;
    if (sample->mean_bytes != mean)
        tn_sample_init(sample, mean, tn_thread_id());
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

/* The label's id in this history; kept until the label is used in another history. */
static uint32_t id_of(struct tn_stacking *stacking, struct tn_label *label)
{
    TN_ASSERT(tn_label_has_text(label));
    if (label->stacking != stacking->serial) {
        label->id = tn_title_enter(&stacking->stacks, &label->title);
        label->stacking = stacking->serial;
    }
    return label->id;
}

static void add_interpreter(struct tn_stacking *stacking, struct tn_stack *stack)
{
    const uint32_t title = tn_interpreter_title(&stacking->interpreter, &stacking->stacks);

    TN_ASSERT(stack->count < FRAMES);
    if (title == 0)
        return;
    stack->frames[stack->count] = tn_stack_title(TN_STACK_INTERPRETER, title);
    stack->count += 1;
}

TN_APART uint32_t tn_stacking_take(struct tn_stacking *stacking, uint64_t bytes,
                                   struct tn_label *label, const void *caller, const void *frame)
{
    struct tn_stack_settings settings = {.level = TN_STACK_NONE, .most = FRAMES};
    struct tn_stack stack;
    bool is_new;
    uint32_t id;

    if (tn_is_forked() || tn_user_code_is_filter())
        return 0;    /* the call will be refused */
    stack.count = 0; /* the frames are not set: there are many */
    if (label != NULL && stacking->serial != 0 && tn_label_has_text(label)) {
        stack.frames[0] = tn_stack_title(TN_STACK_LABEL, id_of(stacking, label));
        stack.count = 1;
    }
    if (is_taken(stacking, bytes))
        settings.level = tn_stacking_level(stacking);
    if (settings.level != TN_STACK_NONE)
        add_interpreter(stacking, &stack);
    if (tn_is_forked()) /* by the interpreter's function */
        return 0;
    tn_stacking_own.caller = caller; /* now: that function may have called, too */
    if (settings.level == TN_STACK_FRAMES)
        frame = find_frame(frame, caller);
    if (settings.level != TN_STACK_NONE)
        tn_stack_take(&stack, &settings, caller, frame);
    else if (stack.count == 0)
        return 0;
    id = tn_stacks_enter(&stacking->stacks, &stack, &is_new);
    if (is_new && settings.level != TN_STACK_NONE)
        tn_modules_refresh(&stacking->modules);
    TN_ASSERT(id != 0);
    /* A label alone without room would look like a stack without room, which was chosen. */
    if (id == TN_STACKS_FULL && settings.level == TN_STACK_NONE &&
        tn_stacking_level(stacking) != TN_STACK_NONE)
        return 0;
    return id;
}

uint32_t tn_stacking_begin_call(const void *caller)
{
    const uint32_t outer = tn_history_stack;

    if (atomic_load_explicit(&tn_stacking_count, memory_order_relaxed) > 0) {
        tn_history_stack = 0;
        tn_stacking_own.caller = caller;
    }
    return outer;
}

uint32_t tn_stacking_of_growth(struct tn_stacking *stacking)
{
    struct tn_stack_settings settings = {.level = tn_stacking_level(stacking), .most = FRAMES};
    struct tn_stack stack;
    bool is_new;
    uint32_t id;

    if (settings.level == TN_STACK_NONE)
        return 0;
    if (tn_history_stack > TN_STACKS_OWN || tn_stacking_own.caller == NULL)
        return tn_history_stack;
    if (settings.level == TN_STACK_FRAMES)
        settings.level = TN_STACK_UNWIND;
    stack.count = 0;
    tn_stack_take(&stack, &settings, tn_stacking_own.caller, NULL);
    id = tn_stacks_enter(&stacking->stacks, &stack, &is_new);
    if (is_new)
        atomic_store(&stacking->has_new, true);
    TN_ASSERT(id != 0);
    return id;
}
