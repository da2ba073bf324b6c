// SPDX-License-Identifier: Apache-2.0
/* process.h -- the process at the other end of a connection, and whether it is gone.
 *
 * The system says who made the other end, once, and gives a descriptor of this very process (a
 * pidfd). From then on no number of a process is asked again, for numbers come back. The descriptor
 * tells of the end of the whole process, all its threads and its mappings included. The end of the
 * socket tells less: a child may have a copy of it, and work may still run.
 *
 * Locking: none; any thread. */
#ifndef TARN_SHARE_PROCESS_H
#define TARN_SHARE_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "tarn/status.h"

struct tn_process {
    int descriptor; /* the pidfd */
    pid_t pid;      /* in the name space of this process, for reports; 0: not visible here */
    uid_t uid;
    gid_t gid;
};

/* Asks who made the other end of a connected socket.
 *   NOT_SUPPORTED: the system has no pidfd; or the socket is one of a pair, whose ends may be in
 *   any
 *                  process
 *   PEER_LOST: the process has ended already; LIMIT: no descriptor is left */
TARN_MUST_CHECK tarn_status tn_process_find(int channel, struct tn_process *process);
void tn_process_close(struct tn_process *process);

/* Whether the process is gone: then nothing of it is left, on the host. */
bool tn_process_is_gone(const struct tn_process *process);

#endif
