// SPDX-License-Identifier: Apache-2.0
#include "claims/stream_table.h"

#include "base/host.h"
#include "unit/unit.h"

enum { STREAMS = 1000 };

static struct tn_stream_table table;
static struct tn_known_stream streams[STREAMS];

static void enter_all(void)
{
    for (uint64_t i = 0; i < STREAMS; i++) {
        streams[i] = (struct tn_known_stream){.id = 7 * i + 1};
        tn_stream_table_enter(&table, &streams[i], i + 1);
    }
}

static void leave_all(void)
{
    for (int i = 0; i < STREAMS; i++)
        tn_stream_table_leave(&table, &streams[i]);
    tn_stream_table_fini(&table);
}

static void expect_all(void)
{
    for (int i = 0; i < STREAMS; i++)
        ck_assert_ptr_eq(tn_stream_table_find(&table, streams[i].id), &streams[i]);
    ck_assert_ptr_null(tn_stream_table_find(&table, 3));
}

SUITE("stream table")
GROUP(table, NULL)

TEST(table, a_stream_is_found_among_many)
{
    enter_all();
    expect_all();
    ck_assert_uint_ge(table.chain_count, STREAMS / 4);
    leave_all();
    ck_assert_ptr_null(table.known);
}

TEST(table, without_host_memory_the_chains_grow)
{
    (void)tn_host_plan_fault(1, true);
    enter_all();
    ck_assert_uint_gt(tn_host_plan_fault(0, false), 0);
    ck_assert_ptr_null(table.chains);
    expect_all();
    leave_all();
}

TEST(table, a_retired_stream_makes_way_for_its_id)
{
    struct tn_known_stream next = {.id = 1};

    enter_all();
    tn_stream_table_retire(&table, &streams[0]);
    streams[0].retired = true;
    ck_assert_ptr_null(tn_stream_table_find(&table, 1));
    tn_stream_table_enter(&table, &next, STREAMS + 1);
    ck_assert_ptr_eq(tn_stream_table_find(&table, 1), &next);
    tn_stream_table_leave(&table, &next);
    leave_all();
}

TEST(table, streams_with_fences_are_listed)
{
    struct tn_fence *fence = (struct tn_fence *)(void *)&table; /* any: nobody looks into it */

    enter_all();
    for (int i = 0; i < 3; i++) {
        streams[i].first = fence;
        tn_stream_table_note_waiting(&table, &streams[i]);
        tn_stream_table_note_waiting(&table, &streams[i]);
    }
    ck_assert_ptr_eq(table.waiting, &streams[2]);
    streams[1].first = NULL;
    tn_stream_table_note_waiting(&table, &streams[1]);
    ck_assert_ptr_eq(table.waiting->waiting_next, &streams[0]);
    ck_assert_ptr_null(streams[0].waiting_next);
    leave_all();
    ck_assert_ptr_null(table.waiting);
}
