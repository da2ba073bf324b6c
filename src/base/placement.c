// SPDX-License-Identifier: Apache-2.0
/* Bound memory prefers its node, and does not insist: a node without memory left would otherwise
 * have the system kill the process.
 *
 * The C library has no functions for nodes, and another library would be needed for two calls.
 * Container runtimes forbid mbind and move_pages to programs without CAP_SYS_NICE. A thread may
 * always choose its own processors, so threads that touch memory choose those of the node as
 * well.
 *
 * Trade-offs: a list of processors longer than the line that is read is cut. Then the thread runs on
 * part of the node. */
#include "base/placement.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/contract.h"

enum {
    PREFERRED = 1, /* the kernel's MPOL_PREFERRED */
    NODES_MAX = 1024,
    WORD_BITS = 64,
    LINE_BYTES = 1024,
    LOOKS_AT_ONCE = 512,
    TOUCH_STEP = 4096, /* no page of any processor that has CUDA is smaller */
};

bool tn_placement_bind(void *memory, size_t bytes, int node)
{
    unsigned long mask[NODES_MAX / WORD_BITS] = {0};
    int before = errno;
    bool bound;

    TN_ASSERT((uintptr_t)memory % TOUCH_STEP == 0);
    if (node < 0 || node >= NODES_MAX)
        return false;
    mask[node / WORD_BITS] |= 1UL << (node % WORD_BITS);
    bound =
        syscall(SYS_mbind, memory, bytes, PREFERRED, mask, (unsigned long)NODES_MAX + 1, 0) == 0;
    errno = before;
    return bound;
}

/* Adds the processors of a list, as "0-3,8", that are in may. */
static void read_list(char *list, const cpu_set_t *may, cpu_set_t *set)
{
    char *end = list;

    while (*end >= '0' && *end <= '9') {
        unsigned long first = strtoul(end, &end, 10);
        unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;

        for (unsigned long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++) {
            if (CPU_ISSET(cpu, may))
                CPU_SET(cpu, set);
        }
        if (*end == ',')
            end += 1;
    }
}

bool tn_placement_run_on(int node)
{
    char line[LINE_BYTES];
    cpu_set_t may;
    cpu_set_t set;
    FILE *file;

    if (node < 0 || sched_getaffinity(0, sizeof may, &may) != 0)
        return false;
    (void)snprintf(line, sizeof line, "/sys/devices/system/node/node%d/cpulist", node);
    file = fopen(line, "re");
    if (file == NULL)
        return false;
    CPU_ZERO(&set);
    if (fgets(line, sizeof line, file) != NULL)
        read_list(line, &may, &set);
    (void)fclose(file);
    return CPU_COUNT(&set) > 0 && sched_setaffinity(0, sizeof set, &set) == 0;
}

void tn_placement_touch(void *memory, size_t bytes)
{
    volatile char *first = memory;

    TN_ASSERT((uintptr_t)memory % TOUCH_STEP == 0);
    for (size_t at = 0; at < bytes; at += TOUCH_STEP)
        first[at] = 0;
}

bool tn_placement_find(const void *memory, size_t bytes, size_t step, int node, uint64_t *counted,
                       uint64_t *elsewhere)
{
    const void *pages[LOOKS_AT_ONCE];
    int nodes[LOOKS_AT_ONCE];
    int before = errno;

    TN_ASSERT(step > 0 && step % TOUCH_STEP == 0);
    *counted = 0;
    *elsewhere = 0;
    for (size_t at = 0; at < bytes;) {
        unsigned long count = 0;

        for (; count < LOOKS_AT_ONCE && at < bytes; at += step)
            pages[count++] = (const char *)memory + at;
        if (syscall(SYS_move_pages, 0, count, pages, NULL, nodes, 0) != 0) {
            errno = before;
            return false;
        }
        for (unsigned long i = 0; i < count; i++) {
            *counted += nodes[i] >= 0; /* below 0: no page is there */
            *elsewhere += nodes[i] >= 0 && nodes[i] != node;
        }
    }
    return true;
}

uint64_t tn_placement_huge_bytes(const void *memory, size_t bytes)
{
    const uint64_t first = (uintptr_t)memory;
    char line[LINE_BYTES];
    unsigned long begin = 0;
    unsigned long end = 0;
    unsigned long kib;
    uint64_t huge = 0;
    FILE *file = fopen("/proc/self/smaps", "re");

    if (file == NULL)
        return 0;
    while (begin < first + bytes && fgets(line, sizeof line, file) != NULL) {
        char *rest = line;
        unsigned long from = strtoul(line, &rest, 16);

        if (rest != line && *rest == '-') {
            begin = from;
            end = strtoul(rest + 1, NULL, 16);
        } else if (begin >= first && end <= first + bytes &&
                   sscanf(line, "AnonHugePages: %lu kB", &kib) == 1) {
            huge += (uint64_t)kib * TN_KIB;
        }
    }
    (void)fclose(file);
    return huge;
}
