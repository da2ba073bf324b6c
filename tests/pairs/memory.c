// SPDX-License-Identifier: Apache-2.0
/* The features of memory: allocation, growth, frees by other threads, uses by other streams, routes, trims, the
 * ladder, pools that are released. */
#include "pairs/pairs.h"

/* Allocation: some blocks of the shared pool, one of them freed and its memory used again at once. */
static void allocation_begin(struct pairs_member *m)
{
    m->blocks[0] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[0], m->stream);
    m->blocks[1] = pairs_alloc(m, 3 * PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[1], m->stream);
}

static void allocation_end(struct pairs_member *m)
{
    pairs_free(&m->blocks[0]);
    m->blocks[2] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[2], m->stream);
    m->blocks[3] = pairs_alloc(m, 512, m->side);
    pairs_fill(m->blocks[3], m->side);
}

static void free_all(struct pairs_member *m)
{
    for (int i = 0; i < PAIRS_OWN; i++)
        pairs_free(&m->blocks[i]);
}

static void look_at_all(struct pairs_member *m)
{
    for (int i = 0; i < PAIRS_OWN; i++)
        pairs_look_at(m->blocks[i]);
}

const struct pairs_module pairs_allocation = {
    .name = "allocation",
    .what = "blocks on two streams; one is freed and its memory used again",
    .begin = allocation_begin,
    .end = allocation_end,
    .verify = look_at_all,
    .finish = free_all,
};

/* Growth: more than the pool has. */
static void growth_begin(struct pairs_member *m)
{
    m->blocks[0] = pairs_alloc(m, 48 * MIB, m->stream);
    pairs_fill(m->blocks[0], m->stream);
}

static void growth_end(struct pairs_member *m)
{
    tarn_status status;
    tarn_pool *pool;

    m->blocks[1] = pairs_alloc(m, 96 * MIB, m->stream);
    pairs_fill(m->blocks[1], m->stream);
    do {
        pool = pairs_pool(m);
        status = pool != NULL ? tarn_pool_reserve(pool, 64 * MIB, m->side) : TARN_OK;
    } while (pairs_is_stale(m, pool, status));
    (void)pairs_need(status, "tarn_pool_reserve");
}

const struct pairs_module pairs_growth = {
    .name = "growth",
    .what = "blocks larger than what is mapped, and a reservation",
    .begin = growth_begin,
    .end = growth_end,
    .verify = look_at_all,
    .finish = free_all,
};

/* Free elsewhere: another thread frees, again and again, so that the arena has an inbox. */
enum { ELSEWHERE = 4 };

static void elsewhere_prepare(struct pairs_member *m)
{
    for (int i = 0; i < ELSEWHERE; i++) {
        m->blocks[i] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
        pairs_fill(m->blocks[i], m->stream);
    }
}

struct errand {
    struct pairs_member *m;
    int first;
    int count;
    bool watched;
};

static void *free_some(void *argument)
{
    struct errand *errand = argument;

    pairs_enter_thread();
    pairs_stand_inherit(errand->watched);
    for (int i = errand->first; i < errand->first + errand->count; i++)
        pairs_free(&errand->m->blocks[i]);
    return NULL;
}

static void send(struct pairs_member *m, int first, int count)
{
    struct errand errand = {m, first, count, pairs_stands_here()};
    pthread_t thread;

    EXPECT(pthread_create(&thread, NULL, free_some, &errand) == 0, "no thread");
    EXPECT(pthread_join(thread, NULL) == 0, "no join");
}

static void elsewhere_begin(struct pairs_member *m)
{
    send(m, 0, 2);
}

static void elsewhere_end(struct pairs_member *m)
{
    m->blocks[0] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[0], m->stream);
    send(m, 2, 2);
    m->blocks[1] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[1], m->stream);
}

const struct pairs_module pairs_free_elsewhere = {
    .name = "free elsewhere",
    .what = "another thread frees blocks of this one's stream",
    .prepare = elsewhere_prepare,
    .begin = elsewhere_begin,
    .end = elsewhere_end,
    .verify = look_at_all,
    .finish = free_all,
};

/* Stream use: blocks whose last use is on another stream. */
static void use_prepare(struct pairs_member *m)
{
    for (int i = 0; i < 3; i++) {
        m->blocks[i] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
        pairs_fill(m->blocks[i], m->stream);
    }
}

