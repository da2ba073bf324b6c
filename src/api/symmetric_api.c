// SPDX-License-Identifier: Apache-2.0
#include "tarn/symmetric.h"

#include <string.h>

#include "api/call.h"
#include "api/structs.h"
#include "base/checked.h"
#include "driver/stream.h"
#include "share/collect.h"
#include "share/group.h"
#include "share/growth.h"
#include "share/signals.h"
#include "share/symmetric.h"

#define TIMEOUT_NS UINT64_C(30000000000)
#define STRIDE_MAX ((uint64_t)1 << 40)

static bool is_group(tarn_group *group)
{
    return group != NULL && atomic_load(&group->magic) == TN_GROUP_MAGIC;
}

static bool is_symmetric(tarn_symmetric *pool)
{
    return pool != NULL && atomic_load(&pool->magic) == TN_SYMMETRIC_MAGIC;
}

/* Begins a call with a handle: keeps the device, and the object until the end of the call. */
static bool call_group(struct tn_call *call, tarn_group *group)
{
    if (!tn_call_begin(call))
        return false;
    if (!is_group(group) || !tn_call_pin_device(call, group->device))
        return tn_call_refuse(call, "group");
    if (tn_pins_try(&group->pins))
        call->pinned = &group->pins;
    return (call->pinned != NULL && is_group(group)) || tn_call_refuse(call, "group");
}

static bool call_symmetric(struct tn_call *call, tarn_symmetric *pool)
{
    if (!tn_call_begin(call))
        return false;
    if (!is_symmetric(pool))
        return tn_call_refuse(call, "symmetric pool");
    if (tn_pins_try(&pool->pins))
        call->pinned = &pool->pins;
    if (call->pinned == NULL || !is_symmetric(pool))
        return tn_call_refuse(call, "symmetric pool");
    return tn_call_pin_device(call, pool->group->device) || tn_call_refuse(call, "symmetric pool");
}

static tn_cu_stream stream_of(const tarn_group *group, tarn_stream stream)
{
    return stream == NULL ? group->device->null_stream : stream;
}

/* -- Groups -- */

static tarn_status check_options(const tarn_group_options *options)
{
    if (options->name == NULL || options->name[0] == '\0' ||
        strnlen(options->name, TN_GROUP_NAME_MAX + 1) > TN_GROUP_NAME_MAX)
        return tn_bad_argument("the name of a group has 1 to 55 bytes");
    if (options->world == 0 || options->world > TN_RANKS_MAX || options->rank >= options->world)
        return tn_bad_argument("a group has 1 to 64 ranks, and rank is below their count");
    if (options->channel_count > TN_GROUP_CHANNELS_MAX)
        return tn_bad_argument("a group has at most 32 channels");
    if (options->meeting == NULL && options->all_gather == NULL && options->world > 1)
        return tn_bad_argument("meeting and all_gather are NULL: the ranks cannot find each other");
    if (options->meeting != NULL &&
        strnlen(options->meeting, TN_SHARE_NAME_MAX + 1) > TN_SHARE_NAME_MAX)
        return tn_bad_argument("the name of a meeting has at most 55 bytes");
    return TARN_OK;
}

tarn_status tarn_group_create(tarn_device *device, const tarn_group_options *options,
                              tarn_group **group)
{
    tarn_group_options chosen;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (options == NULL || group == NULL)
        return tn_bad_argument("options or group is NULL");
    status = tn_sized_read(TN_GROUP_OPTIONS, options, &chosen);
    if (status == TARN_OK)
        status = check_options(&chosen);
    if (status != TARN_OK)
        return status;
    if (chosen.timeout_ns == 0)
        chosen.timeout_ns = TIMEOUT_NS;
    if (chosen.channel_count == 0)
        chosen.channel_count = TN_GROUP_CHANNELS;
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_group_create(device, &chosen, group);
    return tn_leave(status);
}

