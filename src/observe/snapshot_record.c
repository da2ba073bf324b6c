// SPDX-License-Identifier: Apache-2.0
/* Blocks that lived before the first event come first: those that are live in the snapshot and were
 * not allocated since, and those whose free alone is known. Then come the events, in their order. A
 * restore is an allocation.
 *
 * Events of two writers may be in the wrong order, by as much as their stamps are apart. A free in
 * front of its allocation therefore waits for the allocation.
 *
 * The header has sums of all records, so records are made first, in memory. Numbers of blocks lead to
 * their places by hashing with linear probing. */
#include "observe/snapshot_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "observe/writing.h"
#include "tarn/version.h"

enum { ALLOCATE, FREE, USE, OTHER, KIND_BITS = 2 };
enum { MARK_BEGIN = 1 << KIND_BITS | OTHER };
enum { HEADER_BYTES = 64, PART_BYTES = 64 * 1024 };

/* A block of the history. */
struct known {
    uint64_t number; /* 0: no entry */
    uint64_t bytes;  /* while it is live */
    uint64_t place;  /* among the trace's allocations */
    uint32_t stream;
    bool is_live;
    bool is_allocated;  /* by an event */
    bool waits_to_free; /* its free came in front */
};

struct size {
    uint64_t bytes;
    uint64_t count;
    uint64_t place; /* the most frequent has 0 */
};

struct recording {
    const struct tn_snapshot *snapshot;
    struct known *known;
    size_t mask;
    struct size *sizes; /* by bytes */
    size_t size_count;
    unsigned char *bytes; /* the records */
    size_t count;
    size_t capacity;
    uint64_t streams[TN_RECORD_STREAMS_MAX];
    size_t stream_count;
    uint32_t stream; /* the current one */
    uint64_t allocations;
    uint64_t events;
    uint64_t live_bytes;
    uint64_t live_peak;
    tarn_status status; /* of the first failure */
};

/* The block's entry, or a new one. */
static struct known *find(const struct recording *recording, uint64_t number)
{
    size_t at = (size_t)(number * TN_GOLDEN >> 32) & recording->mask;

    TN_ASSERT(number != 0);
    while (recording->known[at].number != 0 && recording->known[at].number != number)
        at = (at + 1) & recording->mask;
    recording->known[at].number = number;
    return &recording->known[at];
}

