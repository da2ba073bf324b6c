// SPDX-License-Identifier: Apache-2.0
/* Operations on memory and streams. */
#include "model/state.h"

static bool is_plain_here(const struct model *m, const struct block *block)
{
    return is_plain(m, block) && block->capture_of == 0 && (block->dirty & ~block->recorded) == 0;
}

/* The user's say when memory is short: a block is freed. */
static bool give_memory(tarn_device *device, size_t wanted_bytes, void *user)
{
    struct model *m = user;
    struct block *block = m->may_give && !m->fault_planned ? pick_block(m, is_plain_here) : NULL;

    EXPECT(m, device == m->device && wanted_bytes > 0, "a callback is told of another device");
    if (block == NULL)
        return false;
    trace("  the callback frees block %llu", (unsigned long long)block->serial);
    note_freed(m, block, 0);
    shared_remove(m, range_of(block));
    EXPECT(m, tarn_free(block->address) == TARN_OK, "a free in a callback: %s", tarn_last_error());
    remove_block(m, block);
    return true;
}

static void observe(tarn_device *device, const tarn_out_of_memory *what, void *user)
{
    struct model *m = user;

    EXPECT(m, device == m->device && what->size == sizeof *what, "an observer is told of another");
    EXPECT(m, what->status == TARN_ERR_DEVICE_MEMORY || what->status == TARN_ERR_LIMIT,
           "an observer is told of %s", tarn_status_name(what->status));
    EXPECT(m, what->live_bytes <= what->mapped_bytes, "more is live than mapped");
    m->shortages += 1;
}

/* An observer learns of every allocation that fails for want of memory, once. */
static void expect_told(struct model *m, uint64_t before, tarn_status status)
{
    bool is_short = status == TARN_ERR_DEVICE_MEMORY || status == TARN_ERR_LIMIT;

    if (m->has_callback && !m->fault_fired && m->owns_device)
        EXPECT(m, m->shortages - before == (is_short ? 1 : 0),
               "the observer was told %llu times of %s",
               (unsigned long long)(m->shortages - before), tarn_status_name(status));
}

void do_pressure(struct model *m)
{
    if (!m->owns_device)
        return;
    if (m->has_callback) {
        REFUSED(m, TARN_ERR_WRONG_STATE, tarn_device_add_free_callback(m->device, give_memory, m));
        WELL(m, tarn_device_remove_free_callback(m->device, give_memory, m));
        WELL(m, tarn_device_remove_oom_observer(m->device, observe, m));
    } else {
        WELL(m, tarn_device_add_free_callback(m->device, give_memory, m));
        WELL(m, tarn_device_add_oom_observer(m->device, observe, m));
    }
    m->has_callback = !m->has_callback;
}

/* Whether a launched graph that writes the memory may still run. */
static bool is_written_by_launch(const struct model *m, struct range range)
{
    bool is_written = false;

    for (size_t i = 0; i < GRAPHS; i++) {
        const struct graph *graph = &m->graphs[i];

        for (size_t w = 0; graph->serial != 0 && w < graph->writes.count; w++)
            is_written = is_written || overlap(graph->writes.all[w].range, range);
    }
    return is_written;
}

/* What a block of so many bytes takes: so many steps lead from the power of two below to the one above,
 * where they are of more than 512 bytes. */
static size_t taken_for(const struct model *m, size_t bytes)
{
    size_t power = 512;
    size_t taken;

    while (power * 2 <= bytes)
        power *= 2;
    if (m->config.divisions == 0 || power / m->config.divisions < 512)
        return (bytes + 511) / 512 * 512;
    for (taken = power; taken < bytes; taken += power / m->config.divisions) {
    }
    return taken;
}

/* Without a pool the routes decide. */
static tarn_status ask_for(struct model *m, int pool, size_t bytes, size_t alignment,
                           tn_cu_stream on, void **address)
{
    if (pool != NONE)
        return CALL(m, tarn_pool_malloc(m->pools[pool].handle, bytes, alignment, on, address));
    if (alignment == ZEROED)
        return CALL(m, tarn_calloc(m->device, 1, bytes, on, address));
    return alignment == 0 ? CALL(m, tarn_malloc(m->device, bytes, on, address))
                          : CALL(m, tarn_malloc_aligned(m->device, bytes, alignment, on, address));
}

