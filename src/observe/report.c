// SPDX-License-Identifier: Apache-2.0
/* One table of the statistics' fields makes both forms. Text leaves out a row whose numbers are all
 * 0.
 *
 * Trade-offs: a device's pools are written in turn under the lock of the device's list, each at a
 * moment of its own. */
#include "observe/report.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "observe/stats.h"
#include "pools/pool.h"
#include "pools/visit.h"

enum row_kind { ROW_SET, ROW_COUNTS, ROW_NUMBER, ROW_STAT };

struct row {
    const char *name;  /* of the field */
    const char *label; /* in text */
    size_t offset;
    enum row_kind kind;
    bool is_bytes;
    bool is_devices; /* says nothing of a pool */
};

#define ROW(field, label, kind, is_bytes, is_devices)                                              \
    {                                                                                              \
#field, label, offsetof(tarn_stats, field), kind, is_bytes, is_devices                     \
    }

static const struct row rows[] = {
    ROW(live_blocks, "live blocks", ROW_SET, false, false),
    ROW(live_bytes, "live bytes", ROW_SET, true, false),
    ROW(requested_bytes, "requested bytes", ROW_SET, true, false),
    ROW(active_blocks, "active blocks", ROW_SET, false, false),
    ROW(active_bytes, "active bytes", ROW_SET, true, false),
    ROW(pending_blocks, "pending blocks", ROW_SET, false, false),
    ROW(pending_bytes, "pending bytes", ROW_SET, true, false),
    ROW(discarded_blocks, "discarded blocks", ROW_SET, false, false),
    ROW(discarded_bytes, "discarded bytes", ROW_SET, true, false),
    ROW(chunks, "chunks", ROW_SET, false, false),
    ROW(mapped_bytes, "mapped bytes", ROW_SET, true, false),
    ROW(segments, "segments", ROW_SET, false, false),
    ROW(segment_bytes, "addresses in segments", ROW_SET, true, false),
    ROW(own_segments, "segments of one block", ROW_SET, false, false),
    ROW(host_bytes, "host memory, process", ROW_STAT, true, true),
    ROW(history_bytes, "memory of the history", ROW_NUMBER, true, true),
    ROW(import_count, "mappings of other processes", ROW_NUMBER, false, true),
    ROW(import_bytes, "memory of other processes", ROW_NUMBER, true, true),
    ROW(import_unused_bytes, "of it without open shares", ROW_NUMBER, true, true),
    ROW(inactive_blocks, "free runs beside blocks", ROW_COUNTS, false, false),
    ROW(inactive_bytes, "free bytes beside blocks", ROW_COUNTS, true, false),
    ROW(unused_bytes, "bytes in free chunks", ROW_COUNTS, true, false),
    ROW(capture_count, "captures", ROW_NUMBER, false, false),
    ROW(capture_bytes, "kept by captures", ROW_NUMBER, true, false),
    ROW(graph_count, "graphs", ROW_NUMBER, false, false),
    ROW(graph_bytes, "kept by graphs", ROW_NUMBER, true, false),
    ROW(captured_bytes, "kept by both", ROW_NUMBER, true, false),
    ROW(held_graph_count, "graphs that keep memory", ROW_NUMBER, false, false),
    ROW(checkpoint_count, "checkpoints", ROW_NUMBER, false, false),
    ROW(checkpoint_addresses, "addresses kept by checkpoints", ROW_NUMBER, true, false),
    ROW(contents_bytes, "contents of checkpoints, device", ROW_NUMBER, true, true),
    ROW(pinned_bytes, "contents and audits, host", ROW_NUMBER, true, true),
    ROW(pinned_cached_bytes, "of it waiting", ROW_NUMBER, true, true),
    ROW(cached_bytes, "cached, mapped nowhere", ROW_NUMBER, true, true),
    ROW(cached_count, "chunks cached", ROW_NUMBER, false, true),
    ROW(cache_limit_bytes, "limit of the cache", ROW_NUMBER, true, true),
    ROW(limit_bytes, "limit", ROW_NUMBER, true, false),
    ROW(reserved_bytes, "addresses reserved", ROW_NUMBER, true, true),
    ROW(total_bytes, "memory of the device", ROW_NUMBER, true, true),
    ROW(pool_count, "pools", ROW_NUMBER, false, true),
    ROW(route_count, "routes", ROW_NUMBER, false, true),
    ROW(arena_count, "arenas", ROW_NUMBER, false, false),
    ROW(alloc_count, "allocations", ROW_NUMBER, false, false),
    ROW(free_count, "frees", ROW_NUMBER, false, false),
    ROW(map_count, "chunks mapped for good", ROW_NUMBER, false, false),
    ROW(unmap_count, "chunks unmapped for good", ROW_NUMBER, false, false),
    ROW(adopted_count, "captures adopted", ROW_NUMBER, false, true),
    ROW(unrouted_count, "allocations without a route", ROW_NUMBER, false, true),
    ROW(growth_count, "growths", ROW_NUMBER, false, false),
    ROW(create_calls, "chunks made", ROW_NUMBER, false, false),
    ROW(release_calls, "chunks given back", ROW_NUMBER, false, false),
    ROW(map_calls, "chunks mapped", ROW_NUMBER, false, false),
    ROW(unmap_calls, "chunks unmapped", ROW_NUMBER, false, false),
    ROW(access_calls, "access given", ROW_NUMBER, false, true),
    ROW(reserve_calls, "addresses reserved, times", ROW_NUMBER, false, true),
    ROW(event_records, "events recorded", ROW_NUMBER, false, true),
    ROW(event_queries, "events queried", ROW_NUMBER, false, true),
    ROW(cache_hits, "chunks from the cache", ROW_NUMBER, false, false),
    ROW(ladder_retries, "retries for want of memory", ROW_NUMBER, false, false),
    ROW(out_of_memory_count, "out of memory", ROW_NUMBER, false, false),
    ROW(trim_count, "trims", ROW_NUMBER, false, false),
    ROW(idle_waits, "waits for the device", ROW_NUMBER, false, true),
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static const void *field_of(const tarn_stats *stats, const struct row *row)
{
    return (const char *)stats + row->offset;
}

/* A number of at most 11 characters. */
static void put_amount(struct tn_text *text, uint64_t amount, bool is_bytes)
{
    static const char units[][4] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double scaled = (double)amount;
    size_t unit = 0;

    if (!is_bytes && amount < UINT64_C(10000000000)) {
        tn_put(text, " %11llu", (unsigned long long)amount);
        return;
    }
    while (scaled >= 1024 && unit < 6) {
        scaled /= 1024;
        unit += 1;
    }
    if (!is_bytes)
        tn_put(text, " %11.4g", (double)amount);
    else if (unit == 0)
        tn_put(text, " %9llu B", (unsigned long long)amount);
    else
        tn_put(text, " %7.1f %s", scaled, units[unit]);
}

static void put_stat(struct tn_text *text, const char *label, const tarn_stat *stat, bool is_bytes)
{
    tn_put(text, "%-26s", label);
    put_amount(text, stat->current, is_bytes);
    put_amount(text, stat->peak, is_bytes);
    put_amount(text, stat->allocated, is_bytes);
    put_amount(text, stat->freed, is_bytes);
    tn_put(text, "\n");
}

static bool is_nothing(const tarn_stat *stat)
{
    return (stat->peak | stat->allocated | stat->freed) == 0;
}

static void put_set(struct tn_text *text, const struct row *row, const tarn_stat_set *set)
{
    if (is_nothing(&set->all))
        return;
    put_stat(text, row->label, &set->all, row->is_bytes);
    if (is_nothing(&set->small) || is_nothing(&set->large))
        return; /* the other part is all */
    put_stat(text, "  small", &set->small, row->is_bytes);
    put_stat(text, "  large", &set->large, row->is_bytes);
}

static void put_counts(struct tn_text *text, const struct row *row, const tarn_count_set *counts)
{
    if (counts->all == 0)
        return;
    tn_put(text, "%-32s", row->label);
    put_amount(text, counts->all, row->is_bytes);
    tn_put(text, "   small");
    put_amount(text, counts->small, row->is_bytes);
    tn_put(text, "   large");
    put_amount(text, counts->large, row->is_bytes);
    tn_put(text, "\n");
}

static void put_number(struct tn_text *text, const struct row *row, uint64_t number)
{
    if (number == 0)
        return;
    tn_put(text, "%-32s", row->label);
    put_amount(text, number, row->is_bytes);
    tn_put(text, "\n");
}

static void put_table(struct tn_text *text, const tarn_stats *stats)
{
    tn_put(text, "%-26s %11s %11s %11s %11s\n", "", "current", "peak", "allocated", "freed");
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *row = &rows[i];
        const void *field = field_of(stats, row);

        if (row->kind == ROW_SET)
            put_set(text, row, field);
        else if (row->kind == ROW_COUNTS)
            put_counts(text, row, field);
        else if (row->kind == ROW_NUMBER)
            put_number(text, row, *(const uint64_t *)field);
        else if (!is_nothing(field))
            put_stat(text, row->label, field, row->is_bytes);
    }
}

