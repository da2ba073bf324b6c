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

/* Whether it was; a pool in which a capture is under way is not. */
static bool restore(struct pairs_member *m, tn_cu_stream stream)
{
    tarn_delta *delta = NULL;
    tarn_status status;
    int home = m->snapshot->home;

    if (m->checkpoint == NULL)
        return false;
    status = tarn_checkpoint_restore(m->checkpoint, stream, &delta);
    if (status == TARN_ERR_WRONG_STATE && pairs_may_be_captured(home))
        return false;
    EXPECT(status != TARN_OK || !pairs_is_captured(home),
           "a pool is restored in which a capture is under way");
    if (!pairs_need(status, "tarn_checkpoint_restore"))
        return false;
    pairs_restored(m->snapshot, delta, stream);
    tarn_delta_destroy(delta);
    /* The caller orders later work on other streams behind the copies: memory that is freed goes back to its own. */
    for (size_t i = 0; i < m->snapshot->count; i++)
        pairs_come_after(m->stream, m->snapshot->blocks[i]);
    return true;
}

static void restore_end(struct pairs_member *m)
{
    tn_cu_stream stream = pairs_free_stream(m);

    if (pw.seed % 2 == 1 && !pairs_is_capturing(m->side))
        stream = m->side; /* on which nothing was done that the memory's users have waited for */
    (void)restore(m, stream);
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

/* Recapture: a section that is captured again behind a restore has the addresses that it had. It frees behind a fork and
 * a join, and the driver may say of events what it likes. */
enum { SECTION_BLOCKS = 6, FOUND_BLOCKS = 2 * SECTION_BLOCKS };

static void *take_block(struct pairs_member *m, size_t bytes)
{
    void *address = NULL;

    if (!NEED(tarn_malloc(pw.device, bytes, m->streams[0], &address)))
        return NULL;
    (void)DRIVE(pairs_write(m->streams[0], address, bytes, 7));
    return address;
}

static void free_behind_a_fork(struct pairs_member *m, void *address)
{
    tn_cu_event forked = NULL;
    tn_cu_event joined = NULL;

    if (address == NULL || !DRIVE(cu.cuEventCreate(&forked, TN_CU_EVENT_DISABLE_TIMING)) ||
        !DRIVE(cu.cuEventCreate(&joined, TN_CU_EVENT_DISABLE_TIMING)))
        return;
    if (DRIVE(cu.cuEventRecord(forked, m->streams[0])) &&
        DRIVE(cu.cuStreamWaitEvent(m->streams[1], forked, 0)) &&
        DRIVE(pairs_write(m->streams[1], address, PAIRS_STANDARD, 9)) &&
        NEED(tarn_free_on(address, m->streams[1])) &&
        DRIVE(cu.cuEventRecord(joined, m->streams[1])))
        (void)DRIVE(cu.cuStreamWaitEvent(m->streams[0], joined, 0));
    (void)cu.cuEventDestroy(forked);
    (void)cu.cuEventDestroy(joined);
}

/* NULL: it could not be captured. Its addresses are in found; the last one's block is an output. */
static tarn_graph *capture_section(struct pairs_member *m, void **found)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    tarn_pool *pool = pairs_pool(m);

    if (pairs_home_of(pool) != m->snapshot->home) /* released */
        return NULL;
    if (!NEED(tarn_capture_begin(pool, m->streams[0], CAPTURE_MODE(TARN_CAPTURE_THREAD_LOCAL),
                                 &capture)))
        return NULL;
    found[5] = take_block(m, PAIRS_STANDARD);
    found[0] = take_block(m, PAIRS_STANDARD);
    found[1] = take_block(m, 3 * PAIRS_STANDARD);
    free_behind_a_fork(m, found[0]);
    found[2] = take_block(m, PAIRS_STANDARD);
    if (found[1] != NULL)
        GIVE(tarn_free(found[1]));
    found[3] = take_block(m, 2 * PAIRS_STANDARD);
    free_behind_a_fork(m, found[3]);
    found[4] = take_block(m, PAIRS_STANDARD);
    for (int i = 2; i < 5; i += 2) {
        if (found[i] != NULL)
            GIVE(tarn_free(found[i]));
    }
    if (NEED(tarn_capture_end(capture, &graph)))
        return graph;
    GIVE(tarn_capture_abort(capture));
    GIVE(tarn_free(found[5]));
    return NULL;
}

