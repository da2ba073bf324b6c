// SPDX-License-Identifier: Apache-2.0
/* launch.c -- the forms of a kernel's launch, and launches that are refused: outside captures and
 * in them. */
#include "contract/graph_tools.h"

/* -- What the cases share -- */

struct target {
    tn_cu_stream stream;
    struct contract_mapped memory;
};

static struct target target_begin(void)
{
    struct target t = {contract_stream(TN_CU_STREAM_NON_BLOCKING), contract_map(2 * MIB)};
    SET_UP(cuMemsetD32Async(t.memory.address, 0, 16, t.stream));
    SET_UP(cuStreamSynchronize(t.stream));
    return t;
}

static void target_end(struct target *t)
{
    contract_unmap(t->memory);
    SET_UP(cuStreamDestroy(t->stream));
}

static void adds_up_to(struct target *t, uint32_t expected)
{
    GIVES(SUCCESS, cuStreamSynchronize(t->stream));
    uint32_t word = contract_word(t->memory.address, 0);
    HOLDS(word == expected, "the word is %u", word);
}

/* -- Forms -- */

CASE_BODY(forms)
{
    struct target t = target_begin();
    tn_cu_function add = contract_kernels()->add;
    struct __attribute__((packed)) {
        uint64_t address;
        uint32_t amount;
    } packed = {t.memory.address, 2};
    size_t bytes = sizeof packed;
    uint32_t amount = 1;
    void *params[] = {&t.memory.address, &amount};
    void *extra[] = {TN_CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, TN_CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, TN_CU_LAUNCH_PARAM_END};
    tn_cu_launch_config config = {1, 1, 1, 1, 1, 1, 0, t.stream, NULL, 0};
    STATE("an array");
    GIVES(SUCCESS, cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, t.stream, params, NULL));
    adds_up_to(&t, 1);
    STATE("packed");
    GIVES(SUCCESS, cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, t.stream, NULL, extra));
    adds_up_to(&t, 3);
    STATE("with a configuration");
    GIVES(SUCCESS, cuLaunchKernelEx(&config, add, params, NULL));
    adds_up_to(&t, 4);
    GIVES(SUCCESS, cuLaunchKernelEx(&config, add, NULL, extra));
    adds_up_to(&t, 6);
    STATE("cooperative");
    GIVES(SUCCESS, cuLaunchCooperativeKernel(add, 1, 1, 1, 1, 1, 1, 0, t.stream, params));
    adds_up_to(&t, 7);
    STATE("arguments are taken at the call");
    GIVES(SUCCESS, cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, t.stream, params, NULL));
    amount = 100;
    adds_up_to(&t, 8);
    target_end(&t);
}

CASE_BODY(no_parameters)
{
    struct target t = target_begin();
    tn_cu_function empty = contract_kernels()->empty;
    void *none[] = {NULL};
    void *extra[] = {TN_CU_LAUNCH_PARAM_END};
    GIVES(SUCCESS, cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, t.stream, NULL, NULL));
    GIVES(SUCCESS, cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, t.stream, none, NULL));
    GIVES(SUCCESS, cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, t.stream, NULL, extra));
    STATE("both");
    GIVES(SUCCESS, cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, t.stream, none, extra));
    STATE("none of what is needed");
    GIVES(INVALID_VALUE,
          cuLaunchKernel(contract_kernels()->add, 1, 1, 1, 1, 1, 1, 0, t.stream, NULL, NULL));
    STATE("no kernel");
    GIVES(INVALID_HANDLE, cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, t.stream, NULL, NULL));
    STATE("no configuration");
    GIVES(INVALID_VALUE, cuLaunchKernelEx(NULL, empty, NULL, NULL));
    target_end(&t);
}

/* -- Shapes -- */

struct shape {
    const char *name;
    unsigned int grid[3];
    unsigned int block[3];
    unsigned int shared;
    tn_cu_result result;
};

