// SPDX-License-Identifier: Apache-2.0
/* A message is one struct with a magic number and a version. Descriptors come with it, at most one
 * for each rank and a few more.
 *
 * Trade-offs: rank 0 passes all descriptors on, which costs it a message for each rank. Connections
 * between each two ranks would be 2016 sockets for 64 of them. */
#include "share/hub.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/contract.h"
#include "base/error.h"
#include "share/channel.h"
#include "share/process.h"

enum {
    MAGIC = 0x54487562,
    VERSION = 1,
    FILES_MAX = TN_RANKS_MAX + 8,
    STRANGERS_MAX = 64,
    SENTENCE_BYTES = 400,
    PAUSE_MS = 2, /* between two tries to connect, or to send */
};

/* For the others to hear of a wrong hello. */
#define VERDICT_NS UINT64_C(5000000000)

enum kind { HELLO = 1, WELCOME, REFUSAL, FILES };

struct letter {
    uint32_t magic;
    uint32_t version;
    uint32_t kind;
    uint32_t rank;
    uint32_t world;
    uint32_t channel_count;
    uint32_t file_count;
    int32_t status; /* of a refusal */
    struct tn_rank_name self;
    char group[TN_GROUP_NAME_MAX + 1];
    char sentence[SENTENCE_BYTES];
};

union control {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(FILES_MAX * sizeof(int))];
};

/* -- Letters -- */

static int remaining_ms(uint64_t deadline_ns, int most)
{
    uint64_t now = tn_clock_nanoseconds(CLOCK_MONOTONIC);
    uint64_t ms = deadline_ns > now ? (deadline_ns - now + 999999) / 1000000 : 0;

    return (int)tn_min(ms, (uint64_t)most);
}

static bool is_over(uint64_t deadline_ns)
{
    return tn_clock_nanoseconds(CLOCK_MONOTONIC) >= deadline_ns;
}

static void pause_before(uint64_t deadline_ns)
{
    (void)poll(NULL, 0, remaining_ms(deadline_ns, PAUSE_MS));
}

static tarn_status lost(const struct tn_hub *hub, uint32_t rank)
{
    return tn_fail(TARN_ERR_PEER_LOST, "rank %u of the group '%s' has ended or closed its socket",
                   rank, hub->group);
}

static struct letter letter_of(const struct tn_hub *hub, enum kind kind)
{
    struct letter letter = {.magic = MAGIC,
                            .version = VERSION,
                            .kind = kind,
                            .rank = hub->rank,
                            .world = hub->world,
                            .channel_count = hub->channel_count,
                            .self = hub->self};

    memcpy(letter.group, hub->group, sizeof letter.group);
    return letter;
}

/* BUSY: the other end does not read; PEER_LOST */
static tarn_status send_letter(const struct tn_hub *hub, uint32_t rank, struct letter *letter,
                               const int *files, uint32_t count, uint64_t deadline_ns)
{
    struct iovec part = {.iov_base = letter, .iov_len = sizeof *letter};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    union control control = {.bytes = {0}};

    TN_ASSERT(count <= FILES_MAX);
    letter->file_count = count;
    if (count > 0) {
        header.msg_control = &control;
        header.msg_controllen = CMSG_SPACE(count * sizeof(int));
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(&control.head), files, count * sizeof(int));
    }
    while (sendmsg(hub->channels[rank], &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR && errno != ETOOMANYREFS)
            return lost(hub, rank);
        if (is_over(deadline_ns))
            return tn_fail(TARN_ERR_BUSY, "rank %u of the group '%s' does not read its socket",
                           rank, hub->group);
        pause_before(deadline_ns);
    }
    return TARN_OK;
}

static void close_files(int *files, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        tn_channel_close(&files[i]);
}

/* The descriptors of a received letter; -1 behind them. */
static uint32_t take_files(struct msghdr *header, int files[FILES_MAX])
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < FILES_MAX; i++)
        files[i] = -1;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(header); head != NULL;
         head = CMSG_NXTHDR(header, head)) {
        size_t came = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        TN_ASSERT(count + came <= FILES_MAX);
        memcpy(&files[count], CMSG_DATA(head), came * sizeof(int));
        count += (uint32_t)came;
    }
    return count;
}

