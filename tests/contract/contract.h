// SPDX-License-Identifier: Apache-2.0
/* contract.h -- how the cases of the driver's contract are written.
 *
 * A case is a sentence, a set-up, calls with the answers they must give, and the state afterwards.
 * The same program runs them on the simulated driver and on a GPU's; each case prints one line, and
 * the two outputs must be equal, line by line (compare.sh). So a line holds nothing that differs
 * from run to run: no address, no handle, no time.
 *
 *   SET_UP(cuMemCreate(&handle, ...))              a call that prepares; the case ends if it fails
 *   GIVES(INVALID_VALUE, cuMemMap(address, ...))   a call of the case, with the answer it must give
 *   HOLDS(bytes == 0, "no byte was taken")         a state that must hold, in words
 *   STATE("%d nodes", count)                       a state that is only shown
 *   SHOWS(cuEventQuery(event))                     an answer that is only shown: of cases that are made,
 *                                                  whose answers the recorded lines alone know
 *
 * Groups run in processes of their own, so a driver that crashes costs one case its line. A case
 * marked ALONE has a process to itself: for what breaks the context, or forks. Cases leave nothing
 * behind that a later one would notice: no capture under way, no broken context.
 *
 * What is declared here is for the thread that runs the case, unless it says otherwise. What a
 * function returns is the caller's to give back. A function that returns no result ends the case
 * when the driver refuses it. */
#ifndef TARN_CONTRACT_H
#define TARN_CONTRACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "abi/cuda.h"
#include "abi/functions.h"
#include "contract/results.h"
#include "tarn/sim.h"

#define MIB ((size_t)1 << 20)

/* What a group, or a case that runs alone, finds done. */
enum contract_start {
    START_NOTHING, /* the driver is loaded */
    START_INIT,    /* cuInit has been called; no context */
    START_CONTEXT, /* device 0's primary context is current */
};

struct contract_case {
    const char *name;     /* unique in its group: letters, digits, '-', '.' */
    const char *sentence; /* what the driver does */
    void (*run)(const void *argument);
    const void *argument;
    bool alone;
};

struct contract_group {
    const char *name;
    enum contract_start start;
    const struct contract_case *cases;
    size_t case_count;
    /* For groups whose cases are made at run time; called in each process before anything else. */
    const struct contract_case *(*make)(size_t *count);
    int devices; /* that the simulator lends; 0: as many as without the contract */
};

/* A row of a table of cases: in the process of its group, or in a process to itself. */
#define CASE(name, sentence, function)                                                             \
    {                                                                                              \
        name, sentence, function, NULL, false                                                      \
    }
#define CASE_ALONE(name, sentence, function)                                                       \
    {                                                                                              \
        name, sentence, function, NULL, true                                                       \
    }
/* A group from its table. */
#define CONTRACT_GROUP(name, start, cases)                                                         \
    {                                                                                              \
        name, start, cases, sizeof(cases) / sizeof((cases)[0]), NULL, 0                            \
    }

/* A row whose body is given an argument, which must live as long as the process. */
#define CASE_OF(name, sentence, function, argument)                                                \
    {                                                                                              \
        name, sentence, function, argument, false                                                  \
    }

/* Begins the body of a case that is given no argument. */
#define CASE_BODY(function) static void function(const void *argument __attribute__((unused)))

/* The groups, in the order in which they run, each in the file of its name; but matrix_contexts and
 * matrix_reset are in matrix.c, event_pairs in event_states.c, and waits in inflight.c. */
// clang-format off
#define CONTRACT_GROUPS(X) \
    X(first) \
    X(tools) \
    X(device) \
    X(context) \
    X(context_made) \
    X(nocontext) \
    X(fault) \
    X(reserve) \
    X(physical) \
    X(mapping) \
    X(edges) \
    X(spill) \
    X(host) \
    X(sharing) \
    X(pointer) \
    X(pointer_calls) \
    X(linear) \
    X(pinned) \
    X(pools) \
    X(pool_order) \
    X(copies) \
    X(words) \
    X(graph) \
    X(graph_nodes) \
    X(conditional) \
    X(exec) \
    X(update) \
    X(replay) \
    X(graph_fault) \
    X(graph_memory) \
    X(user_object) \
    X(kernel) \
    X(aliasing) \
    X(checkpoint) \
    X(streams) \
    X(events) \
    X(event_states) \
    X(event_pairs) \
    X(capture) \
    X(capture_threads) \
    X(capture_events) \
    X(launch) \
    X(matrix) \
    X(matrix_contexts) \
    X(matrix_reset) \
    X(inflight) \
    X(waits) \
    X(peers)
