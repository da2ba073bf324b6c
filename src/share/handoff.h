// SPDX-License-Identifier: Apache-2.0
/* handoff.h -- order between the streams of both processes of a connection, by words.
 *
 * Each slot of leases has words of 32 bits in page-locked memory:
 *
 *   begins  a stream of the producer writes the lease's generation behind its work on the block;
 *           streams of the consumer wait for it
 *   ends    a stream of the consumer writes the generation behind the consumer's work; the producer
 *           looks at it
 *   passed  in memory of this process alone: counts the writes of the two that this process's
 *           streams have done
 *
 *   L6  begins and ends lie in memory that both processes can write, and are believed for no more
 *       than the writer's own word: whether memory may go is asked of passed
 *   L7  the words of a slot rise, up to TN_SHARE_GENERATION_MAX
 *
 * Locking: words are atomic. The rest is guarded by the connection's lock. Nothing here waits. */
#ifndef TARN_SHARE_HANDOFF_H
#define TARN_SHARE_HANDOFF_H

#include "driver/word.h"
#include "share/message.h"

enum tn_handoff_word { TN_HANDOFF_BEGINS, TN_HANDOFF_ENDS };

/* All bytes 0: no words are there. */
struct tn_handoff {
    struct tn_word_memory both; /* begins and ends; address 0: not there */
    struct tn_word_memory own;  /* passed; address 0: not there */
};

/* The words of this process alone, unless they are there.
 *   NOT_SUPPORTED, DEVICE_MEMORY, ADDRESS_SPACE, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_handoff_make_own(struct tn_gpu *gpu, uint32_t slot_count,
                                                struct tn_handoff *handoff);

/* The words of both processes: the producer makes them, with a descriptor, which the caller closes.
 * The statuses of tn_handoff_make_own. */
TARN_MUST_CHECK tarn_status tn_handoff_make(struct tn_gpu *gpu, uint32_t slot_count,
                                            struct tn_handoff *handoff, int *descriptor);

/* The consumer's way to the words of both; the descriptor stays the caller's. DRIVER: also when the
 * descriptor is of other memory */
TARN_MUST_CHECK tarn_status tn_handoff_open(struct tn_gpu *gpu, uint32_t slot_count,
                                            struct tn_handoff *handoff, int descriptor);

/* No write or wait of this process's streams is left. */
void tn_handoff_fini(struct tn_gpu *gpu, struct tn_handoff *handoff);

/* Whether words can order the stream's work.
 *   WRONG_STATE: the stream is being captured; NOT_SUPPORTED, CAPTURE_BROKEN, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_handoff_admit(struct tn_gpu *gpu, tn_cu_stream stream);

/* The stream writes, behind its work and behind the former writes of the slot. generation: of the
 * lease, for the word of both; 0: the word stays. number: of the write, by which passed rises: one
 * above the former. WRONG_STATE, DEVICE_MEMORY, DEVICE_LOST, DRIVER: the stream has got nothing */
TARN_MUST_CHECK tarn_status tn_handoff_write(struct tn_gpu *gpu, const struct tn_handoff *handoff,
                                             tn_cu_stream stream, enum tn_handoff_word word,
                                             uint32_t slot, uint32_t generation, uint32_t number);

/* The stream waits for the beginning of the lease. A wait that is over needs no call of the driver.
 * The statuses of tn_handoff_write. */
TARN_MUST_CHECK tarn_status tn_handoff_wait(struct tn_gpu *gpu, const struct tn_handoff *handoff,
                                            tn_cu_stream stream, uint32_t slot,
                                            uint32_t generation);

/* Whether a word has come to the lease, as the other process says. */
bool tn_handoff_is_told(const struct tn_handoff *handoff, enum tn_handoff_word word, uint32_t slot,
                        uint32_t generation);

/* Whether streams of this process have done the slot's writes up to this number, or will never do
 * them, for the device is lost. */
bool tn_handoff_has_passed(const struct tn_gpu *gpu, const struct tn_handoff *handoff,
                           uint32_t slot, uint32_t number);

/* The producer is gone: ends the waits for the beginning of the lease, by a processor. */
void tn_handoff_finish(const struct tn_handoff *handoff, uint32_t slot, uint32_t generation);

#endif
