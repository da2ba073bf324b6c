// SPDX-License-Identifier: Apache-2.0
/* import_block.h -- blocks of other processes that are open here, and the graphs that refer to them.
 *
 *   S1  a block that is entered is open, or it is let go and kept: by a watch, or until the device
 *       was idle since the last such watch
 *   S2  a watch that does not keep is on open blocks alone, but for a close that goes on
 *
 * A guarded graph watches an imported block as it watches a pool's (claims/watch.h). A watch is told
 * when the program lets the block go, and when the process of the memory is gone. A keeping watch is
 * not told: the block stays until the watch ends.
 *
 * Locking: the functions take the lock of all such blocks, of rank IMPORTS. */
#ifndef TARN_CLAIMS_IMPORT_BLOCK_H
#define TARN_CLAIMS_IMPORT_BLOCK_H

#include "claims/watch.h"

/* In place from its entry to its end. Guarded by the lock. */
struct tn_import_block {
    struct tn_import_block *next; /* of all entered ones, the newest first */
    struct tn_import_block **link;
    const struct tn_gpu *gpu; /* NULL: not entered */
    uint64_t address;
    uint64_t bytes;
    uint64_t sequence; /* of the process's allocations */
    bool is_open;      /* else the program has let it go */
    bool was_kept;     /* a keeping watch has ended behind that; kept_stamp is set */
    uint64_t kept_stamp;
    struct tn_import_watch *watches;
};

/* A block of a watch. Guarded by the lock. */
struct tn_import_watch {
    struct tn_import_watch *next; /* of the block */
    struct tn_import_watch **link;
    struct tn_import_block *block; /* NULL: no longer watched */
    struct tn_watch *watch;        /* immutable */
    size_t index;                  /* immutable: of the block in the watch */
};

/* What is known of an address there. */
struct tn_import_found {
    uint64_t address;
    uint64_t bytes;
    uint64_t sequence;
    bool is_open;
    bool is_kept; /* let go, and the asking watch keeps it */
};

/* The block is open. */
void tn_import_block_enter(struct tn_import_block *block, const struct tn_gpu *gpu,
                           uint64_t address, uint64_t bytes);

/* The program lets the block go; no watch is told yet. Where the same bytes are open once more, the
 * watches go on with these. True: the block is kept. */
TARN_MUST_CHECK bool tn_import_block_close(struct tn_import_block *block);

/* The close is taken back. */
void tn_import_block_reopen(struct tn_import_block *block);

/* The block is closed for good, or its process is gone: tells the watches which do not keep it. */
void tn_import_block_tell(struct tn_import_block *block);

/* Whether a block that was let go is still kept. */
TARN_MUST_CHECK bool tn_import_block_is_kept(const struct tn_import_block *block);

/* The block was let go, and is not kept. */
void tn_import_block_end(struct tn_import_block *block);

/* How many blocks are entered; no lock is taken. */
size_t tn_import_blocks_count(void);

/* Looks for a block around the address, an open one first. keeper: whose blocks count as kept; NULL:
 * nobody's. */
bool tn_import_blocks_find(uint64_t address, const struct tn_watch *keeper,
                           struct tn_import_found *view);

/* Adds the open block with this sequence number to a watch, as the block of this index; tells the
 * watch if the block is not open any more. A block of another device is not watched. */
void tn_import_watch_begin(struct tn_import_watch *watched, struct tn_watch *watch, size_t index,
                           uint64_t sequence);
void tn_import_watch_end(struct tn_import_watch *watched);

#endif
