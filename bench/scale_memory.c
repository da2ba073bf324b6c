// SPDX-License-Identifier: Apache-2.0
/* Calls for memory, streams and routes. */
#include "scale.h"

enum {
    BYTES = 16 << 10,
    ALIGNMENT = 64 << 10,
    CHANGING_STEP = 1 << 10,
    CHANGING_BYTES_MAX = 128 << 10,
};
#define GROWTH_BYTES ((size_t)64 << 20)
#define TOO_MANY_BYTES ((size_t)1 << 40)

static void allocate(struct scale_world *world)
{
    BENCH_OK(tarn_malloc(world->device, BYTES, world->stream, &world->block));
}

static void allocate_private(struct scale_world *world)
{
    BENCH_OK(tarn_pool_malloc(world->pool, BYTES, 0, world->stream, &world->block));
}

static void allocate_aligned(struct scale_world *world)
{
    BENCH_OK(tarn_malloc_aligned(world->device, BYTES, ALIGNMENT, world->stream, &world->block));
}

static void allocate_zeroed(struct scale_world *world)
{
    BENCH_OK(tarn_calloc(world->device, 1, BYTES, world->stream, &world->block));
}

/* The block is kept, so that the next one finds nothing, too. */
static void grow(struct scale_world *world)
{
    BENCH_OK(tarn_malloc(world->device, GROWTH_BYTES, world->stream, &world->block));
}

static void grow_private(struct scale_world *world)
{
    BENCH_OK(tarn_pool_malloc(world->pool, GROWTH_BYTES, 0, world->stream, &world->block));
}

static void reserve(struct scale_world *world)
{
    BENCH_OK(tarn_pool_reserve(world->pool, GROWTH_BYTES, world->stream));
}

/* What was reserved is taken, so that the next reservation maps as much again. */
static void take_reserved(struct scale_world *world)
{
    grow_private(world);
    scale_keep(world);
}

/* Each time another size, which the blocks freed last do not have. */
static void allocate_changing(struct scale_world *world)
{
    static size_t bytes = BYTES;

    bytes = bytes == CHANGING_BYTES_MAX ? BYTES : bytes + CHANGING_STEP;
    BENCH_OK(tarn_malloc(world->device, bytes, world->stream, &world->block));
}

/* More than any device has, and within what may be asked for. */
static void allocate_too_much(struct scale_world *world)
{
    if (tarn_malloc(world->device, TOO_MANY_BYTES, world->stream, &world->block) !=
        TARN_ERR_DEVICE_MEMORY)
        bench_fail("the device has more memory than any has");
}

static void look_at_block(struct scale_world *world)
{
    tarn_block block;

    BENCH_OK(tarn_block_at(world->block, &block));
}

static void look_at_segment(struct scale_world *world)
{
    tarn_segment segment = TARN_SEGMENT_INIT;

    BENCH_OK(tarn_segment_at(world->block, &segment));
}

static void set_tag(struct scale_world *world)
{
    BENCH_OK(tarn_block_set_tag(world->block, 1));
}

static void free_block(struct scale_world *world)
{
    BENCH_OK(tarn_free(world->block));
}

static void free_and_drain(struct scale_world *world)
{
    free_block(world);
    scale_drain(world);
}

static void free_on_own(struct scale_world *world)
{
    BENCH_OK(tarn_free_on(world->block, world->stream));
}

static void free_on_other(struct scale_world *world)
{
    BENCH_OK(tarn_free_on(world->block, world->other));
}

static void record(struct scale_world *world)
{
    BENCH_OK(tarn_record_stream(world->block, world->other));
}

static void allocate_recorded(struct scale_world *world)
{
    allocate(world);
    record(world);
}

/* On a stream of its own: from then on an allocation looks for what other threads have freed. */
static void allocate_for_guest(struct scale_world *world)
{
    BENCH_OK(tarn_malloc(world->device, BYTES, world->guest_stream, &world->block));
}

static void free_oldest(struct scale_world *world)
{
    BENCH_OK(tarn_free(scale_take_oldest(world).handle));
}

/* ---- streams ------------------------------------------------------------------------------- */

static void make_stream(struct scale_world *world)
{
    world->made = bench_stream_create();
}

static void make_stream_and_block(struct scale_world *world)
{
    make_stream(world);
    allocate(world);
}

static void allocate_on_made(struct scale_world *world)
{
    BENCH_OK(tarn_malloc(world->device, BYTES, world->made, &world->block));
}

static void allocate_private_on_made(struct scale_world *world)
{
    BENCH_OK(tarn_pool_malloc(world->pool, BYTES, 0, world->made, &world->block));
}

static void record_made(struct scale_world *world)
{
    BENCH_OK(tarn_record_stream(world->block, world->made));
}

