// SPDX-License-Identifier: Apache-2.0
/* Children of fork(): every public function answers FORKED there, whatever the parent's other threads were at, and
 * comes back. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/every_call.h"

enum { HAMMERS = 3, FORKS = 60, CHILD_SECONDS = 20, CODE_ANSWERS = 1, CODE_SENTENCE = 2 };

static atomic_bool over;
static struct hammering {
    tn_cu_stream stream;
    atomic_uint rounds;
} hammering[HAMMERS];

static void open_all(void)
{
    test_world_open();
    test_subjects_make();
}

/* What hangs is ended by the alarm. Check has another use for that. */
static void limit_time(void)
{
    (void)signal(SIGALRM, SIG_DFL);
    (void)alarm(CHILD_SECONDS);
}

/* In the child: the exit status. noted: as the suites note answers, under a lock that another thread may have. */
static int call_all(bool noted)
{
    limit_time();
    for (size_t i = 0; i < test_call_count; i++) {
        tarn_status status = test_calls[i].make();

        if (test_calls[i].has_status && noted)
            test_note_status(test_calls[i].name, status, tarn_last_error());
        if (test_calls[i].has_status && status != TARN_ERR_FORKED) {
            (void)fprintf(stderr, "%s answers %s in a child\n", test_calls[i].name,
                          tarn_status_name(status));
            return CODE_ANSWERS;
        }
        if (test_calls[i].has_status && strstr(tarn_last_error(), "fork") == NULL)
            return CODE_SENTENCE;
    }
    return 0;
}

static void expect_child(pid_t child)
{
    int status = -1;

    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(!WIFSIGNALED(status), "a call in the child ended it by signal %d%s",
                  WTERMSIG(status), WTERMSIG(status) == SIGALRM ? ": it hung" : "");
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}

static void fork_and_call_all(bool noted)
{
    pid_t child = fork();

    if (child == 0)
        _exit(call_all(noted));
    expect_child(child);
}

SUITE("children of fork")
GROUP(children, open_all, .name = "in children")

TEST(children, the_calls_are_those_of_the_list)
{
    test_expect_every_call(TEST_SYMBOLS);
}

TEST(children, every_call_in_a_child_answers_forked)
{
    fork_and_call_all(true);
    OK(tarn_free(test_malloc(512))); /* the parent's go on */
    OK(tarn_pool_validate(world.pool));
}

/* What has no call around it looks at the device alone. */
TEST(children, a_steady_allocation_in_a_child_answers_forked)
{
    void *address = NULL;
    pid_t child;

    for (int i = 0; i < 1000; i++)
        OK(tarn_free(test_malloc(512)));
    child = fork();
    if (child == 0)
        _exit(tarn_malloc(world.device, 512, world.stream, &address) == TARN_ERR_FORKED ? 0 : 1);
    expect_child(child);
}

TEST(children, a_steady_free_in_a_child_answers_forked)
{
    void *address;
    pid_t child;

    for (int i = 0; i < 1000; i++)
        OK(tarn_free(test_malloc(512)));
    address = test_malloc(512);
    child = fork();
    if (child == 0)
        _exit(tarn_free(address) == TARN_ERR_FORKED ? 0 : 1);
    expect_child(child);
    OK(tarn_free(address));
}

/* As much as can be under locks. */
static void *hammer(void *argument)
{
    struct hammering *own = argument;
    tn_cu_stream stream = own->stream;
    void *blocks[64];
    tarn_layout *layout;

    while (!atomic_load(&over)) {
        tarn_pool *pool = test_pool("hammered");

        for (size_t i = 0; i < 64; i++)
            blocks[i] = test_alloc(i % 2 == 0 ? pool : world.default_pool, 512 * (i + 1), stream);
        OK(tarn_pool_layout(world.default_pool, &layout));
        tarn_layout_destroy(layout);
        (void)test_device_stats();
        for (size_t i = 0; i < 64; i++)
            OK(i % 3 == 0 ? tarn_free_on(blocks[i], stream) : tarn_free(blocks[i]));
        OK(tarn_pool_trim(pool, NULL));
        OK(tarn_pool_destroy(pool));
        atomic_fetch_add(&own->rounds, 1);
    }
    return NULL;
}

TEST(children, every_call_in_a_child_answers_forked_while_others_were_inside_at_the_fork)
{
    pthread_t threads[HAMMERS];

    for (int i = 0; i < HAMMERS; i++) {
        hammering[i].stream = test_stream();
        ck_assert_int_eq(pthread_create(&threads[i], NULL, hammer, &hammering[i]), 0);
    }
    for (int i = 0; i < FORKS; i++)
        fork_and_call_all(false);
    atomic_store(&over, true);
    for (int i = 0; i < HAMMERS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_gt(atomic_load(&hammering[i].rounds), 0);
    }
}

/* Threads that stand in the middle of a call until they are let go. */
static atomic_int standing;
static atomic_bool go_on;

static void stand(void)
{
    atomic_fetch_add(&standing, 1);
    while (!atomic_load(&go_on))
        continue;
}

static bool standing_filter(tarn_stream stream, void *user)
{
    (void)stream;
    (void)user;
    stand();
    return false;
}

static bool standing_callback(tarn_device *device, size_t wanted_bytes, void *user)
{
    (void)device;
    (void)wanted_bytes;
    (void)user;
    stand();
    return false;
}

static void *malloc_once(void *stream)
{
    void *address;

    OK(tarn_malloc(world.device, 512, stream, &address));
    OK(tarn_free(address));
    return NULL;
}

static void *alloc_too_much(void *stream)
{
    void *address;

    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_pool_malloc(world.pool, 8191 * MIB, 0, stream, &address));
    return NULL;
}

