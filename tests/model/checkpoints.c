// SPDX-License-Identifier: Apache-2.0
/* Operations on checkpoints. */
#include "model/state.h"

static bool may_checkpoint(const struct model *m, int p)
{
    return m->pools[p].handle != NULL && !m->pools[p].is_default && !m->pools[p].is_shared &&
           !m->pools[p].is_released;
}

/* The library copies behind one stream: work on others must be done. */
static void rest(struct model *m, int pool)
{
    for (size_t i = 0; i < m->block_count; i++) {
        struct block *block = &m->blocks[i];

        if (block->pool == pool && (block->dirty & ~block->recorded) != 0) {
            drain(m);
            break;
        }
    }
    for (size_t i = 0; i < m->block_count; i++) {
        if (m->blocks[i].pool == pool)
            m->blocks[i].dirty &= m->blocks[i].recorded;
    }
}

void do_take(struct model *m)
{
    struct checkpoint *made = &m->checkpoints[below(m, CHECKPOINTS)];
    int p = pick_pool(m);
    int stream = pick_stream(m);
    int contents = (int)below(m, CONTENTS);
    tarn_status status;

    if (made->handle != NULL || !may_checkpoint(m, p))
        return;
    if (contents != TARN_CONTENTS_NONE)
        drain(m);
    note_pending(m, p);
    status = CALL(m, tarn_checkpoint_take(m->pools[p].handle, (tarn_contents)contents,
                                          m->streams[stream].handle, &made->handle));
    if (has_capture(m, p) || is_maybe_captured(m, p)) {
        EXPECT(m, status == TARN_ERR_WRONG_STATE || !has_own_capture(m, p),
               "a checkpoint during a capture: %s", tarn_status_name(status));
        if (status == TARN_ERR_WRONG_STATE)
            return;
    }
    if (is_declined(m, status, "tarn_checkpoint_take"))
        return;
    take_uses(m, p, stream);
    if (contents != TARN_CONTENTS_NONE)
        drain(m); /* other streams may write again when the copies are made */
    made->pool = p;
    made->contents = contents;
    made->count = 0;
    made->kept_bytes = 0;
    for (size_t i = 0; i < m->block_count; i++) {
        if (m->blocks[i].pool != p || m->blocks[i].is_discarded)
            continue;
        made->blocks[made->count] = m->blocks[i];
        made->blocks[made->count].home_mark = NULL;
        memset(made->blocks[made->count].past, 0, sizeof made->blocks[0].past);
        made->count += 1;
        if (contents == TARN_CONTENTS_DEVICE)
            made->kept_bytes += m->blocks[i].block_bytes;
    }
    trace("  checkpoint %zu of pool %d, %zu blocks, contents %d", (size_t)(made - m->checkpoints),
          p, made->count, contents);
}

static struct block *find(struct block *blocks, size_t count, uint64_t serial)
{
    for (size_t i = 0; i < count; i++) {
        if (blocks[i].serial == serial)
            return &blocks[i];
    }
    return NULL;
}

static bool is_in_the_way(const struct model *m, const struct checkpoint *saved)
{
    for (size_t i = 0; i < m->block_count; i++) {
        for (size_t j = 0; j < saved->count && m->blocks[i].is_discarded; j++) {
            if (overlap(range_of(&m->blocks[i]), range_of(&saved->blocks[j])))
                return true;
        }
    }
    return false;
}

static bool is_freed_by(const struct checkpoint *saved, const struct block *block)
{
    return block->pool == saved->pool && !block->is_discarded &&
           find((struct block *)saved->blocks, saved->count, block->serial) == NULL;
}

static bool names(const tarn_delta *delta, const struct block *block, bool among_revived)
{
    size_t count = among_revived ? delta->revived_count : delta->freed_count;

    for (size_t i = 0; i < count; i++) {
        const tarn_block *named = among_revived ? &delta->revived[i].block : &delta->freed[i];

        if (named->address == block->address && named->bytes == block->bytes &&
            named->sequence == block->sequence && named->tag == block->tag)
            return true;
    }
    return false;
}

static size_t apply_frees(struct model *m, const struct checkpoint *saved, const tarn_delta *delta)
{
    size_t freed = 0;

    for (size_t i = m->block_count; i-- > 0;) {
        struct block *block = &m->blocks[i];

        if (!is_freed_by(saved, block))
            continue;
        EXPECT(m, names(delta, block, false), "the delta does not name block %llu as freed",
               (unsigned long long)block->serial);
        remove_block(m, block);
        freed += 1;
    }
    return freed;
}

/* Memory revived on a stream: what others did there must be done. */
static void expect_idle(struct model *m, const struct block *block, int stream)
{
    for (size_t i = 0; i < m->freed_count; i++) {
        const struct freed *freed = &m->freed[i];

        if (!overlap(range_of(block), freed->range))
            continue;
        EXPECT(m,
               freed->home == NULL || freed->home_life == m->streams[stream].life ||
                   touch_is_passed(freed->home),
               "block %llu was revived on stream %d in the memory of block %llu while that one's "
               "stream was not done",
               (unsigned long long)block->serial, stream, (unsigned long long)freed->serial);
        for (int s = 0; s < STREAMS; s++)
            EXPECT(
                m, s == stream || freed->uses[s] == NULL || touch_is_passed(freed->uses[s]),
                "block %llu was revived on stream %d in the memory of block %llu while stream %d, "
                "recorded for that, was not done",
                (unsigned long long)block->serial, stream, (unsigned long long)freed->serial, s);
    }
}

