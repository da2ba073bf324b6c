// SPDX-License-Identifier: Apache-2.0
#include "nodes/node.h"
#include "support/bodies.h"
#include "support/liar.h"
#include "unit/compared.h"

/* The first node of the graph was given that many bytes. */
static void shorten(tn_cu_graph graph, size_t bytes)
{
    static struct tn_driver liar;
    tn_cu_graphnode *nodes;
    size_t count;

    OK(tn_driver_graph_read_nodes(&device->gpu, graph, &nodes, &count));
    liar = test_shortening_buffers(device->gpu.driver, nodes[0], bytes);
    tn_host_free(nodes);
    device->gpu.driver = &liar;
}

GROUP(kernels, open_device)

TEST(kernels, words_that_differ_are_named_and_no_others)
{
    static const struct params other = {9, 0x1234, {1, 2, 3, 44, 0xFFFFFFFF}};
    tn_cu_graph a;
    tn_cu_graph b;

    begin();
    touch(block);
    launch(&usual);
    a = end();
    begin();
    touch(block);
    launch(&other);
    b = end();
    compare(a, b, 3);
    ck_assert(diff->same_structure && diff->complete && !diff->corresponds);
    expect_word(0, 1, 0, 0, 1, 7, 9);
    expect_word(1, 1, 2, 8, 8, 3 | (uint64_t)4 << 32, 3 | (uint64_t)44 << 32);
    expect_word(2, 1, 2, 16, 4, 5, 0xFFFFFFFF);
    drop(a, b);
}

TEST(kernels, how_parameters_were_passed_makes_no_difference)
{
    struct params params = usual;
    tn_cu_graph a;
    tn_cu_graph b;
    tn_cu_graph c;

    begin();
    launch(&usual);
    a = end();
    begin();
    launch_packed(&usual, PARAM_BYTES);
    b = end();
    params.address = word_of(block);
    begin();
    launch_packed(&params, PARAM_BYTES);
    c = end();
    shorten(c, 16); /* without the last one */
    compare(a, b, 0);
    tn_graph_diff_destroy(diff);
    compare(c, c, 0);
    tn_graph_diff_destroy(diff);
    compare(a, c, 2);
    expect_word(0, 0, 1, 0, 8, 0x1234, word_of(block));
    expect_field(1, TARN_GRAPH_DIFFERENCE_LAUNCH, 0, "buffer_bytes", 36, 16);
    tn_graph_diff_destroy(diff);
    compare(c, b, 2);
    expect_field(1, TARN_GRAPH_DIFFERENCE_LAUNCH, 0, "buffer_bytes", 16, PARAM_BYTES);
    test_destroy_graph(a);
    drop(b, c);
}

TEST(kernels, each_part_of_a_launchs_shape_counts)
{
    static const char *const names[] = {"grid_x",  "grid_y",  "grid_z",      "block_x",
                                        "block_y", "block_z", "shared_bytes"};
    uint32_t shape[7] = {1, 2, 3, 4, 5, 6, 128};
    tn_cu_graph a;

    begin();
    test_launch_shaped(stream, bare, shape, NULL);
    a = end();
    for (size_t i = 0; i < 7; i++) {
        tn_cu_graph b;

        shape[i] += 1;
        begin();
        test_launch_shaped(stream, bare, shape, NULL);
        b = end();
        shape[i] -= 1;
        compare(a, b, 1);
        expect_field(0, TARN_GRAPH_DIFFERENCE_LAUNCH, 0, names[i], shape[i], shape[i] + 1);
        ck_assert(diff->same_structure && !diff->corresponds);
        tn_graph_diff_destroy(diff);
        test_destroy_graph(b);
    }
    test_destroy_graph(a);
}

TEST(kernels, kernels_of_other_functions_are_told_by_name)
{
    static const uint32_t shape[7] = {2, 1, 1, 1, 1, 1, 0};
    tn_cu_graph a;
    tn_cu_graph b;

    begin();
    launch(&usual);
    a = end();
    begin();
    test_launch_shaped(stream, bare, shape, NULL);
    b = end();
    compare(a, b, 2);
    expect(0, TARN_GRAPH_DIFFERENCE_FUNCTION, 0, word_of(kernel), word_of(bare));
    ck_assert_str_eq(diff->nodes[0].kernels[0], "unit_compare");
    ck_assert_str_eq(diff->nodes[0].kernels[1], "unit_compare_bare");
    expect_field(1, TARN_GRAPH_DIFFERENCE_LAUNCH, 0, "grid_x", 1, 2);
    ck_assert(diff->same_structure);
    drop(a, b);
}

TEST(kernels, what_cannot_be_inspected_is_not_equal)
{
    tn_cu_graph graphs[2];

    for (int i = 0; i < 2; i++) {
        begin();
        launch(&usual);
        launch_packed(&usual, PARAM_BYTES);
        (void)test_add_conditional(stream, TN_CU_GRAPH_COND_IF, 1, 1);
        graphs[i] = end();
    }
    compare(graphs[0], graphs[1], 1);
    ck_assert_uint_eq(diff->uninspected_count, 1);
    ck_assert(diff->same_structure && !diff->complete && !diff->corresponds);
    expect_field(0, TARN_GRAPH_DIFFERENCE_UNINSPECTED, 2, "bodies", 0, 0);
    tn_graph_diff_destroy(diff);
    sim.plan_fault("cuFuncGetParamInfo", 1, 1, TN_CUDA_ERROR_INVALID_VALUE);
    compare(graphs[0], graphs[1], 2);
    ck_assert_uint_eq(diff->uninspected_count, 2);
    expect_field(0, TARN_GRAPH_DIFFERENCE_UNINSPECTED, 0, "parameters", 0, 0);
    drop(graphs[0], graphs[1]);
}

