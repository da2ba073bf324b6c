// SPDX-License-Identifier: Apache-2.0
/* ptx.h -- reads the names and parameter layouts of the kernels in a PTX text.
 *
 * Locking: none; pure. */
#ifndef TARN_SIM_PTX_H
#define TARN_SIM_PTX_H

#include <stddef.h>

#include "abi/cuda.h"

struct tn_sim_ptx_param {
    size_t offset;
    size_t bytes;
};

struct tn_sim_ptx_entry {
    char *name;
    struct tn_sim_ptx_param *params;
    size_t param_count;
    size_t block_bytes; /* of all parameters, packed at their offsets */
};

struct tn_sim_ptx {
    struct tn_sim_ptx_entry *entries;
    size_t entry_count;
};

/* Reads a text. INVALID_IMAGE: it is no PTX. INVALID_PTX: its declarations cannot be read.
 * OUT_OF_MEMORY. On success tn_sim_ptx_fini releases what *ptx holds. */
tn_cu_result tn_sim_ptx_parse(const char *text, struct tn_sim_ptx *ptx);

void tn_sim_ptx_fini(struct tn_sim_ptx *ptx);

#endif
