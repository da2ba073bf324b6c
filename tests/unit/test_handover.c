// SPDX-License-Identifier: Apache-2.0
#include "pools/handover.h"

#include "driver/idle.h"
#include "pools/arenas.h"
#include "unit/one_pool.h"

/* The bin has this block again and again. */
static struct tn_block *endless;
static size_t looks;

__typeof__(tn_bins_next) __real_tn_bins_next;
__typeof__(tn_bins_next) __wrap_tn_bins_next;
struct tn_block *__wrap_tn_bins_next(const struct tn_bins *bins, const struct tn_block *block,
                                     uint64_t bytes)
{
    looks += 1;
    return endless != NULL ? endless : __real_tn_bins_next(bins, block, bytes);
}

GROUP(handover, make_pool)

TEST(handover, sixty_four_blocks_of_idle_memory_are_looked_at)
{
    void *captured;
    tarn_graph *graph = unit_graph(pool, stream, 64 * MIB, &captured);

    endless = unit_block(captured);
    ck_assert_int_eq(endless->state, TN_BLOCK_FREE);
    looks = 0;
    ck_assert(!unit_idle_has(pool, TN_HEAP_LARGE, false, 64 * MIB));
    ck_assert_uint_eq(looks, 64);
    endless = NULL;
    OK(tarn_graph_destroy(graph));
}

/* By its number a block is proven as long as it is live, by its free afterwards. */
TEST(handover, what_is_pending_is_proven_by_its_free_and_not_by_its_number)
{
    char *live = unit_alloc(pool, 4096, stream);
    char *pending = unit_alloc(pool, 4096, stream);
    struct tn_run run = {unit_segment(live), unit_offset(live), unit_offset(live) + 1};
    struct tn_arena *to;
    uint64_t sequence = unit_block(live)->sequence;

    ck_assert_uint_gt(unit_block(pending)->sequence, sequence);
    tn_run_close(&run, unit_block(live));
    tn_pool_lock(pool);
    to = tn_arena_get(pool, unit_order(device, test_stream()));
    ck_assert(!tn_handover_is_proven(pool, &run, unit_block(live), to, sequence));
    tn_pool_unlock(pool);
    test_begin_capture(other, TN_CU_CAPTURE_MODE_RELAXED); /* so that no poll ends the use */
    OK(tarn_free_on(pending, other));
    ck_assert_int_eq(unit_block(pending)->state, TN_BLOCK_PENDING);
    tn_pool_lock(pool);
    ck_assert(!tn_handover_is_proven(pool, &run, unit_block(live), to, sequence));
    tn_pool_unlock(pool);
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_pool_lock(pool);
    ck_assert_int_eq(unit_block(pending)->state, TN_BLOCK_PENDING);
    ck_assert(tn_handover_is_proven(pool, &run, unit_block(live), to, sequence));
    ck_assert(!tn_handover_is_proven(pool, &run, unit_block(live), to, sequence - 1));
    tn_pool_unlock(pool);
    test_destroy_graph(test_end_capture(other));
}
