// SPDX-License-Identifier: Apache-2.0
#include "unit/unit.h"

/* ThreadSanitizer has no room for the addresses at the usual hints. */
#if defined(__SANITIZE_THREAD__)
#define HINTS_ARE_KEPT false
#else
#define HINTS_ARE_KEPT true
#endif

static const uint64_t first_hint = 0x20c102000000;

static struct tn_gpu gpu;
static struct tn_regions regions;
static tarn_sim_ledger before;
static int64_t host_before;
static uint64_t moved_up; /* what the driver's addresses are told to lie higher by */

tarn_status __real_tn_gpu_reserve_addresses(struct tn_gpu *of, uint64_t bytes, uint64_t alignment,
                                            uint64_t hint, uint64_t *address);
tarn_status __wrap_tn_gpu_reserve_addresses(struct tn_gpu *of, uint64_t bytes, uint64_t alignment,
                                            uint64_t hint, uint64_t *address);
tarn_status __wrap_tn_gpu_reserve_addresses(struct tn_gpu *of, uint64_t bytes, uint64_t alignment,
                                            uint64_t hint, uint64_t *address)
{
    tarn_status status = __real_tn_gpu_reserve_addresses(of, bytes, alignment, hint, address);

    if (status == TARN_OK)
        *address += moved_up;
    return status;
}

void __real_tn_gpu_free_addresses(struct tn_gpu *of, uint64_t address, uint64_t bytes);
void __wrap_tn_gpu_free_addresses(struct tn_gpu *of, uint64_t address, uint64_t bytes);
void __wrap_tn_gpu_free_addresses(struct tn_gpu *of, uint64_t address, uint64_t bytes)
{
    __real_tn_gpu_free_addresses(of, address - moved_up, bytes);
}

static void open_gpu(void)
{
    unit_gpu(&gpu);
    before = test_ledger();
    host_before = tn_host_outstanding();
}

static uint64_t take(uint64_t slot_count)
{
    uint64_t base = 0;

    OK(tn_regions_take(&regions, slot_count, &base));
    return base;
}

/* V2, V3: the set bits of a region are as many as its counter says. */
static void expect_free(const struct tn_region *region, uint64_t free_count)
{
    uint64_t set = 0;

    for (uint64_t word = 0; word < (region->slot_count + 63) / 64; word++)
        set += (uint64_t)__builtin_popcountll(region->taken[word]);
    ck_assert_uint_eq(region->free_count, free_count);
    ck_assert_uint_eq(region->slot_count - region->free_count, set);
}

static void fini_clean(void)
{
    tn_regions_fini(&regions);
    test_same_ledger(&before);
    ck_assert_int_eq(tn_host_outstanding(), host_before);
}

GROUP(init, open_gpu)

TEST(init, the_first_region_lies_at_the_first_hint)
{
    OK(tn_regions_init(&regions, &gpu, 64 * TN_GIB));
    if (HINTS_ARE_KEPT)
        ck_assert_uint_eq(regions.first->base, first_hint);
    ck_assert_uint_eq(regions.first->bytes, 64 * TN_GIB);
    ck_assert_uint_eq(regions.first->slot_count, 2048);
    ck_assert_uint_eq(atomic_load(&regions.reserved_bytes), 64 * TN_GIB);
    expect_free(regions.first, 2048);
    fini_clean();
}

TEST(init, a_region_that_is_moved_is_kept_after_the_last_hint)
{
    uint64_t calls = sim.call_count("cuMemAddressReserve");

    sim.set_hints(1, 0);
    OK(tn_regions_init(&regions, &gpu, 4 * TN_GIB));
    ck_assert_uint_eq(sim.call_count("cuMemAddressReserve") - calls, 11);
    ck_assert_uint_ne(regions.first->base, first_hint);
    ck_assert_uint_eq(regions.first->base % TN_SLOT_BYTES, 0);
    ck_assert_uint_eq(test_ledger().reservations, before.reservations + 1);
    ck_assert_uint_eq(take(1), regions.first->base);
    tn_regions_give(&regions, regions.first->base, 1);
    fini_clean();
}

