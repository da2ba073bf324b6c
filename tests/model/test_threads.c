// SPDX-License-Identifier: Apache-2.0
/* Several threads, each with a model of its own: private pools that nobody else knows, and two pools
 * that all share. Each looks at what its own calls promise, and all together that no two blocks
 * overlap. The thread sanitizer sees the rest. Threads make a run differ from the last one, so a
 * seed repeats only what each of them does. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>

#include "model/model.h"
#include "support/touch.h"

enum { SEEDS = 6, STEPS = 600, THREADS = 4 };

struct worker {
    struct model *model;
    tn_cu_context context;
    uint64_t random;
    uint64_t steps;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    uint8_t frame[MODEL_FRAME_BYTES];

    test_set_context(worker->context);
    for (uint64_t i = 0; i < worker->steps; i++) {
        model_random_frame(&worker->random, frame);
        model_step(worker->model, frame);
    }
    model_destroy(worker->model);
    test_set_context(NULL);
    return NULL;
}

static void run(uint64_t seed, uint64_t steps)
{
    const struct model_config config = {.per_thread = seed % 2 == 0};
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    tarn_pool *pools[2] = {NULL, NULL};
    tarn_device *device = NULL;
    tarn_stats stats = TARN_STATS_INIT;
    tarn_sim_ledger ledger;

    touch_start();
    ledger = test_ledger();
    OK(tarn_device_open(0, NULL, &device));
    OK(tarn_device_default_pool(device, &pools[0]));
    OK(tarn_pool_create(device, NULL, &pools[1]));
    for (size_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){
            .model = model_create_shared(&config, device, pools, 2),
            .context = test_context(),
            .random = seed * THREADS + i,
            .steps = steps,
        };
    }
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    for (size_t i = 0; i < 2; i++) {
        OK(tarn_pool_validate(pools[i]));
        OK(tarn_pool_stats(pools[i], &stats));
        ck_assert_uint_eq(stats.live_blocks.all.current, 0);
    }
    OK(tarn_pool_destroy(pools[1]));
    OK(tarn_device_close(device));
    test_same_ledger(&ledger);
}

static int seeds(void)
{
    return model_setting("TARN_MODEL_SEED", 0) != 0 ? 1 : SEEDS;
}

SUITE("random operations of threads")
GROUP(oracles, NULL, .name = "beside oracles", .timeout = 120)

TEST_LOOP(oracles, threads_do_what_their_oracles_say, 1, seeds() + 1)
{
    static char line[160];
    uint64_t seed = test_seed("TARN_MODEL_SEED", (uint64_t)_i);
    uint64_t steps = model_setting("TARN_MODEL_STEPS", STEPS);

    (void)snprintf(line, sizeof line,
                   "to repeat: TARN_MODEL_SEED=%llu TARN_MODEL_STEPS=%llu model_threads\n",
                   (unsigned long long)seed, (unsigned long long)steps);
    model_repeat_with(line);
    run(seed, steps);
}
