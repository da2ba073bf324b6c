// SPDX-License-Identifier: Apache-2.0
/* Free-memory callbacks, and other threads, that end what the call around them uses: its pool, device, checkpoint,
 * stream or capture. The device has 256 MiB, and a block in the way, which the callback frees. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "support/world.h"

enum { ASKED_MIB = 100, IN_THE_WAY_MIB = 200 };

static tarn_pool *others; /* of the block in the way */
static void *in_the_way;
static void *saved; /* that a checkpoint has */
static tarn_checkpoint *checkpoint;
static tarn_capture *capture;
static tarn_graph *graph;
static tn_cu_stream stream; /* of the call */

static void open_small(void)
{
    ck_assert_int_eq(setenv("TARN_SIM_MEMORY_MIB", "256", 1), 0);
    test_world_open();
    others = test_pool("others");
    stream = test_stream();
}

/* The record that a pool had is another's next: nothing of the call may be left in it. */
static void close_small(void)
{
    tarn_pool *next = test_pool("next");
    struct test_stats stats = test_stats(next);

    ck_assert_uint_eq(stats.live_count, 0);
    ck_assert_uint_eq(stats.mapped_bytes, 0);
    OK(tarn_pool_validate(next));
    OK(tarn_pool_destroy(next));
    OK(tarn_pool_destroy(others));
    if (world.pool == NULL)
        world.pool = test_pool("again");
    if (stream != NULL)
        test_destroy_stream(stream);
    test_world_close();
}

enum call { CALL_ALLOC, CALL_RESERVE, CALL_RESTORE, CALL_TAKE, CALL_DEFAULT, CALLS };

/* What the call needs to be there, and that there is no memory for it. */
static void prepare(enum call call)
{
    if (call == CALL_RESTORE || call == CALL_TAKE) {
        saved = test_alloc(world.pool, (call == CALL_TAKE ? 50 : ASKED_MIB) * MIB, stream);
        if (call == CALL_RESTORE) {
            OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, stream, &checkpoint));
            OK(tarn_free(saved));
            test_synchronize(stream);
            OK(tarn_pool_trim(world.pool, NULL));
        }
    }
    OK(tarn_device_trim(world.device, 0, NULL));
    in_the_way = test_alloc(others, IN_THE_WAY_MIB * MIB, world.side);
}

static tarn_status make(enum call call, void **address)
{
    *address = NULL;
    switch (call) {
    case CALL_ALLOC:
        return tarn_pool_malloc(world.pool, ASKED_MIB * MIB, 0, stream, address);
    case CALL_RESERVE:
        return tarn_pool_reserve(world.pool, ASKED_MIB * MIB, stream);
    case CALL_RESTORE:
        return tarn_checkpoint_restore(checkpoint, stream, NULL);
    case CALL_TAKE:
        return tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, stream, &checkpoint);
    default:
        return tarn_malloc(world.device, ASKED_MIB * MIB, stream, address);
    }
}

/* Frees all of the world's pool that is live. */
static void free_all(void)
{
    tarn_layout *layout;

    OK(tarn_pool_layout(world.pool, &layout));
    for (size_t i = 0; i < layout->extent_count; i++) {
        if (layout->extents[i].state == TARN_EXTENT_LIVE)
            OK(tarn_free(layout->extents[i].address));
    }
    tarn_layout_destroy(layout);
}

static void clear_away(void *address, bool released)
{
    if (address != NULL)
        OK(tarn_free(address));
    if (!released) {
        free_all();
        OK(tarn_pool_validate(world.pool));
    }
    if (checkpoint != NULL)
        OK(tarn_checkpoint_destroy(checkpoint));
    checkpoint = NULL;
}

static int acted;

/* Then there is memory. */
static bool act(tarn_device *device, size_t wanted_bytes, void *user)
{
    void (*action)(void) = *(void (**)(void))user;

    (void)device;
    (void)wanted_bytes;
    if (in_the_way == NULL)
        return false;
    acted += 1;
    action();
    OK(tarn_free(in_the_way));
    in_the_way = NULL;
    return true;
}

static void call_with(enum call call, void (*action)(void), void **address)
{
    acted = 0;
    OK(tarn_device_add_free_callback(world.device, act, (void *)&action));
    OK(make(call, address));
    ck_assert_int_eq(acted, 1);
    OK(tarn_device_remove_free_callback(world.device, act, (void *)&action));
}

