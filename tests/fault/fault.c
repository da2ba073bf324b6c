// SPDX-License-Identifier: Apache-2.0
#include "fault/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/host.h"

enum { LIVE_MAX = 32 };

struct fault_world fault;

/* Everything that a refused call must leave as it was, or, of caches, not have grown. */
struct picture {
    struct test_device_stats device;
    struct test_stats pools[FAULT_POOLS];
    tarn_stats memory[FAULT_POOLS + 1]; /* of the pools, and last of the device */
    tn_cu_capture_status capturing[FAULT_STREAMS];
    tarn_sim_ledger ledger;
};

static struct {
    struct fault_plan plan;
    uint64_t remaining; /* until the fault; 0: it has struck */
    uint64_t points[FAULT_HOST + 1];
    uint64_t driver_calls; /* when the step began, as the next */
    uint64_t host_allocs;
    const char *call;     /* of the step */
    const char *struck;   /* the driver function that failed last */
    const char *in;       /* and the call that it was in */
    unsigned tries;       /* of this step that were refused */
    tarn_status expected; /* of this step without a fault */
    bool over;
    bool spoiled; /* the device has become poisoned or lost */
    tn_cu_context context;
    struct fault_outputs outputs;
    struct picture picture;
    struct {
        tarn_pool *pool; /* NULL: discarded */
        tarn_expected block;
        tarn_capture *capture; /* under way, that it was allocated in */
    } live[LIVE_MAX];
    size_t live_count;
} run;

/* Asserts, and says where the scenario is. */
#define EXPECT(condition, ...) ck_assert_msg(condition, "%s", describe(__VA_ARGS__))

__attribute__((format(printf, 1, 2))) static const char *describe(const char *format, ...)
{
    static char text[1024];
    va_list arguments;
    int used = snprintf(text, sizeof text, "%s (fault %s%d at %llu, struck %s in %s): ", run.call,
                        run.plan.for_good ? "for good " : "", run.plan.result,
                        (unsigned long long)run.plan.nth, run.struck != NULL ? run.struck : "-",
                        run.in != NULL ? run.in : "-");

    va_start(arguments, format);
    (void)vsnprintf(text + used, sizeof text - (size_t)used, format, arguments);
    va_end(arguments);
    return text;
}

static bool is_there(const void *handle)
{
    return handle != UNTOUCHED && handle != NULL;
}

/* TARN_OK, or why the device refuses everything but teardown. */
static tarn_status device_state(void)
{
    tarn_device_info info = TARN_DEVICE_INFO_INIT;

    tarn_status status =
        is_there(fault.out.device) ? tarn_device_describe(fault.out.device, &info) : TARN_OK;

    return status == TARN_ERR_INVALID_HANDLE ? TARN_OK : status; /* just closed */
}

static void set_untouched(void *outputs, size_t bytes)
{
    void *word = UNTOUCHED;

    for (size_t at = 0; at < bytes; at += sizeof word)
        memcpy((char *)outputs + at, &word, sizeof word);
}

void fault_begin(const struct fault_plan *plan)
{
    test_start();
    memset(&run, 0, sizeof run);
    run.plan = *plan;
    run.remaining = plan->nth;
    run.call = "-";
    run.context = test_context();
    _Static_assert(sizeof fault.out % sizeof(void *) == 0, "whole words");
    set_untouched(&fault.out, sizeof fault.out);
    for (size_t i = 0; i < FAULT_STREAMS; i++)
        fault.streams[i] = test_stream();
    (void)test_make_context();
    fault.foreign = test_stream();
    test_pop_context();
    fault.ledger = test_ledger();
    fault.outstanding = tn_host_outstanding();
}

uint64_t fault_points(enum fault_kind kind)
{
    return run.points[kind];
}

bool fault_has_struck(void)
{
    return run.in != NULL;
}

bool fault_is_over(void)
{
    return run.over;
}

bool fault_is_spoiled(void)
{
    return run.spoiled;
}

void fault_live(tarn_pool *pool, void *address, size_t bytes)
{
    ck_assert_uint_lt(run.live_count, LIVE_MAX);
    run.live[run.live_count].pool = pool;
    run.live[run.live_count].block = (tarn_expected){address, bytes};
    run.live[run.live_count].capture = fault.out.capture;
    run.live_count += 1;
}

