// SPDX-License-Identifier: Apache-2.0
/* connection.h -- a connection between two processes: the record of both ends.
 *
 *   L3  a lease that is granted has a watch on its block, which keeps the memory from going
 *   L4  a chunk's id leads to one memory as long as the producer has this memory
 *   L5  an opened slot is used in its run's import as often as the slot is opened
 *
 * The producer has the memory, the consumer uses it. Each end has its part of the record. An end
 * learns of the other's death by the descriptor of its process (share/process.h), and of no more by
 * the end of the socket. Until the producer knows that the consumer is gone, leases that were not
 * returned stay.
 *
 *     state      what is known
 *     GREETING   connected; the tables are not there yet
 *     READY      leases come and go
 *     PARTED     the socket is over, or the other end has sent what is no message
 *     GONE       the other process is gone
 *
 * Locking: the connection's lock, of rank SHARES, guards all that is not immutable. */
#ifndef TARN_SHARE_CONNECTION_H
#define TARN_SHARE_CONNECTION_H

#include "base/pins.h"
#include "claims/import_block.h"
#include "claims/watch.h"
#include "pools/device.h"
#include "share/handoff.h"
#include "share/message.h"
#include "share/process.h"
#include "share/tables.h"
#include "share/token.h"
#include "vmm/imports.h"

#define TN_SHARE_NONE UINT32_MAX /* no slot, no chunk */

enum { TN_SHARE_MESSAGES_MAX = 16 }; /* that are taken in a round, against floods */

enum tn_connection_state {
    TN_CONNECTION_GREETING,
    TN_CONNECTION_READY,
    TN_CONNECTION_PARTED,
    TN_CONNECTION_GONE,
};

enum tn_lease_state {
    TN_LEASE_FREE,
    TN_LEASE_GRANTED,
    TN_LEASE_ENDING, /* its watch is being ended, without the lock */
};

/* A slot of the producer's. */
struct tn_lease {
    enum tn_lease_state state;
    uint32_t generation;   /* of the lease that is or was there last */
    uint32_t next;         /* of the free slots, or of those that end */
    uint32_t writes;       /* that streams were given for the slot (share/handoff.h) */
    _Atomic uint64_t told; /* by the watch: the block is no longer there */
    struct tn_watch watch; /* on the block */
};

/* A chunk that the producer has handed over. */
struct tn_handed_chunk {
    struct tn_memory *memory; /* NULL: none, the id is free */
    uint64_t serial;          /* of the memory */
    uint32_t generation;
    uint32_t next; /* with the same hash; of the free ids */
};

/* A chunk that the consumer was given. */
struct tn_given_chunk {
    struct tn_memory *memory;
    uint32_t generation; /* of its id */
    uint64_t run_count;  /* runs that have it */
    bool is_known;       /* an id leads here; else it goes with its last run */
};

/* A run of chunks, mapped one behind the other. */
struct tn_given_run {
    struct tn_given_run *next; /* with the same first chunk, the newest first */
    uint64_t open_count;       /* blocks that are open there, each as often as it is */
    bool is_known;             /* all of its chunks are */
    struct tn_import import;
    struct tn_given_chunk **chunks;
    struct tn_memory **memories;
};

/* A slot of the consumer's. */
struct tn_opened {
    uint32_t generation; /* of the lease that is open */
    uint32_t next;       /* with the same hash; of those that are closed */
    uint32_t writes;     /* that streams were given for the slot (share/handoff.h) */
    bool begins;         /* with a word of a stream of the producer's */
    uint32_t wait_count; /* opens whose streams may wait for this word */
    bool has_closed;     /* by some call */
    bool is_leaving;     /* closed, and streams or graphs have the block still */
    uint64_t count;      /* how often it was opened and not closed */
    uint64_t address;
    struct tn_given_run *run;     /* NULL: not open */
    struct tn_import_block block; /* entered while there is a run */
};

struct tn_producer {
    struct tn_lease *leases; /* as many as slots */
    uint32_t free_slot;      /* the first; TN_SHARE_NONE: none */
    uint32_t slots_begun;    /* slots from here on were never used */
    uint32_t granted_count;
    uint32_t free_chunk;
    uint32_t chunks_begun;
    struct tn_handed_chunk *chunks;
    uint32_t *heads; /* of chunks by hash */
    uint32_t slot_count;
    uint32_t chunk_count;
};

