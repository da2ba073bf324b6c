// SPDX-License-Identifier: Apache-2.0
/* collect.h -- what the ranks of a group do together for a symmetric pool's freed memory.
 *
 * Locking: a collective of the group; takes the pool's lock for what changes. */
#ifndef TARN_SHARE_COLLECT_H
#define TARN_SHARE_COLLECT_H

#include "share/symmetric.h"

/* Statuses as in tarn/symmetric.h. */
TARN_MUST_CHECK tarn_status tn_symmetric_collect(tarn_symmetric *pool, uint64_t timeout_ns);

#endif