static void put_stat_object(struct tn_text *text, const tarn_stat *stat)
{
    tn_put(text, "{\"current\": %llu, \"peak\": %llu, \"allocated\": %llu, \"freed\": %llu}",
           (unsigned long long)stat->current, (unsigned long long)stat->peak,
           (unsigned long long)stat->allocated, (unsigned long long)stat->freed);
}

static void put_set_object(struct tn_text *text, const tarn_stat_set *set)
{
    tn_put(text, "{\"all\": ");
    put_stat_object(text, &set->all);
    tn_put(text, ", \"small\": ");
    put_stat_object(text, &set->small);
    tn_put(text, ", \"large\": ");
    put_stat_object(text, &set->large);
    tn_put(text, "}");
}

/* The fields, as members of an object which has its first member already. */
static void put_members(struct tn_text *text, const tarn_stats *stats, bool of_device)
{
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *row = &rows[i];
        const void *field = field_of(stats, row);
        const tarn_count_set *counts = field;

        if (row->is_devices && !of_device)
            continue;
        tn_put(text, ", \"%s\": ", row->name);
        if (row->kind == ROW_SET)
            put_set_object(text, field);
        else if (row->kind == ROW_COUNTS)
            tn_put(text, "{\"all\": %llu, \"small\": %llu, \"large\": %llu}",
                   (unsigned long long)counts->all, (unsigned long long)counts->small,
                   (unsigned long long)counts->large);
        else if (row->kind == ROW_NUMBER)
            tn_put(text, "%llu", (unsigned long long)*(const uint64_t *)field);
        else
            put_stat_object(text, field);
    }
}