static void use_begin(struct pairs_member *m)
{
    GIVE(tarn_record_stream(NULL, m->side)); /* which is nobody's, as a block of no bytes is */
    if (pairs_is_there(m->blocks[0]) &&
        NEED(tarn_record_stream(pairs_address(m->blocks[0]), m->side))) {
        pairs_fill(m->blocks[0], m->side);
        pairs_free(&m->blocks[0]);
    }
    if (pairs_is_there(m->blocks[1]) &&
        NEED(tarn_record_stream(pairs_address(m->blocks[1]), m->side)))
        pairs_fill(m->blocks[1], m->side);
}

static void use_end(struct pairs_member *m)
{
    pairs_fill(m->blocks[2], m->side);
    pairs_free_on(&m->blocks[2], m->side);
    m->blocks[3] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[3], m->stream);
}

const struct pairs_module pairs_stream_use = {
    .name = "stream use",
    .what = "blocks that another stream uses, by record and by free_on",
    .prepare = use_prepare,
    .begin = use_begin,
    .end = use_end,
    .verify = look_at_all,
    .finish = free_all,
};

/* Route: of the thread, to a pool. */
static void route_begin(struct pairs_member *m)
{
    tarn_status status;

    do {
        m->pool = pairs_pool(m);
        status = m->pool != NULL ? tarn_begin_allocate_to_pool(pw.device, m->pool,
                                                               tarn_filter_thread, NULL, &m->route)
                                 : TARN_ERR_DEVICE_LOST;
    } while (pairs_is_stale(m, m->pool, status));
    m->is_open = pairs_need(status, "tarn_begin_allocate_to_pool");
    m->number = (uint64_t)pairs_home_of(m->pool);
    m->blocks[0] = pairs_malloc(PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[0], m->stream);
}

static void route_end(struct pairs_member *m)
{
    m->blocks[1] = pairs_malloc(2 * PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[1], m->stream);
    if (m->is_open && pairs_is_there(m->blocks[0]) && !pairs_is_concurrent())
        EXPECT(pw.blocks[m->blocks[0]].home == (int)m->number,
               "the route's first block is of pool %d", pw.blocks[m->blocks[0]].home);
    if (m->is_open)
        GIVE(tarn_end_allocate_to_pool(m->route));
    m->is_open = false;
}

const struct pairs_module pairs_route = {
    .name = "route",
    .what = "the thread's allocations go to a pool for a while",
    .begin = route_begin,
    .end = route_end,
    .verify = look_at_all,
    .finish = free_all,
};

/* Trim: of the pool, then of the device. Free memory of two streams is there. */
static void trim_prepare(struct pairs_member *m)
{
    m->blocks[0] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[0], m->stream);
    m->blocks[1] = pairs_alloc(m, 32 * MIB, m->stream);
    pairs_fill(m->blocks[1], m->stream);
    m->blocks[2] = pairs_alloc(m, 16 * MIB, m->side);
    pairs_fill(m->blocks[2], m->side);
}

static void trim_begin(struct pairs_member *m)
{
    tarn_status status;
    tarn_pool *pool;

    pairs_free(&m->blocks[1]);
    do {
        pool = pairs_pool(m);
        status = pool != NULL ? tarn_pool_trim(pool, NULL) : TARN_OK;
    } while (pairs_is_stale(m, pool, status));
    (void)pairs_need(status, "tarn_pool_trim");
}

static void trim_end(struct pairs_member *m)
{
    pairs_free(&m->blocks[2]);
    (void)NEED(tarn_device_trim(pw.device, 0, NULL));
    m->blocks[3] = pairs_alloc(m, 8 * MIB, m->stream);
    pairs_fill(m->blocks[3], m->stream);
}

const struct pairs_module pairs_trim = {
    .name = "trim",
    .what = "free memory of pool and device goes to the driver",
    .prepare = trim_prepare,
    .begin = trim_begin,
    .end = trim_end,
    .verify = look_at_all,
    .finish = free_all,
};

/* Ladder: the device is at its limit, and a callback gives a hoard. */
enum { HOARD = 128 << 20 };

