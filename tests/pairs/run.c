// SPDX-License-Identifier: Apache-2.0
/* Runs the cells, each run in a process of its own, and prints their table.
 *
 *   pairs [--part I/N] [--seeds N] [--places N] [--repeats N] [--seed N] [--place N] [--known FILE]
 *         [--failures N] [FIRST ORDER SECOND]
 *   pairs --list
 *
 * seeds: runs of a cell whose order is fixed; the kinds of checkpoints follow from the seed. places: of amid, where
 * the first one stands, spread over all that there are; 0: each one. repeats: of beside. A failing run prints the line
 * that repeats it. failures: behind so many cells that fail nothing more is run. A name may be *.
 *
 * FILE lists cells that fail today: when; first; order; second; what it says. "always": the cell must fail, and when it
 * passes the line is to go; "sometimes": it may. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pairs/pairs.h"

#define PAIRS_ADDRESS(name) &pairs_##name,
const struct pairs_module *const pairs_modules[PAIRS_MODULES] = {PAIRS_MODULE_LIST(PAIRS_ADDRESS)};
#undef PAIRS_ADDRESS

static const char *const order_names[PAIRS_ORDERS] = {"then", "within", "amid", "beside"};

struct cell {
    const struct pairs_module *first;
    const struct pairs_module *second;
    enum pairs_order order;
};

/* Cells that cannot be: first, order, second, and why. NULL stands for any. */
struct excuse {
    const struct pairs_module *first;
    const struct pairs_module *second;
    enum pairs_order order;
    const char *why;
};
static const struct excuse excuses[] = {
    {&pairs_ladder, &pairs_ladder, PAIRS_BESIDE,
     "both would set and lift the one limit of the device"},
    {&pairs_ladder, &pairs_callback_left, PAIRS_BESIDE,
     "both would set and lift the one limit of the device"},
    {&pairs_callback_left, &pairs_callback_left, PAIRS_BESIDE,
     "both would set and lift the one limit of the device"},
};
enum { EXCUSES = sizeof excuses / sizeof excuses[0] };

static const char *excuse_of(const struct cell *cell)
{
    for (size_t i = 0; i < EXCUSES; i++) {
        if (excuses[i].first == cell->first && excuses[i].second == cell->second &&
            excuses[i].order == cell->order)
            return excuses[i].why;
    }
    return NULL;
}

/* What a run tells its parent. */
static struct {
    uint64_t places;
    bool has_stood;
    char place[64];
    char sentence[64]; /* with which the process is to end; "": with none */
} * told;

void pairs_expect_end(const char *sentence)
{
    (void)snprintf(told->sentence, sizeof told->sentence, "%s", sentence);
}

/* One run ---------------------------------------------------------------------------------------- */

static struct pairs_member members[2];

static void begin_and_end(struct pairs_member *m)
{
    m->module->begin(m);
    pairs_step();
    m->module->end(m);
    pairs_step();
}

static void act_inside(struct pairs_member *outer)
{
    begin_and_end(outer->other);
}

static void run_then(void)
{
    begin_and_end(&members[0]);
    begin_and_end(&members[1]);
}

static void run_within(void)
{
    struct pairs_member *outer = &members[0];

    outer->inside = outer->module->calls_back ? act_inside : NULL;
    outer->module->begin(outer);
    pairs_step();
    if (outer->inside != NULL || !outer->module->calls_back) {
        outer->inside = NULL;
        begin_and_end(outer->other);
    }
    outer->module->end(outer);
    pairs_step();
}

static void *act_amid(void *argument)
{
    struct pairs_member *m = argument;

    pairs_enter_thread();
    pairs_await_standing();
    m->module->begin(m);
    m->module->end(m);
    pairs_validate();
    pairs_go();
    return NULL;
}

static void run_amid(uint64_t place)
{
    struct pairs_member *m = &members[0];
    pthread_t thread;

    EXPECT(pthread_create(&thread, NULL, act_amid, &members[1]) == 0, "no thread");
    pairs_stand_at(place);
    m->module->begin(m);
    m->module->end(m);
    told->places = pairs_stand_over();
    told->has_stood = pairs_has_stood();
    (void)snprintf(told->place, sizeof told->place, "%s", pairs_place());
    EXPECT(pthread_join(thread, NULL) == 0, "no join");
}

static pthread_barrier_t start;

static void *act_beside(void *argument)
{
    struct pairs_member *m = argument;
    struct timespec pause;

    if (m->index == 1)
        pairs_enter_thread();
    pause = (struct timespec){0, (long)pairs_random(200000)};
    (void)pthread_barrier_wait(&start);
    (void)nanosleep(&pause, NULL);
    m->module->begin(m);
    m->module->end(m);
    pairs_validate();
    return NULL;
}

