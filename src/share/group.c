// SPDX-License-Identifier: Apache-2.0
/* Rank 0 makes the board and the pad, the latter full of zeroes before anyone has it, and sends both
 * with the descriptors of all processes. From then on no rank depends on rank 0, except for the
 * descriptors of memory that a growth passes on.
 *
 * A rank that fails on the way leaves: its board says so, or its socket ends, or the others' time is
 * over.
 *
 * Trade-offs: the pad is on the host. A round of two streams takes 1.5 us longer than by words of the
 * device; in return a processor of a survivor ends the waits for a dead rank, without a stream. */
#include "share/group.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "base/user_code.h"
#include "driver/open.h"
#include "share/channel.h"
#include "share/connection.h"

#define OPENING_NS UINT64_C(30000000000)

/* From the end of a process's sockets to that of the process. */
#define BLAME_NS UINT64_C(100000000)

struct heading {
    uint32_t topic;
    uint32_t pool;
    uint64_t unused;
};

_Static_assert(sizeof(struct heading) + TN_TOPIC_BYTES_MAX == TN_BOARD_BYTES,
               "a turn is one topic");

static struct tn_records group_records = TN_RECORDS_INIT_KEEPING(struct tarn_group, next, lock);

uint64_t tn_group_deadline(uint64_t timeout_ns)
{
    uint64_t now = tn_clock_nanoseconds(CLOCK_MONOTONIC);

    return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

/* -- Making -- */

static TN_USER_CODE_ON_STACK bool ask_all(const tarn_group_options *options, const void *own,
                                          size_t bytes, void *all)
{
    bool gathered;
    TN_USER_CODE(code);

    TN_ASSERT(tn_lock_none_held());
    tn_gpus_enter_user_code();
    tn_user_code_enter(&code, TN_USER_GATHERER);
    gathered = options->all_gather(own, bytes, all, options->user);
    tn_user_code_leave(&code);
    tn_gpus_leave_user_code();
    return gathered;
}

/* Rank 0 makes a name up, and tells it by the program's own means. */
static tarn_status agree_on_meeting(struct tn_hub *hub, const tarn_group_options *options)
{
    char all[TN_RANKS_MAX][sizeof hub->name];

    if (options->rank == 0)
        (void)snprintf(hub->name, sizeof hub->name, "@tarn-group-%016llx%016llx",
                       (unsigned long long)tn_share_random(),
                       (unsigned long long)tn_share_random());
    memset(all, 0, sizeof all);
    if (!ask_all(options, hub->name, sizeof hub->name, all))
        return tn_fail(TARN_ERR_WRONG_STATE, "all_gather has failed for the group '%s'",
                       options->name);
    memcpy(hub->name, all[0], sizeof hub->name);
    hub->name[sizeof hub->name - 1] = '\0';
    return TARN_OK;
}

static void fill(tarn_group *group, tarn_device *device, const tarn_group_options *options)
{
    struct tn_hub *hub = &group->hub;

    if (!group->has_lock)
        tn_lock_init(&group->lock, TN_RANK_SHARES);
    if (!group->has_lock)
        tn_lock_init(&group->stream, TN_RANK_CLOSES);
    group->has_lock = true;
    group->device = device;
    group->rank = options->rank;
    group->world = options->world;
    group->channel_count = options->channel_count;
    group->board.rank = options->rank;
    group->board.world = options->world;
    for (uint32_t i = 0; i < TN_RANKS_MAX; i++) {
        group->board.processes[i] = -1;
        hub->channels[i] = -1;
    }
    hub->rank = options->rank;
    hub->world = options->world;
    hub->channel_count = options->channel_count;
    hub->self.pid = (int32_t)getpid();
    if (gethostname(hub->self.host, sizeof hub->self.host) != 0)
        hub->self.host[0] = '\0';
    hub->self.host[sizeof hub->self.host - 1] = '\0';
    (void)snprintf(group->board.group, sizeof group->board.group, "%s", options->name);
    (void)snprintf(hub->group, sizeof hub->group, "%s", options->name);
    if (options->meeting != NULL)
        (void)snprintf(hub->name, sizeof hub->name, "%s", options->meeting);
}

static uint32_t count_cells(const tarn_group *group)
{
    return 2 * group->channel_count * group->world * group->world;
}

/* The cells from and to this rank. */
static tarn_status adopt_cells(tarn_group *group)
{
    tarn_status status = TARN_OK;

    for (uint32_t i = 0; i < 2 * group->channel_count && status == TARN_OK; i++) {
        enum tn_cell_use use = i % 2 == 0 ? TN_CELL_BARRIER : TN_CELL_SIGNAL;

        for (uint32_t peer = 0; peer < group->world && status == TARN_OK; peer++) {
            struct tn_cell cell = {.generation = 1};

            if (peer == group->rank)
                continue;
            cell.index = tn_group_cell(group, use, i / 2, group->rank, peer);
            status = tn_pad_adopt(group->pad, cell);
            cell.index = tn_group_cell(group, use, i / 2, peer, group->rank);
            if (status == TARN_OK)
                status = tn_pad_adopt(group->pad, cell);
        }
    }
    return status;
}

/* files: the board, the pad, and the processes from rank 1 on. */
enum { FILE_BOARD, FILE_PAD, FILE_PROCESSES };

static tarn_status welcome(tarn_group *group, uint64_t deadline_ns)
{
    int files[FILE_PROCESSES + TN_RANKS_MAX] = {-1, -1};
    struct tn_gpu *gpu = &group->device->gpu;
    tarn_status status = tn_board_create(group->world, &files[FILE_BOARD]);

    if (status == TARN_OK)
        status = tn_board_open(&group->board, files[FILE_BOARD]);
    if (status == TARN_OK && group->world > 1)
        status = tn_pad_create(gpu, TN_WORDS_ON_HOST, count_cells(group), NULL, &group->pad);
    if (status == TARN_OK && group->world > 1)
        status = tn_pad_export(group->pad, &files[FILE_PAD]);
    for (uint32_t i = 1; i < group->world; i++)
        files[FILE_PROCESSES + i - 1] = group->board.processes[i];
    if (status == TARN_OK && group->world > 1)
        status = tn_hub_welcome(&group->hub, files, FILE_PROCESSES + group->world - 1, deadline_ns);
    if (status != TARN_OK)
        tn_hub_refuse(&group->hub, status);
    tn_channel_close(&files[FILE_BOARD]);
    tn_channel_close(&files[FILE_PAD]);
    return status;
}

static tarn_status be_welcomed(tarn_group *group, uint64_t deadline_ns)
{
    int files[FILE_PROCESSES + TN_RANKS_MAX];
    tarn_status status =
        tn_hub_await_welcome(&group->hub, files, FILE_PROCESSES + group->world - 1, deadline_ns);

    if (status != TARN_OK)
        return status;
    tn_channel_close(&files[FILE_PROCESSES + group->rank - 1]);
    for (uint32_t i = 1; i < group->world; i++)
        group->board.processes[i] = files[FILE_PROCESSES + i - 1];
    status = tn_board_open(&group->board, files[FILE_BOARD]);
    if (status == TARN_OK)
        status = tn_pad_import(&group->device->gpu, TN_WORDS_ON_HOST, count_cells(group),
                               files[FILE_PAD], &group->pad);
    tn_channel_close(&files[FILE_BOARD]);
    tn_channel_close(&files[FILE_PAD]);
    return status;
}

static tarn_status open_up(tarn_group *group, const tarn_group_options *options)
{
    uint64_t deadline_ns = tn_group_deadline(options->timeout_ns);
    const unsigned char *all;
    uint32_t step;
    tarn_status status = TARN_OK;

    group->gathered = tn_host_alloc(group->world, TN_BOARD_BYTES);
    group->waits = tn_host_alloc((size_t)group->channel_count * group->world, sizeof *group->waits);
    if (group->gathered == NULL || group->waits == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a group");
    if (options->meeting == NULL && group->world > 1)
        status = agree_on_meeting(&group->hub, options);
    if (status == TARN_OK)
        status = tn_hub_meet(&group->hub, deadline_ns, group->board.processes);
    if (status == TARN_OK)
        status = group->rank == 0 ? welcome(group, deadline_ns) : be_welcomed(group, deadline_ns);
    if (status == TARN_OK && group->pad != NULL)
        status = adopt_cells(group);
    if (status == TARN_OK && group->pad != NULL)
        group->pad->lock = &group->lock;
    if (status != TARN_OK)
        return status;
    tn_board_sign(&group->board, &group->hub.self);
    return tn_group_gather(group, TN_TOPIC_OPENING, 0, &group->rank, sizeof group->rank,
                           deadline_ns, &all, &step);
}

/* Ends all that a group has, made in part or whole. */
static void drop(tarn_group *group)
{
    tn_pad_destroy(group->pad);
    tn_board_close(&group->board);
    tn_hub_close(&group->hub);
    tn_host_free(group->waits);
    tn_host_free(group->gathered);
    tn_records_give(&group_records, group);
}

tarn_status tn_group_create(tarn_device *device, const tarn_group_options *options,
                            tarn_group **group)
{
    tarn_group *made = tn_records_take(&group_records);
    tarn_status status;

    TN_ASSERT(tn_lock_none_held() && options->rank < options->world);
    TN_ASSERT(options->world <= TN_RANKS_MAX && options->channel_count <= TN_GROUP_CHANNELS_MAX);
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a group");
    fill(made, device, options);
    status = open_up(made, options);
    if (status != TARN_OK) {
        drop(made);
        return status;
    }
    atomic_fetch_add(&device->group_count, 1);
    atomic_store(&made->magic, TN_GROUP_MAGIC);
    tn_pins_open(&made->pins);
    *group = made;
    return TARN_OK;
}

tarn_status tn_group_destroy(tarn_group *group, uint64_t own)
{
    tarn_device *device = group->device;

    TN_ASSERT(tn_lock_none_held());
    if (!tn_share_claim(&group->pins, own))
        return tn_fail(TARN_ERR_BUSY, "a call uses the group, or ends it");
    if (atomic_load(&group->pool_count) > 0) {
        tn_pins_open(&group->pins);
        return tn_fail(TARN_ERR_BUSY, "the group '%s' has %u symmetric pools; destroy them",
                       group->board.group, atomic_load(&group->pool_count));
    }
    atomic_store(&group->magic, 0);
    if (own > 0)
        tn_pins_drop(&group->pins);
    drop(group);
    atomic_fetch_sub(&device->group_count, 1);
    return TARN_OK;
}

/* -- Collectives -- */

tarn_status tn_group_check(tarn_group *group)
{
    tarn_status status = tn_board_look(&group->board);

    if (status != TARN_OK)
        atomic_store(&group->is_over, true);
    else if (atomic_load(&group->is_over))
        status =
            tn_fail(TARN_ERR_PEER_LOST,
                    "the group '%s' is over on this rank: it was given up, or a collective was "
                    "left in the middle",
                    group->board.group);
    return status;
}

tarn_status tn_group_blame(tarn_group *group, tarn_status otherwise)
{
    uint64_t deadline_ns = tn_group_deadline(BLAME_NS);
    tarn_status status = tn_group_check(group);

    TN_ASSERT(otherwise != TARN_OK);
    while (status == TARN_OK && tn_clock_nanoseconds(CLOCK_MONOTONIC) < deadline_ns) {
        (void)poll(NULL, 0, 1);
        status = tn_group_check(group);
    }
    tn_group_give_up(group);
    return status != TARN_OK ? status : otherwise;
}

tarn_status tn_group_begin(tarn_group *group)
{
    bool expected = false;
    tarn_status status = TARN_OK;

    if (atomic_load(&group->is_over))
        return tn_group_check(group);
    if (!atomic_compare_exchange_strong(&group->in_collective, &expected, true))
        status = tn_fail(TARN_ERR_BUSY, "another thread is in a collective of the group '%s'",
                         group->board.group);
    return status;
}

void tn_group_end(tarn_group *group)
{
    TN_ASSERT(atomic_load(&group->in_collective));
    atomic_store(&group->in_collective, false);
}

void tn_group_give_up(tarn_group *group)
{
    atomic_store(&group->is_over, true);
}

static const char *topic_name(uint32_t topic)
{
    switch (topic) {
    case TN_TOPIC_OPENING:
        return "tarn_group_create";
    case TN_TOPIC_MEETING:
        return "tarn_group_meet";
    case TN_TOPIC_POOL:
        return "tarn_symmetric_create";
    case TN_TOPIC_GROWTH:
    case TN_TOPIC_VOTE:
        return "tarn_symmetric_reserve";
    default:
        return "tarn_symmetric_collect";
    }
}

/* Whether all ranks are in the same collective. */
static tarn_status compare(const tarn_group *group, uint32_t step)
{
    struct heading own;
    struct heading other;

    memcpy(&own, &group->gathered[(size_t)group->rank * step], sizeof own);
    for (uint32_t i = 0; i < group->world; i++) {
        memcpy(&other, &group->gathered[(size_t)i * step], sizeof other);
        if (other.topic != own.topic || other.pool != own.pool)
            return tn_fail(TARN_ERR_WRONG_STATE,
                           "the ranks of the group '%s' have made different collectives: rank %u "
                           "is in %s (pool %u), and rank %u in %s (pool %u)",
                           group->board.group, group->rank, topic_name(own.topic), own.pool, i,
                           topic_name(other.topic), other.pool);
    }
    return TARN_OK;
}

tarn_status tn_group_gather(tarn_group *group, enum tn_topic topic, uint32_t pool, const void *own,
                            uint32_t bytes, uint64_t deadline_ns, const unsigned char **all,
                            uint32_t *step)
{
    unsigned char given[TN_BOARD_BYTES];
    const struct heading heading = {.topic = topic, .pool = pool};
    uint32_t posted = (uint32_t)sizeof heading + bytes;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held() && bytes <= TN_TOPIC_BYTES_MAX);
    if (group->board.posted_bytes != 0) {
        if (group->open_topic != topic || group->open_pool != pool)
            return tn_fail(TARN_ERR_WRONG_STATE,
                           "this rank's last collective of the group '%s' is not over: %s",
                           group->board.group, topic_name(group->open_topic));
        posted = group->board.posted_bytes;
    }
    group->open_topic = topic;
    group->open_pool = pool;
    memcpy(given, &heading, sizeof heading);
    memcpy(&given[sizeof heading], own, bytes);
    status = tn_board_gather(&group->board, given, posted, deadline_ns, group->gathered);
    if (status == TARN_ERR_PEER_LOST)
        tn_group_give_up(group);
    if (status == TARN_OK)
        status = compare(group, posted);
    if (status == TARN_OK) {
        *all = (const unsigned char *)group->gathered + sizeof heading;
        *step = posted;
    }
    return status;
}

tarn_status tn_group_meet(tarn_group *group, uint64_t timeout_ns)
{
    const unsigned char *all;
    uint32_t step;
    uint32_t nothing = 0;
    tarn_status status = tn_group_begin(group);

    if (status != TARN_OK)
        return status;
    status = tn_group_gather(group, TN_TOPIC_MEETING, 0, &nothing, sizeof nothing,
                             tn_group_deadline(timeout_ns), &all, &step);
    tn_group_end(group);
    return status;
}
