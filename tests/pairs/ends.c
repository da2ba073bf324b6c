// SPDX-License-Identifier: Apache-2.0
/* The features of things that end late, or not as they should: graphs whose destructors run later, page-locked memory
 * for which no context can be had, callbacks that are left. */
#include <setjmp.h>

#include "pairs/pairs.h"

enum { OUTPUT };

/* Graph ended: its pool's memory goes with it, and the pool. */
static void ended_prepare(struct pairs_member *m)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;

    options.name = "of a graph that ends";
    m->streams[0] = test_stream();
    (void)NEED(tarn_pool_create(pw.device, &options, &m->pool));
    m->blocks[OUTPUT] = pairs_alloc_default(PAIRS_STANDARD, m->stream);
    m->patterns[OUTPUT] = pairs_pattern();
}

static void ended_begin(struct pairs_member *m)
{
    m->graphs[0] = pairs_graph(m, m->pool, m->streams[0], m->patterns[OUTPUT], m->blocks[OUTPUT]);
    (void)pairs_launch(m->graphs[0], m->streams[0], m->patterns[OUTPUT], m->blocks[OUTPUT]);
}

static void ended_end(struct pairs_member *m)
{
    tarn_stats stats = TARN_STATS_INIT;
    int64_t began;
    bool
        is_late; /* it waits no longer, and a machine that is busy may keep the driver from ending the graph */

    pairs_end_graph(&m->graphs[0]);
    pairs_relax(true);
    (void)DRIVE(cu.cuStreamSynchronize(m->streams[0]));
    pairs_relax(false);
    began = test_deadline();
    if (!NEED(tarn_pool_trim(m->pool, NULL)))
        return;
    is_late = test_deadline() - began > INT64_C(190000000);
    GIVE(tarn_pool_stats(m->pool, &stats));
    EXPECT(stats.mapped_bytes.all.current == 0 || is_late || !pairs_is_well(),
           "%llu bytes are mapped behind the end of the only graph, and a trim",
           (unsigned long long)stats.mapped_bytes.all.current);
    GIVE(tarn_pool_destroy(m->pool));
    m->pool = NULL;
}

static void ended_finish(struct pairs_member *m)
{
    pairs_end_graph(&m->graphs[0]);
    if (m->pool != NULL)
        GIVE(tarn_pool_destroy(m->pool));
    pairs_free(&m->blocks[OUTPUT]);
    test_destroy_stream(m->streams[0]);
}

static void look_at_all(struct pairs_member *m)
{
    for (int i = 0; i < PAIRS_OWN; i++)
        pairs_look_at(m->blocks[i]);
}

const struct pairs_module pairs_graph_ended = {
    .name = "graph ended",
    .what =
        "a graph is destroyed; a trim right behind it gives its memory back, and its pool can go",
    .prepare = ended_prepare,
    .begin = ended_begin,
    .end = ended_end,
    .verify = look_at_all,
    .finish = ended_finish,
};

/* Give-back refused: a checkpoint's page-locked memory goes back to the driver, which does not unmap it. The device is
 * poisoned, and nobody gets the memory. */
static tarn_stats memory_stats(void)
{
    tarn_stats memory = TARN_STATS_INIT;

    GIVE(tarn_device_stats(pw.device, &memory));
    return memory;
}

static void refused_prepare(struct pairs_member *m)
{
    m->blocks[0] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[0], m->stream);
    pairs_settle();
    if (NEED(tarn_checkpoint_take(pairs_pool(m), TARN_CONTENTS_HOST, m->stream, &m->checkpoint)))
        (void)DRIVE(cu.cuStreamSynchronize(m->stream));
}

static void refused_begin(struct pairs_member *m)
{
    if (m->checkpoint != NULL)
        GIVE(tarn_checkpoint_destroy(m->checkpoint));
    m->checkpoint = NULL;
}

