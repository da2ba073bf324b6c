// SPDX-License-Identifier: Apache-2.0
/* Copies out and in, and their digests.
 *
 * A table has an item for each block: the place of its live bytes, and of its saved bytes. The
 * table lies in device memory, and a single launch of a kernel works through it: out, with digests;
 * back; or for digests alone. A restore's copies are therefore a single call of the driver, which
 * takes all of them or none, and the last step of a restore that may fail.
 *
 * The memory is an ordinary block of the default pool on the stream that copies out. It is freed
 * like any other block: other streams' copies from it are recorded uses. It has the digests, the
 * table and, unless they are in host memory, the bytes. Host memory is page-locked. The kernel
 * itself reads and writes this memory, and fetches the table, which lies there too, to the device.
 * The device's copy engines take no part: they also clear memory that was given back, and work that
 * waits for an engine waits for as long as the whole contents of small blocks take.
 *
 * The memory is taken before the blocks are looked at. Where memory is short, callbacks of the
 * program may free blocks, and others unmap theirs.
 *
 * An event stands for the last work on the contents. Each load on another stream waits for the
 * event, and each load records it anew: the event stands for all earlier work too. If the driver
 * refuses to record the event, the enqueued work cannot be undone: there is no event then, and only
 * a wait for the device that begins later orders the next work.
 *
 * Trade-offs: a block smaller than a tile leaves threads idle; several blocks could share a tile.
 */
#include "checkpoint/contents.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "driver/idle.h"
#include "driver/sanitizer.h"
#include "pools/allocate.h"
#include "pools/device.h"
#include "pools/free.h"
#include "pools/lone.h"
#include "pools/opening.h"
#include "pools/staging.h"

/* The layout of a checkpoint's memory: on the device, and in page-locked memory. */
struct plan {
    uint64_t digests;
    uint64_t items;
    uint64_t device_bytes;
    uint64_t pinned_items;
    uint64_t pinned_bytes;
};

static struct plan plan_memory(tarn_contents kind, uint64_t count, uint64_t bytes)
{
    struct plan plan = {0};

    plan.digests = kind == TARN_CONTENTS_DEVICE ? bytes : 0;
    plan.items = plan.digests + tn_round_up(count * sizeof(uint64_t), TN_BLOCK_BYTES_MIN);
    plan.device_bytes = plan.items + count * sizeof(struct tn_contents_item);
    plan.pinned_items = kind == TARN_CONTENTS_HOST ? bytes : 0;
    plan.pinned_bytes = plan.pinned_items + count * sizeof(struct tn_contents_item);
    TN_ASSERT(plan.items % TN_BLOCK_BYTES_MIN == 0 && plan.items >= plan.digests);
    return plan;
}

/* Writes the table; returns the tiles of all items. */
static uint64_t write_items(const tarn_checkpoint *checkpoint, uint64_t saved,
                            struct tn_contents_item *items)
{
    const uint32_t tile_bits = checkpoint->table.tile_bits;
    uint64_t tiles = 0;

    for (size_t i = 0; i < checkpoint->block_count; i++) {
        const struct tn_saved_block *block = &checkpoint->blocks[i];

        items[i] = (struct tn_contents_item){
            .live = tn_saved_address(checkpoint, block),
            .saved = saved,
            /* Bytes that rounding added belong to nobody, and may never have been written. */
            .bytes = block->requested,
            .first_tile = tiles,
        };
        tiles += tn_contents_tiles(block->requested, tile_bits);
        saved += tn_saved_bytes(block); /* C3 */
    }
    return tiles;
}

/* A block of ours in the default pool. Leaves the pool locked. */
static struct tn_block *lock_memory(tarn_device *device, void *memory)
{
    tarn_pool *pool = device->default_pool;
    struct tn_block *block;

    TN_ASSERT(tn_lock_none_held());
    tn_pool_lock(pool);
    block = tn_lone_find(pool, (uint64_t)(uintptr_t)memory);
    TN_ASSERT(block != NULL && block->state == TN_BLOCK_LIVE); /* nobody else frees it */
    return block;
}