TEST(init, a_size_that_is_refused_is_halved)
{
    sim.set_hints(2, 8 * GIB);
    OK(tn_regions_init(&regions, &gpu, 4 * TN_TIB));
    ck_assert_uint_eq(regions.first->bytes, 8 * TN_GIB);
    ck_assert_uint_eq(atomic_load(&regions.reserved_bytes), 8 * TN_GIB);
    fini_clean();
}

TEST(init, less_than_a_gigabyte_is_no_region)
{
    sim.set_hints(2, GIB - 1);
    STATUS(TARN_ERR_ADDRESS_SPACE, tn_regions_init(&regions, &gpu, 4 * TN_TIB));
    test_same_ledger(&before);
    ck_assert_int_eq(tn_host_outstanding(), host_before);
    sim.set_hints(2, GIB);
    OK(tn_regions_init(&regions, &gpu, 4 * TN_TIB));
    ck_assert_uint_eq(regions.first->bytes, TN_GIB);
    fini_clean();
}

/* Where no entry of the table of addresses is. */
TEST(init, addresses_of_more_than_48_bits_are_no_region)
{
    moved_up = (uint64_t)1 << 48;
    STATUS(TARN_ERR_ADDRESS_SPACE, tn_regions_init(&regions, &gpu, 4 * TN_GIB));
    unit_expect_sentence("below 2^48");
    test_same_ledger(&before);
    ck_assert_int_eq(tn_host_outstanding(), host_before);
    moved_up = 0;
    OK(tn_regions_init(&regions, &gpu, 4 * TN_GIB));
    fini_clean();
}

TEST(init, a_driver_that_fails_is_not_asked_for_less)
{
    uint64_t calls = sim.call_count("cuMemAddressReserve");

    sim.plan_fault("cuMemAddressReserve", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_regions_init(&regions, &gpu, 4 * TN_TIB));
    ck_assert_uint_eq(sim.call_count("cuMemAddressReserve") - calls, 1);
    test_same_ledger(&before);
    ck_assert_int_eq(tn_host_outstanding(), host_before);
}

TEST(init, no_region_without_host_memory)
{
    const uint64_t reserved = sim.call_count("cuMemAddressReserve");

    for (uint64_t nth = 1; nth <= 2; nth++) {
        (void)tn_host_plan_fault(nth, false);
        STATUS(TARN_ERR_HOST_MEMORY, tn_regions_init(&regions, &gpu, TN_GIB));
        ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
        test_same_ledger(&before);
        ck_assert_uint_eq(sim.call_count("cuMemAddressReserve"),
                          reserved); /* nor was any asked for */
        ck_assert_int_eq(tn_host_outstanding(), host_before);
    }
}

GROUP(slots, open_gpu, .name = "take and give")

TEST(slots, the_lowest_run_that_fits_is_taken)
{
    uint64_t base;

    OK(tn_regions_init(&regions, &gpu, 64 * TN_GIB));
    base = regions.first->base;
    ck_assert_uint_eq(take(1), base);
    ck_assert_uint_eq(take(2), base + 1 * TN_SLOT_BYTES);
    ck_assert_uint_eq(take(1), base + 3 * TN_SLOT_BYTES);
    tn_regions_give(&regions, base + 1 * TN_SLOT_BYTES, 2);
    ck_assert_uint_eq(take(3), base + 4 * TN_SLOT_BYTES); /* the gap of two is too small */
    ck_assert_uint_eq(take(1), base + 1 * TN_SLOT_BYTES);
    ck_assert_uint_eq(take(1), base + 2 * TN_SLOT_BYTES);
    expect_free(regions.first, 2048 - 7);
    tn_regions_give(&regions, base, 7);
    expect_free(regions.first, 2048);
    fini_clean();
}