static void refused_end(struct pairs_member *m)
{
    tarn_stats before = memory_stats();
    tarn_stats behind;
    tarn_pool *pool = NULL;
    tarn_status status;

    (void)m;
    if (before.pinned_cached_bytes == 0 ||
        !pairs_is_well()) /* a trim has given it back, as may be */
        return;
    pw.health = PAIRS_PERHAPS;
    pw.is_poisoned = true;
    pairs_refuse("cuMemUnmap");
    status = tarn_device_set_pinned_cache_limit(pw.device, TARN_NO_CACHE);
    if (pairs_refuse(NULL) == 0) { /* another one has it by now, or blocks beside it */
        if (!pairs_is_concurrent()) {
            pw.health = PAIRS_WELL;
            pw.is_poisoned = false;
        }
        return;
    }
    pw.health = PAIRS_LOST;
    EXPECT(status == TARN_ERR_POISONED || status == TARN_ERR_DEVICE_LOST,
           "the driver unmaps nothing: %s", tarn_status_name(status));
    behind = memory_stats();
    EXPECT(
        (behind.pinned_bytes < before.pinned_bytes && behind.pinned_cached_bytes == 0) ||
            pairs_is_concurrent(),
        "of %llu bytes of page-locked memory, %llu of them cached, %llu and %llu may be used again",
        (unsigned long long)before.pinned_bytes, (unsigned long long)before.pinned_cached_bytes,
        (unsigned long long)behind.pinned_bytes, (unsigned long long)behind.pinned_cached_bytes);
    status = tarn_pool_create(pw.device, NULL, &pool);
    EXPECT(status == TARN_ERR_POISONED || status == TARN_ERR_DEVICE_LOST,
           "a pool is made on a poisoned device: %s", tarn_status_name(status));
}

static void refused_finish(struct pairs_member *m)
{
    if (m->checkpoint != NULL)
        GIVE(tarn_checkpoint_destroy(m->checkpoint));
    m->checkpoint = NULL;
    pairs_free(&m->blocks[0]);
}

const struct pairs_module pairs_give_back_refused = {
    .name = "give-back refused",
    .what =
        "the driver does not take page-locked memory back: the device is poisoned, nothing is lost",
    .prepare = refused_prepare,
    .begin = refused_begin,
    .end = refused_end,
    .verify = look_at_all,
    .finish = refused_finish,
};

/* Callback left: by a jump, after which the thread's next call ends the process; or by unwinding the stack, which does so
 * at once. */
static _Thread_local jmp_buf back;

static bool leave(tarn_device *device, size_t wanted_bytes, void *user)
{
    struct pairs_member *m = user;
    void (*inside)(struct pairs_member * other);
    bool first = pairs_lift_limit(m, device);

    (void)wanted_bytes;
    if (!pthread_equal(pthread_self(), m->thread))
        return m->number > 0;
    if (!first)
        return false;
    inside = m->inside;
    m->inside = NULL;
    pairs_is_inside = true;
    if (inside != NULL)
        inside(m);
    pairs_is_inside = false;
    if (pw.seed % 2 == 0) {
        pairs_expect_end("longjmp");
        longjmp(back, 1);
    }
    pairs_expect_end("a free-memory callback");
    pthread_exit(NULL);
}

static void left_begin(struct pairs_member *m)
{
    tarn_stats stats = TARN_STATS_INIT;

    if (!NEED(tarn_device_add_free_callback(pw.device, leave, m)))
        return;
    GIVE(tarn_device_stats(pw.device, &stats));
    m->thread = pthread_self();
    m->is_open = true;
    GIVE(tarn_device_set_limit(pw.device, stats.mapped_bytes.all.current + stats.cached_bytes));
    if (setjmp(back) == 0) {
        void *address = NULL;
        tarn_status status = tarn_pool_malloc(pairs_pool(m), GIB, 0, m->stream, &address);

        if (status == TARN_OK) /* somebody else was short of memory first */
            GIVE(tarn_free(address));
        GIVE(tarn_device_set_limit(pw.device, 0));
        GIVE(tarn_device_remove_free_callback(pw.device, leave, m));
    } else {
        m->is_refused = true;
    }
}

static void left_end(struct pairs_member *m)
{
    tarn_stats stats = TARN_STATS_INIT;

    if (!m->is_refused)
        return;
    GIVE(tarn_device_stats(pw.device, &stats));
    pairs_fail("a callback was left by a jump, and the thread's next call says nothing");
}

const struct pairs_module pairs_callback_left = {
    .name = "callback left",
    .what = "a callback does not return: the process ends with a sentence",
    .begin = left_begin,
    .end = left_end,
    .calls_back = true,
};