/* _i: which of the graphs has the buffer. */
TEST_LOOP(kernels, a_buffer_and_values_whose_layout_is_not_known_are_not_compared, 0, 2)
{
    tn_cu_graph graphs[2];

    for (int i = 0; i < 2; i++) {
        begin();
        if (i == _i)
            launch_packed(&usual, PARAM_BYTES);
        else
            launch(&usual);
        graphs[i] = end();
    }
    sim.plan_fault("cuFuncGetParamInfo", 1, 1, TN_CUDA_ERROR_INVALID_VALUE);
    compare(graphs[0], graphs[1], 1);
    expect_field(0, TARN_GRAPH_DIFFERENCE_UNINSPECTED, 0, "parameters", 0, 0);
    drop(graphs[0], graphs[1]);
}

/* As of a kernel that was compiled before CUDA told of parameters. */
TEST(kernels, a_buffer_whose_layout_is_not_known_is_compared_by_words)
{
    struct params params = usual;
    const tarn_graph_difference *difference;
    tn_cu_graph a;
    tn_cu_graph b;

    begin();
    params.address = word_of(block);
    launch_packed(&params, PARAM_BYTES);
    a = end();
    begin();
    params.address = word_of(second);
    launch_packed(&params, PARAM_BYTES);
    b = end();
    shorten(b, 24);
    sim.plan_fault("cuFuncGetParamInfo", 1, 1, TN_CUDA_ERROR_INVALID_VALUE);
    compare(a, b, 2);
    expect_field(0, TARN_GRAPH_DIFFERENCE_LAUNCH, 0, "buffer_bytes", PARAM_BYTES, 24);
    difference = expect(1, TARN_GRAPH_DIFFERENCE_BUFFER, 0, word_of(block), word_of(second));
    ck_assert_uint_eq(difference->offset, 8);
    ck_assert_uint_eq(difference->bytes, 8);
    ck_assert(difference->corresponds);
    drop(a, b);
}

/* The section names one block twice, another one once, and one that stays. */
static tn_cu_graph section(char *x, char *y, char *z)
{
    begin();
    touch(x);
    test_set_words(stream, x + 64, 1, 16);
    test_copy(stream, memory, y, 64);
    touch(z);
    return end();
}

GROUP(blocks, open_device)

TEST(blocks, blocks_that_take_each_others_place_correspond)
{
    tn_cu_graph a = section(block, second, memory);
    tn_cu_graph b = section(second, block, memory);
    tn_cu_graph c = section(block, second, third);

    compare(a, b, 3);
    ck_assert(diff->same_structure && diff->corresponds);
    for (size_t i = 0; i < 3; i++)
        ck_assert(diff->differences[i].corresponds);
    ck_assert_ptr_eq(diff->differences[1].blocks[0].address, block);
    ck_assert_ptr_eq(diff->differences[1].blocks[1].address, second);
    expect_field(2, TARN_GRAPH_DIFFERENCE_FIELD, 2, "source", word_of(second), word_of(block));
    tn_graph_diff_destroy(diff);
    compare(a, c, 1); /* the driver's memory is no block */
    ck_assert(!diff->corresponds && !diff->differences[0].corresponds);
    ck_assert_ptr_null(diff->differences[0].blocks[1].address);
    test_destroy_graph(b);
    drop(a, c);
}

TEST(blocks, one_address_that_changed_is_the_only_one_that_is_named)
{
    tn_cu_graph a = section(block, second, third);
    tn_cu_graph b = section(block, second, second); /* which both name elsewhere */

    compare(a, b, 1);
    ck_assert(!diff->corresponds);
    expect_word(0, 3, 1, 0, 8, word_of(third), word_of(second));
    ck_assert_ptr_eq(diff->differences[0].blocks[0].address, third);
    ck_assert_ptr_eq(diff->differences[0].blocks[1].address, second);
    drop(a, b);
}

/* Each allocation, and each call of the driver. */
TEST(blocks, what_fails_leaves_nothing)
{
    static const char *const calls[] = {"cuGraphGetNodes",           "cuGraphGetEdges",
                                        "cuGraphNodeGetType",        "cuGraphKernelNodeGetParams",
                                        "cuFuncGetParamInfo",        "cuGraphMemsetNodeGetParams",
                                        "cuGraphMemcpyNodeGetParams"};
    tn_cu_graph a = section(block, second, third);
    tn_cu_graph b = section(second, block, third);

    expect_no_leak(a, b, 20);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        for (uint64_t nth = 1; nth <= 2; nth++) {
            diff = UNTOUCHED;
            sim.plan_fault(calls[i], nth, 0, TN_CUDA_ERROR_UNKNOWN);
            STATUS(TARN_ERR_DRIVER, tn_graphs_compare(&device->regions, a, b, &diff));
            unit_expect_sentence(calls[i]);
            ck_assert_untouched(diff);
            ck_assert_int_eq(tn_host_outstanding(), outstanding);
        }
    }
    compare(a, b, 3);
    drop(a, b);
}
