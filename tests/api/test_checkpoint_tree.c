// SPDX-License-Identifier: Apache-2.0
/* Trees of checkpoints: from any node any other is restored and a new branch is begun. What must be
 * live then, and with which bytes, an oracle knows that copies lists of its own and nothing else.
 *
 * TARN_TREE_SEED replays a run, and TARN_TREE_STEPS makes it longer. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "support/world.h"

enum { BLOCKS = 80, NODES = 24, GRAPHS = 4, WORDS_MAX = 1024 };

/* A block as the oracle knows it: its words are value, value + 1 and so on. */
struct known {
    void *address;
    size_t bytes;
    uint64_t sequence;
    uint32_t value;
    bool shared; /* graphs may write there: allocated in a capture, or revived after it was free */
};

/* A graph, and the words that each of its replays writes. */
struct recorded {
    tarn_graph *graph;
    const void *written[4];
    size_t written_count;
};

struct picture_of_live {
    struct known blocks[BLOCKS];
    size_t count;
};

struct node {
    tarn_checkpoint *checkpoint;
    tarn_contents contents;
    struct picture_of_live live;
};

static struct picture_of_live now;
static struct node nodes[NODES];
static struct recorded graphs[GRAPHS];
static uint64_t seed;
static uint64_t state;
static uint32_t next_value;

static size_t pick(size_t below)
{
    state ^= state << 13; /* Marsaglia's xorshift */
    state ^= state >> 7;
    state ^= state << 17;
    return (size_t)(state >> 11) % below;
}

