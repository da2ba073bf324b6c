// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "share/pad.h"
#include "support/words.h"
#include "support/world.h"
#include "unit/unit.h"

#define CELLS 8

/* Two views of one pad, as two processes have them: the other side learns of cells by messages. */
static struct tn_gpu gpu;
static tn_cu_stream stream;
static tn_cu_stream other_stream;
static struct tn_pad *pad;
static struct tn_pad *other;

static void open_pads(enum tn_word_place place)
{
    int descriptor = -1;

    unit_gpu(&gpu);
    stream = test_stream();
    other_stream = test_stream();
    OK(tn_pad_create(&gpu, place, CELLS, stream, &pad));
    OK(tn_pad_export(pad, &descriptor));
    OK(tn_pad_import(&gpu, place, CELLS, descriptor, &other));
    close(descriptor);
}

static void open_on_host(void)
{
    open_pads(TN_WORDS_ON_HOST);
}

static void open_on_device(void)
{
    open_pads(TN_WORDS_ON_DEVICE);
}

/* Words as devices have them that lack wider ones. */
static void open_narrow(void)
{
    open_on_host();
    pad->wide = false;
    other->wide = false;
}

static void close_pads(void)
{
    test_synchronize(stream);
    test_synchronize(other_stream);
    OK(tn_pad_check(pad));
    OK(tn_pad_check(other));
    tn_pad_destroy(pad);
    tn_pad_destroy(other);
    tn_pad_destroy(NULL);
    OK(tn_gpu_check(&gpu));
}

/* A cell that both have. */
static struct tn_cell shared_cell(void)
{
    struct tn_cell cell;

    OK(tn_pad_acquire(pad, &cell));
    OK(tn_pad_adopt(other, cell));
    return cell;
}

static uint64_t signal_on(struct tn_pad *view, tn_cu_stream on, struct tn_cell cell)
{
    uint64_t value = 0;

    OK(tn_pad_signal(view, on, cell, &value));
    return value;
}

static void is_waiting(tn_cu_stream on)
{
    sched_yield();
    ck_assert(test_is_at_work(on));
}

static atomic_uint_least64_t *raw(const struct tn_pad *view, struct tn_cell cell)
{
    return (atomic_uint_least64_t *)(uintptr_t)(view->memory.address + 64 * cell.index);
}

GROUP(on_host, open_on_host, close_pads)
GROUP(on_device, open_on_device, close_pads)

TEST(on_host, a_wait_ends_with_the_signal_of_its_value)
{
    struct tn_cell cell = shared_cell();
    uint64_t calls = sim.call_count("cuStreamBatchMemOp");

    OK(tn_pad_wait(other, other_stream, cell, 2));
    ck_assert(!tn_pad_has_reached(other, cell, 1));
    ck_assert_uint_eq(signal_on(pad, stream, cell), 1);
    test_synchronize(stream);
    ck_assert(tn_pad_has_reached(other, cell, 1));
    ck_assert(!tn_pad_has_reached(other, cell, 2));
    is_waiting(other_stream);
    ck_assert_uint_eq(signal_on(pad, stream, cell), 2);
    test_synchronize(other_stream);
    ck_assert(tn_pad_has_reached(other, cell, 2));
    ck_assert_uint_eq(sim.call_count("cuStreamBatchMemOp"), calls + 3);
    /* It is over: the driver is not asked. */
    OK(tn_pad_wait(other, other_stream, cell, 2));
    ck_assert_uint_eq(sim.call_count("cuStreamBatchMemOp"), calls + 3);
    OK(tn_pad_release(pad, cell));
    OK(tn_pad_release(other, cell));
}

TEST(on_device, a_wait_ends_where_no_processor_looks)
{
    struct tn_cell cell = shared_cell();

    OK(tn_pad_wait(other, other_stream, cell, 1));
    is_waiting(other_stream);
    ck_assert_uint_eq(signal_on(pad, stream, cell), 1);
    test_synchronize(other_stream);
    ck_assert(!tn_pad_has_reached(other, cell, 1)); /* no processor looks there */
    OK(tn_pad_wait(other, other_stream, cell, 1));
}

