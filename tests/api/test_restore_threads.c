// SPDX-License-Identifier: Apache-2.0
/* Restores beside another thread that uses the pool: one that restores, too, on a stream of its own, over and over; and
 * one that keeps freeing memory which the checkpoint needs. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "support/world.h"

#if defined(__SANITIZE_THREAD__)
enum { ROUNDS = 6 }; /* each takes it some seconds */
#else
enum { ROUNDS = 30 };
#endif
enum { BLOCKS = 4, WORDS = 1 << 20, STEP = 4093 };

static tarn_checkpoint *checkpoints[2];
static tn_cu_stream streams[2];
static uint32_t *blocks[BLOCKS];
static pthread_barrier_t barrier;

static void *restore(void *argument)
{
    size_t i = (size_t)(uintptr_t)argument;

    (void)pthread_barrier_wait(&barrier);
    return (void *)(uintptr_t)tarn_checkpoint_restore(checkpoints[i], streams[i], NULL);
}

static void restore_both(void)
{
    pthread_t threads[2];

    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, restore, (void *)(uintptr_t)i), 0);
    for (size_t i = 0; i < 2; i++) {
        void *status;

        ck_assert_int_eq(pthread_join(threads[i], &status), 0);
        OK((tarn_status)(uintptr_t)status);
        test_synchronize(streams[i]);
    }
}

SUITE("restore threads")
GROUP(threads, test_world_open, test_world_close, .timeout = 120)

/* Blocks of both streams; each checkpoint has one word throughout. */
TEST(threads, the_pool_has_the_bytes_of_one_of_them)
{
    streams[0] = world.stream;
    streams[1] = world.side;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = test_alloc(world.pool, sizeof(uint32_t) * WORDS, streams[i % 2]);
    for (uint32_t i = 0; i < 2; i++) {
        for (int block = 0; block < BLOCKS; block++)
            test_fill(world.stream, blocks[block], i + 1, WORDS);
        test_synchronize(world.stream);
        OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoints[i]));
        test_synchronize(world.stream);
    }
    ck_assert_int_eq(pthread_barrier_init(&barrier, NULL, 2), 0);
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t expected;

        test_spin(streams[0], 20); /* both wait for it */
        restore_both();
        expected = test_read(world.stream, blocks[0]);
        for (int i = 0; i < BLOCKS; i++) {
            for (int at = 0; at < WORDS; at += STEP)
                ck_assert_uint_eq(test_read(world.stream, blocks[i] + at), expected);
        }
    }
    for (size_t i = 0; i < 2; i++)
        OK(tarn_checkpoint_destroy(checkpoints[i]));
    for (int i = 0; i < BLOCKS; i++)
        OK(tarn_free(blocks[i]));
}

static atomic_bool is_over;
static atomic_int restored;

enum { AHEAD = 3 };
static tn_cu_stream gates[AHEAD]; /* each behind one of the latest restores */

/* Its stream is busy at any time, so its copies are never proven to be over; and no more than some restores behind. */
static void *restore_over_and_over(void *context)
{
    const struct timespec pause = {0, 1000000};

    test_set_context(context);
    for (int i = 0; !atomic_load(&is_over); i = (i + 1) % AHEAD) {
        test_synchronize(gates[i]);
        test_spin(streams[0], 4);
        OK(tarn_checkpoint_restore(checkpoints[0], streams[0], NULL));
        test_order(streams[0], gates[i]);
        atomic_fetch_add(&restored, 1);
        (void)nanosleep(&pause, NULL);
    }
    test_synchronize(streams[0]);
    return NULL;
}

/* A device that is waited for would be busy with the next copies each time. */
TEST(threads, a_restore_comes_through_beside_one_that_restores_all_the_time)
{
    enum { RESTORES = 3 };
    int64_t deadline = test_deadline();
    uint32_t *block = test_alloc(world.pool, sizeof(uint32_t) * WORDS, world.stream);
    pthread_t thread;

    streams[0] = world.stream;
    streams[1] = world.side;
    for (uint32_t i = 0; i < 2; i++) {
        test_fill(world.stream, block, i + 1, WORDS);
        test_synchronize(world.stream);
        OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoints[i]));
        test_synchronize(world.stream);
    }
    for (int i = 0; i < AHEAD; i++)
        gates[i] = test_stream();
    ck_assert_int_eq(pthread_create(&thread, NULL, restore_over_and_over, test_context()), 0);
    while (atomic_load(&restored) < RESTORES && test_pause(deadline))
        continue;
    for (int i = 0; i < RESTORES; i++)
        OK(tarn_checkpoint_restore(checkpoints[1], streams[1], NULL));
    atomic_store(&is_over, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    for (int i = 0; i < AHEAD; i++)
        test_destroy_stream(gates[i]);
    test_synchronize(streams[1]);
    for (size_t i = 0; i < 2; i++)
        OK(tarn_checkpoint_destroy(checkpoints[i]));
    OK(tarn_free(block));
}

