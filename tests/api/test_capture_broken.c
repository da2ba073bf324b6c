// SPDX-License-Identifier: Apache-2.0
/* Which call broke the capture: what the sentences say of it, and what they leave out where it is not known. */
#include <stdio.h>

#include "support/bodies.h"
#include "support/breaks.h"
#include "support/world.h"

enum { WORDS_BYTES = 160 };

static char words[WORDS_BYTES];

static void expect_sentence(const char *part)
{
    ck_assert_msg(strstr(tarn_last_error(), part) != NULL, "'%s' has no '%s'", tarn_last_error(),
                  part);
}

static void expect_no_word(const char *part)
{
    ck_assert_msg(strstr(tarn_last_error(), part) == NULL, "'%s' has '%s'", tarn_last_error(),
                  part);
}

/* An end of the capture is refused with those words. */
static void expect_broken(tarn_capture *capture, const char *part)
{
    tarn_graph *graph = UNTOUCHED;

    REFUSE(TARN_ERR_CAPTURE_BROKEN, part, tarn_capture_end(capture, &graph));
    ck_assert_untouched(graph);
    expect_sentence("abort it with tarn_capture_abort");
}

/* The same, by an answer of the driver's with which the graph goes, and its memory a little later. */
static void expect_lost(tarn_capture *capture, const char *part)
{
    tarn_graph *graph = UNTOUCHED;

    STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_capture_end(capture, &graph));
    expect_sentence(part);
    ck_assert_untouched(graph);
    expect_sentence("abort it with tarn_capture_abort");
}

static uint64_t number_of(const void *address)
{
    tarn_block block;

    OK(tarn_block_at(address, &block));
    return block.sequence;
}

/* What is said of a live block, as the newest of a capture. */
static const char *allocated(const void *address, size_t bytes)
{
    (void)snprintf(words, sizeof words, "it was good when block %llu was allocated (%zu bytes)",
                   (unsigned long long)number_of(address), bytes);
    return words;
}

static void *malloc_on(tn_cu_stream stream, size_t bytes)
{
    void *address = NULL;

    OK(tarn_malloc(world.device, bytes, stream, &address));
    return address;
}

SUITE("broken captures")
GROUP(calls, test_world_open, test_world_close)

TEST(calls, whatever_breaks_a_capture_its_end_says_between_which_calls_that_was)
{
    for (size_t i = 0; i < TEST_BREAKS; i++) {
        tn_cu_stream stream = test_blocking_stream();
        tarn_capture *capture = test_capture_on(world.pool, stream, TARN_CAPTURE_GLOBAL);
        void *older = malloc_on(stream, 512);
        void *newest = malloc_on(stream, 4096);
        void *none = UNTOUCHED;

        test_set_words(stream, newest, 1, 1);
        test_breaks[i].call(stream);
        ck_assert_msg(test_capture_status(stream) == TN_CU_CAPTURE_STATUS_INVALIDATED, "%s",
                      test_breaks[i].name);
        REFUSE(TARN_ERR_CAPTURE_BROKEN, allocated(newest, 4096),
               tarn_malloc(world.device, 8192, stream, &none));
        expect_sentence("this one notices it first, so what broke it was called in between");
        ck_assert_untouched(none);
        for (int ends = 0; ends < 2; ends++) { /* the second says no less */
            expect_broken(capture, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: a call that a capture "
                                   "does not allow has broken it");
            expect_sentence("its graph ends with node 1 of 1 (set); it was good");
            expect_sentence(allocated(newest, 4096));
            expect_sentence("tarn_malloc of 8192 bytes noticed it first");
        }
        OK(tarn_capture_abort(capture));
        OK(tarn_free(older));
        OK(tarn_free(newest));
        test_destroy_stream(stream);
    }
}

TEST(calls, an_end_that_notices_it_first_names_no_call)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *block = test_malloc(4096);

    test_break_capture();
    expect_broken(capture, allocated(block, 4096));
    expect_no_word("noticed");
    OK(tarn_capture_abort(capture));
    OK(tarn_free(block));
}

TEST(calls, a_capture_without_blocks_says_nothing_of_any)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *none = UNTOUCHED;

    test_break_capture();
    expect_broken(capture, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
    expect_no_word("block");
    REFUSE(TARN_ERR_CAPTURE_BROKEN, "this one notices it first; end or abort",
           tarn_malloc(world.device, 8192, world.stream, &none));
    expect_broken(capture, "tarn_malloc of 8192 bytes noticed it first");
    expect_no_word("block");
    OK(tarn_capture_abort(capture));
}

