// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "inspect/references.h"
#include "nodes/pointer.h"
#include "support/bodies.h"
#include "support/nodes.h"
#include "unit/ordered.h"
#include "unit/unit.h"

enum { BYTES = 8192 };

static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
                          ".visible .entry unit_references(.param .u8 small, .param .u64 address,\n"
                          "    .param .align 8 .b8 block[40])\n{ ret; }\n"
                          ".visible .entry unit_references_bare()\n{ ret; }\n";

/* unit_references' parameters, packed. */
struct params {
    uint8_t small;
    uint64_t address;
    uint64_t block[5];
};

static tarn_device *device;
static tn_cu_stream stream;
static tn_cu_function kernel;
static char *block;  /* of a pool of Tarn's */
static char *linear; /* the driver's */
static struct tn_references references;
static int64_t outstanding;

/* Of two words that differ in the lowest bit alone the driver is asked for the even one. */
__typeof__(tn_pointer_query) __real_tn_pointer_query;
__typeof__(tn_pointer_query) __wrap_tn_pointer_query;
tarn_status __wrap_tn_pointer_query(struct tn_gpu *gpu, uint64_t address, struct tn_pointee *memory)
{
    ck_assert_uint_eq(address % 2, 0);
    return __real_tn_pointer_query(gpu, address, memory);
}

static void open_device(void)
{
    device = unit_device();
    stream = test_stream();
    kernel = test_kernel(ptx, "unit_references");
    block = unit_alloc(unit_pool(device), BYTES, stream);
    linear = test_linear_alloc(BYTES);
    outstanding = tn_host_outstanding();
}

static void begin(void)
{
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
}

static tn_cu_graph end(void)
{
    return test_end_capture(stream);
}

static uint64_t word_of(const void *address)
{
    return (uint64_t)(uintptr_t)address;
}

static void collect(tn_cu_graph graph, size_t nodes, size_t count)
{
    OK(tn_references_collect(&references, &device->regions, graph, NULL, 0));
    ck_assert_uint_eq(references.node_count, nodes);
    ck_assert_uint_eq(references.count, count);
}

static void expect(size_t at, uint32_t node, tarn_pointer_place place, const void *address)
{
    const struct tn_reference *reference = &references.items[at];

    ck_assert_uint_eq(reference->node, node);
    ck_assert_int_eq(reference->place, (int)place);
    ck_assert_uint_eq(reference->address, word_of(address));
}

static void expect_word(size_t at, uint32_t node, const void *address, uint32_t param,
                        uint32_t offset)
{
    expect(at, node, TARN_PLACE_PARAMETER, address);
    ck_assert_uint_eq(references.items[at].index, param);
    ck_assert_uint_eq(references.items[at].offset, offset);
    ck_assert(!references.items[at].may_be_host);
}

static void drop(tn_cu_graph graph)
{
    tn_references_drop(&references);
    ck_assert_uint_eq(references.node_count, 0);
    ck_assert_int_eq(tn_host_outstanding(), outstanding);
    test_destroy_graph(graph);
}

static void launch(const struct params *given)
{
    struct params params = *given;
    void *values[] = {&params.small, &params.address, params.block};

    test_launch_kernel(stream, kernel, values, NULL);
}

static void launch_packed(const struct params *given, size_t bytes)
{
    struct params params = *given;
    void *extra[] = {TN_CU_LAUNCH_PARAM_BUFFER_POINTER, &params, TN_CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, TN_CU_LAUNCH_PARAM_END};

    test_launch_kernel(stream, kernel, NULL, extra);
}

GROUP(kernels, open_device)

TEST(kernels, a_kernels_addresses_are_found_in_parameters_and_structs)
{
    tn_cu_graph graph;

    begin();
    launch(&(struct params){
        7, word_of(block), {1, word_of(linear + 5), 0x3F800000, word_of(block + BYTES - 1), 0}});
    graph = end();
    collect(graph, 1, 3);
    expect_word(0, 0, block, 1, 0);
    expect_word(1, 0, linear + 5, 2, 8);
    expect_word(2, 0, block + BYTES - 1, 2, 24);
    ck_assert_int_eq(references.nodes[0].inspection, TARN_INSPECTED);
    ck_assert_str_eq(references.nodes[0].kernel, "unit_references");
    drop(graph);
}

