// SPDX-License-Identifier: Apache-2.0
/* The features of threads, processes and devices that end: thread exit, cancellation, fork, a lost device. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pairs/pairs.h"

static void look_at_all(struct pairs_member *m)
{
    for (int i = 0; i < PAIRS_OWN; i++)
        pairs_look_at(m->blocks[i]);
}

static void free_all(struct pairs_member *m)
{
    for (int i = 0; i < PAIRS_OWN; i++)
        pairs_free(&m->blocks[i]);
}

/* Thread exit: a thread leaves blocks, a recorded use and a route of its own. */
struct leaver {
    struct pairs_member *m;
    bool watched;
};

static void *leave_things(void *argument)
{
    struct leaver *leaver = argument;
    struct pairs_member *m = leaver->m;
    tarn_status status;

    pairs_enter_thread();
    pairs_stand_inherit(leaver->watched);
    do {
        m->pool = pairs_pool(m);
        status = m->pool != NULL ? tarn_begin_allocate_to_pool(pw.device, m->pool,
                                                               tarn_filter_thread, NULL, &m->route)
                                 : TARN_ERR_DEVICE_LOST;
    } while (pairs_is_stale(m, m->pool, status));
    m->is_open = pairs_need(status, "tarn_begin_allocate_to_pool");
    m->blocks[0] = pairs_malloc(PAIRS_STANDARD, m->streams[0]);
    pairs_fill(m->blocks[0], m->streams[0]);
    m->blocks[1] = pairs_alloc(m, PAIRS_STANDARD, m->streams[0]);
    pairs_fill(m->blocks[1], m->streams[0]);
    m->blocks[2] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[2], m->streams[0]);
    pairs_free_on(&m->blocks[2], m->streams[0]);
    if (pairs_is_there(m->blocks[1]))
        (void)NEED(tarn_record_stream(pairs_address(m->blocks[1]), m->side));
    return NULL;
}

static void exit_prepare(struct pairs_member *m)
{
    m->streams[0] = test_stream();
}

static void exit_begin(struct pairs_member *m)
{
    struct leaver leaver = {m, pairs_stands_here()};
    pthread_t thread;

    EXPECT(pthread_create(&thread, NULL, leave_things, &leaver) == 0, "no thread");
    EXPECT(pthread_join(thread, NULL) == 0, "no join");
}

static void exit_end(struct pairs_member *m)
{
    if (m->is_open)
        GIVE(tarn_end_allocate_to_pool(m->route));
    m->is_open = false;
    pairs_free(&m->blocks[1]);
    m->blocks[3] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[3], m->stream);
}

static void exit_finish(struct pairs_member *m)
{
    free_all(m);
    (void)NEED(tarn_stream_retire(pw.device, m->streams[0]));
    test_destroy_stream(m->streams[0]);
}

const struct pairs_module pairs_thread_exit = {
    .name = "thread exit",
    .what = "a thread exits with blocks, uses and a route of its own",
    .prepare = exit_prepare,
    .begin = exit_begin,
    .end = exit_end,
    .verify = look_at_all,
    .finish = exit_finish,
};

/* Cancellation: of a thread that allocates, frees, replays, trims and removes callbacks without end. */
static bool give_nothing(tarn_device *device, size_t wanted_bytes, void *user)
{
    const struct timespec some_time = {0, 500000};
    int cancelling = 0;

    (void)device;
    (void)wanted_bytes;
    (void)user;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    (void)nanosleep(&some_time, NULL); /* so that removing it waits */
    (void)pthread_setcancelstate(cancelling, NULL);
    return false;
}

/* What such a thread has; it is in no books. */
struct work {
    struct pairs_member *m;
    void *block;
    tarn_capture *capture;
    tarn_graph *graph;
    bool watched;
};

static void drop_work(void *argument)
{
    struct work *work = argument;

    if (work->capture != NULL)
        GIVE(tarn_capture_abort(work->capture));
    if (work->graph != NULL)
        GIVE(tarn_graph_destroy(work->graph));
    if (work->block != NULL)
        GIVE(tarn_free(work->block));
}

static bool may_be(tarn_status status)
{
    return status == TARN_OK || status == TARN_ERR_INVALID_HANDLE || /* released just now */
           ((status == TARN_ERR_DEVICE_LOST || status == TARN_ERR_POISONED) && !pairs_is_well());
}

