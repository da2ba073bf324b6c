// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "pools/arena_table.h"
#include "pools/arenas.h"
#include "unit/unit.h"

enum { STREAMS = 300 };

static tarn_device *device;
static tarn_pool *pool;

static void make_pool(void)
{
    device = unit_device();
    pool = unit_pool(device);
}

static void make_pool_of_handles_used_again(void)
{
    ck_assert_int_eq(setenv("TARN_SIM_STRICT", "0", 1), 0);
    make_pool();
}

static struct tn_arena *make(uint64_t stream_id)
{
    struct tn_arena *arena;

    tn_pool_lock(pool);
    arena = tn_arena_get(pool, (struct tn_order){stream_id, 0});
    tn_pool_unlock(pool);
    return arena;
}

SUITE("arena table")
GROUP(lookup, make_pool)

/* P16, through tables that give way to larger ones. */
TEST(lookup, every_streams_arena_is_found)
{
    struct tn_arena *arenas[STREAMS];

    ck_assert_ptr_null(tn_arena_seek(pool, (struct tn_order){1, 0}));
    tn_pool_lock(pool); /* once, for arenas that nobody uses end after many locks */
    for (uint64_t i = 0; i < STREAMS; i++) {
        arenas[i] = tn_arena_get(pool, (struct tn_order){i * 7 + 1, 0});
        for (uint64_t k = 0; k <= i; k++)
            ck_assert_ptr_eq(tn_arena_seek(pool, (struct tn_order){k * 7 + 1, 0}), arenas[k]);
        ck_assert_ptr_null(tn_arena_seek(pool, (struct tn_order){i * 7 + 2, 0}));
    }
    tn_pool_unlock(pool);
}

/* Whoever has come by the handle before it went may still be looking at the table. */
TEST(lookup, the_tables_of_a_pool_stay_with_its_record)
{
    struct tn_arena_table *tables[2];
    tarn_pool *first = pool;

    for (uint64_t i = 0; i < STREAMS; i++)
        ck_assert_ptr_nonnull(make(i * 7 + 1));
    tables[0] = pool->tables;
    OK(tarn_pool_destroy(pool));
    ck_assert_ptr_null(tn_arena_seek(pool, (struct tn_order){1, 0}));
    pool = unit_pool(device);
    ck_assert_ptr_eq(pool, first);
    ck_assert_ptr_null(tn_arena_seek(pool, (struct tn_order){1, 0}));
    ck_assert_ptr_nonnull(make(8));
    ck_assert_ptr_null(
        tn_arena_seek(pool, (struct tn_order){1, 0})); /* of the table's time before */
    for (uint64_t i = 0; i < STREAMS; i++)
        ck_assert_ptr_nonnull(make(i * 7 + 1));
    tables[1] = pool->tables;
    ck_assert_ptr_eq(tables[0], tables[1]);
    OK(tarn_pool_validate(pool));
}

TEST(lookup, an_arena_of_a_capture_is_found_by_stream_and_capture)
{
    const struct tn_order captured = {9, 77};
    struct tn_arena *arena;

    tn_pool_lock(pool);
    arena = tn_arena_get(pool, captured);
    tn_pool_unlock(pool);
    ck_assert_ptr_nonnull(arena);
    ck_assert_ptr_eq(tn_arena_seek(pool, captured), arena);
    ck_assert_ptr_null(tn_arena_seek(pool, (struct tn_order){9, 0}));
    ck_assert_ptr_null(tn_arena_seek(pool, (struct tn_order){9, 78}));
    ck_assert_ptr_null(tn_arena_seek(pool, (struct tn_order){8, 77}));
}

/* A thread that found it before can lock it, and it is of no pool then. */
TEST(lookup, an_arena_that_has_gone_is_not_found_and_can_be_locked)
{
    struct tn_arena *gone = make(5);

    tn_pool_lock(pool);
    tn_arenas_drop_empty(pool);
    tn_pool_unlock(pool);
    ck_assert_ptr_null(tn_arena_seek(pool, (struct tn_order){5, 0}));
    tn_spin_acquire(&gone->lock);
    ck_assert_ptr_null(gone->pool);
    tn_spin_release(&gone->lock);
    gone = make(5);
    ck_assert_ptr_eq(tn_arena_seek(pool, (struct tn_order){5, 0}), gone);
    ck_assert_ptr_eq(gone->pool, pool);
}