void *fault_taken(tarn_pool *pool, size_t bytes)
{
    fault_live(pool, fault.out.address, bytes);
    return fault.out.address;
}

void fault_dead(const void *address)
{
    size_t at = 0;

    while (at < run.live_count && run.live[at].block.address != address)
        at += 1;
    EXPECT(at < run.live_count, "the scenario forgets a block that it does not know");
    run.live_count -= 1;
    run.live[at] = run.live[run.live_count];
}

void fault_owned(const void *address, tarn_capture *capture)
{
    for (size_t i = 0; i < run.live_count; i++) {
        if (run.live[i].block.address == address)
            run.live[i].capture = capture;
    }
}

void fault_discarded(const tarn_capture *capture)
{
    for (size_t i = 0; i < run.live_count; i++) {
        if (run.live[i].capture == capture && run.live[i].pool != fault.out.pools[0])
            run.live[i].pool = NULL;
    }
}

/* Blocks of captures that are not under way any more are their graphs'. */
static void forget_captures(void)
{
    for (size_t i = 0; i < run.live_count; i++) {
        if (run.live[i].capture != fault.out.capture && run.live[i].capture != fault.out.second)
            run.live[i].capture = UNTOUCHED;
    }
}

static void take_picture(struct picture *picture)
{
    const tarn_stats walked = {.size = sizeof walked, .walk = true};

    memset(picture, 0, sizeof *picture);
    (void)test_ledger(); /* what is late is so no more: a picture is not of its time */
    if (is_there(fault.out.device)) {
        picture->memory[FAULT_POOLS] = walked;
        OK(tarn_device_stats(fault.out.device, &picture->memory[FAULT_POOLS]));
        picture->device = test_device_stats_in(&picture->memory[FAULT_POOLS]);
    }
    for (size_t i = 0; i < FAULT_POOLS; i++) {
        if (!is_there(fault.out.pools[i]))
            continue;
        picture->memory[i] = walked;
        OK(tarn_pool_stats(fault.out.pools[i], &picture->memory[i]));
        picture->pools[i] = test_stats_in(&picture->memory[i]);
    }
    for (size_t i = 0; i < FAULT_STREAMS; i++)
        picture->capturing[i] = test_capture_status(fault.streams[i]);
    picture->ledger = test_ledger();
}

/* The pools hold what the scenario thinks, and their books are right. */
static void check_pools(void)
{
    for (size_t i = 0; i < FAULT_POOLS; i++) {
        tarn_expected expected[LIVE_MAX];
        tarn_live_diff *diff;
        size_t count = 0;

        if (!is_there(fault.out.pools[i]))
            continue;
        EXPECT(tarn_pool_validate(fault.out.pools[i]) == TARN_OK, "%s", tarn_last_error());
        if (i == 0)
            continue; /* checkpoints keep contents there */
        for (size_t j = 0; j < run.live_count; j++) {
            if (run.live[j].pool == fault.out.pools[i])
                expected[count++] = run.live[j].block;
        }
        OK(tarn_pool_check_live(fault.out.pools[i], expected, count, &diff));
        EXPECT(diff->count == 0, "pool %zu: %zu differences of live blocks", i, diff->count);
        tarn_live_diff_destroy(diff);
    }
}

static void arm(void)
{
    if (run.plan.kind == FAULT_NONE || (run.remaining == 0 && !run.plan.for_good))
        return;
    if (run.plan.kind == FAULT_HOST)
        (void)tn_host_plan_fault(run.remaining > 0 ? run.remaining : 1, run.plan.for_good);
    else
        sim.plan_fault(NULL, run.remaining > 0 ? run.remaining : 1, run.plan.for_good,
                       run.plan.result);
}

/* Takes the plan away; true when it has struck in this step. */
static bool disarm(void)
{
    uint64_t made[] = {0, sim.call_count(NULL) - run.driver_calls,
                       tn_host_alloc_count() - run.host_allocs};
    const char *last;
    uint64_t hits = sim.clear_fault(&last) + tn_host_plan_fault(0, false);

    for (enum fault_kind kind = FAULT_DRIVER; kind <= FAULT_HOST; kind++)
        run.points[kind] += made[kind];
    run.remaining -= run.remaining < made[run.plan.kind] ? run.remaining : made[run.plan.kind];
    if (hits > 0) {
        run.struck = run.plan.kind == FAULT_HOST ? "host allocation" : last;
        run.in = run.call;
    }
    return hits > 0;
}

