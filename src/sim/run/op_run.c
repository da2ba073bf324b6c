// SPDX-License-Identifier: Apache-2.0
/* op_run.c -- judges device work, and does it.
 *
 * How it works. Before a copy or a set the books are asked, as the GPU asks its page tables. A
 * missing right of a device is therefore a fault, although another device's right has made the
 * pages accessible. The guard (guard.c) catches faults that the books cannot see: a mapping went
 * while the work ran, or a kernel computes its own addresses. A set that faults is LAUNCH_FAILED
 * and everything else ILLEGAL_ADDRESS, as measured.
 *
 * A table has the needs and the work of each type of operation. A type without work (empty nodes,
 * child graphs, ...) is done once reached. Words are waited for and written in words.c.
 *
 * Trade-offs. A kernel's pages are the union of all devices' rights (rights.c). */
#include "sim/run/op_run.h"

#include <string.h>

#include "sim/run/check.h"
#include "sim/heap/graph_memory.h"
#include "sim/stream/guard.h"
#include "sim/code/module.h"
#include "sim/heap/rights.h"
#include "sim/memory/space.h"
#include "sim/run/words.h"

/* The occasion on which the memory of work is looked at. */
enum occasion {
    OCCASION_CALL,
    OCCASION_GRAPH, /* the graph is made executable: its own memory need not exist yet */
    OCCASION_TURN,  /* the work's turn has come: memory freed behind the work still exists */
};

/* Asks whether a copy names linear memory: between devices that are no peers the copy goes through
 * the host. */
static bool staged(const struct tn_sim_op *op, uintptr_t address, size_t bytes)
{
    const struct tn_sim_linear *linear = tn_sim_index_find(&tn_sim_linears, address);
    return op->type == TN_CU_NODE_MEMCPY && linear != NULL &&
           bytes <= linear->span.bytes - (address - linear->span.start);
}

/* Asks whether a device may use a range. */
static bool allows(const struct tn_sim_op *op, uintptr_t address, size_t bytes, bool write,
                   enum occasion occasion)
{
    if (occasion == OCCASION_TURN)
        return tn_sim_space_allows_work(address, bytes, op->context, write) ||
               staged(op, address, bytes);
    return tn_sim_space_allows(address, bytes, op->context, write) || staged(op, address, bytes) ||
           (occasion == OCCASION_GRAPH && tn_sim_graph_memory_covers(address, bytes));
}

static bool valid_set(const struct tn_sim_op *op, enum occasion occasion)
{
    const struct tn_sim_set_op *set = &op->set;
    uintptr_t row = set->address;
    for (size_t y = 0; y == 0 || y < set->rows; y++, row += set->pitch) {
        if (!allows(op, row, set->width * set->count, true, occasion))
            return false;
    }
    return true;
}

struct copy_question {
    const struct tn_sim_op *op;
    enum occasion occasion;
};

static bool valid_row(uintptr_t to, uintptr_t from, size_t bytes, void *argument)
{
    const struct copy_question *question = argument;
    const struct tn_sim_op *op = question->op;
    return (!op->copy.to_device || allows(op, to, bytes, true, question->occasion)) &&
           (!op->copy.from_device || allows(op, from, bytes, false, question->occasion));
}

static bool valid_copy(const struct tn_sim_op *op, enum occasion occasion)
{
    struct copy_question question = {.op = op, .occasion = occasion};
    return tn_sim_copy_each_row(&op->copy, valid_row, &question);
}

static bool valid_batch(const struct tn_sim_op *op, enum occasion occasion)
{
    for (unsigned int i = 0; i < op->batch.count; i++) {
        const tn_cu_batch_op *one = &op->batch.ops[i];
        size_t bytes = tn_sim_word_bytes(one);
        if (bytes > 0 &&
            !allows(op, one->value.address, bytes, tn_sim_word_is_write(one), occasion))
            return false;
    }
    return true;
}

/* Work, ready to be done without the lock. */
struct work {
    const struct tn_sim_op *op;
    tarn_sim_kernel twin; /* of a kernel */
};

static void call_kernel(void *argument)
{
    const struct work *work = argument;
    work->twin(&work->op->kernel.launch, work->op->kernel.params);
}

static bool copy_row(uintptr_t to, uintptr_t from, size_t bytes, void *argument)
{
    (void)argument;
    memmove((void *)to, (const void *)from, bytes);
    return true;
}

