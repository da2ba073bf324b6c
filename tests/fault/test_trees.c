// SPDX-License-Identifier: Apache-2.0
/* A tree of checkpoints, one of each kind of contents: taken, verified, left for another branch, and
 * restored after memory has gone. */
#include "fault/fault.h"

enum { WORDS = 256, KIB = 1024 };

static void *root;   /* in all checkpoints */
static void *branch; /* in the second and the third */

static void open_pool(void)
{
    fault_open();
    if (fault_is_over())
        return;
    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 200 * KIB, 0, MAIN, &fault.out.address));
    root = fault_taken(POOL, 200 * KIB);
    test_fill(MAIN, root, 1, WORDS);
    STEP(NOTE, tarn_record_stream(root, SIDE)); /* the checkpoints know that */
}

#define CONTENTS (TAKE | S(NOT_SUPPORTED))

static void grow_tree(void)
{
    STEP(TAKE, tarn_checkpoint_take(POOL, TARN_CONTENTS_NONE, MAIN, &fault.out.checkpoints[0]));
    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 20 * KIB, 0, MAIN, &fault.out.address));
    branch = fault_taken(POOL, 20 * KIB);
    test_fill(MAIN, branch, 2, WORDS);
    STEP(CONTENTS,
         tarn_checkpoint_take(POOL, TARN_CONTENTS_DEVICE, MAIN, &fault.out.checkpoints[1]));
    test_fill(MAIN, branch, 3, WORDS);
    STEP(CONTENTS, tarn_checkpoint_take(POOL, TARN_CONTENTS_HOST, MAIN, &fault.out.checkpoints[2]));
    test_fill(MAIN, branch, 4, WORDS);
    STEP(CONTENTS, tarn_checkpoint_verify(fault.out.checkpoints[1], MAIN));
    STEP(CONTENTS, tarn_checkpoint_verify(fault.out.checkpoints[2], SIDE));
    test_synchronize(MAIN);
}

#define RESTORE_CONTENTS (RESTORE | S(NOT_SUPPORTED) | S(ADDRESS_SPACE))

/* Back to the root, whose branch goes; another branch, and its memory goes, too. */
static void go_back(void)
{
    void *other;

    STEP(RESTORE_CONTENTS,
         tarn_checkpoint_restore(fault.out.checkpoints[0], MAIN, &fault.out.delta));
    ck_assert_uint_eq(fault.out.delta->freed_count, 1);
    tarn_delta_destroy(fault.out.delta);
    fault_dead(branch);
    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 8 * MIB, 0, SIDE, &fault.out.address));
    other = fault_taken(POOL, 8 * MIB);
    STEP(NOTE, tarn_free_on(other, MAIN));
    fault_dead(other);
    FREE(root);
    test_synchronize(MAIN);
    STEP(TRIM, tarn_pool_trim(POOL, &fault.out.freed_bytes));
}

static void restore_branches(void)
{
    for (size_t i = 1; i < 3; i++) {
        STEP(RESTORE_CONTENTS,
             tarn_checkpoint_restore(fault.out.checkpoints[i], THIRD, &fault.out.delta));
        ck_assert_uint_eq(fault.out.delta->revived_count, 2);
        tarn_delta_destroy(fault.out.delta);
        fault_live(POOL, root, 200 * KIB);
        fault_live(POOL, branch, 20 * KIB);
        test_expect_words(THIRD, root, 1, WORDS);
        test_expect_words(THIRD, branch, (uint32_t)i + 1, WORDS);
        STEP(0, tarn_free(root));
        fault_dead(root);
        STEP(0, tarn_free(branch));
        fault_dead(branch);
    }
}

static void destroy(void)
{
    for (size_t i = 0; i < 3; i++) {
        STEP(0, tarn_checkpoint_destroy(fault.out.checkpoints[i]));
        fault.out.checkpoints[i] = UNTOUCHED;
    }
    fault_close(CALLED);
}

static void end_own(void)
{
}

int main(void)
{
    static const struct fault_scenario trees = {
        .name = "trees of checkpoints",
        .parts = {open_pool, grow_tree, go_back, restore_branches, destroy},
        .ends = end_own,
    };

    return fault_main(&trees);
}
