// SPDX-License-Identifier: Apache-2.0
/* Two threads restore two checkpoints of one pool: the other one's restore comes while the first one waits. */
#include "pools/arenas.h"
#include "pools/handover.h"
#include "support/world.h"
#include "unit/one_pool.h"

enum { WORDS = 1024, SPIN_MS = 300 };

static tarn_checkpoint *first;
static tarn_checkpoint *second;
static void *address;
static bool overtaken;
static int waits;

/* The other thread: its copies begin late. */
static void restore_first(void)
{
    test_spin(other, SPIN_MS);
    OK(tn_checkpoint_restore(first, other, NULL));
}

static void (*meanwhile)(void); /* what it does during the wait */

tarn_status __real_tn_gpu_wait_idle(struct tn_gpu *gpu);
tarn_status __wrap_tn_gpu_wait_idle(struct tn_gpu *gpu);
tarn_status __wrap_tn_gpu_wait_idle(struct tn_gpu *gpu)
{
    tarn_status status = __real_tn_gpu_wait_idle(gpu);

    waits += 1;
    if (overtaken) {
        overtaken = false;
        meanwhile();
    }
    return status;
}

static void set_up(void)
{
    make_pool();
    meanwhile = restore_first;
}

static void restore_second(bool is_overtaken)
{
    overtaken = is_overtaken;
    if (!is_overtaken)
        restore_first();
    OK(tn_checkpoint_restore(second, stream, NULL));
    ck_assert(!overtaken);
    test_synchronize(other);
    test_synchronize(stream);
    unit_expect_live_set(pool, second);
    OK(tarn_pool_validate(pool));
    test_expect_words(stream, address, 2, WORDS);
}

static void take(tn_cu_stream on, uint32_t word, tarn_checkpoint **checkpoint)
{
    test_fill(on, address, word, WORDS);
    OK(tn_checkpoint_take(pool, TARN_CONTENTS_DEVICE, on, checkpoint));
    test_synchronize(on);
}

SUITE("restore concurrent")
GROUP(copies, set_up)

/* The block is in both checkpoints, and keeps its number. */
TEST_LOOP(copies, copies_into_a_block_that_stays_are_waited_for, 0, 2)
{
    address = unit_alloc(pool, 4096, other);
    take(other, 1, &first);
    take(other, 2, &second);
    restore_second(_i != 0);
}

/* The second checkpoint has another block there, of the second stream; neither is live now. What the second restore waits
 * for at first is a block of the other stream that both have. */
TEST_LOOP(copies, copies_into_a_block_that_came_back_are_waited_for, 0, 2)
{
    (void)unit_alloc(pool, 4096, other);
    address = unit_alloc(pool, 2 * MIB, other);
    take(other, 1, &first);
    OK(tarn_free(address));
    OK(__real_tn_gpu_wait_idle(&device->gpu));
    tn_pool_lock(pool);
    (void)tn_arenas_give_idle(pool);
    tn_pool_unlock(pool);
    ck_assert_ptr_eq(unit_alloc(pool, 2 * MIB, stream), address);
    take(stream, 2, &second);
    OK(tarn_free(address));
    OK(__real_tn_gpu_wait_idle(&device->gpu));
    restore_second(_i != 0);
}

/* Nothing is written, but what is freed would be its own stream's at once. */
TEST(copies, copies_into_a_block_that_is_freed_are_waited_for)
{
    void *again;

    OK(tn_checkpoint_take(pool, TARN_CONTENTS_NONE, NULL, &second)); /* of nothing */
    address = unit_alloc(pool, 4096, other);
    take(other, 1, &first);
    OK(tarn_free(address));
    OK(__real_tn_gpu_wait_idle(&device->gpu)); /* so the first one waits for nothing */
    test_spin(stream, SPIN_MS);
    OK(tn_checkpoint_restore(first, stream, NULL));
    OK(tn_checkpoint_restore(second, other, NULL));
    again = unit_alloc(pool, 4096, other);
    ck_assert_ptr_eq(again, address);
    test_fill(other, again, 3, WORDS);
    test_synchronize(other);
    test_synchronize(stream);
    test_expect_words(other, again, 3, WORDS);
}

