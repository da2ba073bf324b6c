// SPDX-License-Identifier: Apache-2.0
/* context_made.c -- how contexts are made with parameters: the later versions of cuCtxCreate.
 *
 * Each row is a case in a process to itself, for a driver may follow what it is given. The answers are
 * shown, and the recorded lines know them. */
#include <stdlib.h>
#include <string.h>

#include "contract/contract.h"

/* As the driver has them; nobody else here needs their layout. */
struct affinity {
    int type; /* 0: a number of multiprocessors */
    unsigned int value;
};

struct client {
    int type; /* 1: a queue of another API, 2: a blob */
    void *shared;
};

struct params {
    struct affinity *affinities;
    int affinity_count;
    struct client *client;
};

typedef tn_cu_result (*create_v3)(tn_cu_context *, struct affinity *, int, unsigned int,
                                  tn_cu_device);
typedef tn_cu_result (*create_v4)(tn_cu_context *, struct params *, unsigned int, tn_cu_device);

static struct affinity eight[] = {{0, 8}, {0, 8}};
static struct affinity nothing[] = {{0, 0}};
static struct affinity all[] = {{0, 132}};
static struct affinity too_many[] = {{0, 133}};
static struct affinity unknown[] = {{1, 8}};
static struct affinity negative[] = {{-1, 8}};
static struct client no_client = {0, NULL};
static struct client queue = {1, NULL};
static struct client blob = {2, NULL};
static struct client unknown_client = {3, NULL};

static const struct row {
    const char *name;
    bool given; /* parameters at all */
    struct params params;
    unsigned int flags;
    tn_cu_device device;
} rows[] = {
    {"null", false, {NULL, 0, NULL}, 0, 0},
    {"null-flags", false, {NULL, 0, NULL}, 1, 0},
    {"null-bad-flags", false, {NULL, 0, NULL}, 3, 0},
    {"null-unknown-flags", false, {NULL, 0, NULL}, 0x100, 0},
    {"null-bad-device", false, {NULL, 0, NULL}, 0, 99},
    {"zeroed", true, {NULL, 0, NULL}, 0, 0},
    {"zeroed-flags", true, {NULL, 0, NULL}, 1, 0},
    {"zeroed-bad-flags", true, {NULL, 0, NULL}, 3, 0},
    {"zeroed-bad-device", true, {NULL, 0, NULL}, 0, 99},
    {"count-of-nothing", true, {NULL, 1, NULL}, 0, 0},
    {"negative-count-of-nothing", true, {NULL, -1, NULL}, 0, 0},
    {"no-count", true, {eight, 0, NULL}, 0, 0},
    {"negative-count", true, {eight, -1, NULL}, 0, 0},
    {"eight", true, {eight, 1, NULL}, 0, 0},
    {"eight-bad-flags", true, {eight, 1, NULL}, 3, 0},
    {"eight-bad-device", true, {eight, 1, NULL}, 0, 99},
    {"eight-twice", true, {eight, 2, NULL}, 0, 0},
    {"none", true, {nothing, 1, NULL}, 0, 0},
    {"all", true, {all, 1, NULL}, 0, 0},
    {"too-many", true, {too_many, 1, NULL}, 0, 0},
    {"unknown-type", true, {unknown, 1, NULL}, 0, 0},
    {"negative-type", true, {negative, 1, NULL}, 0, 0},
    {"client-none", true, {NULL, 0, &no_client}, 0, 0},
    {"client-queue", true, {NULL, 0, &queue}, 0, 0},
    {"client-blob", true, {NULL, 0, &blob}, 0, 0},
    {"client-unknown", true, {NULL, 0, &unknown_client}, 0, 0},
    {"client-and-affinity", true, {eight, 1, &queue}, 0, 0},
    {"client-and-no-count", true, {eight, 0, &queue}, 0, 0},
    {"client-and-count-of-nothing", true, {NULL, 1, &queue}, 0, 0},
};
#define ROW_COUNT (sizeof rows / sizeof rows[0])

struct made_case {
    const struct row *row; /* NULL: nowhere to put it */
    int version;
    char name[64];
    char sentence[128];
};

static tn_cu_result create(const struct made_case *c, tn_cu_context *context)
{
    const struct row *row = c->row;
    create_v3 third;
    create_v4 fourth;
    void *found = NULL;
    SET_UP(cuGetProcAddress("cuCtxCreate", &found, c->version == 3 ? 11040 : 12050,
                            TN_CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL));
    if (found == NULL)
        return CONTRACT_ABSENT;
    memcpy(&third, &found, sizeof third);
    memcpy(&fourth, &found, sizeof fourth);
    if (row == NULL)
        return c->version == 3 ? third(NULL, NULL, 0, 0, 0) : fourth(NULL, NULL, 0, 0);
    struct params params = row->params;
    if (c->version == 3)
        return third(context, params.affinities, params.affinity_count, row->flags, row->device);
    return fourth(context, row->given ? &params : NULL, row->flags, row->device);
}

static void run(const void *argument)
{
    const struct made_case *c = argument;
    tn_cu_context none = (tn_cu_context)(uintptr_t)7;
    tn_cu_context context = none;
    tn_cu_result result = contract_shows("cuCtxCreate(", create(c, &context));
    STATE("%s", context == none ? "untouched" : context == NULL ? "NULL" : "a context");
    STATE("%s", contract_current() == NULL      ? "none is current"
                : contract_current() == context ? "it is current"
                                                : "another one is current");
    if (result != TN_CUDA_SUCCESS)
        return;
    tn_cu_device device = 7;
    SHOWS(cuCtxGetDevice(&device));
    STATE("device %d", device);
    SHOWS(cuCtxDestroy(context));
}

static void add(struct contract_case *to, struct made_case *data, const struct row *row,
                int version)
{
    const char *name = row == NULL ? "nowhere" : row->name;
    *data = (struct made_case){.row = row, .version = version};
    snprintf(data->name, sizeof data->name, "v%d.%s", version, name);
    snprintf(data->sentence, sizeof data->sentence,
             "A context is asked for with parameters, %s, in version %d.", name, version);
    *to = (struct contract_case)CASE_ALONE(data->name, data->sentence, run);
    to->argument = data;
}

/* The third version has affinities alone. */
static bool in_third(const struct row *row)
{
    return row->given && row->params.client == NULL;
}

static const struct contract_case *make(size_t *count)
{
    struct contract_case *cases = calloc(2 * (ROW_COUNT + 1), sizeof *cases);
    struct made_case *data = calloc(2 * (ROW_COUNT + 1), sizeof *data);
    if (cases == NULL || data == NULL)
        abort();
    *count = 0;
    for (int version = 3; version <= 4; version++) {
        for (size_t i = 0; i <= ROW_COUNT; i++) {
            const struct row *row = i == ROW_COUNT ? NULL : &rows[i];
            if (version == 3 && row != NULL && !in_third(row))
                continue;
            add(&cases[*count], &data[*count], row, version);
            *count += 1;
        }
    }
    return cases;
}

const struct contract_group contract_context_made = {
    .name = "context_made", .start = START_INIT, .make = make};
