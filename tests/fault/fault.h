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
    bool finished;         /* the device's work is over before each step */
    int result;            /* of the driver call */
};

enum { FAULT_STREAMS = 3, FAULT_POOLS = 3 };

/* What the harness looks at. The scenario writes it; what a call of the library writes is among the
 * outputs, so that the harness sees when a refused call has. */
struct fault_outputs {
    tarn_device *device;
    tarn_pool *pools[FAULT_POOLS]; /* the default pool first */
    tarn_capture *capture;         /* that allocations are made in */
    tarn_capture *second;
    tarn_graph *graphs[3];
    tarn_checkpoint *checkpoints[3];
    tarn_delta *delta;
    tarn_live_diff *diff;
    tarn_graph_diff *graph_diff;
    tarn_audit *audit;
    tarn_route *routes[2];
    tarn_layout *layout;
    tarn_block_list *blocks;
    tarn_pool_list *pool_list;
    tarn_snapshot *snapshot;
    tarn_leaks *leaks;
    tarn_block block;
    tarn_segment segment;
    void *address; /* of the last allocation */
    size_t freed_bytes;
};

struct fault_world {
    struct fault_outputs out; /* UNTOUCHED: none */
    tn_cu_stream streams[FAULT_STREAMS];
    tn_cu_stream foreign;   /* in a context that the program made */
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

/* The next step is refused with that status, fault or none. */
void fault_expect(tarn_status status);

enum fault_verdict { FAULT_GO_ON, FAULT_AGAIN, FAULT_OVER };
void fault_prepare(const char *call);
enum fault_verdict fault_judge(tarn_status status, uint64_t statuses);
bool fault_is_over(void);
bool fault_is_spoiled(void); /* the device is poisoned or lost */

/* What must be live in the pool at the end of each step. */
void fault_live(tarn_pool *pool, void *address, size_t bytes);
void fault_dead(const void *address);
void fault_owned(const void *address, tarn_capture *capture); /* allocated in that capture */
void fault_discarded(const tarn_capture *capture); /* what was, when it has been aborted */

/* Gives everything back, in the order that the library asks for, and asserts that nothing is left
 * but what the plan's fault explains. ends: the scenario's own things, first. */
void fault_teardown(void (*ends)(void));

/* One call of teardown: it may be refused while the fault stands, and not when it is gone. */
#define END(call)                                                                                  \
    do                                                                                             \
        fault_prepare(#call);                                                                      \
    while (fault_judge_end(call) == FAULT_AGAIN)
enum fault_verdict fault_judge_end(tarn_status status);

/* Parts of scenarios. Who goes on behind one looks whether the scenario is over. */
void fault_open(void);                 /* DEVICE, its default pool and POOL */
void fault_close(uint64_t of_destroy); /* POOL and DEVICE, which nothing is left of */

/* In an end: gives up a capture that is still there. */
void fault_abort(tarn_capture **capture);

/* A scenario: parts in order, each of which stops at a fault that ends the run; ends gives the
 * scenario's own things back, first in teardown. TARN_FAULT_NTH=n in the environment runs the n-th of
 * each way to fail alone, for debugging. */
enum { FAULT_PARTS = 10, FAULT_SETTINGS = 4 };
struct fault_scenario {
    const char *name;
    struct {
        const char *name; /* an environment variable; NULL: no more */
        const char *value;
    } settings[FAULT_SETTINGS];
    void (*parts[FAULT_PARTS])(void);
    void (*ends)(void);
};
int fault_main(const struct fault_scenario *scenario);

/* What scenarios work with. */
#define DEVICE fault.out.device
#define POOL fault.out.pools[1]
#define OTHER_POOL fault.out.pools[2]
#define MAIN fault.streams[0]
#define SIDE fault.streams[1]
#define THIRD fault.streams[2]
#define FOREIGN fault.foreign

/* Frees a block of the scenario, as a step. */
#define FREE(block)                                                                                \
    do {                                                                                           \
        STEP(0, tarn_free(block));                                                                 \
        fault_dead(block);                                                                         \
    } while (0)

/* Statuses that headers document together. */
#define LOST (S(DEVICE_LOST) | S(POISONED))
#define CALLED (S(DRIVER) | S(DEVICE_MEMORY))
#define OPEN                                                                                       \
    (S(NO_DRIVER) | S(DRIVER_TOO_OLD) | S(NO_DEVICE) | S(NOT_SUPPORTED) | S(ADDRESS_SPACE) |       \
     S(DEVICE_MEMORY) | S(HOST_MEMORY) | S(DEVICE_LOST) | S(DRIVER))
#define ROOM (CALLED | S(HOST_MEMORY) | S(ADDRESS_SPACE))
#define CAPTURE_BEGIN (S(HOST_MEMORY) | CALLED | LOST)
/* CAPTURE_BROKEN: the end was refused, and so was the question of what became of the capture. */
#define CAPTURE_END (S(HOST_MEMORY) | S(CAPTURE_BROKEN) | CALLED | LOST)
#define REPLAY (S(WRONG_STATE) | CALLED | LOST)
#define NOTE (S(HOST_MEMORY) | CALLED | LOST)
#define TRIM (CALLED | LOST)
#define TAKE (ROOM | LOST)
#define RESTORE (S(HOST_MEMORY) | CALLED | LOST)

/* The address that the last step gave, which is live now. */
void *fault_taken(tarn_pool *pool, size_t bytes);

/* Waits until the driver has run the destructors of all but count user objects. */
void fault_settle(uint64_t count);

#endif
