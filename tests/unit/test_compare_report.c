// SPDX-License-Identifier: Apache-2.0
#include "inspect/compare_report.h"
#include "unit/unit.h"

static char text[4096];

#define POOL ((tarn_pool *)(uintptr_t)0x77) /* compared alone */

static const tarn_node_pair nodes[] = {
    {.kernels = {"scale", "scale"}, .parent = TARN_NO_NODE, .ordinal = 0},
    {.types = {4, 4}, .parent = TARN_NO_NODE, .ordinal = 7},
    {.types = {2, 2}, .parent = 1, .ordinal = 3},
    {.kernels = {"add", "a\"b"}, .parent = 1, .ordinal = 4},
    {.kernels = {NULL, NULL}, .parent = TARN_NO_NODE, .ordinal = 8},
};

static const char *write_report(const tarn_graph_diff *diff, tarn_report_format format)
{
    size_t length = tn_graph_diff_write_report(diff, format, text, sizeof text);

    ck_assert_uint_eq(length, strlen(text));
    ck_assert_uint_eq(tn_graph_diff_write_report(diff, format, NULL, 0), length);
    return text;
}

/* The line of one difference between graphs of those nodes. */
static const char *line_of(tarn_graph_difference difference)
{
    const tarn_graph_diff diff = {.complete = true,
                                  .same_structure = true,
                                  .node_count = 5,
                                  .nodes = nodes,
                                  .difference_count = 1,
                                  .differences = &difference};
    const char *head =
        "the graphs differ: 5 nodes of the same structure, 1 differences, 0 not inspected\n";

    (void)write_report(&diff, TARN_REPORT_TEXT);
    ck_assert_msg(strncmp(text, head, strlen(head)) == 0, "%s", text);
    return text + strlen(head);
}

GROUP(reports, NULL)

TEST(reports, equal_graphs_are_one_line)
{
    tarn_graph_diff diff = {.same_structure = true,
                            .complete = true,
                            .equal = true,
                            .corresponds = true,
                            .node_count = 3};

    ck_assert_str_eq(write_report(&diff, TARN_REPORT_TEXT),
                     "the graphs are equal: 3 nodes of the same structure, 0 differences, "
                     "0 not inspected\n");
    ck_assert_str_eq(write_report(&diff, TARN_REPORT_JSON),
                     "{\"same_structure\": true, \"complete\": true, \"equal\": true, "
                     "\"corresponds\": true, \"node_count\": 3, \"uninspected_count\": 0, "
                     "\"differences\": []}\n");
}

TEST(reports, graphs_that_correspond_are_said_to)
{
    static const tarn_graph_difference moved = {
        .kind = TARN_GRAPH_DIFFERENCE_PARAMETER, .corresponds = true, .values = {1, 2}};
    tarn_graph_diff diff = {.same_structure = true,
                            .complete = true,
                            .corresponds = true,
                            .node_count = 5,
                            .nodes = nodes,
                            .difference_count = 1,
                            .differences = &moved};

    ck_assert_str_eq(write_report(&diff, TARN_REPORT_TEXT),
                     "the graphs correspond: 5 nodes of the same structure, 1 differences, "
                     "0 not inspected\n"
                     "node 0, kernel scale: parameter 0, offset 0: 0x1, and 0x2\n");
    diff.same_structure = false;
    diff.corresponds = false;
    (void)write_report(&diff, TARN_REPORT_TEXT);
    ck_assert_ptr_nonnull(strstr(text, "the graphs differ: 5 nodes of another structure"));
}

TEST(reports, what_was_not_inspected_is_said)
{
    static const tarn_graph_difference missing = {
        .kind = TARN_GRAPH_DIFFERENCE_UNINSPECTED, .node = 4, .index = 2, .field = "operation"};
    tarn_graph_diff diff = {.same_structure = true,
                            .node_count = 5,
                            .nodes = nodes,
                            .uninspected_count = 1,
                            .difference_count = 1,
                            .differences = &missing};

    ck_assert_str_eq(write_report(&diff, TARN_REPORT_TEXT),
                     "no difference is known: 5 nodes of the same structure, 0 differences, "
                     "1 not inspected\n"
                     "node 8, type 0: not inspected: operation, 2\n");
}

