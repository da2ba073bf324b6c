// SPDX-License-Identifier: Apache-2.0
/* matrix.c -- what captures make of every function: in each mode, from the thread that captures and
 * from another, whatever that thread's own mode.
 *
 * How it works. The tables of matrix.h say how to call each function and its class. What a call in
 * a capture answers, and what becomes of the capture, follows from the class and the three choices
 * by one rule (expect, below); nothing is written down by case. A function and a place make
 * nineteen cases: one outside captures, which shows that the call is a good one, and eighteen in a
 * capture.
 *
 * Names: "cuMemAlloc.outside", "cuMemAlloc.global.other-relaxed": a capture begun in global mode, a
 * call from another thread whose mode is relaxed. With a stream:
 * "cuLaunchKernel-on-other.global...". In the group matrix-contexts the call is made in another
 * context than the capture's.
 *
 * The things that the calls work with live as long as the process, and each case undoes what its
 * call did. */
#include "contract/matrix.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)
#define MODE_COUNT 3
#define CAPTURE_CASES (MODE_COUNT * MODE_COUNT * 2) /* of a call in a place */

const char matrix_ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry tarn_contract_nothing()\n{\n ret;\n}\n";

static const char *const mode_names[MODE_COUNT] = {"global", "thread-local", "relaxed"};
static const char *const place_names[MATRIX_PLACE_COUNT] = {"", "-on-capturing", "-on-other",
                                                            "-on-legacy-blocking", "-on-legacy"};
static const char *const place_words[MATRIX_PLACE_COUNT] = {
    "", " on the capturing stream", " on another stream",
    " on the legacy stream, with a blocking stream capturing,",
    " on the legacy stream, with a non-blocking stream capturing,"};

/* -- What calls work with -- */

const struct matrix_row *matrix_row(size_t index)
{
    static const struct matrix_table *const tables[] = {&matrix_devices, &matrix_memory,
                                                        &matrix_streams, &matrix_graphs};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        if (index < tables[i]->count)
            return &tables[i]->rows[index];
        index -= tables[i]->count;
    }
    return NULL;
}

void matrix_nothing(void *user)
{
    (void)user;
}

static void nothing_twin(const tarn_sim_launch *launch, void *const *params)
{
    (void)launch;
    (void)params;
}

struct matrix_things *matrix_things(void)
{
    static struct matrix_things things;
    if (things.pageable != NULL)
        return &things;
    struct matrix_things t = {0};
    contract_twin("tarn_contract_nothing", nothing_twin);
    contract_kernels();
    SET_UP(cuCtxGetCurrent(&t.context));
    t.capturing = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    t.capturing_blocking = contract_stream(TN_CU_STREAM_DEFAULT);
    t.other = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    t.stream = t.other;
    t.mapped = contract_map(2 * MIB);
    SET_UP(cuMemAlloc(&t.linear, PAGE));
    SET_UP(cuMemHostAlloc(&t.host, PAGE, 0));
    SET_UP(cuEventCreate(&t.recorded, TN_CU_EVENT_DEFAULT));
    SET_UP(cuEventCreate(&t.recorded_later, TN_CU_EVENT_DEFAULT));
    t.never = contract_event();
    SET_UP(cuEventRecord(t.recorded, t.other));
    SET_UP(cuEventRecord(t.recorded_later, t.other));
    SET_UP(cuStreamSynchronize(t.other));
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        contract_give_up("no memory");
    t.pageable = page;
    things = t;
    return &things;
}

void matrix_make_library(struct matrix_things *t)
{
    SET_UP(cuLibraryLoadData(&t->made_library, matrix_ptx, NULL, NULL, 0, NULL, NULL, 0));
}

void matrix_make_kernel(struct matrix_things *t)
{
    matrix_make_library(t);
    SET_UP(cuLibraryGetKernel(&t->made_kernel, t->made_library, "tarn_contract_nothing"));
}

struct contract_thread *matrix_thread(void)
{
    static struct contract_thread *thread;
    if (thread == NULL)
        thread = contract_thread_start();
    return thread;
}

