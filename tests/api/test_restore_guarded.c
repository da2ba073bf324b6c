// SPDX-License-Identifier: Apache-2.0
/* Restores beside replays of guarded graphs of other pools, which refer to blocks that the restore writes, frees or has
 * others come back over. A replay that was launched before the restore reads what was there then; one that is launched
 * later reads what the restore has put there. */
#include <pthread.h>
#include <stdatomic.h>

#include "support/world.h"

enum { WORDS = 1 << 14, BYTES = WORDS * 4, SAVED = 7, ROUNDS = 40 };

static tarn_pool *weights;
static uint32_t *input;  /* of the weights' pool */
static uint32_t *output; /* of the default pool */
static tarn_checkpoint *checkpoint;
static tarn_graph *graph;

static void make_weights(void)
{
    weights = test_pool("weights");
    input = test_alloc(weights, BYTES, world.stream);
    output = test_alloc(world.default_pool, BYTES, world.stream);
    test_fill(world.stream, input, SAVED, WORDS);
    OK(tarn_checkpoint_take(weights, TARN_CONTENTS_DEVICE, world.stream, &checkpoint));
    test_synchronize(world.stream);
}

static void open_weights(void)
{
    test_world_open();
    make_weights();
}

/* A history wants the stream id of each replay. */
static void open_unrecorded_weights(void)
{
    test_world_open_unrecorded();
    make_weights();
}

/* What is left of the input goes with its pool. */
static void close_weights(void)
{
    OK(tarn_graph_destroy(graph));
    graph = NULL;
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_pool_validate(weights));
    if (test_stats(weights).live_count > 0)
        OK(tarn_free(input));
    OK(tarn_free(output));
    test_wait_for_all();
    OK(tarn_pool_destroy(weights));
    test_world_close();
}

/* A copy of the input, after a while. */
static tarn_graph *make_graph_to(tarn_pool *pool, tarn_guard guard, void *to)
{
    tarn_capture *capture = test_capture_on(pool, world.side, TARN_CAPTURE_THREAD_LOCAL);
    tarn_graph *made;
    void *temporary;

    OK(tarn_malloc(world.device, BYTES, world.side, &temporary));
    test_spin(world.side, 2);
    test_copy(world.side, temporary, input, BYTES);
    test_copy(world.side, to, temporary, BYTES);
    OK(tarn_free(temporary));
    made = test_capture_end(capture);
    OK(tarn_graph_guard(made, guard, NULL));
    return made;
}

static tarn_graph *make_graph_in(tarn_pool *pool, tarn_guard guard)
{
    return make_graph_to(pool, guard, output);
}

static void make_graph(tarn_guard guard)
{
    graph = make_graph_in(world.pool, guard);
}

/* The input has that value, and a replay that is to read it does not run yet. */
static void replay_late(uint32_t value)
{
    test_fill(world.side, input, value, WORDS);
    test_synchronize(world.side);
    test_hold_until_waited();
    OK(tarn_graph_replay(graph, world.side));
}

static void expect_read(uint32_t value)
{
    test_synchronize(world.side);
    test_expect_words(world.side, output, value, WORDS);
}

static void restore(void)
{
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
}

static void expect_restored(void)
{
    test_expect_words(world.stream, input, SAVED, WORDS);
}

static const tarn_guard guards[] = {TARN_GUARD_KEEP, TARN_GUARD_REFUSE};

SUITE("restores beside guarded graphs")
GROUP(guarded, open_weights, close_weights)

TEST_LOOP(guarded, no_replay_reads_the_restored_bytes_of_a_live_block, 0, 2)
{
    make_graph(guards[_i]);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        replay_late(100 + round);
        restore();
        expect_read(100 + round);
        expect_restored();
    }
}

/* The restore copies long after the call; a replay on another stream comes behind. */
static void restore_late(void)
{
    test_spin(world.stream, 30);
    restore();
}

