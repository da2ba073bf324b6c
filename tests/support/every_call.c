// SPDX-License-Identifier: Apache-2.0
#include "support/every_call.h"

#include <stdio.h>

static struct {
    tarn_pool *pool;  /* of captures alone */
    tarn_pool *spare; /* empty */
    tarn_capture *capture;
    tarn_graph *graphs[2];
    tn_cu_graph raw;
    tarn_checkpoint *checkpoint;
    tarn_audit *audit;
    tarn_graph_diff *graph_diff;
    tarn_live_diff *live_diff;
    tarn_layout *layout;
    tarn_block_list *blocks;
    tarn_pool_list *pools;
    tarn_snapshot *snapshot;
    tarn_leaks *leaks;
    tarn_snapshot_diff *snapshot_diff;
    tarn_delta *delta;
    void *block;
    tn_cu_stream stream; /* that nothing else uses */
    tarn_listener *listener;
    char listener_name[56];
    tarn_connection *producer;
    tarn_connection *consumer; /* both ends are here */
    tarn_connection *other;    /* that is not accepted */
    void *shared;              /* a block of a shared pool */
    tarn_share share;          /* of it */
    void *opened;              /* it, as the consumer has it */
} with;

/* What the calls write. */
static struct {
    void *address;
    tarn_pool *pool;
    tarn_route *route;
    tarn_device *device;
    tarn_capture *capture;
    tarn_graph *graph;
    tarn_checkpoint *checkpoint;
    tarn_audit *audit;
    tarn_graph_diff *graph_diff;
    tarn_live_diff *live_diff;
    tarn_layout *layout;
    tarn_block_list *blocks;
    tarn_pool_list *pools;
    tarn_snapshot *snapshot;
    tarn_leaks *leaks;
    tarn_snapshot_diff *snapshot_diff;
    tarn_block block;
    tarn_driver_graph driver_graph;
    uint64_t mark;
    size_t bytes;
    char text[256];
    tarn_device_info info;
    tarn_stats stats;
    tarn_graph_memory_info memory;
    tarn_segment segment;
    tarn_history_info history;
    tarn_listener *listener;
    tarn_connection *connection;
    tarn_connection_info connection_info;
    tarn_share share;
    int descriptor;
} out = {
    .connection_info.size = sizeof out.connection_info,
    .info.size = sizeof out.info,
    .stats.size = sizeof out.stats,
    .memory.size = sizeof out.memory,
    .segment.size = sizeof out.segment,
    .history.size = sizeof out.history,
};

/* What the calls read. */
static const struct {
    tarn_history_settings history;
} set = {.history.size = sizeof set.history};

static tarn_graph *make_graph(void)
{
    tarn_capture *capture = test_capture_on(world.pool, world.stream, TARN_CAPTURE_RELAXED);
    void *address = test_alloc(world.pool, 4096, world.stream);

    test_fill(world.stream, address, 3, 16);
    OK(tarn_free(address));
    return test_capture_end(capture);
}

static void connect_again(void)
{
    OK(tarn_connection_open(world.device, with.listener_name, &with.other));
    OK(tarn_listener_progress(with.listener));
}

static void share_with_itself(void)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;

    options.flags = TARN_POOL_SHARED;
    with.shared = test_alloc(test_pool_with(&options), 4096, world.stream);
    OK(tarn_listener_create(world.device, NULL, &with.listener));
    OK(tarn_listener_name(with.listener, with.listener_name));
    connect_again();
    with.consumer = with.other;
    OK(tarn_listener_accept(with.listener, &with.producer));
    OK(tarn_share_block(with.producer, with.shared, &with.share));
    OK(tarn_share_open(with.consumer, &with.share, 0, &with.opened));
    connect_again();
}

