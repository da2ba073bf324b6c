// SPDX-License-Identifier: Apache-2.0
/* Rows that nothing measures yet stand in the table too, and are printed as such: a limit that is
 * left out of the print is a limit that is forgotten. */
#include "limits.h"

#include <stddef.h>
#include <string.h>

// clang-format off
#define AT_MOST(row, variant, target, unit) {row, variant, unit, target, false, NULL}
#define AT_LEAST(row, variant, target, unit) {row, variant, unit, target, true, NULL}
#define AT_MOST_WITH(needs, row, variant, target, unit) {row, variant, unit, target, false, needs}
#define AT_LEAST_WITH(needs, row, variant, target, unit) {row, variant, unit, target, true, needs}

const struct bench_limit bench_limits[] = {
    {"allocation and free, a pair, one thread",
     "RMM pool 190 ns, PyTorch 410 to 840 ns, cuMemAllocFromPoolAsync 560 to 750 ns",
     {AT_MOST("pair", "1 MiB", 60, "ns"),
      AT_MOST("pair", "1 MiB, freed by another thread", 150, "ns")}},
    {"the same, freed by tarn_free_on on its own stream, more than by tarn_free",
     "0 ns: cuMemFreeAsync always takes a stream",
     {AT_MOST("pair", "1 MiB, freed by tarn_free_on, added", 20, "ns")}},
    {"what the history of a device adds to a pair, with all recorded; with stacks; with few stacks",
     "PyTorch 1,174 ns; 2,205 ns with stacks",
     {AT_MOST("history", "pair recorded, added", 5, "ns"),
      AT_MOST("history", "pair with stacks, added", 80, "ns"),
      AT_MOST("history", "pair with sampled stacks, added", 1, "ns"),
      AT_MOST("history", "threads recorded, lost", 12, "%")}},
    {"a snapshot of 100,000 live blocks with stacks, taken and written; what it adds to a wait",
     "PyTorch 609 ms for a history of 100,000 entries, 5310 ms the first time",
     {AT_MOST("snapshot", "100000 blocks, taken and written", 10, "ms"),
      AT_MOST("snapshot", "longest wait, added by a snapshot", 50, "us")}},
    {"the same on 16 threads with streams of their own, total, and of 16 times one thread",
     "RMM pool 0.56, PyTorch 0.25, cuMemAllocFromPoolAsync 0.15 to 0.31 million pairs/s",
     {AT_LEAST_WITH("16 cores", "pair", "1 MiB, 16 threads", 150, "million pairs/s"),
      AT_LEAST_WITH("16 cores", "pair", "1 MiB, 16 threads, of linear", 75, "%")}},
    {"the same on 16 threads that share one stream, total, and of the rate on own streams",
     "cuMemAllocFromPoolAsync 0.30, PyTorch 0.25 million pairs/s",
     {AT_LEAST_WITH("16 cores", "pair", "1 MiB, 16 threads, one stream", 100, "million pairs/s"),
      AT_LEAST_WITH("16 cores", "pair", "1 MiB, 16 threads, one stream, of own streams", 50, "%")}},
    {"random trace, 10,000 live blocks up to 4 MiB, one free and one allocation",
     "PyTorch 1560 to 2400 ns, cuMemAllocAsync 2240 ns, RMM 39800 ns",
     {AT_MOST("trace", "step", 200, "ns")}},
    {"memory of that trace, peak reserved over peak allocated",
     "RMM 1.029 (never shrinks), PyTorch 1.056 to 1.099, cuMemAllocAsync 1.31",
     {AT_MOST("trace", "reserved over allocated", 1.045, "")}},
    {"time of a free and an allocation among N live blocks, over that among 100, in any order",
     "not measured",
     {AT_MOST("live", "random, 1000 over 100", 2, "times"),
      AT_MOST("live", "FIFO, 1000 over 100", 2, "times"),
      AT_MOST("live", "LIFO, 1000 over 100", 2, "times"),
      AT_MOST("live", "alternating, 1000 over 100", 2, "times"),
      AT_MOST("live", "comb, 1000 over 100", 2, "times"),
      AT_MOST("live", "random, 10000 over 100", 2, "times"),
      AT_MOST("live", "FIFO, 10000 over 100", 2, "times"),
      AT_MOST("live", "LIFO, 10000 over 100", 2, "times"),
      AT_MOST("live", "alternating, 10000 over 100", 2, "times"),
      AT_MOST("live", "comb, 10000 over 100", 2, "times"),
      AT_MOST("live", "random, 1000000 over 100", 8, "times"),
      AT_MOST("live", "FIFO, 1000000 over 100", 8, "times"),
      AT_MOST("live", "LIFO, 1000000 over 100", 8, "times"),
      AT_MOST("live", "alternating, 1000000 over 100", 8, "times"),
      AT_MOST("live", "comb, 1000000 over 100", 8, "times")}},
    {"host memory, of 96 bytes for each live block and 0.05 % of mapped bytes",
     "not measured",
     {AT_MOST("host", "2 GiB mapped, of what is allowed", 100, "%"),
      AT_MOST("host", "10000 blocks up to 2 KiB, of what is allowed", 100, "%"),
      AT_MOST("host", "100000 blocks up to 2 KiB, of what is allowed", 100, "%"),
      AT_MOST("host", "1000000 blocks up to 2 KiB, of what is allowed", 100, "%"),
      AT_MOST("host", "100000 blocks up to 64 KiB, of what is allowed", 100, "%")}},
    {"the first 4 GiB of page-locked memory, registered by 16 threads, and other threads' waits for it",
     "cuMemHostAlloc 1873 ms, and others wait as long; PyTorch 493 to 2733 ms",
     {AT_MOST_WITH("16 cores", "pinned", "first 4 GiB, 16 threads", 200, "ms"),
      AT_MOST_WITH("16 cores", "pinned", "first 4 GiB, 16 threads, others wait, 99.9 %", 1000, "us"),
      AT_MOST_WITH("16 cores", "pinned", "first 4 GiB, 16 threads, others wait, longest", 3000, "us")}},
    {"page-locked memory as one block: mapped, of the time of the driver's pool; registered as a whole",
     "the driver's pool 847 to 940 ms",
     {AT_MOST("pinned", "one block of 4 GiB, of the driver's pool", 105, "%"),
      AT_MOST("pinned", "one block of 4 GiB, others wait, 99.9 %", 1000, "us"),
      AT_MOST_WITH("16 cores", "pinned", "one block of 4 GiB, registered whole", 200, "ms")}},
    {"page-locked memory that is there: a pair, on one thread and on 16; copies, of cuMemHostAlloc's",
     "cuMemHostAlloc 1365000 ns, the driver's pool 1121 ns",
     {AT_MOST("pinned", "pair, 1 MiB", 60, "ns"),
      AT_LEAST_WITH("16 cores", "pinned", "pair, 1 MiB, 16 threads", 100, "million pairs/s"),
      AT_LEAST("pinned", "copy to the device, of cuMemHostAlloc's", 99, "%"),
      AT_LEAST("pinned", "copy to the host, of cuMemHostAlloc's", 99, "%")}},
    {"recorded requests for page-locked memory: peak reserved over peak requested",
     "PyTorch rounds to powers of two, and takes up to 2.0",
     {AT_MOST("pinned_recorded", "pin_loader: reserved over requested", 1.125, ""),
      AT_MOST("pinned_recorded", "pin_serving: reserved over requested", 1.125, "")}},
    {"cold growth of 8 GiB in 32 MiB steps",
     "PyTorch 13000 to 16500 us, cuMemAllocAsync 6400 to 11900 us, RMM 570 us by doubling",
     {AT_MOST("growth", "8 GiB", 3000, "us"),
      AT_MOST("growth", "reserve of 8 GiB", 1400, "us"),
      AT_MOST("growth", "256 allocations after it", 30, "us")}},
    {"checkpoint of 10,000 blocks: take, restore with half freed, check",
     "PyTorch 916, 4545, 324 us",
     {AT_MOST("checkpoint", "take, 10000 blocks", 40, "us"),
      AT_MOST("checkpoint", "restore, 10000 blocks", 200, "us"),
      AT_MOST("checkpoint", "check, 10000 blocks", 30, "us")}},
    {"contents of 20 GiB in 10,000 blocks, out and in, and of 10,000 blocks of 64 KiB",
     "100 %: cuMemcpy of one block of as many bytes",
     {AT_LEAST("contents", "20 GiB, pinned", 90, "%"),
      AT_LEAST("contents", "20 GiB, device", 90, "%"),
      AT_LEAST("contents", "64 KiB, pinned", 70, "%"),
      AT_LEAST("contents", "64 KiB, device", 70, "%")}},
    {"capture of 10,000 kernels over 4 streams, more than the driver alone takes for it",
     "not measured",
     {AT_MOST("capture", "10000 kernels in a pool, added", 3, "%"),
      AT_MOST("capture", "10000 kernels, a block each, added", 12, "%")}},
    {"replay, more than cuGraphLaunch of the same graph",
     "0 ns, cuGraphLaunch itself",
     {AT_MOST("replay", "one graph, added", 10, "ns"),
      AT_MOST("replay", "ordered graphs, added", 30, "ns"),
      AT_MOST("replay", "one guarded graph, added", 10, "ns")}},
    {"objects made and ended for long: the last thousand lives, of the first; memory added",
     "not measured",
     {AT_MOST("lives", "the last over the first", 1.2, "times"),
      AT_MOST("lives", "host memory, added", 65536, "bytes"),
      AT_MOST("lives", "device memory, added", 2097152, "bytes")}},
    {"streams that wait for each other's words: a round of two, there and back",
     "not measured: events do not survive the death of a process",
     {AT_MOST("words", "round of two streams, page-locked", 7, "us"),
      AT_MOST("words", "round of two streams, device", 5.5, "us")}},
    {"a barrier of 2, 4, 8 processes on one GPU; the same in a replayed graph",
     "PyTorch 4390 and 8870 us for 2 and 4; in a graph not measured",
     {AT_MOST("words", "barrier of 2 processes", 6, "us"),
      AT_MOST("words", "barrier of 4 processes", 22, "us"),
      AT_MOST("words", "barrier of 8 processes", 75, "us"),
      AT_MOST("words", "barrier of 2 processes, in a graph", 10, "us"),
      AT_MOST("words", "barrier of 4 processes, in a graph", 35, "us"),
      AT_MOST("words", "barrier of 8 processes, in a graph", 140, "us")}},
    {"a block of a known chunk shared with another process: CPU time of each side",
     "PyTorch 196 and 302 us",
     {AT_MOST("share", "block of a known chunk, shared", 1, "us"),
      AT_MOST("share", "block of a known chunk, opened", 1, "us")}},
    {"8 GiB shared with another process: descriptors; time beyond the same driver calls",
     "PyTorch 400 descriptors; 18 ms for 256 MiB",
     {AT_MOST("share", "reserve of 8 GiB, descriptors", 8, "descriptors"),
      AT_MOST("share", "reserve of 8 GiB, beyond bare calls", 2, "ms"),
      AT_MOST("share", "8 GiB grown by 32 MiB, descriptors", 56, "descriptors")}},
    {"audit of a graph of 10,000 kernels",
     "nobody audits a graph; the driver's own reading of it: not measured",
     {AT_MOST("audit", "10000 kernels, 4 pointers each", 2, "ms"),
      AT_MOST("audit", "10000 kernels, a struct of 3 KiB each", 10, "ms")}},
};
// clang-format on

const size_t bench_limit_count = sizeof bench_limits / sizeof bench_limits[0];

const struct bench_goal *bench_goal_find(const char *row, const char *variant)
{
    for (size_t i = 0; i < bench_limit_count; i++) {
        for (size_t j = 0; j < BENCH_GOALS_MAX && bench_limits[i].goals[j].row != NULL; j++) {
            const struct bench_goal *goal = &bench_limits[i].goals[j];

            if (strcmp(goal->row, row) == 0 && strcmp(goal->variant, variant) == 0)
                return goal;
        }
    }
    return NULL;
}
