// SPDX-License-Identifier: Apache-2.0
#include "driver/open.h"
#include "unit/unit.h"

static struct tn_gpu gpu;
static struct tn_regions regions;
static tarn_sim_ledger before;
static int64_t host_before;
static int owner;

/* What another thread does when slots have just been given back. */
static void (*behind_give)(void);

__typeof__(tn_regions_give) __real_tn_regions_give;
__typeof__(tn_regions_give) __wrap_tn_regions_give;
void __wrap_tn_regions_give(struct tn_regions *of, uint64_t base, uint64_t slot_count)
{
    void (*then)(void) = behind_give;

    behind_give = NULL;
    __real_tn_regions_give(of, base, slot_count);
    if (then != NULL)
        then();
}

static void open_regions(void)
{
    const struct tn_driver *driver;

    test_start();
    OK(tn_driver_load(&driver));
    OK(tn_address_table_init());
    OK(tn_gpu_open(&gpu, driver, 0));
    OK(tn_regions_init(&regions, &gpu, 64 * TN_GIB));
    before = test_ledger();
    host_before = tn_host_outstanding();
}

static struct tn_segment *create(uint64_t bytes)
{
    struct tn_segment *segment = NULL;

    OK(tn_segment_create(&regions, bytes, &owner, 4, &segment));
    return segment;
}

GROUP(create, open_regions)

TEST(create, a_segment_is_known_at_its_addresses_until_it_is_destroyed)
{
    struct tn_segment *segment = create(TN_SLOT_BYTES + 1);
    uint64_t base = segment->base;

    ck_assert_uint_eq(segment->bytes, 2 * TN_SLOT_BYTES);
    ck_assert_uint_eq(segment->slot_count, 2);
    ck_assert_uint_eq(segment->index, 4);
    ck_assert_ptr_eq(atomic_load(&segment->owner), &owner);
    ck_assert_uint_eq(regions.first->free_count, regions.first->slot_count - 2);
    ck_assert_ptr_eq(tn_address_table_find(base), segment);
    ck_assert_ptr_eq(tn_address_table_find(base + 2 * TN_SLOT_BYTES - 1), segment);
    ck_assert_ptr_null(tn_address_table_find(base + 2 * TN_SLOT_BYTES));
    tn_segment_destroy(segment);
    ck_assert_ptr_null(tn_address_table_find(base));
    ck_assert_ptr_null(atomic_load(&segment->owner)); /* a stale pointer still shows a record */
    ck_assert_uint_eq(regions.first->free_count, regions.first->slot_count);
    ck_assert_int_eq(tn_host_outstanding(), host_before);
    test_same_ledger(&before);
}

TEST(create, a_segment_that_cannot_be_made_leaves_nothing)
{
    struct tn_segment *segment = NULL;

    (void)tn_host_plan_fault(1, false); /* the slab of records */
    STATUS(TARN_ERR_HOST_MEMORY, tn_segment_create(&regions, TN_SLOT_BYTES, &owner, 0, &segment));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert_ptr_null(segment);
    tn_segment_destroy(create(TN_SLOT_BYTES));
    sim.set_hints(2, 0);
    STATUS(TARN_ERR_ADDRESS_SPACE, tn_segment_create(&regions, 128 * TN_GIB, &owner, 0, &segment));
    ck_assert_ptr_null(segment);
    ck_assert_uint_eq(regions.first->free_count, regions.first->slot_count);
    ck_assert_int_eq(tn_host_outstanding(), host_before);
}

static struct tn_segment *next_there;

static void take_the_slots(void)
{
    next_there = create(2 * TN_SLOT_BYTES);
}

/* V1: its own entries have gone before anybody can have the slots. */
TEST(create, slots_that_are_taken_while_a_segment_goes_are_the_next_ones)
{
    struct tn_segment *segment = create(2 * TN_SLOT_BYTES);
    uint64_t base = segment->base;

    behind_give = take_the_slots;
    tn_segment_destroy(segment);
    ck_assert(behind_give == NULL);
    ck_assert_uint_eq(next_there->base, base);
    ck_assert_ptr_eq(tn_address_table_find(base), next_there);
    ck_assert_ptr_eq(tn_address_table_find(base + 2 * TN_SLOT_BYTES - 1), next_there);
    ck_assert_ptr_eq(atomic_load(&next_there->owner), &owner);
    tn_segment_destroy(next_there);
    ck_assert_ptr_null(tn_address_table_find(base));
}

GROUP(wrong, open_regions)

/* V5 */
CONTRACT_TEST(wrong, destroying_a_segment_with_a_chunk_is_a_broken_contract)
{
    struct tn_segment *segment = create(TN_SLOT_BYTES);
    struct tn_chunk *chunk;

    OK(tn_chunk_create(segment, 0, 2 * TN_MIB, &chunk));
    tn_segment_destroy(segment);
}
