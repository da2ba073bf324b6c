// SPDX-License-Identifier: Apache-2.0
/* What code compiled with -fsanitize-coverage=trace-pc calls at each basic block. The library runs on
 * one thread here, but for destructors of the driver's; what is lost to those does not matter. */
#include "fuzz/fuzz.h"

uint8_t fuzz_edges[FUZZ_EDGES];

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
    static _Thread_local uintptr_t previous;
    uintptr_t here = (uintptr_t)__builtin_return_address(0);

    fuzz_edges[(here * 31 ^ previous) % FUZZ_EDGES] = 1;
    previous = here >> 1;
}
