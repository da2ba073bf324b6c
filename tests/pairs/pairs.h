// SPDX-License-Identifier: Apache-2.0
/* pairs.h -- scenarios in which two features of the library meet.
 *
 * A feature is a module of a few hooks on a shared world. A cell is made of two modules and an order:
 *
 *   then     the first one, and the second one behind it, on one thread
 *   within   the second one between the beginning and the end of the first, on one thread; of a module
 *            with a callback of the user's, inside that
 *   amid     the first one stands in one of its calls of the driver, or where it takes a lock, and another thread
 *            does the second one meanwhile; as often as there are such places
 *   beside   both at once on two threads, some times
 *
 * Each run has a process of its own. It is judged by the bytes of every block that the world knows, by what each
 * replay writes, by the statistics that follow from the calls, by tarn_pool_validate, and by the simulator's
 * ledger when all is given back.
 *
 * The world remembers blocks. What a restore frees and revives is in its books, too, so a module finds its blocks
 * gone and says nothing. Where the device is lost, calls may answer so; frees and destroys work all the same. */
#ifndef TARN_TESTS_PAIRS_H
#define TARN_TESTS_PAIRS_H

#include <pthread.h>
#include <stdatomic.h>

#include "support/world.h"

enum pairs_order { PAIRS_THEN, PAIRS_WITHIN, PAIRS_AMID, PAIRS_BESIDE, PAIRS_ORDERS };

enum {
    PAIRS_BLOCKS = 192, /* that one run may make */
    PAIRS_OWN = 6,      /* blocks, graphs, ... of a member */
    PAIRS_NONE = -1,
    PAIRS_STANDARD = 64 << 10, /* bytes of a block */
};

/* Is the device well? PERHAPS: a fault is on its way. */
enum pairs_health { PAIRS_WELL, PAIRS_PERHAPS, PAIRS_LOST };

struct pairs_block {
    char *address;
    size_t bytes;
    size_t block_bytes;
    uint64_t sequence;
    int home;          /* serial of its pool; 0: the default pool */
    bool is_live;      /* as far as the user knows */
    bool is_discarded; /* allocated in a capture that was aborted, and not freed yet */
    bool is_known;     /* the pattern is there when the mark is passed */
    uint32_t pattern;  /* see support/pattern.h */
    tn_cu_event mark;  /* behind the work that wrote it; NULL: none */
};

/* What was live in a pool when a checkpoint was taken. */
struct pairs_snapshot {
    int home;
    bool has_contents;
    size_t count;
    int blocks[PAIRS_BLOCKS];
    struct pairs_block then[PAIRS_BLOCKS];
};

struct pairs_member;
struct pairs_module {
    const char *name;
    const char *what; /* it does, in some words */
    /* Makes what the others need, alone. */
    void (*prepare)(struct pairs_member *m);
    /* What the module is there for, in two halves. Between them the other module may act. */
    void (*begin)(struct pairs_member *m);
    void (*end)(struct pairs_member *m);
    /* Looks at the module's own results when both are done; and gives them back. NULL: nothing. */
    void (*verify)(struct pairs_member *m);
    void (*finish)(struct pairs_member *m);
    bool calls_back;     /* in begin: what is within goes inside the callback */
    bool needs_quiet;    /* the pool's other users rest meanwhile, says the header */
    bool takes_the_pool; /* from all others */
};

struct pairs_member {
    const struct pairs_module *module;
    struct pairs_member *other;
    int index;           /* 0: the first */
    tn_cu_stream stream; /* both members' own where they are at once */
    tn_cu_stream side;
    int blocks[PAIRS_OWN]; /* in the world's books; PAIRS_NONE: none */
    tarn_graph *graphs[2];
    tarn_capture *captures[2];
    tarn_checkpoint *checkpoint;
    tn_cu_graph raw;
    tn_cu_stream streams[2];
    tarn_pool *pool;
    tarn_route *route; /* where is_open says so */
    uint32_t patterns[PAIRS_OWN];
    uint64_t number;
    bool is_refused; /* what begin was to make is not there, rightly */
    bool is_open;
    bool is_kept;                           /* what begin would give up, until the end */
    void (*inside)(struct pairs_member *m); /* what begin calls in its callback; NULL: nothing */
    struct pairs_snapshot *snapshot;
    pthread_t thread;
};

