// SPDX-License-Identifier: Apache-2.0
/* Frames of an interpreter in the stacks of allocations. */
#include <pthread.h>
#include <string.h>

#include "observe/retell.h"
#include "tarn/history.h"
#include "unit/told.h"

SUITE("frames of an interpreter")

static void open_with(tarn_history_stacks stacks)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = 1 << 20;
    options.history_stacks = stacks;
    test_world_open_with(&options);
}

static void open_callers(void)
{
    open_with(TARN_HISTORY_CALLERS);
}

static void open_plain(void)
{
    open_with(TARN_HISTORY_NO_STACKS);
}

GROUP(framed, open_callers, .end = test_world_close)
GROUP(plain, open_plain, .end = test_world_close)
GROUP(unrecorded, test_world_open_unrecorded, .end = test_world_close)

/* The interpreter: one frame for all threads. */
static atomic_uint_fast64_t current;
static atomic_uint names_asked;
static atomic_uint tokens_asked;
static const char *name_given;

static uint64_t give_token(void *user)
{
    ck_assert_ptr_eq(user, &current);
    atomic_fetch_add(&tokens_asked, 1);
    return atomic_load(&current);
}

static void give_name(uint64_t token, char *name, size_t capacity, void *user)
{
    ck_assert_ptr_eq(user, &current);
    ck_assert_uint_eq(capacity, 1001);
    atomic_fetch_add(&names_asked, 1);
    if (name_given != NULL)
        memcpy(name, name_given, strlen(name_given) + 1);
    else
        (void)snprintf(name, capacity, "code.py:%u run", (unsigned)token);
}

static void set(tarn_frame_name name)
{
    OK(tarn_device_set_interpreter(world.device, give_token, name, &current));
}

/* The frames of the only live block. */
static struct tn_stack stack_of_block(void)
{
    const struct tn_scroll_reader reader = tn_stacking_reader(&world.device->history.stacking);
    struct tn_stack stack;
    struct tn_told told = unit_retell(NULL);

    ck_assert_uint_eq(told.count, 1);
    ck_assert_int_eq(tn_stacks_read(&reader, (uint32_t)told.blocks[0].stack, &stack),
                     TN_SCROLL_READ);
    tn_told_free(&told);
    return stack;
}

/* An allocation in the frame has its name as the frame of this place; NULL: it has none. */
static void expect(uint64_t token, size_t at, const char *name)
{
    const struct tn_scroll_reader reader = tn_stacking_reader(&world.device->history.stacking);
    struct tn_title_text text;
    struct tn_stack stack;
    void *block;

    atomic_store(&current, token);
    block = test_malloc(1000);
    stack = stack_of_block();
    ck_assert_uint_gt(stack.count, at);
    if (name == NULL) {
        ck_assert_uint_eq(tn_stack_title_of(stack.frames[at], TN_STACK_INTERPRETER), 0);
    } else {
        ck_assert_int_eq(tn_title_read(&reader,
                                       tn_stack_title_of(stack.frames[at], TN_STACK_INTERPRETER),
                                       &text),
                         TN_SCROLL_READ);
        ck_assert_int_eq(text.kind, TN_TITLE_FRAME);
        ck_assert_uint_eq(text.token, token);
        ck_assert_str_eq(text.text, name);
        ck_assert_uint_gt(stack.count, at + 1); /* the caller */
    }
    OK(tarn_free(block));
}

TEST(framed, a_number_gets_its_name_when_it_is_seen_first)
{
    set(give_name);
    expect(12, 0, "code.py:12 run");
    expect(13, 0, "code.py:13 run");
    expect(12, 0, "code.py:12 run");
    ck_assert_uint_eq(atomic_load(&names_asked), 2);
    expect(0, 0, NULL);
    OK(tarn_device_set_interpreter(world.device, NULL, NULL, NULL));
    expect(12, 0, NULL);
}

TEST(framed, a_frame_stands_behind_the_label)
{
    set(give_name);
    OK(tarn_label_set("a label"));
    expect(UINT64_C(1) << 31, 1, "code.py:2147483648 run");
    OK(tarn_label_set(NULL));
}

TEST(framed, names_are_made_where_none_are_given)
{
    set(NULL);
    expect(UINT64_MAX, 0, "0xffffffffffffffff");
    set(give_name);
    name_given = "";
    expect(0xabc, 0, "0xabc");
    name_given = "a\xff";
    expect(0xdef, 0, "a?");
    name_given = NULL;
}

TEST(plain, without_stacks_nobody_is_asked)
{
    void *block;

    atomic_store(&tokens_asked, 0);
    set(give_name);
    OK(tarn_label_set("a label"));
    block = test_malloc(1000);
    OK(tarn_label_set(NULL));
    ck_assert_uint_eq(atomic_load(&tokens_asked), 0);
    ck_assert_uint_eq(stack_of_block().count, 1);
    OK(tarn_free(block));
}

static tarn_status status_inside;

/* Calls the library, which does not ask again. */
static uint64_t allocate_inside(void *user)
{
    OK(tarn_free(test_malloc(512)));
    status_inside = tarn_device_set_interpreter(world.device, NULL, NULL, user);
    return 5;
}

TEST(framed, such_functions_may_call_the_library)
{
    OK(tarn_device_set_interpreter(world.device, allocate_inside, NULL, NULL));
    expect(5, 0, "0x5");
    ck_assert_int_eq(status_inside, TARN_ERR_WRONG_STATE);
}

TEST(unrecorded, without_a_history_there_are_no_frames)
{
    STATUS(TARN_ERR_NOT_SUPPORTED,
           tarn_device_set_interpreter(world.device, give_token, NULL, NULL));
}

static atomic_bool over;
static atomic_bool is_set[2];

/* Fails if it is called after it was taken back. */
static uint64_t check_set(void *user)
{
    ck_assert(atomic_load((atomic_bool *)user));
    return 7;
}

static void *allocate(void *argument)
{
    while (!atomic_load(&over))
        OK(tarn_free(test_malloc(1000)));
    return argument;
}

TEST(framed, no_thread_is_in_functions_that_were_taken_back)
{
    pthread_t threads[3];

    atomic_store(&over, false);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, allocate, NULL), 0);
    for (int i = 0; i < 200; i++) {
        atomic_store(&is_set[i % 2], true);
        OK(tarn_device_set_interpreter(world.device, check_set, NULL, &is_set[i % 2]));
        atomic_store(&is_set[(i + 1) % 2], false);
    }
    atomic_store(&over, true);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}
