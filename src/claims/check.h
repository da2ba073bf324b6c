// SPDX-License-Identifier: Apache-2.0
/* check.h -- the invariants of known streams and their fences, computed again.
 *
 * Locking: none may be held of rank STREAMS; it is taken. */
#ifndef TARN_CLAIMS_CHECK_H
#define TARN_CLAIMS_CHECK_H

#include "claims/fence.h"

/* Recomputes P11 and P12. CORRUPT. */
TARN_MUST_CHECK tarn_status tn_streams_check(struct tn_streams *streams);

#endif