static tarn_status try_allocation(struct model *m, int pool, const struct block *block,
                                  size_t alignment)
{
    tn_cu_stream on = m->streams[block->home].handle;
    void *address = NULL;
    tarn_status status = ask_for(m, pool, block->bytes, alignment, on, &address);

    if (status == TARN_OK)
        WELL(m, tarn_free(address));
    return status;
}

/* An allocation that is declined has looked for memory wherever some is free. So once all work is done and
 * the driver has ended what is due, one that is still declined is not helped by a trim of all there is. */
static void expect_short(struct model *m, int pool, const struct block *block, size_t alignment)
{
    tarn_status status;

    drain(m);
    (void)test_ledger(); /* the driver has run all destructors by then */
    if (try_allocation(m, pool, block, alignment) == TARN_OK)
        return;
    WELL(m, tarn_device_trim(m->device, 0, NULL));
    status = try_allocation(m, pool, block, alignment);
    EXPECT(m, status != TARN_OK,
           "%zu bytes were declined, and there are after a trim of the device", block->bytes);
}

/* Allocates on a stream; from the pool, or when it is NONE from the one that tarn_malloc chooses. alignment: ZEROED,
 * where the pool is NONE: by tarn_calloc.
 * NULL when there was no room for it. */
struct block *allocate(struct model *m, int pool, int stream, size_t bytes, size_t alignment)
{
    struct block block = {.bytes = bytes, .home = stream, .last = NONE};
    const struct capture *capture = capture_of_stream(m, stream);
    tn_cu_stream on = m->streams[stream].handle;
    uint64_t shortages = m->shortages;
    bool is_routed;
    tarn_block seen;
    tarn_status status;

    if (m->block_count == BLOCKS)
        return NULL;
    block.pool = pool != NONE ? pool : serving_pool(m, stream, &is_routed);
    if (block.pool == 0 && capture != NULL && m->config.unrouted == TARN_UNROUTED_ADOPT)
        block.pool = ADOPTED;
    if (alignment == ZEROED && m->pools[block.pool].shares_captured)
        drain(m); /* as below, but the zeros are written before the address is known */
    m->may_give = true;
    status = ask_for(m, pool, bytes, alignment, on, &block.address);
    m->may_give = false;
    expect_told(m, shortages, status);
    if (is_declined(m, status, "an allocation")) {
        if (capture == NULL && m->owns_device && !m->fault_fired)
            expect_short(m, pool, &block, alignment);
        return NULL;
    }
    alignment = alignment < 512 ? 512 : alignment;
    EXPECT(m, block.address != NULL, "no address");
    EXPECT(m, (uintptr_t)block.address % alignment == 0, "%p is not aligned to %zu", block.address,
           alignment);
    WELL(m, tarn_block_at((char *)block.address + bytes - 1, &seen));
    block.block_bytes = seen.block_bytes;
    block.sequence = seen.sequence;
    block.serial = ++m->serial;
    block.home_life = m->streams[stream].life;
    block.capture_of = capture != NULL ? capture->serial : 0;
    block.section = block.capture_of;
    block.node_lane = NONE;
    block.is_exposed = capture != NULL || m->pools[block.pool].shares_captured;
    EXPECT(m, seen.address == block.address && seen.bytes == bytes, "the block is another");
    EXPECT(m, seen.block_bytes == taken_for(m, bytes + (m->config.linear ? 512 : 0)),
           "a block of %zu bytes takes %zu", bytes, seen.block_bytes);
    EXPECT(m, m->pools[block.pool].is_released || seen.pool == m->pools[block.pool].handle,
           "block %llu on stream %d is in another pool than %d", (unsigned long long)block.serial,
           stream, block.pool);
    m->has_unnamed = m->has_unnamed || block.pool == ADOPTED;
    trace("  block %llu at %p, %zu bytes, pool %d, stream %d", (unsigned long long)block.serial,
          block.address, bytes, block.pool, stream);
    expect_rightly_handed_out(m, &block);
    withdraw_freed(m, range_of(&block));
    if (m->pools[block.pool].shares_captured && is_written_by_launch(m, range_of(&block)))
        drain(m); /* a replay and such a block are ordered by the user */
    return add_block(m, &block);
}

