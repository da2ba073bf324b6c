// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include "unit/unit.h"

static void read_id(void *id)
{
    *(uint64_t *)id = tn_thread_id();
}

GROUP(thread, NULL)

TEST(thread, a_thread_keeps_its_number_and_no_other_gets_it)
{
    enum { THREADS = 50 };
    uint64_t mine = tn_thread_id();
    uint64_t last = mine;

    ck_assert_uint_ne(mine, 0);
    for (int i = 0; i < THREADS; i++) { /* one after the other: the system reuses their names */
        uint64_t id = 0;

        test_elsewhere(read_id, &id);
        ck_assert_uint_gt(id, last);
        last = id;
    }
    ck_assert_uint_eq(tn_thread_id(), mine);
}