static void free_memory(tarn_device *device, void *memory)
{
    tarn_pool *pool = device->default_pool;
    struct tn_block *block;

    if (tn_gpu_is_linear(&device->gpu)) { /* the tool lets no kernel use freed bytes */
        tarn_status status = tn_gpu_wait_idle(&device->gpu);

        (void)status; /* a refusal has lost the device, or is latched */
    }
    block = lock_memory(device, memory);
    tn_pool_free_block(pool, block, false);
    tn_pool_unlock(pool);
}

static void free_contents(tarn_checkpoint *checkpoint)
{
    tarn_device *device = checkpoint->pool->device;

    TN_ASSERT(atomic_load(&device->contents_bytes) >= checkpoint->contents_bytes);
    atomic_fetch_sub(&device->contents_bytes, checkpoint->contents_bytes);
    free_memory(device, checkpoint->contents);
    checkpoint->contents = NULL;
}

/* Counts the contents, and makes room for the uses that restores will record; false: no memory. */
static bool prepare_contents(tarn_checkpoint *checkpoint)
{
    tarn_device *device = checkpoint->pool->device;
    struct tn_block *block = lock_memory(device, checkpoint->contents);
    bool prepared = tn_block_add_cold(block);

    checkpoint->contents_bytes = tn_block_bytes(block);
    tn_pool_unlock(device->default_pool);
    atomic_fetch_add(&device->contents_bytes, checkpoint->contents_bytes);
    return prepared;
}

/* Allocates a block of the library's own. */
static tarn_status allocate(tarn_device *device, const struct tn_request *request, void **address)
{
    const uint32_t outer = tn_stacking_begin_own(&device->history.stacking);
    tarn_status status = tn_pool_allocate(device->default_pool, request, NULL, address);

    tn_history_stack = outer;
    return status;
}

static tarn_status take_pinned(tarn_device *device, uint64_t bytes, struct tn_staging_block **block)
{
    tarn_pool *pool;
    tarn_status status = tn_device_host_pool(device, TN_HOST_STAGING, &pool);

    return status == TARN_OK ? tn_staging_take(pool, bytes, block) : status;
}

static tarn_status take_memory(tarn_checkpoint *checkpoint, const struct plan *plan,
                               struct tn_order order)
{
    tarn_device *device = checkpoint->pool->device;
    struct tn_request request = {
        .requested = plan->device_bytes, .alignment = TN_BLOCK_BYTES_MIN, .order = order};
    tarn_status status = take_pinned(device, plan->pinned_bytes, &checkpoint->pinned);

    if (status != TARN_OK)
        return status;
    status = allocate(device, &request, &checkpoint->contents);
    if (status == TARN_OK && !prepare_contents(checkpoint)) {
        free_contents(checkpoint);
        status = tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a checkpoint's contents");
    }
    if (status != TARN_OK)
        tn_staging_undo(device, checkpoint->pinned);
    return status;
}

/* Notes copies that a later restore must follow, on whatever stream. stays: the checkpoint, and the
 * event behind its copies, lives on. The pool's lock is held. */
static void note_copies(tarn_checkpoint *checkpoint, bool stays)
{
    tarn_pool *pool = checkpoint->pool;
    const struct tn_gpu *gpu = &pool->device->gpu;
    bool others = !tn_gpu_is_proven(gpu, pool->copies.saved_stamp) &&
                  !tn_order_equal(pool->copies.saved_order, checkpoint->order);

    TN_ASSERT(tn_pool_is_locked(pool));
    pool->copies.saver = others || !stays ? NULL : checkpoint;
    pool->copies.saved_order = others ? TN_ORDER_NONE : checkpoint->order;
    pool->copies.saved_stamp = tn_gpu_epoch(gpu);
}

/* Enqueues the table, the zeros for the digests, the copies, and the event behind the copies. */
static tarn_status enqueue_save(tarn_checkpoint *checkpoint, const struct plan *plan,
                                tarn_stream stream)
{
    struct tn_gpu *gpu = &checkpoint->pool->device->gpu;
    const struct tn_contents_table *table = &checkpoint->table;
    uint64_t given = (uint64_t)(uintptr_t)checkpoint->pinned->address + plan->pinned_items;
    tarn_status status = tn_kernel_contents_prepare(gpu, stream, table, given, checkpoint->digests);

    if (status == TARN_OK)
        status = tn_kernel_contents(gpu, stream, table, checkpoint->digests,
                                    TN_CONTENTS_OUT | TN_CONTENTS_COPY | TN_CONTENTS_DIGEST);
    if (status == TARN_OK && !tn_event_record(gpu, checkpoint->used, stream))
        status = tn_gpu_is_lost(gpu) ? TARN_ERR_DEVICE_LOST : TARN_ERR_DRIVER;
    return status;
}

