// SPDX-License-Identifier: Apache-2.0
/* account.h -- how much of a time the driver took, function by function.
 *
 * The simulated driver keeps an account of what its calls would have cost (TARN_SIM_COSTS), and the
 * call recorder, libtarn_record.so, one of what calls of a real driver have taken; both answer the
 * same questions, so their figures can be compared. With a driver that has no account, and with the
 * simulated one without costs, nothing is reported. */
#ifndef TARN_BENCH_ACCOUNT_H
#define TARN_BENCH_ACCOUNT_H

struct bench_account;

/* Made for one case. NULL, which the other functions accept, when there is no account. */
struct bench_account *bench_account_create(void);

/* What the driver does between the two counts; to be called outside the time, once a sample. */
void bench_account_begin(struct bench_account *account);
void bench_account_end(struct bench_account *account);

/* Reports, and ends the account: the driver's time, the number of calls, and the time of each
 * function that was called, under "VARIANT: ...". */
void bench_account_report(struct bench_account *account, const char *row, const char *variant);

#endif
