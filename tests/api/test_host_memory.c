// SPDX-License-Identifier: Apache-2.0
/* A host without memory: every call that allocates is refused with HOST_MEMORY, changes nothing, and
 * succeeds when there is memory again. The program has a calloc and a malloc of its own in front of
 * the C library's, which the library calls, too. */
#include <dlfcn.h>
#include <stdlib.h>

#include "support/world.h"

/* ThreadSanitizer needs its own calloc before dlsym can work. */
#if !defined(__SANITIZE_THREAD__)
#define HAS_OWN_CALLOC 1
#else
#define HAS_OWN_CALLOC 0
#endif

/* AddressSanitizer needs its own malloc at once. */
#if HAS_OWN_CALLOC && !defined(__SANITIZE_ADDRESS__)
#define HAS_OWN_MALLOC 1
#else
#define HAS_OWN_MALLOC 0
#endif

#if HAS_OWN_CALLOC
static void *(*real_calloc)(size_t, size_t);
static void *(*real_malloc)(size_t);
#endif
static _Thread_local uint64_t countdown; /* of the library's on this thread; 0: none fails */
static _Thread_local bool failed;

#if HAS_OWN_CALLOC
/* The driver may have all the memory that it wants. */
static bool is_library(const void *caller)
{
    Dl_info info;

    return dladdr(caller, &info) != 0 && strstr(info.dli_fname, "libtarn.so") != NULL;
}

/* Whether this allocation is the one that fails. */
static bool fails(const void *caller)
{
    if (countdown == 0 || !is_library(caller))
        return false;
    countdown -= 1;
    failed = countdown == 0;
    return failed;
}

/* What dlsym itself asks for; never given back. */
static void *take_early(size_t bytes)
{
    static _Alignas(16) char early[4096];
    static size_t used;
    void *memory = early + used;

    used += (bytes + 15) & ~(size_t)15;
    return used <= sizeof early ? memory : NULL;
}

static bool look_up(void)
{
    static bool looking;

    if (looking)
        return false;
    looking = true;
    *(void **)&real_calloc = dlsym(RTLD_NEXT, "calloc");
    *(void **)&real_malloc = dlsym(RTLD_NEXT, "malloc");
    looking = false;
    return true;
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t item_bytes)
{
    if (real_malloc == NULL && !look_up())
        return take_early(count * item_bytes);
    return fails(__builtin_return_address(0)) ? NULL : real_calloc(count, item_bytes);
}

#if HAS_OWN_MALLOC
__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
    if (real_malloc == NULL && !look_up())
        return take_early(bytes);
    return fails(__builtin_return_address(0)) ? NULL : real_malloc(bytes);
}
#endif
#endif

static void fail_allocation(uint64_t nth)
{
    countdown = nth;
    failed = false;
}

/* Whether it has failed; from here on none does. */
static bool has_failed(void)
{
    countdown = 0;
    return failed;
}

/* Makes the call's first, second... host allocation fail until it succeeds without; counts how often
 * it was refused. */
#define SHORT(refused, call) SHORT_OF(refused, test_same_picture(&before), call)

/* The same for calls that may keep free memory for later, or that end a capture half-way. */
#define SHORT_BUT(refused, call) SHORT_OF(refused, OK(tarn_pool_validate(world.pool)), call)

