// SPDX-License-Identifier: Apache-2.0
#include "observe/history_info.h"

#include <stdio.h>

#include "base/checked.h"
#include "pools/recording.h"

/* The number of parts with tables; the process does not trust the head, a page of a file. */
static size_t part_count(const struct tn_ring_file *file)
{
    const uint64_t count = atomic_load_explicit(&file->head->part_count, memory_order_relaxed);

    return (size_t)tn_min(count, TN_RING_PARTS);
}

uint64_t tn_history_bytes(const tarn_device *device)
{
    const struct tn_ring_file *file = &device->history.file;

    return file->head == NULL ? 0 : file->bytes + tn_ring_part_offset(part_count(file));
}

tarn_history_info tn_history_describe(tarn_device *device)
{
    struct tn_history *history = &device->history;
    tarn_history_info info = TARN_HISTORY_INFO_INIT;
    struct tn_ring_counts log;
    struct tn_ring_counts ranges;
    struct tn_stacks_counts stacks;
    struct tn_recording recording;

    if (history->file.head == NULL)
        return info;
    TN_ASSERT(sizeof info.path >= sizeof history->file.path);
    log = tn_ring_count(&history->ring);
    ranges = tn_ring_count(&history->ranges.ring);
    stacks = tn_stacks_count(&history->stacking.stacks);
    info.is_kept = true;
    recording = tn_recording_get(device);
    info.stacks = (tarn_history_stacks)recording.level;
    info.skipped = recording.skipped;
    info.live_stacks_alone = !recording.logs_stacks;
    info.sample_bytes = (size_t)atomic_load(&history->stacking.sample_bytes);
    info.log_bytes = history->ring.page_count * TN_RING_PAGE_BYTES;
    info.range_bytes = history->ranges.ring.page_count * TN_RING_PAGE_BYTES;
    info.stack_bytes = history->stacking.stacks.scroll.word_count * sizeof(uint64_t);
    info.module_bytes = history->stacking.modules.scroll.word_count * sizeof(uint64_t);
    info.table_bytes = tn_ring_part_offset(part_count(&history->file));
    info.pages = history->ring.page_count;
    info.pages_begun = log.taken;
    info.pages_overwritten = log.overwritten;
    info.events_lost = log.lost;
    info.stack_count = stacks.records;
    info.stack_bytes_used = stacks.bytes;
    info.stacks_lost = stacks.lost;
    info.ranges_begun = atomic_load_explicit(&history->ranges.count, memory_order_relaxed);
    info.range_pages_overwritten = ranges.overwritten;
    (void)snprintf(info.path, sizeof info.path, "%s", history->file.path);
    return info;
}
