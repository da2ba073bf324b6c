// SPDX-License-Identifier: Apache-2.0
/* labels.h -- the labels of a thread's allocations: the thread's own label, and pushed ones. The
 * label pushed last counts, until it is popped.
 *
 * The labels belong to the thread, not to a device, and end with the thread.
 *
 * Locking: none; a thread's own. */
#ifndef TARN_POOLS_LABELS_H
#define TARN_POOLS_LABELS_H

#include "pools/stacking.h"
#include "tarn/status.h"

enum { TN_LABELS_MAX = 256 }; /* pushed by a thread */

/* Makes the title of a text, for a call; NULL: an empty one. INVALID_ARGUMENT: the text is longer than
 * a title, or no UTF-8. */
TARN_MUST_CHECK tarn_status tn_label_make_title(struct tn_title *title, const char *text);

/* The label pushed last becomes this title, or the thread's own. HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_labels_set(const struct tn_title *title);

/* HOST_MEMORY; LIMIT: TN_LABELS_MAX are pushed */
TARN_MUST_CHECK tarn_status tn_labels_push(const struct tn_title *title);

/* WRONG_STATE: none is pushed */
TARN_MUST_CHECK tarn_status tn_labels_pop(void);

/* The text of the label that counts, ended by 0; empty: no label. Stays until the thread's next
 * change. */
const char *tn_labels_text(void);

#endif
