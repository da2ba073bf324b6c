// SPDX-License-Identifier: Apache-2.0
/* Host memory for records: what the process has taken from malloc since before the first pool of the
 * benchmark, with so many blocks live after a random trace, less what the benchmark itself holds. So it
 * counts the driver's records of its chunks, too, where they come from malloc, and is no less than the
 * library's; but for the table from addresses to chunks, which is mapped (a word for every 2 MiB that were
 * ever mapped) and seen in the other figure: resident memory, by whole pages.
 *
 * The library keeps records of chunks and segments and uses them again, so the row is the first that is
 * measured, mapped bytes without blocks come first, and what has most records last. Blocks are small, and
 * large ones fewer, as the growth that is measured later needs memory that nobody had before.
 *
 * The limit: 96 bytes for each live block and 0.05 % of mapped bytes. A hundred blocks do not meet it, as
 * each device and each pool take a little that no block accounts for. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "contenders.h"
#include "driver.h"
#include "harness.h"
#include "report.h"
#include "rows.h"
#include "script.h"
#include "script_player.h"

enum {
    SMALL_BYTES_MAX = 2 << 10,
    LARGE_BYTES_MAX = 64 << 10,
    LARGE_BLOCKS = 100000,
    MAPPED_GIB = 2,
    BLOCKS_MIN = 100,
    BLOCKS_MAX = 1000000,
    QUICK_BLOCKS_MAX = 10000,
    FACTOR = 10,
    STEPS_MIN = 1 << 12,
    ALLOWED_PER_BLOCK = 96,
    ALLOWED_MAPPED_PART = 2000, /* one of so many bytes: 0.05 % */
};

struct host_bytes {
    double allocated; /* from malloc */
    double resident;
};

static struct host_bytes take_host_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    long pages = 0;
    FILE *file;

    (void)malloc_trim(0); /* what was freed is not resident */
    file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*s %ld", &pages) != 1)
        bench_fail("/proc/self/statm cannot be read");
    (void)fclose(file);
    return (struct host_bytes){(double)info.uordblks + (double)info.hblkhd,
                               (double)pages * (double)sysconf(_SC_PAGESIZE)};
}

/* What bytes more than at the beginning are, beside what is allowed. */
static void report(const char *what, struct host_bytes bytes, double blocks, double mapped)
{
    double allowed = blocks * ALLOWED_PER_BLOCK + mapped / ALLOWED_MAPPED_PART;
    char variant[64];

    (void)snprintf(variant, sizeof variant, "%s, of what is allowed", what);
    bench_report("host", variant, NULL, "%", bench_single(100 * bytes.allocated / allowed));
    (void)snprintf(variant, sizeof variant, "%s, allocated", what);
    bench_report("host", variant, NULL, "bytes", bench_single(bytes.allocated));
    (void)snprintf(variant, sizeof variant, "%s, resident", what);
    bench_report("host", variant, NULL, "bytes", bench_single(bytes.resident));
}

static void with_blocks(const struct bench *bench, struct host_bytes begin, size_t count,
                        size_t bytes_max)
{
    struct bench_script script = {.order = BENCH_ORDER_RANDOM,
                                  .bytes_max = bytes_max,
                                  .live_count = count,
                                  .step_count = STEPS_MIN};
    struct script_player player = {&script_tarn, &script, .context = bench->device};
    struct host_bytes before = take_host_bytes();
    struct host_bytes bytes;
    double own;
    uint64_t mapped;
    uint64_t live;
    char what[40];

    while (script.step_count < count)
        script.step_count *= 2;
    bench_script_create(&script);
    bytes = take_host_bytes();
    own = bytes.allocated - before.allocated; /* all of it touched */
    script_player_open(&player);
    own += (double)malloc_usable_size(player.blocks);
    bytes = take_host_bytes();
    player.allocator->get_now(&player, &mapped, &live);
    bytes.allocated -= begin.allocated + own;
    bytes.resident -= begin.resident + own;
    (void)snprintf(what, sizeof what, "%zu blocks up to %zu KiB", count, bytes_max >> 10);
    report(what, bytes, (double)count, (double)mapped);
    script_player_close(&player);
    bench_script_destroy(&script);
}

static void with_mapped_memory(const struct bench *bench, struct host_bytes begin)
{
    tarn_stats stats = TARN_STATS_INIT;
    tarn_stream stream = bench_stream_create();
    tarn_pool *pool = NULL;
    struct host_bytes bytes;
    char what[40];

    BENCH_OK(tarn_pool_create(bench->device, NULL, &pool));
    BENCH_OK(tarn_pool_reserve(pool, (size_t)MAPPED_GIB << 30, stream));
    bytes = take_host_bytes();
    bytes.allocated -= begin.allocated;
    bytes.resident -= begin.resident;
    BENCH_OK(tarn_pool_stats(pool, &stats));
    (void)snprintf(what, sizeof what, "%d GiB mapped", MAPPED_GIB);
    report(what, bytes, 0, (double)stats.mapped_bytes.all.current);
    BENCH_OK(tarn_pool_destroy(pool));
    bench_stream_destroy(stream);
}

void bench_row_host(const struct bench *bench)
{
    size_t count_max = bench->quick ? QUICK_BLOCKS_MAX : BLOCKS_MAX;
    struct host_bytes begin = take_host_bytes();

    with_mapped_memory(bench, begin);
    for (size_t count = BLOCKS_MIN; count <= count_max; count *= FACTOR)
        with_blocks(bench, begin, count, SMALL_BYTES_MAX);
    with_blocks(bench, begin, bench->quick ? QUICK_BLOCKS_MAX : LARGE_BLOCKS, LARGE_BYTES_MAX);
}
