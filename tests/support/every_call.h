// SPDX-License-Identifier: Apache-2.0
/* every_call.h -- every public function, each called in one way that is good, for suites of what holds for all of them.
 *
 * tests/abi/symbols.txt has the functions; test_expect_every_call fails when one of them is not here. */
#ifndef TARN_TESTS_SUPPORT_EVERY_CALL_H
#define TARN_TESTS_SUPPORT_EVERY_CALL_H

#include "support/world.h"

struct test_call {
    const char *name;
    bool has_status;      /* else make answers OK, whatever it does */
    void (*before)(void); /* on the same thread; NULL: nothing */
    tarn_status (*make)(void);
};

extern const struct test_call test_calls[];
extern const size_t test_call_count;

/* What the calls are made with, beside the world: made, once, when that is open. */
void test_subjects_make(void);

/* Whether test_calls are the functions of that list. */
void test_expect_every_call(const char *symbols_path);

#endif