/* Makes the node of a type, on a capturing stream. */
static tn_cu_result capture_node(struct matrix_things *t, tn_cu_graphnode_type type)
{
    tn_cu_result result;
    switch (type) {
    case TN_CU_NODE_KERNEL:
        return contract_fill(t->other, t->mapped.address, 1, 1);
    case TN_CU_NODE_MEMCPY:
        return cu.cuMemcpyDtoDAsync(t->mapped.address, t->mapped.address + PAGE, PAGE, t->other);
    case TN_CU_NODE_MEMSET:
        return cu.cuMemsetD8Async(t->mapped.address, 1, PAGE, t->other);
    case TN_CU_NODE_HOST:
        return cu.cuLaunchHostFunc(t->other, matrix_nothing, t);
    case TN_CU_NODE_EVENT_RECORD:
        return cu.cuEventRecordWithFlags(t->recorded_later, t->other, TN_CU_EVENT_RECORD_EXTERNAL);
    case TN_CU_NODE_WAIT_EVENT:
        return cu.cuStreamWaitEvent(t->other, t->recorded, TN_CU_EVENT_WAIT_EXTERNAL);
    case TN_CU_NODE_MEM_ALLOC:
        return cu.cuMemAllocAsync(&t->address, PAGE, t->other);
    case TN_CU_NODE_MEM_FREE:
        result = cu.cuMemAllocAsync(&t->address, PAGE, t->other);
        return result == TN_CUDA_SUCCESS ? cu.cuMemFreeAsync(t->address, t->other) : result;
    case TN_CU_NODE_BATCH_MEM_OP:
        return cu.cuStreamWriteValue32(t->other, t->mapped.address, 1, 0);
    default:
        return TN_CUDA_ERROR_INVALID_VALUE;
    }
}

/* Captures the node of a type. */
static void make_graph(struct matrix_things *t, tn_cu_graphnode_type type,
                       struct matrix_graph *made)
{
    tn_cu_graphnode nodes[2] = {NULL, NULL};
    size_t count = 2;
    SET_UP(cuStreamBeginCapture(t->other, TN_CU_CAPTURE_MODE_RELAXED));
    tn_cu_result result = capture_node(t, type);
    tn_cu_result ended = cu.cuStreamEndCapture(t->other, &made->graph);
    if (result != TN_CUDA_SUCCESS || ended != TN_CUDA_SUCCESS)
        contract_give_up("no graph of a node of type %d: %s", (int)type,
                         contract_result_name(result == TN_CUDA_SUCCESS ? ended : result));
    SET_UP(cuGraphGetNodes(made->graph, nodes, &count));
    made->node = nodes[1] == NULL ? nodes[0] : nodes[1];
}

struct matrix_graph *matrix_graph(struct matrix_things *t, tn_cu_graphnode_type type,
                                  bool with_exec)
{
    struct matrix_graph *made = &t->graphs[type];
    if (made->node == NULL)
        make_graph(t, type, made);
    if (with_exec && made->exec == NULL)
        SET_UP(cuGraphInstantiateWithFlags(&made->exec, made->graph, 0));
    return made;
}

/* -- The rule -- */

struct matrix_case {
    const struct matrix_row *row;
    enum matrix_place place;
    bool outside;
    bool abroad;             /* the call is made in another context than the capture's */
    bool other;              /* the call comes from another thread than the capture */
    tn_cu_capture_mode mode; /* of the capture */
    tn_cu_capture_mode own;  /* of the calling thread */
    char name[96];
    char sentence[200];
};

struct expectation {
    tn_cu_result result;
    bool invalidated;
    size_t nodes;
};

/* Whether the modes forbid an unsafe call: unless the calling thread is relaxed, a capture of its
 * own that is not relaxed does; and where both are global, another thread's. */
static bool forbidden(const struct matrix_case *c)
{
    if (c->own == TN_CU_CAPTURE_MODE_RELAXED)
        return false;
    if (!c->other)
        return c->mode != TN_CU_CAPTURE_MODE_RELAXED;
    return c->own == TN_CU_CAPTURE_MODE_GLOBAL && c->mode == TN_CU_CAPTURE_MODE_GLOBAL;
}

