// SPDX-License-Identifier: Apache-2.0
/* hold.h -- a claim which keeps chunks from going.
 *
 *   P7  a chunk's hold_count is the number of holds of its pool which contain it
 *   P33 a chunk's known_count is the number of those of its holds which are open or known
 *   P26 a chunk's outside_stamp is not above its freed_stamp; both are equal in idle memory which
 *       no hold contains
 *
 * P26 proves memory idle without a wait where only graphs have touched it: a claimant's end comes
 * behind the end of its last launch. While a chunk serves captures, two stamps therefore name the
 * epochs to be proven:
 * - freed_stamp counts all frees in the chunk.
 * - outside_stamp leaves out frees of blocks which only graphs and recorded uses have touched:
 *   frees in the block's own capture, and later frees with a named last use.
 *
 * When the last hold with the chunk ends with its claimant, freed_stamp falls to outside_stamp.
 * Where an order outside captures owns the chunk, each free is work of this order, and only
 * freed_stamp counts. outside_stamp begins with its value when the chunk passes on.
 *
 * The claimant is the user object on the capturing graph. A hold is OPEN while its capture is under
 * way. Every chunk in which the capture allocates, or in which a block is freed meanwhile, enters
 * the hold. A CLOSED hold stays unchanged until its claimant reports its end, from any thread and
 * without a lock. The next call on the device then reaps the hold.
 *
 * The hold of a tarn_capture has this capture as its owner, and stands for its claim on the pool.
 * If the claimant is gone before the owner has ended or aborted the capture, the driver's capture
 * has gone by itself. The claim then ends with the hold, and the owner is told.
 *
 * A passing hold keeps its capture's memory apart while the capture goes on, and no longer. It has
 * the blocks which were allocated in the capture, or recorded as used there, but not all blocks
 * freed meanwhile: it belongs to the default pool, where everyone frees.
 *
 * Chunks of a hold are captured: their memory serves captures of this pool alone.
 *
 * A hold that closes or is dropped ends arenas and frees blocks which waited for it:
 * pools/captures.h does this. Here only the records change.
 *
 * Searches by capture and graph go by the device's index (heap/pool_index.h).
 *
 * Locking: the lock of the pool whose holds they are, except where a comment differs. Records are
 * recycled, never freed. */
#ifndef TARN_CLAIMS_HOLD_H
#define TARN_CLAIMS_HOLD_H

#include <stdatomic.h>

#include "driver/gpu.h"
#include "heap/arena.h"
#include "heap/pool_index.h"
#include "heap/chunk_set.h"

enum tn_claim {
    TN_CLAIM_HELD, /* the claimant will report its end */
    /* The claimant is gone; the hold is on the device's list, or will be at once. */
    TN_CLAIM_GONE,
    TN_CLAIM_LEAVING, /* the hold is leaving its pool while the claimant exists */
    /* Nobody waits for the claimant any more; the record is spent when it reports its end. */
    TN_CLAIM_ORPHANED,
};

/* An aborted capture which goes on: its graph must stay until a body's capture is over. */
struct tn_left_capture {
    uint64_t capture_id; /* 0: none */
    tn_cu_stream stream; /* lives as long as the capture's graph */
    uint64_t thread_id;  /* the thread that began it */
    bool keeps_graph;    /* the graph belongs to the caller */
};

/* A call of the library which a broken capture has stopped. */
struct tn_hold_call {
    const char *name; /* static; NULL: none */
    uint64_t bytes;   /* bytes requested, or of the block; 0: the call names none */
    bool breaks;      /* the driver breaks any capture by this call */
};

