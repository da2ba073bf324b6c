// SPDX-License-Identifier: Apache-2.0
/* ranks.h -- some processes of a test, each with a device and a stream of its own: the ranks of a
 * group. They are no processes of Check's, and say themselves what goes wrong. */
#ifndef TARN_TESTS_SUPPORT_RANKS_H
#define TARN_TESTS_SUPPORT_RANKS_H

#include <sys/types.h>

#include "support/cuda.h"
#include "tarn/symmetric.h"

enum { TEST_RANKS_MAX = 64 };

/* One of the processes, in itself. */
struct test_rank {
    uint32_t number;
    uint32_t world;
    unsigned int seed; /* as the parent gave it */
    char meeting[56];  /* where these processes find each other */
    tarn_device *device;
    tn_cu_stream stream;
    tarn_group *group; /* of test_rank_join */
    tarn_symmetric *pool;
};

/* What a process does. It returns with its device closed by test_rank_leave, or still open. */
typedef void (*test_rank_body)(struct test_rank *rank);

struct test_ranks {
    uint32_t world;
    pid_t pids[TEST_RANKS_MAX];
    int ready; /* a pipe's end: a byte of each process that is about to begin */
};

/* Starts the processes; waits for one, or all, which must end well. */
void test_ranks_start(struct test_ranks *ranks, uint32_t world, unsigned int seed,
                      test_rank_body body);
void test_ranks_await(const struct test_ranks *ranks); /* until all begin */
void test_ranks_end(struct test_ranks *ranks);
void test_ranks_run(uint32_t world, unsigned int seed, test_rank_body body);
void test_ranks_kill(struct test_ranks *ranks, uint32_t rank); /* its end is not waited for later */

/* In a process: */
void test_rank_must(bool holds, const struct test_rank *rank, const char *file, int line,
                    const char *what);
#define MUST(rank, condition) test_rank_must((condition), (rank), __FILE__, __LINE__, #condition)
/* Notes the status, as the suites do. */
#define MUST_BE(rank, status, call)                                                                \
    do {                                                                                           \
        tarn_status test_status = (call);                                                          \
        MUST(rank, test_status == (status));                                                       \
        test_note_status(#call, test_status, tarn_last_error());                                   \
    } while (0)

tarn_group_options test_rank_options(const struct test_rank *rank);
void test_rank_join(struct test_rank *rank, size_t stride, size_t bytes); /* group, pool, memory */
void test_rank_leave(struct test_rank *rank); /* the group, and the device */

enum { TEST_RANK_SECONDS = 60 };
#define TEST_RANK_NS ((uint64_t)TEST_RANK_SECONDS * 1000000000)

#endif
