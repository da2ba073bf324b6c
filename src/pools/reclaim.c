// SPDX-License-Identifier: Apache-2.0
/* Trim.
 *
 * Memory may be unmapped when every free in it came before a wait for the device which has ended.
 * Other memory stays, or is waited for once if the caller allows a wait. The wait also covers holds
 * of graphs which the library has destroyed: the driver ends these holds a little later
 * (pools/await.h). The program may have destroyed graphs of its own, which nobody tells. So once in
 * a trim free memory which only their holds keep is waited for briefly.
 *
 * Trade-offs: the device's list of pools is locked while pools are trimmed, so pools are not
 * created meanwhile; unmapping a chunk costs some 50 to 500 us. */
#include "pools/reclaim.h"

#include "base/contract.h"
#include "base/fork.h"
#include "driver/idle.h"
#include "pools/arenas.h"
#include "pools/await.h"
#include "pools/grow.h"
#include "pools/janitor.h"
#include "pools/pending.h"
#include "pools/pieces.h"
#include "pools/sweep.h"
#include "pools/visit.h"

/* Passes of a trim behind the first: a hold goes, then the device is waited for; and one more, for
 * graphs which other threads destroy meanwhile. */
enum { PASSES = 3 };

/* Of a pass: in each, trackers hear of what goes in the next. Other threads may want that meanwhile. */
enum { ROUNDS = 1024 };

/* Why memory that should go stays, after a pass of a trim. */
struct stays {
    bool unproven; /* a wait for the device may prove that nothing runs in it */
    bool expected; /* holds are about to go: with the next look of any thread */
    bool held;     /* holds which may be about to go, or not, keep free memory */
    bool waited;   /* the device was waited for, before the pass */
    bool guessed;  /* holds which may go were waited for, before the pass */
};

/* Unmaps until the locked pool maps no more than keep_bytes. */
static uint64_t trim_pool_pass(tarn_pool *pool, uint64_t keep_bytes, struct stays *why,
                               struct tn_farewells *farewells)
{
    bool stays = false;
    uint64_t mapped;
    uint64_t freed;

    TN_ASSERT(tn_pool_is_locked(pool));
    tn_pending_poll(pool, false);
    mapped = tn_pool_mapped_bytes(pool);
    freed = tn_pool_unmap_free(pool, mapped > keep_bytes ? mapped - keep_bytes : 0,
                               TN_UNMAPPED_TO_DRIVER, &stays, farewells);
    tn_arenas_drop_empty(pool); /* their streams may have vanished */
    /* A wait may prove pending memory free. */
    if (tn_pool_mapped_bytes(pool) > keep_bytes && (stays || tn_pool_has_pending(pool)))
        why->unproven = true;
    if (tn_pool_mapped_bytes(pool) > keep_bytes && tn_holds_are_expected(&pool->holds))
        why->expected = true;
    if (tn_pool_mapped_bytes(pool) > keep_bytes && !why->guessed &&
        tn_holds_may_let_go(&pool->holds))
        why->held = true;
    TN_ASSERT(tn_pool_mapped_bytes(pool) + freed == mapped);
    return freed;
}

static uint64_t lock_and_trim(tarn_pool *pool, uint64_t keep_bytes, struct stays *why)
{
    struct tn_farewells farewells = {.given_count = 0};
    uint64_t freed = 0;
    int rounds = 0;

    do {
        tn_pool_lock(pool);
        freed += trim_pool_pass(pool, keep_bytes, why, &farewells);
        tn_pool_unlock(pool);
        rounds += 1;
    } while (tn_farewells_tell(pool->device, &farewells) && rounds < ROUNDS);
    tn_farewells_end(pool->device, &farewells);
    return freed;
}

void tn_pool_shrink(tarn_pool *pool, uint64_t keep_bytes)
{
    struct stays why = {0};

    TN_ASSERT(tn_lock_none_held());
    (void)lock_and_trim(pool, keep_bytes, &why);
}

/* Waits for memory which should go and cannot yet: for the device where needed, once, which also
 * ends the launches of destroyed graphs; then for their holds. pool: NULL: all of the device.
 * Returns whether more may go by now. Memory whose hold has gone may still be unproven: another
 * pass tells. */