struct tn_hold {
    uint64_t magic;            /* TN_HOLD_MAGIC; 0 in a recycled record */
    struct tn_hold *next;      /* of the pool; also links recycled records */
    struct tn_hold *previous;  /* of the pool */
    struct tn_hold *open_next; /* of the pool's open holds */
    struct tn_hold *open_previous;
    struct tn_hold *_Atomic next_gone; /* links holds to reap, or to recycle */
    atomic_int claim;                  /* enum tn_claim */
    tn_cu_userobject object;           /* the claimant; never touched once it may have gone */
    struct tn_holds *holds;            /* the pool's holds; immutable */
    uint64_t serial;                   /* rises in the pool with each opened hold; immutable */
    uint64_t capture_id;               /* immutable */
    uint64_t origin_id;                /* stream id of the order which opened it; immutable */
    bool open;
    bool passing; /* the hold ends when it closes, not with its claimant */
    bool owned;   /* a tarn_capture opened the hold and will close it */
    bool noted;   /* the history of the device says that it was taken */
    /* The flag of this tarn_capture to be set when the hold goes; NULL: none, or just being
     * ended. */
    atomic_bool *owner_gone;
    /* In a body's hold: the capture around it which its end also ends. */
    struct tn_left_capture left;
    uint64_t route_id; /* the route which led its first allocation here; 0: none */
    /* The graph being captured; compared, and read during the capture; NULL: forgotten. */
    tn_cu_graph graph;  /* tn_hold_set_graph changes it */
    tn_cu_graph keeper; /* the graph whose end ends the claimant; compared alone; NULL: destroyed */
    /* The keeper has an older hold here: both belong to the same graph; immutable. */
    bool beside;
    bool known;    /* P33: a tarn_graph stands for the keeper: the library will destroy it */
    bool expected; /* the library has destroyed the keeper: the claimant goes soon */
    /* the first call which noticed that the capture is broken; see graphs/broken.h */
    struct tn_hold_call noticed;
    tn_cu_event event; /* open, without an owner: the capture's; see tn_driver_capture_goes_on */
    /* Closed: blocks allocated before the capture's end have lower sequence numbers. Blocks
     * allocated after the end was noticed have this number or a higher one. */
    uint64_t end_mark;
    size_t node_count;        /* of the graph behind the capture's end, or TN_NODES_UNKNOWN */
    struct tn_births *births; /* of the capture's orders */
    bool births_lost;         /* some births are missing */
    struct tn_chunk_set chunks;
    const struct tn_hold *selected; /* scratch of tn_holds_select; guarded by the pool's lock */
    bool settled;                   /* its capture was said to be over */
    struct tn_index_entry entries[TN_HOLD_KEYS]; /* P31; in a hold without a capture no capture's */
};

#define TN_NODES_UNKNOWN SIZE_MAX

#define TN_HOLD_MAGIC 0x54486f6cULL

/* The capture_id of holds without a capture: no driver gives it, and no hold is found by it. */
#define TN_HOLD_NO_CAPTURE UINT64_MAX

/* The holds of a pool. */
struct tn_holds {
    struct tn_hold *first; /* newest first */
    struct tn_hold *open;  /* P31: the open ones, newest first */
    uint64_t count;
    uint64_t open_count;
    uint64_t serial;         /* of the newest hold */
    uint64_t awaited_serial; /* serial when holds were last awaited in vain; 0: never */
    /* Immutable: */
    tarn_pool *pool;             /* the holds' pool; never dereferenced */
    uint64_t pool_serial;        /* unique in the process; rises with each pool of the device */
    struct tn_pool_index *index; /* the device's */
    const struct tn_lock *lock;  /* the pool's lock, which guards the holds; for assertions */
    struct tn_gpu *gpu;
    const struct tn_chunk_table *chunks; /* of the pool */
    struct tn_hold *_Atomic *gone;       /* the device's list of holds to reap */
    atomic_uint_fast64_t *user_count;    /* open holds of the device without a tarn_capture */
};

/* Makes an open hold. passing: see above. HOST_MEMORY. */
TARN_MUST_CHECK tarn_status tn_hold_make(struct tn_holds *holds, struct tn_order order, bool owned,
                                         bool passing, struct tn_hold **hold);

/* Ends the open state: later allocations are not in the hold. */
void tn_hold_shut(struct tn_hold *hold);

/* Takes the hold, which is not open, from its pool. proven: the claimant's end proves that no work
 * on the hold's memory runs any more. */
void tn_hold_leave(struct tn_hold *hold, bool proven);

/* Recycles the record of a hold which has left. The claimant is gone, or never knew the hold. */
void tn_hold_recycle(struct tn_hold *hold);

/* Two steps around tn_hold_leave while the claimant exists. False: the claimant is gone by now, and
 * the next reap takes the hold. */
bool tn_hold_begin_orphan(struct tn_hold *hold);
void tn_hold_end_orphan(struct tn_hold *hold);

/* The open hold of this capture in the pool, or NULL. */
struct tn_hold *tn_hold_find(const struct tn_holds *holds, uint64_t capture_id);

/* Whether the open hold's capture is over: its event says so, and it has no owner. */
bool tn_hold_is_over(const struct tn_hold *hold);

