// SPDX-License-Identifier: Apache-2.0
/* Calls for captures, graphs and checkpoints. The graph of a call has a single kernel: what the
 * call does for the graph's nodes is the same beside each population. */
#include "scale.h"

enum { BYTES = 16 << 10, WARM_UP_REPLAYS = 50 };

static void allocate(struct scale_world *world)
{
    BENCH_OK(tarn_malloc(world->device, BYTES, world->stream, &world->block));
}

static void free_block(struct scale_world *world)
{
    BENCH_OK(tarn_free(world->block));
}

static void end(struct scale_world *world)
{
    BENCH_OK(tarn_capture_end(world->capture, &world->graph));
}

static void abort_capture(struct scale_world *world)
{
    BENCH_OK(tarn_capture_abort(world->capture));
}

static void destroy(struct scale_world *world)
{
    BENCH_OK(tarn_graph_destroy(world->graph));
}

static void destroy_and_drain(struct scale_world *world)
{
    destroy(world);
    scale_drain(world);
}

static void end_and_destroy(struct scale_world *world)
{
    end(world);
    destroy_and_drain(world);
}

static void begin_and_work(struct scale_world *world)
{
    scale_capture_begin(world);
    scale_capture_work(world);
}

static void begin_and_allocate(struct scale_world *world)
{
    scale_capture_begin(world);
    allocate(world);
}

static void free_end_and_destroy(struct scale_world *world)
{
    free_block(world);
    end_and_destroy(world);
}

static void capture_all(struct scale_world *world)
{
    world->graph = scale_capture(world);
}

static void destroy_oldest(struct scale_world *world)
{
    BENCH_OK(tarn_graph_destroy(scale_take_oldest(world).handle));
}

static void replay(struct scale_world *world)
{
    BENCH_OK(tarn_graph_replay(world->graph, world->stream));
}

/* Until the order of the replays belongs to this thread. */
static void capture_and_replay(struct scale_world *world)
{
    capture_all(world);
    for (int i = 0; i < WARM_UP_REPLAYS; i++)
        replay(world);
    bench_stream_drain(world->stream);
}

static void capture_and_replay_on_other(struct scale_world *world)
{
    capture_all(world);
    BENCH_OK(tarn_graph_replay(world->graph, world->other));
}

static void drain_other_and_destroy(struct scale_world *world)
{
    bench_stream_drain(world->other);
    destroy_and_drain(world);
}

static void capture_and_begin(struct scale_world *world)
{
    capture_all(world);
    begin_and_work(world);
}

static void update(struct scale_world *world)
{
    BENCH_OK(tarn_graph_update(world->graph, world->capture));
}

static void get_handles(struct scale_world *world)
{
    BENCH_OK(tarn_graph_driver_handles(world->graph, &world->driver_graph, NULL));
}

/* ---- captures of the program's own ----------------------------------------------------------- */

static void capture_routed(struct scale_world *world)
{
    world->driver_graph = scale_capture_plain(world, true);
}

static void adopt(struct scale_world *world)
{
    BENCH_OK(tarn_graph_adopt(world->pool, world->driver_graph, &world->graph));
}

static void begin_plain(struct scale_world *world)
{
    BENCH_CU(cu.cuStreamBeginCapture(world->stream, TN_CU_CAPTURE_MODE_RELAXED));
}

static void end_plain(struct scale_world *world)
{
    free_block(world);
    BENCH_CU(cu.cuStreamEndCapture(world->stream, &world->driver_graph));
    BENCH_CU(cu.cuGraphDestroy(world->driver_graph));
    scale_drain(world);
}

/* The pool that Tarn has adopted for it is to go, too. */
static void end_adopted(struct scale_world *world)
{
    world->driver_graph = scale_capture_plain(world, false);
    BENCH_CU(cu.cuGraphDestroy(world->driver_graph));
}

static void end_oldest_adopted(struct scale_world *world)
{
    BENCH_CU(cu.cuGraphDestroy(scale_take_oldest(world).handle));
}

static void allocate_on_new(struct scale_world *world)
{
    world->made = bench_stream_create();
    BENCH_OK(tarn_malloc(world->device, BYTES, world->made, &world->block));
}

static void end_new(struct scale_world *world)
{
    free_block(world);
    BENCH_OK(tarn_stream_retire(world->device, world->made));
    bench_stream_destroy(world->made);
    scale_drain(world);
}

static void end_new_and_add(struct scale_world *world)
{
    end_new(world);
    scale_add(world);
}

/* ---- guards, audits, comparisons -------------------------------------------------------------- */

static void guard(struct scale_world *world)
{
    BENCH_OK(tarn_graph_guard(world->graph, TARN_GUARD_REFUSE, NULL));
}

static void capture_and_guard(struct scale_world *world)
{
    capture_all(world);
    guard(world);
}

static void check(struct scale_world *world)
{
    BENCH_OK(tarn_graph_check(world->graph));
}

static void audit(struct scale_world *world)
{
    BENCH_OK(tarn_graph_audit(world->graph, NULL, &world->audit));
}

static void audit_driver_graph(struct scale_world *world)
{
    BENCH_OK(tarn_driver_graph_audit(world->device, world->driver_graph, NULL, &world->audit));
}

static void capture_and_get_handles(struct scale_world *world)
{
    capture_all(world);
    get_handles(world);
}

static void end_audit(struct scale_world *world)
{
    tarn_audit_destroy(world->audit);
    destroy_and_drain(world);
}

static void capture_two(struct scale_world *world)
{
    capture_all(world);
    world->graph_too = world->graph;
    capture_all(world);
}

