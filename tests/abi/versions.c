// SPDX-License-Identifier: Apache-2.0
/* A program of another version, by the headers it is compiled with: VERSION_older lacks the last field of every struct
 * with a size, VERSION_newer has one more, named added. Prints the name and size of each struct. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "versions.c:%d: %s does not hold: %s\n", __LINE__, #condition,   \
                          tarn_last_error());                                                      \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define OK(call) EXPECT((call) == TARN_OK)

#ifdef VERSION_newer
#define SET_ADDED(object) ((object).added = 1)
/* A field that the library does not know is refused where it is set. */
#define REFUSED(options, call)                                                                     \
    do {                                                                                           \
        (options).added = 1;                                                                       \
        EXPECT((call) == TARN_ERR_INVALID_ARGUMENT);                                               \
        (options).added = 0;                                                                       \
    } while (0)
#define EXPECT_ADDED(object) EXPECT((object).added == 0)
#else
#define SET_ADDED(object) ((void)(object))
#define REFUSED(options, call) ((void)(options))
#define EXPECT_ADDED(object) ((void)(object))
#endif

/* An output with something behind it, which stays. */
#define GUARDED(type)                                                                              \
    struct {                                                                                       \
        type is;                                                                                   \
        unsigned char behind[64];                                                                  \
    }
#define MAKE(guarded, init)                                                                        \
    do {                                                                                           \
        memset(&(guarded), 0xa5, sizeof(guarded));                                                 \
        (guarded).is = init;                                                                       \
        SET_ADDED((guarded).is);                                                                   \
    } while (0)
#define EXPECT_KEPT(guarded)                                                                       \
    do {                                                                                           \
        EXPECT((guarded).is.size == sizeof((guarded).is));                                         \
        EXPECT_ADDED((guarded).is);                                                                \
        for (size_t i = 0; i < sizeof(guarded).behind; i++)                                        \
            EXPECT((guarded).behind[i] == 0xa5);                                                   \
    } while (0)

static tarn_device *open_device(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_device *device = NULL;

    options.limit_bytes = (size_t)64 << 20;
    REFUSED(options, tarn_device_open(0, &options, &device));
    OK(tarn_device_open(0, &options, &device));
    return device;
}

static tarn_pool *make_pool(tarn_device *device)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool = NULL;

    options.name = "of a version";
    options.share_captured = true;
    REFUSED(options, tarn_pool_create(device, &options, &pool));
    OK(tarn_pool_create(device, &options, &pool));
    return pool;
}

/* This process connects with itself. */
static void connect_here(tarn_device *device)
{
    tarn_listener_options options = TARN_LISTENER_OPTIONS_INIT;
    GUARDED(tarn_connection_info) info;
    tarn_listener *listener = NULL;
    tarn_connection *connection = NULL;
    char name[56];

    options.lease_slots = 4;
    REFUSED(options, tarn_listener_create(device, &options, &listener));
    OK(tarn_listener_create(device, &options, &listener));
    OK(tarn_listener_name(listener, name));
    OK(tarn_connection_open(device, name, &connection));
    MAKE(info, (tarn_connection_info)TARN_CONNECTION_INFO_INIT);
    OK(tarn_connection_describe(connection, &info.is));
    EXPECT_KEPT(info);
    EXPECT(info.is.peer.pid == (int)getpid() && !info.is.is_producer);
    OK(tarn_connection_destroy(connection));
    OK(tarn_listener_destroy(listener));
}

/* A group of this process alone. */
static void join_alone(tarn_device *device)
{
    tarn_group_options options = TARN_GROUP_OPTIONS_INIT;
    GUARDED(tarn_member_info) member;
    GUARDED(tarn_symmetric_info) info;
    tarn_group *group = NULL;
    tarn_symmetric *pool = NULL;

    options.name = "alone";
    options.world = 1;
    REFUSED(options, tarn_group_create(device, &options, &group));
    OK(tarn_group_create(device, &options, &group));
    MAKE(member, (tarn_member_info)TARN_MEMBER_INFO_INIT);
    OK(tarn_group_member(group, 0, &member.is));
    EXPECT_KEPT(member);
    EXPECT(member.is.pid == (int)getpid());
    OK(tarn_symmetric_create(group, 1, &pool));
    MAKE(info, (tarn_symmetric_info)TARN_SYMMETRIC_INFO_INIT);
    OK(tarn_symmetric_describe(pool, &info.is));
    EXPECT_KEPT(info);
    EXPECT(info.is.stride > 0 && info.is.reserved_bytes == 0);
    OK(tarn_symmetric_destroy(pool));
    OK(tarn_group_destroy(group));
}

static void describe(tarn_device *device)
{
    GUARDED(tarn_device_info) info;

    MAKE(info, (tarn_device_info)TARN_DEVICE_INFO_INIT);
    OK(tarn_device_describe(device, &info.is));
    EXPECT_KEPT(info);
    EXPECT(strcmp(info.is.driver, getenv("TARN_DRIVER")) == 0);
}

static void look_at_history(tarn_device *device)
{
    GUARDED(tarn_history_info) info;
    tarn_history_settings settings = TARN_HISTORY_SETTINGS_INIT;

    REFUSED(settings, tarn_device_set_history(device, &settings));
    EXPECT(tarn_device_set_history(device, &settings) != TARN_ERR_INVALID_ARGUMENT);
    MAKE(info, (tarn_history_info)TARN_HISTORY_INFO_INIT);
    OK(tarn_device_history_info(device, &info.is));
    EXPECT_KEPT(info);
    EXPECT(info.is.pages * 4096 == info.is.log_bytes);
}