/* _i / 2: whether the pool has another graph. Then launches leave events, and the restore waits for nothing. */
TEST_LOOP(guarded, a_replay_after_a_restore_reads_the_restored_bytes, 0, 4)
{
    tarn_graph *second = _i / 2 == 1 ? make_graph_in(world.pool, TARN_GUARD_IGNORE) : NULL;

    make_graph(guards[_i % 2]);
    for (uint32_t round = 0; round < 3; round++) {
        test_fill(world.side, input, 100 + round, WORDS);
        OK(tarn_graph_replay(graph, world.side));
        test_synchronize(world.side);
        restore_late();
        OK(tarn_graph_replay(graph, world.side));
        expect_read(SAVED);
        OK(tarn_graph_replay(graph, world.stream));
        test_synchronize(world.stream);
    }
    OK(tarn_graph_destroy(second));
}

/* It reads from where the block was, which comes back under the same number. */
TEST_LOOP(guarded, no_replay_reads_what_comes_back_in_freed_memory, 0, 2)
{
    make_graph(guards[_i]);
    replay_late(1);
    OK(tarn_free(input));
    restore();
    expect_read(1);
    expect_restored();
    STATUS(TARN_ERR_STALE, tarn_graph_replay(graph, world.side));
}

/* Another block lies there, which the restore frees. */
TEST_LOOP(guarded, no_replay_reads_what_comes_back_under_a_block_that_goes, 0, 2)
{
    void *gone = input;

    OK(tarn_free(input));
    input = test_alloc(weights, BYTES, world.stream);
    ck_assert_ptr_eq(input, gone);
    make_graph(guards[_i]);
    replay_late(2);
    restore();
    expect_read(2);
    expect_restored();
    STATUS(TARN_ERR_STALE, tarn_graph_replay(graph, world.side));
}

/* Freed by the restore, its memory is its stream's at once. */
TEST(guarded, no_replay_reads_the_next_use_of_what_a_restore_frees)
{
    tarn_checkpoint *empty = NULL;
    uint32_t *next;

    OK(tarn_free(input));
    OK(tarn_checkpoint_take(weights, TARN_CONTENTS_NONE, world.stream, &empty));
    input = test_alloc(weights, BYTES, world.stream);
    make_graph(TARN_GUARD_REFUSE);
    replay_late(3);
    OK(tarn_checkpoint_restore(empty, world.stream, NULL));
    next = test_alloc(weights, BYTES, world.stream);
    ck_assert_ptr_eq(next, input);
    test_fill(world.stream, next, 4, WORDS);
    expect_read(3);
    STATUS(TARN_ERR_STALE, tarn_graph_replay(graph, world.side));
    OK(tarn_checkpoint_destroy(empty));
}

static void destroy_graph(void)
{
    OK(tarn_graph_destroy(graph));
    graph = NULL;
}

static void end_guard(void)
{
    OK(tarn_graph_guard(graph, TARN_GUARD_IGNORE, NULL));
}

static void guard_otherwise(void)
{
    OK(tarn_graph_guard(graph, TARN_GUARD_KEEP, NULL));
    end_guard();
}

/* The new section has no such input. */
static void update_graph(void)
{
    tarn_capture *capture = test_capture_on(world.pool, world.side, TARN_CAPTURE_THREAD_LOCAL);
    void *temporary;

    OK(tarn_malloc(world.device, BYTES, world.side, &temporary));
    test_spin(world.side, 1);
    test_copy(world.side, temporary, output, BYTES);
    test_copy(world.side, temporary, output, BYTES);
    OK(tarn_free(temporary));
    OK(tarn_graph_update(graph, capture));
}

static void (*const ends[])(void) = {destroy_graph, end_guard, guard_otherwise, update_graph};

TEST_LOOP(guarded, a_guard_that_ended_leaves_a_replay_that_is_waited_for, 0, 4)
{
    make_graph(TARN_GUARD_REFUSE);
    replay_late(5);
    ends[_i]();
    restore();
    test_expect_words(world.side, output, 5, WORDS);
    expect_restored();
}

