// SPDX-License-Identifier: Apache-2.0
/* Each mistake that an audit names, planted in each type of node that can carry it: see cells.h. What an audit must say
 * is judged whole, in judge.c. */
#include "planted/judge.h"
#include "planted/plant.h"

GROUP(tarn, planted_open_for_tarn, planted_close, .name = "captured by Tarn")
GROUP(program, planted_open_for_the_program, planted_close, .name = "captured by the program")

#define CELL(name, carrier, mistake)                                                               \
    TEST(tarn, name)                                                                               \
    {                                                                                              \
        planted_try(CARRIER_##carrier, MISTAKE_##mistake);                                         \
    }                                                                                              \
    TEST_ALSO(program, name)

PLANTED_CELLS(CELL)