/* Whether the open hold's capture goes on: a tarn_capture's, or known by its event. */
bool tn_hold_goes_on(const struct tn_hold *hold);

/* A hold of a capture into this graph, or into a graph which had the same handle before; preferably
 * an open one; NULL: none. */
const struct tn_hold *tn_hold_find_graph(const struct tn_holds *holds, tn_cu_graph graph);

/* Whether the pool has a hold of the capture, or of a capture into the graph; graph NULL: of the
 * capture alone. */
bool tn_holds_have(const struct tn_holds *holds, uint64_t capture_id, tn_cu_graph graph);

/* The library is about to destroy the graph: forgets its handle, which the next graph may get. */
void tn_holds_forget_graph(struct tn_holds *holds, tn_cu_graph graph);

/* The driver has destroyed the capture's graph. Its holds, open ones included, forget the handle,
 * and their claimants go soon. */
void tn_holds_forget_capture(struct tn_holds *holds, uint64_t capture_id);

/* Whether any hold up to this serial is open. */
bool tn_holds_are_open(const struct tn_holds *holds, uint64_t serial);

/* Gives every open hold room for chunk ids below count; false: no memory. */
bool tn_holds_reserve(struct tn_holds *holds, size_t count);

/* Adds the chunks under the block. */
void tn_hold_add(struct tn_hold *hold, const struct tn_block *block);

/* The holds which go with this graph: of its own captures, and of bodies in it. Linked by selected
 * until the lock is released; NULL: none. keeper NULL: selects none. */
const struct tn_hold *tn_holds_select(struct tn_holds *holds, tn_cu_graph keeper);

/* The bytes of the chunks whose bits are set, in this word of the maps of holds. */
uint64_t tn_holds_bytes_in(const struct tn_holds *holds, size_t word, uint64_t bits);

/* Adds a block which is being freed to every open hold that needs it; false: none does. */
bool tn_holds_add_freed(struct tn_holds *holds, const struct tn_block *block);

/* The hold of the tarn_capture with this id, open or closed; NULL: gone. */
struct tn_hold *tn_hold_find_owned(struct tn_holds *holds, uint64_t capture_id);

/* Takes over the aborted outer capture which the end of this capture was to end. Its capture_id is
 * 0 if there is none, or if another hold is to end it. */
struct tn_left_capture tn_hold_take_left(struct tn_holds *holds, uint64_t capture_id);

/* Tells the owner of a hold which goes, if there is an owner: its claim on the pool ends with the
 * hold. Returns the id of its capture, 0: none. */
uint64_t tn_hold_tell_owner(struct tn_hold *hold);

/* Changes the graph, or the keeper; NULL: none. */
void tn_hold_set_graph(struct tn_hold *hold, tn_cu_graph graph);
void tn_hold_set_keeper(struct tn_hold *hold, tn_cu_graph keeper);

/* Gives the newly opened hold the graph whose end ends its claimant. */
void tn_hold_keep_by(struct tn_hold *hold, tn_cu_graph keeper);

/* The number of graphs of the pool's closed holds. */
uint64_t tn_holds_count_graphs(const struct tn_holds *holds);

/* The highest end_mark of the holds which go with this graph, 0: none; *open: whether any of them
 * is open. */
uint64_t tn_holds_end_mark(struct tn_holds *holds, tn_cu_graph keeper, bool *open);

/* Whether all closed holds of the pool belong to this graph: their user objects are on it, and on
 * no other. */
bool tn_holds_are_kept_by(const struct tn_holds *holds, tn_cu_graph keeper);

/* Reports the claimant's end. No lock; any thread, including the driver's: calls nothing. void * to
 * serve as a user object's destructor. */
void tn_hold_gone(void *hold);

/* A tarn_graph stands for the graph from now on. */
void tn_holds_know(struct tn_holds *holds, tn_cu_graph keeper);

/* Whether free memory would go if closed holds without a tarn_graph went: nothing tells whether the
 * program has destroyed their graphs. */
bool tn_holds_may_let_go(const struct tn_holds *holds);

/* tn_holds_expect: the library destroys the graph, and its holds go soon, unless the user has a
 * clone. The others: whether any hold is expected; expects none any more. */
void tn_holds_expect(struct tn_holds *holds, tn_cu_graph keeper);
bool tn_holds_are_expected(const struct tn_holds *holds);
void tn_holds_expect_none(struct tn_holds *holds);

#endif
