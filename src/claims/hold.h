// SPDX-License-Identifier: Apache-2.0
/* hold.h -- a claim that keeps chunks from going.
 *
 *   P7  a chunk's hold_count is the number of holds of its pool that contain it
 *   P26 a chunk's outside_stamp is not above its freed_stamp, and the same where the chunk is idle memory
 *       that no hold contains
 *
 * P26 is why memory that graphs alone have touched is proven idle without a wait: a claimant's end comes
 * behind the end of its last launch. So while a chunk serves captures, two stamps say what is to be proven
 * of it. freed_stamp counts all that was freed there. outside_stamp leaves out what was freed in its own
 * capture, and what was freed behind that with its last use named, for graphs and recorded uses alone have
 * touched it. When the last hold with the chunk ends with its claimant, freed_stamp falls to outside_stamp.
 * Where an order outside captures owns the chunk, each free is one of that order's work: freed_stamp is
 * all, and is what outside_stamp begins with when the chunk passes on.
 *
 * The claimant is the user object on the capturing graph. A hold is OPEN while its capture is under way:
 * every chunk in which that capture allocates, or in which a block is freed meanwhile, joins it. CLOSED, it
 * stays as it is until its claimant says that it is gone, from any thread and without a lock; the next call
 * on the device then reaps it.
 *
 * The hold of a tarn_capture has that capture as its owner, and stands for its claim on the pool: when
 * the claimant is gone before the owner has said anything, the driver's capture has gone by itself. Then
 * the claim ends with the hold, and the owner is told.
 *
 * A passing hold keeps its capture's memory apart while that goes on, and no longer. It has the blocks
 * that were allocated in the capture, or recorded as used there, and not all that are freed meanwhile: it
 * is the default pool's, where everyone frees.
 *
 * Chunks of a hold are captured: their memory serves captures of this pool alone.
 *
 * A hold that is closed or dropped ends arenas and frees what waited for it: pools/captures.h does all of that. Here the
 * records alone change.
 *
 * Locking: the lock of the pool whose holds they are, except where said. Records are recycled, never freed. */
#ifndef TARN_CLAIMS_HOLD_H
#define TARN_CLAIMS_HOLD_H

#include <stdatomic.h>

#include "driver/gpu.h"
#include "heap/arena.h"
#include "heap/chunk_set.h"

enum tn_claim {
    TN_CLAIM_HELD,    /* the claimant will say when it is gone */
    TN_CLAIM_GONE,    /* it has; the hold is, or will be at once, on the device's list */
    TN_CLAIM_LEAVING, /* it is being taken from its pool while the claimant is there */
    TN_CLAIM_ORPHANED, /* nobody listens any more; the record is spent when it says so all the same */
};

/* A capture that was aborted and goes on, since its graph must stay until a body's capture is over. */
struct tn_left_capture {
    uint64_t capture_id; /* 0: none */
    tn_cu_stream stream; /* lives as long as the capture's graph */
    uint64_t thread_id;  /* that began it */
    bool keeps_graph;    /* the caller's */
};

/* A call of the library in whose way a broken capture was. */
struct tn_hold_call {
    const char *name; /* static; NULL: there was none */
    uint64_t bytes;   /* that were asked for, or of the block; 0: it names none */
    bool breaks;      /* the driver breaks any capture by it */
};

struct tn_hold {
    uint64_t magic;                    /* TN_HOLD_MAGIC; 0 in a recycled record */
    struct tn_hold *next;              /* of the pool; also links recycled records */
    struct tn_hold *_Atomic next_gone; /* on a list of those to reap or to recycle */
    atomic_int claim;                  /* enum tn_claim */
    struct tn_holds *holds;            /* that it is among; immutable */
    uint64_t serial;     /* rises in the pool with each hold that is opened; immutable */
    uint64_t capture_id; /* immutable */
    uint64_t origin_id;  /* stream id of the order that opened it; immutable */
    bool open;
    bool passing; /* it ends when it is closed, not with its claimant */
    bool owned;   /* a tarn_capture opened it and will close it */
    /* Of that tarn_capture, while it is not just being ended: to be set when the hold goes. */
    atomic_bool *owner_gone;
    struct tn_left_capture left; /* of a body's capture: the one around it that its end ends */
    uint64_t route_id;           /* of the route that led its first allocation here; 0: none */
    tn_cu_graph graph; /* that is being captured; compared, and read while it is; NULL: forgotten */
    tn_cu_graph keeper; /* compared: the one whose end is the claimant's; NULL: destroyed */
    bool beside;        /* the keeper has an older hold here: both are one graph's; immutable */
    bool expected;      /* the library has destroyed the keeper: the claimant goes soon */
    /* the first that noticed that the capture is broken; see graphs/broken.h */
    struct tn_hold_call noticed;
    tn_cu_event mark; /* open, without an owner: of the capture; see tn_capture_goes_on */
    /* Closed: what was allocated before the capture's end has lower sequence numbers; what is allocated once that was
     * noticed has none that is lower. */
    uint64_t end_mark;
    struct tn_births *births; /* of the capture's orders */
    bool births_lost;         /* some are not among them */
    struct tn_chunk_set chunks;
    const struct tn_hold *selected; /* scratch of tn_holds_select; guarded by the pool's lock */
};

#define TN_HOLD_MAGIC 0x54486f6cULL

