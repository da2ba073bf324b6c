// SPDX-License-Identifier: Apache-2.0
/* symmetric.h -- groups of processes, and memory that each of them has at the same offset.
 *
 * A group is some processes of one host, its ranks. A symmetric pool is memory of the group: each
 * rank has as much of it, and has mapped that of all others. An allocation is local: the layout of
 * the pool depends on its calls alone. Ranks that make the same calls get the same offsets.
 *
 *   tarn_group_create(device, &options, &group)          a collective
 *
 *   tarn_symmetric_create(group, stride, &pool)          a collective
 *
 *   tarn_symmetric_reserve(pool, bytes, timeout)         a collective
 *
 *   tarn_symmetric_malloc(pool, bytes, 0, &mine)         local, also in a capture
 *   tarn_symmetric_at(pool, mine, peer, &theirs)
 *
 *   tarn_group_barrier(group, channel, stream)           on the stream
 *
 *   tarn_symmetric_free(pool, mine, stream)              local
 *
 *   tarn_symmetric_collect(pool, timeout)                a collective: freed memory returns
 *
 * A collective is a call that all ranks make: create, reserve, collect and meet. It waits on the
 * host for the others, for the given time at most (in nanoseconds; TARN_NO_TIMEOUT: without end).
 * All ranks make the collectives of a group in one order. A second thread's collective of the same
 * group answers BUSY.
 *
 * Freed memory returns to the pool at the next collect of all ranks, once each rank says that it is
 * idle there. So no rank's events or threads change the layout.
 *
 * A rank that dies or leaves is named to the others. Their streams may then wait for it:
 * tarn_group_wait and tarn_group_abandon end such waits. Afterwards the group is good for
 * destruction, and the others may make a new one. See docs/symmetric.md.
 *
 * Threads: all functions may be called from any thread. */
#ifndef TARN_SYMMETRIC_H
#define TARN_SYMMETRIC_H

#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarn_group tarn_group;         /* processes with common work */
typedef struct tarn_symmetric tarn_symmetric; /* a pool of memory that all of them have */

#define TARN_NO_TIMEOUT UINT64_MAX

/* Gives each rank's bytes to all: all[i * bytes] are those of rank i. Called by tarn_group_create,
 * without any lock, on each rank as often. It returns, and leaves in no other way (status.h).
 * False: it failed. */
typedef bool (*tarn_all_gather)(const void *own, size_t bytes, void *all, void *user);

/* Make one with TARN_GROUP_OPTIONS_INIT. */
typedef struct tarn_group_options {
    /* sizeof(tarn_group_options), set by the INIT macro. */
    size_t size;
    /* 1 to 55 bytes, the same on all ranks, copied. */
    const char *name;
    /* From 0 on; each rank has another one. */
    uint32_t rank;
    /* How many ranks, 1 to 64; the same on all. */
    uint32_t world;
    /* How the ranks find each other: a name where rank 0 listens (tarn_listener_options has its
     * form), the same on all ranks. NULL: by all_gather. */
    const char *meeting;
    /* NULL: by meeting. */
    tarn_all_gather all_gather;
    void *user;
    /* The time for the ranks to come; 0: 30 s. */
    uint64_t timeout_ns;
    /* Channels of signals and barriers, at most 32; 0: 4. The same on all ranks. */
    uint32_t channel_count;
} tarn_group_options;

#define TARN_GROUP_OPTIONS_INIT TARN_SIZED(tarn_group_options)

/* Makes a group, with all its ranks. *group: owned by the caller; end it with tarn_group_destroy.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  options or group is NULL, or an option is out of range.
 *                     The ranks disagree in name, world or channels, or one came twice: all that
 *                     have come get this answer.
 *   BUSY              Some ranks have not come in time; the sentence names those.
 *                     Another group, or a listener, has the meeting's name.
 *   PEER_LOST         A rank has ended meanwhile.
 *   WRONG_STATE       all_gather has failed.
 *   NOT_PERMITTED     The system does not let this process connect.
 *                     A process of another user listens at the meeting's name.
 *   LIMIT             The process has no file descriptor left.
 *   NOT_SUPPORTED     The driver has no words that streams wait for.
 *                     The system has no sockets of the kind, or does not tell of other processes'
 *                     ends.
 *   HOST_MEMORY, DEVICE_MEMORY, ADDRESS_SPACE, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_group_create(tarn_device *device,
                                                       const tarn_group_options *options,
                                                       tarn_group **group);

/* Leaves the group: the others see it. No stream of this process may wait for a signal of the group
 * any more, or have a signal yet to give. NULL is allowed.
 *   INVALID_HANDLE
 *   BUSY  The group has a pool.
 *         A call uses the group. */
