// SPDX-License-Identifier: Apache-2.0
/* A counter gives each asking thread its number. */
#include "base/thread.h"

#include <stdatomic.h>

static atomic_uint_fast64_t last_id;
static _Thread_local uint64_t own_id;

uint64_t tn_thread_id(void)
{
    if (own_id == 0)
        own_id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
    return own_id;
}
