// SPDX-License-Identifier: Apache-2.0
#include "inspect/correspond.h"
#include "unit/ordered.h"
#include "unit/unit.h"

enum { BYTES = 8000, MOST = 600 };

static tarn_device *device;
static tarn_pool *pool;
static tn_cu_stream stream;
static tarn_graph_difference differences[MOST];
static size_t count;
static uint64_t same[MOST];
static size_t same_count;
static char *blocks[6]; /* of one size, but for the last */
static int64_t outstanding;

static void open_device(void)
{
    device = unit_device();
    pool = unit_pool(device);
    stream = test_stream();
    for (int i = 0; i < 6; i++)
        blocks[i] = unit_alloc(pool, i < 5 ? BYTES : BYTES - 1, stream);
}

static uint64_t word_of(const void *address)
{
    return (uint64_t)(uintptr_t)address;
}

static void differ(const void *a, const void *b)
{
    ck_assert_uint_lt(count, MOST);
    differences[count] = (tarn_graph_difference){.kind = TARN_GRAPH_DIFFERENCE_PARAMETER,
                                                 .corresponds = true,
                                                 .values = {word_of(a), word_of(b)}};
    count += 1;
}

static void share(const void *address)
{
    same[same_count] = word_of(address);
    same_count += 1;
}

static void correspond(void)
{
    outstanding = tn_host_outstanding();
    OK(tn_correspond(&device->regions, differences, count, same, same_count));
    ck_assert_int_eq(tn_host_outstanding(), outstanding);
    ck_assert(tn_lock_none_held());
}

static void expect(size_t at, bool corresponds)
{
    ck_assert_msg(differences[at].corresponds == corresponds, "difference %zu", at);
}

GROUP(correspond, open_device)

TEST(correspond, without_addresses_nothing_is_asked)
{
    uint64_t allocations;

    differ(blocks[0], blocks[1]);
    differences[0].corresponds = false;
    share(blocks[2]);
    allocations = tn_host_alloc_count();
    correspond();
    ck_assert_uint_eq(tn_host_alloc_count(), allocations);
    expect(0, false);
    ck_assert_ptr_null(differences[0].blocks[0].address);
}

TEST(correspond, a_block_takes_the_others_place_throughout)
{
    differ(blocks[0], blocks[1]);
    differ(blocks[0] + 40, blocks[1] + 40);
    differ(blocks[1], blocks[0]); /* another pair: what is a's and what is b's are apart */
    differ(blocks[2] + 1, blocks[3] + 1);
    correspond();
    for (size_t i = 0; i < count; i++)
        expect(i, true);
    ck_assert_ptr_eq(differences[1].blocks[0].address, blocks[0]);
    ck_assert_ptr_eq(differences[1].blocks[1].address, blocks[1]);
    ck_assert_uint_eq(differences[1].blocks[1].bytes, BYTES);
}

TEST(correspond, a_block_has_one_counterpart_and_is_that_of_one)
{
    differ(blocks[0], blocks[1]);
    differ(blocks[0], blocks[2]);
    differ(blocks[3], blocks[1]);
    differ(blocks[3], blocks[2]); /* nothing that was refused made a rule */
    correspond();
    expect(0, true);
    expect(1, false);
    expect(2, false);
    expect(3, true);
}

TEST(correspond, offset_and_requested_size_are_the_same)
{
    differ(blocks[0], blocks[1] + 8);
    differ(blocks[0], blocks[5]);
    differ(blocks[0], blocks[2]);
    correspond();
    expect(0, false);
    expect(1, false);
    expect(2, true);
    ck_assert_ptr_eq(differences[1].blocks[1].address, blocks[5]);
}

TEST(correspond, what_both_name_at_one_place_stays_itself)
{
    share(blocks[1] + BYTES - 1);
    share(blocks[4]);
    differ(blocks[0], blocks[1]);
    differ(blocks[0], blocks[2]);
    differ(blocks[1], blocks[3]);
    correspond();
    expect(0, false);
    expect(1, true);
    expect(2, false);
}

TEST(correspond, an_address_beside_a_block_is_none_of_it)
{
    const struct tn_block *last = unit_block(blocks[5]);

    share(blocks[0] - 1);                    /* before all of them */
    share(blocks[5] + tn_block_bytes(last)); /* behind */
    differ(blocks[0], blocks[1]);
    correspond();
    expect(0, true);
}

TEST(correspond, freed_memory_corresponds_to_nothing)
{
    char *elsewhere = unit_alloc(pool, 4 * MIB, stream);

    OK(tarn_free(blocks[0]));
    OK(tarn_free(elsewhere));
    unit_trim(device);
    differ(blocks[0], blocks[1]);
    differ(blocks[1], blocks[0]);
    differ(elsewhere, blocks[1]);
    correspond();
    for (size_t i = 0; i < count; i++)
        expect(i, false);
    ck_assert_ptr_eq(differences[0].blocks[0].pool, pool);
    ck_assert_ptr_null(differences[0].blocks[0].address);
    ck_assert_ptr_eq(differences[0].blocks[1].address, blocks[1]);
}

TEST(correspond, blocks_of_another_pool_may_take_the_place)
{
    char *its = unit_alloc(unit_pool_of(device, "other", 0), BYTES, stream);

    differ(blocks[0], its);
    correspond();
    expect(0, true);
}

TEST(correspond, many_blocks_are_told_apart)
{
    char *many[MOST];

    for (size_t i = 0; i < MOST; i++)
        many[i] = unit_alloc(pool, BYTES, stream);
    for (size_t i = 0; i < MOST; i++) {
        differ(many[i], many[(i + 7) % MOST]);
        if (i % 2 == 1) /* which takes the pairs before and behind it away */
            share(many[i]);
    }
    correspond();
    for (size_t i = 0; i < MOST; i++)
        expect(i, false);
    same_count = 0;
    for (size_t i = 0; i < MOST; i++)
        differences[i].corresponds = true;
    correspond();
    for (size_t i = 0; i < MOST; i++)
        expect(i, true);
}

/* Two blocks in small tables: some have one place there. */
TEST(correspond, blocks_whose_numbers_have_one_place_are_told_apart)
{
    for (size_t i = 0; i < 100; i++) {
        char *other = unit_alloc(pool, BYTES, stream);

        count = 0;
        differ(blocks[0], other);
        differ(other, blocks[0]);
        differ(other, blocks[1]);
        correspond();
        expect(0, true);
        expect(1, true);
        expect(2, false);
    }
}

TEST(correspond, without_memory_nothing_is_left)
{
    uint64_t failures = 0;
    tarn_status status;

    share(blocks[4]);
    differ(blocks[0] + 1, blocks[1] + 1);
    outstanding = tn_host_outstanding();
    do {
        failures += 1;
        (void)tn_host_plan_fault(failures, false);
        status = tn_correspond(&device->regions, differences, count, same, same_count);
        ck_assert_uint_eq(tn_host_plan_fault(0, false), status == TARN_OK ? 0 : 1);
        ck_assert(status == TARN_OK || status == TARN_ERR_HOST_MEMORY);
        ck_assert_int_eq(tn_host_outstanding(), outstanding);
    } while (status != TARN_OK);
    ck_assert_uint_eq(
        failures, 8); /* four arrays here; of what is looked up two, and a record for each pool */
    expect(0, true);
}