void test_subjects_make(void)
{
    with.pool = test_pool("captures");
    with.spare = test_pool("spare");
    with.stream = test_stream();
    with.block = test_alloc(world.pool, 4096, world.stream);
    test_fill(world.stream, with.block, 1, 16);
    for (size_t i = 0; i < 2; i++)
        with.graphs[i] = make_graph();
    test_begin_capture(with.stream, TN_CU_CAPTURE_MODE_RELAXED);
    test_fill(with.stream, with.block, 2, 16);
    with.raw = test_end_capture(with.stream);
    with.checkpoint = test_take(TARN_CONTENTS_DEVICE);
    with.delta = test_restore(with.checkpoint, 0, 0);
    OK(tarn_graph_audit(with.graphs[0], NULL, &with.audit));
    OK(tarn_graph_compare(with.graphs[0], with.graphs[1], &with.graph_diff));
    OK(tarn_pool_check_live(world.pool, NULL, 0, &with.live_diff));
    OK(tarn_pool_layout(world.pool, &with.layout));
    OK(tarn_pool_blocks(world.pool, &with.blocks));
    OK(tarn_device_pools(world.device, &with.pools));
    OK(tarn_snapshot_take(world.device, NULL, &with.snapshot));
    OK(tarn_leaks_find(world.device, NULL, &with.leaks));
    OK(tarn_snapshot_compare(with.snapshot, with.snapshot, &with.snapshot_diff));
    share_with_itself();
    with.capture = test_capture_on(with.pool, world.side, TARN_CAPTURE_RELAXED);
}

static void abort_first(void)
{
    OK(tarn_capture_abort(with.capture));
}

/* The thread that begins a capture ends it. */
static void begin_here(void)
{
    abort_first();
    with.capture = test_capture_on(with.pool, world.side, TARN_CAPTURE_RELAXED);
    OK(tarn_free(test_alloc(with.pool, 4096, world.side)));
}

static bool say_no(tarn_device *device, size_t wanted_bytes, void *user)
{
    (void)device;
    (void)wanted_bytes;
    (void)user;
    return false;
}

static void see_nothing(tarn_device *device, const tarn_out_of_memory *what, void *user)
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

static tarn_status take_bytes(const void *bytes, size_t count, void *user)
{
    (void)bytes;
    (void)count;
    (void)user;
    return TARN_OK;
}

static void push_label(void)
{
    OK(tarn_label_push("label"));
}

static void add_callback(void)
{
    OK(tarn_device_add_free_callback(world.device, say_no, &out));
}

static void add_observer(void)
{
    OK(tarn_device_add_oom_observer(world.device, see_nothing, &out));
}

static void add_tracker(void)
{
    OK(tarn_device_add_tracker(world.device, hear_nothing, &out, TARN_TRACKED_ALL));
}

static void begin_route(void)
{
    out.route = test_route(world.pool, tarn_filter_thread, NULL);
}

static void open_again(void)
{
    OK(tarn_device_open(0, NULL, &out.device));
}

