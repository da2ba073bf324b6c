// SPDX-License-Identifier: Apache-2.0
/* The out-of-memory ladder.
 *
 * An attempt runs under the pool's lock; between attempts the ladder holds no lock. Every attempt
 * polls the pool's finished stream uses first. The rungs, from free of cost to costly:
 *
 *   idle      free chunks of the pool's other arenas, proven idle, are for everyone in the pool;
 *             arenas without chunks go
 *   callbacks the user's, one after the other
 *   cache     chunks which are mapped nowhere, and of unwanted sizes, go to the driver
 *   others    free chunks of other pools, proven idle, are unmapped
 *   frugal    the growth is no larger than needed
 *   all       others again, since the larger growth may have met the pool's own limit; then chunks
 *             of this pool, which are not in one piece
 *   wait      for the device, which proves all free memory idle, for the end of newly destroyed
 *             graphs, and shortly for trackers, which keep memory: all but the callbacks again
 *
 * If addresses are short and not memory, the same rungs give addresses back, except cache, frugal
 * and wait: a segment which is unmapped whole gives up its addresses.
 *
 * A rung which found memory is followed by another attempt, and tried again while it finds more. No
 * more is therefore taken from others than needed. No rung disturbs a capture: the wait does not,
 * chunks of a capture are held, and callbacks run with the thread's mode relaxed.
 *
 * Trade-offs: other pools give back memory in whole free chunks only. A rung is tried 64 times at
 * most: threads which free and take as fast cannot keep a climb here for ever. */
#include "pools/ladder.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/user_code.h"
#include "driver/idle.h"
#include "driver/open.h"
#include "driver/mapping.h"
#include "pools/arenas.h"
#include "pools/await.h"
#include "pools/device.h"
#include "pools/end.h"
#include "pools/grow.h"
#include "pools/handover.h"
#include "pools/janitor.h"
#include "pools/pending.h"
#include "pools/pieces.h"
#include "pools/sweep.h"
#include "pools/totals.h"
#include "pools/visit.h"
#include "tarn/pressure.h"

enum {
    RUNG_TRIES_MAX = 64,
    PIECES_PART = 8,               /* of what a pool has mapped, made ahead */
    PIECES_AHEAD_BYTES = 64 << 20, /* at most */
    RUNG_WAIT = 6,                 /* behind those of climb_down */
    TRACKERS_NS = 1000000000,
};

struct climb {
    tarn_pool *pool;
    tn_ladder_attempt attempt;
    const void *request;
    uint64_t bytes;
    void **result;
    tarn_status status; /* of the last attempt */
    bool frugal;
    uint64_t mapped_bytes; /* of the pool, at the last attempt */
    /* The last attempt met the pool's own limit: memory of others is of no use. */
    bool at_own_limit;
    bool lacks_piece;     /* the last attempt found no registered memory ready */
    uint64_t callback_id; /* the last one called */
    bool tried;
    bool
        awaited; /* threads that told trackers of memory, and may have given it to the driver since */
};

static bool is_out_of_memory(tarn_status status)
{
    return status == TARN_ERR_DEVICE_MEMORY || status == TARN_ERR_LIMIT;
}

/* Makes an attempt. Returns whether its answer is final: anything except no memory, or no
 * addresses. */
static bool try_once(struct climb *climb)
{
    TN_ASSERT(tn_lock_none_held());
    if (tn_is_forked()) { /* a callback has forked, and this is the child */
        climb->status = tn_fork_refuse();
        return true;
    }
    tn_pool_lock(climb->pool);
    climb->pool->counters.events[TN_LADDER_RETRIES].count += climb->tried;
    climb->tried = true;
    climb->pool->limit.met = false;
    climb->pool->memory.lacks_piece = false;
    climb->status = climb->attempt(climb->pool, climb->request, climb->frugal, climb->result);
    climb->at_own_limit = climb->pool->limit.met;
    climb->lacks_piece = climb->pool->memory.lacks_piece;
    climb->mapped_bytes = tn_pool_mapped_bytes(climb->pool);
    tn_pool_unlock(climb->pool);
    return !is_out_of_memory(climb->status) && climb->status != TARN_ERR_ADDRESS_SPACE;
}

