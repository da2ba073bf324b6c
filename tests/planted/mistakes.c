// SPDX-License-Identifier: Apache-2.0
/* What becomes of a node's address before its graph is looked at: how each mistake is made, and what an audit must say
 * of it. */
#include "planted/plant.h"
#include "support/nodes.h"

enum {
    LARGER_BYTES = 8 << 10,
    LARGE_BYTES = 8 << 20,
    DRIVER_BYTES = 4 << 20,
    HEAP_BYTES = 1 << 20,
    PAGE_BYTES = 4096
};

/* As an audit names a block that contains an address. */
static void expect_block(struct planted *planted, const void *address, const char *pool)
{
    OK(tarn_block_at(address, &planted->expected.block));
    planted->expected.pool = pool;
}

/* And memory of a pool's in which no block lives. */
static void expect_pool(struct planted *planted, tarn_pool *pool, const char *name)
{
    planted->expected.block.pool = pool;
    planted->expected.pool = name;
}

static void take(struct planted *planted, tarn_pool *pool)
{
    planted->base = test_alloc(pool, PLANTED_BLOCK_BYTES, world.stream);
    planted->address = planted->base + planted->inner;
}

static void free_base(struct planted *planted)
{
    OK(tarn_free(planted->base));
}

static void end_other(struct planted *planted)
{
    OK(tarn_pool_destroy(planted->other));
}

/* -- Freed, and used again -------------------------------------------------------------------------- */

static void prepare_freed_own(struct planted *planted)
{
    take(planted, world.pool);
    expect_pool(planted, world.pool, "test");
}

static void prepare_freed_default(struct planted *planted)
{
    take(planted, world.default_pool);
    expect_pool(planted, world.default_pool, "default");
}

static void prepare_freed_other(struct planted *planted)
{
    planted->other = test_pool("other");
    take(planted, planted->other);
    expect_pool(planted, planted->other, "other");
}

static void use_again(struct planted *planted, tarn_pool *pool, const char *name)
{
    tarn_block first;
    char *second;

    OK(tarn_block_at(planted->base, &first));
    OK(tarn_free(planted->base));
    second = test_alloc(pool, PLANTED_BLOCK_BYTES, world.stream);
    ck_assert_ptr_eq(second, planted->base);
    expect_block(planted, second, name);
    ck_assert_uint_gt(planted->expected.block.sequence, first.sequence);
}

static void spoil_used_again(struct planted *planted)
{
    use_again(planted, world.pool, "test");
}

static void spoil_used_again_elsewhere(struct planted *planted)
{
    use_again(planted, planted->other, "other");
}

/* The capture has memory of its own: so Tarn learns of its end. */
static void begin_with_a_block(struct planted *planted)
{
    planted->kept = test_alloc(world.pool, PLANTED_BLOCK_BYTES, world.stream);
}

static void end_with_a_block(struct planted *planted)
{
    OK(tarn_free(planted->kept));
}

static void spoil_used_again_by_default(struct planted *planted)
{
    use_again(planted, world.default_pool, "default");
}

static void clean_used_again_elsewhere(struct planted *planted)
{
    free_base(planted);
    end_other(planted);
}

/* -- Live ------------------------------------------------------------------------------------------- */

static void prepare_unordered(struct planted *planted)
{
    tarn_capture *capture;

    planted->other = test_pool("other");
    capture = test_capture_on(planted->other, world.side, TARN_CAPTURE_RELAXED);
    planted->base = test_alloc(planted->other, PLANTED_BLOCK_BYTES, world.side);
    test_fill(world.side, planted->base, 1, 4);
    planted->elsewhere = test_capture_end(capture);
    planted->address = planted->base + planted->inner;
    expect_block(planted, planted->base, "other");
}

static void clean_unordered(struct planted *planted)
{
    OK(tarn_graph_destroy(planted->elsewhere));
    test_await_destructors(0);
    free_base(planted);
    end_other(planted);
}

/* The last two bytes that the node touches are nobody's, in the same memory. */
static void prepare_beyond(struct planted *planted)
{
    planted->base = test_alloc(world.pool, PLANTED_BLOCK_BYTES - 2, world.stream);
    planted->address = planted->base + PLANTED_BLOCK_BYTES - planted->touched;
    expect_block(planted, planted->base, "test");
}

/* The driver records no node that touches bytes behind an allocation. Memory that was freed since and given out
 * again, half of it, can be behind it all the same. */
static void prepare_beyond_linear(struct planted *planted)
{
    planted->base = test_linear_alloc(HEAP_BYTES);
    planted->address = planted->base + HEAP_BYTES / 2 - planted->touched + sizeof(uint32_t);
    planted->expected.device = 0;
    planted->expected.block.address = planted->base;
    planted->expected.block.bytes = HEAP_BYTES / 2;
}

static void spoil_beyond_linear(struct planted *planted)
{
    char *half;

    test_linear_free(planted->base);
    half = test_linear_alloc(HEAP_BYTES / 2);
    planted->is_made = half == planted->base; /* else it is the driver's choice */
    ck_assert(planted->is_made || !test_is_simulated());
    planted->base = half;
}

static void clean_linear(struct planted *planted)
{
    test_linear_free(planted->base);
}

/* -- Without memory --------------------------------------------------------------------------------- */

/* A block of chunks of its own, so that those can go alone. */
static void prepare_unmapped(struct planted *planted)
{
    planted->kept = test_alloc(world.pool, LARGE_BYTES, world.stream);
    planted->base = test_alloc(world.pool, LARGE_BYTES, world.stream);
    planted->address = planted->base + LARGE_BYTES / 2 + planted->inner;
    expect_pool(planted, world.pool, "test");
}

