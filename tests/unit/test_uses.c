// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/uses.h"
#include "claims/check.h"
#include "unit/one_pool.h"

static tn_cu_stream third;
static tarn_checkpoint *checkpoint;

static void set_up(void)
{
    make_pool();
    third = test_stream();
}

static void take(void)
{
    OK(tn_checkpoint_take(pool, TARN_CONTENTS_NONE, stream, &checkpoint));
}

static size_t count_uses(const void *address)
{
    size_t count = 0;

    for (const struct tn_use *use = tn_block_uses(unit_block(address)); use != NULL;
         use = use->next)
        count += 1;
    return count;
}

SUITE("uses of checkpoints")
GROUP(uses, set_up)

TEST(uses, a_revived_block_has_the_uses_that_it_had)
{
    void *plain = unit_alloc(pool, 4096, stream);
    void *used = unit_alloc(pool, 4096, stream);
    void *twice = unit_alloc(pool, 4096, stream);

    OK(tarn_record_stream(used, other));
    OK(tarn_record_stream(twice, other));
    OK(tarn_record_stream(twice, third));
    take();
    ck_assert_uint_eq(checkpoint->stream_count, 3);
    ck_assert_uint_eq(checkpoint->blocks[0].use_count, 0);
    ck_assert_uint_eq(checkpoint->blocks[1].use_count, 1);
    ck_assert_uint_eq(checkpoint->blocks[2].use_count, 2);
    for (int round = 0; round < 2; round++) {
        OK(tarn_free(plain));
        OK(tarn_free(used));
        OK(tarn_free(twice));
        OK(tn_checkpoint_restore(checkpoint, stream, NULL));
        OK(tarn_pool_validate(pool));
        OK(tn_streams_check(&device->streams));
        ck_assert_uint_eq(count_uses(plain), 0);
        ck_assert_uint_eq(count_uses(used), 1);
        ck_assert_uint_eq(count_uses(twice), 2);
    }
    test_synchronize(stream);
    sim.hold_work();
    test_fill(other, used, 1, 16);
    OK(tarn_free(used));
    ck_assert_int_eq(unit_block(used)->state, TN_BLOCK_PENDING);
    sim.resume_work();
}

TEST(uses, a_kept_block_keeps_the_uses_that_it_has)
{
    void *address = unit_alloc(pool, 4096, stream);

    take();
    OK(tarn_record_stream(address, other));
    OK(tn_checkpoint_restore(checkpoint, stream, NULL));
    ck_assert_uint_eq(count_uses(address), 1);
}

TEST(uses, a_retired_stream_is_no_use_any_more)
{
    void *address = unit_alloc(pool, 4096, stream);

    OK(tarn_record_stream(address, other));
    OK(tarn_record_stream(address, third));
    take();
    OK(tarn_free(address));
    OK(tarn_stream_retire(device, other));
    test_synchronize(other);
    test_synchronize(third);
    OK(tn_checkpoint_restore(checkpoint, stream, NULL));
    ck_assert_uint_eq(count_uses(address), 1);
    ck_assert(tn_order_equal(tn_block_uses(unit_block(address))->order, unit_order(device, third)));
    OK(tn_streams_check(&device->streams));
}

/* C6 */
TEST(uses, streams_are_known_as_long_as_the_checkpoint_is)
{
    void *address = unit_alloc(pool, 4096, stream);

    OK(tarn_record_stream(address, other));
    take();
    OK(tarn_free(address));
    test_synchronize(other);
    OK(tarn_pool_trim(pool, NULL));
    ck_assert_uint_eq(device->streams.known_count, 1);
    tn_checkpoint_destroy(checkpoint);
    ck_assert_uint_eq(device->streams.known_count, 0);
}

TEST(uses, what_cannot_be_set_aside_changes_nothing)
{
    void *address = unit_alloc(pool, 4096, stream);
    uint64_t failed = 1;
    int met = 0;

    OK(tarn_record_stream(address, other));
    OK(tarn_record_stream(address, third));
    for (uint64_t nth = 1; failed > 0; nth++) {
        (void)tn_host_plan_fault(nth, false);
        if (tn_checkpoint_take(pool, TARN_CONTENTS_NONE, stream, &checkpoint) == TARN_OK)
            ck_assert_uint_eq(checkpoint->stream_count, 2);
        failed = tn_host_plan_fault(0, false);
        if (failed > 0)
            ck_assert_uint_eq(unit_segment(address)->checkpoint_count, 0);
        OK(tn_streams_check(&device->streams));
    }
    OK(tarn_free(address));
    failed = 1;
    for (uint64_t nth = 1; failed > 0; nth++) {
        tarn_status status;

        (void)tn_host_plan_fault(nth, false);
        status = tn_checkpoint_restore(checkpoint, stream, NULL);
        failed = tn_host_plan_fault(0, false);
        met += status != TARN_OK;
        ck_assert_uint_eq(tn_pool_live_count(pool), status == TARN_OK);
        OK(tn_streams_check(&device->streams));
        OK(tarn_pool_validate(pool));
    }
    ck_assert_int_ge(met, 6);
    ck_assert_uint_eq(count_uses(address), 2);
}