#define TREE_ASSERT(condition)                                                                     \
    ck_assert_msg(condition, "%s (TARN_TREE_SEED=%llu)", #condition, (unsigned long long)seed)

static size_t words_of(const struct known *block)
{
    return block->bytes / 4 < WORDS_MAX ? block->bytes / 4 : WORDS_MAX;
}

/* Writes words at the beginning of a block and again at its end. */
static void write_block(struct known *block)
{
    uint32_t words[WORDS_MAX];
    size_t bytes = words_of(block) * 4;

    block->value = next_value;
    next_value += 7919;
    for (size_t i = 0; i < words_of(block); i++)
        words[i] = block->value + (uint32_t)i;
    if (bytes == 0)
        return;
    test_write(world.stream, block->address, words, bytes);
    test_write(world.stream, (char *)block->address + block->bytes / 4 * 4 - bytes, words, bytes);
}

static void expect_block(const struct known *block)
{
    uint32_t words[WORDS_MAX];
    size_t bytes = words_of(block) * 4;

    if (bytes == 0)
        return;
    test_read_bytes(world.stream, words,
                    (const char *)block->address + block->bytes / 4 * 4 - bytes, bytes);
    for (size_t i = 0; i < words_of(block); i++)
        TREE_ASSERT(words[i] == block->value + (uint32_t)i);
    if (block->bytes / 4 < 2 * WORDS_MAX)
        return; /* the end has overwritten the beginning */
    test_read_bytes(world.stream, words, block->address, bytes);
    for (size_t i = 0; i < words_of(block); i++)
        TREE_ASSERT(words[i] == block->value + (uint32_t)i);
}

/* Mostly small: copies of large blocks take time, and their edges are like those of small ones. */
static size_t some_bytes(void)
{
    size_t kind = pick(64);

    if (kind == 0)
        return pick(20) == 0 ? 33 * MIB : pick(9 * MIB) + 1;
    if (kind < 6)
        return MIB + pick(2 * MIB);
    return pick(kind < 16 ? 300000 : 20000) + 1;
}

static void remember(void *address, size_t bytes, bool captured)
{
    tarn_block block;

    OK(tarn_block_at(address, &block));
    now.blocks[now.count] = (struct known){
        .address = address, .bytes = bytes, .sequence = block.sequence, .shared = captured};
    write_block(&now.blocks[now.count]);
    now.count += 1;
}

static void allocate(void)
{
    size_t bytes = some_bytes();

    if (now.count < BLOCKS)
        remember(test_alloc(world.pool, bytes, pick(4) == 0 ? world.side : world.stream), bytes,
                 false);
}

static void release(void)
{
    size_t i;

    if (now.count == 0)
        return;
    i = pick(now.count);
    OK(tarn_free(now.blocks[i].address));
    now.count -= 1;
    now.blocks[i] = now.blocks[now.count];
}

static void change(void)
{
    if (now.count > 0)
        write_block(&now.blocks[pick(now.count)]);
}

/* Records a graph in the pool: temporaries, and outputs that stay live. */
static void record(void)
{
    struct recorded *recorded = &graphs[pick(GRAPHS)];
    tarn_capture *capture = NULL;
    void *outputs[3];
    size_t bytes[3];
    size_t count = 0;

    OK(tarn_graph_destroy(recorded->graph));
    memset(recorded, 0, sizeof *recorded);
    if (pick(3) == 0)
        return;
    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    for (size_t i = pick(4); i-- > 0;) {
        void *temporary = test_malloc(some_bytes() + 3);

        test_fill(world.stream, temporary, 0xdead, 1);
        recorded->written[recorded->written_count] = temporary;
        recorded->written_count += 1;
        if (count < 3 && now.count + count < BLOCKS) {
            bytes[count] = some_bytes();
            outputs[count] = test_malloc(bytes[count]);
            count += 1;
        }
        OK(tarn_free(temporary));
    }
    OK(tarn_capture_end(capture, &recorded->graph));
    for (size_t i = 0; i < count; i++)
        remember(outputs[i], bytes[i], true);
}

/* What a graph has written: of a block that graphs may share, which is made good again. */
static void note_write(const void *written)
{
    for (size_t i = 0; i < now.count; i++) {
        struct known *block = &now.blocks[i];

        if ((uintptr_t)written + 4 > (uintptr_t)block->address &&
            (uintptr_t)written < (uintptr_t)block->address + block->bytes) {
            TREE_ASSERT(block->shared);
            write_block(block);
        }
    }
}

static void replay(void)
{
    for (size_t i = 0; i < GRAPHS; i++) {
        const struct recorded *recorded = &graphs[i];

        if (recorded->graph == NULL || pick(2) == 0)
            continue;
        OK(tarn_graph_replay(recorded->graph, world.stream));
        test_synchronize(world.stream);
        for (size_t write = 0; write < recorded->written_count; write++)
            note_write(recorded->written[write]);
    }
    for (size_t i = 0; i < now.count; i++)
        expect_block(&now.blocks[i]);
}

static void take(void)
{
    static const tarn_contents kinds[] = {TARN_CONTENTS_NONE, TARN_CONTENTS_DEVICE,
                                          TARN_CONTENTS_HOST};
    struct node *node = &nodes[pick(NODES)];

    OK(tarn_checkpoint_destroy(node->checkpoint));
    node->checkpoint = NULL;
    node->contents = kinds[pick(3)];
    OK(tarn_checkpoint_take(world.pool, node->contents, world.stream, &node->checkpoint));
    node->live = now;
}

static const struct known *find(const struct picture_of_live *live, const void *address)
{
    for (size_t i = 0; i < live->count; i++) {
        if (live->blocks[i].address == address)
            return &live->blocks[i];
    }
    return NULL;
}

/* Live in both: the same block, not another one at its address. */
static bool is_in(const struct picture_of_live *live, const struct known *block)
{
    const struct known *found = find(live, block->address);

    return found != NULL && found->sequence == block->sequence;
}

static void expect_live(void)
{
    tarn_expected expected[BLOCKS];
    tarn_live_diff *diff = NULL;

    for (size_t i = 0; i < now.count; i++) {
        tarn_block block;

        expected[i] = (tarn_expected){now.blocks[i].address, now.blocks[i].bytes};
        OK(tarn_block_at(now.blocks[i].address, &block));
        TREE_ASSERT(block.sequence == now.blocks[i].sequence);
        TREE_ASSERT(block.bytes == now.blocks[i].bytes);
        TREE_ASSERT(block.pool == world.pool);
    }
    OK(tarn_pool_check_live(world.pool, expected, now.count, &diff));
    TREE_ASSERT(diff->count == 0);
    tarn_live_diff_destroy(diff);
    TREE_ASSERT(test_stats(world.pool).live_count == now.count);
}

static void expect_delta(const tarn_delta *delta, const struct node *node)
{
    size_t freed = 0;
    size_t revived = 0;

    for (size_t i = 0; i < now.count; i++)
        freed += !is_in(&node->live, &now.blocks[i]);
    for (size_t i = 0; i < node->live.count; i++)
        revived += !is_in(&now, &node->live.blocks[i]);
    TREE_ASSERT(delta->freed_count == freed);
    TREE_ASSERT(delta->revived_count == revived);
    for (size_t i = 0; i < freed; i++) {
        const struct known *known = find(&now, delta->freed[i].address);

        TREE_ASSERT(known != NULL && known->sequence == delta->freed[i].sequence);
        TREE_ASSERT(i == 0 || delta->freed[i].address > delta->freed[i - 1].address ||
                    delta->freed[i].block_bytes > 0);
    }
    for (size_t i = 0; i < revived; i++) {
        const struct known *known = find(&node->live, delta->revived[i].block.address);

        TREE_ASSERT(known != NULL && known->sequence == delta->revived[i].block.sequence);
        TREE_ASSERT(delta->revived[i].undefined == (node->contents == TARN_CONTENTS_NONE));
    }
}

static void restore(void)
{
    struct node *node = &nodes[pick(NODES)];
    struct picture_of_live before = now;
    tarn_delta *delta = NULL;

    if (node->checkpoint == NULL)
        return;
    OK(tarn_checkpoint_restore(node->checkpoint, pick(3) == 0 ? world.side : world.stream, &delta));
    expect_delta(delta, node);
    tarn_delta_destroy(delta);
    test_synchronize(world.side);
    test_synchronize(world.stream);
    now = node->live;
    OK(tarn_pool_validate(world.pool));
    expect_live();
    for (size_t i = 0; i < now.count; i++) {
        const struct known *kept = find(&before, now.blocks[i].address);

        if (!is_in(&before, &now.blocks[i]))
            now.blocks[i].shared = true;
        if (node->contents == TARN_CONTENTS_NONE &&
            (kept == NULL || kept->sequence != now.blocks[i].sequence)) {
            write_block(&now.blocks[i]); /* undefined bytes */
            continue;
        }
        if (node->contents == TARN_CONTENTS_NONE)
            now.blocks[i].value = kept->value; /* untouched: as it was before the restore */
        expect_block(&now.blocks[i]);
    }
    if (node->contents != TARN_CONTENTS_NONE)
        OK(tarn_checkpoint_verify(node->checkpoint, world.stream));
}

static void step(void)
{
    switch (pick(20)) {
    case 0:
    case 1:
        take();
        break;
    case 2:
    case 3:
        restore();
        break;
    case 4:
        OK(tarn_pool_trim(world.pool, NULL));
        break;
    case 5:
        record();
        break;
    case 6:
        replay();
        break;
    case 7:
    case 8:
    case 9:
    case 10:
        release();
        break;
    case 11:
    case 12:
        change();
        break;
    default:
        allocate();
        break;
    }
}

static void end_all(void)
{
    /* Checkpoints go in any order, before and after the blocks that they have. */
    for (size_t i = 0; i < NODES; i++) {
        struct node *node = &nodes[(i * 7 + (size_t)seed) % NODES];

        if (i == NODES / 2) {
            while (now.count > 0)
                release();
            OK(tarn_pool_trim(world.pool, NULL));
        }
        OK(tarn_checkpoint_destroy(node->checkpoint));
        node->checkpoint = NULL;
    }
    for (size_t i = 0; i < GRAPHS; i++)
        OK(tarn_graph_destroy(graphs[i].graph));
    memset(graphs, 0, sizeof graphs);
}

SUITE("trees of checkpoints")
GROUP(trees, test_world_open, test_world_close, .timeout = 200)

TEST_LOOP(trees, any_node_of_a_tree_is_restored_as_it_was, 0, 4)
{
    uint64_t steps = test_setting("TARN_TREE_STEPS", 400);

    seed = test_seed("TARN_TREE_SEED", (uint64_t)_i);
    state = seed * 0x9E3779B97F4A7C15U + 1;
    next_value = 1;
    printf("TARN_TREE_SEED=%llu\n", (unsigned long long)seed);
    (void)fflush(stdout);
    for (uint64_t i = 0; i < steps; i++) {
        step();
        if (i % 16 == 0)
            OK(tarn_pool_validate(world.pool));
    }
    end_all();
}

enum { CALLS = 60, SECTIONS = 3, COMPARISONS = 3, ROUNDS_MAX = 64 };

/* Calls that follow from the seed alone: allocations and frees on one stream, outside captures or in
 * three sections that are captured one after the other. Stores the addresses that they get. */
static void run_calls(uint64_t calls_seed, bool captured, void **addresses)
{
    void *live[CALLS];
    size_t live_count = 0;
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;

    state = calls_seed;
    for (size_t i = 0; i < CALLS; i++) {
        if (captured && i % (CALLS / SECTIONS) == 0) {
            OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
            live_count = 0; /* what is freed in another capture is pending for a while */
        }
        addresses[i] = test_alloc(world.pool, some_bytes(), world.stream);
        live[live_count] = addresses[i];
        live_count += 1;
        if (pick(3) == 0) {
            size_t gone = pick(live_count);

            OK(tarn_free(live[gone]));
            live_count -= 1;
            live[gone] = live[live_count];
        }
        if (captured && (i + 1) % (CALLS / SECTIONS) == 0) {
            OK(tarn_capture_end(capture, &graph));
            OK(tarn_graph_destroy(graph));
        }
    }
}

/* What the tests of addresses begin with: a pool with a history, and a checkpoint of it. */
static tarn_checkpoint *begin_addresses(int number, bool captured)
{
    tarn_checkpoint *checkpoint = NULL;
    void *before[CALLS];

    seed = test_seed("TARN_TREE_SEED", (uint64_t)number);
    printf("TARN_TREE_SEED=%llu\n", (unsigned long long)seed);
    (void)fflush(stdout);
    run_calls(seed * 0x9E3779B97F4A7C15U + 1, captured, before);
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, world.stream, &checkpoint));
    return checkpoint;
}