/* Captures forbid unsafe calls in every context; the rest concerns their own. */
static struct expectation expect(const struct matrix_case *c)
{
    struct matrix_treatment treatment = c->row->at[c->place];
    struct expectation expected = {.result = treatment.result};
    if (c->abroad && treatment.class == MATRIX_FATAL)
        return (struct expectation){.result = TN_CUDA_SUCCESS};
    switch (treatment.class) {
    case MATRIX_UNSAFE:
        if (forbidden(c))
            return (struct expectation){TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, true, 0};
        break;
    case MATRIX_FATAL:
        expected.invalidated = true;
        break;
    case MATRIX_NODE:
        expected.nodes = 1;
        break;
    case MATRIX_LEFT_OUT:
    case MATRIX_FREE:
        break;
    }
    return expected;
}

/* -- The cases -- */

struct attempt {
    const struct matrix_case *c;
    struct matrix_things *things;
    tn_cu_result got;
};

static void call_in_mode(void *argument)
{
    struct attempt *attempt = argument;
    tn_cu_capture_mode mode = attempt->c->own;
    tn_cu_context popped;
    if (attempt->c->abroad)
        cu.cuCtxPushCurrent(attempt->things->abroad);
    cu.cuThreadExchangeStreamCaptureMode(&mode);
    attempt->got = attempt->c->row->call(attempt->things);
    cu.cuThreadExchangeStreamCaptureMode(&mode);
    if (attempt->c->abroad)
        cu.cuCtxPopCurrent(&popped);
}

/* Prepares, or cleans up, in the context of the call. */
static void go_abroad(struct matrix_things *t, const struct matrix_case *c)
{
    if (!c->abroad)
        return;
    if (t->abroad != NULL)
        SET_UP(cuCtxPushCurrent(t->abroad));
    else
        SET_UP(cuCtxCreate(&t->abroad, 0, 0));
}

static void come_back(const struct matrix_case *c)
{
    tn_cu_context popped;
    if (c->abroad)
        SET_UP(cuCtxPopCurrent(&popped));
}

/* Ends the capture, whatever its state, and says what it came to. */
static void end_capture(tn_cu_stream stream, const struct expectation *expected,
                        const struct matrix_treatment *treatment)
{
    tn_cu_graph graph = NULL;
    tn_cu_graphnode nodes[2] = {NULL, NULL};
    size_t count = 2;
    tn_cu_graphnode_type type;
    contract_gives(expected->invalidated ? TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                         : TN_CUDA_SUCCESS,
                   "cuStreamEndCapture(", cu.cuStreamEndCapture(stream, &graph));
    if (expected->invalidated)
        HOLDS(graph == NULL, "no graph");
    if (graph == NULL)
        return;
    SET_UP(cuGraphGetNodes(graph, NULL, &count));
    HOLDS(count == expected->nodes, "%zu nodes", count);
    if (count == 1) {
        SET_UP(cuGraphGetNodes(graph, nodes, &count));
        SET_UP(cuGraphNodeGetType(nodes[0], &type));
        HOLDS(type == treatment->node, "of type %d", (int)type);
    }
    SET_UP(cuGraphDestroy(graph));
}

