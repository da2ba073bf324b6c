// SPDX-License-Identifier: Apache-2.0
/* One pass over the bytes. Each record is checked against what is live at that moment, which the
 * parser follows as a player would; the header's sums are compared with what came out.
 *
 * Before memory is taken by a count of the header, the count is held against the bytes that are
 * left: every event takes one at least.
 *
 * Trade-offs: the file is read whole, and events take 16 bytes each in memory. Recorded traces are
 * some hundred KiB; a player that decoded while it plays would be timed for it. */
#include "trace_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    VERSION_FIRST = 1,
    VERSION_THREADS = 2, /* and the last */
    FIXED_BYTES = 64,    /* of the header, before its strings */
    FIXED_BYTES_THREADS = 68,
    CHECKED_FROM = 16,
    KIND_BITS = 2,
    MARK_BEGIN = 0,
    MARK_STEP = 1,
    MARK_THREAD = 2, /* of thread 0, whom the others follow */
    VARINT_BITS = 7,
};

#define BLOCK_BYTES_MAX (UINT64_C(1) << 46) /* what no device holds */
#define FILE_BYTES_MAX ((size_t)1 << 30)    /* a hundred times what a recording is meant to take */
#define TOO_LARGE "is larger than 1 GiB, as no recording is"
#define NO_SLOT UINT32_MAX

static const uint8_t magic[8] = {0x89, 'T', 'A', 'R', 'N', 0x0d, 0x0a, 0x1a};

/* What a slot holds. */
struct held {
    uint64_t bytes;
    uint8_t stream;
};

struct parser {
    const uint8_t *bytes;
    size_t count;
    size_t position;
    char *error;
    struct bench_trace made;
    uint64_t allocation_count; /* those that the header promises */
    uint64_t event_count;
    uint64_t live_peak_bytes;
    uint32_t size_count;
    uint64_t *sizes;
    uint32_t *slots; /* by the block's number; NO_SLOT: it was freed */
    struct held *held;
    uint32_t *empty; /* slots, the last emptied one at the end */
    size_t empty_count;
    uint64_t block_count; /* allocated so far */
    uint64_t live_bytes;
    size_t step_room;
    uint64_t version;
    uint8_t stream; /* the current one */
    uint8_t thread; /* the current one */
    bool begun;     /* mark 0 has come */
};

