// SPDX-License-Identifier: Apache-2.0
#include "notes.h"

#include <inttypes.h>
#include <string.h>

/* docs/history.md has the same table. */
struct named {
    const char *name;
    const char *operands[TN_NOTE_OPERANDS_MAX];
};

static const struct named names[TN_NOTES] = {
    [TN_NOTE_SEGMENT_RESERVED] = {"segment reserved", {"address", "bytes"}},
    [TN_NOTE_SEGMENT_DROPPED] = {"segment given back", {"address", "bytes"}},
    [TN_NOTE_MEMORY_CREATED] = {"memory created", {"memory", "bytes"}},
    [TN_NOTE_MEMORY_CACHED] = {"memory cached", {"memory", "bytes"}},
    [TN_NOTE_MEMORY_REUSED] = {"memory reused", {"memory", "bytes"}},
    [TN_NOTE_MEMORY_RELEASED] = {"memory released", {"memory", "bytes"}},
    [TN_NOTE_MAPPED] = {"memory mapped", {"address", "bytes", "memory"}},
    [TN_NOTE_MOVED] = {"memory moved", {"address", "to", "bytes"}},
    [TN_NOTE_UNMAPPED] = {"memory unmapped", {"address", "bytes", "memory"}},
    [TN_NOTE_POOL_CREATED] = {"pool created", {"kind"}},
    [TN_NOTE_POOL_DESTROYED] = {"pool destroyed", {NULL}},
    [TN_NOTE_ARENA_BEGUN] = {"arena begun", {"writer", "stream", "capture"}},
    [TN_NOTE_ARENA_ENDED] = {"arena ended", {"writer"}},
    [TN_NOTE_MAGAZINE_BEGUN] = {"thread's writer begun", {"writer", "of"}},
    [TN_NOTE_MAGAZINE_ENDED] = {"thread's writer ended", {"writer"}},
    [TN_NOTE_ROUTE_BEGUN] = {"route begun", {"route"}},
    [TN_NOTE_ROUTE_ENDED] = {"route ended", {"route"}},
    [TN_NOTE_CAPTURE_BEGUN] = {"capture begun", {"capture", "stream"}},
    [TN_NOTE_CAPTURE_ENDED] = {"capture ended", {"capture"}},
    [TN_NOTE_CAPTURE_ABORTED] = {"capture aborted", {"capture"}},
    [TN_NOTE_GRAPH_MADE] = {"graph made", {"graph", "capture"}},
    [TN_NOTE_GRAPH_UPDATED] = {"graph updated", {"graph", "capture"}},
    [TN_NOTE_GRAPH_REPLAYED] = {"graph replayed", {"graph", "stream"}},
    [TN_NOTE_GRAPH_DESTROYED] = {"graph destroyed", {"graph"}},
    [TN_NOTE_HOLD_TAKEN] = {"hold taken", {"hold", "capture"}},
    [TN_NOTE_HOLD_DROPPED] = {"hold dropped", {"hold"}},
    [TN_NOTE_CHECKPOINT_TAKEN] = {"checkpoint taken", {"checkpoint", "blocks"}},
    [TN_NOTE_CHECKPOINT_RESTORED] = {"checkpoint restored", {"checkpoint"}},
    [TN_NOTE_CHECKPOINT_DROPPED] = {"checkpoint dropped", {"checkpoint"}},
    [TN_NOTE_STREAM_USED] = {"use recorded", {"block", "stream", "capture"}},
    [TN_NOTE_STREAM_RETIRED] = {"stream retired", {"stream"}},
    [TN_NOTE_FENCE_RECORDED] = {"fence recorded", {"stream"}},
    [TN_NOTE_FENCE_DONE] = {"fence done", {"stream"}},
    [TN_NOTE_RUNG] = {"rung tried", {"rung", "bytes"}},
    [TN_NOTE_OUT_OF_MEMORY] = {"out of memory", {"bytes", "free_bytes", "status"}},
    [TN_NOTE_TRIMMED] = {"trim", {"bytes", "kept_bytes"}},
    [TN_NOTE_ANNOTATED] = {"annotated", {"block", "address", "title"}},
    [TN_NOTE_SNAPSHOT] = {"snapshot taken", {"blocks"}},
    [TN_NOTE_SHARED] = {"block shared", {"block", "connection", "process"}},
    [TN_NOTE_LEASES_ENDED] = {"leases ended", {"connection", "process", "leases"}},
    [TN_NOTE_PEER_LOST] = {"process lost", {"connection", "process"}},
    [TN_NOTE_SHARE_OPENED] = {"share opened", {"address", "bytes", "connection"}},
    [TN_NOTE_SHARE_RETURNED] = {"share returned", {"address", "bytes", "connection"}},
    [TN_NOTE_IMPORT_MAPPED] = {"import mapped", {"address", "bytes", "memories"}},
    [TN_NOTE_IMPORT_UNMAPPED] = {"import unmapped", {"address", "bytes"}},
};

const char *note_name(enum tn_note note)
{
    const char *name = (unsigned)note < TN_NOTES ? names[note].name : NULL;

    return name != NULL ? name : "note of a later version";
}

const char *note_operand(enum tn_note note, size_t operand)
{
    const char *name = (unsigned)note < TN_NOTES ? names[note].operands[operand] : NULL;

    return name != NULL ? name : "operand";
}

static bool is_address(const char *operand)
{
    return strcmp(operand, "address") == 0 || strcmp(operand, "to") == 0 ||
           strcmp(operand, "memory") == 0;
}

void note_print(const struct tn_note_words *note, FILE *file)
{
    for (size_t i = 0; i < tn_note_operand_count(note->note); i++) {
        const char *name = note_operand(note->note, i);

        (void)fprintf(file, is_address(name) ? ", %s 0x%" PRIx64 : ", %s %" PRIu64, name,
                      note->operands[i]);
    }
}

void note_to_json(const struct tn_note_words *note, struct json *json)
{
    for (size_t i = 0; i < tn_note_operand_count(note->note); i++) {
        const char *name = note_operand(note->note, i);

        if (is_address(name))
            json_address(json, name, note->operands[i]);
        else
            json_number(json, name, note->operands[i]);
    }
}

bool note_has_address(const struct tn_note_words *note, uint64_t address)
{
    switch (note->note) {
    case TN_NOTE_SEGMENT_RESERVED:
    case TN_NOTE_SEGMENT_DROPPED:
    case TN_NOTE_MAPPED:
    case TN_NOTE_UNMAPPED:
        return address - note->operands[0] < note->operands[1];
    case TN_NOTE_MOVED:
        return address - note->operands[0] < note->operands[2] ||
               address - note->operands[1] < note->operands[2];
    default:
        return false;
    }
}
