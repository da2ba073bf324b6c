// SPDX-License-Identifier: Apache-2.0
#include "base/note.h"

#include "base/contract.h"

size_t tn_note_operand_count(enum tn_note note)
{
    static const uint8_t counts[TN_NOTES] = {
        [TN_NOTE_SEGMENT_RESERVED] = 2,
        [TN_NOTE_SEGMENT_DROPPED] = 2,
        [TN_NOTE_MEMORY_CREATED] = 2,
        [TN_NOTE_MEMORY_CACHED] = 2,
        [TN_NOTE_MEMORY_REUSED] = 2,
        [TN_NOTE_MEMORY_RELEASED] = 2,
        [TN_NOTE_MAPPED] = 3,
        [TN_NOTE_MOVED] = 3,
        [TN_NOTE_UNMAPPED] = 3,
        [TN_NOTE_POOL_CREATED] = 1,
        [TN_NOTE_POOL_DESTROYED] = 0,
        [TN_NOTE_ARENA_BEGUN] = 3,
        [TN_NOTE_ARENA_ENDED] = 1,
        [TN_NOTE_MAGAZINE_BEGUN] = 2,
        [TN_NOTE_MAGAZINE_ENDED] = 1,
        [TN_NOTE_ROUTE_BEGUN] = 1,
        [TN_NOTE_ROUTE_ENDED] = 1,
        [TN_NOTE_CAPTURE_BEGUN] = 2,
        [TN_NOTE_CAPTURE_ENDED] = 1,
        [TN_NOTE_CAPTURE_ABORTED] = 1,
        [TN_NOTE_GRAPH_MADE] = 2,
        [TN_NOTE_GRAPH_UPDATED] = 2,
        [TN_NOTE_GRAPH_REPLAYED] = 2,
        [TN_NOTE_GRAPH_DESTROYED] = 1,
        [TN_NOTE_HOLD_TAKEN] = 2,
        [TN_NOTE_HOLD_DROPPED] = 1,
        [TN_NOTE_CHECKPOINT_TAKEN] = 2,
        [TN_NOTE_CHECKPOINT_RESTORED] = 1,
        [TN_NOTE_CHECKPOINT_DROPPED] = 1,
        [TN_NOTE_STREAM_USED] = 3,
        [TN_NOTE_STREAM_RETIRED] = 1,
        [TN_NOTE_FENCE_RECORDED] = 1,
        [TN_NOTE_FENCE_DONE] = 1,
        [TN_NOTE_RUNG] = 2,
        [TN_NOTE_OUT_OF_MEMORY] = 3,
        [TN_NOTE_TRIMMED] = 2,
        [TN_NOTE_SNAPSHOT] = 1,
        [TN_NOTE_ANNOTATED] = 3,
        [TN_NOTE_SHARED] = 3,
        [TN_NOTE_LEASES_ENDED] = 3,
        [TN_NOTE_PEER_LOST] = 2,
        [TN_NOTE_SHARE_OPENED] = 3,
        [TN_NOTE_SHARE_RETURNED] = 3,
        [TN_NOTE_IMPORT_MAPPED] = 3,
        [TN_NOTE_IMPORT_UNMAPPED] = 2,
    };

    TN_ASSERT(note > 0 && note < TN_NOTES);
    return counts[note];
}

void tn_note_put(struct tn_ring *ring, enum tn_note note, uint64_t pool,
                 const uint64_t operands[TN_NOTE_OPERANDS_MAX])
{
    const uint64_t value = pool << TN_NOTE_BITS | (uint64_t)note;
    struct tn_ring_writer *writer;

    if (tn_ring_skips(ring, tn_note_bit(note)))
        return;
    writer = tn_ring_enter(ring);
    tn_ring_put_stamp(writer);
    tn_ring_put_more(writer, TN_RING_NOTE, value, operands, tn_note_operand_count(note));
    tn_ring_exit(writer);
}

bool tn_note_read(const uint64_t *words, struct tn_note_words *read)
{
    const uint64_t value = tn_ring_value(words[0]);
    const uint64_t note = value & ((UINT64_C(1) << TN_NOTE_BITS) - 1);

    if (tn_ring_kind(words[0]) != TN_RING_NOTE || note == 0 || note >= TN_NOTES ||
        tn_ring_words(words[0]) != 1 + tn_note_operand_count((enum tn_note)note))
        return false;
    *read = (struct tn_note_words){.note = (enum tn_note)note, .pool = value >> TN_NOTE_BITS};
    for (size_t i = 1; i < tn_ring_words(words[0]); i++)
        read->operands[i - 1] = words[i];
    if (note == TN_NOTE_MEMORY_CREATED || note == TN_NOTE_MAPPED) {
        read->stack = (uint32_t)(read->operands[1] >> 32);
        read->operands[1] &= UINT32_MAX;
    }
    return true;
}
