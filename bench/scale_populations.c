// SPDX-License-Identifier: Apache-2.0
/* Each population is in the default pool and in the private one, where both can have it; streams with
 * memory are two populations, since valgrind knows 30,000 mappings at most. A pool of many blocks has
 * them on the calling stream. */
#include "life.h"
#include "scale.h"

enum { SMALL_BYTES = 512, CHUNK_BYTES = 2 << 20 };

static const char weights_ptx[] = ".version 7.0\n"
                                  ".target sm_70\n"
                                  ".address_size 64\n"
                                  ".visible .entry tarn_scale_weights(\n"
                                  "    .param .align 8 .b8 weights[1600])\n"
                                  "{\n"
                                  "    ret;\n"
                                  "}\n";
_Static_assert(SCALE_WEIGHTS * sizeof(void *) == 1600, "as the kernel says");

/* No weights kernel ever runs. */
static void weights_twin(const tarn_sim_launch *launch, void *const *params)
{
    (void)launch;
    (void)params;
}

void scale_drain(struct scale_world *world)
{
    bench_stream_drain(world->stream);
    BENCH_OK(tarn_device_collect(world->device));
}

void scale_add(struct scale_world *world)
{
    if (world->count == SCALE_ITEMS_MAX)
        bench_fail("a population has at most %d items", SCALE_ITEMS_MAX);
    world->items[world->count] = (struct scale_item){0};
    world->population->add(world, &world->items[world->count]);
    world->count += 1;
}

struct scale_item scale_take_oldest(struct scale_world *world)
{
    if (world->first == world->count)
        bench_fail("the population is empty");
    world->first += 1;
    return world->items[world->first - 1];
}

void scale_keep(struct scale_world *world)
{
    if (world->kept_count == SCALE_KEPT_MAX)
        bench_fail("calls keep at most %d blocks", SCALE_KEPT_MAX);
    world->kept[world->kept_count] = world->block;
    world->kept_count += 1;
}

void scale_end_kept(struct scale_world *world)
{
    while (world->kept_count > 0) {
        world->kept_count -= 1;
        BENCH_OK(tarn_free(world->kept[world->kept_count]));
    }
    BENCH_OK(tarn_device_trim(world->device, 0, NULL));
}

/* ---- streams ------------------------------------------------------------------------------- */

static void add_stream(struct scale_world *world, struct scale_item *item)
{
    item->handle = bench_stream_create();
    BENCH_OK(tarn_malloc(world->device, SMALL_BYTES, item->handle, &item->block));
}

static void add_private_stream(struct scale_world *world, struct scale_item *item)
{
    item->handle = bench_stream_create();
    BENCH_OK(tarn_pool_malloc(world->pool, SMALL_BYTES, 0, item->handle, &item->block));
}

static void add_known_stream(struct scale_world *world, struct scale_item *item)
{
    item->handle = bench_stream_create();
    BENCH_OK(tarn_malloc(world->device, SMALL_BYTES, world->stream, &item->block));
    BENCH_OK(tarn_record_stream(item->block, item->handle));
}

static void add_used_stream(struct scale_world *world, struct scale_item *item)
{
    struct scale_item blocks;

    item->handle = bench_stream_create();
    BENCH_OK(tarn_malloc(world->device, SMALL_BYTES, item->handle, &blocks.handle));
    BENCH_OK(tarn_pool_malloc(world->pool, SMALL_BYTES, 0, item->handle, &blocks.block));
    BENCH_OK(tarn_free(blocks.handle));
    BENCH_OK(tarn_free(blocks.block));
}

static void add_gone_stream(struct scale_world *world, struct scale_item *item)
{
    add_used_stream(world, item);
    bench_stream_destroy(item->handle);
}

static void add_retired_stream(struct scale_world *world, struct scale_item *item)
{
    add_used_stream(world, item);
    BENCH_OK(tarn_stream_retire(world->device, item->handle));
    bench_stream_destroy(item->handle);
    scale_drain(world);
}

/* ---- blocks -------------------------------------------------------------------------------- */

