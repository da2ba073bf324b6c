// SPDX-License-Identifier: Apache-2.0
/* Takes with contents: whose memory the live bytes outgrow, and which fail behind their kernels. */
#include "driver/idle.h"
#include "pools/staging.h"
#include "support/world.h"
#include "unit/contents.h"

static void *victim;
static void *small_block;
static void *large_block;

/* While memory is taken for the second time, the bytes that are live become 64 times as many, of as many blocks. */
static void make_larger(void)
{
    if (rooms != 2)
        return;
    OK(tarn_free(small_block));
    large_block = unit_alloc(pool, MIB, stream);
    test_fill(stream, large_block, 5, MIB / 4);
}

static void free_then_make_larger(void)
{
    if (victim != NULL)
        OK(tarn_free(victim)); /* so that a second try comes */
    victim = NULL;
    make_larger();
}

GROUP(take, set_up)

/* _i: where the contents are. Each place has to have room for the bytes, not only for the tables. */
TEST_LOOP(take, bytes_that_grow_while_memory_is_taken_have_room, TARN_CONTENTS_DEVICE,
          TARN_CONTENTS_HOST + 1)
{
    tarn_checkpoint *checkpoint;
    uint64_t saved_bytes;

    small_block = unit_alloc(pool, 4096, stream);
    victim = unit_alloc(pool, 4096, stream);
    meanwhile = free_then_make_larger;
    OK(tn_checkpoint_take(pool, (tarn_contents)_i, stream, &checkpoint));
    meanwhile = NULL;
    ck_assert_int_eq(rooms, 3);
    ck_assert_uint_eq(checkpoint->block_count, 1);
    saved_bytes = _i == TARN_CONTENTS_HOST ? checkpoint->pinned->bytes : checkpoint->contents_bytes;
    ck_assert_uint_ge(saved_bytes, MIB + sizeof(struct tn_contents_item));
    OK(tn_checkpoint_verify(checkpoint, stream));
    test_fill(stream, large_block, 6, MIB / 4);
    OK(tn_checkpoint_restore(checkpoint, stream, NULL));
    test_expect_words(stream, large_block, 5, MIB / 4);
    tn_checkpoint_destroy(checkpoint);
}

/* A take whose last call the driver refuses: the kernels before that run, and the pool is to know of them without the
 * checkpoint, whose record another pool's gets. */
TEST_LOOP(take, a_take_that_fails_behind_its_kernels_is_waited_for, 0, 2)
{
    tarn_pool *second = unit_pool_of(device, "second", 0);
    void *address = unit_alloc(pool, 4096, stream);
    tarn_checkpoint *first;
    tarn_checkpoint *failed = NULL;
    tarn_checkpoint *foreign;
    uint64_t waits;
    uint64_t follows;

    test_fill(stream, address, 1, 1024);
    first = take();
    test_synchronize(stream);
    OK(tn_gpu_wait_idle(&device->gpu));
    sim.plan_fault(_i == 0 ? "cuEventRecord" : "cuLaunchKernel", _i == 0 ? 1 : 2, 0,
                   TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_checkpoint_take(pool, TARN_CONTENTS_DEVICE, stream, &failed));
    ck_assert_uint_eq(sim.clear_fault(NULL), 1);
    ck_assert_ptr_null(failed);
    ck_assert_ptr_null(pool->copies.saver);
    (void)unit_alloc(second, 4096, other);
    OK(tn_checkpoint_take(second, TARN_CONTENTS_DEVICE, other, &foreign));
    test_fill(stream, address, 2, 1024);
    waits = atomic_load(&device->gpu.calls[TN_CALL_WAIT]);
    follows = sim.call_count("cuStreamWaitEvent");
    OK(tn_checkpoint_restore(first, other, NULL));
    ck_assert_uint_eq(atomic_load(&device->gpu.calls[TN_CALL_WAIT]), waits + 1);
    ck_assert_uint_eq(sim.call_count("cuStreamWaitEvent"), follows + 1); /* its own copies */
    test_expect_words(other, address, 1, 1024);
    tn_checkpoint_destroy(foreign);
    tn_checkpoint_destroy(first);
}