/* Where the order is known, nothing is waited for: neither behind a replay on the restore's own stream, nor behind one for
 * which an event stands. */
TEST_LOOP(guarded, a_restore_waits_for_no_replay_that_it_is_ordered_behind, 0, 2)
{
    tarn_graph *second;
    uint64_t waits;

    make_graph(TARN_GUARD_REFUSE);
    second = make_graph_in(world.pool, TARN_GUARD_REFUSE); /* so replays are ordered */
    for (int round = 0; round < 2; round++) { /* replays that change streams record events */
        OK(tarn_graph_replay(graph, world.side));
        OK(tarn_graph_replay(second, world.stream));
    }
    test_synchronize(world.stream);
    test_fill(world.stream, input, 6, WORDS);
    test_synchronize(world.stream);
    sim.hold_work();
    waits = sim.call_count("cuMemFree");
    OK(tarn_graph_replay(graph, _i == 0 ? world.side : world.stream));
    restore();
    ck_assert_uint_eq(sim.call_count("cuMemFree"), waits);
    sim.resume_work();
    test_synchronize(world.stream);
    expect_read(6);
    expect_restored();
    OK(tarn_graph_destroy(second));
}

/* A graph of two pools' blocks, and another pool's graph of one of them. */
TEST(guarded, graphs_of_several_pools_are_waited_for)
{
    tarn_pool *other = test_pool("other");
    tarn_graph *second;
    uint32_t *first_output = output;
    uint32_t *second_output = test_alloc(world.default_pool, BYTES, world.stream);
    tn_cu_stream third = test_stream();

    make_graph(TARN_GUARD_REFUSE);
    output = second_output;
    second = make_graph_in(other, TARN_GUARD_KEEP);
    output = first_output;
    for (uint32_t round = 0; round < 3; round++) {
        test_fill(world.side, input, round, WORDS);
        test_synchronize(world.side);
        test_hold_until_waited();
        OK(tarn_graph_replay(graph, world.side));
        OK(tarn_graph_replay(second, third));
        restore_late();
        expect_read(round);
        test_synchronize(third);
        test_expect_words(third, second_output, round, WORDS);
        OK(tarn_graph_replay(second, third));
        OK(tarn_graph_replay(graph, world.side));
        expect_read(SAVED);
        test_synchronize(third);
        test_expect_words(third, second_output, SAVED, WORDS);
    }
    OK(tarn_graph_destroy(second));
    OK(tarn_free(second_output));
    test_wait_for_all();
    OK(tarn_pool_destroy(other));
    test_destroy_stream(third);
}

/* A pool that refuses a change of streams has but this graph. */
TEST(guarded, a_pool_that_refuses_other_streams_comes_behind_a_restore)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tn_cu_stream third = test_stream();
    tarn_pool *strict;
    tarn_graph *own;

    options.replay_order = TARN_REPLAY_REFUSED;
    strict = test_pool_with(&options);
    own = make_graph_in(strict, TARN_GUARD_REFUSE);
    test_fill(world.side, input, 8, WORDS);
    OK(tarn_graph_replay(own, world.side));
    test_synchronize(world.side);
    restore();
    OK(tarn_graph_replay(own, world.side));
    test_synchronize(world.side);
    restore_late();
    OK(tarn_graph_replay(own, third));
    test_synchronize(third);
    test_expect_words(third, output, SAVED, WORDS);
    OK(tarn_graph_destroy(own));
    test_destroy_stream(third);
    test_wait_for_all();
    OK(tarn_pool_destroy(strict));
}

static atomic_bool is_over;
static atomic_uint torn;
static atomic_uint replays;

