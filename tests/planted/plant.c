// SPDX-License-Identifier: Apache-2.0
/* A graph is three nodes: a correct set, the one with the mistake, a correct set. Where that is in a child graph or a
 * body, it stands between two correct sets there, too. */
#include "planted/plant.h"

#include "planted/judge.h"
#include "support/bodies.h"
#include "support/nodes.h"

enum { ROW_BYTES = 64, PITCH = 512, ROWS = 3, TOUCHED = 256 };

static bool is_tarns; /* the capture */
static void *pinned;
static tn_cu_function kernel;

static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry " PLANTED_KERNEL "(.param .u64 first, .param .u32 number,\n"
    "    .param .align 8 .b8 block[24])\n{\n ret;\n}\n";

/* -- Fixtures --------------------------------------------------------------------------------------- */

static void open_for(bool tarn)
{
    is_tarns = tarn;
    test_start();
    if (kernel == NULL) /* once a process, and not among what a test leaves behind */
        kernel = test_kernel(ptx, PLANTED_KERNEL);
    test_outputs_open();
    pinned = test_host_alloc(PLANTED_TOUCHED_MAX);
}

void planted_open_for_tarn(void)
{
    open_for(true);
}

void planted_open_for_the_program(void)
{
    open_for(false);
}

void planted_close(void)
{
    test_host_free(pinned);
    test_outputs_close();
}

void planted_launch(tn_cu_stream stream, const struct planted_params *given)
{
    struct planted_params params = *given;
    void *values[] = {&params.first, &params.number, params.block};

    test_launch_kernel(stream, kernel, values, NULL);
}

void planted_launch_packed(tn_cu_stream stream, const struct planted_params *given)
{
    struct planted_params params = *given;
    size_t bytes = sizeof params;
    void *extra[] = {TN_CU_LAUNCH_PARAM_BUFFER_POINTER, &params, TN_CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, TN_CU_LAUNCH_PARAM_END};

    test_launch_kernel(stream, kernel, NULL, extra);
}

/* -- Nodes ------------------------------------------------------------------------------------------ */

static void put_parameter(tn_cu_stream stream, void *address)
{
    planted_launch(stream, &(struct planted_params){planted_word(address), 7, {1, 2, 3}});
}

static void put_struct(tn_cu_stream stream, void *address)
{
    uint64_t good = planted_word(world.outputs[1]);

    planted_launch(stream, &(struct planted_params){0, 7, {1, good, planted_word(address)}});
}

static void put_packed(tn_cu_stream stream, void *address)
{
    uint64_t good = planted_word(world.outputs[1]);

    planted_launch_packed(stream, &(struct planted_params){good, 7, {1, planted_word(address), 3}});
}

static void put_copy_from(tn_cu_stream stream, void *address)
{
    test_copy(stream, world.outputs[1], address, TOUCHED);
}

static void put_copy_to(tn_cu_stream stream, void *address)
{
    test_copy(stream, address, world.outputs[1], TOUCHED);
}

static void put_any_from(tn_cu_stream stream, void *address)
{
    test_copy_any(stream, world.outputs[1], address, TOUCHED);
}

static void put_upload_from(tn_cu_stream stream, void *address)
{
    test_copy_up(stream, world.outputs[1], address, TOUCHED);
}

static void put_upload_to(tn_cu_stream stream, void *address)
{
    test_copy_up(stream, address, pinned, TOUCHED);
}

static void put_download_from(tn_cu_stream stream, void *address)
{
    test_copy_down(stream, pinned, address, TOUCHED);
}

static void put_download_to(tn_cu_stream stream, void *address)
{
    test_copy_down(stream, address, world.outputs[1], TOUCHED);
}

static void put_rows_from(tn_cu_stream stream, void *address)
{
    test_copy_rows(stream, world.outputs[1], address, ROW_BYTES, PITCH, ROWS);
}

static void put_rows_to(tn_cu_stream stream, void *address)
{
    test_copy_rows(stream, address, world.outputs[1], ROW_BYTES, PITCH, ROWS);
}

static void put_set(tn_cu_stream stream, void *address)
{
    test_set_words(stream, address, 7, TOUCHED / sizeof(uint32_t));
}

static void put_set_rows(tn_cu_stream stream, void *address)
{
    test_set_rows(stream, address, ROW_BYTES, PITCH, ROWS);
}

static void put_batch(tn_cu_stream stream, void *address)
{
    test_write_value(stream, address, 7);
}

static void host_function(void *user)
{
    (void)user;
}

static void put_argument(tn_cu_stream stream, void *address)
{
    test_call_host(stream, host_function, address);
}

enum { ROWS_TOUCHED = (ROWS - 1) * PITCH + ROW_BYTES };

/* How an address is named; and the correct ones that the node names besides, of a block and page-locked. */
static const struct carrier {
    enum planted_graph graph;
    void (*put)(tn_cu_stream stream, void *address);
    int type;
    tarn_pointer_place place;
    uint32_t index;
    uint32_t offset;
    size_t touched;
    size_t external;
    size_t pinned;
    size_t inner; /* where in a block the address lies */
} carriers[] = {
#define KERNEL TN_CU_NODE_KERNEL, TARN_PLACE_PARAMETER
#define COPIED_FROM TN_CU_NODE_MEMCPY, TARN_PLACE_SOURCE, 0, 0
#define COPIED_TO TN_CU_NODE_MEMCPY, TARN_PLACE_DESTINATION, 0, 0
#define SET TN_CU_NODE_MEMSET, TARN_PLACE_DESTINATION, 0, 0
    [CARRIER_PARAMETER] = {IN_GRAPH, put_parameter, KERNEL, 0, 0, 0, 0, 0, 0},
    [CARRIER_STRUCT] = {IN_GRAPH, put_struct, KERNEL, 2, 16, 0, 1, 0, 256},
    [CARRIER_PACKED] = {IN_GRAPH, put_packed, KERNEL, 2, 8, 0, 1, 0, 255},
    [CARRIER_CHILD_KERNEL] = {IN_CHILD, put_parameter, KERNEL, 0, 0, 0, 0, 0, 0},
    [CARRIER_CHILD_SET] = {IN_CHILD, put_set, SET, TOUCHED, 0, 0, 64},
    [CARRIER_CHILD_UPLOAD_FROM] = {IN_CHILD, put_upload_from, COPIED_FROM, TOUCHED, 1, 0, 64},
    [CARRIER_BODY_KERNEL] = {IN_BODY, put_struct, KERNEL, 2, 16, 0, 1, 0, 0},
    [CARRIER_BODY_SET] = {IN_BODY, put_set, SET, TOUCHED, 0, 0, 0},
    [CARRIER_BODY_UPLOAD_FROM] = {IN_BODY, put_upload_from, COPIED_FROM, TOUCHED, 1, 0, 64},
    [CARRIER_COPY_FROM] = {IN_GRAPH, put_copy_from, COPIED_FROM, TOUCHED, 1, 0, 64},
    [CARRIER_COPY_TO] = {IN_GRAPH, put_copy_to, COPIED_TO, TOUCHED, 1, 0, 0},
    [CARRIER_ANY_FROM] = {IN_GRAPH, put_any_from, COPIED_FROM, TOUCHED, 1, 0, 64},
    [CARRIER_UPLOAD_FROM] = {IN_GRAPH, put_upload_from, COPIED_FROM, TOUCHED, 1, 0, 64},
    [CARRIER_UPLOAD_TO] = {IN_GRAPH, put_upload_to, COPIED_TO, TOUCHED, 0, 1, 64},
    [CARRIER_DOWNLOAD_FROM] = {IN_GRAPH, put_download_from, COPIED_FROM, TOUCHED, 0, 1, 0},
    [CARRIER_DOWNLOAD_TO] = {IN_GRAPH, put_download_to, COPIED_TO, TOUCHED, 1, 0, 64},
    [CARRIER_ROWS_FROM] = {IN_GRAPH, put_rows_from, COPIED_FROM, ROWS_TOUCHED, 1, 0, 64},
    [CARRIER_ROWS_TO] = {IN_GRAPH, put_rows_to, COPIED_TO, ROWS_TOUCHED, 1, 0, 0},
    [CARRIER_SET] = {IN_GRAPH, put_set, SET, TOUCHED, 0, 0, 0},
    [CARRIER_SET_ROWS] = {IN_GRAPH, put_set_rows, SET, ROWS_TOUCHED, 0, 0, 64},
    [CARRIER_BATCH] = {IN_GRAPH, put_batch, TN_CU_NODE_BATCH_MEM_OP, TARN_PLACE_OPERATION, 0, 0,
                       sizeof(uint32_t), 0, 0, 64},
    [CARRIER_ARGUMENT] = {IN_GRAPH, put_argument, TN_CU_NODE_HOST, TARN_PLACE_ARGUMENT, 0, 0, 0, 0,
                          0, 64},
};

static const tarn_pointer_class classes[] = {
#define CLASS(name, pointer_class) pointer_class,
    PLANTED_MISTAKES(CLASS)
#undef CLASS
};

/* -- Graphs ----------------------------------------------------------------------------------------- */

/* What is made, and what an audit of it is told. */
struct made {
    tarn_graph *graph; /* NULL: the program's */
    tn_cu_graph driver_graph;
    uint64_t mark;
    tarn_audit_body body;
};

static void put_section(tn_cu_stream stream, const struct carrier *carrier, void *address)
{
    test_set_words(stream, world.outputs[0], 1, 4);
    carrier->put(stream, address);
    test_set_words(stream, world.outputs[0], 2, 4);
}

static void put_child(const struct carrier *carrier, void *address)
{
    tn_cu_graph child;

    test_begin_capture(world.side, TN_CU_CAPTURE_MODE_RELAXED);
    put_section(world.side, carrier, address);
    child = test_end_capture(world.side);
    test_nest(world.stream, child);
    test_destroy_graph(child);
}

/* capture: NULL: the program's own. */
static tarn_audit_body put_body(tarn_capture *capture, const struct carrier *carrier, void *address)
{
    struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    tarn_audit_body body = {test_last_node(world.stream), node.bodies[0]};

    if (capture != NULL)
        capture = test_begin_body(capture, 0, body.graph);
    else
        test_begin_capture_to(world.side, body.graph);
    put_section(world.side, carrier, address);
    if (capture != NULL)
        OK(tarn_capture_end(capture, NULL));
    else
        (void)test_end_capture(world.side);
    return body;
}

static void call(void (*step)(struct planted *planted), struct planted *planted)
{
    if (step != NULL)
        step(planted);
}

static struct made make(const struct carrier *carrier, const struct planted_kind *kind,
                        struct planted *planted)
{
    struct made made = {.graph = NULL};
    tarn_capture *capture = NULL;

    if (is_tarns)
        capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    else
        test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    call(kind->begin, planted);
    test_set_words(world.stream, world.outputs[0], 1, 4);
    call(kind->change, planted);
    if (carrier->graph == IN_CHILD)
        put_child(carrier, planted->address);
    else if (carrier->graph == IN_BODY)
        made.body = put_body(capture, carrier, planted->address);
    else
        carrier->put(world.stream, planted->address);
    test_set_words(world.stream, world.outputs[0], 2, 4);
    call(kind->end, planted);
    if (is_tarns) {
        made.graph = test_capture_end(capture);
    } else {
        made.driver_graph = test_end_capture(world.stream);
        OK(tarn_device_mark(world.device, &made.mark));
    }
    return made;
}

/* A class that is no mistake by itself is asked for as one. */
static tarn_audit *look_through(const struct made *made, const struct planted_kind *kind,
                                tarn_pointer_class pointer_class)
{
    tarn_audit_options options = TARN_AUDIT_OPTIONS_INIT;
    tarn_audit *audit = NULL;

    options.refused = 1u << pointer_class;
    options.bodies = &made->body;
    options.body_count = made->body.graph != NULL ? 1 : 0;
    if (made->graph != NULL) {
        OK(tarn_graph_audit(made->graph, &options, &audit));
    } else {
        options.pool = world.pool;
        options.mark = kind->is_unmarked ? 0 : made->mark;
        OK(tarn_driver_graph_audit(world.device, made->driver_graph, &options, &audit));
    }
    ck_assert_ptr_nonnull(audit);
    return audit;
}

static void drop(struct made *made)
{
    if (made->graph != NULL)
        OK(tarn_graph_destroy(made->graph));
    else
        test_destroy_graph(made->driver_graph);
}

void planted_try(enum planted_carrier which, enum planted_mistake mistake)
{
    const struct carrier *carrier = &carriers[which];
    const struct planted_kind *kind = &planted_kinds[mistake];
    struct planted planted = {.is_made = true,
                              .touched = carrier->touched,
                              .inner = carrier->inner,
                              .expected = {.pointer_class = classes[mistake],
                                           .place = carrier->place,
                                           .index = carrier->index,
                                           .offset = carrier->offset,
                                           .device = -1,
                                           .bytes = carrier->touched}};
    struct planted_expected expected = {.graph = carrier->graph,
                                        .type = carrier->type,
                                        .external = carrier->external,
                                        .pinned = carrier->pinned};
    struct made made;
    tarn_audit *audit;

    call(kind->prepare, &planted);
    made = make(carrier, kind, &planted);
    call(kind->spoil, &planted);
    audit = look_through(&made, kind, classes[mistake]);
    expected.pointer = planted.expected;
    expected.pointer.address = planted_word(planted.address);
    expected.may_be_unknown = mistake == MISTAKE_FREED_PINNED;
    if (planted.is_made)
        planted_judge(audit, &expected);
    tarn_audit_destroy(audit);
    drop(&made);
    call(kind->clean, &planted);
}
