// SPDX-License-Identifier: Apache-2.0
/* Random operations on several pools and streams beside a naive oracle: a list of the blocks that
 * should be live, with what should be in them. The oracle knows addresses and promises, and nothing
 * of segments, chunks or heaps.
 *
 * Each run prints the line that repeats it: TARN_MODEL_SEED=... TARN_MODEL_STEPS=... */
#include <stdio.h>
#include <stdlib.h>

#include "support/world.h"

enum {
    POOLS = 3,
    BLOCKS_MAX = 160,
    GRAPHS_MAX = 6,
    CHECKPOINTS_MAX = 4,
    OUTPUTS_MAX = 6,
    EDGE_WORDS = 96, /* of a large block only its first and last words are looked at */
    SEEDS = 12,
};

struct model_block {
    unsigned char *address;
    size_t bytes;
    uint64_t serial;   /* of the allocation; a revived block has it again */
    uint64_t graph;    /* serial of the graph that writes it at replay; 0: an ordinary block */
    uint32_t value;    /* in every word that is looked at */
    bool known;        /* whether value is promised */
    int pool;
    int stream; /* that it was allocated on: 0 or 1 */
};

struct model_graph {
    tarn_graph *graph;
    uint64_t serial;
    int pool;
};

struct model_checkpoint {
    tarn_checkpoint *checkpoint;
    int pool;
    bool contents;
    size_t count;
    struct model_block blocks[BLOCKS_MAX];
};

static struct {
    uint64_t random;
    uint64_t serial;
    tarn_pool *pools[POOLS];
    tn_cu_stream streams[2];
    size_t count;
    struct model_block blocks[BLOCKS_MAX];
    size_t graph_count;
    struct model_graph graphs[GRAPHS_MAX];
    size_t checkpoint_count;
    struct model_checkpoint checkpoints[CHECKPOINTS_MAX];
} model;