size_t tn_pool_write_report(tarn_pool *pool, tarn_report_format format, char *buffer,
                            size_t capacity)
{
    struct tn_text text = {buffer, capacity, 0};
    tarn_stats stats;

    tn_pool_read_stats(pool, true, &stats);
    if (format == TARN_REPORT_JSON) {
        tn_put(&text, "{\"pool\": ");
        tn_put_string(&text, pool->name);
        tn_put(&text, ", \"device\": %d", pool->device->gpu.ordinal);
        put_members(&text, &stats, false);
        tn_put(&text, "}\n");
    } else {
        tn_put(&text, "pool '%s' of device %d\n", pool->name, pool->device->gpu.ordinal);
        put_table(&text, &stats);
    }
    return text.length;
}

static void put_pool(struct tn_text *text, const tarn_pool *pool, bool json)
{
    if (json) {
        tn_put(text, "{\"pool\": ");
        tn_put_string(text, pool->name);
        tn_put(text,
               ", \"live_bytes\": %llu, \"requested_bytes\": %llu, \"pending_bytes\": %llu, "
               "\"mapped_bytes\": %llu}",
               (unsigned long long)tn_pool_live_bytes(pool),
               (unsigned long long)tn_pool_requested_bytes(pool),
               (unsigned long long)tn_pool_pending_bytes(pool),
               (unsigned long long)tn_pool_mapped_bytes(pool));
        return;
    }
    tn_put(text, "%-32s", pool->name);
    put_amount(text, tn_pool_live_bytes(pool), true);
    put_amount(text, tn_pool_pending_bytes(pool), true);
    put_amount(text, tn_pool_mapped_bytes(pool), true);
    tn_put(text, "\n");
}

/* A list of pools which is being written. */
struct list {
    struct tn_text *text;
    bool json;
    bool any;
};

static bool put_next(tarn_pool *pool, void *context)
{
    struct list *list = context;

    if (!tn_pool_is_counted(pool))
        return false;
    if (list->json && list->any)
        tn_put(list->text, ", ");
    put_pool(list->text, pool, list->json);
    list->any = true;
    return false;
}

static void put_pools(struct tn_text *text, tarn_device *device, bool json)
{
    struct list list = {text, json, false};

    (void)tn_device_visit(device, put_next, &list);
}

size_t tn_device_write_report(tarn_device *device, tarn_report_format format, char *buffer,
                              size_t capacity)
{
    struct tn_text text = {buffer, capacity, 0};
    tarn_stats stats;

    tn_device_read_stats(device, false, true, &stats);
    if (format == TARN_REPORT_JSON) {
        tn_put(&text, "{\"device\": %d, \"name\": ", device->gpu.ordinal);
        tn_put_string(&text, device->gpu.name);
        put_members(&text, &stats, true);
        tn_put(&text, ", \"pools\": [");
        put_pools(&text, device, true);
        tn_put(&text, "]}\n");
    } else {
        tn_put(&text, "device %d: %s\n", device->gpu.ordinal, device->gpu.name);
        put_table(&text, &stats);
        tn_put(&text, "%-32s %11s %11s %11s\n", "pool", "live", "pending", "mapped");
        put_pools(&text, device, false);
    }
    return text.length;
}