struct pairs_world {
    tarn_device *device;
    tarn_pool *default_pool;
    tarn_pool *_Atomic pool; /* that members share; a new one when it was released */
    _Atomic int home;        /* serial of it */
    tarn_pool *other;        /* a second one, never released; its serial is 1 */
    tn_cu_context context;
    tn_cu_stream streams[6];
    tn_cu_stream look; /* to look at blocks with */
    _Atomic int health;
    _Atomic bool is_poisoned; /* or will be: the driver works, and Tarn does not go on */
    _Atomic bool is_lost;
    _Atomic int loose; /* captures of the program's own, until their graphs are gone */
    enum pairs_order order;
    uint64_t seed;
    pthread_mutex_t lock; /* of the books below */
    int block_count;
    struct pairs_block blocks[PAIRS_BLOCKS];
    tarn_sim_ledger ledger;
};
extern struct pairs_world pw;
extern _Thread_local bool pairs_is_inside; /* a callback */

/* The modules, in the order of the table. */
enum { PAIRS_MODULES = 27 };
extern const struct pairs_module *const pairs_modules[PAIRS_MODULES];
#define PAIRS_MODULE_LIST(X)                                                                       \
    X(allocation)                                                                                  \
    X(growth)                                                                                      \
    X(free_elsewhere)                                                                              \
    X(stream_use)                                                                                  \
    X(route)                                                                                       \
    X(capture)                                                                                     \
    X(adoption)                                                                                    \
    X(body)                                                                                        \
    X(replay)                                                                                      \
    X(guard)                                                                                       \
    X(update)                                                                                      \
    X(take_with_contents)                                                                          \
    X(take_without_contents)                                                                       \
    X(restore)                                                                                     \
    X(trim)                                                                                        \
    X(ladder)                                                                                      \
    X(stream_retired)                                                                              \
    X(stream_destroyed)                                                                            \
    X(thread_exit)                                                                                 \
    X(cancellation)                                                                                \
    X(fork)                                                                                        \
    X(device_lost)                                                                                 \
    X(pool_released)                                                                               \
    X(graph_ended)                                                                                 \
    X(give_back_refused)                                                                           \
    X(callback_left)                                                                               \
    X(recapture)
#define PAIRS_DECLARE(name) extern const struct pairs_module pairs_##name;
PAIRS_MODULE_LIST(PAIRS_DECLARE)
#undef PAIRS_DECLARE

/* Statuses. NEED: the call works, or the device is lost; true when it has worked. GIVE: it works, whatever has
 * become of the device. DRIVE: a call of the driver, as NEED. */
#define NEED(call) pairs_need((call), #call)
#define GIVE(call) pairs_give((call), #call)
#define DRIVE(call) pairs_drive((call), #call)
bool pairs_need(tarn_status status, const char *call);
void pairs_give(tarn_status status, const char *call);
bool pairs_drive(tn_cu_result result, const char *call);
__attribute__((format(printf, 1, 2), noreturn)) void pairs_fail(const char *format, ...);
#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            pairs_fail(__VA_ARGS__);                                                               \
    } while (0)

/* The world, as processes have it: opened once, closed at the end. */
void pairs_world_open(enum pairs_order order, uint64_t seed);
void pairs_world_close(void);
void pairs_member_init(struct pairs_member *m, const struct pairs_module *module, int index);
void pairs_enter_thread(void); /* each further thread, first */
bool pairs_is_well(void);
bool pairs_is_concurrent(void);
void pairs_step(void);     /* where one thread acts: validation and statistics */
void pairs_validate(void); /* that alone */
void pairs_look(void);     /* at all blocks */
void pairs_settle(void);
void pairs_expect_end(const char *sentence); /* by abort(), which this begins with or has */
uint32_t pairs_pattern(void);                /* a new one */
uint64_t pairs_random(uint64_t below);