bool pairs_lift_limit(struct pairs_member *m, tarn_device *device)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    bool first;

    (void)pthread_mutex_lock(&lock);
    first = m->is_open;
    if (first) {
        m->is_open = false;
        m->number += 1;
        GIVE(tarn_device_set_limit(device, 0));
    }
    (void)pthread_mutex_unlock(&lock);
    return first;
}

static bool give_hoard(tarn_device *device, size_t wanted_bytes, void *user)
{
    struct pairs_member *m = user;
    void (*inside)(struct pairs_member * other) = m->inside;

    (void)wanted_bytes;
    if (!pairs_lift_limit(m, device))
        return m->number > 0; /* another thread's call has lifted the limit */
    m->inside = NULL;
    if (pw.seed % 2 == 1)
        pairs_free(&m->blocks[0]);
    pairs_is_inside = true;
    if (inside != NULL)
        inside(m);
    pairs_is_inside = false;
    pairs_free(&m->blocks[0]);
    return true;
}

static void ladder_prepare(struct pairs_member *m)
{
    m->blocks[0] = pairs_alloc(m, HOARD, m->stream);
    pairs_fill(m->blocks[0], m->stream);
}

static void ladder_begin(struct pairs_member *m)
{
    tarn_stats stats = TARN_STATS_INIT;
    tarn_status status;
    tarn_pool *pool;
    void *address = NULL;
    bool is_short = pairs_is_there(m->blocks[0]);

    if (!NEED(tarn_device_add_free_callback(pw.device, give_hoard, m)))
        return;
    GIVE(tarn_device_stats(pw.device, &stats));
    m->is_open = true;
    GIVE(tarn_device_set_limit(pw.device, stats.mapped_bytes.all.current + stats.cached_bytes));
    if (pairs_is_inside) { /* whose allocations call no callback */
        pool = pairs_pool(m);
        status = pool != NULL ? tarn_pool_malloc(pool, 2 * (size_t)HOARD, 0, m->stream, &address)
                              : TARN_ERR_LIMIT;
        EXPECT(status == TARN_ERR_LIMIT || !pairs_is_well(), "in a callback: %s",
               tarn_status_name(status));
    } else {
        m->blocks[1] = pairs_alloc(m, HOARD, m->stream);
        EXPECT(m->number == 1 || !is_short || !pairs_is_well() || pairs_is_concurrent(),
               "the callback was called %d times", (int)m->number);
    }
    GIVE(tarn_device_set_limit(pw.device, 0));
    pairs_fill(m->blocks[1], m->stream);
    GIVE(tarn_device_remove_free_callback(pw.device, give_hoard, m));
    m->is_open = false;
}

static void ladder_end(struct pairs_member *m)
{
    m->blocks[2] = pairs_alloc(m, 8 * MIB, m->stream);
    pairs_fill(m->blocks[2], m->stream);
}

const struct pairs_module pairs_ladder = {
    .name = "ladder",
    .what = "memory is short, and a callback frees some",
    .prepare = ladder_prepare,
    .begin = ladder_begin,
    .end = ladder_end,
    .verify = look_at_all,
    .finish = free_all,
    .calls_back = true,
};

/* Pool released: the shared one; what is in it goes on, and others get a new one. */
static void released_prepare(struct pairs_member *m)
{
    m->blocks[0] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[0], m->stream);
}

/* In a callback of the ladder that allocates from it, too: there it is no pool to be destroyed, and one to be released,
 * also where nothing is live in it any more. */
static void released_begin(struct pairs_member *m)
{
    if (pw.seed % 2 == 1)
        pairs_free(&m->blocks[0]);
    if (pairs_is_inside && pairs_is_well())
        EXPECT(tarn_pool_destroy(pw.pool) == TARN_ERR_BUSY,
               "a pool is destroyed while an allocation from it is under way");
    pairs_release_pool();
}

static void released_end(struct pairs_member *m)
{
    pairs_look_at(m->blocks[0]);
    pairs_fill(m->blocks[0], m->stream);
    m->blocks[1] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[1], m->stream);
}

const struct pairs_module pairs_pool_released = {
    .name = "pool released",
    .what = "the pool's handle is given up; its blocks, graphs and checkpoints go on",
    .prepare = released_prepare,
    .begin = released_begin,
    .end = released_end,
    .verify = look_at_all,
    .finish = free_all,
};
