// SPDX-License-Identifier: Apache-2.0
/* ipc.h -- linear memory of other processes.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_IPC_H
#define TARN_SIM_IPC_H

#include "sim/memory/space.h"

/* An allocation of another process, opened in a context. */
struct tn_sim_opening {
    struct tn_sim_span span; /* as the other process allocated it */
    struct tn_sim_span pages;
    struct tn_sim_context *context;
    tn_cu_ipc_handle handle; /* of the allocation */
    uint64_t count;          /* opens without a close */
    uint64_t buffer_id;
    uint64_t block_id;
    bool sync_memops; /* the program wants its copies to be synchronous */
};

/* Closes all openings of a context under destruction. */
void tn_sim_ipc_close_all(const struct tn_sim_context *context);

#endif