tarn_status tn_contents_take_room(tarn_checkpoint *checkpoint, uint64_t count, uint64_t bytes,
                                  tarn_stream stream, struct tn_order order)
{
    struct tn_gpu *gpu = &checkpoint->pool->device->gpu;
    struct plan plan = plan_memory(checkpoint->kind, count, bytes);
    tarn_status status = tn_kernels_load(gpu, stream);

    TN_ASSERT(tn_lock_none_held());
    TN_ASSERT(checkpoint->contents == NULL && count > 0);
    if (status == TARN_OK)
        status = tn_event_create(gpu, stream, &checkpoint->used);
    if (status != TARN_OK)
        return status;
    status = take_memory(checkpoint, &plan, order);
    if (status != TARN_OK) {
        tn_event_destroy(gpu, checkpoint->used);
        return status;
    }
    checkpoint->order = order;
    checkpoint->last_order = order;
    return TARN_OK;
}

bool tn_contents_fit(const tarn_checkpoint *checkpoint)
{
    struct plan plan =
        plan_memory(checkpoint->kind, checkpoint->block_count, checkpoint->live_bytes);

    return checkpoint->block_count == 0 ||
           (checkpoint->contents != NULL && plan.device_bytes <= checkpoint->contents_bytes &&
            plan.pinned_bytes <= checkpoint->pinned->bytes);
}

tarn_status tn_contents_save(tarn_checkpoint *checkpoint, tarn_stream stream)
{
    struct plan plan =
        plan_memory(checkpoint->kind, checkpoint->block_count, checkpoint->live_bytes);
    unsigned char *pinned = checkpoint->pinned->address;
    uint64_t device = (uint64_t)(uintptr_t)checkpoint->contents;
    tarn_status status;

    TN_ASSERT(tn_pool_is_locked(checkpoint->pool));
    TN_ASSERT(checkpoint->block_count > 0 && tn_contents_fit(checkpoint));
    checkpoint->saved =
        checkpoint->kind == TARN_CONTENTS_HOST ? (uint64_t)(uintptr_t)pinned : device;
    checkpoint->digests = device + plan.digests;
    checkpoint->table.items = device + plan.items;
    checkpoint->table.count = (uint32_t)checkpoint->block_count;
    checkpoint->table.tile_bits = tn_contents_tile_bits(checkpoint->live_bytes);
    checkpoint->table.tiles =
        write_items(checkpoint, checkpoint->saved,
                    (struct tn_contents_item *)(void *)(pinned + plan.pinned_items));
    status = enqueue_save(checkpoint, &plan, stream);
    /* After the launch: a wait that began before proves nothing. */
    note_copies(checkpoint, status == TARN_OK);
    return status;
}

void tn_contents_drop_room(tarn_checkpoint *checkpoint, bool idle)
{
    struct tn_gpu *gpu = &checkpoint->pool->device->gpu;

    TN_ASSERT(tn_lock_none_held());
    if (checkpoint->contents == NULL)
        return;
    /* Copies under way are ordered before the block's reuse on their stream. */
    free_contents(checkpoint);
    if (idle)
        tn_staging_undo(checkpoint->pool->device, checkpoint->pinned);
    else
        tn_staging_drop(checkpoint->pool->device, checkpoint->pinned); /* waits for the copies */
    tn_event_destroy(gpu, checkpoint->used);
    checkpoint->used = NULL;
}

void tn_contents_add_use(tarn_checkpoint *checkpoint, struct tn_use *use)
{
    tarn_pool *pool = checkpoint->pool->device->default_pool;
    struct tn_block *block = lock_memory(pool->device, checkpoint->contents);

    tn_use_add(&pool->device->streams, block, use);
    tn_pool_unlock(pool);
}

/* Whether something proves the end of the last work on the contents: the event, or a wait for the
 * device that has ended. The pool's lock is held. */
