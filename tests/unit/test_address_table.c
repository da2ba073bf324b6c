// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <sys/types.h>

#include "unit/unit.h"
#include "vmm/address_table.h"

static bool addresses_are_out;

void *__real_mmap(void *address, size_t length, int access, int flags, int file, off_t offset);
void *__wrap_mmap(void *address, size_t length, int access, int flags, int file, off_t offset);
void *__wrap_mmap(void *address, size_t length, int access, int flags, int file, off_t offset)
{
    return addresses_are_out ? MAP_FAILED
                             : __real_mmap(address, length, access, flags, file, offset);
}

/* Entries are compared, never followed: any address serves as a segment. */
static struct tn_segment first_segment;
static struct tn_segment second_segment;

static const uint64_t base = (uint64_t)5 * TN_SLOT_BYTES;

GROUP(init, NULL)

TEST(init, nothing_is_found_before_the_table_is_made)
{
    ck_assert_ptr_null(tn_address_table_find(0));
    ck_assert_ptr_null(tn_address_table_find(base));
}

TEST(init, the_table_is_made_once)
{
    OK(tn_address_table_init());
    tn_address_table_set(base, 1, &first_segment);
    OK(tn_address_table_init());
    ck_assert_ptr_eq(tn_address_table_find(base), &first_segment);
}

TEST(init, no_table_without_host_addresses)
{
    addresses_are_out = true;
    STATUS(TARN_ERR_HOST_MEMORY, tn_address_table_init());
    unit_expect_sentence("host addresses");
    ck_assert_ptr_null(tn_address_table_find(base));
    addresses_are_out = false;
    OK(tn_address_table_init());
}

GROUP(find, NULL)

/* V1: every slot of the segment, to its last byte, and no other. */
TEST(find, a_segment_is_found_at_each_of_its_bytes_and_no_other)
{
    OK(tn_address_table_init());
    tn_address_table_set(base, 3, &first_segment);
    ck_assert_ptr_null(tn_address_table_find(base - 1));
    for (uint64_t slot = 0; slot < 3; slot++) {
        ck_assert_ptr_eq(tn_address_table_find(base + slot * TN_SLOT_BYTES), &first_segment);
        ck_assert_ptr_eq(tn_address_table_find(base + (slot + 1) * TN_SLOT_BYTES - 1),
                         &first_segment);
    }
    ck_assert_ptr_null(tn_address_table_find(base + 3 * TN_SLOT_BYTES));
}

TEST(find, neighbours_are_told_apart)
{
    OK(tn_address_table_init());
    tn_address_table_set(base, 1, &first_segment);
    tn_address_table_set(base + TN_SLOT_BYTES, 1, &second_segment);
    ck_assert_ptr_eq(tn_address_table_find(base + TN_SLOT_BYTES - 1), &first_segment);
    ck_assert_ptr_eq(tn_address_table_find(base + TN_SLOT_BYTES), &second_segment);
    tn_address_table_set(base, 1, NULL);
    ck_assert_ptr_null(tn_address_table_find(base));
    ck_assert_ptr_eq(tn_address_table_find(base + TN_SLOT_BYTES), &second_segment);
}

TEST(find, the_ends_of_the_address_space_are_in_the_table)
{
    uint64_t top = 0x1000000000000 - TN_SLOT_BYTES; /* 2^48: all of 64-bit ARM's */

    OK(tn_address_table_init());
    tn_address_table_set(0, 1, &first_segment);
    tn_address_table_set(top, 1, &second_segment);
    ck_assert_ptr_eq(tn_address_table_find(0), &first_segment);
    ck_assert_ptr_eq(tn_address_table_find(top + TN_SLOT_BYTES - 1), &second_segment);
    ck_assert_ptr_null(tn_address_table_find(top + TN_SLOT_BYTES));
    ck_assert_ptr_null(tn_address_table_find(UINT64_MAX));
}

GROUP(wrong, NULL, .name = "wrong entries")

/* V1: a run that does not begin at a slot would give one slot to two segments. */
CONTRACT_TEST(wrong, a_base_inside_a_slot_is_a_broken_contract)
{
    OK(tn_address_table_init());
    tn_address_table_set(base + TN_PAGE_BYTES, 1, &first_segment);
}

CONTRACT_TEST(wrong, a_run_past_the_end_is_a_broken_contract)
{
    OK(tn_address_table_init());
    tn_address_table_set(0x1000000000000 - TN_SLOT_BYTES, 2, &first_segment);
}

/* V1: with an entry gone, an address handed out is not known any more. */
TEST(wrong, an_address_without_its_entry_is_not_ours)
{
    tarn_device *device = unit_device();
    tn_cu_stream stream = test_stream();
    void *address = unit_alloc(unit_pool(device), 4096, stream);
    struct tn_segment *segment = unit_segment(address);

    tn_address_table_set(segment->base, segment->slot_count, NULL);
    STATUS(TARN_ERR_NOT_OURS, tarn_record_stream(address, stream));
    tn_address_table_set(segment->base, segment->slot_count, segment);
    OK(tarn_record_stream(address, stream));
    OK(tarn_free(address));
}
