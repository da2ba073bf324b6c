// SPDX-License-Identifier: Apache-2.0
/* A picture goes to the terminal in one piece, so that none is seen half. */
#include "screen.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/contract.h"
#include "text.h"

enum { LINE_BYTES = 1024, WIDTH = 100, WIDTH_MIN = 20, ESCAPE = 27 };

static struct termios before; /* the terminal's settings */
static volatile sig_atomic_t is_stopped;

static void stop(int number)
{
    (void)number;
    is_stopped = 1;
}

void screen_begin(struct screen *screen)
{
    *screen = (struct screen){.file = stdout, .is_terminal = isatty(STDOUT_FILENO) == 1};
    if (!screen->is_terminal)
        return;
    (void)signal(SIGINT, stop);
    (void)signal(SIGTERM, stop);
    if (tcgetattr(STDIN_FILENO, &before) == 0) {
        struct termios now = before;

        now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &now);
    }
    (void)fputs("\033[?25l\033[2J", screen->file); /* no cursor, an empty screen */
}

void screen_end(struct screen *screen)
{
    if (!screen->is_terminal)
        return;
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    (void)fputs("\033[?25h", screen->file);
    (void)fflush(screen->file);
}

void screen_start(struct screen *screen)
{
    struct winsize size;

    screen->lines = 0;
    screen->width = WIDTH;
    screen->height = UINT16_MAX;
    if (!screen->is_terminal)
        return;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 1) {
        screen->width = size.ws_col < WIDTH_MIN ? WIDTH_MIN : size.ws_col;
        screen->height = size.ws_row - 1U;
    }
    (void)fputs("\033[H", screen->file);
}

void screen_line(struct screen *screen, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    size_t at = 0;

    if (screen->lines >= screen->height)
        return;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    for (unsigned column = 0; line[at] != '\0' && column < screen->width; column++) {
        const unsigned bytes = text_character_bytes((const unsigned char *)line + at);

        if (bytes == 0)
            line[at] = '?';
        at += bytes > 0 ? bytes : 1;
    }
    TN_ASSERT(at < sizeof line);
    line[at] = '\0';
    text_put(screen->file, line);
    (void)fputs(screen->is_terminal ? "\033[K\n" : "\n", screen->file);
    screen->lines += 1;
}

bool screen_finish(struct screen *screen)
{
    if (screen->is_terminal)
        (void)fputs("\033[J", screen->file);
    return fflush(screen->file) == 0 && ferror(screen->file) == 0;
}

bool screen_wait(struct screen *screen, int milliseconds)
{
    struct pollfd input = {.fd = screen->is_deaf ? -1 : STDIN_FILENO, .events = POLLIN};
    ssize_t count = 0;
    char key = 0;

    TN_ASSERT(screen->is_terminal);
    if (is_stopped || poll(&input, 1, milliseconds) <= 0)
        return !is_stopped;
    if ((input.revents & POLLIN) != 0)
        count = read(STDIN_FILENO, &key, 1);
    if (count > 0)
        return key != 'q' && key != 'Q' && key != ESCAPE;
    screen->is_deaf = true; /* its end would be told again at once */
    (void)poll(NULL, 0, milliseconds);
    return !is_stopped;
}