TEST(on_host, a_cell_changes_hands_and_its_count_goes_on)
{
    struct tn_cell cell = shared_cell();
    struct tn_cell next;

    signal_on(other, other_stream, cell);
    signal_on(other, other_stream, cell);
    test_synchronize(other_stream);
    OK(tn_pad_release(pad, cell));
    OK(tn_pad_release(other, cell));
    do { /* until the cell comes again */
        OK(tn_pad_acquire(pad, &next));
    } while (next.index != cell.index);
    ck_assert_uint_eq(next.generation, cell.generation + 2);
    ck_assert_uint_eq(next.count, 2);
    OK(tn_pad_adopt(other, next));
    ck_assert_uint_eq(signal_on(pad, stream, next), 3);
    OK(tn_pad_wait(other, other_stream, next, 3));
}

TEST(on_host, a_cell_that_is_not_had_is_refused)
{
    struct tn_cell cell = shared_cell();
    struct tn_cell wrong[] = {{.index = CELLS, .generation = 1},
                              {.index = UINT32_MAX, .generation = 1},
                              {.index = cell.index, .generation = cell.generation + 2},
                              {.index = cell.index, .generation = cell.generation + 1},
                              {.index = cell.index + 1, .generation = 1},
                              {.index = cell.index + 1, .generation = 0}};
    uint64_t value = 77;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        STATUS(TARN_ERR_INVALID_ARGUMENT, tn_pad_signal(pad, stream, wrong[i], &value));
        STATUS(TARN_ERR_INVALID_ARGUMENT, tn_pad_wait(pad, stream, wrong[i], 0));
        STATUS(TARN_ERR_INVALID_ARGUMENT, tn_pad_raise(pad, stream, wrong[i]));
        STATUS(TARN_ERR_INVALID_ARGUMENT, tn_pad_take(pad, stream, wrong[i]));
        STATUS(TARN_ERR_INVALID_ARGUMENT, tn_pad_release(pad, wrong[i]));
        STATUS(TARN_ERR_INVALID_ARGUMENT, tn_pad_finish(pad, wrong[i], NULL));
        ck_assert(!tn_pad_has_reached(pad, wrong[i], 0));
    }
    ck_assert_uint_eq(value, 77);
    /* A peer may tell anything. */
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_pad_adopt(other, cell));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_pad_adopt(other, wrong[0]));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_pad_adopt(other, wrong[1]));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_pad_adopt(other, wrong[5]));
    OK(tn_pad_release(other, cell));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_pad_adopt(other, cell)); /* it is over */
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_pad_release(other, cell));
}

TEST(on_host, cells_run_out)
{
    struct tn_cell cells[CELLS];
    struct tn_cell more = {.index = 99};

    for (uint32_t i = 0; i < CELLS; i++) {
        OK(tn_pad_acquire(pad, &cells[i]));
        for (uint32_t j = 0; j < i; j++)
            ck_assert_uint_ne(cells[i].index, cells[j].index);
    }
    STATUS(TARN_ERR_LIMIT, tn_pad_acquire(pad, &more));
    ck_assert_uint_eq(more.index, 99);
    OK(tn_pad_release(pad, cells[3]));
    OK(tn_pad_acquire(pad, &more));
    ck_assert_uint_eq(more.index, cells[3].index);
}

GROUP(narrow, open_narrow, close_pads)

TEST(narrow, counts_go_on_where_words_wrap)
{
    struct tn_cell cell;
    uint64_t before = UINT32_MAX - 1;
    struct tn_cell told;

    OK(tn_pad_acquire(pad, &cell));
    pad->cells[cell.index].told = before;
    told = cell;
    told.count = before;
    OK(tn_pad_adopt(other, told));
    *raw(pad, cell) = before;
    OK(tn_pad_wait(other, other_stream, cell, before + 3));
    for (uint64_t i = 1; i <= 2; i++)
        ck_assert_uint_eq(signal_on(pad, stream, cell), before + i);
    test_synchronize(stream);
    is_waiting(other_stream);
    ck_assert_uint_eq(*raw(pad, cell), 0);
    ck_assert(tn_pad_has_reached(other, cell, before + 2));
    ck_assert(!tn_pad_has_reached(other, cell, before + 3));
    ck_assert_uint_eq(signal_on(pad, stream, cell), before + 3);
    test_synchronize(other_stream);
    OK(tn_pad_release(pad, cell));
    ck_assert_uint_eq(pad->cells[cell.index].told, before + 3);
}

