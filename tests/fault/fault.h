// SPDX-License-Identifier: Apache-2.0
/* fault.h -- makes the n-th driver call or host allocation of a scenario fail, and judges what the
 * library makes of it.
 *
 * A scenario is a function of steps. A step is one call of the library; the plan stands during steps
 * only, and its countdown goes on from one to the next, so the test's own work is never hit. A step
 * that is refused must have a documented status and have changed nothing; where the fault was a
 * single one it is made again, and must succeed. Where the fault stays, or has lost the device, the
 * scenario is over: its teardown follows.
 *
 * The library is called without a current context, so that it makes the device's current itself. */
#ifndef TARN_TESTS_FAULT_H
#define TARN_TESTS_FAULT_H

#include "support/world.h"

enum fault_kind { FAULT_NONE, FAULT_DRIVER, FAULT_HOST };

struct fault_plan {
    enum fault_kind kind;
    uint64_t nth; /* 1 is the first of the scenario */
    bool for_good;
    bool through_teardown; /* with for_good: teardown meets the fault too, and then not any more */
    int result;            /* of the driver call */
};

enum { FAULT_STREAMS = 3, FAULT_POOLS = 3 };

/* What the harness looks at. The scenario writes it; what a call of the library writes is among the
 * outputs, so that the harness sees when a refused call has. */
struct fault_outputs {
    tarn_device *device;
    tarn_pool *pools[FAULT_POOLS]; /* the default pool first */
    tarn_capture *capture;
    tarn_graph *graphs[3];
    tarn_checkpoint *checkpoints[2];
    tarn_delta *delta;
    tarn_live_diff *diff;
    tarn_layout *layout;
    tarn_block block;
    void *address; /* of the last allocation */
    size_t freed_bytes;
};

struct fault_world {
    struct fault_outputs out; /* UNTOUCHED: none */
    tn_cu_stream streams[FAULT_STREAMS];
    tarn_sim_ledger ledger; /* before the device was opened */
    int64_t outstanding;    /* host allocations then */
};
extern struct fault_world fault;

void fault_begin(const struct fault_plan *plan);

/* What of the two kinds the steps have met until now, and whether the fault has struck. */
uint64_t fault_points(enum fault_kind kind);
bool fault_has_struck(void);

/* The step: STEP(statuses, call), with the statuses that the header documents, joined by |. */
#define S(status) ((uint64_t)1 << (TARN_ERR_##status % 100 + TARN_ERR_##status / 100 * 10 - 10))
#define STEP(statuses, call)                                                                       \
    do {                                                                                           \
        do                                                                                         \
            fault_prepare(#call);                                                                  \
        while (fault_judge((call), statuses) == FAULT_AGAIN);                                      \
        if (fault_is_over())                                                                       \
            return;                                                                                \
    } while (0)

enum fault_verdict { FAULT_GO_ON, FAULT_AGAIN, FAULT_OVER };
void fault_prepare(const char *call);
enum fault_verdict fault_judge(tarn_status status, uint64_t statuses);
bool fault_is_over(void);
bool fault_is_spoiled(void); /* the device is poisoned or lost */

/* What must be live in the pool at the end of each step. */
void fault_live(tarn_pool *pool, void *address, size_t bytes);
void fault_dead(const void *address);
void fault_discarded(void); /* what was allocated in the capture that was just aborted */

/* Gives everything back, in the order that the library asks for, and asserts that nothing is left
 * but what the plan's fault explains. ends: the scenario's own things, first. */
void fault_teardown(void (*ends)(void));

/* One call of teardown: it may be refused while the fault stands, and not when it is gone. */
#define END(call)                                                                                  \
    do                                                                                             \
        fault_prepare(#call);                                                                      \
    while (fault_judge_end(call) == FAULT_AGAIN)
enum fault_verdict fault_judge_end(tarn_status status);

/* Waits until the driver has run the destructors of all but count user objects. */
void fault_settle(uint64_t count);

#endif
