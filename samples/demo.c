// SPDX-License-Identifier: Apache-2.0
/* demo.c -- a training run that meets trouble, and comes out as if it had not.
 *
 * A small neural network is trained by stochastic gradient descent. One training step (forward,
 * loss, backward, update) is one CUDA graph on a private pool: its activations and gradients are
 * allocated and freed inside the capture. It is trained twice, from the same seed:
 *
 *   1. undisturbed;
 *   2. with trouble: at one step an input that is not a number turns every weight into NaN. The
 *      pool is restored to its last checkpoint, addresses and bytes, and training goes on from
 *      there, with the same graph.
 *
 * In the end the weights of both runs must be equal, bit for bit. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/driver.h"
#include "common/kernels.h"
#include "common/map.h"
#include "common/network.h"
#include "common/random.h"
#include "tarn/tarn.h"

enum {
    INPUTS = 8,
    HIDDEN = 128,
    OUTPUTS = 2,
    BATCH = 32,
    STEPS = 200,
    REPORT_STEPS = 25,     /* a line every so many steps */
    CHECKPOINT_STEPS = 25, /* a checkpoint every so many steps */
    WARM_UP_STEPS = 60,    /* the first steps have a little noise added to their inputs */
    POISONED_STEP = 67,    /* behind the warm-up's end, and that behind the last checkpoint */
};
static const uint32_t sizes[NETWORK_LAYERS + 1] = {INPUTS, HIDDEN, HIDDEN, OUTPUTS};
static const float rate = 0.05F;

enum { INPUT_FLOATS = BATCH * INPUTS, TARGET_FLOATS = BATCH * OUTPUTS };

/* One training run: a pool, and what lives in it. */
typedef struct training {
    tarn_device *device;
    tarn_stream stream;
    tarn_pool *pool;
    network net;
    void *input;      /* of the current step: INPUT_FLOATS */
    void *target;     /* of the current step: TARGET_FLOATS */
    void *loss;       /* of the last step: one float */
    void *noise;      /* WARM_UP_STEPS x INPUT_FLOATS; freed when the warm-up is over */
    tarn_graph *step; /* the captured step */
} training;

static void *take_floats(tarn_pool *pool, tarn_stream stream, size_t count)
{
    void *block = NULL;
    CHECK(tarn_pool_malloc(pool, count * sizeof(float), 0, stream, &block));
    return block;
}

static void make_noise(training *t)
{
    size_t count = (size_t)WARM_UP_STEPS * INPUT_FLOATS;
    t->noise = take_floats(t->pool, t->stream, count);
    float *host = malloc(count * sizeof(float));
    REQUIRE(host != NULL);
    uint64_t random = 2;
    for (size_t i = 0; i < count; i++) {
        host[i] = 0.05F * random_uniform(&random);
    }
    sample_copy_to_device(t->stream, t->noise, host, count * sizeof(float));
    sample_synchronize(t->stream);
    free(host);
}

static void begin_training(training *t, tarn_device *device, tarn_stream stream, const char *name)
{
    t->device = device;
    t->stream = stream;
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    options.name = name;
    CHECK(tarn_pool_create(device, &options, &t->pool));

    /* What outlives a step is allocated before the capture, from the pool by name. */
    make_noise(t);
    network_create(&t->net, sizes, BATCH, 1, t->pool, stream);
    t->input = take_floats(t->pool, stream, INPUT_FLOATS);
    t->target = take_floats(t->pool, stream, TARGET_FLOATS);
    t->loss = take_floats(t->pool, stream, 1);
    /* The first checkpoint comes before the first step, and copies every byte that is live. */
    kernel_fill(stream, t->input, 0.0F, INPUT_FLOATS);
    kernel_fill(stream, t->target, 0.0F, TARGET_FLOATS);
    kernel_fill(stream, t->loss, 0.0F, 1);

    /* What a step needs in between is allocated in the capture, which routes it to the pool. */
    tarn_capture *capture = NULL;
    CHECK(tarn_capture_begin(t->pool, stream, NULL, &capture));
    network_step(&t->net, device, stream, t->input, t->target, rate, t->loss);
    CHECK(tarn_capture_end(capture, &t->step));
}

/* Ends the run: the graph first, then the blocks, then the pool, which refuses while a block is
 * live. So this too proves that nothing was forgotten. */
static void end_training(training *t)
{
    CHECK(tarn_graph_destroy(t->step));
    network_destroy(&t->net);
    CHECK(tarn_free(t->input));
    CHECK(tarn_free(t->target));
    CHECK(tarn_free(t->loss));
    CHECK(tarn_pool_destroy(t->pool));
}

