// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/host.h"
#include "heap/chunk_set.h"
#include "unit/unit.h"

static struct tn_chunk chunk_of(uint32_t id)
{
    return (struct tn_chunk){.id = id};
}

GROUP(chunk_set, NULL)

TEST(chunk_set, a_set_has_what_was_entered)
{
    struct tn_chunk_set set = {.words = NULL};
    static const uint32_t ids[] = {0, 1, 63, 64, 200};

    ck_assert(tn_chunk_set_reserve(&set, 201));
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        struct tn_chunk chunk = chunk_of(ids[i]);

        ck_assert(!tn_chunk_set_has_id(&set, ids[i]));
        ck_assert(tn_chunk_set_add(&set, &chunk));
        ck_assert(!tn_chunk_set_add(&set, &chunk));
        ck_assert(tn_chunk_set_has_id(&set, ids[i]));
    }
    ck_assert(!tn_chunk_set_has_id(&set, 2));
    ck_assert_uint_eq(tn_chunk_set_word(&set, 0), (uint64_t)1 << 63 | 3);
    ck_assert_uint_eq(tn_chunk_set_word(&set, 1), 1);
    tn_chunk_set_free(&set);
}

TEST(chunk_set, a_set_has_nothing_that_it_has_no_room_for)
{
    struct tn_chunk_set set = {.words = NULL};

    ck_assert(!tn_chunk_set_has_id(&set, 0));
    ck_assert(tn_chunk_set_reserve(&set, 1));
    ck_assert(!tn_chunk_set_has_id(&set, set.word_count * TN_CHUNK_SET_BITS));
    ck_assert_uint_eq(tn_chunk_set_word(&set, set.word_count), 0);
    tn_chunk_set_free(&set);
    ck_assert_uint_eq(set.word_count, 0);
}

TEST(chunk_set, what_was_entered_stays_when_there_is_more_room)
{
    struct tn_chunk_set set = {.words = NULL};
    struct tn_chunk chunk = chunk_of(5);

    ck_assert(tn_chunk_set_reserve(&set, 6));
    ck_assert(tn_chunk_set_add(&set, &chunk));
    (void)tn_host_plan_fault(1, false);
    ck_assert(!tn_chunk_set_reserve(&set, 100000));
    (void)tn_host_plan_fault(0, false);
    ck_assert(tn_chunk_set_has_id(&set, 5));
    ck_assert(tn_chunk_set_reserve(&set, 100000));
    ck_assert(tn_chunk_set_has_id(&set, 5));
    ck_assert(!tn_chunk_set_has_id(&set, 99999));
    tn_chunk_set_free(&set);
}

/* _i: the binary logarithm of the set's room, which is not quite a power of two. */
TEST_LOOP(chunk_set, a_walk_finds_each_word_that_has_a_chunk, 0, 18)
{
    const size_t room = (size_t)1 << _i;
    struct tn_chunk_set set = {.words = NULL};
    uint64_t random = (uint64_t)_i;

    ck_assert_uint_eq(tn_chunk_set_next(&set, 0), 0);
    ck_assert_uint_eq(tn_chunk_set_next(&set, 7), 0);
    for (size_t room_now = tn_min(room, 64); room_now <= room; room_now *= 2) {
        size_t next = 0;

        ck_assert(tn_chunk_set_reserve(&set, room_now + room_now / 50));
        for (int i = 0; i < 3; i++) {
            struct tn_chunk chunk = chunk_of((uint32_t)((random >> 33) % room_now));

            random = random * 6364136223846793005 + 1442695040888963407;
            (void)tn_chunk_set_add(&set, &chunk);
        }
        for (size_t word = 0; word < set.word_count; word++) {
            if (set.words[word] == 0)
                continue;
            next = tn_chunk_set_next(&set, next);
            ck_assert_uint_eq(next, word);
            next += 1;
        }
        ck_assert_uint_eq(tn_chunk_set_next(&set, next), set.word_count);
    }
    tn_chunk_set_free(&set);
}

/* The map, from the words. */
static uint64_t map_of(const struct tn_chunk_set *set)
{
    uint64_t map = 0;

    for (size_t word = 0; word < set->word_count; word++)
        map |= (uint64_t)(set->words[word] != 0) << (word >> set->map_shift);
    return map;
}

/* _i: the binary logarithm of the room in words, which is not always a power of two. Sometimes only half
 * of the room is refilled, so that portions of the map run empty. */
TEST_LOOP(chunk_set, the_lowest_chunk_is_taken_first, 0, 10)
{
    const size_t words = ((size_t)1 << _i) + ((size_t)1 << _i) / 3;
    const size_t room = TN_CHUNK_SET_BITS * words;
    struct tn_chunk_set set = {.words = NULL};
    bool *has = calloc(room, sizeof *has);
    uint64_t random = (uint64_t)_i;

    ck_assert_ptr_nonnull(has);
    ck_assert(tn_chunk_set_reserve(&set, room));
    for (int round = 0; round < 40; round++) {
        size_t lowest = 0;
        size_t count = 0;

        for (int i = 0; i < 20; i++) {
            struct tn_chunk chunk = chunk_of((uint32_t)((random >> 33) % (room >> round % 2)));

            random = random * 6364136223846793005 + 1442695040888963407;
            ck_assert(tn_chunk_set_add(&set, &chunk) != has[chunk.id]);
            has[chunk.id] = true;
        }
        for (size_t id = 0; id < room; id++)
            count += has[id];
        for (size_t taken = 0; taken < count - (size_t)(round % 5); taken++) {
            while (!has[lowest])
                lowest += 1;
            ck_assert_uint_eq(tn_chunk_set_take_first(&set), lowest);
            ck_assert_uint_eq(set.map, map_of(&set));
            has[lowest] = false;
        }
    }
    free(has);
    tn_chunk_set_free(&set);
}

/* Chunks of 4 and of 2 MiB, whatever their ids are. */
TEST(chunk_set, all_chunks_under_bytes_are_asked_for)
{
    tarn_pool *pool = unit_pool(unit_device());
    char *over = unit_alloc(pool, 5 * MIB, test_stream());
    const struct tn_block *block = unit_block(over);
    const struct tn_chunk *low = unit_chunk(over);
    const struct tn_chunk *high = unit_chunk(over + 4 * MIB);
    struct tn_chunk_set set = {.words = NULL};

    ck_assert(tn_chunk_set_reserve(&set, 100));
    ck_assert(tn_chunk_set_add(&set, low));
    ck_assert(tn_chunk_set_has_all(&set, block->segment, block->offset, 4 * MIB));
    ck_assert(!tn_chunk_set_has_all(&set, block->segment, block->offset, 4 * MIB + 512));
    ck_assert(!tn_chunk_set_has_all(&set, block->segment, block->offset + 4 * MIB, 512));
    ck_assert(tn_chunk_set_add(&set, high));
    ck_assert(tn_chunk_set_has_all(&set, block->segment, block->offset, 5 * MIB));
    tn_chunk_set_free(&set);
}