static void spoil_unmapped(struct planted *planted)
{
    free_base(planted);
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_int_eq(test_state_of(world.pool, planted->address), TARN_EXTENT_UNMAPPED);
}

static void clean_unmapped(struct planted *planted)
{
    OK(tarn_free(planted->kept));
}

static void prepare_trimmed(struct planted *planted)
{
    take(planted, world.pool);
}

static void spoil_trimmed(struct planted *planted)
{
    free_base(planted);
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(test_stats(world.pool).segment_count, 0);
}

static void prepare_destroyed(struct planted *planted)
{
    planted->other = test_pool("other");
    take(planted, planted->other);
}

static void spoil_destroyed(struct planted *planted)
{
    free_base(planted);
    end_other(planted);
}

/* -- Of the host, and the driver's ------------------------------------------------------------------ */

static void prepare_pageable(struct planted *planted)
{
    planted->address = planted->pageable;
}

static void prepare_unregistered(struct planted *planted)
{
    static _Alignas(PAGE_BYTES) char memory[PAGE_BYTES];

    planted->address = memory + planted->inner;
    planted->base = memory;
    test_host_register(memory, sizeof memory);
}

static void spoil_unregistered(struct planted *planted)
{
    test_host_unregister(planted->base);
}

static void prepare_freed_pinned(struct planted *planted)
{
    planted->base = test_host_alloc(DRIVER_BYTES);
    planted->address = planted->base + planted->inner;
}

static void spoil_freed_pinned(struct planted *planted)
{
    test_host_free(planted->base);
}

static void prepare_freed_linear(struct planted *planted)
{
    planted->base = test_linear_alloc(DRIVER_BYTES);
    planted->address = planted->base + planted->inner;
}

/* -- Memory that a capture has used more than once -------------------------------------------------- */

static void begin_larger(struct planted *planted)
{
    planted->base = test_alloc(world.pool, LARGER_BYTES, world.stream);
    planted->address = planted->base + PLANTED_BLOCK_BYTES - planted->touched;
}

/* The bytes that the node touches were all the larger block's. */
static void change_to_smaller(struct planted *planted)
{
    char *larger = planted->base;

    free_base(planted);
    (void)test_stats(world.pool); /* what was freed joins its neighbours */
    planted->base = test_alloc(world.pool, PLANTED_BLOCK_BYTES - 2, world.stream);
    ck_assert_ptr_eq(planted->base, larger);
    expect_block(planted, planted->base, "test");
}

static void begin_temporary(struct planted *planted)
{
    take(planted, world.pool);
}

/* A later graph of the pool has its output where the temporary was. */
static void spoil_overwritten(struct planted *planted)
{
    void *outside = test_alloc(world.default_pool, PLANTED_BLOCK_BYTES, world.stream);
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    char *output = test_alloc(world.pool, PLANTED_BLOCK_BYTES, world.stream);

    ck_assert_ptr_eq(output, planted->base);
    test_set_words(world.stream, output, 3, 4);
    planted->elsewhere = test_capture_end(capture);
    expect_block(planted, output, "test");
    OK(tarn_free(outside));
}

static void clean_overwritten(struct planted *planted)
{
    OK(tarn_graph_destroy(planted->elsewhere));
    test_await_destructors(0);
    free_base(planted);
}

const struct planted_kind planted_kinds[] = {
    [MISTAKE_FREED] = {.prepare = prepare_freed_own, .spoil = free_base},
    [MISTAKE_FREED_DEFAULT] = {.prepare = prepare_freed_default, .spoil = free_base},
    [MISTAKE_FREED_OTHER] = {.prepare = prepare_freed_other,
                             .spoil = free_base,
                             .clean = end_other},
    [MISTAKE_AGAIN] = {.prepare = prepare_freed_own, .spoil = spoil_used_again, .clean = free_base},
    [MISTAKE_AGAIN_OTHER] = {.prepare = prepare_freed_other,
                             .spoil = spoil_used_again_elsewhere,
                             .clean = clean_used_again_elsewhere},
    [MISTAKE_AGAIN_UNMARKED] = {.prepare = prepare_freed_default,
                                .begin = begin_with_a_block,
                                .end = end_with_a_block,
                                .spoil = spoil_used_again_by_default,
                                .clean = free_base,
                                .is_unmarked = true},
    [MISTAKE_UNORDERED] = {.prepare = prepare_unordered, .clean = clean_unordered},
    [MISTAKE_BEYOND] = {.prepare = prepare_beyond, .clean = free_base},
    [MISTAKE_BEYOND_SMALLER] = {.begin = begin_larger,
                                .change = change_to_smaller,
                                .clean = free_base},
    [MISTAKE_BEYOND_LINEAR] = {.prepare = prepare_beyond_linear,
                               .spoil = spoil_beyond_linear,
                               .clean = clean_linear},
    [MISTAKE_UNMAPPED] = {.prepare = prepare_unmapped,
                          .spoil = spoil_unmapped,
                          .clean = clean_unmapped},
    [MISTAKE_TRIMMED] = {.prepare = prepare_trimmed, .spoil = spoil_trimmed},
    [MISTAKE_DESTROYED] = {.prepare = prepare_destroyed, .spoil = spoil_destroyed},
    [MISTAKE_PAGEABLE] = {.prepare = prepare_pageable},
    [MISTAKE_UNREGISTERED] = {.prepare = prepare_unregistered, .spoil = spoil_unregistered},
    [MISTAKE_FREED_PINNED] = {.prepare = prepare_freed_pinned, .spoil = spoil_freed_pinned},
    [MISTAKE_FREED_LINEAR] = {.prepare = prepare_freed_linear, .spoil = clean_linear},
    [MISTAKE_OVERWRITES] = {.begin = begin_temporary,
                            .end = free_base,
                            .spoil = spoil_overwritten,
                            .clean = clean_overwritten},
};