static void run(const void *argument)
{
    const struct matrix_case *c = argument;
    const struct matrix_row *row = c->row;
    struct matrix_things *t = matrix_things();
    struct attempt attempt = {.c = c, .things = t};
    bool legacy = c->place == MATRIX_PLACE_BLOCKING || c->place == MATRIX_PLACE_NON_BLOCKING;
    tn_cu_stream stream = c->place == MATRIX_PLACE_BLOCKING ? t->capturing_blocking : t->capturing;
    t->stream = legacy                               ? TN_CU_STREAM_LEGACY
                : c->place == MATRIX_PLACE_CAPTURING ? t->capturing
                                                     : t->other;
    struct expectation expected = expect(c);
    char call[64];
    snprintf(call, sizeof call, "%.*s(", (int)strcspn(row->name, "_"), row->name);

    SET_UP(cuCtxSetCurrent(t->context)); /* a case that gave up may have left another one */
    go_abroad(t, c);
    row->prepare(t);
    come_back(c);
    if (c->outside) {
        call_in_mode(&attempt);
        contract_gives(row->at[c->place].result, call, attempt.got);
        row->clean(t, attempt.got == TN_CUDA_SUCCESS);
        return;
    }
    SET_UP(cuStreamBeginCapture(stream, c->mode));
    if (c->other)
        contract_thread_do(matrix_thread(), call_in_mode, &attempt);
    else
        call_in_mode(&attempt);
    contract_gives(expected.result, call, attempt.got);
    tn_cu_capture_status status = TN_CU_CAPTURE_STATUS_NONE;
    GIVES(SUCCESS, cuStreamIsCapturing(stream, &status));
    HOLDS(status == (expected.invalidated ? TN_CU_CAPTURE_STATUS_INVALIDATED
                                          : TN_CU_CAPTURE_STATUS_ACTIVE),
          "%s",
          status == TN_CU_CAPTURE_STATUS_ACTIVE        ? "active"
          : status == TN_CU_CAPTURE_STATUS_INVALIDATED ? "invalidated"
                                                       : "not capturing");
    end_capture(stream, &expected, &row->at[c->place]);
    go_abroad(t, c);
    row->clean(t, attempt.got == TN_CUDA_SUCCESS);
    come_back(c);
}

size_t matrix_write_name(char *to, size_t bytes, const struct matrix_row *row, const char *suffix)
{
    int length = snprintf(to, bytes, "%s%s", row->name, suffix);
    for (char *at = to; (at = strchr(at, '_')) != NULL;)
        *at = '-';
    return (size_t)length;
}

static void write_name(char *to, size_t bytes, const struct matrix_case *c)
{
    size_t length = matrix_write_name(to, bytes, c->row, place_names[c->place]);
    if (c->outside)
        snprintf(to + length, bytes - length, ".outside");
    else
        snprintf(to + length, bytes - length, ".%s.%s-%s", mode_names[c->mode],
                 c->other ? "other" : "same", mode_names[c->own]);
}

static void write_sentence(char *to, size_t bytes, const struct matrix_case *c)
{
    struct expectation expected = expect(c);
    const char *name = c->row->name;
    int length = (int)strcspn(name, "_");
    if (c->outside)
        snprintf(to, bytes, "%.*s outside captures.", length, name);
    else
        snprintf(to, bytes, "%.*s%s%s by %s thread in %s mode %s a %s capture.", length, name,
                 c->abroad ? " in another context" : "", c->abroad ? "" : place_words[c->place],
                 c->other ? "another" : "the capturing", mode_names[c->own],
                 expected.invalidated  ? "invalidates"
                 : expected.nodes == 1 ? "adds a node to"
                                       : "leaves alone",
                 mode_names[c->mode]);
}

static void add(struct contract_case *to, struct matrix_case *data, struct matrix_case c)
{
    *data = c;
    write_name(data->name, sizeof data->name, data);
    write_sentence(data->sentence, sizeof data->sentence, data);
    *to = (struct contract_case)CASE(data->name, data->sentence, run);
    to->argument = data;
}

/* The functions that have no row, and why. */
static const char *const no_row[] = {
    "cuDevicePrimaryCtxReset", /* it destroys the context that all cases share: matrix-reset */
};

static bool has_row(const char *function)
{
    size_t length = strlen(function);
    for (size_t i = 0; i < sizeof no_row / sizeof no_row[0]; i++) {
        if (strcmp(function, no_row[i]) == 0)
            return true;
    }
    for (size_t i = 0; matrix_row(i) != NULL; i++) {
        if (strcspn(matrix_row(i)->name, "_") == length &&
            strncmp(matrix_row(i)->name, function, length) == 0)
            return true;
    }
    return false;
}

static void every_function(const void *argument)
{
    static const char *const functions[] = {
#define FUNCTION_NAME(name, symbol, version, parameters, names) #name,
        TN_CUDA_SIMULATED_FUNCTIONS(FUNCTION_NAME)
#undef FUNCTION_NAME
    };
    (void)argument;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (!has_row(functions[i]))
            HOLDS(false, "%s is in no table", functions[i]);
    }
    STATE("%zu functions", sizeof functions / sizeof functions[0]);
}

