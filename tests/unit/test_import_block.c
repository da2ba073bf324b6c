// SPDX-License-Identifier: Apache-2.0
#include "claims/import_block.h"
#include "driver/idle.h"
#include "unit/unit.h"

enum { FRESH = 11, STALE = 12, MOST = 3 };

static tarn_device *device;
static struct tn_import_block block;
static struct tn_import_block twin;

/* A graph's guard, without its graph. */
static struct guard {
    struct tn_watch watch;
    struct tn_watched blocks[MOST];
    struct tn_import_watch watched;
    _Atomic uint64_t word;
} first, second;

static void open_device(void)
{
    device = unit_device();
    tn_import_block_enter(&block, &device->gpu, 0x100000, 0x1000);
}

static void close_device(void)
{
    OK(tarn_device_close(device));
}

static void guard_with(struct guard *guard, bool keeps, const struct tn_import_block *of)
{
    *guard = (struct guard){.word = FRESH};
    guard->watch = (struct tn_watch){.gpu = &device->gpu,
                                     .keeps = keeps,
                                     .word = &guard->word,
                                     .fresh = FRESH,
                                     .stale = STALE,
                                     .blocks = guard->blocks,
                                     .capacity = MOST};
    tn_watch_skip(&guard->watch);
    tn_watch_skip(&guard->watch);
    tn_import_watch_begin(&guard->watched, &guard->watch, 1, of->sequence);
}

static void expect_told(struct guard *guard, bool told)
{
    ck_assert_uint_eq(guard->word, told ? STALE : FRESH);
    ck_assert_uint_eq(guard->watch.gone, told ? 2 : 0);
}

/* Returns whether it is kept. */
static bool let_go(struct tn_import_block *which)
{
    bool kept = tn_import_block_close(which);

    tn_import_block_tell(which);
    ck_assert(!kept || tn_import_block_is_kept(which));
    return kept;
}

static void end_block(void)
{
    ck_assert(!let_go(&block));
    tn_import_block_end(&block);
}

GROUP(blocks, open_device, close_device)

TEST(blocks, a_block_is_found_by_all_of_its_addresses)
{
    struct tn_import_found view;

    ck_assert_uint_eq(tn_import_blocks_count(), 1);
    ck_assert(tn_import_blocks_find(0x100000, NULL, &view));
    ck_assert(view.is_open && !view.is_kept);
    ck_assert_uint_eq(view.address, 0x100000);
    ck_assert_uint_eq(view.bytes, 0x1000);
    ck_assert_uint_eq(view.sequence, block.sequence);
    ck_assert(tn_import_blocks_find(0x100fff, NULL, &view));
    ck_assert(!tn_import_blocks_find(0x101000, NULL, &view));
    ck_assert(!tn_import_blocks_find(0xfffff, NULL, &view));
    end_block();
    ck_assert(!tn_import_blocks_find(0x100000, NULL, &view));
    ck_assert_uint_eq(tn_import_blocks_count(), 0);
}

/* S2 */
TEST(blocks, a_watch_is_told_when_the_block_is_let_go)
{
    guard_with(&first, false, &block);
    expect_told(&first, false);
    end_block();
    expect_told(&first, true);
    tn_import_watch_end(&first.watched);
}

TEST(blocks, a_watch_is_told_when_the_other_process_is_gone)
{
    guard_with(&first, false, &block);
    guard_with(&second, true, &block);
    tn_import_block_tell(&block);
    expect_told(&first, true);
    expect_told(&second, false);
    tn_import_watch_end(&first.watched);
    tn_import_watch_end(&second.watched);
    end_block();
}

TEST(blocks, a_watch_on_a_block_that_has_gone_is_told_at_once)
{
    guard_with(&second, true, &block);
    ck_assert(let_go(&block));
    guard_with(&first, true, &block); /* let go, and kept for another */
    expect_told(&first, true);
    tn_import_watch_end(&second.watched);
    OK(tn_gpu_wait_idle(&device->gpu));
    ck_assert(!tn_import_block_is_kept(&block));
    tn_import_block_end(&block);
    guard_with(&first, false, &block);
    expect_told(&first, true);
}

/* S1 */
TEST(blocks, a_block_is_kept_until_the_device_was_idle_behind_its_last_watch)
{
    struct tn_import_found view;

    guard_with(&first, true, &block);
    guard_with(&second, true, &block);
    ck_assert(let_go(&block));
    ck_assert(tn_import_blocks_find(0x100000, &second.watch, &view));
    ck_assert(!view.is_open && view.is_kept);
    ck_assert(tn_import_blocks_find(0x100000, NULL, &view));
    ck_assert(!view.is_open && !view.is_kept);
    tn_import_watch_end(&first.watched);
    OK(tn_gpu_wait_idle(&device->gpu));
    ck_assert(tn_import_block_is_kept(&block));
    tn_import_watch_end(&second.watched);
    ck_assert(tn_import_block_is_kept(&block)); /* a launch may still run */
    OK(tn_gpu_wait_idle(&device->gpu));
    ck_assert(!tn_import_block_is_kept(&block));
    expect_told(&second, false);
    tn_import_block_end(&block);
}

TEST(blocks, a_close_that_is_taken_back_tells_nobody)
{
    struct tn_import_found view;

    guard_with(&first, false, &block);
    ck_assert(!tn_import_block_close(&block));
    expect_told(&first, false);
    tn_import_block_reopen(&block);
    ck_assert(tn_import_blocks_find(0x100000, NULL, &view));
    ck_assert(view.is_open);
    expect_told(&first, false);
    end_block();
    expect_told(&first, true);
}

/* Two leases of one block are at one address. */
TEST(blocks, a_watch_goes_on_with_another_lease_of_the_same_bytes)
{
    struct tn_import_found view;

    tn_import_block_enter(&twin, &device->gpu, 0x100000, 0x1000);
    guard_with(&first, false, &block);
    guard_with(&second, true, &block);
    end_block();
    expect_told(&first, false);
    ck_assert(tn_import_blocks_find(0x100000, NULL, &view));
    ck_assert_uint_eq(view.sequence, twin.sequence);
    tn_import_watch_end(&second.watched);
    ck_assert(!let_go(&twin));
    expect_told(&first, true);
    tn_import_block_end(&twin);
}

TEST(blocks, an_open_block_is_found_before_one_that_was_let_go)
{
    struct tn_import_found view;

    guard_with(&first, true, &block);
    ck_assert(let_go(&block));
    tn_import_block_enter(&twin, &device->gpu, 0x100800, 0x1000);
    ck_assert(tn_import_blocks_find(0x100900, NULL, &view));
    ck_assert(view.is_open);
    ck_assert(tn_import_blocks_find(0x100100, &first.watch, &view));
    ck_assert(view.is_kept);
    tn_import_watch_end(&first.watched);
    ck_assert(!let_go(&twin));
    tn_import_block_end(&twin);
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_import_block_end(&block);
}

CONTRACT_TEST(blocks, a_block_that_is_watched_does_not_end)
{
    guard_with(&first, true, &block);
    (void)let_go(&block);
    tn_import_block_end(&block);
}
