// SPDX-License-Identifier: Apache-2.0
/* block.h -- runs of bytes in a segment.
 *
 *   P1  the blocks of a segment tile it: in order of address, no gap, no overlap
 *   P2  a block is UNMAPPED exactly where no chunk is; all chunks under any other block belong to
 *       one heap and, where the segment is not mixed, to the segment's first arena. It is the
 *       block's heap, except that a LIVE or DISCARDED block may keep a heap of idle memory while its
 *       chunks are a capture's, and afterwards while they are the other kind's of idle memory
 *   P3  no two neighbours are both UNMAPPED, and no two neighbours of one heap are both FREE
 *   P18 a LIVE or PENDING block without may_have_claims has no use, no fence and no watch
 *   P20 a LIVE or PENDING block is in_other_heap if and only if its heap is for blocks of another size
 *   P24 a PENDING block whose next user is not ordered behind its last use waits for a proof
 *
 * A block's record is one cache line, with the fields which every allocation and every free needs.
 * Rarely needed fields are in a second record, the cold record, in an array beside. A slab of
 * records gets the array when its first block needs a cold record; until then a block costs one
 * line.
 *
 * A tag is the user's number for a block. Tags lie in an array beside the slab, which comes with
 * the first tag. Each tag has the sequence number of its block, so no allocation and no free clears
 * a tag.
 *
 * Records come from slabs of the pool. They are set aside before a change begins (reserve, which
 * may fail) and taken during the change (take, which cannot). Cold records are set aside likewise
 * (add_cold), and stay. A block needs one before any change which may give it an order other than
 * its arena's, a use or a fence, or make it PENDING. From the first open hold or route on, all
 * records of the pool have cold records: any block may be freed beside a capture.
 *
 * Locking: the pool's lock. */
#ifndef TARN_HEAP_BLOCK_H
#define TARN_HEAP_BLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/contract.h"
#include "base/hot.h"
#include "base/order.h"
#include "vmm/chunk.h"
#include "vmm/segment.h"

struct tn_fence;
struct tn_history_table;
struct tn_history_tables;
struct tn_use;
struct tn_watched;

enum tn_block_state {
    TN_BLOCK_FREE,      /* mapped, in its heap's bins */
    TN_BLOCK_LIVE,      /* a user holds it */
    TN_BLOCK_PENDING,   /* freed, but a stream or a capture may still use it */
    TN_BLOCK_DISCARDED, /* allocated in an aborted capture; its user has not freed it yet */
    TN_BLOCK_UNMAPPED,  /* addresses without memory */
    TN_BLOCK_LOOSE,     /* freed, and not yet coalesced: P19 in heap/arena.h */
};

struct tn_block {
    _Alignas(64) struct tn_block *previous; /* neighbours in the segment, by address */
    struct tn_block *next;
    union {
        struct { /* FREE: in its bin */
            struct tn_block *list_previous;
            struct tn_block *list_next; /* also links spare records */
        };
        struct {                /* LIVE, PENDING, DISCARDED */
            uint64_t requested; /* bytes requested by the user */
            uint64_t sequence;  /* number of the allocation */
        };
        struct { /* LOOSE */
            /* Next block of its heap's slot. Has no meaning in the block freed last, where
             * requested stays. */
            struct tn_block *loose_next;
            uint64_t loose_stamp; /* the epoch of its free */
        };
    };
    struct tn_segment *segment;
    struct tn_heap *heap; /* owner of its chunks; NULL when UNMAPPED */
    uint64_t offset;      /* in the segment */
    uint32_t units;       /* of 512 bytes: its size */
    uint8_t walk_id;      /* scratch of checkpoint/: the last comparison which saw the block */
    /* LIVE: whose it is, and whether it is a round there: heap/magazine.h; 0: of no magazine. */
    atomic_uchar magazine;
    uint8_t state; /* enum tn_block_state */
    /* LIVE, PENDING: has its arena's order; else the order in the cold record. */
    bool own_order : 1;
    bool may_have_claims : 1; /* the cold record may have uses, a fence or watches */
    bool in_other_heap : 1;   /* LIVE, PENDING: P20 */
    bool extends : 1;         /* FREE: P4, an UNMAPPED block follows */
    /* PENDING: freed while captures of the pool were under way, and not by the order which would
     * reuse the memory there */
    bool captured_free : 1;
    /* PENDING: a poll has found no user any more; the block waits for a settlement:
     * pools/pending.h */
    bool ended : 1;
    /* captured_free, and one of these captures has no hold: its graph brings a hold when adopted */
    bool unheld : 1;
    bool graphs_alone : 1; /* PENDING: but for its uses, graphs alone have touched it: P26 */
};