void do_alloc(struct model *m)
{
    int stream = pick_stream(m);
    int pool = chance(m, 3) ? NONE : pick_pool(m);
    size_t alignment = chance(m, 6) ? (size_t)1 << (9 + below(m, 13)) : 0;
    size_t bytes = pick_bytes(m);
    struct block *block;

    if (!m->config.large && m->block_count > BLOCKS / 4 && !chance(m, 8))
        return;
    block = allocate(m, pool, stream, bytes, alignment);
    if (block != NULL)
        touch_block(m, block, stream, true);
}

/* Its memory may have been written before. */
void do_calloc(struct model *m)
{
    int stream = pick_stream(m);
    size_t bytes = pick_bytes(m);
    struct block *block;
    void *address = NULL;

    REFUSED(m, TARN_ERR_INVALID_ARGUMENT,
            tarn_calloc(m->device, SIZE_MAX / bytes + 1, bytes + 1, m->streams[stream].handle,
                        &address));
    if (!m->config.large && m->block_count > BLOCKS / 4 && !chance(m, 8))
        return;
    block = allocate(m, NONE, stream, bytes, ZEROED);
    if (block == NULL)
        return;
    if (!m->is_held)
        test_expect_words(m->streams[stream].handle, block->address, 0, bytes / sizeof(uint32_t));
    touch_block(m, block, stream, true);
}

/* Work on a block's own stream needs no record, and waits for nothing. */
static void note_record(struct model *m, struct block *block, int stream)
{
    if (is_capturing(m, stream) ||
        (stream == block->home && m->streams[stream].life == block->home_life &&
         block->capture_of == 0))
        return;
    block->recorded |= 1U << stream;
    m->streams[stream].is_recorded = true;
}

/* All work on the block must be known to the library when it is freed, or lie behind the block's own
 * stream. */
void settle(struct model *m, struct block *block)
{
    const struct stream *home = &m->streams[block->home];
    bool has_home = block->capture_of == 0 && home->life == block->home_life &&
                    home->handle != NULL && !is_capturing(m, block->home);

    for (int s = 0; s < STREAMS; s++) {
        if ((block->dirty & ~block->recorded & (1U << s)) == 0)
            continue;
        if (is_capturing(m, s)) {
            drain(m);
        } else if (has_home && chance(m, 2)) {
            order(m, s, block->home);
        } else if (DECLINED(m, tarn_record_stream(block->address, m->streams[s].handle))) {
            drain(m);
        } else {
            note_record(m, block, s);
        }
    }
    block->dirty = 0;
}

/* Frees the block, on a stream when it is not NONE. freed_in: of the capture that used it last. */
void free_block(struct model *m, struct block *block, int on, uint64_t freed_in)
{
    void *address = block->address;

    if (freed_in == 0 && !block->is_discarded)
        settle(m, block);
    if (on != NONE) {
        if (DECLINED(m, tarn_record_stream(address, m->streams[on].handle)))
            return;
        note_record(m, block, on);
    }
    trace("  block %llu at %p, pool %d, on %d", (unsigned long long)block->serial, address,
          block->pool, on);
    note_freed(m, block, freed_in);
    shared_remove(m, range_of(block));
    WELL_AT_ONCE(m, on != NONE ? tarn_free_on(address, m->streams[on].handle) : tarn_free(address));
    remove_block(m, block);
}

static bool is_any(const struct model *m, const struct block *block)
{
    (void)m;
    (void)block;
    return true;
}

