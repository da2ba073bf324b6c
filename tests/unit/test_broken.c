// SPDX-License-Identifier: Apache-2.0
/* The sentences are tests/api/test_capture_broken.c's. */
#include "graphs/broken.h"
#include "pools/arenas.h"
#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *pool;
static tn_cu_stream stream;
static tn_cu_stream side;

static const struct tn_hold_call first_call = {"tarn_first", 77, false};
static const struct tn_hold_call second_call = {"tarn_second", 0, true};

static void open_device(void)
{
    device = unit_device();
    pool = unit_pool(device);
    stream = test_stream();
    side = test_stream();
}

/* What is written of the capture. */
static const char *known(uint64_t capture_id)
{
    static char buffer[256];
    struct tn_text text = {buffer, sizeof buffer, 0};

    struct tn_broken found;

    buffer[0] = '\0';
    tn_broken_find(device, capture_id, &found);
    tn_broken_put(&text, &found);
    ck_assert_uint_eq(text.length, strlen(buffer));
    ck_assert(tn_lock_none_held());
    return buffer;
}

static const char *forks(uint64_t capture_id, tn_cu_stream origin)
{
    static char buffer[TN_CAPTURE_SAID_BYTES];
    const struct tn_seen_node none = {.number = 0};
    struct tn_text text = {buffer, sizeof buffer, 0};

    buffer[0] = '\0';
    tn_broken_put_unjoined(&text, device,
                           (struct tn_order){tn_stream_captured_id(origin), capture_id}, &none);
    ck_assert(tn_lock_none_held());
    ck_assert_ptr_null(strstr(buffer, "node"));
    return buffer;
}

static uint64_t note(tn_cu_stream on, struct tn_hold_call call, struct tn_broken *before)
{
    uint64_t id = tn_broken_note(device, tn_stream_captured_id(on), call, before);

    ck_assert(tn_lock_none_held());
    return id;
}

GROUP(notes, open_device)

TEST(notes, the_first_call_is_noted_and_stays)
{
    tarn_capture *capture = unit_begin(pool, stream);
    struct tn_broken before;

    ck_assert_str_eq(known(capture->capture_id), "");
    ck_assert_uint_eq(note(stream, first_call, &before), capture->capture_id);
    ck_assert_ptr_null(before.noticed.name);
    ck_assert_uint_eq(before.sequence, 0);
    ck_assert_uint_eq(note(stream, second_call, &before), capture->capture_id);
    ck_assert_str_eq(before.noticed.name, "tarn_first");
    ck_assert_uint_eq(before.noticed.bytes, 77);
    ck_assert_str_eq(known(capture->capture_id), "; tarn_first of 77 bytes noticed it first");
    OK(tarn_capture_abort(capture));
}

TEST(notes, a_call_that_breaks_is_said_to)
{
    tarn_capture *capture = unit_begin(pool, stream);
    struct tn_broken before;

    (void)note(stream, second_call, &before);
    ck_assert_str_eq(known(capture->capture_id),
                     "; tarn_second was called on a stream of it, which breaks any capture");
    OK(tarn_capture_abort(capture));
}

TEST(notes, a_stream_in_no_known_capture_has_no_note)
{
    tarn_capture *capture = unit_begin(pool, stream);
    struct tn_broken before = {.sequence = 5};
    void *outside = unit_alloc(pool, 512, side);

    ck_assert_uint_eq(note(side, first_call, &before), 0);
    ck_assert_uint_eq(before.sequence, 0);
    ck_assert_str_eq(known(capture->capture_id), "");
    OK(tarn_free(outside));
    OK(tarn_capture_abort(capture));
}

/* The pool has a hold of it, but no tarn_capture does. */
TEST(notes, a_capture_of_the_users_own_has_no_note)
{
    struct tn_broken before;
    void *block;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    block = unit_alloc(pool, 512, stream);
    ck_assert_uint_eq(note(stream, first_call, &before), 0);
    ck_assert_uint_gt(before.sequence, 0);
    ck_assert_ptr_null(pool->holds.first->noticed.name);
    test_drop_capture(stream);
    OK(tarn_free(block));
}

/* Its graph keeps its hold; what breaks on the stream now is another one, which nobody knows. */
TEST(notes, a_capture_that_was_ended_has_no_note)
{
    tarn_graph *graph = unit_graph(pool, stream, 4096, NULL);
    struct tn_broken before;

    ck_assert_uint_eq(pool->holds.count, 1);
    ck_assert_uint_eq(note(stream, first_call, &before), 0);
    ck_assert_uint_eq(before.sequence, 0);
    OK(tarn_graph_destroy(graph));
}

