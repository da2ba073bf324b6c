// SPDX-License-Identifier: Apache-2.0
/* Files that are no boards. */
#include "share/board.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/unit.h"

enum { WORLD = 2 };

static struct tn_board board;
static int good; /* a board's file */

static void open_good(void)
{
    board = (struct tn_board){.world = WORLD};
    for (int i = 0; i < TN_RANKS_MAX; i++)
        board.processes[i] = -1;
    OK(tn_board_create(WORLD, &good));
}

static void close_good(void)
{
    (void)close(good);
}

static off_t size_of(int file)
{
    struct stat what;

    ck_assert_int_eq(fstat(file, &what), 0);
    return what.st_size;
}

/* The good file's bytes, but for the first ones. */
static void copy_to(int file, unsigned int flips)
{
    char bytes[64];

    ck_assert_int_eq(ftruncate(file, size_of(good)), 0);
    ck_assert_int_eq(pread(good, bytes, sizeof bytes, 0), sizeof bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] ^= flips >> i & 1 ? 0x40 : 0;
    ck_assert_int_eq(pwrite(file, bytes, sizeof bytes, 0), sizeof bytes);
}

static int copy_with(unsigned int flips, unsigned int seals)
{
    int file = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    ck_assert_int_ge(file, 0);
    copy_to(file, flips);
    ck_assert_int_eq(fcntl(file, F_ADD_SEALS, seals), 0);
    return file;
}

SUITE("boards")
GROUP(files, open_good, close_good)

TEST(files, a_copy_is_a_board)
{
    int file = copy_with(0, F_SEAL_SHRINK | F_SEAL_GROW);

    OK(tn_board_open(&board, file));
    tn_board_close(&board);
    (void)close(file);
    OK(tn_board_open(&board, good));
    tn_board_close(&board);
}

TEST(files, without_seals)
{
    int files[] = {copy_with(0, F_SEAL_GROW), copy_with(0, F_SEAL_SHRINK),
                   open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};

    ck_assert_int_ge(files[2], 0);
    copy_to(files[2], 0);
    for (int i = 0; i < 3; i++) {
        STATUS(TARN_ERR_PEER_LOST, tn_board_open(&board, files[i]));
        ck_assert_ptr_null(board.memory);
        (void)close(files[i]);
    }
}

/* The magic number, and the count of ranks. */
TEST_LOOP(files, of_other_bytes, 0, 8)
{
    int file = copy_with(1U << _i, F_SEAL_SHRINK | F_SEAL_GROW);

    STATUS(TARN_ERR_PEER_LOST, tn_board_open(&board, file));
    ck_assert_ptr_null(board.memory);
    (void)close(file);
}
