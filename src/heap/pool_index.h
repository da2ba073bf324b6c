// SPDX-License-Identifier: Apache-2.0
/* pool_index.h -- a device's pools by what calls name: a capture, a graph or a stream.
 *
 *   P31  a hold is in its device's index under its capture, its graph and its keeper, and nowhere
 *        else; the open holds of a pool are in the pool's list of them, newest first
 *
 *   P38  an arena is in its device's index under its stream's id if its order is outside captures
 *        and its stream is not retired; no other arena is; so is each dormant segment, under the
 *        id of the stream that it was of
 *
 * A call that concerns one capture, graph or stream thereby finds the few pools which have to do
 * with it, beside any number of others.
 *
 * Pools and holds are compared, and handed back: this file looks into neither. Arenas have entries,
 * so the index is below them.
 *
 * Each key has a hash table with chains, as claims/stream_table.h. Entries of one key are in their
 * chain from the newest on. The members of entries belong to this file.
 *
 * Locking: a spin lock of the index, rank INDEX, which each function takes. A hold or an arena
 * enters, changes its keys and leaves under the lock of its pool. Whoever has this lock may
 * therefore keep entries of the pool from one call to the next. */
#ifndef TARN_HEAP_POOL_INDEX_H
#define TARN_HEAP_POOL_INDEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/cuda.h"
#include "base/spin.h"
#include "tarn/types.h"

struct tn_hold;

/* The keys of holds come first. */
enum tn_index_key {
    TN_BY_CAPTURE,
    TN_BY_GRAPH,
    TN_BY_KEEPER, /* the graph whose end ends the hold */
    TN_BY_STREAM, /* of arenas, and of dormant segments (pools/arena_table.h) */
    TN_INDEX_KEYS,
    TN_HOLD_KEYS = TN_BY_STREAM
};

/* What pools are searched by; 0 or NULL: not asked for. */
struct tn_index_keys {
    uint64_t capture_id;
    tn_cu_graph graph;
    tn_cu_graph keeper;
    uint64_t stream_id;
};

/* The place of a hold, an arena or a dormant segment under one key. */
struct tn_index_entry {
    struct tn_index_entry *next; /* in the chain */
    struct tn_index_entry *previous;
    uint64_t key;         /* of a graph: its handle; 0: in no chain */
    struct tn_hold *hold; /* NULL: not a hold's; immutable in a chain, as the rest */
    tarn_pool *pool;
    uint64_t pool_serial; /* rises with each pool of the device */
};

enum { TN_INDEX_CHAINS_MIN = 16 };

struct tn_index_table {
    struct tn_index_entry *few[TN_INDEX_CHAINS_MIN];
    struct tn_index_entry **chains; /* NULL: few */
    size_t chain_count;             /* a power of two; 0: TN_INDEX_CHAINS_MIN */
    size_t count;                   /* of entries */
};

/* Zeroed memory is an empty index. */
struct tn_pool_index {
    struct tn_spin lock;
    struct tn_index_table tables[TN_INDEX_KEYS];
    /* Holds which have left before anyone said that their captures were over. */
    atomic_uint_fast64_t early_count;
};

/* Takes the entry out of its chain, and enters it under this key; key 0: nowhere. Without host
 * memory a table stays as it is, and chains grow. */
void tn_pool_index_put(struct tn_pool_index *index, enum tn_index_key by,
                       struct tn_index_entry *entry, uint64_t key);

/* The pool's holds of this key: the newest, and the next older one; NULL: none. The pool's lock is
 * held. */
struct tn_hold *tn_pool_index_first(struct tn_pool_index *index, enum tn_index_key by,
                                    const tarn_pool *pool, uint64_t key);
struct tn_hold *tn_pool_index_next(struct tn_pool_index *index, const struct tn_index_entry *entry);

/* The newest entry of the pool under this key; NULL: none. The pool's lock is held. */
struct tn_index_entry *tn_pool_index_entry(struct tn_pool_index *index, enum tn_index_key by,
                                           const tarn_pool *pool, uint64_t key);

/* Of the pools older than the one with the serial *below which have an entry with one of the keys,
 * the newest; NULL: none. Its serial is put to *below. The DEVICE lock is held, without which no
 * pool goes. */
tarn_pool *tn_pool_index_pool(struct tn_pool_index *index, const struct tn_index_keys *keys,
                              uint64_t *below);

/* Whether the entry is in the chain of its key: for checks. */
bool tn_pool_index_has(struct tn_pool_index *index, enum tn_index_key by,
                       const struct tn_index_entry *entry);

void tn_pool_index_fini(struct tn_pool_index *index); /* nothing is in it */

#endif
