// SPDX-License-Identifier: Apache-2.0
/* A first walk takes the values of all pools, and keeps them beside the pools. Prometheus wants all
 * samples of one name together, so the pools are then passed once for each name. The device's lock
 * is held while samples are put into a buffer. The next pool is pinned while a full buffer is
 * written, without a lock.
 *
 * Trade-offs: one table makes both forms, so JSON has the names of Prometheus' samples, less their
 * prefix. */
#include "observe/metrics.h"

#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/fork.h"
#include "base/host.h"
#include "base/text.h"
#include "driver/mapping.h"
#include "observe/history_info.h"
#include "observe/writing.h"
#include "pools/janitor.h"
#include "pools/pool.h"
#include "pools/staging.h"
#include "pools/totals.h"
#include "pools/visit.h"

enum { PART_BYTES = 4096, SAMPLE_BYTES_MAX = 512 };
#define WHOLE_POOL SIZE_MAX /* in place of the index of a value */

/* Of a pool: name, type, text for people, value. Values that a lock guards. */
#define POOL_VALUES(X)                                                                             \
    X(live_blocks, "gauge", "blocks that the program holds",                                       \
      tn_metric_all(&metrics[TN_LIVE_BLOCKS]))                                                     \
    X(live_bytes, "gauge", "bytes of these blocks, rounded up",                                    \
      tn_metric_all(&metrics[TN_LIVE_BYTES]))                                                      \
    X(live_peak_bytes, "gauge", "the most live bytes since the last scrape",                       \
      scrape->peaks[TN_SCRAPED_LIVE])                                                              \
    X(requested_bytes, "gauge", "bytes of live blocks, as requested",                              \
      tn_metric_all(&metrics[TN_LIVE_REQUESTED]))                                                  \
    X(pending_bytes, "gauge", "freed bytes that wait for streams or captures",                     \
      tn_metric_all(&metrics[TN_PENDING_BYTES]))                                                   \
    X(pending_peak_bytes, "gauge", "the most pending bytes since the last scrape",                 \
      scrape->peaks[TN_SCRAPED_PENDING])                                                           \
    X(discarded_bytes, "gauge", "bytes of aborted captures that are not freed",                    \
      tn_metric_all(&metrics[TN_DISCARDED_BYTES]))                                                 \
    X(mapped_bytes, "gauge", "bytes of device memory", tn_metric_all(&metrics[TN_CHUNK_BYTES]))    \
    X(mapped_peak_bytes, "gauge", "the most mapped bytes since the last scrape",                   \
      scrape->peaks[TN_SCRAPED_MAPPED])                                                            \
    X(limit_bytes, "gauge", "the most bytes that may be mapped, 0 for no limit",                   \
      pool->limit.bytes)                                                                           \
    X(captures, "gauge", "captures under way", pool->holds.open_count)                             \
    X(graphs, "gauge", "graphs", pool->claims.graph_count)                                         \
    X(held_graphs, "gauge", "graphs that keep memory, destroyed ones included",                    \
      tn_holds_count_graphs(&pool->holds))                                                         \
    X(checkpoints, "gauge", "checkpoints", pool->claims.checkpoint_count)                          \
    X(arenas, "gauge", "streams with memory of their own", pool->arenas.count)                     \
    X(allocations_total, "counter", "allocations", pool->counters.alloc_count)                     \
    X(frees_total, "counter", "frees", pool->counters.free_count)                                  \
    X(maps_total, "counter", "chunks mapped for good", tn_pool_map_count(pool))                    \
    X(unmaps_total, "counter", "chunks unmapped for good", tn_pool_unmap_count(pool))              \
    X(growths_total, "counter", "growths", events[TN_GROWTHS].count)                               \
    X(retries_total, "counter", "retries for want of memory", events[TN_LADDER_RETRIES].count)     \
    X(out_of_memory_total, "counter", "allocations that failed for want of memory",                \
      events[TN_OUT_OF_MEMORY].count)                                                              \
    X(trims_total, "counter", "trims", events[TN_TRIMS].count)

/* Of a device, likewise. Values that the driver may not tell are NOT_KNOWN. The last is the count of
 * pools, in whose place JSON has the pools. */
