// SPDX-License-Identifier: Apache-2.0
/* Tags: the caller's numbers for blocks, in all that names a block. */
#include <pthread.h>

#include "support/world.h"

enum { BYTES = 4096, MANY = 1000 };

static uint64_t tag_of(const void *address)
{
    tarn_block block = {.tag = 77};

    OK(tarn_block_at(address, &block));
    return block.tag;
}

static void *tagged(tarn_pool *pool, size_t bytes, tn_cu_stream stream, uint64_t tag)
{
    void *address = test_alloc(pool, bytes, stream);

    OK(tarn_block_set_tag(address, tag));
    return address;
}

GROUP(tags, test_world_open, test_world_close)

TEST(tags, a_block_has_the_tag_that_was_set_last)
{
    char *address = test_alloc(world.pool, BYTES, world.stream);
    char *other = test_alloc(world.pool, BYTES, world.stream);

    ck_assert_uint_eq(tag_of(address), 0);
    OK(tarn_block_set_tag(address, 0)); /* none, as before */
    ck_assert_uint_eq(tag_of(address), 0);
    OK(tarn_block_set_tag(address, UINT64_MAX));
    ck_assert_uint_eq(tag_of(address), UINT64_MAX);
    ck_assert_uint_eq(tag_of(address + BYTES - 1), UINT64_MAX); /* the block's, wherever asked */
    ck_assert_uint_eq(tag_of(other), 0);
    OK(tarn_block_set_tag(address, 5));
    ck_assert_uint_eq(tag_of(address), 5);
    OK(tarn_block_set_tag(address, 0));
    ck_assert_uint_eq(tag_of(address), 0);
    OK(tarn_free(address));
    OK(tarn_free(other));
}

static const size_t sizes[] = {1, BYTES, 4 * MIB, 256 * MIB};

/* Most such blocks get the very record of the one before. */
TEST_LOOP(tags, the_next_block_in_its_place_has_no_tag, 0,
          2 * (int)(sizeof sizes / sizeof sizes[0]))
{
    tarn_pool *pool = _i % 2 == 0 ? world.pool : world.default_pool;
    size_t bytes = sizes[_i / 2];
    void *first = tagged(pool, bytes, world.stream, 9);

    for (int i = 0; i < 10; i++) {
        void *address;

        OK(tarn_free(first));
        address = test_alloc(pool, bytes, world.stream);
        ck_assert_ptr_eq(address, first);
        ck_assert_uint_eq(tag_of(address), 0);
        OK(tarn_block_set_tag(address, (uint64_t)i + 1));
        ck_assert_uint_eq(tag_of(address), (uint64_t)i + 1);
    }
    OK(tarn_free(first));
}

TEST(tags, tags_stay_with_their_blocks_among_many_that_come_and_go)
{
    void *blocks[MANY];

    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < MANY; i++) {
            if (round == 0 || i % 3 == (size_t)round - 1)
                blocks[i] = test_alloc(world.pool, 512 * (1 + i % 7), world.stream);
            if (i % 5 == 0)
                OK(tarn_block_set_tag(blocks[i], 1000 + i));
        }
        for (size_t i = 0; i < MANY; i++)
            ck_assert_uint_eq(tag_of(blocks[i]), i % 5 == 0 ? 1000 + i : 0);
        for (size_t i = 0; i < MANY && round < 3; i++) {
            if (i % 3 == (size_t)round)
                OK(tarn_free(blocks[i]));
        }
    }
    OK(tarn_pool_validate(world.pool));
    for (size_t i = 0; i < MANY; i++)
        OK(tarn_free(blocks[i]));
}

TEST(tags, what_is_no_live_blocks_address_gets_no_tag)
{
    char *address = tagged(world.pool, BYTES, world.stream, 5);
    char *freed = tagged(world.pool, BYTES, world.stream, 6);
    char *discarded;
    int local;
    tarn_capture *capture;

    OK(tarn_free(freed));
    OK(tarn_block_set_tag(NULL, 7));
    REFUSE(TARN_ERR_NOT_OURS, "not handed out", tarn_block_set_tag(&local, 7));
    REFUSE(TARN_ERR_INNER_ADDRESS, "inside", tarn_block_set_tag(address + 1, 7));
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_block_set_tag(freed, 7));
    ck_assert_uint_eq(tag_of(address), 5);
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    discarded = tagged(world.pool, BYTES, world.stream, 8);
    OK(tarn_capture_abort(capture));
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_block_set_tag(discarded, 9));
    OK(tarn_free(discarded));
    OK(tarn_free(address));
    test_await_destructors(0);
}