/* A capture without work makes the second graph of a pool that has one. */
static void make_graph(struct work *work, tarn_pool *pool)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    tarn_status status;

    status =
        tarn_capture_begin(pool, work->m->streams[0], CAPTURE_MODE(TARN_CAPTURE_RELAXED), &capture);
    EXPECT(may_be(status), "tarn_capture_begin: %s", tarn_status_name(status));
    if (status != TARN_OK)
        return;
    work->capture = capture;
    status = tarn_capture_end(capture, &graph);
    EXPECT(may_be(status), "tarn_capture_end: %s", tarn_status_name(status));
    if (status != TARN_OK)
        return;
    work->capture = NULL;
    work->graph = graph;
    status = tarn_graph_replay(graph, work->m->streams[1]);
    EXPECT(may_be(status), "tarn_graph_replay: %s", tarn_status_name(status));
    work->graph = NULL;
    GIVE(tarn_graph_destroy(graph));
}

static void turn(struct work *work)
{
    struct pairs_member *m = work->m;
    tarn_pool *pool = pairs_pool(m);
    tarn_status status;

    if (work->block == NULL) {
        status = tarn_pool_malloc(pool, PAIRS_STANDARD, 0, m->streams[0], &work->block);
        EXPECT(may_be(status), "tarn_pool_malloc: %s", tarn_status_name(status));
    }
    if (work->block != NULL && tarn_free_on(work->block, m->side) == TARN_OK)
        work->block = NULL;
    make_graph(work, pool);
    status = tarn_device_add_free_callback(pw.device, give_nothing, m);
    if (status == TARN_OK)
        GIVE(tarn_device_remove_free_callback(pw.device, give_nothing, m));
    status = tarn_pool_trim(pool, NULL);
    EXPECT(may_be(status), "tarn_pool_trim: %s", tarn_status_name(status));
}

/* The test's own waits are no places to be cancelled at; the library's calls are under way where it may be. */
static void *work_for_ever(void *argument)
{
    struct work *work = argument;
    int cancelling = 0;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    pairs_enter_thread();
    pairs_stand_inherit(work->watched);
    pthread_cleanup_push(drop_work, work);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancelling);
    for (;;) {
        pthread_testcancel();
        turn(work);
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancellation_prepare(struct pairs_member *m)
{
    m->streams[0] = test_stream();
    m->streams[1] = test_stream();
    m->blocks[0] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[0], m->stream);
}

static void cancel_one(struct pairs_member *m)
{
    struct work work = {.m = m, .watched = pairs_stands_here()};
    const struct timespec while_it_works = {0, (long)(1 + pairs_random(40)) * 50000};
    pthread_t thread;

    EXPECT(pthread_create(&thread, NULL, work_for_ever, &work) == 0, "no thread");
    (void)nanosleep(&while_it_works, NULL);
    EXPECT(pthread_cancel(thread) == 0, "it cannot be cancelled");
    EXPECT(pthread_join(thread, NULL) == 0, "no join");
}

static void cancellation_begin(struct pairs_member *m)
{
    cancel_one(m);
}

static void cancellation_end(struct pairs_member *m)
{
    cancel_one(m);
    m->blocks[2] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[2], m->stream);
}

static void cancellation_finish(struct pairs_member *m)
{
    free_all(m);
    for (int i = 0; i < 2; i++) {
        (void)cu.cuStreamSynchronize(m->streams[i]);
        (void)NEED(tarn_stream_retire(pw.device, m->streams[i]));
        test_destroy_stream(m->streams[i]);
    }
}

const struct pairs_module pairs_cancellation = {
    .name = "cancellation",
    .what =
        "a thread is cancelled while it allocates, captures, replays, trims and removes callbacks",
    .prepare = cancellation_prepare,
    .begin = cancellation_begin,
    .end = cancellation_end,
    .verify = look_at_all,
    .finish = cancellation_finish,
};

/* Fork: every call in the child says that it is one, at once. */
static void forked(tarn_status status, const char *call)
{
    if (status == TARN_ERR_FORKED)
        return;
    (void)fprintf(stderr, "in the child of a fork: %s: %s\n", call, tarn_status_name(status));
    _exit(1);
}
#define FORKED(call) forked((call), #call)