/* Receives without a wait; a letter of no good form is the end. BUSY: none; PEER_LOST; LIMIT */
static tarn_status try_receive(int channel, struct letter *letter, int files[FILES_MAX])
{
    union control control;
    struct iovec part = {.iov_base = letter, .iov_len = sizeof *letter};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof control};
    ssize_t length = recvmsg(channel, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    uint32_t count;

    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return TARN_ERR_BUSY;
    if (length < 0)
        return TARN_ERR_PEER_LOST;
    count = take_files(&header, files); /* a letter of no bytes may bring some, too */
    if (length == (ssize_t)sizeof *letter && letter->magic == MAGIC && letter->version == VERSION &&
        (header.msg_flags & MSG_TRUNC) == 0 && letter->file_count == count) {
        letter->group[sizeof letter->group - 1] = '\0';
        letter->self.host[sizeof letter->self.host - 1] = '\0';
        letter->sentence[sizeof letter->sentence - 1] = '\0';
        return TARN_OK;
    }
    close_files(files, count);
    return (header.msg_flags & MSG_CTRUNC) != 0 ? TARN_ERR_LIMIT : TARN_ERR_PEER_LOST;
}

static tarn_status receive_letter(const struct tn_hub *hub, uint32_t rank, struct letter *letter,
                                  int files[FILES_MAX], uint64_t deadline_ns)
{
    tarn_status status = try_receive(hub->channels[rank], letter, files);

    while (status == TARN_ERR_BUSY && !is_over(deadline_ns)) {
        struct pollfd asked = {.fd = hub->channels[rank], .events = POLLIN};

        (void)poll(&asked, 1, remaining_ms(deadline_ns, 1000));
        status = try_receive(hub->channels[rank], letter, files);
    }
    if (status == TARN_ERR_BUSY)
        return tn_fail(TARN_ERR_BUSY, "rank %u of the group '%s' has not come in time", rank,
                       hub->group);
    if (status == TARN_ERR_LIMIT)
        return tn_fail(TARN_ERR_LIMIT, "the process has no file descriptor left (RLIMIT_NOFILE)");
    return status == TARN_OK ? TARN_OK : lost(hub, rank);
}

/* -- Rank 0: the ranks come -- */

struct door {
    int listening;
    int strangers[STRANGERS_MAX]; /* connected, and silent yet; -1: none */
    struct tn_process processes[STRANGERS_MAX];
    uint32_t heard;      /* ranks that have said hello, wrong ones included */
    tarn_status verdict; /* of the first hello that was wrong */
    struct tn_error_sentence sentence;
};

/* Compares a hello with what rank 0 says itself. INVALID_ARGUMENT */
static tarn_status compare(const struct tn_hub *hub, const struct letter *hello)
{
    if (strcmp(hello->group, hub->group) != 0)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                       "the ranks disagree: process %d on %s comes to the group '%s' as '%s'",
                       (int)hello->self.pid, hello->self.host, hub->group, hello->group);
    if (hello->world != hub->world)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                       "the ranks disagree: the group '%s' has %u ranks for rank 0, and %u for "
                       "rank %u",
                       hub->group, hub->world, hello->world, hello->rank);
    if (hello->channel_count != hub->channel_count)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                       "the ranks disagree: the group '%s' has %u channels for rank 0, and %u for "
                       "rank %u",
                       hub->group, hub->channel_count, hello->channel_count, hello->rank);
    if (hello->rank == 0 || hello->rank >= hub->world || hub->channels[hello->rank] >= 0)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                       "rank %u of the group '%s' came twice, or is none of its %u: process %d "
                       "on %s is the second",
                       hello->rank, hub->group, hub->world, (int)hello->self.pid, hello->self.host);
    return TARN_OK;
}

/* Refuses a single rank, whose hello was wrong. */
static void turn_away(const struct tn_hub *hub, struct door *door, int *stranger,
                      tarn_status status)
{
    struct letter refusal = letter_of(hub, REFUSAL);

    TN_ASSERT(status != TARN_OK);
    refusal.status = status;
    (void)snprintf(refusal.sentence, sizeof refusal.sentence, "%s", tarn_last_error());
    (void)send(*stranger, &refusal, sizeof refusal, MSG_NOSIGNAL | MSG_DONTWAIT);
    tn_channel_close(stranger);
    if (door->verdict == TARN_OK)
        tn_error_keep(&door->sentence);
    if (door->verdict == TARN_OK)
        door->verdict = status;
}

