// SPDX-License-Identifier: Apache-2.0
/* What happened before a snapshot. */
#include <unistd.h>

#include "observe/snapshot_trace.h"
#include "unit/unit.h"

SUITE("traces of snapshots")

static void open_world(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = 1 << 20;
    test_world_open_with(&options);
}

GROUP(traced, open_world, .end = test_world_close)

static struct tn_snapshot *snapshot;

static void take(void)
{
    tarn_snapshot *taken;

    OK(tarn_snapshot_take(world.device, NULL, &taken));
    OK(tarn_snapshot_add_history(taken, world.device));
    snapshot = (struct tn_snapshot *)(void *)taken;
}

/* The nth event of that action; NULL: there are fewer. */
static const struct tn_trace_event *event_of(enum tn_trace_action action, size_t n)
{
    for (size_t i = 0; i < snapshot->event_count; i++) {
        if (snapshot->events[i].action == action && n-- == 0)
            return &snapshot->events[i];
    }
    return NULL;
}

static uint64_t number_of(const tarn_pool *pool)
{
    return pool == world.default_pool ? 0 : pool->holds.pool_serial;
}

TEST(traced, allocations_and_frees_have_their_pool_and_stream)
{
    void *first;
    void *second;
    uint64_t addresses[2];

    OK(tarn_pool_malloc(world.pool, 1000, 0, world.stream, &first));
    OK(tarn_malloc(world.device, 2000, world.side, &second));
    addresses[0] = (uintptr_t)first;
    addresses[1] = (uintptr_t)second;
    OK(tarn_free(first));
    OK(tarn_free(second));
    take();
    for (size_t i = 0; i < 2; i++) {
        static const enum tn_trace_action actions[] = {TN_TRACE_ALLOC, TN_TRACE_FREE_REQUESTED,
                                                       TN_TRACE_FREE_COMPLETED};

        for (size_t j = 0; j < 3; j++) {
            const struct tn_trace_event *event = NULL;

            for (size_t n = 0; (event = event_of(actions[j], n)) != NULL; n++) {
                if (event->address == addresses[i])
                    break;
            }
            ck_assert_ptr_nonnull(event);
            ck_assert_uint_eq(event->bytes, 1000 * (i + 1));
            ck_assert_uint_eq(event->pool, number_of(i == 0 ? world.pool : world.default_pool));
            ck_assert_uint_eq(event->stream, (uintptr_t)(i == 0 ? world.stream : world.side));
        }
    }
    tarn_snapshot_destroy(&snapshot->read);
}

TEST(traced, events_are_in_the_order_of_their_times)
{
    for (int i = 0; i < 200; i++)
        OK(tarn_free(test_malloc((size_t)(i % 50 + 1) << 16)));
    take();
    ck_assert_uint_gt(snapshot->event_count, 400);
    for (size_t i = 1; i < snapshot->event_count; i++)
        ck_assert_uint_ge(snapshot->events[i].time_us, snapshot->events[i - 1].time_us);
    ck_assert_uint_ge(snapshot->events[0].time_us, 1700000000000000); /* since 1970 */
    tarn_snapshot_destroy(&snapshot->read);
}

TEST(traced, memory_that_is_mapped_and_lacking_is_told)
{
    void *block = test_malloc(8 << 20);
    void *none;

    OK(tarn_pool_set_limit(world.default_pool, 8 << 20));
    STATUS(TARN_ERR_LIMIT, tarn_malloc(world.device, 64 << 20, world.stream, &none));
    OK(tarn_free(block));
    OK(tarn_pool_set_limit(world.default_pool, 0));
    test_wait_for_all();
    OK(tarn_device_trim(world.device, 0, NULL));
    take();
    ck_assert_ptr_nonnull(event_of(TN_TRACE_SEGMENT_MAP, 0));
    ck_assert_ptr_nonnull(event_of(TN_TRACE_SEGMENT_UNMAP, 0));
    ck_assert_ptr_nonnull(event_of(TN_TRACE_OOM, 0));
    ck_assert_uint_eq(event_of(TN_TRACE_OOM, 0)->bytes, 64 << 20);
    tarn_snapshot_destroy(&snapshot->read);
}

/* What comes behind the snapshot is none of its events. */
TEST(traced, a_trace_ends_with_the_snapshot)
{
    tarn_snapshot *taken;
    void *block;

    OK(tarn_snapshot_take(world.device, NULL, &taken));
    (void)usleep(2000);
    for (int i = 0; i < 100; i++) /* a stamp is behind 64 words at most */
        OK(tarn_free(test_malloc((size_t)(i % 50 + 1) << 10)));
    block = test_malloc(777);
    OK(tarn_snapshot_add_history(taken, world.device));
    snapshot = (struct tn_snapshot *)(void *)taken;
    for (size_t i = 0; i < snapshot->event_count; i++)
        ck_assert(snapshot->events[i].bytes != 777);
    OK(tarn_snapshot_add_history(taken, world.device)); /* once more: the same */
    tarn_snapshot_destroy(taken);
    OK(tarn_free(block));
}

GROUP(untraced, test_world_open_unrecorded, .end = test_world_close)

TEST(untraced, a_device_without_a_history_has_no_trace)
{
    tarn_snapshot *taken;

    OK(tarn_snapshot_take(world.device, NULL, &taken));
    STATUS(TARN_ERR_NOT_SUPPORTED, tarn_snapshot_add_history(taken, world.device));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_snapshot_add_history(NULL, world.device));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_snapshot_add_history(taken, NULL));
    tarn_snapshot_destroy(taken);
}