/* -- Captures -- */

TEST(on_host, a_signal_is_refused_in_a_capture_and_a_wait_is_not)
{
    struct tn_cell cell = shared_cell();
    uint64_t value = 5;
    tn_cu_graph graph;
    tn_cu_graphexec exec;

    test_begin_capture(other_stream, TN_CU_CAPTURE_MODE_GLOBAL);
    STATUS(TARN_ERR_WRONG_STATE, tn_pad_signal(other, other_stream, cell, &value));
    ck_assert_uint_eq(value, 5);
    OK(tn_pad_wait(other, other_stream, cell, 1));
    graph = test_end_capture(other_stream);
    exec = test_instantiate(graph);
    for (int i = 0; i < 3; i++) {
        test_launch(exec, other_stream);
        if (i == 0) {
            is_waiting(other_stream);
            signal_on(pad, stream, cell);
        }
        test_synchronize(other_stream);
    }
    test_destroy_exec(exec);
    test_destroy_graph(graph);
}

/* A graph that raises a flag, or takes it, some times, and adds to a word each time. */
static tn_cu_graphexec flag_graph(struct tn_pad *view, tn_cu_stream on, struct tn_cell cell,
                                  void *counter, int times)
{
    tn_cu_graph graph;
    tn_cu_graphexec exec;

    test_begin_capture(on, TN_CU_CAPTURE_MODE_GLOBAL);
    for (int i = 0; i < times; i++) {
        OK(view == pad ? tn_pad_raise(view, on, cell) : tn_pad_take(view, on, cell));
        test_add(on, counter, 1, 1);
    }
    graph = test_end_capture(on);
    exec = test_instantiate(graph);
    test_destroy_graph(graph);
    return exec;
}

TEST(on_host, graphs_with_flags_are_replayed_in_step)
{
    struct tn_cell cell = shared_cell();
    uint32_t *counters = test_host_alloc(4096);
    tn_cu_graphexec raising;
    tn_cu_graphexec taking;

    counters[0] = 0;
    counters[16] = 0;
    raising = flag_graph(pad, stream, cell, &counters[0], 2);
    taking = flag_graph(other, other_stream, cell, &counters[16], 2);
    for (uint32_t i = 1; i <= 50; i++) {
        test_launch(raising, stream);
        test_launch(taking, other_stream);
    }
    test_synchronize(stream);
    test_synchronize(other_stream);
    ck_assert_uint_eq(counters[0], 100);
    ck_assert_uint_eq(counters[16], 100);
    test_launch(raising, stream); /* its second step waits for the first to be taken */
    while (raw(pad, cell)[1] == 0)
        sched_yield();
    is_waiting(stream);
    test_launch(taking, other_stream);
    test_synchronize(stream);
    test_synchronize(other_stream);
    ck_assert_uint_eq(raw(pad, cell)[1], 0);
    test_destroy_exec(raising);
    test_destroy_exec(taking);
    test_host_free(counters);
}

/* -- Barriers -- */

/* The cells of a barrier of two: each writes one and waits for the other. */
static void barrier_cells(struct tn_pad_cell ends[4])
{
    struct tn_cell there = shared_cell();
    struct tn_cell back = shared_cell();

    ends[0] = (struct tn_pad_cell){pad, there}; /* of the first: outgoing, incoming */
    ends[1] = (struct tn_pad_cell){pad, back};
    ends[2] = (struct tn_pad_cell){other, back}; /* of the second */
    ends[3] = (struct tn_pad_cell){other, there};
}