static void run_beside(void)
{
    pthread_t thread;

    EXPECT(pthread_barrier_init(&start, NULL, 2) == 0, "no barrier");
    EXPECT(pthread_create(&thread, NULL, act_beside, &members[1]) == 0, "no thread");
    (void)act_beside(&members[0]);
    EXPECT(pthread_join(thread, NULL) == 0, "no join");
}

static void verify(struct pairs_member *m)
{
    if (m->module->verify != NULL)
        m->module->verify(m);
}

static void finish(struct pairs_member *m)
{
    if (m->module->finish != NULL)
        m->module->finish(m);
    pairs_step();
}

static void run(const struct cell *cell, uint64_t seed, uint64_t place)
{
    int last = seed % 2 == 0 ? 1 : 0;

    pairs_world_open(cell->order, seed);
    pairs_member_init(&members[0], cell->first, 0);
    pairs_member_init(&members[1], cell->second, 1);
    members[0].other = &members[1];
    members[1].other = &members[0];
    for (int i = 0; i < 2; i++) {
        if (members[i].module->prepare != NULL)
            members[i].module->prepare(&members[i]);
        pairs_step();
    }
    switch (cell->order) {
    case PAIRS_THEN:
        run_then();
        break;
    case PAIRS_WITHIN:
        run_within();
        break;
    case PAIRS_AMID:
        run_amid(place);
        break;
    default:
        run_beside();
    }
    pairs_step();
    verify(&members[0]);
    verify(&members[1]);
    pairs_look();
    finish(&members[1 - last]);
    verify(&members[last]);
    finish(&members[last]);
    pairs_world_close();
}

/* What the child says, until it is gone. One that hangs is ended from here: its main thread may have ended, and those
 * that are left may take no signal but this one. True: it was. */
static bool read_all(int from, pid_t child, char *text, size_t text_bytes)
{
    const char *slow = getenv("CK_TIMEOUT_MULTIPLIER");
    time_t until = time(NULL) + (time_t)40 * (slow != NULL ? atoi(slow) : 1);
    struct pollfd polled = {.fd = from, .events = POLLIN};
    size_t length = 0;
    bool hung = false;
    ssize_t got = 1;

    while (got > 0 || (got < 0 && errno == EINTR)) {
        if (!hung && poll(&polled, 1, 1000) == 0) {
            hung = time(NULL) >= until && kill(child, SIGKILL) == 0;
            continue;
        }
        got = read(from, text + length, text_bytes - 1 - length);
        length += got > 0 ? (size_t)got : 0;
    }
    text[length] = '\0';
    return hung;
}