/* Whatever becomes of the slots: another segment may be there by now, and what was there before was memory, too. */
TEST(slots, pages_that_ever_were_mapped_are_known)
{
    uint64_t base;

    OK(tn_regions_init(&regions, &gpu, TN_GIB));
    base = take(32); /* all */
    ck_assert_uint_eq(take(1), regions.first->next->base);
    tn_regions_note_mapped(&regions, base + 126 * TN_PAGE_BYTES, 4 * TN_PAGE_BYTES);
    tn_regions_note_mapped(&regions, regions.first->next->base, TN_PAGE_BYTES);
    ck_assert(!tn_regions_was_mapped(&regions, base + 126 * TN_PAGE_BYTES - 1));
    ck_assert(tn_regions_was_mapped(&regions, base + 126 * TN_PAGE_BYTES));
    ck_assert(tn_regions_was_mapped(&regions, base + 130 * TN_PAGE_BYTES - 1));
    ck_assert(!tn_regions_was_mapped(&regions, base + 130 * TN_PAGE_BYTES));
    ck_assert(tn_regions_was_mapped(&regions, regions.first->next->base + 5));
    ck_assert(!tn_regions_was_mapped(&regions, base - 1)); /* no region's */
    tn_regions_give(&regions, base, 32);
    ck_assert_uint_eq(take(32), base);
    ck_assert(tn_regions_was_mapped(&regions, base + 126 * TN_PAGE_BYTES));
    expect_free(regions.first, 0);
    tn_regions_give(&regions, base, 32);
    tn_regions_give(&regions, regions.first->next->base, 1);
    fini_clean();
}

TEST(slots, a_run_may_cross_the_words_of_the_map)
{
    uint64_t base;

    OK(tn_regions_init(&regions, &gpu, 64 * TN_GIB));
    base = regions.first->base;
    ck_assert_uint_eq(take(60), base);
    ck_assert_uint_eq(take(200), base + 60 * TN_SLOT_BYTES);
    tn_regions_give(&regions, base + 62 * TN_SLOT_BYTES, 4);
    ck_assert_uint_eq(take(5), base + 260 * TN_SLOT_BYTES);
    ck_assert_uint_eq(take(4), base + 62 * TN_SLOT_BYTES);
    expect_free(regions.first, 2048 - 265);
    tn_regions_give(&regions, base, 265);
    fini_clean();
}

TEST(slots, full_words_of_the_map_are_passed_over)
{
    uint64_t base;

    OK(tn_regions_init(&regions, &gpu, 64 * TN_GIB));
    base = regions.first->base;
    ck_assert_uint_eq(take(64), base);
    ck_assert_uint_eq(take(1), base + 64 * TN_SLOT_BYTES);
    tn_regions_give(&regions, base + 63 * TN_SLOT_BYTES, 2);
    ck_assert_uint_eq(take(2), base + 63 * TN_SLOT_BYTES);
    tn_regions_give(&regions, base, 65);
    fini_clean();
}

TEST(slots, a_run_ends_at_a_full_word_of_the_map)
{
    uint64_t base;

    OK(tn_regions_init(&regions, &gpu, 64 * TN_GIB));
    base = take(192);
    tn_regions_give(&regions, base + 63 * TN_SLOT_BYTES, 1);
    tn_regions_give(&regions, base + 128 * TN_SLOT_BYTES, 1);
    tn_regions_give(&regions, base + 130 * TN_SLOT_BYTES, 2);
    ck_assert_uint_eq(take(2), base + 130 * TN_SLOT_BYTES);
    tn_regions_give(&regions, base, 63);
    tn_regions_give(&regions, base + 64 * TN_SLOT_BYTES, 64);
    tn_regions_give(&regions, base + 129 * TN_SLOT_BYTES, 63);
    fini_clean();
}

TEST(slots, a_full_region_is_followed_by_a_second)
{
    uint64_t first;
    uint64_t second;

    OK(tn_regions_init(&regions, &gpu, TN_GIB));
    first = take(32);
    ck_assert_uint_eq(first, regions.first->base);
    expect_free(regions.first, 0);
    second = take(1);
    ck_assert_ptr_nonnull(regions.first->next);
    ck_assert_uint_eq(second, regions.first->next->base);
    ck_assert_uint_eq(atomic_load(&regions.reserved_bytes), 2 * TN_GIB);
    if (HINTS_ARE_KEPT) /* the first hint is taken, so it lies at the next */
        ck_assert_uint_eq(second, first_hint + 4 * TN_TIB);
    tn_regions_give(&regions, first, 32);
    ck_assert_uint_eq(take(1), first); /* the lower one again */
    tn_regions_give(&regions, first, 1);
    tn_regions_give(&regions, second, 1);
    fini_clean();
}

