// SPDX-License-Identifier: Apache-2.0
/* tarn_shares -- measures memory shared with another process: what it costs each side.
 *
 *     tarn_shares [--quick]
 *
 * Prints a line for each figure: a number, its unit, what was measured. The row `share` of
 * tarn_bench runs this program, since processes that share a GPU must be forked before the driver
 * is loaded.
 *
 * The parent is the producer, and tells the child, the consumer, what to do. Blocks of chunks that
 * the consumer has are shared and opened by the thousand, in CPU time of the thread. Large memory
 * is reserved in one call and shared as one block; the time beyond the same calls of the driver
 * made bare, in turns with them, is the library's. A descriptor is a chunk: each is handed over
 * once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base.h"
#include "driver.h"

/* A message of one byte that carries a file descriptor. */
union message_room {
    struct cmsghdr header; /* which aligns it */
    char bytes[CMSG_SPACE(sizeof(int))];
};

#define GIB ((size_t)1 << 30)
#define STEP_BYTES ((size_t)32 << 20)
#define SMALL_BYTES ((size_t)64 << 10)
#define PATIENCE_NS UINT64_C(60000000000)

enum { BLOCKS = 1000, STEPS_MAX = 256, CHUNKS_MAX = 8, SAMPLES = 9, QUICK_SAMPLES = 3 };

enum act { CONNECT = 'c', OPEN = 'o', CLOSE = 'x', COLLECT = 'f', BARE = 'b', END = 'e' };

/* In memory of both processes. */
static struct together {
    char name[56]; /* of the listener */
    size_t count;  /* of shares, or of chunks of the bare driver */
    tarn_share shares[BLOCKS];
    double cpu_ns;  /* of the consumer's last act, by its thread */
    double wall_ns; /* likewise, by the clock */
} * together;

/* One side. */
static struct side {
    int channel;
    size_t samples;
    tarn_device *device;
    tarn_stream stream;
    tarn_pool *pool;
    tarn_listener *listener;
    tarn_connection *connection;
    void *opened[BLOCKS];
    void *blocks[BLOCKS];
} side;

static double cpu_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* -- Messages between the two ------------------------------------------------------------------ */

static void say(char what, int file)
{
    union message_room room = {.bytes = {0}};
    struct iovec part = {.iov_base = &what, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (file >= 0) {
        message.msg_control = room.bytes;
        message.msg_controllen = sizeof room.bytes;
        room.header = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof file), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&room.header), &file, sizeof file);
    }
    if (sendmsg(side.channel, &message, MSG_NOSIGNAL) != 1)
        bench_fail("the other process has gone");
}

/* *file: -1 without one. */
static char hear(int *file)
{
    union message_room room = {.bytes = {0}};
    char what = 0;
    struct iovec part = {.iov_base = &what, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = room.bytes,
                             .msg_controllen = sizeof room.bytes};

    if (recvmsg(side.channel, &message, MSG_CMSG_CLOEXEC) != 1)
        bench_fail("the other process has gone");
    *file = -1;
    if (CMSG_FIRSTHDR(&message) != NULL)
        memcpy(file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof *file);
    return what;
}

/* -- The consumer ------------------------------------------------------------------------------ */

static void open_all(void)
{
    for (size_t i = 0; i < together->count; i++)
        BENCH_OK(
            tarn_share_open(side.connection, &together->shares[i], PATIENCE_NS, &side.opened[i]));
}

static void close_all(void)
{
    for (size_t i = 0; i < together->count; i++)
        BENCH_OK(tarn_share_close(side.connection, side.opened[i]));
}

/* The driver's calls for memory in as many chunks of 1 GiB, and nothing else. */
static void import_bare(void)
{
    const tn_cu_access_desc access = {
        .location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = cu.device},
        .flags = TN_CU_MEM_ACCESS_READWRITE};
    const size_t bytes = together->count * GIB;
    tn_cu_memhandle handles[CHUNKS_MAX];
    uint64_t begun = bench_now();
    tn_cu_deviceptr base;

    for (size_t i = 0; i < together->count; i++) {
        int file;

        (void)hear(&file);
        BENCH_CU(cu.cuMemImportFromShareableHandle(&handles[i], (void *)(intptr_t)file,
                                                   TN_CU_MEM_HANDLE_TYPE_POSIX_FD));
        (void)close(file);
    }
    BENCH_CU(cu.cuMemAddressReserve(&base, bytes, 0, 0, 0));
    for (size_t i = 0; i < together->count; i++) {
        BENCH_CU(cu.cuMemMap(base + i * GIB, GIB, 0, handles[i], 0));
        BENCH_CU(cu.cuMemSetAccess(base + i * GIB, GIB, &access, 1));
    }
    together->wall_ns = (double)(bench_now() - begun);
    BENCH_CU(cu.cuMemUnmap(base, bytes));
    BENCH_CU(cu.cuMemAddressFree(base, bytes));
    for (size_t i = 0; i < together->count; i++)
        BENCH_CU(cu.cuMemRelease(handles[i]));
}

