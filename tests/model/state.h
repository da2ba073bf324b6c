// SPDX-License-Identifier: Apache-2.0
/* state.h -- what the oracle remembers, and what the operations share. */
#ifndef TARN_TESTS_MODEL_STATE_H
#define TARN_TESTS_MODEL_STATE_H

#include <stdatomic.h>

#include "model/model.h"
#include "support/bodies.h"
#include "support/touch.h"

enum {
    STREAMS = 6,
    POOLS = 5,       /* slot 0: the default pool */
    ADOPTED = POOLS, /* stands for the pools that captures without a route get */
    PAST = 2,        /* marks of streams that were retired */
    BLOCKS = 256,
    FREED = 256,
    TOPS = 2,     /* captures that are no bodies: the first slots */
    CAPTURES = 4, /* the others are of bodies of conditional nodes */
    SECTIONS = 24,
    GRAPHS = 8,
    RANGES = 64,
    CHECKPOINTS = 4,
    ROUTES = 8,
    CONTENTS = 3, /* kinds of them, from TARN_CONTENTS_NONE */
    ZEROED = 1,   /* stands for an alignment: zeros are asked for */
    NONE = -1,
};

/* Memory [low, high). */
struct range {
    uintptr_t low;
    uintptr_t high;
};

struct stream {
    tn_cu_stream handle; /* NULL: no stream in this slot */
    uint64_t life;       /* serial, new when the slot gets another stream */
    int capture;         /* slot of the capture that the stream is in; NONE */
    bool is_legacy;      /* the legacy default stream, which is never captured nor retired */
    bool is_default;     /* that or the thread's own: never destroyed */
    bool is_recorded;    /* named to a record or a free: it lives until it is retired */
};

struct pool {
    tarn_pool *handle; /* NULL: none; stays after a release, until nothing claims the pool */
    bool is_default;
    bool is_shared; /* with other models: nothing is known of its sums */
    bool is_released;
    bool refuses_replays; /* on another stream than the last */
    bool shares_captured; /* graphs' free memory serves everyone */
    bool is_exportable;
    bool is_for_rdma;
    bool has_peer;     /* the second device may use it */
    int replay_stream; /* of its last replay; NONE */
    uint64_t replay_life;
    size_t limit_bytes;
    uint64_t mapped_bytes; /* as it said last */
};

struct block {
    void *address;
    size_t bytes;
    size_t block_bytes;
    uint64_t serial;   /* the model's; a revived block has it again */
    uint64_t sequence; /* the library's */
    uint64_t tag;
    int pool;
    int home;           /* stream slot that it was allocated on */
    uint64_t home_life; /* of that stream; the block's order, with capture_of */
    uint64_t
        capture_of;   /* serial of the capture that it was allocated in, or of what that was a body
                            of, when it has ended; 0: none */
    uint64_t section; /* serial of the very capture that it was allocated in */
    uint64_t used_in; /* serial of a body that used it, where that is not its own capture */
    int last;         /* stream slot of the last work outside captures; NONE: none to come after */
    bool is_replayed; /* that was a replay, which the library puts before the next one */
    uint32_t value;
    uint32_t captured_value; /* in the capture under way, where ticks are */
    bool is_known;           /* the value is there when the work enqueued so far is done */
    bool is_exposed;         /* graphs may overwrite it: allocated in a capture, or revived */
    bool is_discarded;       /* allocated in a capture that was aborted */
    unsigned recorded;       /* a bit for each stream slot */
    unsigned dirty;          /* touched there without being recorded, and not the block's home */
    tn_cu_event home_mark;   /* behind the home's work, when that stream is gone */
    tn_cu_event past[PAST];  /* behind the work of streams that were recorded, and retired since */
    bool is_unsure;          /* it was last written in a body that does not run */
    uint32_t ticks[STREAMS]; /* of its touches in the capture under way, by stream */
    int node_lane;           /* that a body which used it stands in, and the tick there, which is */
    uint32_t node_tick;      /* nothing to record */
};