TEST(on_host, a_barrier_waits_for_its_peers)
{
    struct tn_pad_cell ends[4];
    uint64_t calls = sim.call_count("cuStreamBatchMemOp");

    barrier_cells(ends);
    for (int i = 1; i <= 20; i++) {
        OK(tn_pad_barrier(stream, &ends[0], &ends[1], 1));
        is_waiting(stream);
        OK(tn_pad_barrier(other_stream, &ends[2], &ends[3], 1));
        test_synchronize(stream);
        test_synchronize(other_stream);
    }
    ck_assert_uint_eq(sim.call_count("cuStreamBatchMemOp"), calls + 40);
    ck_assert_uint_eq(*raw(pad, ends[0].cell), 20);
    ck_assert_uint_eq(raw(pad, ends[0].cell)[1], 0); /* no flag was used */
}

static tn_cu_graphexec barrier_graph(tn_cu_stream on, const struct tn_pad_cell *ends)
{
    tn_cu_graph graph;
    tn_cu_graphexec exec;

    test_begin_capture(on, TN_CU_CAPTURE_MODE_GLOBAL);
    for (int i = 0; i < 3; i++)
        OK(tn_pad_barrier(on, &ends[0], &ends[1], 1));
    graph = test_end_capture(on);
    exec = test_instantiate(graph);
    test_destroy_graph(graph);
    return exec;
}

TEST(on_device, barriers_in_graphs_are_replayed)
{
    struct tn_pad_cell ends[4];
    tn_cu_graphexec execs[2];

    barrier_cells(ends);
    execs[0] = barrier_graph(stream, &ends[0]);
    execs[1] = barrier_graph(other_stream, &ends[2]);
    for (int i = 0; i < 20; i++) {
        test_launch(execs[0], stream);
        is_waiting(stream);
        test_launch(execs[1], other_stream);
        test_synchronize(stream);
    }
    test_synchronize(other_stream);
    /* Counts go on where they were, outside of graphs. */
    OK(tn_pad_barrier(stream, &ends[0], &ends[1], 1));
    OK(tn_pad_barrier(other_stream, &ends[2], &ends[3], 1));
    test_destroy_exec(execs[0]);
    test_destroy_exec(execs[1]);
}

TEST(on_host, barriers_without_sense_are_refused)
{
    struct tn_pad_cell ends[4];
    struct tn_pad_cell many[TN_BARRIER_PEERS_MAX + 1];

    barrier_cells(ends);
    for (size_t i = 0; i <= TN_BARRIER_PEERS_MAX; i++)
        many[i] = ends[0];
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_pad_barrier(stream, ends, ends, 0));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_pad_barrier(stream, many, many, TN_BARRIER_PEERS_MAX + 1));
    many[1].cell.generation += 2;
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_pad_barrier(stream, many, &ends[1], 2));
    ck_assert(!test_is_at_work(stream)); /* nothing was put there */
    ck_assert_uint_eq(*raw(pad, ends[0].cell), 0);
}

/* -- After a death -- */

TEST(on_host, a_survivor_ends_its_waits)
{
    struct tn_cell cell = shared_cell();
    uint64_t value;

    signal_on(pad, stream, cell);
    test_synchronize(stream);
    OK(tn_pad_wait(other, other_stream, cell, 4));
    OK(tn_pad_wait(other, other_stream, cell, 7));
    is_waiting(other_stream);
    OK(tn_pad_finish(other, cell, NULL));
    test_synchronize(other_stream);
    ck_assert_uint_eq(*raw(other, cell), 7);
    STATUS(TARN_ERR_WRONG_STATE, tn_pad_wait(other, other_stream, cell, 8));
    STATUS(TARN_ERR_WRONG_STATE, tn_pad_take(other, other_stream, cell));
    STATUS(TARN_ERR_WRONG_STATE, tn_pad_signal(other, other_stream, cell, &value));
    OK(tn_pad_finish(other, cell, NULL)); /* again */
    OK(tn_pad_release(other, cell));
    STATUS(TARN_ERR_CORRUPT, tn_pad_check(pad)); /* of the dead process */
    *raw(pad, cell) = 1;
}

