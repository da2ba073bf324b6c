// SPDX-License-Identifier: Apache-2.0
/* The world that two modules share, and what is judged of it by the books. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pairs/pairs.h"
#include "support/pattern.h"

enum { OTHER_HOME = 1, FIRST_HOME = 10, HOMES = 16 };

struct pairs_world pw;
_Thread_local bool pairs_is_inside;

static tarn_pool *homes[HOMES]; /* by serial; NULL: released */
static _Atomic int captures[HOMES];
static _Thread_local uint64_t random_state;
static _Atomic uint32_t last_pattern = 1;

void pairs_fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
    _exit(1);
}

/* Check's own assertions, which the support has: the linker puts these in their place. */
void __wrap__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line)
{
    (void)file;
    (void)line;
}

void __wrap__ck_assert_failed(const char *file, int line, const char *expression,
                              const char *message, ...);
void __wrap__ck_assert_failed(const char *file, int line, const char *expression,
                              const char *message, ...)
{
    char text[512] = "";
    va_list arguments;

    if (message != NULL) {
        va_start(arguments, message);
        (void)vsnprintf(text, sizeof text, message, arguments);
        va_end(arguments);
    }
    pairs_fail("%s:%d: %s %s", file, line, expression, text);
}

/* Statuses ------------------------------------------------------------------------------------- */

bool pairs_is_well(void)
{
    return pw.health == PAIRS_WELL;
}

bool pairs_is_concurrent(void)
{
    return pw.order == PAIRS_AMID || pw.order == PAIRS_BESIDE;
}

bool pairs_need(tarn_status status, const char *call)
{
    if (status == TARN_OK)
        return true;
    /* DRIVER: a growth maps at an address that the driver did not unmap just now. */
    if (!pairs_is_well() &&
        (status == TARN_ERR_DEVICE_LOST ||
         (pw.is_poisoned && (status == TARN_ERR_POISONED || status == TARN_ERR_DRIVER)))) {
        pw.health = PAIRS_LOST;
        return false;
    }
    pairs_fail("%s: %s; %s", call, tarn_status_name(status), tarn_last_error());
}

void pairs_give(tarn_status status, const char *call)
{
    EXPECT(status == TARN_OK, "%s: %s; %s", call, tarn_status_name(status), tarn_last_error());
}

bool pairs_drive(tn_cu_result result, const char *call)
{
    if (result == TN_CUDA_SUCCESS)
        return true;
    EXPECT(!pairs_is_well(), "%s: the driver answers %d", call, (int)result);
    pw.health = PAIRS_LOST;
    return false;
}

void pairs_relax(bool relaxed)
{
    static _Thread_local tn_cu_capture_mode before;
    tn_cu_capture_mode mode = relaxed ? TN_CU_CAPTURE_MODE_RELAXED : before;

    if (DRIVE(cu.cuThreadExchangeStreamCaptureMode(&mode)) && relaxed)
        before = mode;
}

uint64_t pairs_random(uint64_t below)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15U; /* SplitMix64, by S. Vigna */

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return (z ^ z >> 31) % below;
}

uint32_t pairs_pattern(void)
{
    return atomic_fetch_add(&last_pattern, 1) * 7919;
}

/* The world ------------------------------------------------------------------------------------ */

static tarn_pool *make_pool(const char *name)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool = NULL;

    options.name = name;
    return NEED(tarn_pool_create(pw.device, &options, &pool)) ? pool : NULL;
}

void pairs_world_open(enum pairs_order order, uint64_t seed)
{
    test_start();
    pattern_start();
    pw.order = order;
    pw.seed = seed;
    if (seed / 2 % 2 == 1) /* destructors run later, as on hardware */
        sim.delay_destructors(300);
    random_state = seed;
    (void)pthread_mutex_init(&pw.lock, NULL);
    pw.context = test_context();
    for (size_t i = 0; i < sizeof pw.streams / sizeof pw.streams[0]; i++)
        pw.streams[i] = test_stream();
    pw.look = test_stream();
    pw.ledger = test_ledger();
    OK(tarn_device_open(0, NULL, &pw.device));
    OK(tarn_device_default_pool(pw.device, &pw.default_pool));
    pw.home = FIRST_HOME;
    pw.pool = make_pool("shared");
    pw.other = make_pool("other");
    homes[FIRST_HOME] = pw.pool;
    homes[OTHER_HOME] = pw.other;
    homes[0] = pw.default_pool;
}

void pairs_enter_thread(void)
{
    random_state = pw.seed * 31 + 7;
    test_set_context(pw.context);
}