static void destroy_pool(void)
{
    STATUS(TARN_ERR_BUSY, tarn_pool_destroy(world.pool));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "1 calls under way"));
}

SUITE("calls whose objects are ended")
GROUP(callback, open_small, close_small, .name = "in a callback")

TEST_LOOP(callback, a_pool_whose_call_this_is_cannot_be_destroyed, 0, CALL_DEFAULT)
{
    void *address;

    prepare((enum call)_i);
    call_with((enum call)_i, destroy_pool, &address);
    clear_away(address, false);
}

static void close_device(void)
{
    tarn_status status = tarn_pool_destroy(others); /* in use; then the call is all that keeps it */

    ck_assert_int_eq(status, TARN_ERR_BUSY);
    STATUS(TARN_ERR_BUSY, tarn_device_close(world.device));
}

TEST_LOOP(callback, a_device_whose_call_this_is_cannot_be_closed, 0, CALLS)
{
    void *address;

    prepare((enum call)_i);
    call_with((enum call)_i, close_device, &address);
    clear_away(address, false);
}

static void give_up_all_but_the_call(void)
{
    OK(tarn_free(in_the_way));
    OK(tarn_pool_release(others));
    OK(tarn_pool_release(world.pool));
    STATUS(TARN_ERR_BUSY, tarn_device_close(world.device));
    others = test_pool("others");
    in_the_way = test_alloc(others, MIB, world.side);
}

TEST(callback, a_device_is_kept_by_the_call_alone)
{
    void *address;

    OK(tarn_pool_destroy(world.pool));
    prepare(CALL_DEFAULT);
    world.pool = test_pool("idle");
    call_with(CALL_DEFAULT, give_up_all_but_the_call, &address);
    world.pool = NULL;
    OK(tarn_free(address));
}

static void release_pool(void)
{
    OK(tarn_pool_release(world.pool));
}

TEST_LOOP(callback, a_pool_that_is_released_goes_when_the_call_has_ended, 0, CALL_DEFAULT)
{
    void *address;
    uint64_t count;

    prepare((enum call)_i);
    count = test_device_stats().pool_count;
    call_with((enum call)_i, release_pool, &address);
    if (_i != CALL_ALLOC && _i != CALL_RESERVE)
        ck_assert_uint_eq(test_device_stats().pool_count,
                          count); /* blocks and checkpoint keep it */
    if (_i == CALL_RESTORE || _i == CALL_TAKE) {
        OK(tarn_free(saved));
        ck_assert_uint_eq(test_device_stats().pool_count, count); /* for the checkpoint */
    }
    clear_away(address, true);
    test_synchronize(stream);
    OK(tarn_device_trim(world.device, 0, NULL));
    ck_assert_uint_eq(test_device_stats().pool_count, count - 1);
    world.pool = NULL;
}

static void destroy_checkpoint(void)
{
    STATUS(TARN_ERR_BUSY, tarn_checkpoint_destroy(checkpoint));
}

TEST(callback, a_checkpoint_that_is_being_restored_cannot_be_destroyed)
{
    void *address;

    prepare(CALL_RESTORE);
    call_with(CALL_RESTORE, destroy_checkpoint, &address);
    clear_away(address, false);
}

/* Where nothing is to be enqueued on it. */
static void destroy_stream(void)
{
    test_destroy_stream(stream);
    stream = NULL;
}

TEST_LOOP(callback, a_stream_may_be_destroyed_while_memory_is_looked_for, 0, 3)
{
    enum call call = _i == 2 ? CALL_DEFAULT : (enum call)_i;
    void *address;

    prepare(call);
    call_with(call, destroy_stream, &address);
    clear_away(address, false);
}

static void end_capture(void)
{
    OK(tarn_capture_end(capture, &graph));
}

static void abort_capture(void)
{
    OK(tarn_capture_abort(capture));
}

/* _i: whether it is aborted. */
TEST_LOOP(callback, an_allocation_whose_capture_ends_meanwhile_is_refused, 0, 2)
{
    void (*action)(void) = _i == 0 ? end_capture : abort_capture;
    void *address = UNTOUCHED;

    prepare(CALL_ALLOC);
    acted = 0;
    OK(tarn_device_add_free_callback(world.device, act, (void *)&action));
    capture = test_capture_on(world.pool, stream, TARN_CAPTURE_RELAXED);
    STATUS(TARN_ERR_CAPTURE_BROKEN,
           tarn_pool_malloc(world.pool, ASKED_MIB * MIB, 0, stream, &address));
    ck_assert_untouched(address);
    ck_assert_int_eq(acted, 1);
    if (_i == 0)
        OK(tarn_graph_destroy(graph));
    OK(tarn_device_remove_free_callback(world.device, act, (void *)&action));
    OK(tarn_pool_validate(world.pool));
}

