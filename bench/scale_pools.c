// SPDX-License-Identifier: Apache-2.0
/* Calls for pools and devices, their settings, and callbacks. */
#include "life.h"
#include "scale.h"

enum { BYTES = 16 << 10, PEER = 1 };
#define LIMIT_BYTES ((size_t)1 << 40)

/* ---- pools --------------------------------------------------------------------------------- */

static void create(struct scale_world *world)
{
    BENCH_OK(tarn_pool_create(world->device, NULL, &world->new_pool));
}

static void destroy(struct scale_world *world)
{
    BENCH_OK(tarn_pool_destroy(world->new_pool));
}

static void create_and_use(struct scale_world *world)
{
    create(world);
    BENCH_OK(tarn_pool_malloc(world->new_pool, BYTES, 0, world->stream, &world->block));
    BENCH_OK(tarn_free(world->block));
}

static void allocate_first(struct scale_world *world)
{
    BENCH_OK(tarn_pool_malloc(world->new_pool, BYTES, 0, world->stream, &world->block));
}

static void free_and_destroy(struct scale_world *world)
{
    BENCH_OK(tarn_free(world->block));
    destroy(world);
}

static void empty_oldest(struct scale_world *world)
{
    struct scale_item item = scale_take_oldest(world);

    BENCH_OK(tarn_free(item.block));
    world->new_pool = item.handle;
}

static void release(struct scale_world *world)
{
    BENCH_OK(tarn_pool_release(world->new_pool));
}

static void create_and_allocate(struct scale_world *world)
{
    create(world);
    allocate_first(world);
}

static void create_and_release(struct scale_world *world)
{
    create_and_allocate(world);
    release(world);
}

/* The pool ends with its last block: the stream is told to be the last that used it. */
static void free_last(struct scale_world *world)
{
    BENCH_OK(tarn_free_on(world->block, world->stream));
}

static void free_last_and_drain(struct scale_world *world)
{
    free_last(world);
    scale_drain(world);
}

static void add_peer(struct scale_world *world)
{
    BENCH_OK(tarn_pool_add_peer(world->new_pool, PEER));
}

static void set_pool_limit(struct scale_world *world)
{
    BENCH_OK(tarn_pool_set_limit(world->pool, LIMIT_BYTES));
}

/* ---- devices ------------------------------------------------------------------------------- */

static void open_again(struct scale_world *world)
{
    tarn_device *device = NULL;

    BENCH_OK(tarn_device_open(0, NULL, &device));
    if (device != world->device)
        bench_fail("the device has two handles");
}

static void close_again(struct scale_world *world)
{
    BENCH_OK(tarn_device_close(world->device));
}

static void describe(struct scale_world *world)
{
    tarn_device_info info = TARN_DEVICE_INFO_INIT;

    BENCH_OK(tarn_device_describe(world->device, &info));
}

static void get_default_pool(struct scale_world *world)
{
    BENCH_OK(tarn_device_default_pool(world->device, &world->shared));
}

static void set_device_limit(struct scale_world *world)
{
    BENCH_OK(tarn_device_set_limit(world->device, LIMIT_BYTES));
}

static void set_fraction(struct scale_world *world)
{
    BENCH_OK(tarn_device_set_memory_fraction(world->device, 1.0));
}

static void lift_limits(struct scale_world *world)
{
    BENCH_OK(tarn_pool_set_limit(world->pool, 0));
    BENCH_OK(tarn_device_set_limit(world->device, 0));
    BENCH_OK(tarn_device_set_memory_fraction(world->device, 0));
}

static void set_cache_limit(struct scale_world *world)
{
    BENCH_OK(tarn_device_set_cache_limit(world->device, 0));
}

static void set_pinned_cache_limit(struct scale_world *world)
{
    BENCH_OK(tarn_device_set_pinned_cache_limit(world->device, 0));
}

static void mark(struct scale_world *world)
{
    uint64_t number;

    BENCH_OK(tarn_device_mark(world->device, &number));
}

/* ---- callbacks ----------------------------------------------------------------------------- */

static bool give_nothing(tarn_device *device, size_t wanted_bytes, void *user)
{
    (void)device;
    (void)wanted_bytes;
    (void)user;
    return false;
}

static void hear(tarn_device *device, const tarn_out_of_memory *what, void *user)
{
    (void)device;
    (void)what;
    (void)user;
}

static void add_callback(struct scale_world *world)
{
    BENCH_OK(tarn_device_add_free_callback(world->device, give_nothing, world));
}

static void remove_callback(struct scale_world *world)
{
    BENCH_OK(tarn_device_remove_free_callback(world->device, give_nothing, world));
}

static void add_observer(struct scale_world *world)
{
    BENCH_OK(tarn_device_add_oom_observer(world->device, hear, world));
}

static void remove_observer(struct scale_world *world)
{
    BENCH_OK(tarn_device_remove_oom_observer(world->device, hear, world));
}

static void have_a_life(struct scale_world *world)
{
    bench_life(world->device, 1, false);
}

const struct scale_call scale_pool_calls[] = {
    {SCALE_CALL("tarn_pool_create", NULL, create, destroy)},
    {SCALE_CALL("tarn_pool_malloc, new pool", create, allocate_first, free_and_destroy)},
    {SCALE_CALL("tarn_pool_destroy, empty", create, destroy, NULL)},
    {SCALE_CALL("tarn_pool_destroy, newest", create_and_use, destroy, NULL)},
    {SCALE_CALL("tarn_pool_destroy, oldest", empty_oldest, destroy, scale_add),
     .kinds = SCALE_POOLS},
    {SCALE_CALL("a life", NULL, have_a_life, NULL), .kinds = SCALE_LIVES},
    {SCALE_CALL("tarn_pool_release", create_and_allocate, release, free_last_and_drain)},
    {SCALE_CALL("tarn_free_on, last of released", create_and_release, free_last, scale_drain)},
    {SCALE_CALL("tarn_pool_add_peer", create, add_peer, destroy)},
    {SCALE_CALL("tarn_pool_set_limit", NULL, set_pool_limit, lift_limits)},
    {SCALE_CALL("tarn_device_open, again", NULL, open_again, close_again)},
    {SCALE_CALL("tarn_device_close, again", open_again, close_again, NULL)},
    {SCALE_CALL("tarn_device_describe", NULL, describe, NULL)},
    {SCALE_CALL("tarn_device_default_pool", NULL, get_default_pool, NULL)},
    {SCALE_CALL("tarn_device_set_limit", NULL, set_device_limit, lift_limits)},
    {SCALE_CALL("tarn_device_set_memory_fraction", NULL, set_fraction, lift_limits)},
    {SCALE_CALL("tarn_device_set_cache_limit", NULL, set_cache_limit, NULL)},
    {SCALE_CALL("tarn_device_set_pinned_cache_limit", NULL, set_pinned_cache_limit, NULL)},
    {SCALE_CALL("tarn_device_mark", NULL, mark, NULL)},
    {SCALE_CALL("tarn_device_add_free_callback", NULL, add_callback, remove_callback)},
    {SCALE_CALL("tarn_device_remove_free_callback", add_callback, remove_callback, NULL)},
    {SCALE_CALL("tarn_device_add_oom_observer", NULL, add_observer, remove_observer)},
    {SCALE_CALL("tarn_device_remove_oom_observer", add_observer, remove_observer, NULL)},
};
const size_t scale_pool_call_count = sizeof scale_pool_calls / sizeof scale_pool_calls[0];