void pairs_member_init(struct pairs_member *m, const struct pairs_module *module, int index)
{
    int first = pairs_is_concurrent() ? 2 * index : 0;

    memset(m, 0, sizeof *m);
    m->module = module;
    m->index = index;
    m->stream = pw.streams[first];
    m->side = pw.streams[first + 1];
    for (int i = 0; i < PAIRS_OWN; i++)
        m->blocks[i] = PAIRS_NONE;
    m->snapshot = calloc(1, sizeof *m->snapshot);
    EXPECT(m->snapshot != NULL, "no memory");
}

/* The driver has kept memory that it did not unmap, with its addresses, and nothing else. */
static void expect_kept_memory_alone(void)
{
    const tarn_sim_ledger now = test_ledger();
    tarn_sim_ledger expected = pw.ledger;

    EXPECT(now.handles >= expected.handles && now.mapped_bytes >= expected.mapped_bytes,
           "the driver has less memory than before");
    expected.reservations = now.reservations;
    expected.reserved_bytes = now.reserved_bytes;
    expected.handles = now.handles;
    expected.handle_bytes = now.handle_bytes;
    expected.mappings = now.mappings;
    expected.mapped_bytes = now.mapped_bytes;
    test_same_ledger(&expected);
}

/* All is given back, and the driver's ledger is as it was. */
void pairs_world_close(void)
{
    for (int i = 0; i < pw.block_count; i++) {
        struct pairs_block *block = &pw.blocks[i];

        EXPECT(!block->is_live, "block %d at %p is left", i, (void *)block->address);
        if (block->mark != NULL)
            (void)cu.cuEventDestroy(block->mark);
    }
    if (pairs_is_well()) {
        test_wait_for_all();
        test_await_destructors(pw.ledger.user_objects);
    }
    GIVE(tarn_pool_destroy(pw.pool));
    GIVE(tarn_pool_destroy(pw.other));
    GIVE(tarn_device_close(pw.device));
    if (pw.is_poisoned && !pw.is_lost)
        expect_kept_memory_alone();
    else if (pairs_is_well())
        test_same_ledger(&pw.ledger);
}

/* Pools ---------------------------------------------------------------------------------------- */

/* Where one member is to have the pool to itself, the other one goes elsewhere. */
tarn_pool *pairs_pool(struct pairs_member *m)
{
    bool needs = m->module->needs_quiet;
    bool other_needs = m->other->module->needs_quiet;

    if (pairs_is_concurrent() && other_needs && (!needs || m->index == 1))
        return pw.other;
    return pw.pool;
}

int pairs_home_of(tarn_pool *pool)
{
    if (pool == pw.pool)
        return pw.home;
    for (int i = 0; i < HOMES; i++) {
        if (pool != NULL && homes[i] == pool)
            return i;
    }
    return -1;
}

void pairs_release_pool(void)
{
    tarn_pool *next = make_pool("next");
    tarn_pool *released;

    if (next == NULL)
        return;
    (void)pthread_mutex_lock(&pw.lock);
    released = pw.pool;
    homes[pw.home] = NULL;
    pw.home += 1;
    EXPECT(pw.home < HOMES, "too many pools");
    homes[pw.home] = next;
    pw.pool = next;
    (void)pthread_mutex_unlock(&pw.lock);
    GIVE(tarn_pool_release(released));
}

/* Whether the call was refused because the other member has released the pool just then. */
bool pairs_is_stale(struct pairs_member *m, tarn_pool *pool, tarn_status status)
{
    return status == TARN_ERR_INVALID_HANDLE && pairs_is_concurrent() && pool != pairs_pool(m);
}

void pairs_count_capture(int home, int change)
{
    if (home >= 0)
        captures[home] += change;
}

bool pairs_is_captured(int home)
{
    return home >= 0 && captures[home] > 0;
}

/* A capture of the program's own is in each pool that something was allocated from on its stream. */
bool pairs_may_be_captured(int home)
{
    return pairs_is_captured(home) || pw.loose > 0;
}

/* Streams -------------------------------------------------------------------------------------- */

bool pairs_is_capturing(tn_cu_stream stream)
{
    tn_cu_capture_status status = TN_CU_CAPTURE_STATUS_NONE;

    return DRIVE(cu.cuStreamIsCapturing(stream, &status)) && status != TN_CU_CAPTURE_STATUS_NONE;
}

tn_cu_stream pairs_free_stream(struct pairs_member *m)
{
    if (!pairs_is_capturing(m->stream))
        return m->stream;
    return !pairs_is_capturing(m->side) ? m->side : pw.streams[4 + m->index];
}

