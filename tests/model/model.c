// SPDX-License-Identifier: Apache-2.0
/* Steps, their frames, and the calls of the library.
 *
 * With work held, nothing that the device was given is done until the model lets it: the library
 * meets the same at every run of a seed. A call that waits for the device would then hang; a thread
 * watches, and lets the device work when a call has begun to wait. */
#include "model/state.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Failing, choosing, telling ----------------------------------------------------------------- */

static const char *repeat_line = "";
static bool is_traced;

static void print_repeat_line(int number)
{
    if (*repeat_line != '\0')
        (void)!write(STDERR_FILENO, repeat_line, strlen(repeat_line));
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

void model_repeat_with(const char *line)
{
    repeat_line = line;
    (void)signal(SIGABRT, print_repeat_line);
    (void)signal(SIGALRM, print_repeat_line);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    (void)signal(SIGSEGV, print_repeat_line);
#endif
    is_traced = getenv("TARN_MODEL_TRACE") != NULL;
}

void broken(struct model *m, const char *format, ...)
{
    va_list arguments;

    (void)fprintf(stderr, "model, step %llu: ", (unsigned long long)m->step);
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
    (void)fflush(NULL);
    abort();
}

void trace(const char *format, ...)
{
    va_list arguments;
    char line[200];

    if (!is_traced)
        return;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "%d: %s\n", (int)gettid(), line);
}