#define NOT_KNOWN UINT64_MAX
#define DEVICE_VALUES(X)                                                                           \
    X(memory_bytes, "gauge", "memory of the device", device->gpu.total_bytes)                      \
    X(free_bytes, "gauge", "memory that the driver says is free", memory->free_bytes)              \
    X(other_bytes, "gauge",                                                                        \
      "taken memory that is not Tarn's: contexts, libraries, other processes",                     \
      memory->other_bytes)                                                                         \
    X(mapped_bytes, "gauge", "bytes in the pools", memory->mapped)                                 \
    X(mapped_peak_bytes, "gauge", "the most mapped bytes since the last scrape",                   \
      memory->mapped_peak)                                                                         \
    X(cached_bytes, "gauge", "bytes that are mapped nowhere, and kept for their next use",         \
      memory->cached)                                                                              \
    X(cache_limit_bytes, "gauge", "the most bytes that may be cached", memory->cache_limit)        \
    X(limit_bytes, "gauge", "the most bytes that may be mapped, 0 for no limit",                   \
      tn_budget_stated_limit(&device->budget))                                                     \
    X(address_bytes, "gauge", "addresses reserved", atomic_load(&device->regions.reserved_bytes))  \
    X(contents_bytes, "gauge", "contents of checkpoints, in the default pool",                     \
      atomic_load(&device->contents_bytes))                                                        \
    X(pinned_bytes, "gauge", "page-locked host memory", memory->pinned)                            \
    X(host_bytes, "gauge", "host memory of Tarn's, in the process", memory->host)                  \
    X(history_bytes, "gauge", "memory of the history", tn_history_bytes(device))                   \
    X(import_bytes, "gauge", "memory of other processes, mapped",                                  \
      atomic_load(&device->imports.mapped_bytes))                                                  \
    X(routes, "gauge", "routes open", atomic_load(&device->routes.open_count))                     \
    X(lost, "gauge", "1 where the driver has given the device up",                                 \
      (uint64_t)tn_gpu_is_lost(&device->gpu))                                                      \
    X(adopted_captures_total, "counter", "captures that got a pool for want of a route",           \
      atomic_load(&device->adopted_count))                                                         \
    X(unrouted_allocations_total, "counter", "allocations in captures without a route",            \
      atomic_load(&device->unrouted_count))                                                        \
    X(creates_total, "counter", "chunks made, also for nothing", calls(device, TN_CALL_CREATE))    \
    X(releases_total, "counter", "chunks given back", calls(device, TN_CALL_RELEASE))              \
    X(maps_total, "counter", "chunks mapped, also for nothing", calls(device, TN_CALL_MAP))        \
    X(unmaps_total, "counter", "chunks unmapped", calls(device, TN_CALL_UNMAP))                    \
    X(idle_waits_total, "counter", "waits for the whole device", calls(device, TN_CALL_WAIT))      \
    X(pools, "gauge", "pools", memory->pools)

struct value {
    const char *name;
    const char *type;
    const char *help;
};

#define ROW(name, type, help, value) {#name, type, help},
#define VALUE(name, type, help, value) value,
static const struct value pool_values[] = {POOL_VALUES(ROW)};
static const struct value device_values[] = {DEVICE_VALUES(ROW)};

enum {
    POOL_COUNT = sizeof pool_values / sizeof pool_values[0],
    DEVICE_COUNT = sizeof device_values / sizeof device_values[0]
};
_Static_assert((int)POOL_COUNT <= (int)TN_SCRAPED_VALUES,
               "a pool has room for what is taken of it");

/* What is asked before a device's values are put together. */
struct memory {
    uint64_t free_bytes; /* NOT_KNOWN: the driver does not say */
    uint64_t other_bytes;
    uint64_t mapped;
    uint64_t mapped_peak;
    uint64_t cached;
    uint64_t cache_limit;
    uint64_t pinned;
    uint64_t host;
    uint64_t pools;
};

/* Metrics that are being written. */
struct metrics {
    tarn_device *device;
    int scraper;
    uint64_t number; /* of the scrape */
    struct tn_writing writing;
    struct tn_text text;
    tarn_status status; /* of the first failure */
    tarn_pool *pinned;  /* the pool where a pass goes on; NULL: at the first */
    uint64_t pool_count;
    uint64_t values[DEVICE_COUNT];
    char part[PART_BYTES];
};

static bool take_pool(tarn_pool *pool, void *context)
{
    struct metrics *to = context;
    struct tn_pool_scrape *scrape = &pool->counters.scrapes[to->scraper];
    const struct tn_metric *metrics = pool->counters.metrics;
    const struct tn_event *events = pool->counters.events;

    TN_ASSERT(tn_pool_is_locked(pool));
    if (!tn_pool_is_counted(pool))
        return false;
    tn_scrape_peaks(pool->counters.scrapes, pool->counters.metrics, to->device->scrapers,
                    to->scraper);
    {
        const uint64_t values[] = {POOL_VALUES(VALUE)};

        memcpy(scrape->values, values, sizeof values);
    }
    to->pool_count += 1;
    return false;
}