TARN_API TARN_MUST_CHECK tarn_status tarn_group_destroy(tarn_group *group);

typedef enum tarn_member_state {
    TARN_MEMBER_HERE = 0,
    TARN_MEMBER_LOST = 1, /* its process has ended, or it has left */
} tarn_member_state;

/* A rank of a group. Make one with TARN_MEMBER_INFO_INIT. */
typedef struct tarn_member_info {
    /* sizeof(tarn_member_info), set by the INIT macro. */
    size_t size;
    uint32_t rank;
    uint32_t world;
    /* The process, as it names itself. */
    int pid;
    tarn_member_state state;
    /* The name of its host. */
    char host[64];
} tarn_member_info;

#define TARN_MEMBER_INFO_INIT TARN_SIZED(tarn_member_info)

/* Says who a rank of the group is, and whether it is here. Does not wait.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  info is NULL or its size is wrong (tarn/types.h), or the group has no such
 *                     rank. */
TARN_API TARN_MUST_CHECK tarn_status tarn_group_member(tarn_group *group, uint32_t rank,
                                                       tarn_member_info *info);

/* Waits on the host until all ranks have come. A collective. After BUSY it is unfinished, and the
 * next collective of this rank must be the same call again.
 *   INVALID_HANDLE
 *   BUSY         Some ranks have not come in time; the sentence names those.
 *                Another thread is in a collective of the group.
 *   WRONG_STATE  The ranks have made different collectives.
 *   PEER_LOST    A rank is gone, and the group is over. */
TARN_API TARN_MUST_CHECK tarn_status tarn_group_meet(tarn_group *group, uint64_t timeout_ns);

/* The stream waits until the streams of all ranks have come to the same barrier of the channel.
 * Works in captures: a graph with it is replayed by all ranks as often. Does not wait itself.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  The group has no such channel.
 *   PEER_LOST         The group is over.
 *   CAPTURE_BROKEN, DEVICE_MEMORY, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_group_barrier(tarn_group *group, uint32_t channel,
                                                        tarn_stream stream);

/* The stream tells another rank's stream that its work so far is over. The n-th signal to a rank
 * over a channel ends the n-th wait of this rank. In a capture also the wait is captured, and both
 * graphs are replayed as often. Does not wait itself.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  The group has no such channel, or no such other rank.
 *   PEER_LOST         The group is over.
 *   CAPTURE_BROKEN, DEVICE_MEMORY, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_group_put_signal(tarn_group *group, uint32_t rank,
                                                           uint32_t channel, tarn_stream stream);

/* The stream waits for the other rank's next signal over the channel. Does not wait itself.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  The group has no such channel, or no such other rank.
 *   PEER_LOST         The group is over.
 *   CAPTURE_BROKEN, DEVICE_MEMORY, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_group_wait_signal(tarn_group *group, uint32_t rank,
                                                            uint32_t channel, tarn_stream stream);

/* Waits on the host until the stream's work is over. When a rank is gone, ends the stream's waits
 * for signals of the group: what is behind them may have any bytes.
 *   INVALID_HANDLE
 *   BUSY         The time is over. The sentence names the rank and the channel of a signal that is
 *                awaited and has not come.
 *   WRONG_STATE  The stream is being captured.
 *   PEER_LOST    A rank is gone, the group is over, and the stream's work is over.
 *   DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_group_wait(tarn_group *group, tarn_stream stream,
                                                     uint64_t timeout_ns);

/* Gives the group up, as for a rank that hangs: ends all waits of the stream for signals of the
 * group, and waits until the stream's work is over. The group is over on this rank.
 *   INVALID_HANDLE
 *   BUSY         The stream's work is not over in time: it waits for something else.
 *   WRONG_STATE  The stream is being captured.
 *   DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_group_abandon(tarn_group *group, tarn_stream stream,
                                                        uint64_t timeout_ns);

/* Makes a symmetric pool without memory, of the group's device. A collective of 30 s at most.
 * stride: the most bytes that each rank can ever have, rounded up to chunks; world times as many
 * addresses are reserved. *pool: owned by the caller; end it with tarn_symmetric_destroy.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  pool is NULL, or stride is 0 or too large.
 *   BUSY              Another thread is in a collective of the group.
 *                     Some ranks have not come in time; the group is over.
 *   WRONG_STATE       The ranks have made different collectives, or gave another stride.
 *   PEER_LOST         A rank is gone, and the group is over; or it lacked addresses or memory.
 *   HOST_MEMORY, ADDRESS_SPACE, NOT_SUPPORTED, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_symmetric_create(tarn_group *group, size_t stride,
                                                           tarn_symmetric **pool);

/* Ends a pool. Its blocks end with it. No stream of this process may use memory of the pool any
 * more; those of others may. NULL is allowed.
 *   INVALID_HANDLE
 *   BUSY  A call uses the pool. */