/* The pool grows for the first one; the second gets its memory. */
TEST(calls, a_newest_block_that_was_freed_counts_all_the_same)
{
    for (int count = 1; count <= 2; count++) {
        tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
        uint64_t number = 0;

        for (int i = 0; i < count; i++) {
            void *block = test_malloc(4096);

            number = number_of(block);
            OK(tarn_free(block));
        }
        test_break_capture();
        (void)snprintf(words, sizeof words,
                       "it was good when block %llu was allocated, which was freed since",
                       (unsigned long long)number);
        expect_broken(capture, words);
        OK(tarn_capture_abort(capture));
    }
}

/* A block that is older than the capture, and one that is allocated elsewhere meanwhile. */
TEST(calls, blocks_outside_the_capture_are_none_of_its)
{
    void *before = test_malloc(4096);
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *inside = test_malloc(512);
    void *beside = test_alloc(world.pool, 4096, world.side);

    test_break_capture();
    expect_broken(capture, allocated(inside, 512));
    OK(tarn_capture_abort(capture));
    OK(tarn_free(before));
    OK(tarn_free(inside));
    OK(tarn_free(beside));
}

TEST(calls, a_block_of_another_pool_may_be_the_newest)
{
    tarn_pool *other = test_pool("other");
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *first = test_malloc(512);
    void *second = test_alloc(other, 4096, world.stream);
    void *none = UNTOUCHED;

    test_break_capture();
    REFUSE(TARN_ERR_CAPTURE_BROKEN, allocated(second, 4096),
           tarn_pool_malloc(other, 8192, 0, world.stream, &none));
    expect_broken(capture, allocated(second, 4096));
    expect_sentence("tarn_pool_malloc of 8192 bytes noticed it first");
    OK(tarn_capture_abort(capture));
    OK(tarn_free(first));
    OK(tarn_free(second));
    test_await_destructors(0);
    OK(tarn_pool_destroy(other));
}

enum { NOTICING_CALLS = 5 };

/* Each call that finds the capture broken; the words for it. */
static const char *notice(int which, void *block, tn_cu_stream stream)
{
    void *none = UNTOUCHED;

    switch (which) {
    case 0:
        STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_malloc(world.device, 8192, stream, &none));
        return "tarn_malloc of 8192 bytes";
    case 1:
        STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_pool_malloc(world.pool, 8192, 0, stream, &none));
        return "tarn_pool_malloc of 8192 bytes";
    case 2:
        STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_free_on(block, stream));
        return "tarn_free_on of 4096 bytes";
    case 3:
        STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_record_stream(block, stream));
        return "tarn_record_stream of 4096 bytes";
    default:
        STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_pool_reserve(world.pool, 16384, stream));
        return "tarn_pool_reserve of 16384 bytes";
    }
}

TEST(calls, the_first_call_that_notices_is_named_and_no_later_one)
{
    for (int first = 0; first < NOTICING_CALLS; first++) {
        tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
        void *block = test_malloc(4096);
        char noticed[WORDS_BYTES];

        test_break_capture();
        (void)snprintf(noticed, sizeof noticed, "%s noticed it first",
                       notice(first, block, world.stream));
        expect_sentence(allocated(block, 4096));
        expect_sentence("this one notices it first");
        for (int later = 0; later < NOTICING_CALLS; later++) {
            (void)notice(later, block, world.stream);
            expect_sentence(noticed);
            expect_no_word("this one");
        }
        expect_broken(capture, noticed);
        OK(tarn_capture_abort(capture));
        OK(tarn_free(block));
    }
}

TEST(calls, a_call_on_a_forked_stream_is_one_of_the_capture)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *block;

    test_order(world.stream, world.side);
    block = malloc_on(world.side, 4096);
    test_break_capture();
    (void)notice(0, block, world.side);
    expect_sentence(allocated(block, 4096));
    expect_broken(capture, "tarn_malloc of 8192 bytes noticed it first");
    OK(tarn_capture_abort(capture));
    OK(tarn_free(block));
}

