// SPDX-License-Identifier: Apache-2.0
#include "inspect/fields.h"
#include "unit/unit.h"

static struct tn_node node;
static struct tn_fields fields;

static void clear(void)
{
    memset(&node, 0, sizeof node);
    memset(&fields, 0x5e, sizeof fields);
}

static void read_part(size_t part, size_t count)
{
    ck_assert(tn_fields_read(&node, part, &fields));
    ck_assert_uint_eq(fields.count, count);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            ck_assert_str_ne(fields.items[i].name, fields.items[j].name);
}

static void expect_no_part(size_t part)
{
    ck_assert(!tn_fields_read(&node, part, &fields));
}

static void expect(const char *name, uint64_t value, bool is_address)
{
    for (size_t i = 0; i < fields.count; i++) {
        if (strcmp(fields.items[i].name, name) != 0)
            continue;
        ck_assert_uint_eq(fields.items[i].value, value);
        ck_assert(fields.items[i].is_address == is_address);
        return;
    }
    ck_abort_msg("there is no %s", name);
}

GROUP(fields, clear)

TEST(fields, of_a_copy_all_that_has_a_meaning_is_there)
{
    static char host;

    node.type = TN_CU_NODE_MEMCPY;
    node.memcpy = (tn_cu_memcpy3d){.src_x = 1,
                                   .src_y = 2,
                                   .src_z = 3,
                                   .src_lod = 4,
                                   .src_type = TN_CU_MEMORYTYPE_HOST,
                                   .src_host = &host,
                                   .src_device = 77,
                                   .src_pitch = 5,
                                   .src_height = 6,
                                   .dst_x = 7,
                                   .dst_y = 8,
                                   .dst_z = 9,
                                   .dst_lod = 10,
                                   .dst_type = TN_CU_MEMORYTYPE_DEVICE,
                                   .dst_host = &host,
                                   .dst_device = 11,
                                   .dst_pitch = 12,
                                   .dst_height = 13,
                                   .width = 14,
                                   .height = 15,
                                   .depth = 16};
    read_part(0, TN_FIELDS_MAX);
    expect("source_type", TN_CU_MEMORYTYPE_HOST, false);
    expect("source", (uint64_t)(uintptr_t)&host, false);
    expect("source_x", 1, false);
    expect("source_y", 2, false);
    expect("source_z", 3, false);
    expect("source_level", 4, false);
    expect("source_pitch", 5, false);
    expect("source_height", 6, false);
    expect("destination_type", TN_CU_MEMORYTYPE_DEVICE, false);
    expect("destination", 11, true);
    expect("destination_x", 7, false);
    expect("destination_y", 8, false);
    expect("destination_z", 9, false);
    expect("destination_level", 10, false);
    expect("destination_pitch", 12, false);
    expect("destination_height", 13, false);
    expect("width", 14, false);
    expect("height", 15, false);
    expect("depth", 16, false);
    expect_no_part(1);
    node.memcpy.src_type = TN_CU_MEMORYTYPE_UNIFIED;
    node.memcpy.dst_type = 3; /* an array */
    node.memcpy.dst_array = &node;
    read_part(0, TN_FIELDS_MAX);
    expect("source", 77, true);
    expect("destination", (uint64_t)(uintptr_t)&node, false);
}

TEST(fields, a_pitch_of_one_row_means_nothing)
{
    node.type = TN_CU_NODE_MEMSET;
    node.memset = (tn_cu_memset_node_params){
        .dst = 1, .pitch = 2, .value = 3, .element_bytes = 4, .width = 5, .height = 1};
    read_part(0, 6);
    expect("destination", 1, true);
    expect("value", 3, false);
    expect("element_bytes", 4, false);
    expect("width", 5, false);
    expect("height", 1, false);
    expect("pitch", 0, false);
    node.memset.height = 2;
    read_part(0, 6);
    expect("pitch", 2, false);
    expect_no_part(1);
}

static void host_function(void *user)
{
    (void)user;
}