/* In a process of its own; true: it went well. What it said otherwise is in text. */
static bool run_apart(const struct cell *cell, uint64_t seed, uint64_t place, char *text,
                      size_t text_bytes)
{
    int pipes[2];
    int status = 0;
    bool hung;
    pid_t child;

    memset(told, 0, sizeof *told);
    (void)fflush(NULL);
    EXPECT(pipe(pipes) == 0, "no pipe");
    child = fork();
    EXPECT(child >= 0, "no fork");
    if (child == 0) {
        (void)close(pipes[0]);
        (void)dup2(pipes[1], STDERR_FILENO);
        (void)close(pipes[1]);
        run(cell, seed, place);
        _exit(0);
    }
    (void)close(pipes[1]);
    hung = read_all(pipes[0], child, text, text_bytes);
    (void)close(pipes[0]);
    while (waitpid(child, &status, 0) < 0)
        EXPECT(errno == EINTR, "no child");
    if (told->sentence[0] != '\0' && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
        strstr(text, told->sentence) != NULL)
        return true;
    if (told->sentence[0] != '\0' && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        (void)snprintf(text, text_bytes, "it goes on where it should end");
    if (WIFSIGNALED(status))
        (void)snprintf(text + strlen(text), text_bytes - strlen(text), "%s",
                       hung ? "it hangs" : strsignal(WTERMSIG(status)));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 && told->sentence[0] == '\0';
}

/* Known failures ---------------------------------------------------------------------------------- */

enum { KNOWN_MAX = 128 };

static struct known {
    char line[512];
    const char *fields[5]; /* when, first, order, second, text */
    bool was_met;
} known[KNOWN_MAX];
static size_t known_count;

static char *trimmed(char *text)
{
    char *end;

    while (*text == ' ')
        text += 1;
    end = text + strlen(text);
    while (end > text && (end[-1] == ' ' || end[-1] == '\n'))
        *--end = '\0';
    return text;
}

static void read_known(const char *path)
{
    FILE *file = fopen(path, "r");

    EXPECT(file != NULL, "%s cannot be read", path);
    while (known_count < KNOWN_MAX &&
           fgets(known[known_count].line, sizeof known[0].line, file) != NULL) {
        struct known *line = &known[known_count];
        char *rest = line->line;
        int count = 0;

        if (rest[0] == '#' || trimmed(rest)[0] == '\0')
            continue;
        for (; count < 4 && rest != NULL; count++)
            line->fields[count] = trimmed(strsep(&rest, ";"));
        EXPECT(count == 4 && rest != NULL, "%s: a line has five fields", path);
        line->fields[4] = trimmed(rest);
        known_count += 1;
    }
    (void)fclose(file);
}

static bool matches(const char *wanted, const char *name)
{
    return strcmp(wanted, "*") == 0 || strcmp(wanted, name) == 0;
}

static struct known *find_known(const struct cell *cell, const char *text)
{
    for (size_t i = 0; i < known_count; i++) {
        if (matches(known[i].fields[1], cell->first->name) &&
            matches(known[i].fields[2], order_names[cell->order]) &&
            matches(known[i].fields[3], cell->second->name) &&
            (text == NULL || strstr(text, known[i].fields[4]) != NULL))
            return &known[i];
    }
    return NULL;
}

/* Cells ------------------------------------------------------------------------------------------- */

struct settings {
    uint64_t part;
    uint64_t parts;
    uint64_t seeds;
    uint64_t places;
    uint64_t repeats;
    uint64_t seed;     /* of the first run */
    uint64_t place;    /* the one that is asked for; 0: none */
    uint64_t failures; /* after which it ends */
    const char *names[3];
};

struct tally {
    uint64_t cells;
    uint64_t runs;
    uint64_t excused;
    uint64_t failed;
    uint64_t known;
};

/* Runs until one fails. */
static bool run_once(const struct cell *cell, uint64_t seed, uint64_t place, struct tally *tally,
                     char *text, size_t text_bytes)
{
    const struct known *expected;

    tally->runs += 1;
    if (run_apart(cell, seed, place, text, text_bytes))
        return true;
    expected = find_known(cell, text);
    printf("%s: %s %s %s%s%s: %s\n    pairs --seed %llu --place %llu '%s' %s '%s'\n",
           expected != NULL ? "known" : "FAILED", cell->first->name, order_names[cell->order],
           cell->second->name, place != 0 ? " at " : "", place != 0 ? told->place : "", text,
           (unsigned long long)seed, (unsigned long long)place, cell->first->name,
           order_names[cell->order], cell->second->name);
    return false;
}

static bool run_places(const struct cell *cell, const struct settings *settings,
                       struct tally *tally, char *text, size_t text_bytes)
{
    uint64_t count;
    uint64_t step;

    if (settings->place != 0)
        return run_once(cell, settings->seed, settings->place, tally, text, text_bytes);
    if (!run_once(cell, settings->seed, UINT64_MAX, tally, text, text_bytes))
        return false;
    count = told->places;
    step = settings->places == 0 ? 1 : (count + settings->places - 1) / settings->places;
    for (uint64_t place = step / 2 + 1; step > 0 && place <= count; place += step) {
        if (!run_once(cell, settings->seed + place, place, tally, text, text_bytes))
            return false;
    }
    return true;
}

static void run_cell(const struct cell *cell, const struct settings *settings, struct tally *tally)
{
    static char text[16384];
    uint64_t runs = cell->order == PAIRS_BESIDE ? settings->repeats : settings->seeds;
    struct known *line;
    bool is_well = true;

    tally->cells += 1;
    if (excuse_of(cell) != NULL) {
        tally->excused += 1;
        return;
    }
    for (uint64_t i = 0; i < runs && is_well && cell->order != PAIRS_AMID; i++)
        is_well = run_once(cell, settings->seed + i, 0, tally, text, sizeof text);
    if (cell->order == PAIRS_AMID)
        is_well = run_places(cell, settings, tally, text, sizeof text);
    line = is_well ? find_known(cell, NULL) : find_known(cell, text);
    if (!is_well && line == NULL)
        tally->failed += 1;
    if (!is_well && line != NULL)
        tally->known += 1;
    if (is_well && line != NULL && strcmp(line->fields[0], "always") == 0) {
        printf("FAILED: %s %s %s passes, and is listed as failing: take it off the list\n",
               cell->first->name, order_names[cell->order], cell->second->name);
        tally->failed += 1;
    }
    (void)fflush(stdout);
}

/* Beside has no order: each two once. */
static bool is_cell(int first, int second, enum pairs_order order)
{
    return order != PAIRS_BESIDE || first <= second;
}

static void list(void)
{
    uint64_t cells = 0;

    puts("Which features meet, and how: generated by pairs --list from tests/pairs.");
    puts("");
    for (int i = 0; i < PAIRS_MODULES; i++)
        printf("%2d %-22s %s\n", i + 1, pairs_modules[i]->name, pairs_modules[i]->what);
    for (int order = 0; order < PAIRS_ORDERS; order++) {
        printf(
            "\n%s: the first one's line, the second one's column; x: run, -: excused, blank: the other way\n   ",
            order_names[order]);
        for (int i = 0; i < PAIRS_MODULES; i++)
            printf(" %2d", i + 1);
        for (int i = 0; i < PAIRS_MODULES; i++) {
            printf("\n%3d", i + 1);
            for (int k = 0; k < PAIRS_MODULES; k++) {
                struct cell cell = {pairs_modules[i], pairs_modules[k], (enum pairs_order)order};
                bool is_one = is_cell(i, k, cell.order);

                cells += is_one;
                if (is_one)
                    printf("  %c", excuse_of(&cell) != NULL ? '-' : 'x');
            }
        }
        puts("");
    }
    printf("\n%llu cells, %d excused\n", (unsigned long long)cells, (int)EXCUSES);
    for (size_t i = 0; i < EXCUSES; i++)
        printf("%s %s %s: %s\n", excuses[i].first->name, order_names[excuses[i].order],
               excuses[i].second->name, excuses[i].why);
}

static uint64_t number(const char *text)
{
    return strtoull(text, NULL, 0);
}

static void read_setting(struct settings *settings, const char *name, const char *value)
{
    if (strcmp(name, "--part") == 0) {
        const char *slash = strchr(value, '/');

        EXPECT(slash != NULL, "--part I/N");
        settings->part = number(value) - 1;
        settings->parts = number(slash + 1);
    } else if (strcmp(name, "--seeds") == 0) {
        settings->seeds = number(value);
    } else if (strcmp(name, "--places") == 0) {
        settings->places = number(value);
    } else if (strcmp(name, "--repeats") == 0) {
        settings->repeats = number(value);
    } else if (strcmp(name, "--seed") == 0) {
        settings->seed = number(value);
    } else if (strcmp(name, "--place") == 0) {
        settings->place = number(value) == UINT64_MAX ? 0 : number(value);
    } else if (strcmp(name, "--failures") == 0) {
        settings->failures = number(value);
    } else if (strcmp(name, "--known") == 0) {
        read_known(value);
    } else {
        pairs_fail("no such option: %s", name);
    }
}

static struct tally run_all(const struct settings *settings)
{
    struct tally tally = {0};
    uint64_t at = 0;

    for (int order = 0; order < PAIRS_ORDERS; order++) {
        for (int i = 0; i < PAIRS_MODULES; i++) {
            for (int k = 0; k < PAIRS_MODULES; k++) {
                struct cell cell = {pairs_modules[i], pairs_modules[k], (enum pairs_order)order};

                if (is_cell(i, k, cell.order) && matches(settings->names[0], cell.first->name) &&
                    matches(settings->names[1], order_names[order]) &&
                    matches(settings->names[2], cell.second->name) &&
                    at++ % settings->parts == settings->part && tally.failed < settings->failures)
                    run_cell(&cell, settings, &tally);
            }
        }
    }
    return tally;
}

int main(int argc, char **argv)
{
    struct settings settings = {0, 1, 1, 3, 4, 1, 0, UINT64_MAX, {"*", "*", "*"}};
    struct tally tally;
    int at = 1;
    time_t began = time(NULL);

    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        list();
        return 0;
    }
    settings.seed = test_seed("TARN_PAIRS_SEED", 1);
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2)
        read_setting(&settings, argv[at], argv[at + 1]);
    for (int i = 0; i < 3 && at < argc; i++)
        settings.names[i] = argv[at++];
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(told != MAP_FAILED && settings.parts > 0, "no memory, or no part");
    tally = run_all(&settings);
    EXPECT(tally.cells > 0, "there is no such cell");
    printf("%llu cells in %llu runs, %llu excused, %llu known to fail, %llu failed; %lld s\n",
           (unsigned long long)tally.cells, (unsigned long long)tally.runs,
           (unsigned long long)tally.excused, (unsigned long long)tally.known,
           (unsigned long long)tally.failed, (long long)(time(NULL) - began));
    return tally.failed == 0 ? 0 : 1;
}