/* Memory that was given back, until all that was promised of it is past. */
struct freed {
    struct range range;
    int pool;
    uint64_t home_life; /* the order */
    uint64_t capture_of;
    uint64_t scope;      /* serial of the capture in which all its captured use was; 0: none */
    uint64_t root;       /* of the capture that the scope is a part of, or is */
    bool is_apart;       /* nothing in the scope gets it */
    bool was_pending;    /* before the take under way */
    bool is_behind;      /* replays come behind what used it: a take has seen to that */
    bool is_retired;     /* its stream was retired, not destroyed without a word */
    bool is_home_behind; /* replays come behind the work of that stream, too */
    uint64_t serial;
    tn_cu_event home; /* behind the order's work; NULL: none that counts */
    tn_cu_event uses[STREAMS];
    tn_cu_event past[PAST];
    uint32_t ticks[STREAMS];
};

/* A captured touch that a replay repeats. */
struct write {
    struct range range;
    int pool;
    uint64_t serial;
    uint32_t value;
    bool runs; /* it does not lie in a body that never runs */
};

struct writes {
    size_t count;
    struct write all[RANGES];
};

/* A body of a conditional node that is, or was, captured in a capture that is still open. */
struct section {
    uint64_t serial; /* 0: none; its capture's */
    uint64_t outer;
    uint64_t root; /* the outermost */
    uint64_t group;
    bool has_ended;
};

/* The last conditional node of a capture. */
struct node {
    struct test_node made;
    unsigned size;
    unsigned used;   /* bodies that have been captured */
    unsigned chosen; /* the body that runs; size or more: none */
    uint64_t group;
    int lane; /* that it stands in, and what it comes after, itself included */
    uint32_t clock[STREAMS];
};

struct capture {
    uint64_t serial; /* 0: none */
    int pool;
    int origin; /* stream slots */
    bool by_user;
    bool is_broken;
    int mode;
    tarn_capture *handle;
    tn_cu_graph into;      /* a graph of the user's that it is captured into; NULL: none */
    struct capture *outer; /* whose node's body it is; NULL: none */
    struct node node;      /* of its own */
    struct node place;     /* where it stands, of a body */
    bool runs;             /* the body, whenever the outer capture's section does */
    bool has_nodes;
    uint64_t group_count;
    struct writes writes;             /* with those of its bodies */
    uint32_t clock[STREAMS][STREAMS]; /* of each stream: what it comes after */
    bool has_lane[STREAMS];           /* the streams in it */
    unsigned maybe; /* pools that had a route meanwhile: a free in them may have made them part */
};

struct graph {
    tarn_graph *handle;  /* NULL: destroyed; its memory may still be held by what follows */
    tn_cu_graphexec raw; /* an executable that the user made of it */
    tn_cu_graph
        clone;    /* a graph of the user's: a copy, one that has a copy in it, or the very graph */
    bool is_bare; /* that is the one captured into, and may be adopted */
    bool has_nodes;  /* conditional ones: the driver makes no copies of it */
    uint64_t serial; /* 0: none */
    int pool;
    bool by_user;                  /* its capture was: an empty one touches no pool */
    int stream;                    /* of its last replay; NONE */
    unsigned maybe;                /* pools that its capture may have touched */
    tn_cu_event launched[STREAMS]; /* behind its last launch there */
    struct writes writes;
};

struct checkpoint {
    tarn_checkpoint *handle; /* NULL: none */
    int pool;
    int contents;
    size_t count;
    size_t kept_bytes; /* of contents, in the default pool */
    struct block blocks[BLOCKS];
};

struct route {
    uint64_t serial;    /* rising; 0: none */
    tarn_route *handle; /* NULL: of a tarn_capture */
    int pool;
    int kind;    /* enum route_kind */
    int stream;  /* slot, where the kind has one */
    int capture; /* slot, of a tarn_capture's own; NONE */
};
enum route_kind { ROUTE_CAPTURE, ROUTE_THREAD, ROUTE_STREAM, ROUTE_CUSTOM };

struct model {
    struct model_config config;
    tarn_device *device;
    bool owns_device;
    tarn_sim_ledger ledger;
    void *ballast;
    uint64_t serial;
    uint64_t step;
    uint64_t seen_life; /* the last life given to a stream */

