// SPDX-License-Identifier: Apache-2.0
/* contract.c -- runs the cases of the driver's contract, one line each.
 *
 *   tarn_contract [--list] [PREFIX...]
 *
 * runs the cases whose "group/name" begins with one of the prefixes, or all; --list only names
 * them. TARN_DRIVER names the driver: "sim", "cuda", or a path; without it, "sim".
 *
 * A line is "ok", "DIFFERS" or "CRASHED", the case's name, its sentence, then after a bar each call
 * with its answer and each state, in order. Where an answer differs from the expected one both are
 * shown. Exit status: 0 when every line says ok, 1 otherwise, 2 when no case begins with the prefixes
 * or the command line is wrong.
 *
 * How it works. This program runs itself as a child for each run of cases that share a process, and
 * reads their lines through a pipe. A child that dies costs the case it was in its line; the next
 * child goes on behind it. */
#include "contract/contract.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CASE_PATIENCE_S 120 /* after which a case counts as hung */
#define LINE_BYTES 8192
#define LINES_FD 3 /* where a child writes its lines */

struct contract_driver cu;
void *contract_library;

static const struct contract_group *const groups[] = {
#define GROUP_ADDRESS(name) &contract_##name,
    CONTRACT_GROUPS(GROUP_ADDRESS)
#undef GROUP_ADDRESS
};
#define GROUP_COUNT (sizeof groups / sizeof groups[0])

/* -- What a case says of itself -- */

static char line[LINE_BYTES];
static size_t line_length;
static bool differs;
static jmp_buf case_end;

