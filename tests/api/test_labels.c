// SPDX-License-Identifier: Apache-2.0
/* Labels: texts for allocations, by thread and by call. */
#include <string.h>

#include "support/written.h"

static void open_recorded(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = 1 << 20;
    test_world_open_with(&options);
}

GROUP(labels, open_recorded, test_world_close)

static void expect(const char *label)
{
    char text[1001];
    size_t length = 77;

    OK(tarn_label_get(text, sizeof text, &length));
    ck_assert_str_eq(text, label);
    ck_assert_uint_eq(length, strlen(label));
}

TEST(labels, the_label_that_counts_can_be_asked_for)
{
    char few[4];
    size_t length;

    expect("");
    OK(tarn_label_set("a layer"));
    expect("a layer");
    OK(tarn_label_push("inner"));
    expect("inner");
    OK(tarn_label_get(few, sizeof few, &length));
    ck_assert_str_eq(few, "inn");
    ck_assert_uint_eq(length, 5);
    OK(tarn_label_get(NULL, 0, &length));
    ck_assert_uint_eq(length, 5);
    OK(tarn_label_get(few, 1, NULL));
    ck_assert_str_eq(few, "");
    OK(tarn_label_pop());
    expect("a layer");
    OK(tarn_label_set(NULL));
    expect("");
}

TEST(labels, bad_texts_are_refused_and_change_nothing)
{
    char text[1002];
    void *address = UNTOUCHED;

    memset(text, 'x', sizeof text);
    text[1001] = '\0';
    OK(tarn_label_set("before"));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_label_set(text));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "1000 bytes"));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_label_push(text));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_label_set("\xff"));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "UTF-8"));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_label_push("\xc3"));
    STATUS(TARN_ERR_INVALID_ARGUMENT,
           tarn_malloc_labeled(world.device, NULL, 512, 0, NULL, text, &address));
    STATUS(TARN_ERR_INVALID_ARGUMENT,
           tarn_malloc_labeled(world.device, NULL, 512, 0, NULL, "\xff", &address));
    ck_assert_ptr_eq(address, UNTOUCHED);
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_label_get(NULL, 1, NULL));
    expect("before");
    text[1000] = '\0';
    OK(tarn_label_set(text));
    expect(text);
    OK(tarn_label_set("\xc3\xa9t\xc3\xa9"));
    expect("\xc3\xa9t\xc3\xa9");
    OK(tarn_label_set(NULL));
}

TEST(labels, pushes_and_pops_are_balanced)
{
    STATUS(TARN_ERR_WRONG_STATE, tarn_label_pop());
    for (int i = 0; i < 256; i++)
        OK(tarn_label_push(i % 2 == 0 ? "even" : "odd"));
    STATUS(TARN_ERR_LIMIT, tarn_label_push("too deep"));
    expect("odd");
    for (int i = 0; i < 256; i++)
        OK(tarn_label_pop());
    STATUS(TARN_ERR_WRONG_STATE, tarn_label_pop());
    expect("");
}

TEST(labels, a_labeled_allocation_is_like_others)
{
    void *address = UNTOUCHED;
    tarn_block block;

    OK(tarn_malloc_labeled(world.device, NULL, 1000, 0, world.stream, "one", &address));
    OK(tarn_block_at(address, &block));
    ck_assert_ptr_eq(block.pool, world.default_pool);
    ck_assert_uint_eq(block.bytes, 1000);
    OK(tarn_free(address));
    OK(tarn_malloc_labeled(world.device, world.pool, 1000, 1 << 20, world.stream, "two", &address));
    OK(tarn_block_at(address, &block));
    ck_assert_ptr_eq(block.pool, world.pool);
    ck_assert_uint_eq((uintptr_t)address % (1 << 20), 0);
    OK(tarn_free(address));
    OK(tarn_malloc_labeled(world.device, world.pool, 0, 0, world.stream, "none", &address));
    ck_assert_ptr_null(address);
    OK(tarn_malloc_labeled(world.device, NULL, 512, 0, world.stream, NULL, &address));
    OK(tarn_free(address));
}

TEST(labels, a_labeled_allocation_refuses_what_others_do)
{
    void *address = UNTOUCHED;

    STATUS(TARN_ERR_INVALID_HANDLE, tarn_malloc_labeled(NULL, NULL, 512, 0, NULL, "a", &address));
    STATUS(TARN_ERR_INVALID_HANDLE,
           tarn_malloc_labeled(world.device, (tarn_pool *)(void *)world.device, 512, 0, NULL, "a",
                               &address));
    STATUS(TARN_ERR_INVALID_ARGUMENT,
           tarn_malloc_labeled(world.device, NULL, 512, 3, NULL, "a", &address));
    STATUS(TARN_ERR_INVALID_ARGUMENT,
           tarn_malloc_labeled(world.device, NULL, 512, 0, NULL, "a", NULL));
    STATUS(TARN_ERR_INVALID_ARGUMENT,
           tarn_malloc_labeled(world.device, NULL, SIZE_MAX, 0, NULL, "a", &address));
    STATUS(TARN_ERR_INVALID_ARGUMENT,
           tarn_malloc_labeled(world.device, NULL, SIZE_MAX / 2, 4 << 20, NULL, "a", &address));
    ck_assert_ptr_eq(address, UNTOUCHED);
}

TEST(labels, a_snapshot_is_written_with_the_labels_of_its_events)
{
    tarn_snapshot *snapshot;
    void *blocks[3];

    OK(tarn_label_set("of the thread"));
    OK(tarn_malloc(world.device, 1000, world.stream, &blocks[0]));
    OK(tarn_malloc_labeled(world.device, NULL, 1000, 0, world.stream, "of the call", &blocks[1]));
    OK(tarn_malloc_labeled(world.device, NULL, 1000, 0, world.stream, "", &blocks[2]));
    OK(tarn_label_set(NULL));
    for (int i = 0; i < 3; i++)
        OK(tarn_free(blocks[i]));
    OK(tarn_snapshot_take(world.device, NULL, &snapshot));
    OK(tarn_snapshot_add_history(snapshot, world.device));
    written_count = 0;
    OK(tarn_snapshot_write_pytorch(snapshot, take_text, NULL));
    ck_assert_uint_eq(count_of("of the thread"), 3); /* alloc, free_requested, free_completed */
    ck_assert_uint_eq(count_of("of the call"), 3);
    tarn_snapshot_destroy(snapshot);
}