/* Registers memory for the attempt, with no lock held. False: there is none. */
static bool make_pieces(struct climb *climb)
{
    const uint64_t ahead = tn_min(climb->mapped_bytes / PIECES_PART, PIECES_AHEAD_BYTES);
    tarn_status status = tn_pieces_provide(
        climb->pool->device, climb->frugal ? TN_PIECE_BYTES : tn_max(ahead, TN_PIECE_BYTES));

    TN_ASSERT(tn_pool_has_pieces(climb->pool));
    if (status != TARN_OK)
        climb->status = status;
    return status == TARN_OK;
}

/* The same as try_once, but pieces that an attempt lacks are made. Other threads may take them
 * first. */
static bool try_again(struct climb *climb)
{
    bool final = try_once(climb);

    for (int tries = 0; !final && climb->lacks_piece && tries < RUNG_TRIES_MAX; tries++) {
        if (!make_pieces(climb))
            return climb->status != TARN_ERR_HOST_MEMORY && climb->status != TARN_ERR_LIMIT &&
                   climb->status != TARN_ERR_ADDRESS_SPACE;
        final = try_once(climb);
    }
    return final;
}

static bool rung_idle(struct climb *climb)
{
    uint64_t moved;

    tn_pool_lock(climb->pool);
    tn_pending_poll(climb->pool, false);
    moved = tn_arenas_give_idle(climb->pool);
    tn_arenas_drop_empty(climb->pool); /* their streams may have vanished */
    tn_pool_unlock(climb->pool);
    return moved > 0;
}

/* Calls a callback with the thread's mode relaxed. */
static TN_USER_CODE_ON_STACK bool call_free_callback(const struct climb *climb,
                                                     const struct tn_callback *callback)
{
    tarn_device *device = climb->pool->device;
    struct tn_stacking_call call;
    bool helped = false;
    int mode = tn_gpu_relax(&device->gpu);
    TN_USER_CODE(code);

    TN_ASSERT(tn_lock_none_held());
    if (mode < 0)
        return false;
    call = tn_stacking_leave_call();
    tn_gpus_enter_user_code();
    tn_user_code_enter(&code, TN_USER_FREE_CALLBACK);
    helped = ((tarn_free_callback)callback->function)(device, climb->bytes, callback->user);
    tn_user_code_leave(&code);
    tn_stacking_resume_call(call);
    tn_gpus_leave_user_code();
    if (!tn_is_forked())
        tn_gpu_unrelax(&device->gpu, mode);
    return helped;
}

/* Returns true also in the child of a callback which has forked, where the climb does not go on. */
static bool rung_callbacks(struct climb *climb)
{
    tarn_device *device = climb->pool->device;
    bool helped = false;
    bool called = false;

    while (!helped) {
        struct tn_callback *callback =
            tn_callbacks_enter(&device->free_callbacks, climb->callback_id);

        if (callback == NULL)
            break;
        climb->callback_id = callback->id;
        called = true;
        helped = call_free_callback(climb, callback);
        if (tn_is_forked())
            return true;
        tn_callbacks_leave(&device->free_callbacks, callback);
    }
    if (called)
        tn_device_close_over(device); /* the program may have ended captures of its own */
    tn_device_reap(device);           /* graphs may have been destroyed */
    if (tn_trackers_are_due(device))
        tn_pools_end_told(device, false);
    return helped || tn_is_forked();
}

/* Unmaps no more than wanted where chunks allow. The memory waits in the cache, where the next
 * attempt finds its sizes. The pool is locked. */
static uint64_t steal(tarn_pool *pool, uint64_t wanted_bytes, struct tn_farewells *farewells)
{
    bool unproven = false;
    uint64_t stolen;

    TN_ASSERT(tn_pool_is_locked(pool));
    tn_pending_poll(pool, false);
    stolen = tn_pool_unmap_free(pool, wanted_bytes, TN_UNMAPPED_TO_CACHE, &unproven, farewells);
    tn_arenas_drop_empty(pool);
    return stolen;
}

/* The memory which a climb takes from other pools. */
struct theft {
    const struct climb *climb;
    uint64_t stolen;
    struct tn_farewells *farewells;
};

