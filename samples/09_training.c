// SPDX-License-Identifier: Apache-2.0
/* 09_training.c -- a training loop with a checkpoint, with tarn/core.h alone.
 *
 * A step is captured once and replayed. When a step makes the loss worse, the checkpoint brings the
 * weights back, at their addresses, and the same graph goes on. */
#include "common/driver.h"
#include "common/kernels.h"
#include "tarn/core.h"

enum { COUNT = 4096, BYTES = COUNT * sizeof(float) };

int main(void)
{
    tarn_device *device;
    tarn_pool *pool;
    tarn_capture *capture;
    tarn_graph *step;
    tarn_checkpoint *before;
    void *state, *gradient;
    tarn_stream stream = sample_open();
    CHECK(tarn_device_open(0, NULL, &device));
    CHECK(tarn_pool_create(device, NULL, &pool));
    CHECK(tarn_pool_malloc(pool, 3 * BYTES, 0, stream, &state));
    float *weights = state, *target = weights + COUNT, *loss = target + COUNT;
    kernel_fill(stream, weights, 0.0F, COUNT);
    kernel_fill(stream, target, 1.0F, COUNT);

    CHECK(tarn_capture_begin(pool, stream, NULL, &capture));
    CHECK(tarn_malloc(device, BYTES, stream, &gradient)); /* live in the section alone */
    kernel_mse_backward(stream, gradient, weights, target, COUNT);
    kernel_axpy(stream, weights, gradient, -0.25F * COUNT, COUNT);
    kernel_mse(stream, loss, weights, target, COUNT);
    CHECK(tarn_free(gradient));
    CHECK(tarn_capture_end(capture, &step));

    for (int i = 0; i < 10; i++) {
        CHECK(tarn_checkpoint_take(pool, TARN_CONTENTS_DEVICE, stream, &before));
        kernel_fill(stream, i == 5 ? weights : loss, 100.0F, COUNT); /* step 5 goes wrong */
        CHECK(tarn_graph_replay(step, stream));
        if (sample_first(stream, loss) > 1.0F)
            CHECK(tarn_checkpoint_restore(before, stream, NULL));
        CHECK(tarn_checkpoint_destroy(before));
    }
    REQUIRE(sample_first(stream, loss) < 0.001F);

    CHECK(tarn_graph_destroy(step));
    CHECK(tarn_free(state));
    CHECK(tarn_pool_destroy(pool));
    CHECK(tarn_device_close(device));
}