TEST(kernels, a_packed_buffer_is_looked_through_by_its_layout)
{
    tn_cu_graph graph;

    begin();
    launch_packed(&(struct params){7, word_of(linear), {0, 0, 0, 0, word_of(block)}},
                  sizeof(struct params));
    graph = end();
    collect(graph, 1, 2);
    expect_word(0, 0, linear, 1, 0);
    expect_word(1, 0, block, 2, 32);
    drop(graph);
}

TEST(kernels, of_a_kernel_without_parameters_nothing_is_missing)
{
    tn_cu_graph graph;

    begin();
    test_launch_kernel(stream, test_kernel(ptx, "unit_references_bare"), NULL, NULL);
    graph = end();
    collect(graph, 1, 0);
    ck_assert_int_eq(references.nodes[0].inspection, TARN_INSPECTED);
    drop(graph);
}

/* As of a kernel that was compiled before CUDA told of parameters. */
TEST(kernels, a_kernel_whose_parameters_the_driver_does_not_tell_is_said_to_be_one)
{
    tn_cu_graph graph;

    begin();
    launch(&(struct params){7, word_of(block), {0}});
    launch_packed(&(struct params){7, word_of(linear), {word_of(block)}}, sizeof(struct params));
    graph = end();
    sim.plan_fault("cuFuncGetParamInfo", 1, 1, TN_CUDA_ERROR_INVALID_VALUE);
    collect(graph, 2, 2);
    ck_assert_int_eq(references.nodes[0].inspection, TARN_INSPECTION_NO_LAYOUT);
    ck_assert_int_eq(references.nodes[1].inspection, TARN_INSPECTED);
    expect(0, 1, TARN_PLACE_BUFFER, linear);
    ck_assert_uint_eq(references.items[0].offset, 8);
    expect(1, 1, TARN_PLACE_BUFFER, block);
    ck_assert_uint_eq(references.items[1].offset, 16);
    drop(graph);
}

TEST(kernels, memory_that_is_nobodys_is_no_address)
{
    char *freed = test_linear_alloc(BYTES);
    void *host = malloc(BYTES);
    tn_cu_graph graph;

    test_linear_free(freed);
    begin();
    launch(
        &(struct params){7, word_of(freed), {word_of(host), UINT64_MAX, 65535, word_of(&graph)}});
    graph = end();
    collect(graph, 1, 0);
    drop(graph);
    free(host);
}

TEST(kernels, freed_memory_of_tarns_is_an_address)
{
    tn_cu_graph graph;

    begin();
    launch(&(struct params){7, word_of(block), {0}});
    graph = end();
    OK(tarn_free(block));
    unit_trim(device);
    ck_assert_ptr_null(tn_address_table_find(word_of(block))); /* not even a segment is there */
    outstanding = tn_host_outstanding();
    collect(graph, 1, 1);
    expect_word(0, 0, block, 1, 0);
    drop(graph);
}

GROUP(others, open_device)

TEST(others, copies_and_sets_name_what_they_touch)
{
    static char pageable[256];
    tn_cu_graph graph;

    begin();
    test_set_words(stream, block + 64, 1, 16);
    test_copy(stream, linear, block + 128, 512);
    test_copy_down(stream, pageable, linear + 8, sizeof pageable);
    graph = end();
    collect(graph, 3, 5);
    expect(0, 0, TARN_PLACE_DESTINATION, block + 64);
    ck_assert_uint_eq(references.items[0].bytes, 64);
    expect(1, 1, TARN_PLACE_SOURCE, block + 128);
    expect(2, 1, TARN_PLACE_DESTINATION, linear);
    ck_assert_uint_eq(references.items[1].bytes, 512);
    ck_assert_uint_eq(references.items[2].bytes, 512);
    expect(3, 2, TARN_PLACE_SOURCE, linear + 8);
    expect(4, 2, TARN_PLACE_DESTINATION, pageable);
    ck_assert_uint_eq(references.items[4].bytes, sizeof pageable);
    ck_assert(references.items[4].may_be_host);
    ck_assert(!references.items[3].may_be_host);
    drop(graph);
}