/* A capture that ended by itself takes nothing with it: its blocks are freed like others. */
void do_free(struct model *m)
{
    struct block *block = pick_block(m, is_any);

    if (block == NULL ||
        (block->capture_of != 0 && !block->is_discarded && pick_capture(m) != NULL))
        return; /* what a capture under way allocated is freed in it */
    if (!block->is_discarded && chance(m, 3))
        touch_block(m, block,
                    block->last != NONE && !is_capturing(m, block->last) ? block->last
                                                                         : pick_stream(m),
                    false);
    free_block(m, block, NONE, 0);
}

void do_free_on(struct model *m)
{
    struct block *block = pick_block(m, is_plain);
    int stream = pick_stream(m);

    if (block == NULL)
        return;
    touch_block(m, block, stream, true);
    free_block(m, block, stream, 0);
}

void do_record(struct model *m)
{
    struct block *block = pick_block(m, is_plain);
    int stream = pick_stream(m);

    if (block == NULL || DECLINED(m, tarn_record_stream(block->address, m->streams[stream].handle)))
        return;
    trace("  block %llu, stream %d", (unsigned long long)block->serial, stream);
    note_record(m, block, stream);
    touch_block(m, block, stream, chance(m, 2));
}

void do_touch(struct model *m)
{
    struct block *block = pick_block(m, is_plain);

    if (block != NULL)
        touch_block(m, block, pick_stream(m), chance(m, 2));
}

void do_look(struct model *m)
{
    struct block *block = pick_block(m, is_any);
    tarn_block seen;

    if (block == NULL)
        return;
    if (block->is_discarded) {
        REFUSED(m, TARN_ERR_DOUBLE_FREE, tarn_block_at(block->address, &seen));
        REFUSED(m, TARN_ERR_DOUBLE_FREE, tarn_block_set_tag(block->address, 1));
        return;
    }
    WELL(m, tarn_block_at((char *)block->address + below(m, block->bytes), &seen));
    EXPECT(m,
           seen.address == block->address && seen.bytes == block->bytes &&
               seen.sequence == block->sequence && seen.tag == block->tag,
           "block %llu is described as another", (unsigned long long)block->serial);
    if (!chance(m, 2))
        return;
    block->tag = m->serial + below(m, 3);
    WELL(m, tarn_block_set_tag(block->address, block->tag));
}

void do_misuse_address(struct model *m)
{
    struct block *block = pick_block(m, is_any);
    int on_stack = 0;
    char *inner;

    WELL(m, tarn_free(NULL));
    REFUSED(m, TARN_ERR_NOT_OURS, tarn_free(&on_stack));
    if (block == NULL)
        return;
    inner = (char *)block->address + 1 + below(m, block->bytes);
    if (inner >= (char *)block->address + block->block_bytes)
        return;
    if (block->is_discarded) {
        REFUSED(m, TARN_ERR_DOUBLE_FREE,
                tarn_record_stream(block->address, m->streams[pick_stream(m)].handle));
        return;
    }
    REFUSED(m, TARN_ERR_INNER_ADDRESS, tarn_free(inner));
    REFUSED(m, TARN_ERR_INNER_ADDRESS, tarn_free_on(inner, m->streams[pick_stream(m)].handle));
    REFUSED(m, TARN_ERR_INNER_ADDRESS,
            tarn_record_stream(inner, m->streams[pick_stream(m)].handle));
    if (m->config.holds && block->capture_of == 0 && is_plain(m, block) &&
        !m->pools[block->pool].is_released) {
        void *address = block->address;

        free_block(m, block, NONE, 0);
        REFUSED(m, TARN_ERR_DOUBLE_FREE, tarn_free(address));
    }
}

/* Lets all work be done, and looks at what graphs have written. */
void do_drain(struct model *m)
{
    for (size_t i = 0; i < m->block_count; i++) {
        struct block *block = &m->blocks[i];

        if (block->is_exposed && block->is_known && block->last != NONE && is_plain(m, block))
            touch_block(m, block, block->last, false);
    }
    drain(m);
}

