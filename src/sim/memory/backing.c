// SPDX-License-Identifier: Apache-2.0
/* backing.c -- the bytes of physical memory, and their files.
 *
 * How it works. Memory that cannot be exported is an extent of its store's file: any number of
 * handles costs a single file descriptor. Memory that can be exported has a file of its own, and is
 * charged to its store all the same. This file ends with a label behind the bytes, which describes
 * them; its size is sealed. A process that receives the file reads the label. The protocol is no
 * more than this: an importer needs nobody else. The bytes live as long as any process has the
 * file, whatever became of the exporter.
 *
 * Memory that this process has given up stays charged while somebody else has the file: an exported
 * descriptor, or an importer. Every export opens the file anew, and the system grants a lease on a
 * file only to its sole opener. An attempt to get a lease therefore tells. The attempt is made when
 * memory is requested or counted.
 *
 * Trade-offs. Imported memory is charged to the process that made the memory, while this process
 * lives, and not to the importer. Each exportable handle costs a file descriptor. The host has as
 * much memory as a device. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/core/shared.h"
#include "sim/stream/clock.h"
#include "sim/memory/physical.h"
#include "sim/memory/space.h"

#define LABEL_BYTES 4096 /* of the file, behind the memory; a page */
#define LABEL_MAGIC "tarn_sim memory"
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct label {
    char magic[sizeof LABEL_MAGIC];
    uint64_t bytes;
    tn_cu_location location;
};

static struct tn_sim_backing *shareable; /* backings with files of their own, given up ones too */

static struct tn_sim_backing *add_file(struct tn_sim_backing made)
{
    struct tn_sim_backing *backing = malloc(sizeof *backing);
    if (backing == NULL)
        return NULL;
    *backing = made;
    backing->references = 1;
    backing->next = shareable;
    shareable = backing;
    return backing;
}

/* Opens an open file anew; -1 when the system refuses. */
static int open_again(int file)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return open(path, O_RDWR | O_CLOEXEC);
}