/* The data of a step follow from its number alone: a step that is repeated sees the same. The
 * network has to learn two sums of products. */
static void make_batch(int step, float input[INPUT_FLOATS], float target[TARGET_FLOATS])
{
    uint64_t random = 1000 + (uint64_t)step;
    for (size_t i = 0; i < BATCH; i++) {
        float *x = &input[i * INPUTS];
        for (size_t j = 0; j < INPUTS; j++) {
            x[j] = random_uniform(&random);
        }
        target[i * OUTPUTS] = x[0] * x[1] + x[2] * x[3];
        target[i * OUTPUTS + 1] = x[4] * x[5] - x[6] * x[7];
    }
}

/* One step: a new batch into the static blocks, a replay, the loss back. */
static float train(training *t, int step, bool poisoned)
{
    float input[INPUT_FLOATS];
    float target[TARGET_FLOATS];
    make_batch(step, input, target);
    if (poisoned) {
        input[0] = NAN;
    }
    sample_copy_to_device(t->stream, t->input, input, sizeof(input));
    sample_copy_to_device(t->stream, t->target, target, sizeof(target));

    if (step < WARM_UP_STEPS) {
        const float *noise = (const float *)t->noise + (size_t)step * INPUT_FLOATS;
        kernel_axpy(t->stream, t->input, noise, 1.0F, INPUT_FLOATS);
    } else if (step == WARM_UP_STEPS) {
        CHECK(tarn_free(t->noise));
    }
    CHECK(tarn_graph_replay(t->step, t->stream));

    float loss = 0.0F;
    sample_copy_to_host(t->stream, &loss, t->loss, sizeof(loss));
    return loss;
}

static void report(const training *t, int step, float loss)
{
    if (step % REPORT_STEPS == 0 || step == STEPS - 1) {
        printf("  step %3d   loss %.6f   pool maps %.1f MiB\n", step, (double)loss,
               (double)map_mapped_bytes(t->pool) / (1 << 20));
    }
}

static void print_block(const char *what, const training *t, const tarn_block *block)
{
    map_place place = map_find(t->pool, block->address);
    printf("    %s %zu bytes at segment %zu + 0x%zx, sequence number %llu\n", what, block->bytes,
           place.segment, place.offset, (unsigned long long)block->sequence);
}

/* ---- the run without trouble ---------------------------------------------------------------- */

static void train_undisturbed(tarn_device *device, tarn_stream stream, float *weights)
{
    training t;
    begin_training(&t, device, stream, "undisturbed");
    for (int step = 0; step < STEPS; step++) {
        report(&t, step, train(&t, step, false));
    }
    network_read_weights(&t.net, stream, weights);
    end_training(&t);
}

/* ---- the run with trouble ------------------------------------------------------------------- */

/* How many weights are NaN, found on the device, in a scratch block with a float for each of them.
 * The block is left behind: the restore gets rid of it. */
static size_t count_bad_weights(training *t)
{
    size_t count = network_weight_count(&t->net);
    float *scratch = take_floats(t->pool, t->stream, count);
    float *next = scratch;
    for (size_t i = 0; i < NETWORK_LAYERS; i++) {
        const network_layer *layer = &t->net.layers[i];
        kernel_mark_nan(t->stream, next, layer->weights, layer->inputs * layer->outputs);
        next += layer->inputs * layer->outputs;
        kernel_mark_nan(t->stream, next, layer->bias, layer->outputs);
        next += layer->outputs;
    }

    float *marks = malloc(count * sizeof(float));
    REQUIRE(marks != NULL);
    sample_copy_to_host(t->stream, marks, scratch, count * sizeof(float));
    size_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        bad += marks[i] != 0.0F;
    }
    free(marks);
    return bad;
}

/* Replaces the last checkpoint by one of the pool's state now: which blocks are live, and what is
 * in them. The old one goes last, so there is always one. */
static void take_checkpoint(const training *t, tarn_checkpoint **checkpoint)
{
    tarn_checkpoint *fresh = NULL;
    CHECK(tarn_checkpoint_take(t->pool, TARN_CONTENTS_DEVICE, t->stream, &fresh));
    CHECK(tarn_checkpoint_destroy(*checkpoint));
    *checkpoint = fresh;
}

/* Puts the pool back. The weights get their bytes again; the scratch block is freed, since it was
 * not there; the noise, freed since, is live again at its old address. So t->noise holds good, as
 * does every address that is written into the graph. */
