// SPDX-License-Identifier: Apache-2.0
/* Each mistake that an audit names, planted in each type of node that can carry it: see cells.h. What an audit must say
 * is judged whole, in judge.c. */
#include "planted/judge.h"
#include "planted/plant.h"

#define CELL(name, carrier, mistake)                                                               \
    START_TEST(name)                                                                               \
    {                                                                                              \
        planted_try(CARRIER_##carrier, MISTAKE_##mistake);                                         \
    }                                                                                              \
    END_TEST

PLANTED_CELLS(CELL)

static void add_all(TCase *tcase)
{
#define ADD(name, carrier, mistake) tcase_add_test(tcase, name);
    PLANTED_CELLS(ADD)
#undef ADD
}

int main(void)
{
    Suite *suite = suite_create("mistakes");

    planted_forget_json();
    add_all(test_case(suite, "captured by Tarn", planted_open_for_tarn, planted_close));
    add_all(
        test_case(suite, "captured by the program", planted_open_for_the_program, planted_close));
    return test_main(suite);
}
