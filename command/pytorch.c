// SPDX-License-Identifier: Apache-2.0
/* docs/snapshot.md has the fields. What PyTorch calls a segment is a run of mapped memory here, by the notes of the
 * log and the live blocks: where the log has lost the note of a mapping, each live block is a segment. A list
 * of frames is written once, and named by its number from then on. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/host.h"
#include "base/title.h"
#include "formats.h"
#include "intern.h"
#include "observe/pickle.h"

enum { KIB_512 = 512 << 10 }; /* larger blocks are "large" */

/* Mapped memory, or a live block. */
struct piece {
    uint64_t begin;
    uint64_t end;
    uint64_t pool;
    const struct tn_told_block *block; /* NULL: memory */
};

struct pytorch {
    struct tale *tale;
    FILE *file;
    struct tn_pickle pickle;
    struct piece *pieces;
    size_t piece_count;
    size_t piece_capacity;
    struct intern stacks; /* whose lists are written */
    bool is_broken;
};

static tarn_status write_part(void *context, const void *bytes, size_t count)
{
    (void)fwrite(bytes, 1, count, context); /* out.h sees a failure */
    return TARN_OK;
}

static void put_number(struct tn_pickle *pickle, const char *key, uint64_t value)
{
    tn_pickle_string(pickle, key);
    tn_pickle_integer(pickle, value <= INT64_MAX ? (int64_t)value : INT64_MAX);
}

static void put_text(struct tn_pickle *pickle, const char *key, const char *text)
{
    tn_pickle_string(pickle, key);
    tn_pickle_string(pickle, text);
}

static void put_pool(struct tn_pickle *pickle, const char *key, uint64_t pool)
{
    tn_pickle_string(pickle, key);
    tn_pickle_pair(pickle, 0, pool <= INT64_MAX ? (int64_t)pool : 0);
}

static void put_frame(struct tn_pickle *pickle, const char *file, uint64_t line, const char *name)
{
    tn_pickle_begin_dict(pickle);
    put_text(pickle, "filename", file);
    put_number(pickle, "line", line);
    put_text(pickle, "name", name);
    tn_pickle_end_dict(pickle);
}

/* A pickle's texts are UTF-8. */
static void clean(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || (unsigned char)*text > '~')
            *text = '?';
    }
}

static void put_address(struct pytorch *pytorch, uint64_t address)
{
    struct symbol symbol;

    symbols_find(pytorch->tale->symbols, address, &symbol);
    for (unsigned i = 0; i < symbol.count; i++) {
        struct function_at *function = &symbol.functions[i];
        char module[SYMBOL_FILE_BYTES];

        (void)snprintf(module, sizeof module, "%.*s", SYMBOL_FILE_BYTES - 1,
                       symbol.module != NULL ? symbol.module->path : "??");
        clean(function->name);
        clean(function->file);
        clean(module);
        if (function->file[0] != '\0')
            put_frame(&pytorch->pickle, function->file, function->line, function->name);
        else
            put_frame(&pytorch->pickle, module, symbol.offset,
                      function->name[0] != '\0' ? function->name : "??");
    }
}

static const char *read_title(const struct pytorch *pytorch, uint64_t frame,
                              struct tn_title_text *title)
{
    if (tn_title_read(&pytorch->tale->history.stacks, (uint32_t)frame, title) != TN_SCROLL_READ)
        title->text[0] = '\0';
    clean(title->text);
    return title->text;
}

static bool is_label(uint64_t frame)
{
    return (frame & TN_STACK_TITLE) != 0 && tn_stack_title_of(frame, TN_STACK_LABEL) != 0;
}

static void read_frames(const struct pytorch *pytorch, uint64_t stack, struct tn_stack *frames)
{
    frames->count = 0;
    if (stack > UINT32_MAX ||
        tn_stacks_read(&pytorch->tale->history.stacks, (uint32_t)stack, frames) != TN_SCROLL_READ)
        frames->count = 0;
}

