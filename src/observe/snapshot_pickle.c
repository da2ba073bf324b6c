// SPDX-License-Identifier: Apache-2.0
/* PyTorch's memory snapshot is a dictionary of lists of dictionaries. Its keys and types are those
 * that version 2.11 writes, since its tools and its viewer read all of them. docs/snapshot.md says
 * which of Tarn's values stands where.
 *
 * Trade-offs: the format has no place for names of pools, tags and sequence numbers. Programs read
 * these in the snapshot itself. */
#include "observe/snapshot_pickle.h"

#include <stdio.h>

#include "base/contract.h"
#include "observe/pickle_frames.h"
#include "observe/writing.h"

/* Strings that come with each block or segment. */
#define WORDS(X)                                                                                   \
    X(ADDRESS, "address")                                                                          \
    X(SIZE, "size")                                                                                \
    X(REQUESTED_SIZE, "requested_size")                                                            \
    X(STATE, "state")                                                                              \
    X(FRAMES, "frames")                                                                            \
    X(ACTIVE_ALLOCATED, "active_allocated")                                                        \
    X(ACTIVE_PENDING_FREE, "active_pending_free")                                                  \
    X(INACTIVE, "inactive")                                                                        \
    X(DEVICE, "device")                                                                            \
    X(TOTAL_SIZE, "total_size")                                                                    \
    X(ALLOCATED_SIZE, "allocated_size")                                                            \
    X(ACTIVE_SIZE, "active_size")                                                                  \
    X(STREAM, "stream")                                                                            \
    X(SEGMENT_TYPE, "segment_type")                                                                \
    X(SMALL, "small")                                                                              \
    X(LARGE, "large")                                                                              \
    X(SEGMENT_POOL_ID, "segment_pool_id")                                                          \
    X(IS_EXPANDABLE, "is_expandable")                                                              \
    X(ACTION, "action")                                                                            \
    X(ADDR, "addr")                                                                                \
    X(DEVICE_FREE, "device_free")                                                                  \
    X(TIME_US, "time_us")                                                                          \
    X(POOL_ID, "pool_id")                                                                          \
    X(COMPILE_CONTEXT, "compile_context")                                                          \
    X(NOT_KNOWN, "N/A")                                                                            \
    X(USER_METADATA, "user_metadata")                                                              \
    X(EMPTY, "")                                                                                   \
    X(ALLOC, "alloc")                                                                              \
    X(FREE_REQUESTED, "free_requested")                                                            \
    X(FREE_COMPLETED, "free_completed")                                                            \
    X(SEGMENT_MAP, "segment_map")                                                                  \
    X(SEGMENT_UNMAP, "segment_unmap")                                                              \
    X(OOM, "oom")                                                                                  \
    X(SNAPSHOT, "snapshot")                                                                        \
    X(ANNOTATE, "annotate")                                                                        \
    X(NAME, "name")                                                                                \
    X(STAGE, "stage")                                                                              \
    X(START, "START")                                                                              \
    X(END, "END")                                                                                  \
    X(BLOCKS, "blocks")

enum word {
#define WORD_NUMBER(name, text) name,
    WORDS(WORD_NUMBER) WORD_COUNT
};

static const char *const texts[] = {
#define WORD_TEXT(name, text) text,
    WORDS(WORD_TEXT)};

/* Three are the frames'. */
_Static_assert((int)WORD_COUNT <= (int)TN_PICKLE_WORDS - 3, "a pickle has room for all words");

struct pickling {
    const struct tn_snapshot *snapshot;
    struct tn_pickle pickle;
    struct tn_pickle_frames frames;
};

static void put_word(struct tn_pickle *pickle, enum word word)
{
    tn_pickle_word(pickle, word, texts[word]);
}

static void put_integer(struct tn_pickle *pickle, enum word key, uint64_t value)
{
    put_word(pickle, key);
    tn_pickle_integer(pickle, (int64_t)value);
}

static void put_frames(struct pickling *pickling, uint32_t stack)
{
    put_word(&pickling->pickle, FRAMES);
    tn_pickle_frames_put(&pickling->frames, &pickling->pickle, stack);
}

/* The user of a DISCARDED block has not freed it. */
static enum word word_of(tarn_extent_state state)
{
    switch (state) {
    case TARN_EXTENT_LIVE:
    case TARN_EXTENT_DISCARDED:
        return ACTIVE_ALLOCATED;
    case TARN_EXTENT_PENDING:
        return ACTIVE_PENDING_FREE;
    default:
        return INACTIVE;
    }
}

