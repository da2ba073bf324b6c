// SPDX-License-Identifier: Apache-2.0
/* words.c -- words that streams wait for and write, one at a time or in batches.
 *
 * How it works. Each operation is a piece of work, and in a capture becomes a node, whose addresses
 * are not looked at before the node runs. A worker that waits for a word looks at it, and sleeps on
 * the word as a futex of its memory. A write by a stream wakes the sleepers, in every process that
 * has mapped the memory. Nothing tells of other writes, those of a processor or a copy: sleeps are
 * therefore short, and longer the longer a wait lasts. After each of them but the first few the
 * worker asks whether the context or the process has ended.
 *
 * A wait for a word that nobody writes never ends, whatever becomes of its writer. The stream may
 * be destroyed all the same; a call that waits for the device does not return.
 *
 * Trade-offs. No flag of a write is accepted, as by the driver measured. A flush of others' writes
 * is refused, since the device measured cannot do it. A wait sees a processor's write at most
 * LONGEST_NS late; a GPU needs 16 us. */
#include "sim/run/words.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim/stream/clock.h"
#include "sim/stream/guard.h"
#include "sim/stream/stream.h"
#include "sim/run/check.h"
#include "sim/run/op_run.h"

#define EVERYONE 0x7fffffff /* sleepers to be woken */
#define MOST 256            /* a batch has fewer operations */

/* The sleeps of a wait, and how many there are between two questions for the context. */
#define SHORTEST_NS 20000
#define LONGEST_NS 2000000
#define SLEEPS 6

#define FLUSH ((unsigned int)TN_CU_STREAM_WAIT_VALUE_FLUSH)