    uint8_t frame[MODEL_FRAME_BYTES];
    size_t frame_at;
    uint64_t frame_random; /* when the frame is used up */

    bool is_held;
    bool must_not_wait; /* the call under way */
    uint64_t waits_before;
    int device_count;
    uint64_t whole_bytes; /* what the device was limited to; 0: none */
    uint64_t part_bytes;  /* the same, as a part of its memory */
    uint64_t limit_bytes; /* the smaller of these */
    uint64_t taken_bytes; /* of it, as it said last */
    bool
        has_unnamed; /* there may be pools that the model does not name: adopted and released ones */
    bool fault_planned; /* for the next call of the library */
    bool fault_fired;
    uint64_t fault_count;
    const char *fault_function;
    uint64_t fault_nth;
    int fault_result;

    bool has_callback;  /* free callback and observer of shortages */
    bool may_give;      /* during an allocation: the callback may free blocks */
    uint64_t shortages; /* that the observer was told of */

    struct stream streams[STREAMS];
    struct pool pools[POOLS + 1];
    size_t block_count;
    struct block blocks[BLOCKS];
    size_t freed_count;
    struct freed freed[FREED];
    struct capture captures[CAPTURES];
    struct section sections[SECTIONS];
    struct graph graphs[GRAPHS];
    struct checkpoint checkpoints[CHECKPOINTS];
    struct route routes[ROUTES];
};

/* Failing, choosing and telling (model.c). */
__attribute__((format(printf, 2, 3), noreturn)) void broken(struct model *m, const char *format,
                                                            ...);
__attribute__((format(printf, 1, 2))) void trace(const char *format, ...);
#define EXPECT(m, condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition))                                                                          \
            broken(m, __VA_ARGS__);                                                                \
    } while (0)
size_t below(struct model *m, size_t bound);
bool chance(struct model *m, size_t one_in);

/* Every call of the library: CALL gives the status, WELL expects TARN_OK, REFUSED the one given.
 * What a planned fault did is known after it. */
void enter_call(struct model *m);
tarn_status leave_call(struct model *m, tarn_status status);
void expect_status(struct model *m, tarn_status expected, tarn_status status, const char *call);
#define CALL(m, call) (enter_call(m), leave_call(m, (call)))
#define WELL(m, call) expect_status(m, TARN_OK, CALL(m, call), #call)
#define WELL_AT_ONCE(m, call) /* without a wait for the device */                                  \
    ((m)->must_not_wait = true, WELL(m, call), (void)((m)->must_not_wait = false))
#define REFUSED(m, status, call) expect_status(m, status, CALL(m, call), #call)

/* A handle of what is gone; other threads' calls may have given it to something else since. */
#define STALE(m, call)                                                                             \
    do {                                                                                           \
        if ((m)->owns_device)                                                                      \
            REFUSED(m, TARN_ERR_INVALID_HANDLE, call);                                             \
    } while (0)

/* Whether the status means that there was no room, or that a planned fault was met; fails when it is
 * neither that nor TARN_OK. */
bool is_declined(struct model *m, tarn_status status, const char *call);
#define DECLINED(m, call) is_declined(m, CALL(m, call), #call)

/* Lets the device do all that was given to it, looks at what touches found, and forgets marks. */
void drain(struct model *m);

/* Before and after a call that waits for the device: work that is held would hang it. */
void let_work(struct model *m);
void hold_work(struct model *m);
void note_waits(void); /* what has waited until now, the call under way does not wait for */

/* The oracle (oracle.c). */
struct range range_of(const struct block *block);
bool overlap(struct range one, struct range other);
bool is_capturing(const struct model *m, int stream);
bool is_open_capture(const struct model *m, uint64_t serial);
const struct section *find_section(const struct model *m, uint64_t serial);
uint64_t root_of(const struct model *m, uint64_t serial);
struct block *add_block(struct model *m, const struct block *block);
void remove_block(struct model *m, struct block *block);
void forget_passed(struct model *m);
void take_uses(struct model *m, int pool, int stream);
void note_pending(struct model *m, int pool); /* before the take */