/* Restores to before all, which frees what is left. */
static void end_addresses(tarn_checkpoint *checkpoint, tarn_checkpoint *empty)
{
    OK(tarn_checkpoint_restore(empty, world.stream, NULL));
    OK(tarn_checkpoint_destroy(empty));
    OK(tarn_checkpoint_destroy(checkpoint));
    test_await_destructors(0);
}

/* The same calls from the same checkpoint, with other branches in between. Once the pool has all that they need the
 * addresses are the same; behind a branch that maps more they may differ, so there are rounds until enough of them were
 * compared. */
static void check_addresses(int number, bool captured)
{
    void *addresses[2][CALLS];
    void *others[CALLS];
    uint64_t mapped = 0;
    size_t compared = 0;
    tarn_checkpoint *empty = NULL;
    tarn_checkpoint *checkpoint;

    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, world.stream, &empty));
    checkpoint = begin_addresses(number, captured);
    for (size_t round = 0; compared < COMPARISONS; round++) {
        void **these = addresses[round % 2];
        void **those = addresses[1 - round % 2];
        uint64_t before = mapped;

        ck_assert_msg(round < ROUNDS_MAX, "%zu rounds compared (TARN_TREE_SEED=%llu)", compared,
                      (unsigned long long)seed);
        OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
        if (round >= 2) {
            run_calls(seed + round * 77, captured, others);
            OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
        }
        OK(tarn_pool_validate(world.pool));
        mapped = test_stats(world.pool).map_count + test_stats(world.pool).unmap_count;
        run_calls(seed + 1, captured, these);
        if (round == 0 || mapped != before)
            continue;
        compared += 1;
        for (size_t i = 0; i < CALLS; i++)
            ck_assert_msg(these[i] == those[i],
                          "call %zu of round %zu: %p, was %p (TARN_TREE_SEED=%llu)", i, round,
                          these[i], those[i], (unsigned long long)seed);
    }
    end_addresses(checkpoint, empty);
}

TEST_LOOP(trees, recorded_again_a_branch_gets_the_same_addresses, 0, 16)
{
    check_addresses(_i, true);
}

TEST_LOOP(trees, the_same_calls_after_the_same_restore_get_the_same_addresses, 0, 16)
{
    check_addresses(_i, false);
}
