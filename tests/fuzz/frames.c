// SPDX-License-Identifier: Apache-2.0
/* Inputs of the model: frames are changed, left out, repeated and inserted. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "model/model.h"

const char *const fuzz_name = "model";

void fuzz_begin(void)
{
    model_repeat_with("");
}

static size_t frames_of(size_t size)
{
    return size > MODEL_HEAD_BYTES ? (size - MODEL_HEAD_BYTES) / MODEL_FRAME_BYTES : 0;
}

static uint8_t *frame_at(uint8_t *bytes, size_t frame)
{
    return bytes + MODEL_HEAD_BYTES + frame * MODEL_FRAME_BYTES;
}

/* Makes room for frames before one, or takes them away; how many there are then. */
static size_t resize(uint8_t *bytes, size_t frames, size_t at, size_t take, size_t give)
{
    size_t most = (FUZZ_BYTES_MAX - MODEL_HEAD_BYTES) / MODEL_FRAME_BYTES;

    if (frames - take + give > most)
        return frames;
    memmove(frame_at(bytes, at + give), frame_at(bytes, at + take),
            (frames - at - take) * MODEL_FRAME_BYTES);
    return frames - take + give;
}

static size_t change(uint8_t *bytes, size_t frames, const struct fuzz_input *other)
{
    size_t at = fuzz_below(frames + 1);
    size_t count = 1 + fuzz_below(4);
    size_t from;

    switch (fuzz_below(7)) {
    case 0:
        bytes[fuzz_below(MODEL_HEAD_BYTES)] = (uint8_t)fuzz_below(256);
        return frames;
    case 1:
    case 2: /* another choice in a step */
        if (at < frames)
            frame_at(bytes, at)[fuzz_below(MODEL_FRAME_BYTES)] = (uint8_t)fuzz_below(256);
        return frames;
    case 3: /* another step */
        if (at < frames)
            model_random_frame(&fuzz_random, frame_at(bytes, at));
        return frames;
    case 4: /* one more */
        from = resize(bytes, frames, at, 0, 1);
        if (from > frames)
            model_random_frame(&fuzz_random, frame_at(bytes, at));
        return from;
    case 5: /* fewer */
        return at + count <= frames ? resize(bytes, frames, at, count, 0) : frames;
    default: /* some of another input */
        if (frames_of(other->size) < count)
            return frames;
        from = fuzz_below(frames_of(other->size) - count + 1);
        if (resize(bytes, frames, at, 0, count) == frames)
            return frames;
        memcpy(frame_at(bytes, at), frame_at(other->bytes, from), count * MODEL_FRAME_BYTES);
        return frames + count;
    }
}

size_t fuzz_change(uint8_t *bytes, size_t size, const struct fuzz_input *other)
{
    return MODEL_HEAD_BYTES + change(bytes, frames_of(size), other) * MODEL_FRAME_BYTES;
}