TARN_API TARN_MUST_CHECK tarn_status tarn_symmetric_destroy(tarn_symmetric *pool);

/* Has each rank have at least this many bytes, and map those of the others. A collective. Memory
 * that is there already is not made again.
 *   INVALID_HANDLE
 *   BUSY           Some ranks have not come in time, and the group is over; the sentence names
 *                  those.
 *                  Another thread is in a collective of the group.
 *   WRONG_STATE    The ranks have made different collectives, or gave other sizes.
 *   ADDRESS_SPACE  More than the pool's stride.
 *   PEER_LOST      A rank is gone, and the group is over; or a rank has no memory: the sentence
 *                  names it.
 *   LIMIT          The device's limit, or no file descriptor is left.
 *   HOST_MEMORY, DEVICE_MEMORY, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_symmetric_reserve(tarn_symmetric *pool, size_t bytes,
                                                            uint64_t timeout_ns);

/* Allocates a block, at the same offset on each rank that makes the same calls. Never a collective;
 * makes no call of the driver, and works in captures. *address: in the memory of this rank.
 * persistent_id: 0, or the name of a block that keeps its address: after its free, the same id and
 * size give the same block again. bytes 0: OK, and NULL.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  address is NULL, or the id has had another size.
 *   WRONG_STATE       The id's block is live.
 *   LIMIT             No free range is large enough: collect, or reserve more. The same on all
 *                     ranks.
 *   HOST_MEMORY. */
TARN_API TARN_MUST_CHECK tarn_status tarn_symmetric_malloc(tarn_symmetric *pool, size_t bytes,
                                                           uint64_t persistent_id, void **address);

/* Frees a block. Its memory serves again once a collect finds the stream's work until now over, on
 * all ranks. A persistent block's memory serves its id alone. address: NULL is allowed.
 *   INVALID_HANDLE
 *   NOT_OURS, INNER_ADDRESS, DOUBLE_FREE: as tarn_free.
 *   WRONG_STATE  The stream is being captured: free the block when no graph uses it.
 *   HOST_MEMORY, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_symmetric_free(tarn_symmetric *pool, void *address,
                                                         tarn_stream stream);

/* Compares the calls of all ranks, and lets freed memory serve again that is idle on all. A
 * collective, for at most 7,000 freed blocks at once. After BUSY as tarn_group_meet.
 *   INVALID_HANDLE
 *   BUSY         Some ranks have not come in time; the sentence names those.
 *                Another thread is in a collective of the group.
 *   WRONG_STATE  The ranks have made different collectives.
 *                The ranks have made different calls of the pool: the sentence names the first that
 *                differs. Nothing is given back.
 *   PEER_LOST    A rank is gone, and the group is over. */
TARN_API TARN_MUST_CHECK tarn_status tarn_symmetric_collect(tarn_symmetric *pool,
                                                            uint64_t timeout_ns);

/* The same place in the memory of another rank, or of this one. address: in this rank's memory, in
 * a block or not.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  at is NULL, or the group has no such rank.
 *   NOT_OURS          The pool has no memory there. */
TARN_API TARN_MUST_CHECK tarn_status tarn_symmetric_at(tarn_symmetric *pool, const void *address,
                                                       uint32_t rank, void **at);

/* The same for all ranks: at has room for as many addresses as the group has ranks.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  at is NULL.
 *   NOT_OURS          The pool has no memory there. */
TARN_API TARN_MUST_CHECK tarn_status tarn_symmetric_buffers(tarn_symmetric *pool,
                                                            const void *address, void **at);

/* Make one with TARN_SYMMETRIC_INFO_INIT. */
typedef struct tarn_symmetric_info {
    /* sizeof(tarn_symmetric_info), set by the INIT macro. */
    size_t size;
    /* The most that each rank can have. */
    uint64_t stride;
    /* The memory of each rank. */
    uint64_t reserved_bytes;
    /* In live blocks, rounded sizes. */
    uint64_t live_bytes;
    uint64_t live_count;
    /* Freed, and not collected. */
    uint64_t pending_bytes;
    uint64_t pending_count;
    /* How many calls that the ranks must agree on were made, and their hash. */
    uint64_t call_count;
    uint64_t call_hash;
} tarn_symmetric_info;

#define TARN_SYMMETRIC_INFO_INIT TARN_SIZED(tarn_symmetric_info)

/* Says how the pool stands on this rank.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  info is NULL, or its size is wrong (tarn/types.h). */
TARN_API TARN_MUST_CHECK tarn_status tarn_symmetric_describe(tarn_symmetric *pool,
                                                             tarn_symmetric_info *info);

#ifdef __cplusplus
}
#endif
#endif