/* The program's own capture. */
static tn_cu_graph own_graph;

static void end_own_capture(void)
{
    own_graph = test_end_capture(stream);
}

/* Its graph lives on. _i: no route, one by the capture, one by the thread. */
TEST_LOOP(callback, an_allocation_is_refused_where_the_program_has_ended_its_capture, 0, 3)
{
    tarn_route *route = NULL;

    void (*action)(void) = end_own_capture;
    void *address = UNTOUCHED;
    void *before;

    prepare(CALL_DEFAULT);
    acted = 0;
    OK(tarn_device_add_free_callback(world.device, act, (void *)&action));
    if (_i > 0)
        route = test_route(world.pool, _i == 1 ? tarn_filter_capture : tarn_filter_thread,
                           _i == 1 ? stream : NULL);
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tarn_malloc(world.device, MIB, stream, &before));
    STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_malloc(world.device, ASKED_MIB * MIB, stream, &address));
    ck_assert_untouched(address);
    ck_assert_int_eq(acted, 1);
    OK(tarn_free(before));
    test_destroy_graph(own_graph);
    if (_i > 0)
        OK(tarn_end_allocate_to_pool(route));
    OK(tarn_device_remove_free_callback(world.device, act, (void *)&action));
    test_await_destructors(0);
    OK(tarn_device_trim(world.device, 0, NULL));
}

static void begin_capture(void)
{
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
}

/* What was copied would be copied by the graph, and not by the call. _i: a take or a restore, with contents. */
TEST_LOOP(callback, a_checkpoint_is_refused_on_a_stream_that_is_captured_meanwhile, 0, 2)
{
    void (*action)(void) = begin_capture;
    tarn_checkpoint *taken = NULL;
    void *block = test_alloc(world.pool, 50 * MIB, stream);

    if (_i != 0) {
        OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_HOST, stream, &checkpoint));
        OK(tarn_free(block));
        test_synchronize(stream);
        OK(tarn_pool_trim(world.pool, NULL));
    }
    OK(tarn_device_trim(world.device, 0, NULL));
    in_the_way = test_alloc(others, (_i == 0 ? 180 : 220) * MIB, world.side);
    acted = 0;
    OK(tarn_device_add_free_callback(world.device, act, (void *)&action));
    if (_i == 0)
        STATUS(TARN_ERR_WRONG_STATE,
               tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, stream, &taken));
    else
        STATUS(TARN_ERR_WRONG_STATE, tarn_checkpoint_restore(checkpoint, stream, NULL));
    ck_assert_int_eq(acted, 1);
    ck_assert_ptr_null(taken);
    test_drop_capture(stream);
    OK(tarn_device_remove_free_callback(world.device, act, (void *)&action));
    if (_i == 0)
        OK(tarn_free(block));
    else
        OK(tarn_checkpoint_restore(checkpoint, stream, NULL));
    clear_away(NULL, false);
}

/* Observers: memory is missing for good. */
static void observe(tarn_device *device, const tarn_out_of_memory *what, void *user)
{
    void (*action)(void) = *(void (**)(void))user;

    (void)device;
    (void)what;
    acted += 1;
    action();
}

static void close_in_observer(void)
{
    STATUS(TARN_ERR_BUSY, tarn_device_close(world.device));
}

/* A released pool goes behind the call. */
TEST_LOOP(callback, what_an_observer_ends_is_the_calls_as_long_as_that_is_under_way, 0, 3)
{
    static void (*const actions[])(void) = {destroy_pool, close_in_observer, release_pool};
    void (*action)(void) = actions[_i];
    void *address = UNTOUCHED;

    OK(tarn_device_add_oom_observer(world.device, observe, (void *)&action));
    acted = 0;
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_pool_malloc(world.pool, 300 * MIB, 0, stream, &address));
    ck_assert_untouched(address);
    ck_assert_int_eq(acted, 1);
    OK(tarn_device_remove_oom_observer(world.device, observe, (void *)&action));
    if (action == release_pool) {
        ck_assert_uint_eq(test_device_stats().pool_count, 2); /* the default one, and others */
        world.pool = NULL;
    } else {
        OK(tarn_pool_validate(world.pool));
    }
    OK(tarn_free(test_alloc(others, MIB, stream)));
}