static bool prove(tarn_device *device, tarn_pool *pool, struct stays *why, tarn_status *status)
{
    const struct stays found = *why;
    bool waits = found.unproven && !found.waited;
    bool goes = found.expected || found.held;

    TN_ASSERT(tn_lock_none_held());
    if (tn_is_forked())
        return false;
    if (goes) {
        tn_device_drop_gone(device); /* most have gone by now */
        waits = waits || (!found.waited && tn_await_needs_device(device, pool));
    }
    *status = waits ? tn_gpu_wait_idle(&device->gpu) : TARN_OK;
    if (*status == TARN_OK && goes) /* none is expected any more afterwards */
        tn_await_holds(device, pool, found.held ? TN_AWAIT_BRIEF : TN_AWAIT_EXPECTED);
    *why = (struct stays){.waited = found.waited || waits, .guessed = found.guessed || found.held};
    return *status == TARN_OK && (waits || goes);
}

tarn_status tn_pool_trim(tarn_pool *pool, uint64_t keep_bytes, bool wait, uint64_t *freed_bytes)
{
    struct stays why = {0};
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_none_held());
    tn_device_see_end(pool->device); /* an open hold is not waited for */
    tn_pool_lock(pool);
    pool->counters.events[TN_TRIMS].count += 1;
    tn_pool_unlock(pool);
    *freed_bytes = lock_and_trim(pool, keep_bytes, &why);
    for (int i = 0; i < PASSES && wait && prove(pool->device, pool, &why, &status); i++)
        *freed_bytes += lock_and_trim(pool, keep_bytes, &why);
    if (tn_is_forked()) /* in a tracker */
        return tn_fork_refuse();
    if (wait && tn_pool_has_pieces(pool))
        tn_pieces_trim(pool->device, 0);
    tn_regions_shrink(&pool->device->regions);
    if (status == TARN_OK)
        tn_pool_note(pool, TN_NOTE_TRIMMED, TN_OPERANDS(*freed_bytes, keep_bytes));
    return status;
}

/* A trim of a device. */
struct trim {
    bool host; /* of the pools in the host's memory, or of the others */
    uint64_t keep_bytes;
    uint64_t freed;
    struct stays *why;
    struct tn_farewells farewells;
};

static bool trim_pool(tarn_pool *pool, void *context)
{
    struct trim *trim = context;
    uint64_t mapped = tn_device_mapped_bytes(pool->device, trim->host) - trim->farewells.next_bytes;
    uint64_t excess = mapped > trim->keep_bytes ? mapped - trim->keep_bytes : 0;
    uint64_t own = tn_pool_mapped_bytes(pool);

    TN_ASSERT(tn_lock_is_held(&pool->device->lock));
    if (pool->in_host != trim->host)
        return false;
    trim->freed +=
        trim_pool_pass(pool, own > excess ? own - excess : 0, trim->why, &trim->farewells);
    return false;
}

/* The cache first, then the pools, newest first. */
static uint64_t trim_device(tarn_device *device, bool host, uint64_t keep_bytes, struct stays *why)
{
    struct tn_memory_cache *cache = host ? &device->host.cache : &device->cache;
    uint64_t mapped = tn_device_mapped_bytes(device, host);
    struct trim trim = {.host = host, .keep_bytes = keep_bytes, .why = why};
    int rounds = 0;

    trim.freed = tn_memory_cache_release(cache, keep_bytes > mapped ? keep_bytes - mapped : 0);
    do {
        (void)tn_device_visit(device, trim_pool, &trim);
        rounds += 1;
    } while (tn_farewells_tell(device, &trim.farewells) && rounds < ROUNDS);
    tn_farewells_end(device, &trim.farewells);
    return trim.freed;
}

tarn_status tn_device_trim(tarn_device *device, bool host, uint64_t keep_bytes, bool wait,
                           uint64_t *freed_bytes)
{
    struct stays why = {0};
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_none_held());
    tn_device_reap(device);
    tn_device_see_end(device);
    tn_lock_acquire(&device->lock);
    tn_device_counters(device, host)->events[TN_TRIMS].count += 1;
    tn_lock_release(&device->lock);
    *freed_bytes = trim_device(device, host, keep_bytes, &why);
    for (int i = 0; i < PASSES && wait && prove(device, NULL, &why, &status); i++)
        *freed_bytes += trim_device(device, host, keep_bytes, &why);
    if (tn_is_forked())
        return tn_fork_refuse();
    tn_regions_shrink(&device->regions);
    if (status == TARN_OK)
        tn_device_note(device, TN_NOTE_TRIMMED, TN_OPERANDS(*freed_bytes, keep_bytes));
    return status;
}