static void put_list(struct pytorch *pytorch, const struct tn_stack *frames)
{
    struct tn_title_text title;

    tn_pickle_begin_list(&pytorch->pickle);
    for (size_t i = 0; i < frames->count; i++) {
        if (is_label(frames->frames[i]))
            continue;
        if ((frames->frames[i] & TN_STACK_TITLE) != 0)
            put_frame(&pytorch->pickle, "??", 0, read_title(pytorch, frames->frames[i], &title));
        else
            put_address(pytorch, frames->frames[i] - 1);
    }
    tn_pickle_end_list(&pytorch->pickle);
}

/* The label of the stack, and its frames. */
static void put_stack(struct pytorch *pytorch, uint64_t stack)
{
    struct tn_title_text title;
    struct tn_stack frames;
    char key[32];
    bool is_new;
    int64_t number;

    read_frames(pytorch, stack, &frames);
    put_text(&pytorch->pickle, "user_metadata",
             frames.count > 0 && is_label(frames.frames[0])
                 ? read_title(pytorch, frames.frames[0], &title)
                 : "");
    (void)snprintf(key, sizeof key, "%" PRIu64, stack);
    number = intern_add(&pytorch->stacks, key, &is_new);
    pytorch->is_broken = pytorch->is_broken || number == INTERN_NONE;
    tn_pickle_string(&pytorch->pickle, "frames");
    if (!is_new && number != INTERN_NONE) {
        tn_pickle_again(&pytorch->pickle, TN_PICKLE_WORDS + (uint32_t)number);
        return;
    }
    put_list(pytorch, &frames);
    if (number != INTERN_NONE)
        tn_pickle_keep(&pytorch->pickle, TN_PICKLE_WORDS + (uint32_t)number);
}

static bool add_piece(struct pytorch *pytorch, struct piece piece)
{
    void *pieces = pytorch->pieces;

    if (piece.end <= piece.begin)
        return true; /* a foreign file's */
    if (!tn_host_grow(&pieces, &pytorch->piece_capacity, pytorch->piece_count + 1, sizeof piece))
        return false;
    pytorch->pieces = pieces;
    pytorch->pieces[pytorch->piece_count++] = piece;
    return true;
}

/* By address; memory before the blocks in it. */
static int compare_pieces(const void *a, const void *b)
{
    const struct piece *left = a;
    const struct piece *right = b;

    if (left->begin != right->begin)
        return left->begin < right->begin ? -1 : 1;
    return (left->block != NULL) - (right->block != NULL);
}

/* Memory that no later note unmaps: an unmapping takes the newest mapping of its address. */
static bool list_memory(struct pytorch *pytorch)
{
    const struct story *story = &pytorch->tale->story;
    const struct tn_note_words none = {.pool = 0};

    for (size_t i = 0; i < story->count; i++) {
        const struct tn_note_words *note =
            story->all[i].kind == CHANGE_NOTE ? &story->notes[story->all[i].block] : &none;
        const bool is_moved = note->note == TN_NOTE_MOVED;
        const uint64_t begin = note->operands[is_moved ? 1 : 0];
        const uint64_t bytes = note->operands[is_moved ? 2 : 1];

        if (note->note == TN_NOTE_UNMAPPED) {
            for (size_t j = pytorch->piece_count; j > 0; j--) {
                if (pytorch->pieces[j - 1].begin != begin)
                    continue;
                pytorch->pieces[j - 1] = pytorch->pieces[--pytorch->piece_count];
                break;
            }
        } else if (is_moved || note->note == TN_NOTE_MAPPED) {
            if (!add_piece(pytorch, (struct piece){begin, begin + bytes, note->pool, NULL}))
                return false;
        }
    }
    return true;
}

static bool list_pieces(struct pytorch *pytorch)
{
    const struct tn_told *told = &pytorch->tale->told;

    if (!list_memory(pytorch))
        return false;
    for (size_t i = 0; i < told->count; i++) {
        const struct tn_told_block *block = &told->blocks[i];
        const struct piece piece = {block->address, block->address + block->bytes, block->pool,
                                    block};

        if (!add_piece(pytorch, piece))
            return false;
    }
    if (pytorch->piece_count > 0)
        qsort(pytorch->pieces, pytorch->piece_count, sizeof *pytorch->pieces, compare_pieces);
    return true;
}

