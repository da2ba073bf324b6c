// SPDX-License-Identifier: Apache-2.0
/* A job is a range of parts, and each thread takes the next part. All parts below a number are done
 * when all are begun and no thread is at any of them. A single condition serves all waits: parts
 * take some hundred microseconds, and a team has few threads.
 *
 * Trade-offs: a team that got fewer threads than it wanted does not ask for more. */
#include "base/team.h"

#include <signal.h>
#include <stddef.h>

#include "base/contract.h"
#include "base/host.h"
#include "base/placement.h"

static const uint64_t no_part = UINT64_MAX;

void tn_team_init(struct tn_team *team, unsigned thread_count, int node)
{
    TN_ASSERT(thread_count > 0 && thread_count <= TN_TEAM_THREADS_MAX);
    *team = (struct tn_team){.thread_count = thread_count, .node = node};
    tn_lock_init(&team->lock, TN_RANK_TEAM);
    (void)pthread_cond_init(&team->changed, NULL);
}

static void await_change(struct tn_team *team)
{
    const char *no_sentence = NULL;

    tn_lock_await(&team->lock, &team->changed, &no_sentence);
}

static void *serve(void *argument)
{
    struct tn_team_thread *self = argument;
    struct tn_team *team = self->team;

    (void)tn_placement_run_on(team->node);
    tn_lock_acquire(&team->lock);
    while (!team->ending) {
        tn_team_work work = team->work;
        void *job = team->job;

        if (team->next == team->end) {
            await_change(team);
            continue;
        }
        self->part = team->next++;
        tn_lock_release(&team->lock);
        work(job, self->part);
        tn_lock_acquire(&team->lock);
        self->part = no_part;
        (void)pthread_cond_broadcast(&team->changed);
    }
    tn_lock_release(&team->lock);
    return NULL;
}

/* Starts the threads; the lock is held. All signals are blocked meanwhile, and so in the threads. */
static void start(struct tn_team *team)
{
    sigset_t all;
    sigset_t before;

    TN_ASSERT(team->started_count == 0 && tn_lock_is_held(&team->lock));
    if (team->threads == NULL)
        team->threads = tn_host_alloc(team->thread_count, sizeof *team->threads);
    if (team->threads == NULL)
        return;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    for (unsigned i = 0; i < team->thread_count; i++) {
        struct tn_team_thread *thread = &team->threads[i];

        thread->team = team;
        thread->part = no_part;
        if (pthread_create(&thread->thread, NULL, serve, thread) != 0)
            break;
        team->started_count += 1;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

bool tn_team_begin(struct tn_team *team, tn_team_work work, void *job, uint64_t part_count)
{
    bool begun = false;

    tn_lock_acquire(&team->lock);
    TN_ASSERT(!team->ending);
    if (!team->has_job && team->started_count == 0)
        start(team);
    if (!team->has_job && team->started_count > 0) {
        begun = true;
        team->has_job = true;
        team->work = work;
        team->job = job;
        team->next = 0;
        team->end = part_count;
        (void)pthread_cond_broadcast(&team->changed);
    }
    tn_lock_release(&team->lock);
    return begun;
}

/* Whether all parts below count are done; the lock is held. */
static bool are_done(const struct tn_team *team, uint64_t count)
{
    bool done = team->next >= count;

    for (unsigned i = 0; i < team->started_count; i++)
        done = done && team->threads[i].part >= count;
    return done;
}

void tn_team_await(struct tn_team *team, uint64_t count)
{
    tn_lock_acquire(&team->lock);
    TN_ASSERT(team->has_job && count <= team->end);
    while (!are_done(team, count))
        await_change(team);
    tn_lock_release(&team->lock);
}

void tn_team_end(struct tn_team *team)
{
    tn_lock_acquire(&team->lock);
    TN_ASSERT(team->has_job);
    team->end = team->next;
    while (!are_done(team, team->end))
        await_change(team);
    team->has_job = false;
    team->job = NULL;
    tn_lock_release(&team->lock);
}

void tn_team_fini(struct tn_team *team)
{
    TN_ASSERT(!team->has_job);
    tn_lock_acquire(&team->lock);
    team->ending = true;
    (void)pthread_cond_broadcast(&team->changed);
    tn_lock_release(&team->lock);
    for (unsigned i = 0; i < team->started_count; i++)
        (void)pthread_join(team->threads[i].thread, NULL);
    tn_host_free(team->threads);
    (void)pthread_cond_destroy(&team->changed);
    tn_lock_fini(&team->lock);
}