_Static_assert(sizeof(struct tn_block) == 64, "a block's record is one cache line");

/* Fields are valid as their comments say; stale links and numbers of former lives remain in
 * them. */
struct tn_block_cold {
    struct tn_block *pending_previous; /* PENDING: in the pool's list */
    struct tn_block *pending_next;
    /* not own_order: the order which allocated the block; none once the stream is retired */
    struct tn_order order;
    struct tn_use *uses; /* LIVE, PENDING: other orders that use it */
    /* LIVE, PENDING, of no order: the fence which ends its stream's work; NULL: ended */
    struct tn_fence *fence;
    /* LIVE, PENDING: watches which refer to the block: P25 in claims/watch.h. */
    struct tn_watched *watches;
    uint64_t hold_serial; /* PENDING, captured_free: the newest hold's serial at the free */
    /* PENDING: waits until this epoch is proven idle; 0: does not wait. */
    uint64_t proof_stamp;
    /* PENDING: the epoch when the last watch of a graph which kept the block ended; 0: none did */
    uint64_t kept_stamp;
    uint64_t freed_stamp; /* PENDING: the epoch to be proven after the end of its uses; 0: none */
    /* PENDING: the epoch of the free; once proven, all use of the block has ended. */
    uint64_t pending_stamp;
};

struct tn_block_tag {
    /* Of the tagged block. If the record's block has another number, the block has no tag. */
    uint64_t sequence;
    uint64_t value;
};

/* Where slabs get their tables of live blocks. */
struct tn_block_tables {
    struct tn_history_tables *of_device;
    uint64_t pool_serial;
    const char *pool_name;
};

/* Spare records: returned records, and records of the newest slab which were never taken. Returned
 * records form batches. A batch passes from one store to another without a look at any record but
 * its first. */
struct tn_block_store {
    struct tn_block *spare;   /* a batch which is not full, linked through list_next */
    struct tn_block *batches; /* full batches: their first records, linked through list_previous */
    struct tn_block *fresh;   /* the first record never taken */
    size_t fresh_count;
    size_t spare_count;   /* all spare records */
    uint32_t spare_begun; /* records in the batch which is not full */
    struct tn_block_slab *slabs;
    struct tn_block_tables *tables; /* the store's own; NULL: the device keeps no history */
    bool all_cold;                  /* every slab has cold records */
    bool tagged;                    /* a slab has tags */
    /* A block of a stream's order was once in memory of another arena. */
    bool has_strays;
};

/* The store, which is empty, gets tables of live blocks, before the number of its pool is known;
 * false: no memory. */
bool tn_blocks_add_tables(struct tn_block_store *store, struct tn_history_tables *of_device);

/* Sets aside count records. False: no memory, or the system gives none below
 * 2^TN_BLOCK_ADDRESS_BITS. An entry of the index has no room for more bits of a record's address
 * (heap/live_index.h). */
