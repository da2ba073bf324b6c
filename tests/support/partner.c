// SPDX-License-Identifier: Apache-2.0
#include "support/partner.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/gate.h"

enum act {
    RUN,
    DESCRIBE,
    STATISTICS,
    CONNECT,
    OPEN,
    OPEN_ON,
    CLOSE,
    CLOSE_ON,
    HOLD,
    GO_ON,
    COLLECT,
    DISCONNECT,
    FILL,
    FILL_LATER,
    FIND,
    END
};

struct order {
    enum act act;
    uint32_t value;
    uint64_t number; /* words, or nanoseconds */
    void *address;
    char name[56];
    tarn_share share;
    test_partner_job *job;
};

struct answer {
    tarn_status status;
    bool found;
    void *address;
    char sentence[256];
    tarn_connection_info info;
    tarn_stats stats;
};

static struct {
    tarn_device *device;
    tarn_connection *connection;
    tn_cu_stream stream;
    struct test_gate gate;
} mine;

/* The process itself ---------------------------------------------------------------------------- */

static bool finds(const struct order *order)
{
    uint32_t *words = malloc(order->number * sizeof *words);
    bool all = true;

    ck_assert_ptr_nonnull(words);
    test_synchronize(mine.stream);
    CU_OK(cu.cuMemcpyDtoHAsync(words, (tn_cu_deviceptr)(uintptr_t)order->address,
                               order->number * sizeof *words, mine.stream));
    test_synchronize(mine.stream);
    for (size_t i = 0; i < order->number; i++)
        all = all && words[i] == order->value;
    free(words);
    return all;
}

static struct answer do_it(const struct order *order)
{
    struct answer answer = {.status = TARN_OK, .address = order->address};

    switch (order->act) {
    case RUN:
        answer.status = order->job(mine.device, mine.stream, order->address);
        break;
    case CONNECT:
        answer.status = tarn_connection_open(mine.device, order->name, &mine.connection);
        break;
    case OPEN:
        answer.status =
            tarn_share_open(mine.connection, &order->share, order->number, &answer.address);
        break;
    case OPEN_ON:
        answer.status = tarn_share_open_on(mine.connection, &order->share, mine.stream,
                                           order->number, &answer.address);
        break;
    case CLOSE_ON:
        answer.status = tarn_share_close_on(mine.connection, order->address, mine.stream);
        break;
    case HOLD:
        test_gate_close(&mine.gate, mine.stream);
        break;
    case GO_ON:
        test_gate_open(&mine.gate);
        break;
    case CLOSE:
        answer.status = tarn_share_close(mine.connection, order->address);
        break;
    case DESCRIBE:
        answer.info = (tarn_connection_info)TARN_CONNECTION_INFO_INIT;
        answer.status = tarn_connection_describe(mine.connection, &answer.info);
        break;
    case STATISTICS:
        answer.stats = (tarn_stats)TARN_STATS_INIT;
        answer.status = tarn_device_stats(mine.device, &answer.stats);
        break;
    case COLLECT:
        answer.status = tarn_share_collect(mine.device, NULL);
        break;
    case DISCONNECT:
        answer.status = tarn_connection_destroy(mine.connection);
        break;
    case FILL:
        test_fill(mine.stream, order->address, order->value, order->number);
        test_synchronize(mine.stream);
        break;
    case FILL_LATER:
        test_fill(mine.stream, order->address, order->value, order->number);
        break;
    case FIND:
        answer.found = finds(order);
        break;
    case END:
        OK(tarn_device_close(mine.device));
        break;
    }
    strncpy(answer.sentence, tarn_last_error(), sizeof answer.sentence - 1);
    return answer;
}

static _Noreturn void serve(int channel)
{
    struct order order;

    test_start();
    mine.stream = test_stream();
    OK(tarn_device_open(0, NULL, &mine.device));
    while (recv(channel, &order, sizeof order, 0) == (ssize_t)sizeof order) {
        struct answer answer = do_it(&order);

        if (send(channel, &answer, sizeof answer, MSG_NOSIGNAL) != (ssize_t)sizeof answer ||
            order.act == END)
            break;
    }
    _exit(0);
}

/* Its parent ------------------------------------------------------------------------------------ */