/* The tag that a list of a delta's has for a sequence number. */
static uint64_t revived_tag(const tarn_delta *delta, uint64_t sequence)
{
    for (size_t i = 0; i < delta->revived_count; i++) {
        if (delta->revived[i].block.sequence == sequence)
            return delta->revived[i].block.tag;
    }
    ck_abort_msg("block %llu is not revived", (unsigned long long)sequence);
}

static uint64_t sequence_of(const void *address)
{
    tarn_block block;

    OK(tarn_block_at(address, &block));
    return block.sequence;
}

/* What becomes of the memory of the blocks that are freed behind the take. */
enum between { NOTHING, OTHERS, TRIM, BETWEEN };

static void use_between(enum between how, void *later[2])
{
    later[0] = later[1] = NULL;
    if (how == TRIM)
        OK(tarn_pool_trim(world.pool, NULL));
    if (how != OTHERS)
        return;
    later[0] = tagged(world.pool, 3 * BYTES, world.stream, 70);
    later[1] = tagged(world.pool, 512, world.stream, 71);
}

TEST_LOOP(tags, a_revived_block_has_the_tag_of_the_take, 0, BETWEEN)
{
    void *kept = tagged(world.pool, BYTES, world.stream, 1);
    void *blocks[3] = {tagged(world.pool, BYTES, world.stream, 2),
                       test_alloc(world.pool, BYTES, world.stream),
                       tagged(world.pool, BYTES, world.stream, 4)};
    uint64_t sequences[3];
    void *later[2];
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_DEVICE);
    tarn_delta *delta;

    for (int i = 0; i < 3; i++)
        sequences[i] = sequence_of(blocks[i]);
    for (int round = 0; round < 2; round++) {
        OK(tarn_block_set_tag(kept, 10));
        OK(tarn_block_set_tag(blocks[0], 20)); /* the record may keep it */
        OK(tarn_block_set_tag(blocks[1], 30));
        for (int i = 0; i < 3; i++)
            OK(tarn_free(blocks[i]));
        use_between((enum between)_i, later);
        delta = test_restore(checkpoint, later[0] != NULL ? 2 : 0, 3);
        ck_assert_uint_eq(revived_tag(delta, sequences[0]), 2);
        ck_assert_uint_eq(revived_tag(delta, sequences[1]), 0);
        ck_assert_uint_eq(revived_tag(delta, sequences[2]), 4);
        for (size_t i = 0; i < delta->freed_count; i++)
            ck_assert_uint_eq(delta->freed[i].tag, delta->freed[i].address == later[0] ? 70 : 71);
        tarn_delta_destroy(delta);
        ck_assert_uint_eq(tag_of(blocks[0]), 2);
        ck_assert_uint_eq(tag_of(blocks[1]), 0);
        ck_assert_uint_eq(tag_of(blocks[2]), 4);
        ck_assert_uint_eq(tag_of(kept), 10); /* untouched */
    }
    OK(tarn_checkpoint_destroy(checkpoint));
    for (int i = 0; i < 3; i++)
        OK(tarn_free(blocks[i]));
    OK(tarn_free(kept));
}

/* Nothing was tagged at the take, or in another pool alone. */
TEST(tags, a_checkpoint_without_tags_brings_none_back)
{
    void *below = test_alloc(world.pool, BYTES, world.stream);
    void *address = test_alloc(world.pool, BYTES, world.stream);
    void *above =
        test_alloc(world.pool, BYTES, world.stream); /* so the block comes back in its record */
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_NONE);

    for (int round = 0; round < 2; round++) {
        OK(tarn_block_set_tag(address, 3));
        OK(tarn_free(address));
        tarn_delta_destroy(test_restore(checkpoint, 0, 1));
        ck_assert_uint_eq(tag_of(address), 0);
    }
    OK(tarn_checkpoint_destroy(checkpoint));
    checkpoint = test_take(TARN_CONTENTS_NONE); /* of a pool whose tags are gone */
    OK(tarn_free(address));
    tarn_delta_destroy(test_restore(checkpoint, 0, 1));
    ck_assert_uint_eq(tag_of(address), 0);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(below));
    OK(tarn_free(address));
    OK(tarn_free(above));
}