static void do_copy(void *argument)
{
    const struct tn_sim_op *op = ((const struct work *)argument)->op;
    if (op->copy.staged != NULL)
        memmove((void *)op->copy.to, op->copy.staged, op->copy.bytes);
    else
        tn_sim_copy_each_row(&op->copy, copy_row, NULL);
}

static void set_row(const struct tn_sim_set_op *set, uintptr_t row)
{
    if (set->width == sizeof(unsigned char)) {
        memset((void *)row, (int)set->value, set->count);
        return;
    }
    for (size_t i = 0; i < set->count; i++) {
        if (set->width == sizeof(uint16_t))
            ((volatile uint16_t *)row)[i] = (uint16_t)set->value;
        else
            ((volatile uint32_t *)row)[i] = set->value;
    }
}

static void do_set(void *argument)
{
    const struct tn_sim_op *op = ((const struct work *)argument)->op;
    uintptr_t row = op->set.address;
    for (size_t y = 0; y == 0 || y < op->set.rows; y++, row += op->set.pitch)
        set_row(&op->set, row);
}

static void call_host(void *argument)
{
    const struct tn_sim_op *op = ((const struct work *)argument)->op;
    struct tn_sim_thread *self = tn_sim_self();
    self->in_callback = true;
    if (op->host.function != NULL)
        op->host.function(op->host.user);
    else
        op->host.callback(op->host.stream, TN_CUDA_SUCCESS, op->host.user);
    self->in_callback = false;
}

/* The differences between types; NULL: none. */
static const struct {
    bool (*valid)(const struct tn_sim_op *op, enum occasion occasion);
    void (*work)(void *work);
    bool unguarded;     /* its faults are the program's own */
    tn_cu_result fault; /* the result of its faults */
} types[] = {
    [TN_CU_NODE_KERNEL] = {NULL, call_kernel, false, TN_CUDA_ERROR_ILLEGAL_ADDRESS},
    [TN_CU_NODE_MEMCPY] = {valid_copy, do_copy, false, TN_CUDA_ERROR_ILLEGAL_ADDRESS},
    [TN_CU_NODE_MEMSET] = {valid_set, do_set, false, TN_CUDA_ERROR_LAUNCH_FAILED},
    [TN_CU_NODE_HOST] = {NULL, call_host, true, TN_CUDA_SUCCESS},
    [TN_CU_NODE_WAIT_EVENT] = {0},
    [TN_CU_NODE_EVENT_RECORD] = {0},
    [TN_CU_NODE_MEM_ALLOC] = {0},
    [TN_CU_NODE_MEM_FREE] = {0},
    [TN_CU_NODE_BATCH_MEM_OP] = {valid_batch, NULL, false, TN_CUDA_ERROR_ILLEGAL_ADDRESS},
    [TN_CU_NODE_CONDITIONAL] = {0},
};

static bool valid(const struct tn_sim_op *op, enum occasion occasion)
{
    return types[op->type].valid == NULL || types[op->type].valid(op, occasion);
}

bool tn_sim_op_valid(const struct tn_sim_op *op)
{
    return valid(op, OCCASION_CALL);
}

bool tn_sim_op_valid_in_graph(const struct tn_sim_op *op)
{
    return valid(op, OCCASION_GRAPH);
}

/* Does the work without the lock. Returns false for a fault. */
static bool do_work(struct tn_sim_op *op)
{
    struct work work = {.op = op};
    bool survived = true;
    if (op->type == TN_CU_NODE_BATCH_MEM_OP)
        return tn_sim_words_run(op);
    if (types[op->type].work == NULL)
        return true;
    if (op->type == TN_CU_NODE_KERNEL)
        work.twin = tn_sim_code_twin(op->kernel.code);
    tn_sim_check_op(op);
    tn_sim_leave();
    if (types[op->type].unguarded)
        types[op->type].work(&work);
    else
        survived = tn_sim_guard_run(types[op->type].work, &work);
    pthread_mutex_lock(&tn_sim.lock);
    return survived;
}

bool tn_sim_op_run(struct tn_sim_op *op)
{
    struct tn_sim_context *context = op->context;
    if (context == NULL) /* a node without a context: work that can fault has a context */
        return do_work(op);
    if (context->fault != TN_CUDA_SUCCESS)
        return false;
    if (valid(op, OCCASION_TURN) && do_work(op))
        return context->fault == TN_CUDA_SUCCESS;
    tn_sim_context_fail(context, types[op->type].fault);
    return false;
}