bool tn_sim_word_is_wait(const tn_cu_batch_op *op)
{
    return op->operation == TN_CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
           op->operation == TN_CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

bool tn_sim_word_is_write(const tn_cu_batch_op *op)
{
    return op->operation == TN_CU_STREAM_MEM_OP_WRITE_VALUE_32 ||
           op->operation == TN_CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

size_t tn_sim_word_bytes(const tn_cu_batch_op *op)
{
    if (!tn_sim_word_is_wait(op) && !tn_sim_word_is_write(op))
        return 0;
    return op->operation == TN_CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                   op->operation == TN_CU_STREAM_MEM_OP_WRITE_VALUE_64
               ? sizeof(uint64_t)
               : sizeof(uint32_t);
}

/* -- Form -- */

static tn_cu_result check_form(const tn_cu_batch_op *op)
{
    size_t bytes = tn_sim_word_bytes(op);
    if (op->operation == TN_CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)
        return TN_CUDA_ERROR_NOT_SUPPORTED;
    if (op->operation == TN_CU_STREAM_MEM_OP_BARRIER)
        return op->barrier.flags <= TN_CU_STREAM_MEMORY_BARRIER_TYPE_GPU
                   ? TN_CUDA_SUCCESS
                   : TN_CUDA_ERROR_INVALID_VALUE;
    if (bytes == 0 || op->value.address == 0 || op->value.address % bytes != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (tn_sim_word_is_write(op))
        return op->value.flags == 0 ? TN_CUDA_SUCCESS : TN_CUDA_ERROR_INVALID_VALUE;
    if ((op->value.flags & ~FLUSH) > TN_CU_STREAM_WAIT_VALUE_NOR)
        return TN_CUDA_ERROR_INVALID_VALUE;
    return (op->value.flags & FLUSH) == 0 ? TN_CUDA_SUCCESS : TN_CUDA_ERROR_NOT_SUPPORTED;
}

tn_cu_result tn_sim_words_check(const tn_cu_batch_op *ops, unsigned int count, unsigned int flags)
{
    if ((ops == NULL && count > 0) || count >= MOST || flags != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = TN_CUDA_SUCCESS;
    for (unsigned int i = 0; i < count && result == TN_CUDA_SUCCESS; i++)
        result = check_form(&ops[i]);
    return result;
}

/* -- Work -- */

/* A wait in progress. */
struct wait {
    const tn_cu_batch_op *op;
    int64_t sleep_ns; /* of the next sleep */
    bool met;
};

static uint64_t read_word(const tn_cu_batch_op *op)
{
    uintptr_t address = (uintptr_t)op->value.address;
    if (tn_sim_word_bytes(op) == sizeof(uint64_t))
        return atomic_load_explicit((_Atomic(uint64_t) *)address, memory_order_acquire);
    return atomic_load_explicit((_Atomic(uint32_t) *)address, memory_order_acquire);
}

/* Asks whether a word is what an operation waits for. */
static bool is_met(const tn_cu_batch_op *op, uint64_t word)
{
    bool wide = tn_sim_word_bytes(op) == sizeof(uint64_t);
    uint64_t value = wide ? op->value.value : (uint32_t)op->value.value;
    switch (op->value.flags & ~FLUSH) {
    case TN_CU_STREAM_WAIT_VALUE_EQ:
        return word == value;
    case TN_CU_STREAM_WAIT_VALUE_AND:
        return (word & value) != 0;
    case TN_CU_STREAM_WAIT_VALUE_NOR:
        return (~(word | value) & (wide ? UINT64_MAX : UINT32_MAX)) != 0;
    default: /* at least the value; words wrap */
        return wide ? (int64_t)(word - value) >= 0 : (int32_t)(uint32_t)(word - value) >= 0;
    }
}

/* Waits for a while. Guarded: the memory may go meanwhile. */
static void wait_a_while(void *argument)
{
    struct wait *wait = argument;
    uintptr_t address = (uintptr_t)wait->op->value.address;
    for (int i = 0; i < SLEEPS; i++) {
        uint64_t word = read_word(wait->op);
        wait->met = is_met(wait->op, word);
        if (wait->met)
            return;
        struct timespec limit = {.tv_nsec = wait->sleep_ns};
        syscall(SYS_futex, address, FUTEX_WAIT, (uint32_t)word, &limit, NULL, 0);
        if (wait->sleep_ns < LONGEST_NS)
            wait->sleep_ns *= 2;
    }
}

static void write_word(void *argument)
{
    const tn_cu_batch_op *op = argument;
    uintptr_t address = (uintptr_t)op->value.address;
    if (tn_sim_word_bytes(op) == sizeof(uint64_t))
        atomic_store_explicit((_Atomic(uint64_t) *)address, op->value.value, memory_order_release);
    else
        atomic_store_explicit((_Atomic(uint32_t) *)address, (uint32_t)op->value.value,
                              memory_order_release);
    syscall(SYS_futex, address, FUTEX_WAKE, EVERYONE, NULL, NULL, 0);
}

/* Does work without the lock. Returns false for a fault. */
static bool run_guarded(void (*work)(void *), void *argument)
{
    tn_sim_leave();
    bool survived = tn_sim_guard_run(work, argument);
    pthread_mutex_lock(&tn_sim.lock);
    return survived;
}

/* Returns false for a fault. */
static bool await(const struct tn_sim_op *op, struct wait *wait)
{
    while (!wait->met && !tn_sim.stopping && op->context->fault == TN_CUDA_SUCCESS) {
        if (!run_guarded(wait_a_while, wait))
            return false;
    }
    return true;
}

bool tn_sim_words_run(struct tn_sim_op *op)
{
    for (unsigned int i = 0; i < op->batch.count; i++) {
        tn_cu_batch_op *one = &op->batch.ops[i];
        struct wait wait = {.op = one, .sleep_ns = SHORTEST_NS};
        if (tn_sim_word_is_wait(one)) {
            if (!await(op, &wait))
                return false;
            if (!wait.met)
                return true;
            tn_sim_check_heard();
        } else if (tn_sim_word_is_write(one)) {
            tn_sim_check_word(op, one->value.address, tn_sim_word_bytes(one));
            if (!run_guarded(write_word, one))
                return false;
        }
    }
    return true;
}

/* -- Calls -- */

static tn_cu_result submit(tn_cu_stream handle, const tn_cu_batch_op *ops, unsigned int count,
                           unsigned int flags)
{
    struct tn_sim_stream *stream;
    tn_cu_result result = tn_sim_words_check(ops, count, flags);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_stream_admit(handle, &stream);
    if (result != TN_CUDA_SUCCESS || count == 0)
        return result;
    struct tn_sim_op *op = tn_sim_batch_make(stream->object.context, ops, count, flags);
    if (op == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    if (stream->capture == NULL && !tn_sim_op_valid(op)) {
        tn_sim_op_release(op);
        return TN_CUDA_ERROR_INVALID_VALUE;
    }
    return tn_sim_stream_submit(stream, op);
}

static tn_cu_result submit_one(tn_cu_stream handle, int operation, tn_cu_deviceptr address,
                               uint64_t value, unsigned int flags)
{
    tn_cu_batch_op op = {0};
    op.value.operation = operation;
    op.value.address = address;
    op.value.value = value;
    op.value.flags = flags;
    return submit(handle, &op, 1, 0);
}

tn_cu_result tn_sim_cuStreamWriteValue32(tn_cu_stream handle, tn_cu_deviceptr address,
                                         uint32_t value, unsigned int flags)
{
    return submit_one(handle, TN_CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
}

tn_cu_result tn_sim_cuStreamWriteValue64(tn_cu_stream handle, tn_cu_deviceptr address,
                                         uint64_t value, unsigned int flags)
{
    return submit_one(handle, TN_CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags);
}

tn_cu_result tn_sim_cuStreamWaitValue32(tn_cu_stream handle, tn_cu_deviceptr address,
                                        uint32_t value, unsigned int flags)
{
    return submit_one(handle, TN_CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
}

tn_cu_result tn_sim_cuStreamWaitValue64(tn_cu_stream handle, tn_cu_deviceptr address,
                                        uint64_t value, unsigned int flags)
{
    return submit_one(handle, TN_CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags);
}

tn_cu_result tn_sim_cuStreamBatchMemOp(tn_cu_stream handle, unsigned int count, tn_cu_batch_op *ops,
                                       unsigned int flags)
{
    return submit(handle, ops, count, flags);
}
