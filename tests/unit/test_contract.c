// SPDX-License-Identifier: Apache-2.0
#include "base/contract.h"

#include <stdlib.h>

#include "unit/unit.h"

static void leave_by_exit(const char *file, int line, const char *text)
{
    ck_assert_str_eq(file, "file.c");
    ck_assert_int_eq(line, 7);
    ck_assert_str_eq(text, "a == b");
    exit(3);
}

GROUP(contract, NULL)

TEST_WITH(contract, a_broken_contract_goes_to_the_handler_first, 0, 1, .status = 3)
{
    tn_contract_set_handler(leave_by_exit);
    tn_contract_failed("file.c", 7, "a == b");
}

TEST_WITH(contract, a_broken_contract_without_a_handler_aborts, 0, 1, .signal = SIGABRT)
{
    tn_contract_set_handler(NULL);
    tn_contract_failed("file.c", 7, "a == b");
}