struct tn_consumer {
    struct tn_given_chunk **chunks; /* by id */
    struct tn_given_run **runs;     /* by their first chunk */
    struct tn_opened *opened;       /* by slot */
    uint32_t *heads;                /* of slots by hash of their address */
    uint64_t opened_count;          /* slots that are open or leaving */
    uint32_t first_leaving;         /* TN_SHARE_NONE: none; in order of their close */
    uint32_t last_leaving;
    struct tn_bids bids;
    bool awaits_words; /* the last share could not be opened for lack of a word */
    bool knows_loss;   /* guards have heard that the producer is gone */
    /* A message that could not be taken, for lack of memory or descriptors, comes again first: */
    struct tn_message kept;
    int kept_files[TN_SHARE_DESCRIPTORS_MAX];
    bool has_kept;
    tarn_status lacks; /* why the last round has left a message; OK: it has not */
};

struct tarn_connection {
    _Atomic uint64_t magic;    /* TN_CONNECTION_MAGIC; 0 in a recycled record */
    tarn_connection *next;     /* of the device, guarded by the DEVICE lock; links records */
    tarn_device *device;       /* immutable */
    bool is_producer;          /* immutable */
    uint64_t id;               /* the producer's number for it; never 0 once READY */
    struct tn_process process; /* immutable but for its end */
    _Atomic(tarn_listener *) listener; /* the producer's; NULL: none, or it is gone */
    bool is_accepted;                  /* the program has its handle */
    bool is_watched;                   /* the listener's descriptor tells of the process's end */
    bool awaits_room;                  /* the descriptor tells of room for a message, too */
    bool has_greeted;                  /* the producer has taken the HELLO, and answers it */
    int channel;                       /* -1: over */
    enum tn_connection_state state;
    enum tn_refusal refusal; /* why a consumer was refused; NONE: it was not */
    struct tn_tables tables;
    struct tn_handoff handoff;
    struct tn_producer producer;
    struct tn_consumer consumer;
    char name[TN_SHARE_NAME_MAX + 1]; /* of the listener; immutable */
    /* Kept in a recycled record: */
    struct tn_lock lock;   /* rank SHARES */
    struct tn_lock closes; /* rank CLOSES: one close at a time is given to a stream */
    struct tn_pins pins;   /* calls that use the connection */
    bool has_lock;
};

#define TN_CONNECTION_MAGIC 0x54436f6eULL

/* A connection over the channel, which nobody else knows; the channel goes along from then on.
 *   HOST_MEMORY: the channel stays the caller's; NOT_SUPPORTED, PEER_LOST, LIMIT: likewise */
TARN_MUST_CHECK tarn_status tn_connection_create(tarn_device *device, int channel, const char *name,
                                                 bool is_producer, tarn_connection **connection);

/* Puts a filled connection in the list of its device: the handle is good, and other threads use
 * the connection. */
void tn_connection_enlist(tarn_connection *connection);

/* Lets no further call in, for one thread alone. own: pins of the caller's, which stay.
 *   BUSY: a call or another thread has the connection, a lease is out, or a share is open */
TARN_MUST_CHECK tarn_status tn_connection_claim(tarn_connection *connection, uint64_t own);

/* Lets calls in again, instead of the close. */
void tn_connection_yield(tarn_connection *connection);

/* Ends the handle of a claimed connection, and takes it off the list of its device; own pins go. */
void tn_connection_close(tarn_connection *connection, uint64_t own);

/* Ends the rest of a connection that is closed or was never enlisted, and has no memory left. */
void tn_connection_recycle(tarn_connection *connection);

/* Looks whether the other process is there, and parts where it has ended. Lock held. */
void tn_connection_look(tarn_connection *connection);

/* No message goes or comes any more. Lock held. */
void tn_connection_part(tarn_connection *connection);

/* BUSY: not READY yet; NOT_PERMITTED: the producer refuses; PEER_LOST. Lock held. */
TARN_MUST_CHECK tarn_status tn_connection_check(const tarn_connection *connection);

/* Waits until the channel has a message, for so long at most. No lock held. */
void tn_connection_await(int channel, uint64_t timeout_ns);

/* 64 random bits, not 0. */
uint64_t tn_share_random(void);

/* The first connection of the device, or the next one behind another, pinned; the other's pin is
 * dropped. NULL: no more. */
tarn_connection *tn_connection_next(tarn_device *device, tarn_connection *connection);

/* Closes a record's pins, for one thread alone. False: there are more than the caller's own. */
static inline bool tn_share_claim(struct tn_pins *pins, uint64_t own)
{
    uint_fast64_t inside = own;

    return atomic_compare_exchange_strong(&pins->word, &inside, TN_PINS_CLOSED | own);
}

static inline uint32_t tn_share_hash(uint64_t key, uint32_t count)
{
    return (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) % count;
}

#endif