TEST(calls, of_two_captures_each_has_its_own_calls)
{
    tarn_pool *other = test_pool("other");
    tarn_capture *one = test_capture_begin(TARN_CAPTURE_RELAXED);
    tarn_capture *two = test_capture_on(other, world.side, TARN_CAPTURE_RELAXED);
    void *of_one = test_malloc(512);
    void *of_two = malloc_on(world.side, 4096);

    test_wait_outside(world.side);
    (void)notice(0, of_two, world.side);
    expect_sentence(allocated(of_two, 4096));
    test_wait_outside(world.stream);
    (void)notice(4, of_one, world.stream);
    expect_sentence(allocated(of_one, 512));
    expect_broken(one, allocated(of_one, 512));
    expect_sentence("tarn_pool_reserve of 16384 bytes noticed it first");
    expect_broken(two, allocated(of_two, 4096));
    expect_sentence("tarn_malloc of 8192 bytes noticed it first");
    OK(tarn_capture_abort(one));
    OK(tarn_capture_abort(two));
    OK(tarn_free(of_one));
    OK(tarn_free(of_two));
    test_await_destructors(0);
    OK(tarn_pool_destroy(other));
}

TEST(calls, a_broken_capture_of_the_users_own_is_nobody_elses)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    void *block = test_malloc(512);

    test_begin_capture(world.side, TN_CU_CAPTURE_MODE_RELAXED);
    test_wait_outside(world.side);
    (void)notice(0, block, world.side);
    expect_sentence("is invalidated, so nothing can be allocated on it; end or abort");
    test_end_broken_capture(world.side);
    test_wait_outside(world.stream);
    expect_broken(capture, allocated(block, 512));
    expect_no_word("noticed");
    OK(tarn_capture_abort(capture));
    OK(tarn_free(block));
}

GROUP(ends, test_world_open, test_world_close)

TEST(ends, a_fork_that_was_not_joined_is_named_with_its_last_node)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *own = test_malloc(4096);
    void *forked;

    test_fill(world.stream, own, 1, 1);
    test_order(world.stream, world.side);
    forked = malloc_on(world.side, 4096);
    test_set_words(world.side, forked, 1, 1);
    test_fill(world.side, forked, 2, 1);
    test_fill(world.stream, own, 3, 1);
    for (int ends = 0; ends < 2; ends++) {
        expect_lost(capture, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED: a forked stream was not joined");
        expect_sentence("have the capturing stream wait for it before the end");
        expect_sentence("nothing comes behind node 3 of 4 (kernel 'tarn_test_fill');");
        (void)snprintf(
            words, sizeof words, "forked streams that allocated: 0x%llx (last block %llu); record",
            (unsigned long long)(uintptr_t)world.side, (unsigned long long)number_of(forked));
        expect_sentence(words);
    }
    OK(tarn_free(forked));
    OK(tarn_free(own));
    test_await_destructors(0);
    OK(tarn_device_trim(world.device, 0, NULL)); /* its hold has gone */
    expect_lost(capture, "nothing comes behind node 3 of 4");
    OK(tarn_capture_abort(capture));
}

/* Work that a program sets aside is no fork's, and the driver does not mind it. */
TEST(ends, forks_that_are_joined_end_as_they_did)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *forked;

    test_order(world.stream, world.side);
    forked = malloc_on(world.side, 4096);
    test_fill(world.side, forked, 2, 1);
    test_order(world.side, world.stream);
    OK(tarn_graph_destroy(test_capture_end(capture)));
    OK(tarn_free(forked));
}

/* A capture with a fork that allocates; joined or not. */
static tarn_capture *capture_fork(bool joined)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *forked;

    test_order(world.stream, world.side);
    forked = malloc_on(world.side, 4096);
    test_fill(world.side, forked, 2, 1);
    OK(tarn_free(forked));
    if (joined)
        test_order(world.side, world.stream);
    return capture;
}