static void append(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void append_list(const char *format, va_list arguments)
{
    int length = vsnprintf(line + line_length, LINE_BYTES - line_length, format, arguments);
    line_length += (size_t)length;
    if (line_length >= LINE_BYTES) {
        fprintf(stderr, "contract: the line of a case is too long\n");
        abort();
    }
}

static void append(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append_list(format, arguments);
    va_end(arguments);
}

static void append_part(const char *prefix, const char *format, va_list arguments)
{
    append("; %s", prefix);
    append_list(format, arguments);
}

void contract_state(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append_part("", format, arguments);
    va_end(arguments);
}

void contract_holds(bool condition, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append_part(condition ? "" : "NOT: ", format, arguments);
    va_end(arguments);
    if (!condition)
        differs = true;
}

void contract_give_up(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append_part("gave up: ", format, arguments);
    va_end(arguments);
    differs = true;
    longjmp(case_end, 1);
}

void contract_skip(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append_part("skipped: ", format, arguments);
    va_end(arguments);
    longjmp(case_end, 1);
}

const char *contract_result_name(tn_cu_result result)
{
    static char number[32];
    if (result == CONTRACT_ABSENT)
        return "ABSENT";
    switch (result) {
#define NAME_CASE(name, value)                                                                     \
    case TN_CUDA_##name:                                                                           \
        return strncmp(#name, "ERROR_", 6) == 0 ? &#name[6] : #name;
        TN_CUDA_RESULTS(NAME_CASE)
#undef NAME_CASE
    }
    snprintf(number, sizeof number, "%d", (int)result);
    return number;
}

tn_cu_result contract_gives(tn_cu_result expected, const char *call, tn_cu_result got)
{
    append("; %.*s=%s", (int)strcspn(call, "("), call, contract_result_name(got));
    if (got != expected) {
        append(" (expected %s)", contract_result_name(expected));
        differs = true;
    }
    return got;
}

tn_cu_result contract_shows(const char *call, tn_cu_result got)
{
    return contract_gives(got, call, got);
}

void contract_set_up(const char *call, tn_cu_result got, const char *file, int number)
{
    if (got == TN_CUDA_SUCCESS)
        return;
    const char *base = strrchr(file, '/');
    contract_give_up("%.*s=%s in the set-up, %s:%d", (int)strcspn(call, "("), call,
                     contract_result_name(got), base == NULL ? file : base + 1, number);
}

/* -- The driver -- */

#define ABSENT(name, symbol, version, parameters, names)                                           \
    static tn_cu_result absent_##name parameters                                                   \
    {                                                                                              \
        return CONTRACT_ABSENT;                                                                    \
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
TN_CUDA_ALL_FUNCTIONS(ABSENT)
#pragma GCC diagnostic pop

static void load_driver(void)
{
    const char *wanted = getenv("TARN_DRIVER");
    const char *path = wanted;
    if (wanted == NULL || strcmp(wanted, "sim") == 0)
        path = "libtarn_sim.so";
    else if (strcmp(wanted, "cuda") == 0)
        path = "libcuda.so.1";
    contract_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (contract_library == NULL) {
        fprintf(stderr, "contract: %s\n", dlerror());
        exit(2);
    }
    tn_pfn_cuGetProcAddress look_up;
    void *found = dlsym(contract_library, "cuGetProcAddress_v2");
    if (found == NULL) {
        fprintf(stderr, "contract: %s is no driver of CUDA 12 or later\n", path);
        exit(2);
    }
    memcpy(&look_up, &found, sizeof look_up);
#define FIND(name, symbol, version, parameters, names)                                             \
    cu.name = absent_##name;                                                                       \
    if (look_up(#name, &found, version, TN_CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL) ==             \
            TN_CUDA_SUCCESS &&                                                                     \
        found != NULL)                                                                             \
        memcpy(&cu.name, &found, sizeof cu.name);
    TN_CUDA_ALL_FUNCTIONS(FIND)
#undef FIND
}

/* -- Children -- */

/* The cases of a group. Those that are made stay for the life of the process. */
static const struct contract_case *cases_of(size_t number, size_t *count)
{
    static const struct contract_case *made[GROUP_COUNT];
    const struct contract_group *group = groups[number];
    if (group->make == NULL) {
        *count = group->case_count;
        return group->cases;
    }
    made[number] = group->make(count);
    return made[number];
}

static bool start(enum contract_start what)
{
    tn_cu_context context;
    return what == START_NOTHING ||
           (cu.cuInit(0) == TN_CUDA_SUCCESS &&
            (what == START_INIT || (cu.cuDevicePrimaryCtxRetain(&context, 0) == TN_CUDA_SUCCESS &&
                                    cu.cuCtxSetCurrent(context) == TN_CUDA_SUCCESS)));
}

/* Whether a later case can use this process: no capture is left, the context works, or there is none
 * where there was none, and the thread has the mode that threads begin with. */
static bool clean(enum contract_start what)
{
    tn_cu_capture_mode mode = TN_CU_CAPTURE_MODE_GLOBAL;
    if (what == START_NOTHING)
        return true;
    if (cu.cuThreadExchangeStreamCaptureMode(&mode) != TN_CUDA_SUCCESS ||
        mode != TN_CU_CAPTURE_MODE_GLOBAL)
        return false;
    if (what == START_CONTEXT)
        return cu.cuCtxSynchronize() == TN_CUDA_SUCCESS;
    tn_cu_context context = NULL;
    unsigned int flags;
    int active = 1;
    return cu.cuCtxGetCurrent(&context) == TN_CUDA_SUCCESS && context == NULL &&
           cu.cuDevicePrimaryCtxGetState(0, &flags, &active) == TN_CUDA_SUCCESS && active == 0;
}

static void send_line(const char *verdict, const char *group, const struct contract_case *test)
{
    dprintf(LINES_FD, "%s %s/%s: %s |%s\n", verdict, group, test->name, test->sentence,
            line_length == 0 ? "" : line + 1);
}

/* Runs cases from `first` on, as long as they share this process. Before each it writes "?", so
 * that the parent knows where a child died. */
static int child(size_t group_number, size_t first)
{
    const struct contract_group *group = groups[group_number];
    size_t count;
    load_driver();
    const struct contract_case *cases = cases_of(group_number, &count);
    bool started = start(group->start);
    for (size_t i = first; i < count; i++) {
        if (cases[i].alone && i != first)
            return 0;
        dprintf(LINES_FD, "?\n");
        line_length = 0;
        differs = false;
        alarm(CASE_PATIENCE_S);
        if (setjmp(case_end) == 0) {
            if (!started)
                contract_give_up("the driver does not start");
            cases[i].run(cases[i].argument);
        }
        bool reusable = cases[i].alone || clean(group->start);
        if (!reusable)
            contract_holds(false, "it leaves a usable process");
        alarm(0);
        send_line(differs ? "DIFFERS" : "ok", group->name, &cases[i]);
        if (cases[i].alone || !reusable)
            return 0;
    }
    return 0;
}

static pid_t run_child(size_t group, size_t first, FILE **lines)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        char group_text[32];
        char first_text[32];
        snprintf(group_text, sizeof group_text, "%zu", group);
        snprintf(first_text, sizeof first_text, "%zu", first);
        dup2(ends[1], LINES_FD);
        if (groups[group]->devices > 0) {
            char devices[16];
            snprintf(devices, sizeof devices, "%d", groups[group]->devices);
            setenv("TARN_SIM_DEVICES", devices, 1);
        }
        execl("/proc/self/exe", "tarn_contract", "--child", group_text, first_text, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    *lines = fdopen(ends[0], "r");
    return pid;
}

/* -- Second processes of a case -- */

static int helper(const char *name, int socket)
{
    static const struct contract_helper helpers[] = {
#define HELPER_ROW(name) {#name, contract_helper_##name},
        CONTRACT_HELPERS(HELPER_ROW)
#undef HELPER_ROW
    };
    load_driver();
    alarm(CASE_PATIENCE_S);
    for (size_t i = 0; i < sizeof helpers / sizeof helpers[0]; i++) {
        if (strcmp(helpers[i].name, name) != 0)
            continue;
        if (setjmp(case_end) == 0)
            return helpers[i].run(socket);
        fprintf(stderr, "contract: the second process \"%s\"%s\n", name, line);
    }
    return 2;
}

/* -- The parent -- */

static char *const *prefixes;
static int prefix_count;

static bool wanted(const char *group, const char *name)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s", group, name);
    for (int i = 0; i < prefix_count; i++) {
        if (strncmp(full, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    }
    return prefix_count == 0;
}

/* Runs the cases of a group that share a process, from `first` on. Returns where to go on. */
static size_t run_some(size_t group, const struct contract_case *cases, size_t first, bool *all_ok)
{
    FILE *lines = NULL;
    char text[LINE_BYTES + 256];
    size_t begun = 0;
    size_t done = 0;
    pid_t pid = run_child(group, first, &lines);
    if (pid < 0 || lines == NULL) {
        fprintf(stderr, "contract: no process to be had\n");
        exit(2);
    }
    while (fgets(text, sizeof text, lines) != NULL) {
        if (strcmp(text, "?\n") == 0) {
            begun++;
            continue;
        }
        const struct contract_case *test = &cases[first + done++];
        if (!wanted(groups[group]->name, test->name))
            continue;
        fputs(text, stdout);
        *all_ok = *all_ok && strncmp(text, "ok ", 3) == 0;
    }
    fclose(lines);
    int status = 0;
    waitpid(pid, &status, 0);
    if (begun > done || done == 0) {
        const struct contract_case *test = &cases[first + done++];
        if (wanted(groups[group]->name, test->name)) {
            printf("CRASHED %s/%s: %s | %s %d\n", groups[group]->name, test->name, test->sentence,
                   WIFSIGNALED(status) ? "signal" : "status",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
            *all_ok = false;
        }
    }
    fflush(stdout);
    return first + done;
}

/* The release of the driver: what the kernel's module says, or that it is the simulated one. */
static const char *driver_release(void)
{
    static char release[64] = "of unknown release";
    if (dlsym(contract_library, "tarn_sim_register_kernel") != NULL)
        return "simulated";
    FILE *file = fopen("/sys/module/nvidia/version", "r");
    if (file != NULL && fgets(release, sizeof release, file) != NULL)
        release[strcspn(release, "\n")] = '\0';
    if (file != NULL)
        fclose(file);
    return release;
}

/* Says which driver this is, and when. */
static void head(void)
{
    char name[128] = "no device";
    int version = 0;
    time_t now = time(NULL);
    char date[32];
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    fflush(stdout);
    pid_t pid = fork(); /* the parent loads no driver, and so can fork again */
    if (pid == 0) {
        load_driver();
        cu.cuDriverGetVersion(&version);
        if (cu.cuInit(0) == TN_CUDA_SUCCESS)
            cu.cuDeviceGetName(name, sizeof name, 0);
        printf("# date %s, device %s, driver %s, which reports CUDA %d\n", date, name,
               driver_release(), version);
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--child") == 0)
        return child(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10));
    if (argc == 4 && strcmp(argv[1], "--helper") == 0)
        return helper(argv[2], atoi(argv[3]));
    bool list = argc > 1 && strcmp(argv[1], "--list") == 0;
    if (argc > 1 && argv[1][0] == '-' && !list) {
        fprintf(stderr, "usage: tarn_contract [--list] [PREFIX...]\n");
        return 2;
    }
    prefixes = &argv[list ? 2 : 1];
    prefix_count = argc - (list ? 2 : 1);
    bool all_ok = true;
    bool any = false;
    if (!list)
        head();
    for (size_t group = 0; group < GROUP_COUNT; group++) {
        size_t count;
        const struct contract_case *cases = cases_of(group, &count);
        for (size_t i = 0; i < count;) {
            if (!wanted(groups[group]->name, cases[i].name)) {
                i++;
                continue;
            }
            any = true;
            if (list) {
                printf("%s/%s: %s\n", groups[group]->name, cases[i].name, cases[i].sentence);
                i++;
            } else {
                i = run_some(group, cases, i, &all_ok);
            }
        }
    }
    if (!any) {
        fprintf(stderr, "contract: there is no such case\n");
        return 2;
    }
    return all_ok ? 0 : 1;
}
