// SPDX-License-Identifier: Apache-2.0
/* team.h -- threads that do the parts of one job together.
 *
 * A team is for work that waits for the system, as first writes to pages do. Its threads are made at
 * the first job and end with the team. They block all signals, and run on the processors of a NUMA
 * node where one is asked for. Parts are begun in their order, each by one thread.
 *
 * Locking: a mutex inside, rank TEAM, under which nothing else is taken. Work runs under no lock. */
#ifndef TARN_BASE_TEAM_H
#define TARN_BASE_TEAM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"

/* Does one part of the job. */
typedef void (*tn_team_work)(void *job, uint64_t part);

enum { TN_TEAM_THREADS_MAX = 128 };

struct tn_team_thread {
    struct tn_team *team; /* immutable */
    pthread_t thread;     /* immutable */
    uint64_t part;        /* that it does; UINT64_MAX: none; guarded by the team's lock */
};

struct tn_team {
    struct tn_lock lock;
    pthread_cond_t changed; /* a job has come or the team ends; a part is done */
    unsigned thread_count;  /* wanted; immutable */
    int node;               /* where the threads run; immutable */
    /* All below: guarded by lock. */
    unsigned started_count;
    struct tn_team_thread *threads; /* thread_count of them; NULL: none was started */
    bool has_job;
    bool ending;
    tn_team_work work;
    void *job;
    uint64_t next; /* the part that is begun next */
    uint64_t end;  /* of the parts */
};

/* thread_count: from 1 to TN_TEAM_THREADS_MAX. node: TN_PLACEMENT_ANYWHERE, or one. */
void tn_team_init(struct tn_team *team, unsigned thread_count, int node);
void tn_team_fini(struct tn_team *team); /* no job is going on; its threads have ended afterwards */

/* Begins a job. False: the team is at another job, or no thread can be made. Where the system gives
 * fewer threads than are wanted, those do the job. */
bool tn_team_begin(struct tn_team *team, tn_team_work work, void *job, uint64_t part_count);

/* Waits until all parts below count are done. For the caller that has begun the job. */
void tn_team_await(struct tn_team *team, uint64_t count);

/* Parts that are not begun will not be; waits for the others. The team may have its next job. */
void tn_team_end(struct tn_team *team);

#endif