/* A stranger has said something, or closed. */
static void hear(struct tn_hub *hub, struct door *door, uint32_t index, int processes[TN_RANKS_MAX])
{
    int *stranger = &door->strangers[index];
    struct tn_process *process = &door->processes[index];
    struct letter hello;
    int files[FILES_MAX];
    tarn_status status = try_receive(*stranger, &hello, files);

    if (status == TARN_ERR_BUSY)
        return;
    if (status == TARN_OK)
        close_files(files, hello.file_count);
    if (status != TARN_OK || hello.kind != HELLO) {
        tn_channel_close(stranger);
        tn_process_close(process);
        return;
    }
    door->heard++;
    status = compare(hub, &hello);
    if (status != TARN_OK) {
        turn_away(hub, door, stranger, status);
        tn_process_close(process);
        return;
    }
    processes[hello.rank] = process->descriptor;
    hub->channels[hello.rank] = *stranger;
    *stranger = -1;
}

/* Processes of other users are no ranks, whatever they say. */
static bool is_own(const struct tn_process *process)
{
    return process->uid == geteuid();
}

static tarn_status let_in(const struct tn_hub *hub, struct door *door)
{
    struct tn_process process;
    int channel = -1;
    tarn_status status = tn_channel_accept(door->listening, &channel);

    if (status != TARN_OK)
        return status == TARN_ERR_BUSY ? TARN_OK : status;
    status = tn_process_find(channel, &process);
    if (status != TARN_OK) {
        if (status == TARN_ERR_PEER_LOST)
            tn_channel_close(&channel); /* it has ended already */
        else
            turn_away(hub, door, &channel, status);
        return TARN_OK;
    }
    for (uint32_t i = 0; is_own(&process) && i < STRANGERS_MAX; i++) {
        if (door->strangers[i] < 0) {
            door->strangers[i] = channel;
            door->processes[i] = process;
            return TARN_OK;
        }
    }
    tn_channel_close(&channel); /* another user's, or a flood */
    tn_process_close(&process);
    return TARN_OK;
}

static tarn_status say_missing(const struct tn_hub *hub)
{
    char late[64] = "";
    size_t used = 0;

    for (uint32_t i = 1; i < hub->world && used < sizeof late - 8; i++) {
        if (hub->channels[i] < 0)
            used +=
                (size_t)snprintf(&late[used], sizeof late - used, "%s%u", used > 0 ? ", " : "", i);
    }
    return tn_fail(TARN_ERR_BUSY, "of the group '%s' these ranks have not come in time: %s",
                   hub->group, late);
}

/* Waits for something at the door, and looks after those that have come. */
static tarn_status wait_at(const struct tn_hub *hub, const struct door *door, uint64_t deadline_ns)
{
    struct pollfd asked[1 + STRANGERS_MAX + TN_RANKS_MAX];
    nfds_t count = 0;

    asked[count++] = (struct pollfd){.fd = door->listening, .events = POLLIN};
    for (uint32_t i = 0; i < STRANGERS_MAX; i++)
        asked[count++] = (struct pollfd){.fd = door->strangers[i], .events = POLLIN};
    for (uint32_t i = 0; i < hub->world; i++)
        asked[count++] = (struct pollfd){.fd = hub->channels[i], .events = 0};
    (void)poll(asked, count, remaining_ms(deadline_ns, 1000));
    for (uint32_t i = 0; i < hub->world; i++) {
        if (hub->channels[i] >= 0 && (asked[1 + STRANGERS_MAX + i].revents & POLLHUP) != 0)
            return lost(hub, i);
    }
    return TARN_OK;
}

/* After a wrong hello, the others have a little time to come and hear of it. */
static tarn_status receive_ranks(struct tn_hub *hub, struct door *door, uint64_t deadline_ns,
                                 int processes[TN_RANKS_MAX])
{
    tarn_status status = TARN_OK;

    while (status == TARN_OK && door->heard < hub->world - 1) {
        tarn_status before = door->verdict;

        if (is_over(deadline_ns))
            break;
        status = wait_at(hub, door, deadline_ns);
        if (status == TARN_OK)
            status = let_in(hub, door);
        for (uint32_t i = 0; status == TARN_OK && i < STRANGERS_MAX; i++) {
            if (door->strangers[i] >= 0)
                hear(hub, door, i, processes);
        }
        if (before == TARN_OK && door->verdict != TARN_OK)
            deadline_ns = tn_min(deadline_ns, tn_clock_nanoseconds(CLOCK_MONOTONIC) + VERDICT_NS);
    }
    if (door->verdict != TARN_OK) {
        tn_error_put_back(&door->sentence);
        return door->verdict;
    }
    return status == TARN_OK && door->heard < hub->world - 1 ? say_missing(hub) : status;
}