/* Three planes of two rows out of larger ones, from the second row of the second plane on. */
TEST(others, copies_of_planes_reach_from_their_first_byte_to_their_last)
{
    tn_cu_graph graph;

    begin();
    test_copy_planes(stream, &(tn_cu_memcpy3d){.src_type = TN_CU_MEMORYTYPE_DEVICE,
                                               .src_device = word_of(block),
                                               .src_x = 8,
                                               .src_y = 1,
                                               .src_z = 1,
                                               .src_pitch = 64,
                                               .src_height = 4,
                                               .dst_type = TN_CU_MEMORYTYPE_DEVICE,
                                               .dst_device = word_of(linear),
                                               .dst_pitch = 32,
                                               .dst_height = 2,
                                               .width = 16,
                                               .height = 2,
                                               .depth = 3});
    graph = end();
    collect(graph, 1, 2);
    expect(0, 0, TARN_PLACE_SOURCE, block + (4 + 1) * 64 + 8);
    ck_assert_uint_eq(references.items[0].bytes, (2 * 4 + 1) * 64 + 16);
    expect(1, 0, TARN_PLACE_DESTINATION, linear);
    ck_assert_uint_eq(references.items[1].bytes, (2 * 2 + 1) * 32 + 16);
    drop(graph);
}

static void host_function(void *user)
{
    (void)user;
}

TEST(others, host_functions_and_batches_name_theirs)
{
    tn_cu_graph graph;

    begin();
    test_call_host(stream, host_function, &references);
    test_call_host(stream, host_function, NULL);
    test_write_value(stream, block + 32, 3);
    graph = end();
    collect(graph, 3, 2);
    expect(0, 0, TARN_PLACE_ARGUMENT, &references);
    ck_assert(references.items[0].may_be_host);
    expect(1, 2, TARN_PLACE_OPERATION, block + 32);
    ck_assert_uint_eq(references.items[1].bytes, 4);
    drop(graph);
}

/* Before the graph has run the driver knows no memory there. */
TEST(others, what_an_allocation_node_gives_is_an_address)
{
    tn_cu_graph graph;
    char *address[3];

    begin();
    for (int i = 0; i < 3; i++)
        address[i] = test_allocate_node(stream, BYTES);
    launch(&(struct params){7, word_of(address[1]), {word_of(address[2] + BYTES - 1)}});
    for (int i = 0; i < 3; i++)
        test_free_node(stream, address[i]);
    graph = end();
    collect(graph, 7, 8);
    for (uint32_t i = 0; i < 3; i++) {
        expect(i, i, TARN_PLACE_ALLOCATED, address[i]);
        ck_assert_uint_eq(references.items[i].bytes, BYTES);
        expect(5 + i, 4 + i, TARN_PLACE_FREED, address[i]);
    }
    expect_word(3, 3, address[1], 1, 0);
    expect_word(4, 3, address[2] + BYTES - 1, 2, 0);
    drop(graph);
}

/* The driver gives lower addresses to later graphs: here to the body, whose nodes come last. */
TEST(others, what_allocation_nodes_of_a_body_give_is_an_address)
{
    tarn_audit_body body = {0};
    tn_cu_graph graph;
    char *lower;
    char *upper;

    begin();
    upper = test_allocate_node(stream, BYTES);
    graph = end();
    begin();
    lower = test_allocate_node(stream, BYTES);
    launch(&(struct params){7, word_of(lower), {word_of(lower + BYTES - 1), word_of(upper)}});
    body.graph = end();
#ifdef __x86_64__ /* an emulator's memory may grow upwards: there this shows less */
    ck_assert_uint_lt(word_of(lower), word_of(upper));
#endif
    OK(tn_references_collect(&references, &device->regions, graph, &body, 1));
    ck_assert_uint_eq(references.node_count, 3);
    ck_assert_uint_eq(references.count, 5);
    expect(0, 0, TARN_PLACE_ALLOCATED, upper);
    expect(1, 1, TARN_PLACE_ALLOCATED, lower);
    expect_word(2, 2, lower, 1, 0);
    expect_word(3, 2, lower + BYTES - 1, 2, 0);
    expect_word(4, 2, upper, 2, 8);
    drop(graph);
    test_destroy_graph((tn_cu_graph)body.graph);
}

