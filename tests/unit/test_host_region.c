// SPDX-License-Identifier: Apache-2.0
/* No driver is here: the test says what is registered. */
#include "vmm/host_region.h"

#include <sys/mman.h>

#include "unit/unit.h"

static struct tn_host_regions regions;
static uint64_t most_addresses = UINT64_MAX; /* mmap grants so many bytes at a time */
static int bound_to;                         /* the node, of the last binding */

void *__real_mmap(void *address, size_t bytes, int access, int flags, int file, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int access, int flags, int file, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int access, int flags, int file, off_t offset)
{
    return bytes > most_addresses ? MAP_FAILED
                                  : __real_mmap(address, bytes, access, flags, file, offset);
}

bool __wrap_tn_placement_bind(void *memory, size_t bytes, int node);
bool __wrap_tn_placement_bind(void *memory, size_t bytes, int node)
{
    ck_assert_ptr_nonnull(memory);
    ck_assert_uint_gt(bytes, 0);
    bound_to = node;
    return true;
}

static void open_regions(void)
{
    tn_host_regions_init(&regions, 3);
}

static void close_regions(void)
{
    tn_host_regions_fini(&regions);
    ck_assert_int_eq(tn_host_outstanding(), 0);
    ck_assert(tn_lock_none_held());
}

static uint64_t take(uint64_t slot_count)
{
    uint64_t base = 0;

    OK(tn_host_regions_take(&regions, slot_count, &base));
    ck_assert_uint_eq(base % TN_SLOT_BYTES, 0);
    OK(tn_host_regions_check(&regions));
    return base;
}

static void make(uint64_t base, uint64_t bytes)
{
    tn_host_regions_mark(&regions, base, bytes, TN_HOST_PAGE_BUSY);
    tn_host_regions_mark(&regions, base, bytes, TN_HOST_PAGE_FIRST);
}

/* Ends all registrations in the range; returns how many there were. */
static int end_all(uint64_t base, uint64_t bytes)
{
    struct tn_range run;
    int count = 0;

    for (; tn_host_regions_pick(&regions, base, bytes, &run); count++) {
        ck_assert_uint_ge(run.base, base);
        ck_assert_uint_le(run.base + run.bytes, base + bytes);
        tn_host_regions_mark(&regions, run.base, run.bytes, TN_HOST_PAGE_NONE);
    }
    OK(tn_host_regions_check(&regions));
    return count;
}

static void expect(uint64_t bytes, uint64_t count)
{
    uint64_t reserved;
    uint64_t registered;
    uint64_t registrations;

    tn_host_regions_count(&regions, &reserved, &registered, &registrations);
    ck_assert_uint_eq(registered, bytes);
    ck_assert_uint_eq(registrations, count);
    OK(tn_host_regions_check(&regions));
}

static uint64_t reserved_bytes(void)
{
    uint64_t reserved;
    uint64_t registered;
    uint64_t registrations;

    tn_host_regions_count(&regions, &reserved, &registered, &registrations);
    return reserved;
}

GROUP(host_region, open_regions, close_regions)

TEST(host_region, slots_are_the_lowest_that_are_free)
{
    uint64_t first = take(1);
    uint64_t second = take(3);
    uint64_t reserved = reserved_bytes();

    ck_assert_int_eq(bound_to, 3);
    ck_assert_uint_eq(second, first + TN_SLOT_BYTES);
    tn_host_regions_give(&regions, first, 1);
    ck_assert_uint_eq(take(2), second + 3 * TN_SLOT_BYTES);
    ck_assert_uint_eq(take(1), first);
    ck_assert_uint_eq(reserved_bytes(), reserved);
}

TEST(host_region, a_region_that_is_full_has_another_beside_it)
{
    uint64_t first = take(1);
    uint64_t reserved = reserved_bytes();
    uint64_t base = take(reserved / TN_SLOT_BYTES + 1);

    ck_assert_uint_gt(reserved_bytes(), 2 * reserved);
    make(base, 2 * MIB);
    make(first, 2 * MIB);
    expect(4 * MIB, 2);
    ck_assert_uint_eq(tn_host_regions_end_of(&regions, base), base + 2 * MIB);
    ck_assert_uint_eq(tn_host_regions_end_of(&regions, first), first + 2 * MIB);
    ck_assert_int_eq(end_all(base, 2 * MIB) + end_all(first, 2 * MIB), 2);
}

TEST(host_region, fewer_addresses_do_where_the_system_grants_no_more)
{
    uint64_t base = 0;

    most_addresses = 5 * TN_SLOT_BYTES;
    (void)take(3);
    ck_assert_uint_ge(reserved_bytes(), 3 * TN_SLOT_BYTES);
    STATUS(TARN_ERR_ADDRESS_SPACE, tn_host_regions_take(&regions, 5, &base));
    unit_expect_sentence("160 MiB");
    ck_assert_uint_eq(base, 0);
    (void)take(4);
}