/* X(function, before, arguments) for those with a status, Y for others. */
#define EVERY_CALL(X, Y)                                                                           \
    X(tarn_pool_malloc, NULL, (world.pool, 4 * MIB, 0, world.stream, &out.address))                \
    X(tarn_audit_report, NULL, (with.audit, TARN_REPORT_TEXT, out.text, sizeof out.text, NULL))    \
    X(tarn_begin_allocate_to_pool, NULL,                                                           \
      (world.device, world.pool, tarn_filter_thread, NULL, &out.route))                            \
    X(tarn_block_annotate, NULL, (with.block, "text"))                                             \
    X(tarn_block_at, NULL, (with.block, &out.block))                                               \
    X(tarn_block_set_tag, NULL, (with.block, 5))                                                   \
    X(tarn_calloc, NULL, (world.device, 4, MIB, world.stream, &out.address))                       \
    X(tarn_capture_abort, begin_here, (with.capture))                                              \
    X(tarn_capture_begin, abort_first,                                                             \
      (with.pool, world.side, CAPTURE_MODE(TARN_CAPTURE_RELAXED), &out.capture))                   \
    X(tarn_capture_end, begin_here, (with.capture, &out.graph))                                    \
    X(tarn_checkpoint_destroy, NULL, (with.checkpoint))                                            \
    X(tarn_checkpoint_restore, NULL, (with.checkpoint, world.stream, NULL))                        \
    X(tarn_checkpoint_take, NULL, (world.pool, TARN_CONTENTS_HOST, world.stream, &out.checkpoint)) \
    X(tarn_checkpoint_verify, NULL, (with.checkpoint, world.stream))                               \
    X(tarn_connection_describe, NULL, (with.consumer, &out.connection_info))                       \
    X(tarn_connection_destroy, NULL, (with.other))                                                 \
    X(tarn_connection_open, NULL, (world.device, with.listener_name, &out.connection))             \
    X(tarn_device_add_free_callback, NULL, (world.device, say_no, &out))                           \
    X(tarn_device_add_oom_observer, NULL, (world.device, see_nothing, &out))                       \
    X(tarn_device_add_tracker, NULL, (world.device, hear_nothing, &out, TARN_TRACKED_ALL))         \
    X(tarn_device_close, open_again, (out.device != NULL ? out.device : world.device))             \
    X(tarn_device_default_pool, NULL, (world.device, &out.pool))                                   \
    X(tarn_device_add_peer, NULL, (world.device, 0))                                               \
    X(tarn_device_describe, NULL, (world.device, &out.info))                                       \
    X(tarn_device_graph_memory, NULL, (world.device, &out.memory))                                 \
    X(tarn_device_clear_history, NULL, (world.device))                                             \
    X(tarn_device_set_interpreter, NULL, (world.device, NULL, NULL, NULL))                         \
    X(tarn_device_set_history, NULL, (world.device, &set.history))                                 \
    X(tarn_device_history_info, NULL, (world.device, &out.history))                                \
    X(tarn_device_largest, NULL, (world.device, NULL, world.stream, &out.bytes))                   \
    X(tarn_device_mark, NULL, (world.device, &out.mark))                                           \
    X(tarn_device_open, NULL, (0, NULL, &out.device))                                              \
    X(tarn_device_pools, NULL, (world.device, &out.pools))                                         \
    X(tarn_device_remove_free_callback, add_callback, (world.device, say_no, &out))                \
    X(tarn_device_remove_oom_observer, add_observer, (world.device, see_nothing, &out))            \
    X(tarn_device_remove_tracker, add_tracker, (world.device, hear_nothing, &out))                 \
    X(tarn_device_report, NULL, (world.device, TARN_REPORT_TEXT, out.text, sizeof out.text, NULL)) \
    X(tarn_device_reset_peaks, NULL, (world.device))                                               \
    X(tarn_device_reset_totals, NULL, (world.device))                                              \
    X(tarn_device_set_cache_limit, NULL, (world.device, TARN_NO_CACHE))                            \
    X(tarn_device_set_limit, NULL, (world.device, 0))                                              \
    X(tarn_device_set_memory_fraction, NULL, (world.device, 1.0))                                  \
    X(tarn_device_set_pinned_cache_limit, NULL, (world.device, TARN_NO_CACHE))                     \
    X(tarn_device_collect, NULL, (world.device))                                                   \
    X(tarn_device_stats, NULL, (world.device, &out.stats))                                         \
    X(tarn_device_trim, NULL, (world.device, 0, &out.bytes))                                       \
    X(tarn_device_write_metrics, NULL,                                                             \
      (world.device, TARN_METRICS_PROMETHEUS, 0, take_bytes, NULL))                                \
    X(tarn_driver_graph_audit, NULL, (world.device, with.raw, NULL, &out.audit))                   \
    X(tarn_driver_graph_compare, NULL, (world.device, with.raw, with.raw, &out.graph_diff))        \
    X(tarn_end_allocate_to_pool, begin_route, (out.route))                                         \
    X(tarn_free, NULL, (with.block))                                                               \
    X(tarn_free_on, NULL, (with.block, with.stream))                                               \
    X(tarn_graph_adopt, NULL, (world.pool, with.raw, &out.graph))                                  \
    X(tarn_graph_audit, NULL, (with.graphs[0], NULL, &out.audit))                                  \
    X(tarn_graph_check, NULL, (with.graphs[0]))                                                    \
    X(tarn_graph_compare, NULL, (with.graphs[0], with.graphs[1], &out.graph_diff))                 \
    X(tarn_graph_destroy, NULL, (with.graphs[0]))                                                  \
    X(tarn_graph_diff_report, NULL,                                                                \
      (with.graph_diff, TARN_REPORT_TEXT, out.text, sizeof out.text, NULL))                        \
    X(tarn_graph_driver_handles, NULL, (with.graphs[0], &out.driver_graph, NULL))                  \
    X(tarn_graph_guard, NULL, (with.graphs[0], TARN_GUARD_KEEP, NULL))                             \
    X(tarn_graph_memory, NULL, (with.graphs[0], &out.memory))                                      \
    X(tarn_graph_replay, NULL, (with.graphs[0], world.stream))                                     \
    X(tarn_graph_update, begin_here, (with.graphs[0], with.capture))                               \
    X(tarn_host_malloc, NULL, (world.device, 4096, &out.address))                                  \
    X(tarn_host_pool, NULL, (world.device, &out.pool))                                             \
    X(tarn_host_stats, NULL, (world.device, &out.stats))                                           \
    X(tarn_label_get, NULL, (out.text, sizeof out.text, NULL))                                     \
    X(tarn_label_pop, push_label, ())                                                              \
    X(tarn_label_push, NULL, ("label"))                                                            \
    X(tarn_label_set, NULL, ("label"))                                                             \
    X(tarn_leaks_find, NULL, (world.device, NULL, &out.leaks))                                     \
    X(tarn_leaks_report, NULL, (with.leaks, TARN_REPORT_TEXT, out.text, sizeof out.text, NULL))    \
    X(tarn_listener_accept, NULL, (with.listener, &out.connection))                                \
    X(tarn_listener_create, NULL, (world.device, NULL, &out.listener))                             \
    X(tarn_listener_descriptor, NULL, (with.listener, &out.descriptor))                            \
    X(tarn_listener_destroy, NULL, (with.listener))                                                \
    X(tarn_listener_name, NULL, (with.listener, out.text))                                         \
    X(tarn_listener_progress, NULL, (with.listener))                                               \
    X(tarn_malloc, NULL, (world.device, 4 * MIB, world.stream, &out.address))                      \
    X(tarn_malloc_aligned, NULL, (world.device, 4 * MIB, 4096, world.stream, &out.address))        \
    X(tarn_malloc_labeled, NULL,                                                                   \
      (world.device, NULL, 4 * MIB, 0, world.stream, "label", &out.address))                       \
    X(tarn_pool_add_peer, NULL, (world.pool, 0))                                                   \
    X(tarn_pool_blocks, NULL, (world.pool, &out.blocks))                                           \
    X(tarn_pool_check_live, NULL, (world.pool, NULL, 0, &out.live_diff))                           \
    X(tarn_pool_create, NULL, (world.device, NULL, &out.pool))                                     \
    X(tarn_pool_destroy, NULL, (with.spare))                                                       \
    X(tarn_pool_layout, NULL, (world.pool, &out.layout))                                           \
    X(tarn_pool_release, NULL, (with.spare))                                                       \
    X(tarn_pool_report, NULL, (world.pool, TARN_REPORT_TEXT, out.text, sizeof out.text, NULL))     \
    X(tarn_pool_reserve, NULL, (world.pool, 8 * MIB, world.stream))                                \
    X(tarn_pool_reset_peaks, NULL, (world.pool))                                                   \
    X(tarn_pool_reset_totals, NULL, (world.pool))                                                  \
    X(tarn_pool_set_limit, NULL, (world.pool, 0))                                                  \
    X(tarn_pool_stats, NULL, (world.pool, &out.stats))                                             \
    X(tarn_pool_trim, NULL, (world.pool, &out.bytes))                                              \
    X(tarn_pool_trim_to, NULL, (world.pool, 0, &out.bytes))                                        \
    X(tarn_pool_validate, NULL, (world.pool))                                                      \
    X(tarn_range_begin, NULL, (world.device, "range", &out.mark))                                  \
    X(tarn_range_end, NULL, (world.device, 0))                                                     \
    X(tarn_record_stream, NULL, (with.block, with.stream))                                         \
    X(tarn_segment_at, NULL, (with.block, &out.segment))                                           \
    X(tarn_share_block, NULL, (with.producer, with.shared, &out.share))                            \
    X(tarn_share_block_on, NULL, (with.producer, with.shared, with.stream, &out.share))            \
    X(tarn_share_close_on, NULL, (with.consumer, with.opened, with.stream))                        \
    X(tarn_share_open_on, NULL, (with.consumer, &with.share, with.stream, 0, &out.address))        \
    X(tarn_share_close, NULL, (with.consumer, with.opened))                                        \
    X(tarn_share_connect, NULL, (world.device, &with.share, &out.connection))                      \
    X(tarn_share_offer, NULL, (with.listener, with.shared, &out.share))                            \
    X(tarn_share_collect, NULL, (world.device, NULL))                                              \
    X(tarn_share_open, NULL, (with.consumer, &with.share, 0, &out.address))                        \
    X(tarn_snapshot_take, NULL, (world.device, NULL, &out.snapshot))                               \
    X(tarn_snapshot_add_history, NULL, (with.snapshot, world.device))                              \
    X(tarn_snapshot_compare, NULL, (with.snapshot, with.snapshot, &out.snapshot_diff))             \
    X(tarn_snapshot_diff_report, NULL,                                                             \
      (with.snapshot_diff, TARN_REPORT_TEXT, out.text, sizeof out.text, NULL))                     \
    X(tarn_snapshot_write_pytorch, NULL, (with.snapshot, take_bytes, NULL))                        \
    X(tarn_snapshot_write_trace, NULL, (with.snapshot, "name", take_bytes, NULL))                  \
    X(tarn_stream_retire, NULL, (world.device, with.stream))                                       \
    Y(tarn_audit_destroy, (with.audit))                                                            \
    Y(tarn_block_list_destroy, (with.blocks))                                                      \
    Y(tarn_delta_destroy, (with.delta))                                                            \
    Y(tarn_filter_capture, (world.stream, world.stream))                                           \
    Y(tarn_filter_stream, (world.stream, world.stream))                                            \
    Y(tarn_filter_thread, (world.stream, NULL))                                                    \
    Y(tarn_graph_diff_destroy, (with.graph_diff))                                                  \
    Y(tarn_last_error, ())                                                                         \
    Y(tarn_layout_destroy, (with.layout))                                                          \
    Y(tarn_leaks_destroy, (with.leaks))                                                            \
    Y(tarn_live_diff_destroy, (with.live_diff))                                                    \
    Y(tarn_pool_list_destroy, (with.pools))                                                        \
    Y(tarn_pointer_class_name, ((tarn_pointer_class)0))                                            \
    Y(tarn_pointer_class_sentence, ((tarn_pointer_class)0))                                        \
    Y(tarn_snapshot_destroy, (with.snapshot))                                                      \
    Y(tarn_snapshot_diff_destroy, (with.snapshot_diff))                                            \
    Y(tarn_status_name, (TARN_OK))                                                                 \
    Y(tarn_status_sentence, (TARN_OK))                                                             \
    Y(tarn_version, ())