TEST(ends, forks_are_looked_for_in_a_pools_first_captures)
{
    enum { LOOKS = 16 };
    uint64_t lists = 0;

    for (int i = 0; i < LOOKS + 1; i++) {
        tarn_capture *capture = capture_fork(true);
        uint64_t before = sim.call_count("cuGraphGetNodes");
        tarn_graph *graph = test_capture_end(capture);

        ck_assert_uint_eq(sim.call_count("cuGraphGetNodes") > before, i < LOOKS);
        lists += sim.call_count("cuGraphGetNodes") - before;
        OK(tarn_graph_destroy(graph));
    }
    ck_assert_uint_gt(lists, 0);
    for (int i = 0; i < 2; i++) { /* one that is refused has the next ones looked at */
        tarn_capture *capture = capture_fork(false);

        expect_lost(capture, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED");
        if (i == 0)
            expect_no_word("nothing comes behind");
        else
            expect_sentence("nothing comes behind node 1 of 1 (kernel 'tarn_test_fill')");
        OK(tarn_capture_abort(capture));
    }
}

TEST(ends, the_newest_node_is_that_of_the_captures_own_graph)
{
    tn_cu_graph target = test_graph();
    tarn_capture *capture = NULL;
    void *block = test_malloc(4096);

    OK(tarn_capture_begin(world.pool, world.stream,
                          CAPTURE_INTO(NULL, 0, target, TARN_CAPTURE_GLOBAL), &capture));
    test_set_words(world.stream, block, 1, 1);
    test_fill(world.stream, block, 1, 1);
    test_break_capture();
    REFUSE(TARN_ERR_CAPTURE_BROKEN, "its graph ends with node 2 of 2 (kernel 'tarn_test_fill')",
           tarn_capture_end(capture, NULL));
    OK(tarn_capture_abort(capture));
    OK(tarn_free(block));
}

TEST(ends, a_fork_that_nobody_knows_is_not_looked_for)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *block = test_malloc(4096);

    test_order(world.stream, world.side);
    test_fill(world.side, block, 2, 1);
    expect_lost(capture, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED");
    expect_no_word("node");
    expect_no_word("forked streams that");
    OK(tarn_capture_abort(capture));
    OK(tarn_free(block));
}

/* A graph of the world's pool; count: so many more of that pool. */
static tarn_graph *graph_beside(size_t count, tarn_graph *others[])
{
    for (size_t i = 0; i < count; i++)
        others[i] = test_capture_end(test_capture_begin(TARN_CAPTURE_RELAXED));
    return test_capture_end(test_capture_begin(TARN_CAPTURE_RELAXED));
}

GROUP(replays, test_world_open, test_world_close)

/* As the only graph, and as one of several, whose replays are ordered. */
TEST(replays, a_replay_into_a_capture_says_so_and_so_does_the_captures_end)
{
    for (size_t others = 0; others < 2; others++) {
        tarn_graph *other[1] = {NULL};
        tarn_graph *graph = graph_beside(others, other);
        tarn_pool *pool = test_pool("captured");
        tarn_capture *capture;
        void *block;

        OK(tarn_graph_replay(graph, world.side));
        capture = test_capture_on(pool, world.stream, TARN_CAPTURE_RELAXED);
        block = test_malloc(4096);
        STATUS(TARN_ERR_WRONG_STATE, tarn_graph_replay(graph, world.stream));
        expect_sentence("the stream is being captured by a tarn_capture,");
        expect_sentence("nest graphs as child nodes instead");
        ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_INVALIDATED);
        (void)notice(0, block, world.stream);
        expect_sentence("tarn_graph_replay was called on a stream of it");
        expect_broken(capture, allocated(block, 4096));
        expect_sentence("tarn_graph_replay was called on a stream of it, which breaks any capture");
        OK(tarn_capture_abort(capture));
        OK(tarn_free(block));
        OK(tarn_graph_destroy(graph));
        if (others > 0)
            OK(tarn_graph_destroy(other[0]));
        test_await_destructors(0);
        OK(tarn_pool_destroy(pool));
    }
}

TEST(replays, a_replay_on_a_threads_own_stream_is_seen_too)
{
    tarn_graph *graph = graph_beside(0, NULL);
    tarn_capture *capture =
        test_capture_on(world.pool, TN_CU_STREAM_PER_THREAD, TARN_CAPTURE_RELAXED);

    STATUS(TARN_ERR_WRONG_STATE, tarn_graph_replay(graph, TN_CU_STREAM_PER_THREAD));
    expect_sentence("by a tarn_capture");
    expect_broken(capture, "tarn_graph_replay was called on a stream of it");
    OK(tarn_capture_abort(capture));
    OK(tarn_graph_destroy(graph));
}

