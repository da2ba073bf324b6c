// SPDX-License-Identifier: Apache-2.0
/* Captures made to fail at random points, in every way that there is, after a warm-up of the same graphs:
 * they leave statistics, the driver's objects and its free memory as they were. On the simulator faults
 * are planned, too.
 *   TARN_FAILING_CAPTURES  how many, 1000
 *   TARN_FAILING_SEED      a number; else always the same */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "support/world.h"

static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
    random_state ^= random_state << 13; /* xorshift64 */
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state >> 11) % below;
}

/* Whose capture it is. */
enum kind { KIND_TARN, KIND_ROUTED, KIND_ADOPTED, KINDS };

enum { BLOCKS = 8, STEPS = 9 };

struct section {
    enum kind kind;
    tarn_capture_mode mode;
    tn_cu_stream stream; /* of this section alone */
    tarn_capture *capture;
    tarn_route *route;  /* KIND_ROUTED */
    tarn_status status; /* of the last call that a planned fault may have struck */
    void *old;          /* from before */
    void *blocks[BLOCKS];
    size_t count;
};

static bool take(struct section *section, size_t bytes, tn_cu_stream stream)
{
    void *block = NULL;

    section->status = tarn_malloc(world.device, bytes, stream, &block);
    if (section->status != TARN_OK)
        return false;
    section->blocks[section->count++] = block;
    test_fill(stream, block, 7, 64);
    return true;
}

static void give(struct section *section, size_t i)
{
    OK(tarn_free(section->blocks[i]));
    section->blocks[i] = NULL;
}

static void prepare(struct section *section)
{
    section->stream = test_stream();
    section->old = test_alloc(world.pool, 300000, world.stream);
}

static bool begin(struct section *section)
{
    if (section->kind == KIND_TARN) {
        section->status = tarn_capture_begin(world.pool, section->stream,
                                             CAPTURE_MODE(section->mode), &section->capture);
        return section->status == TARN_OK;
    }
    if (section->kind == KIND_ROUTED)
        section->route = test_route(world.pool, tarn_filter_capture, section->stream);
    test_begin_capture(section->stream, (tn_cu_capture_mode)section->mode);
    return true;
}

/* One step of what is captured; false when a call was refused. */
static bool step(struct section *section, int number)
{
    switch (number) {
    case 0:
        return take(section, 65536, section->stream);
    case 1:
        return take(section, 5 * MIB, section->stream);
    case 2:
        test_order(section->stream, world.side);
        return true;
    case 3:
        return take(section, 3 * MIB, world.side);
    case 4:
        give(section, 1);
        return true;
    case 5:
        OK(tarn_free(section->old));
        section->old = NULL;
        return true;
    case 6:
        return take(section, 4 * MIB, section->stream);
    case 7:
        test_order(world.side, section->stream);
        return true;
    default:
        section->status = tarn_free_on(section->blocks[0], section->stream);
        if (section->status == TARN_OK)
            section->blocks[0] = NULL;
        return section->status == TARN_OK;
    }
}

static bool run_steps(struct section *section, int end)
{
    for (int number = 0; number < end; number++) {
        if (!step(section, number))
            return false;
    }
    return true;
}

/* What is left for the user to give back. */
static void clean_up(struct section *section)
{
    if (section->old != NULL)
        OK(tarn_free(section->old));
    for (size_t i = 0; i < section->count; i++)
        OK(tarn_free(section->blocks[i])); /* discarded ones, too */
    if (section->kind == KIND_ROUTED)
        OK(tarn_end_allocate_to_pool(section->route));
    if (section->stream != NULL)
        test_destroy_stream(section->stream);
}

/* A section that ends well. */
static tarn_graph *capture_well(struct section *section)
{
    tarn_graph *graph = NULL;

    prepare(section);
    ck_assert(begin(section) && run_steps(section, STEPS));
    if (section->kind == KIND_TARN)
        OK(tarn_capture_end(section->capture, &graph));
    else
        OK(tarn_graph_adopt(world.pool, test_end_capture(section->stream), &graph));
    return graph;
}

static void run_well(enum kind kind, tarn_capture_mode mode)
{
    struct section section = {.kind = kind, .mode = mode};
    tarn_graph *graph = capture_well(&section);

    OK(tarn_graph_replay(graph, world.stream));
    test_synchronize(world.stream);
    OK(tarn_graph_destroy(graph));
    clean_up(&section);
}