static void add_block(struct scale_world *world, struct scale_item *item)
{
    BENCH_OK(tarn_malloc(world->device, SMALL_BYTES, world->stream, &item->handle));
    BENCH_OK(tarn_pool_malloc(world->pool, SMALL_BYTES, 0, world->stream, &item->block));
}

static void add_chunk(struct scale_world *world, struct scale_item *item)
{
    BENCH_OK(tarn_malloc(world->device, CHUNK_BYTES, world->stream, &item->handle));
    BENCH_OK(tarn_pool_malloc(world->pool, CHUNK_BYTES, 0, world->stream, &item->block));
}

/* Every second block becomes free, once those before and behind it are there. */
static void free_between(struct scale_world *world)
{
    for (size_t i = world->settled; i + 1 < world->count; i += 2) {
        BENCH_OK(tarn_free(world->items[i].handle));
        BENCH_OK(tarn_free(world->items[i].block));
        world->settled = i + 2;
    }
}

/* From now on the driver says of each event that the work before it goes on. */
static void open_pending(struct scale_world *world)
{
    (void)world;
    cu.set_queries(1);
}

static void add_pending_block(struct scale_world *world, struct scale_item *item)
{
    struct scale_item blocks;

    (void)item;
    add_block(world, &blocks);
    BENCH_OK(tarn_free_on(blocks.handle, world->other));
    BENCH_OK(tarn_free_on(blocks.block, world->other));
}

static size_t count_pending(struct scale_world *world)
{
    tarn_stats stats = TARN_STATS_INIT;

    BENCH_OK(tarn_pool_stats(world->pool, &stats));
    return (size_t)stats.pending_blocks.all.current;
}

/* ---- graphs -------------------------------------------------------------------------------- */

void scale_capture_begin(struct scale_world *world)
{
    BENCH_OK(tarn_capture_begin(world->pool, world->stream, NULL, &world->capture));
}

void scale_capture_work(struct scale_world *world)
{
    void *word = NULL;

    BENCH_OK(tarn_malloc(world->device, SMALL_BYTES, world->stream, &word));
    bench_touch_launch(world->stream, word);
    BENCH_OK(tarn_free(word));
}

tarn_graph *scale_capture(struct scale_world *world)
{
    tarn_graph *graph = NULL;

    scale_capture_begin(world);
    scale_capture_work(world);
    BENCH_OK(tarn_capture_end(world->capture, &graph));
    return graph;
}

tarn_driver_graph scale_capture_plain(struct scale_world *world, bool routed)
{
    tarn_driver_graph graph = NULL;
    tarn_route *route = NULL;

    if (routed)
        BENCH_OK(tarn_begin_allocate_to_pool(world->device, world->pool, tarn_filter_stream,
                                             world->stream, &route));
    BENCH_CU(cu.cuStreamBeginCapture(world->stream, TN_CU_CAPTURE_MODE_RELAXED));
    scale_capture_work(world);
    BENCH_CU(cu.cuStreamEndCapture(world->stream, &graph));
    if (routed)
        BENCH_OK(tarn_end_allocate_to_pool(route));
    return graph;
}

static void add_graph(struct scale_world *world, struct scale_item *item)
{
    item->handle = scale_capture(world);
}

static void add_output(struct scale_world *world, struct scale_item *item)
{
    tarn_graph *graph = NULL;

    scale_capture_begin(world);
    BENCH_OK(tarn_malloc(world->device, SMALL_BYTES, world->stream, &item->block));
    bench_touch_launch(world->stream, item->block);
    BENCH_OK(tarn_capture_end(world->capture, &graph));
    item->handle = graph;
}

static void add_adopted_graph(struct scale_world *world, struct scale_item *item)
{
    item->handle = scale_capture_plain(world, false);
}

static void open_weights(struct scale_world *world)
{
    tn_cu_module module;

    if (cu.register_kernel("tarn_scale_weights", weights_twin) != 0)
        bench_fail("the simulated driver does not take the kernel's twin");
    BENCH_CU(cu.cuModuleLoadData(&module, weights_ptx));
    BENCH_CU(cu.cuModuleGetFunction(&world->weights_kernel, module, "tarn_scale_weights"));
    for (size_t i = 0; i < SCALE_WEIGHTS; i++)
        BENCH_OK(tarn_malloc(world->device, SMALL_BYTES, world->stream, &world->weights[i]));
}

