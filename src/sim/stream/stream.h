// SPDX-License-Identifier: Apache-2.0
/* stream.h -- streams: ordered queues of device work, and waiting for them.
 *
 * Each stream that ever got work has a worker thread, which does the work in order. A ticket, from
 * a common counter, numbers each piece of work. The tickets of a stream rise: a point in its order
 * is a ticket, and is reached when the stream has finished this ticket. Work may wait for points of
 * other streams.
 *
 * Invariants
 *   SQ1  finished <= queued; the stream is idle when they are equal
 *   SQ2  work enters the legacy stream behind all unfinished work of the blocking streams of its
 *       context, and enters a blocking stream behind all unfinished work of the legacy stream
 *   SQ3  a stream lives while its owner, its worker or a point refers to it
 *   SQ4  a stream that takes part in no capture has no frontier
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_STREAM_H
#define TARN_SIM_STREAM_H

#include "sim/core/context.h"
#include "sim/graph/graph.h"

#define TN_SIM_HIGHEST_PRIORITY (-5) /* of an H200 */

struct tn_sim_capture;
struct tn_sim_event;
struct tn_sim_exec;
struct tn_sim_plan;
struct tn_sim_op;
struct tn_sim_work;

/* How far a stream has waited for another, which may be gone. */
struct tn_sim_heard {
    unsigned long long id; /* of the other stream; 0 when the entry is not used */
    uint64_t ticket;
};
#define TN_SIM_HEARD_COUNT 16

struct tn_sim_stream {
    struct tn_sim_object object; /* without a handle for the default streams */
    unsigned int references;
    unsigned long long id; /* never given twice */
    bool blocking;         /* ordered with the legacy stream */
    bool legacy;           /* its context's legacy stream */
    int priority;          /* 0 is the lowest, TN_SIM_HIGHEST_PRIORITY the highest */
    bool closed;           /* takes no more work; its worker ends once idle */
    bool has_worker;
    struct tn_sim_work *head; /* the oldest unfinished work */
    struct tn_sim_work *tail;
    uint64_t queued;            /* ticket of the newest work */
    uint64_t finished;          /* ticket of the last finished work */
    pthread_cond_t wake;        /* its worker sleeps here without work */
    struct tn_sim_stream *next; /* in the list of all streams */
    struct tn_sim_stream *previous;
    struct tn_sim_capture *capture;  /* that the stream takes part in, or NULL */
    struct tn_sim_node_set frontier; /* the nodes before its next node of the capture */
    tn_cu_edge_data *edges;          /* to the first edge_count of them; others are ordinary */
    size_t edge_count;
    bool recorded;                  /* has added a node to the capture */
    struct tn_sim_event *timed;     /* events with timing whose moment is still to come */
    struct tn_sim_stream *own_next; /* the next per-thread stream of the same thread */
    struct tn_sim_heard heard[TN_SIM_HEARD_COUNT]; /* the latest streams waited for */
    size_t heard_next;                             /* the entry that goes next */
    struct tn_sim_clock *order;                    /* the checker's record (clock.h); or NULL */
    tn_cu_graphnode *shown_nodes;                  /* arrays lent by cuStreamGetCaptureInfo */
    tn_cu_edge_data *shown_edges;
};

/* A moment in a stream's order, with a reference to the stream; or none, when stream is NULL. */
struct tn_sim_point {
    struct tn_sim_stream *stream;
    uint64_t ticket;
};

/* A run of steps of a launch, which is a single piece of work of a stream. */
struct tn_sim_part {
    struct tn_sim_exec *exec;
    struct tn_sim_plan *plan;
    struct tn_sim_point *last; /* of the executable graph: where its newest launch ends */
    size_t first;
    size_t end;
};

/* The services of higher folders for streams. The first call registers the table (call.c). */
struct tn_sim_stream_calls {
    bool (*op_run)(struct tn_sim_op *op);                               /* op_run.h */
    struct tn_sim_part (*part_acquire)(const struct tn_sim_part *part); /* this and the next: */
    void (*part_release)(struct tn_sim_part *part);                     /* exec.h */
    void (*part_run)(const struct tn_sim_part *part);
    void (*waited)(const struct tn_sim_point *moment); /* this and the next: mempool.h */
    void (*waited_all)(int device);
    void (*forgotten)(struct tn_sim_stream *stream);
};
void tn_sim_streams_serve(const struct tn_sim_stream_calls *calls);

