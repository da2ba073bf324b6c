// SPDX-License-Identifier: Apache-2.0
/* The fields are those of Perfetto's protos/perfetto/trace. Each pool has two counter tracks, each
 * thread with ranges a track of slices, and notes are instants of the process's track. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/host.h"
#include "base/title.h"
#include "formats.h"
#include "notes.h"
#include "proto.h"

enum {
    TRACE_PACKET = 1,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_TRACK = 60,
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    COUNTER_UNIT = 3,
    COUNTER_UNIT_BYTES = 3,
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_TRACK = 11,
    EVENT_NAME = 23,
    EVENT_COUNTER = 30,
    ANNOTATION_NUMBER = 3,
    ANNOTATION_NAME = 10,
};

enum event_type { SLICE_BEGIN = 1, SLICE_END, INSTANT, COUNTER };

/* Tracks have numbers: a kind, and which of it. */
enum track_kind { OF_PROCESS = 1, OF_BYTES, OF_REQUESTED, OF_THREAD, OF_CAPTURE, OF_GRAPH };

enum { TRACK_KIND_BITS = 3, NAME_BYTES = 64 };

/* The tracks that were described: by their numbers. */
struct tracks {
    uint64_t *all;
    size_t count;
    size_t capacity;
};

struct perfetto {
    struct tale *tale;
    FILE *file;
    struct proto packet;
    struct sums sums;
    struct tracks tracks;
};

static uint64_t track_of(enum track_kind kind, uint64_t which)
{
    return which << TRACK_KIND_BITS | kind;
}

static void begin_packet(struct perfetto *perfetto)
{
    proto_clear(&perfetto->packet);
    proto_begin(&perfetto->packet, TRACE_PACKET);
    proto_number(&perfetto->packet, PACKET_SEQUENCE, 1);
}

static void end_packet(struct perfetto *perfetto)
{
    proto_end(&perfetto->packet);
    if (!perfetto->packet.is_broken)
        (void)fwrite(perfetto->packet.bytes, 1, perfetto->packet.count, perfetto->file);
}

/* Whether the track is not described yet. */
static bool is_new(struct perfetto *perfetto, uint64_t track)
{
    struct tracks *tracks = &perfetto->tracks;
    void *all = tracks->all;
    size_t at = 0;

    for (size_t end = tracks->count; at < end;) {
        const size_t middle = at + (end - at) / 2;

        if (tracks->all[middle] < track)
            at = middle + 1;
        else
            end = middle;
    }
    if (at < tracks->count && tracks->all[at] == track)
        return false;
    if (!tn_host_grow(&all, &tracks->capacity, tracks->count + 1, sizeof track)) {
        perfetto->packet.is_broken = true;
        return false;
    }
    tracks->all = all;
    memmove(&tracks->all[at + 1], &tracks->all[at], (tracks->count - at) * sizeof track);
    tracks->all[at] = track;
    tracks->count += 1;
    return true;
}

static void write_process(struct perfetto *perfetto)
{
    const struct history *history = &perfetto->tale->history;
    struct proto *packet = &perfetto->packet;

    begin_packet(perfetto);
    proto_begin(packet, PACKET_TRACK);
    proto_number(packet, TRACK_UUID, track_of(OF_PROCESS, 0));
    proto_begin(packet, TRACK_PROCESS);
    proto_number(packet, PROCESS_PID, history->reader.head.process & INT32_MAX);
    proto_text(packet, PROCESS_NAME, history->program[0] != '\0' ? history->program : "Tarn");
    proto_end(packet);
    proto_end(packet);
    end_packet(perfetto);
}

/* Describes the track, if it is not yet. */
static void write_track(struct perfetto *perfetto, enum track_kind kind, uint64_t which)
{
    static const char *const names[] = {[OF_BYTES] = "pool",
                                        [OF_REQUESTED] = "requested of pool",
                                        [OF_THREAD] = "thread",
                                        [OF_CAPTURE] = "capture",
                                        [OF_GRAPH] = "graph"};
    struct proto *packet = &perfetto->packet;
    char name[NAME_BYTES];

    if (!is_new(perfetto, track_of(kind, which)))
        return;
    (void)snprintf(name, sizeof name, "%s %" PRIu64, names[kind], which);
    begin_packet(perfetto);
    proto_begin(packet, PACKET_TRACK);
    proto_number(packet, TRACK_UUID, track_of(kind, which));
    proto_text(packet, TRACK_NAME, name);
    proto_number(packet, TRACK_PARENT, track_of(OF_PROCESS, 0));
    if (kind == OF_BYTES || kind == OF_REQUESTED) {
        proto_begin(packet, TRACK_COUNTER);
        proto_number(packet, COUNTER_UNIT, COUNTER_UNIT_BYTES);
        proto_end(packet);
    }
    proto_end(packet);
    end_packet(perfetto);
}