TEST(fields, host_functions_events_and_frees_have_what_they_were_made_with)
{
    node.type = TN_CU_NODE_HOST;
    node.host = (tn_cu_host_node_params){host_function, &node};
    read_part(0, 2);
    expect("function", (uint64_t)(uintptr_t)host_function, false);
    expect("argument", (uint64_t)(uintptr_t)&node, false);
    expect_no_part(1);
    clear();
    node.event = (tn_cu_event)(void *)&fields;
    node.type = TN_CU_NODE_WAIT_EVENT;
    read_part(0, 1);
    expect("event", (uint64_t)(uintptr_t)&fields, false);
    node.type = TN_CU_NODE_EVENT_RECORD;
    read_part(0, 1);
    expect("event", (uint64_t)(uintptr_t)&fields, false);
    clear();
    node.type = TN_CU_NODE_MEM_FREE;
    node.freed = 99;
    read_part(0, 1);
    expect("address", 99, true);
}

TEST(fields, an_allocation_has_a_part_for_each_right_of_access)
{
    static const tn_cu_access_desc access[2] = {{{1, 2}, 3}, {{4, 5}, 6}};

    node.type = TN_CU_NODE_MEM_ALLOC;
    node.alloc = (tn_cu_alloc_node_params){.pool_props = {.type = 1,
                                                          .handle_types = 2,
                                                          .location = {3, 4},
                                                          .max_bytes = 5,
                                                          .usage = 6},
                                           .access = access,
                                           .access_count = 2,
                                           .bytes = 7,
                                           .address = 8};
    read_part(0, 9);
    expect("type", 1, false);
    expect("handle_types", 2, false);
    expect("location_type", 3, false);
    expect("location", 4, false);
    expect("max_bytes", 5, false);
    expect("usage", 6, false);
    expect("access_count", 2, false);
    expect("bytes", 7, false);
    expect("address", 8, true);
    read_part(2, 3);
    expect("access_location_type", 4, false);
    expect("access_location", 5, false);
    expect("access", 6, false);
    expect_no_part(3);
}

TEST(fields, a_batch_has_a_part_for_each_operation)
{
    tn_cu_batch_op ops[6] = {
        {.value = {TN_CU_STREAM_MEM_OP_WAIT_VALUE_32, 1, 0xF00000002, 3, 77}},
        {.value = {TN_CU_STREAM_MEM_OP_WRITE_VALUE_64, 4, 0xF00000005, 6, 77}},
        {.pad = {TN_CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES | (uint64_t)7 << 32}},
        {.pad = {TN_CU_STREAM_MEM_OP_BARRIER | (uint64_t)8 << 32, 9 | (uint64_t)77 << 32}},
        {.value = {TN_CU_STREAM_MEM_OP_WRITE_VALUE_32, 10, 0xF0000000B, 12, 77}},
        {.value = {TN_CU_STREAM_MEM_OP_WAIT_VALUE_64, 13, 14, 15, 77}},
    };
    static const uint64_t expected[6][3] = {{1, 2, 3}, {4, 0xF00000005, 6}, {0, 0, 7},
                                            {0, 8, 9}, {10, 11, 12},        {13, 14, 15}};

    node.type = TN_CU_NODE_BATCH_MEM_OP;
    node.batch = (tn_cu_batch_node_params){(tn_cu_context)(void *)&node, 6, ops, 16};
    read_part(0, 3);
    expect("context", (uint64_t)(uintptr_t)&node, false);
    expect("count", 6, false);
    expect("flags", 16, false);
    for (size_t i = 0; i < 6; i++) {
        read_part(1 + i, 4);
        expect("operation", (uint64_t)ops[i].operation, false);
        expect("address", expected[i][0], true);
        expect("value", expected[i][1], false);
        expect("flags", expected[i][2], false);
        ck_assert(!fields.is_opaque);
    }
    expect_no_part(7);
    ops[0].operation = 99;
    read_part(1, 4);
    expect("operation", 99, false);
    ck_assert(fields.is_opaque);
}

TEST(fields, other_nodes_have_no_fields)
{
    static const tn_cu_graphnode_type types[] = {TN_CU_NODE_KERNEL, TN_CU_NODE_GRAPH,
                                                 TN_CU_NODE_EMPTY, TN_CU_NODE_CONDITIONAL,
                                                 (tn_cu_graphnode_type)8};

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        node.type = types[i];
        expect_no_part(0);
        ck_assert_uint_eq(fields.count, 0);
    }
}