static tarn_status meet_as_hub(struct tn_hub *hub, uint64_t deadline_ns,
                               int processes[TN_RANKS_MAX])
{
    struct door door = {.verdict = TARN_OK};
    tarn_status status = tn_channel_listen(hub->name, &door.listening);

    if (status != TARN_OK)
        return status;
    for (uint32_t i = 0; i < STRANGERS_MAX; i++)
        door.strangers[i] = -1;
    status = receive_ranks(hub, &door, deadline_ns, processes);
    if (status != TARN_OK)
        tn_hub_refuse(hub, status);
    for (uint32_t i = 0; i < STRANGERS_MAX; i++) {
        if (door.strangers[i] >= 0)
            tn_process_close(&door.processes[i]);
        tn_channel_close(&door.strangers[i]);
    }
    tn_channel_unlink(hub->name);
    tn_channel_close(&door.listening);
    return status;
}

/* -- The others -- */

static tarn_status meet_as_guest(struct tn_hub *hub, uint64_t deadline_ns,
                                 int processes[TN_RANKS_MAX])
{
    struct letter hello = letter_of(hub, HELLO);
    struct tn_process process;
    tarn_status status = tn_channel_connect(hub->name, &hub->channels[0]);

    while ((status == TARN_ERR_PEER_LOST || status == TARN_ERR_BUSY) && !is_over(deadline_ns)) {
        pause_before(deadline_ns);
        status = tn_channel_connect(hub->name, &hub->channels[0]);
    }
    if (status == TARN_ERR_PEER_LOST)
        return tn_fail(TARN_ERR_BUSY,
                       "rank 0 of the group '%s' has not come in time: nobody listens at '%s'",
                       hub->group, hub->name);
    if (status == TARN_OK)
        status = tn_process_find(hub->channels[0], &process);
    if (status == TARN_OK) {
        processes[0] = process.descriptor;
        if (!is_own(&process))
            status = tn_fail(TARN_ERR_NOT_PERMITTED,
                             "a process of user %u listens at '%s', and is no rank of the group "
                             "'%s': ranks are of one user",
                             (unsigned int)process.uid, hub->name, hub->group);
    }
    if (status == TARN_OK)
        status = send_letter(hub, 0, &hello, NULL, 0, deadline_ns);
    return status;
}

tarn_status tn_hub_meet(struct tn_hub *hub, uint64_t deadline_ns, int processes[TN_RANKS_MAX])
{
    TN_ASSERT(hub->rank < hub->world && hub->world <= TN_RANKS_MAX);
    for (uint32_t i = 0; i < TN_RANKS_MAX; i++) {
        hub->channels[i] = -1;
        processes[i] = -1;
    }
    if (hub->world == 1)
        return TARN_OK;
    return hub->rank == 0 ? meet_as_hub(hub, deadline_ns, processes)
                          : meet_as_guest(hub, deadline_ns, processes);
}

/* -- Welcomes and descriptors -- */

tarn_status tn_hub_welcome(struct tn_hub *hub, const int *descriptors, uint32_t count,
                           uint64_t deadline_ns)
{
    struct letter welcome = letter_of(hub, WELCOME);
    tarn_status status = TARN_OK;

    TN_ASSERT(hub->rank == 0);
    for (uint32_t i = 1; i < hub->world && status == TARN_OK; i++)
        status = send_letter(hub, i, &welcome, descriptors, count, deadline_ns);
    return status;
}

