// SPDX-License-Identifier: Apache-2.0
/* words.h -- operations on single words: waits, writes and barriers, as calls and nodes give them.
 *
 * Locking: the lock of core.h, which tn_sim_words_run gives up while it waits or writes. */
#ifndef TARN_SIM_WORDS_H
#define TARN_SIM_WORDS_H

#include "sim/graph/op.h"

/* Asks whether an operation waits for its word, or writes its word. Barriers do neither. */
bool tn_sim_word_is_wait(const tn_cu_batch_op *op);
bool tn_sim_word_is_write(const tn_cu_batch_op *op);

/* The bytes of an operation's word; 0 for an operation without a word. */
size_t tn_sim_word_bytes(const tn_cu_batch_op *op);

/* Judges operations by their form; their memory is not looked at. INVALID_VALUE: no operation or
 * too many, flags of the batch, an unknown operation, an address that is no multiple of its word,
 * or unknown flags. NOT_SUPPORTED: the device cannot flush writes of others. */
tn_cu_result tn_sim_words_check(const tn_cu_batch_op *ops, unsigned int count, unsigned int flags);

/* Does the operations of a batch, one after the other. A wait ends when its word is right, whoever
 * wrote it: this process, or another process with the same memory. A wait also ends, unmet, with
 * its context and with the process. Returns false for a fault. */
bool tn_sim_words_run(struct tn_sim_op *op);

#endif
