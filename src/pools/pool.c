// SPDX-License-Identifier: Apache-2.0
#include "pools/pool.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "driver/tool.h"
#include "heap/arena_lock.h"
#include "pools/device.h"

static struct tn_records pool_records = TN_RECORDS_INIT_KEEPING(struct tarn_pool, name, lock);

/* Of the newest pool of the process. Taken under the DEVICE lock, serials rise in a device's list. */
static atomic_uint_fast64_t last_serial;

/* Of memory of the host: what is freed there is idle, but for the uses that were recorded. */
static const atomic_uint_fast64_t no_epoch;

void tn_pool_init_arena(tarn_pool *pool, struct tn_arena *arena, struct tn_heaps *heaps,
                        struct tn_order order)
{
    struct tn_history *history = &pool->device->history;
    bool recorded = history->file.head != NULL;

    TN_ASSERT(tn_pool_is_locked(pool) && tn_arena_is_locked(arena));
    tn_arena_init(
        arena,
        &(struct tn_arena_owner){.pool = pool,
                                 .rounding = pool->rounding,
                                 .epoch = pool->in_host ? &no_epoch : &pool->device->gpu.epoch,
                                 .store = &pool->store,
                                 .heaps = heaps,
                                 .segments = tn_order_equal(order, TN_ORDER_NONE)
                                                 ? &pool->segments.dormant.first
                                                 : &pool->segments.first,
                                 .history = recorded ? &history->ring : NULL},
        order);
}

void tn_pool_end_arena(tarn_pool *pool, struct tn_arena *arena)
{
    const uint64_t writer = tn_arena_history(arena)->log.id;

    TN_ASSERT(tn_arena_is_locked(arena));
    tn_arena_end(arena);
    tn_pool_note(pool, TN_NOTE_ARENA_ENDED, TN_OPERANDS(writer));
}

/* Prepares the kept fields of the record. */
static void renew(tarn_pool *pool, struct tn_heaps *idle_heaps)
{
    if (pool->lock.rank != TN_RANK_POOL) /* a new record */
        tn_lock_init(&pool->lock, TN_RANK_POOL);
    tn_lock_acquire(&pool->lock);
    TN_ASSERT(pool->arenas.lists.first[TN_ARENAS_ALL] == NULL);
    pool->arenas = (struct tn_arenas){.count = 0};
    pool->counters =
        (struct tn_pool_counters){.sums = &tn_device_counters(pool->device, pool->in_host)->sums};
    tn_pins_open(&pool->pins);
    tn_arena_lock(&pool->idle);
    tn_pool_init_arena(pool, &pool->idle, idle_heaps, (struct tn_order){0, 0});
    tn_arena_unlock(&pool->idle);
    tn_lock_release(&pool->lock);
}

/* Where the device keeps a history, the pool's live blocks are in tables. False: no memory. */
static bool keep_tables(tarn_pool *pool, tarn_device *device)
{
    return device->history.file.head == NULL ||
           tn_blocks_add_tables(&pool->store, &device->history.tables);
}

static uint64_t make_tool_counter(const tarn_device *device, const tarn_pool *pool)
{
    char name[sizeof pool->name + 64];

    (void)snprintf(name, sizeof name, "tarn device %d pool '%s': mapped bytes", device->gpu.ordinal,
                   pool->name);
    return tn_tool_make_counter(name);
}

