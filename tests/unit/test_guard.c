// SPDX-License-Identifier: Apache-2.0
#include "graphs/graph.h"
#include "graphs/guard.h"
#include "pools/watches.h"
#include "unit/unit.h"

enum { BYTES = 8192 };

static tarn_device *device;
static tarn_pool *pool;    /* the graph's */
static tarn_pool *weights; /* the input's and the other's */
static tn_cu_stream stream;
static void *input; /* what node 0 reads */
static void *other; /* what node 1 writes */
static tarn_graph *graph;
static struct tn_audit_subject subject;
static tarn_audit_options options;

/* What happens before the next block is watched. */
static void (*between)(void);

__typeof__(tn_watch_add) __real_tn_watch_add;
__typeof__(tn_watch_add) __wrap_tn_watch_add;
tarn_status __wrap_tn_watch_add(struct tn_watch *watch, uint64_t address, uint64_t sequence)
{
    void (*first)(void) = between;

    between = NULL;
    if (first != NULL)
        first();
    return __real_tn_watch_add(watch, address, sequence);
}

/* What happens before the driver is asked for an update. */
static void (*updating)(void);

__typeof__(tn_driver_exec_update) __real_tn_driver_exec_update;
__typeof__(tn_driver_exec_update) __wrap_tn_driver_exec_update;
tarn_status __wrap_tn_driver_exec_update(struct tn_gpu *gpu, tn_cu_graphexec exec, tn_cu_graph from)
{
    if (updating != NULL)
        updating();
    return __real_tn_driver_exec_update(gpu, exec, from);
}

static void make_graph(void)
{
    tarn_capture *capture;
    void *temporary;

    device = unit_device();
    pool = unit_pool_of(device, "mine", 0);
    weights = unit_pool_of(device, "weights", 0);
    stream = test_stream();
    input = unit_alloc(weights, BYTES, stream);
    other = unit_alloc(weights, BYTES, stream);
    capture = unit_begin(pool, stream);
    temporary = unit_alloc(pool, BYTES, stream);
    test_copy(stream, temporary, input, BYTES);
    test_copy(stream, other, temporary, BYTES);
    OK(tarn_free(temporary));
    graph = unit_end(capture);
    subject = (struct tn_audit_subject){
        .graph = graph->driver_graph, .pool = pool, .mark = graph->mark, .is_listed = true};
    options = (tarn_audit_options)TARN_AUDIT_OPTIONS_INIT;
}

static void end_graph(void)
{
    OK(tarn_graph_destroy(graph));
    ck_assert_uint_eq(weights->watches.kept_count, 0);
    OK(tarn_pool_validate(weights));
}

static tarn_status try_make(tarn_guard kind, struct tn_guard **guard)
{
    return tn_guard_make(graph, kind, &subject, &options, guard);
}

static struct tn_guard *make(tarn_guard kind)
{
    struct tn_guard *guard = NULL;

    OK(try_make(kind, &guard));
    ck_assert_ptr_nonnull(guard);
    ck_assert_int_eq((int)guard->kind, (int)kind);
    ck_assert(tn_lock_none_held());
    return guard;
}

static void expect_fresh(void)
{
    ck_assert_uint_eq(graph->magic, TN_GRAPH_MAGIC);
    OK(tarn_graph_replay(graph, stream));
    test_synchronize(stream);
}

/* The node of that number is what the sentence is about. */
static void expect_stale(const char *node)
{
    ck_assert_uint_eq(graph->magic, TN_GRAPH_STALE);
    STATUS(TARN_ERR_STALE, tn_guard_refuse(graph));
    unit_expect_sentence(node);
    STATUS(TARN_ERR_STALE, tarn_graph_replay(graph, stream));
    unit_expect_sentence(node);
}

GROUP(made, make_graph, end_graph)

TEST(made, each_block_is_watched_once_and_the_own_are_not)
{
    struct tn_guard *guard = make(TARN_GUARD_REFUSE);

    ck_assert_uint_eq(guard->watch.count, 2);
    ck_assert(!guard->watch.keeps);
    ck_assert_ptr_null(guard->dead);
    ck_assert_ptr_eq(guard->audit->pointers[0].block.address, input);
    ck_assert_ptr_eq(guard->audit->pointers[1].block.address, other);
    ck_assert_ptr_null(graph->guard);
    tn_guard_replace(graph, guard);
    ck_assert_ptr_eq(graph->guard, guard);
    expect_fresh();
}

TEST(made, none_is_made_where_frees_are_ignored)
{
    struct tn_guard *guard = (struct tn_guard *)UNTOUCHED;
    uint64_t calls = sim.call_count("cuGraphGetNodes");

    OK(try_make(TARN_GUARD_IGNORE, &guard));
    ck_assert_ptr_null(guard);
    ck_assert_uint_eq(sim.call_count("cuGraphGetNodes"), calls);
    tn_guard_replace(graph, NULL);
    expect_fresh();
    tn_guard_drop(NULL);
}

