// SPDX-License-Identifier: Apache-2.0
/* What becomes of a node's address before its graph is looked at: how each mistake is made, and what an audit must say
 * of it. */
#include "planted/plant.h"
#include "support/nodes.h"

enum { LARGE_BYTES = 8 << 20, DRIVER_BYTES = 4 << 20, HEAP_BYTES = 1 << 20, PAGE_BYTES = 4096 };

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

const struct planted_kind planted_kinds[] = {
    [MISTAKE_FREED] = {prepare_freed_own, free_base, NULL},
    [MISTAKE_FREED_DEFAULT] = {prepare_freed_default, free_base, NULL},
    [MISTAKE_FREED_OTHER] = {prepare_freed_other, free_base, end_other},
    [MISTAKE_AGAIN] = {prepare_freed_own, spoil_used_again, free_base},
    [MISTAKE_AGAIN_OTHER] = {prepare_freed_other, spoil_used_again_elsewhere,
                             clean_used_again_elsewhere},
    [MISTAKE_UNORDERED] = {prepare_unordered, NULL, clean_unordered},
    [MISTAKE_BEYOND] = {prepare_beyond, NULL, free_base},
    [MISTAKE_BEYOND_LINEAR] = {prepare_beyond_linear, spoil_beyond_linear, clean_linear},
    [MISTAKE_UNMAPPED] = {prepare_unmapped, spoil_unmapped, clean_unmapped},
    [MISTAKE_TRIMMED] = {prepare_trimmed, spoil_trimmed, NULL},
    [MISTAKE_DESTROYED] = {prepare_destroyed, spoil_destroyed, NULL},
    [MISTAKE_PAGEABLE] = {prepare_pageable, NULL, NULL},
    [MISTAKE_UNREGISTERED] = {prepare_unregistered, spoil_unregistered, NULL},
    [MISTAKE_FREED_PINNED] = {prepare_freed_pinned, spoil_freed_pinned, NULL},
    [MISTAKE_FREED_LINEAR] = {prepare_freed_linear, clean_linear, NULL},
};