/* Two sections, between which the first one's output is given up where another stream has used it. Somebody looks what
 * is used no more, and whatever that finds, the second section lies where it lies. */
static bool capture_sections(struct pairs_member *m, void *found[FOUND_BLOCKS])
{
    tarn_graph *graphs[2] = {capture_section(m, found), NULL};

    if (graphs[0] == NULL)
        return false;
    (void)NEED(tarn_graph_replay(graphs[0], m->streams[0]));
    if (pairs_is_well())
        (void)DRIVE(pairs_write(m->streams[1], found[5], PAIRS_STANDARD, 3));
    if (!NEED(tarn_free_on(found[5], m->streams[1])))
        GIVE(tarn_free(found[5]));
    (void)NEED(tarn_device_collect(pw.device));
    graphs[1] = capture_section(m, found + SECTION_BLOCKS);
    if (graphs[1] != NULL)
        GIVE(tarn_free(found[SECTION_BLOCKS + 5]));
    pairs_end_graph(&graphs[0]);
    if (graphs[1] == NULL)
        return false;
    pairs_end_graph(&graphs[1]);
    return pairs_is_well();
}

static bool restore_and_capture(struct pairs_member *m, void *found[FOUND_BLOCKS])
{
    return restore(m, m->streams[0]) && capture_sections(m, found);
}

static void recapture_prepare(struct pairs_member *m)
{
    m->streams[0] = test_stream();
    m->streams[1] = test_stream();
    prepare(m);
    pairs_settle();
    take(m, TARN_CONTENTS_NONE);
}

static void recapture_begin(struct pairs_member *m)
{
    void *found[FOUND_BLOCKS];

    (void)restore_and_capture(m, found);
}

/* How often chunks have come to the pool, or gone. */
static uint64_t chunk_changes(struct pairs_member *m)
{
    tarn_stats memory = TARN_STATS_INIT;

    GIVE(tarn_pool_stats(pairs_pool(m), &memory));
    return memory.chunks.all.allocated + memory.chunks.all.freed;
}

/* What the other module has done between the halves is over. Where it acts at the same time, it may trim what the pool
 * has: addresses are compared as long as that is the same, and of the first section alone, before which nothing is
 * pending that a trim could have waited for. Of events the driver says what is so, then that they are not
 * done, then that they are. */
static void recapture_end(struct pairs_member *m)
{
    void *first[FOUND_BLOCKS];
    void *again[FOUND_BLOCKS];

    int count = pairs_is_concurrent() ? SECTION_BLOCKS : FOUND_BLOCKS;
    uint64_t changes;

    if (!restore_and_capture(m, first)) /* which may map what they need */
        return;
    changes = chunk_changes(m);
    if (!restore_and_capture(m, first))
        return;
    for (int how = 0; how < 3; how++) {
        bool was_captured;

        sim.set_queries(how);
        was_captured = restore_and_capture(m, again);
        was_captured = was_captured && (!pairs_is_concurrent() || chunk_changes(m) == changes);
        for (int i = 0; i < count && was_captured; i++)
            EXPECT(again[i] == first[i], "block %d of the section was at %p, and is at %p", i,
                   first[i], again[i]);
    }
    sim.set_queries(0);
}

static void recapture_finish(struct pairs_member *m)
{
    restore_finish(m);
    pairs_relax(true);
    for (int i = 0; i < 2; i++) {
        (void)DRIVE(cu.cuStreamSynchronize(m->streams[i]));
        test_destroy_stream(m->streams[i]);
    }
    pairs_relax(false);
}

const struct pairs_module pairs_recapture = {
    .name = "recapture",
    .what = "a section is captured again behind restores, at the same addresses",
    .prepare = recapture_prepare,
    .begin = recapture_begin,
    .end = recapture_end,
    .verify = look_at_all,
    .finish = recapture_finish,
    .needs_quiet = true,
};