static bool steal_from_other(tarn_pool *pool, void *context)
{
    struct theft *theft = context;

    const tarn_pool *to = theft->climb->pool;
    const uint64_t bytes = theft->climb->bytes;
    const uint64_t found = theft->stolen + theft->farewells->next_bytes;

    TN_ASSERT(tn_pool_is_locked(pool) && found < bytes);
    if (pool != to &&
        ((pool->in_host == to->in_host && tn_pool_has_pieces(pool) == tn_pool_has_pieces(to)) ||
         theft->climb->status == TARN_ERR_ADDRESS_SPACE)) /* which all share */
        theft->stolen += steal(pool, bytes - found, theft->farewells);
    return theft->stolen + theft->farewells->next_bytes >= bytes;
}

static uint64_t steal_own(struct climb *climb, struct tn_farewells *farewells)
{
    uint64_t stolen;

    tn_pool_lock(climb->pool);
    stolen = steal(climb->pool, climb->bytes, farewells);
    tn_pool_unlock(climb->pool);
    return stolen;
}

/* The attempt before has taken the cached chunks of its own sizes. */
static bool rung_cache(struct climb *climb)
{
    struct tn_memory_cache *cache = tn_pool_cache(climb->pool);
    uint64_t cached = tn_memory_cache_bytes(cache);

    if (climb->status == TARN_ERR_ADDRESS_SPACE || climb->at_own_limit ||
        tn_pool_has_pieces(climb->pool))
        return false;
    return tn_memory_cache_release(cache, cached - tn_min(cached, climb->bytes)) > 0;
}

/* Unmaps free memory of other pools, or of this one. Trackers hear of it before. */
static bool take_free(struct climb *climb, bool own)
{
    struct tn_farewells farewells = {.given_count = 0};
    struct theft theft = {climb, 0, &farewells};
    tarn_device *device = climb->pool->device;
    int rounds = 0;

    do {
        if (own)
            theft.stolen = steal_own(climb, &farewells);
        else
            (void)tn_device_visit(device, steal_from_other, &theft);
        rounds += 1;
    } while (theft.stolen == 0 && tn_farewells_tell(device, &farewells) && rounds < RUNG_TRIES_MAX);
    tn_farewells_end(device, &farewells);
    return theft.stolen > 0 || tn_is_forked();
}

static bool rung_others(struct climb *climb)
{
    if (rung_cache(climb)) /* memory stolen by this rung before, in useless sizes */
        return true;
    return !climb->at_own_limit && take_free(climb, false);
}

static bool rung_frugal(struct climb *climb)
{
    bool was_frugal = climb->frugal;

    if (climb->status == TARN_ERR_ADDRESS_SPACE)
        return false;
    climb->frugal = true;
    return !was_frugal;
}

static bool rung_all(struct climb *climb)
{
    return rung_others(climb) || take_free(climb, true);
}

/* Goes down the rungs which wait for nothing; true: an attempt has given a final answer. */
static bool climb_down(struct climb *climb)
{
    static bool (*const rungs[])(struct climb *) = {
        rung_idle, rung_callbacks, rung_cache, rung_others, rung_frugal, rung_all,
    };

    TN_ASSERT(climb->tried && climb->status != TARN_OK);
    for (size_t rung = 0; rung < sizeof rungs / sizeof rungs[0]; rung++) {
        tn_pool_note(climb->pool, TN_NOTE_RUNG, TN_OPERANDS(rung, climb->bytes));
        for (int tries = 0; tries < RUNG_TRIES_MAX && rungs[rung](climb); tries++) {
            if (try_again(climb))
                return true;
        }
    }
    return false;
}

/* Calls an observer with the thread's mode relaxed: else its calls might break a capture. */
static TN_USER_CODE_ON_STACK void call_observer(tarn_device *device,
                                                const struct tn_callback *observer,
                                                const tarn_out_of_memory *what)
{
    struct tn_stacking_call call;
    int mode = tn_gpu_relax(&device->gpu);
    TN_USER_CODE(code);

    TN_ASSERT(tn_lock_none_held());
    if (mode < 0)
        return;
    call = tn_stacking_leave_call();
    tn_gpus_enter_user_code();
    tn_user_code_enter(&code, TN_USER_OBSERVER);
    ((tarn_oom_observer)observer->function)(device, what, observer->user);
    tn_user_code_leave(&code);
    tn_stacking_resume_call(call);
    tn_gpus_leave_user_code();
    if (!tn_is_forked())
        tn_gpu_unrelax(&device->gpu, mode);
}