#define DEFINE(function, before, arguments)                                                        \
    static tarn_status make_##function(void)                                                       \
    {                                                                                              \
        return function arguments;                                                                 \
    }
#define DEFINE_SILENT(function, arguments)                                                         \
    static tarn_status make_##function(void)                                                       \
    {                                                                                              \
        (void)function arguments;                                                                  \
        return TARN_OK;                                                                            \
    }
EVERY_CALL(DEFINE, DEFINE_SILENT)

#define ROW(function, before, arguments) {#function, true, before, make_##function},
#define ROW_SILENT(function, arguments) {#function, false, NULL, make_##function},
const struct test_call test_calls[] = {EVERY_CALL(ROW, ROW_SILENT)};
const size_t test_call_count = sizeof test_calls / sizeof test_calls[0];

static bool is_called(const char *name)
{
    for (size_t i = 0; i < test_call_count; i++) {
        if (strcmp(test_calls[i].name, name) == 0)
            return true;
    }
    return false;
}

void test_expect_every_call(const char *symbols_path)
{
    FILE *symbols = fopen(symbols_path, "re");
    char line[256];
    size_t count = 0;

    ck_assert_msg(symbols != NULL, "%s cannot be read", symbols_path);
    while (fgets(line, sizeof line, symbols) != NULL) {
        if (strncmp(line, "tarn_", 5) != 0 || strstr(line, "@@") == NULL)
            continue;
        *strstr(line, "@@") = '\0';
        ck_assert_msg(is_called(line), "%s is in no row of support/every_call.c", line);
        count += 1;
    }
    (void)fclose(symbols);
    ck_assert_uint_eq(count, test_call_count);
}