static _Noreturn void be_the_child(struct pairs_member *m)
{
    tarn_stats stats = TARN_STATS_INIT;
    tarn_pool *pool = pw.other;
    tarn_checkpoint *checkpoint = NULL;
    tarn_capture *capture = NULL;
    tarn_device *device = NULL;
    tarn_layout *layout = NULL;
    tarn_snapshot *snapshot = NULL;
    tarn_leaks *leaks = NULL;
    tarn_snapshot_diff *snapshot_diff = NULL;
    tarn_group *group = NULL;
    tarn_symmetric *symmetric = NULL;
    tarn_live_diff *diff = NULL;
    tarn_pool *made = NULL;
    void *address = pw.blocks[m->blocks[0]].address;
    void *other = NULL;
    tarn_block block;
    tarn_segment segment = TARN_SEGMENT_INIT;
    tarn_history_info history = TARN_HISTORY_INFO_INIT;
    tarn_history_settings settings = TARN_HISTORY_SETTINGS_INIT;
    size_t bytes;
    uint64_t mark;

    (void)alarm(60); /* it must not hang; a signal ends it. A busy machine may take seconds */
    FORKED(tarn_free(address));
    FORKED(tarn_free_on(address, m->stream));
    FORKED(tarn_record_stream(address, m->side));
    FORKED(tarn_block_at(address, &block));
    FORKED(tarn_block_annotate(address, "text"));
    FORKED(tarn_range_begin(pw.device, "range", &mark));
    FORKED(tarn_range_end(pw.device, 0));
    FORKED(tarn_device_clear_history(pw.device));
    FORKED(tarn_device_set_interpreter(pw.device, NULL, NULL, NULL));
    FORKED(tarn_device_set_history(pw.device, &settings));
    FORKED(tarn_device_history_info(pw.device, &history));
    FORKED(tarn_label_set("label"));
    FORKED(tarn_label_push("label"));
    FORKED(tarn_label_pop());
    FORKED(tarn_label_get(NULL, 0, NULL));
    FORKED(tarn_malloc_labeled(pw.device, NULL, 512, 0, m->stream, "label", &other));
    FORKED(tarn_segment_at(address, &segment));
    FORKED(tarn_malloc(pw.device, 512, m->stream, &other));
    FORKED(tarn_pool_malloc(pool, 512, 0, m->stream, &other));
    FORKED(tarn_pool_malloc(pool, 64 * MIB, 0, m->stream, &other));
    FORKED(tarn_pool_reserve(pool, 64 * MIB, m->stream));
    FORKED(tarn_pool_trim(pool, NULL));
    FORKED(tarn_device_trim(pw.device, 0, NULL));
    FORKED(tarn_device_largest(pw.device, NULL, m->stream, &bytes));
    FORKED(tarn_pool_validate(pool));
    FORKED(tarn_pool_layout(pool, &layout));
    FORKED(tarn_pool_check_live(pool, NULL, 0, &diff));
    FORKED(tarn_snapshot_take(pw.device, NULL, &snapshot));
    FORKED(tarn_snapshot_add_history(snapshot, pw.device));
    FORKED(tarn_leaks_find(pw.device, NULL, &leaks));
    FORKED(tarn_device_write_metrics(pw.device, TARN_METRICS_JSON, 0, NULL, NULL));
    FORKED(tarn_snapshot_compare(snapshot, snapshot, &snapshot_diff));
    FORKED(tarn_group_create(pw.device, NULL, &group));
    FORKED(tarn_group_meet(group, 0));
    FORKED(tarn_symmetric_malloc(symmetric, 512, 0, &other));
    FORKED(tarn_symmetric_collect(symmetric, 0));
    FORKED(tarn_pool_stats(pool, &stats));
    FORKED(tarn_device_stats(pw.device, &stats));
    FORKED(tarn_device_mark(pw.device, &mark));
    FORKED(tarn_device_add_peer(pw.device, 0));
    FORKED(tarn_device_set_limit(pw.device, 0));
    FORKED(tarn_device_default_pool(pw.device, &made));
    FORKED(tarn_pool_create(pw.device, NULL, &made));
    FORKED(tarn_begin_allocate_to_pool(pw.device, pool, tarn_filter_thread, NULL, &m->route));
    FORKED(tarn_end_allocate_to_pool(m->route));
    FORKED(tarn_capture_begin(pool, m->stream, CAPTURE_MODE(TARN_CAPTURE_RELAXED), &capture));
    FORKED(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, m->stream, &checkpoint));
    FORKED(tarn_stream_retire(pw.device, m->stream));
    if (m->graphs[0] != NULL) {
        FORKED(tarn_graph_replay(m->graphs[0], m->stream));
        FORKED(tarn_graph_destroy(m->graphs[0]));
    }
    FORKED(tarn_device_add_free_callback(pw.device, give_nothing, NULL));
    FORKED(tarn_device_remove_free_callback(pw.device, give_nothing, NULL));
    FORKED(tarn_pool_release(pool));
    FORKED(tarn_pool_destroy(pool));
    FORKED(tarn_device_open(0, NULL, &device));
    FORKED(tarn_device_close(pw.device));
    _exit(0);
}

