// SPDX-License-Identifier: Apache-2.0
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

static struct tn_chunk *chunk_of(uint64_t bytes)
{
    const struct tn_chunk_properties plain = {.exportable = false};
    struct tn_chunk *chunk;

    OK(tn_chunk_create(&gpu, bytes, plain, &chunk));
    return chunk;
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

START_TEST(a_segment_is_known_at_its_addresses_until_it_is_destroyed)
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
END_TEST

START_TEST(a_segment_that_cannot_be_made_leaves_nothing)
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
END_TEST

/* V4, V5: after each step. */
static void expect_pages(const struct tn_segment *segment, struct tn_chunk *const *chunks,
                         size_t count)
{
    uint64_t mapped = 0;

    for (uint64_t page = 0; page < segment->bytes / TN_PAGE_BYTES; page++) {
        const struct tn_chunk *expected = NULL;

        for (size_t i = 0; i < count; i++) {
            if (page * TN_PAGE_BYTES >= chunks[i]->offset &&
                page * TN_PAGE_BYTES < chunks[i]->offset + chunks[i]->bytes)
                expected = chunks[i];
        }
        ck_assert_ptr_eq(tn_segment_chunk_at(segment, page * TN_PAGE_BYTES), expected);
        ck_assert_ptr_eq(tn_segment_chunk_at(segment, page * TN_PAGE_BYTES + 12345), expected);
        mapped += expected != NULL ? TN_PAGE_BYTES : 0;
    }
    ck_assert_uint_eq(segment->mapped_bytes, mapped);
}

static void unmap(struct tn_chunk *chunk)
{
    tn_segment_unmap(chunk);
    ck_assert_ptr_null(chunk->segment);
    tn_chunk_destroy(&gpu, chunk);
}

static struct tn_segment *next_there;

static void take_the_slots(void)
{
    next_there = create(2 * TN_SLOT_BYTES);
}

/* V1: its own entries have gone before anybody can have the slots. */
START_TEST(slots_that_are_taken_while_a_segment_goes_are_the_next_ones)
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
END_TEST

START_TEST(chunks_come_and_go_at_their_pages)
{
    struct tn_segment *segment = create(TN_SLOT_BYTES);
    struct tn_chunk *chunks[3] = {chunk_of(8 * TN_MIB), chunk_of(2 * TN_MIB), chunk_of(4 * TN_MIB)};

    OK(tn_segment_map(segment, 0, 0, chunks[0]));
    expect_pages(segment, chunks, 1);
    OK(tn_segment_map(segment, 30 * TN_MIB, 0, chunks[1]));
    expect_pages(segment, chunks, 2);
    OK(tn_segment_map(segment, 8 * TN_MIB, 0, chunks[2]));
    expect_pages(segment, chunks, 3);
    ck_assert_uint_eq(tn_chunk_end(chunks[2]), 12 * TN_MIB);
    ck_assert_uint_eq(test_ledger().mapped_bytes, before.mapped_bytes + 14 * TN_MIB);
    unmap(chunks[2]);
    expect_pages(segment, chunks, 2);
    unmap(chunks[1]);
    unmap(chunks[0]);
    expect_pages(segment, NULL, 0);
    tn_segment_destroy(segment);
    test_same_ledger(&before);
}
END_TEST

START_TEST(mapped_memory_can_be_written_at_its_addresses)
{
    struct tn_segment *segment = create(TN_SLOT_BYTES);
    tn_cu_stream stream = test_stream();
    void *first;

    OK(tn_segment_map(segment, 4 * TN_MIB, 0, chunk_of(4 * TN_MIB)));
    first = (void *)(uintptr_t)(segment->base + 4 * TN_MIB);
    test_fill(stream, first, 5, TN_MIB);
    test_expect_words(stream, first, 5, TN_MIB);
}
END_TEST

START_TEST(an_unmapped_chunk_keeps_its_memory_and_is_mapped_elsewhere)
{
    struct tn_segment *segment = create(TN_SLOT_BYTES);
    tn_cu_stream stream = test_stream();
    struct tn_chunk *chunk = chunk_of(4 * TN_MIB);

    OK(tn_segment_map(segment, 0, 0, chunk));
    test_fill(stream, (void *)(uintptr_t)segment->base, 5, TN_MIB);
    test_synchronize(stream);
    tn_segment_unmap(chunk);
    OK(tn_segment_map(segment, 16 * TN_MIB, 0, chunk));
    expect_pages(segment, &chunk, 1);
    test_expect_words(stream, (void *)(uintptr_t)(segment->base + 16 * TN_MIB), 5, TN_MIB);
}
END_TEST

START_TEST(a_map_that_fails_changes_nothing)
{
    struct tn_segment *segment = create(TN_SLOT_BYTES);
    struct tn_chunk *chunk = chunk_of(8 * TN_MIB);
    tarn_sim_ledger made = test_ledger();

    sim.plan_fault("cuMemSetAccess", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_segment_map(segment, 0, 6, chunk));
    expect_pages(segment, NULL, 0);
    ck_assert_ptr_null(chunk->segment);
    ck_assert_uint_eq(chunk->properties.peer_mask, 0);
    test_same_ledger(&made);
    tn_chunk_destroy(&gpu, chunk);
    tn_segment_destroy(segment);
    test_same_ledger(&before);
}
END_TEST

START_TEST(a_chunk_that_cannot_be_made_leaves_nothing)
{
    struct tn_chunk *chunk = NULL;

    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY,
           tn_chunk_create(&gpu, 2 * TN_MIB, (struct tn_chunk_properties){false}, &chunk));
    (void)tn_host_plan_fault(0, false);
    sim.plan_fault("cuMemCreate", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY,
           tn_chunk_create(&gpu, 2 * TN_MIB, (struct tn_chunk_properties){false}, &chunk));
    ck_assert_ptr_null(chunk);
    ck_assert_int_eq(tn_host_outstanding(), host_before);
    test_same_ledger(&before);
}
END_TEST