TEST(reports, each_kind_of_difference_has_its_line)
{
    ck_assert_str_eq(line_of((tarn_graph_difference){.kind = TARN_GRAPH_DIFFERENCE_NODE_COUNT,
                                                     .node = TARN_NO_NODE,
                                                     .values = {5, 6}}),
                     "the graphs: node count: 5, and 6\n");
    ck_assert_str_eq(line_of((tarn_graph_difference){
                         .kind = TARN_GRAPH_DIFFERENCE_NODE_TYPE, .node = 1, .values = {4, 1}}),
                     "node 7, type 4: node type: 4, and 1\n");
    ck_assert_str_eq(line_of((tarn_graph_difference){.kind = TARN_GRAPH_DIFFERENCE_EDGES,
                                                     .node = 3,
                                                     .values = {2, TARN_NO_NODE}}),
                     "node 7.4, kernel add: behind node: 2, and none\n");
    ck_assert_str_eq(line_of((tarn_graph_difference){.kind = TARN_GRAPH_DIFFERENCE_FUNCTION,
                                                     .node = 3,
                                                     .values = {0x1000, 0x2000}}),
                     "node 7.4, kernel add: function: 0x1000, and 0x2000 a\"b\n");
    ck_assert_str_eq(line_of((tarn_graph_difference){.kind = TARN_GRAPH_DIFFERENCE_FUNCTION,
                                                     .node = 4,
                                                     .values = {0x1000, 0x2000}}),
                     "node 8, type 0: function: 0x1000, and 0x2000 \n");
    ck_assert_str_eq(line_of((tarn_graph_difference){.kind = TARN_GRAPH_DIFFERENCE_LAUNCH,
                                                     .node = 0,
                                                     .field = "grid_x",
                                                     .values = {16, 17}}),
                     "node 0, kernel scale: grid_x: 16, and 17\n");
    ck_assert_str_eq(line_of((tarn_graph_difference){.kind = TARN_GRAPH_DIFFERENCE_PARAMETER,
                                                     .node = 0,
                                                     .index = 2,
                                                     .offset = 8,
                                                     .bytes = 4,
                                                     .values = {1, 0xff}}),
                     "node 0, kernel scale: parameter 2, offset 8: 0x1, and 0xff\n");
    ck_assert_str_eq(line_of((tarn_graph_difference){.kind = TARN_GRAPH_DIFFERENCE_BUFFER,
                                                     .node = 0,
                                                     .offset = 16,
                                                     .bytes = 8,
                                                     .values = {1, 2}}),
                     "node 0, kernel scale: buffer, offset 16: 0x1, and 0x2\n");
}

TEST(reports, blocks_are_told_where_addresses_differ)
{
    tarn_graph_difference difference = {
        .kind = TARN_GRAPH_DIFFERENCE_FIELD,
        .corresponds = true,
        .node = 2,
        .field = "destination",
        .values = {0x1008, 0x2008},
        .blocks = {{(void *)(uintptr_t)0x1000, 100, 512, 8, POOL, 77},
                   {(void *)(uintptr_t)0x2000, 100, 512, 9, POOL, 0}},
    };

    ck_assert_str_eq(line_of(difference),
                     "node 7.3, type 2: destination, 0: 0x1008, and 0x2008, in block 8 (100 bytes "
                     "at 0x1000, tag 77) and block 9 (100 bytes at 0x2000), which correspond\n");
    difference.corresponds = false;
    difference.blocks[0] = (tarn_block){.pool = POOL};
    ck_assert_str_eq(line_of(difference),
                     "node 7.3, type 2: destination, 0: 0x1008, and 0x2008, in no live block and "
                     "block 9 (100 bytes at 0x2000)\n");
    difference.blocks[0] = (tarn_block){.pool = NULL}; /* an address of nobody's */
    ck_assert_str_eq(line_of(difference),
                     "node 7.3, type 2: destination, 0: 0x1008, and 0x2008, in no live block and "
                     "block 9 (100 bytes at 0x2000)\n");
}

TEST(reports, json_has_all_of_a_difference)
{
    static const tarn_graph_difference differences[] = {
        {.kind = TARN_GRAPH_DIFFERENCE_NODE_COUNT, .node = TARN_NO_NODE, .values = {5, 6}},
        {.kind = TARN_GRAPH_DIFFERENCE_PARAMETER,
         .corresponds = true,
         .node = 3,
         .index = 1,
         .offset = 8,
         .bytes = 8,
         .values = {16, 32},
         .blocks = {{(void *)(uintptr_t)16, 1, 512, 8, POOL, 77}, {.pool = POOL}}},
        {.kind = TARN_GRAPH_DIFFERENCE_FIELD, .node = 2, .field = "width", .values = {1, 2}},
    };
    const tarn_graph_diff diff = {
        .node_count = 5, .nodes = nodes, .difference_count = 3, .differences = differences};

    ck_assert_str_eq(
        write_report(&diff, TARN_REPORT_JSON),
        "{\"same_structure\": false, \"complete\": false, \"equal\": false, "
        "\"corresponds\": false, \"node_count\": 5, \"uninspected_count\": 0, \"differences\": ["
        "{\"kind\": \"node count\", \"node\": null, \"index\": 0, \"offset\": 0, \"bytes\": 0, "
        "\"field\": null, \"values\": [5, 6], \"blocks\": [null, null], \"corresponds\": false}, "
        "{\"kind\": \"parameter\", \"node\": \"7.4\", \"types\": [0, 0], "
        "\"kernels\": [\"add\", \"a\\u0022b\"], \"index\": 1, \"offset\": 8, \"bytes\": 8, "
        "\"field\": null, \"values\": [16, 32], \"blocks\": [{\"address\": 16, \"bytes\": 1, "
        "\"block_bytes\": 512, \"sequence\": 8, \"tag\": 77}, null], \"corresponds\": true}, "
        "{\"kind\": \"field\", \"node\": \"7.3\", \"types\": [2, 2], \"kernels\": [null, null], "
        "\"index\": 0, \"offset\": 0, \"bytes\": 0, \"field\": \"width\", \"values\": [1, 2], "
        "\"blocks\": [null, null], \"corresponds\": false}]}\n");
}
