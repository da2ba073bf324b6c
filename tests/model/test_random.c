// SPDX-License-Identifier: Apache-2.0
/* Random runs of the model, each in a process of its own. Of a failing one:
 *
 *     TARN_MODEL_SEED=... TARN_MODEL_STEPS=... TARN_MODEL_TRACE=1 model_random
 *
 * repeats it and tells what it does. TARN_MODEL_SEEDS is how many runs there are. */
#include <check.h>
#include <stdio.h>

#include "model/model.h"
#include "support/cuda.h"

enum { SEEDS = 20, STEPS = 1200 };

static int seeds(void)
{
    return model_setting("TARN_MODEL_SEED", 0) != 0 ? 1
                                                    : (int)model_setting("TARN_MODEL_SEEDS", SEEDS);
}

SUITE("random operations")
GROUP(oracle, NULL, .name = "beside an oracle", .timeout = 120)

TEST_LOOP(oracle, the_library_does_what_the_oracle_says, 1, seeds() + 1)
{
    static char line[160];
    uint64_t seed = test_seed("TARN_MODEL_SEED", (uint64_t)_i);
    uint64_t steps = model_setting("TARN_MODEL_STEPS", STEPS);

    (void)snprintf(line, sizeof line,
                   "to repeat: TARN_MODEL_SEED=%llu TARN_MODEL_STEPS=%llu model_random\n",
                   (unsigned long long)seed, (unsigned long long)steps);
    model_repeat_with(line);
    model_run_random(seed, steps);
}
