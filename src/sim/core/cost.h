// SPDX-License-Identifier: Apache-2.0
/* cost.h -- what driver calls cost, and the account of it.
 *
 * Costs come from a file, a line for each function:
 *
 *     # figures of some GPU
 *     cuEventRecord  107
 *     cuMemCreate    2M:14000 64M:13000 1G:34000
 *     cuMemSetAccess call:1000 2M:30000 1G:73000
 *     *              50
 *
 * A number is nanoseconds, at most 10^18; after a size (which may end in K, M, G or T for powers of 1024,
 * and is a whole number of bytes, at most 10^18) it is the
 * cost of one thing of that size: bytes of a handle, a mapping or an allocation, nodes of a graph; or
 * 0 and 1 where a call can be a light or a heavy one, as the file says. Between two sizes costs are
 * interpolated; below the first one they stay, above the last one they go on as between the last
 * two. `call:` is added once for each call. `*` is for all functions without a line. `#` begins a
 * comment.
 *
 * A function's body says what a call is about with tn_sim_charge, once for each thing; a call whose
 * body says nothing costs what a thing of size 0 does.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_COST_H
#define TARN_SIM_COST_H

#include "sim/core/core.h"

/* Reads costs from a file, or from <name>.costs of those that lie beside the library when the name
 * has neither a slash nor a dot. Returns false, having said why on stderr, when it cannot be used;
 * nothing has then changed. */
bool tn_sim_costs_load(const char *name);

/* Says that the present call is about one thing of that size; with a function, that it does that
 * function's work besides. */
void tn_sim_charge(size_t size);
void tn_sim_charge_as(enum tn_sim_function function, size_t size);

/* Enters the present call of a thread, which has returned, in the account. Returns its cost. */
uint64_t tn_sim_cost_enter(struct tn_sim_thread *thread);

/* Tells the account's present time, of all calls that have returned. Returns false where calls have no
 * costs, or take the time that they cost: then the system's clock tells it. */
bool tn_sim_cost_time(uint64_t *ns);

/* Lets that much time pass, without the lock. */
void tn_sim_cost_spend(uint64_t ns);

/* Writes the account to the file that the settings name, if any. */
void tn_sim_cost_write(void);

#endif
