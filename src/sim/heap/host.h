// SPDX-License-Identifier: Apache-2.0
/* host.h -- page-locked memory of the host: the driver's and the program's own.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_HOST_H
#define TARN_SIM_HOST_H

#include "sim/memory/space.h"

/* Frees all page-locked memory of a context under destruction; the program's own memory is only
 * unregistered. */
void tn_sim_hosts_free_all(struct tn_sim_context *context);

/* The driver's mapping in which page-locked memory lies; returns the mapping's id. */
uint64_t tn_sim_host_mapping(const struct tn_sim_host *host, struct tn_sim_span *mapping);

#endif