uint64_t model_next(uint64_t *random)
{
    uint64_t x = *random += 0x9e3779b97f4a7c15;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

uint64_t model_setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

/* The next byte of the frame; when it is used up, what follows from it. */
static uint8_t next_byte(struct model *m)
{
    if (m->frame_at < MODEL_FRAME_BYTES)
        return m->frame[m->frame_at++];
    return (uint8_t)(model_next(&m->frame_random) >> 32);
}

size_t below(struct model *m, size_t bound)
{
    size_t value = next_byte(m);

    if (bound > 256)
        value = value << 8 | next_byte(m);
    if (bound > 65536)
        value = (value << 8 | next_byte(m)) << 8 | next_byte(m);
    return value % bound;
}

bool chance(struct model *m, size_t one_in)
{
    return below(m, one_in) == 0;
}

/* Work that is held -------------------------------------------------------------------------- */

enum { IDLE = 0, RELEASED = 1, FIRST_CALL = 2, LATE = 3, VERY_LATE = 50000 };
static _Atomic uint64_t call_state; /* IDLE, or the number of a call and whether it was released */
static _Atomic uint64_t call_waits; /* the driver's calls that wait, at the step's begin */
static uint64_t call_number;

/* Calls of the driver that wait for work. */
static uint64_t wait_count(void)
{
    return sim.call_count("cuMemFree") + sim.call_count("cuCtxSynchronize") +
           sim.call_count("cuStreamSynchronize") + sim.call_count("cuEventSynchronize");
}

/* A machine under load makes a call late that does not wait: what is done with work must not depend on
 * that, so only one that has begun to wait counts, or one that is late beyond all measure. */
static bool is_waiting(int times)
{
    return times >= VERY_LATE || (times >= LATE && wait_count() != atomic_load(&call_waits));
}

void note_waits(void)
{
    atomic_store(&call_waits, wait_count());
}

static void *release_late_calls(void *unused)
{
    const struct timespec pause = {0, 100000};
    uint64_t seen = IDLE;
    int times = 0;

    for (;;) {
        uint64_t now = atomic_load(&call_state);

        times = now == seen ? times + 1 : 0;
        seen = now;
        if (now != IDLE && (now & RELEASED) == 0 && is_waiting(times) &&
            atomic_compare_exchange_strong(&call_state, &now, now | RELEASED))
            sim.resume_work();
        (void)nanosleep(&pause, NULL);
    }
    return unused;
}

static void start_releasing(struct model *m)
{
    static bool is_started;
    pthread_t thread;

    if (is_started)
        return;
    is_started = true;
    EXPECT(m, pthread_create(&thread, NULL, release_late_calls, NULL) == 0, "no thread");
    (void)pthread_detach(thread);
}

void hold_work(struct model *m)
{
    if (!m->config.holds || m->is_held)
        return;
    start_releasing(m);
    sim.hold_work();
    m->is_held = true;
}

void let_work(struct model *m)
{
    if (m->is_held)
        sim.resume_work();
    m->is_held = false;
}

static void wait_for(tn_cu_event mark)
{
    if (mark != NULL)
        touch_await(mark);
}

void drain(struct model *m)
{
    const char *mismatch;

    let_work(m);
    for (int s = 0; s < STREAMS; s++) {
        if (m->streams[s].handle != NULL && !is_capturing(m, s))
            touch_synchronize(m->streams[s].handle);
    }
    for (size_t i = 0; i < m->freed_count; i++) {
        wait_for(m->freed[i].home);
        for (int s = 0; s < STREAMS; s++)
            wait_for(m->freed[i].uses[s]);
        for (int s = 0; s < PAST; s++)
            wait_for(m->freed[i].past[s]);
    }
    for (size_t i = 0; i < m->block_count; i++) {
        wait_for(m->blocks[i].home_mark);
        for (int s = 0; s < PAST; s++)
            wait_for(m->blocks[i].past[s]);
    }
    for (size_t i = 0; i < GRAPHS; i++) {
        for (int s = 0; s < STREAMS; s++)
            wait_for(m->graphs[i].launched[s]);
    }
    mismatch = touch_mismatch();
    EXPECT(m, mismatch == NULL, "%s", mismatch);
    forget_passed(m);
    hold_work(m);
    note_waits();
}

/* Calls of the library ----------------------------------------------------------------------- */

void enter_call(struct model *m)
{
    m->fault_fired = false;
    m->must_not_wait = m->must_not_wait && !m->config.linear; /* frees wait there */
    m->waits_before = m->must_not_wait && m->owns_device ? wait_count() : 0;
    touch_relax(false);
    if (m->fault_planned)
        sim.plan_fault(m->fault_function, m->fault_nth, 0, m->fault_result);
    if (m->is_held) {
        call_number += FIRST_CALL;
        atomic_store(&call_state, call_number);
    }
}

tarn_status leave_call(struct model *m, tarn_status status)
{
    const char *function = NULL;

    EXPECT(m, !m->must_not_wait || !m->owns_device || wait_count() == m->waits_before,
           "a call that must not wait has waited");
    if (m->fault_planned) {
        m->fault_fired = sim.clear_fault(&function) > 0;
        m->fault_planned = false;
        m->fault_count += m->fault_fired;
        if (m->fault_fired)
            trace("  fault in %s: %s", function, tarn_status_name(status));
    }
    if (m->is_held && (atomic_exchange(&call_state, IDLE) & RELEASED) != 0) {
        m->is_held = false;
        touch_relax(true);
        trace("  waited for the device");
        drain(m);
    }
    touch_relax(true);
    return status;
}

void expect_status(struct model *m, tarn_status expected, tarn_status status, const char *call)
{
    EXPECT(m, status == expected, "%s: %s, expected %s; %s", call, tarn_status_name(status),
           tarn_status_name(expected), tarn_last_error());
}

static bool has_limits(const struct model *m)
{
    bool has = m->limit_bytes != 0;

    for (int p = 0; p < POOLS; p++)
        has = has || m->pools[p].limit_bytes != 0;
    return has;
}

/* Whether memory may be short: where the driver has little, or refused it in this call; where a limit is. */
static bool may_be_short(const struct model *m, tarn_status status)
{
    return (status == TARN_ERR_DEVICE_MEMORY && (m->config.tight || m->fault_fired)) ||
           (status == TARN_ERR_LIMIT && has_limits(m));
}

bool is_declined(struct model *m, tarn_status status, const char *call)
{
    if (status == TARN_OK)
        return false;
    if (may_be_short(m, status))
        return true;
    EXPECT(m, m->fault_fired && (status == TARN_ERR_DRIVER || status == TARN_ERR_ADDRESS_SPACE),
           "%s: %s; %s", call, tarn_status_name(status), tarn_last_error());
    return true;
}

/* Life --------------------------------------------------------------------------------------- */

struct model_config model_config(const uint8_t head[MODEL_HEAD_BYTES])
{
    const bool linear = getenv("NVTX_INJECTION64_PATH") != NULL;

    return (struct model_config){
        .linear = linear,
        .holds = head[0] % 4 != 0,
        .faults = head[1] % 3 == 0,
        .tight = head[2] % 3 == 0 && !linear,
        .large = head[3] % 8 == 0,
        .legacy = head[1] / 3 % 4 == 0,
        .per_thread = head[1] / 3 % 4 == 1,
        .unrouted = (tarn_unrouted)(head[3] / 8 % 5 < 3 ? head[3] / 8 % 5 : 0),
        .divisions = head[2] / 3 % 4 == 0 ? (uint32_t)2 << head[2] / 12 % 3 : 0,
        .no_reuse = head[0] / 4 % 8 == 0,
    };
}

static struct model *make(const struct model_config *config)
{
    struct model *m = calloc(1, sizeof *m);

    ck_assert_ptr_nonnull(m);
    m->config = *config;
    m->device_count = touch_device_count();
    m->pools[ADOPTED].is_released = true;
    for (int s = 0; s < STREAMS; s++) {
        m->streams[s].capture = NONE;
        m->streams[s].handle = s < STREAMS / 2 ? test_stream() : NULL;
        m->streams[s].life = ++m->seen_life;
    }
    if (config->legacy || config->per_thread) {
        struct stream *last = &m->streams[STREAMS - 1];

        last->handle = config->legacy ? TN_CU_STREAM_LEGACY : TN_CU_STREAM_PER_THREAD;
        last->is_legacy = config->legacy;
        last->is_default = true;
    }
    return m;
}

struct model *model_create(const struct model_config *config)
{
    enum { LEFT_BYTES = 320 << 20 };
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    struct model *m;
    tarn_sim_ledger before;

    touch_start();
    before = test_ledger();
    m = make(config);
    touch_relax(true);
    m->ledger = before;
    if (config->tight)
        m->ballast = test_linear_alloc(test_free_bytes() - LEFT_BYTES);
    options.unrouted = config->unrouted;
    options.no_record_stream_reuse = config->no_reuse;
    for (int i = 0; i < TARN_ROUNDUP_SIZES; i++)
        options.roundup_power2_divisions[i] = config->divisions;
    WELL(m, tarn_device_open(0, &options, &m->device));
    m->owns_device = true;
    m->pools[0].is_default = true;
    WELL(m, tarn_device_default_pool(m->device, &m->pools[0].handle));
    hold_work(m);
    touch_relax(false);
    return m;
}

struct model *model_create_shared(const struct model_config *config, tarn_device *device,
                                  tarn_pool *const *pools, size_t pool_count)
{
    struct model *m = make(config);

    m->device = device;
    m->config.divisions = 0; /* as the device was opened */
    for (size_t i = 0; i < pool_count; i++) {
        m->pools[i].handle = pools[i];
        m->pools[i].is_default = i == 0;
        m->pools[i].is_shared = true;
    }
    return m;
}

static void free_blocks(struct model *m)
{
    for (size_t i = 0; i < m->block_count; i++) {
        struct block *block = &m->blocks[i];

        if (!block->is_discarded && block->last != NONE)
            touch_block(m, block, block->last, false);
    }
    drain(m);
    for (sweep_pools(m); m->block_count > 0; sweep_pools(m)) {
        struct block *block = &m->blocks[m->block_count - 1];

        shared_remove(m, range_of(block));
        WELL(m, tarn_free(block->address));
        remove_block(m, block);
    }
}

void model_destroy(struct model *m)
{
    m->fault_planned = false;
    touch_relax(true);
    end_captures(m);
    drain(m);
    end_checkpoints(m);
    end_graphs(m);
    end_routes(m);
    drain(m);
    free_blocks(m);
    let_work(m);
    drain(m);
    let_work(m);
    (void)test_ledger(); /* the driver has run all destructors by then */
    for (int p = 0; p < POOLS; p++) {
        if (m->pools[p].handle != NULL && !m->pools[p].is_default && !m->pools[p].is_shared &&
            !m->pools[p].is_released)
            WELL(m, tarn_pool_destroy(m->pools[p].handle));
    }
    if (m->owns_device)
        WELL(m, tarn_device_close(m->device));
    for (int s = 0; s < STREAMS; s++) {
        if (m->streams[s].handle != NULL && !m->streams[s].is_default)
            test_destroy_stream(m->streams[s].handle);
    }
    if (m->ballast != NULL)
        test_linear_free(m->ballast);
    touch_relax(false);
    if (m->owns_device)
        test_same_ledger(&m->ledger);
    free(m);
}
