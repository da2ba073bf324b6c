// SPDX-License-Identifier: Apache-2.0
/* word.h -- words of memory that streams write and wait for, also between processes.
 *
 * A word is written and waited for by the stream itself, in the order of its work. No process has
 * to wake another, and a processor can end a wait for a word in page-locked memory. In a capture
 * the operations become one node, with the values of the capture.
 *
 * Locking: none; any thread. Nothing here waits for the GPU. */
#ifndef TARN_DRIVER_WORD_H
#define TARN_DRIVER_WORD_H

#include "driver/gpu.h"

/* The place of words: page-locked memory of the host, which processors reach at the device's own
 * address, or memory of the device. */
enum tn_word_place { TN_WORDS_ON_HOST, TN_WORDS_ON_DEVICE };

/* Memory for words, mapped for the device, and on the host for the process. Immutable. */
struct tn_word_memory {
    uint64_t address;
    uint64_t bytes;
    tn_cu_memhandle handle;
    enum tn_word_place place;
};

enum { TN_WORD_OPS_MAX = 255 }; /* of one call, as the driver limits a batch */

/* Operations on a word of 32 bits, or of 64 where it is wide; a narrow word gets the low half. A
 * wait for "at least" is over when word - value is not negative, so words may wrap. */
static inline tn_cu_batch_op tn_word_write(uint64_t address, uint64_t value, bool wide)
{
    tn_cu_batch_op op = {.pad = {0}};

    op.value.operation =
        wide ? TN_CU_STREAM_MEM_OP_WRITE_VALUE_64 : TN_CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op.value.address = address;
    op.value.value = wide ? value : (uint32_t)value;
    return op;
}

static inline tn_cu_batch_op tn_word_await(uint64_t address, uint64_t value, bool wide)
{
    tn_cu_batch_op op = tn_word_write(address, value, wide);

    op.value.operation =
        wide ? TN_CU_STREAM_MEM_OP_WAIT_VALUE_64 : TN_CU_STREAM_MEM_OP_WAIT_VALUE_32;
    op.value.flags = TN_CU_STREAM_WAIT_VALUE_GEQ;
    return op;
}

static inline tn_cu_batch_op tn_word_await_equal(uint64_t address, uint32_t value)
{
    tn_cu_batch_op op = tn_word_await(address, value, false);

    op.value.flags = TN_CU_STREAM_WAIT_VALUE_EQ;
    return op;
}

/* Whether streams can wait for words, and for wide ones.
 *   NOT_SUPPORTED: the driver has no cuStreamBatchMemOp; DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_words_require(struct tn_gpu *gpu, bool *wide);

/* New memory of at least the given bytes, whose contents are undefined, and which can be exported.
 *   NOT_SUPPORTED: no such memory can be exported, or mapped for processors; DEVICE_MEMORY,
 *   ADDRESS_SPACE, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_word_memory_create(struct tn_gpu *gpu, enum tn_word_place place,
                                                  uint64_t bytes, struct tn_word_memory *memory);

/* A new file descriptor of the memory, closed by exec; the caller closes it. DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_word_memory_export(struct tn_gpu *gpu,
                                                  const struct tn_word_memory *memory,
                                                  int *descriptor);

/* The memory of a descriptor of another process, or of this one. The descriptor stays the caller's.
 * Place and bytes must be those of the creation.
 *   NOT_SUPPORTED, DEVICE_MEMORY, ADDRESS_SPACE, DEVICE_LOST
 *   DRIVER: also when the descriptor is of no memory, or of other memory */
TARN_MUST_CHECK tarn_status tn_word_memory_import(struct tn_gpu *gpu, enum tn_word_place place,
                                                  uint64_t bytes, int descriptor,
                                                  struct tn_word_memory *memory);

/* Unmaps the memory and gives it up. No stream of this process may wait for its words any more. */
void tn_word_memory_end(struct tn_gpu *gpu, const struct tn_word_memory *memory);

/* Puts operations on a stream, in their order, as one piece of work; 1 to TN_WORD_OPS_MAX of them.
 *   WRONG_STATE: the stream is the legacy stream, while a stream ordered with it is being captured
 *   CAPTURE_BROKEN, DEVICE_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_stream_do_words(struct tn_gpu *gpu, tn_cu_stream stream,
                                               tn_cu_batch_op *ops, unsigned int count);

#endif
