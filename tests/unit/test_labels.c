// SPDX-License-Identifier: Apache-2.0
/* The labels of threads, and those of their allocations in a history. */
#include <pthread.h>

#include "observe/retell.h"
#include "observe/titles.h"
#include "pools/labels.h"
#include "unit/told.h"

SUITE("labels")

static void open_with(size_t history_bytes, tarn_history_stacks stacks, size_t sample_bytes)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = history_bytes;
    options.history_stacks = stacks;
    options.history_sample_bytes = sample_bytes;
    test_world_open_with(&options);
}

static void open_plain(void)
{
    open_with(1 << 20, TARN_HISTORY_NO_STACKS, 0);
}

static void open_callers(void)
{
    open_with(1 << 20, TARN_HISTORY_CALLERS, 0);
}

static void open_sampled(void)
{
    open_with(1 << 20, TARN_HISTORY_CALLERS, 64 << 20);
}

static void open_without(void)
{
    open_with(TARN_NO_HISTORY, TARN_HISTORY_NO_STACKS, 0);
}

static void close_world(void)
{
    OK(tarn_label_set(NULL));
    test_world_close();
}

GROUP(plain, open_plain, .end = close_world)
GROUP(callers, open_callers, .end = close_world)
GROUP(sampled, open_sampled, .end = close_world)
GROUP(unrecorded, open_without, .end = close_world)

static struct tn_stack stack_of(uint64_t id)
{
    const struct tn_scroll_reader reader = tn_stacking_reader(&world.device->history.stacking);
    struct tn_stack stack;

    ck_assert_int_eq(tn_stacks_read(&reader, (uint32_t)id, &stack), TN_SCROLL_READ);
    return stack;
}

/* The only live block has this label. Returns the number of addresses behind the label. */
static size_t expect_label(const char *label)
{
    const struct tn_scroll_reader reader = tn_stacking_reader(&world.device->history.stacking);
    struct tn_titles titles = tn_titles_new(&reader);
    struct tn_told told = unit_retell(NULL);
    size_t count = 0;

    ck_assert_uint_eq(told.count, 1);
    ck_assert_str_eq(tn_titles_label(&titles, told.blocks[0].stack), label);
    if (told.blocks[0].stack != 0)
        count = stack_of(told.blocks[0].stack).count - (label[0] != '\0');
    tn_titles_free(&titles);
    tn_told_free(&told);
    return count;
}

static size_t allocate_and_expect(const char *label)
{
    size_t count;
    void *block;

    OK(tarn_malloc(world.device, 1000, world.stream, &block));
    count = expect_label(label);
    OK(tarn_free(block));
    return count;
}

TEST(plain, an_allocation_has_the_label_of_its_thread)
{
    ck_assert_uint_eq(allocate_and_expect(""), 0);
    OK(tarn_label_set("first"));
    ck_assert_uint_eq(allocate_and_expect("first"), 0);
    OK(tarn_label_set("second"));
    ck_assert_uint_eq(allocate_and_expect("second"), 0);
    OK(tarn_label_set(""));
    ck_assert_uint_eq(allocate_and_expect(""), 0);
}

static void *inner;

static bool allocate_inside(tarn_device *device, size_t wanted_bytes, void *user)
{
    (void)wanted_bytes;
    (void)user;
    if (inner == NULL)
        OK(tarn_malloc(device, 1000, world.stream, &inner));
    return false;
}

TEST(plain, a_callback_does_not_allocate_with_the_label_of_the_call_that_runs_it)
{
    void *block = UNTOUCHED;

    inner = NULL;
    OK(tarn_device_add_free_callback(world.device, allocate_inside, NULL));
    OK(tarn_device_set_limit(world.device, 64 * MIB));
    STATUS(TARN_ERR_LIMIT,
           tarn_malloc_labeled(world.device, NULL, 128 * MIB, 0, world.stream, "outer", &block));
    ck_assert_ptr_nonnull(inner);
    ck_assert_uint_eq(expect_label(""), 0);
    OK(tarn_free(inner));
    OK(tarn_device_remove_free_callback(world.device, allocate_inside, NULL));
}

TEST(plain, the_label_pushed_last_counts)
{
    OK(tarn_label_push("outer"));
    OK(tarn_label_push("inner"));
    (void)allocate_and_expect("inner");
    OK(tarn_label_set("changed"));
    (void)allocate_and_expect("changed");
    OK(tarn_label_push(NULL));
    (void)allocate_and_expect("");
    OK(tarn_label_pop());
    OK(tarn_label_pop());
    (void)allocate_and_expect("outer");
    OK(tarn_label_set(NULL));
    (void)allocate_and_expect("");
    OK(tarn_label_pop());
    (void)allocate_and_expect("");
    ck_assert_uint_eq(atomic_load(&tn_stacking_count), 0);
}

