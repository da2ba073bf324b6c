// SPDX-License-Identifier: Apache-2.0
#include "observe/snapshot_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/contract.h"
#include "base/host.h"
#include "heap/history_table.h"
#include "observe/lists.h"
#include "pools/pool.h"

uint32_t tn_snapshot_stack_of_record(const struct tn_block *block)
{
    const struct tn_history_table *table = tn_block_slab(block)->table;
    const struct tn_history_entry *entry;

    if (table == NULL)
        return 0;
    entry = &table->entries[block - tn_block_slab(block)->records];
    if (atomic_load_explicit(&entry->address, memory_order_relaxed) != tn_block_address(block))
        return 0;
    return (uint32_t)atomic_load_explicit(&entry->stack, memory_order_relaxed);
}

/* In a capture the order has the handle of its stream, odd for a thread's own default stream. */
void tn_snapshot_describe_order(const struct tn_arena *arena, tarn_snapshot_segment *segment)
{
    const struct tn_order order = arena->order;

    segment->capture_id = order.capture_id;
    if (order.capture_id != 0 && order.stream_id % 2 == 0)
        segment->stream = (tarn_stream)(uintptr_t)order.stream_id;
    if (order.capture_id != 0 || tn_order_equal(order, TN_ORDER_NONE))
        return;
    segment->stream = (tarn_stream)atomic_load_explicit(&arena->stream, memory_order_relaxed);
    segment->stream_id = order.stream_id;
}

void tn_snapshot_describe_pool(tarn_pool *pool, tarn_snapshot_pool *told)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    *told = (tarn_snapshot_pool){
        .number = pool->holds.pool_serial,
        .kind = tn_pool_kind(pool),
        .capture_count = pool->holds.open_count,
        .graph_count = pool->claims.graph_count,
        .held_graph_count = tn_holds_count_graphs(&pool->holds),
        .checkpoint_count = pool->claims.checkpoint_count,
        .route_count = pool->claims.route_count,
    };
    told->pool = tn_pool_handle(pool, told->kind);
    (void)snprintf(told->name, sizeof told->name, "%s", pool->name);
}

size_t tn_snapshot_bytes(const struct tn_snapshot_counts *room)
{
    return sizeof(struct tn_snapshot) + room->pools * sizeof(tarn_snapshot_pool) +
           room->segments * sizeof(tarn_snapshot_segment) +
           room->blocks * (sizeof(tarn_snapshot_block) + sizeof(uint32_t));
}

struct tn_snapshot *tn_snapshot_make(const struct tn_snapshot_counts *room,
                                     struct tn_snapshot_arrays *at)
{
    struct tn_snapshot *made = tn_host_alloc_unset(1, tn_snapshot_bytes(room));

    if (made == NULL)
        return NULL;
    memset(made, 0, sizeof *made);
    at->pools = (tarn_snapshot_pool *)(void *)(made + 1);
    at->segments = (tarn_snapshot_segment *)(void *)(at->pools + room->pools);
    at->blocks = (tarn_snapshot_block *)(void *)(at->segments + room->segments);
    at->stacks = (uint32_t *)(void *)(at->blocks + room->blocks);
    return made;
}

static int compare_addresses(const void *a, const void *b)
{
    uintptr_t left = (uintptr_t)((const tarn_snapshot_segment *)a)->address;
    uintptr_t right = (uintptr_t)((const tarn_snapshot_segment *)b)->address;

    return left < right ? -1 : left > right;
}

void tn_snapshot_finish(struct tn_snapshot *made, const struct tn_snapshot_arrays *at,
                        const struct tn_snapshot_counts *used)
{
    qsort(at->segments, used->segments, sizeof *at->segments, compare_addresses);
    made->read.pool_count = used->pools;
    made->read.pools = at->pools;
    made->read.segment_count = used->segments;
    made->read.segments = at->segments;
    made->read.block_count = used->blocks;
    made->blocks = at->blocks;
    made->block_stacks = at->stacks;
}

void tn_snapshot_describe_device(const tarn_device *device, struct tn_snapshot *made)
{
    made->taken = tn_clock_nanoseconds(CLOCK_MONOTONIC);
    made->clock_offset = tn_clock_nanoseconds(CLOCK_REALTIME) - made->taken;
    made->events = NULL;
    made->event_count = 0;
    made->ranges = NULL;
    made->range_count = 0;
    made->titles = (struct tn_titles){.places = NULL};
    made->stacks = (struct tn_snapshot_stacks){.memory = NULL};
    made->history = device->history.stacking.serial;
    made->read.device = device->gpu.ordinal;
    made->record_stream_reuse = !device->no_record_stream_reuse;
    for (size_t i = 0; i < TARN_ROUNDUP_SIZES; i++) {
        unsigned shift = device->rounding.shifts[i];

        made->roundup_divisions[i] = shift != 0 ? (uint32_t)1 << shift : 0;
    }
}

void tn_snapshot_drop(struct tn_snapshot *snapshot)
{
    if (snapshot != NULL) {
        tn_host_free(snapshot->events);
        tn_host_free(snapshot->ranges);
        tn_titles_free(&snapshot->titles);
        tn_snapshot_stacks_drop(&snapshot->stacks);
    }
    tn_host_free(snapshot);
}