TEST(made, a_block_freed_before_the_guard_begins_is_missed) /* G7 */
{
    struct tn_guard *guard = make(TARN_GUARD_REFUSE);

    OK(tarn_free(other));
    ck_assert_uint_eq(graph->magic, TN_GRAPH_STALE); /* told already */
    atomic_store(&graph->magic, 0);                  /* as while the graph is not there yet */
    tn_guard_replace(graph, guard);
    expect_stale("node 1, copy, destination");
}

TEST(made, a_graph_that_is_not_there_yet_is_stale_when_it_comes)
{
    atomic_store(&graph->magic, 0);
    graph->guard = make(TARN_GUARD_REFUSE);
    OK(tarn_free(input));
    ck_assert_uint_eq(graph->magic, 0); /* nobody takes it for a graph */
    tn_guard_publish(graph);
    expect_stale("node 0, copy, source");
}

static void free_input(void)
{
    OK(tarn_free(input));
}

TEST(made, a_block_freed_behind_the_look_is_missed)
{
    struct tn_guard *guard;

    between = free_input;
    guard = make(TARN_GUARD_KEEP);
    ck_assert(between == NULL);
    ck_assert_ptr_null(guard->dead);
    ck_assert_uint_eq(guard->watch.gone, 1);
    ck_assert_uint_eq(weights->watches.kept_count, 0);
    tn_guard_replace(graph, guard);
    expect_stale("node 0, copy, source");
}

static void use_input_again(void)
{
    void *before = input;

    OK(tarn_free(input));
    input = unit_alloc(weights, BYTES, stream);
    ck_assert_ptr_eq(input, before);
}

TEST(made, another_block_behind_the_look_is_not_kept_in_its_place)
{
    struct tn_guard *guard;

    between = use_input_again;
    guard = make(TARN_GUARD_KEEP);
    ck_assert_uint_eq(guard->watch.gone, 1);
    tn_guard_replace(graph, guard);
    expect_stale("node 0, copy, source");
    OK(tarn_free(input));
    ck_assert_uint_eq(weights->watches.kept_count, 0);
}

TEST(made, what_is_dead_when_the_guard_is_made_is_missed)
{
    struct tn_guard *guard;

    OK(tarn_free(input));
    guard = make(TARN_GUARD_KEEP);
    ck_assert_ptr_nonnull(guard->dead);
    ck_assert_ptr_eq(guard->dead, &guard->audit->mistakes[0]);
    ck_assert_uint_eq(guard->watch.count, 1);
    ck_assert_uint_eq(graph->magic, TN_GRAPH_MAGIC); /* it has not begun */
    tn_guard_replace(graph, guard);
    expect_stale("node 0, copy, source");
    OK(tarn_free(other)); /* which is kept, and says nothing */
    expect_stale("node 0, copy, source");
}

/* What else is a mistake there leaves the block where it is. */
TEST(made, only_what_leaves_no_block_is_dead)
{
    tarn_capture *capture;
    struct tn_guard *guard;

    OK(tarn_graph_destroy(graph));
    capture = unit_begin(pool, stream);
    test_set_words(stream, (char *)other + 4, 1, BYTES / 4);
    graph = unit_end(capture);
    subject.graph = graph->driver_graph;
    guard = make(TARN_GUARD_REFUSE);
    ck_assert_uint_eq(guard->audit->mistake_count, 1);
    ck_assert_ptr_null(guard->dead);
    ck_assert_uint_eq(guard->watch.count, 1);
    tn_guard_replace(graph, guard);
    ck_assert_uint_eq(graph->magic, TN_GRAPH_MAGIC);
    OK(tarn_free(other));
    expect_stale("node 0, set, destination");
}

TEST(made, what_is_accepted_is_not_dead)
{
    struct tn_guard *guard;

    OK(tarn_free(input));
    options.accepted = 1u << TARN_POINTER_FREED_EXTERNAL;
    guard = make(TARN_GUARD_REFUSE);
    ck_assert_ptr_null(guard->dead);
    tn_guard_replace(graph, guard);
    expect_fresh();
}

GROUP(replaced, make_graph, end_graph)

TEST(replaced, a_keeper_takes_over_from_one_that_was_told)
{
    tn_guard_replace(graph, make(TARN_GUARD_REFUSE));
    {
        struct tn_guard *keeper = make(TARN_GUARD_KEEP);

        OK(tarn_free(input));
        expect_stale("node 0, copy, source");
        tn_guard_replace(graph, keeper);
    }
    expect_fresh();
    ck_assert_uint_eq(weights->watches.kept_count, 1);
    OK(tarn_pool_validate(weights));
}

