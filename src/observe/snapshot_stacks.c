// SPDX-License-Identifier: Apache-2.0
/* Records of a scroll never change, and all of them are copied. A program has some thousand stacks,
 * in some hundred KiB. */
#include "observe/snapshot_stacks.h"

#include <string.h>

#include "base/contract.h"
#include "base/host.h"

/* How many words of the scroll are written. */
static size_t words_of(const struct tn_scroll *scroll, struct tn_spin *lock)
{
    size_t count;

    if (scroll->words == NULL)
        return 0;
    tn_spin_acquire(lock);
    count = scroll->next < scroll->word_count ? scroll->next : scroll->word_count;
    tn_spin_release(lock);
    return count;
}

static struct tn_scroll copy(const struct tn_scroll *from, size_t count, uint64_t *to)
{
    TN_ASSERT(count <= from->word_count);
    /* The first word counts lost records, and any thread writes there. */
    if (count > TN_SCROLL_FIRST)
        memcpy(to + TN_SCROLL_FIRST, from->words + TN_SCROLL_FIRST,
               (count - TN_SCROLL_FIRST) * sizeof *to);
    return (struct tn_scroll){.words = to, .word_count = count, .next = count};
}

bool tn_snapshot_stacks_copy(struct tn_snapshot_stacks *stacks, tarn_device *device)
{
    struct tn_stacking *stacking = &device->history.stacking;
    size_t stack_words;
    size_t module_words;
    uint64_t *memory;

    TN_ASSERT(tn_lock_none_held());
    if (stacking->serial == 0)
        return true;
    if (tn_stacking_level(stacking) != TN_STACK_NONE)
        tn_modules_refresh(&stacking->modules);
    stack_words = words_of(&stacking->stacks.scroll, &stacking->stacks.lock);
    module_words = words_of(&stacking->modules.scroll, &stacking->modules.lock);
    memory = tn_host_alloc(stack_words + module_words + 1, sizeof *memory);
    if (memory == NULL)
        return false;
    tn_host_free(stacks->memory);
    stacks->memory = memory;
    stacks->stacks = copy(&stacking->stacks.scroll, stack_words, memory);
    stacks->modules = copy(&stacking->modules.scroll, module_words, memory + stack_words);
    return true;
}

void tn_snapshot_stacks_drop(struct tn_snapshot_stacks *stacks)
{
    tn_host_free(stacks->memory);
    *stacks = (struct tn_snapshot_stacks){.memory = NULL};
}

struct tn_scroll_reader tn_snapshot_stacks_reader(const struct tn_snapshot_stacks *stacks)
{
    return (struct tn_scroll_reader){tn_scroll_from_memory, (void *)(uintptr_t)&stacks->stacks,
                                     stacks->stacks.word_count * sizeof(uint64_t)};
}

void tn_snapshot_stack_read(const struct tn_snapshot_stacks *stacks, uint32_t id,
                            struct tn_stack *stack)
{
    const struct tn_scroll_reader reader = tn_snapshot_stacks_reader(stacks);

    if (id == TN_STACKS_NONE || tn_stacks_read(&reader, id, stack) != TN_SCROLL_READ)
        stack->count = 0;
    TN_ASSERT(stack->count <= TN_STACK_FRAMES_MAX);
}
