// SPDX-License-Identifier: Apache-2.0
/* structs.h -- the public structs with a size, for base/sized.h: what programs hand in, and have
 * filled in.
 *
 * Each names the last field that every caller must have: no field of a later version lies in its
 * word, which would be padding to the caller. A new field is added to the struct alone.
 * tarn_out_of_memory and tarn_tracked are not here: the library hands them out with the sizes of this
 * version, and programs look at the size. */
#ifndef TARN_API_STRUCTS_H
#define TARN_API_STRUCTS_H

#include "base/sized.h"
#include "tarn/audit.h"
#include "tarn/device.h"
#include "tarn/graph.h"
#include "tarn/graph_memory.h"
#include "tarn/history.h"
#include "tarn/memory.h"
#include "tarn/pool.h"
#include "tarn/share.h"
#include "tarn/stats.h"
#include "tarn/symmetric.h"

/* Whether no later field lies in the last word of the least size. next: the field behind that
 * size. */
#define TN_LEAST_IS_WHOLE(type, last, next)                                                        \
    (offsetof(type, next) >= (offsetof(type, last) + sizeof(((type *)NULL)->last) + 7) / 8 * 8)

/* Inputs. */
#define TN_DEVICE_OPTIONS TN_SIZED(tarn_device_options, pinned_cache_limit_bytes)
#define TN_POOL_OPTIONS TN_SIZED(tarn_pool_options, share_captured)
#define TN_AUDIT_OPTIONS TN_SIZED(tarn_audit_options, scan_stream)
#define TN_HISTORY_SETTINGS TN_SIZED(tarn_history_settings, live_stacks_alone)
#define TN_LISTENER_OPTIONS TN_SIZED(tarn_listener_options, lease_slots)
#define TN_GROUP_OPTIONS TN_SIZED(tarn_group_options, timeout_ns)
#define TN_CAPTURE_OPTIONS TN_SIZED(tarn_capture_options, driver_graph)

_Static_assert(TN_LEAST_IS_WHOLE(tarn_device_options, pinned_cache_limit_bytes, null_stream), "");
_Static_assert(TN_LEAST_IS_WHOLE(tarn_pool_options, share_captured, guard), "");
_Static_assert(TN_LEAST_IS_WHOLE(tarn_audit_options, scan_stream, refused), "");
_Static_assert(TN_LEAST_IS_WHOLE(tarn_history_settings, live_stacks_alone, skipped), "");
_Static_assert(TN_LEAST_IS_WHOLE(tarn_capture_options, driver_graph, outer), "");

/* Outputs. walk of tarn_stats is the caller's, and within the least size. */
#define TN_DEVICE_INFO TN_SIZED(tarn_device_info, driver)
#define TN_STATS TN_SIZED(tarn_stats, own_segments)
#define TN_GRAPH_MEMORY_INFO TN_SIZED(tarn_graph_memory_info, exec_bytes)
#define TN_SEGMENT TN_SIZED(tarn_segment, pool)
#define TN_CONNECTION_INFO TN_SIZED(tarn_connection_info, lease_count)
#define TN_MEMBER_INFO TN_SIZED(tarn_member_info, state)
#define TN_SYMMETRIC_INFO TN_SIZED(tarn_symmetric_info, call_count)
#define TN_HISTORY_INFO TN_SIZED(tarn_history_info, stacks_lost)

_Static_assert(TN_LEAST_IS_WHOLE(tarn_segment, pool, index), "");
_Static_assert(TN_LEAST_IS_WHOLE(tarn_member_info, state, host), "");
_Static_assert(TN_LEAST_IS_WHOLE(tarn_history_info, stacks_lost, skipped), "");

#endif