/* Makes a file for the given bytes, labelled and sealed; -1 when the system refuses. */
static int make_file(size_t bytes, const tn_cu_location *location)
{
    struct label label = {.magic = LABEL_MAGIC, .bytes = bytes, .location = *location};
    int file = memfd_create("tarn_sim_memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0)
        return -1;
    if (ftruncate(file, (off_t)(bytes + LABEL_BYTES)) != 0 ||
        pwrite(file, &label, sizeof label, (off_t)bytes) != (ssize_t)sizeof label ||
        fcntl(file, F_ADD_SEALS, SEALS) != 0 || !tn_sim_store_poison(file, 0, bytes)) {
        close(file);
        return -1;
    }
    /* The system counts the openers of a file, not its maker. */
    int opened = open_again(file);
    close(file);
    return opened;
}

int tn_sim_backing_export(const struct tn_sim_backing *backing)
{
    return open_again(backing->file);
}

/* Asks whether somebody besides this process' own books has a file open. */
static bool held_elsewhere(int file)
{
    if (fcntl(file, F_SETLEASE, F_WRLCK) != 0)
        return errno == EAGAIN;
    fcntl(file, F_SETLEASE, F_UNLCK);
    return false;
}

static void destroy_file(struct tn_sim_backing **link)
{
    struct tn_sim_backing *backing = *link;
    *link = backing->next;
    tn_sim_shared_forget(backing->number);
    if (backing->store != NULL) /* SM2 */
        tn_sim_store_discharge(backing->store, backing->bytes);
    close(backing->file);
    free(backing);
}

static struct tn_sim_backing **link_of(const struct tn_sim_backing *backing)
{
    struct tn_sim_backing **link = &shareable;
    while (*link != backing)
        link = &(*link)->next;
    return link;
}

void tn_sim_backings_collect(void)
{
    struct tn_sim_backing **link = &shareable;
    while (*link != NULL) {
        struct tn_sim_backing *backing = *link;
        if (backing->references == 0 && !held_elsewhere(backing->file))
            destroy_file(link);
        else
            link = &backing->next;
    }
}

struct tn_sim_backing *tn_sim_backing_create(struct tn_sim_store *store, size_t bytes)
{
    tn_sim_backings_collect();
    struct tn_sim_backing *backing = calloc(1, sizeof *backing);
    if (backing == NULL)
        return NULL;
    *backing = (struct tn_sim_backing){.references = 1, .bytes = bytes, .store = store, .file = -1};
    backing->extent = tn_sim_store_take(store, bytes);
    if (backing->extent != NULL)
        return backing;
    free(backing);
    return NULL;
}

struct tn_sim_backing *tn_sim_backing_create_shareable(struct tn_sim_store *store, size_t bytes,
                                                       const tn_cu_location *location)
{
    struct stat status;
    tn_sim_backings_collect();
    if (!tn_sim_store_charge(store, bytes))
        return NULL;
    struct tn_sim_backing *backing = NULL;
    int file = make_file(bytes, location);
    if (file >= 0 && fstat(file, &status) == 0)
        backing = add_file((struct tn_sim_backing){.bytes = bytes,
                                                   .store = store,
                                                   .file = file,
                                                   .volume = status.st_dev,
                                                   .number = status.st_ino});
    if (backing != NULL) {
        tn_sim_shared_note(store->device, status.st_ino, bytes, true);
        return backing;
    }
    if (file >= 0)
        close(file);
    tn_sim_store_discharge(store, bytes);
    return NULL;
}

void tn_sim_backing_release(struct tn_sim_backing *backing)
{
    if (--backing->references > 0)
        return;
    tn_sim_clock_forget(backing);
    if (backing->extent == NULL) {
        if (backing->store == NULL) /* not charged here: nothing to wait for */
            destroy_file(link_of(backing));
        else
            tn_sim_backings_collect();
        return;
    }
    tn_sim_store_give(backing->store, backing->extent);
    free(backing);
}

/* Asks whether memory can be at a label's place: on a device, perhaps unknown here, or on the
 * host's only node. */
static bool place_valid(const tn_cu_location *location)
{
    return location->type == TN_CU_MEM_LOCATION_TYPE_DEVICE ||
           (location->type == TN_CU_MEM_LOCATION_TYPE_HOST_NUMA && location->id == 0);
}

/* Reads a file's label. Returns false for a file of another kind. */
static bool read_label(int file, const struct stat *status, struct label *label)
{
    if (!S_ISREG(status->st_mode) || status->st_size <= LABEL_BYTES ||
        fcntl(file, F_GET_SEALS) != SEALS)
        return false;
    size_t bytes = (size_t)status->st_size - LABEL_BYTES;
    return pread(file, label, sizeof *label, (off_t)bytes) == (ssize_t)sizeof *label &&
           memcmp(label->magic, LABEL_MAGIC, sizeof label->magic) == 0 && label->bytes == bytes &&
           bytes % TN_SIM_GRANULE == 0 && place_valid(&label->location);
}

tn_cu_result tn_sim_backing_open(int file, struct tn_sim_backing **backing,
                                 tn_cu_location *location)
{
    struct stat status;
    struct label label;
    if (fstat(file, &status) != 0 || !read_label(file, &status, &label))
        return TN_CUDA_ERROR_UNKNOWN;
    if (label.location.type == TN_CU_MEM_LOCATION_TYPE_DEVICE &&
        !tn_sim_device_exists(label.location.id))
        return TN_CUDA_ERROR_INVALID_DEVICE;
    *location = label.location;
    for (*backing = shareable; *backing != NULL; *backing = (*backing)->next) {
        if ((*backing)->volume == status.st_dev && (*backing)->number == status.st_ino) {
            (*backing)->references++;
            return TN_CUDA_SUCCESS;
        }
    }
    int own = fcntl(file, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    *backing = add_file((struct tn_sim_backing){
        .bytes = label.bytes, .file = own, .volume = status.st_dev, .number = status.st_ino});
    if (*backing != NULL) {
        if (label.location.type == TN_CU_MEM_LOCATION_TYPE_DEVICE)
            tn_sim_shared_note(label.location.id, status.st_ino, label.bytes, false);
        return TN_CUDA_SUCCESS;
    }
    close(own);
    return TN_CUDA_ERROR_OUT_OF_MEMORY;
}

bool tn_sim_backing_lay(const struct tn_sim_backing *backing, uintptr_t start, size_t bytes,
                        int protection)
{
    if (backing->extent == NULL)
        return tn_sim_space_lay_file(start, bytes, backing->file, 0, protection);
    return tn_sim_space_lay_file(start, bytes, backing->store->file, backing->extent->offset,
                                 protection);
}
