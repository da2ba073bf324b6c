// SPDX-License-Identifier: Apache-2.0
/* partner.h -- another process, which does what a test tells it: the consumer of what the test shares.
 *
 * It is forked before the test uses the driver, and has a device and a stream of its own. */
#ifndef TARN_TESTS_SUPPORT_PARTNER_H
#define TARN_TESTS_SUPPORT_PARTNER_H

#include <sys/types.h>

#include "support/cuda.h"

struct test_partner {
    pid_t pid;
    int channel; /* orders go there, and answers come back */
};

/* Forks it; nothing of the driver has been used. */
void test_partner_begin(struct test_partner *partner);
/* Tells it to go, which it must do with everything closed. */
void test_partner_end(struct test_partner *partner);
void test_partner_kill(struct test_partner *partner);

/* What it is told to do; it answers with the status. */
tarn_status test_partner_connect(struct test_partner *partner, const char *name);
tarn_status test_partner_open(struct test_partner *partner, const tarn_share *share,
                              uint64_t timeout_ns, void **address);
tarn_status test_partner_close(struct test_partner *partner, void *address);
/* The same by its stream, which it can hold. */
tarn_status test_partner_open_on(struct test_partner *partner, const tarn_share *share,
                                 uint64_t timeout_ns, void **address);
tarn_status test_partner_close_on(struct test_partner *partner, void *address);
void test_partner_hold(struct test_partner *partner);
void test_partner_go_on(struct test_partner *partner);
tarn_status test_partner_collect(struct test_partner *partner);
/* Has it run the function, with what lies in memory of both processes. */
typedef tarn_status test_partner_job(tarn_device *device, tn_cu_stream stream, void *shared);
tarn_status test_partner_run(struct test_partner *partner, test_partner_job *job, void *shared);
/* What its connection and its device say. */
tarn_connection_info test_partner_describe(struct test_partner *partner);
tarn_stats test_partner_stats(struct test_partner *partner);
tarn_status test_partner_disconnect(struct test_partner *partner);
void test_partner_fill(struct test_partner *partner, void *address, uint32_t value, size_t words);
/* The same, which nobody waits for. */
void test_partner_fill_later(struct test_partner *partner, void *address, uint32_t value,
                             size_t words);
/* Whether all words there have the value, as its device reads them. */
bool test_partner_finds(struct test_partner *partner, const void *address, uint32_t value,
                        size_t words);

#endif