TEST(on_host, a_count_that_came_further_stays)
{
    struct tn_cell cell = shared_cell();

    OK(tn_pad_wait(other, other_stream, cell, 2));
    for (int i = 0; i < 5; i++)
        signal_on(pad, stream, cell);
    test_synchronize(stream);
    OK(tn_pad_finish(other, cell, NULL));
    ck_assert_uint_eq(*raw(other, cell), 5);
}

/* The stream of a survivor whose graph takes, or raises, flags of a dead process. */
static void survive(struct tn_pad *view, tn_cu_stream on, tn_cu_stream helper)
{
    struct tn_cell cell = shared_cell();
    uint32_t *counter = test_host_alloc(64);
    tn_cu_graphexec exec;

    counter[0] = 0;
    exec = flag_graph(view, on, cell, counter, 4);
    test_launch(exec, on);
    while (test_is_at_work(on))
        OK(tn_pad_finish(view, cell, helper));
    test_synchronize(on);
    ck_assert_uint_eq(counter[0], 4);
    test_destroy_exec(exec);
    test_host_free(counter);
}

TEST(on_host, a_graph_that_takes_goes_on_step_by_step)
{
    survive(other, other_stream, NULL);
}

TEST(on_host, a_graph_that_raises_goes_on_step_by_step)
{
    survive(pad, stream, NULL);
}

TEST(on_device, another_stream_of_the_survivor_ends_its_waits)
{
    struct tn_cell cell = shared_cell();

    OK(tn_pad_wait(other, other_stream, cell, 9));
    is_waiting(other_stream);
    OK(tn_pad_finish(other, cell, stream));
    test_synchronize(other_stream);
    survive(pad, other_stream, stream);
    survive(other, stream, other_stream);
}

TEST(on_device, a_cell_without_work_needs_no_end)
{
    struct tn_cell cell = shared_cell();
    uint64_t calls = sim.call_count("cuStreamBatchMemOp");

    OK(tn_pad_finish(other, cell, stream));
    ck_assert_uint_eq(sim.call_count("cuStreamBatchMemOp"), calls);
}

/* -- Locks -- */

static struct {
    struct tn_lock lock; /* of the pad's records */
    unsigned int calls;
    test_words_call driver;
} watched;

/* Another thread could end the wait by now. */
static tn_cu_result watch(tn_cu_stream on, unsigned int count, tn_cu_batch_op *ops,
                          unsigned int flags)
{
    ck_assert(!TARN_DEBUG_CHECKS || !tn_lock_is_held(&watched.lock)); /* only then it is known */
    ck_assert(other->cells[0].awaits);
    ck_assert_uint_eq(other->cells[0].awaited, 1);
    watched.calls++;
    return watched.driver(on, count, ops, flags);
}

TEST(on_host, the_records_are_free_while_a_stream_gets_a_wait)
{
    struct tn_cell cell = shared_cell();

    ck_assert_uint_eq(cell.index, 0);
    tn_lock_init(&watched.lock, TN_RANK_SHARES);
    watched.driver = test_words_swap(watch);
    other->lock = &watched.lock;
    tn_lock_acquire(&watched.lock);
    OK(tn_pad_wait(other, other_stream, cell, 1));
    ck_assert(tn_lock_is_held(&watched.lock));
    tn_lock_release(&watched.lock);
    (void)test_words_swap(watched.driver);
    ck_assert_uint_eq(watched.calls, 1);
    OK(tn_pad_finish(other, cell, NULL));
}

/* -- Refusals -- */

TEST(on_host, a_refused_call_changes_no_count)
{
    struct tn_pad_cell ends[4];
    struct tn_cell cell = shared_cell();
    uint64_t value = 3;

    barrier_cells(ends);
    sim.plan_fault("cuStreamBatchMemOp", 1, 1, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_pad_signal(pad, stream, cell, &value));
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_pad_wait(other, other_stream, cell, 1));
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_pad_raise(pad, stream, cell));
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_pad_barrier(stream, &ends[0], &ends[1], 1));
    sim.clear_fault(NULL);
    ck_assert_uint_eq(value, 3);
    ck_assert_uint_eq(other->cells[cell.index].awaited, 0);
    ck_assert_uint_eq(signal_on(pad, stream, cell), 1);
    ck_assert_uint_eq(pad->cells[ends[0].cell.index].told, 0);
    OK(tn_pad_finish(other, cell, NULL));
    ck_assert_uint_eq(raw(pad, cell)[1], 0); /* nobody takes it */
}