bool tn_blocks_reserve(struct tn_block_store *store, size_t count);
/* Gives cold records to all records of the store, present and future; false: no memory. */
bool tn_blocks_add_cold(struct tn_block_store *store);
struct tn_block *tn_block_take(struct tn_block_store *store); /* a record set aside before */
/* The record has no bytes from then on, even for a thread with a stale pointer. */
void tn_block_give(struct tn_block_store *store, struct tn_block *block);
/* Moves up to count records which were set aside. Touches the records of incomplete batches, and
 * records never taken: few, unless the target has more of its own than a batch. */
void tn_blocks_move(struct tn_block_store *from, struct tn_block_store *to, size_t count);

/* Brings up to count records which are taken next into the cache, except records never taken. */
void tn_blocks_bring_near(const struct tn_block_store *store, size_t count);

void tn_blocks_fini(struct tn_block_store *store);

enum {
    TN_BLOCK_BATCH = 16, /* records */
    TN_BLOCK_BITS = 9,   /* sizes are multiples of 512 bytes */
    TN_BLOCK_SLAB_BITS = 14,
    /* Address bits of a record: as many as user space has on x86-64 and 64-bit ARM, unless a
     * program requests more. */
    TN_BLOCK_ADDRESS_BITS = 48,
};

#define TN_BLOCK_BYTES_MIN ((uint64_t)1 << TN_BLOCK_BITS)
#define TN_BLOCK_BYTES_MAX ((uint64_t)UINT32_MAX << TN_BLOCK_BITS)
#define TN_REQUEST_BYTES_MAX ((uint64_t)1 << 40) /* upper limit of a request */

enum { TN_BLOCK_SLAB_RECORDS = (1 << TN_BLOCK_SLAB_BITS) / 64 - 1 };

/* Gives the LIVE block that tag; false when there is no memory for it. 0 needs none. */
bool tn_block_set_tag(struct tn_block_store *store, struct tn_block *block, uint64_t value);
/* Makes room for tags of all records of the store as it is now; false when there is no memory. */
bool tn_blocks_add_tags(struct tn_block_store *store);

/* Slabs begin at a multiple of 2^TN_BLOCK_SLAB_BITS. */
struct tn_block_slab {
    struct tn_block records[TN_BLOCK_SLAB_RECORDS];
    struct tn_block_slab *next;
    struct tn_block_cold *cold; /* cold records in the order of the records; NULL: none yet */
    struct tn_block_tag *tags;  /* in the order of the records; NULL: none yet */
    /* The same, of the live blocks; NULL: the device keeps no history. */
    struct tn_history_table *table;
};

/* For loops over many blocks: where the records lie. Mostly each record follows the one before in
 * memory, or precedes it, where blocks were freed in that order. */
struct tn_block_step {
    ptrdiff_t next;  /* bytes from a record to the next record, as guessed */
    ptrdiff_t ahead; /* bytes to the record which is brought near */
};

static inline struct tn_block_step tn_block_step_by(ptrdiff_t records)
{
    enum { AHEAD = 32 }; /* some hundred nanoseconds */
    const ptrdiff_t bytes = records * (ptrdiff_t)sizeof(struct tn_block);

    TN_ASSERT(records == 1 || records == -1);
    return (struct tn_block_step){bytes, bytes * AHEAD};
}

/* The block's next block. The step before predicts its record: the processor continues there while
 * it still waits for the link. Also prefetches a record many steps ahead. */
static inline struct tn_block *tn_block_next(const struct tn_block *block,
                                             struct tn_block_step *step)
{
    const uintptr_t at = (uintptr_t)block;
    const uintptr_t guess = at + (uintptr_t)step->next;
    uintptr_t next = guess;

    __builtin_prefetch((const void *)(at + (uintptr_t)step->ahead));
    /* Without this the compiler would see that both are equal, take the link and wait for it. */
    TN_HIDE(next);
    if (TN_LIKELY((uintptr_t)block->next == next))
        return (struct tn_block *)guess;
    next = (uintptr_t)block->next;
    if (next == at - (uintptr_t)step->next) /* a record elsewhere begins a run like this one */
        *step = tn_block_step_by(step->next > 0 ? -1 : 1);
    return (struct tn_block *)next;
}