static const struct shape shapes[] = {
    {"no blocks", {0, 1, 1}, {1, 1, 1}, 0, TN_CUDA_ERROR_INVALID_VALUE},
    {"no blocks in y", {1, 0, 1}, {1, 1, 1}, 0, TN_CUDA_ERROR_INVALID_VALUE},
    {"no threads", {1, 1, 1}, {0, 1, 1}, 0, TN_CUDA_ERROR_INVALID_VALUE},
    {"no threads in z", {1, 1, 1}, {1, 1, 0}, 0, TN_CUDA_ERROR_INVALID_VALUE},
    {"1024 threads", {1, 1, 1}, {1024, 1, 1}, 0, TN_CUDA_SUCCESS},
    {"1025 threads", {1, 1, 1}, {1025, 1, 1}, 0, TN_CUDA_ERROR_INVALID_VALUE},
    {"4096 threads", {1, 1, 1}, {4096, 1, 1}, 0, TN_CUDA_ERROR_INVALID_VALUE},
    {"32 by 33 threads", {1, 1, 1}, {32, 33, 1}, 0, TN_CUDA_ERROR_INVALID_VALUE},
    {"64 threads in z", {1, 1, 1}, {1, 1, 64}, 0, TN_CUDA_SUCCESS},
    {"65 threads in z", {1, 1, 1}, {1, 1, 65}, 0, TN_CUDA_ERROR_INVALID_VALUE},
    {"65535 blocks in y", {1, 65535, 1}, {1, 1, 1}, 0, TN_CUDA_SUCCESS},
    {"65536 blocks in y", {1, 65536, 1}, {1, 1, 1}, 0, TN_CUDA_ERROR_INVALID_VALUE},
    {"65536 blocks in z", {1, 1, 65536}, {1, 1, 1}, 0, TN_CUDA_ERROR_INVALID_VALUE},
    {"48 KiB shared", {1, 1, 1}, {1, 1, 1}, 49152, TN_CUDA_SUCCESS},
    {"more than 48 KiB shared", {1, 1, 1}, {1, 1, 1}, 49153, TN_CUDA_ERROR_INVALID_VALUE},
};

static tn_cu_result launch_shape(const struct shape *shape, tn_cu_stream stream)
{
    return cu.cuLaunchKernel(contract_kernels()->empty, shape->grid[0], shape->grid[1],
                             shape->grid[2], shape->block[0], shape->block[1], shape->block[2],
                             shape->shared, stream, NULL, NULL);
}

CASE_BODY(shape_limits)
{
    struct target t = target_begin();
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        STATE("%s", shapes[i].name);
        contract_gives(shapes[i].result, "cuLaunchKernel(", launch_shape(&shapes[i], t.stream));
    }
    GIVES(SUCCESS, cuStreamSynchronize(t.stream));
    target_end(&t);
}

/* Ends a capture, and says what the refused call made of it. */
static void end(tn_cu_stream stream, tn_cu_result expected)
{
    tn_cu_graph graph = NULL;
    contract_gives(expected, "cuStreamEndCapture(", cu.cuStreamEndCapture(stream, &graph));
    if (graph == NULL)
        return;
    STATE("%zu nodes", graph_node_count(graph));
    SET_UP(cuGraphDestroy(graph));
}

