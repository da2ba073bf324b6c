// SPDX-License-Identifier: Apache-2.0
/* The producer makes both files. Behind the producer's own mapping a seal refuses all later
 * writable ones. The consumer can map the grants for reading alone. */
#include "share/tables.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum { SIZE_SEALS = F_SEAL_SHRINK | F_SEAL_GROW, PAGE = 4096 };

static size_t grants_bytes(uint32_t slot_count, uint32_t chunk_count)
{
    return (size_t)tn_round_up(
        slot_count * sizeof(struct tn_grant) + chunk_count * sizeof(struct tn_chunk_grant), PAGE);
}

static size_t returns_bytes(uint32_t slot_count)
{
    return (size_t)tn_round_up(slot_count * sizeof(atomic_uint_fast64_t), PAGE);
}

static tarn_status refused(const char *what)
{
    if (errno == EMFILE || errno == ENFILE)
        return tn_fail(TARN_ERR_LIMIT, "the process has no file descriptor left (RLIMIT_NOFILE)");
    if (errno == ENOMEM || errno == ENOSPC)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for the table of leases");
    return tn_fail(TARN_ERR_NOT_SUPPORTED, "the system has no sealed memory (%s: error %d)", what,
                   errno);
}

static tarn_status make_file(const char *name, size_t bytes, int *file)
{
    *file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*file < 0)
        return refused("memfd_create");
    if (ftruncate(*file, (off_t)bytes) != 0)
        return refused("ftruncate");
    if (fcntl(*file, F_ADD_SEALS, SIZE_SEALS) != 0) /* L2 */
        return refused("F_ADD_SEALS");
    return TARN_OK;
}

static tarn_status map_file(int file, size_t bytes, int rights, void **at)
{
    void *mapped = mmap(NULL, bytes, rights, MAP_SHARED, file, 0);

    TN_ASSERT(file >= 0 && bytes % PAGE == 0);
    if (mapped == MAP_FAILED && errno == EPERM)
        return tn_fail(TARN_ERR_PEER_LOST, "the other process has sent a table that is sealed");
    if (mapped == MAP_FAILED)
        return tn_fail(TARN_ERR_HOST_MEMORY, "mapping a table of leases: error %d", errno);
    *at = mapped;
    return TARN_OK;
}

/* Maps both tables with these rights. */
static tarn_status map_tables(struct tn_tables *tables, int grants_rights, int returns_rights)
{
    void *at = NULL;
    tarn_status status =
        map_file(tables->grants_file, grants_bytes(tables->slot_count, tables->chunk_count),
                 grants_rights, &at);

    if (status != TARN_OK)
        return status;
    tables->grants = at;
    tables->chunks = (void *)&tables->grants[tables->slot_count];
    status = map_file(tables->returns_file, returns_bytes(tables->slot_count), returns_rights, &at);
    if (status == TARN_OK)
        tables->returns = at;
    return status;
}

static void begin(struct tn_tables *tables, uint32_t slot_count, uint32_t chunk_count)
{
    TN_ASSERT(slot_count > 0 && chunk_count > 0);
    *tables = (struct tn_tables){.grants_file = -1,
                                 .returns_file = -1,
                                 .slot_count = slot_count,
                                 .chunk_count = chunk_count};
}

tarn_status tn_tables_make(struct tn_tables *tables, uint32_t slot_count, uint32_t chunk_count)
{
    tarn_status status;

    begin(tables, slot_count, chunk_count);
    status = make_file("tarn_grants", grants_bytes(slot_count, chunk_count), &tables->grants_file);
    if (status == TARN_OK)
        status = make_file("tarn_returns", returns_bytes(slot_count), &tables->returns_file);
    if (status == TARN_OK)
        status = map_tables(tables, PROT_READ | PROT_WRITE, PROT_READ);
    if (status == TARN_OK && /* L1 */
        fcntl(tables->grants_file, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0)
        status = refused("F_SEAL_FUTURE_WRITE");
    if (status != TARN_OK)
        tn_tables_close(tables);
    return status;
}

static bool is_sealed(int file, size_t bytes)
{
    struct stat found;
    int seals = fcntl(file, F_GET_SEALS);

    return seals >= 0 && (seals & SIZE_SEALS) == SIZE_SEALS && fstat(file, &found) == 0 &&
           (size_t)found.st_size == bytes;
}

tarn_status tn_tables_open(struct tn_tables *tables, int grants_file, int returns_file,
                           uint32_t slot_count, uint32_t chunk_count)
{
    tarn_status status = TARN_OK;

    begin(tables, slot_count, chunk_count);
    tables->grants_file = grants_file;
    tables->returns_file = returns_file;
    if (!is_sealed(grants_file, grants_bytes(slot_count, chunk_count)) ||
        !is_sealed(returns_file, returns_bytes(slot_count)))
        status = tn_fail(TARN_ERR_PEER_LOST, "the other process has sent tables of leases of "
                                             "another size, or ones whose size is not sealed");
    if (status == TARN_OK)
        status = map_tables(tables, PROT_READ, PROT_READ | PROT_WRITE);
    if (status != TARN_OK)
        tn_tables_close(tables);
    return status;
}

static void close_file(int *file)
{
    if (*file >= 0)
        (void)close(*file);
    *file = -1;
}

void tn_tables_close_files(struct tn_tables *tables)
{
    close_file(&tables->grants_file);
    close_file(&tables->returns_file);
}

void tn_tables_close(struct tn_tables *tables)
{
    tn_tables_close_files(tables);
    if (tables->grants != NULL)
        (void)munmap(tables->grants, grants_bytes(tables->slot_count, tables->chunk_count));
    if (tables->returns != NULL)
        (void)munmap(tables->returns, returns_bytes(tables->slot_count));
    tables->grants = NULL;
    tables->chunks = NULL;
    tables->returns = NULL;
}