TEST(replaced, a_refuser_takes_over_from_a_keeper)
{
    struct tn_guard *refuser;

    tn_guard_replace(graph, make(TARN_GUARD_KEEP));
    refuser = make(TARN_GUARD_REFUSE);
    OK(tarn_free(input));
    ck_assert_uint_eq(weights->watches.kept_count, 1);
    tn_guard_replace(graph, refuser);
    ck_assert_uint_eq(weights->watches.kept_count, 0);
    expect_stale("node 0, copy, source");
    tn_guard_replace(graph, NULL);
    expect_fresh();
}

/* As of an update that the driver refuses. */
TEST(replaced, a_guard_that_never_begins_leaves_the_other_alone)
{
    struct tn_guard *never;

    tn_guard_replace(graph, make(TARN_GUARD_KEEP));
    never = make(TARN_GUARD_REFUSE);
    OK(tarn_free(input));
    ck_assert_uint_eq(graph->magic, TN_GRAPH_STALE); /* as that one was told */
    tn_guard_give_up(graph, never);
    ck_assert_uint_eq(weights->watches.kept_count, 1);
    expect_fresh();
    tn_guard_give_up(graph, NULL);
    expect_fresh();
}

TEST(replaced, a_graph_without_a_guard_stays_so_where_one_never_begins)
{
    struct tn_guard *never = make(TARN_GUARD_REFUSE);

    OK(tarn_free(input));
    tn_guard_give_up(graph, never);
    expect_fresh();
}

TEST(replaced, a_stale_graph_stays_so_where_a_guard_never_begins)
{
    struct tn_guard *never;

    tn_guard_replace(graph, make(TARN_GUARD_REFUSE));
    never = make(TARN_GUARD_REFUSE);
    OK(tarn_free(input));
    tn_guard_give_up(graph, never);
    expect_stale("node 0, copy, source");
}

static void *third; /* what another section writes */

static void free_third(void)
{
    OK(tarn_free(third));
}

/* The section that the graph is to be updated to misses a block by then; the graph itself does not. */
TEST(replaced, an_update_that_is_refused_leaves_the_graph_as_it_was)
{
    tarn_capture *capture;

    third = unit_alloc(weights, BYTES, stream);
    OK(tarn_graph_guard(graph, TARN_GUARD_REFUSE, NULL));
    capture = unit_begin(pool, stream);
    test_set_words(stream, third, 1, 1);
    updating = free_third;
    STATUS(TARN_ERR_CANNOT_UPDATE, tarn_graph_update(graph, capture));
    OK(tarn_capture_abort(capture));
    expect_fresh();
    OK(tarn_free(input));
    expect_stale("node 0, copy, source");
}

static void free_input_and_memory_ends(void)
{
    OK(tarn_free(input));
    (void)tn_host_plan_fault(1, false);
}

/* The first block of the watch is gone, the second cannot be watched. */
TEST(replaced, a_guard_that_was_told_and_fails_leaves_the_graph_as_it_was)
{
    struct tn_guard *guard = NULL;

    between = free_input_and_memory_ends;
    STATUS(TARN_ERR_HOST_MEMORY, try_make(TARN_GUARD_REFUSE, &guard));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert_ptr_null(guard);
    expect_fresh();
}

/* Those of its own are in the graph's memory that it holds. */
TEST(made, without_host_memory_no_guard_is_made)
{
    int64_t outstanding = tn_host_outstanding();
    struct tn_guard *guard = NULL;
    tarn_status status = TARN_ERR_HOST_MEMORY;
    uint64_t failures = 0;

    while (status != TARN_OK) {
        failures += 1;
        (void)tn_host_plan_fault(failures, false);
        status = try_make(TARN_GUARD_KEEP, &guard);
        ck_assert(status == TARN_OK || status == TARN_ERR_HOST_MEMORY);
        ck_assert_uint_eq(tn_host_plan_fault(0, false), status == TARN_OK ? 0 : 1);
        ck_assert(tn_lock_none_held());
        if (status != TARN_OK) {
            ck_assert_ptr_null(guard);
            ck_assert_int_eq(tn_host_outstanding(), outstanding);
        }
        ck_assert_uint_eq(graph->magic, TN_GRAPH_MAGIC);
        OK(tarn_pool_validate(weights));
    }
    ck_assert_uint_gt(failures, 8);
    tn_guard_drop(guard);
    OK(tarn_free(input));
    ck_assert_uint_eq(weights->watches.kept_count, 0);
}

TEST(made, what_the_driver_refuses_makes_no_guard)
{
    struct tn_guard *guard = (struct tn_guard *)UNTOUCHED;
    int64_t outstanding;

    tn_guard_replace(graph, make(TARN_GUARD_REFUSE));
    outstanding = tn_host_outstanding();
    sim.plan_fault("cuGraphGetNodes", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, try_make(TARN_GUARD_KEEP, &guard));
    ck_assert_ptr_null(guard);
    ck_assert_int_eq(tn_host_outstanding(), outstanding);
    expect_fresh();
    OK(tarn_free(input));
    expect_stale("node 0, copy, source"); /* it is guarded as it was */
}
