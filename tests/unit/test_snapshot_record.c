// SPDX-License-Identifier: Apache-2.0
/* Events of a snapshot as a trace. That the benchmark's reader agrees is seen by tests/tools. */
#include "observe/snapshot_record.h"

#include "base/host.h"
#include "unit/unit.h"

SUITE("traces of the library's own")

enum { HEADER_BYTES = 64, EVENTS = 100 };

static struct tn_trace_event events[EVENTS];
static struct tn_snapshot snapshot;
static tarn_snapshot_block live;
static tarn_snapshot_segment segment;

static struct {
    unsigned char bytes[1 << 16];
    size_t count;
} got;

static tarn_status keep(const void *bytes, size_t count, void *user)
{
    ck_assert_ptr_eq(user, &got);
    ck_assert_uint_le(count, 64 << 10);
    ck_assert_uint_le(got.count + count, sizeof got.bytes);
    memcpy(got.bytes + got.count, bytes, count);
    got.count += count;
    return TARN_OK;
}

static void begin(void)
{
    memset(events, 0, sizeof events);
    memset(&got, 0, sizeof got);
    snapshot = (struct tn_snapshot){.events = events, .blocks = &live};
    live = (tarn_snapshot_block){.state = TARN_EXTENT_LIVE};
    segment = (tarn_snapshot_segment){.blocks = &live, .block_count = 1};
}

GROUP(records, begin)

static void add(enum tn_trace_action action, uint64_t number, uint64_t bytes, uint64_t stream)
{
    ck_assert_uint_lt(snapshot.event_count, EVENTS);
    events[snapshot.event_count++] = (struct tn_trace_event){
        .action = action, .number = number, .bytes = bytes, .stream = stream};
}

static uint64_t read_at(size_t at, size_t count)
{
    uint64_t value = 0;

    for (size_t i = 0; i < count; i++)
        value |= (uint64_t)got.bytes[at + i] << 8 * i;
    return value;
}

/* Whether the file ends with these records, and has these sums. */
static void expect(const char *records, size_t count, uint64_t event_count, uint64_t peak)
{
    OK(tn_snapshot_write_trace(&snapshot, "hand", keep, &got));
    ck_assert_uint_gt(got.count, HEADER_BYTES + count);
    ck_assert_mem_eq(got.bytes, "\x89TARN\r\n\x1a\x01\0\0\0", 12);
    ck_assert_uint_eq(read_at(24, 8), event_count);
    ck_assert_uint_eq(read_at(32, 8), peak);
    ck_assert_mem_eq(got.bytes + got.count - count, records, count);
    ck_assert_mem_eq(got.bytes + HEADER_BYTES, "\4hand", 5);
}

#define EXPECT(records, event_count, peak) expect(records, sizeof(records) - 1, event_count, peak)

/* The most frequent size has place 0. A record's two lowest bits are the kind: 0 allocates, 1 frees, 2 uses,
 * 3 selects a stream; 7 is the beginning. */
TEST(records, allocations_frees_and_uses_are_in_their_order)
{
    add(TN_TRACE_ALLOC, 10, 1000, 5);
    add(TN_TRACE_ALLOC, 11, 300, 5);
    add(TN_TRACE_ALLOC, 12, 300, 9);
    add(TN_TRACE_USE, 10, 0, 9);
    add(TN_TRACE_USE, 12, 0, 9); /* its own stream */
    add(TN_TRACE_FREE_REQUESTED, 10, 1000, 5);
    add(TN_TRACE_FREE_COMPLETED, 10, 1000, 5);
    add(TN_TRACE_SEGMENT_MAP, 0, 2 << 20, 5);
    EXPECT("\7\x04\0\x0b\0\x0a\1\x09", 5, 1600);
    ck_assert_uint_eq(read_at(16, 8), 3);
    ck_assert_uint_eq(read_at(56, 4), 2);
    ck_assert_uint_eq(read_at(60, 4), 2);
}

/* Live in the snapshot, or freed later: both lived before. */
TEST(records, blocks_that_lived_before_come_first)
{
    live.sequence = 3;
    live.bytes = 700;
    snapshot.read.segments = &segment;
    snapshot.read.segment_count = 1;
    snapshot.read.block_count = 1;
    add(TN_TRACE_ALLOC, 10, 700, 0);
    add(TN_TRACE_FREE_REQUESTED, 4, 900, 0);
    EXPECT("\0\4\7\0\5", 4, 2300);
}

/* Two writers' stamps may be in the wrong order. */
TEST(records, a_free_in_front_of_its_allocation_waits)
{
    add(TN_TRACE_FREE_REQUESTED, 10, 500, 0);
    add(TN_TRACE_ALLOC, 11, 500, 0);
    add(TN_TRACE_ALLOC, 10, 500, 0);
    EXPECT("\7\0\0\1", 3, 1000);
}

TEST(records, a_restored_block_is_allocated_again)
{
    add(TN_TRACE_FREE_REQUESTED, 10, 500, 0);
    add(TN_TRACE_ALLOC, 10, 500, 0);
    events[1].is_restored = true;
    EXPECT("\0\7\1\0", 3, 500);
}

TEST(records, more_streams_than_a_trace_has_are_refused)
{
    for (uint64_t i = 0; i < TN_RECORD_STREAMS_MAX; i++)
        add(TN_TRACE_ALLOC, i + 1, 512, i);
    OK(tn_snapshot_write_trace(&snapshot, "hand", keep, &got));
    got.count = 0;
    add(TN_TRACE_ALLOC, 1000, 512, 1000);
    STATUS(TARN_ERR_LIMIT, tn_snapshot_write_trace(&snapshot, "hand", keep, &got));
    ck_assert_uint_eq(got.count, 0);
}

TEST(records, no_memory_writes_nothing)
{
    add(TN_TRACE_ALLOC, 1, 512, 0);
    for (uint64_t nth = 1; nth <= 3; nth++) {
        (void)tn_host_plan_fault(nth, false);
        STATUS(TARN_ERR_HOST_MEMORY, tn_snapshot_write_trace(&snapshot, "hand", keep, &got));
        ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
        ck_assert_uint_eq(got.count, 0);
    }
}