static bool end_is_provable(const tarn_checkpoint *checkpoint)
{
    TN_ASSERT(tn_pool_is_locked(checkpoint->pool));
    return checkpoint->used != NULL ||
           tn_gpu_is_proven(&checkpoint->pool->device->gpu, checkpoint->used_stamp);
}

tarn_status tn_contents_prepare(tarn_checkpoint *checkpoint, tarn_stream stream)
{
    tarn_pool *pool = checkpoint->pool;
    bool ordered;
    tarn_status status = tn_kernels_load(&pool->device->gpu, stream);

    TN_ASSERT(tn_lock_none_held());
    if (status != TARN_OK)
        return status;
    tn_pool_lock(pool);
    ordered = end_is_provable(checkpoint);
    tn_pool_unlock(pool);
    return ordered ? TARN_OK : tn_gpu_wait_idle(&pool->device->gpu);
}

/* Orders the stream behind the last work on the contents; the pool's lock is held. */
static tarn_status follow(tarn_checkpoint *checkpoint, tarn_stream stream, struct tn_order order)
{
    TN_ASSERT(tn_pool_is_locked(checkpoint->pool));
    if (tn_order_equal(order, checkpoint->last_order))
        return TARN_OK;
    if (!end_is_provable(checkpoint))
        return tn_fail(TARN_ERR_DRIVER, "the driver refused to record an event behind another "
                                        "thread's restore just now; call again");
    return checkpoint->used != NULL
               ? tn_stream_wait(&checkpoint->pool->device->gpu, stream, checkpoint->used)
               : TARN_OK;
}

tarn_status tn_contents_load(tarn_checkpoint *checkpoint, tarn_stream stream, struct tn_order order,
                             struct tn_use *use)
{
    struct tn_gpu *gpu = &checkpoint->pool->device->gpu;
    tarn_status status = follow(checkpoint, stream, order);

    TN_ASSERT(tn_pool_is_locked(checkpoint->pool));
    TN_ASSERT(checkpoint->contents != NULL);
    if (status == TARN_OK)
        status = tn_kernel_contents(gpu, stream, &checkpoint->table, 0, TN_CONTENTS_COPY);
    if (status != TARN_OK)
        return status;
    /* The bytes will change: nothing may fail any more. */
    checkpoint->last_order = order;
    checkpoint->used_stamp = tn_gpu_epoch(gpu);
    checkpoint->pool->copies.restored = checkpoint;
    checkpoint->pool->copies.restored_order = order; /* behind the copies before: see turns.c */
    checkpoint->pool->copies.restored_stamp = checkpoint->used_stamp;
    (void)tn_event_renew(gpu, &checkpoint->used, stream);
    status = tn_use_record(&checkpoint->pool->device->streams, use);
    (void)status; /* if not recorded, a wait proves its end */
    return TARN_OK;
}

/* What a verification needs besides the contents. */
struct verification {
    void *sums;                       /* digests computed anew, a block of the default pool */
    struct tn_staging_block *answers; /* these, then the digests of the checkpoint */
    tn_cu_event done;
};

static tarn_status begin_verification(const tarn_checkpoint *checkpoint, tarn_stream stream,
                                      struct tn_order order, struct verification *made)
{
    tarn_device *device = checkpoint->pool->device;
    uint64_t bytes = checkpoint->block_count * sizeof(uint64_t);
    struct tn_request request = {
        .requested = bytes, .alignment = TN_BLOCK_BYTES_MIN, .order = order};
    tarn_status status = tn_event_create(&device->gpu, stream, &made->done);

    TN_ASSERT(tn_lock_none_held());
    if (status != TARN_OK)
        return status;
    status = take_pinned(device, 2 * bytes, &made->answers);
    if (status != TARN_OK)
        goto destroy_event;
    status = allocate(device, &request, &made->sums);
    if (status == TARN_OK)
        return TARN_OK;
    tn_staging_undo(device, made->answers);
destroy_event:
    tn_event_destroy(&device->gpu, made->done);
    return status;
}

/* idle: the device has finished the verification. */
static void end_verification(tarn_device *device, struct verification *made, bool idle)
{
    free_memory(device, made->sums);
    if (idle)
        tn_staging_give(device, made->answers, NULL);
    else
        tn_staging_drop(device, made->answers);
    tn_event_destroy(&device->gpu, made->done);
}

