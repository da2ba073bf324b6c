// SPDX-License-Identifier: Apache-2.0
#include "driver/sanitizer.h"

#include <stdlib.h>

#include "support/fake_tool.h"
#include "unit/unit.h"

enum { UNIT = 512, UNITS = 64 };

static struct fake_tool tool;
static struct tn_gpu gpu;
static struct tn_lock process;
static tarn_sim_ledger before;
static int64_t host_before;
static uint64_t base;

static tarn_status open_sanitizer(void)
{
    tarn_status status;

    tn_lock_init(&process, TN_RANK_PROCESS);
    tn_lock_acquire(&process);
    status = tn_sanitizer_open(&gpu);
    tn_lock_release(&process);
    tn_lock_fini(&process);
    return status;
}

static void open_slab(void)
{
    fake_tool_use(&tool, NULL);
    unit_gpu(&gpu);
    before = test_ledger();
    host_before = tn_host_outstanding();
    OK(open_sanitizer());
    OK(tn_sanitizer_take(&gpu, 64 * TN_MIB, &base));
}

static void close_slab(void)
{
    tn_sanitizer_give(&gpu, base);
    tn_sanitizer_close(&gpu);
    ck_assert_uint_eq(fake_tool_look(&tool).heaps, 0);
    ck_assert_uint_eq(fake_tool_look(&tool).regions, 0);
    ck_assert_uint_eq(fake_tool_look(&tool).mistakes, 0);
    test_same_ledger(&before);
    ck_assert_int_eq(tn_host_outstanding(), host_before);
    tn_gpu_close(&gpu);
}

static bool allows(uint64_t offset, uint64_t bytes)
{
    return tool.allows(base + offset, bytes);
}

GROUP(slab, open_slab, close_slab)

TEST(slab, is_aligned_and_has_no_usable_byte)
{
    ck_assert_uint_eq(base % (32 * TN_MIB), 0);
    ck_assert(!allows(0, 1));
    ck_assert(!allows(64 * TN_MIB - 1, 1));
}

TEST(slab, is_found_among_others)
{
    uint64_t other;

    OK(tn_sanitizer_take(&gpu, 32 * TN_MIB, &other));
    tn_sanitizer_enter(&gpu, base, 100);
    tn_sanitizer_enter(&gpu, other, 200);
    ck_assert(allows(0, 100) && !allows(100, 1));
    ck_assert(tool.allows(other, 200) && !tool.allows(other + 200, 1));
    tn_sanitizer_give(&gpu, other);
    ck_assert(allows(0, 100));
    tn_sanitizer_leave(&gpu, base, false);
}

TEST(slab, addresses_elsewhere_are_passed_over)
{
    tn_sanitizer_enter(&gpu, base + TN_GIB, 100);
    tn_sanitizer_leave(&gpu, base + TN_GIB, false);
    tn_sanitizer_drop(&gpu, base + TN_GIB, 512, true);
    ck_assert_uint_eq(fake_tool_look(&tool).regions_added, 0);
}

TEST(slab, kept_bytes_stay_until_they_are_dropped)
{
    tn_sanitizer_enter(&gpu, base + UNIT, 3 * UNIT - 10);
    tn_sanitizer_leave(&gpu, base + UNIT, true);
    ck_assert(allows(UNIT, 3 * UNIT - 10));
    tn_sanitizer_drop(&gpu, base + 2 * UNIT, UNIT, false); /* out of the middle */
    ck_assert(allows(UNIT, UNIT));
    ck_assert(!allows(2 * UNIT, 1) && !allows(3 * UNIT - 1, 1));
    ck_assert(allows(3 * UNIT, UNIT - 10) && !allows(4 * UNIT - 10, 1));
    tn_sanitizer_drop(&gpu, base, 8 * UNIT, false);
    ck_assert_uint_eq(fake_tool_look(&tool).regions, 0);
}

TEST(slab, a_drop_leaves_live_blocks_unless_all_goes)
{
    tn_sanitizer_enter(&gpu, base + UNIT, UNIT);
    tn_sanitizer_drop(&gpu, base, 4 * UNIT, false);
    ck_assert(allows(UNIT, UNIT));
    tn_sanitizer_drop(&gpu, base, 4 * UNIT, true);
    ck_assert(!allows(UNIT, 1));
}

/* D7 */
CONTRACT_TEST(slab, two_blocks_at_one_address_stop_the_process)
{
    tn_sanitizer_enter(&gpu, base, 100);
    tn_sanitizer_enter(&gpu, base, 100);
}

