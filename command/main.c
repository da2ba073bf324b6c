// SPDX-License-Identifier: Apache-2.0
/* tarn -- reads the histories that Tarn's devices leave: of processes that run, and of those that were
 * killed. It also runs programs to be recorded. It never calls the driver, but for
 * "tarn info". docs/command.md describes it. */
#include <stdio.h>
#include <string.h>

#include "convert.h"
#include "diff.h"
#include "dump.h"
#include "info.h"
#include "leaks.h"
#include "list.h"
#include "options.h"
#include "record.h"
#include "say.h"
#include "top.h"
#include "view.h"

static const char usage[] =
    "usage: tarn list  [--json] [-o FILE]\n"
    "       tarn dump  PID|FILE [--events N] [--pool N] [--block ADDRESS] [--top N]\n"
    "                  [--debug FOLDER] [--json] [-o FILE]\n"
    "       tarn leaks PID|FILE [--pool N] [--top N] [--debug FOLDER] [--json] [-o FILE]\n"
    "       tarn diff  PID|FILE PID|FILE [--pool N] [--top N] [--debug FOLDER] [--json]\n"
    "                  [-o FILE]\n"
    "       tarn top   PID|FILE [--top N] [--debug FOLDER]\n"
    "       tarn convert PID|FILE --to FORMAT [--debug FOLDER] [-o FILE]\n"
    "       tarn view  PID|FILE -o FILE.html [--events N] [--debug FOLDER]\n"
    "       tarn record [-o FILE] [--log SIZE] [--stacks KIND] [--sample SIZE] [--]\n"
    "                  PROGRAM [ARGUMENT...]\n"
    "       tarn info  [--json] [-o FILE]\n"
    "       tarn help | --help | --version\n"
    "\n"
    "list   the histories of this user: of processes that run, and of killed ones\n"
    "dump   the live blocks of a process, by pool and by stack, and its last events\n"
    "leaks  the live blocks by the stack of their allocation, worst first\n"
    "diff   what the second has more than the first, by pool, tag and stack, most growth first\n"
    "top    the live blocks and the rates of a process, again each second; q ends it\n"
    "convert a file of other tools: FORMAT is chrome, perfetto, pprof, pytorch or sqlite\n"
    "view   a picture of the memory over time, as a page for a browser\n"
    "record runs a program, and keeps its history in a file\n"
    "info   the driver and the devices, each of which is opened, and what Tarn takes of them\n"
    "\n"
    "  --events N       so many events, the last ones; 20 where none is named\n"
    "  --pool N         of this pool alone\n"
    "  --block ADDRESS  what happened to the blocks that have or had the address\n"
    "  --top N          so many stacks\n"
    "  --debug FOLDER   debug information is there, too: FOLDER/.build-id/xx/yyyy.debug\n"
    "  --json           JSON, with all stacks\n"
    "  -o FILE          into a file, which is there when it is whole\n"
    "  --log SIZE       of the events that are kept: 64M where none is named\n"
    "  --stacks KIND    none, caller, frames or unwind, which is used where none is named\n"
    "  --sample SIZE    a stack for one in so many bytes alone\n"
    "\n"
    "A number is a process; ./123 is a file. Exit status: 0 something was found, 1 nothing was,\n"
    "2 the usage is wrong, a file is no history, or the output cannot be written. Of record: the\n"
    "program's own, 128 and its signal, or 127 where it cannot be started.\n";

struct subcommand {
    const char *name;
    const char *known; /* of options.h */
    unsigned operands;
    enum answer (*run)(const struct options *options);
};

static const struct subcommand subcommands[] = {
    {"list", "oj", 0, list_run},        {"dump", "ojeptbd", 1, dump_run},
    {"leaks", "ojptd", 1, leaks_run},   {"diff", "ojptd", 2, diff_run},
    {"convert", "ofd", 1, convert_run}, {"view", "oed", 1, view_run},
    {"top", "td", 1, top_run},          {"info", "oj", 0, info_run},
};

static enum answer print(const char *text)
{
    if (fputs(text, stdout) < 0 || fflush(stdout) != 0)
        return say(ANSWER_WRONG, "standard output cannot be written");
    return ANSWER_FOUND;
}

int main(int count, char **arguments)
{
    struct options options;

    if (count < 2) {
        (void)fputs(usage, stderr);
        return ANSWER_WRONG;
    }
    if (strcmp(arguments[1], "help") == 0 || strcmp(arguments[1], "--help") == 0 ||
        strcmp(arguments[1], "-h") == 0)
        return (int)print(usage);
    if (strcmp(arguments[1], "--version") == 0)
        return (int)print("tarn " TARN_COMMAND_VERSION "\n");
    if (strcmp(arguments[1], "record") == 0)
        return record_run(count - 1, arguments + 1);
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++) {
        const struct subcommand *subcommand = &subcommands[i];

        if (strcmp(arguments[1], subcommand->name) != 0)
            continue;
        if (!options_read(&options, count - 1, arguments + 1, subcommand->known,
                          subcommand->operands))
            return ANSWER_WRONG;
        return (int)subcommand->run(&options);
    }
    return (int)say(ANSWER_WRONG, "there is no command \"%s\"; try \"tarn help\"", arguments[1]);
}
