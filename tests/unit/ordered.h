// SPDX-License-Identifier: Apache-2.0
/* ordered.h -- for suites that interpose qsort: what the library sorts by is an order. The C library at hand may be
 * content with less, another one is not. */
#ifndef TARN_TESTS_ORDERED_H
#define TARN_TESTS_ORDERED_H

#include <stdlib.h>

#include "unit/unit.h"

typedef int comparison(const void *a, const void *b);

static inline int sign(int value)
{
    return (value > 0) - (value < 0);
}

/* Of what is before the sort each with the next ones, and then that it is sorted. */
void __real_qsort(void *items, size_t count, size_t bytes, comparison *compare);
void __wrap_qsort(void *items, size_t count, size_t bytes, comparison *compare);
void __wrap_qsort(void *items, size_t count, size_t bytes, comparison *compare)
{
    enum { NEXT = 64 };
    const char *all = items;

    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(compare(all + i * bytes, all + i * bytes), 0);
        for (size_t j = i + 1; j < count && j < i + NEXT; j++)
            ck_assert_int_eq(sign(compare(all + i * bytes, all + j * bytes)),
                             -sign(compare(all + j * bytes, all + i * bytes)));
    }
    __real_qsort(items, count, bytes, compare);
    for (size_t i = 1; i < count; i++)
        ck_assert_int_le(compare(all + (i - 1) * bytes, all + i * bytes), 0);
}

#endif
