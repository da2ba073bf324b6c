// SPDX-License-Identifier: Apache-2.0
/* Linux 6.5 gives a descriptor of the very process at the other end. Older systems give a number,
 * which may be another process's a moment later:
 *
 *     reads the number         the process ends, and another gets the number
 *     opens a descriptor
 *     looks at the socket      closed by the end of the process
 *
 * If the socket is still open afterwards, the process was alive, or a child has the socket. A child
 * could outlive the parent, and a stranger have the parent's number. The end of the stranger is
 * then waited for, which loses time and no memory. */
#include "share/process.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/contract.h"
#include "base/error.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

static bool is_ready(int descriptor, short events)
{
    struct pollfd asked = {.fd = descriptor, .events = events};

    TN_ASSERT(descriptor >= 0);
    return poll(&asked, 1, 0) > 0;
}

static bool is_closed(int channel)
{
    struct pollfd asked = {.fd = channel, .events = 0};

    return poll(&asked, 1, 0) > 0 && (asked.revents & (POLLHUP | POLLERR)) != 0;
}

/* Neither end of a pair has a name. */
static bool is_of_pair(int channel)
{
    struct sockaddr_un address;
    socklen_t own = sizeof address;
    socklen_t other = sizeof address;

    return getsockname(channel, (struct sockaddr *)&address, &own) == 0 &&
           getpeername(channel, (struct sockaddr *)&address, &other) == 0 &&
           own <= sizeof address.sun_family && other <= sizeof address.sun_family;
}

static tarn_status explain(int error)
{
    if (error == EMFILE || error == ENFILE)
        return tn_fail(TARN_ERR_LIMIT, "the process has no file descriptor left (RLIMIT_NOFILE)");
    if (error == ESRCH)
        return tn_fail(TARN_ERR_PEER_LOST, "the process at the other end has ended");
    return tn_fail(TARN_ERR_NOT_SUPPORTED,
                   "the system gives no descriptor of a process (pidfd_open, Linux 5.3): error %d; "
                   "without one nobody knows when memory may be used again",
                   error);
}

static tarn_status open_descriptor(int channel, struct tn_process *process)
{
    int descriptor = -1;
    socklen_t bytes = sizeof descriptor;

    if (getsockopt(channel, SOL_SOCKET, SO_PEERPIDFD, &descriptor, &bytes) == 0) {
        process->descriptor = descriptor;
        return TARN_OK;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ESRCH)
        return explain(errno);
    if (process->pid <= 0)
        return tn_fail(TARN_ERR_NOT_SUPPORTED,
                       "the other process is in a name space that this one does not see, and the "
                       "system has no SO_PEERPIDFD (Linux 6.5)");
    descriptor = (int)syscall(SYS_pidfd_open, process->pid, 0);
    if (descriptor < 0)
        return explain(errno);
    if (is_closed(channel)) {
        (void)close(descriptor);
        return explain(ESRCH);
    }
    process->descriptor = descriptor;
    return TARN_OK;
}

tarn_status tn_process_find(int channel, struct tn_process *process)
{
    struct ucred who = {.pid = 0};
    socklen_t bytes = sizeof who;
    tarn_status status;

    TN_ASSERT(channel >= 0);
    if (is_of_pair(channel))
        return tn_fail(
            TARN_ERR_NOT_SUPPORTED,
            "the socket is one of a pair: the system does not tell which process has the "
            "other end; connect to a listener");
    if (getsockopt(channel, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0)
        return tn_fail(TARN_ERR_NOT_SUPPORTED,
                       "the system does not tell who is at the other end (SO_PEERCRED)");
    *process =
        (struct tn_process){.descriptor = -1, .pid = who.pid, .uid = who.uid, .gid = who.gid};
    status = open_descriptor(channel, process);
    if (status == TARN_OK && tn_process_is_gone(process)) {
        tn_process_close(process);
        return explain(ESRCH);
    }
    return status;
}

void tn_process_close(struct tn_process *process)
{
    if (process->descriptor >= 0)
        (void)close(process->descriptor);
    process->descriptor = -1;
}

bool tn_process_is_gone(const struct tn_process *process)
{
    return is_ready(process->descriptor, POLLIN);
}
