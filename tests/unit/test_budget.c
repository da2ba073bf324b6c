// SPDX-License-Identifier: Apache-2.0
#include "unit/unit.h"
#include "vmm/budget.h"

static struct tn_budget budget;

static void make_budget(void)
{
    budget = (struct tn_budget){.ordinal = 3};
}

GROUP(charges, make_budget)

TEST(charges, without_a_limit_all_is_granted)
{
    ck_assert_uint_eq(tn_budget_limit(&budget), UINT64_MAX);
    OK(tn_budget_charge(&budget, UINT64_MAX - 1));
    tn_budget_discharge(&budget, UINT64_MAX - 1);
    ck_assert_uint_eq(atomic_load(&budget.charged_bytes), 0);
}

TEST(charges, the_smaller_of_two_limits_counts)
{
    atomic_store(&budget.limit_bytes, 64 * TN_MIB);
    ck_assert_uint_eq(tn_budget_limit(&budget), 64 * TN_MIB);
    tn_budget_set_fraction(&budget, 0.25, 128 * TN_MIB);
    ck_assert_uint_eq(tn_budget_limit(&budget), 32 * TN_MIB);
    atomic_store(&budget.limit_bytes, 16 * TN_MIB);
    ck_assert_uint_eq(tn_budget_limit(&budget), 16 * TN_MIB);
    atomic_store(&budget.limit_bytes, 0);
    ck_assert_uint_eq(tn_budget_limit(&budget), 32 * TN_MIB);
    tn_budget_set_fraction(&budget, 0, 128 * TN_MIB);
    ck_assert_uint_eq(tn_budget_limit(&budget), UINT64_MAX);
    tn_budget_set_fraction(&budget, 1e-9, 128 * TN_MIB); /* less than a byte is not no limit */
    ck_assert_uint_eq(tn_budget_limit(&budget), 1);
}

TEST(charges, bytes_are_charged_up_to_the_limit)
{
    atomic_store(&budget.limit_bytes, 64 * TN_MIB);
    OK(tn_budget_charge(&budget, 62 * TN_MIB));
    STATUS(TARN_ERR_LIMIT, tn_budget_charge(&budget, 4 * TN_MIB));
    unit_expect_sentence("device 3 may take 64 MiB of memory and has 62 MiB");
    ck_assert_uint_eq(atomic_load(&budget.charged_bytes), 62 * TN_MIB);
    OK(tn_budget_charge(&budget, 2 * TN_MIB));
    STATUS(TARN_ERR_LIMIT, tn_budget_charge(&budget, 1));
    atomic_store(&budget.limit_bytes, 32 * TN_MIB); /* lowered below what is there */
    STATUS(TARN_ERR_LIMIT, tn_budget_charge(&budget, 1));
    tn_budget_discharge(&budget, 33 * TN_MIB);
    OK(tn_budget_charge(&budget, TN_MIB));
    ck_assert_uint_eq(atomic_load(&budget.charged_bytes), 32 * TN_MIB);
}

CONTRACT_TEST(charges, giving_back_more_than_was_charged_is_a_broken_contract)
{
    OK(tn_budget_charge(&budget, TN_MIB));
    tn_budget_discharge(&budget, TN_MIB + 1);
}
