// SPDX-License-Identifier: Apache-2.0
/* The last rank to come rings a bell, a futex: a waiting rank is woken once a turn. A rank may be
 * killed before the ring. Waiting ranks therefore look again after some milliseconds.
 *
 * Trade-offs: no rank spins. A turn costs a switch of each process, some 10 us; order between
 * streams is the pad's. */
#include "share/board.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/contract.h"
#include "base/error.h"

/* How long a rank sleeps before it looks for deaths. */
#define LOOK_NS UINT64_C(10000000)

enum { MAGIC = 0x54426f61 };

struct place {
    _Atomic uint64_t turn;
    _Atomic uint32_t has_left;
    int32_t pid;
    char host[TN_HOST_NAME_MAX + 1];
    unsigned char bytes[2][TN_BOARD_BYTES]; /* of even and odd turns */
};

struct tn_board_memory {
    uint32_t magic;
    uint32_t world;
    _Atomic uint32_t came; /* arrivals in all turns; wraps */
    _Atomic uint32_t bell;
    struct place places[];
};

static size_t bytes_for(uint32_t world)
{
    return offsetof(struct tn_board_memory, places) + world * sizeof(struct place);
}

static struct tn_board_memory *map(int descriptor, size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

tarn_status tn_board_create(uint32_t world, int *descriptor)
{
    const unsigned int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    int file = memfd_create("tarn-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct tn_board_memory *memory = NULL;

    TN_ASSERT(world >= 1 && world <= TN_RANKS_MAX);
    if (file < 0 && (errno == EMFILE || errno == ENFILE))
        return tn_fail(TARN_ERR_LIMIT, "the process has no file descriptor left (RLIMIT_NOFILE)");
    if (file < 0)
        return tn_fail(TARN_ERR_NOT_SUPPORTED, "memfd_create: %s", strerror(errno));
    if (ftruncate(file, (off_t)bytes_for(world)) == 0 && fcntl(file, F_ADD_SEALS, seals) == 0)
        memory = map(file, bytes_for(world));
    if (memory == NULL) {
        (void)close(file);
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for the board of %u ranks", world);
    }
    memory->magic = MAGIC;
    memory->world = world;
    (void)munmap(memory, bytes_for(world));
    *descriptor = file;
    return TARN_OK;
}

static tarn_status bad_board(const struct tn_board *board)
{
    return tn_fail(TARN_ERR_PEER_LOST, "the file of rank 0 is no board of %u ranks", board->world);
}

tarn_status tn_board_open(struct tn_board *board, int descriptor)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW; /* a file that shrinks would be a fault here */
    int held = fcntl(descriptor, F_GET_SEALS);
    struct stat what;

    TN_ASSERT(board->memory == NULL && board->rank < board->world);
    if (held < 0 || (held & seals) != seals || fstat(descriptor, &what) != 0 ||
        what.st_size != (off_t)bytes_for(board->world))
        return bad_board(board);
    board->memory = map(descriptor, bytes_for(board->world));
    if (board->memory == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for the board of %u ranks",
                       board->world);
    if (board->memory->magic != MAGIC || board->memory->world != board->world) {
        (void)munmap(board->memory, bytes_for(board->world));
        board->memory = NULL;
        return bad_board(board);
    }
    board->turn = 0;
    board->posted_bytes = 0;
    atomic_store(&board->lost_rank, -1);
    return TARN_OK;
}

static void ring(struct tn_board *board)
{
    atomic_fetch_add(&board->memory->bell, 1);
    (void)syscall(SYS_futex, &board->memory->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void tn_board_close(struct tn_board *board)
{
    for (uint32_t i = 0; i < board->world; i++) {
        if (board->processes[i] >= 0)
            (void)close(board->processes[i]);
        board->processes[i] = -1;
    }
    if (board->memory == NULL)
        return;
    atomic_store(&board->memory->places[board->rank].has_left, 1);
    ring(board);
    (void)munmap(board->memory, bytes_for(board->world));
    board->memory = NULL;
}

void tn_board_sign(struct tn_board *board, const struct tn_rank_name *name)
{
    struct place *place = &board->memory->places[board->rank];

    place->pid = name->pid;
    memcpy(place->host, name->host, sizeof place->host);
}

void tn_board_name(const struct tn_board *board, uint32_t rank, struct tn_rank_name *name)
{
    const struct place *place = &board->memory->places[rank];

    TN_ASSERT(rank < board->world);
    name->pid = place->pid;
    memcpy(name->host, place->host, sizeof name->host);
    name->host[TN_HOST_NAME_MAX] = '\0';
}

/* -- Deaths -- */

tarn_status tn_board_lost(const struct tn_board *board)
{
    struct tn_rank_name name;
    int rank = atomic_load(&board->lost_rank);

    TN_ASSERT(rank >= 0);
    tn_board_name(board, (uint32_t)rank, &name);
    return tn_fail(TARN_ERR_PEER_LOST, "rank %d of the group '%s' is gone: process %d on %s", rank,
                   board->group, (int)name.pid, name.host);
}

static bool has_left(const struct tn_board *board, uint32_t rank)
{
    return atomic_load(&board->memory->places[rank].has_left) != 0;
}

/* A rank whose process has ended before it left, by one question for all. */
static int find_gone(const struct tn_board *board)
{
    struct pollfd asked[TN_RANKS_MAX];

    for (uint32_t i = 0; i < board->world; i++)
        asked[i] = (struct pollfd){.fd = board->processes[i], .events = POLLIN};
    if (poll(asked, board->world, 0) <= 0)
        return -1;
    for (uint32_t i = 0; i < board->world; i++) {
        if (asked[i].revents != 0 && !has_left(board, i))
            return (int)i;
    }
    return -1;
}

/* A rank that has left before the turn. */
static int find_left(const struct tn_board *board, uint64_t turn)
{
    for (uint32_t i = 0; i < board->world; i++) {
        if (i != board->rank && has_left(board, i) &&
            atomic_load(&board->memory->places[i].turn) < turn)
            return (int)i;
    }
    return -1;
}

void tn_board_note_lost(struct tn_board *board, int rank)
{
    int none = -1;

    (void)atomic_compare_exchange_strong(&board->lost_rank, &none, rank);
}

tarn_status tn_board_look(struct tn_board *board)
{
    int gone;

    TN_ASSERT(tn_board_is_open(board));
    if (atomic_load(&board->lost_rank) >= 0)
        return tn_board_lost(board);
    gone = find_gone(board);
    if (gone < 0)
        return TARN_OK;
    tn_board_note_lost(board, gone);
    return tn_board_lost(board);
}

bool tn_board_is_here(const struct tn_board *board, uint32_t rank)
{
    struct pollfd asked = {.fd = board->processes[rank], .events = POLLIN};

    TN_ASSERT(rank < board->world);
    return !has_left(board, rank) && poll(&asked, 1, 0) <= 0;
}

/* -- Turns -- */

static bool all_came(const struct tn_board *board)
{
    bool came = true;

    for (uint32_t i = 0; i < board->world && came; i++)
        came = atomic_load_explicit(&board->memory->places[i].turn, memory_order_acquire) >=
               board->turn;
    return came;
}

static tarn_status say_late(const struct tn_board *board)
{
    char late[64] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < board->world && used < sizeof late - 8; i++) {
        if (atomic_load(&board->memory->places[i].turn) >= board->turn)
            continue;
        used += (size_t)snprintf(&late[used], sizeof late - used, "%s%u", used > 0 ? ", " : "", i);
    }
    return tn_fail(TARN_ERR_BUSY, "of the group '%s' these ranks have not come in time: %s",
                   board->group, late);
}

static void post(struct tn_board *board, const void *own, uint32_t bytes)
{
    struct place *place = &board->memory->places[board->rank];
    uint32_t came;

    board->turn++;
    board->posted_bytes = bytes;
    memcpy(place->bytes[board->turn % 2], own, bytes);
    atomic_store_explicit(&place->turn, board->turn, memory_order_release);
    came = atomic_fetch_add(&board->memory->came, 1) + 1;
    if (came == (uint32_t)(board->turn * board->world))
        ring(board);
}

static void sleep_until(const struct tn_board *board, uint32_t bell, uint64_t until_ns)
{
    uint64_t now = tn_clock_nanoseconds(CLOCK_MONOTONIC);
    uint64_t ns = until_ns > now ? tn_min(until_ns - now, LOOK_NS) : 0;
    const struct timespec time = {.tv_nsec = (long)ns};

    (void)syscall(SYS_futex, &board->memory->bell, FUTEX_WAIT, bell, &time, NULL, 0);
}

tarn_status tn_board_gather(struct tn_board *board, const void *own, uint32_t bytes,
                            uint64_t deadline_ns, void *all)
{
    TN_ASSERT(tn_board_is_open(board) && bytes > 0 && bytes <= TN_BOARD_BYTES);
    TN_ASSERT(board->posted_bytes == 0 || board->posted_bytes == bytes);
    if (atomic_load(&board->lost_rank) >= 0)
        return tn_board_lost(board);
    if (board->posted_bytes == 0)
        post(board, own, bytes);
    for (;;) {
        uint32_t bell = atomic_load(&board->memory->bell);
        int gone;

        if (all_came(board))
            break;
        gone = find_gone(board);
        if (gone < 0)
            gone = find_left(board, board->turn);
        if (all_came(board)) /* the rank had come before its end */
            break;
        if (gone >= 0) {
            tn_board_note_lost(board, gone);
            return tn_board_lost(board);
        }
        if (tn_clock_nanoseconds(CLOCK_MONOTONIC) >= deadline_ns)
            return say_late(board);
        sleep_until(board, bell, deadline_ns);
    }
    for (uint32_t i = 0; i < board->world; i++)
        memcpy((unsigned char *)all + (size_t)i * bytes,
               board->memory->places[i].bytes[board->turn % 2], bytes);
    board->posted_bytes = 0;
    return TARN_OK;
}