TEST(others, child_graphs_are_looked_into) /* G4 */
{
    tn_cu_graph inner;
    tn_cu_graph middle = test_graph();
    tn_cu_graph graph = test_graph();

    begin();
    launch(&(struct params){7, word_of(block), {0}});
    test_set_words(stream, linear, 1, 1);
    inner = end();
    test_add_child(middle, inner);
    test_add_empty(graph);
    test_add_child(graph, middle);
    test_add_child(graph, inner);
    test_destroy_graph(inner);
    test_destroy_graph(middle);
    collect(graph, 8, 4);
    for (uint32_t i = 0; i < 8; i++) {
        static const uint32_t parents[] = {TARN_NO_NODE, TARN_NO_NODE, TARN_NO_NODE, 1, 2, 2, 3, 3};
        static const uint32_t ordinals[] = {0, 1, 2, 0, 0, 1, 0, 1};

        ck_assert_uint_eq(references.nodes[i].parent, parents[i]);
        ck_assert_uint_eq(references.nodes[i].ordinal, ordinals[i]);
        ck_assert_int_eq(references.nodes[i].inspection, TARN_INSPECTED);
    }
    expect_word(0, 4, block, 1, 0);
    expect(1, 5, TARN_PLACE_DESTINATION, linear);
    expect_word(2, 6, block, 1, 0);
    expect(3, 7, TARN_PLACE_DESTINATION, linear);
    drop(graph);
}

TEST(others, a_conditional_nodes_bodies_are_said_to_be_missing) /* G4 */
{
    tn_cu_graph graph;

    begin();
    (void)test_add_conditional(stream, TN_CU_GRAPH_COND_IF, 1, 1);
    graph = end();
    collect(graph, 1, 0);
    ck_assert_int_eq(references.nodes[0].inspection, TARN_INSPECTION_NO_BODIES);
    drop(graph);
}

TEST(kernels, the_driver_is_asked_for_each_word_once)
{
    tn_cu_graph graph;
    uint64_t calls;

    begin();
    for (uint64_t i = 0; i < 1000; i++)
        launch(&(struct params){7, word_of(linear), {word_of(block), 1 << 20, 1 << 20, i + 99000}});
    graph = end();
    calls = sim.call_count("cuPointerGetAttributes");
    collect(graph, 1000, 2000);
    /* linear, 1 << 20, and the thousand others, of which two neighbours are one */
    ck_assert_uint_eq(sim.call_count("cuPointerGetAttributes") - calls, 502);
    drop(graph);
}

/* Each allocation fails in its turn, and each call of the driver: nothing is left. */
TEST(others, what_fails_leaves_nothing)
{
    static const char *const calls[] = {"cuGraphGetNodes",
                                        "cuGraphNodeGetType",
                                        "cuGraphKernelNodeGetParams",
                                        "cuFuncGetParamInfo",
                                        "cuPointerGetAttributes",
                                        "cuGraphMemsetNodeGetParams",
                                        "cuGraphMemAllocNodeGetParams"};
    tn_cu_graph graph;
    uint64_t failures = 0;
    tarn_status status;

    begin();
    launch(&(struct params){7, word_of(linear), {word_of(block)}});
    test_set_words(stream, linear, 1, 1);
    test_free_node(stream, test_allocate_node(stream, BYTES));
    graph = end();
    do {
        failures += 1;
        (void)tn_host_plan_fault(failures, false);
        status = tn_references_collect(&references, &device->regions, graph, NULL, 0);
        ck_assert(status == TARN_OK || status == TARN_ERR_HOST_MEMORY);
        ck_assert_uint_eq(tn_host_plan_fault(0, false), status == TARN_OK ? 0 : 1);
        ck_assert_uint_eq(references.count, status == TARN_OK ? 5 : 0);
        tn_references_drop(&references);
        ck_assert_int_eq(tn_host_outstanding(), outstanding);
    } while (status != TARN_OK);
    ck_assert_uint_gt(failures, 6);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER,
               tn_references_collect(&references, &device->regions, graph, NULL, 0));
        unit_expect_sentence(calls[i]);
        ck_assert_ptr_null(references.nodes);
        ck_assert_int_eq(tn_host_outstanding(), outstanding);
    }
    drop(graph);
}

/* The lower half of a word of a struct that is less than 1 MiB may be a number beside a gap; that of a parameter of its own
 * is an address. */
TEST(others, small_lower_halves_of_structs_may_be_numbers)
{
    const uint64_t base = (uint64_t)0x1234 << 32;
    struct params params = {.address = base + 999};
    void *values[] = {&params.small, &params.address, params.block};

    params.block[0] = base + 999;
    params.block[1] = base + MIB;
    params.block[2] = base + MIB - 1;
    tn_address_table_set(base, 1, tn_address_table_find(word_of(block)));
    begin();
    test_launch_kernel(stream, kernel, values, NULL);
    collect(end(), 1, 4);
    ck_assert(!references.items[0].may_be_number);
    ck_assert(references.items[1].may_be_number);
    ck_assert(!references.items[2].may_be_number);
    ck_assert(references.items[3].may_be_number);
    tn_address_table_set(base, 1, NULL);
}