#define SHORT_OF(refused, expect_same, call)                                                       \
    for (uint64_t nth = 1;; nth++) {                                                               \
        struct test_picture before = test_picture();                                               \
        tarn_status status;                                                                        \
        bool met;                                                                                  \
                                                                                                   \
        fail_allocation(nth);                                                                      \
        status = (call);                                                                           \
        met = has_failed();                                                                        \
        (void)before;                                                                              \
        if (status == TARN_OK)                                                                     \
            break;                                                                                 \
        ck_assert_msg(status == TARN_ERR_HOST_MEMORY && met, "%s: %s; %s", #call,                  \
                      tarn_status_name(status), tarn_last_error());                                \
        ck_assert_ptr_nonnull(strstr(tarn_last_error(), "memory"));                                \
        expect_same;                                                                               \
        test_note_status(#call, status, tarn_last_error());                                        \
        (refused) += 1;                                                                            \
    }

SUITE("a host without memory")
GROUP(open, NULL, .left_out = !HAS_OWN_CALLOC)

TEST(open, a_device_is_not_opened)
{
    tarn_device *device = UNTOUCHED;
    int refused = 0;

    test_start();
    SHORT(refused, tarn_device_open(0, NULL, &device));
    ck_assert_int_gt(refused, 0);
    OK(tarn_device_close(device));
}

GROUP(calls, test_world_open, test_world_close, .left_out = !HAS_OWN_CALLOC)

/* Records come many at a time: calls until one needs memory. */
TEST(calls, a_pool_is_not_made)
{
    tarn_pool *pools[1000];
    size_t count = 0;
    int refused = 0;

    for (; refused == 0; count++) {
        ck_assert_uint_lt(count, 1000);
        pools[count] = UNTOUCHED;
        SHORT(refused, tarn_pool_create(world.device, NULL, &pools[count]));
    }
    while (count > 0)
        OK(tarn_pool_destroy(pools[--count]));
}

TEST(calls, nothing_is_allocated)
{
    void *first = UNTOUCHED;
    void *second = UNTOUCHED;
    int refused = 0;

    SHORT(refused, tarn_malloc(world.device, MIB, world.stream, &first));
    ck_assert_int_gt(refused, 0);
    refused = 0;
    SHORT(refused, tarn_pool_malloc(world.pool, MIB, 0, world.stream, &second));
    ck_assert_int_gt(refused, 0);
    OK(tarn_free(first));
    OK(tarn_free(second));
}

TEST(calls, nothing_aligned_is_allocated)
{
    void *address = UNTOUCHED;
    int refused = 0;

    SHORT(refused, tarn_malloc_aligned(world.device, MIB, 4096, world.stream, &address));
    ck_assert_int_gt(refused, 0);
    OK(tarn_free(address));
}

TEST(calls, nothing_labeled_is_allocated)
{
    void *address = UNTOUCHED;
    int refused = 0;

    SHORT(refused,
          tarn_malloc_labeled(world.device, NULL, MIB, 0, world.stream, "label", &address));
    ck_assert_int_gt(refused, 0);
    OK(tarn_free(address));
}

TEST(calls, no_label_is_made)
{
    int refused = 0;

    SHORT(refused, tarn_label_set("own"));
    ck_assert_int_gt(refused, 0);
    refused = 0;
    SHORT(refused, tarn_label_push("pushed"));
    ck_assert_int_gt(refused, 0);
    OK(tarn_label_pop());
    OK(tarn_label_set(NULL));
}

TEST(calls, nothing_zeroed_is_allocated)
{
    void *address = UNTOUCHED;
    int refused = 0;

    SHORT(refused, tarn_calloc(world.device, 1, MIB, world.stream, &address));
    ck_assert_int_gt(refused, 0);
    OK(tarn_free(address));
}

TEST(calls, no_use_is_recorded)
{
    void *first = test_malloc(MIB);
    void *second = test_malloc(MIB);
    int refused = 0;

    SHORT(refused, tarn_record_stream(first, world.side));
    ck_assert_int_gt(refused, 0);
    refused = 0;
    SHORT(refused, tarn_free_on(second, world.side));
    ck_assert_int_gt(refused, 0);
    refused = 0;
    SHORT(refused, tarn_stream_retire(world.device, world.stream));
    ck_assert_int_gt(refused, 0);
    OK(tarn_free(first));
}

TEST(calls, nothing_is_reserved)
{
    int refused = 0;

    SHORT_BUT(refused, tarn_pool_reserve(world.pool, 64 * MIB, world.stream));
    ck_assert_int_gt(refused, 0);
}

static tarn_status take_bytes(const void *bytes, size_t count, void *user)
{
    (void)bytes;
    (void)count;
    (void)user;
    return TARN_OK;
}

TEST(calls, no_snapshots_are_compared_and_no_trace_is_written)
{
    void *address = test_alloc(world.pool, MIB, world.stream);
    tarn_snapshot *snapshot;
    tarn_snapshot_diff *diff = UNTOUCHED;
    int refused = 0;

    OK(tarn_snapshot_take(world.device, NULL, &snapshot));
    OK(tarn_snapshot_add_history(snapshot, world.device));
    SHORT(refused, tarn_snapshot_compare(snapshot, snapshot, &diff));
    ck_assert_int_gt(refused, 0);
    tarn_snapshot_diff_destroy(diff);
    refused = 0;
    SHORT(refused, tarn_snapshot_write_trace(snapshot, "trace", take_bytes, NULL));
    ck_assert_int_gt(refused, 0);
    tarn_snapshot_destroy(snapshot);
    OK(tarn_free(address));
}

GROUP(unrecorded, test_world_open_unrecorded, test_world_close, .left_out = !HAS_OWN_MALLOC)

/* With a history a walk through the blocks needs less, and takes the place of what has no memory. */
TEST(unrecorded, no_snapshot_is_taken)
{
    tarn_snapshot *snapshot = UNTOUCHED;

    for (int i = 0; i < 2; i++) {
        int refused = 0;

        SHORT(refused, tarn_snapshot_take(world.device, i == 0 ? NULL : world.pool, &snapshot));
        ck_assert_int_gt(refused, 0);
        tarn_snapshot_destroy(snapshot);
        snapshot = UNTOUCHED;
    }
}

TEST(calls, no_report_is_made)
{
    void *address = test_alloc(world.pool, MIB, world.stream);
    tarn_layout *layout = UNTOUCHED;
    tarn_live_diff *diff = UNTOUCHED;
    tarn_block_list *blocks = UNTOUCHED;
    tarn_pool_list *pools = UNTOUCHED;
    tarn_snapshot *snapshot = UNTOUCHED;
    tarn_leaks *leaks = UNTOUCHED;
    size_t bytes = 0;
    int refused = 0;

    SHORT(refused, tarn_device_largest(world.device, world.pool, world.stream, &bytes));
    ck_assert_int_gt(refused, 0);
    ck_assert_uint_gt(bytes, 0);
    refused = 0;
    OK(tarn_snapshot_take(world.device, NULL, &snapshot));
    SHORT(refused, tarn_snapshot_write_pytorch(snapshot, take_bytes, NULL));
    ck_assert_int_gt(refused, 0);
    tarn_snapshot_destroy(snapshot);
    refused = 0;
    SHORT(refused, tarn_leaks_find(world.device, NULL, &leaks));
    ck_assert_int_gt(refused, 0);
    tarn_leaks_destroy(leaks);
    refused = 0;
    SHORT(refused, tarn_pool_blocks(world.pool, &blocks));
    ck_assert_int_gt(refused, 0);
    tarn_block_list_destroy(blocks);
    refused = 0;
    SHORT(refused, tarn_device_pools(world.device, &pools));
    ck_assert_int_gt(refused, 0);
    tarn_pool_list_destroy(pools);
    refused = 0;
    SHORT(refused, tarn_pool_layout(world.pool, &layout));
    ck_assert_int_gt(refused, 0);
    refused = 0;
    SHORT(refused, tarn_pool_check_live(world.pool, NULL, 0, &diff));
    ck_assert_int_gt(refused, 0);
    tarn_layout_destroy(layout);
    tarn_live_diff_destroy(diff);
    OK(tarn_free(address));
}

TEST(calls, no_tag_is_set_or_saved)
{
    void *address = test_alloc(world.pool, MIB, world.stream);
    tarn_checkpoint *checkpoint = UNTOUCHED;
    tarn_block block;
    int refused = 0;

    SHORT(refused, tarn_block_set_tag(address, 7));
    ck_assert_int_gt(refused, 0);
    OK(tarn_block_at(address, &block));
    ck_assert_uint_eq(block.tag, 7);
    SHORT_BUT(refused,
              tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, world.stream, &checkpoint));
    OK(tarn_free(address));
    SHORT_BUT(refused, tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    OK(tarn_block_at(address, &block));
    ck_assert_uint_eq(block.tag, 7);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(address));
}