/* Tells the observers, and restores the sentence of the failure. */
static void tell_observers(tarn_pool *pool, uint64_t bytes, tarn_status status)
{
    tarn_device *device = pool->device;
    tarn_out_of_memory what = TARN_OUT_OF_MEMORY_INIT;
    struct tn_totals totals;
    char sentence[1024];
    struct tn_callback *observer = tn_callbacks_enter(&device->oom_observers, 0);

    TN_ASSERT(is_out_of_memory(status) || pool->in_host);
    if (observer == NULL)
        return;
    (void)snprintf(sentence, sizeof sentence, "%s", tarn_last_error());
    what.pool = atomic_load(&pool->released) ? NULL : pool;
    what.requested_bytes = bytes;
    what.status = status;
    tn_gpu_memory_info(&device->gpu, &what.driver_free_bytes, &what.driver_total_bytes);
    tn_totals_read(device, pool->in_host, &totals);
    what.mapped_bytes = tn_metric_all(&totals.metrics[TN_CHUNK_BYTES]);
    what.live_bytes = tn_metric_all(&totals.metrics[TN_LIVE_BYTES]);
    what.cached_bytes = tn_memory_cache_bytes(tn_pool_cache(pool));
    while (observer != NULL) {
        uint64_t id = observer->id;

        call_observer(device, observer, &what);
        if (tn_is_forked())
            return;
        tn_callbacks_leave(&device->oom_observers, observer);
        observer = tn_callbacks_enter(&device->oom_observers, id);
    }
    (void)tn_fail(status, "%s", sentence);
}

/* Waits for the device. DEVICE_LOST if the wait shows a fault; other failures of the wait do not
 * matter here. */
static tarn_status wait_for_device(struct climb *climb)
{
    tarn_device *device = climb->pool->device;
    tarn_status status = tn_gpu_wait_idle(&device->gpu);

    TN_ASSERT(tn_lock_none_held());
    (void)status;
    tn_await_holds(device, NULL, TN_AWAIT_POSSIBLE);
    tn_device_reap(device); /* pools which went with these holds */
    if (tn_trackers_are_due(device))
        tn_pools_end_told(device, false);
    climb->awaited = tn_trackers_await(device, TRACKERS_NS);
    if (tn_is_forked())
        return tn_fork_refuse();
    return tn_gpu_is_lost(&device->gpu) ? tn_gpu_check(&device->gpu) : TARN_OK;
}

/* The driver's sentence, with advice. */
static tarn_status no_addresses(const tarn_pool *pool, uint64_t bytes)
{
    char why[512];

    TN_ASSERT(bytes > 0);
    (void)snprintf(why, sizeof why, "%s", tarn_last_error());
    return tn_fail(
        TARN_ERR_ADDRESS_SPACE,
        "pool '%s' has no addresses for %llu bytes: %s; a trim of pools with free memory "
        "gives theirs back, and a device opened with larger region_bytes has more",
        pool->name, (unsigned long long)bytes, why);
}

static void note_failed(tarn_pool *pool, uint64_t bytes, tarn_status status)
{
    size_t free_bytes;
    size_t total_bytes;

    if (tn_device_ring(pool->device) == NULL)
        return;
    tn_gpu_memory_info(&pool->device->gpu, &free_bytes, &total_bytes);
    tn_pool_note(pool, TN_NOTE_OUT_OF_MEMORY, TN_OPERANDS(bytes, free_bytes, (uint64_t)status));
}

/* A list of pools, as a part of a sentence. */
struct list {
    char text[512];
    size_t length;
    bool host; /* of the pools in the host's memory, or of the others */
};

