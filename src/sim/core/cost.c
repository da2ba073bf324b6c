// SPDX-License-Identifier: Apache-2.0
/* cost.c -- reads costs, charges calls, keeps the account.
 *
 * How it works. Each function has a few points (size, cost), a cost of the call itself, and two
 * sums. The calling thread adds up the call's cost while the body runs, and enters the sum when the
 * body returns. A call that waits, and lets others in, therefore keeps its own sum.
 *
 * Trade-offs. The account is of calls made one at a time: a real driver serialises calls of several
 * threads, and each then takes longer; here each costs as much as alone. A call that stalls others is
 * an exception where calls take as long as they cost: others begin behind it. One that has begun
 * goes on beside it. A call that waits for the
 * device does not cost the wait either: device work takes no virtual time. A file with an error is
 * refused whole, since half a table of costs would look like a measurement. */
#include "sim/core/cost.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_POINTS 16
#define MAX_LINE 512
#define MAX_PATH 4096
#define SPIN_NS 100000 /* shorter waits are too short for the system's timers */
#define NS_PER_S 1000000000u
#define MAX_NS 1e18   /* of a thing and of a call: more than any machine runs */
#define MAX_SIZE 1e18 /* no address space holds as much */

struct point {
    double size;
    double ns;
};

struct cost {
    bool given;
    bool stalls;
    double call_ns;
    size_t count;
    struct point points[MAX_POINTS]; /* sizes rise */
};

static struct cost costs[TN_SIM_FUNCTION_COUNT];
static tarn_sim_cost account[TN_SIM_FUNCTION_COUNT];
static bool loaded;      /* the costs are loaded */
static uint64_t time_ns; /* of all calls so far: the account's, which no reset sets back */
static uint64_t longest_stall_ns;

static double interpolate(const struct cost *cost, double size)
{
    if (cost->count == 0)
        return 0;
    if (cost->count == 1 || size <= cost->points[0].size)
        return cost->points[0].ns;
    size_t above = 1;
    while (above + 1 < cost->count && cost->points[above].size < size)
        above++;
    const struct point *low = &cost->points[above - 1];
    const struct point *high = &cost->points[above];
    double ns = low->ns + (high->ns - low->ns) * (size - low->size) / (high->size - low->size);
    return ns < 0 ? 0 : ns < MAX_NS ? ns : MAX_NS;
}

void tn_sim_charge_as(enum tn_sim_function function, size_t size)
{
    struct tn_sim_thread *self = tn_sim_self();
    self->charged = true;
    self->charge_ns += (uint64_t)interpolate(&costs[function], (double)size);
}

void tn_sim_charge(size_t size)
{
    tn_sim_charge_as(tn_sim_self()->function, size);
}

uint64_t tn_sim_cost_enter(struct tn_sim_thread *thread)
{
    const struct cost *cost = &costs[thread->function];
    if (!thread->charged)
        thread->charge_ns = (uint64_t)interpolate(cost, 0);
    uint64_t ns = thread->charge_ns + (uint64_t)cost->call_ns;
    thread->driver_ns += ns;
    time_ns += ns;
    account[thread->function].calls++;
    account[thread->function].ns += ns;
    if (cost->stalls && ns > longest_stall_ns)
        longest_stall_ns = ns;
    return ns;
}

bool tn_sim_cost_stalls(enum tn_sim_function function)
{
    return costs[function].stalls;
}