static uint64_t calls(tarn_device *device, enum tn_gpu_call call)
{
    return atomic_load(&device->gpu.calls[call]);
}

/* Memory that a thread maps or gives back meanwhile may seem to be somebody else's, or free. */
static void ask_memory(tarn_device *device, struct memory *memory)
{
    uint64_t cached_count;
    uint64_t pinned_cached;
    size_t free_bytes;
    size_t total_bytes;

    tn_gpu_memory_info(&device->gpu, &free_bytes, &total_bytes);
    memory->mapped = tn_device_mapped_bytes(device, false);
    tn_memory_cache_usage(&device->cache, &memory->cached, &cached_count, &memory->cache_limit);
    tn_staging_usage(device, &memory->pinned, &pinned_cached);
    memory->host = tn_host_usage().current_bytes;
    memory->free_bytes = NOT_KNOWN;
    memory->other_bytes = NOT_KNOWN;
    if (total_bytes > 0) {
        const uint64_t taken = total_bytes - free_bytes;

        TN_ASSERT(free_bytes <= total_bytes);
        memory->free_bytes = free_bytes;
        memory->other_bytes = taken - tn_min(taken, memory->mapped + memory->cached);
    }
}

/* Takes all values. The scraper is busy. */
static void take(struct metrics *to)
{
    tarn_device *device = to->device;
    struct tn_device_counters *counters = &device->counters;
    struct memory asked = {.free_bytes = NOT_KNOWN};
    struct memory *memory = &asked;

    TN_ASSERT(tn_lock_none_held());
    (void)tn_device_visit(device, take_pool, to);
    ask_memory(device, memory);
    memory->pools = to->pool_count;
    tn_lock_acquire_spin(&counters->lock, TN_RANK_COUNTS);
    tn_scrape_mapped(device->scrapers, &counters->mapped[TN_CHUNK_BYTES], to->scraper);
    tn_lock_release_spin(&counters->lock, TN_RANK_COUNTS);
    memory->mapped_peak = tn_max(device->scrapers[to->scraper].peak, memory->mapped);
    {
        const uint64_t values[] = {DEVICE_VALUES(VALUE)};

        memcpy(to->values, values, sizeof values);
    }
}

static void flush(struct metrics *to)
{
    TN_ASSERT(to->text.length <= sizeof to->part && tn_lock_none_held());
    if (to->status == TARN_OK && to->text.length > 0)
        to->status = tn_write_part(&to->writing, to->part, to->text.length);
    to->text.length = 0;
}

static bool is_full(const struct metrics *to)
{
    return to->text.length + SAMPLE_BYTES_MAX > sizeof to->part;
}

/* Makes room for one sample. */
static void make_room(struct metrics *to)
{
    if (is_full(to))
        flush(to);
}

static void unpin(struct metrics *to)
{
    if (to->pinned != NULL)
        tn_pool_unpin(to->pinned);
    to->pinned = NULL;
}

/* The same in a pass, without the DEVICE lock meanwhile. The pass goes on at this pool. */
static void make_room_at(struct metrics *to, tarn_pool *pool)
{
    if (!is_full(to))
        return;
    tn_pool_pin(pool);
    tn_lock_release(&to->device->lock);
    flush(to);
    unpin(to);
    to->pinned = pool;
    if (!tn_is_forked())
        tn_lock_acquire(&to->device->lock);
}

/* The pool's name as a label's value, in UTF-8: a byte above ASCII is the character of its
 * number. */
static void put_label(struct tn_text *text, const char *name)
{
    for (; *name != '\0'; name++) {
        const unsigned char byte = (unsigned char)*name;

        if (byte == '\n')
            tn_put(text, "\\n");
        else if (byte == '"' || byte == '\\')
            tn_put(text, "\\%c", byte);
        else if (byte >= 0x80)
            tn_put(text, "%c%c", 0xc0 | byte >> 6, 0x80 | (byte & 0x3f));
        else
            tn_put(text, "%c", byte);
    }
}

static void put_head(struct metrics *to, const char *of, const struct value *value)
{
    make_room(to);
    tn_put(&to->text, "# HELP tarn_%s_%s %s\n# TYPE tarn_%s_%s %s\n", of, value->name, value->help,
           of, value->name, value->type);
}