tarn_status tarn_group_destroy(tarn_group *group)
{
    tarn_status status;
    TN_CALL(call);

    if (group == NULL)
        return tn_call_nothing();
    if (!call_group(&call, group))
        return call.status;
    status = tn_group_destroy(group, 1);
    if (status == TARN_OK)
        call.pinned = NULL; /* the pin went with the group */
    return tn_leave(status);
}

tarn_status tarn_group_member(tarn_group *group, uint32_t rank, tarn_member_info *info)
{
    tarn_member_info known = TARN_MEMBER_INFO_INIT;
    struct tn_rank_name name;
    tarn_status status;
    TN_CALL(call);

    if (!call_group(&call, group))
        return call.status;
    status = tn_sized_check(TN_MEMBER_INFO, info);
    if (status != TARN_OK)
        return status;
    if (rank >= group->world)
        return tn_bad_argument("the group has no such rank");
    tn_board_name(&group->board, rank, &name);
    known.rank = rank;
    known.world = group->world;
    known.pid = (int)name.pid;
    known.state = tn_board_is_here(&group->board, rank) ? TARN_MEMBER_HERE : TARN_MEMBER_LOST;
    memcpy(known.host, name.host, sizeof name.host);
    tn_sized_write(TN_MEMBER_INFO, info, &known);
    return tn_leave(TARN_OK);
}

tarn_status tarn_group_meet(tarn_group *group, uint64_t timeout_ns)
{
    TN_CALL(call);

    if (!call_group(&call, group))
        return call.status;
    return tn_leave(tn_group_meet(group, timeout_ns));
}

tarn_status tarn_group_barrier(tarn_group *group, uint32_t channel, tarn_stream stream)
{
    tarn_status status;
    TN_CALL(call);

    if (!call_group(&call, group))
        return call.status;
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_signals_barrier(group, channel, stream_of(group, stream));
    return tn_leave(status);
}

tarn_status tarn_group_put_signal(tarn_group *group, uint32_t rank, uint32_t channel,
                                  tarn_stream stream)
{
    tarn_status status;
    TN_CALL(call);

    if (!call_group(&call, group))
        return call.status;
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_signals_put(group, rank, channel, stream_of(group, stream));
    return tn_leave(status);
}

tarn_status tarn_group_wait_signal(tarn_group *group, uint32_t rank, uint32_t channel,
                                   tarn_stream stream)
{
    tarn_status status;
    TN_CALL(call);

    if (!call_group(&call, group))
        return call.status;
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_signals_await(group, rank, channel, stream_of(group, stream));
    return tn_leave(status);
}

tarn_status tarn_group_wait(tarn_group *group, tarn_stream stream, uint64_t timeout_ns)
{
    tarn_status status;
    TN_CALL(call);

    if (!call_group(&call, group))
        return call.status;
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_signals_wait(group, stream_of(group, stream), timeout_ns);
    return tn_leave(status);
}

tarn_status tarn_group_abandon(tarn_group *group, tarn_stream stream, uint64_t timeout_ns)
{
    tarn_status status;
    TN_CALL(call);

    if (!call_group(&call, group))
        return call.status;
    status = tn_call_enter(&call);
    if (status != TARN_OK)
        return status;
    stream = stream_of(group, stream);
    if (!tn_stream_is_closed(&group->device->gpu, stream)) /* the wait refuses such a stream */
        tn_group_give_up(group);
    status = tn_signals_wait(group, stream, timeout_ns);
    return tn_leave(status == TARN_ERR_PEER_LOST ? TARN_OK : status);
}

/* -- Symmetric pools -- */

tarn_status tarn_symmetric_create(tarn_group *group, size_t stride, tarn_symmetric **pool)
{
    tarn_status status;
    TN_CALL(call);

    if (!call_group(&call, group))
        return call.status;
    if (pool == NULL)
        return tn_bad_argument("pool is NULL: there is nowhere to put the handle");
    if (stride == 0 || stride > STRIDE_MAX)
        return tn_bad_argument("the stride of a symmetric pool is 1 byte to 1 TiB");
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_symmetric_create(group, tn_round_up(stride, TN_SYMMETRIC_UNIT), pool);
    return tn_leave(status);
}