TEST(plain, an_own_label_waits_below_those_pushed)
{
    OK(tarn_label_set("own"));
    OK(tarn_label_push("pushed"));
    (void)allocate_and_expect("pushed");
    OK(tarn_label_pop());
    (void)allocate_and_expect("own");
}

TEST(callers, the_frames_stand_behind_the_label)
{
    ck_assert_uint_eq(allocate_and_expect(""), 1);
    OK(tarn_label_set("a label"));
    ck_assert_uint_eq(allocate_and_expect("a label"), 1);
}

/* The sample goes on where it was when the label came. */
TEST(sampled, an_allocation_without_a_stack_has_its_label)
{
    int64_t left;
    void *block;

    OK(tarn_malloc(world.device, 512, world.stream, &block)); /* the sample has begun */
    OK(tarn_free(block));
    tn_stacking_own.sample.left = 10000;
    OK(tarn_label_set("a label"));
    ck_assert_int_eq(tn_stacking_own.sample.left, 0);
    ck_assert_uint_eq(allocate_and_expect("a label"), 0); /* of 1000 bytes */
    OK(tarn_label_set(NULL));
    left = tn_stacking_own.sample.left;
    ck_assert_int_eq(left, 9000);
    OK(tarn_label_set("a label"));
    for (int i = 0; i < 8; i++)
        ck_assert_uint_eq(allocate_and_expect("a label"), 0);
    ck_assert_uint_eq(allocate_and_expect("a label"), 1); /* the chosen byte */
}

TEST(unrecorded, a_label_without_a_history_is_nothing)
{
    void *block;

    OK(tarn_label_set("a label"));
    OK(tarn_malloc(world.device, 1000, world.stream, &block));
    OK(tarn_free(block));
    OK(tarn_malloc_labeled(world.device, NULL, 1000, 0, world.stream, "another", &block));
    OK(tarn_free(block));
}

/* Each device has its own title of the text. */
TEST(plain, a_label_is_looked_for_once_in_each_history)
{
    struct tn_stacking *stacking = &world.device->history.stacking;
    struct tn_label *label;
    uint64_t serial;

    OK(tarn_label_set("a label"));
    (void)allocate_and_expect("a label");
    label = tn_stacking_label();
    ck_assert_uint_eq(label->stacking, stacking->serial);
    serial = stacking->serial;
    test_world_close();
    open_plain();
    ck_assert_uint_ne(world.device->history.stacking.serial, serial);
    (void)allocate_and_expect("a label");
    ck_assert_uint_eq(label->stacking, world.device->history.stacking.serial);
}

static void *label_and_end(void *argument)
{
    (void)argument;
    OK(tarn_label_set("own"));
    OK(tarn_label_push("pushed"));
    OK(tarn_label_push("pushed again"));
    ck_assert_uint_eq(atomic_load(&tn_stacking_count), 1);
    return NULL;
}

TEST(plain, labels_end_with_their_thread)
{
    uint64_t before;

    (void)allocate_and_expect("");
    before = tn_host_usage().current_bytes;
    for (int i = 0; i < 10; i++) {
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, label_and_end, NULL), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_uint_eq(atomic_load(&tn_stacking_count), 0);
        (void)allocate_and_expect("");
    }
    ck_assert_uint_lt(tn_host_usage().current_bytes, before + 1024);
}

TEST(plain, the_log_has_a_note_of_each_annotation)
{
    struct tn_title title;
    struct tn_told told;
    size_t count = 0;
    void *block;

    OK(tarn_malloc(world.device, 1000, world.stream, &block));
    OK(tarn_block_annotate(block, "weights"));
    ck_assert_int_eq(tn_title_make(&title, "weights"), TN_TITLE_GOOD);
    told = unit_retell(NULL);
    for (size_t i = 0; i < told.event_count; i++) {
        const struct tn_note_words *note = &told.events[i].note;

        if (told.events[i].kind != TN_HISTORY_NOTE || note->note != TN_NOTE_ANNOTATED)
            continue;
        ck_assert_uint_eq(note->pool, world.default_pool->holds.pool_serial);
        ck_assert_uint_eq(note->operands[0], unit_block(block)->sequence);
        ck_assert_uint_eq(note->operands[1], (uintptr_t)block);
        ck_assert_uint_eq(note->operands[2],
                          tn_title_enter(&world.device->history.stacking.stacks, &title));
        count += 1;
    }
    ck_assert_uint_eq(count, 1);
    tn_told_free(&told);
    OK(tarn_free(block));
}