/* Two graphs that are replayed by turns on two streams: from then on the pool keeps an event for their
 * order. Two graphs may stand beside each other anywhere here, for destructors take their time. */
static void run_two(void)
{
    struct section sections[2] = {{.kind = KIND_TARN}, {.kind = KIND_TARN}};
    tarn_graph *graphs[2] = {capture_well(&sections[0]), capture_well(&sections[1])};

    for (int turn = 0; turn < 4; turn++)
        OK(tarn_graph_replay(graphs[turn % 2], turn % 2 == 0 ? world.stream : world.side));
    test_synchronize(world.stream);
    test_synchronize(world.side);
    for (int i = 0; i < 2; i++) {
        OK(tarn_graph_destroy(graphs[i]));
        clean_up(&sections[i]);
    }
}

enum way {
    WAY_BREAK,       /* a call that the mode forbids */
    WAY_UNJOINED,    /* a fork that is not joined */
    WAY_STRANGER,    /* the driver's capture is ended by a thread that may not */
    WAY_DESTROY,     /* its stream is destroyed */
    WAY_ELSEWHERE,   /* its user ends it by hand */
    WAY_GIVE_UP,     /* it is just aborted */
    WAY_ABORT_THERE, /* by another thread */
    WAY_DROP,        /* its stream is destroyed, and its handle forgotten */
    WAYS,
};

static void end_as_stranger(void *stream)
{
    tn_cu_graph graph = test_try_end_capture(stream);

    if (graph != NULL)
        test_destroy_graph(graph);
}

static void abort_capture(void *capture)
{
    OK(tarn_capture_abort(capture));
}

static void destroy_stream(struct section *section)
{
    test_destroy_stream(section->stream);
    section->stream = NULL;
}

/* Ends what the driver may still have of a capture that is the user's. */
static void end_by_hand(struct section *section)
{
    if (section->stream != NULL)
        end_as_stranger(section->stream);
}

/* Whether the way is possible: what a filter has been given must live, a relaxed capture cannot be broken
 * so, and there is nothing to abort of the user's. */
static bool is_possible(const struct section *section, enum way way)
{
    if (way == WAY_BREAK && section->mode == TARN_CAPTURE_RELAXED)
        return false;
    if (section->kind == KIND_TARN)
        return true;
    return (way < WAY_GIVE_UP && way != WAY_DESTROY) ||
           (section->kind == KIND_ADOPTED && way == WAY_DESTROY);
}

static void break_off(struct section *section, enum way way)
{
    tarn_graph *graph = UNTOUCHED;
    tarn_graph *untouched = graph;

    if (way == WAY_BREAK)
        test_break_capture();
    else if (way == WAY_UNJOINED) {
        test_order(section->stream, world.side);
        (void)take(section, 4096, world.side);
    } else if (way == WAY_STRANGER)
        test_elsewhere(end_as_stranger, section->stream);
    else if (way == WAY_DESTROY || way == WAY_DROP)
        destroy_stream(section);
    else if (way == WAY_ELSEWHERE)
        end_by_hand(section);
    if (section->kind != KIND_TARN) {
        end_by_hand(section);
        return;
    }
    if (way < WAY_GIVE_UP && draw(2) == 0) {
        STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_capture_end(section->capture, &graph));
        ck_assert_ptr_eq(graph, untouched);
    }
    if (way == WAY_ABORT_THERE)
        test_elsewhere(abort_capture, section->capture);
    else if (way != WAY_DROP)
        OK(tarn_capture_abort(section->capture));
}

/* Calls of the library that may be refused without its device being poisoned. */
static const char *const struck[] = {
    "cuMemCreate",
    "cuMemMap",
    "cuMemSetAccess",
    "cuStreamBeginCapture",
    "cuUserObjectCreate",
    "cuStreamGetCaptureInfo",
    "cuGraphRetainUserObject",
    "cuGraphInstantiateWithFlags",
    "cuMemAddressReserve",
};
static const tn_cu_result results[] = {TN_CUDA_ERROR_OUT_OF_MEMORY, TN_CUDA_ERROR_UNKNOWN,
                                       TN_CUDA_ERROR_INVALID_VALUE};