/* The holds of a pool. */
struct tn_holds {
    struct tn_hold *first; /* newest first */
    uint64_t count;
    uint64_t open_count;
    uint64_t serial;         /* of the newest hold */
    uint64_t awaited_serial; /* serial when holds were last waited for, and did not go; 0: never */
    /* Immutable: */
    tarn_pool *pool;            /* whose they are; never looked into */
    const struct tn_lock *lock; /* of the pool: guards them; for assertions */
    struct tn_gpu *gpu;
    const struct tn_chunk_table *chunks; /* of the pool */
    struct tn_hold *_Atomic *gone;       /* the device's list of those to reap */
    atomic_uint_fast64_t *user_count;    /* open holds of the device that no tarn_capture owns */
};

/* Makes a hold, which is open. passing: see above. HOST_MEMORY. */
TARN_MUST_CHECK tarn_status tn_hold_make(struct tn_holds *holds, struct tn_order order, bool owned,
                                         bool passing, struct tn_hold **hold);

/* It is open no more: what is allocated from now on is not in it. */
void tn_hold_shut(struct tn_hold *hold);

/* Takes the hold, which is not open, from its pool. proven: its claimant's end proves that nothing runs any more of what
 * it stood for. */
void tn_hold_leave(struct tn_hold *hold, bool proven);

/* The record of a hold that has left, and whose claimant is gone or never was told of it. */
void tn_hold_recycle(struct tn_hold *hold);

/* Leaving while the claimant is there, in two steps, tn_hold_leave between them. False: it is gone by now, and the next
 * reap takes the hold. */
bool tn_hold_begin_orphan(struct tn_hold *hold);
void tn_hold_end_orphan(struct tn_hold *hold);

/* The open hold of that capture in the pool, or NULL. */
struct tn_hold *tn_hold_find(const struct tn_holds *holds, uint64_t capture_id);

/* Whether the open hold is of a capture that is over: its mark says so, and it has no owner. */
bool tn_hold_is_over(const struct tn_hold *hold);

/* Whether the open hold is of a capture that goes on: of a tarn_capture, or known by its mark. */
bool tn_hold_goes_on(const struct tn_hold *hold);

/* A hold of a capture into that graph, or into one that had its handle before it; an open one where there
 * is one; NULL: there is none. */
const struct tn_hold *tn_hold_find_graph(const struct tn_holds *holds, tn_cu_graph graph);

/* Whether there is a hold of the capture, or of a capture into the graph; NULL: of none. */
bool tn_holds_have(const struct tn_holds *holds, uint64_t capture_id, tn_cu_graph graph);

/* The library is about to destroy the graph: the next one that gets its handle is not taken for it. */
void tn_holds_forget_graph(struct tn_holds *holds, tn_cu_graph graph);

/* The capture's graph was destroyed with it: its holds, open ones included, go by none, and their claimants go soon. */
void tn_holds_forget_capture(struct tn_holds *holds, uint64_t capture_id);

/* Whether a hold is open that is no newer than that. */
bool tn_holds_are_open(const struct tn_holds *holds, uint64_t serial);

/* Makes every open hold have room for chunk ids below count; false when there is no memory. */
bool tn_holds_reserve(struct tn_holds *holds, size_t count);

/* Adds the chunks under the block. */
void tn_hold_add(struct tn_hold *hold, const struct tn_block *block);

/* The holds that go when that graph does: its own captures', and those of bodies in it. Linked by selected until the
 * lock is given back; NULL: there are none. keeper NULL: none. */
const struct tn_hold *tn_holds_select(struct tn_holds *holds, tn_cu_graph keeper);

/* The bytes of the chunks that are set in that word of the maps of holds. */
uint64_t tn_holds_bytes_in(const struct tn_holds *holds, size_t word, uint64_t bits);

/* Adds a block that is being freed to every open hold that is to have it; false when none is. */
bool tn_holds_add_freed(struct tn_holds *holds, const struct tn_block *block);

/* The hold of the tarn_capture of that id, open or closed; NULL when it is gone. */
struct tn_hold *tn_hold_find_owned(struct tn_holds *holds, uint64_t capture_id);

/* Takes over the aborted outer capture that the capture of that id was to end. Its capture_id is 0 where there is none, or
 * where another hold is to end it. */
struct tn_left_capture tn_hold_take_left(struct tn_holds *holds, uint64_t capture_id);

/* Tells the owner of a hold that goes, if it has one, whose claim on the pool ends with it. Returns the id of that
 * capture, 0: none. */
uint64_t tn_hold_tell_owner(struct tn_hold *hold);

/* Gives the hold, which was just opened, the graph whose end is its claimant's. */
void tn_hold_keep_by(struct tn_hold *hold, tn_cu_graph keeper);

/* How many graphs the closed holds of the pool are of. */
uint64_t tn_holds_count_graphs(const struct tn_holds *holds);

/* The highest end_mark of the holds that go when that graph does, 0: there are none; and whether one is open. */
uint64_t tn_holds_end_mark(struct tn_holds *holds, tn_cu_graph keeper, bool *open);

/* Whether all closed holds of the pool are that graph's: the user objects on it, and on no other. */
bool tn_holds_are_kept_by(const struct tn_holds *holds, tn_cu_graph keeper);

/* Says that the claimant is gone. No lock; any thread, those of the driver included: it calls
 * nothing. void * so that it can be a user object's destructor. */
void tn_hold_gone(void *hold);

/* The library destroys the graph: holds that it keeps go soon, unless the user has a clone of it. Whether
 * such holds are there; and to count on them no more. */
void tn_holds_expect(struct tn_holds *holds, tn_cu_graph keeper);
bool tn_holds_are_expected(const struct tn_holds *holds);
void tn_holds_expect_none(struct tn_holds *holds);

#endif