/* Its record may serve another pool before its stream has an arena here again. */
TEST(lookup, an_arena_that_serves_another_pool_is_not_found)
{
    struct tn_arena *gone = make(5);
    tarn_pool *other = unit_pool(device);

    tn_pool_lock(pool);
    tn_arenas_drop_empty(pool);
    tn_pool_unlock(pool);
    tn_pool_lock(other);
    ck_assert_ptr_eq(tn_arena_get(other, (struct tn_order){5, 0}), gone);
    tn_pool_unlock(other);
    ck_assert_ptr_null(tn_arena_seek(pool, (struct tn_order){5, 0}));
}

TEST(lookup, a_retired_streams_arena_is_not_found)
{
    tn_cu_stream stream = test_stream();
    struct tn_order order = unit_order(device, stream);

    (void)unit_alloc(pool, 4096, stream);
    ck_assert_ptr_nonnull(tn_arena_seek(pool, order));
    OK(tarn_stream_retire(device, stream));
    ck_assert_ptr_null(tn_arena_seek(pool, order));
    OK(tarn_pool_validate(pool));
}

/* However many streams come and go. */
TEST(lookup, tables_take_turns)
{
    int64_t before = 0;

    for (uint64_t i = 1; i <= 2000; i++) {
        struct tn_arena *arena = make(i);

        ck_assert_ptr_eq(tn_arena_seek(pool, (struct tn_order){i, 0}), arena);
        tn_pool_lock(pool);
        tn_arenas_drop_empty(pool);
        tn_pool_unlock(pool);
        if (i == 500)
            before = tn_host_outstanding();
    }
    ck_assert_int_eq(tn_host_outstanding(), before);
}

TEST(lookup, without_host_memory_no_arena_is_made)
{
    tn_pool_lock(pool);
    (void)tn_host_plan_fault(1, false);
    ck_assert_ptr_null(tn_arena_get(pool, (struct tn_order){3, 0}));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert_uint_eq(pool->arenas.count, 0);
    ck_assert_ptr_nonnull(tn_arena_get(pool, (struct tn_order){3, 0}));
    tn_pool_unlock(pool);
}

/* P38 */
TEST(lookup, an_arena_that_the_index_does_not_have_is_found)
{
    struct tn_arena *arena = make(8);
    struct tn_index_entry *entry = &tn_arena_heaps(arena)->by_stream;

    ck_assert_uint_eq(entry->key, 8);
    OK(tarn_pool_validate(pool));
    tn_pool_index_put(&device->index, TN_BY_STREAM, entry, 0);
    unit_expect_corrupt(pool, "P38");
    entry->key = 8;
    unit_expect_corrupt(pool, "P38");
    entry->key = 0;
    tn_pool_index_put(&device->index, TN_BY_STREAM, entry, 9);
    unit_expect_corrupt(pool, "P38");
    tn_pool_index_put(&device->index, TN_BY_STREAM, entry, 8);
    OK(tarn_pool_validate(pool));
}

TEST(lookup, an_arena_of_a_capture_is_not_in_the_index)
{
    struct tn_arena *arena;

    tn_pool_lock(pool);
    arena = tn_arena_get(pool, (struct tn_order){8, 3});
    ck_assert_uint_eq(tn_arena_heaps(arena)->by_stream.key, 0);
    (void)tn_arenas_end_capture(pool, 3);
    tn_pool_unlock(pool);
    OK(tarn_pool_validate(pool));
}

static size_t place_of(tn_cu_stream stream)
{
    return tn_arena_entry_first(atomic_load(&pool->arena_table), (uintptr_t)stream);
}

/* A stream whose hint has the places of the other's. */
static tn_cu_stream stream_beside(tn_cu_stream other)
{
    tn_cu_stream stream = test_stream();

    for (int i = 0; i < 4096 && place_of(stream) >> 1 != place_of(other) >> 1; i++)
        stream = test_stream();
    ck_assert_uint_eq(place_of(stream) >> 1, place_of(other) >> 1);
    return stream;
}