static void put_block(struct pytorch *pytorch, uint64_t address, uint64_t end,
                      const struct tn_told_block *block)
{
    struct tn_pickle *pickle = &pytorch->pickle;

    tn_pickle_begin_dict(pickle);
    put_number(pickle, "address", address);
    put_number(pickle, "size", end - address);
    put_number(pickle, "requested_size", block != NULL ? block->requested : 0);
    put_text(pickle, "state", block != NULL ? "active_allocated" : "inactive");
    put_stack(pytorch, block != NULL ? block->stack : TN_STACKS_NONE);
    tn_pickle_end_dict(pickle);
}

/* The blocks of a segment, and what is free between them. */
static void put_blocks(struct pytorch *pytorch, const struct piece *pieces, size_t count,
                       uint64_t end)
{
    uint64_t at = pieces[0].begin;

    tn_pickle_string(&pytorch->pickle, "blocks");
    tn_pickle_begin_list(&pytorch->pickle);
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].block == NULL || pieces[i].begin < at)
            continue;
        if (pieces[i].begin > at)
            put_block(pytorch, at, pieces[i].begin, NULL);
        put_block(pytorch, pieces[i].begin, pieces[i].end, pieces[i].block);
        at = pieces[i].end;
    }
    if (at < end)
        put_block(pytorch, at, end, NULL);
    tn_pickle_end_list(&pytorch->pickle);
}

static void put_segment(struct pytorch *pytorch, const struct piece *pieces, size_t count,
                        uint64_t end)
{
    struct tn_pickle *pickle = &pytorch->pickle;
    uint64_t largest = 0;
    uint64_t bytes = 0;
    uint64_t requested = 0;

    TN_ASSERT(count > 0 && end > pieces[0].begin);
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].block == NULL)
            continue;
        largest = tn_max(largest, pieces[i].block->bytes);
        bytes += pieces[i].block->bytes;
        requested += pieces[i].block->requested;
    }
    tn_pickle_begin_dict(pickle);
    put_number(pickle, "device", 0);
    put_number(pickle, "address", pieces[0].begin);
    put_number(pickle, "total_size", end - pieces[0].begin);
    put_number(pickle, "allocated_size", bytes);
    put_number(pickle, "active_size", bytes);
    put_number(pickle, "requested_size", requested);
    put_number(pickle, "stream", 0);
    put_text(pickle, "segment_type", largest > KIB_512 ? "large" : "small");
    put_pool(pickle, "segment_pool_id", pieces[0].pool);
    tn_pickle_string(pickle, "is_expandable");
    tn_pickle_boolean(pickle, true);
    tn_pickle_string(pickle, "frames");
    tn_pickle_begin_list(pickle);
    tn_pickle_end_list(pickle);
    put_blocks(pytorch, pieces, count, end);
    tn_pickle_end_dict(pickle);
}

/* Pieces of one pool that touch are one segment. */
static void put_segments(struct pytorch *pytorch)
{
    tn_pickle_string(&pytorch->pickle, "segments");
    tn_pickle_begin_list(&pytorch->pickle);
    for (size_t begin = 0, next; begin < pytorch->piece_count; begin = next) {
        const struct piece *pieces = pytorch->pieces;
        uint64_t end = pieces[begin].end;

        for (next = begin + 1; next < pytorch->piece_count; next++) {
            if (pieces[next].begin > end || pieces[next].pool != pieces[begin].pool)
                break;
            end = tn_max(end, pieces[next].end);
        }
        put_segment(pytorch, pieces + begin, next - begin, end);
    }
    tn_pickle_end_list(&pytorch->pickle);
}

struct entry {
    const char *action;
    uint64_t address;
    uint64_t bytes;
    uint64_t stack;
};

static void put_entry(struct pytorch *pytorch, const struct change *change, struct entry entry)
{
    const struct owner *owner = owners_find(&pytorch->tale->owners, change->writer);
    struct tn_pickle *pickle = &pytorch->pickle;

    tn_pickle_begin_dict(pickle);
    put_text(pickle, "action", entry.action);
    put_number(pickle, entry.action[0] == 'o' ? "device_free" : "addr", entry.address);
    put_number(pickle, "size", entry.bytes);
    put_number(pickle, "stream", owner != NULL ? owner->stream : 0);
    put_number(pickle, "time_us", change->time / 1000);
    put_pool(pickle, "pool_id", change->pool);
    put_text(pickle, "compile_context", "N/A");
    put_stack(pytorch, entry.stack);
    tn_pickle_end_dict(pickle);
}