/* Judging -------------------------------------------------------------------------------------- */

void pairs_validate(void)
{
    tarn_pool *pool = pw.pool;

    if (pool != NULL) {
        tarn_status status = tarn_pool_validate(pool);

        if (status != TARN_ERR_INVALID_HANDLE || !pairs_is_concurrent())
            pairs_give(status, "tarn_pool_validate(shared pool)");
    }
    GIVE(tarn_pool_validate(pw.other));
    GIVE(tarn_pool_validate(pw.default_pool));
}

struct sums {
    uint64_t count;
    uint64_t bytes;
    uint64_t block_bytes;
};

static struct sums sums_of(int home)
{
    struct sums sums = {0};

    for (int i = 0; i < pw.block_count; i++) {
        const struct pairs_block *block = &pw.blocks[i];

        if (!block->is_live || block->is_discarded || (home >= 0 && block->home != home))
            continue;
        sums.count += 1;
        sums.bytes += block->bytes;
        sums.block_bytes += block->block_bytes;
    }
    return sums;
}

static void judge_pool(tarn_pool *pool, int home)
{
    tarn_stats memory = {.size = sizeof memory, .walk = true};
    struct sums sums = sums_of(home);
    struct test_stats stats;

    GIVE(tarn_pool_stats(pool, &memory));
    stats = test_stats_in(&memory);
    EXPECT(stats.live_count == sums.count && stats.live_bytes == sums.block_bytes &&
               stats.requested_bytes == sums.bytes,
           "pool %d has %llu live blocks of %llu bytes, %llu requested; expected %llu, %llu, %llu",
           home, (unsigned long long)stats.live_count, (unsigned long long)stats.live_bytes,
           (unsigned long long)stats.requested_bytes, (unsigned long long)sums.count,
           (unsigned long long)sums.block_bytes, (unsigned long long)sums.bytes);
    EXPECT(memory.live_blocks.all.allocated - memory.live_blocks.all.freed == stats.live_count,
           "pool %d counts %llu live blocks, %llu allocated less %llu freed", home,
           (unsigned long long)memory.live_blocks.all.current,
           (unsigned long long)memory.live_blocks.all.allocated,
           (unsigned long long)memory.live_blocks.all.freed);
    EXPECT(memory.active_bytes.all.current == memory.live_bytes.all.current +
                                                  memory.pending_bytes.all.current +
                                                  memory.discarded_bytes.all.current,
           "pool %d has active bytes that are neither live, pending nor discarded", home);
    EXPECT(memory.mapped_bytes.all.current >= memory.active_bytes.all.current,
           "pool %d has fewer bytes mapped than active", home);
    EXPECT(memory.mapped_bytes.all.current >= memory.unused_bytes.all + memory.inactive_bytes.all,
           "pool %d has fewer bytes mapped than free", home);
}

void pairs_step(void)
{
    tarn_stats stats = TARN_STATS_INIT;
    struct sums all = sums_of(-1);
    struct sums ordinary = sums_of(0);
    tarn_sim_ledger ledger;
    uint64_t taken;

    pairs_validate();
    if (pw.pool != NULL)
        judge_pool(pw.pool, pw.home);
    judge_pool(pw.other, OTHER_HOME);
    GIVE(tarn_device_stats(pw.device, &stats));
    EXPECT(stats.live_bytes.all.current == all.block_bytes + stats.contents_bytes,
           "the device has %llu bytes live; expected %llu, and %llu of contents",
           (unsigned long long)stats.live_bytes.all.current, (unsigned long long)all.block_bytes,
           (unsigned long long)stats.contents_bytes);
    EXPECT(test_stats(pw.default_pool).live_bytes == ordinary.block_bytes + stats.contents_bytes,
           "the default pool has %llu bytes live; expected %llu, and %llu of contents",
           (unsigned long long)test_stats(pw.default_pool).live_bytes,
           (unsigned long long)ordinary.block_bytes, (unsigned long long)stats.contents_bytes);
    ledger = test_ledger();
    taken = stats.mapped_bytes.all.current + stats.cached_bytes;
    GIVE(tarn_host_stats(pw.device, &stats)); /* contents of checkpoints are there, too */
    taken += stats.mapped_bytes.all.current + stats.cached_bytes;
    EXPECT(ledger.handle_bytes == taken || (pw.is_poisoned && ledger.handle_bytes > taken),
           "the driver has given %llu bytes; %llu are mapped or cached",
           (unsigned long long)ledger.handle_bytes, (unsigned long long)taken);
}
