// SPDX-License-Identifier: Apache-2.0
/* growth.h -- memory for a symmetric pool, which all ranks make and map together.
 *
 * Locking: in a collective of the group; takes the pool's lock for what changes. */
#ifndef TARN_SHARE_GROWTH_H
#define TARN_SHARE_GROWTH_H

#include "share/symmetric.h"

/* Statuses as in tarn/symmetric.h. */
TARN_MUST_CHECK tarn_status tn_growth_reserve(tarn_symmetric *pool, uint64_t bytes,
                                              uint64_t timeout_ns);

#endif