/* Where the driver says that the capture was broken before. */
TEST(replays, a_replay_into_a_broken_capture_has_noticed_it_and_not_broken_it)
{
    for (size_t others = 0; others < 3; others++) {
        tn_cu_stream stream = others == 2 ? TN_CU_STREAM_PER_THREAD : world.stream;
        tarn_graph *other[2];
        tarn_graph *graph = graph_beside(others, other);
        tarn_capture *capture = test_capture_on(world.pool, stream, TARN_CAPTURE_GLOBAL);

        test_break_capture();
        sim.plan_fault(others == 0 ? "cuGraphLaunch" : "cuStreamGetId", 1, 0,
                       TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        STATUS(TARN_ERR_DRIVER, tarn_graph_replay(graph, stream));
        expect_sentence(others == 0
                            ? "cuGraphLaunch answered CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
                            : "cuStreamGetId answered CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
        expect_broken(capture, "tarn_graph_replay noticed it first");
        OK(tarn_capture_abort(capture));
        OK(tarn_graph_destroy(graph));
        for (size_t i = 0; i < others; i++)
            OK(tarn_graph_destroy(other[i]));
    }
}

TEST(replays, a_replay_into_a_capture_of_the_users_own_blames_no_other)
{
    tarn_graph *graph = graph_beside(0, NULL);
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);

    test_begin_capture(world.side, TN_CU_CAPTURE_MODE_RELAXED);
    STATUS(TARN_ERR_WRONG_STATE, tarn_graph_replay(graph, world.side));
    expect_sentence("the stream is being captured");
    expect_no_word("tarn_capture");
    test_end_broken_capture(world.side);
    test_wait_outside(world.stream);
    expect_broken(capture, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
    expect_no_word("tarn_graph_replay");
    OK(tarn_capture_abort(capture));
    OK(tarn_graph_destroy(graph));
}

TEST(replays, a_launch_of_the_users_own_is_not_taken_for_a_replay)
{
    tarn_graph *graph = graph_beside(0, NULL);
    tarn_driver_exec exec = NULL;
    tarn_capture *capture;

    OK(tarn_graph_driver_handles(graph, NULL, &exec));
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    test_launch_into_capture(exec, world.stream);
    expect_broken(capture, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
    expect_no_word("replay");
    OK(tarn_capture_abort(capture));
    OK(tarn_graph_destroy(graph));
}

TEST(ends, what_the_driver_has_dropped_is_said_to_be)
{
    tn_cu_stream stream = test_stream();
    tarn_capture *capture = test_capture_on(world.pool, stream, TARN_CAPTURE_GLOBAL);

    test_destroy_stream(stream);
    test_await_destructors(0);
    expect_broken(capture, "the driver has dropped it, since its stream was destroyed");
    expect_no_word("INVALIDATED");
    OK(tarn_capture_abort(capture));
}

static void end_by_stranger(void *stream)
{
    ck_assert_ptr_null(test_try_end_capture(stream));
}

TEST(ends, an_end_by_the_wrong_thread_or_by_hand_is_said_to_have_been_elsewhere)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *block = test_malloc(4096);
    tn_cu_graph graph;

    test_elsewhere(end_by_stranger, world.stream);
    expect_broken(capture, "or it was ended elsewhere");
    OK(tarn_capture_abort(capture));
    OK(tarn_free(block));
    capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    block = test_malloc(4096);
    graph = test_end_capture(world.stream);
    expect_broken(capture, "the stream's capture was ended elsewhere");
    expect_sentence(allocated(block, 4096));
    test_destroy_graph(graph);
    OK(tarn_capture_abort(capture));
    OK(tarn_free(block));
}

TEST(ends, every_function_that_ends_a_capture_says_it)
{
    tarn_graph *graph = graph_beside(0, NULL);
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);

    test_wait_outside(world.stream);
    REFUSE(TARN_ERR_CAPTURE_BROKEN, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
           tarn_graph_update(graph, capture));
    OK(tarn_capture_abort(capture));
    OK(tarn_capture_begin(world.pool, world.stream,
                          CAPTURE_INTO(NULL, 0, test_graph(), TARN_CAPTURE_RELAXED), &capture));
    test_wait_outside(world.stream);
    REFUSE(TARN_ERR_CAPTURE_BROKEN, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
           tarn_capture_end(capture, NULL));
    OK(tarn_capture_abort(capture));
    OK(tarn_graph_destroy(graph));
}
