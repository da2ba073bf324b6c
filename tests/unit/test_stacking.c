// SPDX-License-Identifier: Apache-2.0
/* The stacks of allocations in a device's history. */
#include "observe/retell.h"
#include "pools/stacking.h"
#include "unit/told.h"

SUITE("stacks of allocations")

static void open_with(tarn_history_stacks stacks, size_t sample_bytes)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = 4 << 20;
    options.history_stacks = stacks;
    options.history_sample_bytes = sample_bytes;
    test_world_open_with(&options);
}

static void open_frames(void)
{
    open_with(TARN_HISTORY_FRAMES, 0);
}

static void open_callers(void)
{
    open_with(TARN_HISTORY_CALLERS, 0);
}

static void open_unwind(void)
{
    open_with(TARN_HISTORY_UNWIND, 0);
}

static void open_sampled(void)
{
    open_with(TARN_HISTORY_FRAMES, 1 << 20);
}

GROUP(frames, open_frames, .end = test_world_close)
GROUP(callers, open_callers, .end = test_world_close)
GROUP(unwound, open_unwind, .end = test_world_close)
GROUP(sampled, open_sampled, .end = test_world_close)

/* Reads an area of the file. */
static bool from_stacks(void *context, size_t offset, void *bytes, size_t count)
{
    memcpy(bytes, (char *)tn_ring_file_area(context, TN_STACKING_STACKS) + offset, count);
    return true;
}

static struct tn_stack stack_of(uint64_t id)
{
    struct tn_ring_file *file = &world.device->history.file;
    struct tn_scroll_reader reader = {from_stacks, file,
                                      (size_t)file->head->area_bytes[TN_STACKING_STACKS]};
    struct tn_stack stack;

    ck_assert_uint_ne(id, 0);
    ck_assert_int_eq(tn_stacks_read(&reader, (uint32_t)id, &stack), TN_SCROLL_READ);
    return stack;
}

static void *kept[4];