TEST(calls, no_capture_is_begun_or_ended)
{
    tarn_capture *capture = UNTOUCHED;
    tarn_graph *graph = UNTOUCHED;
    int refused = 0;

    SHORT(refused, tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    ck_assert_int_gt(refused, 0);
    refused = 0;
    SHORT_BUT(refused, tarn_capture_end(capture, &graph));
    ck_assert_int_gt(refused, 0);
    OK(tarn_graph_destroy(graph));
}

TEST(calls, no_route_is_begun)
{
    tarn_route *route = UNTOUCHED;
    int refused = 0;

    SHORT(refused,
          tarn_begin_allocate_to_pool(world.device, world.pool, tarn_filter_thread, NULL, &route));
    ck_assert_int_gt(refused, 0);
    OK(tarn_end_allocate_to_pool(route));
}

static bool free_nothing(tarn_device *device, size_t wanted_bytes, void *user)
{
    (void)device;
    (void)wanted_bytes;
    (void)user;
    return false;
}

static void observe_nothing(tarn_device *device, const tarn_out_of_memory *what, void *user)
{
    (void)device;
    (void)what;
    (void)user;
}

static void hear_nothing(tarn_device *device, const tarn_tracked *what, void *user)
{
    (void)device;
    (void)what;
    (void)user;
}

TEST(calls, no_callback_is_registered)
{
    int refused = 0;

    SHORT(refused, tarn_device_add_free_callback(world.device, free_nothing, NULL));
    ck_assert_int_gt(refused, 0);
    refused = 0;
    SHORT(refused, tarn_device_add_oom_observer(world.device, observe_nothing, NULL));
    ck_assert_int_gt(refused, 0);
    refused = 0;
    SHORT(refused, tarn_device_add_tracker(world.device, hear_nothing, NULL, TARN_TRACKED_ALL));
    ck_assert_int_gt(refused, 0);
    OK(tarn_device_remove_tracker(world.device, hear_nothing, NULL));
    OK(tarn_device_remove_free_callback(world.device, free_nothing, NULL));
    OK(tarn_device_remove_oom_observer(world.device, observe_nothing, NULL));
}

TEST(calls, no_graph_is_adopted)
{
    tarn_graph *graph = UNTOUCHED;
    tn_cu_graph nodes;
    int refused = 0;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    nodes = test_end_capture(world.stream);
    SHORT(refused, tarn_graph_adopt(world.pool, nodes, &graph));
    ck_assert_int_gt(refused, 0);
    OK(tarn_graph_destroy(graph));
}

TEST(calls, no_graphs_memory_is_counted)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    tarn_graph_memory_info memory = TARN_GRAPH_MEMORY_INFO_INIT;
    tarn_graph *graph;
    int refused = 0;

    test_fill(world.stream, test_malloc(4096), 1, 16);
    graph = test_capture_end(capture);
    SHORT(refused, tarn_graph_memory(graph, &memory));
    ck_assert_int_gt(refused, 0);
    refused = 0;
    SHORT(refused, tarn_device_graph_memory(world.device, &memory));
    ck_assert_int_gt(refused, 0);
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(test_live_block(world.pool)));
}