void tn_hub_refuse(struct tn_hub *hub, tarn_status status)
{
    struct letter refusal = letter_of(hub, REFUSAL);

    TN_ASSERT(hub->rank == 0 && status != TARN_OK);
    refusal.status = status;
    (void)snprintf(refusal.sentence, sizeof refusal.sentence, "%s", tarn_last_error());
    for (uint32_t i = 1; i < hub->world; i++) {
        if (hub->channels[i] >= 0)
            (void)send(hub->channels[i], &refusal, sizeof refusal, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

/* A refusal may carry any status of this library, and no other number. */
static tarn_status take_refusal(const struct tn_hub *hub, const struct letter *letter)
{
    static const tarn_status known[] = {
        TARN_ERR_INVALID_ARGUMENT, TARN_ERR_BUSY,          TARN_ERR_LIMIT,
        TARN_ERR_HOST_MEMORY,      TARN_ERR_NOT_SUPPORTED, TARN_ERR_DEVICE_MEMORY};
    tarn_status status = TARN_ERR_PEER_LOST;

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if ((int32_t)known[i] == letter->status)
            status = known[i];
    }
    return tn_fail(status, "rank 0 of the group '%s' says: %s", hub->group, letter->sentence);
}

tarn_status tn_hub_await_welcome(struct tn_hub *hub, int *descriptors, uint32_t count,
                                 uint64_t deadline_ns)
{
    struct letter letter;
    int files[FILES_MAX];
    tarn_status status = receive_letter(hub, 0, &letter, files, deadline_ns);

    if (status != TARN_OK)
        return status;
    if (letter.kind == WELCOME && letter.file_count == count) {
        memcpy(descriptors, files, count * sizeof(int));
        return TARN_OK;
    }
    close_files(files, letter.file_count);
    return letter.kind == REFUSAL ? take_refusal(hub, &letter) : lost(hub, 0);
}

/* Rank 0: a descriptor of each other rank, and its own, to all. */
static tarn_status pass_on(struct tn_hub *hub, int own, int all[TN_RANKS_MAX], uint64_t deadline_ns)
{
    struct letter letter;
    int files[FILES_MAX];
    tarn_status status = TARN_OK;

    for (uint32_t i = 1; i < hub->world && status == TARN_OK; i++) {
        status = receive_letter(hub, i, &letter, files, deadline_ns);
        if (status == TARN_OK && (letter.kind != FILES || letter.file_count != 1)) {
            close_files(files, letter.file_count);
            status = lost(hub, i);
        }
        if (status == TARN_OK)
            all[i] = files[0];
    }
    all[0] = own;
    for (uint32_t i = 1; i < hub->world && status == TARN_OK; i++) {
        letter = letter_of(hub, FILES);
        status = send_letter(hub, i, &letter, all, hub->world, deadline_ns);
    }
    all[0] = -1;
    if (status != TARN_OK)
        tn_hub_refuse(hub, status); /* the others wait for a letter of rank 0's */
    return status;
}

static tarn_status send_and_get(struct tn_hub *hub, int own, int all[TN_RANKS_MAX],
                                uint64_t deadline_ns)
{
    struct letter letter = letter_of(hub, FILES);
    int files[FILES_MAX];
    tarn_status status = send_letter(hub, 0, &letter, &own, 1, deadline_ns);

    if (status == TARN_OK)
        status = receive_letter(hub, 0, &letter, files, deadline_ns);
    if (status != TARN_OK)
        return status;
    if (letter.kind != FILES || letter.file_count != hub->world) {
        close_files(files, letter.file_count);
        if (letter.kind == REFUSAL)
            return tn_fail(TARN_ERR_PEER_LOST, "rank 0 of the group '%s' gives it up: %s",
                           hub->group, letter.sentence);
        return lost(hub, 0);
    }
    memcpy(all, files, hub->world * sizeof(int));
    tn_channel_close(&all[hub->rank]);
    return TARN_OK;
}

tarn_status tn_hub_exchange(struct tn_hub *hub, int own, int all[TN_RANKS_MAX],
                            uint64_t deadline_ns)
{
    tarn_status status;

    TN_ASSERT(own >= 0);
    for (uint32_t i = 0; i < TN_RANKS_MAX; i++)
        all[i] = -1;
    if (hub->world == 1)
        return TARN_OK;
    status = hub->rank == 0 ? pass_on(hub, own, all, deadline_ns)
                            : send_and_get(hub, own, all, deadline_ns);
    if (status != TARN_OK)
        close_files(all, hub->world);
    return status;
}

void tn_hub_close(struct tn_hub *hub)
{
    for (uint32_t i = 0; i < hub->world; i++)
        tn_channel_close(&hub->channels[i]);
}
