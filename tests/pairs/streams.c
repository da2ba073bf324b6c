// SPDX-License-Identifier: Apache-2.0
/* The features of streams that go: retired, and destroyed without a word. */
#include "pairs/pairs.h"

static void prepare(struct pairs_member *m)
{
    m->streams[0] = test_stream();
    m->blocks[0] = pairs_alloc(m, PAIRS_STANDARD, m->streams[0]);
    pairs_fill(m->blocks[0], m->streams[0]);
    m->blocks[1] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[1], m->stream);
    m->blocks[2] = pairs_alloc(m, PAIRS_STANDARD, m->streams[0]);
    pairs_fill(m->blocks[2], m->streams[0]);
}

static void look_at_all(struct pairs_member *m)
{
    for (int i = 0; i < PAIRS_OWN; i++)
        pairs_look_at(m->blocks[i]);
}

static void end_stream(struct pairs_member *m)
{
    tn_cu_result result;

    if (m->streams[0] == NULL)
        return;
    result = cu.cuStreamDestroy(m->streams[0]);
    m->streams[0] = NULL;
    EXPECT(result == TN_CUDA_SUCCESS || !pairs_is_well(), "a stream is not destroyed: %d",
           (int)result);
}

static void finish(struct pairs_member *m)
{
    for (int i = 0; i < PAIRS_OWN; i++)
        pairs_free(&m->blocks[i]);
    end_stream(m);
}

/* Retired: blocks were recorded for it, and one is pending. Then it is destroyed, and the next one has its handle. */
static void retired_begin(struct pairs_member *m)
{
    pairs_spin(m->streams[0], 2);
    if (pairs_is_there(m->blocks[1]) &&
        NEED(tarn_record_stream(pairs_address(m->blocks[1]), m->streams[0]))) {
        pairs_fill(m->blocks[1], m->streams[0]);
        pairs_free(&m->blocks[1]);
    }
    pairs_free(&m->blocks[2]);
}

static void retired_end(struct pairs_member *m)
{
    (void)NEED(tarn_stream_retire(pw.device, m->streams[0]));
    end_stream(m);
    if (pairs_is_well())
        (void)DRIVE(cu.cuStreamCreate(&m->streams[0], TN_CU_STREAM_NON_BLOCKING));
    if (m->streams[0] == NULL)
        return;
    m->blocks[3] = pairs_alloc(m, PAIRS_STANDARD, m->streams[0]);
    pairs_fill(m->blocks[3], m->streams[0]);
    m->blocks[4] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[4], m->stream);
}

const struct pairs_module pairs_stream_retired = {
    .name = "stream retired",
    .what = "a stream with recorded uses is retired and destroyed; another one has its handle",
    .prepare = prepare,
    .begin = retired_begin,
    .end = retired_end,
    .verify = look_at_all,
    .finish = finish,
};

/* Destroyed, busy, without a word: only memory was allocated on it. */
static void destroyed_begin(struct pairs_member *m)
{
    pairs_spin(m->streams[0], 2);
    pairs_fill(m->blocks[2], m->streams[0]);
    pairs_free(&m->blocks[2]);
    pairs_fill(m->blocks[0], m->streams[0]);
    end_stream(m);
}

static void destroyed_end(struct pairs_member *m)
{
    if (pairs_is_well())
        (void)DRIVE(cu.cuStreamCreate(&m->streams[0], TN_CU_STREAM_NON_BLOCKING));
    if (m->streams[0] == NULL)
        return;
    m->blocks[3] = pairs_alloc(m, PAIRS_STANDARD, m->streams[0]);
    pairs_fill(m->blocks[3], m->streams[0]);
    pairs_free_on(&m->blocks[0], m->stream);
    m->blocks[4] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[4], m->stream);
}

const struct pairs_module pairs_stream_destroyed = {
    .name = "stream destroyed",
    .what = "a busy stream goes without a word; another one has its handle",
    .prepare = prepare,
    .begin = destroyed_begin,
    .end = destroyed_end,
    .verify = look_at_all,
    .finish = finish,
};