/* The wait for the event comes first of what is enqueued, and may fail. */
TEST(copies, a_restore_that_cannot_follow_changes_nothing)
{
    struct tn_block *block;

    address = unit_alloc(pool, 4096, stream);
    take(stream, 1, &first);
    take(stream, 2, &second);
    OK(tarn_free(address));
    OK(__real_tn_gpu_wait_idle(&device->gpu));
    restore_first();
    OK(tarn_free(unit_alloc(pool, 4096, stream)));
    block = unit_block(address);
    sim.plan_fault("cuStreamWaitEvent", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    ck_assert_int_eq(tn_checkpoint_restore(second, stream, NULL), TARN_ERR_DRIVER);
    ck_assert_uint_eq(sim.clear_fault(NULL), 1);
    ck_assert_ptr_eq(unit_block(address), block);
    unit_expect_live_set(pool, first);
    OK(tarn_pool_validate(pool));
    test_synchronize(other);
    test_expect_words(stream, address, 1, WORDS);
    OK(tn_checkpoint_restore(second, stream, NULL));
    test_synchronize(stream);
    test_expect_words(stream, address, 2, WORDS);
}

/* Of one checkpoint, on two streams in turn: one wait for its event is enough. */
TEST(copies, copies_of_the_same_checkpoint_are_followed_once)
{
    address = unit_alloc(pool, 4096, stream);
    take(stream, 1, &first);
    OK(tarn_free(address));
    OK(__real_tn_gpu_wait_idle(&device->gpu));
    restore_first();
    sim.plan_fault("cuStreamWaitEvent", 2, 0, TN_CUDA_ERROR_UNKNOWN); /* a second one would fail */
    OK(tn_checkpoint_restore(first, stream, NULL));
    ck_assert_uint_eq(sim.clear_fault(NULL), 0);
    test_synchronize(stream);
    test_expect_words(stream, address, 1, WORDS);
}

/* Frees the block, writes to another one there, and restores that away: on the stream that all of it is of, so that
 * nobody waits. */
static void use_and_revive(void)
{
    OK(tarn_free(address));
    ck_assert_ptr_eq(unit_alloc(pool, 4096, other), address);
    test_spin(other, SPIN_MS);
    test_fill(other, address, 3, WORDS);
    OK(tn_checkpoint_restore(first, other, NULL));
}

/* It has the number that it had before the wait. */
TEST(copies, a_block_that_was_freed_and_revived_during_the_wait_is_waited_for)
{
    address = unit_alloc(pool, 4096, other);
    take(other, 2, &second);
    OK(tn_checkpoint_take(pool, TARN_CONTENTS_NONE, NULL, &first));
    meanwhile = use_and_revive;
    restore_second(true);
}

/* Freed where the block is, which says nothing of the block. */
static void free_beside(void)
{
    OK(tarn_free(unit_alloc(pool, 4096, other)));
}

TEST(copies, a_free_beside_a_block_that_stays_is_not_waited_for)
{
    address = unit_alloc(pool, 4096, other);
    take(other, 2, &second);
    meanwhile = free_beside;
    waits = 0;
    restore_second(true);
    ck_assert_int_eq(waits, 1);
}

/* With the checkpoint its event is gone: the device is waited for. */
TEST(copies, copies_of_a_checkpoint_that_is_gone_are_waited_for)
{
    address = unit_alloc(pool, 4096, stream);
    take(stream, 1, &first);
    take(stream, 2, &second);
    OK(tarn_free(address));
    OK(__real_tn_gpu_wait_idle(&device->gpu)); /* so the first one waits for nothing */
    restore_first();
    tn_checkpoint_destroy(first);
    OK(tn_checkpoint_restore(second, stream, NULL));
    test_synchronize(stream);
    test_synchronize(other);
    test_expect_words(stream, address, 2, WORDS);
}

/* The event cannot be used: the legacy stream would break the capture of a blocking one, and that is none of the
 * pool's. */
TEST_LOOP(copies, copies_are_waited_for_where_an_event_would_break_a_capture, 0, 2)
{
    tarn_pool *captured_pool = unit_pool_of(device, "captured", 0);
    tn_cu_stream blocking = test_blocking_stream();
    tarn_capture *capture;

    address = unit_alloc(pool, 4096, stream);
    take(stream, 1, &first);
    OK(tn_checkpoint_take(pool, TARN_CONTENTS_NONE, NULL, &second));
    OK(tarn_free(address));
    OK(__real_tn_gpu_wait_idle(&device->gpu)); /* so the first one waits for nothing */
    restore_first();
    OK(tarn_free(unit_alloc(pool, 4096, stream)));
    (void)unit_alloc(pool, 4096, stream); /* to be freed */
    capture = test_capture_on(captured_pool, blocking, TARN_CAPTURE_RELAXED);
    waits = 0;
    OK(tn_checkpoint_restore(second, _i == 0 ? NULL : TN_CU_STREAM_LEGACY, NULL));
    ck_assert_int_eq(waits, 1);
    ck_assert_int_eq(test_capture_status(blocking), TN_CU_CAPTURE_STATUS_ACTIVE);
    unit_expect_live_set(pool, second);
    test_expect_words(stream, address, 1, WORDS);
    OK(tarn_graph_destroy(test_capture_end(capture)));
}

/* Elsewhere it can be. */
TEST(copies, copies_are_followed_on_the_legacy_stream_beside_no_capture)
{
    address = unit_alloc(pool, 4096, stream);
    take(stream, 1, &first);
    OK(tn_checkpoint_take(pool, TARN_CONTENTS_NONE, NULL, &second));
    OK(tarn_free(address));
    OK(__real_tn_gpu_wait_idle(&device->gpu));
    restore_first();
    (void)unit_alloc(pool, 4096, NULL);
    waits = 0;
    OK(tn_checkpoint_restore(second, NULL, NULL));
    ck_assert_int_eq(waits, 0);
    test_synchronize(NULL);
    test_expect_words(stream, address, 1, WORDS);
}
