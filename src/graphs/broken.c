// SPDX-License-Identifier: Apache-2.0
/* The newest block is found by its number: the highest that an arena of the capture has given. Its bytes are known as
 * long as it is live. It stays the newest, since nothing is allocated in a broken capture.
 *
 * Trade-offs: the handle of a stream that was forked, and destroyed, may be another stream's by now; a call on that in
 * another capture is then taken for one in this. Pools of other devices are not looked at: a block there may be
 * newer, but the one that is named was allocated while the capture was good all the same. */
#include "graphs/broken.h"

#include <stddef.h>

#include "base/error.h"
#include "driver/capture_error.h"
#include "driver/node.h"
#include "pools/arenas.h"

enum { PART_BYTES = 512, FORKS_MAX = 4 };

/* The number of the newest block that the arena has given; 0: none. */
static uint64_t newest_of(const struct tn_arena *arena)
{
    return arena->sequence > 0 ? arena->sequence - 1 : 0;
}

/* The bytes of the pool's live block of that number; 0: there is none. */
static uint64_t bytes_of(tarn_pool *pool, uint64_t sequence)
{
    for (const struct tn_block *block = tn_live_first(pool->segments); block != NULL;
         block = tn_live_next((struct tn_block *)block)) {
        if (block->sequence == sequence)
            return block->requested;
    }
    return 0;
}

/* What the pool, which is locked, knows. */
static void look_in(tarn_pool *pool, uint64_t capture_id, struct tn_broken *broken)
{
    const struct tn_hold *hold = tn_hold_find_owned(pool, capture_id);
    uint64_t newest = 0;

    for (const struct tn_arena *arena = pool->arenas; arena != NULL; arena = arena->next) {
        if (arena->order.capture_id == capture_id)
            newest = tn_max(newest, newest_of(arena));
    }
    if (newest > broken->sequence) {
        broken->sequence = newest;
        broken->requested = bytes_of(pool, newest);
    }
    if (hold != NULL)
        broken->noticed = hold->noticed;
}

/* The same in all pools; the DEVICE lock is held. */
static struct tn_broken look(tarn_device *device, uint64_t capture_id)
{
    struct tn_broken broken = {.sequence = 0};

    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        tn_pool_lock(pool);
        look_in(pool, capture_id, &broken);
        tn_pool_unlock(pool);
    }
    return broken;
}

/* The newest capture that the pool, which is locked, knows to be on the stream; 0: none. */
static uint64_t find_in(tarn_pool *pool, uint64_t stream_id)
{
    uint64_t found = 0;

    for (const struct tn_hold *hold = pool->holds; hold != NULL; hold = hold->next) {
        const struct tn_order order = {stream_id, hold->capture_id};

        if (hold->open && (hold->origin_id == stream_id || tn_arena_find(pool, order) != NULL))
            found = tn_max(found, hold->capture_id);
    }
    return found;
}

/* The call is the first, unless there was one. */
static bool note_in(tarn_pool *pool, uint64_t capture_id, struct tn_hold_call call)
{
    struct tn_hold *hold = tn_hold_find_owned(pool, capture_id);

    if (hold != NULL && hold->noticed.name == NULL)
        hold->noticed = call;
    return hold != NULL;
}

uint64_t tn_broken_note(tarn_device *device, tarn_stream stream, struct tn_hold_call call,
                        struct tn_broken *before)
{
    const uint64_t stream_id = tn_stream_captured_id(stream);
    uint64_t capture_id = 0;
    bool owned = false;

    tn_lock_acquire(&device->lock);
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        tn_pool_lock(pool);
        capture_id = tn_max(capture_id, find_in(pool, stream_id));
        tn_pool_unlock(pool);
    }
    *before = capture_id != 0 ? look(device, capture_id) : (struct tn_broken){.sequence = 0};
    for (tarn_pool *pool = device->pools; pool != NULL && capture_id != 0; pool = pool->next) {
        tn_pool_lock(pool);
        owned = note_in(pool, capture_id, call) || owned;
        tn_pool_unlock(pool);
    }
    tn_lock_release(&device->lock);
    return owned ? capture_id : 0;
}

static void put_call(struct tn_text *text, const struct tn_hold_call *call)
{
    tn_put(text, "%s", call->name);
    if (call->bytes > 0)
        tn_put(text, " of %llu bytes", (unsigned long long)call->bytes);
}

static void put_newest(struct tn_text *text, const struct tn_broken *broken)
{
    if (broken->sequence == 0)
        return;
    tn_put(text, "; it was good when block %llu was allocated",
           (unsigned long long)broken->sequence);
    if (broken->requested > 0)
        tn_put(text, " (%llu bytes)", (unsigned long long)broken->requested);
    else
        tn_put(text, ", which was freed since");
}

