// SPDX-License-Identifier: Apache-2.0
#include "pools/ranges.h"

#include "base/checked.h"
#include "base/thread.h"

enum { PAGES_MIN = 4, NUMBER_SHIFT = 32 };

void tn_ranges_plan(struct tn_ring_plan *plan)
{
    plan->area_bytes[TN_RANGES] =
        tn_max(tn_ring_plan_pages(plan) / 16, PAGES_MIN) * TN_RING_PAGE_BYTES;
}

bool tn_ranges_init(struct tn_ranges *ranges, const struct tn_ring_file *file)
{
    *ranges = (struct tn_ranges){.count = 0};
    if (!tn_ring_init(&ranges->ring, tn_ring_file_area(file, TN_RANGES),
                      (size_t)file->head->area_bytes[TN_RANGES] / TN_RING_PAGE_BYTES,
                      &ranges->count))
        return false;
    ranges->writer = tn_ring_new_writer(&ranges->ring);
    return true;
}

void tn_ranges_fini(struct tn_ranges *ranges)
{
    TN_ASSERT(ranges->ring.pages != NULL && !tn_spin_is_taken(&ranges->lock));
    tn_ring_leave(&ranges->writer);
    tn_ring_drop(&ranges->ring);
}

static void put(struct tn_ranges *ranges, enum tn_range_kind kind, uint64_t range)
{
    if (atomic_load_explicit(&ranges->skipped, memory_order_relaxed))
        return;
    tn_spin_acquire(&ranges->lock);
    tn_ring_put_stamp(&ranges->writer);
    tn_ring_put_two(&ranges->writer, kind, tn_thread_id(), range);
    tn_spin_release(&ranges->lock);
}

uint64_t tn_range_begin(struct tn_ranges *ranges, uint32_t title)
{
    const uint64_t number = atomic_fetch_add_explicit(&ranges->count, 1, memory_order_relaxed);
    const uint64_t range = number << NUMBER_SHIFT | title;

    TN_ASSERT(title != 0);
    put(ranges, TN_RANGE_BEGUN, range);
    return range;
}

bool tn_range_end(struct tn_ranges *ranges, uint64_t range)
{
    const uint64_t count = atomic_load_explicit(&ranges->count, memory_order_relaxed);

    if ((uint32_t)range == 0 || range >> NUMBER_SHIFT >= count)
        return false;
    put(ranges, TN_RANGE_ENDED, range);
    return true;
}

void tn_ranges_clear(struct tn_ranges *ranges)
{
    tn_spin_acquire(&ranges->lock);
    tn_ring_leave(&ranges->writer);
    tn_ring_clear(&ranges->ring);
    tn_spin_release(&ranges->lock);
}