/* The first pool from this one on that the scrape has taken; NULL: none. */
static tarn_pool *find_taken(const struct metrics *to, tarn_pool *pool)
{
    while (pool != NULL && pool->counters.scrapes[to->scraper].number != to->number)
        pool = pool->next;
    return pool;
}

static void put_sample(struct metrics *to, tarn_pool *pool, size_t index)
{
    tn_put(&to->text, "tarn_pool_%s{device=\"%d\",pool=\"", pool_values[index].name,
           to->device->gpu.ordinal);
    put_label(&to->text, pool->name);
    tn_put(&to->text, "\",number=\"%llu\"} %llu\n", (unsigned long long)pool->holds.pool_serial,
           (unsigned long long)pool->counters.scrapes[to->scraper].values[index]);
}

/* A pool's object, in parts. Its values stay while the scraper is busy. */
static void put_object(struct metrics *to, tarn_pool *pool)
{
    tn_put(&to->text, "%s{\"pool\": ", to->pool_count > 0 ? ", " : "");
    tn_put_string(&to->text, pool->name);
    tn_put(&to->text, ", \"number\": %llu", (unsigned long long)pool->holds.pool_serial);
    for (size_t i = 0; i < POOL_COUNT && to->status == TARN_OK; i++) {
        make_room_at(to, pool);
        tn_put(&to->text, ", \"%s\": %llu", pool_values[i].name,
               (unsigned long long)pool->counters.scrapes[to->scraper].values[i]);
    }
    tn_put(&to->text, "}");
    to->pool_count += 1;
}

/* Puts a sample of each taken pool, or its whole object, with the DEVICE lock held. */
static void pass_pools(struct metrics *to, size_t index)
{
    tarn_pool *pool;

    tn_lock_acquire(&to->device->lock);
    pool = find_taken(to, to->device->pools);
    while (to->status == TARN_OK && pool != NULL) {
        make_room_at(to, pool);
        if (to->status == TARN_OK)
            index == WHOLE_POOL ? put_object(to, pool) : put_sample(to, pool, index);
        if (to->status == TARN_OK)
            pool = find_taken(to, pool->next);
    }
    if (!tn_is_forked())
        tn_lock_release(&to->device->lock);
    unpin(to);
}

static void put_prometheus(struct metrics *to)
{
    for (size_t i = 0; i < DEVICE_COUNT; i++) {
        if (to->values[i] == NOT_KNOWN)
            continue;
        put_head(to, "device", &device_values[i]);
        tn_put(&to->text, "tarn_device_%s{device=\"%d\"} %llu\n", device_values[i].name,
               to->device->gpu.ordinal, (unsigned long long)to->values[i]);
    }
    for (size_t i = 0; i < POOL_COUNT && to->status == TARN_OK; i++) {
        put_head(to, "pool", &pool_values[i]);
        pass_pools(to, i);
    }
}

static void put_json(struct metrics *to)
{
    tn_put(&to->text, "{\"device\": %d, \"name\": ", to->device->gpu.ordinal);
    tn_put_string(&to->text, to->device->gpu.name);
    for (size_t i = 0; i < DEVICE_COUNT - 1; i++) {
        make_room(to);
        tn_put(&to->text, ", \"%s\": ", device_values[i].name);
        if (to->values[i] == NOT_KNOWN)
            tn_put(&to->text, "null");
        else
            tn_put(&to->text, "%llu", (unsigned long long)to->values[i]);
    }
    tn_put(&to->text, ", \"pools\": [");
    to->pool_count = 0;
    pass_pools(to, WHOLE_POOL);
    tn_put(&to->text, "]}\n");
}

tarn_status tn_device_write_metrics(tarn_device *device, tarn_metrics_format format, int scraper,
                                    tarn_writer writer, void *user)
{
    struct tn_scraper *own = &device->scrapers[scraper];
    tarn_status status = tn_scrape_begin(own, scraper);
    struct metrics to;

    TN_ASSERT(tn_lock_none_held());
    if (status != TARN_OK)
        return status;
    to.device = device;
    to.scraper = scraper;
    to.number = own->number;
    to.writing = (struct tn_writing){writer, user, 0};
    to.text = (struct tn_text){to.part, sizeof to.part, 0};
    to.status = TARN_OK;
    to.pinned = NULL;
    to.pool_count = 0;
    take(&to);
    if (format == TARN_METRICS_JSON)
        put_json(&to);
    else
        put_prometheus(&to);
    flush(&to);
    tn_scrape_end(own, to.status == TARN_OK);
    return to.status;
}
