// SPDX-License-Identifier: Apache-2.0
/* guard.c -- SIGSEGV and SIGBUS of device work.
 *
 * How it works. The thread that runs device work leaves a place to jump back to. The handler jumps
 * to this place if the thread has left any, and otherwise hands the signal on. Either the earlier
 * handler gets the signal, or the handler restores the default and returns: the faulting
 * instruction then meets the default.
 *
 * Trade-offs. A faulting kernel is left in the middle: its memory and its own locks are lost, as on
 * the device. A program that replaces the handlers afterwards takes device faults upon itself. */
#include "sim/stream/guard.h"

#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

/* In static thread storage: the handler never has to allocate to read this variable. */
static _Thread_local sigjmp_buf *volatile way_back __attribute__((tls_model("initial-exec")));

static struct sigaction before_segv;
static struct sigaction before_bus;

static void hand_on(int signal, siginfo_t *info, void *machine)
{
    const struct sigaction *before = signal == SIGSEGV ? &before_segv : &before_bus;
    if ((before->sa_flags & SA_SIGINFO) != 0) {
        before->sa_sigaction(signal, info, machine);
    } else if (before->sa_handler == SIG_DFL || before->sa_handler == SIG_IGN) {
        struct sigaction plain = {.sa_handler = SIG_DFL};
        sigaction(signal, &plain, NULL);
    } else {
        before->sa_handler(signal);
    }
}

static void on_fault(int signal, siginfo_t *info, void *machine)
{
    if (way_back != NULL)
        siglongjmp(*way_back, 1);
    hand_on(signal, info, machine);
}

void tn_sim_guard_install(void)
{
    static bool installed;
    if (installed)
        return;
    installed = true;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &before_segv);
    sigaction(SIGBUS, &action, &before_bus);
}

bool tn_sim_guard_run(void (*work)(void *), void *argument)
{
    sigjmp_buf here;
    if (sigsetjmp(here, 1) != 0) {
        way_back = NULL;
        return false;
    }
    way_back = &here;
    work(argument);
    way_back = NULL;
    return true;
}