static void fork_prepare(struct pairs_member *m)
{
    m->blocks[0] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[0], m->stream);
    m->blocks[1] = pairs_alloc_default(PAIRS_STANDARD, m->stream);
    m->graphs[0] = pairs_graph(m, pairs_pool(m), m->stream, pairs_pattern(), m->blocks[1]);
}

static void fork_one(struct pairs_member *m)
{
    int status = 0;
    pid_t child;

    if (m->blocks[0] == PAIRS_NONE)
        return;
    (void)fflush(NULL);
    child = fork();
    if (child == 0)
        be_the_child(m);
    EXPECT(child > 0, "no fork");
    while (waitpid(child, &status, 0) < 0)
        EXPECT(errno == EINTR, "no child");
    EXPECT(!WIFSIGNALED(status), "the child of a fork %s",
           WTERMSIG(status) == SIGALRM ? "hangs" : "died by a signal");
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child of a fork fails");
}

static void fork_begin(struct pairs_member *m)
{
    fork_one(m);
}

static void fork_end(struct pairs_member *m)
{
    m->blocks[2] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[2], m->stream);
    fork_one(m);
}

static void fork_finish(struct pairs_member *m)
{
    pairs_end_graph(&m->graphs[0]);
    free_all(m);
}

const struct pairs_module pairs_fork = {
    .name = "fork",
    .what = "a child says that it is one at each call; the parent goes on",
    .prepare = fork_prepare,
    .begin = fork_begin,
    .end = fork_end,
    .verify = look_at_all,
    .finish = fork_finish,
};

/* Device lost: a kernel writes where no memory is. Its fault is seen by whoever waits. */
static void lost_prepare(struct pairs_member *m)
{
    m->streams[0] = test_stream();
    m->blocks[0] = pairs_alloc(m, PAIRS_STANDARD, m->streams[0]);
    pairs_fill(m->blocks[0], m->streams[0]);
}

static void lost_begin(struct pairs_member *m)
{
    if (pw.health == PAIRS_WELL && pw.order == PAIRS_WITHIN)
        test_hold_until_waited();
    pw.health = pw.health == PAIRS_WELL ? PAIRS_PERHAPS : pw.health;
    (void)DRIVE(pairs_write(m->streams[0], (char *)(uintptr_t)(64 * GIB), 4, 1));
}

/* A device may have been poisoned before. */
static void says_so(tarn_status status, const char *call)
{
    EXPECT(status == TARN_ERR_DEVICE_LOST || (status == TARN_ERR_POISONED && pw.is_poisoned),
           "%s on a lost device: %s", call, tarn_status_name(status));
}

static void lost_end(struct pairs_member *m)
{
    tarn_pool *pool = NULL;

    pairs_relax(true);
    EXPECT(cu.cuStreamSynchronize(m->streams[0]) != TN_CUDA_SUCCESS, "the device is not lost");
    pw.health = PAIRS_LOST;
    pw.is_lost = true;
    says_so(tarn_pool_reserve(pw.other, GIB, m->streams[0]), "tarn_pool_reserve");
    says_so(tarn_pool_create(pw.device, NULL, &pool), "tarn_pool_create");
    pairs_relax(false);
}

static void lost_finish(struct pairs_member *m)
{
    free_all(m);
    test_destroy_stream(m->streams[0]);
}

const struct pairs_module pairs_device_lost = {
    .name = "device lost",
    .what = "a kernel faults: calls answer so, frees and destroys work",
    .prepare = lost_prepare,
    .begin = lost_begin,
    .end = lost_end,
    .verify = look_at_all,
    .finish = lost_finish,
};
