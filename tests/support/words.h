// SPDX-License-Identifier: Apache-2.0
/* words.h -- a test's own function in place of the driver's that gives streams words. */
#ifndef TARN_TESTS_SUPPORT_WORDS_H
#define TARN_TESTS_SUPPORT_WORDS_H

#include "driver/driver.h"

typedef __typeof__(tn_driver_table.cuStreamBatchMemOp) test_words_call;

/* Returns the former one. */
static inline test_words_call test_words_swap(test_words_call call)
{
    test_words_call former = tn_driver_table.cuStreamBatchMemOp;

    tn_driver_table.cuStreamBatchMemOp = call;
    return former;
}

#endif