/* The library unmaps what it likes of a device that is lost, for that does no more work. One that is only
 * told to be lost does: so its work is over before a call that may be told so. */
static void finish_work(void)
{
    if ((run.spoiled || run.plan.finished) && test_ledger().captures == 0) /* they forbid to wait */
        test_wait_for_all();
}

void fault_prepare(const char *call)
{
    finish_work();
    if (run.tries == 0)
        run.call = call;
    forget_captures();
    check_pools();
    run.outputs = fault.out;
    take_picture(&run.picture);
    test_set_context(NULL);
    run.driver_calls = sim.call_count(NULL);
    run.host_allocs = tn_host_alloc_count();
    arm();
}

#define SAME(field)                                                                                \
    EXPECT(now.field == run.picture.field, #field " is %llu, was %llu",                            \
           (unsigned long long)now.field, (unsigned long long)run.picture.field)
#define NO_MORE(field)                                                                             \
    EXPECT(now.field <= run.picture.field, #field " has grown to %llu from %llu",                  \
           (unsigned long long)now.field, (unsigned long long)run.picture.field)

/* What tarn_stats counts by size, and how much of it a refused call may change. */
enum may_change { MAY_NOT, MAY_FALL, MAY_CHANGE };
static const struct {
    const char *name;
    size_t at;
    enum may_change may;
} stat_sets[] = {
#define SET(name, may)                                                                             \
    {                                                                                              \
#name, offsetof(tarn_stats, name), may                                                     \
    }
    SET(live_blocks, MAY_NOT),      SET(live_bytes, MAY_NOT),      SET(requested_bytes, MAY_NOT),
    SET(discarded_blocks, MAY_NOT), SET(discarded_bytes, MAY_NOT), SET(active_blocks, MAY_FALL),
    SET(active_bytes, MAY_FALL),    SET(pending_blocks, MAY_FALL), SET(pending_bytes, MAY_FALL),
    SET(chunks, MAY_CHANGE),        SET(mapped_bytes, MAY_CHANGE), SET(segments, MAY_CHANGE),
    SET(segment_bytes, MAY_CHANGE), SET(own_segments, MAY_CHANGE),
#undef SET
};

/* Nothing was reset, so each count is the sum of what was added and taken off. */
static void check_stat(const char *name, const tarn_stat *stat)
{
    EXPECT(stat->current == stat->allocated - stat->freed && stat->peak >= stat->current,
           "%s: current %llu, peak %llu, allocated %llu, freed %llu", name,
           (unsigned long long)stat->current, (unsigned long long)stat->peak,
           (unsigned long long)stat->allocated, (unsigned long long)stat->freed);
}

static const tarn_stat_set *stat_set(const tarn_stats *memory, size_t which)
{
    return (const tarn_stat_set *)(const void *)((const char *)memory + stat_sets[which].at);
}

static void check_memory_stats(const tarn_stats *now, const tarn_stats *before)
{
    for (size_t i = 0; i < sizeof stat_sets / sizeof stat_sets[0]; i++) {
        const tarn_stat_set *set = stat_set(now, i);
        const tarn_stat_set *was = stat_set(before, i);

        check_stat(stat_sets[i].name, &set->all);
        check_stat(stat_sets[i].name, &set->small);
        check_stat(stat_sets[i].name, &set->large);
        EXPECT(set->all.current == set->small.current + set->large.current,
               "%s: %llu are not the sum of small and large", stat_sets[i].name,
               (unsigned long long)set->all.current);
        EXPECT(set->all.current == was->all.current || stat_sets[i].may == MAY_CHANGE ||
                   (stat_sets[i].may == MAY_FALL && set->all.current < was->all.current),
               "%s is %llu, was %llu", stat_sets[i].name, (unsigned long long)set->all.current,
               (unsigned long long)was->all.current);
    }
#define SAME_STAT(field)                                                                           \
    EXPECT(now->field == before->field, #field " is %llu, was %llu",                               \
           (unsigned long long)now->field, (unsigned long long)before->field)
    SAME_STAT(graph_count);
    SAME_STAT(checkpoint_count);
    SAME_STAT(checkpoint_addresses);
    SAME_STAT(contents_bytes);
    SAME_STAT(limit_bytes);
    SAME_STAT(cache_limit_bytes);
    SAME_STAT(graph_bytes);
    SAME_STAT(capture_bytes);
#undef SAME_STAT
}