bool tn_sim_cost_time(uint64_t *ns)
{
    if (!loaded || tn_sim.sleep)
        return false;
    *ns = time_ns;
    return true;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void tn_sim_cost_spend(uint64_t ns)
{
    uint64_t end = now_ns() + ns;
    if (ns > SPIN_NS) {
        ns -= SPIN_NS;
        struct timespec time = {.tv_sec = (time_t)(ns / NS_PER_S),
                                .tv_nsec = (long)(ns % NS_PER_S)};
        nanosleep(&time, NULL);
    }
    while (now_ns() < end)
        continue;
}

/* Reads a size with its unit, a whole number of bytes. Returns the text behind the size, or
 * NULL. */
static const char *read_size(const char *text, double *size)
{
    static const char units[] = "KMGT";
    char *end;
    *size = strtod(text, &end);
    if (end == text)
        return NULL;
    const char *unit = *end == '\0' ? NULL : strchr(units, *end);
    if (unit != NULL) {
        for (const char *step = units; step <= unit; step++)
            *size *= 1024;
        end++;
    }
    return *size >= 0 && *size <= MAX_SIZE && (double)(uint64_t)*size == *size ? end : NULL;
}

static bool read_ns(const char *text, double *ns)
{
    char *end;
    *ns = strtod(text, &end);
    return end != text && *end == '\0' && *ns >= 0 && *ns <= MAX_NS;
}

/* Reads a single word about a function: stalls, call:NS, SIZE:NS or NS. */
static bool read_word(struct cost *cost, const char *word)
{
    struct point point = {0};
    if (strcmp(word, "stalls") == 0) {
        cost->stalls = true;
        return true;
    }
    if (strncmp(word, "call:", 5) == 0)
        return read_ns(word + 5, &cost->call_ns);
    if (strchr(word, ':') != NULL) {
        word = read_size(word, &point.size);
        if (word == NULL || *word++ != ':')
            return false;
    }
    if (!read_ns(word, &point.ns) || cost->count == MAX_POINTS ||
        (cost->count > 0 && cost->points[cost->count - 1].size >= point.size))
        return false;
    cost->points[cost->count++] = point;
    return true;
}

/* Reads a line into a table that has an entry for each function and another for `*`. */
static bool read_line(struct cost *table, char *line)
{
    char *rest = NULL;
    char *comment = strchr(line, '#');
    if (comment != NULL)
        *comment = '\0';
    char *name = strtok_r(line, " \t\r\n", &rest);
    if (name == NULL)
        return true;
    enum tn_sim_function function = tn_sim_function_named(name);
    struct cost *cost = &table[function];
    if ((function == TN_SIM_FUNCTION_COUNT && strcmp(name, "*") != 0) || cost->given)
        return false;
    cost->given = true;
    const char *word = strtok_r(NULL, " \t\r\n", &rest);
    if (word == NULL)
        return false;
    for (; word != NULL; word = strtok_r(NULL, " \t\r\n", &rest)) {
        if (!read_word(cost, word))
            return false;
    }
    return true;
}

/* The file of a name: a path as given, or a file beside the library. */
static void find_file(const char *name, char *path, size_t size)
{
    Dl_info here;
    char *library = NULL;
    /* The library may have been found through a link, and its files lie beside it. */
    if (strpbrk(name, "/.") == NULL && dladdr(&tn_sim, &here) != 0)
        library = realpath(here.dli_fname, NULL);
    char *slash = library == NULL ? NULL : strrchr(library, '/');
    if (slash == NULL) {
        snprintf(path, size, "%s", name);
    } else {
        *slash = '\0';
        snprintf(path, size, "%s/tarn-sim/%s.costs", library, name);
    }
    free(library);
}

bool tn_sim_costs_load(const char *name)
{
    char path[MAX_PATH];
    char line[MAX_LINE];
    find_file(name, path, sizeof path);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        fprintf(stderr, "tarn_sim: costs: %s: %s\n", path, strerror(errno));
        return false;
    }
    struct cost *table = calloc(TN_SIM_FUNCTION_COUNT + 1, sizeof *table);
    bool good = table != NULL;
    for (int number = 1; good && fgets(line, sizeof line, file) != NULL; number++) {
        char copy[MAX_LINE];
        snprintf(copy, sizeof copy, "%s", line);
        good = (strchr(line, '\n') != NULL || feof(file)) && read_line(table, line);
        if (!good)
            fprintf(stderr, "tarn_sim: costs: %s:%d: not understood: %s", path, number, copy);
    }
    fclose(file);
    for (int i = 0; good && i < TN_SIM_FUNCTION_COUNT; i++)
        costs[i] = table[i].given ? table[i] : table[TN_SIM_FUNCTION_COUNT];
    loaded = loaded || good;
    free(table);
    return good;
}

void tn_sim_cost_write(void)
{
    if (tn_sim.account_path == NULL)
        return;
    FILE *file = fopen(tn_sim.account_path, "we");
    if (file == NULL) {
        fprintf(stderr, "tarn_sim: account: %s: %s\n", tn_sim.account_path, strerror(errno));
        return;
    }
    for (int i = 0; i < TN_SIM_FUNCTION_COUNT; i++) {
        if (account[i].calls > 0)
            fprintf(file, "%s %llu %llu\n", tn_sim_function_name((enum tn_sim_function)i),
                    (unsigned long long)account[i].calls, (unsigned long long)account[i].ns);
    }
    fclose(file);
}

void tarn_sim_read_account(const char *function, tarn_sim_cost *cost)
{
    *cost = (tarn_sim_cost){0};
    if (!tn_sim_enter_control())
        return;
    enum tn_sim_function only =
        function == NULL ? TN_SIM_FUNCTION_COUNT : tn_sim_function_named(function);
    for (int i = 0; i < TN_SIM_FUNCTION_COUNT; i++) {
        if (function == NULL || i == (int)only) {
            cost->calls += account[i].calls;
            cost->ns += account[i].ns;
        }
    }
    tn_sim_leave();
}

uint64_t tarn_sim_thread_ns(void)
{
    return tn_sim_self()->driver_ns;
}

uint64_t tarn_sim_longest_stall_ns(void)
{
    if (!tn_sim_enter_control())
        return 0;
    uint64_t ns = longest_stall_ns;
    tn_sim_leave();
    return ns;
}

void tarn_sim_reset_account(void)
{
    if (!tn_sim_enter_control())
        return;
    memset(account, 0, sizeof account);
    longest_stall_ns = 0;
    tn_sim_leave();
}