TEST(tags, many_blocks_come_back_with_their_own_tags)
{
    void *blocks[MANY];
    tarn_checkpoint *checkpoint;

    for (size_t i = 0; i < MANY; i++) {
        blocks[i] =
            test_alloc(world.pool, 512 * (1 + i % 3), i % 2 == 0 ? world.stream : world.side);
        if (i % 4 != 0)
            OK(tarn_block_set_tag(blocks[i], i));
    }
    checkpoint = test_take(TARN_CONTENTS_NONE);
    for (size_t i = 0; i < MANY; i++)
        OK(tarn_free(blocks[i]));
    tarn_delta_destroy(test_restore(checkpoint, 0, MANY));
    for (size_t i = 0; i < MANY; i++)
        ck_assert_uint_eq(tag_of(blocks[i]), i % 4 != 0 ? i : 0);
    OK(tarn_pool_validate(world.pool));
    OK(tarn_checkpoint_destroy(checkpoint));
    for (size_t i = 0; i < MANY; i++)
        OK(tarn_free(blocks[i]));
}

TEST(tags, a_live_diff_shows_tags)
{
    void *unexpected = tagged(world.pool, BYTES, world.stream, 21);
    void *sized = tagged(world.pool, BYTES, world.stream, 22);
    void *elsewhere = tagged(world.default_pool, BYTES, world.stream, 23);
    const tarn_expected expected[] = {{sized, 1}, {elsewhere, 0}, {&expected, 8}};
    tarn_live_diff *diff = NULL;

    OK(tarn_pool_check_live(world.pool, expected, 3, &diff));
    ck_assert_uint_eq(diff->count, 4);
    for (size_t i = 0; i < diff->count; i++) {
        const tarn_difference *difference = &diff->differences[i];
        static const uint64_t tags[] = {[TARN_DIFFERENCE_UNEXPECTED] = 21,
                                        [TARN_DIFFERENCE_MISSING] = 0,
                                        [TARN_DIFFERENCE_SIZE] = 22,
                                        [TARN_DIFFERENCE_POOL] = 23};

        ck_assert_uint_eq(difference->block.tag, tags[difference->kind]);
    }
    tarn_live_diff_destroy(diff);
    OK(tarn_free(unexpected));
    OK(tarn_free(sized));
    OK(tarn_free(elsewhere));
}

TEST(tags, an_audit_shows_tags)
{
    tarn_audit_options options = TARN_AUDIT_OPTIONS_INIT;
    tarn_capture *capture;
    tarn_graph *graph;
    tarn_audit *audit = NULL;
    void *input = tagged(world.default_pool, BYTES, world.stream, 41);
    size_t shown = 0;
    char text[4096];

    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    test_set_words(world.stream, input, 1, 16);
    graph = test_capture_end(capture);
    options.list_all = true;
    OK(tarn_graph_audit(graph, &options, &audit));
    for (size_t i = 0; i < audit->pointer_count; i++)
        shown += audit->pointers[i].block.address == input && audit->pointers[i].block.tag == 41;
    ck_assert_uint_eq(shown, 1);
    OK(tarn_audit_report(audit, TARN_REPORT_JSON, text, sizeof text, NULL));
    ck_assert_ptr_nonnull(strstr(text, "\"tag\": 41"));
    tarn_audit_destroy(audit);
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(input));
}

static void tag_and_look(void *argument)
{
    tn_cu_stream stream = argument;

    test_set_context(test_retain(0));
    for (uint64_t i = 1; i <= 500; i++) {
        void *address = tagged(world.pool, 512 * (1 + i % 5), stream, i);

        ck_assert_uint_eq(tag_of(address), i);
        OK(tarn_free(address));
    }
    test_release(0);
}

static void *tag_elsewhere(void *argument)
{
    tag_and_look(argument);
    return NULL;
}

TEST(tags, threads_tag_their_blocks_beside_each_other)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, tag_elsewhere, world.side), 0);
    tag_and_look(world.stream);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    OK(tarn_pool_validate(world.pool));
}