/* An array of bytes, each the one before it or one more, may end in the middle of a word. */
TEST(others, ends_of_arrays_of_bytes_may_be_numbers)
{
    static const struct {
        uint64_t before; /* the four bytes in front of the word, and its lowest */
        bool is_end;
    } rows[] = {{0x2d2c2b2a, true},  {0x2d2d2d2d, true},  {0x2e2e2e2d, true}, {0x2f2e2d2c, false},
                {0x2d2c2b29, false}, {0x2c2b2a29, false}, {0, false},         {0x3f800000, false}};
    const uint64_t word = (word_of(block) & ~(uint64_t)255) + 0x2e;
    struct params params = {.address = word};
    void *values[] = {&params.small, &params.address, params.block};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tn_cu_graph graph;

        params.block[0] = word; /* behind nothing of its parameter */
        params.block[1] = rows[i].before << 32;
        params.block[2] = word;
        begin();
        test_launch_kernel(stream, kernel, values, NULL);
        graph = end();
        collect(graph, 1, 3);
        ck_assert(!references.items[0].may_be_number && !references.items[0].in_struct);
        ck_assert(!references.items[1].may_be_number && references.items[1].in_struct);
        ck_assert(references.items[2].may_be_number == rows[i].is_end);
        drop(graph);
    }
}

/* Zeros are in most structs, and most addresses begin with one; and 0 is not 255 and one more. */
TEST(others, addresses_are_no_ends_of_arrays_of_bytes)
{
    static const uint64_t before[] = {0, UINT64_MAX};
    struct params params = {.address = 0};
    void *values[] = {&params.small, &params.address, params.block};

    params.block[2] = word_of(block) & ~(uint64_t)255;
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        tn_cu_graph graph;

        params.block[1] = before[i];
        begin();
        test_launch_kernel(stream, kernel, values, NULL);
        graph = end();
        collect(graph, 1, 1);
        ck_assert(!references.items[0].may_be_number);
        drop(graph);
    }
}

/* Every place of a struct is looked at, whatever stands around it. */
TEST(others, an_address_is_found_among_numbers)
{
    struct params params = {.small = 1};
    void *values[] = {&params.small, &params.address, params.block};

    for (size_t at = 0; at < 5; at++) {
        for (size_t i = 0; i < 5; i++)
            params.block[i] = i == at ? word_of(block) + 8 * at : 77 * i;
        begin();
        test_launch_kernel(stream, kernel, values, NULL);
        collect(end(), 1, 1);
        ck_assert_uint_eq(references.items[0].address, word_of(block) + 8 * at);
        ck_assert_uint_eq(references.items[0].offset, 8 * at);
        ck_assert_uint_eq(references.items[0].index, 2);
        tn_references_drop(&references);
    }
}

/* Some at a time, nodes are read whole, each once, in their order. */
TEST(others, nodes_are_read_as_many_as_are_asked_for)
{
    enum { NODES = 100, ENOUGH = 2 };
    tn_cu_graph graph;
    uint32_t seen = 0;
    size_t reads = 0;

    begin();
    for (size_t i = 0; i < NODES; i++) {
        if (i % 2 == 0)
            test_set_words(stream, block + 64 * i, 0, 1);
        else
            test_copy(stream, block + 64 * i, linear, 8);
    }
    graph = end();
    OK(tn_references_open(&references, &device->regions, graph, NULL, 0));
    ck_assert_uint_eq(references.node_count, NODES);
    while (tn_references_go_on(&references)) {
        OK(tn_references_read(&references, ENOUGH));
        ck_assert_uint_ge(references.count, ENOUGH);
        reads += 1;
        for (size_t i = 0; i < references.count; i++) {
            const struct tn_reference *item = &references.items[i];

            ck_assert(item->node == seen || item->node + 1 == seen);
            if (item->place == TARN_PLACE_DESTINATION) {
                ck_assert_uint_eq(item->address, word_of(block) + 64 * seen);
                seen = item->node + 1;
            }
        }
    }
    ck_assert_uint_eq(seen, NODES);
    ck_assert_uint_eq(references.next, NODES);
    ck_assert_uint_gt(reads, 1); /* not all at once */
}
