// SPDX-License-Identifier: Apache-2.0
/* peer.h -- contexts that may use the linear memory of contexts of other devices.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_PEER_H
#define TARN_SIM_PEER_H

#include "sim/core/context.h"

/* Asks whether a context may use the memory of a context on another device. */
bool tn_sim_peer_enabled(const struct tn_sim_context *context, const struct tn_sim_context *owner);

/* Forgets a context under destruction: its rights to other contexts' memory, and theirs to its
 * own. */
void tn_sim_peers_forget(struct tn_sim_context *context);

#endif