/* SplitMix64, by S. Vigna. */
static uint64_t next_random(void)
{
    uint64_t z = model.random += 0x9E3779B97F4A7C15ULL;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

static size_t below(size_t limit)
{
    return (size_t)(next_random() % limit);
}

static size_t random_bytes(void)
{
    size_t kind = below(10);

    if (kind < 6)
        return 1 + below(64 << 10);
    return kind < 9 ? 1 + below(4 * MIB) : 1 + below(40 * MIB);
}

static void fill(tn_cu_stream stream, const struct model_block *block)
{
    size_t words = block->bytes / 4;

    if (words <= 2 * EDGE_WORDS) {
        if (words > 0)
            test_fill(stream, block->address, block->value, words);
        return;
    }
    test_fill(stream, block->address, block->value, EDGE_WORDS);
    test_fill(stream, block->address + (words - EDGE_WORDS) * 4, block->value, EDGE_WORDS);
}

static void synchronize(void)
{
    test_synchronize(model.streams[0]);
    test_synchronize(model.streams[1]);
}

static void verify(const struct model_block *block)
{
    size_t words = block->bytes / 4;
    tn_cu_stream stream = model.streams[0];

    if (!block->known || words == 0)
        return;
    synchronize();
    if (words <= 2 * EDGE_WORDS) {
        test_expect_words(stream, block->address, block->value, words);
        return;
    }
    test_expect_words(stream, block->address, block->value, EDGE_WORDS);
    test_expect_words(stream, block->address + (words - EDGE_WORDS) * 4, block->value, EDGE_WORDS);
}

static void expect_no_overlap(const struct model_block *new)
{
    for (size_t i = 0; i < model.count; i++) {
        const struct model_block *block = &model.blocks[i];

        ck_assert_msg(new->address + new->bytes <= block->address ||
                          block->address + block->bytes <= new->address,
                      "block %llu overlaps live block %llu", (unsigned long long)new->serial,
                      (unsigned long long)block->serial);
    }
}

/* Enters a block that the library has just handed out. */
static struct model_block *enter(void *address, size_t bytes, int pool, int stream)
{
    struct model_block block = {
        .address = address,
        .bytes = bytes,
        .serial = ++model.serial,
        .value = (uint32_t)next_random(),
        .pool = pool,
        .stream = stream,
    };

    ck_assert_ptr_nonnull(address);
    expect_no_overlap(&block);
    model.blocks[model.count] = block;
    return &model.blocks[model.count++];
}

static void forget(size_t index)
{
    model.blocks[index] = model.blocks[--model.count];
}

static void do_alloc(void)
{
    int pool = (int)below(POOLS);
    int stream = (int)below(2);
    size_t bytes = random_bytes();
    size_t alignment = below(4) == 0 ? (size_t)512 << below(13) : 0;
    struct model_block *block;
    void *address;

    if (model.count + OUTPUTS_MAX >= BLOCKS_MAX)
        return;
    OK(tarn_alloc(model.pools[pool], bytes, alignment, model.streams[stream], &address));
    ck_assert_uint_eq((uintptr_t)address % (alignment != 0 ? alignment : 512), 0);
    block = enter(address, bytes, pool, stream);
    block->known = true;
    fill(model.streams[stream], block);
}

static void do_free(void)
{
    size_t index;
    struct model_block *block;
    tn_cu_stream other;

    if (model.count == 0)
        return;
    index = below(model.count);
    block = &model.blocks[index];
    verify(block);
    other = model.streams[1 - block->stream];
    switch (below(3)) {
    case 0: /* used elsewhere, and said so at the free */
        block->value += 1;
        fill(other, block);
        OK(tarn_free_on(block->address, other));
        break;
    case 1: /* the same, said before */
        OK(tarn_record_stream(block->address, other));
        fill(other, block);
        OK(tarn_free(block->address));
        break;
    default:
        OK(tarn_free(block->address));
        break;
    }
    ck_assert_int_eq(tarn_free(block->address), TARN_ERR_DOUBLE_FREE);
    forget(index);
}

static void do_capture(void)
{
    int pool = (int)below(POOLS);
    tn_cu_stream stream = model.streams[0]; /* graphs of one pool are replayed on one stream */
    size_t first = model.count;
    uint64_t serial = ++model.serial;
    bool aborts = below(4) == 0;
    tarn_capture *capture;
    tarn_graph *graph;

    if (model.graph_count == GRAPHS_MAX || model.count + OUTPUTS_MAX >= BLOCKS_MAX)
        return;
    OK(tarn_capture_begin(model.pools[pool], stream, TARN_CAPTURE_GLOBAL, &capture));
    for (size_t i = 0, steps = 1 + below(OUTPUTS_MAX); i < steps; i++) {
        size_t bytes = random_bytes();
        struct model_block *block;
        void *address;

        OK(tarn_malloc(world.device, bytes, stream, &address));
        block = enter(address, bytes, pool, 0);
        block->graph = serial;
        fill(stream, block);
        if (below(2) == 0) { /* scratch: its memory is there for the rest of the capture */
            OK(tarn_free(address));
            model.count -= 1;
        }
    }
    if (aborts) {
        OK(tarn_capture_abort(capture));
        for (; model.count > first; model.count--)
            OK(tarn_free(model.blocks[model.count - 1].address)); /* discarded: freed by its user */
        return;
    }
    OK(tarn_capture_end(capture, &graph));
    model.graphs[model.graph_count++] = (struct model_graph){graph, serial, pool};
}

/* Ordinary blocks are untouched by a replay; what the pool's other graphs wrote may be gone. */
static void do_replay(void)
{
    const struct model_graph *graph;

    if (model.graph_count == 0)
        return;
    graph = &model.graphs[below(model.graph_count)];
    synchronize(); /* outputs may have been read or freed on the other stream */
    OK(tarn_graph_replay(graph->graph, model.streams[0]));
    for (size_t i = 0; i < model.count; i++) {
        struct model_block *block = &model.blocks[i];

        if (block->graph != 0 && block->pool == graph->pool)
            block->known = block->graph == graph->serial;
    }
}

static void do_destroy_graph(void)
{
    size_t index;

    if (model.graph_count == 0)
        return;
    index = below(model.graph_count);
    OK(tarn_graph_destroy(model.graphs[index].graph));
    model.graphs[index] = model.graphs[--model.graph_count];
}

static void do_take(void)
{
    struct model_checkpoint *saved = &model.checkpoints[model.checkpoint_count];

    if (model.checkpoint_count == CHECKPOINTS_MAX)
        return;
    saved->pool = (int)below(POOLS);
    saved->contents = below(2) == 0;
    saved->count = 0;
    for (size_t i = 0; i < model.count; i++) {
        if (model.blocks[i].pool == saved->pool)
            saved->blocks[saved->count++] = model.blocks[i];
    }
    synchronize();
    OK(tarn_checkpoint_take(model.pools[saved->pool],
                            saved->contents ? TARN_CONTENTS_DEVICE : TARN_CONTENTS_NONE,
                            model.streams[0], &saved->checkpoint));
    model.checkpoint_count += 1;
}

static struct model_block *find(struct model_block *blocks, size_t count, uint64_t serial)
{
    for (size_t i = 0; i < count; i++) {
        if (blocks[i].serial == serial)
            return &blocks[i];
    }
    return NULL;
}

static void do_restore(void)
{
    struct model_checkpoint *saved;
    size_t freed = 0;
    size_t revived = 0;
    tarn_delta *delta;

    if (model.checkpoint_count == 0)
        return;
    saved = &model.checkpoints[below(model.checkpoint_count)];
    for (size_t i = model.count; i-- > 0;) {
        struct model_block *block = &model.blocks[i];

        if (block->pool != saved->pool)
            continue;
        if (find(saved->blocks, saved->count, block->serial) == NULL) {
            forget(i);
            freed += 1;
        }
    }
    OK(tarn_checkpoint_restore(saved->checkpoint, model.streams[below(2)], &delta));
    for (size_t i = 0; i < saved->count; i++) {
        struct model_block *kept = find(model.blocks, model.count, saved->blocks[i].serial);
        struct model_block *block = kept;

        if (kept == NULL) {
            ck_assert_uint_lt(model.count, BLOCKS_MAX);
            expect_no_overlap(&saved->blocks[i]);
            block = &model.blocks[model.count++];
            *block = saved->blocks[i];
            block->known = false;
            revived += 1;
        }
        if (saved->contents) {
            block->value = saved->blocks[i].value;
            block->known = saved->blocks[i].known;
        }
    }
    ck_assert_uint_eq(delta->freed_count, freed);
    ck_assert_uint_eq(delta->revived_count, revived);
    tarn_delta_destroy(delta);
    synchronize();
}

static void do_destroy_checkpoint(void)
{
    size_t index;

    if (model.checkpoint_count == 0)
        return;
    index = below(model.checkpoint_count);
    OK(tarn_checkpoint_destroy(model.checkpoints[index].checkpoint));
    model.checkpoints[index] = model.checkpoints[--model.checkpoint_count];
}

static void do_check_live(void)
{
    int pool = (int)below(POOLS);
    tarn_expected expected[BLOCKS_MAX];
    size_t count = 0;
    tarn_live_diff *diff;

    for (size_t i = 0; i < model.count; i++) {
        if (model.blocks[i].pool == pool)
            expected[count++] = (tarn_expected){model.blocks[i].address, model.blocks[i].bytes};
    }
    OK(tarn_pool_check_live(model.pools[pool], expected, count, &diff));
    ck_assert_uint_eq(diff->count, 0);
    tarn_live_diff_destroy(diff);
    if (count == 0)
        return;
    OK(tarn_pool_check_live(model.pools[pool], expected, count - 1, &diff));
    ck_assert_uint_eq(diff->count, 1);
    ck_assert_int_eq((int)diff->differences[0].kind, TARN_DIFFERENCE_UNEXPECTED);
    ck_assert_ptr_eq(diff->differences[0].block.address, expected[count - 1].address);
    tarn_live_diff_destroy(diff);
}

static void do_memory(void)
{
    tarn_pool *pool = model.pools[below(POOLS)];

    if (below(3) == 0)
        OK(tarn_pool_reserve(pool, random_bytes(), model.streams[below(2)]));
    else
        OK(tarn_pool_trim(pool, NULL));
}

/* What the library counts is what the oracle counts. */
static void compare(void)
{
    for (int pool = 0; pool < POOLS; pool++) {
        tarn_pool_stats stats = test_stats(model.pools[pool]);
        uint64_t count = 0;
        uint64_t bytes = 0;

        OK(tarn_pool_validate(model.pools[pool]));
        for (size_t i = 0; i < model.count; i++) {
            if (model.blocks[i].pool == pool) {
                count += 1;
                bytes += model.blocks[i].bytes;
            }
        }
        ck_assert_uint_eq(stats.live_count, count);
        ck_assert_uint_eq(stats.requested_bytes, bytes);
    }
}

static void step(void)
{
    static void (*const operations[])(void) = {
        do_alloc,   do_alloc,   do_alloc,  do_alloc,         do_alloc,
        do_free,    do_free,    do_free,   do_capture,       do_capture,
        do_replay,  do_replay,  do_take,   do_restore,       do_destroy_graph,
        do_memory,  do_memory,  do_check_live, do_destroy_checkpoint,
    };

    operations[below(sizeof operations / sizeof operations[0])]();
    compare();
}

static void end(void)
{
    while (model.checkpoint_count > 0)
        do_destroy_checkpoint();
    while (model.graph_count > 0)
        do_destroy_graph();
    for (size_t i = 0; i < model.count; i++) {
        verify(&model.blocks[i]);
        OK(tarn_free(model.blocks[i].address));
    }
    model.count = 0;
    compare();
    for (int pool = 1; pool < POOLS; pool++)
        OK(tarn_pool_destroy(model.pools[pool]));
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *value = getenv(name);

    return value != NULL ? strtoull(value, NULL, 10) : otherwise;
}

START_TEST(pools_do_what_the_oracle_says)
{
    uint64_t seed = setting("TARN_MODEL_SEED", 7919 + (uint64_t)_i);
    uint64_t steps = setting("TARN_MODEL_STEPS", 300);

    (void)fprintf(stderr, "to repeat: TARN_MODEL_SEED=%llu TARN_MODEL_STEPS=%llu\n",
                  (unsigned long long)seed, (unsigned long long)steps);
    memset(&model, 0, sizeof model);
    model.random = seed;
    model.pools[0] = world.pool;
    model.pools[1] = test_pool("one");
    model.pools[2] = test_pool("two");
    model.streams[0] = world.stream;
    model.streams[1] = world.side;
    for (uint64_t i = 0; i < steps; i++)
        step();
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("random operations");
    TCase *tcase = tcase_create("against an oracle");

    tcase_add_checked_fixture(tcase, test_world_open, test_world_close);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, pools_do_what_the_oracle_says, 0, SEEDS);
    suite_add_tcase(suite, tcase);
    return test_main(suite);
}
