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

START_TEST(a_broken_contract_goes_to_the_handler_first)
{
    tn_contract_set_handler(leave_by_exit);
    tn_contract_failed("file.c", 7, "a == b");
}
END_TEST

START_TEST(a_broken_contract_without_a_handler_aborts)
{
    tn_contract_set_handler(NULL);
    tn_contract_failed("file.c", 7, "a == b");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("contract");
    TCase *contract = tcase_create("contract");

    tcase_add_exit_test(contract, a_broken_contract_goes_to_the_handler_first, 3);
    tcase_add_test_raise_signal(contract, a_broken_contract_without_a_handler_aborts, SIGABRT);
    suite_add_tcase(suite, contract);
    return test_main(suite);
}
