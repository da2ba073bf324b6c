// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/contract.h"
#include "say.h"

enum { EVENTS = 20 };

static const struct option all[] = {
    {"output", required_argument, NULL, 'o'},
    {"json", no_argument, NULL, 'j'},
    {"events", required_argument, NULL, 'e'},
    {"pool", required_argument, NULL, 'p'},
    {"top", required_argument, NULL, 't'},
    {"block", required_argument, NULL, 'b'},
    {"debug", required_argument, NULL, 'd'},
    {"to", required_argument, NULL, 'f'},
    {NULL, 0, NULL, 0},
};

/* Digits alone, or 0x and digits. */
static bool read_number(const char *text, uint64_t *number)
{
    const bool is_hexadecimal = strncmp(text, "0x", 2) == 0;
    const char *digits = is_hexadecimal ? text + 2 : text;
    char *end;

    if (*digits == '\0' ||
        strspn(digits, is_hexadecimal ? "0123456789abcdefABCDEF" : "0123456789") != strlen(digits))
        return false;
    errno = 0;
    *number = strtoull(digits, &end, is_hexadecimal ? 16 : 10);
    return errno == 0;
}

static bool set_option(struct options *options, int letter, const char *argument)
{
    uint64_t number = 0;

    if (letter == 'o') {
        options->out = argument;
        return *argument != '\0' || (say(ANSWER_WRONG, "-o needs the name of a file"), false);
    }
    if (letter == 'f') {
        options->format = argument;
        return true;
    }
    if (letter == 'd') {
        options->debug = argument;
        return true;
    }
    if (letter == 'j') {
        options->as_json = true;
        return true;
    }
    if (!read_number(argument, &number)) {
        (void)say(ANSWER_WRONG, "\"%s\" is no number", argument);
        return false;
    }
    switch (letter) {
    case 'e':
        options->has_events = true;
        options->events = (size_t)number;
        break;
    case 't':
        options->has_top = true;
        options->top = (size_t)number;
        break;
    case 'p':
        options->by_pool = true;
        options->pool = number;
        break;
    default:
        options->by_address = true;
        options->address = number;
        break;
    }
    return true;
}

static bool has_operands(struct options *options, int count, char **arguments, unsigned operands)
{
    const char **const places[OPTIONS_OPERANDS_MAX] = {&options->what, &options->other};

    TN_ASSERT(operands <= OPTIONS_OPERANDS_MAX);
    for (unsigned i = 0; i < operands; i++) {
        if (optind >= count) {
            (void)say(ANSWER_WRONG, "%s needs %s; try \"tarn help\"", arguments[0],
                      operands == 1 ? "a PID or a FILE" : "two of PID or FILE");
            return false;
        }
        *places[i] = arguments[optind++];
    }
    if (optind < count) {
        (void)say(ANSWER_WRONG, "%s does not take \"%s\"; try \"tarn help\"", arguments[0],
                  arguments[optind]);
        return false;
    }
    return true;
}

/* Says which option is wrong: as it was written, or by its name. */
static bool refuse(char **arguments, int letter)
{
    const struct option *option = all;

    while (option->name != NULL && option->val != letter)
        option += 1;
    if (letter == ':')
        (void)say(ANSWER_WRONG, "%s needs a value", arguments[optind - 1]);
    else if (letter == '?' && optopt != 0)
        (void)say(ANSWER_WRONG, "%s does not take \"-%c\"; try \"tarn help\"", arguments[0],
                  optopt);
    else
        (void)say(ANSWER_WRONG, "%s does not take \"%s%s\"; try \"tarn help\"", arguments[0],
                  letter == '?' ? "" : "--", letter == '?' ? arguments[optind - 1] : option->name);
    return false;
}

bool options_read(struct options *options, int count, char **arguments, const char *known,
                  unsigned operands)
{
    int letter;

    *options = (struct options){.events = EVENTS};
    opterr = 0;
    optind = 0; /* it begins anew */
    while ((letter = getopt_long(count, arguments, ":o:", all, NULL)) != -1) {
        if (letter == '?' || letter == ':' || strchr(known, letter) == NULL)
            return refuse(arguments, letter);
        if (!set_option(options, letter, optarg))
            return false;
    }
    return has_operands(options, count, arguments, operands);
}
