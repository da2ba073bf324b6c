// SPDX-License-Identifier: Apache-2.0
/* Where blocks come to lie: the same calls find the same places. */
#include "pools/arenas.h"
#include "unit/one_pool.h"

static size_t inserted; /* into bins */

__typeof__(tn_bins_insert) __real_tn_bins_insert;
__typeof__(tn_bins_insert) __wrap_tn_bins_insert;
void __wrap_tn_bins_insert(struct tn_bins *bins, struct tn_block *block)
{
    inserted += 1;
    __real_tn_bins_insert(bins, block);
}

enum { STEPS = 400 };

struct place {
    uint64_t index;
    uint64_t offset;
};

/* A fixed mixture of allocations and frees on two streams and in captures. */
static size_t walk(tarn_pool *in, struct place *places)
{
    void *live[64] = {NULL};
    uint64_t random = 12345;
    size_t count = 0;

    for (int step = 0; step < STEPS; step++) {
        size_t slot;

        random = random * 6364136223846793005U + 1442695040888963407U; /* Knuth's MMIX */
        slot = (size_t)(random >> 33) % 64;
        if (live[slot] != NULL) {
            OK(tarn_free(live[slot]));
            live[slot] = NULL;
        } else if (step % 50 == 49) {
            tarn_capture *capture = unit_begin(in, stream);
            void *block = unit_alloc(in, (size_t)(random >> 40) % (8 * MIB) + 1, stream);

            places[count] = (struct place){unit_segment(block)->index, unit_offset(block)};
            count += 1;
            OK(tarn_free(block));
            OK(tarn_graph_destroy(unit_end(capture)));
        } else {
            size_t bytes = (size_t)(random >> 40) % (step % 3 == 0 ? 6 * MIB : 64 * 1024) + 1;

            live[slot] = unit_alloc(in, bytes, step % 2 == 0 ? stream : other);
            places[count] =
                (struct place){unit_segment(live[slot])->index, unit_offset(live[slot])};
            count += 1;
        }
    }
    OK(tarn_pool_validate(in));
    return count;
}

GROUP(places, make_pool)

TEST(places, the_same_calls_give_the_same_places)
{
    static struct place first[STEPS];
    static struct place second[STEPS];
    size_t count = walk(pool, first);

    ck_assert_uint_gt(count, STEPS / 3);
    ck_assert_uint_eq(walk(unit_pool(device), second), count);
    for (size_t i = 0; i < count; i++) {
        ck_assert_uint_eq(first[i].index, second[i].index);
        ck_assert_uint_eq(first[i].offset, second[i].offset);
    }
}

/* Few blocks are free, whose bins are sorted, or many, which are all entered anew. */
static void expect_ordered_free(size_t count, bool anew)
{
    enum { STEP = 7 }; /* shares no factor with the counts, so that every block is met once */
    void *kept[400];
    void *freed[400];
    void *previous = NULL;

    ck_assert_uint_le(count, 400);
    for (size_t i = 0; i < count; i++) {
        freed[i] = unit_alloc(pool, 1024, stream);
        kept[i] = unit_alloc(pool, 1024, stream);
    }
    for (size_t i = 0; i < count; i++)
        OK(tarn_free(freed[i * STEP % count]));
    tn_pool_lock(pool);
    inserted = 0;
    tn_pool_sort_free(pool);
    if (anew)
        ck_assert_uint_ge(inserted, count);
    else
        ck_assert_uint_eq(inserted, 0);
    tn_pool_unlock(pool);
    OK(tarn_pool_validate(pool));
    for (size_t i = 0; i < count; i++) {
        void *next = unit_alloc(pool, 1024, stream);

        ck_assert(previous == NULL || (uintptr_t)next > (uintptr_t)previous);
        ck_assert_uint_lt((uintptr_t)next, (uintptr_t)kept[count - 1]);
        previous = next;
    }
}

TEST(places, free_memory_that_was_ordered_is_found_from_below)
{
    expect_ordered_free(20, false);
    expect_ordered_free(400, true);
}