/* A section in which the driver refuses a call; whether it came to that. */
static bool fail_by_fault(struct section *section)
{
    tarn_graph *graph = NULL;
    bool met;

    section->kind = KIND_TARN; /* in the others the user's own calls would be struck */
    prepare(section);
    sim.plan_fault(struck[draw(sizeof struck / sizeof struck[0])], 1 + draw(10), draw(4) == 0,
                   (int)results[draw(3)]);
    if (begin(section) && run_steps(section, (int)draw(STEPS + 1)))
        section->status = tarn_capture_end(section->capture, &graph);
    met = sim.clear_fault(NULL) > 0;
    if (graph != NULL)
        OK(tarn_graph_destroy(graph));
    else if (section->capture != NULL)
        OK(tarn_capture_abort(section->capture));
    return met;
}

static void fail_once(void)
{
    struct section section = {.mode = (tarn_capture_mode)draw(3)};
    enum way way;

    if (test_is_simulated() && draw(3) == 0) {
        while (!fail_by_fault(&section)) {
            clean_up(&section);
            section = (struct section){.mode = (tarn_capture_mode)draw(3)};
        }
        clean_up(&section);
        return;
    }
    section.kind = (enum kind)draw(KINDS);
    do
        way = (enum way)draw(WAYS);
    while (!is_possible(&section, way));
    prepare(&section);
    ck_assert(begin(&section) && run_steps(&section, (int)draw(STEPS + 1)));
    break_off(&section, way);
    clean_up(&section);
}

/* All that must be as it was, when nothing is kept for later. */
struct books {
    struct test_device_stats device;
    struct test_stats pool;
    struct test_stats default_pool;
    tarn_sim_ledger ledger;
    size_t free_bytes;
};

static struct books read_books(void)
{
    struct books books;
    int64_t deadline = test_deadline();
    bool is_over;

    memset(&books, 0, sizeof books);
    do {
        OK(tarn_device_trim(world.device, 0, NULL));
        books.device = test_device_stats();
        books.pool = test_stats(world.pool);
        books.default_pool = test_stats(world.default_pool);
        books.ledger = test_ledger();
        is_over = books.device.pool_count == 2 &&
                  books.device.mapped_bytes + books.device.cached_bytes == 0;
    } while (!is_over && test_pause(deadline)); /* for destructors */
    books.free_bytes = test_free_bytes();
    return books;
}

static void expect_same(const struct books *before)
{
    struct books now = read_books();

#define SAME(field)                                                                                \
    ck_assert_msg(now.field == before->field, #field ": %llu, before %llu",                        \
                  (unsigned long long)now.field, (unsigned long long)before->field)
    SAME(device.pool_count);
    SAME(device.route_count);
    SAME(device.mapped_bytes);
    SAME(device.cached_bytes);
    SAME(device.live_bytes);
    SAME(device.requested_bytes);
    SAME(device.reserved_bytes);
    SAME(pool.mapped_bytes);
    SAME(pool.live_bytes);
    SAME(pool.live_count);
    SAME(pool.pending_bytes);
    SAME(pool.pending_count);
    SAME(pool.captured_bytes);
    SAME(pool.chunk_count);
    SAME(pool.capture_count);
    SAME(pool.graph_count);
    SAME(pool.arena_count);
    SAME(default_pool.mapped_bytes);
    SAME(default_pool.live_count);
    SAME(default_pool.capture_count);
    SAME(free_bytes);
#undef SAME
    test_same_ledger(&before->ledger);
    OK(tarn_pool_validate(world.pool));
    OK(tarn_pool_validate(world.default_pool));
}

SUITE("failing captures")
GROUP(captures, test_world_open, test_world_close, .timeout = 300)

TEST(captures, failing_captures_leave_everything_as_it_was)
{
    uint64_t count = test_setting("TARN_FAILING_CAPTURES", 1000);
    uint64_t seed = test_seed("TARN_FAILING_SEED", 4);
    struct books before;

    printf("to repeat: TARN_FAILING_SEED=%llu TARN_FAILING_CAPTURES=%llu\n",
           (unsigned long long)seed, (unsigned long long)count);
    random_state = seed * 0x9e3779b97f4a7c15U + 1;
    for (int round = 0; round < 3; round++) {
        for (int kind = 0; kind < KINDS; kind++)
            run_well((enum kind)kind, (tarn_capture_mode)round);
    }
    run_two();
    before = read_books();
    for (uint64_t i = 1; i <= count; i++) {
        fail_once();
        if (i % 50 == 0 || i == count)
            expect_same(&before);
    }
    for (int kind = 0; kind < KINDS; kind++)
        run_well((enum kind)kind, TARN_CAPTURE_GLOBAL);
    expect_same(&before);
}