tarn_status tarn_symmetric_destroy(tarn_symmetric *pool)
{
    tarn_status status;
    TN_CALL(call);

    if (pool == NULL)
        return tn_call_nothing();
    if (!call_symmetric(&call, pool))
        return call.status;
    status = tn_symmetric_destroy(pool, 1);
    if (status == TARN_OK)
        call.pinned = NULL; /* the pin went with the pool */
    return tn_leave(status);
}

tarn_status tarn_symmetric_reserve(tarn_symmetric *pool, size_t bytes, uint64_t timeout_ns)
{
    tarn_status status;
    TN_CALL(call);

    if (!call_symmetric(&call, pool))
        return call.status;
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_growth_reserve(pool, bytes, timeout_ns);
    return tn_leave(status);
}

tarn_status tarn_symmetric_malloc(tarn_symmetric *pool, size_t bytes, uint64_t persistent_id,
                                  void **address)
{
    uint64_t made = 0;
    tarn_status status = TARN_OK;
    TN_CALL(call);

    if (!call_symmetric(&call, pool))
        return call.status;
    if (address == NULL)
        return tn_bad_argument("address is NULL: there is nowhere to put the address");
    if (bytes > 0)
        status = tn_symmetric_malloc(pool, bytes, persistent_id, &made);
    if (status == TARN_OK)
        *address = (void *)(uintptr_t)made;
    return tn_leave(status);
}

tarn_status tarn_symmetric_free(tarn_symmetric *pool, void *address, tarn_stream stream)
{
    tarn_status status;
    TN_CALL(call);

    if (!call_symmetric(&call, pool))
        return call.status;
    if (address == NULL)
        return tn_leave(TARN_OK);
    status = tn_symmetric_free(pool, (uint64_t)(uintptr_t)address, stream_of(pool->group, stream));
    return tn_leave(status);
}

tarn_status tarn_symmetric_collect(tarn_symmetric *pool, uint64_t timeout_ns)
{
    TN_CALL(call);

    if (!call_symmetric(&call, pool))
        return call.status;
    return tn_leave(tn_symmetric_collect(pool, timeout_ns));
}

tarn_status tarn_symmetric_at(tarn_symmetric *pool, const void *address, uint32_t rank, void **at)
{
    uint64_t there;
    tarn_status status;
    TN_CALL(call);

    if (!call_symmetric(&call, pool))
        return call.status;
    if (at == NULL)
        return tn_bad_argument("at is NULL: there is nowhere to put the address");
    status = tn_symmetric_at(pool, (uint64_t)(uintptr_t)address, rank, &there);
    if (status == TARN_OK)
        *at = (void *)(uintptr_t)there;
    return tn_leave(status);
}

tarn_status tarn_symmetric_buffers(tarn_symmetric *pool, const void *address, void **at)
{
    uint64_t first;
    tarn_status status;
    TN_CALL(call);

    if (!call_symmetric(&call, pool))
        return call.status;
    if (at == NULL)
        return tn_bad_argument("at is NULL: there is nowhere to put the addresses");
    status = tn_symmetric_at(pool, (uint64_t)(uintptr_t)address, 0, &first);
    for (uint32_t i = 0; status == TARN_OK && i < pool->group->world; i++)
        at[i] = (void *)(uintptr_t)(first + i * pool->stride);
    return tn_leave(status);
}

tarn_status tarn_symmetric_describe(tarn_symmetric *pool, tarn_symmetric_info *info)
{
    tarn_symmetric_info known = TARN_SYMMETRIC_INFO_INIT;
    tarn_status status;
    TN_CALL(call);

    if (!call_symmetric(&call, pool))
        return call.status;
    status = tn_sized_check(TN_SYMMETRIC_INFO, info);
    if (status != TARN_OK)
        return status;
    tn_symmetric_describe(pool, &known);
    tn_sized_write(TN_SYMMETRIC_INFO, info, &known);
    return tn_leave(TARN_OK);
}