/* Streams ------------------------------------------------------------------------------------ */

void do_new_stream(struct model *m)
{
    int s = (int)below(m, STREAMS);

    if (m->streams[s].handle != NULL)
        return;
    m->streams[s].handle = test_stream();
    m->streams[s].life = ++m->seen_life;
    m->streams[s].is_recorded = false;
    trace("  stream %d", s);
}

/* Marks behind a stream's work, for the blocks that it is the home of, and for those that it was
 * recorded for: see oracle.c for when marks are recorded. */
struct farewell {
    tn_cu_event homes[BLOCKS];
    tn_cu_event uses[BLOCKS];
};

static void prepare_farewell(struct model *m, int s, struct farewell *farewell)
{
    const struct stream *stream = &m->streams[s];

    memset(farewell, 0, sizeof *farewell);
    for (size_t i = 0; i < m->block_count; i++) {
        const struct block *block = &m->blocks[i];

        if (block->home == s && block->home_life == stream->life && block->capture_of == 0 &&
            block->home_mark == NULL)
            farewell->homes[i] = touch_mark(stream->handle);
        if ((block->recorded & (1U << s)) != 0)
            farewell->uses[i] = touch_mark(stream->handle);
    }
}

static void call_off_farewell(struct farewell *farewell)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        touch_forget(farewell->homes[i]);
        touch_forget(farewell->uses[i]);
    }
}

static void note_past(struct model *m, struct block *block, tn_cu_event mark)
{
    int at = block->past[0] == NULL ? 0 : 1;

    if (block->past[at] != NULL) {
        drain(m);
        touch_forget(block->past[at]);
    }
    block->past[at] = mark;
}

/* Work on the stream that nobody has told of must be done before the stream is out of reach; blocks
 * that it was the home of have none any more. */
static void part_with(struct model *m, int s, const struct farewell *farewell)
{
    for (size_t i = 0; i < m->block_count; i++) {
        struct block *block = &m->blocks[i];

        if ((block->dirty & ~block->recorded & (1U << s)) != 0)
            drain(m);
        block->dirty &= ~(1U << s);
        block->recorded &= ~(1U << s);
        if (farewell->homes[i] != NULL)
            block->home_mark = farewell->homes[i];
        if (farewell->uses[i] != NULL)
            note_past(m, block, farewell->uses[i]);
    }
    m->streams[s].is_recorded = false;
    m->streams[s].life = ++m->seen_life;
}

void do_retire(struct model *m)
{
    int s = pick_stream(m);
    struct farewell farewell;

    if (m->streams[s].is_legacy) {
        REFUSED(m, TARN_ERR_INVALID_ARGUMENT, tarn_stream_retire(m->device, m->streams[s].handle));
        return;
    }
    prepare_farewell(m, s, &farewell);
    if (CALL(m, tarn_stream_retire(m->device, m->streams[s].handle)) != TARN_OK) {
        EXPECT(m, m->fault_fired, "a stream cannot be retired: %s", tarn_last_error());
        call_off_farewell(&farewell);
        return;
    }
    trace("  stream %d", s);
    retire_freed(m, m->streams[s].life);
    part_with(m, s, &farewell);
}

/* A stream that was only allocated on may go without a word. */
void do_end_stream(struct model *m)
{
    int s = (int)below(m, STREAMS);
    int count = 0;
    struct farewell farewell;

    for (int i = 0; i < STREAMS; i++)
        count += m->streams[i].handle != NULL && !is_capturing(m, i);
    if (m->streams[s].handle == NULL || m->streams[s].is_default || is_capturing(m, s) ||
        m->streams[s].is_recorded || count < 2)
        return;
    for (size_t i = 0; i < ROUTES; i++) {
        if (m->routes[i].serial != 0 && m->routes[i].stream == s)
            return;
    }
    trace("  stream %d", s);
    move_last(m, s);
    prepare_farewell(m, s, &farewell);
    part_with(m, s, &farewell);
    test_destroy_stream(m->streams[s].handle);
    m->streams[s].handle = NULL;
}