CASE_BODY(shape_captured)
{
    struct target t = target_begin();
    contract_kernels();
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        bool good = shapes[i].result == TN_CUDA_SUCCESS;
        STATE("%s", shapes[i].name);
        SET_UP(cuStreamBeginCapture(t.stream, TN_CU_CAPTURE_MODE_GLOBAL));
        contract_gives(shapes[i].result, "cuLaunchKernel(", launch_shape(&shapes[i], t.stream));
        end(t.stream, good ? TN_CUDA_SUCCESS : TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    target_end(&t);
}

/* The errors of a launch that leave a capture alone, and that do not. */
CASE_BODY(refused_captured)
{
    struct target t = target_begin();
    tn_cu_function add = contract_kernels()->add;
    tn_cu_function empty = contract_kernels()->empty;
    uint32_t amount = 1;
    void *params[] = {&t.memory.address, &amount};
    void *nothing[] = {TN_CU_LAUNCH_PARAM_END};
    struct __attribute__((packed)) {
        uint64_t address;
        uint32_t amount;
    } packed = {t.memory.address, 2};
    size_t bytes = sizeof packed;
    void *extra[] = {TN_CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, TN_CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, TN_CU_LAUNCH_PARAM_END};
    tn_cu_launch_config large = {1, 1, 1, 4096, 1, 1, 0, t.stream, NULL, 0};
    STATE("both forms");
    SET_UP(cuStreamBeginCapture(t.stream, TN_CU_CAPTURE_MODE_GLOBAL));
    GIVES(INVALID_VALUE, cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, t.stream, params, extra));
    end(t.stream, TN_CUDA_SUCCESS);
    STATE("both, of which one says nothing");
    SET_UP(cuStreamBeginCapture(t.stream, TN_CU_CAPTURE_MODE_GLOBAL));
    GIVES(SUCCESS, cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, t.stream, params, nothing));
    end(t.stream, TN_CUDA_SUCCESS);
    STATE("nothing");
    SET_UP(cuStreamBeginCapture(t.stream, TN_CU_CAPTURE_MODE_GLOBAL));
    GIVES(INVALID_VALUE, cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, t.stream, NULL, nothing));
    end(t.stream, TN_CUDA_SUCCESS);
    STATE("none of what is needed");
    SET_UP(cuStreamBeginCapture(t.stream, TN_CU_CAPTURE_MODE_GLOBAL));
    GIVES(INVALID_VALUE, cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, t.stream, NULL, NULL));
    end(t.stream, TN_CUDA_SUCCESS);
    STATE("a configuration of 4096 threads");
    SET_UP(cuStreamBeginCapture(t.stream, TN_CU_CAPTURE_MODE_GLOBAL));
    GIVES(INVALID_VALUE, cuLaunchKernelEx(&large, empty, NULL, NULL));
    end(t.stream, TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    STATE("a cooperative kernel of 4096 threads");
    SET_UP(cuStreamBeginCapture(t.stream, TN_CU_CAPTURE_MODE_GLOBAL));
    GIVES(INVALID_VALUE, cuLaunchCooperativeKernel(empty, 1, 1, 1, 4096, 1, 1, 0, t.stream, NULL));
    end(t.stream, TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    STATE("a cooperative kernel of too many blocks");
    SET_UP(cuStreamBeginCapture(t.stream, TN_CU_CAPTURE_MODE_GLOBAL));
    GIVES(COOPERATIVE_LAUNCH_TOO_LARGE,
          cuLaunchCooperativeKernel(empty, 100000, 1, 1, 1024, 1, 1, 0, t.stream, NULL));
    end(t.stream, TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    target_end(&t);
}

/* How many blocks of a cooperative kernel fit: of a device with 132 multiprocessors. */
CASE_BODY(cooperative)
{
    static const struct {
        unsigned int blocks;
        unsigned int threads;
        tn_cu_result result;
    } rows[] = {
        {264, 1024, TN_CUDA_SUCCESS},
        {265, 1024, TN_CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE},
        {1056, 256, TN_CUDA_SUCCESS},
        {1057, 256, TN_CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE},
        {4224, 1, TN_CUDA_SUCCESS},
        {4225, 1, TN_CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE},
        {264, 513, TN_CUDA_SUCCESS},
        {396, 513, TN_CUDA_SUCCESS},
        {397, 513, TN_CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE},
    };
    struct target t = target_begin();
    tn_cu_function empty = contract_kernels()->empty;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        STATE("%u blocks of %u", rows[i].blocks, rows[i].threads);
        contract_gives(rows[i].result, "cuLaunchCooperativeKernel(",
                       cu.cuLaunchCooperativeKernel(empty, rows[i].blocks, 1, 1, rows[i].threads, 1,
                                                    1, 0, t.stream, NULL));
    }
    GIVES(SUCCESS, cuStreamSynchronize(t.stream));
    target_end(&t);
}

/* -- Attributes -- */

struct attribute { /* CUlaunchAttribute */
    int id;
    int padding;
    union {
        unsigned char bytes[64];
        int number;
    };
};

CASE_BODY(attributes)
{
    static const struct {
        const char *name;
        int id;
        int value;
        unsigned int blocks;
        tn_cu_result result;
    } rows[] = {
        {"one to ignore", 0, 0, 1, TN_CUDA_SUCCESS},
        {"cooperative", 2, 1, 1, TN_CUDA_SUCCESS},
        {"cooperative, too many blocks", 2, 1, 100000, TN_CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE},
        {"not cooperative, as many", 2, 0, 100000, TN_CUDA_SUCCESS},
        {"a priority", 8, -1, 1, TN_CUDA_SUCCESS},
        {"number 1000", 1000, 0, 1, TN_CUDA_ERROR_INVALID_VALUE},
    };
    struct target t = target_begin();
    tn_cu_function empty = contract_kernels()->empty;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct attribute attribute = {.id = rows[i].id, .number = rows[i].value};
        tn_cu_launch_config config = {rows[i].blocks, 1, 1, 1, 1, 1, 0, t.stream, &attribute, 1};
        STATE("%s", rows[i].name);
        contract_gives(rows[i].result, "cuLaunchKernelEx(",
                       cu.cuLaunchKernelEx(&config, empty, NULL, NULL));
    }
    GIVES(SUCCESS, cuStreamSynchronize(t.stream));
    target_end(&t);
}

static const struct contract_case cases[] = {
    CASE("forms", "A kernel is launched in any of five ways.", forms),
    CASE("no-parameters", "A kernel without parameters needs none.", no_parameters),
    CASE("shape-limits", "Shapes have limits.", shape_limits),
    CASE("shape-captured", "An impossible shape invalidates a capture.", shape_captured),
    CASE("refused-captured", "Wrong parameters leave a capture alone.", refused_captured),
    CASE("cooperative", "All blocks of a cooperative kernel fit on the device.", cooperative),
    CASE("attributes", "A configuration may have attributes.", attributes),
};
const struct contract_group contract_launch = CONTRACT_GROUP("launch", START_CONTEXT, cases);