static void compare(struct scale_world *world)
{
    BENCH_OK(tarn_graph_compare(world->graph, world->graph_too, &world->diff));
}

static void end_two(struct scale_world *world)
{
    tarn_graph_diff_destroy(world->diff);
    BENCH_OK(tarn_graph_destroy(world->graph_too));
    destroy_and_drain(world);
}

static void read_memory(struct scale_world *world)
{
    tarn_graph_memory_info memory = TARN_GRAPH_MEMORY_INFO_INIT;

    BENCH_OK(tarn_graph_memory(world->graph, &memory));
}

static void read_device_memory(struct scale_world *world)
{
    tarn_graph_memory_info memory = TARN_GRAPH_MEMORY_INFO_INIT;

    BENCH_OK(tarn_device_graph_memory(world->device, &memory));
}

/* ---- checkpoints ------------------------------------------------------------------------------ */

static void take(struct scale_world *world)
{
    BENCH_OK(
        tarn_checkpoint_take(world->pool, TARN_CONTENTS_NONE, world->stream, &world->checkpoint));
}

static void restore(struct scale_world *world)
{
    BENCH_OK(tarn_checkpoint_restore(world->checkpoint, world->stream, NULL));
}

static void end_checkpoint(struct scale_world *world)
{
    BENCH_OK(tarn_checkpoint_destroy(world->checkpoint));
}

static void end_checkpoint_and_drain(struct scale_world *world)
{
    end_checkpoint(world);
    scale_drain(world);
}

static void end_oldest_checkpoint(struct scale_world *world)
{
    BENCH_OK(tarn_checkpoint_destroy(scale_take_oldest(world).handle));
}

#define GRAPH_KINDS (SCALE_GRAPHS | SCALE_OUTPUTS | SCALE_GUARDED)
#define TAKEN_KINDS (SCALE_LIVE | SCALE_PENDING)

const struct scale_call scale_graph_calls[] = {
    {SCALE_CALL("tarn_capture_begin", NULL, scale_capture_begin, end_and_destroy)},
    {SCALE_CALL("tarn_malloc, in a capture", scale_capture_begin, allocate, free_end_and_destroy)},
    {SCALE_CALL("tarn_free, in a capture", begin_and_allocate, free_block, end_and_destroy)},
    {SCALE_CALL("tarn_capture_end", begin_and_work, end, destroy_and_drain)},
    {SCALE_CALL("tarn_capture_abort", begin_and_work, abort_capture, scale_drain)},
    {SCALE_CALL("tarn_graph_replay", capture_and_replay, replay, destroy_and_drain)},
    {SCALE_CALL("tarn_graph_replay, other stream", capture_and_replay_on_other, replay,
                drain_other_and_destroy)},
    {SCALE_CALL("tarn_graph_update", capture_and_begin, update, destroy_and_drain)},
    {SCALE_CALL("tarn_graph_driver_handles", capture_all, get_handles, destroy_and_drain)},
    {SCALE_CALL("tarn_graph_destroy, newest", capture_all, destroy, scale_drain)},
    {SCALE_CALL("tarn_graph_destroy, oldest", NULL, destroy_oldest, scale_add),
     .kinds = GRAPH_KINDS},
    {SCALE_CALL("tarn_graph_adopt", capture_routed, adopt, destroy_and_drain)},
    {SCALE_CALL("tarn_malloc, adopts a pool", begin_plain, allocate, end_plain)},
    {SCALE_CALL("tarn_malloc, behind adopted", end_adopted, allocate_on_new, end_new)},
    {SCALE_CALL("tarn_malloc, behind adopted, oldest", end_oldest_adopted, allocate_on_new,
                end_new_and_add),
     .kinds = SCALE_ADOPTED},
    {SCALE_CALL("tarn_graph_guard", capture_all, guard, destroy_and_drain)},
    {SCALE_CALL("tarn_graph_check", capture_and_guard, check, destroy_and_drain)},
    {SCALE_CALL("tarn_graph_destroy, guarded", capture_and_guard, destroy, scale_drain)},
    {SCALE_CALL("tarn_graph_audit", capture_all, audit, end_audit)},
    {SCALE_CALL("tarn_driver_graph_audit", capture_and_get_handles, audit_driver_graph, end_audit)},
    {SCALE_CALL("tarn_graph_compare", capture_two, compare, end_two)},
    {SCALE_CALL("tarn_graph_memory", capture_all, read_memory, destroy_and_drain)},
    {SCALE_CALL("tarn_device_graph_memory", NULL, read_device_memory, NULL),
     .proportional = "graphs", .proportional_kinds = GRAPH_KINDS | SCALE_ADOPTED},
    {SCALE_CALL("tarn_checkpoint_take", NULL, take, end_checkpoint_and_drain),
     .proportional = "the pool's blocks", .proportional_kinds = TAKEN_KINDS},
    {SCALE_CALL("tarn_checkpoint_restore", take, restore, end_checkpoint_and_drain),
     .proportional = "the pool's blocks", .proportional_kinds = TAKEN_KINDS},
    {SCALE_CALL("tarn_checkpoint_destroy, newest", take, end_checkpoint, scale_drain),
     .proportional = "the pool's blocks", .proportional_kinds = TAKEN_KINDS},
    {SCALE_CALL("tarn_checkpoint_destroy, oldest", NULL, end_oldest_checkpoint, scale_add),
     .kinds = SCALE_CHECKPOINTS},
};
const size_t scale_graph_call_count = sizeof scale_graph_calls / sizeof scale_graph_calls[0];