/* One was ended by its user, whose graph keeps its hold, and the stream is captured again. */
TEST(notes, of_two_captures_of_a_stream_the_newer_is_meant)
{
    tarn_capture *older = unit_begin(pool, stream);
    tn_cu_graph graph = test_end_capture(stream);
    tarn_capture *newer = unit_begin(pool, stream);
    struct tn_broken before;

    ck_assert_uint_eq(note(stream, first_call, &before), newer->capture_id);
    ck_assert_str_eq(known(older->capture_id), "");
    ck_assert_str_ne(known(newer->capture_id), "");
    OK(tarn_capture_abort(newer));
    OK(tarn_capture_abort(older));
    test_destroy_graph(graph);
}

TEST(notes, a_fork_leads_to_its_capture_in_whichever_pool_it_allocates)
{
    tarn_pool *other = unit_pool(device);
    tarn_capture *capture = unit_begin(pool, stream);
    struct tn_broken before;
    char expected[64];
    void *block;

    test_order(stream, side);
    ck_assert_uint_eq(note(side, first_call, &before), 0); /* nothing was allocated there */
    block = unit_alloc(other, 4096, side);
    ck_assert_uint_eq(note(side, first_call, &before), capture->capture_id);
    ck_assert_uint_eq(before.sequence, unit_block(block)->sequence);
    ck_assert_uint_eq(before.requested, 4096);
    (void)snprintf(expected, sizeof expected,
                   "; forked streams that allocated: 0x%llx (last block "
                   "%llu)",
                   (unsigned long long)(uintptr_t)side, (unsigned long long)before.sequence);
    ck_assert_ptr_nonnull(strstr(forks(capture->capture_id, stream), expected));
    ck_assert_ptr_null(strstr(forks(capture->capture_id, side), "0x")); /* it has no other */
    OK(tarn_capture_abort(capture));
    OK(tarn_free(block));
}

TEST(notes, no_more_than_four_forks_are_named)
{
    tarn_capture *capture = unit_begin(pool, stream);
    tn_cu_stream streams[6];
    void *blocks[7];
    const char *text;
    size_t named = 0;

    for (int i = 0; i < 6; i++) {
        streams[i] = test_stream();
        test_order(stream, streams[i]);
        blocks[i] = unit_alloc(pool, 4096, streams[i]);
    }
    test_order(stream, TN_CU_STREAM_PER_THREAD);
    blocks[6] = unit_alloc(pool, 4096, TN_CU_STREAM_PER_THREAD);
    text = forks(capture->capture_id, stream);
    ck_assert_ptr_nonnull(strstr(text, "a thread's default stream (last block "));
    ck_assert_ptr_nonnull(strstr(text, " and 3 more"));
    for (const char *at = text; (at = strstr(at, "last block")) != NULL; at++)
        named += 1;
    ck_assert_uint_eq(named, 4);
    OK(tarn_capture_abort(capture));
    for (int i = 0; i < 7; i++)
        OK(tarn_free(blocks[i]));
}

/* Whether the arena gives the block at once, or the pool with its lock, and wherever the memory was before. */
TEST(notes, the_number_of_the_newest_block_is_known_however_it_was_allocated)
{
    tarn_capture *capture = unit_begin(pool, stream);
    struct tn_order order = unit_order(device, stream);
    static const size_t sizes[] = {512, 512, 4 * MIB, 512, 1024, 4 * MIB, 64 * MIB, 512};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *block = unit_alloc(pool, sizes[i], stream);
        uint64_t sequence = unit_block(block)->sequence;
        struct tn_arena *arena;

        tn_pool_lock(pool);
        arena = tn_arena_find(pool, order);
        ck_assert_uint_eq(arena->sequence, sequence + 1);
        tn_pool_unlock(pool);
        if (i % 2 == 0)
            OK(tarn_free(block));
    }
    OK(tarn_capture_abort(capture));
}

TEST(notes, an_answer_without_words_is_named_alone)
{
    char buffer[64] = "";
    struct tn_text text = {buffer, sizeof buffer, 0};
    struct tn_broken nothing;

    tn_broken_find(device, 77, &nothing);
    tn_broken_put_answer(&text, TN_CUDA_ERROR_UNKNOWN, &nothing,
                         &(struct tn_seen_node){.number = 0});
    ck_assert_str_eq(buffer, "CUDA_ERROR_UNKNOWN");
}

TEST(notes, a_refusal_of_an_unknown_capture_says_no_more_than_that)
{
    STATUS(TARN_ERR_CAPTURE_BROKEN,
           tn_broken_refuse(device, tn_stream_captured_id(side), first_call, "nothing goes"));
    ck_assert_str_eq(tarn_last_error(), "the stream's capture is invalidated, so nothing goes; end "
                                        "or abort the capture");
}