static void revive(struct model *m, const struct checkpoint *saved, const struct block *from,
                   const tarn_delta *delta, int stream)
{
    struct block again = *from;
    struct block *block;

    EXPECT(m, names(delta, from, true), "the delta does not name block %llu as revived",
           (unsigned long long)from->serial);
    expect_idle(m, from, stream);
    withdraw_freed(m, range_of(from));
    again.is_exposed = true; /* a graph may have got the memory meanwhile */
    again.is_known = false;
    again.last = stream;
    again.is_replayed = false;
    again.recorded = 0;
    again.dirty = 0;
    memset(again.ticks, 0, sizeof again.ticks);
    block = add_block(m, &again);
    trace("  revived block %llu at %p", (unsigned long long)block->serial, block->address);
    if (saved->contents == TARN_CONTENTS_NONE)
        touch_block(m, block, stream, true);
}

static void apply_restore(struct model *m, struct checkpoint *saved, const tarn_delta *delta,
                          int stream)
{
    size_t freed = apply_frees(m, saved, delta);
    size_t revived = 0;

    for (size_t i = 0; i < saved->count; i++) {
        const struct block *from = &saved->blocks[i];
        struct block *block = find(m->blocks, m->block_count, from->serial);

        if (block == NULL) {
            revive(m, saved, from, delta, stream);
            block = find(m->blocks, m->block_count, from->serial);
            revived += 1;
        }
        if (saved->contents == TARN_CONTENTS_NONE)
            continue;
        block->value = from->value;
        block->is_known = from->is_known;
        block->last = stream;
        block->is_replayed = false;
        if (stream != block->home || block->home_life != m->streams[stream].life)
            block->dirty |= 1U << stream;
    }
    EXPECT(m, delta->freed_count == freed, "the delta has %zu freed blocks, expected %zu",
           delta->freed_count, freed);
    EXPECT(m, delta->revived_count == revived, "the delta has %zu revived blocks, expected %zu",
           delta->revived_count, revived);
}

/* What comes later on other streams than the restore's is the caller's to order. The library has put that stream behind
 * the uses of memory freed in the pool (forget_uses): what is written there shows whether it has. */
static void order_others(struct model *m, int pool, int stream)
{
    tn_cu_event mark;

    for (int s = 0; s < STREAMS; s++) {
        if (is_capturing(m, s)) { /* it cannot wait now */
            drain(m);
            return;
        }
    }
    mark = touch_mark(m->streams[stream].handle);
    for (int s = 0; s < STREAMS; s++) {
        if (s != stream && m->streams[s].handle != NULL)
            touch_come_after(m->streams[s].handle, mark);
    }
    touch_forget(mark);
    forget_uses(m, pool, stream);
}

void do_restore(struct model *m)
{
    struct checkpoint *saved = &m->checkpoints[below(m, CHECKPOINTS)];
    int stream = pick_stream(m);
    tarn_delta *delta = NULL;
    size_t freed_before;
    tarn_status status;

    if (saved->handle == NULL)
        return;
    rest(m, saved->pool);
    if (saved->contents != TARN_CONTENTS_NONE || m->freed_count + m->block_count > FREED)
        drain(m);
    freed_before = m->freed_count;
    for (size_t i = 0; i < m->block_count; i++) {
        if (is_freed_by(saved, &m->blocks[i])) {
            note_freed(m, &m->blocks[i], 0);
            shared_remove(m, range_of(&m->blocks[i]));
        }
    }
    status = CALL(m, tarn_checkpoint_restore(saved->handle, m->streams[stream].handle, &delta));
    if (status == TARN_ERR_WRONG_STATE)
        EXPECT(m,
               has_capture(m, saved->pool) || is_maybe_captured(m, saved->pool) ||
                   is_in_the_way(m, saved),
               "%s", tarn_last_error());
    if (status == TARN_ERR_WRONG_STATE || is_declined(m, status, "tarn_checkpoint_restore")) {
        for (size_t i = 0; i < m->block_count; i++) {
            if (is_freed_by(saved, &m->blocks[i]))
                shared_add(m, range_of(&m->blocks[i]));
        }
        (void)freed_before;
        for (size_t i = 0; i < m->block_count; i++)
            withdraw_freed(m, range_of(&m->blocks[i])); /* nothing was given back after all */
        return;
    }
    trace("  checkpoint %zu of pool %d on stream %d: %zu freed, %zu revived",
          (size_t)(saved - m->checkpoints), saved->pool, stream, delta->freed_count,
          delta->revived_count);
    apply_restore(m, saved, delta, stream);
    order_others(m, saved->pool, stream);
    tarn_delta_destroy(delta);
}

void do_verify(struct model *m)
{
    struct checkpoint *saved = &m->checkpoints[below(m, CHECKPOINTS)];
    tn_cu_stream stream = m->streams[pick_stream(m)].handle;

    if (saved->handle == NULL)
        return;
    if (saved->contents == TARN_CONTENTS_NONE)
        REFUSED(m, TARN_ERR_WRONG_STATE, tarn_checkpoint_verify(saved->handle, stream));
    else
        (void)DECLINED(m, tarn_checkpoint_verify(saved->handle, stream));
}

void do_destroy_checkpoint(struct model *m)
{
    struct checkpoint *saved = &m->checkpoints[below(m, CHECKPOINTS)];

    if (saved->handle == NULL)
        return;
    WELL(m, tarn_checkpoint_destroy(saved->handle));
    STALE(m, tarn_checkpoint_destroy(saved->handle));
    saved->handle = NULL;
    saved->kept_bytes = 0;
}

void end_checkpoints(struct model *m)
{
    for (size_t i = 0; i < CHECKPOINTS; i++) {
        WELL(m, tarn_checkpoint_destroy(m->checkpoints[i].handle));
        m->checkpoints[i].handle = NULL;
        m->checkpoints[i].kept_bytes = 0;
    }
}
