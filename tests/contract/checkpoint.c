// SPDX-License-Identifier: Apache-2.0
/* checkpoint.c -- the driver's own checkpoint of a whole process, from outside.
 *
 * A second process holds memory at a fixed address and a graph that works on it, and is put away
 * and brought back. A driver without these calls has cases that say so. */
#include "contract/graph_tools.h"

#include <string.h>
#include <unistd.h>

#define PLACE 0x520000000000u /* a multiple of 32 MiB where nothing is */
#define RESERVED (64 * MIB)
#define MAPPED (4 * MIB)
#define NO_PROCESS 4194303 /* the greatest process id that Linux can give, and hardly ever does */

/* What the second process finds when it has been brought back. */
struct found {
    tn_cu_result read, launch, wait, unmap, map, access;
    uint32_t before; /* the word that it left */
    uint32_t after;  /* the same, after a launch of the graph */
    uint32_t again;  /* after unmapping, mapping, and another launch */
};

/* Looks at what it has, as a case may not: SET_UP ends the process. */
static struct found look(tn_cu_graphexec exec, tn_cu_stream stream, tn_cu_memhandle handle)
{
    struct found found = {0};
    found.read = cu.cuMemcpyDtoH(&found.before, PLACE, sizeof found.before);
    found.launch = cu.cuGraphLaunch(exec, stream);
    found.wait = cu.cuStreamSynchronize(stream);
    cu.cuMemcpyDtoH(&found.after, PLACE, sizeof found.after);
    found.unmap = cu.cuMemUnmap(PLACE, MAPPED);
    found.map = cu.cuMemMap(PLACE, MAPPED, 0, handle, 0);
    found.access = contract_access(PLACE, MAPPED, TN_CU_MEM_ACCESS_READWRITE);
    graph_run(exec, stream);
    found.again = contract_word(PLACE, 0);
    return found;
}

int contract_helper_checkpointed(int socket)
{
    tn_cu_context context;
    tn_cu_deviceptr address = 0;
    char byte = 0;
    SET_UP(cuInit(0));
    SET_UP(cuDevicePrimaryCtxRetain(&context, 0));
    SET_UP(cuCtxSetCurrent(context));
    SET_UP(cuMemAddressReserve(&address, RESERVED, 0, PLACE, 0));
    if (address != PLACE)
        return 1;
    tn_cu_memhandle handle = contract_handle(MAPPED);
    SET_UP(cuMemMap(PLACE, MAPPED, 0, handle, 0));
    contract_open(PLACE, MAPPED);
    SET_UP(cuMemsetD32(PLACE, 40, 1));
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_graph graph = graph_new();
    graph_add(graph, NULL, PLACE, 1);
    tn_cu_graphexec exec = graph_exec(graph);
    contract_send(socket, &byte, 1);
    contract_receive(socket, &byte, 1);
    struct found found = look(exec, stream, handle);
    contract_send(socket, &found, sizeof found);
    return 0;
}

/* A process that does not touch the driver. */
int contract_helper_idle(int socket)
{
    char byte;
    contract_receive(socket, &byte, 1);
    return 0;
}

/* Whether the driver has these calls; if not, the line says so. */
static bool has_checkpoints(void)
{
    tn_cu_process_state state;
    if (cu.cuCheckpointProcessGetState(getpid(), &state) != CONTRACT_ABSENT)
        return true;
    STATE("this driver has no checkpoints");
    return false;
}

static void show_state(int pid)
{
    tn_cu_process_state state = 99;
    GIVES(SUCCESS, cuCheckpointProcessGetState(pid, &state));
    STATE("state %d", (int)state);
}

CASE_BODY(cycle)
{
    struct found found;
    char byte = 0;
    if (!has_checkpoints())
        return;
    struct contract_process process = contract_process_start("checkpointed");
    contract_receive(process.socket, &byte, 1);
    show_state(process.pid);
    GIVES(SUCCESS, cuCheckpointProcessLock(process.pid, NULL));
    show_state(process.pid);
    GIVES(SUCCESS, cuCheckpointProcessCheckpoint(process.pid, NULL));
    show_state(process.pid);
    GIVES(SUCCESS, cuCheckpointProcessRestore(process.pid, NULL));
    show_state(process.pid);
    GIVES(SUCCESS, cuCheckpointProcessUnlock(process.pid, NULL));
    show_state(process.pid);
    contract_send(process.socket, &byte, 1);
    contract_receive(process.socket, &found, sizeof found);
    contract_gives(TN_CUDA_SUCCESS, "cuMemcpyDtoH(", found.read);
    contract_gives(TN_CUDA_SUCCESS, "cuGraphLaunch(", found.launch);
    contract_gives(TN_CUDA_SUCCESS, "cuStreamSynchronize(", found.wait);
    contract_gives(TN_CUDA_SUCCESS, "cuMemUnmap(", found.unmap);
    contract_gives(TN_CUDA_SUCCESS, "cuMemMap(", found.map);
    contract_gives(TN_CUDA_SUCCESS, "cuMemSetAccess(", found.access);
    STATE("the word is %u, then %u, then %u", found.before, found.after, found.again);
    contract_process_end(&process);
}

CASE_BODY(refused)
{
    tn_cu_process_state state;
    char byte = 0;
    int thread;
    if (!has_checkpoints())
        return;
    STATE("no process");
    GIVES(OPERATING_SYSTEM, cuCheckpointProcessGetState(NO_PROCESS, &state));
    GIVES(OPERATING_SYSTEM, cuCheckpointProcessLock(NO_PROCESS, NULL));
    STATE("a process without a driver");
    struct contract_process idle = contract_process_start("idle");
    GIVES(NOT_INITIALIZED, cuCheckpointProcessGetState(idle.pid, &state));
    GIVES(NOT_INITIALIZED, cuCheckpointProcessLock(idle.pid, NULL));
    contract_send(idle.socket, &byte, 1);
    contract_process_end(&idle);
    STATE("a process that is not locked");
    struct contract_process process = contract_process_start("checkpointed");
    contract_receive(process.socket, &byte, 1);
    GIVES(ILLEGAL_STATE, cuCheckpointProcessCheckpoint(process.pid, NULL));
    GIVES(ILLEGAL_STATE, cuCheckpointProcessUnlock(process.pid, NULL));
    GIVES(ILLEGAL_STATE, cuCheckpointProcessRestore(process.pid, NULL));
    GIVES(INVALID_VALUE, cuCheckpointProcessGetState(process.pid, NULL));
    thread = 0;
    GIVES(SUCCESS, cuCheckpointProcessGetRestoreThreadId(process.pid, &thread));
    HOLDS(thread > 0, "it has a thread for restoring");
    struct found found;
    contract_send(process.socket, &byte, 1);
    contract_receive(process.socket, &found, sizeof found);
    contract_process_end(&process);
}

static const struct contract_case cases[] = {
    CASE_ALONE("cycle", "A process that is put away and brought back has its memory where it was.",
               cycle),
    CASE_ALONE("refused", "Only a locked process with a driver is put away.", refused),
};
const struct contract_group contract_checkpoint = CONTRACT_GROUP("checkpoint", START_INIT, cases);
