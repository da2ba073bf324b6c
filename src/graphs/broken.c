// SPDX-License-Identifier: Apache-2.0
/* The newest block is found by its number: the highest that an arena of the capture has given. Its
 * bytes are known as long as the block lives. It stays the newest, since nobody allocates in a
 * broken capture.
 *
 * Trade-offs: the handle of a forked stream that was destroyed may be another stream's by now. A
 * call on the new stream in another capture is then taken for a call in this capture. Pools of
 * other devices are not looked at: a block there may be newer. The named block was allocated while
 * the capture was good all the same. */
#include "graphs/broken.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "driver/result.h"
#include "nodes/node.h"
#include "pools/arenas.h"
#include "pools/pool.h"
#include "pools/visit.h"

enum { PART_BYTES = 512, FORKS_MAX = 4 };

/* The number of the newest block that the arena has given; 0: none. */
static uint64_t newest_of(const struct tn_arena *arena)
{
    return arena->sequence > 0 ? arena->sequence - 1 : 0;
}

/* The bytes of the pool's live block with this number; 0: no live block has it. */
static uint64_t bytes_of(tarn_pool *pool, uint64_t sequence)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    TN_ASSERT(sequence > 0);
    for (const struct tn_block *block = tn_live_first(pool->segments.first); block != NULL;
         block = tn_live_next((struct tn_block *)block)) {
        if (block->sequence == sequence)
            return block->requested;
    }
    return 0;
}

/* Adds the facts that the locked pool knows. */
static void search_pool(tarn_pool *pool, uint64_t capture_id, struct tn_broken *broken)
{
    const struct tn_hold *hold = tn_hold_find_owned(&pool->holds, capture_id);
    uint64_t newest = 0;

    TN_ASSERT(tn_pool_is_locked(pool));
    TN_ASSERT(capture_id != 0);
    for (const struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ALL]; arena != NULL;
         arena = tn_arena_next(arena)) {
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

/* A question about a stream's capture that all pools are asked, and their answer. */
struct question {
    uint64_t stream_id;
    uint64_t capture_id; /* 0: not known yet */
    struct tn_hold_call call;
    struct tn_broken broken;
    bool owned; /* by a tarn_capture */
};

static bool search(tarn_pool *pool, void *context)
{
    struct question *question = context;

    search_pool(pool, question->capture_id, &question->broken);
    return false;
}

/* The newest capture that the pools know to be on the stream. */
static bool find(tarn_pool *pool, void *context)
{
    struct question *question = context;
    const uint64_t stream_id = question->stream_id;

    TN_ASSERT(tn_pool_is_locked(pool));
    for (const struct tn_hold *hold = pool->holds.first; hold != NULL; hold = hold->next) {
        const struct tn_order order = {stream_id, hold->capture_id};

        if (hold->open && (hold->origin_id == stream_id || tn_arena_find(pool, order) != NULL))
            question->capture_id = tn_max(question->capture_id, hold->capture_id);
    }
    return false;
}

/* Notes the call, unless another call was noted before. */
static bool note(tarn_pool *pool, void *context)
{
    struct question *question = context;
    struct tn_hold *hold = tn_hold_find_owned(&pool->holds, question->capture_id);

    TN_ASSERT(tn_pool_is_locked(pool));
    TN_ASSERT(question->call.name != NULL);
    if (hold != NULL && hold->noticed.name == NULL)
        hold->noticed = question->call;
    question->owned = question->owned || hold != NULL;
    return false;
}

uint64_t tn_broken_note(tarn_device *device, uint64_t stream_id, struct tn_hold_call call,
                        struct tn_broken *before)
{
    struct question question = {.stream_id = stream_id, .call = call};

    TN_ASSERT(tn_lock_none_held());
    TN_ASSERT(call.name != NULL);
    tn_lock_acquire(&device->lock);
    (void)tn_device_walk(device, find, &question);
    if (question.capture_id != 0) {
        (void)tn_device_walk(device, search, &question);
        (void)tn_device_walk(device, note, &question);
    }
    tn_lock_release(&device->lock);
    *before = question.broken;
    return question.owned ? question.capture_id : 0;
}

static void put_call(struct tn_text *text, const struct tn_hold_call *call)
{
    TN_ASSERT(call->name != NULL);
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

void tn_broken_put(struct tn_text *text, const struct tn_broken *known)
{
    put_newest(text, known);
    if (known->noticed.name == NULL)
        return;
    tn_put(text, "; ");
    put_call(text, &known->noticed);
    tn_put(text, known->noticed.breaks ? " was called on a stream of it, which breaks any capture"
                                       : " noticed it first");
}

void tn_broken_find(tarn_device *device, uint64_t capture_id, struct tn_broken *known)
{
    struct question question = {.capture_id = capture_id};

    TN_ASSERT(tn_lock_none_held());
    TN_ASSERT(capture_id != 0);
    (void)tn_device_visit(device, search, &question);
    *known = question.broken;
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
    TN_ASSERT(origin.capture_id != 0);
    return arena->order.capture_id == origin.capture_id &&
           arena->order.stream_id != origin.stream_id && newest_of(arena) != 0;
}

/* The forked streams of a capture, while they are written. */
struct forks {
    struct tn_text *text;
    struct tn_order origin;
    size_t count;
};

static bool put_pool_forks(tarn_pool *pool, void *context)
{
    struct forks *forks = context;

    for (const struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ALL]; arena != NULL;
         arena = tn_arena_next(arena)) {
        if (!is_fork(arena, forks->origin))
            continue;
        forks->count += 1;
        if (forks->count > FORKS_MAX)
            continue;
        tn_put(forks->text, forks->count == 1 ? "; forked streams that allocated: " : ", ");
        put_fork(forks->text, arena);
    }
    return false;
}

/* Writes the forks as a part of a sentence, too. */
static void put_forks(struct tn_text *text, tarn_device *device, struct tn_order origin)
{
    struct forks forks = {text, origin, 0};

    (void)tn_device_visit(device, put_pool_forks, &forks);
    if (forks.count > FORKS_MAX)
        tn_put(text, " and %zu more", forks.count - FORKS_MAX);
}

static void put_node(struct tn_text *text, const struct tn_seen_node *node)
{
    TN_ASSERT(node->number > 0 && node->number <= node->node_count);
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

/* Writes the driver's name of the result, and its meaning. */
static void put_meaning(struct tn_text *text, tn_cu_result result)
{
    const struct tn_driver_capture_error *error = tn_result_about_capture(result);

    tn_put(text, "%s", tn_result_name(result));
    if (error != NULL)
        tn_put(text, ": %s", error->meaning);
}

static void put_remedy(struct tn_text *text, tn_cu_result result)
{
    const struct tn_driver_capture_error *error = tn_result_about_capture(result);

    if (error != NULL)
        tn_put(text, "; %s", error->remedy);
}

void tn_broken_put_answer(struct tn_text *text, tn_cu_result result, const struct tn_broken *known,
                          const struct tn_seen_node *newest)
{
    TN_ASSERT(result != TN_CUDA_SUCCESS);
    put_meaning(text, result);
    put_newest_node(text, newest);
    tn_broken_put(text, known);
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

tarn_status tn_broken_refuse(tarn_device *device, uint64_t stream_id, struct tn_hold_call call,
                             const char *so)
{
    char part[PART_BYTES] = "";
    struct tn_text text = {part, sizeof part, 0};
    struct tn_broken before;

    TN_ASSERT(tn_lock_none_held());
    if (tn_broken_note(device, stream_id, call, &before) != 0) {
        tn_broken_put(&text, &before);
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
