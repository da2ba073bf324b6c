// SPDX-License-Identifier: Apache-2.0
/* pad.h -- order between streams of several processes, by words of memory that all have mapped.
 *
 * A pad is memory with cells. A cell orders the work of one stream behind the work of another, in
 * this process or another one, by two words:
 *
 *   count   rises with each signal of the writer; the waiter waits until it is at least a value.
 *           Signals have rising values, and so are refused in captures; waits are not
 *   flag    for graphs, which write the same values at each replay, in four steps: the writer waits
 *           for 0 and writes 1, the waiter waits for 1 and writes 0
 *
 * A signal, a wait and what ends them need no host, no message and no synchronisation. When a
 * process dies, a survivor ends its own waits by writing the dead one's words: with a processor
 * where the pad is on the host, otherwise by another stream.
 *
 *   W1  a cell has one writer and one waiter at a time, each one order of work
 *   W2  a count never falls; signals of a cell have values one apart
 *   W3  a flag is 0 or 1, and 1 only between the writer's second step and the waiter's
 *   W4  the generation of a cell is odd while it is had; each process knows the last one
 *
 * Counts have 64 bits here. The words have 32 where the device lacks wider ones, and then wrap: a
 * wait must come within 2^31 signals of its value.
 *
 * Locking: tn_pad_acquire, tn_pad_adopt and tn_pad_release of one pad exclude each other, and
 * calls for one cell do; calls for different cells do not. Any thread; no call waits for the GPU,
 * but the creation of a pad on the device. */
#ifndef TARN_SHARE_PAD_H
#define TARN_SHARE_PAD_H

#include "base/lock.h"
#include "driver/word.h"

/* A cell, as one process tells it to another: plain bytes. */
struct tn_cell {
    uint32_t index;
    uint32_t generation; /* of the cell; 0: none */
    uint64_t count;      /* of the writer's signals, when the cell was had */
};

/* What this process knows of a cell. */
struct tn_cell_record {
    uint64_t told;       /* the last value of a signal, of this process or as the peer has told */
    uint64_t awaited;    /* the highest value that a stream of this process was made to wait for */
    uint32_t generation; /* W4 */
    bool writes;         /* this process has signalled or raised */
    bool awaits;         /* this process has waited or taken */
    bool is_over;        /* the other process is gone, and its words were written */
};

struct tn_pad {
    struct tn_gpu *gpu;
    struct tn_word_memory memory;
    bool wide;           /* counts have 64 bits; immutable */
    uint32_t cell_count; /* immutable */
    uint32_t had_count;  /* cells that are had */
    uint32_t cursor;     /* where the search for a free cell begins */
    struct tn_cell_record *cells;
    struct tn_lock *lock; /* of the records, free while a stream gets work; NULL: none */
};

enum { TN_PAD_CELLS_MAX = 1 << 20 };

/* A pad of zeroes. stream: for a pad on the device, which it clears, and which the call waits for.
 *   INVALID_ARGUMENT: no cell, or more than TN_PAD_CELLS_MAX
 *   WRONG_STATE: the stream is being captured
 *   NOT_SUPPORTED: the driver or the device has no such words, or no such memory
 *   HOST_MEMORY, DEVICE_MEMORY, ADDRESS_SPACE, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_pad_create(struct tn_gpu *gpu, enum tn_word_place place,
                                          uint32_t cell_count, tn_cu_stream stream,
                                          struct tn_pad **pad);

/* A new descriptor for other processes, closed by exec; the caller closes it. Whoever has it may
 * write every word of the pad. DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_pad_export(const struct tn_pad *pad, int *descriptor);

/* The pad of another process. Place and cell_count are those of its creation; the descriptor stays
 * the caller's. The statuses of tn_pad_create; DRIVER also when the descriptor is of no pad, or of
 * another one. */
TARN_MUST_CHECK tarn_status tn_pad_import(struct tn_gpu *gpu, enum tn_word_place place,
                                          uint32_t cell_count, int descriptor, struct tn_pad **pad);