TEST(slots, a_region_whose_free_slots_lie_apart_is_followed_by_a_second)
{
    uint64_t first;
    uint64_t second;

    OK(tn_regions_init(&regions, &gpu, TN_GIB));
    first = take(32);
    for (uint64_t slot = 1; slot < 32; slot += 10)
        tn_regions_give(&regions, first + slot * TN_SLOT_BYTES, 1);
    second = take(2);
    ck_assert_ptr_nonnull(regions.first->next);
    ck_assert_uint_eq(second, regions.first->next->base);
    expect_free(regions.first, 4);
    ck_assert_uint_eq(take(1), first + TN_SLOT_BYTES);
    tn_regions_give(&regions, second, 2);
    for (uint64_t slot = 11; slot < 32; slot += 10)
        ck_assert_uint_eq(take(1), first + slot * TN_SLOT_BYTES);
    tn_regions_give(&regions, first, 32);
    fini_clean();
}

TEST(slots, a_run_larger_than_a_region_gets_one_of_its_size)
{
    uint64_t base;

    OK(tn_regions_init(&regions, &gpu, TN_GIB));
    base = take(65);
    ck_assert_uint_eq(regions.first->next->bytes, 4 * TN_GIB);
    ck_assert_uint_eq(base, regions.first->next->base);
    expect_free(regions.first, 32);
    expect_free(regions.first->next, 128 - 65);
    tn_regions_give(&regions, base, 65);
    fini_clean();
}

TEST(slots, addresses_that_were_never_taken_are_not_listed)
{
    struct tn_range range;
    uint64_t first;
    uint64_t second;

    OK(tn_regions_init(&regions, &gpu, TN_GIB));
    ck_assert_uint_eq(tn_regions_list(&regions, &range, 1), 1);
    ck_assert_uint_eq(range.bytes, 0);
    first = take(2);
    second = take(3);
    ck_assert_uint_eq(tn_regions_list(&regions, &range, 1), 1);
    ck_assert_uint_eq(range.base, first);
    ck_assert_uint_eq(range.bytes, 5 * TN_SLOT_BYTES);
    tn_regions_give(&regions, second, 3); /* they were */
    tn_regions_give(&regions, first, 2);
    ck_assert_uint_eq(take(1), first);
    ck_assert_uint_eq(tn_regions_list(&regions, &range, 1), 1);
    ck_assert_uint_eq(range.bytes, 5 * TN_SLOT_BYTES);
    tn_regions_give(&regions, first, 1);
    tn_regions_fini(&regions);
}

TEST(slots, regions_are_listed_as_far_as_there_is_room)
{
    struct tn_range ranges[3] = {{0}};
    uint64_t first;
    uint64_t second;

    OK(tn_regions_init(&regions, &gpu, TN_GIB));
    first = take(32);
    second = take(32);
    ck_assert_uint_eq(tn_regions_list(&regions, NULL, 0), 2);
    ck_assert_uint_eq(tn_regions_list(&regions, ranges, 1), 2);
    ck_assert_uint_eq(ranges[0].base, first);
    ck_assert_uint_eq(ranges[0].bytes, TN_GIB);
    ck_assert_uint_eq(ranges[1].bytes, 0);
    ck_assert_uint_eq(tn_regions_list(&regions, ranges, 3), 2);
    ck_assert_uint_eq(ranges[1].base, second);
    ck_assert_uint_eq(ranges[1].bytes, TN_GIB);
    ck_assert_uint_eq(ranges[2].bytes, 0);
    ck_assert(tn_regions_contain(&regions, first) && tn_regions_contain(&regions, second));
    ck_assert(tn_regions_contain(&regions, second + TN_GIB - 1));
    ck_assert(!tn_regions_contain(&regions, tn_max(first, second) + TN_GIB));
    ck_assert(!tn_regions_contain(&regions, tn_min(first, second) - 1));
    tn_regions_give(&regions, first, 32);
    tn_regions_give(&regions, second, 32);
    fini_clean();
}