/* V4: a page has one chunk. */
START_TEST(mapping_where_a_chunk_is_recorded_is_a_broken_contract)
{
    struct tn_segment *segment = create(TN_SLOT_BYTES);
    struct tn_chunk *chunk = chunk_of(8 * TN_MIB);

    OK(tn_segment_map(segment, 0, 0, chunk));
    /* the driver does not know of this one */
    tn_address_table_set_pages(segment->base + 8 * TN_MIB, TN_PAGE_BYTES, chunk);
    OK(tn_segment_map(segment, 8 * TN_MIB, 0, chunk_of(2 * TN_MIB)));
}
END_TEST

START_TEST(a_size_that_is_no_power_of_two_is_a_broken_contract)
{
    OK(tn_segment_map(create(TN_SLOT_BYTES), 0, 0, chunk_of(6 * TN_MIB)));
}
END_TEST

START_TEST(a_chunk_past_the_end_is_a_broken_contract)
{
    OK(tn_segment_map(create(TN_SLOT_BYTES), 30 * TN_MIB, 0, chunk_of(4 * TN_MIB)));
}
END_TEST

/* A chunk is at one place. */
START_TEST(mapping_a_mapped_chunk_is_a_broken_contract)
{
    struct tn_segment *segment = create(TN_SLOT_BYTES);
    struct tn_chunk *chunk = chunk_of(2 * TN_MIB);

    OK(tn_segment_map(segment, 0, 0, chunk));
    OK(tn_segment_map(segment, 2 * TN_MIB, 0, chunk));
}
END_TEST

/* V5: what is still mapped may not lose its segment. */
START_TEST(destroying_a_mapped_segment_is_a_broken_contract)
{
    struct tn_segment *segment = create(TN_SLOT_BYTES);

    OK(tn_segment_map(segment, 0, 0, chunk_of(2 * TN_MIB)));
    tn_segment_destroy(segment);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("segment");
    TCase *segments = tcase_create("create");
    TCase *chunks = tcase_create("map");
    TCase *wrong = tcase_create("wrong");

    tcase_add_checked_fixture(segments, open_regions, NULL);
    tcase_add_test(segments, a_segment_is_known_at_its_addresses_until_it_is_destroyed);
    tcase_add_test(segments, a_segment_that_cannot_be_made_leaves_nothing);
    tcase_add_test(segments, slots_that_are_taken_while_a_segment_goes_are_the_next_ones);
    suite_add_tcase(suite, segments);
    tcase_add_checked_fixture(chunks, open_regions, NULL);
    tcase_add_test(chunks, chunks_come_and_go_at_their_pages);
    tcase_add_test(chunks, mapped_memory_can_be_written_at_its_addresses);
    tcase_add_test(chunks, an_unmapped_chunk_keeps_its_memory_and_is_mapped_elsewhere);
    tcase_add_test(chunks, a_map_that_fails_changes_nothing);
    tcase_add_test(chunks, a_chunk_that_cannot_be_made_leaves_nothing);
    suite_add_tcase(suite, chunks);
    tcase_add_checked_fixture(wrong, open_regions, NULL);
    unit_add_contract_test(wrong, mapping_where_a_chunk_is_recorded_is_a_broken_contract);
    unit_add_contract_test(wrong, a_size_that_is_no_power_of_two_is_a_broken_contract);
    unit_add_contract_test(wrong, a_chunk_past_the_end_is_a_broken_contract);
    unit_add_contract_test(wrong, mapping_a_mapped_chunk_is_a_broken_contract);
    unit_add_contract_test(wrong, destroying_a_mapped_segment_is_a_broken_contract);
    suite_add_tcase(suite, wrong);
    return test_main(suite);
}
