// SPDX-License-Identifier: Apache-2.0
/* G8: what is told of nodes captured on one stream, on several, and added by hand. */
#include "inspect/precedence.h"
#include "support/nodes.h"
#include "support/world.h"
#include "unit/ordered.h"
#include "unit/unit.h"

enum { WORDS = 16, NODES_MAX = 64 };

static tarn_device *device;
static tn_cu_stream stream;
static tn_cu_stream side;
static void *words;
static struct tn_references references;
static struct tn_precedence order;
static uint64_t place[1 + TN_FRONTIER_MAX];

static void begin(void)
{
    device = unit_device();
    stream = test_stream();
    side = test_stream();
    words = test_linear_alloc(4096);
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
}

static void end(void)
{
    tn_precedence_drop(&order);
    tn_references_drop(&references);
}

static void work(tn_cu_stream on)
{
    test_set_words(on, words, 1, WORDS);
}

/* Where the stream stands now. */
static void stand(tn_cu_stream on)
{
    struct tn_place at;

    tn_place_ask(&device->gpu, on, unit_order(device, on), &at);
    ck_assert(at.known);
    place[0] = at.count;
    for (size_t i = 0; i < at.count; i++)
        place[1 + i] = (uint64_t)(uintptr_t)at.nodes[i];
}

static tn_cu_graph read_back(void)
{
    tn_cu_graph graph = test_end_capture(stream);

    OK(tn_references_collect(&references, &device->regions, graph, NULL, 0));
    ck_assert_uint_eq(references.level_count, 1);
    OK(tn_precedence_read(&order, &device->gpu, &references, &references.levels[0]));
    return graph;
}

/* A letter for each node: before, behind, unknown. */
static void expect(const char *letters)
{
    char found[NODES_MAX] = "";

    ck_assert_uint_eq(references.node_count, strlen(letters));
    for (uint32_t i = 0; i < references.node_count; i++)
        found[i] = "<>."[tn_precedence_find(&order, i, place)];
    ck_assert_str_eq(found, letters);
}

GROUP(captured, begin, end)

TEST(captured, on_one_stream_all_is_known)
{
    tn_cu_graph graph;

    for (int i = 0; i < 5; i++) {
        if (i == 3)
            stand(stream);
        work(stream);
    }
    graph = read_back();
    expect("<<<>>");
    place[0] = 0; /* behind none */
    order.next_of = NULL;
    expect(">>>>>");
    test_destroy_graph(graph);
}

TEST(captured, behind_a_join_all_is_known)
{
    tn_cu_graph graph;

    work(stream);
    test_order(stream, side);
    work(side);
    work(stream);
    work(side);
    test_order(side, stream);
    stand(stream);
    ck_assert_uint_eq(place[0], 2);
    work(stream);
    work(stream);
    graph = read_back();
    expect("<<<<>>");
    test_destroy_graph(graph);
}

/* The first nodes behind a fork may be from before the moment. */
TEST(captured, beside_a_fork_it_is_known_behind_the_last_branch)
{
    tn_cu_graph graph;

    work(stream);
    test_order(stream, side);
    work(side);
    stand(stream);
    work(side);
    work(stream);
    work(side);
    work(stream);
    test_order(side, stream);
    work(stream);
    graph = read_back();
    expect("<...>>>");
    test_destroy_graph(graph);
}

/* Whatever was captured on another stream before the last node is before. */
TEST(captured, streams_of_one_capture_are_told_by_the_last_node)
{
    tn_cu_graph graph;

    work(stream);
    test_order(stream, side);
    for (int i = 0; i < 3; i++) {
        work(side);
        work(stream);
    }
    stand(stream);
    work(side);
    work(stream);
    test_order(side, stream);
    work(stream);
    graph = read_back();
    expect("<<<<<<<.>>");
    test_destroy_graph(graph);
}

TEST(captured, nodes_added_by_hand_are_not_known)
{
    tn_cu_graph graph;

    work(stream);
    stand(stream);
    work(stream);
    graph = test_end_capture(stream);
    test_add_set(graph, words, WORDS);
    OK(tn_references_collect(&references, &device->regions, graph, NULL, 0));
    OK(tn_precedence_read(&order, &device->gpu, &references, &references.levels[0]));
    expect("<>.");
    place[0] = 0;
    order.next_of = NULL;
    expect("..."); /* two nodes behind none */
    place[0] = 1;
    place[1] = 77; /* no node */
    expect("...");
    place[0] = UINT8_MAX;
    expect("...");
    test_destroy_graph(graph);
}

TEST(captured, without_host_memory_nothing_is_left)
{
    int64_t before = tn_host_outstanding();
    tn_cu_graph graph;
    uint64_t failed = 1;

    work(stream);
    work(stream);
    graph = test_end_capture(stream);
    OK(tn_references_collect(&references, &device->regions, graph, NULL, 0));
    for (uint64_t nth = 1; failed > 0; nth++) {
        tarn_status status;

        (void)tn_host_plan_fault(nth, false);
        status = tn_precedence_read(&order, &device->gpu, &references, &references.levels[0]);
        failed = tn_host_plan_fault(0, false);
        ck_assert_int_eq(status, failed > 0 ? TARN_ERR_HOST_MEMORY : TARN_OK);
        tn_precedence_drop(&order);
        order = (struct tn_precedence){.is_read = false};
    }
    tn_references_drop(&references);
    ck_assert_int_eq(tn_host_outstanding(), before);
    test_destroy_graph(graph);
}