static void *replay_over_and_over(void *unused)
{
    static uint32_t words[WORDS];

    while (!atomic_load(&is_over)) {
        OK(tarn_graph_replay(graph, world.side));
        test_synchronize(world.side);
        test_read_bytes(world.side, words, output, BYTES);
        for (size_t i = 1; i < WORDS; i++)
            atomic_fetch_add(&torn, words[i] != words[0]);
        atomic_fetch_add(&replays, 1);
    }
    return unused;
}

/* Each replay reads what one restore has put there, or another, and no mixture. */
TEST(guarded, replays_of_another_thread_read_whole_restores)
{
    tarn_checkpoint *checkpoints[2] = {checkpoint, NULL};
    pthread_t thread;
    int64_t deadline = test_deadline();

    test_fill(world.stream, input, SAVED + 1, WORDS);
    OK(tarn_checkpoint_take(weights, TARN_CONTENTS_DEVICE, world.stream, &checkpoints[1]));
    test_synchronize(world.stream);
    make_graph(TARN_GUARD_REFUSE);
    ck_assert_int_eq(pthread_create(&thread, NULL, replay_over_and_over, NULL), 0);
    for (int round = 0; round < 100 || atomic_load(&replays) < 20; round++) {
        OK(tarn_checkpoint_restore(checkpoints[round % 2], world.stream, NULL));
        ck_assert(round % 50 != 49 || test_pause(deadline));
    }
    atomic_store(&is_over, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(atomic_load(&torn), 0);
    test_synchronize(world.stream);
    OK(tarn_checkpoint_destroy(checkpoints[1]));
}

enum { POOLS = 3 };

struct replayer {
    tarn_graph *graph;
    tn_cu_stream stream;
};

static void *replay_two_at_a_time(void *argument)
{
    const struct replayer *replayer = argument;

    while (!atomic_load(&is_over)) {
        OK(tarn_graph_replay(replayer->graph, replayer->stream));
        OK(tarn_graph_replay(replayer->graph, replayer->stream));
        if (atomic_fetch_add(&replays, 1) % 3 == 0)
            test_synchronize(replayer->stream);
    }
    return NULL;
}

/* Each pool's only graph is launched without an order while no restore asks for one. */
TEST_LOOP(guarded, a_restore_is_never_outrun_by_replays_of_several_pools, 0, 2)
{
    struct replayer replayers[POOLS];
    tarn_pool *pools[POOLS];
    void *outputs[POOLS];
    pthread_t threads[POOLS];
    int64_t deadline = test_deadline();

    for (int i = 0; i < POOLS; i++) {
        pools[i] = test_pool("replays");
        outputs[i] = test_alloc(world.default_pool, BYTES, world.stream);
        replayers[i] =
            (struct replayer){make_graph_to(pools[i], guards[_i], outputs[i]), test_stream()};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, replay_two_at_a_time, &replayers[i]), 0);
    }
    for (int round = 0; round < 60; round++) {
        OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
        if (round % 3 == 0)
            test_synchronize(world.stream);
        ck_assert(test_pause(deadline));
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < POOLS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    test_wait_for_all();
    for (int i = 0; i < POOLS; i++) {
        OK(tarn_graph_destroy(replayers[i].graph));
        test_destroy_stream(replayers[i].stream);
        OK(tarn_free(outputs[i]));
        OK(tarn_pool_destroy(pools[i]));
    }
}

static uint64_t count_ids(void)
{
    return sim.call_count("cuStreamGetId");
}

GROUP(unrecorded, open_unrecorded_weights, close_weights)

/* The order lasts until the next replay, if that is the pool's only graph's. */
TEST(unrecorded, afterwards_the_only_graph_is_launched_without_an_order)
{
    uint64_t before;

    make_graph(TARN_GUARD_REFUSE);
    restore_late();
    OK(tarn_graph_replay(graph, world.side));
    before = count_ids();
    OK(tarn_graph_replay(graph, world.side));
    OK(tarn_graph_replay(graph, world.stream));
    ck_assert_uint_eq(count_ids(), before);
    test_synchronize(world.stream);
    expect_read(SAVED);
}