tarn_status tn_pool_create(tarn_device *device, const struct tn_pool_settings *settings,
                           tarn_pool **pool)
{
    struct tn_heaps *idle_heaps = tn_heaps_take();
    struct tn_replays *replays;
    tarn_pool *made;

    TN_ASSERT(!tn_lock_held(TN_RANK_DEVICE));
    made = idle_heaps != NULL ? tn_records_take(&pool_records) : NULL;
    replays = made != NULL && keep_tables(made, device) ? tn_replays_make() : NULL;
    if (replays == NULL) {
        if (made != NULL) {
            tn_blocks_fini(&made->store);
            tn_records_give(&pool_records, made);
        }
        if (idle_heaps != NULL)
            tn_heaps_give(idle_heaps);
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a pool");
    }
    __atomic_store_n(&made->device, device, __ATOMIC_RELAXED); /* kept fields come first */
    made->rounding = device->rounding.any ? &device->rounding : NULL;
    TN_ASSERT(atomic_load(&made->arena_table) == NULL);
    atomic_store(&made->replays, replays);
    atomic_store(&made->replay_stream_id, 0);
    made->replay_order = (uint8_t)settings->replay_order;
    atomic_store(&made->in_host, settings->properties.host);
    atomic_store(&made->released, false);
    atomic_store(&made->is_default, settings->is_default);
    made->share_captured = settings->share_captured;
    atomic_store(&made->ending, TN_ENDING_NOT);
    made->first_replays = replays;
    (void)snprintf(made->name, sizeof made->name, "%s",
                   settings->name != NULL ? settings->name : "");
    made->limit.bytes = settings->limit_bytes;
    made->graphs.guard = settings->guard;
    made->graphs.is_adopted = settings->is_adopted;
    made->memory.properties = settings->properties;
    made->memory.peer_mask = settings->peer_mask;
    made->holds = (struct tn_holds){.pool = made,
                                    .index = &device->index,
                                    .lock = &made->lock,
                                    .gpu = &device->gpu,
                                    .chunks = &made->chunks,
                                    .gone = &device->gone_holds,
                                    .user_count = &device->user_hold_count};
    renew(made, idle_heaps);
    made->counters.tool_counter = make_tool_counter(device, made);
    tn_lock_acquire(&device->lock);
    made->holds.pool_serial = atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed) + 1;
    if (made->store.tables != NULL) {
        made->store.tables->pool_serial = made->holds.pool_serial;
        made->store.tables->pool_name = made->name;
    }
    made->next = device->pools;
    if (made->next != NULL)
        made->next->places.previous = made;
    made->memory.peer_mask |= device->peer_mask;
    device->pools = made;
    tn_lock_release(&device->lock);
    tn_pool_note(made, TN_NOTE_POOL_CREATED,
                 TN_OPERANDS(settings->is_default ? 1U : 2U * settings->is_adopted));
    tn_pool_note_arena(made, &made->idle);
    atomic_store(&made->magic, TN_POOL_MAGIC);
    *pool = made;
    return TARN_OK;
}

tarn_status tn_pool_check_unclaimed(const tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    if (tn_pool_is_unclaimed(pool))
        return TARN_OK;
    return tn_fail(
        TARN_ERR_BUSY,
        "pool '%s' is in use: %llu live blocks, %llu routes, %llu captures, %llu graphs, "
        "%llu checkpoints, %llu holds of captures and of graphs that are not gone (a launch runs, or the "
        "program has an executable or a clone), %llu blocks that were freed and that graphs keep, "
        "%llu calls under way",
        pool->name, (unsigned long long)tn_pool_live_count(pool),
        (unsigned long long)pool->claims.route_count,
        (unsigned long long)pool->claims.capture_count,
        (unsigned long long)pool->claims.graph_count,
        (unsigned long long)pool->claims.checkpoint_count, (unsigned long long)pool->holds.count,
        (unsigned long long)pool->watches.kept_count,
        (unsigned long long)tn_pins_count(&pool->pins));
}

void tn_pool_recycle(tarn_pool *pool)
{
    TN_ASSERT(tn_lock_none_held() && atomic_load(&pool->magic) == 0);
    TN_ASSERT(pool->arenas.lists.first[TN_ARENAS_ALL] == NULL && pool->segments.first == NULL);
    tn_arena_lock(&pool->idle); /* whoever still looks at the record */
    tn_pool_end_arena(pool, &pool->idle);
    tn_arena_unlock(&pool->idle);
    tn_pool_note(pool, TN_NOTE_POOL_DESTROYED, TN_OPERANDS(0));
    tn_records_give(&pool_records, pool);
}
