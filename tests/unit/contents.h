// SPDX-License-Identifier: Apache-2.0
/* contents.h -- for suites of checkpoints with contents, which see the memory that is taken for these. */
#ifndef TARN_TESTS_CONTENTS_H
#define TARN_TESTS_CONTENTS_H

#include "checkpoint/contents.h"
#include "pools/allocate.h"
#include "unit/one_pool.h"

static void (*meanwhile)(
    void);        /* while memory for contents is taken, as a callback might; NULL: nothing */
static int rooms; /* that were taken */

tarn_status __real_tn_pool_allocate(tarn_pool *from, const struct tn_request *request,
                                    tn_cu_stream on, void **address);
tarn_status __wrap_tn_pool_allocate(tarn_pool *from, const struct tn_request *request,
                                    tn_cu_stream on, void **address);
tarn_status __wrap_tn_pool_allocate(tarn_pool *from, const struct tn_request *request,
                                    tn_cu_stream on, void **address)
{
    tarn_status status = __real_tn_pool_allocate(from, request, on, address);

    if (meanwhile != NULL && from == device->default_pool) {
        rooms += 1;
        meanwhile();
    }
    return status;
}

static inline void set_up(void)
{
    make_pool();
    meanwhile = NULL;
    rooms = 0;
}

static inline tarn_checkpoint *take(void)
{
    tarn_checkpoint *checkpoint;

    OK(tn_checkpoint_take(pool, TARN_CONTENTS_DEVICE, stream, &checkpoint));
    return checkpoint;
}

#endif
