// SPDX-License-Identifier: Apache-2.0
/* budget.h -- the driver's memory that a device may take, and has taken.
 *
 * Memory is charged before it is made, and discharged when it was given back. Memory counts whether
 * mapped or in the cache.
 *
 * Locking: none; any thread. */
#ifndef TARN_VMM_BUDGET_H
#define TARN_VMM_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/checked.h"
#include "tarn/status.h"

struct tn_budget {
    int ordinal;                         /* of the device, for sentences; immutable */
    bool host;                           /* of page-locked memory of the host; immutable */
    atomic_uint_fast64_t limit_bytes;    /* 0: none */
    atomic_uint_fast64_t fraction_bytes; /* limit by a fraction of the memory; 0: none */
    atomic_uint_fast64_t charged_bytes;  /* made of the driver's memory, or about to be */
};

/* The smaller of the limits that are set; UINT64_MAX without a limit. */
static inline uint64_t tn_budget_limit(const struct tn_budget *budget)
{
    uint64_t limit = atomic_load(&budget->limit_bytes);
    uint64_t fraction = atomic_load(&budget->fraction_bytes);

    return tn_min(limit != 0 ? limit : UINT64_MAX, fraction != 0 ? fraction : UINT64_MAX);
}

/* The limit as programs read it: 0 for none. */
static inline uint64_t tn_budget_stated_limit(const struct tn_budget *budget)
{
    uint64_t limit = tn_budget_limit(budget);

    return limit != UINT64_MAX ? limit : 0;
}

/* Sets a limit as a fraction of the given bytes; 0: none. */
void tn_budget_set_fraction(struct tn_budget *budget, double fraction, uint64_t total_bytes);

/* Counts bytes about to be made. LIMIT. */
TARN_MUST_CHECK tarn_status tn_budget_charge(struct tn_budget *budget, uint64_t bytes);
void tn_budget_discharge(struct tn_budget *budget, uint64_t bytes);

#endif