TEST_LOOP(on_device, a_pad_that_cannot_be_made_leaves_nothing, 0, 3)
{
    static const char *const calls[] = {"cuMemCreate", "cuEventCreate", "cuMemsetD8Async"};
    struct tn_pad *more = NULL;
    tarn_sim_ledger before;
    tarn_sim_ledger after;

    sim.read_ledger(&before);
    sim.plan_fault(calls[_i], 1, 1, TN_CUDA_ERROR_INVALID_VALUE);
    STATUS(TARN_ERR_DRIVER, tn_pad_create(&gpu, TN_WORDS_ON_DEVICE, CELLS, stream, &more));
    sim.clear_fault(NULL);
    ck_assert_ptr_null(more);
    sim.read_ledger(&after);
    ck_assert_uint_eq(after.handles, before.handles);
    ck_assert_uint_eq(after.events, before.events);
    ck_assert_uint_eq(after.reservations, before.reservations);
}

TEST(on_device, a_pad_is_cleared_though_no_event_can_be_recorded)
{
    struct tn_pad *more = NULL;

    sim.plan_fault("cuEventRecord", 1, 1, TN_CUDA_ERROR_INVALID_VALUE);
    OK(tn_pad_create(&gpu, TN_WORDS_ON_DEVICE, CELLS, stream, &more));
    sim.clear_fault(NULL);
    ck_assert_uint_eq(*(atomic_uint_least64_t *)(uintptr_t)more->memory.address, 0);
    tn_pad_destroy(more);
}

TEST(on_device, pads_without_sense_are_refused)
{
    struct tn_pad *more = NULL;

    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_pad_create(&gpu, TN_WORDS_ON_HOST, 0, NULL, &more));
    STATUS(TARN_ERR_INVALID_ARGUMENT,
           tn_pad_create(&gpu, TN_WORDS_ON_HOST, TN_PAD_CELLS_MAX + 1, NULL, &more));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_pad_import(&gpu, TN_WORDS_ON_HOST, 0, 0, &more));
    STATUS(TARN_ERR_DRIVER, tn_pad_import(&gpu, TN_WORDS_ON_HOST, CELLS, -1, &more));
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    STATUS(TARN_ERR_WRONG_STATE, tn_pad_create(&gpu, TN_WORDS_ON_DEVICE, CELLS, stream, &more));
    test_destroy_graph(test_end_capture(stream));
    ck_assert_ptr_null(more);
}

/* -- What the check finds -- */

TEST(on_host, a_count_ahead_of_its_signals_is_found)
{
    struct tn_cell cell = shared_cell();

    signal_on(pad, stream, cell);
    test_synchronize(stream);
    *raw(pad, cell) = 2;
    STATUS(TARN_ERR_CORRUPT, tn_pad_check(pad));
    unit_expect_sentence("W2");
    *raw(pad, cell) = 1;
}

TEST(on_host, a_flag_that_is_none_is_found)
{
    struct tn_cell cell = shared_cell();

    raw(pad, cell)[1] = 2;
    STATUS(TARN_ERR_CORRUPT, tn_pad_check(pad));
    unit_expect_sentence("W3");
    raw(pad, cell)[1] = 0;
}

TEST(on_host, cells_that_are_counted_wrongly_are_found)
{
    shared_cell();
    pad->had_count++;
    STATUS(TARN_ERR_CORRUPT, tn_pad_check(pad));
    unit_expect_sentence("W4");
    pad->had_count--;
}

/* W1 */
CONTRACT_TEST(on_host, a_cell_has_two_processes)
{
    struct tn_cell cell = shared_cell();

    OK(tn_pad_wait(pad, stream, cell, 1));
    signal_on(pad, other_stream, cell);
    TARN_IGNORE(tn_pad_finish(pad, cell, NULL));
}
