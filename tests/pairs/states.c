// SPDX-License-Identifier: Apache-2.0
/* The features of checkpoints: taken with and without contents, restored. */
#include "pairs/pairs.h"

/* Takes one of the shared pool, and notes what is in it. A pool in which a capture is under way refuses. */
static void take(struct pairs_member *m, tarn_contents contents)
{
    tarn_status status;
    tarn_pool *pool;
    int home;

    do {
        pool = pairs_pool(m);
        if (pool == NULL)
            return;
        home = pairs_home_of(pool);
        pairs_snapshot(m->snapshot, home, contents != TARN_CONTENTS_NONE);
        status = tarn_checkpoint_take(pool, contents, pairs_free_stream(m), &m->checkpoint);
    } while (pairs_is_stale(m, pool, status));
    if (status == TARN_ERR_WRONG_STATE && (pairs_is_concurrent() || pairs_may_be_captured(home))) {
        m->is_refused = true;
        return;
    }
    EXPECT(status != TARN_OK || pairs_is_concurrent() || !pairs_is_captured(home),
           "a checkpoint is taken of a pool in which a capture is under way");
    (void)pairs_need(status, "tarn_checkpoint_take");
    if (contents == TARN_CONTENTS_NONE)
        return;
    pairs_relax(
        true); /* until the copies have been made, other streams would have to come behind them */
    (void)DRIVE(cu.cuStreamSynchronize(pairs_free_stream(m)));
    pairs_relax(false);
}

static void look_at_all(struct pairs_member *m)
{
    for (int i = 0; i < PAIRS_OWN; i++)
        pairs_look_at(m->blocks[i]);
}

static void finish(struct pairs_member *m)
{
    if (m->checkpoint != NULL)
        GIVE(tarn_checkpoint_destroy(m->checkpoint));
    m->checkpoint = NULL;
    for (int i = 0; i < PAIRS_OWN; i++)
        pairs_free(&m->blocks[i]);
}

static void prepare(struct pairs_member *m)
{
    for (int i = 0; i < 3; i++) {
        m->blocks[i] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
        pairs_fill(m->blocks[i], m->stream);
    }
}

/* Contents in device memory, or in the host's: by the seed. */
static tarn_contents some_contents(void)
{
    return pw.seed % 2 == 0 ? TARN_CONTENTS_DEVICE : TARN_CONTENTS_HOST;
}

static void contents_begin(struct pairs_member *m)
{
    if (!pairs_is_concurrent())
        pairs_settle(); /* use on other streams has ended */
    take(m, some_contents());
}

static void contents_end(struct pairs_member *m)
{
    if (m->checkpoint != NULL)
        (void)NEED(tarn_checkpoint_verify(m->checkpoint, pairs_free_stream(m)));
}

const struct pairs_module pairs_take_with_contents = {
    .name = "take with contents",
    .what = "a checkpoint with the bytes of its blocks, which are verified",
    .prepare = prepare,
    .begin = contents_begin,
    .end = contents_end,
    .verify = look_at_all,
    .finish = finish,
    .needs_quiet = true,
};

static void state_begin(struct pairs_member *m)
{
    take(m, TARN_CONTENTS_NONE);
}

static void state_end(struct pairs_member *m)
{
    if (m->checkpoint != NULL)
        GIVE(tarn_checkpoint_destroy(m->checkpoint));
    m->checkpoint = NULL;
    take(m, TARN_CONTENTS_NONE);
}

const struct pairs_module pairs_take_without_contents = {
    .name = "take without contents",
    .what = "checkpoints of which blocks are live",
    .prepare = prepare,
    .begin = state_begin,
    .end = state_end,
    .verify = look_at_all,
    .finish = finish,
};

/* Restore: a block that was freed comes back, one that was made goes, one that was written has its bytes again. */
static void restore_prepare(struct pairs_member *m)
{
    prepare(m);
    pairs_settle();
    take(m, pw.seed % 3 == 0 ? TARN_CONTENTS_NONE : some_contents());
}

static void restore_begin(struct pairs_member *m)
{
    pairs_free(&m->blocks[0]);
    m->blocks[3] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[3], m->stream);
    pairs_fill(m->blocks[1], m->stream);
}

static void restore_end(struct pairs_member *m)
{
    tarn_delta *delta = NULL;
    tn_cu_stream stream = pairs_free_stream(m);
    tarn_status status;
    int home = m->snapshot->home;

    if (pw.seed % 2 == 1 && !pairs_is_capturing(m->side))
        stream = m->side; /* on which nothing was done that the memory's users have waited for */
    if (m->checkpoint == NULL)
        return;
    status = tarn_checkpoint_restore(m->checkpoint, stream, &delta);
    if (status == TARN_ERR_WRONG_STATE && pairs_may_be_captured(home))
        return;
    EXPECT(status != TARN_OK || !pairs_is_captured(home),
           "a pool is restored in which a capture is under way");
    if (!pairs_need(status, "tarn_checkpoint_restore"))
        return;
    pairs_restored(m->snapshot, delta, stream);
    tarn_delta_destroy(delta);
}

/* What came back is nobody's place any more: all that the checkpoint had of the module's, by the books. */
static void restore_finish(struct pairs_member *m)
{
    for (size_t i = 0; i < m->snapshot->count; i++) {
        int block = m->snapshot->blocks[i];
        bool is_others = false;

        for (int k = 0; k < PAIRS_OWN; k++)
            is_others = is_others || m->other->blocks[k] == block;
        if (m->other->module == &pairs_guard && (int)m->other->number == block)
            is_others = true;
        if (!is_others)
            pairs_free(&block);
    }
    finish(m);
}

const struct pairs_module pairs_restore = {
    .name = "restore",
    .what = "a pool is put back: one block comes back, one goes, one has its bytes again",
    .prepare = restore_prepare,
    .begin = restore_begin,
    .end = restore_end,
    .verify = look_at_all,
    .finish = restore_finish,
    .needs_quiet = true,
};
