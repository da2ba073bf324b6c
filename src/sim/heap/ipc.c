// SPDX-License-Identifier: Apache-2.0
/* ipc.c -- linear memory that other processes use: cuIpcGetMemHandle and its kin.
 *
 * How it works. A handle names the process, the file behind its device and the place of the
 * allocation in it. Opening reaches the file through /proc, which the system allows to processes of
 * the same user, checks the file's identity, and maps the place. A context that opens a handle
 * again gets the same address, and must close it as often.
 *
 * Trade-offs. As on the device, the exporter must live while another process opens the handle. If
 * the exporter frees memory that others have open, the loss is theirs: its place may be given out
 * again. */
#include "sim/heap/ipc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/heap/block.h"
#include "sim/core/cost.h"
#include "sim/stream/stream.h"

#define TICKET_MAGIC 0x7461726e /* marks handles of the simulator */

/* The contents of a handle; its rest is 0. */
struct ticket {
    uint32_t magic;
    int32_t process;
    int32_t file; /* the exporter's descriptor */
    int32_t device;
    uint64_t volume; /* with number, the identity of the file */
    uint64_t number;
    uint64_t offset; /* of the allocation in the file */
    uint64_t bytes;
    uint64_t allocation; /* tells apart allocations that had the same place in turn */
};
_Static_assert(sizeof(struct ticket) <= sizeof(tn_cu_ipc_handle), "a ticket fits in a handle");

tn_cu_result tn_sim_cuIpcGetMemHandle(tn_cu_ipc_handle *handle, tn_cu_deviceptr address)
{
    struct stat status;
    struct tn_sim_context *context;
    tn_cu_result result = tn_sim_context_current(&context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    const struct tn_sim_linear *linear = tn_sim_index_find(&tn_sim_linears, address);
    if (handle == NULL || linear == NULL || linear->pool != NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    int device = linear->device;
    struct tn_sim_span chunk;
    const struct tn_sim_extent *extent =
        tn_sim_block_chunk(linear->piece->block, linear->span.start, &chunk)->extent;
    int file = tn_sim_devices[device].store.file;
    if (fstat(file, &status) != 0)
        return TN_CUDA_ERROR_OPERATING_SYSTEM;
    struct ticket ticket = {
        .magic = TICKET_MAGIC,
        .process = (int32_t)getpid(),
        .file = file,
        .device = device,
        .volume = status.st_dev,
        .number = status.st_ino,
        .offset = extent->offset + (linear->span.start - chunk.start),
        .bytes = linear->span.bytes,
        .allocation = linear->buffer_id,
    };
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &ticket, sizeof ticket);
    return TN_CUDA_SUCCESS;
}

/* Opens the file of a ticket; -1 when the file has gone. */
static int open_file(const struct ticket *ticket)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)ticket->process, (int)ticket->file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return -1;
    if (fstat(file, &status) == 0 && status.st_dev == ticket->volume &&
        status.st_ino == ticket->number && (uint64_t)status.st_size >= ticket->offset &&
        (uint64_t)status.st_size - ticket->offset >= ticket->bytes)
        return file;
    close(file);
    return -1;
}

static struct tn_sim_opening *find_opened(const struct tn_sim_context *context,
                                          const tn_cu_ipc_handle *handle)
{
    for (size_t i = 0; i < tn_sim_openings.count; i++) {
        struct tn_sim_opening *opening = (struct tn_sim_opening *)tn_sim_openings.items[i];
        if (opening->context == context && memcmp(&opening->handle, handle, sizeof *handle) == 0)
            return opening;
    }
    return NULL;
}

/* Maps an allocation of another process: whole granules, with the allocation at the same offset as
 * there. */