/* Each calls the next, and then does more: no call is the last action. */
static __attribute__((noinline)) void allocate_inner(int which)
{
    switch (which) {
    case 0:
        OK(tarn_malloc(world.device, 1000, world.stream, &kept[0]));
        break;
    case 1:
        OK(tarn_pool_malloc(world.pool, 1000, 0, world.stream, &kept[1]));
        break;
    case 2:
        OK(tarn_malloc_aligned(world.device, 1000, 4096, world.stream, &kept[2]));
        break;
    default:
        OK(tarn_calloc(world.device, 10, 100, world.stream, &kept[3]));
    }
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void allocate_outer(int which)
{
    allocate_inner(which);
    __asm__ volatile("" ::: "memory");
}

/* Whether the frame is in the function, which is not large. */
static bool is_in(uint64_t frame, void (*function)(int))
{
    return frame - (uint64_t)(uintptr_t)function < 2000;
}

static void check_stacks(size_t frames_min)
{
    struct tn_told told;

    for (int which = 0; which < 4; which++)
        allocate_outer(which);
    told = unit_retell(NULL);
    ck_assert_uint_eq(told.count, 4);
    for (size_t i = 0; i < 4; i++) {
        struct tn_stack stack = stack_of(told.blocks[i].stack);

        ck_assert_uint_ge(stack.count, frames_min);
        ck_assert(is_in(stack.frames[0], allocate_inner));
        if (frames_min > 1)
            ck_assert(is_in(stack.frames[1], allocate_outer));
        OK(tarn_free(kept[i]));
    }
    tn_told_free(&told);
}

#if defined(__x86_64__) || defined(__aarch64__)
TEST(frames, each_allocation_has_the_stack_of_its_caller)
{
    check_stacks(3);
}
#endif

TEST(callers, each_allocation_has_its_caller)
{
    check_stacks(1);
}

TEST(unwound, each_allocation_has_the_stack_that_tables_tell)
{
    check_stacks(3);
}

TEST(frames, blocks_from_one_place_have_one_stack)
{
    struct tn_told told;
    void *blocks[10];

    for (size_t i = 0; i < 10; i++)
        OK(tarn_malloc(world.device, 1000 * (i + 1), world.stream, &blocks[i]));
    told = unit_retell(NULL);
    for (size_t i = 1; i < 10; i++)
        ck_assert_uint_eq(told.blocks[i].stack, told.blocks[0].stack);
    for (size_t i = 0; i < 10; i++)
        OK(tarn_free(blocks[i]));
    tn_told_free(&told);
}

/* The same block again, from another place: it has the other place's stack. */
TEST(frames, a_block_that_is_allocated_again_has_its_own_stack)
{
    struct tn_told first;
    struct tn_told second;
    void *block;

    OK(tarn_malloc(world.device, 1000, world.stream, &block));
    first = unit_retell(NULL);
    OK(tarn_free(block));
    OK(tarn_malloc(world.device, 1000, world.stream, &block));
    second = unit_retell(NULL);
    ck_assert_uint_eq(first.count + second.count, 2);
    ck_assert_uint_ne(first.blocks[0].stack, second.blocks[0].stack);
    ck_assert(stack_of(second.blocks[0].stack).count > 0);
    OK(tarn_free(block));
    tn_told_free(&first);
    tn_told_free(&second);
}

/* As a callback of an allocation: the outer one's stack waits. */
TEST(sampled, an_allocation_within_another_has_not_its_stack)
{
    struct tn_stacking_call call;
    struct tn_told told;
    void *block;

    OK(tarn_malloc(world.device, 512, world.stream, &block)); /* the thread's sample has begun */
    OK(tarn_free(block));
    tn_stacking_own.sample.left = 1 << 20; /* the next 512 bytes are not chosen */
    tn_history_stack = 12345;
    call = tn_stacking_leave_call();
    OK(tarn_malloc(world.device, 512, world.stream, &block));
    tn_stacking_resume_call(call);
    ck_assert_uint_eq(tn_history_stack, 12345);
    tn_history_stack = 0;
    told = unit_retell(NULL);
    ck_assert_uint_eq(told.count, 1);
    ck_assert_uint_eq(told.blocks[0].stack, 0);
    OK(tarn_free(block));
    tn_told_free(&told);
}

TEST(frames, the_log_has_the_stacks_of_blocks_that_are_gone)
{
    struct tn_told told;
    uint64_t stack = 0;
    void *block;

    OK(tarn_malloc(world.device, 1000, world.stream, &block));
    OK(tarn_free(block));
    told = unit_retell(NULL);
    for (size_t i = 0; i < told.event_count; i++)
        stack = told.events[i].kind == TN_HISTORY_ALLOC ? told.events[i].block.stack : stack;
    ck_assert(stack_of(stack).count > 0);
    tn_told_free(&told);
}

/* A program did not ask for it, and its stack is none of the program's. */
TEST(frames, contents_of_checkpoints_are_the_librarys_own)
{
    void *block = test_alloc(world.pool, 5000, world.stream);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_DEVICE);
    struct tn_told told = unit_retell(NULL);
    struct tn_stack stack;

    ck_assert_uint_eq(told.count, 3); /* page-locked memory, and the device's */
    ck_assert_ptr_eq((void *)(uintptr_t)told.blocks[0].address, block);
    ck_assert_uint_ge(told.blocks[0].stack, TN_SCROLL_FIRST);
    ck_assert_uint_eq(told.blocks[1].stack, TN_STACKS_OWN);
    ck_assert_uint_eq(told.blocks[2].stack, TN_STACKS_OWN);
    ck_assert_int_eq(
        tn_stacks_read(&(struct tn_scroll_reader){from_stacks, NULL, 0}, TN_STACKS_OWN, &stack),
        TN_SCROLL_READ);
    ck_assert_uint_eq(stack.count, 0);
    ck_assert_uint_eq(tn_history_stack, 0);
    tn_told_free(&told);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(block));
}

