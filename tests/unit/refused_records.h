// SPDX-License-Identifier: Apache-2.0
/* refused_records.h -- block records that cannot be set aside, for one suite that interposes tn_blocks_reserve. */
#ifndef TARN_TESTS_REFUSED_RECORDS_H
#define TARN_TESTS_REFUSED_RECORDS_H

#include "heap/block.h"

static int refused_reserve; /* records cannot be set aside the n-th time from now; 0: always */

bool __real_tn_blocks_reserve(struct tn_block_store *store, size_t count);
bool __wrap_tn_blocks_reserve(struct tn_block_store *store, size_t count);
bool __wrap_tn_blocks_reserve(struct tn_block_store *store, size_t count)
{
    if (refused_reserve > 0) {
        refused_reserve -= 1;
        if (refused_reserve == 0)
            return false;
    }
    return __real_tn_blocks_reserve(store, count);
}

#endif