static bool map_file(struct tn_sim_opening *opening, int file, const struct ticket *ticket)
{
    uint64_t before = ticket->offset % TN_SIM_GRANULE;
    size_t bytes = (before + ticket->bytes + TN_SIM_GRANULE - 1) / TN_SIM_GRANULE * TN_SIM_GRANULE;
    uintptr_t start = tn_sim_space_obtain(bytes, TN_SIM_GRANULE, 0);
    if (start == 0)
        return false;
    opening->pages = (struct tn_sim_span){.start = start, .bytes = bytes};
    opening->span = (struct tn_sim_span){.start = start + before, .bytes = ticket->bytes};
    if (tn_sim_space_lay_file(start, bytes, file, ticket->offset - before,
                              PROT_READ | PROT_WRITE) &&
        tn_sim_index_add(&tn_sim_openings, &opening->span))
        return true;
    tn_sim_space_return(start, bytes);
    return false;
}

static void close_opening(struct tn_sim_opening *opening)
{
    tn_sim.ledger.ipc_openings--;
    tn_sim_index_remove(&tn_sim_openings, &opening->span);
    tn_sim_space_return(opening->pages.start, opening->pages.bytes);
    free(opening);
}

void tn_sim_ipc_close_all(const struct tn_sim_context *context)
{
    for (size_t i = tn_sim_openings.count; i > 0; i--) {
        struct tn_sim_opening *opening = (struct tn_sim_opening *)tn_sim_openings.items[i - 1];
        if (opening->context == context)
            close_opening(opening);
    }
}

/* Opens a handle for the first time in the context. */
static tn_cu_result open_first(struct tn_sim_context *context, const tn_cu_ipc_handle *handle,
                               const struct ticket *ticket, struct tn_sim_opening **opening)
{
    int file = open_file(ticket);
    if (file < 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_opening *made = calloc(1, sizeof *made);
    bool mapped = made != NULL && map_file(made, file, ticket);
    close(file);
    if (!mapped) {
        free(made);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->context = context;
    made->handle = *handle;
    made->buffer_id = tn_sim_space_next_id();
    made->block_id = tn_sim_space_next_id();
    tn_sim.ledger.ipc_openings++;
    tn_sim_charge(made->pages.bytes);
    *opening = made;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuIpcOpenMemHandle(tn_cu_deviceptr *address, tn_cu_ipc_handle handle,
                                       unsigned int flags)
{
    struct ticket ticket;
    struct tn_sim_context *context;
    memcpy(&ticket, &handle, sizeof ticket);
    if (address == NULL || flags != TN_CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_context_current(&context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (ticket.magic != TICKET_MAGIC || !tn_sim_device_exists(ticket.device) || ticket.bytes == 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (ticket.process == (int32_t)getpid())
        return TN_CUDA_ERROR_INVALID_CONTEXT;
    struct tn_sim_opening *opening = find_opened(context, &handle);
    if (opening == NULL)
        result = open_first(context, &handle, &ticket, &opening);
    if (result != TN_CUDA_SUCCESS)
        return result;
    opening->count++;
    *address = opening->span.start;
    return TN_CUDA_SUCCESS;
}

/* The opening in the current context that begins at an address, or NULL. */
static struct tn_sim_opening *opening_at(const struct tn_sim_context *context,
                                         tn_cu_deviceptr address)
{
    struct tn_sim_opening *opening = tn_sim_index_find(&tn_sim_openings, address);
    return opening == NULL || opening->span.start != address || opening->context != context
               ? NULL
               : opening;
}

tn_cu_result tn_sim_cuIpcCloseMemHandle(tn_cu_deviceptr address)
{
    struct tn_sim_context *context;
    tn_cu_result result = tn_sim_context_current(&context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_opening *opening = opening_at(context, address);
    if (opening == NULL || opening->count == 0) /* the last close waits already */
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (--opening->count > 0)
        return TN_CUDA_SUCCESS;
    /* Waits for the work that uses the opening, which may be opened again meanwhile. */
    tn_sim_streams_wait_all(context);
    opening = opening_at(context, address);
    if (opening != NULL && opening->count == 0)
        close_opening(opening);
    return context->fault;
}