static void check_unchanged(void)
{
    struct picture now;
    uint64_t adopted;
    int64_t deadline = test_deadline();
    bool may_grow;
    bool may_end;
    bool may_mark;

    if (run.plan.for_good && !is_there(fault.out.device))
        return; /* an open whose undoing was refused, too, and nobody is there to be poisoned */
    take_picture(&now);
    /* A pool that a refused call has made for a capture goes when the driver drops its user object. */
    while (now.device.pool_count > run.picture.device.pool_count + now.device.adopted_count -
                                       run.picture.device.adopted_count &&
           test_pause(deadline))
        take_picture(&now);
    SAME(device.live_bytes);
    SAME(device.requested_bytes);
    /* A capture without a route keeps the pool that it was given. */
    adopted = now.device.adopted_count - run.picture.device.adopted_count;
    now.device.pool_count -= adopted;
    SAME(device.pool_count);
    SAME(device.route_count);
    /* Free memory that held contents may be kept for later. */
    may_grow = strncmp(run.call, "tarn_checkpoint_take", 20) == 0 ||
               strncmp(run.call, "tarn_checkpoint_verify", 22) == 0;
    /* An end that cannot make its graph executable has ended the driver's capture. */
    may_end = strncmp(run.call, "tarn_capture_end", 16) == 0 ||
              strncmp(run.call, "tarn_graph_update", 17) == 0;
    /* An allocation may be the first in a capture of the user's, which is marked then. */
    may_mark =
        strncmp(run.call, "tarn_malloc", 11) == 0 || strncmp(run.call, "tarn_pool_malloc", 10) == 0;
    for (size_t i = 0; i < FAULT_POOLS; i++) {
        SAME(pools[i].live_count);
        SAME(pools[i].live_bytes);
        SAME(pools[i].requested_bytes);
        SAME(pools[i].graph_count);
        SAME(pools[i].checkpoint_count);
        if (!may_grow)
            NO_MORE(pools[i].mapped_bytes);
        NO_MORE(pools[i].pending_count);
    }
    for (size_t i = 0; i <= FAULT_POOLS; i++) {
        check_memory_stats(&now.memory[i], &run.picture.memory[i]);
        if (!may_mark || now.memory[i].capture_count > run.picture.memory[i].capture_count + 1)
            SAME(memory[i].capture_count);
    }
    for (size_t i = 0; i < FAULT_STREAMS && !may_end; i++)
        SAME(capturing[i]);
    if (!may_grow) {
        NO_MORE(ledger.reservations);
        NO_MORE(ledger.handles);
        NO_MORE(ledger.mappings);
    }
    /* The token of the device's waits and its neighbour, and the anchor in the program's context; one that was
     * refused is made again. */
    if (now.ledger.linear_allocations > fault.ledger.linear_allocations + 3)
        NO_MORE(ledger.linear_allocations);
    if (!may_mark || now.ledger.events > run.picture.ledger.events + 1)
        NO_MORE(ledger.events);
    NO_MORE(ledger.graphs);
    NO_MORE(ledger.graph_execs);
    NO_MORE(ledger.primary_retains);
    if (!may_end)
        SAME(ledger.captures);
    SAME(ledger.streams);
    EXPECT(memcmp(&fault.out, &run.outputs, sizeof fault.out) == 0, "an output was written");
}

static bool is_among(tarn_status status, uint64_t statuses)
{
    return (statuses >> (status % 100 + status / 100 * 10 - 10) & 1) != 0;
}

/* The library has left the thread as it was, unless the driver refused just that. */
static void check_context(bool hit)
{
    bool may_stay = device_state() != TARN_OK ||
                    (hit && (run.plan.for_good || strcmp(run.struck, "cuCtxPopCurrent") == 0));

    EXPECT(test_context() == NULL || may_stay, "a context was left current");
    test_set_context(run.context);
}