/* Other threads. */
static atomic_int stage; /* 1: inside, 2: go on */

static void stand(void)
{
    atomic_store(&stage, 1);
    while (atomic_load(&stage) != 2)
        continue;
}

static void *allocate(void *result)
{
    void (*action)(void) = stand;
    void *address = NULL;

    call_with(CALL_ALLOC, action, &address);
    *(void **)result = address;
    return NULL;
}

TEST(callback, a_pool_that_another_thread_allocates_from_cannot_be_destroyed)
{
    pthread_t thread;
    void *address = NULL;

    prepare(CALL_ALLOC);
    ck_assert_int_eq(pthread_create(&thread, NULL, allocate, &address), 0);
    while (atomic_load(&stage) != 1)
        continue;
    destroy_pool();
    STATUS(TARN_ERR_BUSY, tarn_device_close(world.device));
    atomic_store(&stage, 2);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    clear_away(address, false);
}

static tarn_pool *_Atomic shared;
static atomic_bool over;

/* Whatever becomes of the pool, a call with its handle answers for it, or that it is none. */
static void *use_shared(void *side)
{
    size_t text_bytes;
    char text[64];

    while (!atomic_load(&over)) {
        tarn_pool *pool = atomic_load(&shared);
        tarn_stats stats = TARN_STATS_INIT;
        tarn_layout *layout = NULL;
        void *address = NULL;
        tarn_status status;

        if (pool == NULL)
            continue;
        status = tarn_pool_malloc(pool, 3 * MIB, 0, side, &address);
        ck_assert(status == TARN_OK || status == TARN_ERR_INVALID_HANDLE);
        if (status == TARN_OK)
            OK(tarn_free(address));
        status = tarn_pool_stats(pool, &stats);
        ck_assert(status == TARN_OK || status == TARN_ERR_INVALID_HANDLE);
        status = tarn_pool_layout(pool, &layout);
        ck_assert(status == TARN_OK || status == TARN_ERR_INVALID_HANDLE);
        tarn_layout_destroy(layout);
        status = tarn_pool_validate(pool);
        ck_assert(status == TARN_OK || status == TARN_ERR_INVALID_HANDLE);
        status = tarn_pool_report(pool, TARN_REPORT_TEXT, text, sizeof text, &text_bytes);
        ck_assert(status == TARN_OK || status == TARN_ERR_INVALID_HANDLE);
        status = tarn_pool_reserve(pool, 4 * MIB, side);
        ck_assert(status == TARN_OK || status == TARN_ERR_INVALID_HANDLE);
    }
    return NULL;
}

/* What an allocation has answered holds, though the pool is being destroyed just now. */
static void *allocate_shared(void *side)
{
    while (!atomic_load(&over)) {
        tarn_pool *pool = atomic_load(&shared);
        void *address = NULL;
        tarn_status status;

        if (pool == NULL)
            continue;
        status = tarn_pool_malloc(pool, 512, 0, side, &address);
        ck_assert(status == TARN_OK || status == TARN_ERR_INVALID_HANDLE);
        if (status == TARN_OK)
            OK(tarn_free(address));
    }
    return NULL;
}

/* _i: what the other threads do. */
TEST_LOOP(callback, a_pool_that_is_destroyed_beside_calls_is_gone_or_busy, 0, 2)
{
    enum { ROUNDS = 300, THREADS = 2 };
    void *(*const actions[])(void *) = {use_shared, allocate_shared};
    pthread_t threads[THREADS];
    tn_cu_stream streams[THREADS];
    int gone = 0;

    atomic_store(&over, false);
    atomic_store(&shared, NULL);
    for (int i = 0; i < THREADS; i++) {
        streams[i] = test_stream();
        ck_assert_int_eq(pthread_create(&threads[i], NULL, actions[_i], streams[i]), 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        tarn_pool *pool = test_pool("shared");
        tarn_status status = TARN_ERR_BUSY;

        atomic_store(&shared, pool);
        while (status == TARN_ERR_BUSY) {
            status = tarn_pool_destroy(pool);
            gone += status == TARN_OK;
        }
        ck_assert_int_eq(status, TARN_OK);
    }
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        test_destroy_stream(streams[i]);
    }
    ck_assert_int_eq(gone, ROUNDS);
}