static inline struct tn_block_slab *tn_block_slab(const struct tn_block *block)
{
    return (struct tn_block_slab *)((uintptr_t)block >> TN_BLOCK_SLAB_BITS << TN_BLOCK_SLAB_BITS);
}

static inline bool tn_block_has_cold(const struct tn_block *block)
{
    return tn_block_slab(block)->cold != NULL;
}

/* The block has a cold record. */
static inline struct tn_block_cold *tn_block_cold(const struct tn_block *block)
{
    const struct tn_block_slab *slab = tn_block_slab(block);

    TN_ASSERT(slab->cold != NULL);
    return &slab->cold[block - slab->records];
}

/* The tag of a LIVE block; 0: none. */
static inline uint64_t tn_block_tag(const struct tn_block *block)
{
    const struct tn_block_slab *slab = tn_block_slab(block);
    const struct tn_block_tag *tag = slab->tags;

    if (TN_LIKELY(tag == NULL))
        return 0;
    tag += block - slab->records;
    return tag->sequence == block->sequence ? tag->value : 0;
}

/* Makes sure that the block's slab has cold records; false: no memory. */
bool tn_block_add_cold(const struct tn_block *block);

/* The uses of a LIVE or PENDING block, and its fence; NULL: none. */
static inline struct tn_use *tn_block_uses(const struct tn_block *block)
{
    return block->may_have_claims ? tn_block_cold(block)->uses : NULL;
}

static inline struct tn_fence *tn_block_fence(const struct tn_block *block)
{
    return block->may_have_claims ? tn_block_cold(block)->fence : NULL;
}

static inline uint64_t tn_block_bytes(const struct tn_block *block)
{
    return (uint64_t)block->units << TN_BLOCK_BITS;
}

static inline void tn_block_set_bytes(struct tn_block *block, uint64_t bytes)
{
    TN_ASSERT(bytes % TN_BLOCK_BYTES_MIN == 0 && bytes > 0 && bytes <= TN_BLOCK_BYTES_MAX);
    block->units = (uint32_t)(bytes >> TN_BLOCK_BITS);
}

static inline uint64_t tn_block_address(const struct tn_block *block)
{
    return block->segment->base + block->offset;
}

static inline uint64_t tn_block_end(const struct tn_block *block)
{
    return block->offset + tn_block_bytes(block);
}

/* Whether addresses without memory follow the block. Reads from the following block only whether it
 * has an owner: that block may belong to another arena. */
static inline bool tn_block_is_at_unmapped(const struct tn_block *block)
{
    return block->next != NULL && block->next->heap == NULL;
}

/* Cuts the block at an offset inside it. The new record is the upper part, directly behind the
 * block, with the same state, heap and segment. Takes one record. Neither part changes its
 * membership in lists. */
struct tn_block *tn_block_split(struct tn_block_store *store, struct tn_block *block,
                                uint64_t offset);

/* tn_block_split, but the new record is the lower part. */
struct tn_block *tn_block_split_below(struct tn_block_store *store, struct tn_block *block,
                                      uint64_t offset);

/* Joins the upper neighbour to the block and gives its record back. */
void tn_block_coalesce_next(struct tn_block_store *store, struct tn_block *block);

/* Whether the block is one that may keep a heap of idle memory (P2). */
static inline bool tn_block_may_keep(const struct tn_block *block)
{
    return block->state == TN_BLOCK_LIVE || block->state == TN_BLOCK_DISCARDED;
}

/* The heap that owns the chunks under the block; NULL: it is UNMAPPED. */
static inline struct tn_heap *tn_block_owner(const struct tn_block *block)
{
    if (!tn_block_may_keep(block))
        return block->heap;
    return atomic_load_explicit(&tn_segment_chunk_at(block->segment, block->offset)->heap,
                                memory_order_relaxed);
}

#endif
