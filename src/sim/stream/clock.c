// SPDX-License-Identifier: Apache-2.0
/* clock.c -- vector clocks of streams, and accesses to memory with several addresses.
 *
 * How it works. A clock tells, for each stream, the ticket up to which everything is over. Work
 * gets a clock when queued. This is the clock of its stream, raised to further clocks: of the
 * points that the work waits for, of the streams before it by the legacy stream's rule, and of the
 * program's waits. A stream remembers the clocks of its last works, so a point has a clock, too. An
 * access is ordered behind an older one when its clock covers the older one's ticket (Mattern,
 * "Virtual time and global states of distributed systems", 1989).
 *
 * Work queued before the first memory got a second address has no clock, and needs none: nothing is
 * compared with this work, and later work need not know it.
 *
 * Only memory mapped at two addresses at least is watched. A report is for two accesses to the same
 * bytes at different addresses, one of them a write. A real driver calls this undefined, and shows
 * it least.
 *
 * Trade-offs. Unknown order counts as ordered. A wait by any thread counts for all threads of the
 * program. A stream's forgotten works are as late as its oldest remembered work. Once host memory
 * ran out, nothing is reported. Operations of the same launch of a graph are not compared with each
 * other. After a wait for a word a stream is behind everything that any word has told. A program that learns of work by polling memory that a kernel writes is not understood,
 * and may be reported. */
#include "sim/stream/clock.h"

#include <stdlib.h>
#include <string.h>

#include "sim/core/report.h"
#include "sim/graph/op.h"
#include "sim/stream/stream.h"

#define MOMENTS 64      /* remembered moments of a stream */
#define ACCESSES 1024   /* remembered accesses */
#define COMPACT_FROM 64 /* entries of a clock, from which on entries of ended streams are dropped */

struct entry {
    unsigned long long stream; /* its id */
    uint64_t ticket;
};

/* Entries rise by their streams' ids. */
struct clock {
    struct entry *entries;
    size_t count;
    size_t capacity;
};

struct moment {
    uint64_t ticket;
    struct clock before; /* everything before the work with the ticket */
    struct clock after;  /* everything before a waiter for the ticket: the work, and marks since */
};

/* The last moments of a stream, the newest at newest. */
struct tn_sim_clock {
    struct moment moments[MOMENTS];
    size_t count;
    size_t newest;
};

struct access {
    const void *memory; /* NULL: an empty entry */
    size_t offset;
    size_t bytes;
    uintptr_t address;
    struct entry when;
    enum tn_sim_function made_by;
    bool write;
};

static struct clock known; /* to the program */
static struct access accesses[ACCESSES];
static size_t next_access;
static bool watching; /* some memory has, or had, two addresses; nothing is kept before */
static bool lost;     /* host memory ran out: clocks are too early, and prove nothing */

static _Thread_local struct tn_sim_stream *present_stream;
static _Thread_local uint64_t present_ticket;

