// SPDX-License-Identifier: Apache-2.0
#include "vmm/budget.h"

#include "base/contract.h"
#include "base/error.h"

void tn_budget_set_fraction(struct tn_budget *budget, double fraction, uint64_t total_bytes)
{
    uint64_t bytes = (uint64_t)((double)total_bytes * fraction);

    atomic_store(&budget->fraction_bytes, fraction > 0 ? tn_max(bytes, 1) : 0);
}

tarn_status tn_budget_charge(struct tn_budget *budget, uint64_t bytes)
{
    uint64_t limit = tn_budget_limit(budget);
    uint_fast64_t charged = atomic_load(&budget->charged_bytes);

    do {
        if (charged > limit || bytes > limit - charged)
            return tn_fail(TARN_ERR_LIMIT,
                           "device %d may take %llu MiB of %smemory and has %llu MiB, mapped and "
                           "cached: %llu MiB more are too much",
                           budget->ordinal, (unsigned long long)(limit / TN_MIB),
                           budget->host ? "page-locked " : "",
                           (unsigned long long)(charged / TN_MIB),
                           (unsigned long long)(bytes / TN_MIB));
    } while (!atomic_compare_exchange_weak(&budget->charged_bytes, &charged, charged + bytes));
    return TARN_OK;
}

void tn_budget_discharge(struct tn_budget *budget, uint64_t bytes)
{
    uint64_t charged = atomic_fetch_sub(&budget->charged_bytes, bytes);

    TN_ASSERT(charged >= bytes);
    (void)charged;
}