void test_partner_begin(struct test_partner *partner)
{
    int ends[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    partner->pid = fork();
    ck_assert_int_ge(partner->pid, 0);
    if (partner->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(ends[0]);
        serve(ends[1]);
    }
    (void)close(ends[1]);
    partner->channel = ends[0];
}

static struct answer tell(struct test_partner *partner, const struct order *order)
{
    struct answer answer;

    ck_assert_int_eq(send(partner->channel, order, sizeof *order, MSG_NOSIGNAL), sizeof *order);
    ck_assert_int_eq(recv(partner->channel, &answer, sizeof answer, 0), sizeof answer);
    return answer;
}

static void await_end(struct test_partner *partner)
{
    ck_assert_int_eq(waitpid(partner->pid, NULL, 0), partner->pid);
    (void)close(partner->channel);
    partner->pid = 0;
}

void test_partner_end(struct test_partner *partner)
{
    if (partner->pid == 0)
        return;
    ck_assert_int_eq(tell(partner, &(struct order){.act = END}).status, TARN_OK);
    await_end(partner);
}

void test_partner_kill(struct test_partner *partner)
{
    ck_assert_int_eq(kill(partner->pid, SIGKILL), 0);
    await_end(partner);
}

tarn_status test_partner_connect(struct test_partner *partner, const char *name)
{
    struct order order = {.act = CONNECT};

    strncpy(order.name, name, sizeof order.name - 1);
    return tell(partner, &order).status;
}

tarn_status test_partner_open(struct test_partner *partner, const tarn_share *share,
                              uint64_t timeout_ns, void **address)
{
    struct order order = {.act = OPEN, .number = timeout_ns, .share = *share};
    struct answer answer = tell(partner, &order);

    if (answer.status == TARN_OK)
        *address = answer.address;
    return answer.status;
}

tarn_status test_partner_open_on(struct test_partner *partner, const tarn_share *share,
                                 uint64_t timeout_ns, void **address)
{
    struct order order = {.act = OPEN_ON, .number = timeout_ns, .share = *share};
    struct answer answer = tell(partner, &order);

    if (answer.status == TARN_OK)
        *address = answer.address;
    return answer.status;
}

tarn_status test_partner_close_on(struct test_partner *partner, void *address)
{
    return tell(partner, &(struct order){.act = CLOSE_ON, .address = address}).status;
}

void test_partner_hold(struct test_partner *partner)
{
    ck_assert_int_eq(tell(partner, &(struct order){.act = HOLD}).status, TARN_OK);
}

void test_partner_go_on(struct test_partner *partner)
{
    ck_assert_int_eq(tell(partner, &(struct order){.act = GO_ON}).status, TARN_OK);
}

void test_partner_fill_later(struct test_partner *partner, void *address, uint32_t value,
                             size_t words)
{
    struct order order = {.act = FILL_LATER, .address = address, .value = value, .number = words};

    ck_assert_int_eq(tell(partner, &order).status, TARN_OK);
}

tarn_status test_partner_close(struct test_partner *partner, void *address)
{
    return tell(partner, &(struct order){.act = CLOSE, .address = address}).status;
}

tarn_status test_partner_collect(struct test_partner *partner)
{
    return tell(partner, &(struct order){.act = COLLECT}).status;
}

tarn_status test_partner_run(struct test_partner *partner, test_partner_job *job, void *shared)
{
    return tell(partner, &(struct order){.act = RUN, .job = job, .address = shared}).status;
}

tarn_connection_info test_partner_describe(struct test_partner *partner)
{
    struct answer answer = tell(partner, &(struct order){.act = DESCRIBE});

    OK(answer.status);
    return answer.info;
}

tarn_stats test_partner_stats(struct test_partner *partner)
{
    struct answer answer = tell(partner, &(struct order){.act = STATISTICS});

    OK(answer.status);
    return answer.stats;
}

tarn_status test_partner_disconnect(struct test_partner *partner)
{
    return tell(partner, &(struct order){.act = DISCONNECT}).status;
}

void test_partner_fill(struct test_partner *partner, void *address, uint32_t value, size_t words)
{
    struct order order = {.act = FILL, .address = address, .value = value, .number = words};

    ck_assert_int_eq(tell(partner, &order).status, TARN_OK);
}

bool test_partner_finds(struct test_partner *partner, const void *address, uint32_t value,
                        size_t words)
{
    struct order order = {
        .act = FIND, .address = (void *)(uintptr_t)address, .value = value, .number = words};

    return tell(partner, &order).found;
}
