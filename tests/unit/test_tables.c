// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "share/tables.h"
#include "unit/unit.h"

enum { SLOTS = 100, CHUNKS = 10 };

static struct tn_tables made;

static void make_tables(void)
{
    OK(tn_tables_make(&made, SLOTS, CHUNKS));
}

static void close_tables(void)
{
    tn_tables_close(&made);
}

static tarn_status open_files(struct tn_tables *opened, int grants_file, int returns_file)
{
    return tn_tables_open(opened, grants_file, returns_file, SLOTS, CHUNKS);
}

GROUP(tables, make_tables, close_tables)

TEST(tables, each_end_reads_what_the_other_writes)
{
    struct tn_tables opened;

    OK(open_files(&opened, dup(made.grants_file), dup(made.returns_file)));
    tn_tables_close_files(&opened);
    atomic_store(&made.grants[SLOTS - 1].word, 11);
    atomic_store(&made.chunks[CHUNKS - 1].word, 12);
    atomic_store(&opened.returns[SLOTS - 1], 13);
    ck_assert_uint_eq(atomic_load(&opened.grants[SLOTS - 1].word), 11);
    ck_assert_uint_eq(atomic_load(&opened.chunks[CHUNKS - 1].word), 12);
    ck_assert_uint_eq(atomic_load(&made.returns[SLOTS - 1]), 13);
    tn_tables_close(&opened);
}

/* L1 */
TEST(tables, a_consumer_cannot_map_the_grants_to_write_them)
{
    ck_assert_ptr_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, made.grants_file, 0),
                     MAP_FAILED);
    ck_assert_int_eq(errno, EPERM);
    ck_assert_int_lt(pwrite(made.grants_file, "x", 1, 0), 0);
}

/* L2 */
TEST(tables, no_process_can_change_the_size_of_a_table)
{
    ck_assert_int_ne(ftruncate(made.grants_file, 0), 0);
    ck_assert_int_ne(ftruncate(made.returns_file, 0), 0);
    ck_assert_int_ne(ftruncate(made.returns_file, 1 << 20), 0);
}

/* What a producer might send in their place. */
TEST(tables, files_that_are_no_such_tables_are_refused)
{
    struct tn_tables opened;
    int unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    ck_assert_int_eq(ftruncate(unsealed, 4096), 0);
    STATUS(TARN_ERR_PEER_LOST, open_files(&opened, dup(made.grants_file), dup(unsealed)));
    STATUS(TARN_ERR_PEER_LOST, open_files(&opened, dup(unsealed), dup(made.returns_file)));
    STATUS(TARN_ERR_PEER_LOST,
           open_files(&opened, open("/dev/null", O_RDWR), dup(made.returns_file)));
    STATUS(TARN_ERR_PEER_LOST,
           tn_tables_open(&opened, dup(made.grants_file), dup(made.returns_file), 5000, CHUNKS));
    ck_assert_ptr_null(opened.grants);
    ck_assert_int_eq(opened.grants_file, -1);
    /* The grants as returns, which nobody could write. */
    STATUS(TARN_ERR_PEER_LOST, open_files(&opened, dup(made.grants_file), dup(made.grants_file)));
    (void)close(unsealed);
}
