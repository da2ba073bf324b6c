// SPDX-License-Identifier: Apache-2.0
/* tables.h -- the two tables of leases of a connection, in memory of both processes.
 *
 *   L1  each table has a single writer: the producer writes the grants, the consumer the returns
 *   L2  the size of either is sealed, or a process could make the other fault
 *
 * A slot is for a single lease at a time. A generation counts the leases of the slot:
 *
 *     grants[slot]    returns[slot]   the lease
 *     FREE    g       any             does not exist
 *     GRANTED g       other than g    exists, and was not opened
 *     GRANTED g       OPENED g        exists, and is used
 *     GRANTED g       RETURNED g      is over: the producer sets FREE g, and g + 1 is next
 *
 * A lease is over, too, once the word of a consumer's stream says this (share/handoff.h).
 *
 * A killed process leaves no table to be repaired: each word is whole, and tells the writer's last
 * step. A late return names an old generation, and has no effect. Nonsense by a consumer harms the
 * consumer's own leases alone.
 *
 * Locking: the writer's connection; readers read atomically, and check every word. */
#ifndef TARN_SHARE_TABLES_H
#define TARN_SHARE_TABLES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarn/status.h"

enum tn_slot_state {
    TN_SLOT_FREE,
    TN_SLOT_GRANTED,
    TN_SLOT_OPENED,
    TN_SLOT_RETURNED,
};

/* Where a lease's block is: a run of neighbouring chunks. */
struct tn_grant {
    atomic_uint_fast64_t word;   /* generation and state; written last */
    atomic_uint_fast64_t offset; /* in the first chunk */
    atomic_uint_fast64_t bytes;  /* as requested */
    atomic_uint first_chunk;
    atomic_uint chunk_count; /* of the run */
    atomic_uint begins;      /* 1: with a word of a stream (share/handoff.h); 0: at once */
    atomic_uint unused;
};

/* A chunk of the producer's. */
struct tn_chunk_grant {
    atomic_uint_fast64_t word; /* generation and state: FREE, or GRANTED */
    atomic_uint next;          /* the next chunk of the run */
    atomic_uint unused;
};

struct tn_tables {
    int grants_file; /* -1: closed */
    int returns_file;
    uint32_t slot_count;
    uint32_t chunk_count;
    /* Mapped; NULL: not yet. The consumer reads the grants, and the producer the returns. */
    struct tn_grant *grants;
    struct tn_chunk_grant *chunks; /* behind the grants */
    atomic_uint_fast64_t *returns;
};

static inline uint64_t tn_slot_word(uint32_t generation, enum tn_slot_state state)
{
    return (uint64_t)generation << 32 | (uint64_t)state;
}

/* The producer makes both tables, of zeros, and maps them.
 *   HOST_MEMORY; LIMIT: no descriptor is left; NOT_SUPPORTED: the system has no sealed memory */
TARN_MUST_CHECK tarn_status tn_tables_make(struct tn_tables *tables, uint32_t slot_count,
                                           uint32_t chunk_count);

/* The consumer maps the received files, which are the tables' from then on.
 *   PEER_LOST: the files are no tables, or are not sealed; HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_tables_open(struct tn_tables *tables, int grants_file,
                                           int returns_file, uint32_t slot_count,
                                           uint32_t chunk_count);

/* Closes the files: the mappings stay. */
void tn_tables_close_files(struct tn_tables *tables);
void tn_tables_close(struct tn_tables *tables);

#endif