static bool put_pool(tarn_pool *pool, void *context)
{
    struct list *list = context;
    int length;

    TN_ASSERT(tn_pool_is_locked(pool) && list->length < sizeof list->text);
    if (pool->in_host != list->host)
        return false;
    length = snprintf(list->text + list->length, sizeof list->text - list->length,
                      "; pool '%s' maps %llu MiB, %llu live", pool->name,
                      (unsigned long long)(tn_pool_mapped_bytes(pool) / TN_MIB),
                      (unsigned long long)(tn_pool_live_bytes(pool) / TN_MIB));
    list->length += length > 0 ? (size_t)length : 0;
    return list->length >= sizeof list->text;
}

static tarn_status no_host_memory(const tarn_pool *pool, uint64_t bytes)
{
    tarn_device *device = pool->device;
    struct list pools = {.host = true};

    TN_ASSERT(pool->in_host && tn_lock_none_held());
    (void)tn_device_visit(device, put_pool, &pools);
    return tn_fail(TARN_ERR_HOST_MEMORY,
                   "the host has no %llu bytes of page-locked memory for pool '%s': Tarn maps %llu "
                   "MiB for device %d%s",
                   (unsigned long long)bytes, pool->name,
                   (unsigned long long)(tn_device_mapped_bytes(device, true) / TN_MIB),
                   device->gpu.ordinal, pools.text);
}

static tarn_status run(struct climb *climb)
{
    tarn_pool *pool = climb->pool;
    tarn_device *device = pool->device;
    const uint64_t bytes = climb->bytes;

    TN_ASSERT(tn_lock_none_held() && bytes > 0);
    if (try_again(climb))
        return climb->status;
    if (pool->in_host || bytes <= device->gpu.total_bytes) { /* else no memory would be enough */
        tarn_status waited;

        if (climb_down(climb))
            return climb->status;
        if (climb->status == TARN_ERR_ADDRESS_SPACE)
            return no_addresses(pool, bytes);
        tn_pool_note(pool, TN_NOTE_RUNG, TN_OPERANDS(RUNG_WAIT, bytes));
        waited = wait_for_device(climb);
        if (waited != TARN_OK)
            return waited;
        if (try_again(climb) || climb_down(climb) || (climb->awaited && try_again(climb)))
            return climb->status;
    }
    if (climb->status == TARN_ERR_ADDRESS_SPACE)
        return no_addresses(pool, bytes);
    tn_pool_lock(pool);
    pool->counters.events[TN_OUT_OF_MEMORY].count += 1;
    tn_pool_unlock(pool);
    note_failed(pool, bytes, climb->status);
    tn_trackers_note_failed(device, bytes, climb->status);
    if (climb->status == TARN_ERR_DEVICE_MEMORY)
        climb->status = pool->in_host ? no_host_memory(pool, bytes) : tn_ladder_failed(pool, bytes);
    tell_observers(pool, bytes, climb->status);
    return tn_is_forked() ? tn_fork_refuse() : climb->status;
}

tarn_status tn_ladder_run(tarn_pool *pool, tn_ladder_attempt attempt, const void *request,
                          uint64_t bytes, void **result)
{
    struct climb climb = {
        .pool = pool, .attempt = attempt, .request = request, .bytes = bytes, .result = result};
    const tarn_status status = run(&climb);

    if (!tn_is_forked())
        tn_stacking_end_growth(&pool->device->history.stacking);
    return status;
}

tarn_status tn_ladder_failed(const tarn_pool *pool, uint64_t bytes)
{
    tarn_device *device = pool->device;
    struct list pools = {.text = ""};
    size_t free_bytes;
    size_t total_bytes;

    TN_ASSERT(tn_lock_none_held());
    tn_gpu_memory_info(&device->gpu, &free_bytes, &total_bytes);
    (void)tn_device_visit(device, put_pool, &pools);
    return tn_fail(
        TARN_ERR_DEVICE_MEMORY,
        "device %d has no %llu bytes for pool '%s': the driver has %llu of %llu MiB "
        "free, Tarn maps %llu MiB%s",
        device->gpu.ordinal, (unsigned long long)bytes, pool->name,
        (unsigned long long)(free_bytes / TN_MIB), (unsigned long long)(total_bytes / TN_MIB),
        (unsigned long long)(tn_device_mapped_bytes(device, false) / TN_MIB), pools.text);
}
