// SPDX-License-Identifier: Apache-2.0
/* cost.h -- the costs of driver calls, and their account.
 *
 * Costs come from a file, a line for each function:
 *
 *     # figures of some GPU
 *     cuEventRecord  107
 *     cuMemCreate    2M:14000 64M:13000 1G:34000
 *     cuMemSetAccess call:1000 2M:30000 1G:73000
 *     cuMemHostAlloc stalls 1M:387000 512M:144373000
 *     *              50
 *
 * A number is nanoseconds, at most 10^18. After a size, the number is the cost of a thing of this
 * size. A size may end in K, M, G or T for powers of 1024, and is a whole number of bytes, at most
 * 10^18. Sizes are bytes of a handle, a mapping or an allocation, or nodes of a graph. Where a call
 * can be light or heavy, as the file says, the sizes are 0 and 1. Between two sizes costs are
 * interpolated. Below the first size they stay, and above the last size they go on as between the
 * last two. `call:` is added once for each call. `stalls` says that other threads' calls wait as long
 * as the call takes. `*` is for all functions without a line. `#`
 * begins a comment.
 *
 * A function's body tells the size of each thing that the call handles with tn_sim_charge. A call
 * whose body tells no size costs as much as a thing of size 0.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_COST_H
#define TARN_SIM_COST_H

#include "sim/core/core.h"

/* Reads costs from a file; a name with neither a slash nor a dot means <name>.costs beside the
 * library. If the file cannot be used, tells the reason on stderr and returns false; nothing has
 * then changed. */
bool tn_sim_costs_load(const char *name);

/* Says that the present call handles a thing of the given size; with a function, that the call does
 * that function's work besides. */
void tn_sim_charge(size_t size);
void tn_sim_charge_as(enum tn_sim_function function, size_t size);

/* Enters the present call of a thread, which has returned, in the account. Returns its cost. */
uint64_t tn_sim_cost_enter(struct tn_sim_thread *thread);

/* Whether other threads' calls wait while a call of the function takes its time. */
bool tn_sim_cost_stalls(enum tn_sim_function function);

/* Tells the account's present time, of all calls that have returned. Returns false where calls have
 * no costs, or take as long as they cost: the system's clock tells the time there. */
bool tn_sim_cost_time(uint64_t *ns);

/* Lets the given time pass, without the lock. */
void tn_sim_cost_spend(uint64_t ns);

/* Writes the account to the file that the settings name, if any. */
void tn_sim_cost_write(void);

#endif