// clang-format on
#define CONTRACT_GROUP_DECLARATION(name) extern const struct contract_group contract_##name;
CONTRACT_GROUPS(CONTRACT_GROUP_DECLARATION)
#undef CONTRACT_GROUP_DECLARATION

/* Every function of the driver; one that it lacks answers CONTRACT_ABSENT. */
struct contract_driver {
#define CONTRACT_MEMBER(name, symbol, version, parameters, names) tn_pfn_##name name;
    TN_CUDA_ALL_FUNCTIONS(CONTRACT_MEMBER)
#undef CONTRACT_MEMBER
};
extern struct contract_driver cu;

/* The library that the driver is, for what has no place in the table. */
extern void *contract_library;

/* The answer of a function that the driver lacks. */
#define CONTRACT_ABSENT ((tn_cu_result)-1)

/* GIVES(INVALID_VALUE, cuMemRelease(0)): the result is written without CUDA_ERROR_, the call
 * without "cu.", and its name is shown. HOLDS and STATE take words as printf does. */
#define SET_UP(call) contract_set_up(#call, cu.call, __FILE__, __LINE__)
#define GIVES(result, call) contract_gives(CONTRACT_RESULT_##result, #call, cu.call)
#define SHOWS(call) contract_shows(#call, cu.call)
#define HOLDS(condition, ...) contract_holds((condition), __VA_ARGS__)
#define STATE(...) contract_state(__VA_ARGS__)

/* What the macros call; and what a case calls whose expected answer is known at run time only. Of
 * `call` the part before its first parenthesis is shown. Both are for the case's own thread. */