static void read_statistics(tarn_device *device, tarn_pool *pool)
{
    GUARDED(tarn_stats) stats;

    MAKE(stats, (tarn_stats)TARN_STATS_INIT);
    stats.is.walk = true;
    OK(tarn_pool_stats(pool, &stats.is));
    EXPECT_KEPT(stats);
    EXPECT(stats.is.live_bytes.all.current == 1024);
    EXPECT(stats.is.inactive_bytes.all > 0);
    SET_ADDED(stats.is);
    OK(tarn_device_stats(device, &stats.is));
    EXPECT_KEPT(stats);
    EXPECT(stats.is.pool_count == 2 && stats.is.limit_bytes == (uint64_t)64 << 20);
}

/* Looks through a graph, and accounts it. */
static void look_at_graph(tarn_device *device, tarn_graph *graph)
{
    tarn_audit_options options = TARN_AUDIT_OPTIONS_INIT;
    GUARDED(tarn_graph_memory_info) memory;
    tarn_audit *audit = NULL;

    options.list_all = true;
    REFUSED(options, tarn_graph_audit(graph, &options, &audit));
    REFUSED(options, tarn_graph_guard(graph, TARN_GUARD_KEEP, &options));
    OK(tarn_graph_audit(graph, &options, &audit));
    EXPECT(audit->mistake_count == 0);
    tarn_audit_destroy(audit);
    MAKE(memory, (tarn_graph_memory_info)TARN_GRAPH_MEMORY_INFO_INIT);
    OK(tarn_graph_memory(graph, &memory.is));
    EXPECT_KEPT(memory);
    EXPECT(memory.is.graph_count == 1);
    SET_ADDED(memory.is);
    OK(tarn_device_graph_memory(device, &memory.is));
    EXPECT_KEPT(memory);
    EXPECT(memory.is.graph_count == 1);
}

static void look_at_memory(tarn_pool *pool, const void *address)
{
    GUARDED(tarn_segment) segment;

    MAKE(segment, (tarn_segment)TARN_SEGMENT_INIT);
    OK(tarn_segment_at(address, &segment.is));
    EXPECT_KEPT(segment);
    EXPECT(segment.is.pool == pool && segment.is.run == address);
}

/* Is told what the library knows, whose size it is: a newer program reads no further, an older one not as far. */
static void observe(tarn_device *device, const tarn_out_of_memory *what, void *told)
{
    (void)device;
#if defined VERSION_older
    EXPECT(what->size > sizeof *what);
#elif defined VERSION_newer
    EXPECT(what->size < sizeof *what);
#else
    EXPECT(what->size == sizeof *what);
#endif
    *(size_t *)told = what->requested_bytes;
}

static void hear(tarn_device *device, const tarn_tracked *what, void *told)
{
    (void)device;
#if defined VERSION_older
    EXPECT(what->size > sizeof *what);
#elif defined VERSION_newer
    EXPECT(what->size < sizeof *what);
#else
    EXPECT(what->size == sizeof *what);
#endif
    *(size_t *)told = what->bytes;
}

static void run_out_of_memory(tarn_device *device, tarn_pool *pool)
{
    size_t told = 0;
    size_t heard = 0;
    void *address = NULL;

    OK(tarn_device_add_oom_observer(device, observe, &told));
    OK(tarn_device_add_tracker(device, hear, &heard, TARN_TRACKED_OUT_OF_MEMORY));
    EXPECT(tarn_pool_malloc(pool, (size_t)128 << 20, 0, NULL, &address) == TARN_ERR_LIMIT);
    EXPECT(told == (size_t)128 << 20);
    EXPECT(heard == (size_t)128 << 20);
}

/* A graph without a node, of the thread's own default stream. */
static tarn_graph *make_graph(tarn_pool *pool)
{
    tarn_capture_options options = TARN_CAPTURE_OPTIONS_INIT;
    tarn_stream stream = (tarn_stream)(uintptr_t)2;
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;

    options.mode = TARN_CAPTURE_RELAXED;
    REFUSED(options, tarn_capture_begin(pool, stream, &options, &capture));
    OK(tarn_capture_begin(pool, stream, &options, &capture));
    OK(tarn_capture_end(capture, &graph));
    return graph;
}

#define SAY(type) (void)printf("%s %zu\n", #type, sizeof(type))

int main(void)
{
    tarn_device *device = open_device();
    tarn_pool *pool = make_pool(device);
    tarn_graph *graph = make_graph(pool);
    void *address = NULL;

    OK(tarn_pool_malloc(pool, 1000, 0, NULL, &address));
    describe(device);
    connect_here(device);
    join_alone(device);
    look_at_history(device);
    read_statistics(device, pool);
    look_at_graph(device, graph);
    look_at_memory(pool, address);
    run_out_of_memory(device, pool);
    OK(tarn_free(address));
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_destroy(pool));
    OK(tarn_device_close(device));
    SAY(tarn_device_options);
    SAY(tarn_pool_options);
    SAY(tarn_audit_options);
    SAY(tarn_capture_options);
    SAY(tarn_listener_options);
    SAY(tarn_connection_info);
    SAY(tarn_group_options);
    SAY(tarn_member_info);
    SAY(tarn_symmetric_info);
    SAY(tarn_device_info);
    SAY(tarn_stats);
    SAY(tarn_graph_memory_info);
    SAY(tarn_segment);
    SAY(tarn_history_settings);
    SAY(tarn_history_info);
    SAY(tarn_out_of_memory);
    SAY(tarn_tracked);
    return 0;
}