/* Writes why, and is false. */
static bool fail(struct parser *parser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool fail(struct parser *parser, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(parser->error, BENCH_TRACE_ERROR_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- numbers ------------------------------------------------------------------------------- */

static uint64_t get_fixed(const uint8_t *bytes, size_t count)
{
    uint64_t value = 0;

    for (size_t i = 0; i < count; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static bool get_varint(struct parser *parser, uint64_t *value)
{
    size_t from = parser->position;

    *value = 0;
    for (unsigned shift = 0;; shift += VARINT_BITS) {
        uint64_t part;

        if (parser->position == parser->count)
            return fail(parser, "ends within the number at byte %zu", from);
        part = parser->bytes[parser->position] & 0x7f;
        if (shift > 63 || part << shift >> shift != part)
            return fail(parser, "the number at byte %zu has more than 64 bits", from);
        *value |= part << shift;
        if ((parser->bytes[parser->position++] & 0x80) == 0)
            return true;
    }
}

/* The CRC-32 of zlib, a bit at a time: files are small. */
static uint32_t checksum(const uint8_t *bytes, size_t count)
{
    uint32_t sum = UINT32_MAX;

    for (size_t i = 0; i < count; i++) {
        sum ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ ((sum & 1) != 0 ? UINT32_C(0xedb88320) : 0);
    }
    return ~sum;
}

/* ---- the header ---------------------------------------------------------------------------- */

static size_t fixed_bytes(const struct parser *parser)
{
    return parser->version == VERSION_THREADS ? FIXED_BYTES_THREADS : FIXED_BYTES;
}

static bool check_frame(struct parser *parser)
{
    uint32_t sum;

    if (parser->count > FILE_BYTES_MAX)
        return fail(parser, TOO_LARGE);
    if (parser->count < sizeof magic || memcmp(parser->bytes, magic, sizeof magic) != 0)
        return fail(parser, "is no trace: it does not begin with the mark of one");
    if (parser->count < FIXED_BYTES)
        return fail(parser, "ends within the header");
    parser->version = get_fixed(parser->bytes + 8, 4);
    if (parser->version < VERSION_FIRST || parser->version > VERSION_THREADS)
        return fail(parser, "has version %" PRIu64 "; this reader knows versions %d to %d",
                    parser->version, VERSION_FIRST, VERSION_THREADS);
    if (parser->count < fixed_bytes(parser))
        return fail(parser, "ends within the header");
    sum = checksum(parser->bytes + CHECKED_FROM, parser->count - CHECKED_FROM);
    if (sum != get_fixed(parser->bytes + 12, 4))
        return fail(parser, "is damaged or cut off: its checksum is not that of its bytes");
    return true;
}

static bool read_thread_count(struct parser *parser)
{
    uint64_t count = 1;

    if (parser->version == VERSION_THREADS)
        count = get_fixed(parser->bytes + FIXED_BYTES, 4);
    if (count == 0 || count > BENCH_TRACE_THREADS_MAX)
        return fail(parser, "has %" PRIu64 " threads; 1 to %d are allowed", count,
                    BENCH_TRACE_THREADS_MAX);
    parser->made.thread_count = (size_t)count;
    return true;
}

static bool read_counts(struct parser *parser)
{
    const uint8_t *bytes = parser->bytes;
    size_t left = parser->count - fixed_bytes(parser);
    uint64_t stream_count = get_fixed(bytes + 56, 4);

    parser->allocation_count = get_fixed(bytes + 16, 8);
    parser->event_count = get_fixed(bytes + 24, 8);
    parser->live_peak_bytes = get_fixed(bytes + 32, 8);
    parser->made.recorded_reserved_peak_bytes = get_fixed(bytes + 40, 8);
    parser->made.recorded_allocated_peak_bytes = get_fixed(bytes + 48, 8);
    parser->size_count = (uint32_t)get_fixed(bytes + 60, 4);
    parser->position = fixed_bytes(parser);
    if (parser->event_count > left)
        return fail(parser, "promises %" PRIu64 " events in %zu bytes", parser->event_count, left);
    if (parser->allocation_count > parser->event_count)
        return fail(parser, "promises more allocations (%" PRIu64 ") than events (%" PRIu64 ")",
                    parser->allocation_count, parser->event_count);
    if (parser->size_count > left)
        return fail(parser, "promises %" PRIu32 " sizes in %zu bytes", parser->size_count, left);
    if (stream_count == 0 || stream_count > BENCH_TRACE_STREAMS_MAX)
        return fail(parser, "has %" PRIu64 " streams; 1 to %d are allowed", stream_count,
                    BENCH_TRACE_STREAMS_MAX);
    parser->made.stream_count = (size_t)stream_count;
    return read_thread_count(parser);
}

/* text has room for room bytes. */
static bool read_text(struct parser *parser, const char *what, char *text, size_t room)
{
    size_t length;

    if (parser->position == parser->count)
        return fail(parser, "ends before its %s", what);
    length = parser->bytes[parser->position++];
    if (length == 0 || length >= room)
        return fail(parser, "has a %s of %zu characters; 1 to %zu are allowed", what, length,
                    room - 1);
    if (length > parser->count - parser->position)
        return fail(parser, "ends within its %s", what);
    for (size_t i = 0; i < length; i++) {
        uint8_t c = parser->bytes[parser->position++];

        if (c < ' ' || c > '~')
            return fail(parser, "has a %s that is not printable ASCII", what);
        text[i] = (char)c;
    }
    text[length] = '\0';
    return true;
}

static bool read_sizes(struct parser *parser)
{
    parser->sizes = calloc((size_t)parser->size_count + 1, sizeof *parser->sizes);
    if (parser->sizes == NULL)
        return fail(parser, "no host memory");
    for (uint32_t i = 0; i < parser->size_count; i++) {
        if (!get_varint(parser, &parser->sizes[i]))
            return false;
        if (parser->sizes[i] == 0 || parser->sizes[i] > BLOCK_BYTES_MAX)
            return fail(parser, "has a size of %" PRIu64 " bytes; 1 to 2^46 are allowed",
                        parser->sizes[i]);
    }
    return true;
}

static bool read_header(struct parser *parser)
{
    struct bench_trace *made = &parser->made;

    return check_frame(parser) && read_counts(parser) &&
           read_text(parser, "name", made->name, sizeof made->name) &&
           read_text(parser, "source", made->source, sizeof made->source) &&
           read_text(parser, "device", made->device, sizeof made->device) && read_sizes(parser);
}

/* ---- the records --------------------------------------------------------------------------- */

static bool create_tables(struct parser *parser)
{
    size_t blocks = (size_t)parser->allocation_count + 1;

    parser->made.events = calloc((size_t)parser->event_count + 1, sizeof *parser->made.events);
    parser->slots = calloc(blocks, sizeof *parser->slots);
    parser->held = calloc(blocks, sizeof *parser->held);
    parser->empty = calloc(blocks, sizeof *parser->empty);
    if (parser->made.events == NULL || parser->slots == NULL || parser->held == NULL ||
        parser->empty == NULL)
        return fail(parser, "no host memory");
    return true;
}

/* By the current thread. */
static bool add_event(struct parser *parser, struct bench_trace_event event)
{
    event.thread = parser->thread;
    if (parser->made.event_count == parser->event_count)
        return fail(parser, "has more events than the %" PRIu64 " that it promises",
                    parser->event_count);
    parser->made.events[parser->made.event_count++] = event;
    return true;
}

static bool allocate(struct parser *parser, uint64_t place)
{
    uint32_t slot;
    uint64_t bytes;

    if (place >= parser->size_count)
        return fail(parser, "allocation %" PRIu64 " has size number %" PRIu64 " of %" PRIu32,
                    parser->block_count, place, parser->size_count);
    if (parser->block_count == parser->allocation_count)
        return fail(parser, "has more allocations than the %" PRIu64 " that it promises",
                    parser->allocation_count);
    bytes = parser->sizes[place];
    if (parser->live_bytes + bytes > BLOCK_BYTES_MAX)
        return fail(parser, "has more than 2^46 bytes live with allocation %" PRIu64,
                    parser->block_count);
    slot = parser->empty_count > 0 ? parser->empty[--parser->empty_count]
                                   : (uint32_t)parser->made.slot_count++;
    parser->slots[parser->block_count++] = slot;
    parser->held[slot] = (struct held){bytes, parser->stream};
    parser->live_bytes += bytes;
    if (parser->live_bytes > parser->made.live_peak_bytes)
        parser->made.live_peak_bytes = parser->live_bytes;
    return add_event(parser, (struct bench_trace_event){.bytes = bytes,
                                                        .slot = slot,
                                                        .kind = BENCH_TRACE_ALLOCATE,
                                                        .stream = parser->stream});
}

/* Sets *number to that of the live block at the distance. */
static bool find_live(struct parser *parser, const char *what, uint64_t distance, uint64_t *number)
{
    if (!parser->begun)
        return fail(parser, "has a %s before the mark that begins the recording", what);
    if (distance >= parser->block_count)
        return fail(parser, "has a %s of a block before the first one (event %zu)", what,
                    parser->made.event_count);
    *number = parser->block_count - 1 - distance;
    if (parser->slots[*number] == NO_SLOT)
        return fail(parser, "has a %s of block %" PRIu64 ", which is not live (event %zu)", what,
                    *number, parser->made.event_count);
    return true;
}

static bool free_block(struct parser *parser, uint64_t distance)
{
    uint64_t number;
    uint32_t slot;

    if (!find_live(parser, "free", distance, &number))
        return false;
    slot = parser->slots[number];
    parser->slots[number] = NO_SLOT;
    parser->empty[parser->empty_count++] = slot;
    parser->live_bytes -= parser->held[slot].bytes;
    return add_event(parser, (struct bench_trace_event){.slot = slot,
                                                        .kind = BENCH_TRACE_FREE,
                                                        .stream = parser->held[slot].stream});
}

static bool use(struct parser *parser, uint64_t distance)
{
    uint64_t number;
    uint64_t stream;
    uint32_t slot;

    if (!find_live(parser, "use", distance, &number) || !get_varint(parser, &stream))
        return false;
    slot = parser->slots[number];
    if (stream >= parser->made.stream_count)
        return fail(parser, "has a use on stream %" PRIu64 " of %zu", stream,
                    parser->made.stream_count);
    if (stream == parser->held[slot].stream)
        return fail(parser, "has a use of block %" PRIu64 " on its own stream", number);
    return add_event(parser, (struct bench_trace_event){
                                 .slot = slot, .kind = BENCH_TRACE_USE, .stream = (uint8_t)stream});
}

static bool add_step(struct parser *parser)
{
    struct bench_trace *made = &parser->made;

    if (!parser->begun)
        return fail(parser, "has a step before the mark that begins the recording");
    if (made->step_count == parser->step_room) {
        size_t room = parser->step_room * 2 + 16;
        size_t *steps = realloc(made->steps, room * sizeof *steps);

        if (steps == NULL)
            return fail(parser, "no host memory");
        made->steps = steps;
        parser->step_room = room;
    }
    made->steps[made->step_count++] = made->event_count;
    return true;
}

static bool select_thread(struct parser *parser, uint64_t thread)
{
    if (thread >= parser->made.thread_count)
        return fail(parser, "selects thread %" PRIu64 " of %zu", thread, parser->made.thread_count);
    parser->thread = (uint8_t)thread;
    return true;
}

static bool mark(struct parser *parser, uint64_t which)
{
    if (which == MARK_STEP)
        return add_step(parser);
    if (which >= MARK_THREAD && parser->version == VERSION_THREADS)
        return select_thread(parser, which - MARK_THREAD);
    if (which != MARK_BEGIN)
        return fail(parser, "has a mark %" PRIu64 ", which this version does not have", which);
    if (parser->begun)
        return fail(parser, "has two marks that begin the recording");
    parser->begun = true;
    parser->made.begin = parser->made.event_count;
    return true;
}

static bool select_stream(struct parser *parser, uint64_t stream)
{
    if (stream >= parser->made.stream_count)
        return fail(parser, "selects stream %" PRIu64 " of %zu", stream, parser->made.stream_count);
    parser->stream = (uint8_t)stream;
    return true;
}

static bool read_record(struct parser *parser)
{
    uint64_t value;
    unsigned kind;

    if (!get_varint(parser, &value))
        return false;
    kind = value & ((1U << KIND_BITS) - 1);
    value >>= KIND_BITS;
    if (kind == BENCH_TRACE_ALLOCATE)
        return allocate(parser, value);
    if (kind == BENCH_TRACE_FREE)
        return free_block(parser, value);
    if (kind == BENCH_TRACE_USE)
        return use(parser, value);
    return (value & 1) != 0 ? mark(parser, value >> 1) : select_stream(parser, value >> 1);
}

/* What the records came to, against the header. */
static bool check_sums(struct parser *parser)
{
    const struct bench_trace *made = &parser->made;

    if (!parser->begun)
        return fail(parser, "has no mark that begins the recording");
    if (parser->block_count != parser->allocation_count)
        return fail(parser, "has %" PRIu64 " allocations, and promises %" PRIu64,
                    parser->block_count, parser->allocation_count);
    if (made->event_count != parser->event_count)
        return fail(parser, "has %zu events, and promises %" PRIu64, made->event_count,
                    parser->event_count);
    if (made->live_peak_bytes != parser->live_peak_bytes)
        return fail(parser, "has %" PRIu64 " bytes live at most, and promises %" PRIu64,
                    made->live_peak_bytes, parser->live_peak_bytes);
    if (made->event_count == made->begin)
        return fail(parser, "has no event after its begin");
    return true;
}

static bool read_records(struct parser *parser)
{
    if (!create_tables(parser))
        return false;
    while (parser->position < parser->count) {
        if (!read_record(parser))
            return false;
    }
    return check_sums(parser);
}

/* ---- the whole ----------------------------------------------------------------------------- */

bool bench_trace_parse(const uint8_t *bytes, size_t count, struct bench_trace *trace,
                       char error[BENCH_TRACE_ERROR_BYTES])
{
    struct parser parser = {.bytes = bytes, .count = count, .error = error};
    bool good = read_header(&parser) && read_records(&parser);

    free(parser.sizes);
    free(parser.slots);
    free(parser.held);
    free(parser.empty);
    if (good)
        *trace = parser.made;
    else
        bench_trace_destroy(&parser.made);
    return good;
}

void bench_trace_destroy(struct bench_trace *trace)
{
    free(trace->events);
    free(trace->steps);
    *trace = (struct bench_trace){.events = NULL};
}

/* All bytes of a file, in memory of their own; NULL when they cannot be had. */
static uint8_t *read_bytes(struct parser *parser, FILE *file)
{
    struct stat status;
    uint8_t *bytes;

    if (fstat(fileno(file), &status) != 0 || !S_ISREG(status.st_mode)) {
        (void)fail(parser, "is no file");
        return NULL;
    }
    if ((uint64_t)status.st_size > FILE_BYTES_MAX) {
        (void)fail(parser, TOO_LARGE);
        return NULL;
    }
    parser->count = (size_t)status.st_size;
    bytes = malloc(parser->count + 1);
    if (bytes == NULL) {
        (void)fail(parser, "no host memory");
        return NULL;
    }
    if (fread(bytes, 1, parser->count, file) == parser->count)
        return bytes;
    (void)fail(parser, "cannot be read");
    free(bytes);
    return NULL;
}

bool bench_trace_load(const char *path, struct bench_trace *trace,
                      char error[BENCH_TRACE_ERROR_BYTES])
{
    struct parser parser = {.error = error};
    FILE *file = fopen(path, "rb");
    uint8_t *bytes;
    bool good;

    if (file == NULL)
        return fail(&parser, "cannot be opened: %s", strerror(errno));
    bytes = read_bytes(&parser, file);
    (void)fclose(file);
    if (bytes == NULL)
        return false;
    good = bench_trace_parse(bytes, parser.count, trace, error);
    free(bytes);
    return good;
}