/* Begins a packet with an event, which is open; name NULL: none. */
static void begin_event(struct perfetto *perfetto, uint64_t time, enum event_type type,
                        uint64_t track, const char *name)
{
    struct proto *packet = &perfetto->packet;

    begin_packet(perfetto);
    proto_number(packet, PACKET_TIMESTAMP, time);
    proto_begin(packet, PACKET_TRACK_EVENT);
    proto_number(packet, EVENT_TYPE, type);
    proto_number(packet, EVENT_TRACK, track);
    if (name != NULL)
        proto_text(packet, EVENT_NAME, name);
}

static void end_event(struct perfetto *perfetto)
{
    proto_end(&perfetto->packet);
    end_packet(perfetto);
}

static void write_counter(struct perfetto *perfetto, uint64_t time, enum track_kind kind,
                          uint64_t pool, uint64_t value)
{
    write_track(perfetto, kind, pool);
    begin_event(perfetto, time, COUNTER, track_of(kind, pool), NULL);
    proto_number(&perfetto->packet, EVENT_COUNTER, value);
    end_event(perfetto);
}

static void write_annotation(struct perfetto *perfetto, const char *name, uint64_t value)
{
    proto_begin(&perfetto->packet, EVENT_ANNOTATION);
    proto_text(&perfetto->packet, ANNOTATION_NAME, name);
    proto_number(&perfetto->packet, ANNOTATION_NUMBER, value);
    proto_end(&perfetto->packet);
}

/* Of a note that begins or ends a capture or a graph, on a track of its own. */
static void write_slice(struct perfetto *perfetto, uint64_t time, const struct tn_note_words *note)
{
    const bool is_graph = note->note == TN_NOTE_GRAPH_MADE || note->note == TN_NOTE_GRAPH_DESTROYED;
    const enum track_kind kind = is_graph ? OF_GRAPH : OF_CAPTURE;
    const bool begins = note->note == TN_NOTE_GRAPH_MADE || note->note == TN_NOTE_CAPTURE_BEGUN;

    if (!is_graph && !begins && note->note != TN_NOTE_CAPTURE_ENDED &&
        note->note != TN_NOTE_CAPTURE_ABORTED)
        return;
    write_track(perfetto, kind, note->operands[0]);
    begin_event(perfetto, time, begins ? SLICE_BEGIN : SLICE_END, track_of(kind, note->operands[0]),
                !begins    ? NULL
                : is_graph ? "graph"
                           : "capture");
    end_event(perfetto);
}

static void write_note(struct perfetto *perfetto, const struct change *change)
{
    const struct tn_note_words *note = &perfetto->tale->story.notes[change->block];

    begin_event(perfetto, change->time, INSTANT, track_of(OF_PROCESS, 0), note_name(note->note));
    if (note->pool != 0)
        write_annotation(perfetto, "pool", note->pool);
    for (size_t i = 0; i < tn_note_operand_count(note->note); i++)
        write_annotation(perfetto, note_operand(note->note, i), note->operands[i]);
    end_event(perfetto);
    write_slice(perfetto, change->time, note);
}

static void write_range(struct perfetto *perfetto, const struct tn_told_range *range)
{
    const struct history *history = &perfetto->tale->history;
    struct tn_title_text title;

    if (range->title > UINT32_MAX ||
        tn_title_read(&history->stacks, (uint32_t)range->title, &title) != TN_SCROLL_READ)
        title.text[0] = '\0';
    write_track(perfetto, OF_THREAD, range->thread);
    begin_event(perfetto, history_time(history, range->time), range->ends ? SLICE_END : SLICE_BEGIN,
                track_of(OF_THREAD, range->thread), title.text);
    end_event(perfetto);
}

static void write_change(struct perfetto *perfetto, const struct change *change)
{
    const struct sum *sum;

    if (change->kind == CHANGE_NOTE) {
        write_note(perfetto, change);
        return;
    }
    sum = sums_add(&perfetto->sums, change);
    if (sum == NULL) {
        perfetto->packet.is_broken = true;
        return;
    }
    write_counter(perfetto, change->time, OF_BYTES, sum->pool, sum->bytes);
    write_counter(perfetto, change->time, OF_REQUESTED, sum->pool, sum->requested);
}

bool format_perfetto(struct tale *tale, FILE *file)
{
    struct perfetto perfetto = {.tale = tale, .file = file};
    bool done;

    write_process(&perfetto);
    for (size_t i = 0; !perfetto.packet.is_broken && i < tale->story.count; i++)
        write_change(&perfetto, &tale->story.all[i]);
    for (size_t i = 0; !perfetto.packet.is_broken && i < tale->ranges.count; i++)
        write_range(&perfetto, &tale->ranges.all[i]);
    done = !perfetto.packet.is_broken;
    proto_free(&perfetto.packet);
    sums_free(&perfetto.sums);
    tn_host_free(perfetto.tracks.all);
    return done;
}
