// SPDX-License-Identifier: Apache-2.0
/* The system starts as many threads as the test allows. */
#include "base/team.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/placement.h"
#include "unit/unit.h"

enum { PARTS = 1000, THREADS = 4 };

static struct tn_team team;
static int allowed = THREADS;
static atomic_int on_node;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*begin)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*begin)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*begin)(void *), void *argument)
{
    if (allowed == 0)
        return EAGAIN;
    allowed -= 1;
    return __real_pthread_create(thread, attributes, begin, argument);
}

bool __wrap_tn_placement_run_on(int node);
bool __wrap_tn_placement_run_on(int node)
{
    ck_assert_int_eq(node, 1);
    (void)atomic_fetch_add(&on_node, 1);
    return true;
}

struct job {
    atomic_int done[PARTS];
    atomic_bool stopped; /* parts from stop_at on wait */
    uint64_t stop_at;
    atomic_bool signals; /* a thread has a signal that is not blocked */
};

static void work(void *argument, uint64_t part)
{
    struct job *job = argument;
    sigset_t blocked;

    (void)pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    if (!sigismember(&blocked, SIGUSR1) || !sigismember(&blocked, SIGINT))
        atomic_store(&job->signals, true);
    while (part >= job->stop_at && atomic_load(&job->stopped))
        (void)sched_yield();
    (void)atomic_fetch_add(&job->done[part], 1);
}

static struct job *new_job(void)
{
    struct job *job = tn_host_alloc(1, sizeof *job);

    ck_assert_ptr_nonnull(job);
    job->stop_at = PARTS;
    return job;
}

static void expect_done(const struct job *job, uint64_t first, uint64_t end)
{
    for (uint64_t i = first; i < end; i++)
        ck_assert_int_eq(atomic_load(&job->done[i]), 1);
}

static void open_team(void)
{
    tn_team_init(&team, THREADS, 1);
}

static void close_team(void)
{
    tn_team_fini(&team);
    ck_assert_int_eq(tn_host_outstanding(), 0);
}

GROUP(team, open_team, close_team)

TEST(team, each_part_of_each_job_is_done_once)
{
    for (int round = 0; round < 20; round++) {
        struct job *job = new_job();

        ck_assert(tn_team_begin(&team, work, job, PARTS));
        tn_team_await(&team, PARTS);
        expect_done(job, 0, PARTS);
        tn_team_end(&team);
        ck_assert(!atomic_load(&job->signals));
        tn_host_free(job);
    }
    ck_assert_int_eq(allowed, 0); /* threads are made once */
    ck_assert_int_eq(atomic_load(&on_node), THREADS);
}

TEST(team, the_first_parts_can_be_waited_for_alone)
{
    struct job *job = new_job();

    job->stop_at = 10;
    atomic_store(&job->stopped, true);
    ck_assert(tn_team_begin(&team, work, job, PARTS));
    tn_team_await(&team, 10);
    expect_done(job, 0, 10);
    for (int i = 10; i < PARTS; i++)
        ck_assert_int_eq(atomic_load(&job->done[i]), 0);
    atomic_store(&job->stopped, false);
    tn_team_await(&team, PARTS);
    tn_team_end(&team);
    tn_host_free(job);
}

static void *release_soon(void *argument)
{
    struct job *job = argument;
    struct timespec a_moment = {0, 20000000};

    (void)nanosleep(&a_moment, NULL);
    atomic_store(&job->stopped, false);
    return NULL;
}

TEST(team, a_job_that_ends_early_begins_no_more_parts)
{
    struct job *job = new_job();
    pthread_t thread;
    int count = 0;

    allowed += 1;
    job->stop_at = 0;
    atomic_store(&job->stopped, true);
    ck_assert(tn_team_begin(&team, work, job, PARTS));
    ck_assert_int_eq(pthread_create(&thread, NULL, release_soon, job), 0);
    tn_team_end(&team); /* waits for parts that are being done */
    for (int i = 0; i < PARTS; i++)
        count += atomic_load(&job->done[i]);
    ck_assert_int_le(count, THREADS);
    expect_done(job, 0, (uint64_t)count);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    tn_host_free(job);
}

TEST(team, a_team_at_a_job_takes_no_other)
{
    struct job *job = new_job();
    struct job *other = new_job();

    ck_assert(tn_team_begin(&team, work, job, PARTS));
    ck_assert(!tn_team_begin(&team, work, other, PARTS));
    tn_team_await(&team, PARTS);
    ck_assert(!tn_team_begin(&team, work, other, PARTS));
    tn_team_end(&team);
    ck_assert(tn_team_begin(&team, work, other, PARTS));
    tn_team_await(&team, PARTS);
    tn_team_end(&team);
    expect_done(other, 0, PARTS);
    tn_host_free(job);
    tn_host_free(other);
}

TEST(team, fewer_threads_do_the_same)
{
    struct job *job = new_job();

    allowed = 1;
    ck_assert(tn_team_begin(&team, work, job, PARTS));
    tn_team_await(&team, PARTS);
    tn_team_end(&team);
    expect_done(job, 0, PARTS);
    tn_host_free(job);
}

TEST(team, without_any_thread_or_memory_there_is_no_job_until_there_is)
{
    struct job *job = new_job();

    allowed = 0;
    ck_assert(!tn_team_begin(&team, work, job, PARTS));
    allowed = THREADS;
    (void)tn_host_plan_fault(1, false);
    team.threads = (tn_host_free(team.threads), NULL);
    ck_assert(!tn_team_begin(&team, work, job, PARTS));
    ck_assert(tn_team_begin(&team, work, job, PARTS));
    tn_team_await(&team, PARTS);
    tn_team_end(&team);
    expect_done(job, 0, PARTS);
    tn_host_free(job);
}

TEST(team, a_team_without_a_job_has_no_threads)
{
    ck_assert_int_eq(allowed, THREADS);
}
