// SPDX-License-Identifier: Apache-2.0
#include "planted/overruns.h"

enum { WORD = sizeof(uint32_t) };

static const size_t sizes[] = {100, 512, 1000, 4096, 65540, MIB, 3 * MIB + 4, 40 * MIB};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static tarn_checkpoint *checkpoint; /* of the kinds with a restore */

static char *alloc(size_t bytes)
{
    return test_alloc(world.pool, bytes, world.stream);
}

static void make_block(struct overrun *o)
{
    o->block = alloc(o->bytes);
    o->left = o->block;
}

static void free_block(struct overrun *o)
{
    OK(tarn_free(o->block));
    o->left = NULL;
}

static void write_behind(struct overrun *o)
{
    make_block(o);
    o->address = o->block + o->bytes;
}

static void read_behind(struct overrun *o)
{
    write_behind(o);
    o->reads = true;
}

static void write_further_behind(struct overrun *o)
{
    make_block(o);
    o->address = o->block + o->bytes + 508; /* all of it lies between this block and the next */
}

static void write_before(struct overrun *o)
{
    make_block(o);
    o->address = o->block - WORD;
}

/* The block's last word is shorter: the program has asked for three bytes less. */
static void write_over_the_end(struct overrun *o)
{
    o->bytes -= 3;
    make_block(o);
    o->address = o->block + o->bytes / WORD * WORD;
}

static void write_after_free(struct overrun *o)
{
    make_block(o);
    test_fill(world.stream, o->block, 1, 1);
    free_block(o);
    o->address = o->block;
}

static void read_after_free(struct overrun *o)
{
    write_after_free(o);
    o->address = o->block + o->bytes / WORD * WORD - WORD;
    o->reads = true;
}

static void write_after_free_on_another_stream(struct overrun *o)
{
    make_block(o);
    test_synchronize(world.stream);
    test_fill(world.side, o->block, 1, 1);
    OK(tarn_free_on(o->block, world.side));
    o->left = NULL;
    o->address = o->block + o->bytes / 2 / WORD * WORD;
}

/* The memory is another block's by now, which has two words less. */
static void write_to_the_former_block(struct overrun *o)
{
    char *other;

    write_after_free(o);
    other = alloc(o->bytes - 8);
    ck_assert_ptr_eq(other, o->block);
    o->address = o->block + o->bytes / WORD * WORD - WORD;
    o->block = other;
    o->left = other;
    o->bytes -= 8;
}

/* A graph writes behind its own temporary block. */
static void replay_behind(struct overrun *o)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);

    make_block(o);
    o->address = o->block + o->bytes;
    test_fill(world.stream, o->address, 1, 1);
    free_block(o);
    o->graph = test_capture_end(capture);
}

/* A graph's input is freed behind the capture. */
static void replay_with_a_freed_input(struct overrun *o)
{
    tarn_capture *capture;

    make_block(o);
    o->address = o->block;
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    test_fill(world.stream, o->address, 1, 1);
    o->graph = test_capture_end(capture);
    free_block(o);
}

/* The restore has freed the block. */
static void write_after_a_restore(struct overrun *o)
{
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, NULL, &checkpoint));
    make_block(o);
    test_fill(world.stream, o->block, 1, 1);
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    o->left = NULL;
    o->address = o->block;
}

/* The restore has brought the block back, with its size. */
static void write_behind_a_revived_block(struct overrun *o)
{
    make_block(o);
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, NULL, &checkpoint));
    free_block(o);
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    o->left = o->block;
    o->address = o->block + o->bytes;
}

/* The block's pool has gone. */
static void write_after_the_pool(struct overrun *o)
{
    tarn_pool *pool = test_pool("short");

    o->block = test_alloc(pool, o->bytes, world.stream);
    free_block(o);
    OK(tarn_pool_destroy(pool));
    o->address = o->block;
}