/* Whether a call of the row and the place can be made outside captures too. */
static bool works_outside(const struct matrix_row *row, enum matrix_place place)
{
    enum matrix_class class = row->at[place].class;
    return place != MATRIX_PLACE_CAPTURING && place != MATRIX_PLACE_BLOCKING &&
           (class == MATRIX_FREE || class == MATRIX_UNSAFE);
}

/* Makes the eighteen cases of a row and place in captures. */
static void make_captures(struct contract_case *cases, struct matrix_case *data,
                          struct matrix_case c)
{
    for (int i = 0; i < CAPTURE_CASES; i++) {
        c.mode = (tn_cu_capture_mode)(i / (MODE_COUNT * 2));
        c.other = i / MODE_COUNT % 2 == 1;
        c.own = (tn_cu_capture_mode)(i % MODE_COUNT);
        add(&cases[i], &data[i], c);
    }
}

/* Makes the cases of one row and place. Returns how many. */
static size_t make_some(struct contract_case *cases, struct matrix_case *data,
                        const struct matrix_row *row, enum matrix_place place)
{
    struct matrix_case c = {.row = row, .place = place};
    size_t count = 0;
    if (row->at[place].class == MATRIX_LEFT_OUT)
        return 0;
    if (works_outside(row, place)) {
        c.outside = true;
        add(&cases[count], &data[count], c);
        count++;
        c.outside = false;
    }
    make_captures(&cases[count], &data[count], c);
    return count + CAPTURE_CASES;
}

/* Takes memory for as many cases as there can be, and counts the rows. */
static size_t allocate(struct contract_case **cases, struct matrix_case **data)
{
    size_t rows = 0;
    while (matrix_row(rows) != NULL)
        rows++;
    size_t most = rows * MATRIX_PLACE_COUNT * (CAPTURE_CASES + 1) + 1;
    *cases = calloc(most, sizeof **cases);
    *data = calloc(most, sizeof **data);
    if (*cases == NULL || *data == NULL)
        abort();
    return rows;
}

static const struct contract_case *make(size_t *count)
{
    struct contract_case *cases;
    struct matrix_case *data;
    size_t rows = allocate(&cases, &data);
    cases[0] = (struct contract_case)CASE(
        "every-function", "Every function is in the tables of the matrix.", every_function);
    *count = 1;
    for (size_t i = 0; i < rows; i++) {
        for (int place = 0; place < MATRIX_PLACE_COUNT; place++)
            *count +=
                make_some(&cases[*count], &data[*count], matrix_row(i), (enum matrix_place)place);
    }
    return cases;
}

/* What can matter to a capture of another context: unsafe and fatal calls without a stream, and
 * synchronous copies, which are on the legacy stream of their own context. */
static bool is_asked_abroad(const struct matrix_row *row, enum matrix_place place)
{
    if (place == MATRIX_PLACE_NONE)
        return row->at[place].class == MATRIX_UNSAFE || row->at[place].class == MATRIX_FATAL;
    return place == MATRIX_PLACE_BLOCKING && row->at[place].class != MATRIX_LEFT_OUT &&
           row->at[MATRIX_PLACE_OTHER].class == MATRIX_LEFT_OUT;
}

static const struct contract_case *make_abroad(size_t *count)
{
    struct contract_case *cases;
    struct matrix_case *data;
    size_t rows = allocate(&cases, &data);
    *count = 0;
    for (size_t i = 0; i < rows; i++) {
        for (int place = 0; place < MATRIX_PLACE_COUNT; place++) {
            struct matrix_case c = {
                .row = matrix_row(i), .place = (enum matrix_place)place, .abroad = true};
            if (!is_asked_abroad(c.row, c.place))
                continue;
            make_captures(&cases[*count], &data[*count], c);
            *count += CAPTURE_CASES;
        }
    }
    return cases;
}

const struct contract_group contract_matrix = {
    .name = "matrix", .start = START_CONTEXT, .make = make};
const struct contract_group contract_matrix_contexts = {
    .name = "matrix-contexts", .start = START_CONTEXT, .make = make_abroad};