tn_cu_result contract_gives(tn_cu_result expected, const char *call, tn_cu_result got);
tn_cu_result contract_shows(const char *call, tn_cu_result got);
void contract_set_up(const char *call, tn_cu_result got, const char *file, int line);
void contract_holds(bool condition, const char *format, ...) __attribute__((format(printf, 2, 3)));
void contract_state(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends the case at once; what could not be set up, in words. */
void contract_give_up(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Ends the case at once, as one that is right, where a tool is in the way of what it is about;
 * which one, in words. */
void contract_skip(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Begins a case that chooses its addresses: skips it where ThreadSanitizer chooses them. */
void contract_needs_places(void);
/* The case has work that nothing orders, to see whether it is kept apart. */
void contract_races_on_purpose(void);

/* "INVALID_VALUE", or the number of an answer that has no name here. */
const char *contract_result_name(tn_cu_result result);

/* -- Kernels. The PTX is compiled by the driver; on the simulator C twins stand in. -- */

struct contract_kernels {
    tn_cu_module module;
    tn_cu_function fill; /* (u64 address, u32 value, u32 count): count words become value */
    tn_cu_function add;  /* (u64 address, u32 amount): adds to one word */
    tn_cu_function copy; /* (u64 to, u64 from, u32 count): copies words */
    tn_cu_function hold; /* (u64 flag, u64 nanoseconds): runs until *flag is not 0, or time is up */
    tn_cu_function empty; /* () */
};

/* Those of the current context, loaded by the first call of the process; the case ends when that
 * fails. Load them before a capture begins and before anything is to stay unwaited for: loading
 * waits for the device. */
const struct contract_kernels *contract_kernels(void);

/* Launch them, and answer what the launch did. */
tn_cu_result contract_fill(tn_cu_stream stream, tn_cu_deviceptr address, uint32_t value,
                           uint32_t count);
tn_cu_result contract_add(tn_cu_stream stream, tn_cu_deviceptr address, uint32_t amount);
tn_cu_result contract_copy(tn_cu_stream stream, tn_cu_deviceptr to, tn_cu_deviceptr from,
                           uint32_t count);

/* Registers a twin with the simulator; without effect on another driver. */
void contract_twin(const char *entry, tarn_sim_kernel function);

/* The twin of `hold`, for kernels that begin as it does. */
void contract_hold_twin(const tarn_sim_launch *launch, void *const *params);

/* A kernel that runs on a stream of its own until it is told to end, at most 60 ms. */
struct contract_busy {
    tn_cu_stream stream;
    tn_cu_event done;
    uint32_t *flag; /* page-locked */
};
struct contract_busy contract_busy_begin(void);
struct contract_busy contract_busy_begin_for(uint64_t nanoseconds); /* at most so long */
bool contract_busy_runs(const struct contract_busy *busy);          /* asks in relaxed mode */
void contract_busy_end(struct contract_busy *busy);

/* -- Memory at addresses -- */

struct contract_mapped {
    tn_cu_deviceptr address;
    size_t bytes;
    tn_cu_memhandle handle;
};
tn_cu_allocation_prop contract_prop(int device);   /* of ordinary memory */
struct contract_mapped contract_map(size_t bytes); /* on device 0, with access */
void contract_unmap(struct contract_mapped mapped);
/* Gives device 0 the rights of flags (TN_CU_MEM_ACCESS_...), or takes them. */
tn_cu_result contract_access(tn_cu_deviceptr address, size_t bytes, int flags);

tn_cu_stream contract_stream(unsigned int flags);
tn_cu_event contract_event(void); /* without timing */

/* A handle on device 0; a reservation at an address where none is, or the case ends; device 0's
 * access to a mapping, read and write. */
tn_cu_memhandle contract_handle(size_t bytes);
tn_cu_deviceptr contract_reserve_at(tn_cu_deviceptr address, size_t bytes);
void contract_open(tn_cu_deviceptr address, size_t bytes);

/* An attribute of an address that has it, of up to 8 bytes. */
uint64_t contract_attribute(tn_cu_deviceptr address, tn_cu_pointer_attribute attribute);

/* The thread's current context; NULL when there is none. */
tn_cu_context contract_current(void);

/* Word `index` at a device address, by a synchronous copy. */
uint32_t contract_word(tn_cu_deviceptr address, size_t index);

/* The device memory that is free: of the current context's device. */
size_t contract_free_bytes(void);

/* -- Threads -- */

/* Runs body on another thread and waits for it. The thread has the context current that the caller
 * has, and the driver's default capture mode. */
void contract_elsewhere(void (*body)(void *), void *argument);

/* -- Processes -- */

/* What a second process of this program does, by name: it talks to the first through a socket, and
 * its exit status is what it returns. It finds the driver loaded and not initialised. */
struct contract_helper {
    const char *name;
    int (*run)(int socket);
};
#define CONTRACT_HELPERS(X)                                                                        \
    X(reserve_at) X(importer) X(exporter) X(legacy) X(checkpointed) X(idle) X(writer)
#define CONTRACT_HELPER_DECLARATION(name) int contract_helper_##name(int socket);
CONTRACT_HELPERS(CONTRACT_HELPER_DECLARATION)
#undef CONTRACT_HELPER_DECLARATION

struct contract_process {
    int pid;
    int socket;
};
struct contract_process contract_process_start(const char *helper);
/* Waits for its end, which must be with status 0. */
void contract_process_end(struct contract_process *process);

/* What is sent and received whole; the case, or the second process, ends when that fails. */
void contract_send(int socket, const void *bytes, size_t count);
void contract_receive(int socket, void *bytes, size_t count);
/* A file descriptor sent along. */
void contract_send_fd(int socket, int fd);
int contract_receive_fd(int socket);

/* A thread that does one thing after another, when told to; begun as contract_elsewhere begins its
 * own. contract_thread_do waits until the thing is done, contract_thread_end for the thread. What
 * runs there makes calls by "cu." and leaves the answers to the case. */
struct contract_thread;
struct contract_thread *contract_thread_start(void);
void contract_thread_do(struct contract_thread *thread, void (*body)(void *), void *argument);
void contract_thread_end(struct contract_thread *thread);

#endif