/* Does one thing; false: that was the last. */
static bool consume(char what)
{
    uint64_t begun = bench_now();
    double cpu = cpu_now();

    switch (what) {
    case CONNECT:
        BENCH_OK(tarn_connection_open(side.device, together->name, &side.connection));
        break;
    case OPEN:
        open_all();
        break;
    case CLOSE:
        close_all();
        break;
    case COLLECT:
        BENCH_OK(tarn_share_collect(side.device, NULL));
        break;
    case BARE:
        import_bare();
        return true;
    default:
        BENCH_OK(tarn_connection_destroy(side.connection));
        BENCH_OK(tarn_device_close(side.device));
        return false;
    }
    together->cpu_ns = cpu_now() - cpu;
    together->wall_ns = (double)(bench_now() - begun);
    return true;
}

static _Noreturn void be_consumer(int channel)
{
    bool goes_on = true;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    side.channel = channel;
    bench_driver_open();
    BENCH_OK(tarn_device_open(0, NULL, &side.device));
    while (goes_on) {
        int file;
        char what = hear(&file);

        goes_on = consume(what);
        say(what, -1);
    }
    _exit(0);
}

/* -- The producer ------------------------------------------------------------------------------ */

static void let(char what)
{
    int file;

    say(what, -1);
    (void)hear(&file);
}

static void make_pool(void)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;

    options.name = "shared";
    options.flags = TARN_POOL_SHARED;
    BENCH_OK(tarn_pool_create(side.device, &options, &side.pool));
}

/* Its memory goes, in both processes. */
static void end_pool(size_t blocks)
{
    for (size_t i = 0; i < blocks; i++)
        BENCH_OK(tarn_free(side.blocks[i]));
    BENCH_OK(tarn_share_collect(side.device, NULL));
    BENCH_OK(tarn_pool_destroy(side.pool));
    BENCH_OK(tarn_share_collect(side.device, NULL)); /* the chunks' places are free */
    let(COLLECT);
}

static void connect_both(void)
{
    tarn_status status = TARN_ERR_BUSY;
    uint64_t begun = bench_now();

    BENCH_OK(tarn_listener_create(side.device, NULL, &side.listener));
    BENCH_OK(tarn_listener_name(side.listener, together->name));
    let(CONNECT);
    while (status == TARN_ERR_BUSY && bench_now() - begun < PATIENCE_NS) {
        BENCH_OK(tarn_listener_progress(side.listener));
        status = tarn_listener_accept(side.listener, &side.connection);
    }
    BENCH_OK(status);
}

static void allocate(size_t count, size_t bytes)
{
    for (size_t i = 0; i < count; i++)
        BENCH_OK(tarn_pool_malloc(side.pool, bytes, 0, side.stream, &side.blocks[i]));
    bench_stream_drain(side.stream);
}

/* Shares the first blocks, and has them opened. */
static void share_all(size_t count, double *cpu_ns, double *wall_ns)
{
    uint64_t begun = bench_now();
    double cpu = cpu_now();

    for (size_t i = 0; i < count; i++)
        BENCH_OK(tarn_share_block(side.connection, side.blocks[i], &together->shares[i]));
    *cpu_ns = cpu_now() - cpu;
    *wall_ns = (double)(bench_now() - begun);
    together->count = count;
    let(OPEN);
}

static int by_size(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;

    return (difference > 0) - (difference < 0);
}

static double middle(double *samples)
{
    qsort(samples, side.samples, sizeof samples[0], by_size);
    return samples[side.samples / 2];
}

static void print_figure(double value, const char *unit, const char *what)
{
    printf("%.3f %s %s\n", value, unit, what);
    (void)fflush(stdout);
}

/* Blocks whose chunks the consumer has. */
static void measure_known(void)
{
    double figures[4][SAMPLES];
    static const char *const names[] = {
        "block of a known chunk, shared", "block of a known chunk, opened",
        "block of a known chunk, closed", "block of a known chunk, collected"};

    make_pool();
    allocate(BLOCKS, SMALL_BYTES);
    for (size_t i = 0; i <= side.samples; i++) {
        size_t at = i > 0 ? i - 1 : 0; /* the first hands the chunks over */
        double wall_ns;
        double cpu;

        share_all(BLOCKS, &figures[0][at], &wall_ns);
        figures[1][at] = together->cpu_ns;
        let(CLOSE);
        figures[2][at] = together->cpu_ns;
        cpu = cpu_now();
        BENCH_OK(tarn_share_collect(side.device, NULL));
        figures[3][at] = cpu_now() - cpu;
    }
    for (size_t i = 0; i < 4; i++)
        print_figure(middle(figures[i]) / BLOCKS / 1e3, "us", names[i]);
    end_pool(BLOCKS);
}

/* The memory that is shared, with half of it to spare. */
static size_t choose_gib(void)
{
    size_t free_bytes;
    size_t total_bytes;
    size_t gib = CHUNKS_MAX;

    BENCH_CU(cu.cuMemGetInfo(&free_bytes, &total_bytes));
    while (gib > 1 && gib * GIB + gib * GIB / 2 > free_bytes)
        gib /= 2;
    return gib;
}

