// SPDX-License-Identifier: Apache-2.0
/* Texts for live blocks, after the fact. */
#include <stdio.h>
#include <string.h>

#include "support/written.h"

static void open_recorded(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = 256 << 10;
    test_world_open_with(&options);
}

GROUP(annotations, open_recorded, test_world_close)
GROUP(unrecorded, test_world_open_unrecorded, test_world_close)

TEST(annotations, a_live_block_s_base_alone_is_annotated)
{
    char *block = test_alloc(world.pool, 4096, world.stream);
    int other = 0;

    OK(tarn_block_annotate(block, "weights"));
    OK(tarn_block_annotate(block, "of a layer"));
    OK(tarn_block_annotate(NULL, "of 0 bytes"));
    REFUSE(TARN_ERR_INNER_ADDRESS, "", tarn_block_annotate(block + 512, "inner"));
    REFUSE(TARN_ERR_NOT_OURS, "", tarn_block_annotate(&other, "not ours"));
    OK(tarn_free(block));
    REFUSE(TARN_ERR_DOUBLE_FREE, "", tarn_block_annotate(block, "gone"));
}

TEST(annotations, bad_texts_are_refused)
{
    void *block = test_alloc(world.pool, 4096, world.stream);
    char text[1002];

    memset(text, 'x', sizeof text);
    text[1001] = '\0';
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "NULL or empty", tarn_block_annotate(block, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "NULL or empty", tarn_block_annotate(block, ""));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "1000 bytes", tarn_block_annotate(block, text));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "UTF-8", tarn_block_annotate(block, "\xff"));
    OK(tarn_free(block));
}

/* As many as have room; the same text again needs none. */
TEST(annotations, a_text_without_room_is_refused)
{
    void *block = test_alloc(world.pool, 4096, world.stream);
    tarn_status status = TARN_OK;
    char text[1001];
    int count = 0;

    memset(text, 'x', sizeof text);
    text[1000] = '\0';
    for (; status == TARN_OK && count < 10000; count++) {
        (void)snprintf(text, sizeof text, "%d%-900s", count, "");
        status = tarn_block_annotate(block, text);
    }
    STATUS(TARN_ERR_LIMIT, status);
    ck_assert_int_gt(count, 20);
    REFUSE(TARN_ERR_LIMIT, "no room", tarn_block_annotate(block, text));
    (void)snprintf(text, sizeof text, "%d%-900s", 0, "");
    OK(tarn_block_annotate(block, text));
    OK(tarn_free(block));
}

TEST(unrecorded, without_a_history_there_are_no_annotations)
{
    void *block = test_alloc(world.pool, 4096, world.stream);

    REFUSE(TARN_ERR_NOT_SUPPORTED, "history", tarn_block_annotate(block, "text"));
    OK(tarn_free(block));
}

TEST(annotations, a_snapshot_is_written_with_them)
{
    void *block = test_alloc(world.pool, 4096, world.stream);
    tarn_snapshot *snapshot;

    OK(tarn_block_annotate(block, "the first text"));
    OK(tarn_block_annotate(block, "the second text"));
    OK(tarn_snapshot_take(world.device, NULL, &snapshot));
    OK(tarn_snapshot_add_history(snapshot, world.device));
    written_count = 0;
    OK(tarn_snapshot_write_pytorch(snapshot, take_text, NULL));
    ck_assert_uint_eq(count_of("annotate"), 1); /* a word, then named by its number */
    ck_assert_uint_eq(count_of("the first text"), 1);
    ck_assert_uint_eq(count_of("the second text"), 1);
    tarn_snapshot_destroy(snapshot);
    OK(tarn_free(block));
}