/* Of 64 KiB each, one in sixteen is taken in the mean; a block that is not has no stack. */
TEST(sampled, one_allocation_in_so_many_bytes_has_a_stack)
{
    enum { COUNT = 4000 };
    struct tn_told told;
    size_t with = 0;
    size_t without = 0;

    for (int i = 0; i < COUNT; i++) {
        void *block;

        OK(tarn_malloc(world.device, 64 << 10, world.stream, &block));
        OK(tarn_free(block));
    }
    told = unit_retell(NULL);
    for (size_t i = 0; i < told.event_count; i++) {
        if (told.events[i].kind != TN_HISTORY_ALLOC)
            continue;
        with += told.events[i].block.stack != 0;
        without += told.events[i].block.stack == 0;
    }
    ck_assert_uint_eq(with + without, COUNT);
    ck_assert_uint_gt(with, 170); /* 242 in the mean, with a deviation of 15 */
    ck_assert_uint_lt(with, 320);
    tn_told_free(&told);
}

TEST(callers, the_modules_of_the_callers_are_known)
{
    struct tn_ring_file *file = &world.device->history.file;
    uint64_t words[64];
    void *block;

    OK(tarn_malloc(world.device, 1000, world.stream, &block));
    memcpy(words, tn_ring_file_area(file, TN_STACKING_MODULES), sizeof words);
    ck_assert_uint_ne(words[TN_SCROLL_FIRST], 0);
    OK(tarn_free(block));
}

GROUP(closed, NULL)

TEST(closed, a_device_without_stacks_wants_none)
{
    ck_assert_uint_eq(atomic_load(&tn_stacking_count), 0);
    open_frames();
    ck_assert_uint_eq(atomic_load(&tn_stacking_count), 1);
    test_world_close();
    ck_assert_uint_eq(atomic_load(&tn_stacking_count), 0);
}

static void open_callers_sampled(void)
{
    open_with(TARN_HISTORY_CALLERS, (size_t)1 << 40);
}

static void open_frames_sampled(void)
{
    open_with(TARN_HISTORY_FRAMES, (size_t)1 << 40);
}

static void open_unwind_sampled(void)
{
    open_with(TARN_HISTORY_UNWIND, (size_t)1 << 40);
}

/* Next to no allocation is chosen for a stack. */
GROUP(rare_callers, open_callers_sampled, .end = test_world_close)
GROUP(rare_frames, open_frames_sampled, .end = test_world_close)
GROUP(rare_unwound, open_unwind_sampled, .end = test_world_close)

enum { GROWING_CALLS = 8 };

static void *grown[GROWING_CALLS];
static tarn_checkpoint *checkpoint;

static tarn_delta *delta;

/* Small also with sanitizers. */
static __attribute__((noinline)) void grow_inner(int which)
{
    tarn_status status;
    void **block = &grown[which];

    switch (which) {
    case 0:
        status = tarn_malloc(world.device, 128 * MIB, world.stream, block);
        break;
    case 1:
        status = tarn_pool_malloc(world.pool, 128 * MIB, 0, world.stream, block);
        break;
    case 2:
        status = tarn_malloc_aligned(world.device, 128 * MIB, 4096, world.stream, block);
        break;
    case 3:
        status = tarn_calloc(world.device, 128, MIB, world.stream, block);
        break;
    case 4:
        status = tarn_pool_reserve(world.pool, 128 * MIB, world.stream);
        break;
    case 5:
        status = tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint);
        break;
    case 6:
        status = tarn_checkpoint_restore(checkpoint, world.stream, &delta);
        break;
    default:
        status = tarn_pool_malloc(world.pool, 4096, 0, world.side, block);
    }
    ck_assert_int_eq(status, TARN_OK);
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void grow_outer(int which)
{
    grow_inner(which);
    __asm__ volatile("" ::: "memory");
}

/* The notes of one kind from a number on, and whether their stacks begin as they should. Returns the
 * number of such notes. */
static size_t check_notes(const struct tn_told *told, enum tn_note note, size_t before,
                          size_t frames_min)
{
    size_t count = 0;

    for (size_t i = 0; i < told->event_count; i++) {
        const struct tn_told_event *event = &told->events[i];
        struct tn_stack stack;

        if (event->kind != TN_HISTORY_NOTE || event->note.note != note || count++ < before)
            continue;
        stack = stack_of(event->note.stack);
        ck_assert_uint_ge(stack.count, frames_min);
        ck_assert(is_in(stack.frames[0], grow_inner));
        if (frames_min > 1)
            ck_assert(is_in(stack.frames[1], grow_outer));
        ck_assert_uint_le(event->note.operands[1], TN_MEMORY_BYTES_MAX);
    }
    return count;
}