TEST(host_region, records_that_cannot_be_had_leave_nothing)
{
    uint64_t base = 0;

    for (uint64_t nth = 1; nth <= 3; nth++) {
        (void)tn_host_plan_fault(nth, false);
        STATUS(TARN_ERR_HOST_MEMORY, tn_host_regions_take(&regions, 1, &base));
        ck_assert_uint_eq(reserved_bytes(), 0);
        ck_assert_int_eq(tn_host_outstanding(), 0);
    }
    (void)tn_host_plan_fault(0, false);
    OK(tn_host_regions_take(&regions, 1, &base));
}

TEST(host_region, registrations_side_by_side_are_told_apart)
{
    uint64_t base = take(2);
    struct tn_range run = {base, 0};

    make(base + 2 * MIB, 4 * MIB);
    make(base + 6 * MIB, 10 * MIB);
    make(base + 32 * MIB, 16 * MIB);
    expect(30 * MIB, 3);
    ck_assert_uint_eq(tn_host_regions_end_of(&regions, base + 1 * MIB), 0);
    ck_assert_uint_eq(tn_host_regions_end_of(&regions, base + 5 * MIB), base + 6 * MIB);
    ck_assert_uint_eq(tn_host_regions_end_of(&regions, base + 6 * MIB), base + 16 * MIB);
    ck_assert_uint_eq(tn_host_regions_end_of(&regions, 4096), 0);
    ck_assert(tn_host_regions_next(&regions, regions.first, base, &run));
    ck_assert_uint_eq(run.base, base + 2 * MIB);
    ck_assert(tn_host_regions_next(&regions, regions.first, run.base + run.bytes, &run));
    ck_assert_uint_eq(run.bytes, 10 * MIB);
    ck_assert(tn_host_regions_next(&regions, regions.first, run.base + run.bytes, &run));
    ck_assert_uint_eq(run.base, base + 32 * MIB);
    ck_assert(!tn_host_regions_next(&regions, regions.first, run.base + run.bytes, &run));
    ck_assert_int_eq(end_all(base, 16 * MIB), 2);
    expect(16 * MIB, 1);
    ck_assert_int_eq(end_all(base, 64 * MIB), 1);
    tn_host_regions_give(&regions, base, 2);
}

TEST(host_region, a_whole_registration_may_be_as_large_as_its_slots)
{
    uint64_t base = take(2);

    tn_host_regions_mark(&regions, base, 64 * MIB, TN_HOST_PAGE_BUSY);
    tn_host_regions_mark(&regions, base, 64 * MIB, TN_HOST_PAGE_FIRST_OF_WHOLE);
    expect(64 * MIB, 1);
    ck_assert_uint_eq(tn_host_regions_end_of(&regions, base + 17 * MIB), base + 64 * MIB);
    ck_assert_int_eq(end_all(base, 64 * MIB), 1);
}

static void expect_broken(const char *invariant)
{
    STATUS(TARN_ERR_CORRUPT, tn_host_regions_check(&regions));
    unit_expect_sentence(invariant);
}

TEST(host_region, each_broken_invariant_is_named)
{
    uint64_t base = take(1);
    uint8_t *pages = regions.first->pages;

    make(base, 16 * MIB);
    make(base + 16 * MIB, 16 * MIB);
    regions.first->taken[0] = false;
    expect_broken("invariant V9 ");
    regions.first->taken[0] = true;
    pages[0] = TN_HOST_PAGE_NONE;
    expect_broken("invariant V9 ");
    pages[0] = TN_HOST_PAGE_FIRST;
    pages[8] = TN_HOST_PAGE_LATER;
    expect_broken("invariant V11 ");
    pages[8] = TN_HOST_PAGE_FIRST;
    regions.registered_bytes += 1;
    expect_broken("invariant V10 ");
    regions.registered_bytes -= 1;
    ck_assert_int_eq(end_all(base, 32 * MIB), 2);
}

CONTRACT_TEST(host_region, slots_with_memory_are_not_given_back)
{
    uint64_t base = take(1);

    make(base, 2 * MIB);
    tn_host_regions_give(&regions, base, 1);
}

CONTRACT_TEST(host_region, memory_lies_in_slots_that_are_taken)
{
    make(take(1) + TN_SLOT_BYTES, 2 * MIB);
}

CONTRACT_TEST(host_region, no_page_is_registered_twice)
{
    uint64_t base = take(1);

    make(base, 4 * MIB);
    make(base + 2 * MIB, 2 * MIB);
}