TEST(slots, regions_go_when_all_of_their_slots_are_free_but_for_the_first)
{
    uint64_t slots = TN_GIB / TN_SLOT_BYTES;
    uint64_t bases[3];

    OK(tn_regions_init(&regions, &gpu, TN_GIB));
    for (int i = 0; i < 3; i++)
        bases[i] = take(slots);
    tn_regions_shrink(&regions);
    ck_assert_uint_eq(atomic_load(&regions.reserved_bytes), 3 * TN_GIB);
    tn_regions_give(&regions, bases[0], slots);
    tn_regions_give(&regions, bases[1], slots - 1); /* all but the last slot */
    tn_regions_shrink(&regions);
    ck_assert_uint_eq(atomic_load(&regions.reserved_bytes), 3 * TN_GIB);
    tn_regions_give(&regions, bases[1] + (slots - 1) * TN_SLOT_BYTES, 1);
    tn_regions_shrink(&regions);
    ck_assert_uint_eq(atomic_load(&regions.reserved_bytes), 2 * TN_GIB);
    ck_assert_uint_eq(test_ledger().reserved_bytes, before.reserved_bytes + 2 * TN_GIB);
    ck_assert_uint_eq(regions.first->next->base, bases[2]);
    ck_assert_uint_eq(take(slots), bases[0]);
    ck_assert_uint_eq(take(slots), bases[1]); /* at the same hint again */
    tn_regions_give(&regions, bases[0], slots);
    tn_regions_give(&regions, bases[1], slots);
    tn_regions_give(&regions, bases[2], slots);
    tn_regions_shrink(&regions);
    ck_assert_ptr_null(regions.first->next);
    expect_free(regions.first, slots);
    fini_clean();
}

TEST(slots, a_second_region_that_is_refused_changes_nothing)
{
    uint64_t base = 7;

    OK(tn_regions_init(&regions, &gpu, TN_GIB));
    sim.set_hints(2, 0);
    STATUS(TARN_ERR_ADDRESS_SPACE, tn_regions_take(&regions, 33, &base));
    ck_assert_uint_eq(base, 7);
    ck_assert_ptr_null(regions.first->next);
    ck_assert_uint_eq(atomic_load(&regions.reserved_bytes), TN_GIB);
    ck_assert(tn_lock_none_held());
    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_regions_take(&regions, 33, &base));
    expect_free(regions.first, 32);
    fini_clean();
}

TEST(slots, what_is_needed_is_never_halved_below)
{
    uint64_t base = 7;

    OK(tn_regions_init(&regions, &gpu, TN_GIB));
    sim.set_hints(2, 2 * GIB);
    STATUS(TARN_ERR_ADDRESS_SPACE, tn_regions_take(&regions, 65, &base));
    fini_clean();
}

GROUP(wrong, open_gpu)

/* V2: a slot is free or taken, not given back twice. */
CONTRACT_TEST(wrong, giving_a_slot_back_twice_is_a_broken_contract)
{
    uint64_t base;

    OK(tn_regions_init(&regions, &gpu, TN_GIB));
    base = take(2);
    tn_regions_give(&regions, base, 2);
    tn_regions_give(&regions, base, 1);
}

/* V3: with a free count that is too low the region would go while a slot is taken. */
CONTRACT_TEST(wrong, ending_with_a_slot_taken_is_a_broken_contract)
{
    OK(tn_regions_init(&regions, &gpu, TN_GIB));
    (void)take(1);
    tn_regions_fini(&regions);
}

CONTRACT_TEST(wrong, a_size_that_is_no_power_of_two_is_a_broken_contract)
{
    OK(tn_regions_init(&regions, &gpu, 3 * TN_GIB));
}