/* Each call grows once at least. */
static void check_growths(size_t frames_min)
{
    size_t mapped_count = 0;
    size_t created_count = 0;

    for (int which = 0; which < GROWING_CALLS; which++) {
        struct tn_told told;
        size_t count;

        if (which == 6) { /* the memory of the checkpoint's block goes, and comes back */
            OK(tarn_free(grown[1]));
            test_wait_for_all();
            OK(tarn_pool_trim(world.pool, NULL));
        }
        delta = NULL;
        tn_stacking_own.caller = &delta; /* of a call before */
        grow_outer(which);
        tarn_delta_destroy(delta);
        told = unit_retell(NULL);
        tn_told_sort_by_time(&told);
        count = check_notes(&told, TN_NOTE_MAPPED, mapped_count, frames_min);
        ck_assert_uint_gt(count, mapped_count);
        mapped_count = count;
        count = check_notes(&told, TN_NOTE_MEMORY_CREATED, created_count, frames_min);
        ck_assert_uint_gt(count, created_count);
        created_count = count;
        tn_told_free(&told);
    }
    ck_assert(!atomic_load(&world.device->history.stacking.has_new));
    OK(tarn_checkpoint_destroy(checkpoint));
    for (size_t i = 0; i < GROWING_CALLS; i++)
        OK(tarn_free(grown[i])); /* or nothing */
}

TEST(callers, each_growth_has_its_caller)
{
    check_growths(1);
}

TEST(unwound, each_growth_has_the_stack_of_its_call)
{
    check_growths(3);
}

TEST(rare_callers, each_growth_has_its_caller_where_allocations_have_none)
{
    check_growths(1);
}

TEST(rare_frames, each_growth_has_its_frames_where_allocations_have_none)
{
    check_growths(3);
}

TEST(rare_unwound, each_growth_is_unwound_where_allocations_have_none)
{
    check_growths(3);
}

static bool allocate_inside(tarn_device *device, size_t wanted_bytes, void *small)
{
    (void)wanted_bytes;
    OK(tarn_malloc(device, 512, world.side, small));
    OK(tarn_pool_set_limit(world.pool, 512 * MIB));
    return true;
}

/* A callback allocates within the ladder of another call, which grows behind. */
TEST(rare_callers, a_growth_behind_a_callback_has_the_caller_of_its_own_call)
{
    void *small = NULL;
    size_t before;
    struct tn_told told;

    OK(tarn_free(test_alloc(world.default_pool, 512, world.side)));
    OK(tarn_pool_set_limit(world.pool, 64 * MIB));
    OK(tarn_device_add_free_callback(world.device, allocate_inside, &small));
    told = unit_retell(NULL);
    before = check_notes(&told, TN_NOTE_MAPPED, SIZE_MAX, 1);
    tn_told_free(&told);
    grow_outer(1);
    told = unit_retell(NULL);
    tn_told_sort_by_time(&told);
    ck_assert_uint_gt(check_notes(&told, TN_NOTE_MAPPED, before, 1), before);
    tn_told_free(&told);
    ck_assert_ptr_nonnull(small);
    OK(tarn_device_remove_free_callback(world.device, allocate_inside, &small));
    OK(tarn_free(small));
    OK(tarn_free(grown[1]));
}

GROUP(notes, NULL)

/* With a stack, and without: as where none are taken. */
TEST(notes, bytes_of_a_growth_may_have_a_stack)
{
    static const enum tn_note notes_of[] = {TN_NOTE_MEMORY_CREATED, TN_NOTE_MAPPED};
    static const uint32_t stacks[] = {0, 1, UINT32_MAX};
    struct tn_note_words read;

    for (size_t i = 0; i < 6; i++) {
        const enum tn_note note = notes_of[i / 3];
        const unsigned count = (unsigned)tn_note_operand_count(note);

        ck_assert(tn_note_read((const uint64_t[]){tn_ring_first(TN_RING_NOTE, count, note), 5,
                                                  tn_note_bytes_of(1 << 30, stacks[i % 3]), 6},
                               &read));
        ck_assert_uint_eq(read.operands[1], 1 << 30);
        ck_assert_uint_eq(read.stack, stacks[i % 3]);
    }
}