/* Beside an oracle of bytes. */

static unsigned char live[UNITS * UNIT]; /* bytes that live blocks have */
static unsigned char kept[UNITS * UNIT]; /* bytes that something keeps */
static int block_units[UNITS];           /* of the live block that begins there; 0: none does */
static uint64_t block_bytes[UNITS];

static bool is_free(int unit, int count)
{
    for (int i = 0; i < unit; i++) {
        if (block_units[i] > unit - i)
            return false;
    }
    for (int i = unit; i < unit + count; i++) {
        if (i >= UNITS || block_units[i] > 0)
            return false;
    }
    return true;
}

static void try_enter(unsigned *seed)
{
    int unit = rand_r(seed) % UNITS;
    int count = rand_r(seed) % 8 + 1;
    uint64_t bytes = (uint64_t)count * UNIT - (uint64_t)(rand_r(seed) % UNIT);

    if (!is_free(unit, count))
        return;
    tn_sanitizer_enter(&gpu, base + (uint64_t)unit * UNIT, bytes);
    while (bytes % UNIT != 0 && kept[unit * UNIT + (int)bytes] != 0)
        bytes += 1; /* of its last 512 bytes it has those that are kept */
    block_units[unit] = count;
    block_bytes[unit] = bytes;
    memset(live + unit * UNIT, 1, bytes);
}

static void try_leave(unsigned *seed)
{
    int unit = rand_r(seed) % UNITS;
    bool keeps = rand_r(seed) % 2 != 0;

    if (block_units[unit] == 0)
        return;
    memset(live + unit * UNIT, 0, block_bytes[unit]);
    if (keeps)
        memset(kept + unit * UNIT, 1, block_bytes[unit]);
    else /* who frees and keeps nothing has no hold on any of it */
        memset(kept + unit * UNIT, 0, (size_t)block_units[unit] * UNIT);
    block_units[unit] = 0;
    tn_sanitizer_leave(&gpu, base + (uint64_t)unit * UNIT, keeps);
}

static void try_drop(unsigned *seed)
{
    int unit = rand_r(seed) % UNITS;
    int count = rand_r(seed) % 16 + 1;

    if (unit + count > UNITS)
        return;
    memset(kept + unit * UNIT, 0, (size_t)count * UNIT);
    tn_sanitizer_drop(&gpu, base + (uint64_t)unit * UNIT, (uint64_t)count * UNIT, false);
}

static void expect_usable(void)
{
    for (int byte = 0; byte < UNITS * UNIT; byte += UNIT / 4)
        ck_assert_int_eq(live[byte] != 0 || kept[byte] != 0, allows((uint64_t)byte, 1));
}

TEST_LOOP(slab, tells_what_an_oracle_says, 0, 8)
{
    unsigned seed = (unsigned)_i + 1;

    for (int step = 0; step < 300; step++) {
        switch (rand_r(&seed) % 5) {
        case 0:
        case 1:
            try_enter(&seed);
            break;
        case 2:
        case 3:
            try_leave(&seed);
            break;
        default:
            try_drop(&seed);
        }
        if (step % 16 == 0)
            expect_usable();
    }
    ck_assert_uint_eq(fake_tool_look(&tool).mistakes, 0);
}

GROUP(opening, NULL)

TEST(opening, without_a_tool_changes_nothing)
{
    fake_tool_use(&tool, "memory");
    unit_gpu(&gpu);
    STATUS(TARN_ERR_NOT_SUPPORTED, open_sanitizer());
    ck_assert(!tn_gpu_is_linear(&gpu));
    tn_sanitizer_close(&gpu);
    tn_gpu_close(&gpu);
}

TEST(opening, fails_without_memory_and_leaves_nothing)
{
    fake_tool_use(&tool, NULL);
    unit_gpu(&gpu);
    host_before = tn_host_outstanding();
    tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, open_sanitizer());
    OK(open_sanitizer());
    before = test_ledger();
    for (int nth = 1; nth <= 2; nth++) {
        tn_host_plan_fault((uint64_t)nth, false);
        STATUS(TARN_ERR_HOST_MEMORY, tn_sanitizer_take(&gpu, 64 * TN_MIB, &base));
    }
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_sanitizer_take(&gpu, 16 * TN_GIB, &base));
    test_same_ledger(&before);
    ck_assert_uint_eq(fake_tool_look(&tool).heaps, 0);
    tn_sanitizer_close(&gpu);
    ck_assert_int_eq(tn_host_outstanding(), host_before);
    tn_gpu_close(&gpu);
}