void fault_expect(tarn_status status)
{
    run.expected = status;
}

enum fault_verdict fault_judge(tarn_status status, uint64_t statuses)
{
    char sentence[512];
    bool hit = disarm();
    tarn_status state;

    (void)snprintf(sentence, sizeof sentence, "%s", tarn_last_error());
    state = device_state();
    run.spoiled = run.spoiled || state != TARN_OK;
    check_context(hit);
    if (status == run.expected && status != TARN_OK && !hit) {
        check_pools();
        check_unchanged();
        run.expected = TARN_OK;
        run.tries = 0;
        return FAULT_GO_ON;
    }
    if (status == TARN_OK) {
        EXPECT(run.expected == TARN_OK, "was not refused");
        run.tries = 0;
        EXPECT(state == TARN_OK || hit || !is_among(state, statuses),
               "succeeds on a device that is %s", tarn_status_name(state));
        return FAULT_GO_ON;
    }
    EXPECT(fault_has_struck(), "%s without a fault: %s", tarn_status_name(status), sentence);
    EXPECT(is_among(status, statuses), "%s is not documented: %s", tarn_status_name(status),
           sentence);
    check_pools();
    if (state == TARN_OK)
        check_unchanged();
    run.tries += 1;
    run.over = state != TARN_OK || run.tries > 1;
    EXPECT(!run.over || state != TARN_OK || run.plan.for_good, "%s again, without a fault: %s",
           tarn_status_name(status), tarn_last_error());
    return run.over ? FAULT_OVER : FAULT_AGAIN;
}

/* User objects that a refused destroy keeps alive; what they hold cannot go. */
static bool is_stuck(void)
{
    return device_state() == TARN_ERR_POISONED &&
           test_ledger().user_objects > fault.ledger.user_objects;
}

enum fault_verdict fault_judge_end(tarn_status status)
{
    bool hit = disarm();

    run.spoiled = run.spoiled || device_state() != TARN_OK;
    check_context(hit);
    if (status == TARN_OK) {
        run.tries = 0;
        return FAULT_GO_ON;
    }
    EXPECT(hit && run.tries == 0, "%s at the end: %s", tarn_status_name(status), tarn_last_error());
    check_pools();
    run.tries += 1;
    run.plan.kind = FAULT_NONE; /* from here on everything works */
    return FAULT_AGAIN;
}

void fault_settle(uint64_t count)
{
    int64_t deadline = test_deadline();

    while (!run.spoiled && test_ledger().user_objects > count && test_pause(deadline))
        continue;
}

/* What of the ledger a refused call of teardown leaves behind. */
static void forgive(tarn_sim_ledger *ledger, const tarn_sim_ledger *now, const char *call)
{
#define FORGIVE(field) ledger->field = now->field
    if (strcmp(call, "cuMemUnmap") == 0) {
        FORGIVE(mappings);
        FORGIVE(mapped_bytes);
        FORGIVE(reservations);
        FORGIVE(reserved_bytes);
    }
    if (strcmp(call, "cuMemUnmap") == 0 || strcmp(call, "cuMemRelease") == 0) {
        FORGIVE(handles);
        FORGIVE(handle_bytes);
    }
    if (strcmp(call, "cuMemAddressFree") == 0) {
        FORGIVE(reservations);
        FORGIVE(reserved_bytes);
    }
    if (strcmp(call, "cuEventDestroy") == 0)
        FORGIVE(events);
    if (strcmp(call, "cuGraphExecDestroy") == 0)
        FORGIVE(graph_execs);
    if (strcmp(call, "cuStreamEndCapture") == 0)
        FORGIVE(captures);
    if (strcmp(call, "cuGraphExecDestroy") == 0 || strcmp(call, "cuGraphDestroy") == 0 ||
        strcmp(call, "cuStreamEndCapture") == 0) {
        FORGIVE(graphs);
        FORGIVE(user_objects);
    }
    if (strcmp(call, "cuLibraryUnload") == 0)
        FORGIVE(modules);
    /* What any other answer keeps is given back later; a lost device's is not. */
    if (strcmp(call, "cuMemFreeHost") == 0 && run.plan.result == TN_CUDA_ERROR_ILLEGAL_ADDRESS) {
        FORGIVE(host_allocations);
        FORGIVE(host_bytes);
    }
    if (strcmp(call, "cuCtxPopCurrent") == 0)
        FORGIVE(context_stack_entries);
    if (strcmp(call, "cuDevicePrimaryCtxRelease") == 0)
        FORGIVE(primary_retains);
    /* Of the token or an anchor, when the device closes; of an anchor that nobody knows. */
    if (strcmp(call, "cuMemFree") == 0 || strcmp(call, "cuPointerGetAttribute") == 0) {
        FORGIVE(linear_allocations);
        FORGIVE(linear_bytes);
    }
#undef FORGIVE
}

