// SPDX-License-Identifier: Apache-2.0
/* pending.c -- functions that are not simulated yet answer CUDA_ERROR_NOT_SUPPORTED. */
#include "sim/core.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define PENDING(name, symbol, version, parameters, names)                                          \
    __attribute__((weak)) tn_cu_result tn_sim_##name parameters                                    \
    {                                                                                              \
        return TN_CUDA_ERROR_NOT_SUPPORTED;                                                        \
    }
TN_CUDA_CONTEXT_FUNCTIONS(PENDING)
TN_CUDA_MEMORY_FUNCTIONS(PENDING)
TN_CUDA_POOL_FUNCTIONS(PENDING)
TN_CUDA_STREAM_FUNCTIONS(PENDING)
TN_CUDA_GRAPH_FUNCTIONS(PENDING)