/* Ends the pad in this process; others keep theirs. No stream of this process may wait for its
 * words any more. NULL is allowed. */
void tn_pad_destroy(struct tn_pad *pad);

/* A free cell. LIMIT: none is left */
TARN_MUST_CHECK tarn_status tn_pad_acquire(struct tn_pad *pad, struct tn_cell *cell);

/* Takes note of a cell that the other process has acquired and told.
 *   INVALID_ARGUMENT: no such cell; had here already; or a generation that is over or none */
TARN_MUST_CHECK tarn_status tn_pad_adopt(struct tn_pad *pad, struct tn_cell cell);

/* Gives the cell up. No work with it may be pending, in any process, and its flag must be 0.
 *   INVALID_ARGUMENT: the cell is not had */
TARN_MUST_CHECK tarn_status tn_pad_release(struct tn_pad *pad, struct tn_cell cell);

/* The stream writes the next count behind its work: *value, which the waiter must be told.
 *   INVALID_ARGUMENT: the cell is not had
 *   WRONG_STATE: the stream is being captured; or tn_pad_finish has ended the cell
 *   CAPTURE_BROKEN, DEVICE_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_pad_signal(struct tn_pad *pad, tn_cu_stream stream,
                                          struct tn_cell cell, uint64_t *value);

/* The stream waits until the count is at least value. A wait that is over already makes no call of
 * the driver where the pad is on the host. In a capture each replay waits for the same value.
 *   INVALID_ARGUMENT: the cell is not had
 *   WRONG_STATE: tn_pad_finish has ended the cell
 *   CAPTURE_BROKEN, DEVICE_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_pad_wait(struct tn_pad *pad, tn_cu_stream stream,
                                        struct tn_cell cell, uint64_t value);

/* The writer's and the waiter's two steps of the flag. The statuses of tn_pad_wait. */
TARN_MUST_CHECK tarn_status tn_pad_raise(struct tn_pad *pad, tn_cu_stream stream,
                                         struct tn_cell cell);
TARN_MUST_CHECK tarn_status tn_pad_take(struct tn_pad *pad, tn_cu_stream stream,
                                        struct tn_cell cell);

/* Whether the count has reached a value, as a processor reads it. False for a pad on the device. */
bool tn_pad_has_reached(const struct tn_pad *pad, struct tn_cell cell, uint64_t value);

/* A cell and its pad. */
struct tn_pad_cell {
    struct tn_pad *pad;
    struct tn_cell cell;
};

enum { TN_BARRIER_PEERS_MAX = 63 };

/* The stream waits until the streams of all peers have come to the same barrier. peers[i] is told
 * by outgoing[i] and heard by incoming[i]; all pads are of one GPU. Outside captures by counts, in a
 * capture by flags. The cells serve this barrier alone.
 *   INVALID_ARGUMENT: no peer or too many; a cell that is not had
 *   WRONG_STATE: tn_pad_finish has ended a cell
 *   CAPTURE_BROKEN, DEVICE_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_pad_barrier(tn_cu_stream stream, const struct tn_pad_cell *outgoing,
                                           const struct tn_pad_cell *incoming, uint32_t count);

/* The other process of the cell is gone, and its work: writes its words, so that the waits of this
 * process's streams end. A write of that work would undo this, so its end is waited for (the
 * process's descriptor tells). A graph with flags goes on only step by step: call again until its
 * stream is done.
 * stream: for a pad on the device, any stream that no wait for the dead process holds up.
 *   INVALID_ARGUMENT: the cell is not had
 *   CAPTURE_BROKEN, DEVICE_MEMORY, DEVICE_LOST, DRIVER: of a pad on the device */
TARN_MUST_CHECK tarn_status tn_pad_finish(struct tn_pad *pad, struct tn_cell cell,
                                          tn_cu_stream stream);

/* Recomputes W2 to W4 of a pad on the host, as far as one process can. CORRUPT names the first that
 * does not hold. */
TARN_MUST_CHECK tarn_status tn_pad_check(const struct tn_pad *pad);

#endif