static void put_note(struct pytorch *pytorch, const struct change *change)
{
    const struct tn_note_words *note = &pytorch->tale->story.notes[change->block];
    const uint64_t *operands = note->operands;

    switch (note->note) {
    case TN_NOTE_MAPPED:
        put_entry(pytorch, change,
                  (struct entry){"segment_map", operands[0], operands[1], note->stack});
        break;
    case TN_NOTE_MOVED:
        put_entry(pytorch, change, (struct entry){"segment_map", operands[1], operands[2], 0});
        break;
    case TN_NOTE_UNMAPPED:
        put_entry(pytorch, change, (struct entry){"segment_unmap", operands[0], operands[1], 0});
        break;
    case TN_NOTE_OUT_OF_MEMORY:
        put_entry(pytorch, change, (struct entry){"oom", operands[1], operands[0], 0});
        break;
    default:
        break;
    }
}

static void put_change(struct pytorch *pytorch, const struct change *change)
{
    struct entry entry = {"alloc", change->address, change->requested, change->stack};

    if (change->kind == CHANGE_NOTE)
        put_note(pytorch, change);
    if (change->kind == CHANGE_ALLOC)
        put_entry(pytorch, change, entry);
    if (change->kind != CHANGE_FREE)
        return;
    entry.action = "free_requested";
    put_entry(pytorch, change, entry);
    entry.action = "free_completed";
    put_entry(pytorch, change, entry);
}

static void put_ranges(struct pytorch *pytorch)
{
    const struct tale *tale = pytorch->tale;
    struct tn_pickle *pickle = &pytorch->pickle;

    tn_pickle_string(pickle, "external_annotations");
    tn_pickle_begin_list(pickle);
    for (size_t i = 0; i < tale->ranges.count; i++) {
        const struct tn_told_range *range = &tale->ranges.all[i];
        struct tn_title_text title;

        tn_pickle_begin_dict(pickle);
        put_text(pickle, "name", read_title(pytorch, range->title, &title));
        put_text(pickle, "stage", range->ends ? "END" : "START");
        put_number(pickle, "device", 0);
        put_number(pickle, "time_us", history_time(&tale->history, range->time) / 1000);
        tn_pickle_end_dict(pickle);
    }
    tn_pickle_end_list(pickle);
}

static void put_all(struct pytorch *pytorch)
{
    const struct story *story = &pytorch->tale->story;
    struct tn_pickle *pickle = &pytorch->pickle;

    tn_pickle_begin_dict(pickle);
    put_segments(pytorch);
    tn_pickle_string(pickle, "device_traces");
    tn_pickle_begin_list(pickle);
    tn_pickle_begin_list(pickle);
    for (size_t i = 0; !pytorch->is_broken && i < story->count; i++)
        put_change(pytorch, &story->all[i]);
    tn_pickle_end_list(pickle);
    tn_pickle_end_list(pickle);
    tn_pickle_string(pickle, "allocator_settings");
    tn_pickle_begin_dict(pickle);
    tn_pickle_string(pickle, "expandable_segments");
    tn_pickle_boolean(pickle, true);
    tn_pickle_end_dict(pickle);
    put_ranges(pytorch);
    tn_pickle_end_dict(pickle);
}

bool format_pytorch(struct tale *tale, FILE *file)
{
    struct pytorch pytorch = {.tale = tale, .file = file};
    bool done =
        list_pieces(&pytorch) && tn_pickle_begin(&pytorch.pickle, write_part, file) == TARN_OK;

    if (done) {
        put_all(&pytorch);
        done = tn_pickle_end(&pytorch.pickle) == TARN_OK && !pytorch.is_broken;
    }
    tn_host_free(pytorch.pieces);
    intern_free(&pytorch.stacks);
    return done;
}