static void check_nothing_is_left(void)
{
    tarn_sim_ledger now;

    fault_settle(fault.ledger.user_objects);
    now = test_ledger();
    if (run.spoiled || (run.in != NULL && (strncmp(run.in, "tarn_device_close", 17) == 0 ||
                                           strncmp(run.in, "tarn_device_open", 16) == 0))) {
        if (run.plan.for_good)
            return; /* any number of refused calls */
        forgive(&fault.ledger, &now, run.struck);
    }
    /* A fault in the program's context ends that, with its anchor and its token: it was only told to have one. */
    if (run.plan.result == TN_CUDA_ERROR_ILLEGAL_ADDRESS &&
        now.linear_allocations <= fault.ledger.linear_allocations + 2)
        forgive(&fault.ledger, &now, "cuMemFree");
    test_same_ledger(&fault.ledger);
}

void fault_teardown(void (*ends)(void))
{
    if (!run.plan.through_teardown && run.over)
        run.plan.kind = FAULT_NONE;
    run.tries = 0;
    ends();
    for (size_t i = 0; i < 3; i++) {
        if (is_there(fault.out.graphs[i]))
            END(tarn_graph_destroy(fault.out.graphs[i]));
        fault.out.graphs[i] = UNTOUCHED;
    }
    for (size_t i = 0; i < 3; i++) {
        if (is_there(fault.out.checkpoints[i]))
            END(tarn_checkpoint_destroy(fault.out.checkpoints[i]));
        fault.out.checkpoints[i] = UNTOUCHED;
    }
    while (run.live_count > 0) {
        void *address = (void *)(uintptr_t)run.live[run.live_count - 1].block.address;

        END(tarn_free(address));
        run.live_count -= 1;
    }
    /* A pool is BUSY while launches of its graphs run, and nobody else may wait for them. */
    if (test_ledger().captures == 0)
        test_wait_for_all();
    if (is_stuck()) {
        check_pools();
        return; /* the pool is BUSY for as long as the driver holds the graph */
    }
    for (size_t i = FAULT_POOLS; i-- > 1;) {
        if (is_there(fault.out.pools[i]))
            END(tarn_pool_destroy(fault.out.pools[i]));
        fault.out.pools[i] = UNTOUCHED;
    }
    if (is_there(fault.out.device))
        END(tarn_device_close(fault.out.device));
    fault.out.device = UNTOUCHED;
    check_nothing_is_left();
    ck_assert_int_eq(tn_host_outstanding(), fault.outstanding);
}

void fault_open(void)
{
    STEP(OPEN, tarn_device_open(0, NULL, &DEVICE));
    STEP(0, tarn_device_default_pool(DEVICE, &fault.out.pools[0]));
    STEP(S(HOST_MEMORY) | LOST, tarn_pool_create(DEVICE, NULL, &POOL));
}

void fault_close(uint64_t of_destroy)
{
    STEP(of_destroy, tarn_pool_destroy(POOL));
    POOL = UNTOUCHED;
    STEP(CALLED, tarn_device_close(DEVICE));
    DEVICE = UNTOUCHED;
    fault.out.pools[0] = UNTOUCHED;
}

void fault_abort(tarn_capture **capture)
{
    if (*capture != UNTOUCHED) {
        END(tarn_capture_abort(*capture));
        fault_discarded(*capture);
    }
    *capture = UNTOUCHED;
}