static const struct {
    const char *name;
    void (*prepare)(struct overrun *overrun);
} kinds[] = {
    {"write behind", write_behind},
    {"read behind", read_behind},
    {"write further behind", write_further_behind},
    {"write before", write_before},
    {"write over the end", write_over_the_end},
    {"write after free", write_after_free},
    {"read after free", read_after_free},
    {"write after free on another stream", write_after_free_on_another_stream},
    {"write to the former block", write_to_the_former_block},
    {"replay behind", replay_behind},
    {"replay with a freed input", replay_with_a_freed_input},
    {"write after a restore", write_after_a_restore},
    {"write behind a revived block", write_behind_a_revived_block},
    {"write after the pool", write_after_the_pool},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

int overrun_count(void)
{
    return KINDS * SIZES;
}

void overrun_prepare(int number, struct overrun *overrun)
{
    *overrun = (struct overrun){.kind = kinds[number / SIZES].name, .bytes = sizes[number % SIZES]};
    kinds[number / SIZES].prepare(overrun);
    test_synchronize(world.stream);
}

void overrun_enqueue(const struct overrun *overrun)
{
    if (overrun->graph != NULL)
        OK(tarn_graph_replay(overrun->graph, world.stream));
    else if (overrun->reads)
        test_add(world.stream, overrun->address, 1, 1);
    else
        test_fill(world.stream, overrun->address, 1, 1);
}

void overrun_end(struct overrun *overrun)
{
    test_synchronize(world.stream);
    if (overrun->left != NULL)
        OK(tarn_free(overrun->left));
    if (overrun->graph != NULL)
        OK(tarn_graph_destroy(overrun->graph));
    if (checkpoint != NULL)
        OK(tarn_checkpoint_destroy(checkpoint));
    checkpoint = NULL;
}

/* Correct programs ------------------------------------------------------------------------------ */

static void fill(char *block, size_t bytes)
{
    test_fill(world.stream, block, 7, bytes / WORD);
}

static void use_blocks_whole(void)
{
    for (int i = 0; i < SIZES; i++) {
        char *block = alloc(sizes[i]);

        fill(block, sizes[i]);
        test_synchronize(world.stream);
        OK(tarn_record_stream(block, world.side));
        test_add(world.side, block, 1, 1);
        OK(tarn_free(block));
    }
}

/* Two temporaries share memory, and the second is larger. */
static void replay_temporaries(void)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    tarn_graph *graph;
    char *block;

    for (int i = 0; i < SIZES; i++) {
        block = alloc(sizes[i]);
        fill(block, sizes[i]);
        OK(tarn_free(block));
    }
    graph = test_capture_end(capture);
    for (int i = 0; i < 3; i++)
        OK(tarn_graph_replay(graph, world.stream));
    test_synchronize(world.stream);
    OK(tarn_graph_destroy(graph));
}

static void restore_contents(tarn_contents contents)
{
    tarn_checkpoint *taken;
    char *blocks[SIZES];

    for (int i = 0; i < SIZES; i++) {
        blocks[i] = alloc(sizes[i]);
        fill(blocks[i], sizes[i]);
    }
    OK(tarn_checkpoint_take(world.pool, contents, world.stream, &taken));
    for (int i = 0; i < SIZES; i += 2)
        OK(tarn_free(blocks[i]));
    OK(tarn_checkpoint_restore(taken, world.stream, NULL));
    for (int i = 0; i < SIZES; i++)
        test_expect_words(world.stream, blocks[i], 7, sizes[i] / WORD);
    for (int i = 0; i < SIZES; i++)
        OK(tarn_free(blocks[i]));
    OK(tarn_checkpoint_destroy(taken));
}

void overrun_do_nothing_wrong(void)
{
    void *zeros;

    use_blocks_whole();
    replay_temporaries();
    restore_contents(TARN_CONTENTS_DEVICE);
    restore_contents(TARN_CONTENTS_HOST);
    use_blocks_whole();
    OK(tarn_calloc(world.device, 1000, 3, world.stream, &zeros));
    test_expect_words(world.stream, zeros, 0, 750);
    OK(tarn_free(zeros));
    OK(tarn_pool_trim(world.pool, NULL));
}
