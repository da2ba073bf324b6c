// SPDX-License-Identifier: Apache-2.0
/* shared.c -- devices that several processes share.
 *
 * How it works. All processes map the file, which has a record for each. A process takes a record
 * by a lock on one byte of the file, which the system gives up with the process, however it ends.
 * So a record is valid as long as its byte is locked, and a killed process leaves nothing to be
 * repaired. A record has the bytes of each device in its process's charge. Memory of a
 * living maker is in the maker's charge. Memory of a dead maker counts once, for as long as an
 * importer has it.
 *
 * Trade-offs. Memory of a dead maker counts for nothing while its descriptor is on its way and in
 * no importer. A process takes note of the first MEMORIES pieces of exportable memory. Every
 * question looks at all records. */
#include "sim/core/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/core/core.h"

#define RECORDS 128
#define MEMORIES 1024
#define TURN RECORDS /* the byte that is locked for a change */

/* Exportable memory that a process has. */
struct memory {
    atomic_uint_least64_t file; /* its identity; 0: none */
    uint64_t bytes;
    int32_t device;
    uint32_t made; /* here; otherwise imported */
};

struct record {
    atomic_uint_least64_t bytes[TN_SIM_MAX_DEVICES];
    struct memory memories[MEMORIES];
};

static struct record *records; /* NULL: nothing is shared */
static struct record *own;
static int table = -1; /* the file */

/* Locks one byte, or gives it up: the lock belongs to this opening of the file. */
static bool lock_byte(int byte, short type, int command)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(table, command, &lock) == 0;
}

/* Asks whether the process of a record lives (SS5). */
static bool lives(const struct record *record)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = record - records, .l_len = 1};
    return record == own || fcntl(table, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

static bool map_table(const char *path)
{
    size_t bytes = RECORDS * sizeof(struct record);
    table = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (table < 0 || ftruncate(table, (off_t)bytes) != 0)
        return false;
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, table, 0);
    if (mapped == MAP_FAILED)
        return false;
    records = mapped;
    return true;
}

static bool take_record(void)
{
    for (int i = 0; i < RECORDS && own == NULL; i++) {
        if (lock_byte(i, F_WRLCK, F_OFD_SETLK))
            own = &records[i];
    }
    if (own != NULL)
        memset(own, 0, sizeof *own); /* SS4 */
    return own != NULL;
}

bool tn_sim_shared_join(const char *path)
{
    if (own != NULL || (map_table(path) && take_record()))
        return true;
    fprintf(stderr, "tarn_sim: shared: %s: %s\n", path,
            records == NULL ? strerror(errno) : "too many processes");
    return false;
}

void tn_sim_shared_enter(void)
{
    while (own != NULL && !lock_byte(TURN, F_WRLCK, F_OFD_SETLKW) && errno == EINTR)
        continue;
}

void tn_sim_shared_leave(void)
{
    if (own != NULL)
        lock_byte(TURN, F_UNLCK, F_OFD_SETLK);
}

static struct memory *find(struct record *record, uint64_t file)
{
    for (size_t i = 0; i < MEMORIES; i++) {
        if (atomic_load(&record->memories[i].file) == file)
            return &record->memories[i];
    }
    return NULL;
}

/* Asks whether memory is counted before the given record comes: its maker lives, or an earlier
 * record has imported it. */
static bool is_counted(const struct record *record, uint64_t file)
{
    for (int i = 0; i < RECORDS; i++) {
        const struct memory *memory = find(&records[i], file);
        if (memory != NULL && (memory->made != 0 || &records[i] < record) && lives(&records[i]))
            return true;
    }
    return false;
}

/* The bytes of imported memory that this record is the one to count. */
static size_t orphans(struct record *record, int device)
{
    size_t bytes = 0;
    for (size_t i = 0; i < MEMORIES; i++) {
        const struct memory *memory = &record->memories[i];
        uint64_t file = atomic_load(&memory->file);
        if (file != 0 && memory->made == 0 && memory->device == device && !is_counted(record, file))
            bytes += memory->bytes;
    }
    return bytes;
}

size_t tn_sim_shared_others(int device)
{
    size_t bytes = 0;
    for (int i = 0; own != NULL && device >= 0 && i < RECORDS; i++) {
        if (!lives(&records[i]))
            continue;
        if (&records[i] != own)
            bytes += atomic_load(&records[i].bytes[device]);
        bytes += orphans(&records[i], device);
    }
    return bytes;
}

void tn_sim_shared_publish(int device, size_t bytes)
{
    if (own != NULL && device >= 0)
        atomic_store(&own->bytes[device], bytes);
}

void tn_sim_shared_note(int device, uint64_t file, size_t bytes, bool made)
{
    struct memory *memory = own == NULL || device < 0 ? NULL : find(own, 0);
    if (memory == NULL)
        return;
    memory->bytes = bytes;
    memory->device = device;
    memory->made = made;
    atomic_store(&memory->file, file); /* last */
}

void tn_sim_shared_forget(uint64_t file)
{
    struct memory *memory = own == NULL ? NULL : find(own, file);
    if (memory != NULL)
        atomic_store(&memory->file, 0);
}
