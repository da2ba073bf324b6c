// SPDX-License-Identifier: Apache-2.0
/* A stack's id is the place of its record, and so the index of its list. Frames are found by hashing
 * with linear probing. There are fewer frames than words, and twice as many places. */
#include "observe/pickle_frames.h"

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "base/title.h"

struct tn_pickled_frame {
    uint64_t frame; /* 0: none */
    uint32_t number;
};

/* Strings that come with each frame: words of the pickle behind the snapshot's. */
enum { FILENAME = TN_PICKLE_WORDS - 3, LINE, NAME };

tarn_status tn_pickle_frames_begin(struct tn_pickle_frames *frames,
                                   const struct tn_snapshot_stacks *stacks)
{
    const size_t word_count = stacks->stacks.word_count;
    const size_t places = (size_t)2 << tn_log2_floor(word_count + 1);

    *frames = (struct tn_pickle_frames){
        .stacks = stacks, .frame_mask = places - 1, .next = TN_PICKLE_WORDS};
    if (word_count == 0)
        return TARN_OK;
    frames->lists = tn_host_alloc(word_count, sizeof *frames->lists);
    frames->frames = tn_host_alloc(places, sizeof *frames->frames);
    if (frames->lists != NULL && frames->frames != NULL &&
        tn_naming_begin(&frames->naming, &stacks->modules))
        return TARN_OK;
    tn_pickle_frames_end(frames);
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for the stacks of a snapshot");
}

void tn_pickle_frames_end(struct tn_pickle_frames *frames)
{
    tn_naming_end(&frames->naming);
    tn_host_free(frames->lists);
    tn_host_free(frames->frames);
    frames->lists = NULL;
    frames->frames = NULL;
}

/* The frame's place, which may be empty. */
static struct tn_pickled_frame *find(const struct tn_pickle_frames *frames, uint64_t frame)
{
    size_t at = (size_t)(frame * TN_GOLDEN >> 32) & frames->frame_mask;

    TN_ASSERT(frame != 0);
    while (frames->frames[at].frame != 0 && frames->frames[at].frame != frame)
        at = (at + 1) & frames->frame_mask;
    return &frames->frames[at];
}

static void name_frame(const struct tn_pickle_frames *frames, uint64_t frame,
                       struct tn_frame_name *name)
{
    const struct tn_scroll_reader reader = tn_snapshot_stacks_reader(frames->stacks);
    struct tn_title_text title;

    if ((frame & TN_STACK_TITLE) == 0) {
        tn_name_frame(&frames->naming, frame, name);
        return;
    }
    if (tn_title_read(&reader, (uint32_t)frame, &title) != TN_SCROLL_READ)
        title.text[0] = '\0';
    tn_name_text(title.text, name);
}

/* Whether PyTorch would have the frame: a label is the allocation's metadata instead. */
static bool is_shown(uint64_t frame)
{
    return frame != 0 && tn_stack_title_of(frame, TN_STACK_LABEL) == 0;
}

static void put_frame(struct tn_pickle_frames *frames, struct tn_pickle *pickle, uint64_t frame)
{
    struct tn_pickled_frame *place = find(frames, frame);
    struct tn_frame_name name;

    if (place->frame == frame) {
        tn_pickle_again(pickle, place->number);
        return;
    }
    name_frame(frames, frame, &name);
    tn_pickle_begin_dict(pickle);
    tn_pickle_word(pickle, FILENAME, "filename");
    tn_pickle_string(pickle, name.path);
    tn_pickle_word(pickle, LINE, "line");
    tn_pickle_integer(pickle, (int64_t)name.offset);
    tn_pickle_word(pickle, NAME, "name");
    tn_pickle_string(pickle, name.function);
    tn_pickle_end_dict(pickle);
    *place = (struct tn_pickled_frame){frame, frames->next};
    tn_pickle_keep(pickle, frames->next);
    frames->next += 1;
}

void tn_pickle_frames_put(struct tn_pickle_frames *frames, struct tn_pickle *pickle, uint32_t id)
{
    struct tn_stack stack;

    if (id == TN_STACKS_NONE || id >= frames->stacks->stacks.word_count) {
        tn_pickle_begin_list(pickle);
        tn_pickle_end_list(pickle);
        return;
    }
    if (frames->lists[id] != 0) {
        tn_pickle_again(pickle, frames->lists[id]);
        return;
    }
    tn_snapshot_stack_read(frames->stacks, id, &stack);
    tn_pickle_begin_list(pickle);
    for (size_t i = 0; i < stack.count; i++) {
        if (is_shown(stack.frames[i]))
            put_frame(frames, pickle, stack.frames[i]);
    }
    tn_pickle_end_list(pickle);
    TN_ASSERT(frames->next >= TN_PICKLE_WORDS);
    frames->lists[id] = frames->next;
    tn_pickle_keep(pickle, frames->next);
    frames->next += 1;
}