static void put_known(struct tn_text *text, const struct tn_broken *broken)
{
    put_newest(text, broken);
    if (broken->noticed.name == NULL)
        return;
    tn_put(text, "; ");
    put_call(text, &broken->noticed);
    tn_put(text, broken->noticed.breaks ? " was called on a stream of it, which breaks any capture"
                                        : " noticed it first");
}

void tn_broken_put(struct tn_text *text, tarn_device *device, uint64_t capture_id)
{
    struct tn_broken broken;

    tn_lock_acquire(&device->lock);
    broken = look(device, capture_id);
    tn_lock_release(&device->lock);
    put_known(text, &broken);
}

static void put_fork(struct tn_text *text, const struct tn_arena *arena)
{
    uint64_t id = arena->order.stream_id;

    if (id % 2 == 0) /* a handle */
        tn_put(text, "0x%llx", (unsigned long long)id);
    else
        tn_put(text, "a thread's default stream");
    tn_put(text, " (last block %llu)", (unsigned long long)newest_of(arena));
}

static bool is_fork(const struct tn_arena *arena, struct tn_order origin)
{
    return arena->order.capture_id == origin.capture_id &&
           arena->order.stream_id != origin.stream_id && newest_of(arena) != 0;
}

/* As a part of a sentence, too. */
static void put_forks(struct tn_text *text, tarn_device *device, struct tn_order origin)
{
    size_t count = 0;

    tn_lock_acquire(&device->lock);
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        tn_pool_lock(pool);
        for (const struct tn_arena *arena = pool->arenas; arena != NULL; arena = arena->next) {
            if (!is_fork(arena, origin))
                continue;
            count += 1;
            if (count > FORKS_MAX)
                continue;
            tn_put(text, count == 1 ? "; forked streams that allocated: " : ", ");
            put_fork(text, arena);
        }
        tn_pool_unlock(pool);
    }
    tn_lock_release(&device->lock);
    if (count > FORKS_MAX)
        tn_put(text, " and %zu more", count - FORKS_MAX);
}

static void put_node(struct tn_text *text, const struct tn_seen_node *node)
{
    tn_put(text, "node %zu of %zu (%s", node->number, node->node_count,
           tn_node_type_name(node->type));
    if (node->kernel[0] != '\0')
        tn_put(text, " '%s'", node->kernel);
    tn_put(text, ")");
}

static void put_loose_end(struct tn_text *text, const struct tn_seen_node *end)
{
    if (end->number == 0)
        return;
    tn_put(text, "; nothing comes behind ");
    put_node(text, end);
}

static void put_newest_node(struct tn_text *text, const struct tn_seen_node *newest)
{
    if (newest->number == 0)
        return;
    tn_put(text, "; its graph ends with ");
    put_node(text, newest);
}

/* The driver's name of it, and what it means; and what helps. */
static void put_meaning(struct tn_text *text, tn_cu_result result)
{
    const struct tn_capture_error *error = tn_capture_error_find(result);

    tn_put(text, "%s", tn_driver_result_name(result));
    if (error != NULL)
        tn_put(text, ": %s", error->meaning);
}

static void put_remedy(struct tn_text *text, tn_cu_result result)
{
    const struct tn_capture_error *error = tn_capture_error_find(result);

    if (error != NULL)
        tn_put(text, "; %s", error->remedy);
}

void tn_broken_put_answer(struct tn_text *text, tarn_device *device, uint64_t capture_id,
                          tn_cu_result result, const struct tn_seen_node *newest)
{
    put_meaning(text, result);
    put_newest_node(text, newest);
    tn_broken_put(text, device, capture_id);
    put_remedy(text, result);
}

void tn_broken_put_unjoined(struct tn_text *text, tarn_device *device, struct tn_order origin,
                            const struct tn_seen_node *end)
{
    put_meaning(text, TN_CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    put_loose_end(text, end);
    put_forks(text, device, origin);
    put_remedy(text, TN_CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}

tarn_status tn_broken_refuse(tarn_device *device, tarn_stream stream, struct tn_hold_call call,
                             const char *so)
{
    char part[PART_BYTES] = "";
    struct tn_text text = {part, sizeof part, 0};
    struct tn_broken before;

    if (tn_broken_note(device, stream, call, &before) != 0) {
        put_known(&text, &before);
        if (before.noticed.name == NULL)
            tn_put(&text, before.sequence == 0
                              ? "; of Tarn's calls this one notices it first"
                              : "; of Tarn's calls this one notices it first, so what broke it was "
                                "called in between");
    }
    return tn_fail(TARN_ERR_CAPTURE_BROKEN,
                   "the stream's capture is invalidated, so %s%s; end or abort the capture", so,
                   part);
}
