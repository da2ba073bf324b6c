// SPDX-License-Identifier: Apache-2.0
/* model.h -- random operations of the library beside a naive oracle.
 *
 * The oracle knows the calls that were made and what the headers promise of them, and nothing of how
 * the library works:
 *
 *   - blocks that the user holds, discarded ones included, overlap nothing else that is handed out;
 *     they are aligned, mapped, and keep what was written to them
 *   - memory is not handed out again before the recorded uses of its last block have ended, nor to
 *     another order before the work of its own has; within a capture, not before the capture's own
 *     dependencies say so
 *   - what a capture has touched serves no allocation outside captures of its pool, until its graph
 *     and all that was made of it are gone and its launches are done; in a pool that shares captured
 *     memory, what graphs hold serves everyone
 *   - bodies of conditional nodes that exclude each other share what is free at a body's end, and
 *     nothing else of one capture's bodies and streams is shared until it ends
 *   - memory is of the kind that its pool was made for, and only the pool's peers reach it
 *   - replays of graphs that share memory run one after the other
 *   - memory is short only where the driver or a limit makes it so, and nothing free is left
 *   - a misused call answers its status; a refused call changes nothing
 *   - blocks take what they are asked for, rounded up as the device's options say
 *   - what graphs hold, and what else is held, is what the pools say is held
 *   - statistics follow from the calls; extents tile the segments and show the live blocks
 *   - a restore's delta and live set, and with contents the bytes, are those of the checkpoint
 *
 * What a step does is decided by a frame of a few bytes, random ones or somebody's: the same
 * operations serve random runs and fuzzing, and a failing run is made smaller by leaving out frames.
 *
 * A broken promise ends the process, after the sentence and the line that repeats the run. */
#ifndef TARN_TESTS_MODEL_H
#define TARN_TESTS_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "tarn/tarn.h"

enum {
    MODEL_FRAME_BYTES = 12, /* of one step: its operation, then what that chooses by */
    MODEL_HEAD_BYTES = 4,   /* before the first step: see struct model_config */
};

/* How a run is done, made of its head. */
struct model_config {
    bool holds;      /* the simulated GPU works only when the model lets it: runs repeat exactly */
    bool faults;     /* driver calls are made to fail now and then */
    bool linear;     /* a tool is told of blocks, whose memory is not mapped: TARN_CONF says so */
    bool tight;      /* little device memory, and pools with limits */
    bool large;      /* pools of many blocks, with few looks at all of their state */
    bool legacy;     /* one of the streams is the legacy default stream */
    bool per_thread; /* or the thread's own default stream */
    tarn_unrouted unrouted; /* what becomes of allocations in captures that have no route */
    uint32_t divisions;     /* steps that sizes are rounded to, a power of two; 0: to 512 bytes */
    bool no_reuse;          /* what other streams of a capture used waits for its end */
};
struct model_config model_config(const uint8_t head[MODEL_HEAD_BYTES]);

struct model;

/* A model on a device of its own, which it closes at its end and finds empty. */
struct model *model_create(const struct model_config *config);

/* One of several models, each used by one thread, that share a device and some pools. */
struct model *model_create_shared(const struct model_config *config, tarn_device *device,
                                  tarn_pool *const *pools, size_t pool_count);

void model_step(struct model *model, const uint8_t frame[MODEL_FRAME_BYTES]);
void model_destroy(struct model *model);

/* Whole runs: of random steps, and of given bytes, a head and any number of frames. */
void model_run_random(uint64_t seed, uint64_t steps);
void model_run_bytes(const uint8_t *bytes, size_t size);

/* The bytes of a random run; the caller frees them. */
uint8_t *model_random_bytes(uint64_t seed, uint64_t steps, size_t *size);
void model_random_frame(uint64_t *random, uint8_t frame[MODEL_FRAME_BYTES]);

/* SplitMix64, by S. Vigna. */
uint64_t model_next(uint64_t *random);

/* What a failure prints to repeat the run; the text stays the caller's. */
void model_repeat_with(const char *line);

/* An environment variable's number, or otherwise. */
uint64_t model_setting(const char *name, uint64_t otherwise);

#endif