/* Several times: the first allocation makes the arena. */
static struct tn_arena *use(tn_cu_stream stream)
{
    const struct tn_order order = unit_order(device, stream);

    for (int i = 0; i < 3; i++) {
        void *block = unit_alloc(pool, 4096, stream);

        ck_assert_ptr_eq(unit_block(block)->heap->arena, tn_arena_seek(pool, order));
        OK(tarn_free(block));
    }
    return tn_arena_seek(pool, order);
}

static void make_larger_tables(void)
{
    tn_pool_lock(pool);
    for (uint64_t i = 0; i < STREAMS; i++)
        ck_assert_ptr_nonnull(tn_arena_get(pool, (struct tn_order){(uint64_t)1 << 32 | i, 0}));
    tn_pool_unlock(pool);
}

TEST(lookup, an_arena_with_reserved_memory_is_expected)
{
    tn_cu_stream stream = test_stream();

    OK(tarn_pool_reserve(pool, 4 * MIB, stream));
    ck_assert_ptr_eq(tn_arena_expect(pool, stream),
                     tn_arena_seek(pool, unit_order(device, stream)));
}

TEST(lookup, the_arena_of_a_stream_is_expected)
{
    tn_cu_stream stream = test_stream();
    struct tn_arena *arena;

    ck_assert_ptr_null(tn_arena_expect(pool, stream));
    arena = use(stream);
    ck_assert_ptr_eq(tn_arena_expect(pool, stream), arena);
    make_larger_tables();
    ck_assert_ptr_eq(tn_arena_expect(pool, stream), arena);
    OK(tarn_stream_retire(device, stream));
    ck_assert_ptr_null(tn_arena_expect(pool, stream));
}

TEST(lookup, a_pool_that_gets_a_table_again_expects_nothing)
{
    tarn_pool *second = unit_pool(device);
    tn_cu_stream stream = test_stream();
    const struct tn_arena *arena = use(stream);
    const struct tn_arena_table *table = atomic_load(&pool->arena_table);

    OK(tarn_pool_destroy(pool));
    ck_assert_uint_eq(atomic_load(&arena->stream), 0);
    (void)unit_alloc(second, 4096, stream);
    ck_assert_ptr_eq(tn_arena_seek(second, unit_order(device, stream)), arena); /* its record */
    pool = unit_pool(device);
    ck_assert_ptr_nonnull(make(8));
    ck_assert_ptr_eq(atomic_load(&pool->arena_table), table);
    ck_assert_ptr_null(tn_arena_expect(pool, stream));
}

GROUP(again, make_pool_of_handles_used_again, .name = "handles used again")

/* The driver gives a handle again, with another id. */
TEST(again, the_arena_of_an_earlier_stream_with_the_handle_does_not_serve)
{
    tn_cu_stream stream = test_stream();
    struct tn_arena *before = use(stream);
    struct tn_arena *arena;
    tn_cu_stream again;

    test_destroy_stream(stream);
    again = test_stream();
    ck_assert_ptr_eq(again, stream);
    ck_assert_ptr_eq(tn_arena_expect(pool, again), before);
    arena = use(again);
    ck_assert_ptr_ne(arena, before);
    ck_assert_ptr_eq(tn_arena_expect(pool, again), arena);
    make_larger_tables();
    ck_assert_ptr_eq(tn_arena_expect(pool, again), arena);
}

TEST(lookup, streams_do_not_take_a_hint_from_each_other)
{
    tn_cu_stream stream = test_stream();
    struct tn_arena *arena = use(stream);
    tn_cu_stream second = stream_beside(stream);
    struct tn_arena *beside = use(second);
    tn_cu_stream third = stream_beside(second);
    struct tn_arena *then = use(third);

    ck_assert(arena != beside && beside != then && then != arena);
    ck_assert_ptr_eq(tn_arena_expect(pool, stream), arena);
    ck_assert_ptr_eq(tn_arena_expect(pool, second), beside);
    ck_assert_ptr_null(tn_arena_expect(pool, third));
    OK(tarn_stream_retire(device, stream));
    (void)unit_alloc(pool, 32 * MIB, third); /* with the pool's lock */
    ck_assert_ptr_eq(tn_arena_expect(pool, third), then);
    ck_assert_ptr_eq(tn_arena_expect(pool, second), beside);
}
