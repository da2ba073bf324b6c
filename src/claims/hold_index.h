// SPDX-License-Identifier: Apache-2.0
/* hold_index.h -- a device's holds by what they are searched by: their capture, the graph being
 * captured, and the graph whose end ends them.
 *
 *   P31  a hold is in its device's index under its capture, its graph and its keeper, and nowhere
 *        else; the open holds of a pool are in the pool's list of them, newest first
 *
 * A call that concerns one capture or graph thereby finds the few pools which have to do with it,
 * beside any number of others.
 *
 * Each key has a hash table with chains, as claims/stream_table.h. Entries of one key are in their
 * chain from the newest on. The members of entries belong to this file.
 *
 * Locking: a spin lock of the index, rank HOLDS, which each function takes. A hold enters, changes
 * its keys and leaves under the lock of its pool. Whoever has this lock may therefore keep entries
 * of the pool from one call to the next. */
#ifndef TARN_CLAIMS_HOLD_INDEX_H
#define TARN_CLAIMS_HOLD_INDEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/cuda.h"
#include "base/spin.h"
#include "tarn/types.h"

struct tn_hold;

enum tn_hold_key { TN_HOLD_CAPTURE, TN_HOLD_GRAPH, TN_HOLD_KEEPER, TN_HOLD_KEYS };

/* What holds are searched by; 0 or NULL: not asked for. */
struct tn_hold_keys {
    uint64_t capture_id;
    tn_cu_graph graph;
    tn_cu_graph keeper;
};

/* A hold's place under one key. */
struct tn_hold_entry {
    struct tn_hold_entry *next; /* in the chain */
    struct tn_hold_entry *previous;
    uint64_t key;         /* of a graph: its handle; 0: in no chain */
    struct tn_hold *hold; /* immutable in a chain, as the rest */
    tarn_pool *pool;
    uint64_t pool_serial; /* rises with each pool of the device */
};

enum { TN_HOLD_CHAINS_MIN = 16 };

struct tn_hold_table {
    struct tn_hold_entry *few[TN_HOLD_CHAINS_MIN];
    struct tn_hold_entry **chains; /* NULL: few */
    size_t chain_count;            /* a power of two; 0: TN_HOLD_CHAINS_MIN */
    size_t count;                  /* of entries */
};

/* Zeroed memory is an empty index. */
struct tn_hold_index {
    struct tn_spin lock;
    struct tn_hold_table tables[TN_HOLD_KEYS];
    /* Holds which have left before anyone said that their captures were over. */
    atomic_uint_fast64_t early_count;
};

/* Takes the entry out of its chain, and enters it under this key; key 0: nowhere. Without host
 * memory a table stays as it is, and chains grow. */
void tn_hold_index_put(struct tn_hold_index *index, enum tn_hold_key by,
                       struct tn_hold_entry *entry, uint64_t key);

/* The pool's holds of this key: the newest, and the next older one; NULL: none. The pool's lock is
 * held. */
struct tn_hold *tn_hold_index_first(struct tn_hold_index *index, enum tn_hold_key by,
                                    const tarn_pool *pool, uint64_t key);
struct tn_hold *tn_hold_index_next(struct tn_hold_index *index, const struct tn_hold_entry *entry);

/* Of the pools older than the one with the serial *below which have a hold with one of the keys,
 * the newest; NULL: none. Its serial is put to *below. The DEVICE lock is held, without which no
 * pool goes. */
tarn_pool *tn_hold_index_pool(struct tn_hold_index *index, const struct tn_hold_keys *keys,
                              uint64_t *below);

/* Whether the entry is in the chain of its key: for checks. */
bool tn_hold_index_has(struct tn_hold_index *index, enum tn_hold_key by,
                       const struct tn_hold_entry *entry);

void tn_hold_index_fini(struct tn_hold_index *index); /* no hold is in it */

#endif