/* The stream of that life is retired: what was freed on it says so. */
void retire_freed(struct model *m, uint64_t life);
void forget_uses(struct model *m, int pool, int stream);
void touch_block(struct model *m, struct block *block, int stream, bool writes);
void expect_rightly_handed_out(struct model *m, const struct block *block);
void note_freed(struct model *m, struct block *block, uint64_t freed_in);
void withdraw_freed(struct model *m, struct range range);
void order(struct model *m, int first, int then);
void expect_statistics(struct model *m);
void expect_layout(struct model *m, int pool);
int pool_graphs(const struct model *m, int pool);

/* Other models of the process (shared.c). */
void shared_add(struct model *m, struct range range);
void shared_remove(struct model *m, struct range range);

/* Picks of what exists; NULL or NONE where a few tries find nothing. */
typedef bool block_test(const struct model *m, const struct block *block);
struct block *pick_block(struct model *m, block_test *test);
bool is_plain(const struct model *m, const struct block *block);
int pick_stream(struct model *m); /* that is not being captured */
int pick_pool(struct model *m);   /* whose handle is good */
struct graph *pick_graph(struct model *m);
struct capture *pick_capture(struct model *m);
struct capture *capture_of_stream(struct model *m, int stream);
struct capture *top_of(struct capture *capture);
bool has_room(struct capture *capture); /* for what a step captures */
int random_lane(struct model *m, const struct capture *capture);
int eager_streams(const struct model *m);
struct capture *open_body_of(struct model *m, const struct capture *capture);
struct route *empty_route(struct model *m);
size_t pick_bytes(struct model *m);

/* Which pool serves tarn_malloc on the stream, and whether a route chose it. */
int serving_pool(struct model *m, int stream, bool *is_routed);

/* Questions and acts that operations share. */
bool touches_pool(const struct writes *writes, int own, int pool);
bool has_route(const struct model *m, int pool);
bool has_capture(const struct model *m, int pool); /* one that touches the pool */
bool is_maybe_captured(const struct model *m, int pool);
bool has_own_capture(const struct model *m, int pool);  /* of the library */
bool has_user_capture(const struct model *m, int pool); /* that the user began for the pool */
struct block *allocate(struct model *m, int pool, int stream, size_t bytes, size_t alignment);
void settle(struct model *m, struct block *block);
void free_block(struct model *m, struct block *block, int on, uint64_t freed_in);
void move_last(struct model *m, int stream);
bool settle_captured(struct model *m, struct capture *capture, struct block *block);
void enter_capture(struct model *m, struct capture *capture, int stream);
void leave_body(struct model *m, struct capture *body);
struct capture *begin_capture(struct model *m, struct capture *begun, bool is_plain);
void replay_all(struct model *m, int pool);
struct route *open_route(struct model *m, int pool, int kind, int stream);
void end_newest_route(struct model *m, int pool); /* one that has a handle */
void sweep_pools(struct model *m);

/* Operations. One that has nothing to work on does nothing. */
typedef void operation(struct model *m);
operation do_alloc, do_calloc, do_free, do_free_on, do_record, do_touch, do_look, do_misuse_address;
operation do_drain, do_new_stream, do_end_stream, do_retire;
operation do_new_pool, do_end_pool, do_release_pool, do_trim, do_reserve, do_layout, do_check_live;
operation do_trim_to, do_device_trim, do_collect, do_limit, do_pool_limit, do_cache_limit;
operation do_route, do_end_route;
operation do_begin, do_fork, do_captured_alloc, do_captured_free, do_captured_touch,
    do_captured_last_use, do_end_capture, do_abort, do_break, do_wrong_end, do_unrouted;
operation do_update, do_pressure, do_replay, do_destroy_graph, do_raw_exec, do_clone;
operation do_begin_body, do_use_in_body, do_misuse_body, do_adopt, do_nest, do_section;
operation do_account;
operation do_add_peer, do_look_at_memory, do_fraction;
operation do_take, do_restore, do_destroy_checkpoint, do_verify;

/* Ends what is under way, for model_destroy. */
void end_captures(struct model *m);
void end_graphs(struct model *m);
void end_checkpoints(struct model *m);
void end_routes(struct model *m);

#endif