/* Chunks that were handed over; those of earlier pools have gone. */
static size_t chunk_count(void)
{
    tarn_connection_info info = TARN_CONNECTION_INFO_INIT;

    BENCH_OK(tarn_connection_describe(side.connection, &info));
    return info.chunk_count;
}

/* Both sides' time for the library. */
static double share_reserved(size_t gib, size_t *chunks)
{
    double cpu_ns;
    double wall_ns;

    make_pool();
    BENCH_OK(tarn_pool_reserve(side.pool, gib * GIB, side.stream));
    allocate(1, gib * GIB);
    share_all(1, &cpu_ns, &wall_ns);
    *chunks = chunk_count();
    wall_ns += together->wall_ns;
    let(CLOSE);
    end_pool(1);
    return wall_ns;
}

/* The same without it. */
static double share_bare(size_t gib)
{
    tn_cu_allocation_prop prop = {
        .type = TN_CU_MEM_ALLOCATION_TYPE_PINNED,
        .requested_handle_types = TN_CU_MEM_HANDLE_TYPE_POSIX_FD,
        .location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = cu.device}};
    tn_cu_memhandle handles[CHUNKS_MAX];
    uint64_t begun;
    double wall_ns;
    int file;

    for (size_t i = 0; i < gib; i++)
        BENCH_CU(cu.cuMemCreate(&handles[i], GIB, &prop, 0));
    together->count = gib;
    say(BARE, -1);
    begun = bench_now();
    for (size_t i = 0; i < gib; i++) {
        BENCH_CU(
            cu.cuMemExportToShareableHandle(&file, handles[i], TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0));
        say(BARE, file);
        (void)close(file);
    }
    (void)hear(&file);
    wall_ns = (double)(bench_now() - begun);
    for (size_t i = 0; i < gib; i++)
        BENCH_CU(cu.cuMemRelease(handles[i]));
    return wall_ns;
}

static void measure_reserved(size_t gib)
{
    double ours[SAMPLES];
    double bare[SAMPLES];
    double beyond[SAMPLES];
    size_t chunks = 0;
    char what[64];

    for (size_t i = 0; i <= side.samples; i++) {
        size_t at = i > 0 ? i - 1 : 0;

        ours[at] = share_reserved(gib, &chunks) / 1e6;
        bare[at] = share_bare(gib) / 1e6;
        beyond[at] = ours[at] - bare[at];
    }
    (void)snprintf(what, sizeof what, "reserve of %zu GiB, descriptors", gib);
    print_figure((double)chunks, "descriptors", what);
    (void)snprintf(what, sizeof what, "reserve of %zu GiB, shared and opened", gib);
    print_figure(middle(ours), "ms", what);
    (void)snprintf(what, sizeof what, "reserve of %zu GiB, bare calls", gib);
    print_figure(middle(bare), "ms", what);
    (void)snprintf(what, sizeof what, "reserve of %zu GiB, beyond bare calls", gib);
    print_figure(middle(beyond), "ms", what);
}

static void measure_grown(size_t gib)
{
    const size_t steps = gib * GIB / STEP_BYTES;
    double cpu_ns;
    double wall_ns;
    char what[64];

    make_pool();
    allocate(steps, STEP_BYTES);
    share_all(steps, &cpu_ns, &wall_ns);
    (void)snprintf(what, sizeof what, "%zu GiB grown by 32 MiB, descriptors", gib);
    print_figure((double)chunk_count(), "descriptors", what);
    (void)snprintf(what, sizeof what, "%zu GiB grown by 32 MiB, shared and opened", gib);
    print_figure((wall_ns + together->wall_ns) / 1e6, "ms", what);
    let(CLOSE);
    end_pool(steps);
}

int main(int count, char **arguments)
{
    bool quick = count == 2 && strcmp(arguments[1], "--quick") == 0;
    int ends[2];
    int status = -1;
    pid_t pid;
    size_t gib;

    if (count > 1 && !quick)
        bench_fail("usage: tarn_shares [--quick]");
    together =
        mmap(NULL, sizeof *together, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (together == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        bench_fail("no memory or socket for two processes");
    pid = fork();
    if (pid == 0) {
        (void)close(ends[0]);
        be_consumer(ends[1]);
    }
    (void)close(ends[1]);
    side.channel = ends[0];
    side.samples = quick ? QUICK_SAMPLES : SAMPLES;
    bench_driver_open();
    BENCH_OK(tarn_device_open(0, NULL, &side.device));
    side.stream = bench_stream_create();
    connect_both();
    measure_known();
    gib = choose_gib();
    measure_reserved(gib);
    measure_grown(gib);
    let(END);
    BENCH_OK(tarn_connection_destroy(side.connection));
    BENCH_OK(tarn_listener_destroy(side.listener));
    bench_stream_destroy(side.stream);
    BENCH_OK(tarn_device_close(side.device));
    if (waitpid(pid, &status, 0) != pid || status != 0)
        bench_fail("the consumer has failed");
    return 0;
}