/* The registered table. */
const struct tn_sim_stream_calls *tn_sim_stream_calls(void);

/* The stream of a handle, special ones included. Returns INVALID_HANDLE; INVALID_CONTEXT for a
 * default stream without a current context; or the health of the stream's context. */
tn_cu_result tn_sim_stream_look_up(tn_cu_stream handle, struct tn_sim_stream **stream);

/* The same for every call but questions about captures. Also fails, and invalidates, for the legacy
 * stream while a blocking stream captures. */
tn_cu_result tn_sim_stream_find(tn_cu_stream handle, struct tn_sim_stream **stream);

/* The same for calls that no capturing stream allows: a capture is invalidated then, in every
 * mode. */
tn_cu_result tn_sim_stream_find_idle(tn_cu_stream handle, struct tn_sim_stream **stream);

/* The same for a call that gives the stream work. Also fails for an invalidated capture. */
tn_cu_result tn_sim_stream_admit(tn_cu_stream handle, struct tn_sim_stream **stream);

/* Gives an admitted stream an operation: as a node in a capture, as work otherwise. Consumes the
 * reference, also on failure. */
tn_cu_result tn_sim_stream_submit(struct tn_sim_stream *stream, struct tn_sim_op *op);

/* Queues work: an operation, or a part of a launch, or neither (a mark that waits). Takes
 * references of its own. `after`, unless NULL, must be reached first. OUT_OF_MEMORY. */
tn_cu_result tn_sim_queue_push(struct tn_sim_stream *stream, struct tn_sim_op *op,
                               const struct tn_sim_part *part, const struct tn_sim_point *after);

/* Replaces *point by the stream's present moment. OUT_OF_MEMORY. */
tn_cu_result tn_sim_queue_point(struct tn_sim_stream *stream, struct tn_sim_point *point);

/* The same for a moment later than all moments before, although the stream gets no work in
 * between. */
tn_cu_result tn_sim_queue_step(struct tn_sim_stream *stream, struct tn_sim_point *point);

/* Asks whether a wait for the stream would have nothing to wait for. */
bool tn_sim_queue_idle(const struct tn_sim_stream *stream);

/* Asks whether the next work of a stream comes after an unreached point: a point of the stream
 * itself, or a point that the stream's work waits for, through any other streams. */
bool tn_sim_queue_follows(const struct tn_sim_stream *stream, const struct tn_sim_point *point);

/* Notes that a stream's work from now on comes after a point, reached or not, and after all points
 * that this point's stream waited for. */
void tn_sim_queue_hear(struct tn_sim_stream *stream, const struct tn_sim_point *point);

/* Asks whether a wait for a moment was a wait for a point too: the point is an earlier moment of
 * the stream, or a moment that the stream is known to have waited for. */
bool tn_sim_queue_covers(const struct tn_sim_point *moment, const struct tn_sim_point *point);

/* Makes *point none. */
void tn_sim_point_clear(struct tn_sim_point *point);

bool tn_sim_point_reached(const struct tn_sim_point *point);

/* Waits until no stream has work any more, giving up the lock. The work is done meanwhile, also
 * with a pace that needs a wait for it. */
void tn_sim_queues_empty(void);

/* Waits until a point is reached, giving up the lock. */
void tn_sim_point_wait(const struct tn_sim_point *point);

/* Waits for all work queued up to now on all streams of a context, giving up the lock. */
void tn_sim_streams_wait_all(const struct tn_sim_context *context);

/* The same for all contexts of a device. */
void tn_sim_streams_wait_device(int device);

/* Closes every stream of a context under destruction. */
void tn_sim_streams_close_all(struct tn_sim_context *context);

/* Wakes every worker, at the end of the process. */
void tn_sim_streams_wake_all(void);

/* The list of all streams, closed streams with references included. */
extern struct tn_sim_stream *tn_sim_all_streams;

/* Gives up a reference. */
void tn_sim_stream_release(struct tn_sim_stream *stream);

#endif