void scale_weights_launch(struct scale_world *world)
{
    void *params[] = {world->weights};

    BENCH_CU(
        cu.cuLaunchKernel(world->weights_kernel, 1, 1, 1, 1, 1, 1, 0, world->stream, params, NULL));
}

static void add_guarded_graph(struct scale_world *world, struct scale_item *item)
{
    tarn_graph *graph = NULL;

    scale_capture_begin(world);
    scale_capture_work(world);
    scale_weights_launch(world);
    BENCH_OK(tarn_capture_end(world->capture, &graph));
    BENCH_OK(tarn_graph_guard(graph, TARN_GUARD_REFUSE, NULL));
    item->handle = graph;
}

/* ---- pools and checkpoints ----------------------------------------------------------------- */

static void add_pool(struct scale_world *world, struct scale_item *item)
{
    tarn_pool *pool = NULL;

    BENCH_OK(tarn_pool_create(world->device, NULL, &pool));
    BENCH_OK(tarn_pool_malloc(pool, SMALL_BYTES, 0, world->stream, &item->block));
    item->handle = pool;
}

static void add_released_pool(struct scale_world *world, struct scale_item *item)
{
    add_pool(world, item);
    BENCH_OK(tarn_pool_release(item->handle));
    item->handle = item->block;
}

static void add_checkpoint(struct scale_world *world, struct scale_item *item)
{
    tarn_checkpoint *checkpoint = NULL;

    BENCH_OK(tarn_checkpoint_take(world->pool, TARN_CONTENTS_NONE, world->stream, &checkpoint));
    item->handle = checkpoint;
}

static void add_life(struct scale_world *world, struct scale_item *item)
{
    (void)item;
    bench_life(world->device, world->count, false);
}

#define POPULATION(the_name, the_kind, the_add)                                                    \
    .name = (the_name), .kind = (the_kind), .sizes = {1, 100, 10000}, .add = (the_add)
#define MILLION(the_name, the_kind, the_add)                                                       \
    .name = (the_name), .kind = (the_kind), .sizes = {1, 100, 10000, 1000000}, .add = (the_add)

const struct scale_population scale_populations[] = {
    {.name = "pending blocks",
     .kind = SCALE_PENDING,
     .sizes = {1, 100, 10000, 100000},
     .add = add_pending_block,
     .open = open_pending,
     .left = count_pending},
    {MILLION("live blocks", SCALE_BLOCKS, add_block)},
    {MILLION("every second block free", SCALE_HOLES, add_block), .settle = free_between},
    /* At least 250 of these are always there: an arena ends some 250 locks after its last use
     * (pools/arenas.h). */
    {.name = "streams gone",
     .kind = SCALE_GONE,
     .sizes = {250, 1000, 8000},
     .add = add_gone_stream},
    {POPULATION("streams with memory", SCALE_STREAMS, add_stream)},
    {POPULATION("streams with private memory", SCALE_STREAMS, add_private_stream)},
    {POPULATION("guarded graphs", SCALE_GUARDED, add_guarded_graph), .open = open_weights},
    {POPULATION("pools", SCALE_POOLS, add_pool)},
    {POPULATION("adopted graphs", SCALE_ADOPTED, add_adopted_graph)},
    {POPULATION("released pools", SCALE_RELEASED, add_released_pool)},
    {POPULATION("graphs", SCALE_GRAPHS, add_graph)},
    {POPULATION("graphs with outputs", SCALE_OUTPUTS, add_output)},
    {POPULATION("streams recorded", SCALE_RECORDED, add_known_stream)},
    {POPULATION("streams retired", SCALE_RETIRED, add_retired_stream)},
    {POPULATION("live chunks", SCALE_CHUNKS, add_chunk)},
    {POPULATION("checkpoints", SCALE_CHECKPOINTS, add_checkpoint)},
    {POPULATION("lives", SCALE_LIVES, add_life)},
};
const size_t scale_population_count = sizeof scale_populations / sizeof scale_populations[0];