/* The pool that the member shares with others; the home of it. NULL: there is none any more. */
tarn_pool *pairs_pool(struct pairs_member *m);

/* Blocks, by their place in the books. What could not be had is PAIRS_NONE, and may be given to all of these. */
/* For free-memory callbacks: lifts the device's limit if the member has set it, and nobody else has lifted it. Other
 * threads that come behind go on when it is lifted. */
bool pairs_lift_limit(struct pairs_member *m, tarn_device *device);
int pairs_alloc(struct pairs_member *m, size_t bytes, tn_cu_stream stream); /* of the shared pool */
int pairs_alloc_default(size_t bytes, tn_cu_stream stream); /* of the default pool */
int pairs_malloc(size_t bytes, tn_cu_stream stream);        /* of the pool that routes choose */
tn_cu_result pairs_write(tn_cu_stream stream, void *address, size_t bytes, uint32_t pattern);
void pairs_fill(int block, tn_cu_stream stream);                      /* with a new pattern */
void pairs_written(int block, uint32_t pattern, tn_cu_stream stream); /* by work that is there */
void pairs_come_after(tn_cu_stream stream, int block);                /* what wrote it */
void pairs_spin(tn_cu_stream stream, uint32_t milliseconds);          /* where the device is well */
void pairs_copy(int to, int from, tn_cu_stream stream);               /* the pattern's words */
bool pairs_is_there(int block);
void pairs_discard(int block); /* its capture was aborted */
char *pairs_address(int block);
void pairs_free(int *block);
void pairs_free_on(int *block, tn_cu_stream stream);
void pairs_forget(int *block); /* somebody else has freed it */
void pairs_look_at(int block);

/* Streams. */
bool pairs_is_capturing(tn_cu_stream stream);
tn_cu_stream pairs_free_stream(struct pairs_member *m); /* one that is not being captured */
void pairs_relax(bool relaxed);                         /* what the thread's captures forbid */

/* A section: a temporary block of the capture's pool, filled with a pattern, and copied to the output; and the
 * graph of a whole capture of it, NULL where it could not be had. */
void pairs_section(struct pairs_member *m, tarn_pool *pool, tn_cu_stream stream, uint32_t pattern,
                   int output);
tarn_graph *pairs_graph(struct pairs_member *m, tarn_pool *pool, tn_cu_stream stream,
                        uint32_t pattern, int output);
/* Replays it; the output then has the pattern. */
bool pairs_launch(tarn_graph *graph, tn_cu_stream stream, uint32_t pattern, int output);
void pairs_end_graph(tarn_graph **graph);

/* What a checkpoint has, and what becomes of the books when it is restored. */
void pairs_snapshot(struct pairs_snapshot *snapshot, int home, bool has_contents);
void pairs_restored(const struct pairs_snapshot *snapshot, const tarn_delta *delta,
                    tn_cu_stream stream);
int pairs_home_of(tarn_pool *pool);
void pairs_release_pool(void); /* the shared one, and makes another */
bool pairs_is_stale(struct pairs_member *m, tarn_pool *pool, tarn_status status);
void pairs_count_capture(int home, int change); /* captures under way in that pool */
bool pairs_is_captured(int home);
bool pairs_may_be_captured(int home);

/* Standing (stand.c): the calling thread, and those that it makes meanwhile, stop at the place of that number,
 * from 1, until pairs_go or for a while. What calls pairs_await_standing goes on when they stand, or when
 * pairs_is_over was said. */
void pairs_stand_at(uint64_t place);
void pairs_stand_inherit(bool stands);
bool pairs_stands_here(void);
uint64_t pairs_stand_over(void); /* the number of places; has_stood: one was met */
bool pairs_has_stood(void);
void pairs_await_standing(void);
void pairs_go(void);
const char *pairs_place(void); /* where it stood */

/* From now on the driver refuses the thread's calls of that function; NULL: none any more. How often it has. */
uint64_t pairs_refuse(const char *function);

#endif