/* There are many blocks. */
static void put_block(struct pickling *pickling, const tarn_snapshot_block *block)
{
    enum { VALUES = 9 };
    struct tn_pickle *pickle = &pickling->pickle;
    const enum word state = word_of(block->state);
    unsigned char *at;

    tn_pickle_begin_dict(pickle);
    at = tn_pickle_room(pickle, VALUES * TN_PICKLE_VALUE_BYTES);
    at = tn_pickle_write_word(pickle, at, ADDRESS, texts[ADDRESS]);
    at = tn_pickle_write_integer(at, (int64_t)(uintptr_t)block->address);
    at = tn_pickle_write_word(pickle, at, SIZE, texts[SIZE]);
    at = tn_pickle_write_integer(at, (int64_t)block->block_bytes);
    at = tn_pickle_write_word(pickle, at, REQUESTED_SIZE, texts[REQUESTED_SIZE]);
    at = tn_pickle_write_integer(at, (int64_t)block->bytes);
    at = tn_pickle_write_word(pickle, at, STATE, texts[STATE]);
    at = tn_pickle_write_word(pickle, at, state, texts[state]);
    at = tn_pickle_write_word(pickle, at, FRAMES, texts[FRAMES]);
    tn_pickle_end_room(pickle, at);
    tn_pickle_frames_put(&pickling->frames, pickle,
                         tn_snapshot_stack_of(pickling->snapshot, block));
    tn_pickle_end_dict(pickle);
}

/* PyTorch's default pool is (0, 0). */
static void put_pool(struct tn_pickle *pickle, const tarn_snapshot_pool *pool)
{
    bool is_default = pool->kind == TARN_POOL_DEFAULT;

    put_word(pickle, SEGMENT_POOL_ID);
    tn_pickle_pair(pickle, 0, is_default ? 0 : (int64_t)pool->number);
}

static void put_segment(struct pickling *pickling, const tarn_snapshot_segment *segment)
{
    struct tn_pickle *pickle = &pickling->pickle;

    tn_pickle_begin_dict(pickle);
    put_integer(pickle, DEVICE, (uint64_t)pickling->snapshot->read.device);
    put_integer(pickle, ADDRESS, (uintptr_t)segment->address);
    put_integer(pickle, TOTAL_SIZE, segment->bytes);
    put_integer(pickle, ALLOCATED_SIZE, segment->allocated_bytes);
    put_integer(pickle, ACTIVE_SIZE, segment->active_bytes);
    put_integer(pickle, REQUESTED_SIZE, segment->requested_bytes);
    put_integer(pickle, STREAM, (uintptr_t)segment->stream);
    put_word(pickle, SEGMENT_TYPE);
    put_word(pickle, segment->is_small ? SMALL : LARGE);
    put_pool(pickle, segment->pool);
    put_word(pickle, IS_EXPANDABLE);
    tn_pickle_boolean(pickle, true);
    put_frames(pickling, TN_STACKS_NONE);
    put_word(pickle, BLOCKS);
    tn_pickle_begin_list(pickle);
    for (size_t i = 0; i < segment->block_count; i++)
        put_block(pickling, &segment->blocks[i]);
    tn_pickle_end_list(pickle);
    tn_pickle_end_dict(pickle);
}

static void put_segments(struct pickling *pickling)
{
    const tarn_snapshot *snapshot = &pickling->snapshot->read;

    tn_pickle_string(&pickling->pickle, "segments");
    tn_pickle_begin_list(&pickling->pickle);
    for (size_t i = 0; i < snapshot->segment_count; i++)
        put_segment(pickling, &snapshot->segments[i]);
    tn_pickle_end_list(&pickling->pickle);
}

static void put_event(struct pickling *pickling, const struct tn_trace_event *event)
{
    static const enum word actions[] = {
        [TN_TRACE_ALLOC] = ALLOC,
        [TN_TRACE_FREE_REQUESTED] = FREE_REQUESTED,
        [TN_TRACE_FREE_COMPLETED] = FREE_COMPLETED,
        [TN_TRACE_SEGMENT_MAP] = SEGMENT_MAP,
        [TN_TRACE_SEGMENT_UNMAP] = SEGMENT_UNMAP,
        [TN_TRACE_OOM] = OOM,
        [TN_TRACE_SNAPSHOT] = SNAPSHOT,
        [TN_TRACE_ANNOTATE] = ANNOTATE,
    };
    struct tn_pickle *pickle = &pickling->pickle;

    tn_pickle_begin_dict(pickle);
    put_word(pickle, ACTION);
    put_word(pickle, actions[event->action]);
    put_integer(pickle, event->action == TN_TRACE_OOM ? DEVICE_FREE : ADDR, event->address);
    put_integer(pickle, SIZE, event->bytes);
    put_integer(pickle, STREAM, event->stream);
    put_integer(pickle, TIME_US, event->time_us);
    put_word(pickle, POOL_ID);
    tn_pickle_pair(pickle, 0, (int64_t)event->pool);
    put_word(pickle, COMPILE_CONTEXT);
    put_word(pickle, NOT_KNOWN);
    put_word(pickle, USER_METADATA);
    if (event->text[0] == '\0')
        put_word(pickle, EMPTY);
    else
        tn_pickle_string(pickle, event->text);
    put_frames(pickling, event->stack);
    tn_pickle_end_dict(pickle);
}