static size_t find_entry(const struct clock *clock, unsigned long long stream)
{
    size_t low = 0;
    size_t high = clock->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (clock->entries[middle].stream < stream)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool covers(const struct clock *clock, struct entry when)
{
    size_t at = find_entry(clock, when.stream);
    return at < clock->count && clock->entries[at].stream == when.stream &&
           clock->entries[at].ticket >= when.ticket;
}

/* Whether a stream may still have to be compared with. */
static bool matters(unsigned long long stream)
{
    for (const struct tn_sim_stream *other = tn_sim_all_streams; other != NULL;
         other = other->next) {
        if (other->id == stream)
            return true;
    }
    for (size_t i = 0; i < ACCESSES; i++) {
        if (accesses[i].memory != NULL && accesses[i].when.stream == stream)
            return true;
    }
    return false;
}

/* Drops the entries of streams that have gone. */
static void compact(struct clock *clock)
{
    size_t kept = 0;
    for (size_t i = 0; i < clock->count; i++) {
        if (matters(clock->entries[i].stream))
            clock->entries[kept++] = clock->entries[i];
    }
    clock->count = kept;
}

/* Raises a single entry of a clock. */
static void raise(struct clock *clock, struct entry entry)
{
    size_t at = find_entry(clock, entry.stream);
    if (at < clock->count && clock->entries[at].stream == entry.stream) {
        if (clock->entries[at].ticket < entry.ticket)
            clock->entries[at].ticket = entry.ticket;
        return;
    }
    bool compacted = clock->count == clock->capacity && clock->count >= COMPACT_FROM;
    if (compacted) {
        compact(clock);
        at = find_entry(clock, entry.stream);
    }
    /* If a compaction left little room, the next would come at once. */
    if (clock->count == clock->capacity || (compacted && clock->count > clock->capacity / 2)) {
        size_t capacity = clock->capacity == 0 ? 8 : clock->capacity * 2;
        struct entry *entries = realloc(clock->entries, capacity * sizeof *entries);
        if (entries == NULL) {
            lost = true;
            return;
        }
        clock->entries = entries;
        clock->capacity = capacity;
    }
    memmove(&clock->entries[at + 1], &clock->entries[at],
            (clock->count - at) * sizeof clock->entries[0]);
    clock->entries[at] = entry;
    clock->count++;
}

static void raise_clock(struct clock *clock, const struct clock *other)
{
    for (size_t i = 0; other != NULL && i < other->count; i++)
        raise(clock, other->entries[i]);
}

/* The moment of a stream at a ticket, or its oldest remembered moment; NULL when it has none. */
static const struct moment *moment_at(const struct tn_sim_stream *stream, uint64_t ticket)
{
    const struct tn_sim_clock *order = stream->order;
    const struct moment *found = NULL;
    for (size_t back = 0; order != NULL && back < order->count; back++) {
        found = &order->moments[(order->newest + MOMENTS - back) % MOMENTS];
        if (found->ticket <= ticket)
            break;
    }
    return found;
}

/* The clock of a thread or stream that has waited for a stream's ticket, or NULL. */
static const struct clock *clock_at(const struct tn_sim_stream *stream, uint64_t ticket)
{
    const struct moment *moment = moment_at(stream, ticket);
    return moment == NULL ? NULL : &moment->after;
}

/* The moment of a stream's newest work, made anew if missing. NULL without host memory. */
static struct moment *newest_moment(struct tn_sim_stream *stream)
{
    if (stream->order == NULL)
        stream->order = calloc(1, sizeof *stream->order);
    struct tn_sim_clock *order = stream->order;
    if (order == NULL) {
        lost = true;
        return NULL;
    }
    struct moment *newest = &order->moments[order->newest];
    if (order->count > 0 && newest->ticket == stream->queued)
        return newest;
    order->newest = (order->newest + 1) % MOMENTS;
    order->count += order->count < MOMENTS;
    struct moment *made = &order->moments[order->newest];
    made->ticket = stream->queued;
    made->before.count = 0;
    made->after.count = 0;
    if (order->count > 1)
        raise_clock(&made->before, &newest->after);
    /* Also when the work was queued before anything was watched, and is only marked now. */
    raise(&made->after, (struct entry){stream->id, stream->queued});
    return made;
}

/* Joins the clocks that the legacy stream's rule puts before a stream's newest work. */
static void raise_implicit(struct clock *clock, const struct tn_sim_stream *stream)
{
    if (!stream->blocking)
        return;
    for (const struct tn_sim_stream *other = tn_sim_all_streams; other != NULL;
         other = other->next) {
        if (other != stream && other->object.context == stream->object.context &&
            ((stream->legacy && other->blocking) || other->legacy))
            raise_clock(clock, clock_at(other, other->queued));
    }
}

void tn_sim_clock_watch(void)
{
    watching = tn_sim.check > 0;
}

void tn_sim_clock_push(struct tn_sim_stream *stream, const struct tn_sim_point *first,
                       const struct tn_sim_point *second)
{
    if (!watching)
        return;
    struct moment *moment = newest_moment(stream);
    if (moment == NULL)
        return;
    raise_clock(&moment->before, &known);
    raise_implicit(&moment->before, stream);
    if (first != NULL && first->stream != NULL)
        raise_clock(&moment->before, clock_at(first->stream, first->ticket));
    if (second != NULL && second->stream != NULL)
        raise_clock(&moment->before, clock_at(second->stream, second->ticket));
    raise_clock(&moment->after, &moment->before);
}

/* The work itself was queued before the mark: only the clock after the work rises. */
void tn_sim_clock_record(struct tn_sim_stream *stream)
{
    struct moment *moment = watching ? newest_moment(stream) : NULL;
    if (moment == NULL)
        return;
    raise_clock(&moment->after, &known);
    raise_implicit(&moment->after, stream);
}

void tn_sim_clock_follow(struct tn_sim_stream *stream, const struct tn_sim_point *point)
{
    struct moment *moment = watching ? newest_moment(stream) : NULL;
    if (moment != NULL && point->stream != NULL)
        raise_clock(&moment->after, clock_at(point->stream, point->ticket));
}

void tn_sim_clock_known(const struct tn_sim_point *point)
{
    if (watching && point->stream != NULL)
        raise_clock(&known, clock_at(point->stream, point->ticket));
}

void tn_sim_clock_known_all(struct tn_sim_stream *stream)
{
    if (!watching)
        return;
    tn_sim_clock_record(stream);
    raise_clock(&known, clock_at(stream, stream->queued));
}

void tn_sim_clock_enter(struct tn_sim_stream *stream, uint64_t ticket)
{
    present_stream = stream;
    present_ticket = ticket;
}

void tn_sim_clock_told(void)
{
    if (watching && present_stream != NULL)
        raise_clock(&known, clock_at(present_stream, present_ticket));
}

/* Raises the present moment and the later ones of the stream, whose clocks were made before. */
void tn_sim_clock_heard(void)
{
    struct tn_sim_clock *order = present_stream == NULL ? NULL : present_stream->order;
    for (size_t i = 0; watching && order != NULL && i < order->count; i++) {
        struct moment *moment = &order->moments[(order->newest + MOMENTS - i) % MOMENTS];
        if (moment->ticket > present_ticket)
            raise_clock(&moment->before, &known);
        if (moment->ticket >= present_ticket)
            raise_clock(&moment->after, &known);
    }
}

static void compare(const struct access *older, const struct access *newer,
                    const struct clock *clock)
{
    bool apart = older->offset + older->bytes <= newer->offset ||
                 newer->offset + newer->bytes <= older->offset;
    bool same_place = older->address - older->offset == newer->address - newer->offset;
    if (older->memory != newer->memory || apart || same_place || (!older->write && !newer->write))
        return;
    if (older->when.stream == newer->when.stream && older->when.ticket == newer->when.ticket)
        return;
    if (covers(clock, older->when))
        return;
    tn_sim_report_of(newer->made_by,
                     "is not ordered behind %s, which %s the same memory at another "
                     "address: 0x%llx and 0x%llx",
                     tn_sim_function_name(older->made_by), older->write ? "writes" : "reads",
                     (unsigned long long)newer->address, (unsigned long long)older->address);
}

void tn_sim_clock_touch(const struct tn_sim_op *op, const void *memory, size_t offset, size_t bytes,
                        uintptr_t address, bool write)
{
    if (lost || present_stream == NULL)
        return;
    const struct moment *moment = moment_at(present_stream, present_ticket);
    struct access access = {
        .memory = memory,
        .offset = offset,
        .bytes = bytes,
        .address = address,
        .when = {present_stream->id, present_ticket},
        .made_by = op->made_by,
        .write = write,
    };
    /* The stream was given too much work since: the work's own moment is forgotten. */
    if (moment == NULL || moment->ticket != present_ticket)
        return;
    for (size_t i = 0; i < ACCESSES; i++)
        compare(&accesses[i], &access, &moment->before);
    accesses[next_access++ % ACCESSES] = access;
}

void tn_sim_clock_forget(const void *memory)
{
    for (size_t i = 0; watching && i < ACCESSES; i++) {
        if (accesses[i].memory == memory)
            accesses[i].memory = NULL;
    }
}

void tn_sim_clock_release(struct tn_sim_clock *order)
{
    for (size_t i = 0; order != NULL && i < MOMENTS; i++) {
        free(order->moments[i].before.entries);
        free(order->moments[i].after.entries);
    }
    free(order);
}