static int64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* The other thread may have freed what is there now, or a restore. */
static void free_if_there(void *block)
{
    tarn_status status = tarn_free(block);

    ck_assert_int_eq(status == TARN_ERR_DOUBLE_FREE ? TARN_OK : status, TARN_OK);
}

/* Its stream is busy for longer than it takes to say so anew, and it frees memory all the while. */
static void *free_over_and_over(void *unused)
{
    enum { SPIN_MS = 4, LOOP_US = 3000 };

    (void)unused;
    while (!atomic_load(&is_over)) {
        int64_t begun = now_us();

        test_spin(world.side, SPIN_MS);
        while (now_us() < begun + LOOP_US) {
            void *block = NULL;

            OK(tarn_pool_malloc(world.pool, 2 * MIB, 0, world.side, &block));
            free_if_there(block);
        }
    }
    test_synchronize(world.side);
    return NULL;
}

/* Each wait for the device is too late by the time that it ends, where that thread runs meanwhile. */
TEST(threads, a_restore_gives_up_where_what_it_needs_is_freed_all_the_time)
{
    int64_t deadline = test_deadline();
    tarn_status status = TARN_OK;
    tarn_checkpoint *checkpoint;
    pthread_t thread;
    void *block = test_alloc(world.pool, 2 * MIB, world.side);

    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, NULL, &checkpoint));
    OK(tarn_free(block));
    ck_assert_int_eq(pthread_create(&thread, NULL, free_over_and_over, NULL), 0);
    while (status != TARN_ERR_BUSY && test_pause(deadline)) {
        status = tarn_checkpoint_restore(checkpoint, world.stream, NULL);
        test_note_status("tarn_checkpoint_restore", status, tarn_last_error());
        if (status == TARN_OK)
            free_if_there(block); /* it came through: once more */
    }
    atomic_store(&is_over, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(status, TARN_ERR_BUSY);
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* The copies of the restore come late, on another stream. _i: where the contents are of the first checkpoint, and of the
 * second. */
TEST_LOOP(threads, a_take_has_the_bytes_that_a_restore_before_it_copies, 0, 8)
{
    const tarn_contents first = _i % 2 == 0 ? TARN_CONTENTS_DEVICE : TARN_CONTENTS_HOST;
    const tarn_contents second = _i / 2 % 2 == 0 ? TARN_CONTENTS_DEVICE : TARN_CONTENTS_HOST;
    const bool goes = _i / 4 != 0; /* the first, and the event behind its copies with it */
    void *block = test_alloc(world.pool, MIB, world.side); /* so the restore does not wait */
    tarn_checkpoint *before;
    tarn_checkpoint *behind;

    for (uint32_t round = 0; round < 4; round++) {
        test_fill(world.side, block, 1, 1000);
        OK(tarn_checkpoint_take(world.pool, first, world.side, &before));
        test_fill(world.side, block, 2, 1000);
        test_synchronize(world.side);
        test_spin(world.side, 20);
        OK(tarn_checkpoint_restore(before, world.side, NULL));
        if (goes)
            OK(tarn_checkpoint_destroy(before));
        OK(tarn_checkpoint_take(world.pool, second, world.stream, &behind));
        test_synchronize(world.stream);
        test_synchronize(world.side);
        test_fill(world.stream, block, 3, 1000);
        OK(tarn_checkpoint_restore(behind, world.stream, NULL));
        ck_assert_uint_eq(test_read(world.stream, block), 1);
        OK(tarn_checkpoint_destroy(behind));
        if (!goes)
            OK(tarn_checkpoint_destroy(before));
    }
    OK(tarn_free(block));
}