static void fork_beside(void *(*body)(void *))
{
    pthread_t thread;
    tn_cu_stream stream = test_stream();

    ck_assert_int_eq(pthread_create(&thread, NULL, body, stream), 0);
    while (atomic_load(&standing) == 0)
        continue;
    fork_and_call_all(false);
    atomic_store(&go_on, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

TEST(children, a_child_answers_while_the_routes_are_locked)
{
    tarn_route *route = test_route(world.pool, standing_filter, NULL);

    fork_beside(malloc_once);
    OK(tarn_end_allocate_to_pool(route));
}

TEST(children, a_child_answers_while_a_callback_runs)
{
    OK(tarn_device_add_free_callback(world.device, standing_callback, NULL));
    fork_beside(alloc_too_much);
}

/* A function of the program's forks, and the child comes back to the call around it. */
static pid_t forked;

static bool forking_filter(tarn_stream stream, void *user)
{
    (void)stream;
    (void)user;
    forked = fork();
    if (forked == 0)
        limit_time();
    return false;
}

static bool forking_callback(tarn_device *device, size_t wanted_bytes, void *user)
{
    (void)device;
    (void)wanted_bytes;
    return forking_filter(NULL, user);
}

static void forking_observer(tarn_device *device, const tarn_out_of_memory *what, void *user)
{
    (void)device;
    (void)what;
    (void)forking_filter(NULL, user);
}

/* In both processes; in the child the call answers FORKED, as do all behind it. */
static void judge(tarn_status status, tarn_status of_parent)
{
    if (forked == 0)
        _exit(status == TARN_ERR_FORKED ? call_all(false) : CODE_ANSWERS);
    ck_assert_int_eq(status, of_parent);
    expect_child(forked);
}

TEST(children, a_filter_may_fork)
{
    void *address = NULL;
    tarn_status status;
    tarn_route *route = test_route(world.pool, forking_filter, NULL);

    status = tarn_malloc(world.device, 512, world.stream, &address);
    judge(status, TARN_OK);
    OK(tarn_free(address));
    OK(tarn_end_allocate_to_pool(route));
}

static tarn_status run_out(int which)
{
    tarn_checkpoint *checkpoint;
    void *address;

    switch (which) {
    case 0:
        return tarn_pool_malloc(world.pool, 8191 * MIB, 0, world.stream, &address);
    case 1:
        return tarn_malloc(world.device, 8191 * MIB, world.stream, &address);
    case 2:
        return tarn_pool_reserve(world.pool, 8191 * MIB, world.stream);
    default:
        return tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint);
    }
}

enum { RUN_OUTS = 4 };

/* Each call that goes down the ladder; then one with an observer alone. */
TEST_LOOP(children, a_callback_may_fork, 0, 2 * RUN_OUTS)
{
    tarn_status of_parent = TARN_ERR_DEVICE_MEMORY;
    int which = _i % RUN_OUTS;

    if (which == RUN_OUTS - 1) /* nothing is left for the contents */
        (void)test_alloc(world.pool, 6000 * MIB, world.stream);
    if (_i < RUN_OUTS)
        OK(tarn_device_add_free_callback(world.device, forking_callback, NULL));
    else
        OK(tarn_device_add_oom_observer(world.device, forking_observer, NULL));
    judge(run_out(which), of_parent);
    OK(tarn_free(test_malloc(512)));
}

/* Forks at one event, behind others. */
static void forking_tracker(tarn_device *device, const tarn_tracked *what, void *before)
{
    (void)device;
    (void)what;
    if ((*(size_t *)before)-- == 0)
        (void)forking_filter(NULL, NULL);
}

static tarn_status make_tracked_call(int which)
{
    void *address;

    switch (which) {
    case 0:
        return tarn_pool_trim(world.pool, NULL);
    case 1:
        return tarn_device_trim(world.device, 0, NULL);
    default: /* the ladder takes the other pool's memory */
        return tarn_pool_malloc(world.default_pool, 8000 * MIB, 0, world.side, &address);
    }
}

enum { TRACKED_CALLS = 3, CHUNKS_BEFORE = 2 };

/* The first chunk goes, or a later one. */
TEST_LOOP(children, a_tracker_may_fork, 0, CHUNKS_BEFORE *TRACKED_CALLS)
{
    size_t before = (size_t)(_i / TRACKED_CALLS);
    void *blocks[3];

    for (size_t i = 0; i < 3; i++)
        blocks[i] = test_alloc(world.pool, 64 * MIB, world.stream);
    for (size_t i = 0; i < 3; i++)
        OK(tarn_free(blocks[i]));
    test_synchronize(world.stream);
    OK(tarn_device_add_tracker(world.device, forking_tracker, &before, TARN_TRACKED_UNMAPPING));
    judge(make_tracked_call(_i % TRACKED_CALLS), TARN_OK);
}

/* What has been done by then is not refused in the child; nor does the child go on with it. */
TEST_LOOP(children, a_tracker_may_fork_when_a_call_is_over, 0, 3)
{
    size_t before = 0;
    void *address = NULL;
    tarn_pool *pool = test_pool("short");

    if (_i > 0) /* it is idle, since never used */
        OK(tarn_pool_reserve(pool, 64 * MIB, world.stream));
    OK(tarn_device_add_tracker(world.device, forking_tracker, &before, TARN_TRACKED_ALL));
    if (_i == 0)
        address = test_alloc(pool, 64 * MIB, world.stream);
    else if (_i == 1)
        OK(tarn_pool_destroy(pool));
    else
        OK(tarn_pool_release(pool));
    if (forked == 0)
        _exit(call_all(false));
    expect_child(forked);
    OK(tarn_free(address));
}