static tarn_status run_verification(tarn_checkpoint *checkpoint, tarn_stream stream,
                                    struct tn_order order, const struct verification *made)
{
    tarn_pool *pool = checkpoint->pool;
    struct tn_gpu *gpu = &pool->device->gpu;
    uint64_t bytes = checkpoint->block_count * sizeof(uint64_t);
    uint64_t sums = (uint64_t)(uintptr_t)made->sums;
    unsigned char *answers = made->answers->address;
    tarn_status status;

    TN_ASSERT(made->answers->bytes >= 2 * bytes);
    tn_pool_lock(pool);
    status = follow(checkpoint, stream, order);
    tn_pool_unlock(pool);
    if (status == TARN_OK)
        status = tn_stream_zero(gpu, sums, bytes, stream);
    if (status == TARN_OK)
        status = tn_kernel_contents(gpu, stream, &checkpoint->table, sums, TN_CONTENTS_DIGEST);
    if (status == TARN_OK)
        status = tn_stream_download(gpu, answers, sums, bytes, stream);
    if (status == TARN_OK)
        status = tn_stream_download(gpu, answers + bytes, checkpoint->digests, bytes, stream);
    if (status == TARN_OK && (!tn_event_record(gpu, made->done, stream) ||
                              tn_event_wait(gpu, made->done) != TN_EVENT_DONE))
        status = tn_gpu_is_lost(gpu) ? TARN_ERR_DEVICE_LOST : TARN_ERR_DRIVER;
    return status;
}

/* CORRUPT, with the first block whose digest differs, or OK. */
static tarn_status compare(const tarn_checkpoint *checkpoint, const uint64_t *answers)
{
    size_t count = checkpoint->block_count;
    size_t first = count;
    size_t wrong = 0;

    for (size_t i = count; i-- > 0;) {
        if (answers[i] != answers[count + i]) { /* C4 */
            first = i;
            wrong += 1;
        }
    }
    if (wrong == 0)
        return TARN_OK;
    return tn_fail(TARN_ERR_CORRUPT,
                   "the checkpoint's copy of block %llu, %llu bytes at 0x%llx, is not what was "
                   "copied (digest %016llx, was %016llx); so are %zu more of %zu blocks",
                   (unsigned long long)checkpoint->blocks[first].sequence,
                   (unsigned long long)checkpoint->blocks[first].requested,
                   (unsigned long long)tn_saved_address(checkpoint, &checkpoint->blocks[first]),
                   (unsigned long long)answers[first], (unsigned long long)answers[count + first],
                   wrong - 1, count);
}

tarn_status tn_contents_verify(tarn_checkpoint *checkpoint, tarn_stream stream,
                               struct tn_order order)
{
    tarn_device *device = checkpoint->pool->device;
    struct verification made;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    if (checkpoint->contents == NULL)
        return TARN_OK; /* the checkpoint has no blocks */
    status = tn_contents_prepare(checkpoint, stream);
    if (status == TARN_OK)
        status = begin_verification(checkpoint, stream, order, &made);
    if (status != TARN_OK)
        return status;
    status = run_verification(checkpoint, stream, order, &made);
    if (status != TARN_OK) {
        end_verification(device, &made, false);
        return status;
    }
    status = compare(checkpoint, made.answers->address);
    end_verification(device, &made, true);
    return status;
}

void tn_contents_await(const tarn_checkpoint *checkpoint)
{
    struct tn_gpu *gpu = &checkpoint->pool->device->gpu;

    TN_ASSERT(tn_lock_none_held());
    if (!checkpoint->pool->in_host || checkpoint->contents == NULL)
        return;
    if (checkpoint->used == NULL || tn_event_wait(gpu, checkpoint->used) != TN_EVENT_DONE) {
        tarn_status status = tn_gpu_wait_idle(gpu);

        (void)status; /* a refusal has lost the device, or is latched */
    }
}

void tn_contents_drop(tarn_checkpoint *checkpoint)
{
    tarn_device *device = checkpoint->pool->device;

    TN_ASSERT(tn_lock_none_held());
    if (checkpoint->contents == NULL)
        return;
    free_contents(checkpoint);
    if (checkpoint->used != NULL)
        tn_staging_give(device, checkpoint->pinned, checkpoint->used);
    else
        tn_staging_drop(device, checkpoint->pinned);
}
