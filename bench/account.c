// SPDX-License-Identifier: Apache-2.0
/* Samples of the warm-up are counted like the others: a driver's account has no use for warmth, and
 * a median does not mind. */
#include "account.h"

#include <stdio.h>
#include <stdlib.h>

#include "driver.h"
#include "harness.h"
#include "report.h"

static const char *const names[] = {
#define FUNCTION_NAME(name, symbol, version, parameters, parameter_names) #name,
    TN_CUDA_SIMULATED_FUNCTIONS(FUNCTION_NAME)
#undef FUNCTION_NAME
};

enum { FUNCTION_COUNT = sizeof names / sizeof names[0] };

/* Sums are medians of samples like any other figure; functions keep sums alone. */
struct bench_account {
    struct bench_series ns;
    struct bench_series calls;
    struct bench_series functions[FUNCTION_COUNT];
};

struct bench_account *bench_account_create(void)
{
    struct bench_account *account;

    if (cu.read_account == NULL)
        return NULL;
    account = calloc(1, sizeof *account);
    if (account == NULL)
        bench_fail("no host memory");
    return account;
}

void bench_account_begin(struct bench_account *account)
{
    if (account != NULL)
        cu.reset_account();
}

void bench_account_end(struct bench_account *account)
{
    tarn_sim_cost cost;

    if (account == NULL || account->ns.count == BENCH_SAMPLES_MAX)
        return;
    cu.read_account(NULL, &cost);
    bench_series_add(&account->ns, (double)cost.ns);
    bench_series_add(&account->calls, (double)cost.calls);
    for (size_t i = 0; i < FUNCTION_COUNT; i++) {
        cu.read_account(names[i], &cost);
        bench_series_add(&account->functions[i], (double)cost.ns);
    }
}

static void report(const char *row, const char *variant, const char *what, const char *unit,
                   struct bench_summary summary)
{
    char name[64];

    (void)snprintf(name, sizeof name, "%s: %s", variant, what);
    bench_report(row, name, NULL, unit, summary);
}

void bench_account_report(struct bench_account *account, const char *row, const char *variant)
{
    if (account == NULL)
        return;
    if (account->ns.count > 0 && bench_summarize(&account->ns).median > 0) {
        report(row, variant, "in the driver", "us",
               bench_scaled(bench_summarize(&account->ns), 1e-3));
        report(row, variant, "calls", "calls", bench_summarize(&account->calls));
        for (size_t i = 0; i < FUNCTION_COUNT; i++) {
            struct bench_summary summary = bench_summarize(&account->functions[i]);

            if (summary.median > 0)
                report(row, variant, names[i], "us", bench_scaled(summary, 1e-3));
        }
    }
    free(account);
}