static void restore_checkpoint(const training *t, tarn_checkpoint *checkpoint)
{
    tarn_delta *delta = NULL;
    CHECK(tarn_checkpoint_restore(checkpoint, t->stream, &delta));
    for (size_t i = 0; i < delta->freed_count; i++) {
        print_block("freed  ", t, &delta->freed[i]);
    }
    for (size_t i = 0; i < delta->revived_count; i++) {
        print_block("revived", t, &delta->revived[i].block);
    }
    REQUIRE(delta->freed_count == 1);
    REQUIRE(delta->revived_count == 1 && delta->revived[0].block.address == t->noise);
    REQUIRE(!delta->revived[0].undefined);
    tarn_delta_destroy(delta);
    CHECK(tarn_pool_validate(t->pool));
}

/* Loses a block, and finds it: whatever is live in the pool but in no list of ours has leaked. */
static void lose_and_find_a_block(const training *t)
{
    (void)take_floats(t->pool, t->stream, 3000);

    tarn_expected expected[NETWORK_BLOCKS + 3];
    network_expect(&t->net, expected);
    expected[NETWORK_BLOCKS] = (tarn_expected){t->input, INPUT_FLOATS * sizeof(float)};
    expected[NETWORK_BLOCKS + 1] = (tarn_expected){t->target, TARGET_FLOATS * sizeof(float)};
    expected[NETWORK_BLOCKS + 2] = (tarn_expected){t->loss, sizeof(float)};

    tarn_live_diff *diff = NULL;
    CHECK(tarn_pool_check_live(t->pool, expected, NETWORK_BLOCKS + 3, &diff));
    REQUIRE(diff->count == 1 && diff->differences[0].kind == TARN_DIFFERENCE_UNEXPECTED);
    print_block("leaked ", t, &diff->differences[0].block);
    CHECK(tarn_free(diff->differences[0].block.address));
    tarn_live_diff_destroy(diff);

    CHECK(tarn_pool_check_live(t->pool, expected, NETWORK_BLOCKS + 3, &diff));
    REQUIRE(diff->count == 0);
    tarn_live_diff_destroy(diff);
}

static void train_with_trouble(tarn_device *device, tarn_stream stream, float *weights)
{
    training t;
    begin_training(&t, device, stream, "with trouble");
    tarn_checkpoint *checkpoint = NULL;
    int checkpoint_step = -1;
    bool trouble_ahead = true;

    int step = 0;
    while (step < STEPS) {
        if (step % CHECKPOINT_STEPS == 0 && step > checkpoint_step) {
            take_checkpoint(&t, &checkpoint);
            checkpoint_step = step;
        }
        float loss = train(&t, step, trouble_ahead && step == POISONED_STEP);
        if (isnan(loss)) {
            printf("  step %3d   loss NaN, and so are %zu of %zu weights; the pool:\n", step,
                   count_bad_weights(&t), network_weight_count(&t.net));
            map_draw(t.pool);
            printf("  restoring the checkpoint of step %d:\n", checkpoint_step);
            restore_checkpoint(&t, checkpoint);
            map_draw(t.pool);
            trouble_ahead = false;
            step = checkpoint_step;
            continue;
        }
        report(&t, step, loss);
        step++;
    }
    REQUIRE(!trouble_ahead);
    network_read_weights(&t.net, stream, weights);

    printf("  looking for leaks:\n");
    lose_and_find_a_block(&t);
    CHECK(tarn_checkpoint_destroy(checkpoint));
    end_training(&t);
}

int main(void)
{
    sample_driver_open();
    kernels_load();
    tarn_stream stream = sample_stream_create();
    tarn_device *device = NULL;
    CHECK(tarn_device_open(0, NULL, &device));
    tarn_device_info info = TARN_DEVICE_INFO_INIT;
    CHECK(tarn_device_describe(device, &info));

    enum { WEIGHTS = (INPUTS + 1) * HIDDEN + (HIDDEN + 1) * HIDDEN + (HIDDEN + 1) * OUTPUTS };
    static float undisturbed[WEIGHTS];
    static float with_trouble[WEIGHTS];
    printf("training undisturbed: %d weights, %d steps, one graph\n", (int)WEIGHTS, (int)STEPS);
    train_undisturbed(device, stream, undisturbed);
    printf("training with trouble: a checkpoint every %d steps, and step %d is poisoned\n",
           (int)CHECKPOINT_STEPS, (int)POISONED_STEP);
    train_with_trouble(device, stream, with_trouble);

    CHECK(tarn_device_close(device));
    sample_stream_destroy(stream);
    kernels_unload();
    sample_driver_close();

    bool equal = memcmp(undisturbed, with_trouble, sizeof(undisturbed)) == 0;
    printf("weights %s; ran on %s (%s%s)\n", equal ? "equal, bit for bit" : "DIFFER", info.name,
           info.driver, info.simulated ? ", simulated" : "");
    return equal ? 0 : 1;
}