static void retire_made(struct scale_world *world)
{
    BENCH_OK(tarn_stream_retire(world->device, world->made));
}

static void end_made(struct scale_world *world)
{
    bench_stream_destroy(world->made);
    scale_drain(world);
}

static void free_and_end_made(struct scale_world *world)
{
    free_block(world);
    retire_made(world);
    end_made(world);
}

static void use_made(struct scale_world *world)
{
    make_stream(world);
    allocate_on_made(world);
    free_block(world);
}

static void retire_oldest(struct scale_world *world)
{
    BENCH_OK(tarn_stream_retire(world->device, scale_take_oldest(world).handle));
}

static void replace_oldest(struct scale_world *world)
{
    scale_add(world);
    scale_drain(world);
}

/* ---- routes -------------------------------------------------------------------------------- */

static void begin_route(struct scale_world *world)
{
    BENCH_OK(tarn_begin_allocate_to_pool(world->device, world->pool, tarn_filter_thread, NULL,
                                         &world->route));
}

static void end_route(struct scale_world *world)
{
    BENCH_OK(tarn_end_allocate_to_pool(world->route));
}

static void free_and_end_route(struct scale_world *world)
{
    free_block(world);
    end_route(world);
}

const struct scale_call scale_memory_calls[] = {
    {SCALE_CALL("tarn_malloc", NULL, allocate, free_block)},
    {SCALE_CALL("tarn_free", allocate, free_block, NULL)},
    {SCALE_CALL("tarn_free, oldest", NULL, free_oldest, scale_add),
     .kinds = SCALE_BLOCKS | SCALE_CHUNKS | SCALE_RELEASED},
    {SCALE_CALL("tarn_malloc, changing sizes", NULL, allocate_changing, free_block)},
    {SCALE_CALL("tarn_malloc_aligned", NULL, allocate_aligned, free_block)},
    {SCALE_CALL("tarn_calloc", NULL, allocate_zeroed, free_and_drain)},
    {SCALE_CALL("tarn_malloc, grows", NULL, grow, scale_keep)},
    {SCALE_CALL("tarn_pool_malloc", NULL, allocate_private, free_block)},
    {SCALE_CALL("tarn_free, private", allocate_private, free_block, NULL)},
    {SCALE_CALL("tarn_free, other thread", allocate_for_guest, free_block, NULL),
     .by_thread = true},
    {SCALE_CALL("tarn_block_at", allocate, look_at_block, free_block)},
    {SCALE_CALL("tarn_segment_at", allocate, look_at_segment, free_block)},
    {SCALE_CALL("tarn_block_set_tag", allocate, set_tag, free_block)},
    {SCALE_CALL("tarn_pool_malloc, grows", NULL, grow_private, scale_keep)},
    {SCALE_CALL("tarn_pool_reserve", NULL, reserve, take_reserved)},
    {SCALE_CALL("tarn_free_on, own stream", allocate, free_on_own, NULL)},
    {SCALE_CALL("tarn_free_on, other stream", allocate, free_on_other, scale_drain)},
    {SCALE_CALL("tarn_free_on, other stream, private", allocate_private, free_on_other,
                scale_drain)},
    {SCALE_CALL("tarn_record_stream", allocate, record, free_and_drain)},
    {SCALE_CALL("tarn_free, recorded", allocate_recorded, free_block, scale_drain)},
    {SCALE_CALL("tarn_record_stream, new stream", make_stream_and_block, record_made,
                free_and_end_made)},
    {SCALE_CALL("tarn_malloc, new stream", make_stream, allocate_on_made, free_and_end_made)},
    {SCALE_CALL("tarn_pool_malloc, new stream", make_stream, allocate_private_on_made,
                free_and_end_made)},
    {SCALE_CALL("tarn_stream_retire", use_made, retire_made, end_made)},
    {SCALE_CALL("tarn_stream_retire, unknown", make_stream, retire_made, end_made)},
    {SCALE_CALL("tarn_stream_retire, oldest", NULL, retire_oldest, replace_oldest),
     .kinds = SCALE_STREAMS | SCALE_RECORDED},
    {SCALE_CALL("tarn_begin_allocate_to_pool", NULL, begin_route, end_route)},
    {SCALE_CALL("tarn_malloc, routed", begin_route, allocate, free_and_end_route)},
    {SCALE_CALL("tarn_end_allocate_to_pool", begin_route, end_route, NULL)},
    {SCALE_CALL("tarn_malloc, fails", NULL, allocate_too_much, scale_drain),
     .proportional = "all free memory", .proportional_kinds = ~0U},
};
const size_t scale_memory_call_count = sizeof scale_memory_calls / sizeof scale_memory_calls[0];