/* A list for each device up to this one: readers choose by ordinal. */
static void put_traces(struct pickling *pickling)
{
    const struct tn_snapshot *snapshot = pickling->snapshot;
    struct tn_pickle *pickle = &pickling->pickle;
    const int device = snapshot->read.device;

    tn_pickle_string(pickle, "device_traces");
    tn_pickle_begin_list(pickle);
    for (int ordinal = 0; ordinal <= device; ordinal++) {
        tn_pickle_begin_list(pickle);
        for (size_t i = 0; ordinal == device && i < snapshot->event_count; i++) {
            if (snapshot->events[i].action != TN_TRACE_USE) /* PyTorch has none */
                put_event(pickling, &snapshot->events[i]);
        }
        tn_pickle_end_list(pickle);
    }
    tn_pickle_end_list(pickle);
}

static void put_ranges(struct tn_pickle *pickle, const struct tn_snapshot *snapshot)
{
    tn_pickle_string(pickle, "external_annotations");
    tn_pickle_begin_list(pickle);
    for (size_t i = 0; i < snapshot->range_count; i++) {
        const struct tn_trace_range *range = &snapshot->ranges[i];

        tn_pickle_begin_dict(pickle);
        put_word(pickle, NAME);
        tn_pickle_string(pickle, range->name);
        put_word(pickle, STAGE);
        put_word(pickle, range->ends ? END : START);
        put_word(pickle, DEVICE);
        tn_pickle_integer(pickle, snapshot->read.device);
        put_integer(pickle, TIME_US, range->time_us);
        tn_pickle_end_dict(pickle);
    }
    tn_pickle_end_list(pickle);
}

static void put_flag(struct tn_pickle *pickle, const char *key, bool value)
{
    tn_pickle_string(pickle, key);
    tn_pickle_boolean(pickle, value);
}

static void put_setting(struct tn_pickle *pickle, const char *key, int64_t value)
{
    tn_pickle_string(pickle, key);
    tn_pickle_integer(pickle, value);
}

/* The divisions of each size, whose key is its number of MiB. */
static void put_divisions(struct tn_pickle *pickle, const struct tn_snapshot *snapshot)
{
    tn_pickle_string(pickle, "roundup_power2_divisions");
    tn_pickle_begin_dict(pickle);
    for (size_t i = 0; i < TARN_ROUNDUP_SIZES; i++) {
        char key[16];

        (void)snprintf(key, sizeof key, "%u", 1U << i);
        put_setting(pickle, key, snapshot->roundup_divisions[i]);
    }
    tn_pickle_end_dict(pickle);
}

/* PyTorch's settings, with the values that describe Tarn: segments grow, any block may be cut, and
 * nothing is collected beforehand. */
static void put_settings(struct tn_pickle *pickle, const struct tn_snapshot *snapshot)
{
    tn_pickle_string(pickle, "allocator_settings");
    tn_pickle_begin_dict(pickle);
    tn_pickle_string(pickle, "PYTORCH_CUDA_ALLOC_CONF");
    tn_pickle_string(pickle, "");
    put_setting(pickle, "max_split_size", -1);
    tn_pickle_string(pickle, "garbage_collection_threshold");
    tn_pickle_float(pickle, 0);
    put_flag(pickle, "expandable_segments", true);
    put_setting(pickle, "pinned_num_register_threads", 1);
    put_flag(pickle, "release_lock_on_cudamalloc", false);
    put_flag(pickle, "pinned_use_cuda_host_register", false);
    put_flag(pickle, "graph_capture_record_stream_reuse", snapshot->record_stream_reuse);
    put_divisions(pickle, snapshot);
    tn_pickle_end_dict(pickle);
}

static void put_all(struct pickling *pickling)
{
    struct tn_pickle *pickle = &pickling->pickle;

    tn_pickle_begin_dict(pickle);
    put_segments(pickling);
    put_traces(pickling);
    put_settings(pickle, pickling->snapshot);
    put_ranges(pickle, pickling->snapshot);
    tn_pickle_end_dict(pickle);
}

tarn_status tn_snapshot_write_pytorch(const struct tn_snapshot *snapshot, tarn_writer writer,
                                      void *user)
{
    struct tn_writing writing = {.writer = writer, .user = user};
    struct pickling pickling = {.snapshot = snapshot};
    tarn_status status = tn_pickle_frames_begin(&pickling.frames, &snapshot->stacks);

    if (status != TARN_OK)
        return status;
    status = tn_pickle_begin(&pickling.pickle, tn_write_part, &writing);
    if (status == TARN_OK) {
        put_all(&pickling);
        status = tn_pickle_end(&pickling.pickle);
    }
    tn_pickle_frames_end(&pickling.frames);
    return status;
}