static void put_varint(struct recording *recording, uint64_t value)
{
    do {
        TN_ASSERT(recording->count < recording->capacity);
        recording->bytes[recording->count++] =
            (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value > 0);
}

static uint32_t find_stream(struct recording *recording, uint64_t stream)
{
    for (size_t i = 0; i < recording->stream_count; i++) {
        if (recording->streams[i] == stream)
            return (uint32_t)i;
    }
    if (recording->stream_count == TN_RECORD_STREAMS_MAX) {
        recording->status =
            tn_fail(TARN_ERR_LIMIT, "a trace has at most %d streams", (int)TN_RECORD_STREAMS_MAX);
        return 0;
    }
    recording->streams[recording->stream_count] = stream;
    recording->stream_count += 1;
    return (uint32_t)recording->stream_count - 1;
}

static int compare(uint64_t left, uint64_t right)
{
    return (left > right) - (left < right);
}

static int compare_sizes(const void *a, const void *b)
{
    return compare(((const struct size *)a)->bytes, ((const struct size *)b)->bytes);
}

/* The most frequent comes first. */
static int compare_counts(const void *a, const void *b)
{
    const struct size *left = a;
    const struct size *right = b;

    return left->count != right->count ? compare(right->count, left->count) : compare_sizes(a, b);
}

static uint64_t place_of(const struct recording *recording, uint64_t bytes)
{
    const struct size wanted = {.bytes = bytes};
    const struct size *size =
        bsearch(&wanted, recording->sizes, recording->size_count, sizeof wanted, compare_sizes);

    TN_ASSERT(size != NULL);
    return size->place;
}

static void allocate(struct recording *recording, struct known *block, uint64_t bytes,
                     uint64_t stream)
{
    const uint32_t index = find_stream(recording, stream);

    TN_ASSERT(!block->is_live && bytes > 0);
    if (index != recording->stream)
        put_varint(recording, (uint64_t)index << (KIND_BITS + 1) | OTHER);
    recording->stream = index;
    put_varint(recording, place_of(recording, bytes) << KIND_BITS | ALLOCATE);
    block->is_live = true;
    block->bytes = bytes;
    block->stream = index;
    block->place = recording->allocations;
    recording->allocations += 1;
    recording->events += 1;
    recording->live_bytes += bytes;
    if (recording->live_bytes > recording->live_peak)
        recording->live_peak = recording->live_bytes;
}

static void free_block(struct recording *recording, struct known *block)
{
    put_varint(recording, (recording->allocations - 1 - block->place) << KIND_BITS | FREE);
    TN_ASSERT(block->is_live && recording->live_bytes >= block->bytes);
    block->is_live = false;
    recording->live_bytes -= block->bytes;
    recording->events += 1;
}

static void use(struct recording *recording, const struct known *block, uint64_t stream)
{
    const uint32_t index = find_stream(recording, stream);

    if (index == block->stream)
        return;
    put_varint(recording, (recording->allocations - 1 - block->place) << KIND_BITS | USE);
    put_varint(recording, index);
    recording->events += 1;
}

static bool is_of_block(const struct tn_trace_event *event)
{
    return event->number != 0 &&
           (event->action == TN_TRACE_USE ||
            ((event->action == TN_TRACE_ALLOC || event->action == TN_TRACE_FREE_REQUESTED) &&
             event->bytes > 0));
}

static void put_event(struct recording *recording, const struct tn_trace_event *event)
{
    struct known *block = find(recording, event->number);

    if (event->action == TN_TRACE_USE) {
        if (block->is_live)
            use(recording, block, event->stream);
    } else if (event->action == TN_TRACE_FREE_REQUESTED) {
        if (block->is_live)
            free_block(recording, block);
        else
            block->waits_to_free = true;
    } else if (!block->is_live) {
        allocate(recording, block, event->bytes, event->stream);
        if (block->waits_to_free)
            free_block(recording, block);
        block->waits_to_free = false;
    }
}

/* What is done with each block of the snapshot that lived before the first event. */
typedef void (*before_visitor)(struct recording *recording, uint64_t number, uint64_t bytes,
                               uint64_t stream);

static void visit_live_before(struct recording *recording, before_visitor visitor)
{
    const tarn_snapshot *read = &recording->snapshot->read;

    for (size_t i = 0; i < read->segment_count; i++) {
        for (size_t k = 0; k < read->segments[i].block_count; k++) {
            const tarn_snapshot_block *block = &read->segments[i].blocks[k];

            if (block->state == TARN_EXTENT_LIVE && block->bytes > 0 &&
                !find(recording, block->sequence)->is_allocated)
                visitor(recording, block->sequence, block->bytes,
                        (uintptr_t)read->segments[i].stream);
        }
    }
}

static void visit_freed_before(struct recording *recording, before_visitor visitor)
{
    for (size_t i = 0; i < recording->snapshot->event_count; i++) {
        const struct tn_trace_event *event = &recording->snapshot->events[i];

        if (is_of_block(event) && event->action == TN_TRACE_FREE_REQUESTED &&
            !find(recording, event->number)->is_allocated)
            visitor(recording, event->number, event->bytes, event->stream);
    }
}

static void count_size(struct recording *recording, uint64_t number, uint64_t bytes,
                       uint64_t stream)
{
    (void)number;
    (void)stream;
    recording->sizes[recording->size_count] = (struct size){.bytes = bytes, .count = 1};
    recording->size_count += 1;
}

static void allocate_before(struct recording *recording, uint64_t number, uint64_t bytes,
                            uint64_t stream)
{
    struct known *block = find(recording, number);

    if (!block->is_live)
        allocate(recording, block, bytes, stream);
}

/* Each size once, with its place. */
static void sort_sizes(struct recording *recording)
{
    struct size *sizes = recording->sizes;
    size_t count = 0;

    if (recording->size_count == 0)
        return;
    qsort(sizes, recording->size_count, sizeof *sizes, compare_sizes);
    for (size_t i = 0; i < recording->size_count; i++) {
        if (count > 0 && sizes[count - 1].bytes == sizes[i].bytes)
            sizes[count - 1].count += 1;
        else
            sizes[count++] = sizes[i];
    }
    recording->size_count = count;
    qsort(sizes, count, sizeof *sizes, compare_counts);
    for (size_t i = 0; i < count; i++)
        sizes[i].place = i;
}

static void find_sizes(struct recording *recording)
{
    const struct tn_snapshot *snapshot = recording->snapshot;

    for (size_t i = 0; i < snapshot->event_count; i++) {
        const struct tn_trace_event *event = &snapshot->events[i];

        if (!is_of_block(event) || event->action != TN_TRACE_ALLOC)
            continue;
        count_size(recording, event->number, event->bytes, event->stream);
        if (!event->is_restored)
            find(recording, event->number)->is_allocated = true;
    }
    visit_live_before(recording, count_size);
    visit_freed_before(recording, count_size);
    sort_sizes(recording);
}

static void put_records(struct recording *recording)
{
    const struct tn_snapshot *snapshot = recording->snapshot;

    visit_live_before(recording, allocate_before);
    visit_freed_before(recording, allocate_before);
    put_varint(recording, MARK_BEGIN);
    for (size_t i = 0; i < snapshot->event_count; i++) {
        if (is_of_block(&snapshot->events[i]))
            put_event(recording, &snapshot->events[i]);
    }
}

static void put_fixed(unsigned char *at, uint64_t value, size_t count)
{
    for (size_t i = 0; i < count; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

static void put_text(struct recording *recording, const char *text)
{
    const size_t length = strlen(text);

    TN_ASSERT(length > 0 && recording->count + length < recording->capacity);
    recording->bytes[recording->count++] = (unsigned char)length;
    memcpy(recording->bytes + recording->count, text, length);
    recording->count += length;
}

/* The CRC-32 of zlib. */
static uint32_t checksum(uint32_t sum, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        sum ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ ((sum & 1) != 0 ? UINT32_C(0xedb88320) : 0);
    }
    return sum;
}

/* Behind the records: what stands in front of them. Returns how many bytes these are. */
static size_t put_header(struct recording *recording, const char *name)
{
    static const unsigned char magic[8] = {0x89, 'T', 'A', 'R', 'N', 0x0d, 0x0a, 0x1a};
    const size_t records = recording->count;
    unsigned char *header = recording->bytes + records;
    char device[32];
    uint32_t sum;

    memcpy(header, magic, sizeof magic);
    put_fixed(header + 8, 1, 4);
    put_fixed(header + 16, recording->allocations, 8);
    put_fixed(header + 24, recording->events, 8);
    put_fixed(header + 32, recording->live_peak, 8);
    memset(header + 40, 0, 16); /* not known */
    put_fixed(header + 56, recording->stream_count > 0 ? recording->stream_count : 1, 4);
    put_fixed(header + 60, recording->size_count, 4);
    recording->count += HEADER_BYTES;
    (void)snprintf(device, sizeof device, "CUDA device %d", recording->snapshot->read.device);
    put_text(recording, name);
    put_text(recording, "Tarn " TARN_VERSION_STRING);
    put_text(recording, device);
    for (size_t i = 0; i < recording->size_count; i++)
        put_varint(recording, recording->sizes[i].bytes);
    sum = checksum(UINT32_MAX, header + 16, recording->count - records - 16);
    put_fixed(header + 12, ~checksum(sum, recording->bytes, records), 4);
    return recording->count - records;
}

static tarn_status hand_over(struct tn_writing *writing, const unsigned char *bytes, size_t count)
{
    tarn_status status = TARN_OK;

    for (size_t at = 0; at < count && status == TARN_OK; at += PART_BYTES)
        status = tn_write_part(writing, bytes + at, tn_min(count - at, (size_t)PART_BYTES));
    return status;
}

/* A block takes up to two varints of ten bytes for each event, and the same before the first one. */
static bool make_room(struct recording *recording)
{
    const struct tn_snapshot *snapshot = recording->snapshot;
    const size_t most = 2 * snapshot->event_count + snapshot->read.block_count + 1;

    recording->capacity = 30 * most + HEADER_BYTES + 256;
    recording->mask = ((size_t)4 << tn_log2_floor(most)) - 1;
    recording->known = tn_host_alloc(recording->mask + 1, sizeof *recording->known);
    recording->sizes = tn_host_alloc(most, sizeof *recording->sizes);
    recording->bytes = tn_host_alloc_unset(recording->capacity, 1);
    return recording->known != NULL && recording->sizes != NULL && recording->bytes != NULL;
}

static tarn_status record(struct recording *recording, const char *name, struct tn_writing *writing)
{
    size_t header_bytes;
    size_t records;
    tarn_status status;

    find_sizes(recording);
    if (recording->size_count > 0)
        qsort(recording->sizes, recording->size_count, sizeof *recording->sizes, compare_sizes);
    put_records(recording);
    if (recording->status != TARN_OK)
        return recording->status;
    if (recording->size_count > 0)
        qsort(recording->sizes, recording->size_count, sizeof *recording->sizes, compare_counts);
    records = recording->count;
    header_bytes = put_header(recording, name);
    status = hand_over(writing, recording->bytes + records, header_bytes);
    return status == TARN_OK ? hand_over(writing, recording->bytes, records) : status;
}

tarn_status tn_snapshot_write_trace(const struct tn_snapshot *snapshot, const char *name,
                                    tarn_writer writer, void *user)
{
    struct recording recording = {.snapshot = snapshot};
    struct tn_writing writing = {.writer = writer, .user = user};
    tarn_status status;

    TN_ASSERT(strlen(name) > 0 && strlen(name) <= TN_RECORD_NAME_MAX);
    if (make_room(&recording))
        status = record(&recording, name, &writing);
    else
        status = tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a trace of %zu events",
                         snapshot->event_count);
    tn_host_free(recording.known);
    tn_host_free(recording.sizes);
    tn_host_free(recording.bytes);
    return status;
}