TEST(calls, no_graph_is_looked_through_or_guarded)
{
    tarn_audit *audit = UNTOUCHED;
    tarn_driver_graph nodes;
    tarn_graph *graph;
    void *block = test_malloc(MIB);
    int refused = 0;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    test_fill(world.stream, block, 1, 1);
    OK(tarn_graph_adopt(world.pool, test_end_capture(world.stream), &graph));
    OK(tarn_graph_driver_handles(graph, &nodes, NULL));
    SHORT(refused, tarn_graph_audit(graph, NULL, &audit));
    tarn_audit_destroy(audit);
    ck_assert_int_gt(refused, 0);
    refused = 0;
    audit = UNTOUCHED;
    SHORT(refused, tarn_driver_graph_audit(world.device, nodes, NULL, &audit));
    tarn_audit_destroy(audit);
    ck_assert_int_gt(refused, 0);
    refused = 0;
    SHORT(refused, tarn_graph_guard(graph, TARN_GUARD_KEEP, NULL));
    ck_assert_int_gt(refused, 0);
    OK(tarn_graph_check(graph));
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(block));
}

TEST(calls, no_graphs_are_compared)
{
    tarn_graph_diff *diff = UNTOUCHED;
    tarn_driver_graph nodes;
    tarn_graph *graph;
    int refused = 0;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    test_fill(world.stream, world.pool, 1, 1); /* never launched */
    OK(tarn_graph_adopt(world.pool, test_end_capture(world.stream), &graph));
    OK(tarn_graph_driver_handles(graph, &nodes, NULL));
    SHORT(refused, tarn_graph_compare(graph, graph, &diff));
    tarn_graph_diff_destroy(diff);
    ck_assert_int_gt(refused, 0);
    refused = 0;
    SHORT(refused, tarn_driver_graph_compare(world.device, nodes, nodes, &diff));
    tarn_graph_diff_destroy(diff);
    ck_assert_int_gt(refused, 0);
    OK(tarn_graph_destroy(graph));
}

TEST(calls, no_graph_is_captured_into)
{
    tarn_capture *capture = UNTOUCHED;
    tn_cu_graph nodes;
    int refused = 0;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    nodes = test_end_capture(world.stream);
    SHORT(refused, tarn_capture_begin(world.pool, world.stream,
                                      CAPTURE_INTO(NULL, 0, nodes, TARN_CAPTURE_GLOBAL), &capture));
    ck_assert_int_gt(refused, 0);
    OK(tarn_capture_end(capture, NULL));
    test_destroy_graph(nodes);
}

TEST(calls, no_checkpoint_is_taken_or_restored)
{
    void *address = test_alloc(world.pool, 3 * MIB, world.stream); /* contents of one chunk */
    tarn_checkpoint *checkpoint = UNTOUCHED;
    tarn_delta *delta = UNTOUCHED;
    int refused = 0;

    SHORT_BUT(refused,
              tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint));
    ck_assert_int_gt(refused, 0);
    OK(tarn_free(address));
    address = test_alloc(world.pool, MIB, world.side);
    OK(tarn_pool_trim(world.pool, NULL));
    refused = 0;
    SHORT(refused, tarn_checkpoint_verify(checkpoint, world.stream));
    ck_assert_int_gt(refused, 0);
    refused = 0;
    SHORT(refused, tarn_checkpoint_restore(checkpoint, world.stream, &delta));
    ck_assert_int_gt(refused, 0);
    ck_assert_uint_eq(delta->revived_count, 1);
    ck_assert_uint_eq(delta->freed_count, 1);
    OK(tarn_free(delta->revived[0].block.address));
    tarn_delta_destroy(delta);
    OK(tarn_checkpoint_destroy(checkpoint));
}

static void open_with_history(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = 64 << 10;
    test_world_open_with(&options);
}

GROUP(recorded, open_with_history, test_world_close, .left_out = !HAS_OWN_CALLOC)

TEST(recorded, a_history_is_added_to_a_snapshot_or_nothing_is)
{
    tarn_snapshot *snapshot;
    int refused = 0;

    OK(tarn_snapshot_take(world.device, NULL, &snapshot));
    SHORT(refused, tarn_snapshot_add_history(snapshot, world.device));
    ck_assert_int_gt(refused, 3);
    OK(tarn_snapshot_add_history(snapshot, world.device)); /* in place of the first */
    tarn_snapshot_destroy(snapshot);
}

static uint64_t no_frame(void *user)
{
    (void)user;
    return 0;
}

TEST(recorded, an_interpreter_is_set_or_none_is)
{
    int refused = 0;

    SHORT(refused, tarn_device_set_interpreter(world.device, no_frame, NULL, NULL));
    ck_assert_int_gt(refused, 0);
}

TEST(calls, no_process_is_listened_for_or_connected_to)
{
    tarn_listener *listener = UNTOUCHED;
    tarn_connection *connection = UNTOUCHED;
    char name[56];
    int refused = 0;

    SHORT(refused, tarn_listener_create(world.device, NULL, &listener));
    ck_assert_int_gt(refused, 0);
    OK(tarn_listener_name(listener, name));
    refused = 0;
    SHORT(refused, tarn_connection_open(world.device, name, &connection));
    ck_assert_int_gt(refused, 0);
    OK(tarn_connection_destroy(connection));
    OK(tarn_listener_destroy(listener));
}

TEST(calls, no_group_and_no_symmetric_memory_is_had)
{
    tarn_group_options options = TARN_GROUP_OPTIONS_INIT;
    tarn_symmetric *pool = NULL;
    tarn_group *group = NULL;
    void *blocks[2] = {NULL, NULL};
    int refused = 0;

    options.name = "alone";
    options.world = 1;
    SHORT(refused, tarn_group_create(world.device, &options, &group));
    ck_assert_int_gt(refused, 0);
    refused = 0;
    SHORT(refused, tarn_symmetric_create(group, 8 * MIB, &pool));
    ck_assert_int_gt(refused, 0);
    refused = 0;
    SHORT(refused, tarn_symmetric_reserve(pool, 4 * MIB, 0));
    ck_assert_int_gt(refused, 0);
    refused = 0;
    SHORT(refused, tarn_symmetric_malloc(pool, 4096, 7, &blocks[0]));
    ck_assert_int_gt(refused, 0);
    OK(tarn_symmetric_malloc(pool, 4096, 0, &blocks[1]));
    refused = 0;
    SHORT(refused, tarn_symmetric_free(pool, blocks[1], world.stream));
    ck_assert_int_gt(refused, 0);
    OK(tarn_symmetric_destroy(pool));
    OK(tarn_group_destroy(group));
}
